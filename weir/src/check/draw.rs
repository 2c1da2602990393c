// SPDX-License-Identifier: GPL-2.0-only
//! Cases: a machine, a workload and what happens to the machine, all in the words of the command line.
//!
//! Three kinds, as properties need them. *Mixed* workloads sleep and wake and come late: most properties can break there.
//! In *steady* ones the same tasks want a CPU all the time. *Long* ones are steady for more than ten seconds, which is what CFS
//! is given to find an idle CPU. Who promises something of groups, of caps or of windows has them
//! drawn. What is seen only in runs that were made for it has cases of its own, three in four: [`shares`] and [`gangs`].

mod caps;
mod gangs;
mod shares;

use crate::select;
use anyhow::Result;
use ids::{CpuId, CpuSet, Nanos};
use invariants::{GangsBy, Promises, WeightedShare, Weights};

/// One run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    pub machine: String,
    pub workload: String,
    pub duration_ms: u64,
    pub seed: u64,
    pub faults: Option<String>,
    /// Without threads of the kernel, which noise draws otherwise.
    pub undisturbed: bool,
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
/// Those of which a real-time version leaves time to others.
const LIGHT: [&str; 3] = ["pingpong", "noise", "latency"];
/// Workloads whose tasks never sleep: two tasks, and eight.
const STEADY: [&str; 2] = ["pair", "hogs"];

/// Its tasks have windows.
const STREAMS: &str = "streams";

/// How long jobs settle where nothing else is promised.
const GANG_SETTLES: Nanos = Nanos::from_ms(500);

/// When the last absence of a CPU is over.
const ABSENT_MS: u64 = 500;

/// What promises need to be broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// Tasks in groups.
    groups: bool,
    /// Groups with caps.
    caps: bool,
    /// Tasks with windows.
    windows: bool,
    /// Tasks that share CPUs by weight.
    share: Option<WeightedShare>,
    /// Jobs that fit on a machine.
    jobs: Option<Jobs>,
}

/// What jobs are, and how long they settle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Jobs {
    by: GangsBy,
    settles: Nanos,
}

impl Needs {
    pub fn of(promises: &Promises) -> Needs {
        let share = promises.weighted_share;
        let by_groups = share.is_some_and(|share| share.by == Weights::Groups);
        let (by, settles) = (promises.gang_by, promises.gang_settles.unwrap_or(GANG_SETTLES));
        let jobs = promises.corun_percent.map(|_| Jobs { by, settles });
        Needs { groups: jobs.is_some() || by_groups, caps: promises.caps, windows: promises.windows, share, jobs }
    }
}

/// What happens on a machine.
struct Play {
    workload: Vec<String>,
    duration_ms: u64,
    faults: Option<String>,
    undisturbed: bool,
}

impl Case {
    /// The case of this number; the same on every host and for all schedulers with the same needs.
    ///
    /// # Errors
    /// If a shipped machine cannot be read.
    pub fn draw(number: u64, needs: Needs) -> Result<Case> {
        let mut dice = Dice(number);
        // Who promises caps as well has half of them.
        let of_their_own =
            (needs.share.is_some() || needs.jobs.is_some()) && dice.below(if needs.caps { 2 } else { 4 }) > 0;
        let kind = dice.below(10);
        let jobs = needs.jobs.filter(|_| of_their_own && (needs.share.is_none() || dice.below(2) == 0));
        let share = needs.share.filter(|_| of_their_own && jobs.is_none());
        let whole = share.filter(|share| share.whole);
        let machine = match (jobs, whole) {
            (Some(_), _) => dice.machine_of(2, u32::MAX)?,
            (None, Some(share)) => dice.machine_of(1, share.cpus)?,
            (None, None) => dice.machine(),
        };
        let online: Vec<CpuId> = select::machine(&machine)?.online_cpus().iter().collect();
        let play = match (jobs, share) {
            (Some(jobs), _) => gangs::draw(&mut dice, &online, jobs),
            (None, Some(share)) => shares::draw(&mut dice, &online, share),
            (None, None) => Play::draw(&mut dice, &online, kind, needs),
        };
        let seed = if dice.below(4) == 0 { 0 } else { number };
        let Play { workload, duration_ms, faults, undisturbed } = play;
        Ok(Case { machine, workload: workload.join("+"), duration_ms, seed, faults, undisturbed })
    }
}

impl Play {
    fn draw(dice: &mut Dice, online: &[CpuId], kind: u64, needs: Needs) -> Play {
        let last = online.len() as u64 - 1;
        let (names, parts, duration_ms): (&[&str], u64, u64) = match kind {
            0 => (&STEADY, 2, 11_500),
            1..=3 => (&STEADY, 3, 1_500 + 100 * dice.below(15)),
            _ => (&MIXED, 3, 300 + 100 * dice.below(8)),
        };
        let mut workload = Vec::new();
        let mut caps = caps::Caps::draw(needs.caps, dice);
        for _ in 0..=dice.below(parts) {
            let name = *dice.one_of(names);
            let mut part = dice.part(name, last);
            if needs.groups && dice.below(4) > 0 {
                part += &format!(",group=/g{}", dice.below(3));
            }
            part += &caps.of_part(dice);
            workload.push(part);
        }
        if needs.windows && dice.below(4) > 0 {
            workload.push(dice.part(STREAMS, last));
        }
        // What steady tasks have to share is where the difficulty is: sometimes somebody else is there as well.
        if kind <= 3 && dice.below(3) == 0 {
            workload.push("noise".to_owned());
        }
        let faults = (kind > 3 && last > 0 && dice.below(6) == 0).then(|| dice.absence(&online[1..]));
        Play { workload, duration_ms, faults, undisturbed: false }
    }
}

