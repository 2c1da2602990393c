// SPDX-License-Identifier: GPL-2.0-only
//! Text report for several runs: tables of differences, and their interpretation in sentences.
//!
//! 1. Up to three setups: one row per measure and one column per setup. From four on: one row per setup and one
//!    column per headline measure, unless all measures are requested.
//! 2. The first setup of a group is the baseline; the others show their value and their difference from the baseline,
//!    marked if the runs show that it is better or worse.
//! 3. Measures that are equal in all setups (to 0.1 %) are listed in one line below instead of in rows.
//! 4. Sentences summarize the main differences.

use crate::numbers::{GLUE, change, is_ratio, ppm, range, ratio, shorten, value_text, versus, wrap};
use crate::setups::{Compared, Group, Setup, groups};
use crate::table::{align, plain};
use crate::{Record, View, headline, notes, order, sentence};
use measures::catalogue::{CATALOGUE, Rank};
use statistics::Verdict;
use std::fmt::Write;

/// Number of setups from which on each one gets a row.
const MANY: usize = 4;

/// Width of a difference with its mark, and of its range, in characters.
const DIFFERENCE: usize = 11;
const RANGE: usize = 20;

/// Differences between several runs, as wide as the view.
pub fn comparison(runs: &[Record], view: View) -> String {
    let groups = groups(runs);
    let setups: usize = groups.iter().map(|group| group.setups.len()).sum();
    let mut text = String::new();
    let many = setups >= MANY && !view.all;
    if many {
        text.push_str(&headline::tables(&groups, view));
    } else {
        for group in &groups {
            text.push_str(&rows_of_measures(group, view));
        }
    }
    let _ = writeln!(text, "{}", wrap("", &explanation(&groups, !many && has_ranges(&groups, view))));
    text
}

