// SPDX-License-Identifier: GPL-2.0-only
//! Size of each source of noise on this machine, as quantiles for a machine file.
//!
//! 1. **Threads.** On an idle machine, each wakeup of a kthread (a child of `kthreadd`) is followed to its next
//!    sleep. Kthreads whose names agree up to the first digit or slash are one kind.
//! 2. **Other sources** come from traced runs of `periodic`: lateness of timers on a busy and on an idle CPU, phase
//!    of each CPU's ticks, lengths of its tasks' 1 ms segments without a tick, and first wakeups of its tasks.
//! 3. **The kernel's code** and disturbances of a CPU: see [`super::code`].
//! 4. **Whole runs**: variation of the real runs of the fitted kinds, with the machine's speed divided out.

use super::kinds::KINDS;
use super::trace::{self, Clock, Line};
use super::{Place, Runs, document, quantile};
use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Probabilities of the quantiles in a machine file.
const PROBABILITIES: [f64; 11] = [0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0];

/// Traced events.
const EVENTS: [&str; 5] = [
    "sched/sched_switch",
    "sched/sched_waking",
    "timer/hrtimer_start",
    "timer/hrtimer_expire_entry",
    "irq_vectors/local_timer_entry",
];

/// Number of traced runs of `periodic`.
const ROUNDS: u32 = 5;

/// A kthread with fewer wakeups is ignored.
const WAKEUPS: usize = 8;

/// Measures everything and prints it.
pub fn measure(place: &Place, seconds: u64, data: &Path) -> Result<()> {
    println!("[noise]");
    let (text, ()) = trace::during(&EVENTS, Clock::Monotonic, || {
        std::thread::sleep(Duration::from_secs(seconds));
        Ok(())
    })?;
    let threads = threads(&text);
    let periodic = &KINDS[0];
    let mut all = Samples::default();
    for _ in 0..ROUNDS {
        let real = || document(&mut super::play::real(place, periodic));
        let (text, _) = trace::during(&EVENTS, Clock::Monotonic, real)?;
        Samples::of(&text).add_to(&mut all);
    }
    all.print();
    super::code::measure(place, seconds)?;
    runs(data)?;
    threads.iter().for_each(ThreadKind::print);
    Ok(())
}

/// Prints a line of a machine file, if there are enough values.
pub(super) fn line(key: &str, values: &[f64], note: &str) {
    if values.len() < PROBABILITIES.len() {
        println!("# {key}: only {} values", values.len());
        return;
    }
    let numbers = quantiles(values).map(|value| value.to_string());
    println!("{key} = [{}]  # {} {note}", numbers.join(", "), values.len());
}

/// Returns quantiles whose samples have the mean of the values. Interpolation would stretch the few largest values in
/// a thousand over a whole percent, so the two outermost quantiles are chosen to keep the mean of that percent.
fn quantiles(values: &[f64]) -> [i64; 11] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let few = (sorted.len() / 100).max(1);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let mut found = PROBABILITIES.map(|p| quantile(values, p));
    let (low, high) = (2.0 * mean(&sorted[..few]) - found[1], 2.0 * mean(&sorted[sorted.len() - few..]) - found[9]);
    (found[0], found[10]) = (low.clamp(found[0], found[1]), high.clamp(found[9], found[10]));
    found.map(|value| value.round() as i64)
}

/// Returns deviations from the median in millionths.
pub(super) fn around_median(values: &[f64]) -> Vec<f64> {
    if values.is_empty() {
        return Vec::new();
    }
    let median = quantile(values, 0.5);
    values.iter().map(|value| (value / median - 1.0) * 1e6).collect()
}

/// Returns the values below 0, mirrored. Segments of work are lengthened by disturbances, which are a separate
/// source, and never shortened: so the lower half shows the variation without them.
fn mirrored(values: &[f64]) -> Vec<f64> {
    values.iter().filter(|&&value| value <= 0.0).flat_map(|&value| [value, -value]).collect()
}

