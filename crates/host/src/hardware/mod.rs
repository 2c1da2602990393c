// SPDX-License-Identifier: GPL-2.0-only
//! Costs of this machine that a program in user space can time without privileges.
//!
//! 1. Each quantity is measured in many short rounds, and reported as the quantiles of these at 10, 50 and 90 %: others use
//!    the machine at times, and their rounds are the outliers.
//! 2. Threads are pinned, one to a CPU. Pairs of CPUs are one for each distance that the machine has.
//! 3. What cannot be told apart here is said so, by [`UNMEASURED`]; nothing is guessed.

pub mod handover;
mod threads;
pub use threads::{Padded, on, pinned};

use handover::OnOneCpu;
use ids::{CpuId, CpuSet, Locality, Topology};
use std::time::Duration;

/// Rounds of each quantity.
pub const ROUNDS: usize = 41;

/// What a quantity was in the rounds, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Quantiles {
    /// A tenth of the rounds had less.
    pub p10: f64,
    /// Half of them had less.
    pub median: f64,
    /// A tenth of them had more.
    pub p90: f64,
}

impl Quantiles {
    /// Of any number of rounds but none.
    pub fn of(mut rounds: Vec<f64>) -> Quantiles {
        rounds.sort_by(f64::total_cmp);
        let at = |percent: usize| rounds[(rounds.len() - 1) * percent / 100];
        Quantiles { p10: at(10), median: at(50), p90: at(90) }
    }

    /// Less by so much, but never negative.
    pub fn less(self, by: f64) -> Quantiles {
        let less = |value: f64| (value - by).max(0.0);
        Quantiles { p10: less(self.p10), median: less(self.median), p90: less(self.p90) }
    }

    /// Each by so much.
    pub fn divided(self, by: f64) -> Quantiles {
        Quantiles { p10: self.p10 / by, median: self.median / by, p90: self.p90 / by }
    }
}

/// A number of the machine.
#[derive(Clone, Debug)]
pub struct Quantity {
    /// Its key in a machine file, if it is one of those; `locks.line_transfer_ns.llc` stands for that place of the list.
    pub key: Option<&'static str>,
    /// What was measured, in words.
    pub what: String,
    /// How much, in nanoseconds unless `what` names another unit.
    pub value: Quantiles,
}

/// What a program in user space cannot find out, and why.
pub const UNMEASURED: [&str; 7] = [
    "smt, turbo, frequencies, idle states: kernel and hypervisor hide them",
    "ipi_ns and idle_exit_ns apart: a wakeup of an idle CPU is both and more",
    "fork_ns apart from the system call around it",
    "callback_ns and call_ns of kfuncs: they run inside the kernel",
    "tick_ns apart from what a hypervisor takes at the same time",
    "locks.wakeup_hold_ns: the kernel's locks cannot be timed from outside",
    "newidle_ratio, unless it stands above: only root can read it, and not every kernel has it",
];

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// All that there is: some seven seconds on two CPUs.
    All,
    /// What has a key in machine files: less than a second there.
    Keys,
}

/// The CPUs that this process may use.
///
/// # Errors
/// If the kernel does not say.
pub fn usable() -> std::io::Result<CpuSet> {
    threads::usable()
}