fn rows_of_measures(group: &Group<'_>, view: View) -> String {
    let mut text = format!("{}\n\n", wrap("", &group.title));
    let shown: Vec<usize> = (0..CATALOGUE.len()).filter(|&measure| is_shown(group, measure, view)).collect();
    let (same, rows): (Vec<usize>, Vec<usize>) = shown.into_iter().partition(|&measure| is_same(group, measure));
    let others = (view.columns.saturating_sub(32) / (10 + DIFFERENCE)).max(1);
    let pairs: Vec<(&Setup<'_>, &Compared)> = group.setups[1..].iter().zip(&group.compared).collect();
    for chunk in pairs.chunks(others) {
        let _ = writeln!(text, "{}\n", table(group, chunk, &rows, view));
    }
    let same: Vec<String> = same.into_iter().filter_map(|measure| said_once(&group.setups[0], measure)).collect();
    if !same.is_empty() {
        let _ = writeln!(text, "{}\n", wrap("", &format!("The same to 0.1 %: {}.", same.join(", "))));
    }
    text + &words(group, view)
}

/// Notes on all setups, then a sentence on each but the first.
pub(crate) fn words(group: &Group<'_>, view: View) -> String {
    let mut text: String = group.setups.iter().map(|setup| notes::to_text(&notes::of_setup(setup))).collect();
    for (other, compared) in group.setups[1..].iter().zip(&group.compared) {
        let sentence = sentence::of(group, other, compared);
        if !sentence.is_empty() {
            let _ = writeln!(text, "{}", wrap("", &sentence));
        }
    }
    if view.pairs {
        text.push_str(&order::pairs_to_text(group));
    }
    text.push_str(&order::to_text(group));
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// Whether a measure gets a row: it is requested, and known for some setup. The duration is shown only if some run
/// has no makespan.
pub(crate) fn is_shown(group: &Group<'_>, measure: usize, view: View) -> bool {
    let known = |measure: usize| group.setups.iter().any(|setup| setup.median(measure).is_some());
    let ended = |setup: &Setup<'_>| setup.runs.iter().all(|run| run.value("makespan_ns").is_some());
    view.all
        || CATALOGUE[measure].rank <= Rank::Table
            && known(measure)
            && (CATALOGUE[measure].key != "elapsed_ns" || !group.setups.iter().all(ended))
}

/// Whether all setups agree to 0.1 %, the resolution of a row, and no comparison is significant.
pub(crate) fn is_same(group: &Group<'_>, measure: usize) -> bool {
    let first = group.setups[0].median(measure);
    let same = |(setup, compared): (&Setup<'_>, &Compared)| {
        let judged = compared.judgements[measure].filter(|_| setup.runs.len() > 1);
        let by_runs = judged.is_none_or(|judged| judged.verdict == Verdict::Same || judged.diff_ppm == Some(0));
        by_runs
            && match (first, setup.median(measure)) {
                (Some(first), Some(value)) => first == value || change(first, value) == Some(0),
                (first, value) => first == value,
            }
    };
    first.is_some() && group.setups[1..].iter().zip(&group.compared).all(same)
}

/// Text for a measure that all setups share; `None` if it is 0 or unknown.
pub(crate) fn said_once(setup: &Setup<'_>, measure: usize) -> Option<String> {
    let value = setup.median(measure).filter(|&value| value > 0)?;
    let measure = &CATALOGUE[measure];
    Some(format!("{} {}", measure.label, value_text(measure, Some(value))).replace(' ', &GLUE.to_string()))
}

/// Difference of a setup from the baseline, and its mark; 10 characters.
pub(crate) fn distance(base: &Setup<'_>, other: &Setup<'_>, compared: &Compared, measure: usize) -> String {
    let (text, verdict) = difference(base, other, compared, measure);
    let mark = match verdict {
        Some(Verdict::Better) => '✓',
        Some(Verdict::Worse) => '✗',
        _ => ' ',
    };
    format!("{:>8} {mark}", text.unwrap_or_default())
}

/// Difference of a setup from the baseline, and the verdict.
pub(crate) fn difference(
    base: &Setup<'_>,
    other: &Setup<'_>,
    compared: &Compared,
    measure: usize,
) -> (Option<String>, Option<Verdict>) {
    let judged = compared.judgements[measure].filter(|_| other.runs.len() > 1 || base.runs.len() > 1);
    let verdict = judged.map(|judged| judged.verdict);
    let is_marked = matches!(verdict, Some(Verdict::Better | Verdict::Worse));
    let text = match (judged, base.median(measure), other.median(measure)) {
        // The typical difference of pairs may not be 0 for tiny numbers although both medians are 0.
        (_, Some(0), Some(0)) if !is_marked => Some("=".to_owned()),
        // A baseline of 0 has no ratios, whatever individual pairs say.
        (Some(_), Some(0), _) => None,
        // "=" means equal medians, not that neither direction is more frequent among the pairs.
        (Some(judged), base, value) => {
            let ends = [judged.low_ppm, judged.high_ppm];
            let scale = if ends.into_iter().flatten().any(is_ratio) { ratio } else { ppm };
            let text = judged.diff_ppm.map(scale);
            if text.as_deref() == Some("=") && base != value { Some("0.0 %".to_owned()) } else { text }
        }
        (None, Some(base), Some(value)) => versus(base, value),
        _ => None,
    };
    (text, verdict)
}

/// Range of a difference, if there is one.
pub(crate) fn range_of(compared: &Compared, measure: usize) -> Option<String> {
    let judged = compared.judgements[measure].filter(|judged| judged.a_median > 0)?;
    Some(range(judged.low_ppm?, judged.high_ppm?))
}

fn has_range(compared: &Compared) -> bool {
    compared.judgements.iter().flatten().any(|judged| judged.low_ppm.or(judged.high_ppm).is_some())
}

fn fit_ranges(others: usize, view: View) -> bool {
    view.columns >= 28 + others * (10 + DIFFERENCE + RANGE)
}

/// Whether some table of these groups shows ranges.
fn has_ranges(groups: &[Group<'_>], view: View) -> bool {
    groups.iter().any(|group| group.compared.iter().any(has_range) && fit_ranges(group.compared.len(), view))
}

fn table(group: &Group<'_>, others: &[(&Setup<'_>, &Compared)], rows: &[usize], view: View) -> String {
    let base = &group.setups[0];
    let ranges = others.iter().any(|(_, compared)| has_range(compared)) && fit_ranges(others.len(), view);
    let right = if ranges { DIFFERENCE + RANGE } else { DIFFERENCE };
    let width = (view.columns - 22) / (others.len() + 1) - 2;
    let mut header = vec![group.axis.to_owned(), shorten(&base.name, width)];
    let pad = " ".repeat(right - 1);
    header.extend(others.iter().map(|(setup, _)| format!("{}{pad}", shorten(&setup.name, width))));
    let mut table = plain(&header.iter().map(String::as_str).collect::<Vec<_>>());
    for &measure in rows {
        let text = |setup: &Setup<'_>| value_text(&CATALOGUE[measure], setup.median(measure));
        let mut cells = vec![CATALOGUE[measure].label.to_owned(), text(base)];
        for (setup, compared) in others {
            let mut cell = format!("{} {}", text(setup), distance(base, setup, compared, measure));
            if ranges {
                let _ = write!(cell, "{:>RANGE$}", range_of(compared, measure).unwrap_or_default());
            }
            cells.push(cell);
        }
        table.add_row(cells);
    }
    align(&mut table)
}

/// Explanation of how to read the tables.
pub(crate) fn explanation(groups: &[Group<'_>], ranges: bool) -> String {
    let setups = || groups.iter().flat_map(|group| &group.setups);
    let help = "weir list measures explains each measure.";
    if setups().all(|setup| setup.runs.len() == 1) {
        let how = if setups().all(|setup| setup.runs[0].tags.seed.is_some()) {
            "use --seeds 16"
        } else {
            "compare several saved runs of each (weir compare)"
        };
        return format!(
            "One run of each does not distinguish differences from random variation, so nothing is marked: {how}. {help}"
        );
    }
    let pairs = groups.iter().flat_map(|group| &group.compared).all(|compared| compared.paired);
    let drawn = setups().any(Setup::is_drawn);
    let (of, with) = match (drawn, pairs) {
        (true, _) => ("machine samples", " with the same sample"),
        (false, true) => ("seeds", " with the same seed"),
        (false, false) => ("runs", ""),
    };
    let range = if ranges { ", and its range" } else { "" };
    format!(
        "Values are medians of all {of}, followed by the typical difference between two runs{with}{range}. \
         ✓ better, ✗ worse: the range of the difference excludes zero. If nothing differs, at most 5 % of tables have \
         a mark. {help}"
    )
}
