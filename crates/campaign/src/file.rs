// SPDX-License-Identifier: GPL-2.0-only
//! The file of a campaign. Unknown keys are errors, and every error names its line.

use crate::values::{MOST, Named, ValueError, expand, numbers};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

type Node<'i> = Spanned<DeValue<'i>>;
type Table<'i> = DeTable<'i>;

/// Most runs of a campaign.
const MOST_RUNS: u64 = 10_000_000;

/// Options of `weir sim` that a campaign may set: name, and whether it is a flag.
pub const OPTIONS: [(&str, bool); 14] = [
    ("for", false),
    ("kernel", false),
    ("cpus", false),
    ("without", false),
    ("noise-off", false),
    ("disk", false),
    ("network", false),
    ("page-cache", false),
    ("faults", false),
    ("call", false),
    ("profile", false),
    ("map-memory", false),
    ("check", true),
    ("warn", true),
];

/// Error in a campaign file: place, and what was found and expected.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct CampaignError {
    /// File and line.
    pub place: String,
    /// What was found and what was expected.
    pub problem: String,
}

/// A property in which runs of a campaign differ.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Axis {
    /// Scheduler with its tunables.
    Scheduler,
    /// Machine.
    Machine,
    /// Workload with its keys.
    Workload,
    /// Kernel version.
    Kernel,
    /// Number of online CPUs.
    Cpus,
    /// Effects that are left out.
    Without,
    /// Seed.
    Seed,
    /// Sample of the machine's uncertain constants.
    Draw,
}

impl Axis {
    /// All axes, in the order of the tables' columns.
    pub const ALL: [Axis; 8] = [
        Axis::Scheduler,
        Axis::Machine,
        Axis::Workload,
        Axis::Kernel,
        Axis::Cpus,
        Axis::Without,
        Axis::Seed,
        Axis::Draw,
    ];

    /// Name in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Axis::Scheduler => "scheduler",
            Axis::Machine => "machine",
            Axis::Workload => "workload",
            Axis::Kernel => "kernel",
            Axis::Cpus => "cpus",
            Axis::Without => "without",
            Axis::Seed => "seed",
            Axis::Draw => "draw",
        }
    }

    /// The axis with this name.
    pub fn named(name: &str) -> Option<Axis> {
        Axis::ALL.into_iter().find(|axis| axis.name() == name)
    }
}

/// An option that all runs share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Name of the option of `weir sim`, without its dashes.
    pub option: String,
    /// Its values, each of which repeats the option; empty for a flag.
    pub values: Vec<String>,
    /// File and line.
    pub place: String,
}

/// Runs that are left out: those that match a pattern in each of these axes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exclusion {
    matches: Vec<(Axis, Vec<String>)>,
    /// File and line.
    pub place: String,
}

/// The place of a run on each axis.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Point<'a> {
    /// Scheduler with its tunables.
    pub scheduler: &'a Named,
    /// Machine.
    pub machine: &'a Named,
    /// Workload with its keys.
    pub workload: &'a Named,
    /// Kernel version; `None` if it is not an axis.
    pub kernel: Option<&'a str>,
    /// Number of online CPUs; `None` if it is not an axis.
    pub cpus: Option<u64>,
    /// Effects left out, separated by commas; `None` if they are not an axis.
    pub without: Option<&'a str>,
    /// Seed.
    pub seed: u64,
    /// Number of the sample of the machine's uncertain constants; 0 without samples.
    pub draw: u64,
}

impl Point<'_> {
    /// Text of the value on an axis; `None` if it is not an axis of the campaign.
    pub fn value(&self, axis: Axis) -> Option<String> {
        match axis {
            Axis::Scheduler => Some(self.scheduler.text.clone()),
            Axis::Machine => Some(self.machine.text.clone()),
            Axis::Workload => Some(self.workload.text.clone()),
            Axis::Kernel => self.kernel.map(str::to_owned),
            Axis::Cpus => self.cpus.map(|cpus| cpus.to_string()),
            Axis::Without => self.without.map(str::to_owned),
            Axis::Seed => Some(self.seed.to_string()),
            Axis::Draw => Some(self.draw.to_string()),
        }
    }
}

