// SPDX-License-Identifier: GPL-2.0-only
//! What a page can offer: machines, workloads, and the presets and tunables of schedulers.

use crate::Refusal;
use launch_profile::{Profile, TunableKind};
use machine_model::Machine;
use serde_json::{Value, json};
use workload::Workload;

/// Machines and workloads that ship with Weir, and for each of these profiles what may be chosen. `profiles` holds
/// names of schedulers with the texts of their profiles.
///
/// # Errors
/// If a profile is invalid.
pub fn catalogue(profiles: &[(String, String)]) -> Result<Value, Refusal> {
    let machines = machine_model::presets().iter().map(|(name, _)| {
        let machine = Machine::preset(name).map_err(Refusal::new)?;
        Ok(json!({ "name": name, "summary": machine.summary(), "cpus": machine.online_cpus().len() }))
    });
    let shipped = workload::shipped().iter().map(|(name, text)| {
        let tasks = Workload::from_bytes(name, text.as_bytes()).map_err(Refusal::new)?.tasks.len();
        Ok(json!({ "name": name, "text": text, "summary": report::counted(tasks as u64, "task") }))
    });
    let generated = workload::generated().iter().map(|(name, what)| Ok(json!({ "name": name, "summary": what })));
    let schedulers = profiles.iter().map(|(name, text)| scheduler(name, text));
    Ok(json!({
        "machines": machines.collect::<Result<Vec<_>, Refusal>>()?,
        "workloads": shipped.chain(generated).collect::<Result<Vec<_>, Refusal>>()?,
        "schedulers": schedulers.collect::<Result<Vec<_>, Refusal>>()?,
        "patterns": page::patterns().into_string(),
    }))
}

fn scheduler(name: &str, text: &str) -> Result<Value, Refusal> {
    let profile = Profile::from_toml(&format!("{name}/profile.toml"), text).map_err(Refusal::new)?;
    let presets = profile.described_presets().map(|(name, doc)| json!({ "name": name, "doc": doc }));
    let tunables = profile.tunables().map(|(name, tunable)| {
        let range = match tunable.kind {
            TunableKind::Integer(Some((low, high))) => json!([low.to_string(), high.to_string()]),
            TunableKind::Integer(None) | TunableKind::Bool => Value::Null,
        };
        json!({ "name": name, "doc": tunable.doc, "bool": tunable.kind == TunableKind::Bool, "range": range })
    });
    let (presets, tunables): (Vec<Value>, Vec<Value>) = (presets.collect(), tunables.collect());
    Ok(json!({ "name": name, "summary": profile.summary(), "presets": presets, "tunables": tunables }))
}
