// SPDX-License-Identifier: GPL-2.0-only
//! A report as a page of HTML that works without a network: everything is in it, and its own security policy forbids it
//! to load or send anything.
//!
//! 1. Numbers come from the JSON document of the runs ([`report::read_json`], [`report::read_details`]) and from nowhere
//!    else; [`report::content`] puts them into tables and sentences, as for the terminal.
//! 2. Plots are drawn by plotters as SVG whose elements have classes (`plot`). The style sheet makes them light, dark or
//!    fit for print.
//! 3. What is large (tasks, timelines) stands compressed in the page and is decoded when somebody looks (`data`).
//! 4. Names come from files of others. The template escapes them, data are in base64, and only scripts of the hash that
//!    the page's policy names run: text that got through as a script would do nothing.

mod close_up;
mod data;
mod depths;
mod measured;
mod owners;
mod plot;
mod runs;
mod track;
mod waits;

pub use close_up::close_ups;
pub use track::Track;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use report::{Content, Details, Record, Table, World, content};
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("../assets/style.css");
const SCRIPT: &str = concat!(
    include_str!("../assets/model.js"),
    include_str!("../assets/timeline.js"),
    include_str!("../assets/page.js")
);

/// What a page is made of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report<'a> {
    /// The version of the program.
    pub version: &'a str,
    /// The command that made these runs or compared them, if it is known.
    pub command: Option<&'a str>,
    /// The runs and the parts of their workloads, in order.
    pub records: &'a [Record],
    /// What else is known of each run.
    pub details: &'a [Details],
    /// What happened in runs, or why that is not known, with their places among the records: those of [`close_ups`] are
    /// shown.
    pub tracks: &'a [(usize, Result<Track, String>)],
    /// Setups that could not run at all, one sentence each.
    pub refused: &'a [String],
}

impl Report<'_> {
    /// The details of a run, given its place among the records.
    fn details_of(&self, record: usize) -> Option<&Details> {
        if self.records[record].tags.part.is_some() {
            return None;
        }
        let before = self.records[..record].iter().filter(|record| record.tags.part.is_none()).count();
        self.details.get(before)
    }
}

/// The page.
pub fn page(report: &Report<'_>) -> String {
    let content = content(report.records);
    let question = question(&content);
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{}'; base-uri 'none'; \
         form-action 'none'",
        BASE64.encode(Sha256::digest(SCRIPT))
    );
    let body = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content={ "weir " (report.version) };
                title { (question) }
                style { (PreEscaped(STYLE)) }
                noscript { style { "tr.why{display:table-row!important}.scripted{display:none!important}" } }
            }
            body {
                (plot_patterns())
                header { (head(report, &question)) }
                main {
                    @for (index, table) in content.tables.iter().enumerate() { (section(report, index, table)) }
                    (close_up::sections(report, &content))
                    (foot(&content))
                }
                div #tip role="status" aria-live="polite" hidden {}
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    body.into_string()
}

/// What the page answers.
fn question(content: &Content) -> String {
    let Some(first) = content.tables.first() else { return "Nothing ran".to_owned() };
    let names: Vec<&str> = first.setups.iter().map(|setup| setup.name.as_str()).collect();
    match names.as_slice() {
        [one] => format!("What came of {one}?"),
        [most @ .., last] => format!("How do {} and {last} differ?", most.join(", ")),
        [] => String::new(),
    }
}

fn head(report: &Report<'_>, question: &str) -> Markup {
    html! {
        h1 { (question) }
        @if let Some(command) = report.command {
            div.command {
                code #command { (report::escape(command)) }
                button.scripted type="button" data-copy="command" { "Copy" }
            }
            p.quiet { (repeats(report.records)) " By weir " (report.version) "." }
        }
        div.tools.scripted {
            label { "Colours " select #theme {
                option value="" { "as the system" }
                option value="light" { "light" }
                option value="dark" { "dark" }
            } }
        }
        @for line in report.refused { p.note { (report::escape(line)) } }
    }
}

/// What the command does if somebody gives it once more.
fn repeats(records: &[Record]) -> &'static str {
    if records.iter().any(|record| record.file.is_some()) {
        "This command compares the same files again."
    } else if records.iter().any(|record| record.tags.world == World::Real) {
        "This command made the run. The same command gives another run: a real machine never does the same twice."
    } else {
        "This command makes the same again."
    }
}

/// Hatching, so that areas differ without colour.
fn plot_patterns() -> Markup {
    html! {
        svg.defs width="0" height="0" aria-hidden="true" {
            defs {
                pattern #hatch width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                    rect.under width="6" height="6" {}
                    rect.over width="2.5" height="6" {}
                }
                pattern #dots width="6" height="6" patternUnits="userSpaceOnUse" {
                    rect.under width="6" height="6" {}
                    circle.over cx="3" cy="3" r="1.4" {}
                }
                pattern #cross width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                    rect.under width="8" height="8" {}
                    rect.over width="1.5" height="8" {}
                    rect.over width="8" height="1.5" {}
                }
            }
        }
    }
}

fn section(report: &Report<'_>, index: usize, table: &Table) -> Markup {
    let title = match &table.part {
        Some(part) => format!("Part {part}: {}", table.title),
        None => table.title.clone(),
    };
    let body = html! {
        (measured::measured(index, table))
        @if table.part.is_none() {
            (waits::waits(report, table))
            (measured::time(table))
            (measured::moves(table))
            (runs::runs(report, table))
        }
    };
    html! {
        section id={ "setups-" (index) } {
            @if table.part.is_some() {
                details { summary { h2 { (title) } } (body) }
            } @else {
                h2 { (title) }
                (body)
            }
        }
    }
}

fn foot(content: &Content) -> Markup {
    html! {
        footer {
            h2 { "How to read this" }
            p { (content.explanation) }
            @if let Some(unvalidated) = &content.unvalidated { p { (unvalidated) } }
            p.scripted {
                "Keys: Tab goes from picture to picture; the arrow keys go through the values of one. On a timeline the \
                 arrows move, + and - zoom, 0 shows all of it, Page Up and Page Down choose a CPU, n and p go from task to \
                 task on it."
            }
        }
    }
}
