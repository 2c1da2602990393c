// SPDX-License-Identifier: GPL-2.0-only
//! Scenarios as data: workloads, schedulers and faults, run in kernel and model.

use crate::settings::{Common, Role, Settings};
use anyhow::{Context, Result, anyhow, bail};
use fault_plan::FaultPlan;
use ids::Policy;
use launch_profile::Profile;
use serde::Deserialize;
use std::collections::BTreeMap;
use workload::{Op, Workload};

/// Number of CPUs of every scenario: cores without SMT that share a cache.
pub const CPUS: u32 = 4;

const OBJECTS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/objects.rs"));
/// Witness objects by policy.
const WITNESSES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/witnesses.rs"));
const SCENARIOS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));

/// Parts that a comparison leaves out, with the scenario's reason.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Masks {
    /// Ops that are not compared.
    pub ops: Vec<String>,
    /// CPU numbers are not compared: foreign tasks decide which of several idle CPUs is taken.
    pub cpus: bool,
    /// Only the exit is compared.
    pub events: bool,
    /// The number of ops of each kind is compared, not their order.
    pub order: bool,
    /// Of repeated sequences of ops only the first one is compared.
    pub repeats: bool,
    /// Tasks whose changes of affinity, policy and nice value are not compared.
    pub setup: Vec<String>,
    /// The exit is not compared.
    pub end: bool,
    /// Whether slice is left is not compared.
    pub slices: bool,
    /// Number of calls per task that are compared; 0 for all.
    pub first: usize,
    /// Tasks whose order is random: they share one sequence that lists each kind of call once.
    pub alike: Vec<String>,
    /// Tasks that are not compared.
    pub tasks: Vec<String>,
    /// Why these parts of the log are not compared.
    pub why: String,
}

/// Contents of a scenario's file.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct File {
    about: String,
    #[serde(default)]
    covers: Vec<String>,
    #[serde(default)]
    policy: Option<String>,
    #[serde(default)]
    tunables: BTreeMap<String, toml::Value>,
    #[serde(default)]
    without: String,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    timeout_ms: Option<u32>,
    #[serde(default)]
    only_ours: bool,
    #[serde(default)]
    smoke: bool,
    #[serde(default)]
    faults: String,
    #[serde(default)]
    again: bool,
    #[serde(default)]
    sysrq: bool,
    #[serde(default)]
    executes: Option<String>,
    #[serde(default)]
    departure: Option<String>,
    #[serde(default)]
    common: Common,
    #[serde(default = "Role::foreign")]
    foreign: Role,
    #[serde(default)]
    worker: Role,
    #[serde(default)]
    victim: Role,
    #[serde(default)]
    mask: Masks,
    workload: String,
}

/// A scenario.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// Name of the scenario and of its file.
    pub name: String,
    /// Description in one sentence.
    pub about: String,
    /// Contract rules that it covers.
    pub covers: Vec<String>,
    /// Part of the quick subset.
    pub smoke: bool,
    /// Reason for a known difference of the model (`docs/explanation/departures.md`).
    pub departure: Option<String>,
    /// Policy of this repository that runs, with a witness, instead of the tracing scheduler.
    pub policy: Option<String>,
    /// Only the workload's tasks are under the scheduler (`SWITCH_PARTIAL`); SCHED_OTHER in the file then means
    /// SCHED_EXT.
    pub only_ours: bool,
    /// Faults of the machine.
    pub faults: FaultPlan,
    /// The scheduler exits with a restart request; its second life is compared, which begins while the tasks exist.
    pub again: bool,
    /// SysRq-S ejects the scheduler at the end of the duration.
    pub sysrq: bool,
    /// A task that is a process of its own in the kernel, and executes its program again between two sleeps.
    pub executes: Option<String>,
    /// Parts that are not compared.
    pub masks: Masks,
    /// Workload whose tasks the scenario runs.
    pub workload: Workload,
    without: String,
    profile: Profile,
}

