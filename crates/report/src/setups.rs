// SPDX-License-Identifier: GPL-2.0-only
//! Grouping of runs into setups and of setups into tables, and statistical comparison of setups.
//!
//! 1. Runs that agree in scheduler and its object, machine and its effects, workload, world, kernel and calls are
//!    repetitions of one setup. Repetitions of a simulated setup have different seeds: a duplicate seed begins
//!    another setup, such as the same scheduler on another day.
//! 2. Simulated setups are compared along the first of scheduler, machine, workload that has several values; setups
//!    that agree in the others form a group. Setups from files form one group per workload, or a single group if some
//!    workload has only one setup.
//! 3. Each part of a composed workload forms groups of its own.
//! 4. The first setup of a group is the baseline, with which the others are compared.

use crate::{Outcome, Record, Tags, World, labels};
use measures::catalogue::{Better, CATALOGUE, Measure};
use statistics::{Direction, Family, Row, Verdict};

pub use statistics::Interval as Judgement;

/// Runs that differ only by random variation.
#[derive(Debug)]
pub(crate) struct Setup<'a> {
    pub name: String,
    /// Ordered by machine sample and seed.
    pub runs: Vec<&'a Record>,
}

/// Setups that are compared with each other.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    /// Common properties of the setups.
    pub title: String,
    /// Property in which the setups differ and by which they are named, such as `scheduler`.
    pub axis: &'static str,
    pub setups: Vec<Setup<'a>>,
    /// Comparison of each setup, except the first one, with the first.
    pub compared: Vec<Compared>,
}

/// Comparison of a setup with the first one of its group.
#[derive(Debug)]
pub(crate) struct Compared {
    pub paired: bool,
    /// One per measure of the catalogue; `None` if it is unknown in some run, or not all runs completed their work.
    pub judgements: Vec<Option<Judgement>>,
}

impl Setup<'_> {
    /// The known values of a measure: of each run, or for each machine sample the median over its seeds. Tests count
    /// machine samples, as the seeds of one sample are not independent with respect to other machines.
    pub fn values(&self, measure: usize) -> Vec<u64> {
        let known = |runs: &[&Record]| runs.iter().filter_map(|run| run.values[measure]).collect::<Vec<_>>();
        if !self.is_drawn() {
            return known(&self.runs);
        }
        let draws = self.runs.chunk_by(|a, b| a.tags.draw == b.tags.draw).map(known);
        draws.filter(|values| !values.is_empty()).map(|values| statistics::median(&values)).collect()
    }

    /// Whether its runs have several machine samples.
    pub fn is_drawn(&self) -> bool {
        self.runs.iter().any(|run| run.tags.draw != self.runs[0].tags.draw)
    }

    /// Number of machine samples, or number of runs if there is only one sample.
    pub fn units(&self) -> usize {
        if self.is_drawn() { self.runs.chunk_by(|a, b| a.tags.draw == b.tags.draw).count() } else { self.runs.len() }
    }

    /// Median of the known values, if any.
    pub fn median(&self, measure: usize) -> Option<u64> {
        let values = self.values(measure);
        (!values.is_empty()).then(|| statistics::median(&values))
    }

    /// Whether it is a part of a workload.
    pub fn is_part(&self) -> bool {
        self.runs[0].tags.part.is_some()
    }

    pub fn all_completed(&self) -> bool {
        self.runs.iter().all(|run| run.ending.outcome() == Outcome::Completed)
    }
}