impl Exclusion {
    /// Whether a run is left out.
    pub fn matches(&self, point: &Point<'_>) -> bool {
        let fits = |(axis, patterns): &(Axis, Vec<String>)| {
            point.value(*axis).is_some_and(|value| patterns.iter().any(|pattern| is_like(pattern, &value)))
        };
        self.matches.iter().all(fits)
    }
}

/// Whether a text matches a pattern, in which `*` stands for any characters.
fn is_like(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, tail)) => text.strip_prefix(head).is_some_and(|rest| {
            let places = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
            places.into_iter().any(|at| is_like(tail, &rest[at..]))
        }),
    }
}

/// A campaign, as its file describes it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Campaign {
    /// Schedulers.
    pub schedulers: Vec<Named>,
    /// Machines; `host` if the file names none.
    pub machines: Vec<Named>,
    /// Workloads; `build` if the file names none.
    pub workloads: Vec<Named>,
    /// Kernel versions; empty if they are not an axis.
    pub kernels: Vec<String>,
    /// Numbers of online CPUs; empty if they are not an axis.
    pub cpus: Vec<u64>,
    /// Sets of effects to leave out, each separated by commas; empty if they are not an axis.
    pub without: Vec<String>,
    /// Seeds; 0 if the file names none.
    pub seeds: Vec<u64>,
    /// Number of samples of each machine's uncertain constants.
    pub draws: Option<u64>,
    /// Options that all runs share.
    pub settings: Vec<Setting>,
    /// Runs that are left out.
    pub exclusions: Vec<Exclusion>,
    /// Where each key of `[axes]` stands: file and line.
    pub places: Vec<(String, String)>,
}

/// The file's text, to convert spans into lines.
struct Reader<'a> {
    name: &'a str,
    text: &'a str,
}

impl Campaign {
    /// Reads a campaign; `name` is the file name in errors.
    ///
    /// # Errors
    /// If the text is not TOML, has an unknown key or a wrong value, or describes more than ten million runs.
    pub fn from_toml(name: &str, text: &str) -> Result<Campaign, CampaignError> {
        let reader = Reader { name, text };
        let table = DeTable::parse(text)
            .map_err(|error| reader.error(error.span().unwrap_or(0..0), format!("not TOML: {}", error.message())))?;
        let mut campaign = Campaign::default();
        for (key, value) in table.get_ref() {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("axes", DeValue::Table(axes)) => reader.axes(axes, &mut campaign)?,
                ("options", DeValue::Table(options)) => reader.options(options, &mut campaign)?,
                ("exclude", DeValue::Array(all)) => {
                    let all = all.iter().map(|node| reader.exclusion(node));
                    campaign.exclusions = all.collect::<Result<_, _>>()?;
                }
                (key_name, _) => {
                    let problem = format!("{key_name:?}: expected only [axes], [options] and [[exclude]]");
                    return Err(reader.error(key.span(), problem));
                }
            }
        }
        if campaign.schedulers.is_empty() {
            let problem = "expected [axes] with scheduler = [\"NAME\", ...], as for weir sim";
            return Err(reader.error(0..0, problem));
        }
        campaign.complete();
        campaign.check(&reader)?;
        Ok(campaign)
    }

    /// Fills in the defaults of `weir sim`.
    fn complete(&mut self) {
        let only = |text: &str| vec![Named { text: text.to_owned(), ..Named::default() }];
        if self.machines.is_empty() {
            self.machines = only("host");
        }
        if self.workloads.is_empty() {
            self.workloads = only("build");
        }
        if self.seeds.is_empty() {
            self.seeds = vec![0];
        }
    }

    fn check(&self, reader: &Reader<'_>) -> Result<(), CampaignError> {
        let axes =
            [(Axis::Kernel, self.kernels.len()), (Axis::Cpus, self.cpus.len()), (Axis::Without, self.without.len())];
        for (axis, count) in axes {
            if let Some(setting) = self.settings.iter().find(|setting| count > 0 && setting.option == axis.name()) {
                let problem = format!("{} is an axis, too; expected it in one of [axes] and [options]", axis.name());
                return Err(CampaignError { place: setting.place.clone(), problem });
            }
        }
        let lengths = [self.schedulers.len(), self.machines.len(), self.workloads.len(), self.seeds.len()];
        let lengths = lengths.into_iter().chain(axes.map(|(_, count)| count.max(1)));
        let runs =
            lengths.map(|length| length as u64).chain(self.draws).try_fold(1u64, |all, one| all.checked_mul(one));
        if runs.is_none_or(|runs| runs > MOST_RUNS) {
            return Err(reader.error(0..0, format!("expected at most {MOST_RUNS} runs")));
        }
        Ok(())
    }
}

