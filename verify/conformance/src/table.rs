// SPDX-License-Identifier: GPL-2.0-only
//! Formats the verdicts on scenarios as text.

use crate::compare::Verdict;
use std::fmt::Write as _;

/// Formats one line per scenario, followed by its differences.
pub fn text(verdicts: &[Verdict]) -> String {
    let width = verdicts.iter().map(|verdict| verdict.scenario.len()).max().unwrap_or(0);
    let mut text = String::new();
    for verdict in verdicts {
        let word = match (verdict.agrees, &verdict.departure) {
            (true, None) => "agrees ",
            (true, Some(_)) => "AGREES, though it is listed as a departure",
            (false, Some(_)) => "departs",
            (false, None) => "DIFFERS",
        };
        let Verdict { scenario, calls, play, plays, disturbed, .. } = verdict;
        let covers = verdict.covers.join(" ");
        writeln!(
            text,
            "{scenario:width$}  {word}  {calls:4} calls, play {play} of {plays} ({disturbed} disturbed)  {covers}"
        )
        .expect("a string takes all");
        if let (false, Some(why)) = (verdict.agrees, &verdict.departure) {
            writeln!(text, "    {why}").expect("a string takes all");
            continue;
        }
        for difference in &verdict.differences {
            writeln!(text, "    {difference}").expect("a string takes all");
        }
    }
    let agreeing = verdicts.iter().filter(|verdict| verdict.agrees).count();
    let end_only = verdicts.iter().filter(|verdict| verdict.agrees && verdict.end_only).count();
    let all = verdicts.len();
    writeln!(text, "{agreeing} of {all} scenarios agree; of {end_only} of them only the scheduler's end was compared")
        .expect("a string takes all");
    text
}
