// SPDX-License-Identifier: GPL-2.0-only
//! Workload files of the experiments and their references.

/// A workload with an effect and one without it.
pub struct Experiment {
    pub group: &'static str,
    pub label: String,
    pub workload: String,
    pub reference: String,
    /// Number of events in the workload, each of which costs an equal part of the difference.
    pub events: u64,
}

/// All experiments; `read_mb_s` is the bandwidth of a CPU.
pub fn all(read_mb_s: u64) -> Vec<Experiment> {
    let mut all = switches();
    all.extend(moves());
    all.extend(streamers(read_mb_s));
    all
}

fn file(tasks: &str) -> String {
    format!("{{ \"tasks\": {{\n{tasks} }},\n\"global\": {{ \"duration\": -1 }} }}\n")
}

fn footprint(kib: u64, dirty_percent: u64) -> String {
    match kib {
        0 => String::new(),
        _ => format!("\"footprint\": \"{kib}K\", \"dirty\": {dirty_percent}, "),
    }
}

/// Li, Ding and Shen, "Quantifying the Cost of Context Switch", ExpCS 2007: two tasks alternate on CPU 0, each with a
/// working set of its own.
fn switches() -> Vec<Experiment> {
    /// Work of a task before it gives the CPU to the other one, in microseconds. Four passes over 8 MiB take a quarter.
    const RUN_US: u64 = 10_000;
    /// Turns of each of the two tasks.
    const TURNS: u64 = 50;
    let pair = |kib| {
        let head = format!("{}\"cpus\": [0], \"loop\": {TURNS}", footprint(kib, 0));
        file(&format!(
            "\"a\": {{ {head}, \"delay\": 100000, \"run\": {RUN_US}, \"resume\": \"b\", \"suspend\": \"a\" }},\n\
             \"b\": {{ {head}, \"suspend\": \"b\", \"run\": {RUN_US}, \"resume\": \"a\" }}"
        ))
    };
    let experiment = |kib| Experiment {
        group: "Switches between two working sets",
        label: format!("{kib} KiB each"),
        workload: pair(kib),
        reference: pair(0),
        events: 2 * TURNS,
    };
    [64, 256, 512, 1_024, 2_048, 4_096, 8_192].map(experiment).into()
}

/// A task that alternates between CPUs 0 and 1, against one of the same script without a working set: the first pass
/// after each move, where only read lines are still in the cache that it left, and written ones are in the other.
fn moves() -> Vec<Experiment> {
    const WORK_US: u64 = 800_000;
    let wanderer = |kib, dirty, period_us: u64| {
        file(&format!(
            "\"m\": {{ {}\"cpus\": [0], \"loop\": {}, \"phases\": {{\n\
             \"there\": {{ \"run\": {period_us}, \"cpus\": [1] }}, \"back\": {{ \"run\": {period_us}, \"cpus\": [0] }} }} }}",
            footprint(kib, dirty),
            WORK_US / (2 * period_us)
        ))
    };
    let experiment = |(kib, dirty, ms): (u64, u64, u64)| Experiment {
        group: "Moves to the other CPU and back",
        label: format!("{kib} KiB, {dirty} % written, every {ms} ms"),
        workload: wanderer(kib, dirty, 1_000 * ms),
        reference: wanderer(0, 0, 1_000 * ms),
        events: WORK_US / (1_000 * ms),
    };
    let periods = [1, 2, 4, 8, 16].map(|ms| (1_024, 100, ms));
    [(256, 0, 4), (1_024, 0, 4), (256, 100, 4), (1_024, 30, 4)].into_iter().chain(periods).map(experiment).collect()
}

/// Two tasks on two CPUs that read from memory, against one of them beside one that works as long without memory: CPUs
/// of a virtual machine may share a core.
fn streamers(read_mb_s: u64) -> Vec<Experiment> {
    const PIECES: u64 = 50;
    let task = |name: &str, cpu: u32, percent: u64| {
        let rate = read_mb_s * percent / 100;
        let stream = format!("\"stream\": {rate}, \"memory-share\": {percent}, ");
        let stream = if percent > 0 { stream.as_str() } else { "" };
        format!("\"{name}\": {{ {stream}\"cpus\": [{cpu}], \"loop\": {PIECES}, \"run\": 10000 }}")
    };
    let experiment = |percent| Experiment {
        group: "A second task that reads from memory, for each 10 ms of work",
        label: format!("{percent} % of what a CPU reads alone"),
        workload: file(&[task("a", 0, percent), task("b", 1, percent)].join(",\n")),
        reference: file(&[task("a", 0, percent), task("b", 1, 0)].join(",\n")),
        events: PIECES,
    };
    [25, 50, 75].map(experiment).into()
}
