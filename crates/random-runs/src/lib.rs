// SPDX-License-Identifier: GPL-2.0-only
//! Random runs that test a scheduler: a machine, a workload and possibly a fault plan, all written as command-line
//! options of `weir sim`.
//!
//! There are three kinds. *Mixed* workloads sleep, wake and start late; most properties can be violated there. In
//! *steady* workloads the same tasks are runnable all the time. *Long* workloads are steady for more than 10 s, the
//! time that CFS is given to find an idle CPU. Groups, caps and windows are generated for schedulers whose promises
//! concern them. Promises that can be checked only in purpose-built runs get three quarters of the cases: see
//! [`shares`] and [`gangs`].
//!
//! Each of the other cases uses a random subset of the features that a run can have ([`features`]): what a scheduler
//! does wrong with one of them is often hidden by another. A failing case is made smaller by [`Case::smaller`].

mod caps;
mod features;
mod gangs;
mod shares;
mod shrink;

use features::Features;
use ids::{CpuId, CpuSet, Nanos};
use invariants::{GangsBy, Promises, WeightedShare, Weights};
use machine_model::{Machine, MachineError};

/// A test case: one run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// Preset or hwloc synthetic string.
    pub machine: String,
    /// Composed workload.
    pub workload: String,
    /// Duration in ms.
    pub duration_ms: u64,
    /// Random seed of the run; 0 is the nominal run.
    pub seed: u64,
    /// Fault plan of one line.
    pub faults: Option<String>,
    /// Without the background kthreads that the noise model otherwise adds.
    pub undisturbed: bool,
    /// Whether the kernel's operations are interleaved at lock waits (`+waiting`).
    pub interleaved: bool,
}

const PRESETS: [&str; 6] = ["laptop-2c4t", "desktop-4c", "hybrid-laptop", "raspberry-pi-2", "rx2600", "itanium-12"];

/// Workloads whose tasks sleep.
const MIXED: [&str; 11] = [
    "periodic-4",
    "pingpong",
    "preempt-mix",
    "video",
    "lock",
    "slice-edge",
    "build",
    "desktop",
    "film-25",
    "latency",
    "noise",
];
/// Workloads that leave time to other tasks even under a real-time policy.
const LIGHT: [&str; 3] = ["pingpong", "noise", "latency"];
/// Workloads whose tasks never sleep: two tasks, and eight.
const STEADY: [&str; 2] = ["pair", "hogs"];

/// Workload whose tasks have windows.
const STREAMS: &str = "streams";

/// Settling time of jobs unless the scheduler promises another.
const GANG_SETTLES: Nanos = Nanos::from_ms(500);

/// Latest time at which an offlined CPU is back online, in ms.
const ABSENT_MS: u64 = 500;

/// Features that a case needs so that the scheduler's promises can be checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// Tasks in groups.
    pub groups: bool,
    /// Groups with caps.
    pub caps: bool,
    /// Tasks with windows.
    pub windows: bool,
    /// Tasks that share CPUs by weight.
    pub share: Option<WeightedShare>,
    /// Jobs that fit on a machine.
    pub jobs: Option<Jobs>,
    /// Timeout of the scheduler's watchdog in ms; 0 without one.
    pub watchdog_ms: u64,
    /// Whether the scheduler can run with interleaved operations.
    pub interleaving: bool,
}

/// How jobs are marked, and their settling time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Jobs {
    /// How the tasks of a job are marked.
    pub by: GangsBy,
    /// Time after which jobs run together.
    pub settles: Nanos,
}

impl Needs {
    /// Features that these promises need.
    pub fn of(promises: &Promises) -> Needs {
        let share = promises.weighted_share;
        let by_groups = share.is_some_and(|share| share.by == Weights::Groups);
        let (by, settles) = (promises.gang_by, promises.gang_settles.unwrap_or(GANG_SETTLES));
        let jobs = promises.corun_percent.map(|_| Jobs { by, settles });
        let (caps, windows) = (promises.caps, promises.windows);
        Needs { groups: jobs.is_some() || by_groups, caps, windows, share, jobs, watchdog_ms: 0, interleaving: false }
    }
}

/// Everything in a case except the machine and the seed.
struct Scenario {
    workload: Vec<String>,
    duration_ms: u64,
    faults: Option<String>,
    undisturbed: bool,
}

