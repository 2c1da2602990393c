// SPDX-License-Identifier: GPL-2.0-only
//! Resolves command-line names to schedulers, machines and workloads. Files are read by [`crate::input`].

use crate::suites::SUITES;
use crate::{compile, input};
use anyhow::{Context, Result, bail};
use bpf_object::{Object, ObjectError};
use fault_plan::FaultPlan;
use invariants::{Promises, Property};
use launch_profile::{PlannedCall, Profile, SchedulerSpec};
use machine_model::{Effect, Machine, split_changes};
#[cfg(feature = "sweep")]
use measures::catalogue::CATALOGUE;
use report::counted;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use workload::{PartSpec, Recording, RecordingMeta, Workload};

/// Name of the default scheduler.
pub const KERNEL: &str = "kernel";

/// Launch profile of the default scheduler; it contains only promises.
const KERNEL_PROFILE: &str = include_str!("../../profiles/kernel.toml");

/// A scheduler, ready to run.
#[derive(Debug)]
pub struct Scheduler {
    /// Name as given on the command line.
    pub name: String,
    /// Object to load; `None` for the default scheduler.
    pub loadable: Option<Loadable>,
}

impl Scheduler {
    /// Bytes of the object; `None` for the default scheduler.
    pub fn object(&self) -> Option<&[u8]> {
        self.loadable.as_ref().map(|loadable| &*loadable.bytes)
    }

    /// Properties to check: the built-in invariants and this scheduler's promises.
    pub fn looked_for(&self) -> Vec<Property> {
        let mut all = vec![Property::Sanity, Property::Affinity];
        all.extend(self.loadable.is_some().then_some(Property::LostWakeup));
        all.extend(self.promises().properties());
        all
    }

    /// Promises of its launch profile.
    pub fn promises(&self) -> Promises {
        match &self.loadable {
            Some(loadable) => loadable.profile.promises(),
            None => Profile::from_toml("kernel.toml", KERNEL_PROFILE).expect("tests parse it").promises(),
        }
    }
}

/// The default scheduler.
#[cfg(feature = "real")]
pub fn kernel() -> Scheduler {
    Scheduler { name: KERNEL.to_owned(), loadable: None }
}

/// A sched_ext scheduler.
#[derive(Debug)]
pub struct Loadable {
    /// Bytes of the object.
    pub bytes: Cow<'static, [u8]>,
    /// The parsed object.
    pub object: Object,
    /// Launch profile with the chosen preset and tunables.
    pub profile: Profile,
}

/// Parses a specification of a scheduler.
fn spec(text: &str) -> Result<SchedulerSpec<'_>> {
    SchedulerSpec::parse(text, is_object).map_err(anyhow::Error::msg)
}

/// Whether this is the path of an object or of a source; policy names have neither a slash nor these suffixes.
fn is_object(text: &str) -> bool {
    text.contains('/') || text.ends_with(".o") || compile::is_source(text)
}

/// Path of a scheduler given as an object or source, without its tunables.
pub fn path_of(name: &str) -> Option<&Path> {
    spec(name).ok().filter(|spec| is_object(spec.what)).map(|spec| Path::new(spec.what))
}

/// Schedulers of the command line; `profile` applies to those given as paths.
pub fn schedulers(names: &[String], profile: Option<&Path>) -> Result<Vec<Scheduler>> {
    check_profile(names, profile)?;
    names.iter().map(|name| scheduler(name, profile)).collect()
}

fn check_profile(names: &[String], profile: Option<&Path>) -> Result<()> {
    if profile.is_some() && !names.iter().any(|name| spec(name).is_ok_and(|spec| is_object(spec.what))) {
        bail!("--profile applies to schedulers given as paths, and none is");
    }
    Ok(())
}

/// A scheduler whose object is invalid: its name and the error.
pub type Broken = (String, anyhow::Error);

/// Schedulers of a comparison; invalid objects are returned separately, so that the other schedulers can run.
pub fn schedulers_apart(names: &[String], profile: Option<&Path>) -> Result<(Vec<Scheduler>, Vec<Broken>)> {
    check_profile(names, profile)?;
    let (mut good, mut broken) = (Vec::new(), Vec::new());
    for name in names {
        match scheduler(name, profile) {
            Ok(scheduler) => good.push(scheduler),
            Err(error) if names.len() > 1 && error.is::<ObjectError>() => broken.push((name.clone(), error)),
            Err(error) => return Err(error),
        }
    }
    Ok((good, broken))
}

