// SPDX-License-Identifier: GPL-2.0-only
//! A fault plan: what happens to a machine at which time of a run. The simulator carries it out on a simulated machine;
//! the same plan can be written to `/sys/devices/system/cpu` and `/sys/power` of a real one.
//!
//! In one line:
//! `cpu2:clock+1s@500ms,cpu2:drift-200ppm@0s,cpu3:offline@1s,cpu1-2:offline@2s,cpu3:online@3s,suspend@4s+500ms`.
//! As a file:
//!
//! ```toml
//! [[fault]]
//! at = "1s"
//! offline = "3"      # or online = "1-2", or suspend = "500ms"
//!
//! [[fault]]
//! at = "2s"
//! cpus = "1"
//! clock = "+1s"      # or drift = "-200ppm"
//! ```
//!
//! Faults happen in the order of their times, and as they stand where these are equal.

mod file;

use ids::{CpuId, CpuSet, Nanos};
use std::fmt;
use std::str::FromStr;

/// CPU that never goes offline: kernels for x86 cannot take down the one that booted.
pub const BOOT_CPU: CpuId = CpuId(0);

/// What happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// The CPU is taken down.
    Offline(CpuId),
    /// The CPU is brought up.
    Online(CpuId),
    /// The CPU's clock is wrong from now on: a simulated machine only.
    Clock(CpuId, ClockFault),
    /// The machine sleeps and wakes so much later, not counting what falling asleep takes.
    Suspend(Nanos),
}

/// What becomes of a clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClockFault {
    /// It steps by so many nanoseconds.
    Step(i64),
    /// It gains or loses so many parts per million.
    Drift(i32),
}

impl fmt::Display for ClockFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ClockFault::Step(by) => {
                write!(f, "clock{}{}", if by < 0 { '-' } else { '+' }, Nanos(by.unsigned_abs()).exact())
            }
            ClockFault::Drift(ppm) => write!(f, "drift{ppm:+}ppm"),
        }
    }
}

impl FromStr for ClockFault {
    type Err = ();

    /// `clock+1s`, `clock-20us`, `drift+200ppm`; a clock that loses more than all does not exist.
    fn from_str(text: &str) -> Result<ClockFault, ()> {
        if let Some(by) = text.strip_prefix("clock") {
            let (sign, by) = by.split_at_checked(1).ok_or(())?;
            let by = i64::try_from(by.parse::<Nanos>().map_err(drop)?.0).map_err(drop)?;
            return match sign {
                "+" => Ok(ClockFault::Step(by)),
                "-" => Ok(ClockFault::Step(-by)),
                _ => Err(()),
            };
        }
        let ppm = text.strip_prefix("drift").and_then(|drift| drift.strip_suffix("ppm")).ok_or(())?;
        let signed = ppm.starts_with(['+', '-']);
        let ppm = ppm.parse().ok().filter(|ppm: &i32| signed && ppm.unsigned_abs() < 1_000_000);
        ppm.map(ClockFault::Drift).ok_or(())
    }
}

/// Something that happens at a time, counted from the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// When.
    pub at: Nanos,
    /// What.
    pub action: Action,
}

/// All that happens in a run, by time. Each CPU goes and comes in turn, and CPU 0 stays.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct FaultPlan {
    faults: Vec<Fault>,
}

/// Why a plan cannot be read, or does not fit.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct FaultError {
    /// The fault as it is spelled, or file and line.
    place: String,
    /// What was expected.
    problem: String,
}

impl FaultError {
    fn new(place: impl Into<String>, problem: impl Into<String>) -> FaultError {
        FaultError { place: place.into(), problem: problem.into() }
    }
}

impl FaultPlan {
    /// From faults and the place where each was found. They are sorted by time.
    fn checked(mut found: Vec<(String, Fault)>) -> Result<FaultPlan, FaultError> {
        found.sort_by_key(|(_, fault)| fault.at);
        // Whether a CPU is there at first is the machine's affair.
        let (mut offline, mut online) = (CpuSet::new(), CpuSet::new());
        for (place, Fault { at, action }) in &found {
            let error = |problem| FaultError::new(place, problem);
            let when = at.exact();
            match *action {
                Action::Offline(BOOT_CPU) => {
                    return Err(error("CPU 0 cannot go offline: it is the boot CPU".to_owned()));
                }
                Action::Offline(cpu) if !offline.insert(cpu) => {
                    return Err(error(format!("CPU {cpu} is offline already at {when}")));
                }
                Action::Online(cpu) if !online.insert(cpu) => {
                    return Err(error(format!("CPU {cpu} is online already at {when}")));
                }
                Action::Offline(cpu) => drop(online.remove(cpu)),
                Action::Online(cpu) => drop(offline.remove(cpu)),
                Action::Suspend(_) | Action::Clock(..) => {}
            }
        }
        Ok(FaultPlan { faults: found.into_iter().map(|(_, fault)| fault).collect() })
    }