fn runs(data: &Path) -> Result<()> {
    let runs = Runs::read(data)?;
    let mut values = Vec::new();
    for kind in KINDS.iter().filter(|kind| kind.fitted) {
        let cpu = runs.steady(kind.name, "cpu_ns");
        ensure!(!cpu.is_empty(), "{} has no run of {}", data.display(), kind.name);
        values.extend(around_median(&cpu));
    }
    line("work_run_ppm", &values, "real runs of the fitted kinds, their CPU time at one speed of the machine");
    Ok(())
}

/// Activity of one kind of kthread.
struct ThreadKind {
    name: String,
    each_cpu: bool,
    threads: usize,
    sleep_us: Vec<f64>,
    work_ns: Vec<f64>,
}

impl ThreadKind {
    fn print(&self) {
        println!("\n[[noise.threads]]\nname = \"{}\"  # {} seen", self.name, self.threads);
        println!("each_cpu = {}", self.each_cpu);
        line("sleep_us", &self.sleep_us, "sleeps");
        line("work_ns", &self.work_ns, "stretches of work");
    }
}

#[derive(Default)]
struct Thread {
    running_since: Option<f64>,
    asleep_since: Option<f64>,
    worked: f64,
    sleep_us: Vec<f64>,
    work_ns: Vec<f64>,
}

/// Returns the kthreads of a trace, by kind.
fn threads(text: &str) -> Vec<ThreadKind> {
    let mut threads: BTreeMap<u64, Thread> = BTreeMap::new();
    for line in text.lines().filter_map(Line::parse) {
        match line.event {
            "sched_waking" => {
                let Some(pid) = line.number("pid") else { continue };
                let thread = threads.entry(pid).or_default();
                if let Some(since) = thread.asleep_since.take() {
                    thread.sleep_us.push(line.time_us - since);
                }
            }
            "sched_switch" => {
                let (Some(prev), Some(next)) = (line.number("prev_pid"), line.number("next_pid")) else { continue };
                let thread = threads.entry(prev).or_default();
                if let Some(since) = thread.running_since.take() {
                    thread.worked += (line.time_us - since) * 1e3;
                    if line.value("prev_state").is_some_and(|state| !state.starts_with('R')) {
                        thread.work_ns.push(std::mem::take(&mut thread.worked));
                        thread.asleep_since = Some(line.time_us);
                    }
                }
                threads.entry(next).or_default().running_since = Some(line.time_us);
            }
            _ => {}
        }
    }
    let mut kinds: BTreeMap<(String, bool), ThreadKind> = BTreeMap::new();
    for (pid, thread) in threads {
        let Some((name, each_cpu)) = kernel_thread(pid).filter(|_| thread.work_ns.len() >= WAKEUPS) else { continue };
        let new = || ThreadKind { name: name.clone(), each_cpu, threads: 0, sleep_us: vec![], work_ns: vec![] };
        let kind = kinds.entry((name.clone(), each_cpu)).or_insert_with(new);
        kind.threads += 1;
        kind.sleep_us.extend(thread.sleep_us);
        kind.work_ns.extend(thread.work_ns);
    }
    kinds.into_values().filter(|kind| kind.sleep_us.len() >= PROBABILITIES.len()).collect()
}

/// Returns the kind of a kthread of the normal policy, and whether it is bound to one CPU.
fn kernel_thread(pid: u64) -> Option<(String, bool)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (before, after) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after.split_whitespace().collect();
    // Fields 4 and 41 of proc(5): the parent, and the policy, where 0 is SCHED_OTHER.
    if fields.get(1) != Some(&"2") || fields.get(38) != Some(&"0") {
        return None;
    }
    let name = before.split_once('(')?.1;
    let kind: String = name.chars().take_while(|c| !c.is_ascii_digit() && *c != '/').collect();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim();
    let kind = kind.trim_end_matches('.').to_owned();
    Some((if name.contains("/u") { format!("{kind}-unbound") } else { kind }, cpus.parse::<u32>().is_ok()))
}

/// Variation in traced runs of `periodic`.
#[derive(Default)]
struct Samples {
    timer_busy_ns: Vec<f64>,
    timer_idle_ns: Vec<f64>,
    tick_ns: Vec<f64>,
    segment_ppm: Vec<f64>,
    task_ppm: Vec<f64>,
    start_ns: Vec<f64>,
}

