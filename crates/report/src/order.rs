// SPDX-License-Identifier: GPL-2.0-only
//! Several setups in order, best first, by each headline measure; and the comparisons of all pairs.
//!
//! Two neighbors in an order are separated by `<` if the runs show that the first is better, and by `~` if they show
//! no difference. All pairs are judged as one family, so the order of many setups needs clearer differences than the
//! comparison of two.

use crate::numbers::wrap;
use crate::sentence;
use crate::setups::{Compared, Group, Setup, compare};
use measures::catalogue::{Better, CATALOGUE, Rank};
use statistics::Verdict;
use std::cmp::Reverse;
use std::fmt::Write;

/// Fewest setups that have an order; two have a comparison.
const SEVERAL: usize = 3;

/// Setups by one measure.
#[derive(Debug)]
pub(crate) struct Order {
    /// Index of the measure in the catalogue.
    pub measure: usize,
    /// Indexes of the setups in the group, best first.
    pub setups: Vec<usize>,
    /// For each setup but the last, whether it is better than the next one.
    pub is_better: Vec<bool>,
}

/// The orders of a group by its headline measures; empty for fewer than three setups, or one run of each.
pub(crate) fn orders(group: &Group<'_>) -> Vec<Order> {
    let one_run = group.setups.iter().any(|setup| setup.runs.len() < 2);
    if group.setups.len() < SEVERAL || one_run || group.setups.iter().any(|setup| !setup.all_completed()) {
        return Vec::new();
    }
    let pairs = group.setups.len() * (group.setups.len() - 1) / 2;
    let headline =
        |&measure: &usize| CATALOGUE[measure].rank == Rank::Headline && CATALOGUE[measure].better != Better::Neither;
    let order = |measure: usize| {
        let medians: Option<Vec<u64>> = group.setups.iter().map(|setup| setup.median(measure)).collect();
        let medians = medians?;
        let mut setups: Vec<usize> = (0..medians.len()).collect();
        match CATALOGUE[measure].better {
            Better::More => setups.sort_by_key(|&setup| (Reverse(medians[setup]), setup)),
            _ => setups.sort_by_key(|&setup| (medians[setup], setup)),
        }
        let is_better = |pair: &[usize]| {
            let judged = compare(&group.setups[pair[0]], &group.setups[pair[1]], pairs).judgements[measure];
            judged.is_some_and(|judged| judged.verdict == Verdict::Worse)
        };
        let is_better = setups.windows(2).map(is_better).collect();
        Some(Order { measure, setups, is_better })
    };
    (0..CATALOGUE.len()).filter(headline).filter_map(order).collect()
}

/// The orders as text, a line each.
pub(crate) fn to_text(group: &Group<'_>) -> String {
    let orders = orders(group);
    // Without any difference there is no order.
    let told: Vec<&Order> = orders.iter().filter(|order| order.is_better.contains(&true)).collect();
    if told.is_empty() {
        return String::new();
    }
    let mut text = String::from("Best first (<: better, ~: no significant difference):\n");
    for order in told {
        let mut line = format!("{}: {}", CATALOGUE[order.measure].label, group.setups[order.setups[0]].name);
        for (&setup, better) in order.setups[1..].iter().zip(&order.is_better) {
            let _ = write!(line, " {} {}", if *better { '<' } else { '~' }, group.setups[setup].name);
        }
        let _ = writeln!(text, "{}", wrap("  ", &line));
    }
    text
}

/// The comparisons of all pairs without the baseline of the group, each with its setups.
pub(crate) fn pairs<'g, 'a>(group: &'g Group<'a>) -> Vec<(&'g Setup<'a>, &'g Setup<'a>, Compared)> {
    let pairs = group.setups.len() * (group.setups.len() - 1) / 2;
    let others = || group.setups.iter().enumerate().skip(1);
    let compared = |(index, a): (usize, &'g Setup<'a>)| {
        others().skip(index).map(move |(_, b)| (a, b, compare(a, b, pairs))).collect::<Vec<_>>()
    };
    others().flat_map(compared).collect()
}

/// Sentences on all pairs without the baseline.
pub(crate) fn pairs_to_text(group: &Group<'_>) -> String {
    let mut text = String::new();
    for (a, b, compared) in pairs(group) {
        let sentence = sentence::between(a, b, &compared, group.setups.len() * (group.setups.len() - 1) / 2);
        if !sentence.is_empty() {
            let _ = writeln!(text, "{}", wrap("", &sentence));
        }
    }
    text
}
