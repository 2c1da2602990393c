// SPDX-License-Identifier: GPL-2.0-only
//! Placement of a woken task, depending on busy CPUs, affinity and last CPU: `muqss` in the model compared with MuQSS
//! 0.31, and with `muqss` loaded in Linux 7.2. Each case has a hog on each busy CPU and a sleeping task, whose
//! affinity another task changes.
//!
//! The kind of CPU is compared, not its number: among equal CPUs, another one may have gone idle last. It must be a
//! kind that the kernel chose in the same case in one of its runs. Timing does not matter, so any emulated machine
//! will do. Two caches in one package are not possible with the available QEMU.
//!
//! With `rqshare=mc`, MuQSS's default, the model agrees with MuQSS in 73 and 62 of 96 cases (threads, nodes), and
//! with `muqss` loaded in 7.2 in 87 and 86. MuQSS agrees less with itself: between two runs, 32 and 20 of 96 tasks
//! went to another CPU. Of the 57 cases that differ
//!
//! - in 31 the task went to a busy CPU though an allowed one was idle, which happened in 19 to 31 cases of each run,
//!   and never under `muqss`. MuQSS does not bind the task to the CPU that it wakes: the first CPU to pick has it,
//!   and in a machine whose CPUs are emulated in turn that is often another one;
//! - in 35 the last CPU was no longer allowed when the task woke;
//! - in 4 on two nodes the task went to an idle core of the other node, rather than to a CPU of its own node with a
//!   busy sibling, which the ranks would prefer. The reason is unknown.

use crate::model::in_one_process;
use crate::oracle;
use anyhow::{Context, Error, Result, anyhow, bail};
use bpf_object::Object;
use event_log::{Event, EventKind, Sink, TaskInfo};
use executor::{Options, execute};
use fault_plan::FaultPlan;
use ids::{CpuId, CpuSet, Nanos, TaskId, Topology};
use launch_profile::Profile;
use machine_model::Machine;
use simulator::{Scheduler, Setup};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::str::FromStr;
use workload::Workload;

/// Number of cases per machine.
const CASES: u64 = 96;
/// A prime: distance of the chosen cases in the list of all.
const STRIDE: u64 = 7_919;
/// Index of the task's phase after its sleep.
const AWAKE: u32 = 2;
/// Long times, for an emulated machine that gets little CPU time of its host.
const SLEEP_US: u32 = 200_000;
const CHANGE: Nanos = Nanos::from_us(150_000);
const END: Nanos = Nanos::from_us(450_000);
/// A thread may still be late there.
const ATTEMPTS: u32 = 5;

/// Machines of 8 CPUs.
const MACHINES: [(&str, &str); 2] = [("threads", "node:1 core:4 pu:2"), ("nodes", "node:2 core:2 pu:2")];

/// Recordings: machine, scheduler, text.
const RECORDS: [(&str, &str, &str); 6] = [
    ("threads", "MuQSS", include_str!("../placement/threads-1.txt")),
    ("threads", "MuQSS", include_str!("../placement/threads-2.txt")),
    ("threads", "muqss", include_str!("../placement/threads-loaded.txt")),
    ("nodes", "MuQSS", include_str!("../placement/nodes-1.txt")),
    ("nodes", "MuQSS", include_str!("../placement/nodes-2.txt")),
    ("nodes", "muqss", include_str!("../placement/nodes-loaded.txt")),
];

/// A wakeup: the last CPU of the woken task, and the allowed and busy CPUs as bit masks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Case {
    last: u32,
    allowed: u64,
    busy: u64,
}

fn members(mask: u64) -> impl Iterator<Item = u32> {
    (0..u64::BITS).filter(move |cpu| mask >> cpu & 1 == 1)
}

/// Returns the cases for this number of CPUs, evenly spread over all combinations.
fn cases(cpus: u32) -> impl Iterator<Item = Case> {
    let (sets, last) = (1 << cpus, u64::from(cpus));
    let all = last * (sets - 1) * sets;
    (0..CASES).map(move |number| {
        let index = number * STRIDE % all;
        let (last, rest) = (index % last, index / last);
        Case { last: last as u32, allowed: rest % (sets - 1) + 1, busy: rest / (sets - 1) }
    })
}