/// Adds planned calls to all schedulers.
///
/// # Errors
/// If one of them is the default scheduler, which has no programs.
pub fn plan(schedulers: &mut [Scheduler], calls: &[PlannedCall]) -> Result<()> {
    let Some(first) = calls.first() else { return Ok(()) };
    for scheduler in schedulers {
        let Some(loadable) = &mut scheduler.loadable else {
            bail!("--call {first}: {KERNEL} is the default scheduler, which has no program to call");
        };
        loadable.profile.plan(calls);
    }
    Ok(())
}

/// Whether this is neither a policy name nor a path.
#[cfg(feature = "real")]
pub fn is_unknown(name: &str) -> bool {
    spec(name).is_ok_and(|spec| !is_object(spec.what) && spec.what != KERNEL && policies::find(spec.what).is_none())
}

fn scheduler(name: &str, profile: Option<&Path>) -> Result<Scheduler> {
    scheduler_of(name, None, profile)
}

/// Scheduler of a saved run with its stored object; the default scheduler if there is none.
///
/// # Errors
/// If the object or its profile is invalid.
pub fn saved_scheduler(name: &str, object: Option<Vec<u8>>, profile: Option<&Path>) -> Result<Scheduler> {
    match object {
        None => Ok(Scheduler { name: name.to_owned(), loadable: None }),
        Some(object) => scheduler_of(name, Some(object), profile),
    }
}

fn scheduler_of(name: &str, object: Option<Vec<u8>>, profile: Option<&Path>) -> Result<Scheduler> {
    let spec = spec(name)?;
    if spec.what == KERNEL {
        if spec.preset.is_some() || !spec.tunables.is_empty() {
            bail!("{name}: {KERNEL} is the default scheduler, which has no presets and no tunables here");
        }
        return Ok(Scheduler { name: name.to_owned(), loadable: None });
    }
    let (bytes, mut launch) = match object {
        Some(object) if is_object(spec.what) => (Cow::Owned(object), profile_of(Path::new(spec.what), profile)?),
        Some(object) => (Cow::Owned(object), from_policy(spec.what)?.1),
        None if is_object(spec.what) => from_file(Path::new(spec.what), profile)?,
        None => from_policy(spec.what)?,
    };
    if let Some((key, _)) = spec.tunables.first().filter(|_| !is_object(spec.what) && launch.tunables().count() == 0) {
        bail!("{name}: {key:?} is not a tunable; {} has none", spec.what);
    }
    let object = Object::parse(&bytes).with_context(|| spec.what.to_owned())?;
    launch.select(spec.preset, &spec.tunables).with_context(|| spec.what.to_owned())?;
    Ok(Scheduler { name: name.to_owned(), loadable: Some(Loadable { bytes, object, profile: launch }) })
}

/// Object of a policy, or of a file.
pub fn object(name: &str) -> Result<Object> {
    let (bytes, _) = if is_object(name) { from_file(Path::new(name), None)? } else { from_policy(name)? };
    Object::parse(&bytes).with_context(|| name.to_owned())
}

fn from_policy(name: &str) -> Result<(Cow<'static, [u8]>, Profile)> {
    let Some(policy) = policies::find(name) else {
        let names = std::iter::once(KERNEL).chain(policies::all().iter().map(|policy| policy.name));
        bail!("{}", unknown("policy", name, names));
    };
    let profile = Profile::from_toml(&format!("{name}/profile.toml"), policy.profile)?;
    Ok((Cow::Borrowed(policy.object), profile))
}

/// Reads an object or compiles a source. The profile is the given one, else the one next to the file, else the
/// default.
fn from_file(path: &Path, profile: Option<&Path>) -> Result<(Cow<'static, [u8]>, Profile)> {
    let source = compile::is_source(&path.to_string_lossy());
    let bytes = if source { compile::object(path)? } else { input::read(path, input::OBJECT)? };
    Ok((Cow::Owned(bytes), profile_of(path, profile)?))
}

fn profile_of(path: &Path, profile: Option<&Path>) -> Result<Profile> {
    let beside = profile_beside(path);
    let profile = match profile {
        Some(profile) => Some(profile),
        None => Some(beside.as_path()).filter(|beside| input::exists(beside)).inspect(|beside| {
            // It came with the object, so its user may not know of it.
            let [object, beside] = [path, beside].map(|path| path.display().to_string());
            say!("weir: {}: launch profile {}", report::escape(&object), report::escape(&beside));
        }),
    };
    Ok(match profile {
        Some(profile) => Profile::from_toml(&profile.to_string_lossy(), &input::text(profile, input::PROFILE)?)?,
        None => Profile::default(),
    })
}