/// Measures on CPUs that are online and that this process may use.
pub fn measure(topology: &Topology, usable: &CpuSet, scope: Scope, progress: &mut dyn FnMut(&str)) -> Vec<Quantity> {
    let (mut all, whole) = (Vec::new(), scope == Scope::All);
    let mut add = |key, what: &str, value| all.push(Quantity { key, what: what.to_owned(), value });
    let here = usable.first().expect("this program runs somewhere");
    progress("the clock, and gaps in a loop that reads it");
    if whole {
        add(None, "reading the clock", threads::clock(here));
    }
    let (gap, each_second) = threads::gaps(here);
    add(Some("costs.tick_ns"), "gaps above 400 ns of a spinning reader", gap);
    if whole {
        add(None, "how many such gaps a second", each_second);
    }
    progress("switches and wakeups");
    if whole {
        add(None, "sched_yield() alone, CPU time", handover::yields(here, 1));
    }
    let mut near = OnOneCpu::default();
    for _ in 0..VISITS {
        near.visit(here);
        std::thread::sleep(BETWEEN_VISITS);
    }
    add(Some("costs.context_switch_ns"), "the same to another thread, less that", near.switch());
    add(Some("costs.wakeup_ns"), "waking a thread of this CPU, and sleeping", near.wake());
    add(Some("locks.futex_ns"), "a call of futex that wakes nobody", threads::futex(here));
    for (distance, key, a, b) in pairs(topology, usable) {
        progress(&format!("CPUs {a} and {b}, {distance}"));
        add(Some(key), &format!("cache line, CPU {a} to {b}, {distance}"), threads::line(a, b));
        if whole {
            add(None, &format!("wakeup of idle CPU {b} by {a}"), threads::wakeup(a, b));
        }
        let mut far = |key, work: Duration| {
            let what = format!("what waking CPU {b} takes {a} more than its own, after {} us", work.as_micros());
            let own = near.switch().median + near.wake().median;
            add(key, &what, handover::handover(a, b, FAR_HANDOVERS, work).less(own));
        };
        far(Some("costs.ipi_send_ns"), handover::CLOSE);
        // Where a hypervisor gives idle CPUs away, there is a step among these.
        let between = BETWEEN_US.iter().filter(|_| whole);
        between.for_each(|us| far(None, Duration::from_micros(*us)));
        far(Some("halt.send_ns"), handover::APART);
        if !whole {
            continue;
        }
        add(None, &format!("additions while CPU {a} or {b} keeps the line, both adding"), threads::residency(a, b));
    }
    if whole {
        progress("the speed of a CPU after idling");
        add(None, "percent slower at first after 300 ms idle", threads::ramp(here));
    }
    all
}

/// One pair of CPUs for each distance.
pub fn pairs(topology: &Topology, usable: &CpuSet) -> Vec<(&'static str, &'static str, CpuId, CpuId)> {
    const DISTANCES: [(Locality, &str, &str); 4] = [
        (Locality::Smt, "within a core", "locks.line_transfer_ns.smt"),
        (Locality::Llc, "below one cache", "locks.line_transfer_ns.llc"),
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

/// How often switches and wakeups are measured, and how long after each other: see [`handover`].
const VISITS: usize = 8;

const BETWEEN_VISITS: Duration = Duration::from_millis(50);

/// How often a thread hands over to one of another CPU.
const FAR_HANDOVERS: u32 = 200;

/// How long that CPU idles before it, beside the two lengths that recordings tell apart.
const BETWEEN_US: [u64; 3] = [100, 150, 200];

/// How long a loop of a lock benchmark runs.
pub const LOCK_ROUND: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_sorted_rounds() {
        let rounds = (1..=41).rev().map(f64::from).collect();
        assert_eq!(Quantiles::of(rounds), Quantiles { p10: 5.0, median: 21.0, p90: 37.0 });
        assert_eq!(Quantiles::of(vec![3.0]).less(4.0), Quantiles { p10: 0.0, median: 0.0, p90: 0.0 });
    }

    #[test]
    fn there_is_a_pair_for_each_distance_of_the_machine() {
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

    /// Nothing here may depend on how long anything takes: only that all of it is measured, and in order.
    #[test]
    fn this_machine_can_be_measured() {
        let usable = crate::hardware::usable().unwrap();
        let topology = Topology::flat(usable.iter().map(|cpu| cpu.0 + 1).max().unwrap());
        let mut steps = 0;
        let all = measure(&topology, &usable, Scope::All, &mut |_| steps += 1);
        assert!(steps >= 3);
        let keys = |all: &[Quantity]| all.iter().filter_map(|quantity| quantity.key).collect::<Vec<_>>();
        let few = measure(&topology, &usable, Scope::Keys, &mut |_| ());
        assert_eq!(keys(&few), keys(&all));
        assert_eq!(few.len(), keys(&all).len(), "nothing else");
        for quantity in &all {
            let Quantiles { p10, median, p90 } = quantity.value;
            assert!(0.0 <= p10 && p10 <= median && median <= p90 && p90.is_finite(), "{quantity:?}");
        }
        let has = |key| all.iter().any(|quantity| quantity.key == Some(key));
        assert!(has("costs.context_switch_ns"));
        let futex = all.iter().find(|quantity| quantity.key == Some("locks.futex_ns")).unwrap();
        assert!(futex.value.p10 > 1.0, "the kernel is entered: {futex:?}");
        assert_eq!(has("locks.line_transfer_ns.llc"), usable.len() > 1);
        let kept = all.iter().find(|quantity| quantity.what.starts_with("additions while"));
        assert_eq!(kept.is_some(), usable.len() > 1);
        assert!(kept.is_none_or(|kept| kept.value.p10 >= 1.0), "whoever has the line adds at least once");
    }
}
