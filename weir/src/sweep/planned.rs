// SPDX-License-Identifier: GPL-2.0-only
//! The runs of a campaign, resolved: each of its combinations is a run of a plan of `weir sim`.

use crate::args::Sim;
use crate::output::{self, quote};
use crate::plan::{Plan, Run};
use crate::{input, select};
use anyhow::{Context, Result, bail};
use campaign::{Axis, Campaign, Digest, Named, Point, RunId, Setting};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Runs that share kernel version, number of CPUs and effects.
pub struct Group<'a> {
    kernel: Option<&'a str>,
    cpus: Option<u64>,
    without: Option<&'a str>,
    /// Effects that are left out, by the axis or the options.
    left_out: String,
    /// The runs with seed 0, in the order of [`Plan::runs`].
    plan: Plan,
}

/// All plans of a campaign, which own what its runs refer to.
pub struct Plans<'a> {
    campaign: &'a Campaign,
    groups: Vec<Group<'a>>,
}

/// A run of the campaign.
pub struct Planned<'a> {
    pub id: RunId,
    pub point: Point<'a>,
    pub run: Run<'a>,
    /// Effects that are left out, separated by commas.
    pub without: &'a str,
}

/// Reads a campaign file.
///
/// # Errors
/// If it cannot be read or is invalid.
pub fn read(path: &Path) -> Result<Campaign> {
    Ok(Campaign::from_toml(&path.to_string_lossy(), &input::text(path, input::CAMPAIGN)?)?)
}

/// A value that means the computer on which a run is done, and so differs between the nodes of a cluster.
pub struct ValueOfHost {
    /// `machine` or `kernel`.
    pub key: &'static str,
    /// File and line; empty if it is a default.
    pub place: String,
}

/// All values `host` of a campaign.
pub fn values_of_host(campaign: &Campaign) -> Vec<ValueOfHost> {
    let machines = campaign.machines.iter().filter(|machine| machine.text == HOST).map(|machine| &machine.place);
    let is_host = |version: &String| version == HOST;
    let kernel = Axis::Kernel.name();
    let settings = campaign.settings.iter().filter(|setting| setting.option == kernel);
    let settings = settings.filter(|setting| setting.values.iter().any(is_host)).map(|setting| &setting.place);
    let axis = campaign.places.iter().find(|(key, _)| key == kernel).map(|(_, place)| place);
    let axis = axis.filter(|_| campaign.kernels.iter().any(is_host));
    let value = |key| move |place: &String| ValueOfHost { key, place: place.clone() };
    let kernels = axis.into_iter().chain(settings).map(value(kernel));
    machines.map(value(Axis::Machine.name())).chain(kernels).collect()
}

impl<'a> Plans<'a> {
    /// Resolves all names of a campaign.
    ///
    /// # Errors
    /// Names the line of the file whose value cannot be resolved.
    pub fn of(campaign: &'a Campaign) -> Result<Plans<'a>> {
        let kernels = optional(campaign.kernels.iter().map(String::as_str));
        let cpus = optional(campaign.cpus.iter().copied());
        let without = optional(campaign.without.iter().map(String::as_str));
        let settings = campaign.settings.iter().filter(|setting| setting.option == Axis::Without.name());
        let common = settings.flat_map(|setting| setting.values.clone()).collect::<Vec<_>>().join(",");
        let mut groups = Vec::new();
        for &kernel in &kernels {
            for &cpus in &cpus {
                for &without in &without {
                    let plan = plan(campaign, [kernel, without], cpus)?;
                    let left_out = without.map_or_else(|| common.clone(), str::to_owned);
                    groups.push(Group { kernel, cpus, without, left_out, plan });
                }
            }
        }
        Ok(Plans { campaign, groups })
    }

    /// All runs in the order of the tables.
    ///
    /// # Errors
    /// If an exclusion excludes nothing, or all runs are excluded.
    pub fn runs(&self) -> Result<Vec<Planned<'_>>> {
        let mut all = Vec::new();
        let mut used = vec![false; self.campaign.exclusions.len()];
        for group in &self.groups {
            self.add_runs(group, &mut used, &mut all);
        }
        if let Some((exclusion, _)) = self.campaign.exclusions.iter().zip(&used).find(|(_, used)| !**used) {
            bail!("{}: excludes no run; expected values of the axes, with * for any characters", exclusion.place);
        }
        if all.is_empty() {
            bail!("every run is excluded; expected at least one");
        }
        Ok(all)
    }

