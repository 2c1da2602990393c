// SPDX-License-Identifier: GPL-2.0-only
//! The report of a check as text, JSON and JUnit's XML.

use super::shrink::Shrunk;
use super::{Checked, Tally, is_warning};
use crate::args::CheckFormat;
use report::{count, counted, escape};
use serde_json::{Value, json};
use std::fmt::Write;

/// Most lines that never ran in the text.
const NEVER: usize = 12;

/// The report in the chosen format.
pub(super) fn report(checked: &Checked<'_>) -> String {
    match checked.args.format {
        CheckFormat::Text => to_text(checked),
        CheckFormat::Json => to_json(checked),
        CheckFormat::Junit => to_junit(checked),
    }
}

/// A line of the scheduler that never ran: file, number and text.
struct Line<'a> {
    file: &'a str,
    number: u32,
    text: &'a str,
}

/// Numbers of lines of the scheduler that ran, and that exist; and those that never ran. Headers are left out.
fn lines<'a>(checked: &'a Checked<'_>) -> (usize, usize, Vec<Line<'a>>) {
    let own = checked.coverage.files.iter().filter(|(path, _)| !path.ends_with(".h"));
    let all: Vec<(&str, u32, &kernel_model::LineCoverage)> = own
        .flat_map(|(path, file)| file.lines.iter().map(move |(number, line)| (path.as_str(), *number, line)))
        .collect();
    let never = all.iter().filter(|(.., line)| line.count == 0);
    let never: Vec<Line<'a>> =
        never.map(|(file, number, line)| Line { file, number: *number, text: &line.text }).collect();
    (all.len() - never.len(), all.len(), never)
}

fn to_text(checked: &Checked<'_>) -> String {
    let Checked { args, seeds, tallies, .. } = checked;
    let runs = seeds.end - seeds.start;
    let mut text = format!("{}: {}", escape(&args.scheduler), counted(runs, "run"));
    let _ = writeln!(text, ", first seed {}\n", seeds.start);
    let _ = writeln!(text, "{:<26}{:>20}{:>10}", "property or warning", "applicable runs", "violated");
    for (name, tally) in tallies {
        let _ = writeln!(text, "{name:<26}{:>20}{:>10}", count(tally.seen), count(tally.broken));
    }
    let (ran, all, never) = lines(checked);
    if all > 0 {
        let _ = writeln!(text, "\n{ran} of {} of the scheduler ran", counted(all as u64, "line"));
        for line in never.iter().take(NEVER) {
            let file = line.file.rsplit('/').next().unwrap_or_default();
            let _ = writeln!(text, "  never: {}:{}  {}", escape(file), line.number, escape(line.text.trim()));
        }
        if never.len() > NEVER {
            let _ = writeln!(text, "  … and {} more", never.len() - NEVER);
        }
    }
    for (name, tally) in tallies.iter().filter(|(_, tally)| tally.broken > 0) {
        let kind = if is_warning(name) { "WARNING" } else { "BROKEN" };
        let _ =
            writeln!(text, "\n{kind}: {name}, in {} of {}", count(tally.broken), counted(tally.seen, "applicable run"));
        match &tally.shrunk {
            Some(shrunk) => {
                let _ = writeln!(text, "  {}", escape(&shrunk.command));
                shrunk.story.iter().for_each(|line| text.push_str(&format!("    {line}\n")));
            }
            None => tally.commands.iter().for_each(|line| text.push_str(&format!("  {}\n", escape(line)))),
        }
    }
    if checked.interrupted || args.minutes.is_some() {
        match &args.resume {
            Some(_) => text.push_str("\nto continue: repeat this command\n"),
            None => drop(writeln!(text, "\nto continue: --first {}", seeds.end)),
        }
    }
    text
}

fn to_json(checked: &Checked<'_>) -> String {
    let shrunk = |shrunk: &Shrunk| {
        let Shrunk { command, tasks, cpus, runs, story } = shrunk;
        json!({ "command": command, "tasks": tasks, "cpus": cpus, "runs": runs, "story": story })
    };
    let property = |(name, tally): (&String, &Tally)| {
        json!({
            "property": name,
            "warning": is_warning(name),
            "seen": tally.seen,
            "broken": tally.broken,
            "commands": tally.commands,
            "shrunk": tally.shrunk.as_ref().map(shrunk),
        })
    };
    let Checked { args, seeds, tallies, .. } = checked;
    let (ran, all, never) = lines(checked);
    let never: Vec<Value> =
        never.iter().map(|line| json!({ "file": line.file, "line": line.number, "text": line.text.trim() })).collect();
    let document = json!({
        "weir": 1,
        "scheduler": args.scheduler,
        "first": seeds.start,
        "seeds": seeds.end - seeds.start,
        "interrupted": checked.interrupted,
        "properties": tallies.iter().map(property).collect::<Vec<_>>(),
        "coverage": { "lines": all, "ran": ran, "never": never },
    });
    format!("{document:#}\n")
}

/// A test suite with a test case for each property, as CI systems read it.
fn to_junit(checked: &Checked<'_>) -> String {
    let Checked { args, tallies, took, .. } = checked;
    let (name, time) = (xml(&args.scheduler), took.as_secs_f64());
    let failures = tallies.values().filter(|tally| tally.broken > 0).count();
    let head = format!("tests=\"{}\" failures=\"{failures}\" errors=\"0\" time=\"{time:.3}\"", tallies.len());
    let mut text = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {head}>\n");
    let _ = writeln!(text, "  <testsuite name=\"weir check {name}\" {head}>");
    for (property, tally) in tallies {
        let _ = write!(text, "    <testcase classname=\"weir.check.{name}\" name=\"{property}\"");
        if tally.broken == 0 {
            text.push_str("/>\n");
            continue;
        }
        let kind = if is_warning(property) { "warning" } else { "violation" };
        let told = match &tally.shrunk {
            Some(shrunk) => format!("{}\n{}", shrunk.command, shrunk.story.join("\n")),
            None => tally.commands.join("\n"),
        };
        let of = counted(tally.seen, "applicable run");
        let _ = writeln!(text, ">\n      <failure type=\"{kind}\" message=\"in {} of {of}\">", tally.broken);
        let _ = writeln!(text, "{}</failure>\n    </testcase>", xml(&told));
    }
    text + "  </testsuite>\n</testsuites>\n"
}

/// Escapes text for XML, which has no control characters.
fn xml(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push(c),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::xml;

    #[test]
    fn xml_text_has_neither_markup_nor_control_characters() {
        assert_eq!(xml("a<b> & \"c\"\u{1b}[2J\n"), "a&lt;b&gt; &amp; &quot;c&quot;\u{fffd}[2J\n");
    }
}
