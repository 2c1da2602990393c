// SPDX-License-Identifier: GPL-2.0-only
//! Throughput of a command on this machine.

use super::args::{Scale, Work};
use super::{Curve, Next, check_sizes};
use crate::failed::Failed;
use anyhow::{Context, Result, bail, ensure};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::unistd::Pid;
use scaling::Point;
use serde_json::json;
use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Place of the size in the command.
const PLACE: &str = "{n}";

/// Default sizes.
const SIZES: [u32; 6] = [1, 2, 3, 4, 6, 8];

/// Runs the command with every size. Rounds go through all sizes, so that a machine that becomes slower does not
/// look like a law.
pub fn measure(args: &Scale) -> Result<Curve> {
    let words: Vec<String> = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let name = words.join(" ");
    if args.cpus.is_empty() && !words.iter().any(|word| word.contains(PLACE)) {
        bail!("{name}: expected {PLACE} in the command, which becomes the size, such as make -j{PLACE}");
    }
    let (sizes, unit) = match (&*args.cpus, &*args.sizes) {
        (cpus @ [_, ..], _) => (cpus, "CPUs"),
        (_, []) => (&SIZES[..], "N"),
        (_, sizes) => (sizes, "N"),
    };
    check_sizes(sizes, u64::from(args.repeat))?;
    let whole = sched_getaffinity(Pid::from_raw(0)).context("cannot read the affinity")?;
    if !args.cpus.is_empty() {
        sizes.iter().try_for_each(|&size| first(&whole, size).map(drop))?;
    }
    let (mut points, mut details) = (Vec::new(), Vec::new());
    let before = Machine::now()?;
    for _ in 0..args.repeat {
        for &size in sizes {
            if !args.cpus.is_empty() {
                sched_setaffinity(Pid::from_raw(0), &first(&whole, size)?).context("cannot set the affinity")?;
            }
            let (throughput, seconds) = run(&args.command, &name, size, args.work)?;
            points.push(Point { n: f64::from(size), throughput });
            details.push(json!({ "elapsed_ns": (seconds * 1e9) as u64 }));
        }
    }
    sched_setaffinity(Pid::from_raw(0), &whole).context("cannot restore the affinity")?;
    let notes = vec![Machine::now()?.note(&before)];
    Ok(Curve { name, unit, points, details, notes, next: Next::of_file() })
}

/// Time of this machine's CPUs since boot, in seconds.
struct Machine {
    /// Of all CPUs, idle time included.
    whole: f64,
    busy: f64,
    stolen: f64,
    /// Of the commands that have exited.
    own: f64,
}

impl Machine {
    fn now() -> Result<Machine> {
        let text = std::fs::read_to_string("/proc/stat").context("/proc/stat")?;
        let words = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
        // user nice system idle iowait irq softirq steal; guest time is part of user time.
        let ticks: Vec<f64> = words.take(8).filter_map(|word| word.parse().ok()).collect();
        let [user, nice, system, idle, waiting, irq, softirq, steal] = ticks[..] else {
            bail!("/proc/stat does not begin with eight times")
        };
        let busy = user + nice + system + irq + softirq;
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("cannot read the time of the commands")?;
        let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        let own = seconds(usage.user_time()) + seconds(usage.system_time());
        let tick = |ticks: f64| ticks / 100.0;
        Ok(Machine { whole: tick(busy + idle + waiting + steal), busy: tick(busy), stolen: tick(steal), own })
    }

    /// What else used the CPUs since then.
    fn note(&self, then: &Machine) -> String {
        let whole = (self.whole - then.whole).max(0.01);
        let others = ((self.busy - then.busy) - (self.own - then.own)).max(0.0);
        format!(
            "during these runs other tasks of the machine used {:.0} % of all CPU time, and a hypervisor stole {:.0} %",
            100.0 * others / whole,
            100.0 * (self.stolen - then.stolen) / whole
        )
    }
}

/// The first CPUs of this set.
fn first(all: &CpuSet, count: u32) -> Result<CpuSet> {
    let allowed: Vec<usize> = (0..CpuSet::count()).filter(|&cpu| all.is_set(cpu).unwrap_or(false)).collect();
    ensure!(allowed.len() >= count as usize, "--cpus {count}: this process may use {} CPUs", allowed.len());
    let mut set = CpuSet::new();
    allowed.iter().take(count as usize).try_for_each(|&cpu| set.set(cpu))?;
    Ok(set)
}

/// Runs the command once. Returns its throughput and its time in seconds.
fn run(words: &[OsString], name: &str, size: u32, work: Work) -> Result<(f64, f64)> {
    let filled = words.iter().map(|word| word.to_string_lossy().replace(PLACE, &size.to_string()));
    let filled: Vec<String> = filled.collect();
    let mut command = Command::new(&filled[0]);
    command.args(&filled[1..]).env("WEIR_N", size.to_string());
    command.stdout(if work == Work::Printed { Stdio::piped() } else { Stdio::null() });
    let began = Instant::now();
    let output = command.spawn().and_then(std::process::Child::wait_with_output);
    let output = output.with_context(|| format!("cannot run {}", filled[0]))?;
    let seconds = began.elapsed().as_secs_f64();
    if !output.status.success() {
        bail!(Failed(format!("{name} with {PLACE} = {size} failed: {}", output.status)));
    }
    let throughput = match work {
        Work::Fixed => 1.0 / seconds,
        Work::PerN => f64::from(size) / seconds,
        Work::Printed => {
            let text = String::from_utf8_lossy(&output.stdout);
            let last = text
                .split_whitespace()
                .rev()
                .find_map(|word| word.parse().ok())
                .filter(|&x: &f64| x > 0.0 && x.is_finite());
            last.with_context(|| format!("{name} with {PLACE} = {size} printed no number above 0"))?
        }
    };
    Ok((throughput, seconds))
}