    fn add_runs<'b>(&'b self, group: &'b Group<'a>, used: &mut [bool], all: &mut Vec<Planned<'b>>) {
        let Campaign { schedulers, machines, workloads, seeds, exclusions, .. } = self.campaign;
        let mut digests = Digests::new(&group.plan);
        let base = group.plan.runs();
        let samples = base.len() / (workloads.len() * machines.len() * schedulers.len());
        for (at, run) in base.iter().enumerate() {
            let at = at / samples;
            let point = Point {
                scheduler: &schedulers[at % schedulers.len()],
                machine: &machines[at / schedulers.len() % machines.len()],
                workload: &workloads[at / schedulers.len() / machines.len()],
                kernel: group.kernel,
                cpus: group.cpus,
                without: group.without,
                seed: 0,
                draw: run.draw,
            };
            let common = digests.of(run, &point);
            for &seed in seeds {
                let point = Point { seed, ..point };
                let excluded = exclusions.iter().map(|exclusion| exclusion.matches(&point));
                let excluded = excluded.zip(&mut *used).fold(false, |any, (is, used)| {
                    *used |= is;
                    any | is
                });
                if !excluded {
                    let id = Digest::new().with(&common.0.to_le_bytes()).with(&seed.to_le_bytes()).finish();
                    all.push(Planned { id, point, run: Run { seed, ..*run }, without: &group.left_out });
                }
            }
        }
    }
}

/// Hashes of the parts that many runs share, by the addresses of these parts.
struct Digests {
    conditions: RunId,
    parts: BTreeMap<usize, RunId>,
}

impl Digests {
    /// The version has no commit in a debug build, and does not show uncommitted changes in a release build.
    fn new(plan: &Plan) -> Digests {
        let conditions = Digest::new().with(output::FULL_VERSION.as_bytes()).with_all_of(&plan.conditions);
        Digests { conditions: conditions.finish(), parts: BTreeMap::new() }
    }

    /// Hash of everything that a run depends on but for its seed. Names are among it, as tables show them.
    fn of(&mut self, run: &Run<'_>, point: &Point<'_>) -> RunId {
        let address = |part: *const ()| part.addr();
        let scheduler = *self.parts.entry(address(std::ptr::from_ref(run.scheduler).cast())).or_insert_with(|| {
            let object = run.scheduler.object().map(worlds::object_hash).unwrap_or_default();
            let profile = run.scheduler.loadable.as_ref().map(|loadable| &loadable.profile);
            Digest::new().with(run.scheduler.name.as_bytes()).with(object.as_bytes()).with_all_of(&profile).finish()
        });
        let machine = *self
            .parts
            .entry(address(std::ptr::from_ref(run.machine).cast()))
            .or_insert_with(|| Digest::new().with(point.machine.text.as_bytes()).with_all_of(run.machine).finish());
        let workload = *self
            .parts
            .entry(address(std::ptr::from_ref(run.workload).cast()))
            .or_insert_with(|| Digest::new().with(point.workload.text.as_bytes()).with_all_of(run.workload).finish());
        let parts = [self.conditions, scheduler, machine, workload, RunId(run.draw.into())];
        parts.iter().fold(Digest::new(), |sum, part| sum.with(&part.0.to_le_bytes())).finish()
    }
}

/// The values of an axis; a single `None` if it is not one.
fn optional<T>(values: impl Iterator<Item = T>) -> Vec<Option<T>> {
    let mut values: Vec<Option<T>> = values.map(Some).collect();
    if values.is_empty() {
        values.push(None);
    }
    values
}

/// The plan of all schedulers, machines, workloads and samples, with seed 0.
fn plan(campaign: &Campaign, [kernel, without]: [Option<&str>; 2], cpus: Option<u64>) -> Result<Plan> {
    let texts = |all: &[Named]| all.iter().map(|named| named.text.clone()).collect::<Vec<_>>();
    let Campaign { schedulers, machines, workloads, settings, .. } = campaign;
    let mut axes = Vec::new();
    axes.extend(kernel.map(|kernel| ["--kernel".to_owned(), kernel.to_owned()]));
    axes.extend(cpus.map(|cpus| ["--cpus".to_owned(), cpus.to_string()]));
    axes.extend(without.filter(|words| !words.is_empty()).map(|words| ["--without".to_owned(), words.to_owned()]));
    axes.extend(campaign.draws.map(|draws| ["--draws".to_owned(), draws.to_string()]));
    axes.push(["--seed".to_owned(), "0".to_owned()]);
    for setting in settings {
        sim(&[KERNEL], &words_of(setting)).with_context(|| setting.place.clone())?;
    }
    for words in &axes {
        sim(&[KERNEL], words).map_err(|error| of_option(error, campaign))?;
    }
    let mut words: Vec<String> = axes.into_iter().flatten().chain(settings.iter().flat_map(words_of)).collect();
    words.extend(texts(machines).into_iter().flat_map(|machine| ["--machine".to_owned(), machine]));
    words.extend(texts(workloads).into_iter().flat_map(|workload| ["--workload".to_owned(), workload]));
    let args = sim(&texts(schedulers).iter().map(String::as_str).collect::<Vec<_>>(), &words)?;
    let mut plan = Plan::of(&args).map_err(|error| placed(error, campaign, &args))?;
    if let Some((name, error)) = plan.broken.pop() {
        return Err(error.context(place_of(schedulers, &name)));
    }
    if plan.suites.workloads != texts(workloads) {
        let suite = workloads.iter().find(|one| !plan.suites.workloads.contains(&one.text));
        let suite = suite.map_or(String::new(), |one| format!("{}: {}: ", one.place, one.text));
        bail!(
            "{suite}a suite of several workloads; expected workloads, such as those that weir list workloads names for it"
        );
    }
    Ok(plan)
}

