// SPDX-License-Identifier: GPL-2.0-only
//! Difference between kernel operations at one instant and operations interleaved at lock waits (`+waiting`) where
//! one lock limits throughput. Prints the table of `lab/results/lock-model.md`. The workload is that of `cargo xtask
//! wall`: four tasks per CPU that work and sleep for some microseconds.

use bpf_object::Object;
use event_log::Null;
use fault_plan::FaultPlan;
use ids::{CpuId, Nanos};
use launch_profile::Profile;
use machine_model::Machine;
use measures::RunMeasures;
use simulator::{KernelName, Scheduler, Setup};
use workload::Workload;

/// Preset, its CPUs, number of CPUs used, microseconds that tasks work and sleep, policy (none: the kernel's own
/// scheduler).
const CASES: [(&str, u32, u32, u32, Option<&str>); 9] = [
    ("server-512", 512, 16, 20, Some("fifo")),
    ("server-512", 512, 32, 20, Some("fifo")),
    ("server-512", 512, 64, 20, Some("fifo")),
    ("nix-32", 32, 32, 5, Some("fifo")),
    ("server-512", 512, 16, 20, Some("bfs")),
    ("server-512", 512, 32, 20, Some("bfs")),
    ("server-512", 512, 64, 20, Some("bfs")),
    ("nix-32", 32, 32, 5, Some("bfs")),
    ("server-512", 512, 64, 20, None),
];

/// Simulated time of a run.
const DURATION: Nanos = Nanos::from_ms(50);

fn main() {
    println!("| machine, CPUs, scheduler | throughput | CPUs waited | p50 | p99 |\n|---|---|---|---|---|");
    for (preset, all, cpus, us, policy) in CASES {
        let mut machine = Machine::preset(preset).expect("a shipped file");
        machine.offline = (cpus..all).map(CpuId).collect();
        let tasks = 4 * cpus;
        let text = format!(r#"{{"tasks": {{"t": {{"instance": {tasks}, "loop": -1, "run": {us}, "sleep": {us}}}}}}}"#);
        let work = Workload::from_bytes("wall", text.as_bytes()).expect("a valid workload");
        let [instant, waiting] = [false, true].map(|waiting| play(&machine, &work, policy, waiting));
        let rate = |run: &RunMeasures| run.context_switches as f64 * 1e3 / run.elapsed.0 as f64;
        let time = f64::from(cpus) * DURATION.0 as f64;
        let waited = |run: &RunMeasures| 100.0 * run.lock_wait.map_or(0.0, |wait| wait.0 as f64) / time;
        let latency = |of: fn(&RunMeasures) -> Nanos| [&instant, &waiting].map(|run| of(run).0 as f64 / 1e3);
        let ([p50, p50_w], [p99, p99_w]) =
            (latency(|run| run.wakeup_latency.p50), latency(|run| run.wakeup_latency.p99));
        println!(
            "| `{preset}`, {cpus}, `{}` | {:.2}, {:.2} M/s | {:.1}, {:.1} % | {p50:.1}, {p50_w:.1} us | {p99:.0}, {p99_w:.0} us |",
            policy.unwrap_or("kernel"),
            rate(&instant),
            rate(&waiting),
            waited(&instant),
            waited(&waiting),
        );
    }
}

fn play(machine: &Machine, workload: &Workload, policy: Option<&str>, waiting: bool) -> RunMeasures {
    let loadable = policy.map(|name| {
        let policy = policies::find(name).expect("a shipped file");
        let object = Object::parse(policy.object).expect("a valid object");
        (object, Profile::from_toml(name, policy.profile).expect("a shipped file"))
    });
    let scheduler = match &loadable {
        Some((object, profile)) => Scheduler::Object { object, profile },
        None => Scheduler::Kernel,
    };
    let faults = FaultPlan::default();
    let duration = Some(DURATION);
    let instant = KernelName::from((7, 2));
    let kernel = if waiting { instant.waiting() } else { instant };
    let setup = Setup {
        machine,
        workload,
        scheduler,
        seed: 0,
        duration,
        faults: &faults,
        kernel,
        types: None,
        map_bytes: simulator::MAP_BYTES,
    };
    simulator::run(&setup, &mut Null, &mut |_| ()).expect("the machine has locks").measures
}