impl Case {
    fn workload(self) -> Result<Workload> {
        let mut tasks = String::new();
        for cpu in members(self.busy) {
            write!(tasks, r#""hog-{cpu}": {{ "cpus": [{cpu}], "loop": -1, "run": 200 }},"#)?;
        }
        let allowed: Vec<u32> = members(self.allowed).collect();
        let (last, change) = (self.last, CHANGE.0 / 1_000);
        write!(
            tasks,
            r#""woken": {{ "cpus": [{last}], "loop": 1, "run0": 100, "sleep1": {SLEEP_US}, "run2": 200 }},"#
        )?;
        let change = format!(r#""sleep": {change}, "change": {{ "task": "woken", "cpus": {allowed:?} }}"#);
        let text = format!(r#"{{ "tasks": {{ {tasks} "director": {{ "cpus": [0], "loop": 1, {change} }} }} }}"#);
        Ok(Workload::from_rt_app("placement", &text)?)
    }

    /// Describes a CPU relative to the task: its distance from the last CPU, and what is busy there.
    fn kind(self, topology: &Topology, cpu: u32) -> String {
        let place = |cpu: u32| topology.place(CpuId(cpu));
        let (own, other) = (place(self.last), place(cpu));
        let far = match () {
            () if cpu == self.last => "the last one",
            () if other.core == own.core => "its sibling",
            () if other.llc == own.llc => "of the same cache",
            () if other.node == own.node => "of another cache",
            () => "of another node",
        };
        let busy = |shares: &dyn Fn(u32) -> bool| members(self.busy).any(|hog| hog != cpu && shares(hog));
        let mut text = if self.busy >> cpu & 1 == 1 { format!("busy, {far}") } else { far.to_owned() };
        text += if busy(&|hog| place(hog).llc == other.llc) { ", its cache is busy" } else { "" };
        text += if busy(&|hog| place(hog).core == other.core) { ", its sibling is busy" } else { "" };
        text
    }
}

fn machine(name: &str) -> Result<Machine> {
    let (_, shape) = MACHINES.iter().find(|(known, _)| *known == name).ok_or_else(|| anyhow!("no machine {name}"))?;
    oracle::machine_of(1_000, shape)
}

/// Runs all cases with real threads in the running kernel, which has MuQSS or loads `muqss` first. Returns one line
/// per case: last CPU, allowed CPUs, busy CPUs, chosen CPU.
///
/// # Errors
/// If there is no such machine, the policy cannot be loaded, or a case cannot be run.
pub fn play_all(name: &str, loaded: bool) -> Result<String> {
    let cpus = machine(name)?.topology.len();
    let attached = loaded.then(|| oracle::attach("muqss", &profile()?)).transpose()?;
    let mut text = format!("# {name}: last CPU, may use, busy, went to\n");
    for case in cases(cpus as u32) {
        let cpu = (0..ATTEMPTS)
            .find_map(|_| played(case).transpose())
            .with_context(|| format!("{case:?}: it did not wake"))??;
        writeln!(text, "{} {:#04x} {:#04x} {}", case.last, case.allowed, case.busy, cpu.0)?;
    }
    attached.map_or(Ok(()), oracle::unload)?;
    Ok(text)
}

/// Returns the chosen CPU, if the task woke in time.
fn played(case: Case) -> Result<Option<CpuId>> {
    let workload = in_one_process(&case.workload()?, None);
    let played = execute(&workload, &Options { duration: Some(END), log: true, ..Options::default() })?;
    let number = played.tasks.iter().position(|task| task.name == "woken").context("nobody was woken")?;
    let step = played.log.iter().find(|step| step.operation == AWAKE && step.task.index() == number);
    Ok(step.map(|step| step.cpu))
}

/// Returns the profile; `mc` is one queue per package, which is a node in Weir's terms.
fn profile() -> Result<Profile> {
    let shipped = policies::find("muqss").ok_or_else(|| anyhow!("no policy muqss"))?;
    let mut profile = Profile::from_toml("muqss", shipped.profile)?;
    profile.select(Some("0.31"), &[])?;
    Ok(profile)
}

/// Finds the chosen CPU in the model: the first one after the task's sleep.
#[derive(Default)]
struct Went {
    woken: Option<TaskId>,
    to: Option<CpuId>,
}

impl Sink for Went {
    fn task(&mut self, _: Nanos, task: &TaskInfo) {
        if task.name == "woken" {
            self.woken = Some(task.id);
        }
    }
    fn affinity(&mut self, _: Nanos, _: TaskId, _: &CpuSet) {}
    fn event(&mut self, event: &Event) {
        let runs = matches!(event.kind, EventKind::Switch { .. }) && Some(event.task) == self.woken;
        if runs && event.time > CHANGE {
            self.to.get_or_insert(event.cpu);
        }
    }
}

/// Returns the chosen CPU in the model.
fn simulated(case: Case, machine: &Machine, object: &Object, profile: &Profile) -> Result<u32> {
    let workload = case.workload()?;
    let setup = Setup {
        types: None,
        map_bytes: simulator::MAP_BYTES,
        machine,
        workload: &workload,
        scheduler: Scheduler::Object { object, profile },
        seed: 0,
        duration: Some(END),
        faults: &FaultPlan::default(),
        kernel: (7, 2).into(),
    };
    let mut went = Went::default();
    simulator::run(&setup, &mut went, &mut |_| ())?;
    Ok(went.to.with_context(|| format!("{case:?}: it did not wake"))?.0)
}

/// Chosen CPU of each case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record(Vec<(Case, u32)>);

impl FromStr for Record {
    type Err = Error;

    fn from_str(text: &str) -> Result<Record> {
        let line = |(line, number): (&str, usize)| {
            let mask = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16);
            let words: Vec<&str> = line.split(' ').collect();
            let [last, allowed, busy, went] = words[..] else { bail!("line {number}: expected four columns") };
            let case = Case { last: last.parse()?, allowed: mask(allowed)?, busy: mask(busy)? };
            Ok((case, went.parse()?))
        };
        text.lines().zip(1..).filter(|(line, _)| !line.starts_with('#')).map(line).collect::<Result<_>>().map(Record)
    }
}

/// Runs the same cases in the model.
///
/// # Errors
/// If there is no such machine, or a case cannot be simulated.
pub fn model(name: &str) -> Result<Record> {
    let (machine, profile) = (machine(name)?, profile()?);
    let object = Object::parse(policies::find("muqss").ok_or_else(|| anyhow!("no policy muqss"))?.object)?;
    let cpus = machine.topology.len() as u32;
    cases(cpus).map(|case| Ok((case, simulated(case, &machine, &object, &profile)?))).collect::<Result<_>>().map(Record)
}

/// Returns the recordings on a machine, by scheduler.
///
/// # Errors
/// If a record cannot be parsed.
pub fn recorded(name: &str) -> Result<BTreeMap<&'static str, Vec<Record>>> {
    let mut all: BTreeMap<&str, Vec<Record>> = BTreeMap::new();
    for (_, who, text) in RECORDS.iter().filter(|(machine, ..)| *machine == name) {
        all.entry(who).or_default().push(text.parse()?);
    }
    Ok(all)
}

/// Lists each case in which the model chooses another kind of CPU than any recording, and returns the number of the
/// others.
///
/// # Errors
/// If there is no such machine.
pub fn compare(name: &str, who: &str, records: &[Record], model: &Record) -> Result<(String, usize)> {
    let topology = machine(name)?.topology;
    let (mut text, mut alike) = (String::new(), 0);
    for (number, (case, to)) in model.0.iter().enumerate() {
        let model = case.kind(&topology, *to);
        let real: BTreeSet<String> = records.iter().map(|record| case.kind(&topology, record.0[number].1)).collect();
        if real.contains(&model) {
            alike += 1;
            continue;
        }
        let Case { last, allowed, busy } = case;
        writeln!(text, "{name}: last {last}, may use {allowed:#010b}, busy {busy:#010b}")?;
        real.iter().try_for_each(|real| writeln!(text, "  {who}: {real}"))?;
        writeln!(text, "  model: {model}")?;
    }
    writeln!(text, "{name}: the model agrees with {who} in {alike} of {} cases", model.0.len())?;
    Ok((text, alike))
}