/// The machine and kernel version of this computer.
const HOST: &str = "host";
/// A scheduler that every build has.
const KERNEL: &str = select::KERNEL;

/// Words of the command line that an option of the campaign stands for.
fn words_of(setting: &Setting) -> Vec<String> {
    let option = format!("--{}", setting.option);
    match setting.values.as_slice() {
        [] => vec![option],
        values => values.iter().flat_map(|value| [option.clone(), value.clone()]).collect(),
    }
}

/// The options of `weir sim` for these schedulers and other words.
fn sim(schedulers: &[&str], words: &[String]) -> Result<Sim> {
    Sim::of_words(words.iter().map(String::as_str).chain(["--"]).chain(schedulers.iter().copied()))
}

/// Adds the line of the name that cannot be resolved.
fn placed(error: anyhow::Error, campaign: &Campaign, args: &Sim) -> anyhow::Error {
    let Campaign { schedulers, machines, workloads, .. } = campaign;
    let profile = args.profile.as_deref();
    let fails = |names: &[Named], resolve: &dyn Fn(&str) -> bool| {
        names.iter().find(|named| !resolve(&named.text)).map(|named| named.place.clone())
    };
    let profile_of = |name: &str| profile.filter(|_| select::path_of(name).is_some());
    let place = fails(schedulers, &|name| select::schedulers(&[name.to_owned()], profile_of(name)).is_ok())
        .or_else(|| fails(machines, &|name| select::machine(name).is_ok()))
        .or_else(|| fails(workloads, &|name| select::workload(name, 1).is_ok()));
    match place.filter(|place| !place.is_empty()) {
        Some(place) => error.context(place),
        None => of_option(error, campaign),
    }
}

/// Adds the line of the option that an error names, such as `--cpus`.
fn of_option(error: anyhow::Error, campaign: &Campaign) -> anyhow::Error {
    let text = format!("{error:#}");
    let named = text.find("--").map(|at| &text[at + 2..]).unwrap_or_default();
    let name = named.split(|c: char| c != '-' && !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let settings = campaign.settings.iter().map(|setting| (&setting.option, &setting.place));
    let axes = campaign.places.iter().map(|(key, place)| (key, place));
    match axes.chain(settings).find(|(option, _)| *option == name) {
        Some((_, place)) => error.context(place.clone()),
        None => error,
    }
}

fn place_of(names: &[Named], text: &str) -> String {
    names.iter().find(|named| named.text == text).map(|named| named.place.clone()).unwrap_or_default()
}

impl Planned<'_> {
    /// The command line of `weir sim` that repeats the run.
    pub fn command_line(&self, campaign: &Campaign) -> String {
        let Point { scheduler, machine, workload, kernel, cpus, without, seed, draw } = self.point;
        let mut line = format!("weir sim {}", quote(&scheduler.text));
        let mut option = |name: &str, value: &str| line += &format!(" --{name} {}", quote(value));
        option("machine", &machine.text);
        option("workload", &workload.text);
        option("seed", &seed.to_string());
        kernel.iter().for_each(|kernel| option("kernel", kernel));
        cpus.iter().for_each(|cpus| option("cpus", &cpus.to_string()));
        without.iter().filter(|words| !words.is_empty()).for_each(|words| option("without", words));
        campaign.draws.iter().for_each(|draws| option("draws", &draws.to_string()));
        for word in campaign.settings.iter().flat_map(words_of) {
            line += &format!(" {}", quote(&word));
        }
        if draw > 0 {
            line += &format!("  # sample {draw}");
        }
        line
    }

    /// Value on an axis, also where it is not one of the campaign.
    pub fn value(&self, axis: Axis) -> String {
        self.point.value(axis).unwrap_or_default()
    }
}

/// Returns the runs in order, the first of each identity only.
pub fn distinct<'a, 'b>(all: &'b [Planned<'a>]) -> Vec<&'b Planned<'a>> {
    let mut seen = BTreeSet::new();
    all.iter().filter(|planned| seen.insert(planned.id)).collect()
}

#[cfg(test)]
mod tests {
    use crate::args::Args;
    use clap::CommandFactory;

    /// Options of `weir sim` that no campaign sets: axes, outputs and views, and `btf`, whose types may have no stable
    /// `Debug` form by which to identify a run.
    const OTHERS: [&str; 15] = [
        "machine", "workload", "seed", "seeds", "draws", "btf", "watch", "format", "all", "pairs", "trace", "log",
        "coverage", "save", "report",
    ];

    #[test]
    fn campaign_sets_every_option_of_sim_but_axes_and_outputs() {
        let args = Args::command();
        let sim = args.find_subcommand("sim").unwrap();
        let options = sim.get_arguments().filter_map(|option| option.get_long().map(|name| (name, option)));
        let mut of_sim: Vec<(&str, bool)> = options
            .filter(|(name, _)| !OTHERS.contains(name))
            .map(|(name, option)| (name, !option.get_action().takes_values()))
            .collect();
        let mut of_campaign = campaign::OPTIONS.to_vec();
        of_sim.sort_unstable();
        of_campaign.sort_unstable();
        assert_eq!(of_campaign, of_sim);
    }
}