impl Case {
    /// Generates case `number`, which is the same on every host and for all schedulers with the same needs.
    ///
    /// # Errors
    /// If a shipped machine cannot be read.
    pub fn generate(number: u64, needs: Needs) -> Result<Case, MachineError> {
        let mut rng = Rng(number);
        // If caps are promised too, they need half of the cases.
        let purpose_built =
            (needs.share.is_some() || needs.jobs.is_some()) && rng.below(if needs.caps { 2 } else { 4 }) > 0;
        let kind = rng.below(10);
        let jobs = needs.jobs.filter(|_| purpose_built && (needs.share.is_none() || rng.below(2) == 0));
        let share = needs.share.filter(|_| purpose_built && jobs.is_none());
        let whole = share.filter(|share| share.whole);
        let machine = match (jobs, whole) {
            (Some(_), _) => rng.machine_of(2, u32::MAX)?,
            (None, Some(share)) => rng.machine_of(1, share.cpus)?,
            (None, None) => rng.machine(),
        };
        let online: Vec<CpuId> = machine_named(&machine)?.online_cpus().iter().collect();
        // A case for jobs or shares has a workload of its own, in which no feature is left out.
        let features = if jobs.is_some() || share.is_some() { Features::ALL } else { Features::generate(number) };
        let mut scenario = match (jobs, share) {
            (Some(jobs), _) => gangs::generate(&mut rng, &online, jobs),
            (None, Some(share)) => shares::generate(&mut rng, &online, share),
            (None, None) => Scenario::generate(&mut rng, &online, kind, needs, features),
        };
        if features.away {
            features::take_away(number, &mut scenario, &online, needs.watchdog_ms);
        }
        let seed = if rng.below(4) == 0 { 0 } else { number };
        let Scenario { workload, duration_ms, faults, undisturbed } = scenario;
        let (workload, interleaved) = (workload.join("+"), features.interleaved && needs.interleaving);
        Ok(Case { machine, workload, duration_ms, seed, faults, undisturbed, interleaved })
    }
}

impl Scenario {
    fn generate(rng: &mut Rng, online: &[CpuId], kind: u64, needs: Needs, features: Features) -> Scenario {
        let last = online.len() as u64 - 1;
        let (names, parts, duration_ms): (&[&str], u64, u64) = match kind {
            0 => (&STEADY, 2, 11_500),
            1..=3 => (&STEADY, 3, 1_500 + 100 * rng.below(35)),
            _ => (&MIXED, 3, 300 + 100 * rng.below(8)),
        };
        let mut workload = Vec::new();
        let mut caps = caps::Caps::generate(needs.caps, rng);
        for _ in 0..=rng.below(parts) {
            let name = *rng.one_of(names);
            let mut part = rng.part(name, last, features);
            if needs.groups && rng.below(4) > 0 {
                part += &format!(",group=/g{}", rng.below(3));
            }
            part += &caps.of_part(rng);
            workload.push(part);
        }
        if needs.windows && rng.below(4) > 0 {
            workload.push(rng.part(STREAMS, last, features));
        }
        // How steady tasks share the CPUs is the difficult part; now and then background tasks disturb them.
        if kind <= 3 && rng.below(3) == 0 {
            workload.push("noise".to_owned());
        }
        let faults = (kind > 3 && last > 0 && rng.below(6) == 0).then(|| rng.absence(&online[1..]));
        // The run outlasts the fault, since a CPU that is still going offline at the end looks idle.
        let duration_ms = if faults.is_some() { duration_ms.max(2 * ABSENT_MS) } else { duration_ms };
        Scenario { workload, duration_ms, faults, undisturbed: false }
    }
}

/// The machine that a case names.
pub(crate) fn machine_named(name: &str) -> Result<Machine, MachineError> {
    if name.contains(':') { Machine::from_synthetic(name) } else { Machine::preset(name) }
}

/// The `cpus=` key of a workload part that is pinned to these CPUs.
fn on(cpus: &[CpuId]) -> String {
    format!(",cpus={}", cpus.iter().copied().collect::<CpuSet>().to_string().replace(',', "\\,"))
}

