// SPDX-License-Identifier: GPL-2.0-only
//! CSV output: one row per run, one column per measure, with the keys of the JSON as header.

use crate::Record;
use crate::harmless::plain_cell;
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
        let row = fields
            .iter()
            .map(|field| plain_cell(field).into_owned())
            .chain(run.values.iter().map(|value| number(*value)));
        writer.write_record(row).expect("memory takes it");
    }
    String::from_utf8(writer.into_inner().expect("memory takes it")).expect("all fields are text")
}