/// A task of `periodic` in a trace.
#[derive(Default)]
struct Beat {
    first: Option<f64>,
    running_since: Option<f64>,
    struck: bool,
    worked: f64,
    segments_us: Vec<f64>,
}

impl Samples {
    fn of(text: &str) -> Samples {
        let mut samples = Samples::default();
        let mut current: BTreeMap<usize, u64> = BTreeMap::new();
        let mut armed: BTreeMap<String, f64> = BTreeMap::new();
        let mut called: BTreeMap<u64, f64> = BTreeMap::new();
        let mut beats: BTreeMap<u64, Beat> = BTreeMap::new();
        for line in text.lines().filter_map(Line::parse) {
            match line.event {
                "hrtimer_start" => {
                    // Tasks of a workload have no timer slack; others have 50 us or more, by which their timers may
                    // be late.
                    let tick = line.value("function").is_some_and(|name| name.starts_with("tick_"));
                    let ours = current.get(&line.cpu).is_some_and(|pid| beats.contains_key(pid));
                    if let (Some(timer), Some(expires)) = (line.value("hrtimer"), line.number("expires"))
                        && (tick || ours)
                    {
                        armed.insert(timer.to_owned(), expires as f64);
                    }
                }
                "hrtimer_expire_entry" => {
                    let due = line.value("hrtimer").and_then(|timer| armed.remove(timer));
                    let (Some(due), Some(now)) = (due, line.number("now")) else { continue };
                    let late = now as f64 - due;
                    let idle = current.get(&line.cpu) == Some(&0);
                    match line.value("function") {
                        Some("hrtimer_wakeup") if idle => samples.timer_idle_ns.push(late),
                        Some("hrtimer_wakeup") => samples.timer_busy_ns.push(late),
                        Some(name) if name.starts_with("tick_") && !idle => samples.tick_ns.push(late),
                        _ => {}
                    }
                }
                "local_timer_entry" => {
                    if let Some(beat) = current.get(&line.cpu).and_then(|pid| beats.get_mut(pid)) {
                        beat.struck = true;
                    }
                }
                "sched_waking" => {
                    if let Some(pid) = line.number("pid") {
                        called.insert(pid, line.time_us);
                    }
                }
                "sched_switch" => samples.switch(&line, &mut current, &called, &mut beats),
                _ => {}
            }
        }
        samples.work(beats);
        samples
    }

    fn switch(
        &mut self,
        line: &Line<'_>,
        current: &mut BTreeMap<usize, u64>,
        called: &BTreeMap<u64, f64>,
        beats: &mut BTreeMap<u64, Beat>,
    ) {
        let (Some(prev), Some(next)) = (line.number("prev_pid"), line.number("next_pid")) else { return };
        current.insert(line.cpu, next);
        if let Some(beat) = beats.get_mut(&prev)
            && let Some(since) = beat.running_since.take()
        {
            beat.worked += line.time_us - since;
            if line.value("prev_state").is_some_and(|state| !state.starts_with('R')) {
                let worked = std::mem::take(&mut beat.worked);
                if !std::mem::take(&mut beat.struck) {
                    beat.segments_us.push(worked);
                }
            }
        }
        if line.value("next_comm").is_some_and(|name| name.starts_with("beat")) {
            let beat = beats.entry(next).or_default();
            beat.running_since = Some(line.time_us);
            beat.first.get_or_insert(called.get(&next).copied().unwrap_or(line.time_us));
        }
    }

