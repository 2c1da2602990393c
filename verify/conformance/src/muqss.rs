// SPDX-License-Identifier: GPL-2.0-only
//! `muqss` compared with MuQSS 0.31 itself: the cases of [`successor`](crate::successor) in kernel A, in which a timer ends
//! slices, and further ones: shares of two hogs, sleepers beside hogs, and hogs on several CPUs with a queue each.

use crate::oracle::{self, Values};
use crate::successor::{self, Case, FORKS, FOUR, Job, apart, is_hog, play_cases};
use anyhow::{Context, Result, anyhow};
use bpf_object::Object;
use launch_profile::Profile;
use machine_model::Machine;
use std::time::Duration;

/// Two hogs, one of them with nice 0.
const fn hogs(name: &'static str, hogs: &'static [i8]) -> Case {
    Case { name, rr_ms: 6, interactive: true, hogs, job: None, forks: None, seconds: 2 }
}

/// A task with 1 ms of work every 10 ms beside hogs.
const fn sleeper(name: &'static str, hogs: &'static [i8]) -> Case {
    let job = Some(Job { nice: 0, run_us: 1_000, period_us: 10_000 });
    Case { name, rr_ms: 6, interactive: true, hogs, job, forks: None, seconds: 2 }
}

const ONE: [Case; 10] = [
    hogs("below-20", &[0, -20]),
    hogs("below-2", &[0, -2]),
    hogs("above-1", &[0, 1]),
    hogs("above-2", &[0, 2]),
    hogs("above-3", &[0, 3]),
    hogs("above-7", &[0, 7]),
    hogs("four-19", &[0, 0, 0, 0, 19]),
    sleeper("sleeper-2", &[0, 0]),
    sleeper("sleeper-4", &[0, 0, 0, 0]),
    sleeper("sleeper-8", &[0, 0, 0, 0, 0, 0, 0, 0]),
];
const TWO: [Case; 2] = [apart("three", &[0, 0, 0], true), apart("three-apart", &[0, 0, 0], false)];

/// Recordings of the kernel, by cases. It was booted with `rqshare=none` for several CPUs.
const RECORDS: [(&str, &str); 15] = [
    ("bfs", include_str!("../successor/a1.txt")),
    ("bfs", include_str!("../successor/a2.txt")),
    ("bfs", include_str!("../successor/a3.txt")),
    ("one", include_str!("../muqss/one-1.txt")),
    ("one", include_str!("../muqss/one-2.txt")),
    ("one", include_str!("../muqss/one-3.txt")),
    ("forks", include_str!("../muqss/forks-1.txt")),
    ("forks", include_str!("../muqss/forks-2.txt")),
    ("forks", include_str!("../muqss/forks-3.txt")),
    ("two", include_str!("../muqss/two-1.txt")),
    ("two", include_str!("../muqss/two-2.txt")),
    ("two", include_str!("../muqss/two-3.txt")),
    ("four", include_str!("../muqss/four-1.txt")),
    ("four", include_str!("../muqss/four-2.txt")),
    ("four", include_str!("../muqss/four-3.txt")),
];

fn cases(name: &str) -> &'static [Case] {
    match name {
        "one" => &ONE,
        "forks" => &FORKS,
        "two" => &TWO,
        "four" => &FOUR,
        _ => &successor::CASES,
    }
}

/// Returns whether run intervals of a task are measured. CPUs of the deterministic machine are emulated in turn, so
/// on several only shares are meaningful.
fn has_turns(cases: &str, task: &str) -> bool {
    is_hog(task) && !["two", "four"].contains(&cases)
}

/// Runs cases with real threads in the running kernel, which has MuQSS, or loads `muqss` for each case. Each case
/// starts `later`.
///
/// # Errors
/// If a case cannot be run, or the kernel lacks a setting or rejects the policy.
pub fn play_all(name: &str, later: Duration, loaded: bool) -> Result<String> {
    let load = |case: &Case| Ok(Some(oracle::attach("muqss", &profile(case)?)?));
    let has_turns = |task: &str| has_turns(name, task);
    match loaded {
        true => play_cases(cases(name), later, has_turns, load),
        false => play_cases(cases(name), later, has_turns, successor::set),
    }
}

/// Returns the profile of `muqss` with the settings of a case, and per-CPU queues.
fn profile(case: &Case) -> Result<Profile> {
    let shipped = policies::find("muqss").ok_or_else(|| anyhow!("no policy muqss"))?;
    let mut profile = Profile::from_toml("muqss", shipped.profile)?;
    let tunable = |key: &str, value: String| (key.to_owned(), value);
    let tunables = [
        tunable("rr_interval_ms", case.rr_ms.to_string()),
        tunable("interactive", case.interactive.to_string()),
        tunable("rqshare", "0".to_owned()),
    ];
    profile.select(Some("0.31"), &tunables)?;
    Ok(profile)
}

