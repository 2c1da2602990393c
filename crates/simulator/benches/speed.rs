// SPDX-License-Identifier: GPL-2.0-only
//! Speed of whole runs: context switches per second of host CPU time, and peak memory, in eleven cases.
//!
//! Tasks run for 10 ms and sleep for 10 ms under `fifo` and `bfs`, whose bytecode is executed; nothing is written to
//! disk. Each case is a process of its own, so that its peak memory is its own. Linux only (`/proc`).
//!
//! The speed of a shared host may change by a factor of 2 within seconds. So each run is interrupted periodically for
//! a reference load that compresses data with zstd: the column `in 1 MiB` is the number of switches per CPU time of
//! compressing 1 MiB, which is independent of the host's momentary speed.
//!
//! `cargo bench -p simulator` runs all cases; `cargo bench -p simulator -- fifo-64` only one. In cases with
//! `-effects` rates change: SMT, frequency and idle states are those of a preset of that size. `results.md` in this
//! directory contains measured results by date. `--case fifo-64 2` runs one case for 2 simulated seconds in this
//! process, without the reference load: two lengths under `valgrind --tool=callgrind` give the number of instructions
//! per second, even on a busy machine. A further argument `waiting` selects the form in which kernel operations wait,
//! and `checked` checks the run's invariants.

use bpf_object::Object;
use event_log::{Null, Sink};
use ids::Nanos;
use invariants::{Checker, Conditions, Demands, Promises};
use launch_profile::Profile;
use machine_model::Machine;
use nix::time::{ClockId, clock_gettime};
use simulator::{KernelName, Scheduler, Setup};
use std::hint::black_box;
use std::process::Command;
use std::time::Duration;
use workload::Workload;

/// A case and its targets.
struct Case {
    policy: &'static str,
    cpus: u32,
    tasks: u32,
    seconds: u64,
    /// Context switches per second of CPU time.
    target: u64,
    /// Preset whose effects the machine has.
    effects: Option<&'static str>,
}

/// Shape of a machine by number of CPUs.
const SHAPES: [(u32, &str); 3] = [(4, "core:4 pu:1"), (64, "node:2 core:16 pu:2"), (512, "node:4 llc:8 core:8 pu:2")];

/// The targets of `fifo` are lower limits. Those of `bfs` are the values of the first measurement, rounded down; with
/// effects, half of those of `fifo`.
const CASES: [Case; 11] = [
    Case { policy: "fifo", cpus: 4, tasks: 8, seconds: 1_000, target: 600_000, effects: None },
    Case { policy: "fifo", cpus: 64, tasks: 256, seconds: 60, target: 500_000, effects: None },
    Case { policy: "fifo", cpus: 512, tasks: 2_048, seconds: 10, target: 300_000, effects: None },
    Case { policy: "bfs", cpus: 4, tasks: 8, seconds: 500, target: 370_000, effects: None },
    Case { policy: "bfs", cpus: 64, tasks: 256, seconds: 30, target: 240_000, effects: None },
    Case { policy: "bfs", cpus: 512, tasks: 2_048, seconds: 3, target: 75_000, effects: None },
    Case { policy: "fifo", cpus: 4, tasks: 8, seconds: 500, target: 500_000, effects: Some("laptop-2c4t") },
    Case { policy: "fifo", cpus: 64, tasks: 256, seconds: 30, target: 400_000, effects: Some("server-64") },
    Case { policy: "fifo", cpus: 512, tasks: 2_048, seconds: 5, target: 200_000, effects: Some("server-512") },
    Case { policy: "bfs", cpus: 4, tasks: 8, seconds: 300, target: 250_000, effects: Some("laptop-2c4t") },
    Case { policy: "bfs", cpus: 64, tasks: 256, seconds: 20, target: 200_000, effects: Some("server-64") },
];

/// Maximum peak memory of each case, in MiB.
const MEMORY_TARGET_MIB: u64 = 64;

impl Case {
    fn name(&self) -> String {
        format!("{}-{}{}", self.policy, self.cpus, self.effects.map_or("", |_| "-effects"))
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name, rest @ ..] = &arguments[..]
        && flag == "--case"
    {
        let case = CASES.iter().find(|case| case.name() == *name).expect("a case");
        let seconds = rest.first().map(|seconds| seconds.parse().expect("a number of seconds"));
        return play(case, seconds, rest.get(1).map_or("", String::as_str));
    }
    let wanted = arguments.iter().find(|argument| !argument.starts_with('-'));
    println!(
        "case             tasks simulated   switches  CPU time  switches/CPU s     target  ratio  in 1 MiB  peak memory    \
         log hash"
    );
    for case in CASES.iter().filter(|case| wanted.is_none_or(|name| *name == case.name())) {
        let program = std::env::current_exe().expect("this program has a path");
        let status =
            Command::new(program).args(["--case", &case.name()]).status().expect("this program can be executed");
        assert!(status.success());
    }
}