impl Reader<'_> {
    fn place(&self, span: Range<usize>) -> String {
        let before = self.text.get(..span.start).unwrap_or("");
        format!("{}:{}", self.name, before.matches('\n').count() + 1)
    }

    fn error(&self, span: Range<usize>, problem: impl Into<String>) -> CampaignError {
        CampaignError { place: self.place(span), problem: problem.into() }
    }

    fn axes(&self, axes: &Table<'_>, campaign: &mut Campaign) -> Result<(), CampaignError> {
        for (key, value) in axes {
            campaign.places.push((key.get_ref().to_string(), self.place(key.span())));
            match key.get_ref().as_ref() {
                "scheduler" => campaign.schedulers = self.names(value)?,
                "machine" => campaign.machines = self.names(value)?,
                "workload" => campaign.workloads = self.names(value)?,
                "kernel" => campaign.kernels = self.distinct(value, self.only_texts(value)?)?,
                "cpus" => campaign.cpus = self.numbers(value)?,
                "without" => campaign.without = self.distinct(value, self.only_texts(value)?)?,
                "seed" => campaign.seeds = self.seeds(value)?,
                "draws" => {
                    let draws = self.integer(value).filter(|draws| (2..=1000).contains(draws));
                    campaign.draws =
                        Some(draws.ok_or_else(|| self.error(value.span(), "expected a number of samples, 2 to 1000"))?);
                }
                other => {
                    let known = "scheduler, machine, workload, kernel, cpus, without, seed and draws";
                    return Err(self.error(key.span(), format!("{other:?}: expected only {known}")));
                }
            }
        }
        Ok(())
    }

    fn options(&self, options: &Table<'_>, campaign: &mut Campaign) -> Result<(), CampaignError> {
        for (key, value) in options {
            let name = key.get_ref().as_ref();
            let Some((_, is_flag)) = OPTIONS.iter().find(|(option, _)| *option == name) else {
                let known = OPTIONS.map(|(option, _)| option).join(", ");
                return Err(self.error(key.span(), format!("{name:?}: expected one of the options {known}")));
            };
            let values = match value.get_ref() {
                DeValue::Boolean(wanted) if *is_flag => {
                    if !wanted {
                        continue;
                    }
                    Vec::new()
                }
                _ if *is_flag => return Err(self.error(value.span(), format!("{name}: expected true or false"))),
                _ => self.only_texts(value)?,
            };
            let place = self.place(key.span());
            campaign.settings.push(Setting { option: name.to_owned(), values, place });
        }
        Ok(())
    }

    fn exclusion(&self, node: &Node<'_>) -> Result<Exclusion, CampaignError> {
        let DeValue::Table(table) = node.get_ref() else {
            return Err(self.error(node.span(), "expected a [[exclude]] table"));
        };
        let mut matches = Vec::new();
        for (key, value) in table {
            let Some(axis) = Axis::named(key.get_ref()) else {
                let known = Axis::ALL.map(Axis::name).join(", ");
                return Err(self.error(key.span(), format!("{:?}: expected one of the axes {known}", key.get_ref())));
            };
            matches.push((axis, self.only_texts(value)?));
        }
        if matches.is_empty() {
            return Err(self.error(node.span(), "expected at least one axis, such as scheduler = \"NAME\""));
        }
        Ok(Exclusion { matches, place: self.place(node.span()) })
    }

    /// Names with alternatives in braces.
    fn names(&self, node: &Node<'_>) -> Result<Vec<Named>, CampaignError> {
        let mut all = Vec::new();
        for (text, span) in self.texts(node)? {
            let names = expand(&text).map_err(|ValueError(problem)| self.error(span.clone(), problem))?;
            let place = self.place(span.clone());
            self.limit(all.len() + names.len(), span)?;
            all.extend(names.into_iter().map(|named| Named { place: place.clone(), ..named }));
        }
        self.distinct(node, all.iter().map(|named| named.text.clone()).collect())?;
        Ok(all)
    }

    /// Numbers of a range, an integer, or a list of both.
    fn numbers(&self, node: &Node<'_>) -> Result<Vec<u64>, CampaignError> {
        let mut all = Vec::new();
        for (text, span) in self.texts(node)? {
            let more = numbers(&text).map_err(|ValueError(problem)| self.error(span.clone(), problem))?;
            self.limit(all.len() + more.len(), span)?;
            all.extend(more);
        }
        self.distinct(node, all)
    }

    /// Seeds, which tables have as signed integers.
    fn seeds(&self, node: &Node<'_>) -> Result<Vec<u64>, CampaignError> {
        let seeds = self.numbers(node)?;
        match seeds.iter().find(|seed| i64::try_from(**seed).is_err()) {
            Some(seed) => Err(self.error(node.span(), format!("seed {seed}: expected at most {}", i64::MAX))),
            None => Ok(seeds),
        }
    }

    /// Refuses more values than one axis may have, while its list is read.
    fn limit(&self, count: usize, span: Range<usize>) -> Result<(), CampaignError> {
        if count as u64 > MOST { Err(self.error(span, format!("expected at most {MOST} values"))) } else { Ok(()) }
    }

    fn distinct<T: Ord + std::fmt::Debug>(&self, node: &Node<'_>, all: Vec<T>) -> Result<Vec<T>, CampaignError> {
        let mut sorted: Vec<&T> = all.iter().collect();
        sorted.sort();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => {
                Err(self.error(node.span(), format!("{:?} is named twice; expected different values", pair[0])))
            }
            None => Ok(all),
        }
    }

    /// A text or integer, or a list of them with at least one, and their spans.
    fn texts(&self, node: &Node<'_>) -> Result<Vec<(String, Range<usize>)>, CampaignError> {
        let expected = "expected a text, a number, or a list of these that is not empty";
        let one = |node: &Node<'_>| {
            let text = self.text(node).ok_or_else(|| self.error(node.span(), expected))?;
            Ok((text, node.span()))
        };
        match node.get_ref() {
            DeValue::Array(all) if !all.is_empty() => all.iter().map(one).collect(),
            _ => Ok(vec![one(node)?]),
        }
    }

    fn only_texts(&self, node: &Node<'_>) -> Result<Vec<String>, CampaignError> {
        Ok(self.texts(node)?.into_iter().map(|(text, _)| text).collect())
    }

    fn text(&self, node: &Node<'_>) -> Option<String> {
        match node.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            _ => self.integer(node).map(|number| number.to_string()),
        }
    }

    fn integer(&self, node: &Node<'_>) -> Option<u64> {
        match node.get_ref() {
            DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(names: &[Named]) -> Vec<&str> {
        names.iter().map(|named| named.text.as_str()).collect()
    }

    #[test]
    fn file_with_all_keys_is_read() {
        let text = r#"
            [axes]
            scheduler = ["kernel", "bfs,rr_interval_ms={2,6}"]
            machine = "laptop-2c4t"
            workload = ["video", "build,jobs={1..3}"]
            kernel = ["7.2", "6.18"]
            cpus = [1, "2-3"]
            without = ["", "smt,locks"]
            seed = "1-100"
            draws = 20
            [options]
            for = "10s"
            disk = ["sda=nvme", "sdb=nvme"]
            check = true
            warn = false
            [[exclude]]
            scheduler = "bfs*"
            seed = [1, 2]
        "#;
        let campaign = Campaign::from_toml("c.toml", text).unwrap();
        assert_eq!(texts(&campaign.schedulers), ["kernel", "bfs,rr_interval_ms=2", "bfs,rr_interval_ms=6"]);
        assert_eq!(texts(&campaign.workloads), ["video", "build,jobs=1", "build,jobs=2", "build,jobs=3"]);
        assert_eq!((campaign.kernels.len(), campaign.cpus.as_slice()), (2, &[1, 2, 3][..]));
        assert_eq!((campaign.seeds.len(), campaign.draws), (100, Some(20)));
        assert_eq!(campaign.without, ["", "smt,locks"]);
        let settings: Vec<_> = campaign.settings.iter().map(|it| (it.option.as_str(), it.values.len())).collect();
        assert_eq!(settings, [("check", 0), ("disk", 2), ("for", 1)]);
        let point = |scheduler, seed| Point {
            scheduler: &campaign.schedulers[scheduler],
            machine: &campaign.machines[0],
            workload: &campaign.workloads[0],
            kernel: None,
            cpus: None,
            without: None,
            seed,
            draw: 0,
        };
        let excluded = |scheduler, seed| campaign.exclusions[0].matches(&point(scheduler, seed));
        assert_eq!([excluded(0, 1), excluded(1, 1), excluded(2, 2), excluded(2, 3)], [false, true, true, false]);
    }

    #[test]
    fn defaults_are_those_of_weir_sim() {
        let campaign = Campaign::from_toml("c", "axes.scheduler = 'fifo'").unwrap();
        assert_eq!((texts(&campaign.machines), texts(&campaign.workloads)), (vec!["host"], vec!["build"]));
        assert_eq!(campaign.seeds, [0]);
    }

    #[test]
    fn errors_name_line_and_expectation() {
        let known = "expected only scheduler, machine, workload, kernel, cpus, without, seed and draws";
        let cases = [
            ("", "c:1: expected [axes] with scheduler = [\"NAME\", ...], as for weir sim"),
            ("\n[axis]", "c:2: \"axis\": expected only [axes], [options] and [[exclude]]"),
            ("axes = 3", "c:1: \"axes\": expected only [axes], [options] and [[exclude]]"),
            ("[axes]\nseeds = 3", &format!("c:2: \"seeds\": {known}")),
            ("[axes]\nscheduler = []", "c:2: expected a text, a number, or a list of these that is not empty"),
            ("[axes]\nscheduler = ['a', 'a']", "c:2: \"a\" is named twice; expected different values"),
            ("[axes]\nseed = '1-5,3'", "c:2: 3 is named twice; expected different values"),
            ("[axes]\nseed = '5-1'", "c:2: 5-1: expected a range whose second number is not below the first"),
            ("[axes]\nseed = -1", "c:2: expected a text, a number, or a list of these that is not empty"),
            (
                "[axes]\nseed = [1, '9223372036854775806-9223372036854775808']",
                "c:2: seed 9223372036854775808: expected at most 9223372036854775807",
            ),
            ("[axes]\nseed = ['1-999999', '1000000-1000001']", "c:2: expected at most 1000000 values"),
            ("[axes]\ncpus = [1,\n'1-1000000']", "c:3: expected at most 1000000 values"),
            ("[axes]\nscheduler = ['a{1..999999}',\n'b{1..9}']", "c:3: expected at most 1000000 values"),
            ("[axes]\ndraws = 1", "c:2: expected a number of samples, 2 to 1000"),
            (
                "[options]\nseed = 1",
                "c:2: \"seed\": expected one of the options for, kernel, cpus, without, noise-off, disk, network, page-cache, faults, call, profile, map-memory, check, warn",
            ),
            ("[options]\ncheck = 1", "c:2: check: expected true or false"),
            (
                "axes.scheduler = 'a'\naxes.cpus = 1\noptions.cpus = 2",
                "c:3: cpus is an axis, too; expected it in one of [axes] and [options]",
            ),
            ("axes.scheduler = 'a'\n[[exclude]]", "c:2: expected at least one axis, such as scheduler = \"NAME\""),
            (
                "exclude = [{x = 1}]",
                "c:1: \"x\": expected one of the axes scheduler, machine, workload, kernel, cpus, without, seed, draw",
            ),
            ("axes.scheduler = 'a{1..9000}'\naxes.seed='1-9000'", "c:1: expected at most 10000000 runs"),
        ];
        for (text, error) in cases {
            let found = Campaign::from_toml("c", text).map_err(|error| error.to_string());
            assert_eq!(found, Err(error.to_owned()), "{text}");
        }
        assert!(Campaign::from_toml("c", "[").unwrap_err().to_string().starts_with("c:1: not TOML: "));
    }

    #[test]
    fn pattern_stands_for_any_characters() {
        for (pattern, text, fits) in [
            ("bfs", "bfs", true),
            ("bfs", "bfs,x=1", false),
            ("bfs*", "bfs,x=1", true),
            ("*=1", "bfs,x=1", true),
            ("*,*1", "bfs,x=1", true),
            ("b*f", "bfs", false),
            ("*", "", true),
            ("é*", "éa", true),
        ] {
            assert_eq!(is_like(pattern, text), fits, "{pattern} {text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(\\[axes\\]|scheduler|seed|draws| = |['\"\\[\\],{}=\n#0-9a-f-]){0,30}") {
            let _ = Campaign::from_toml("c", &text);
        }
    }
}