impl Scenario {
    /// Returns all scenarios, sorted by name.
    ///
    /// # Panics
    /// If one is malformed: they are part of the program.
    pub fn all() -> Vec<Scenario> {
        SCENARIOS.iter().map(|(name, text)| Scenario::parse(name, text).expect("a test reads them all")).collect()
    }

    /// Returns the scenarios with these names, or all if there are none.
    pub fn find(names: &[String]) -> Result<Vec<Scenario>> {
        let mut all = Scenario::all();
        for name in names {
            if !all.iter().any(|scenario| scenario.name == *name) {
                let known: Vec<&str> = all.iter().map(|scenario| scenario.name.as_str()).collect();
                bail!("no scenario {name:?}; expected one of {}", known.join(", "));
            }
        }
        all.retain(|scenario| names.is_empty() || names.contains(&scenario.name));
        Ok(all)
    }

    /// Parses a scenario's file.
    pub fn parse(name: &str, text: &str) -> Result<Scenario> {
        let file: File = toml::from_str(text).with_context(|| format!("scenario {name}"))?;
        let mut workload = Workload::from_rt_app(name, &file.workload)?;
        if file.only_ours {
            for task in &mut workload.tasks {
                let changes = task.script.iter_mut().filter_map(|op| match op {
                    Op::Change { policy, .. } | Op::ChangeOf { policy, .. } => policy.as_mut().map(|both| &mut both.0),
                    _ => None,
                });
                for policy in changes.chain([&mut task.policy]).filter(|policy| **policy == Policy::Other) {
                    *policy = Policy::Ext;
                }
            }
        }
        if !OBJECTS.iter().any(|(without, _)| *without == file.without) {
            bail!("scenario {name}: no object without {:?}", file.without);
        }
        let mut flags = file.flags.clone();
        if file.only_ours {
            flags.push("SWITCH_PARTIAL".into());
        }
        let mut masks = file.mask;
        if file.only_ours {
            // A foreign task that leaves a CPU makes it look for work, without a visible cause.
            masks.tasks.extend((1..CPUS).map(|cpu| format!("(CPU {cpu})")));
        }
        let mut scenario = Scenario {
            name: name.to_owned(),
            about: file.about,
            covers: file.covers,
            smoke: file.smoke,
            departure: file.departure,
            policy: file.policy,
            only_ours: file.only_ours,
            faults: if file.faults.is_empty() { FaultPlan::default() } else { file.faults.parse()? },
            again: file.again,
            sysrq: file.sysrq,
            executes: file.executes,
            masks,
            workload,
            without: file.without,
            profile: Profile::default(),
        };
        // The log implements `update_idle`.
        flags.push("KEEP_BUILTIN_IDLE".into());
        if scenario.policy.is_none() {
            let director = Role::foreign();
            let roles = [&file.foreign, &file.worker, &file.victim, &director];
            let (common, timeout_ms) = (&file.common, file.timeout_ms);
            let text = Settings { flags: &flags, timeout_ms, without_marks: file.again, common, roles }.profile();
            scenario.profile = Profile::from_toml(name, &text)?;
        } else {
            let policy = scenario.shipped()?;
            let text = format!("{}\n[ops]\nflags = {flags:?}\n", policy.profile);
            scenario.profile = Profile::from_toml(name, &text)?;
            let tunables: Vec<(String, String)> =
                file.tunables.into_iter().map(|(name, value)| (name, value.to_string())).collect();
            scenario.profile.select(None, &tunables)?;
        }
        Ok(scenario)
    }

    fn shipped(&self) -> Result<&'static policies::Policy> {
        let name = self.policy.as_deref().unwrap_or_default();
        policies::find(name).ok_or_else(|| anyhow!("scenario {}: no policy {name:?}", self.name))
    }

    /// Returns the scheduler's object.
    pub fn object(&self) -> &'static [u8] {
        let (objects, name) = match &self.policy {
            Some(policy) => (WITNESSES, policy),
            None => (OBJECTS, &self.without),
        };
        objects.iter().find(|(key, _)| key == name).expect("checked when it was read").1
    }

    /// Returns its launch profile.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }
}
