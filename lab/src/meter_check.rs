// SPDX-License-Identifier: GPL-2.0-only
//! `weir meter` against other instruments that watch the same command at the same time: perf's events of locks, perf's
//! history of the scheduler, and the kernel's own counters of interrupts.

use crate::wall::weir;
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Options of `cargo xtask meter-check`.
#[derive(Args)]
#[command(after_help = "\
It needs root and perf.

Examples:
  cargo xtask meter-check > lab/results/meter-check.md")]
pub struct Arguments {
    /// weir to run; default: a release build
    #[arg(long, env = "WEIR")]
    weir: Option<PathBuf>,
}

/// 80 processes that send messages to each other: contended locks and thousands of wakeups.
const MESSAGES: [&str; 8] = ["perf", "bench", "sched", "messaging", "-g", "2", "-l", "300"];
/// Name of these processes.
const NAME: &str = "sched-messaging";

const PROSE: &str = "\
# Meters: the same run seen by other instruments

Written by `cargo xtask meter-check`: do not edit. Each table compares a meter with another instrument that watched the
same run. perf prints times in microseconds, so that sums of its times are off by up to 0.5 us an event on average.
";

/// Prints the document. Returns whether all counts agree.
pub fn execute(arguments: &Arguments) -> Result<bool> {
    let weir = weir(arguments.weir.as_deref())?.canonicalize().context("--weir")?;
    let directory = tempfile::tempdir()?;
    println!("{PROSE}");
    let locks = locks(&weir, directory.path())?;
    let states = states(&weir, directory.path())?;
    interrupts(&weir, directory.path())?;
    worlds(&weir, directory.path())?;
    Ok(locks && states)
}

/// Runs the messages below a meter below perf, and returns the meter's document.
fn below_perf(record: &[&str], weir: &Path, what: &str, directory: &Path) -> Result<Value> {
    let output = Command::new("perf")
        .args(record)
        .arg("--")
        .arg(weir)
        .args(["meter", what, "--format", "json", "--"])
        .args(MESSAGES)
        .current_dir(directory)
        .stderr(Stdio::null())
        .output()
        .context("cannot start perf")?;
    ensure!(output.status.success(), "perf {record:?}: {}", output.status);
    let json = output.stdout.iter().position(|byte| *byte == b'{').context("the meter prints JSON")?;
    Ok(serde_json::from_slice(&output.stdout[json..])?)
}