/// Name of a property of runs, and its value.
type Axis = (&'static str, fn(&Tags) -> &str);

const AXES: [Axis; 7] = [
    ("scheduler", |tags| &tags.scheduler),
    ("machine", |tags| &tags.machine),
    ("workload", |tags| &tags.workload),
    ("world", |tags| tags.world.as_str()),
    ("kernel", |tags| &tags.kernel),
    ("calls", |tags| &tags.calls),
    ("part", |tags| tags.part.as_deref().unwrap_or_default()),
];
const WORKLOAD: usize = 2;
const WORLD: usize = 3;
const CALLS: usize = 5;
const PART: usize = 6;

fn identity(tags: &Tags) -> [&str; AXES.len()] {
    AXES.map(|(_, value)| value(tags))
}

/// Whether two runs may be repetitions of one setup. Documents of earlier versions contain neither objects nor
/// effects.
fn repeats(one: &Tags, other: &Tags) -> bool {
    fn agree<T: PartialEq>(one: &Option<T>, other: &Option<T>) -> bool {
        one.is_none() || other.is_none() || one == other
    }
    identity(one) == identity(other)
        && agree(&one.object_hash, &other.object_hash)
        && agree(&one.effects, &other.effects)
}

/// Forms the groups of these runs, with judgements.
pub(crate) fn groups(records: &[Record]) -> Vec<Group<'_>> {
    let setups = setups(records);
    let several: Vec<usize> = (0..PART)
        .filter(|&axis| setups.iter().any(|one| identity(tags(one))[axis] != identity(tags(&setups[0]))[axis]))
        .collect();
    let from_files = records.iter().any(|record| record.file.is_some());
    let (by, names) = if from_files { of_files(&setups, &several) } else { of_simulated(&several) };
    let mut groups: Vec<Vec<Setup<'_>>> = Vec::new();
    for setup in setups {
        let same = |group: &&mut Vec<Setup<'_>>| {
            by.iter().all(|&axis| identity(tags(&group[0]))[axis] == identity(tags(&setup))[axis])
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(setup),
            None => groups.push(vec![setup]),
        }
    }
    groups.into_iter().map(|setups| group(setups, &names)).collect()
}

fn tags<'a>(setup: &Setup<'a>) -> &'a Tags {
    &setup.runs[0].tags
}

fn setups(records: &[Record]) -> Vec<Setup<'_>> {
    let mut setups: Vec<Setup<'_>> = Vec::new();
    for record in records {
        let drawn = |run: &Record| (run.tags.draw, run.tags.seed);
        let takes = |setup: &&mut Setup<'_>| {
            let again = |run: &&Record| run.tags.world == World::Sim && drawn(run) == drawn(record);
            repeats(tags(setup), &record.tags) && !setup.runs.iter().any(again)
        };
        match setups.iter_mut().find(takes) {
            Some(setup) => setup.runs.push(record),
            None => setups.push(Setup { name: String::new(), runs: vec![record] }),
        }
    }
    setups.iter_mut().for_each(|setup| setup.runs.sort_by_key(|run| (run.tags.draw, run.tags.seed)));
    setups
}

/// Axes that separate groups, and axes that name setups.
fn of_simulated(several: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let axis = several.first().copied().unwrap_or(0);
    ((0..AXES.len()).filter(|&other| other != axis).collect(), vec![axis])
}

/// Like [`of_simulated`], for runs from files. The world is always named, other properties only if they distinguish
/// setups.
fn of_files(setups: &[Setup<'_>], several: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let same_workload = |one: &Setup<'_>, other: &Setup<'_>| {
        (&tags(one).workload, &tags(one).part) == (&tags(other).workload, &tags(other).part)
    };
    let alone = |setup: &Setup<'_>| setups.iter().filter(|other| same_workload(other, setup)).count() == 1;
    let by = if setups.iter().any(alone) { vec![PART] } else { vec![WORKLOAD, PART] };
    let mut names: Vec<usize> = Vec::new();
    for &axis in several.iter().filter(|axis| !by.contains(axis)) {
        let same = |one: &Setup<'_>, other: &Setup<'_>, axes: &[usize]| {
            axes.iter().chain(&by).all(|&axis| identity(tags(one))[axis] == identity(tags(other))[axis])
        };
        let splits =
            |one: &Setup<'_>| setups.iter().any(|other| same(one, other, &names) && !same(one, other, &[axis]));
        if axis == WORLD || setups.iter().any(splits) {
            names.push(axis);
        }
    }
    (by, if names.is_empty() { vec![0] } else { names })
}

fn group<'a>(mut setups: Vec<Setup<'a>>, names: &[usize]) -> Group<'a> {
    for setup in &mut setups {
        setup.name = names.iter().map(|&axis| identity(tags(setup))[axis]).collect::<Vec<_>>().join(" ");
    }
    labels::tell_apart(&mut setups);
    let axis = match names {
        [one] => AXES[*one].0,
        _ => "run",
    };
    let others = setups.len() - 1;
    let compared = setups[1..].iter().map(|other| compare(&setups[0], other, others)).collect();
    Group { title: title(&setups, names), axis, setups, compared }
}

