// SPDX-License-Identifier: GPL-2.0-only
//! The page of `weir scale`: for each fit a plot, the report as text, and notes.

use crate::plot;
use crate::shell::short;
use maud::html;
use scaling::Fit;

/// A fitted law and its surroundings.
#[derive(Clone, Debug)]
pub struct Scaling {
    /// Name of what was measured.
    pub name: String,
    /// Name of the sizes, in the plural.
    pub unit: String,
    /// The fit.
    pub fit: Fit,
    /// Sentences that the fit does not contain.
    pub notes: Vec<String>,
}

/// Generates the page.
pub fn scaling(version: &str, all: &[Scaling]) -> String {
    short(version, "How does it scale?", html! { @for one in all { (section(one)) } })
}

fn section(one: &Scaling) -> maud::Markup {
    let name = report::escape(&one.name);
    let whole = scaling::to_text(&one.fit, &one.unit);
    // The page has a plot of its own.
    let text = whole.strip_suffix(scaling::plot(&one.fit, &one.unit).as_str()).unwrap_or(&whole);
    html! {
        section {
            h2 { (name) }
            (plot::law::law(&format!("Throughput by {}", one.unit), &one.fit, &one.unit))
            p.quiet { "Points: measured. First line: the fitted law. Second line: Amdahl's law alone (beta = 0)." }
            div.scroll { pre { (text.trim_end()) } }
            @for note in &one.notes { p { (report::escape(note)) } }
        }
    }
}