fn perf(arguments: &[&str], directory: &Path) -> Result<String> {
    let output = Command::new("perf").args(arguments).current_dir(directory).stderr(Stdio::null()).output()?;
    ensure!(output.status.success(), "perf {arguments:?}: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Contended acquisitions of kernel locks, and the time of the waits.
fn locks(weir: &Path, directory: &Path) -> Result<bool> {
    let events = ["record", "-q", "-a", "-o", "locks", "-e", "lock:contention_begin", "-e", "lock:contention_end"];
    let meter = below_perf(&events, weir, "locks", directory)?;
    let script = perf(&["script", "-i", "locks", "-F", "comm,tid,time,event,trace"], directory)?;
    let (count, wait_us) = waits(&script, NAME);
    // The first process waits under the names of its parents before it has its own, and so do others of these names.
    let unnamed = waits(&script, "weir").0 + waits(&script, "perf").0;
    let rows = meter["locks"].as_array().context("there are locks")?;
    let kernel = rows.iter().filter(|row| row["type"] != "futex");
    let sum = |key: &str| kernel.clone().filter_map(|row| row[key].as_u64()).sum::<u64>();
    println!("## Locks: `perf record -e lock:contention_begin,lock:contention_end`\n");
    println!("| | perf | weir meter locks |\n|---|---|---|");
    println!("| contended acquisitions of kernel locks | {count} | {} |", sum("contended"));
    println!("| wait, ms | {:.2} | {:.2} |\n", wait_us / 1e3, sum("wait_total_ns") as f64 / 1e6);
    println!(
        "Lost by the meter: {}. perf's column is the tasks named {NAME}; {unnamed} more waits were of tasks named perf and \
         weir,\nas the command is before it has its name.\n",
        meter["lost"]
    );
    Ok((count..=count + unnamed).contains(&sum("contended")))
}

/// Number and microseconds of the waits of tasks with this name. A wait of a mutex may begin twice.
fn waits(script: &str, name: &str) -> (u64, f64) {
    let mut begun: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    let (mut count, mut total) = (0, 0.0);
    for line in script.lines().filter_map(|line| line.trim_start().strip_prefix(name)) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [task, time, event, lock, ..] = words[..] else { continue };
        let Ok(time) = time.trim_end_matches(':').parse::<f64>() else { continue };
        match event {
            "lock:contention_begin:" => _ = begun.entry((task, lock)).or_insert(time),
            _ => {
                if let Some(since) = begun.remove(&(task, lock)) {
                    (count, total) = (count + 1, total + 1e6 * (time - since));
                }
            }
        }
    }
    (count, total)
}

/// Times on a CPU and switches to it, by task.
fn states(weir: &Path, directory: &Path) -> Result<bool> {
    let meter = below_perf(&["sched", "record", "-q", "-o", "sched"], weir, "microstates", directory)?;
    let history = perf(&["sched", "timehist", "-i", "sched"], directory)?;
    let by_perf = turns(&history);
    let (mut tasks, mut equal, mut differences, mut lost_us) = (0, 0, 0, Vec::new());
    let mut totals = (0.0, 0.0);
    for task in meter["tasks"].as_array().context("there are tasks")? {
        let states = &task["states"];
        let ns = |key: &str| states[key].as_u64().unwrap_or(0);
        let on_cpu = (ns("user") + ns("system") + ns("stolen")) as f64 / 1e3;
        let Some(&(turns, run_us)) = task["pid"].as_u64().and_then(|pid| by_perf.get(&pid)) else { continue };
        // perf reports a turn when it ends, so also the last one.
        let own = task["counts"]["run_queue"].as_u64().unwrap_or(0);
        (tasks, equal) = (tasks + 1, equal + u64::from(own == turns));
        differences += own.abs_diff(turns);
        lost_us.push((on_cpu - run_us).abs() / turns.max(1) as f64);
        totals = (totals.0 + run_us, totals.1 + on_cpu);
    }
    lost_us.sort_by(f64::total_cmp);
    ensure!(tasks > 0, "perf and the meter have no task in common");
    println!("## Microstates: `perf sched timehist`\n");
    println!("| | perf | weir meter microstates |\n|---|---|---|");
    println!("| time on a CPU of {tasks} tasks, ms | {:.2} | {:.2} |\n", totals.0 / 1e3, totals.1 / 1e3);
    println!(
        "{equal} of {tasks} tasks have the same number of turns on a CPU ({differences} turns differ). Their times differ by\n\
         {:.2} us a turn in the median, {:.2} at most.\n",
        lost_us[lost_us.len() / 2],
        lost_us[lost_us.len() - 1]
    );
    Ok(equal == tasks)
}

/// Turns on a CPU and their microseconds by TID. A line: time, CPU, name with TID, wait, delay, run time.
fn turns(history: &str) -> BTreeMap<u64, (u64, f64)> {
    let mut turns: BTreeMap<u64, (u64, f64)> = BTreeMap::new();
    for line in history.lines() {
        let Some((head, numbers)) = line.rsplit_once(']') else { continue };
        let task = head.rsplit_once('[').and_then(|(_, ids)| ids.split('/').next()?.parse::<u64>().ok());
        let run_ms = numbers.split_whitespace().nth(2).and_then(|run| run.parse::<f64>().ok());
        if let (Some(task), Some(run_ms)) = (task, run_ms) {
            let sum = turns.entry(task).or_default();
            *sum = (sum.0 + 1, sum.1 + 1e3 * run_ms);
        }
    }
    turns
}

/// Interrupts, whose counters are read just before and after the meter.
fn interrupts(weir: &Path, directory: &Path) -> Result<()> {
    let before = counters()?;
    let mut load = Command::new("sh").args(["-c", "while :; do /bin/true; done"]).spawn()?;
    let output = Command::new(weir).args(["meter", "interrupts", "3s", "1", "--format", "json"]).output();
    load.kill()?;
    load.wait()?;
    let output = output?;
    let after = counters()?;
    fs::write(directory.join("interrupts"), &output.stdout)?;
    let meter: Value = serde_json::from_slice(&output.stdout).context("the meter prints JSON")?;
    let mut own: BTreeMap<String, u64> = BTreeMap::new();
    for row in meter["interrupts"].as_array().context("there are interrupts")? {
        let source = row["source"].as_str().unwrap_or_default();
        let source = if source.starts_with("call function") { CALLS } else { source };
        *own.entry(source.to_owned()).or_default() += row["count"].as_u64().unwrap_or(0);
    }
    println!("## Interrupts: `/proc/interrupts` and `/proc/softirqs`\n");
    println!("The counters are read before the meter starts and after it has ended, so they are a little higher.\n");
    println!("| source | kernel's counter | weir meter interrupts |\n|---|---|---|");
    for (source, count) in own {
        let kernel = after.get(&source).map(|after| after - before.get(&source).copied().unwrap_or(0));
        println!("| {source} | {} | {count} |", kernel.map_or("-".to_owned(), |count| count.to_string()));
    }
    Ok(())
}

/// Two workers that hold a mutex for most of their work, and a task that sleeps and works.
const WORKLOAD: &str = r#"{ "tasks": {
  "worker": { "instance": 2, "loop": 500, "run0": 300, "lock": "m", "run1": 700, "unlock": "m" },
  "napper": { "loop": 500, "run": 100, "sleep": 900 } },
