// SPDX-License-Identifier: GPL-2.0-only
//! Scenarios: what is played in both worlds, as data.

use crate::settings::{Common, Role, Settings};
use anyhow::{Context, Result, anyhow, bail};
use fault_plan::FaultPlan;
use ids::Policy;
use launch_profile::Profile;
use serde::Deserialize;
use std::collections::BTreeMap;
use workload::{Op, Workload};

/// CPUs of every scenario: cores without SMT that share a cache.
pub const CPUS: u32 = 4;

const OBJECTS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/objects.rs"));
/// By policy.
const WITNESSES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/witnesses.rs"));
const SCENARIOS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));

/// What a comparison leaves out, with the reason in the scenario's own words.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Masks {
    /// Ops that are not compared.
    pub ops: Vec<String>,
    /// CPU numbers are not compared: which of several idle CPUs is taken depends on foreign tasks.
    pub cpus: bool,
    /// Only the exit is compared.
    pub events: bool,
    /// The number of ops of each kind is compared, not their order.
    pub order: bool,
    /// Of ops that repeat in the same order only the first round is compared.
    pub repeats: bool,
    /// Tasks whose changes of affinity, policy and nice value are not compared.
    pub setup: Vec<String>,
    /// How it ends is not compared.
    pub end: bool,
    /// Whether slice is left is not compared.
    pub slices: bool,
    /// Only so many calls about each task are compared; 0: all.
    pub first: usize,
    /// It is chance which of these tasks has its turn when: they have one story, in which each kind of call is told once.
    pub alike: Vec<String>,
    /// Tasks that are not compared.
    pub tasks: Vec<String>,
    /// Why.
    pub why: String,
}

/// What is written in a scenario's file.
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
    /// Its name: that of the file.
    pub name: String,
    /// One sentence.
    pub about: String,
    /// Rules of the contract that it shows.
    pub covers: Vec<String>,
    /// Part of the quick subset.
    pub smoke: bool,
    /// Why the model is known to differ here (`docs/explanation/departures.md`).
    pub departure: Option<String>,
    /// A policy of this repository that runs instead of the tracing scheduler, with a witness.
    pub policy: Option<String>,
    /// Only the workload's tasks are under the scheduler (`SWITCH_PARTIAL`); there the file's SCHED_OTHER is SCHED_EXT.
    pub only_ours: bool,
    /// What happens to the machine.
    pub faults: FaultPlan,
    /// The scheduler leaves with the wish to be loaded again; what is compared is its second life, which begins while
    /// the tasks live.
    pub again: bool,
    /// The machine's user ejects it by the system request `S` when the duration is over.
    pub sysrq: bool,
    /// A task that is a process of its own in the kernel, and executes its program anew between two sleeps.
    pub executes: Option<String>,
    /// What is not compared.
    pub masks: Masks,
    /// What the tasks do.
    pub workload: Workload,
    without: String,
    profile: Profile,
}

impl Scenario {
    /// All of them, by name.
    ///
    /// # Panics
    /// If one is wrong: they are part of the program.
    pub fn all() -> Vec<Scenario> {
        SCENARIOS.iter().map(|(name, text)| Scenario::parse(name, text).expect("a test reads them all")).collect()
    }

    /// Those with these names, or all if there are none.
    pub fn find(names: &[String]) -> Result<Vec<Scenario>> {
        let mut all = Scenario::all();
        for name in names {
            if !all.iter().any(|scenario| scenario.name == *name) {
                let known: Vec<&str> = all.iter().map(|scenario| scenario.name.as_str()).collect();
                bail!("no scenario {name:?} (there are: {})", known.join(", "));
            }
        }
        all.retain(|scenario| names.is_empty() || names.contains(&scenario.name));
        Ok(all)
    }

    /// From a file's text.
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
            // A foreign task that leaves a CPU has it look for work, and nobody sees why.
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
        // The log has `update_idle`.
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

    /// The scheduler's object.
    pub fn object(&self) -> &'static [u8] {
        let (objects, name) = match &self.policy {
            Some(policy) => (WITNESSES, policy),
            None => (OBJECTS, &self.without),
        };
        objects.iter().find(|(key, _)| key == name).expect("checked when it was read").1
    }

    /// Its launch profile.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }
}
