// SPDX-License-Identifier: GPL-2.0-only
//! What a report says of several runs, as data: for those who lay it out themselves, such as a page. It is made by what
//! makes the text, so both say the same.

use crate::comparison::{difference, explanation, is_same, is_shown, range_of, said_once};
use crate::notes::{Note, of_setup, outcome};
use crate::numbers::{GLUE, value_text};
use crate::setups::{self, Compared, Group, Judgement, groups};
use crate::{Record, View, printable_record, sentence, unvalidated_effects};
use measures::catalogue::{Better, CATALOGUE, Measure, Rank};

/// All of it.
#[derive(Clone, Debug)]
pub struct Content {
    /// One for each group of setups that are compared, in order; those of parts of workloads come with their whole.
    pub tables: Vec<Table>,
    /// How to read values, differences and marks.
    pub explanation: String,
    /// Which effects took part that were compared with no measurement yet.
    pub unvalidated: Option<String>,
}

/// Setups that are compared with each other, or one alone.
#[derive(Clone, Debug)]
pub struct Table {
    /// What they have in common.
    pub title: String,
    /// What their names are: `scheduler`.
    pub axis: &'static str,
    /// The part of the workload, if it is about one.
    pub part: Option<String>,
    /// The first is the base of all differences.
    pub setups: Vec<Setup>,
    /// Each measure that is known of some setup.
    pub rows: Vec<Row>,
    /// How the setups differ, or what came of the only one.
    pub sentences: Vec<Sentence>,
    /// What is the same in all of several setups, with its value; nothing of measures that are 0.
    pub same: Vec<String>,
    /// What a reader must know beside the numbers.
    pub notes: Vec<Note>,
}

/// What is said of a setup.
#[derive(Clone, Debug)]
pub struct Sentence {
    /// The words.
    pub text: String,
    /// The ranges of the differences that matter most: `makespan -1.0 to -0.2 %`.
    pub ranges: Vec<String>,
}

/// Runs that differ by chance alone.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What tells it from the others.
    pub name: String,
    /// Its runs, as places in the list of records, in order of draws and seeds.
    pub runs: Vec<usize>,
}

/// A measure of each setup.
#[derive(Clone, Debug)]
pub struct Row {
    /// The measure.
    pub measure: &'static Measure,
    /// For each setup.
    pub cells: Vec<Cell>,
    /// It is one of those that matter, and says something that the others do not.
    pub is_shown: bool,
}

/// A measure of one setup.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The values of its runs, or of its draws, that are known.
    pub values: Vec<u64>,
    /// Their median.
    pub median: Option<u64>,
    /// In which 95 % of such medians are.
    pub interval: Option<(u64, u64)>,
    /// The median with its unit; `-` if it is not known.
    pub text: String,
    /// Its distance from the base; `None` for the base.
    pub versus: Option<Versus>,
}

/// A measure of a setup against that of the base.
#[derive(Clone, Debug)]
pub struct Versus {
    /// The difference: `-3.1 %`, `2.3x`; empty if there is none to tell.
    pub text: String,
    /// Its range.
    pub range: Option<String>,
    /// What the runs tell; `None` if there is one run of each, or they did other work.
    pub judgement: Option<Judgement>,
    /// Whether runs of the same seed were compared.
    pub paired: bool,
}

/// What is to be said of these runs. No text in it can steer a terminal, or a page with its direction.
pub fn content(records: &[Record]) -> Content {
    let records: Vec<Record> = records.iter().map(printable_record).collect();
    let groups = groups(&records);
    Content {
        tables: groups.iter().map(|group| table(group, &records)).collect(),
        explanation: plain(&explanation(&groups, true)),
        unvalidated: unvalidated_effects(records.iter().map(|run| &run.tags)),
    }
}

/// Words as the text has them, but for spaces at which lines must not break: pages have a word for those.
fn plain(text: &str) -> String {
    text.replace(GLUE, "\u{a0}")
}

fn table(group: &Group<'_>, records: &[Record]) -> Table {
    let first = &group.setups[0];
    let place = |run: &&Record| records.iter().position(|record| std::ptr::eq(record, *run));
    let setup = |setup: &setups::Setup<'_>| Setup {
        name: setup.name.clone(),
        runs: setup.runs.iter().filter_map(place).collect(),
    };
    let others = group.setups[1..].iter().zip(&group.compared);
    let said = |(other, compared)| Sentence {
        text: plain(&sentence::of(group, other, compared)),
        ranges: headline_ranges(compared),
    };
    let mut sentences: Vec<Sentence> = others.map(said).collect();
    sentences.retain(|sentence| !sentence.text.is_empty());
    if group.setups.iter().all(|setup| setup.runs.len() == 1) {
        let ended = |setup: &setups::Setup<'_>| Sentence {
            text: format!("{} {}.", setup.name, outcome(setup.runs[0])),
            ranges: Vec::new(),
        };
        // Of one that was ejected its note says more.
        let says = |setup: &&setups::Setup<'_>| !setup.is_part() && setup.runs[0].ending.ejected.is_none();
        sentences.splice(0..0, group.setups.iter().filter(says).map(ended));
    }
    let known = |&measure: &usize| group.setups.iter().any(|setup| setup.median(measure).is_some());
    let shown = |&measure: &usize| is_shown(group, measure, View::default());
    let same: Vec<usize> = (0..CATALOGUE.len()).filter(shown).filter(|&measure| is_all_same(group, measure)).collect();
    Table {
        title: group.title.clone(),
        axis: group.axis,
        part: first.runs[0].tags.part.clone(),
        setups: group.setups.iter().map(setup).collect(),
        rows: (0..CATALOGUE.len()).filter(known).map(|measure| row(group, measure)).collect(),
        same: same.iter().filter_map(|&measure| said_once(first, measure)).map(|text| plain(&text)).collect(),
        sentences,
        notes: group.setups.iter().flat_map(of_setup).collect(),
    }
}

fn row(group: &Group<'_>, measure: usize) -> Row {
    let base = &group.setups[0];
    let cell = |(index, setup): (usize, &setups::Setup<'_>)| {
        let values = setup.values(measure);
        let compared = index.checked_sub(1).map(|index| &group.compared[index]);
        Cell {
            median: setup.median(measure),
            interval: statistics::median_interval(&values),
            text: value_text(&CATALOGUE[measure], setup.median(measure)),
            versus: compared.map(|compared| versus(base, setup, compared, measure)),
            values,
        }
    };
    let cells = group.setups.iter().enumerate().map(cell).collect();
    let is_shown = is_shown(group, measure, View::default()) && !is_all_same(group, measure);
    Row { measure: &CATALOGUE[measure], cells, is_shown }
}

/// What the sentences rest on.
fn headline_ranges(compared: &Compared) -> Vec<String> {
    let headline =
        |&measure: &usize| CATALOGUE[measure].rank == Rank::Headline && CATALOGUE[measure].better != Better::Neither;
    let range = |measure: usize| Some(format!("{} {}", CATALOGUE[measure].label, range_of(compared, measure)?));
    (0..CATALOGUE.len()).filter(headline).filter_map(range).collect()
}

fn is_all_same(group: &Group<'_>, measure: usize) -> bool {
    group.setups.len() > 1 && is_same(group, measure)
}

fn versus(base: &setups::Setup<'_>, other: &setups::Setup<'_>, compared: &Compared, measure: usize) -> Versus {
    let (text, verdict) = difference(base, other, compared, measure);
    Versus {
        text: text.unwrap_or_default(),
        range: range_of(compared, measure),
        judgement: compared.judgements[measure].filter(|_| verdict.is_some()),
        paired: compared.paired,
    }
}