/// Random number generator: SplitMix64 (Steele, Lea and Flood 2014).
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }

    /// A preset, or a synthetic machine of at most 16 CPUs; one in ten machines has a single CPU.
    fn machine(&mut self) -> String {
        match self.below(10) {
            0 => "core:1 pu:1".to_owned(),
            1..=4 => (*self.one_of(&PRESETS)).to_owned(),
            _ => {
                let (nodes, cores, threads) = (1 + self.below(2), 1 + self.below(4), 1 + self.below(2));
                format!("node:{nodes} core:{cores} pu:{threads}")
            }
        }
    }

    /// A machine with `least` to `most` CPUs.
    fn machine_of(&mut self, least: u32, most: u32) -> Result<String, MachineError> {
        loop {
            let machine = self.machine();
            let cpus = machine_named(&machine)?.online_cpus().len() as u32;
            if (least..=most).contains(&cpus) {
                return Ok(machine);
            }
        }
    }

    /// Fault plan that takes one of these CPUs offline and brings it back within [`ABSENT_MS`].
    fn absence(&mut self, cpus: &[CpuId]) -> String {
        let (cpu, from) = (self.one_of(cpus), 50 + self.below(200));
        format!("cpu{cpu}:offline@{from}ms,cpu{cpu}:online@{}ms", from + 20 + self.below(200))
    }

    /// A workload part that may be pinned to some of CPUs 0 to `last`.
    fn part(&mut self, name: &str, last: u64, features: Features) -> String {
        let mut part = name.to_owned();
        let steady = STEADY.contains(&name);
        // Each choice is made whether its feature is used or not, so that the others do not depend on it.
        let mut key = |used: bool, key: String| part += if used { &key } else { "" };
        if self.below(2) == 0 {
            key(features.nice, format!(",nice={}", self.below(30) as i64 - 10));
        }
        // Parts with promised shares are pinned to one CPU more often than to several, because they are easier to check
        // there.
        match self.below(if steady { 3 } else { 6 }) {
            0 => key(features.pinned, format!(",cpus={}", self.below(last + 1))),
            1 => {
                let first = self.below(last + 1);
                key(features.pinned, format!(",cpus={first}-{}", first + self.below(last + 1 - first)));
            }
            _ => {}
        }
        match self.below(12) {
            0 => key(features.policies, ",policy=batch".to_owned()),
            1 => key(features.policies, ",policy=idle".to_owned()),
            2 if LIGHT.contains(&name) => key(features.policies, ",policy=fifo:5".to_owned()),
            3 | 4 if !steady => key(features.counts, ",count=2".to_owned()),
            5 | 6 if !steady => key(features.counts, format!(",start={}ms", self.below(300))),
            _ => {}
        }
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_reproducible_and_vary_with_the_number() {
        let cases: Vec<Case> = (1..200).map(|number| Case::generate(number, Needs::default()).unwrap()).collect();
        assert_eq!(cases[4], Case::generate(5, Needs::default()).unwrap());
        let count = |what: &dyn Fn(&Case) -> bool| cases.iter().filter(|case| what(case)).count();
        assert!((5..40).contains(&count(&|case| case.duration_ms > 10_000)), "long ones");
        assert!(count(&|case| case.faults.is_some()) > 5 && count(&|case| case.seed == 0) > 20);
        assert!(count(&|case| case.workload.contains("policy=fifo")) > 1);
        let machines: std::collections::BTreeSet<&str> = cases.iter().map(|case| case.machine.as_str()).collect();
        assert!(machines.len() > 15, "{machines:?}");
    }

    #[test]
    fn cases_have_the_features_that_the_promises_need() {
        let groups = Needs { groups: true, windows: true, ..Needs::default() };
        let share = |by| WeightedShare { by, ..WeightedShare::new(2, 1) };
        let [shares, by_groups] = [Weights::Nice, Weights::Groups].map(|by| Needs { share: Some(share(by)), ..groups });
        let whole = Needs { share: Some(WeightedShare { whole: true, ..share(Weights::Groups) }), ..groups };
        let jobs = Needs { jobs: Some(Jobs { by: GangsBy::Groups, settles: GANG_SETTLES }), ..groups };
        let capped = Needs { caps: true, ..Needs::default() };
        let all = [Needs::default(), groups, shares, by_groups, jobs, whole, capped];
        let generated = |number| all.map(|needs| Case::generate(number, needs).unwrap());
        let grouped = (1..100).filter(|number| generated(*number)[1].workload.contains("group=/g")).count();
        assert!(grouped > 60, "{grouped}");
        let streams = (1..100).filter(|number| generated(*number)[1].workload.contains(STREAMS)).count();
        assert!((60..90).contains(&streams), "{streams}");
        let caps = |kind: &str| (1..100).filter(|number| generated(*number)[6].workload.contains(kind)).count();
        assert!((30..60).contains(&caps("cap=")), "{}", caps("cap="));
        assert!(
            caps(",hard-cap=") > 25 && caps(",cap=") > 10 && caps("/c0/c1") > 3,
            "hard ones, soft ones, one in another"
        );
        let with =
            |index: usize, what: &dyn Fn(&Case) -> bool| (1..100).filter(|it| what(&generated(*it)[index])).count();
        let of_weights = with(2, &|case| case.workload.contains("hog,cpus="));
        let of_groups = with(3, &|case| case.workload.contains(",weight="));
        let of_jobs = with(4, &|case| case.workload.starts_with("hog,count="));
        // On a whole machine of one or two CPUs no part is pinned.
        let of_all = with(5, &|case| case.workload.starts_with("hog,count=") && case.workload.contains(",weight="));
        let purpose_built = [of_weights, of_groups, of_jobs, of_all];
        assert!(purpose_built.iter().all(|count| (60..90).contains(count)), "{purpose_built:?}");
    }
}
