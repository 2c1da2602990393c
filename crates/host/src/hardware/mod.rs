// SPDX-License-Identifier: GPL-2.0-only
//! Costs of this machine that a program in user space can time without privileges.
//!
//! 1. Each quantity is measured in many short rounds and reported as their 10th, 50th and 90th percentiles: rounds that
//!    other load disturbed are outliers.
//! 2. Threads are pinned, one per CPU. One pair of CPUs is measured for each topological distance.
//! 3. Costs that cannot be measured separately are listed in [`UNMEASURED`]; nothing is guessed.

pub mod handoff;
pub mod memory;
mod threads;
pub use threads::{Padded, on, pinned};

use handoff::OnOneCpu;
use ids::{CpuId, CpuSet, Locality, Topology};
use std::time::Duration;

/// Number of rounds per quantity.
pub const ROUNDS: usize = 41;

/// Distribution over the rounds, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Quantiles {
    /// 10th percentile.
    pub p10: f64,
    /// Median.
    pub median: f64,
    /// 90th percentile.
    pub p90: f64,
}

impl Quantiles {
    /// Quantiles of one or more rounds.
    pub fn of(mut rounds: Vec<f64>) -> Quantiles {
        rounds.sort_by(f64::total_cmp);
        let at = |percent: usize| rounds[(rounds.len() - 1) * percent / 100];
        Quantiles { p10: at(10), median: at(50), p90: at(90) }
    }

    /// Subtracts from each quantile, with a minimum of 0.
    pub fn less(self, by: f64) -> Quantiles {
        let less = |value: f64| (value - by).max(0.0);
        Quantiles { p10: less(self.p10), median: less(self.median), p90: less(self.p90) }
    }

    /// Divides each quantile.
    pub fn divided(self, by: f64) -> Quantiles {
        Quantiles { p10: self.p10 / by, median: self.median / by, p90: self.p90 / by }
    }
}

/// A measured quantity of the machine.
#[derive(Clone, Debug)]
pub struct Quantity {
    /// Key in machine files, if any; `locks.line_transfer_ns.llc` means that entry of the list.
    pub key: Option<&'static str>,
    /// Description of the quantity.
    pub what: String,
    /// Value in nanoseconds unless `what` names another unit.
    pub value: Quantiles,
}

/// Quantities that a user-space program cannot measure, with the reason.
pub const UNMEASURED: [&str; 7] = [
    "SMT, turbo, frequencies, idle states: hidden by kernel and hypervisor",
    "ipi_ns and idle_exit_ns separately: waking an idle CPU takes both and more",
    "fork_ns separately from its system call",
    "callback_ns and call_ns of kfuncs: spent inside the kernel",
    "tick_ns separately from simultaneous steal time of a hypervisor",
    "locks.wakeup_hold_ns: the kernel's locks cannot be timed from outside",
    "newidle_ratio, unless listed above: needs root and a kernel that has it",
];

/// Quantities to measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// All quantities: takes about seven seconds on two CPUs.
    All,
    /// Only quantities that have a key in machine files: takes less than a second on two CPUs.
    Keys,
}

