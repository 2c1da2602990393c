// SPDX-License-Identifier: GPL-2.0-only
//! CSV output: one row per run, one column per measure, with the keys of the JSON as header.

use crate::Record;
use measures::catalogue::CATALOGUE;

/// Columns before the measures.
const TAGS: [&str; 10] =
    ["scheduler", "machine", "workload", "world", "seed", "draw", "kernel", "outcome", "exit.kind", "command_status"];

/// The runs as CSV (RFC 4180, but with Unix line ends); unknown values are empty. Parts of workloads have no rows.
pub fn to_csv(runs: &[Record]) -> String {
    let mut writer = csv::WriterBuilder::new().from_writer(Vec::new());
    let head = TAGS.into_iter().chain(CATALOGUE.iter().map(|measure| measure.key));
    writer.write_record(head).expect("memory takes it");
    for run in runs.iter().filter(|run| run.tags.part.is_none()) {
        let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
        let (tags, ending) = (&run.tags, &run.ending);
        let outcome = match ending.outcome() {
            crate::Outcome::Completed => "completed",
            crate::Outcome::Ejected => "ejected",
            crate::Outcome::Violation => "violation",
        };
        let fields = [
            tags.scheduler.clone(),
            tags.machine.clone(),
            tags.workload.clone(),
            tags.world.as_str().to_owned(),
            number(tags.seed),
            number(tags.draw),
            tags.kernel.clone(),
            outcome.to_owned(),
            ending.ejected.as_ref().map_or(0, |exit| exit.kind).to_string(),
            ending.command_status.map(|status| status.to_string()).unwrap_or_default(),
        ];
        let row = fields.iter().map(|field| harmless(field)).chain(run.values.iter().map(|value| number(*value)));
        writer.write_record(row).expect("memory takes it");
    }
    String::from_utf8(writer.into_inner().expect("memory takes it")).expect("all fields are text")
}

/// A text cell that controls neither a terminal nor a spreadsheet, which takes `=`, `+`, `-` and `@` as the start of a
/// formula.
fn harmless(cell: &str) -> String {
    let cell = crate::escape(cell);
    if cell.starts_with(['=', '+', '-', '@']) && cell.parse::<f64>().is_err() {
        format!("'{cell}")
    } else {
        cell.into()
    }
}

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn text_cells_are_no_formulas_and_have_no_control_characters() {
        assert_eq!(harmless("=cmd|calc\u{1b}[2J"), "'=cmd|calc\\u{1b}[2J");
        assert_eq!(
            (harmless("@a"), harmless("bfs@0.357"), harmless("-1")),
            ("'@a".into(), "bfs@0.357".into(), "-1".into())
        );
    }
}
