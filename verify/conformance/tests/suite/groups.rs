// SPDX-License-Identifier: GPL-2.0-only
//! Group weights under the default scheduler: the tasks' shares of all CPU time in kernel 7.2.13, compared with the
//! model. The workloads and the script that ran them are in `shares/groups`.

use conformance::shares::{SHARE_PART, SHARE_POINTS};
use event_log::{Event, Sink, TaskInfo};
use fault_plan::FaultPlan;
use ids::{CpuSet, Nanos, TaskId};
use machine_model::Machine;
use simulator::{Scheduler, Setup};
use std::collections::BTreeMap;
use workload::Workload;

const RECORDED: &str = include_str!("../../recorded/groups-7.2");
const MACHINE: &str = include_str!("../../shares/icount.toml");
const WORKLOADS: [(&str, &str); 6] = [
    ("flat", include_str!("../../shares/groups/flat.json")),
    ("nested", include_str!("../../shares/groups/nested.json")),
    ("sleep", include_str!("../../shares/groups/sleep.json")),
    ("many", include_str!("../../shares/groups/many.json")),
    ("nice", include_str!("../../shares/groups/nice.json")),
    ("pin", include_str!("../../shares/groups/pin.json")),
];

/// Rows on two CPUs with a larger tolerance. In `flat` three hogs alternately have a CPU alone. In `sleep` the
/// emulated CPUs run in turn, so a task needs more of their clock for its work while the other CPU is busy.
const FURTHER: [(&str, &str); 3] = [("flat", "t-a"), ("sleep", "t-a"), ("sleep", "t-c")];

struct Discard;

impl Sink for Discard {
    fn task(&mut self, _: Nanos, _: &TaskInfo) {}
    fn affinity(&mut self, _: Nanos, _: TaskId, _: &CpuSet) {}
    fn event(&mut self, _: &Event) {}
}

/// Returns the percentage of all CPU time by task, averaged over tasks of one name, because it is random which of
/// them has a CPU for longer.
fn shares(ran: impl Iterator<Item = (String, u64)>) -> BTreeMap<String, f64> {
    let mut all: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (name, ns) in ran.filter(|(name, _)| name.starts_with("t-")) {
        let (sum, count) =
            all.entry(name.trim_end_matches(|end: char| end == '-' || end.is_ascii_digit()).to_owned()).or_default();
        (*sum, *count) = (*sum + ns, *count + 1);
    }
    let total: u64 = all.values().map(|(sum, _)| sum).sum();
    all.into_iter().map(|(name, (sum, count))| (name, 100.0 * sum as f64 / (count * total) as f64)).collect()
}

fn recorded(cpus: usize, workload: &str) -> BTreeMap<String, f64> {
    let (cpus, lines) = (cpus.to_string(), RECORDED.lines().filter(|line| !line.starts_with('#')));
    shares(lines.filter_map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
        [at, name, task, ns] if at == cpus && name == workload => Some((task.to_owned(), ns.parse().unwrap())),
        _ => None,
    }))
}

fn simulated(cpus: usize, name: &str, text: &str) -> BTreeMap<String, f64> {
    let shape = format!("core:{cpus} pu:1");
    let machine = Machine::from_toml("icount.toml", &MACHINE.replace("core:1 pu:1", &shape)).unwrap();
    let workload = Workload::from_rt_app(name, text).unwrap();
    let (faults, kernel) = (FaultPlan::default(), (7, 2).into());
    let (machine, workload, faults) = (&machine, &workload, &faults);
    let setup = Setup {
        machine,
        workload,
        scheduler: Scheduler::Kernel,
        seed: 1,
        duration: None,
        faults,
        kernel,
        types: None,
        map_bytes: simulator::MAP_BYTES,
    };
    let outcome = simulator::run(&setup, &mut Discard, &mut |_| ()).unwrap();
    shares(outcome.measures.tasks.iter().map(|task| (task.name.clone(), task.account.run.0)))
}

#[test]
fn group_shares_match_the_kernel() {
    let mut wrong = Vec::new();
    for (cpus, (name, text)) in [1, 2].into_iter().flat_map(|cpus| WORKLOADS.map(|workload| (cpus, workload))) {
        let kernel = recorded(cpus, name);
        if kernel.is_empty() {
            assert_eq!((cpus, name), (1, "pin"), "all others were played");
            continue;
        }
        let model = simulated(cpus, name, text);
        for (task, there) in kernel {
            let here = model[&task];
            let near = (there - here).abs() <= SHARE_POINTS.max(SHARE_PART * there);
            let excepted = cpus == 2 && FURTHER.contains(&(name, task.as_str()));
            if near == excepted {
                wrong.push(format!("{name} on {cpus} CPUs, {task}: {there:.2} % in the kernel, {here:.2} % here"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