    /// The faults, by time.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Whether nothing ever happens.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// Checks that the machine, called `name` in errors, has the CPUs, of which some are `offline` at first.
    pub fn check(&self, name: &str, cpus: &CpuSet, offline: &CpuSet) -> Result<(), FaultError> {
        let mut touched = CpuSet::new();
        for fault in &self.faults {
            let (cpu, there) = match fault.action {
                Action::Offline(cpu) => (cpu, Some(true)),
                Action::Online(cpu) => (cpu, Some(false)),
                Action::Clock(cpu, _) => (cpu, None),
                Action::Suspend(_) => continue,
            };
            let error = |problem| Err(FaultError::new(fault.to_string(), problem));
            if !cpus.contains(cpu) {
                return error(format!("{name} has CPUs {cpus} and no CPU {cpu}"));
            }
            let Some(there) = there else { continue };
            if touched.insert(cpu) && offline.contains(cpu) == there {
                let state = if there { "offline" } else { "online" };
                return error(format!("CPU {cpu} of {name} is {state} from the beginning"));
            }
        }
        Ok(())
    }
}

/// What a word of the one-line form must look like.
const EXPECTED: &str = "expected cpuN:offline@TIME, cpuN:online@TIME (N may be a range such as 1-3), \
                        cpuN:clock+TIME@TIME, cpuN:drift+NUMBERppm@TIME (or -) or \
                        suspend@TIME+LENGTH, such as cpu3:offline@1s or suspend@3s+500ms";

impl FromStr for FaultPlan {
    type Err = FaultError;

    /// From one line.
    fn from_str(text: &str) -> Result<FaultPlan, FaultError> {
        let mut found = Vec::new();
        for word in text.split(',') {
            let word = word.trim();
            let faults = faults_of(word).ok_or_else(|| FaultError::new(format!("{word:?}"), EXPECTED))?;
            found.extend(faults.into_iter().map(|fault| (format!("{word:?}"), fault)));
        }
        FaultPlan::checked(found)
    }
}

fn faults_of(word: &str) -> Option<Vec<Fault>> {
    let (what, when) = word.split_once('@')?;
    if what == "suspend" {
        let (at, length) = when.split_once('+')?;
        let (at, length) = (at.parse().ok()?, length.parse().ok().filter(|&length| length > Nanos::ZERO)?);
        return Some(vec![Fault { at, action: Action::Suspend(length) }]);
    }
    let (cpus, action) = what.strip_prefix("cpu")?.split_once(':')?;
    let when = when.parse().ok()?;
    match action {
        "offline" => faults_at(when, cpus, Action::Offline),
        "online" => faults_at(when, cpus, Action::Online),
        clock => {
            let clock = clock.parse().ok()?;
            faults_at(when, cpus, |cpu| Action::Clock(cpu, clock))
        }
    }
}

/// The same for each CPU of a list, which must hold some.
fn faults_at(at: Nanos, cpus: &str, action: impl Fn(CpuId) -> Action) -> Option<Vec<Fault>> {
    let cpus: CpuSet = cpus.parse().ok().filter(|cpus: &CpuSet| !cpus.is_empty())?;
    Some(cpus.iter().map(|cpu| Fault { at, action: action(cpu) }).collect())
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.exact();
        match self.action {
            Action::Offline(cpu) => write!(f, "cpu{cpu}:offline@{at}"),
            Action::Online(cpu) => write!(f, "cpu{cpu}:online@{at}"),
            Action::Clock(cpu, fault) => write!(f, "cpu{cpu}:{fault}@{at}"),
            Action::Suspend(length) => write!(f, "suspend@{at}+{}", length.exact()),
        }
    }
}

