// SPDX-License-Identifier: GPL-2.0-only
//! A claim and the runs that judge it.

/// One published claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Identifier, unique among all claims: lower-case letters, digits, `.` and `-`.
    pub id: String,
    /// The claim in one sentence.
    pub text: String,
    /// Short literal quotation from the source.
    pub seed_text: String,
    /// Author, title and date of the source.
    pub source: String,
    /// Published figure, as text; `None` if the source gives none.
    pub published: Option<String>,
    /// Published figure as the relative difference of the measure, in parts per million.
    pub published_ppm: Option<i64>,
    /// File and line.
    pub place: String,
    /// How it is judged.
    pub test: Test,
}

/// How a claim is judged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Test {
    /// By these runs.
    Runs(Box<Experiment>),
    /// Not at all, for this reason.
    Untestable(String),
}

/// Runs that judge a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Experiment {
    /// First side, the baseline of the difference.
    pub a: Side,
    /// Second side; `None` if `over` compares two measures of the same run.
    pub b: Option<Side>,
    /// Key of the compared measure: a key of the catalogue of measures, or such a key of a part, group or task, as in
    /// `parts.film-25.late_ns.count` or `groups./a.cpu_ns`.
    pub measure: String,
    /// Key of a measure by which the measure is divided. Without a second side the difference is `measure / over - 1`.
    pub over: Option<String>,
    /// What is expected of the difference.
    pub expect: Expectation,
    /// Effects that carry the claim. A machine that lacks one of them cannot judge it.
    pub needs: Vec<String>,
    /// Number of samples of the machine's uncertain constants.
    pub draws: u64,
    /// Number of seeds for each sample.
    pub seeds: u64,
    /// The same runs without what carries the claim; `None` if nothing can be switched off.
    pub off: Option<Off>,
    /// Values of a parameter on which the claim may depend.
    pub steps: Option<Steps>,
}

/// One side of a comparison.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Side {
    /// Runs of a scheduler on a simulated machine.
    Run(Setup),
    /// Timed searches of a map of blocks, on this machine.
    Search(Search),
}

impl Side {
    /// The side with `{}` replaced in all texts.
    #[must_use]
    pub fn at(&self, value: &str) -> Side {
        let put = |text: &str| text.replace("{}", value);
        match self {
            Side::Run(setup) => Side::Run(Setup {
                scheduler: put(&setup.scheduler),
                machine: put(&setup.machine),
                workload: put(&setup.workload),
                options: setup.options.iter().map(|(option, text)| (option.clone(), put(text))).collect(),
            }),
            Side::Search(search) => Side::Search(Search { name: put(&search.name), map: put(&search.map) }),
        }
    }

    /// The side with these values in place of its own.
    #[must_use]
    pub fn with(&self, changes: &Changes) -> Side {
        match self {
            Side::Run(setup) => Side::Run(setup.with(changes)),
            Side::Search(search) => Side::Search(search.with(changes)),
        }
    }
}

/// What runs on one side.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Setup {
    /// Scheduler with preset and tunables.
    pub scheduler: String,
    /// Machine.
    pub machine: String,
    /// Workload.
    pub workload: String,
    /// Further options of `weir sim`, without dashes, with their values.
    pub options: Vec<(String, String)>,
}

impl Setup {
    /// The words of `weir sim` that describe the side, without seeds and samples.
    pub fn words(&self) -> Vec<String> {
        let mut words = vec!["--machine".to_owned(), self.machine.clone()];
        words.extend(["--workload".to_owned(), self.workload.clone()]);
        words.extend(self.options.iter().flat_map(|(option, value)| [format!("--{option}"), value.clone()]));
        words.extend(["--".to_owned(), self.scheduler.clone()]);
        words
    }

    /// The setup with these values in place of its own.
    #[must_use]
    pub fn with(&self, changes: &Changes) -> Setup {
        let mut setup = self.clone();
        for (key, value) in changes {
            match key.as_str() {
                "scheduler" => setup.scheduler.clone_from(value),
                "machine" => setup.machine.clone_from(value),
                "workload" => setup.workload.clone_from(value),
                option => {
                    setup.options.retain(|(name, _)| name != option);
                    setup.options.push((option.to_owned(), value.clone()));
                }
            }
        }
        setup
    }
}

/// A search that is timed on this machine.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Search {
    /// Name of the search, as `bitfit bench` prints it.
    pub name: String,
    /// The map: `trandfactor=N`, one block in N is metadata, and `mib=N`, its size; separated by commas.
    pub map: String,
}

impl Search {
    /// The search with these values in place of its own.
    #[must_use]
    pub fn with(&self, changes: &Changes) -> Search {
        let find = |key: &str| changes.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
        Search {
            name: find("search").unwrap_or_else(|| self.name.clone()),
            map: find("bitmap").unwrap_or_else(|| self.map.clone()),
        }
    }
}

/// Keys of a side with new values.
pub type Changes = Vec<(String, String)>;

/// What is switched off to see whether the difference vanishes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Off {
    /// Changes of both sides.
    pub both: Changes,
    /// Changes of the first side.
    pub a: Changes,
    /// Changes of the second side.
    pub b: Changes,
}

/// What is expected of the difference `b / a - 1`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expectation {
    /// Expected sign: -1, 1, or 0 if no difference is expected.
    pub sign: i64,
    /// Lowest and highest expected difference, in parts per million; with a sign of 0 the limits of what counts as no
    /// difference. `None` if only the sign was published.
    pub range_ppm: Option<(i64, i64)>,
}

/// Values of a parameter, and the sign that is expected at each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Steps {
    /// Name of the parameter, for people.
    pub of: String,
    /// Its values, in ascending order; each replaces `{}` in the sides.
    pub values: Vec<String>,
    /// Expected sign at each value.
    pub signs: Vec<i64>,
    /// Expected range at each value, in parts per million; `None`: that of the claim's expectation.
    pub ranges_ppm: Vec<Option<(i64, i64)>>,
}