/// Measures caches and memory, whose sizes in bytes are given as far as they are known: latencies by level, reloads
/// after a move, bandwidth. Takes about ten seconds on two CPUs.
pub fn measure_memory(
    topology: &Topology,
    usable: &CpuSet,
    [private, llc]: [usize; 2],
    progress: &mut dyn FnMut(&str),
) -> Vec<Quantity> {
    let mut all = Vec::new();
    let mut add = |key, what: String, value| all.push(Quantity { key, what, value });
    let here = usable.first().expect("this program runs somewhere");
    let size =
        |bytes: usize| if bytes >= 1 << 20 { format!("{} MiB", bytes >> 20) } else { format!("{} KiB", bytes >> 10) };
    progress("latencies of caches and memory");
    let private = if private == 0 { 256 << 10 } else { private };
    // Half of a cache fits it whatever else is in it; the last-level cache may be shared with other machines.
    let within_llc = (4 * private).min(llc.max(8 * private) / 2);
    let mut curve: Vec<(usize, Quantiles)> = Vec::new();
    let levels = [(Some("caches.private_ns"), private / 2), (Some("caches.llc_ns"), within_llc)];
    let beyond = std::iter::successors(Some(2 * within_llc), |bytes| Some(2 * bytes));
    let beyond = beyond.take_while(|bytes| *bytes < memory::MEMORY).map(|bytes| (None, bytes));
    for (key, bytes) in levels.into_iter().chain(beyond).chain([(Some("caches.memory_ns"), memory::MEMORY)]) {
        let latency = memory::latency(here, bytes);
        if bytes >= within_llc {
            curve.push((bytes, latency));
        }
        add(key, format!("load latency, {}", size(bytes)), latency);
    }
    if let Some(share) = memory::llc_share(&curve) {
        add(Some("caches.llc_kb"), "KiB of the last-level cache that this machine finds its data in".to_owned(), share);
    }
    for (distance, _, a, b) in pairs(topology, usable) {
        progress(&format!("reloads after a move from CPU {a} to {b}, {distance}"));
        for (dirty, words) in [(0, "read"), (100, "written")] {
            for bytes in [64 << 10, private / 2] {
                let what = format!("reload of a line, {} {words} on CPU {a}, moved to {b}, {distance}", size(bytes));
                add(None, what, memory::reload(a, b, bytes, dirty, private));
            }
        }
    }
    progress("memory bandwidth");
    let node = topology.place(here).node;
    let cpus: Vec<CpuId> =
        usable.iter().filter(|cpu| cpu.index() < topology.len() && topology.place(*cpu).node == node).collect();
    add(None, format!("MB/s read by CPU {here} alone"), memory::bandwidth(&[here]));
    if cpus.len() > 1 {
        let key = Some("bandwidth.node_mb_s");
        add(
            key,
            format!("MB/s read by {} CPUs of a node together: a lower bound", cpus.len()),
            memory::bandwidth(&cpus),
        );
    }
    all
}

/// CPUs that this process may use.
///
/// # Errors
/// The kernel's error.
pub fn usable() -> std::io::Result<CpuSet> {
    threads::usable()
}

/// Measures on CPUs that are online and usable by this process.
pub fn measure(topology: &Topology, usable: &CpuSet, scope: Scope, progress: &mut dyn FnMut(&str)) -> Vec<Quantity> {
    let (mut all, whole) = (Vec::new(), scope == Scope::All);
    let mut add = |key, what: &str, value| all.push(Quantity { key, what: what.to_owned(), value });
    let here = usable.first().expect("this program runs somewhere");
    progress("the clock, and gaps in a spinning loop");
    if whole {
        add(None, "reading the clock", threads::clock(here));
    }
    let (gap, each_second) = threads::gaps(here);
    add(Some("costs.tick_ns"), "gaps above 400 ns of a spinning reader", gap);
    if whole {
        add(None, "number of such gaps per second", each_second);
    }
    progress("switches and wakeups");
    if whole {
        add(None, "sched_yield() alone, CPU time", handoff::yields(here, 1));
    }
    let mut near = OnOneCpu::default();
    for _ in 0..VISITS {
        near.visit(here);
        std::thread::sleep(BETWEEN_VISITS);
    }
    add(Some("costs.context_switch_ns"), "context switch by sched_yield(), less the call, CPU time", near.switch());
    add(Some("costs.wakeup_ns"), "waking a thread of this CPU, and falling asleep", near.wake());
    add(Some("locks.futex_ns"), "futex(FUTEX_WAKE) without a waiter", threads::futex(here));
    for (distance, key, a, b) in pairs(topology, usable) {
        progress(&format!("CPUs {a} and {b}, {distance}"));
        add(Some(key), &format!("cache line, CPU {a} to {b}, {distance}"), threads::line(a, b));
        if whole {
            add(None, &format!("wakeup of idle CPU {b} by {a}"), threads::wakeup(a, b));
        }
        let mut far = |key, work: Duration| {
            let what = format!(
                "extra cost of waking CPU {b} from {a} over a wakeup on {a}, after {} us idle",
                work.as_micros()
            );
            let own = near.switch().median + near.wake().median;
            add(key, &what, handoff::handoff(a, b, FAR_HANDOFFS, work).less(own));
        };
        far(Some("costs.ipi_send_ns"), handoff::CLOSE);
        // If the hypervisor deschedules idle CPUs, these values have a step.
        let between = BETWEEN_US.iter().filter(|_| whole);
        between.for_each(|us| far(None, Duration::from_micros(*us)));
        far(Some("halt.send_ns"), handoff::APART);
        if !whole {
            continue;
        }
        add(
            None,
            &format!("atomic additions per ownership of a line, CPUs {a} and {b} contending"),
            threads::residency(a, b),
        );
    }
    if whole {
        progress("frequency ramp-up after idling");
        add(None, "slowdown after 300 ms idle, in percent", threads::ramp(here));
    }
    all
}