    /// Segments of 1 ms. A length off by a fifth is something else: the task waited for the executor's lock, or the
    /// host took the CPU away.
    fn work(&mut self, beats: BTreeMap<u64, Beat>) {
        let whole = |us: &f64| (800.0..1_250.0).contains(us);
        let all: Vec<f64> = beats.values().flat_map(|beat| beat.segments_us.iter().copied().filter(whole)).collect();
        if all.is_empty() {
            return;
        }
        let median = quantile(&all, 0.5);
        for beat in beats.values() {
            let own: Vec<f64> = beat.segments_us.iter().copied().filter(whole).collect();
            if own.len() > PROBABILITIES.len() {
                self.task_ppm.push((quantile(&own, 0.5) / median - 1.0) * 1e6);
                self.segment_ppm.extend(around_median(&own));
            }
        }
        let firsts: Vec<f64> = beats.values().filter_map(|beat| beat.first).collect();
        let first = quantile(&firsts, 0.0);
        self.start_ns.extend(firsts.iter().map(|time| (time - first) * 1e3));
    }

    fn add_to(self, all: &mut Samples) {
        all.timer_busy_ns.extend(self.timer_busy_ns);
        all.timer_idle_ns.extend(self.timer_idle_ns);
        all.tick_ns.extend(self.tick_ns);
        all.segment_ppm.extend(self.segment_ppm);
        all.task_ppm.extend(self.task_ppm);
        all.start_ns.extend(self.start_ns);
    }

    fn print(&self) {
        line("start_ns", &self.start_ns, "first wakeups of the tasks of `periodic`, after the first of all");
        line("work_task_ppm", &self.task_ppm, "tasks of `periodic`, median piece");
        line("work_segment_ppm", &mirrored(&self.segment_ppm), "halves of pieces of 1 ms");
        // Reading the clock has an error of its own: no timer fires early.
        let delays = |values: &[f64]| values.iter().map(|value| value.max(0.0)).collect::<Vec<f64>>();
        line("tick_ns", &delays(&self.tick_ns), "ticks of a busy CPU");
        line("timer_ns", &delays(&self.timer_busy_ns), "timers on a busy CPU");
        line("idle_exit_ppm", &around_median(&self.timer_idle_ns), "timers on an idle CPU");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outermost_quantiles_keep_the_mean_of_rare_large_values() {
        let mut values: Vec<f64> = (0..1_000).map(f64::from).collect();
        values[999] = 100_000.0;
        let found = quantiles(&values);
        assert_eq!((found[0], found[5]), (0, 500));
        // The mean of the last ten is 10895.
        assert_eq!(found[9], 989);
        assert_eq!((found[9] + found[10]) / 2, 10_894);
    }

    #[test]
    fn negative_deviations_are_mirrored_and_larger_ones_dropped() {
        assert_eq!(mirrored(&[-3.0, 90.0, -1.0, 7.0]), [-3.0, 3.0, -1.0, 1.0]);
    }

    #[test]
    fn segments_without_a_tick_are_measured() {
        let mut text = String::new();
        let mut event = |us: u64, what: &str| text += &format!("x-1 [000] d..2. 0.{us:06}: {what}\n");
        for beat in 0..14 {
            let (begin, length) = (beat * 10_000, if beat == 3 { 1_020 } else { 1_000 });
            event(begin, &format!("hrtimer_expire_entry: hrtimer=ff function=hrtimer_wakeup now={}", 1_300 + beat));
            event(
                begin + 1,
                "sched_switch: prev_comm=hog prev_pid=5 prev_prio=120 prev_state=R ==> next_comm=beat-0 next_pid=7 next_prio=120",
            );
            if beat == 5 {
                event(begin + 100, "local_timer_entry: vector=236");
            }
            event(
                begin + length,
                "hrtimer_start: hrtimer=ff function=hrtimer_wakeup expires=1000 softexpires=900 mode=ABS",
            );
            event(
                begin + 1 + length,
                "sched_switch: prev_comm=beat-0 prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=hog next_pid=5 next_prio=120",
            );
        }
        let samples = Samples::of(&text);
        assert_eq!(samples.segment_ppm.len(), 13, "all except the segment with a tick");
        let most = quantile(&samples.segment_ppm, 1.0);
        assert!((most - 20_000.0).abs() < 1.0, "{most}");
        assert_eq!(
            (samples.timer_busy_ns.len(), samples.timer_busy_ns[3]),
            (13, 304.0),
            "the first timer was not armed in the trace"
        );
        assert_eq!(samples.start_ns, [0.0]);
    }
}