/// Returns a machine with the number of CPUs of the cases and the costs of the deterministic machine.
fn machine(name: &str) -> Result<Machine> {
    let cpus = match name {
        "two" => 2,
        "four" => 4,
        _ => 1,
    };
    oracle::machine(1_000, cpus)
}

/// Returns the model's values for these cases under `muqss`.
///
/// # Errors
/// If the policy or a case cannot be simulated.
pub fn simulated(name: &str) -> Result<Values> {
    let machine = machine(name)?;
    let shipped = policies::find("muqss").ok_or_else(|| anyhow!("no policy muqss"))?;
    let object = Object::parse(shipped.object)?;
    let mut values = Values::default();
    for case in cases(name) {
        let profile = profile(case)?;
        let workload = case.workload()?;
        // Without noise all CPUs of the model end their slices at the same instant forever, and such ties keep near
        // tasks.
        let seed = u64::from(machine.topology.len() > 1);
        values
            .add_simulated_with_seed(
                case.name,
                &workload,
                &machine,
                (&object, &profile),
                |task| has_turns(name, task),
                seed,
            )
            .with_context(|| case.name)?;
    }
    Ok(by_size(values))
}

/// Which of equal hogs has a CPU alone is random: where hogs stay apart, they are named in order of their shares.
fn by_size(mut values: Values) -> Values {
    values.order_by_size(|case, measure| case.ends_with("-apart") && measure == "share");
    values
}

/// Returns the kernel's recordings of these cases.
///
/// # Errors
/// If the records cannot be parsed.
pub fn recorded(name: &str) -> Result<Vec<Values>> {
    RECORDS.iter().filter(|(cases, _)| *cases == name).map(|(_, text)| text.parse().map(by_size)).collect()
}

/// Known differences of the model: cases, case, task, measure. An unknown one is an error, and so is one that no
/// longer exists.
///
/// - bfs: as for `bfs` itself (`successor`); the reason is unknown.
/// - one, below-20: the run ends within a run interval of 38 ms.
/// - one, sleepers: gaps of single hogs by 0.5 to 1.2 ms, shares by 0.31 points, and the 99th percentile beside 8
///   hogs, which is 4 ms shorter here. The reason is unknown.
/// - forks: the kernel switches two to three times more per child, and without other tasks most children wait for 0.7
///   ms instead of 2.5 ms, except the longest. The reason is unknown: perhaps the parent sleeps while the thread is
///   created.
/// - four, five-apart: in the kernel the pair of hogs on one CPU changes now and then, here it does not.
const KNOWN: [(&str, &str, &str, &str); 16] = [
    ("bfs", "job-1", "job", "response-p90"),
    ("bfs", "job-1", "job", "response-p99"),
    ("bfs", "mix", "hog-3", "gap-max"),
    ("one", "below-20", "hog-0", "share"),
    ("one", "below-20", "hog-1", "share"),
    ("one", "sleeper-2", "hog-1", "gap-max"),
    ("one", "sleeper-4", "hog-2", "gap-max"),
    ("one", "sleeper-8", "hog-0", "share"),
    ("one", "sleeper-8", "hog-4", "share"),
    ("one", "sleeper-8", "job", "response-p99"),
    ("forks", "forks-0", "all", "switches"),
    ("forks", "forks-0", "child", "wait-p50"),
    ("forks", "forks-1", "all", "switches"),
    ("forks", "forks-4", "all", "switches"),
    ("four", "five-apart", "hog-2", "share"),
    ("four", "five-apart", "hog-3", "share"),
];

/// Returns a table of all values, and whether the model's are within the kernel's spread, as in
/// [`successor`](crate::successor).
pub fn compare(name: &str, model: &Values, kernel: &[Values]) -> (String, bool) {
    let known = |case: &str, task: &str, measure: &str| KNOWN.contains(&(name, case, task, measure));
    oracle::table("muqss", model, kernel, known, |_, value| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::Start;

    #[test]
    fn every_muqss_case_is_a_valid_workload() {
        for name in ["bfs", "one", "forks", "two", "four"] {
            for case in cases(name) {
                let workload = case.workload().unwrap();
                let others = usize::from(case.job.is_some()) + 2 * usize::from(case.forks.is_some());
                assert_eq!(workload.tasks.len(), case.hogs.len() + others, "{}", case.name);
                let made = workload.tasks.iter().filter(|task| task.start == Start::Forked).count();
                assert_eq!(made, usize::from(case.forks.is_some()), "children start when they are forked");
            }
        }
    }
}
