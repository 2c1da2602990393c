// SPDX-License-Identifier: GPL-2.0-only
//! The page of `weir meter`: the largest rows as bars, and the table as text.

use crate::owners::{self, Part};
use crate::shell::short;
use maud::{Markup, html};

/// A row: its name and the times that make it up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bar {
    /// Name of the row.
    pub name: String,
    /// Sentences beside the bar.
    pub notes: Vec<String>,
    /// Full length of the bar in nanoseconds.
    pub whole_ns: u64,
    /// Parts: index into [`Metered::kinds`], and time in nanoseconds.
    pub parts: Vec<(usize, u64)>,
}

/// A table of a meter, as bars and text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metered {
    /// What was measured, as a question.
    pub title: String,
    /// Names and meanings of the parts of bars, at most 12.
    pub kinds: Vec<(String, String)>,
    /// The rows.
    pub bars: Vec<Bar>,
    /// The table as text.
    pub text: String,
}

/// Generates the page.
pub fn meter(version: &str, metered: &Metered) -> String {
    short(version, &report::escape(&metered.title), sections(metered))
}

fn sections(metered: &Metered) -> Markup {
    let occurs = |kind| metered.bars.iter().any(|bar| bar.parts.iter().any(|&(own, ns)| own == kind && ns > 0));
    let kinds = metered.kinds.iter().map(|(name, meaning)| (name.as_str(), meaning.as_str()));
    html! {
        section {
            @if metered.bars.is_empty() {
                p { "There is nothing to draw." }
            } @else {
                (owners::legend("q", kinds, occurs))
                div.bars { @for bar in &metered.bars { (row(metered, bar)) } }
            }
        }
        section {
            h2 { "The table" }
            div.scroll { pre { (metered.text.trim_end()) } }
        }
    }
}

fn row(metered: &Metered, bar: &Bar) -> Markup {
    let part = |&(kind, ns): &(usize, u64)| -> Part {
        let share = ns as f64 * 100.0 / bar.whole_ns.max(1) as f64;
        (kind, ns, format!("{} {share:.1} %", metered.kinds[kind].0))
    };
    let parts: Vec<Part> = bar.parts.iter().filter(|(_, ns)| *ns > 0).map(part).collect();
    html! {
        div.name { (report::escape(&bar.name)) }
        (owners::bar("q", &parts, bar.whole_ns))
        div.numbers { @for note in &bar.notes { span { (report::escape(note)) } } }
    }
}