/// Path of the default profile: `.toml` instead of `.bpf.o` or `.bpf.c`.
pub fn profile_beside(path: &Path) -> PathBuf {
    let name = path.to_string_lossy();
    let stem = name.strip_suffix(".o").or_else(|| name.strip_suffix(".c")).unwrap_or(&name);
    PathBuf::from(format!("{}.toml", stem.trim_end_matches(".bpf")))
}

/// Machine named `host`, a preset, a TOML file, an hwloc XML file, or an hwloc synthetic string, with changed keys after
/// commas. A description that has only a topology is completed by the effects that are typical of its class.
pub fn machine(what: &str) -> Result<Machine> {
    let (name, changes) = split_changes(what);
    if changes.is_empty() {
        return unchanged_machine(name);
    }
    let preset = machine_model::presets().iter().find(|preset| preset.0 == name);
    let text = match preset {
        Some((_, text)) => (*text).to_owned(),
        None if name.ends_with(".toml") => input::text(Path::new(name), input::MACHINE)?,
        None => unchanged_machine(name)?.to_toml(),
    };
    Ok(Machine::from_changed_toml(what, &text, &changes)?)
}

fn unchanged_machine(name: &str) -> Result<Machine> {
    Ok(match name {
        "host" => host()?,
        _ if name.contains('/') && !name.contains('(') || name.ends_with(".toml") || name.ends_with(".xml") => {
            let text = input::text(Path::new(name), input::MACHINE)?;
            let is_xml = text.trim_start_matches('\u{feff}').trim_start().starts_with('<');
            if is_xml {
                Machine::from_hwloc_xml(name, &text)?.with_assumptions()
            } else {
                Machine::from_toml(name, &text)?
            }
        }
        _ => Machine::named(name)?,
    })
}

/// Fault plan: a one-line plan, which always contains `@`, or the path of a TOML file.
pub fn faults(text: &str) -> Result<FaultPlan> {
    let plan = if text.contains('@') {
        text.parse()
    } else {
        FaultPlan::from_toml(text, &input::text(Path::new(text), input::FAULTS)?)
    };
    plan.context("--faults")
}

/// This machine with assumed effects, as far as sysfs does not tell them. Frequencies are not assumed: what was
/// recorded or measured here contains them already. As in scx, `SCX_SYSFS_PREFIX` is prepended to `/sys`, so that a
/// copied tree of another machine can be read.
fn host() -> Result<Machine> {
    let prefix = std::env::var("SCX_SYSFS_PREFIX").unwrap_or_default();
    let read = |path: &str| {
        let text = std::fs::read_to_string(format!("{prefix}{path}")).ok()?;
        input::note(path, text.as_bytes());
        Some(text)
    };
    let machine = Machine::from_sysfs(&read).context("host")?;
    let has_frequencies = machine.effects.frequency.is_some();
    let mut machine = machine.with_assumptions();
    if !has_frequencies {
        machine.effects.switch_off(Effect::Frequency);
    }
    Ok(machine)
}

/// Shipped recordings.
const RECORDED: &[(&str, &[u8])] = &[
    ("build", include_bytes!("../../workloads/recorded/build.weir")),
    ("wide", include_bytes!("../../workloads/recorded/wide.weir")),
    ("desktop", include_bytes!("../../workloads/recorded/desktop.weir")),
];

/// Name and contents of shipped workloads: recordings, then rt-app files.
fn shipped_workloads() -> impl Iterator<Item = (&'static str, &'static [u8])> + Clone {
    let synthetic = workload::shipped().iter().map(|(name, text)| (*name, text.as_bytes()));
    RECORDED.iter().copied().chain(synthetic)
}

/// Name and description of shipped and generated workloads and of suites.
pub fn describe_workloads() -> Result<Vec<(String, String)>> {
    let read = shipped_workloads().map(|(name, bytes)| Ok((name.to_owned(), describe(name, bytes)?)));
    let made = workload::generated().iter().chain(&SUITES).map(|(name, what)| Ok((name.to_string(), what.to_string())));
    read.chain(made).collect()
}

fn describe(name: &str, bytes: &[u8]) -> Result<String> {
    if Recording::is_recording(bytes) {
        let Recording { meta, workload, .. } = Recording::from_bytes(name, bytes)?;
        return Ok(format!("{}, recorded from {}", counted(workload.tasks.len() as u64, "task"), meta.command));
    }
    let workload = Workload::from_bytes(name, bytes)?;
    let length = workload.duration.map_or("until all have ended".to_owned(), |duration| format!("for {duration}"));
    Ok(format!("{}, {length}", counted(workload.tasks.len() as u64, "task")))
}

