// SPDX-License-Identifier: GPL-2.0-only
//! An HTML report page that works offline: it contains everything, and its security policy forbids loading or sending
//! anything.
//!
//! 1. Numbers come only from the JSON document of the runs ([`report::read_json`], [`report::read_details`]);
//!    [`report::content`] arranges them in tables and sentences, as for the terminal.
//! 2. Plots are drawn by plotters as SVG whose elements have classes (`plot`). The style sheet adapts them to light,
//!    dark and print.
//! 3. Large data (tasks, timelines) is embedded compressed and decoded on demand (`data`).
//! 4. Names may come from untrusted files. The template escapes them, data is base64-encoded, and only scripts with
//!    the hash in the page's policy run: text injected as a script would not be executed.

mod close_up;
mod data;
mod depths;
mod load_page;
mod measured;
mod meter_page;
mod owners;
mod plot;
mod runs;
mod scaling_page;
mod shell;
mod track;
mod verdict;
mod waits;

pub use close_up::{close_ups, timeline};
pub use load_page::load;
pub use meter_page::{Bar, Metered, meter};
pub use scaling_page::{Scaling, scaling};
pub use track::Track;
pub use verdict::verdict;

use maud::{Markup, html};
use report::{Content, Details, Record, Table, World, content};
use shell::{Parts, shell};

/// Contents of a page.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report<'a> {
    /// Version of the program.
    pub version: &'a str,
    /// Command that made or compared these runs, if known.
    pub command: Option<&'a str>,
    /// The runs and the parts of their workloads, in order.
    pub records: &'a [Record],
    /// Details of each run.
    pub details: &'a [Details],
    /// Events of runs, or the reason why they are missing, with the runs' indexes into the records: those of
    /// [`close_ups`] are shown.
    pub tracks: &'a [(usize, Result<Track, String>)],
    /// Setups that could not run, one sentence each.
    pub refused: &'a [String],
}

impl Report<'_> {
    /// Details of a run, given its index into the records.
    fn details_of(&self, record: usize) -> Option<&Details> {
        if self.records[record].tags.part.is_some() {
            return None;
        }
        let before = self.records[..record].iter().filter(|record| record.tags.part.is_none()).count();
        self.details.get(before)
    }
}

/// Generates the page.
pub fn page(report: &Report<'_>) -> String {
    let content = content(report.records);
    let question = question(&content);
    shell(&Parts {
        version: report.version,
        title: &question,
        head: html! {
            noscript { style { "tr.why{display:table-row!important}.scripted{display:none!important}" } }
        },
        header: html! {
            (patterns())
            (head(report, &question))
        },
        main: main_sections(report, &content),
    })
}

/// The main part of the page without its frame, for a page that shows it on demand.
pub fn sections(report: &Report<'_>) -> String {
    main_sections(report, &content(report.records)).into_string()
}

fn main_sections(report: &Report<'_>, content: &Content) -> Markup {
    html! {
        @for (index, table) in content.tables.iter().enumerate() { (section(report, index, table)) }
        (close_up::sections(report, content))
        (foot(content))
    }
}

/// Title of the page, as a question.
fn question(content: &Content) -> String {
    let Some(first) = content.tables.first() else { return "No runs".to_owned() };
    let names: Vec<&str> = first.setups.iter().map(|setup| setup.name.as_str()).collect();
    match names.as_slice() {
        [one] => format!("How did {one} perform?"),
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
            label { "Colors " select #theme {
                option value="" { "as the system" }
                option value="light" { "light" }
                option value="dark" { "dark" }
            } }
        }
        @for line in report.refused { p.note { (report::escape(line)) } }
        @for (title, said) in verdict::verdicts(report) {
            p.outcome { @if !title.is_empty() { span.quiet { (title) } br; } (said) }
        }
    }
}

/// Effect of repeating the command.
fn repeats(records: &[Record]) -> &'static str {
    if records.iter().any(|record| record.file.is_some()) {
        "This command compares the same files again."
    } else if records.iter().any(|record| record.tags.world == World::Real) {
        "Repeating this command gives a different run, as a real machine never behaves identically twice."
    } else {
        "Repeating this command gives identical runs."
    }
}

/// Hatching, so that areas are distinguishable without color.
pub fn patterns() -> Markup {
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
        @if table.part.is_none() {
            (waits::waits(report, table))
            (measured::time(table))
        }
        (measured::measured(index, table))
        @if table.part.is_none() {
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
            @for limit in &content.limits { p { (limit) } }
            p.scripted {
                "Keys: Tab moves between plots; the arrow keys move through the values of a plot. On a timeline the arrow \
                 keys pan, + and - zoom, 0 shows the whole run, Page Up and Page Down select a CPU, n and p select the \
                 next and previous run interval on it."
            }
        }
    }
}
