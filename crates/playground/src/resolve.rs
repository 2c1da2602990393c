// SPDX-License-Identifier: GPL-2.0-only
//! Names of a request to schedulers, machines and workloads, with the grammar of the command line. Files are those of
//! the request.

use crate::Refusal;
use bpf_object::Object;
use launch_profile::{Profile, SchedulerSpec};
use machine_model::Machine;
use workload::{PartSpec, Recording, Workload};

/// Name of the default scheduler.
const KERNEL: &str = "kernel";

/// Files of a request, by name.
pub struct Files<'a>(pub Vec<(&'a str, &'a [u8])>);

impl<'a> Files<'a> {
    fn find(&self, name: &str) -> Option<&'a [u8]> {
        self.0.iter().find(|(file, _)| *file == name).map(|(_, bytes)| *bytes)
    }

    fn text(&self, name: &str) -> Result<Option<&'a str>, Refusal> {
        let text = |bytes| std::str::from_utf8(bytes).map_err(|_| Refusal::new(format_args!("{name}: not UTF-8 text")));
        self.find(name).map(text).transpose()
    }
}

/// A sched_ext scheduler.
pub struct Loadable<'a> {
    pub bytes: &'a [u8],
    pub object: Object,
    pub profile: Profile,
}

/// The scheduler of this specification; `None` is the default scheduler. The object of the policy `NAME` is the file
/// `NAME.bpf.o`, its profile `NAME.toml`.
pub fn scheduler<'a>(text: &str, files: &Files<'a>) -> Result<Option<Loadable<'a>>, Refusal> {
    let spec = SchedulerSpec::parse(text, |head| head.ends_with(".o")).map_err(Refusal::new)?;
    if spec.what == KERNEL {
        let is_plain = spec.preset.is_none() && spec.tunables.is_empty();
        let problem = "is the default scheduler, which has no presets and no tunables here";
        return if is_plain { Ok(None) } else { Err(Refusal::new(format_args!("{text}: {KERNEL} {problem}"))) };
    }
    let stem = spec.what.strip_suffix(".bpf.o").or_else(|| spec.what.strip_suffix(".o")).unwrap_or(spec.what);
    let object = if stem == spec.what { format!("{stem}.bpf.o") } else { spec.what.to_owned() };
    let Some(bytes) = files.find(&object) else {
        return Err(Refusal::new(format_args!("no scheduler {:?}: there is no {object}", spec.what)));
    };
    let name = format!("{stem}.toml");
    let mut profile = match files.text(&name)? {
        Some(text) => Profile::from_toml(&name, text).map_err(Refusal::new)?,
        None => Profile::default(),
    };
    if let Some((key, _)) = spec.tunables.first().filter(|_| stem == spec.what && profile.tunables().count() == 0) {
        return Err(Refusal::new(format_args!("{text}: {key:?} is not a tunable; {stem} has none")));
    }
    let at = |problem: &dyn std::fmt::Display| Refusal::new(format_args!("{}: {problem}", spec.what));
    let object = Object::parse(bytes).map_err(|error| at(&error))?;
    profile.select(spec.preset, &spec.tunables).map_err(|error| at(&error))?;
    Ok(Some(Loadable { bytes, object, profile }))
}

/// A preset, a synthetic description, or a machine file of the request.
pub fn machine(name: &str, files: &Files<'_>) -> Result<Machine, Refusal> {
    match files.text(name)? {
        Some(text) if text.trim_start_matches('\u{feff}').trim_start().starts_with('<') => {
            Ok(Machine::from_hwloc_xml(name, text).map_err(Refusal::new)?.with_assumptions())
        }
        Some(text) => Machine::from_toml(name, text).map_err(Refusal::new),
        None => Machine::named(name).map_err(Refusal::new),
    }
}

/// `PART{+PART}` of generated workloads, shipped ones, and files of the request. Keys that depend on the machine are
/// resolved for `cpus` CPUs.
pub fn workload(what: &str, cpus: u32, files: &Files<'_>) -> Result<Workload, Refusal> {
    let mut parts = Vec::new();
    for mut part in PartSpec::parse_all(what).map_err(Refusal::new)? {
        part.set_cpus(cpus);
        if let Some(path) = part.arrivals_file() {
            let text = files.text(path)?.ok_or_else(|| Refusal::new(format_args!("no file {path:?} with arrivals")))?;
            let times = workload::read_arrivals(text);
            let times = times.map_err(|problem| Refusal::new(format_args!("{path}: {problem}")))?;
            part.set_arrivals(times);
        }
        let workload = match workload::generate(&part.what, cpus) {
            Some(made) => made,
            None => one(&part.what, files)?,
        };
        parts.push((part, workload));
    }
    Workload::compose(parts).map_err(Refusal::new)
}

fn one(name: &str, files: &Files<'_>) -> Result<Workload, Refusal> {
    let shipped = || workload::shipped().iter().find(|(shipped, _)| *shipped == name).map(|(_, text)| text.as_bytes());
    let Some(bytes) = files.find(name).or_else(shipped) else {
        return Err(Refusal::new(format_args!("no workload {name:?}")));
    };
    if !Recording::is_recording(bytes) {
        return Workload::from_bytes(name, bytes).map_err(Refusal::new);
    }
    let Recording { meta, mut workload, .. } = Recording::from_bytes(name, bytes).map_err(Refusal::new)?;
    let flaws = workload_summary::flaws(&meta, &workload).into_iter();
    workload.caveats = flaws.map(|flaw| format!("{name}: {flaw}")).collect();
    Ok(workload)
}