impl fmt::Display for FaultPlan {
    /// The one-line form, which reads back as the same plan.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            write!(f, "{}{fault}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(text: &str) -> Result<String, String> {
        text.parse::<FaultPlan>().map(|plan| plan.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_line_is_sorted_by_time() {
        let plan = "suspend@3s+500ms, cpu3:online@2s,cpu1-3:offline@1.5s".parse::<FaultPlan>().unwrap();
        let cpu = |cpu| Action::Offline(CpuId(cpu));
        let at = |ms, action| Fault { at: Nanos::from_ms(ms), action };
        let suspend = at(3_000, Action::Suspend(Nanos::from_ms(500)));
        let expected =
            [at(1_500, cpu(1)), at(1_500, cpu(2)), at(1_500, cpu(3)), at(2_000, Action::Online(CpuId(3))), suspend];
        assert_eq!(plan.faults(), expected);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for word in [
            "",
            "cpu3",
            "cpu3:offline",
            "cpu3:off@1s",
            "3:offline@1s",
            "cpu:offline@1s",
            "cpu3:offline@",
            "cpu3:offline@1",
            "cpux:offline@1s",
            "suspend@1s",
            "suspend@1s+0s",
            "suspend@+1s",
            "sleep@1s",
            "cpu2-1:online@1s",
            "cpu1:offline@1s+2s",
            "cpu1:clock1s@1s",
            "cpu1:clock+1@1s",
            "cpu1:clock@1s",
            "cpu1:drift+5@1s",
            "cpu1:drift5ppm@1s",
            "cpu1:drift+1000000ppm@1s",
            "suspend:drift+5ppm@1s",
        ] {
            assert_eq!(line(word), Err(format!("{word:?}: {EXPECTED}")));
        }
        let cases = [
            ("cpu0:offline@1s", "\"cpu0:offline@1s\": CPU 0 cannot go offline: it is the boot CPU"),
            ("cpu1:offline@1s,cpu1:offline@2s", "\"cpu1:offline@2s\": CPU 1 is offline already at 2s"),
            (
                "cpu1:online@1s,cpu1:offline@2s,cpu1:online@3s,cpu1:online@4s",
                "\"cpu1:online@4s\": CPU 1 is online already at 4s",
            ),
        ];
        for (text, error) in cases {
            assert_eq!(line(text), Err(error.to_owned()));
        }
    }

    #[test]
    fn a_machine_must_have_the_cpus() {
        let check = |plan: &str, cpus, offline: &str| {
            let offline = if offline.is_empty() { CpuSet::new() } else { offline.parse().unwrap() };
            let checked = plan.parse::<FaultPlan>().unwrap().check("it", &CpuSet::first_n(cpus), &offline);
            checked.map_err(|error| error.to_string())
        };
        let missing = "cpu7:offline@1s: it has CPUs 0-3 and no CPU 7";
        assert_eq!(check("cpu7:offline@1s", 4, ""), Err(missing.to_owned()));
        assert_eq!(check("cpu7:offline@1s", 8, ""), Ok(()));
        assert_eq!(
            check("cpu7:clock-1us@1s", 4, ""),
            Err("cpu7:clock-1us@1s: it has CPUs 0-3 and no CPU 7".to_owned())
        );
        assert_eq!(check("cpu0:clock+1s@1s,cpu7:drift+5ppm@2s,cpu7:online@3s", 8, "7"), Ok(()));
        let gone = "cpu7:offline@1s: CPU 7 of it is offline from the beginning";
        assert_eq!(check("cpu7:offline@1s", 8, "6-7"), Err(gone.to_owned()));
        let there = "cpu1:online@1s: CPU 1 of it is online from the beginning";
        assert_eq!(check("cpu1:online@1s", 8, "7"), Err(there.to_owned()));
        assert_eq!(check("cpu7:online@1s,cpu7:offline@2s,cpu7:online@3s", 8, "7"), Ok(()));
    }

    proptest! {
        #[test]
        fn a_plan_reads_back(words in prop::collection::vec((0u64..5, 0u8..6, 1u32..4, 1u64..9), 1..12)) {
            let words: Vec<String> = words.into_iter().map(|(at, kind, cpu, length)| match kind {
                0 => format!("cpu{cpu}:offline@{at}ms"),
                1 => format!("cpu{cpu}:online@{at}ms"),
                2 => format!("cpu{cpu}:clock+{length}us@{at}ms"),
                3 => format!("cpu0-{cpu}:clock-{length}ns@{at}ms"),
                4 => format!("cpu{cpu}:drift-{length}ppm@{at}ms"),
                _ => format!("suspend@{at}ms+{length}us"),
            }).collect();
            if let Ok(plan) = words.join(",").parse::<FaultPlan>() {
                prop_assert_eq!(plan.to_string().parse(), Ok(plan));
            }
        }

        #[test]
        fn no_text_panics(text in "[cpu0-9:ofline@sm+, -]{0,40}") {
            let _ = text.parse::<FaultPlan>();
            let _ = FaultPlan::from_toml("x", &text);
        }
    }
}