/// Runs a case for its own duration, or for `seconds` and then without the reference load.
fn play(case: &Case, seconds: Option<u64>, form: &str) {
    let mut reference = seconds.is_none().then(ReferenceLoad::new);
    let seconds = seconds.unwrap_or(case.seconds);
    let policy = policies::find(case.policy).expect("a shipped file");
    let object = Object::parse(policy.object).expect("a valid object");
    let profile = Profile::from_toml(case.policy, policy.profile).expect("a shipped file");
    let (_, shape) = SHAPES.iter().find(|(cpus, _)| *cpus == case.cpus).expect("a shape for each case");
    let machine = match case.effects {
        Some(preset) => Machine::preset(preset).expect("a shipped file"),
        None => Machine::from_synthetic(shape).expect("a shape"),
    };
    assert_eq!(machine.topology.len(), case.cpus as usize);
    let text = format!(
        r#"{{"tasks": {{"periodic": {{"instance": {}, "loop": -1, "run": 10000, "sleep": 10000}}}}}}"#,
        case.tasks
    );
    let workload = Workload::from_rt_app("periodic", &text).expect("a workload");
    let kernel = KernelName::from((7, 2));
    let setup = Setup {
        types: None,
        map_bytes: simulator::MAP_BYTES,
        faults: &Default::default(),
        machine: &machine,
        workload: &workload,
        scheduler: Scheduler::Object { object: &object, profile: &profile },
        seed: 0,
        duration: Some(Nanos::from_secs(seconds)),
        kernel: if form == "waiting" { kernel.waiting() } else { kernel },
    };
    let before = cpu_ns();
    let (mut checker, mut null) = ((form == "checked").then(|| checker(&machine)), Null);
    let sink: &mut dyn Sink = match &mut checker {
        Some(checker) => checker,
        None => &mut null,
    };
    let outcome = simulator::run(&setup, sink, &mut |_| reference.iter_mut().for_each(ReferenceLoad::run_if_due))
        .expect("the run can begin");
    let findings = checker.map(|checker| checker.finish(outcome.measures.elapsed));
    assert!(findings.is_none_or(|findings| findings.count == 0));
    let spent = cpu_ns() - before - reference.as_ref().map_or(0, |reference| reference.spent);
    assert_eq!(outcome.ejected, None);
    let switches = outcome.measures.context_switches;
    let rate = switches * 1_000_000_000 / spent;
    let per_mebibyte = |reference: &ReferenceLoad| format!("{:.0}", rate as f64 / 1e9 * reference.ns_per_mebibyte());
    let per_mebibyte = reference.as_ref().map_or_else(|| "-".to_owned(), per_mebibyte);
    let peak_mib = peak_kib() / 1024;
    println!(
        "{:16} {:5} {:6} s  {switches:9}  {:6.2} s  {rate:14}  {:9}  {:5.2}  {per_mebibyte:>8}  {peak_mib:3} of {MEMORY_TARGET_MIB} MiB  {:.8}",
        case.name(),
        case.tasks,
        seconds,
        spent as f64 / 1e9,
        case.target,
        rate as f64 / case.target as f64,
        format!("{:032x}", outcome.log_hash),
    );
}

/// Checks a run against no promises.
fn checker(machine: &Machine) -> Checker {
    let (tolerance, tick) = (Nanos(100_000), Nanos(1_000_000_000 / u64::from(machine.hz)));
    let conditions = Conditions { has_queues: true, all_tasks: true, tolerance, tick };
    Checker::new(machine.topology.len(), &machine.online_cpus(), Promises::default(), conditions, Demands::default())
}

/// Reference load executed in between, which is slowed by the host in the same way as the run.
struct ReferenceLoad {
    /// Words in random order.
    text: Vec<u8>,
    /// CPU time of the process at the last execution.
    last: u64,
    /// Total CPU time spent.
    spent: u64,
    times: u32,
}

impl ReferenceLoad {
    const BYTES: usize = 256 << 10;
    /// The reference load runs whenever the benchmark has used this much CPU time; it takes a few milliseconds.
    const EVERY_NS: u64 = 20_000_000;

    fn new() -> ReferenceLoad {
        const WORDS: [&str; 8] = ["queue ", "deadline ", "slice ", "wakeup ", "the ", "of ", "a processor ", "idle "];
        let mut state = 1_u64;
        let mut text = Vec::new();
        while text.len() < ReferenceLoad::BYTES {
            // The generator of Knuth's MMIX.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.extend_from_slice(WORDS[(state >> 61) as usize].as_bytes());
        }
        text.truncate(ReferenceLoad::BYTES);
        ReferenceLoad { text, last: cpu_ns(), spent: 0, times: 0 }
    }

    /// Executes the reference load if it is due.
    fn run_if_due(&mut self) {
        let before = cpu_ns();
        if before - self.last >= ReferenceLoad::EVERY_NS {
            black_box(zstd::bulk::compress(black_box(&self.text), 3).expect("enough memory"));
            self.last = cpu_ns();
            self.spent += self.last - before;
            self.times += 1;
        }
    }

    /// NaN if it was never executed; each case takes longer than [`ReferenceLoad::EVERY_NS`].
    fn ns_per_mebibyte(&self) -> f64 {
        self.spent as f64 / f64::from(self.times) * ((1 << 20) / ReferenceLoad::BYTES) as f64
    }
}

/// CPU time of this process, in nanoseconds.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("every process has one");
    Duration::from(time).as_nanos() as u64
}

/// Largest resident set of this process so far, in KiB.
fn peak_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("every process has a peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number of KiB")
}
