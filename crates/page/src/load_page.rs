// SPDX-License-Identifier: GPL-2.0-only
//! The page of `weir load`: for each curve a plot and the report as text.

use crate::plot;
use crate::shell::short;
use maud::html;
use queueing::Curve;

/// Generates the page.
pub fn load(version: &str, curves: &[Curve]) -> String {
    short(version, "How much load can it bear?", html! { @for curve in curves { (section(curve)) } })
}

fn section(curve: &Curve) -> maud::Markup {
    let whole = queueing::to_text(curve);
    // The page has a plot of its own.
    let text = whole.strip_suffix(queueing::plot(curve).as_str()).unwrap_or(&whole);
    html! {
        section {
            h2 { (report::escape(&curve.name())) }
            (plot::load::load("Mean latency by rate of arrivals", curve))
            p.quiet {
                "Points: mean latency, on a logarithmic scale. First line: the 99th percentile."
                @if curve.is_open_station { " Second line: the mean by M/M/" (curve.servers) "." }
            }
            div.scroll { pre { (text.trim_end()) } }
        }
    }
}
