// SPDX-License-Identifier: GPL-2.0-only
//! Measures of a table: sentences, the table with an explanation of each row, and bars of components.

use crate::owners::{DISTANCES, OWNERS, Part, bar, legend};
use ids::Nanos;
use maud::{Markup, html};
use measures::catalogue::{Better, Measure, Rank, Unit};
use report::{Cell, Note, Row, Table, Versus, count};
use statistics::Verdict;

/// Maximum number of setups for which the ranges fit next to the differences.
const WITH_RANGES: usize = 3;

/// Sentences, notes and the table.
pub fn measured(index: usize, table: &Table) -> Markup {
    let marked = table.rows.iter().flat_map(|row| &row.cells).filter_map(|cell| cell.versus.as_ref()).any(is_marked);
    html! {
        @if table.part.is_none() { h3 { "The measures" } }
        div.verdict {
            @for sentence in &table.sentences {
                p {
                    (sentence.text)
                    @if !sentence.ranges.is_empty() { " " span.quiet { "95 %: " (sentence.ranges.join("; ")) "." } }
                }
            }
            @if table.sentences.is_empty() && table.setups.len() == 1 { (alone(table)) }
            @for note in &table.notes { (note_of(note)) }
        }
        div.scroll {
            table.measures.single[table.setups.len() == 1] {
                thead { tr {
                    th scope="col" { (table.axis) }
                    @for setup in &table.setups { th scope="col" { (setup.name) } }
                } }
                tbody {
                    @for row in &table.rows { (row_of(table, index, row)) }
                }
            }
        }
        @if !table.same.is_empty() { p.quiet { "The same to 0.1 %: " (table.same.join(", ")) "." } }
        p.quiet.scripted {
            label { input type="checkbox" data-all={ "setups-" (index) }; " all measures" }
            " · click a measure for its explanation"
            @if marked { " · ✓ better, ✗ worse" }
        }
    }
}

/// Result of a single setup.
fn alone(table: &Table) -> Markup {
    let rows = table.rows.iter().filter(|row| row.measure.rank == Rank::Headline);
    let said = rows.filter_map(|row| {
        let cell = row.cells.first()?;
        let (low, high) = cell.interval?;
        let text = |value| value_text(row.measure, value);
        Some(format!(
            "{}: {} (95 % interval of the median: {} to {})",
            row.measure.label,
            cell.text,
            text(low),
            text(high)
        ))
    });
    let said: Vec<String> = said.collect();
    html! { @if !said.is_empty() { p { (said.join("; ")) "." } } }
}

fn note_of(note: &Note) -> Markup {
    html! {
        div.note {
            p { (note.text) }
            @if !note.quote.is_empty() { pre { (note.quote.join("\n")) } }
        }
    }
}

fn is_marked(versus: &Versus) -> bool {
    matches!(versus.judgement.map(|judged| judged.verdict), Some(Verdict::Better | Verdict::Worse))
}

/// A value with its unit.
pub fn value_text(measure: &Measure, value: u64) -> String {
    match measure.unit {
        Unit::Nanoseconds => Nanos(value).to_string(),
        Unit::Count => count(value),
    }
}

fn row_of(table: &Table, index: usize, row: &Row) -> Markup {
    let id = format!("why-{index}-{}", row.measure.key.replace('.', "-"));
    html! {
        tr.detail[!row.is_shown] data-key=(row.measure.key) {
            th scope="row" {
                button.why type="button" aria-expanded="false" aria-controls=(id) { (row.measure.label) }
            }
            @for (cell, setup) in row.cells.iter().zip(&table.setups) {
                td data-setup=(setup.name) data-value=[cell.median] data-tip=[tip(cell)] { (value_of(table, cell)) }
            }
        }
        tr.why #(id) hidden {
            td colspan=(table.setups.len() + 1) { (explanation(table, row)) }
        }
    }
}

fn value_of(table: &Table, cell: &Cell) -> Markup {
    html! {
        span.value { (cell.text) }
        @if let Some(versus) = &cell.versus {
            span.difference { (versus.text) " " (mark(versus)) }
            @if table.setups.len() <= WITH_RANGES && has_ranges(table) {
                span.range { (versus.range.as_deref().unwrap_or_default()) }
            }
        }
    }
}

fn has_ranges(table: &Table) -> bool {
    table
        .rows
        .iter()
        .flat_map(|row| &row.cells)
        .filter_map(|cell| cell.versus.as_ref())
        .any(|versus| versus.range.is_some())
}

fn mark(versus: &Versus) -> Markup {
    match versus.judgement.map(|judged| judged.verdict) {
        Some(Verdict::Better) => html! { span.better title="better" { "✓" } },
        Some(Verdict::Worse) => html! { span.worse title="worse" { "✗" } },
        _ => html! { span.unmarked {} },
    }
}

fn tip(cell: &Cell) -> Option<String> {
    let versus = cell.versus.as_ref()?;
    let range = versus.range.as_ref()?;
    Some(format!("{}: {range}", versus.text))
}

