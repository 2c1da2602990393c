// SPDX-License-Identifier: GPL-2.0-only
//! Variation of the kernel's own code paths, and disturbances of a busy CPU.
//!
//! 1. **Wakeups**: from `sched_waking` to `sched_wakeup` on one CPU, in runs of `pool`: CPU selection and enqueue.
//! 2. **Interrupts**: from `local_timer_entry` to `local_timer_exit`, in the same runs.
//! 3. **Switches**: two SCHED_FIFO threads alternate on one CPU with `sched_yield`; the time from switch to switch.
//! 4. **Disturbances**: a SCHED_FIFO thread reads the clock in a loop on one CPU. A gap is a disturbance, except the
//!    gap of each tick.
//!
//! All but the gaps are counted in TSC cycles, and only their ratios to their median are used.

use super::kinds::KINDS;
use super::sizes::{around_median, line};
use super::trace::{self, Clock, Line};
use super::{Place, document};
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::{Duration, Instant};

/// Number of traced runs of `pool`.
const ROUNDS: u32 = 4;

/// Programs of `pool`; other tasks are ignored.
const PLAYED: [&str; 5] = ["sh", "xargs", "head", "gzip", "seq"];

/// Duration of the alternation of two threads.
const TURNS: Duration = Duration::from_secs(1);

/// Shorter gaps are the cost of reading the clock, including cache effects of the host.
const GAP_NS: u64 = 700;

/// Tick period of the kernels that this is for.
const TICK_NS: u64 = 4_000_000;

/// Largest deviation of a tick from its usual phase; `tick_ns` of a busy CPU is below.
const LATE_NS: u64 = 60_000;

/// Longer gaps are not interrupts: the kernel lets fair tasks run for 50 ms of each second beside SCHED_FIFO, and the
/// host takes CPUs away, which is `steal_ns`.
const LONGEST_NS: u64 = 1_000_000;

const EVENTS: [&str; 5] = [
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_wakeup",
    "irq_vectors/local_timer_entry",
    "irq_vectors/local_timer_exit",
];

/// Measures everything and prints it.
pub fn measure(place: &Place, seconds: u64) -> Result<()> {
    let (mut wakeups, mut interrupts, mut switches) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (text, _) =
            trace::during(&EVENTS, Clock::Processor, || document(&mut super::play::real(place, &KINDS[1])))?;
        let pairs = Pairs::of(&text);
        wakeups.extend(pairs.wakeups);
        interrupts.extend(pairs.interrupts);
    }
    let (text, _) = trace::during(&EVENTS[..1], Clock::Processor, || alone("yield", 0))?;
    switches.extend(turns(&text));
    line("wakeup_ppm", &around_median(&wakeups), "wakeups in `pool`");
    line("switch_ppm", &around_median(&switches), "switches between two threads that yield");
    line("interrupt_ppm", &around_median(&interrupts), "ticks in `pool`");
    let gaps = alone("spin", seconds)?;
    let gaps: Vec<(u64, u64)> = gaps
        .lines()
        .filter_map(|line| {
            let (begin, length) = line.split_once(' ')?;
            Some((begin.parse().ok()?, length.parse().ok()?))
        })
        .collect();
    let (every, lengths) = disturbances(&gaps);
    line("disturbance_every_ns", &every, "distances of gaps that are no ticks");
    line("disturbance_ns", &lengths, "their lengths");
    Ok(())
}

