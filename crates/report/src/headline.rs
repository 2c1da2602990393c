// SPDX-License-Identifier: GPL-2.0-only
//! Table for many setups: one row per setup, one column per headline measure, as many as fit.

use crate::View;
use crate::comparison::{distance, words};
use crate::numbers::{shorten, value_text, wrap};
use crate::setups::{Compared, Group, Setup};
use measures::catalogue::CATALOGUE;
use std::fmt::Write;

/// Columns by importance. Work replaces the makespan if no run has one.
const COLUMNS: [&str; 6] = [
    "makespan_ns",
    "wakeup_latency_ns.mean",
    "wakeup_latency_ns.p99",
    "idle_while_runnable_ns",
    "cpu_ns.scheduler",
    "run_delay_ns.mean",
];

/// Width of a value, and of a cell: two blanks, a value, and a difference with its mark.
const VALUE: usize = 7;
const CELL: usize = 2 + VALUE + 10;

/// Maximum width of a name if there is little room.
const NAME: usize = 22;

/// One table per group, all with the same columns.
pub(crate) fn tables(groups: &[Group<'_>], view: View) -> String {
    let setups = || groups.iter().flat_map(|group| &group.setups);
    let longest = setups().map(|setup| setup.name.chars().count()).max().unwrap_or(0);
    let columns = columns(groups, view, longest.min(NAME));
    let room = view.columns.saturating_sub(columns.len() * CELL);
    let name = longest.max(groups.iter().map(|group| group.axis.len()).max().unwrap_or(0)).min(room);
    let mut text = String::new();
    for group in groups {
        let _ = writeln!(text, "{}\n", wrap("", &group.title));
        let mut head = format!("{:<name$}", group.axis);
        for &column in &columns {
            let _ = write!(head, "  {:<width$}", CATALOGUE[column].label, width = CELL - 2);
        }
        let _ = writeln!(text, "{}", head.trim_end());
        for (index, setup) in group.setups.iter().enumerate() {
            let compared = index.checked_sub(1).map(|index| &group.compared[index]);
            text.push_str(&row(&group.setups[0], setup, compared, &columns, name));
        }
        text.push('\n');
        text.push_str(&words(group, view));
    }
    text
}

/// The columns known for some setup, as many as fit.
fn columns(groups: &[Group<'_>], view: View, name: usize) -> Vec<usize> {
    let index = |key: &str| CATALOGUE.iter().position(|measure| measure.key == key).expect("a key of the catalogue");
    let known =
        |&measure: &usize| groups.iter().flat_map(|group| &group.setups).any(|setup| setup.median(measure).is_some());
    let work = |measure: usize| if COLUMNS[0] == CATALOGUE[measure].key { index("work_ns") } else { measure };
    let candidates = COLUMNS.iter().map(|key| index(key));
    let candidates = candidates.map(|measure| if known(&measure) { measure } else { work(measure) }).filter(known);
    candidates.take((view.columns.saturating_sub(name) / CELL).max(1)).collect()
}

fn row(base: &Setup<'_>, setup: &Setup<'_>, compared: Option<&Compared>, columns: &[usize], name: usize) -> String {
    let mut line = format!("{:<name$}", shorten(&setup.name, name));
    for &column in columns {
        let value = value_text(&CATALOGUE[column], setup.median(column));
        let distance = compared.map(|compared| distance(base, setup, compared, column)).unwrap_or_default();
        let _ = write!(line, "  {value:>VALUE$}{distance:<10}");
    }
    line.trim_end().to_owned() + "\n"
}