/// Explanation of a row, and the values behind it.
fn explanation(table: &Table, row: &Row) -> Markup {
    let way = match row.measure.better {
        Better::Less => "Lower is better.",
        Better::More => "Higher is better.",
        Better::Neither => "Neither direction is better in itself.",
    };
    let text = |value| value_text(row.measure, value);
    html! {
        p { (row.measure.meaning) ". " (way) " In the JSON it is " code { (row.measure.key) } "." }
        ul {
            @for (cell, setup) in row.cells.iter().zip(&table.setups) {
                li {
                    b { (setup.name) } ": "
                    @match cell.values.as_slice() {
                        [] => "unknown",
                        [one] => (exactly(row.measure, *one)),
                        values => {
                            (counted(values.len())) ", from " (text(least(values))) " to " (text(most(values)))
                            @if let Some(median) = cell.median { "; median " (exactly(row.measure, median)) }
                            @if let Some((low, high)) = cell.interval {
                                ", 95 % interval " (text(low)) " to " (text(high))
                            }
                        }
                    }
                    @if let Some(versus) = &cell.versus { (judged(versus)) }
                }
            }
        }
    }
}

fn least(values: &[u64]) -> u64 {
    values.iter().copied().min().unwrap_or(0)
}

fn most(values: &[u64]) -> u64 {
    values.iter().copied().max().unwrap_or(0)
}

fn counted(values: usize) -> String {
    report::counted(values as u64, "value")
}

fn exactly(measure: &Measure, value: u64) -> String {
    match measure.unit {
        Unit::Nanoseconds if value >= 1000 => format!("{} ({} ns)", Nanos(value), count(value)),
        _ => value_text(measure, value),
    }
}

fn judged(versus: &Versus) -> Markup {
    let Some(judged) = versus.judgement else { return html! {} };
    let verdict = match judged.verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Same => "the same within 1 %",
        Verdict::Unclear => "inconclusive",
        Verdict::Differs => "differs, neither direction is better",
    };
    html! {
        ". Against " (if versus.paired { "the first, seed by seed" } else { "the first" }) ": "
        @if !versus.text.is_empty() { (versus.text) " " }
        @if let Some(range) = &versus.range { "(" (range) ") " }
        "— " (verdict)
        @if let Some(least) = judged.tellable_ppm { "; detectable from about " (tenths(least)) " %" }
    }
}

/// Parts per million as a percentage.
fn tenths(ppm: i64) -> String {
    format!("{}.{}", ppm / 10_000, ppm % 10_000 / 1_000)
}

fn row<'a>(table: &'a Table, key: &str) -> Option<&'a Row> {
    table.rows.iter().find(|row| row.measure.key == key)
}

/// Medians of some measures for one setup, with their text.
fn parts<'a>(table: &Table, setup: usize, keys: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Part> {
    let part = |(index, (name, key)): (usize, (&str, &str))| {
        let cell = &row(table, key)?.cells[setup];
        Some((index, cell.median?, format!("{name} {}", cell.text)))
    };
    keys.enumerate().filter_map(part).collect()
}

/// A part of a whole as a percentage.
fn share(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}

/// Whether the component with this number is nonzero in some bar.
fn occurs(all: &[Vec<Part>], number: usize) -> bool {
    all.iter().flatten().any(|(index, value, _)| *index == number && *value > 0)
}

/// One bar per setup; all of equal length if `same`, otherwise proportional to their sum.
fn bars(table: &Table, class: &str, all: &[Vec<Part>], same: bool) -> Markup {
    let sum = |parts: &[Part]| parts.iter().map(|(_, value, _)| value).sum::<u64>();
    let longest = all.iter().map(|parts| sum(parts)).max().unwrap_or(0);
    html! {
        div.bars {
            @for (setup, parts) in table.setups.iter().zip(all) {
                div.name { (setup.name) }
                (bar(class, parts, if same { sum(parts) } else { longest }))
                div.numbers {
                    @for (index, value, text) in parts.iter().filter(|(_, value, _)| *value > 0) {
                        span data-part=(index) data-value=(value) {
                            (text) @if same { " (" (share(*value, sum(parts))) ")" }
                        }
                    }
                }
            }
        }
    }
}

/// CPU time by category.
pub fn time(table: &Table) -> Markup {
    let keys = || OWNERS.iter().map(|owner| (owner.name, owner.key));
    let all: Vec<Vec<Part>> = (0..table.setups.len()).map(|setup| parts(table, setup, keys())).collect();
    html! {
        h3 { "CPU time by use" }
        (legend("o", OWNERS.iter().map(|owner| (owner.name, owner.meaning)), |owner| occurs(&all, owner)))
        (bars(table, "o", &all, true))
    }
}

/// Migrations by distance.
pub fn moves(table: &Table) -> Markup {
    let keys = || DISTANCES.iter().map(|(name, _, key)| (*name, *key));
    let all: Vec<Vec<Part>> = (0..table.setups.len()).map(|setup| parts(table, setup, keys())).collect();
    let some_moved = (0..DISTANCES.len()).any(|distance| occurs(&all, distance));
    html! {
        h3 { "Migrations of tasks" }
        @if some_moved {
            (legend("m", DISTANCES.iter().map(|(name, meaning, _)| (*name, *meaning)), |distance| occurs(&all, distance)))
            (bars(table, "m", &all, false))
        } @else {
            p.quiet { "No task migrated." }
        }
    }
}