/// Workload composed of shipped workloads and files: `PART{+PART}` with `PART = [LABEL=]NAME{,key=value}`. Keys that
/// depend on the machine are resolved for `cpus` CPUs.
pub fn workload(what: &str, cpus: u32) -> Result<Workload> {
    Ok(recordings(what, Some(cpus), |_| ())?.0)
}

/// Composed workload, and for each recording in it its metadata and the result of `look`. Without a number of CPUs,
/// `load=` is rejected.
pub fn recordings<T>(
    what: &str,
    cpus: Option<u32>,
    mut look: impl FnMut(&Recording) -> T,
) -> Result<(Workload, Vec<(RecordingMeta, T)>)> {
    let mut recorded = Vec::new();
    let mut parts = Vec::new();
    for mut part in PartSpec::parse_all(what)? {
        cpus.iter().for_each(|&cpus| part.set_cpus(cpus));
        if let Some(path) = part.arrivals_file() {
            let text = input::text(Path::new(path), input::ARRIVALS)?;
            let times = workload::read_arrivals(&text).map_err(|problem| anyhow::anyhow!("{path}: {problem}"))?;
            part.set_arrivals(times);
        }
        if let Some(made) = workload::generate(&part.what, cpus.unwrap_or(1)) {
            parts.push((part, made));
            continue;
        }
        let bytes = workload_bytes(&part.what)?;
        let workload = if Recording::is_recording(&bytes) {
            let recording = Recording::from_bytes(&part.what, &bytes)?;
            let seen = look(&recording);
            let Recording { meta, mut workload, .. } = recording;
            let told = |flaw| format!("{}: {flaw}", part.what);
            workload.caveats = workload_summary::flaws(&meta, &workload).into_iter().map(told).collect();
            recorded.push((meta, seen));
            workload
        } else {
            Workload::from_bytes(&part.what, &bytes)?
        };
        parts.push((part, workload));
    }
    Ok((Workload::compose(parts)?, recorded))
}

/// Whether one of the parts is a recording.
pub fn is_recorded(what: &str) -> Result<bool> {
    for part in PartSpec::parse_all(what)? {
        if workload::generate(&part.what, 1).is_none() && Recording::is_recording(&workload_bytes(&part.what)?) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn workload_bytes(name: &str) -> Result<Cow<'static, [u8]>> {
    let names = shipped_workloads().map(|(name, _)| name).chain(workload::generated().iter().map(|(name, _)| *name));
    if let Some((suite, what)) = SUITES.iter().find(|(suite, _)| *suite == name) {
        bail!(
            "{suite} is a suite of several workloads ({what}), which only weir sim accepts, uncombined; expected one of its workloads"
        );
    }
    if let Some((_, bytes)) = shipped_workloads().find(|shipped| shipped.0 == name) {
        return Ok(Cow::Borrowed(bytes));
    }
    let path = Path::new(name);
    // In the source tree the file counts, so that it can be edited.
    if let Some((_, bytes)) = claims::WORKLOADS.iter().find(|shipped| shipped.0 == name)
        && !input::exists(path)
    {
        return Ok(Cow::Borrowed(bytes));
    }
    if !name.contains('/') && path.extension().is_none() && !input::exists(path) {
        bail!("{}", unknown("workload", name, names));
    }
    Ok(Cow::Owned(input::read(path, input::WORKLOAD)?))
}

/// The measure of a run with this key.
///
/// # Errors
/// If there is none.
#[cfg(feature = "sweep")]
pub fn measure(key: &str) -> Result<usize> {
    let keys = CATALOGUE.iter().map(|measure| measure.key);
    keys.clone().position(|known| known == key).with_context(|| unknown("measure", key, keys))
}

/// Message for an unknown name, with the closest known name as a suggestion and a list of all.
fn unknown<'a>(kind: &str, name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let near = known.clone().map(|known| (strsim::damerau_levenshtein(name, known), known)).min();
    let hint = match near {
        // Up to a third of the letters may differ in a typing error.
        Some((distance, near)) if distance * 3 <= near.len().max(3) => format!(", did you mean {near}?"),
        _ => String::new(),
    };
    format!("no {kind} {name:?}{hint} (there are: {})", known.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_name_error_suggests_the_closest_name() {
        let known = ["fifo", "bfs"].into_iter();
        assert_eq!(
            unknown("policy", "fifp", known.clone()),
            "no policy \"fifp\", did you mean fifo? (there are: fifo, bfs)"
        );
        assert_eq!(unknown("policy", "cfs-like", known), "no policy \"cfs-like\" (there are: fifo, bfs)");
    }
}
