// SPDX-License-Identifier: GPL-2.0-only
//! Effect of each difference between the model's machine and NIX's machine, each as a run.

use super::ALL;
use super::bench::{Bench, Case, Runs, Work, head, number, short_work, switches_per_second};
use anyhow::{Context, Result, ensure};

const SCHEDULERS: [&str; 5] = ["nix@smp", "nix@groups", "nix@groups-2011", "nix@amp", "kernel"];

/// Schedulers from whose source the first pass is removed: the others have none, or it has no effect.
const CHANGEABLE: [&str; 2] = ["nix@smp", "nix@groups"];

/// A change of a scheduler's source.
struct Change {
    old: &'static str,
    new: &'static str,
}

/// Removes the first of two passes over the queue (point 3 of `nix.bpf.c`), which scans all waiting tasks. A CPU then
/// takes the first task it may run.
const NO_FIRST_PASS: Change =
    Change { old: "take(cpu, false, ~0ULL) || take(cpu, true, ~0ULL)", new: "take(cpu, true, ~0ULL)" };

/// A changed assumption: name, replaced lines of the machine file, options, change of the policy's source.
type Assumption = (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str], Option<Change>);

const ASSUMPTIONS: [Assumption; 7] = [
    ("none", &[], &[], None),
    ("test-and-set locks, as NIX had", &[], &["--kernel", "7.2+test-and-set"], None),
    ("ticket locks", &[], &["--kernel", "7.2+ticket"], None),
    ("no locks at all", &[], &["--without", "locks"], None),
    ("no first pass: no scan of all waiting tasks", &[], &[], Some(NO_FIRST_PASS)),
    ("1000 ticks a second, not 100", &[("hz = 100 ", "hz = 1000 ")], &[], None),
    (
        "idle cores poll a cache line, and need no interrupt",
        &[
            ("ipi_ns = [750, 1100, 2000]", "ipi_ns = [45, 80, 120]"),
            ("idle_exit_ns = 1500", "idle_exit_ns = 0"),
            ("interrupt_ns = 1500", "interrupt_ns = 0"),
        ],
        &[],
        None,
    ),
];

const PROSE: &str = "
## Which assumption matters

32 cores, the tasks of the first table (millions of context switches per second) and `ramfs-mk` (seconds). Each row
changes one assumption, to what it was in NIX or to the opposite extreme.";

pub fn print(bench: &Bench) -> Result<()> {
    println!("{PROSE}");
    table(bench, "changed, 20 us of work", |bench, scheduler, machine, options| {
        let workload = Work::Text(short_work(ALL, 4, 20));
        let rate = bench.runs(scheduler, &Case { cpus: ALL, machine, workload, options })?;
        median(&rate, switches_per_second, 1e6)
    })?;
    table(bench, "changed, ramfs-mk", |bench, scheduler, machine, options| {
        let workload = Work::Named("ramfs-mk");
        let runs = bench.runs(scheduler, &Case { cpus: ALL, machine, workload, options })?;
        median(&runs, |run| number(run, "makespan_ns"), 1e9)
    })
}

fn median(runs: &Runs, of: impl Fn(&serde_json::Value) -> Result<f64>, unit: f64) -> Result<String> {
    Ok(format!("{:.3}", runs.median(of)?.0 / unit))
}

type Cell = fn(&Bench, &str, &str, &[&str]) -> Result<String>;

fn table(bench: &Bench, title: &str, cell: Cell) -> Result<()> {
    head(&[title], &SCHEDULERS);
    for (name, lines, options, change) in &ASSUMPTIONS {
        let mut machine = bench.preset.clone();
        for (old, new) in *lines {
            ensure!(machine.contains(old), "the machine has no {old}");
            machine = machine.replace(old, new);
        }
        let mut row = format!("| {name} |");
        for scheduler in SCHEDULERS {
            row += &match change {
                Some(_) if !CHANGEABLE.contains(&scheduler) => " - |".to_owned(),
                Some(change) => format!(" {} |", cell(bench, &changed(bench, scheduler, change)?, &machine, options)?),
                None => format!(" {} |", cell(bench, scheduler, &machine, options)?),
            };
        }
        println!("{row}");
    }
    Ok(())
}

/// Returns the scheduler with its changed source as an argument of `weir sim`.
fn changed(bench: &Bench, scheduler: &str, change: &Change) -> Result<String> {
    let folder = crate::root().join("policies/nix");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).with_context(|| name.to_owned());
    for header in ["share.bpf.h", "groups.bpf.h", "amp.bpf.h"] {
        bench.file(header, &read(header)?)?;
    }
    // A scheduler given by path has no presets; preset `groups` sets only this constant.
    let (profile, by_node) = (read("profile.toml")?, "by_node = true\n\n[tunables.steal]");
    let profile = if scheduler == "nix@groups" { profile.replacen("[tunables.steal]", by_node, 1) } else { profile };
    bench.file("nix.toml", &profile)?;
    let source = read("nix.bpf.c")?;
    ensure!(source.contains(change.old), "the source of nix has no {}", change.old);
    let source = bench.file("nix.bpf.c", &source.replace(change.old, change.new))?;
    Ok(source.display().to_string())
}