/// Runs a hidden command of this program on the last CPU with SCHED_FIFO, and returns its output.
fn alone(what: &str, seconds: u64) -> Result<String> {
    let last = std::thread::available_parallelism()?.get() - 1;
    let xtask = std::env::current_exe()?;
    let mut command = Command::new("chrt");
    command.args(["-f", "50", "taskset", "-c", &last.to_string()]).arg(xtask).args(["noise", what]);
    if seconds > 0 {
        command.arg(seconds.to_string());
    }
    let output = command.output().context("chrt and taskset are needed")?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Implements the hidden command `yield`: two threads that yield to each other.
pub fn take_turns() {
    let end = Instant::now() + TURNS;
    let turns = || (0..).take_while(|_| Instant::now() < end).for_each(|_| std::thread::yield_now());
    std::thread::scope(|scope| (0..2).for_each(|_| _ = scope.spawn(turns)));
}

/// Reads the clock for `seconds`, and prints start and length of the gaps.
pub fn spin(seconds: u64) {
    let begin = Instant::now();
    let (mut last, mut gaps) = (0, Vec::new());
    while last < seconds * 1_000_000_000 {
        let now = begin.elapsed().as_nanos() as u64;
        if now - last >= GAP_NS {
            gaps.push((last, now - last));
        }
        last = now;
    }
    gaps.iter().for_each(|(begin, length)| println!("{begin} {length}"));
}

/// Intervals between two matching events, in TSC cycles.
#[derive(Default)]
struct Pairs {
    wakeups: Vec<f64>,
    interrupts: Vec<f64>,
}

impl Pairs {
    fn of(text: &str) -> Pairs {
        let mut pairs = Pairs::default();
        let mut waking: BTreeMap<usize, (u64, f64)> = BTreeMap::new();
        let mut entered: BTreeMap<usize, f64> = BTreeMap::new();
        for line in text.lines().filter_map(Line::parse) {
            match line.event {
                "sched_waking" if line.value("comm").is_some_and(|name| PLAYED.contains(&name)) => {
                    _ = line.number("pid").map(|pid| waking.insert(line.cpu, (pid, line.time_us)));
                }
                "sched_wakeup" => {
                    // A wakeup that another CPU completes is not one code path.
                    if let Some((pid, since)) = waking.remove(&line.cpu)
                        && line.number("pid") == Some(pid)
                    {
                        pairs.wakeups.push(line.time_us - since);
                    }
                }
                "local_timer_entry" => _ = entered.insert(line.cpu, line.time_us),
                "local_timer_exit" => {
                    pairs.interrupts.extend(entered.remove(&line.cpu).map(|since| line.time_us - since))
                }
                _ => {}
            }
        }
        pairs
    }
}

/// Returns the intervals between successive switches of the same two threads of this program.
fn turns(text: &str) -> Vec<f64> {
    let mut last: BTreeMap<usize, f64> = BTreeMap::new();
    let mut turns = Vec::new();
    for line in text.lines().filter_map(Line::parse) {
        let ours = |key| line.value(key).is_some_and(|name| name.starts_with("xtask"));
        if ours("prev_comm") && ours("next_comm") {
            turns.extend(last.insert(line.cpu, line.time_us).map(|since| line.time_us - since));
        } else {
            last.remove(&line.cpu);
        }
    }
    turns
}

/// Returns distances and lengths of the gaps that are not ticks. In each tick period, the gap nearest to the most
/// frequent phase is the tick.
fn disturbances(gaps: &[(u64, u64)]) -> (Vec<f64>, Vec<f64>) {
    let mut places = vec![0u32; (TICK_NS / LATE_NS) as usize + 1];
    gaps.iter().for_each(|(begin, _)| places[(begin % TICK_NS / LATE_NS) as usize] += 1);
    let most = (0..places.len()).max_by_key(|&place| places[place]).expect("a grid has places");
    let middle = most as u64 * LATE_NS + LATE_NS / 2;
    let off = |begin: u64| {
        let off = (begin + TICK_NS - middle) % TICK_NS;
        off.min(TICK_NS - off)
    };
    let mut ticks: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    for (index, &(begin, _)) in gaps.iter().enumerate().filter(|(_, (begin, _))| off(*begin) <= LATE_NS) {
        let period = (begin + TICK_NS + TICK_NS / 2 - middle) / TICK_NS;
        let found = ticks.entry(period).or_insert((off(begin), index));
        *found = (*found).min((off(begin), index));
    }
    let ticks: BTreeSet<usize> = ticks.into_values().map(|(_, index)| index).collect();
    let rest: Vec<(u64, u64)> =
        gaps.iter().enumerate().filter(|(index, _)| !ticks.contains(index)).map(|(_, gap)| *gap).collect();
    let is_short = |gap: &(u64, u64)| gap.1 < LONGEST_NS;
    let near = rest.windows(2).filter(|two| two.iter().all(is_short));
    let every = near.map(|two| (two[1].0 - two[0].0 - two[0].1) as f64).collect();
    (every, rest.iter().filter(|gap| is_short(gap)).map(|gap| gap.1 as f64).collect())
}

#[cfg(test)]
mod tests {
    use super::super::quantile;
    use super::*;

    #[test]
    fn intervals_are_between_matching_events() {
        let lines = [
            "x-1 [000] d..2. 1000: sched_waking: comm=sh pid=7 prio=120 target_cpu=000",
            "x-1 [001] d..2. 1010: local_timer_entry: vector=236",
            "x-1 [000] d..2. 1300: sched_wakeup: comm=sh pid=7 prio=120 target_cpu=000",
            "x-1 [001] d..2. 1510: local_timer_exit: vector=236",
            "x-1 [000] d..2. 2000: sched_waking: comm=sh pid=7 prio=120 target_cpu=001",
            "x-1 [001] d..2. 2100: sched_wakeup: comm=sh pid=7 prio=120 target_cpu=001",
            "x-1 [000] d..2. 3000: sched_waking: comm=b pid=8 prio=120 target_cpu=000",
            "x-1 [000] d..2. 3100: sched_wakeup: comm=b pid=8 prio=120 target_cpu=000",
        ];
        let pairs = Pairs::of(&lines.join("\n"));
        let in_units = |values: &[f64]| values.iter().map(|value| (value / 1e6).round() as u64).collect::<Vec<_>>();
        assert_eq!((in_units(&pairs.wakeups), in_units(&pairs.interrupts)), (vec![300], vec![500]));
        let switch = |cpu: u32, time: u64, prev: &str, next: &str| {
            format!(
                "x-1 [00{cpu}] d..2. {time}: sched_switch: prev_comm={prev} prev_pid=1 prev_prio=49 prev_state=R ==> next_comm={next} next_pid=2 next_prio=49"
            )
        };
        let text = [
            switch(1, 100, "other", "xtask"),
            switch(1, 200, "xtask", "xtask"),
            switch(0, 210, "xtask", "other"),
            switch(1, 350, "xtask", "xtask"),
            switch(1, 400, "xtask", "other"),
            switch(1, 900, "xtask", "xtask"),
        ];
        assert_eq!(in_units(&turns(&text.join("\n"))), [150]);
    }

    /// A tick every 4 ms, up to 20 us late, of 2 us; a gap of 5 us every 0.9 ms; and one of 50 ms.
    #[test]
    fn ticks_are_not_disturbances() {
        let ticks = (0..100u64).map(|n| (1_300_000 + n * TICK_NS + n * 7_919 % 20_000, 2_000));
        let others = (0..440u64).map(|n| (n * 900_000, 5_000));
        let mut gaps: Vec<(u64, u64)> = ticks.chain(others).chain([(410_000_000, 50_000_000)]).collect();
        gaps.sort_unstable();
        let (every, lengths) = disturbances(&gaps);
        assert!((435..=445).contains(&lengths.len()), "{}", lengths.len());
        let of_ticks = lengths.iter().filter(|&&length| length == 2_000.0).count();
        assert!(of_ticks <= 12, "{of_ticks} ticks beside other gaps were taken for them");
        assert!((quantile(&every, 0.5) - 895_000.0).abs() < 1.0);
    }
}