/// These CPUs, as a part of a workload is given them.
fn on(cpus: &[CpuId]) -> String {
    format!(",cpus={}", cpus.iter().copied().collect::<CpuSet>().to_string().replace(',', "\\,"))
}

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut drawn = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (drawn ^ (drawn >> 31)) % end
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }

    /// A preset, or a machine of at most 16 CPUs; one in ten has one.
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

    /// One of at least and at most so many CPUs.
    fn machine_of(&mut self, least: u32, most: u32) -> Result<String> {
        loop {
            let machine = self.machine();
            let cpus = select::machine(&machine)?.online_cpus().len() as u32;
            if (least..=most).contains(&cpus) {
                return Ok(machine);
            }
        }
    }

    /// One of these CPUs goes offline and comes back, within [`ABSENT_MS`].
    fn absence(&mut self, cpus: &[CpuId]) -> String {
        let (cpu, from) = (self.one_of(cpus), 50 + self.below(200));
        format!("cpu{cpu}:offline@{from}ms,cpu{cpu}:online@{}ms", from + 20 + self.below(200))
    }

    /// A part of a workload on CPUs 0 to `last`.
    fn part(&mut self, name: &str, last: u64) -> String {
        let mut part = name.to_owned();
        let steady = STEADY.contains(&name);
        if self.below(2) == 0 {
            part += &format!(",nice={}", self.below(30) as i64 - 10);
        }
        // Shares are promised of one CPU more often than of all.
        match self.below(if steady { 3 } else { 6 }) {
            0 => part += &format!(",cpus={}", self.below(last + 1)),
            1 => {
                let first = self.below(last + 1);
                part += &format!(",cpus={first}-{}", first + self.below(last + 1 - first));
            }
            _ => {}
        }
        match self.below(12) {
            0 => part += ",policy=batch",
            1 => part += ",policy=idle",
            2 if LIGHT.contains(&name) => part += ",policy=fifo:5",
            3 | 4 if !steady => part += ",count=2",
            5 | 6 if !steady => part += &format!(",start={}ms", self.below(300)),
            _ => {}
        }
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_case_and_numbers_differ() {
        let cases: Vec<Case> = (1..200).map(|number| Case::draw(number, Needs::default()).unwrap()).collect();
        assert_eq!(cases[4], Case::draw(5, Needs::default()).unwrap());
        let count = |what: &dyn Fn(&Case) -> bool| cases.iter().filter(|case| what(case)).count();
        assert!((5..40).contains(&count(&|case| case.duration_ms > 10_000)), "long ones");
        assert!(count(&|case| case.faults.is_some()) > 5 && count(&|case| case.seed == 0) > 20);
        assert!(count(&|case| case.workload.contains("policy=fifo")) > 1);
        let machines: std::collections::BTreeSet<&str> = cases.iter().map(|case| case.machine.as_str()).collect();
        assert!(machines.len() > 15, "{machines:?}");
    }

    /// All of them can be run: names exist, and CPUs are there.
    #[test]
    fn cases_are_what_the_command_line_takes() {
        let groups = Needs { groups: true, windows: true, ..Needs::default() };
        let share = |by| WeightedShare { by, ..WeightedShare::new(2, 1) };
        let [shares, by_groups] = [Weights::Nice, Weights::Groups].map(|by| Needs { share: Some(share(by)), ..groups });
        let whole = Needs { share: Some(WeightedShare { whole: true, ..share(Weights::Groups) }), ..groups };
        let jobs = Needs { jobs: Some(Jobs { by: GangsBy::Groups, settles: GANG_SETTLES }), ..groups };
        let capped = Needs { caps: true, ..Needs::default() };
        let all = [Needs::default(), groups, shares, by_groups, jobs, whole, capped];
        let drawn = |number| all.map(|needs| Case::draw(number, needs).unwrap());
        let grouped = (1..100).filter(|number| drawn(*number)[1].workload.contains("group=/g")).count();
        assert!(grouped > 60, "{grouped}");
        let streams = (1..100).filter(|number| drawn(*number)[1].workload.contains(STREAMS)).count();
        assert!((60..90).contains(&streams), "{streams}");
        let caps = |kind: &str| (1..100).filter(|number| drawn(*number)[6].workload.contains(kind)).count();
        assert!((30..60).contains(&caps("cap=")), "{}", caps("cap="));
        assert!(
            caps(",hard-cap=") > 25 && caps(",cap=") > 10 && caps("/c0/c1") > 3,
            "hard ones, soft ones, one in another"
        );
        let with = |index: usize, what: &dyn Fn(&Case) -> bool| (1..100).filter(|it| what(&drawn(*it)[index])).count();
        let of_weights = with(2, &|case| case.workload.contains("hog,cpus="));
        let of_groups = with(3, &|case| case.workload.contains(",weight="));
        let of_jobs = with(4, &|case| case.workload.starts_with("hog,count="));
        // A whole machine of one CPU or two: no part is bound to a CPU.
        let of_all = with(5, &|case| case.workload.starts_with("hog,count=") && case.workload.contains(",weight="));
        let made_for_it = [of_weights, of_groups, of_jobs, of_all];
        assert!(made_for_it.iter().all(|count| (60..90).contains(count)), "{made_for_it:?}");
        for case in (1..100).flat_map(drawn) {
            let cpus = select::machine(&case.machine).unwrap().online_cpus().len() as u32;
            select::workload(&case.workload, cpus).unwrap_or_else(|error| panic!("{case:?}: {error:#}"));
            assert!(case.faults.iter().all(|faults| select::faults(faults).is_ok()), "{case:?}");
        }
    }
}
