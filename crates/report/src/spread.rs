// SPDX-License-Identifier: GPL-2.0-only
//! Report on several runs of one setup: random variation of each measure.

use crate::numbers::{value_text, wrap};
use crate::setups::{Group, groups};
use crate::table::{align, plain};
use crate::{Record, View, notes};
use measures::catalogue::{CATALOGUE, Rank};
use std::fmt::Write;

/// Median of each measure, its confidence interval, minimum and maximum.
pub fn spread(runs: &[Record], view: View) -> String {
    let mut text: String = groups(runs).iter().map(|group| of_group(group, view)).collect();
    let _ = writeln!(text, "{}", wrap("", "weir list measures explains each measure."));
    text
}

fn of_group(group: &Group<'_>, view: View) -> String {
    let setup = &group.setups[0];
    let mut text = format!("{}\n\n", wrap("", &format!("{}, {}", setup.name, group.title)));
    let mut table = plain(&["", "median", "95 % of medians", "minimum", "maximum"]);
    for (index, measure) in CATALOGUE.iter().enumerate() {
        let values = setup.values(index);
        if measure.rank > Rank::Table && !view.all || values.is_empty() {
            continue;
        }
        let cell = |value: Option<u64>| value_text(measure, value);
        let (low, high) = statistics::median_interval(&values).unzip();
        let interval = if low.is_some() { format!("{} to {}", cell(low), cell(high)) } else { "-".to_owned() };
        let ends = [values.iter().min(), values.iter().max()].map(|end| cell(end.copied()));
        let [least, greatest] = ends;
        table.add_row([measure.label.to_owned(), cell(setup.median(index)), interval, least, greatest]);
    }
    let _ = writeln!(text, "{}\n", align(&mut table));
    text + &notes::to_text(&notes::of_setup(setup))
}
