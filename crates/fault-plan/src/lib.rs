// SPDX-License-Identifier: GPL-2.0-only
//! Fault plans: timed CPU hotplug, clock errors and suspends during a run. The simulator applies a plan to a
//! simulated machine; on a real machine it is carried out through `/sys/devices/system/cpu` and `/sys/power`.
//!
//! One-line form:
//! `cpu2:clock+1s@500ms,cpu2:drift-200ppm@0s,cpu3:offline@1s,cpu1-2:offline@2s,cpu3:online@3s,suspend@4s+500ms`. As a
//! file:
//!
//! ```toml
//! [[fault]]
//! at = "1s"
//! offline = "3"       # or online = "1-2", or suspend = "500ms"
//!
//! [[fault]]
//! at = "2s"
//! cpus = "1"
//! clock = "+1s"       # or drift = "-200ppm"
//! ```
//!
//! Faults are applied in order of time; faults with equal times in the order written.

mod file;

use ids::{CpuId, CpuSet, Nanos};
use std::fmt;
use std::str::FromStr;

/// CPU that never goes offline: x86 kernels cannot offline the boot CPU.
pub const BOOT_CPU: CpuId = CpuId(0);

/// Most faults of a plan. A fault on a list of CPUs counts once for each of them.
const MOST_FAULTS: usize = 1_000_000;

/// The fault to inject.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Take the CPU offline.
    Offline(CpuId),
    /// Bring the CPU online.
    Online(CpuId),
    /// Change the CPU's clock; simulated machines only.
    Clock(CpuId, ClockFault),
    /// Suspend the machine for this time, in addition to the time that entering suspend takes.
    Suspend(Nanos),
}

/// Change of a clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClockFault {
    /// Step in nanoseconds.
    Step(i64),
    /// Drift in parts per million.
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

    /// Parses `clock+1s`, `clock-20us` or `drift+200ppm`; the magnitude of a drift must be below 1,000,000 ppm.
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

/// A fault at a time since the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Time since the start of the run.
    pub at: Nanos,
    /// The fault to inject.
    pub action: Action,
}

/// All faults of a run, ordered by time. Each CPU alternates between offline and online, and CPU 0 stays online.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct FaultPlan {
    faults: Vec<Fault>,
}

/// Error of parsing or checking a plan.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct FaultError {
    /// The fault as written, or file and line.
    place: String,
    /// What is wrong, or what was expected.
    problem: String,
}

impl FaultError {
    fn new(place: impl Into<String>, problem: impl Into<String>) -> FaultError {
        FaultError { place: place.into(), problem: problem.into() }
    }
}

impl FaultPlan {
    /// Creates a plan from faults and their positions in the text; `place` describes a position in errors. Sorts by time.
    fn checked(mut found: Vec<(usize, Fault)>, place: impl Fn(usize) -> String) -> Result<FaultPlan, FaultError> {
        found.sort_by_key(|(_, fault)| fault.at);
        // The initial state of each CPU is checked against the machine later, in `check`.
        let (mut offline, mut online) = (CpuSet::new(), CpuSet::new());
        for (position, Fault { at, action }) in &found {
            let error = |problem| FaultError::new(place(*position), problem);
            let when = at.exact();
            match *action {
                Action::Offline(BOOT_CPU) => {
                    return Err(error("CPU 0 cannot go offline: it is the boot CPU".to_owned()));
                }
                Action::Offline(cpu) if !offline.insert(cpu) => {
                    return Err(error(format!("CPU {cpu} is already offline at {when}")));
                }
                Action::Online(cpu) if !online.insert(cpu) => {
                    return Err(error(format!("CPU {cpu} is already online at {when}")));
                }
                Action::Offline(cpu) => drop(online.remove(cpu)),
                Action::Online(cpu) => drop(offline.remove(cpu)),
                Action::Suspend(_) | Action::Clock(..) => {}
            }
        }
        Ok(FaultPlan { faults: found.into_iter().map(|(_, fault)| fault).collect() })
    }

    /// Faults in order of time.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Returns whether the plan has no faults.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// Checks the plan against a machine with CPUs `cpus`, of which `offline` are initially offline; `name` is the
    /// machine's name in errors.
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
                return error(format!("CPU {cpu} of {name} is already {state} at the start"));
            }
        }
        Ok(())
    }
}

