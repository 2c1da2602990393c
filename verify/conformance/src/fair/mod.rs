// SPDX-License-Identifier: GPL-2.0-only
//! `cfs@6.1` compared with the scheduler it re-creates, that of Linux 6.1, in the deterministic virtual machine.
//! Recordings of that kernel are in `fair/`, with those of Linux 7.2 with `cfs@6.1` loaded. The model and the loaded
//! policy must agree with the first kernel as far as it agrees with itself.
//!
//! Nearly everything is on one CPU: on several, the emulated CPUs run in turn, and only shares are meaningful.

mod cases;
pub mod properties;

use crate::model::in_one_process;
use crate::oracle::{self, Values};
use anyhow::{Context, Result, anyhow, bail};
use bpf_object::Object;
use cases::{CASES, Case};
use executor::{Options, execute};
use kernel_link::scheduler::Attached;
use launch_profile::Profile;
use std::path::Path;
use std::time::Duration;

/// Kernel settings of Linux 6.1 for latency and granularities.
const SETTINGS: &str = "/sys/kernel/debug/sched";
/// Names of the settings, and the tunables of `cfs`.
const UNITS: [(&str, &str); 3] = [
    ("latency_ns", "latency_us"),
    ("min_granularity_ns", "min_granularity_us"),
    ("wakeup_granularity_ns", "wakeup_granularity_us"),
];
const RECORDS: [(&str, &str); 4] = [
    ("6.1-1000", include_str!("../../fair/6.1-1000-1.txt")),
    ("6.1-1000", include_str!("../../fair/6.1-1000-2.txt")),
    ("6.1-1000", include_str!("../../fair/6.1-1000-3.txt")),
    ("7.2-250", include_str!("../../fair/7.2-250-1.txt")),
];
/// Known differences from Linux 6.1, with reasons where known.
const KNOWN: &str = include_str!("../../fair/known.txt");

/// Parameters of a run.
pub struct Play {
    /// Names of the cases to run; if empty, all cases for `cpus` CPUs.
    pub names: Vec<String>,
    /// Number of CPUs of the machine.
    pub cpus: u32,
    /// Load `cfs@6.1`; otherwise the default scheduler runs.
    pub loaded: bool,
    /// Delay of the start of each case, for another phase of the tick: in the deterministic machine runs differ by
    /// nothing else.
    pub later: Duration,
}

/// Runs cases with real threads in the running kernel, and returns the measurements as text.
///
/// # Errors
/// If there is no such case, it cannot be run, or the kernel lacks a setting or rejects the policy.
pub fn play_all(how: &Play) -> Result<String> {
    if let Some(unknown) = how.names.iter().find(|name| CASES.iter().all(|case| case.name != **name)) {
        bail!("no case {unknown}; expected one of {}", CASES.map(|case| case.name).join(", "));
    }
    let wanted = |case: &&Case| match how.names.is_empty() {
        true => case.cpus == how.cpus,
        false => how.names.iter().any(|name| name == case.name),
    };
    let mut values = Values::default();
    let mut attached: Option<([u64; 3], Attached)> = None;
    for case in CASES.iter().filter(wanted) {
        if !how.loaded {
            set_units(case)?;
        } else if attached.as_ref().is_none_or(|(units, _)| *units != case.units_ns()) {
            attached.take().map_or(Ok(()), |(_, old)| oracle::unload(old))?;
            attached = Some((case.units_ns(), oracle::attach("cfs", &profile("6.1", case)?.1)?));
        }
        let workload = in_one_process(&case.workload(false)?, None);
        oracle::wait_for_phase(how.later);
        let played = execute(&workload, &Options { log: true, ..Options::default() })?;
        values.add_played(case.name, &played, |task| case.is_hog(task));
        values.add_family_played(case.name, &workload, &played);
        eprintln!("{}", case.name);
    }
    attached.take().map_or(Ok(()), |(_, last)| oracle::unload(last))?;
    Ok(values.to_string())
}

/// Applies the latency and granularities of a case to Linux 6.1.
fn set_units(case: &Case) -> Result<()> {
    for ((setting, _), ns) in UNITS.iter().zip(case.units_ns()) {
        let path = Path::new(SETTINGS).join(setting);
        std::fs::write(&path, ns.to_string()).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Returns the profile of `cfs` with the latency and granularities of a case, whatever the number of CPUs.
fn profile(preset: &str, case: &Case) -> Result<(&'static [u8], Profile)> {
    let shipped = policies::find("cfs").ok_or_else(|| anyhow!("no policy cfs"))?;
    let mut profile = Profile::from_toml("cfs", shipped.profile)?;
    let units =
        UNITS.iter().zip(case.units_ns()).map(|((_, tunable), ns)| ((*tunable).to_owned(), (ns / 1_000).to_string()));
    let tunables: Vec<_> = units.chain([("scaling".to_owned(), "0".to_owned())]).collect();
    profile.select(Some(preset), &tunables)?;
    Ok((shipped.object, profile))
}

/// Returns the model's values for the same cases under `cfs`, with this tick rate.
///
/// # Errors
/// If the policy or a case cannot be simulated.
pub fn simulated(preset: &str, hz: u32) -> Result<Values> {
    let mut values = Values::default();
    for case in &CASES {
        let (object, profile) = profile(preset, case)?;
        let object = Object::parse(object)?;
        let workload = case.workload(true)?;
        let machine = oracle::machine(hz, case.cpus)?;
        values.add_simulated(case.name, &workload, &machine, (&object, &profile), |task| case.is_hog(task))?;
    }
    Ok(values)
}

/// Returns the recordings whose file names in `fair/` begin like this: Linux 6.1 with 1000 ticks a second, or 7.2
/// with `cfs@6.1` loaded and 250.
///
/// # Errors
/// If the records cannot be parsed.
pub fn recorded(who: &str) -> Result<Vec<Values>> {
    RECORDS.iter().filter(|(name, _)| *name == who).map(|(_, text)| text.parse()).collect()
}

/// Returns a table of all values of Linux 6.1, and whether the model's are within the kernel's spread, or within the
/// resolution. Known differences are marked (`fair/known.txt`); an unknown one is an error, and so is one that no
/// longer exists.
pub fn compare(model: &Values, kernel: &[Values]) -> (String, bool) {
    let known = |case: &str, task: &str, measure: &str| {
        let line = format!("{case} {task} {measure}");
        KNOWN.lines().any(|known| known == line)
    };
    oracle::table("cfs@6.1", model, kernel, known, |_, value| value)
}