/// Common properties of all setups, and the number of runs.
fn title(setups: &[Setup<'_>], names: &[usize]) -> String {
    let mut parts = Vec::new();
    for (index, (name, value)) in AXES.iter().enumerate() {
        let first = value(tags(&setups[0]));
        let common = setups.iter().all(|setup| value(tags(setup)) == first);
        let goes_without_saying =
            index == WORLD && first == "sim" || [CALLS, PART].contains(&index) && first.is_empty();
        if common && !names.contains(&index) && !goes_without_saying {
            parts.push(format!("{name} {first}"));
        }
    }
    let seeds: Vec<String> = setups.iter().map(seeds).collect();
    let kernel = parts.iter().position(|part| part.starts_with("kernel ")).unwrap_or(parts.len());
    if seeds.iter().all(|one| *one == seeds[0]) {
        parts.insert(kernel, seeds[0].clone());
    } else {
        let each: Vec<String> = setups.iter().map(|setup| format!("{}: {}", setup.name, self::seeds(setup))).collect();
        parts.push(each.join(", "));
    }
    parts.join(", ")
}

/// `seed 0`, `seeds 1-16`, `3 runs`, `20 samples of 3 seeds`.
fn seeds(setup: &Setup<'_>) -> String {
    if setup.is_drawn() {
        return format!("{} samples of {} seeds", setup.units(), setup.runs.len() / setup.units());
    }
    let seeds: Vec<u64> = setup.runs.iter().filter_map(|run| run.tags.seed).collect();
    match seeds.as_slice() {
        [one] if setup.runs.len() == 1 => format!("seed {one}"),
        [first, .., last] if seeds.len() == setup.runs.len() && last - first + 1 == seeds.len() as u64 => {
            format!("seeds {first}-{last}")
        }
        _ => crate::counted(setup.runs.len() as u64, "run"),
    }
}

/// Judges each measure. Measures of runs that did different work, because the scheduler was ejected, are not
/// comparable.
pub(crate) fn compare(a: &Setup<'_>, b: &Setup<'_>, comparisons: usize) -> Compared {
    let drawn = |setup: &Setup<'_>| setup.runs.iter().map(|run| (run.tags.draw, run.tags.seed)).collect::<Vec<_>>();
    let seeded = a.runs.iter().chain(&b.runs).all(|run| run.tags.seed.is_some());
    let paired = seeded && drawn(a) == drawn(b);
    let mut judgements = vec![None; CATALOGUE.len()];
    if !a.all_completed() || !b.all_completed() {
        return Compared { paired, judgements };
    }
    let known = |&measure: &usize| a.runs.iter().chain(&b.runs).all(|run| run.values[measure].is_some());
    let measures: Vec<usize> = (0..CATALOGUE.len()).filter(known).collect();
    let direction = |better| match better {
        Better::Less => Direction::LowerIsBetter,
        Better::More => Direction::HigherIsBetter,
        Better::Neither => Direction::Neutral,
    };
    let row = |&measure: &usize| Row {
        a: a.values(measure),
        b: b.values(measure),
        direction: direction(CATALOGUE[measure].better),
    };
    let rows: Vec<Row> = measures.iter().map(row).collect();
    for (measure, judged) in measures.into_iter().zip(statistics::compare(&rows, Family { paired, comparisons })) {
        judgements[measure] = Some(judged);
    }
    Compared { paired, judgements }
}

/// Comparison of one measure of two setups.
#[derive(Clone, Copy, Debug)]
pub struct Judged {
    /// The measure.
    pub measure: &'static Measure,
    /// Its interval and verdict.
    pub interval: Judgement,
}

impl Judged {
    /// Whether it is marked as better or worse.
    pub fn is_marked(&self) -> bool {
        matches!(self.interval.verdict, Verdict::Better | Verdict::Worse)
    }

    /// Whether it is marked as worse.
    pub fn is_worse(&self) -> bool {
        self.interval.verdict == Verdict::Worse
    }
}

/// The judgements of all comparisons among these runs, as in reports.
pub fn judge(records: &[Record]) -> Vec<Judged> {
    let of_one = |compared: &Compared| {
        let judged = CATALOGUE.iter().zip(compared.judgements.clone());
        judged.filter_map(|(measure, interval)| Some(Judged { measure, interval: interval? })).collect::<Vec<_>>()
    };
    groups(records).iter().flat_map(|group| &group.compared).flat_map(of_one).collect()
}
