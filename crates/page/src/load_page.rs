// SPDX-License-Identifier: GPL-2.0-only
//! The page of `weir load`: for each curve a plot and the report as text.

use crate::{SCRIPT, STYLE, plot, policy};
use maud::{DOCTYPE, PreEscaped, html};
use queueing::Curve;

/// Generates the page.
pub fn load(version: &str, curves: &[Curve]) -> String {
    let title = "How much load can it bear?";
    let body = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content={ "weir " (version) };
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header { h1 { (title) } p.quiet { "By weir " (version) "." } }
                main { @for curve in curves { (section(curve)) } }
                div #tip role="status" aria-live="polite" hidden {}
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    body.into_string()
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