"global": { "duration": -1 } }
"#;

/// The same workload file in both worlds, with the same meters.
fn worlds(weir: &Path, directory: &Path) -> Result<()> {
    println!("\n## One workload file in both worlds\n\n```json\n{WORKLOAD}```");
    fs::write(directory.join("pool.json"), WORKLOAD)?;
    let call = |arguments: &[&str]| -> Result<String> {
        let output = Command::new(weir).args(arguments).current_dir(directory).stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "weir {arguments:?}: {}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    call(&["run", "-w", "pool.json", "--save", "real.weirrun"])?;
    call(&["sim", "kernel", "-m", "host", "-w", "pool.json", "--save", "model.weirrun"])?;
    let program = weir.display().to_string();
    let tables: [(&str, &[&str]); 4] = [
        ("This machine, `weir meter microstates real.weirrun`", &["meter", "microstates", "real.weirrun"]),
        ("Model of it, `weir meter microstates model.weirrun`", &["meter", "microstates", "model.weirrun"]),
        (
            "This machine, `weir meter locks -- weir run -w pool.json`; the coordinator of the run waits too",
            &["meter", "locks", "--format", "csv", "--", &program, "run", "-w", "pool.json"],
        ),
        ("Model of it, `weir meter locks model.weirrun`", &["meter", "locks", "--format", "csv", "model.weirrun"]),
    ];
    for (title, arguments) in tables {
        println!("\n{title}:\n\n```\n{}\n```", call(arguments)?.trim_end());
    }
    Ok(())
}

/// Calls of functions on other CPUs, which the kernel counts together.
const CALLS: &str = "function calls";

/// Counters of all CPUs together, by the names that the meter uses.
fn counters() -> Result<BTreeMap<String, u64>> {
    let mut all = BTreeMap::new();
    for (file, kind) in [("/proc/interrupts", "irq"), ("/proc/softirqs", "softirq")] {
        let text = fs::read_to_string(file)?;
        for line in text.lines().skip(1) {
            let Some((name, rest)) = line.split_once(':') else { continue };
            let counts = rest.split_whitespace().map_while(|word| word.parse::<u64>().ok()).sum::<u64>();
            let name = name.trim();
            let known = match (kind, name) {
                ("softirq", name) => format!("softirq {}", name.to_lowercase()),
                (_, "LOC") => "local timer".to_owned(),
                (_, "RES") => "reschedule".to_owned(),
                (_, "CAL") => CALLS.to_owned(),
                (_, number) if number.parse::<u32>().is_ok() => {
                    format!("irq {number} {}", rest.split_whitespace().last().unwrap_or_default())
                }
                _ => continue,
            };
            all.insert(known, counts);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_paired_by_task_and_lock() {
        let script = "\
  sched-messaging  7 10.000001: lock:contention_begin: 0xa (flags=SPIN)
  sched-messaging  8 10.000002: lock:contention_begin: 0xa (flags=SPIN)
  rustc 9 10.000002: lock:contention_begin: 0xa (flags=SPIN)
  sched-messaging  7 10.000003: lock:contention_begin: 0xa (flags=MUTEX)
  sched-messaging  7 10.000005:   lock:contention_end: 0xa (ret=0)
  sched-messaging  8 10.000003:   lock:contention_end: 0xb (ret=0)\n";
        let (count, us) = waits(script, NAME);
        assert_eq!((count, (1e3 * us).round()), (1, 4_000.0));
    }

    #[test]
    fn turns_are_the_lines_of_the_history() {
        let history = "           time    cpu  task name  wait time\n                        [tid/pid]   (msec)\n\
                       1.0 [0000]  a[7/3]   0.000   0.003   0.011 \n1.0 [0001]  b c[7/3]   0.000   0.003   1.000 \n\
                       1.0 [0001]  memfd:sealed-91[29858]  0.000  0.022  0.038\n";
        let turns = turns(history);
        assert_eq!(
            turns.iter().map(|(id, (count, us))| (*id, *count, us.round())).collect::<Vec<_>>(),
            [(7, 2, 1011.0), (29_858, 1, 38.0)]
        );
    }
}