/// A pair of CPUs for each topological distance.
pub fn pairs(topology: &Topology, usable: &CpuSet) -> Vec<(&'static str, &'static str, CpuId, CpuId)> {
    const DISTANCES: [(Locality, &str, &str); 4] = [
        (Locality::Smt, "within a core", "locks.line_transfer_ns.smt"),
        (Locality::Llc, "within an LLC", "locks.line_transfer_ns.llc"),
        (Locality::Node, "within a node", "locks.line_transfer_ns.node"),
        (Locality::Far, "between nodes", "locks.line_transfer_ns.far"),
    ];
    let find = |(locality, words, key): (Locality, &'static str, &'static str)| {
        let all = || usable.iter().filter(|cpu| cpu.index() < topology.len());
        let pair = all().flat_map(|a| all().map(move |b| (a, b))).find(|&(a, b)| topology.locality(a, b) == locality);
        pair.map(|(a, b)| (words, key, a, b))
    };
    DISTANCES.into_iter().filter_map(find).collect()
}

/// Number of visits for switches and wakeups; see [`handoff`].
const VISITS: usize = 8;

const BETWEEN_VISITS: Duration = Duration::from_millis(50);

/// Number of handoffs to another CPU.
const FAR_HANDOFFS: u32 = 200;

/// Idle times of that CPU before a handoff, between the two lengths that recordings distinguish.
const BETWEEN_US: [u64; 3] = [100, 150, 200];

/// Duration of a loop of a lock benchmark.
pub const LOCK_ROUND: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_taken_from_sorted_rounds() {
        let rounds = (1..=41).rev().map(f64::from).collect();
        assert_eq!(Quantiles::of(rounds), Quantiles { p10: 5.0, median: 21.0, p90: 37.0 });
        assert_eq!(Quantiles::of(vec![3.0]).less(4.0), Quantiles { p10: 0.0, median: 0.0, p90: 0.0 });
    }

    #[test]
    fn one_cpu_pair_is_measured_per_distance() {
        let topology = Topology::of_groups(&[0, 0, 1, 2], &[0, 0, 0, 1], &[0, 0, 0, 1]);
        let all = CpuSet::first_n(4);
        let found: Vec<_> = pairs(&topology, &all).into_iter().map(|(_, key, a, b)| (key, a.0, b.0)).collect();
        assert_eq!(
            found,
            [
                ("locks.line_transfer_ns.smt", 0, 1),
                ("locks.line_transfer_ns.llc", 0, 2),
                ("locks.line_transfer_ns.far", 0, 3)
            ]
        );
        assert_eq!(pairs(&topology, &CpuSet::first_n(1)), []);
    }

    /// Checks only that everything is measured, in order; times depend on the host.
    #[test]
    fn all_quantities_are_measured_on_this_machine() {
        let usable = crate::hardware::usable().unwrap();
        let topology = Topology::flat(usable.iter().map(|cpu| cpu.0 + 1).max().unwrap());
        let mut steps = 0;
        let all = measure(&topology, &usable, Scope::All, &mut |_| steps += 1);
        assert!(steps >= 3);
        let keys = |all: &[Quantity]| all.iter().filter_map(|quantity| quantity.key).collect::<Vec<_>>();
        let few = measure(&topology, &usable, Scope::Keys, &mut |_| ());
        assert_eq!(keys(&few), keys(&all));
        assert_eq!(few.len(), keys(&all).len(), "only quantities with keys");
        for quantity in &all {
            let Quantiles { p10, median, p90 } = quantity.value;
            assert!(0.0 <= p10 && p10 <= median && median <= p90 && p90.is_finite(), "{quantity:?}");
        }
        let has = |key| all.iter().any(|quantity| quantity.key == Some(key));
        assert!(has("costs.context_switch_ns"));
        let futex = all.iter().find(|quantity| quantity.key == Some("locks.futex_ns")).unwrap();
        assert!(futex.value.p10 > 1.0, "a system call takes more than 1 ns: {futex:?}");
        assert_eq!(has("locks.line_transfer_ns.llc"), usable.len() > 1);
        let kept = all.iter().find(|quantity| quantity.what.starts_with("atomic additions per"));
        assert_eq!(kept.is_some(), usable.len() > 1);
        assert!(kept.is_none_or(|kept| kept.value.p10 >= 1.0), "the owner of the line adds at least once");
    }
}