/// Syntax of a fault in the one-line form, for errors.
const EXPECTED: &str = "expected cpuN:offline@TIME, cpuN:online@TIME (N may be a range such as 1-3), \
                        cpuN:clock+TIME@TIME, cpuN:drift+NUMBERppm@TIME (or -) or \
                        suspend@TIME+LENGTH, such as cpu3:offline@1s or suspend@3s+500ms";

impl FromStr for FaultPlan {
    type Err = FaultError;

    /// Parses the one-line form.
    fn from_str(text: &str) -> Result<FaultPlan, FaultError> {
        let mut found = Vec::new();
        let place = |number: usize| format!("{:?}", text.split(',').nth(number).unwrap_or_default().trim());
        for (number, word) in text.split(',').enumerate() {
            let faults = faults_of(word.trim()).ok_or_else(|| FaultError::new(place(number), EXPECTED))?;
            add(&mut found, number, faults).map_err(|problem| FaultError::new(place(number), problem))?;
        }
        FaultPlan::checked(found, place)
    }
}

/// Adds the faults at a position of the text.
///
/// # Errors
/// If they are too many.
fn add(found: &mut Vec<(usize, Fault)>, position: usize, faults: Vec<Fault>) -> Result<(), String> {
    found.extend(faults.into_iter().map(|fault| (position, fault)));
    match found.len() {
        ..=MOST_FAULTS => Ok(()),
        _ => Err(format!("expected at most {MOST_FAULTS} faults, counting each CPU of a list")),
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

/// Creates one fault per CPU of a nonempty list.
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
    /// Writes the one-line form, which parses back to the same plan.
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
    fn faults_are_sorted_by_time() {
        let plan = "suspend@3s+500ms, cpu3:online@2s,cpu1-3:offline@1.5s".parse::<FaultPlan>().unwrap();
        let cpu = |cpu| Action::Offline(CpuId(cpu));
        let at = |ms, action| Fault { at: Nanos::from_ms(ms), action };
        let suspend = at(3_000, Action::Suspend(Nanos::from_ms(500)));
        let expected =
            [at(1_500, cpu(1)), at(1_500, cpu(2)), at(1_500, cpu(3)), at(2_000, Action::Online(CpuId(3))), suspend];
        assert_eq!(plan.faults(), expected);
    }

    #[test]
    fn one_line_errors_quote_the_fault() {
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
            ("cpu1:offline@1s,cpu1:offline@2s", "\"cpu1:offline@2s\": CPU 1 is already offline at 2s"),
            (
                "cpu1:online@1s,cpu1:offline@2s,cpu1:online@3s,cpu1:online@4s",
                "\"cpu1:online@4s\": CPU 1 is already online at 4s",
            ),
        ];
        for (text, error) in cases {
            assert_eq!(line(text), Err(error.to_owned()));
        }
    }

    #[test]
    fn plan_with_too_many_faults_is_refused() {
        let word = |cpus: usize| format!("cpu1-{cpus}:clock+1s@1s");
        assert!(vec![word(1_000); 1_000].join(",").parse::<FaultPlan>().is_ok());
        let error = "expected at most 1000000 faults, counting each CPU of a list";
        assert_eq!(line(&vec![word(1_001); 1_000].join(",")), Err(format!("{:?}: {error}", word(1_001))));
        let table = "[[fault]]\nat = \"1s\"\ncpus = \"1-1001\"\nclock = \"+1s\"\n".repeat(1_000);
        let found = FaultPlan::from_toml("f.toml", &table).map_err(|error| error.to_string());
        assert_eq!(found, Err(format!("f.toml:3997: {error}")));
    }

    #[test]
    fn check_requires_existing_cpus_in_the_right_state() {
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
        let gone = "cpu7:offline@1s: CPU 7 of it is already offline at the start";
        assert_eq!(check("cpu7:offline@1s", 8, "6-7"), Err(gone.to_owned()));
        let there = "cpu1:online@1s: CPU 1 of it is already online at the start";
        assert_eq!(check("cpu1:online@1s", 8, "7"), Err(there.to_owned()));
        assert_eq!(check("cpu7:online@1s,cpu7:offline@2s,cpu7:online@3s", 8, "7"), Ok(()));
    }

    proptest! {
        #[test]
        fn one_line_form_round_trips(words in prop::collection::vec((0u64..5, 0u8..6, 1u32..4, 1u64..9), 1..12)) {
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
