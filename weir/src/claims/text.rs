// SPDX-License-Identifier: GPL-2.0-only
//! Claims and verdicts as text.

use super::judged::Judged;
use claims::{Claim, Judgement, Test, Verdict};
use std::fmt::Write;

/// Difference from which on a factor is shown and not a percentage: threefold.
const FACTOR_PPM: i64 = 2_000_000;

/// All claims: identifier and text.
pub fn list(all: &[Claim]) -> String {
    let mut text = String::new();
    for claim in all {
        let _ = write!(text, "{}\n{}", claim.id, wrapped(&claim.text, 4));
    }
    let judged = all.iter().filter(|claim| matches!(claim.test, Test::Runs(_))).count();
    let _ = writeln!(text, "\n{} claims; runs can judge {judged}. weir claims ID judges one, --all all.", all.len());
    text
}

/// All verdicts, two lines each.
pub fn table(all: &[Judged<'_>]) -> String {
    let mut text = String::new();
    for judged in all {
        let _ = writeln!(text, "{:<58}{}", judged.claim.id, judged.judgement.verdict.words());
        text += &wrapped(&result(judged), 4);
    }
    text.push('\n');
    summary(all).lines().for_each(|line| text += &wrapped(line, 0));
    text
}

/// One verdict with everything that is known.
pub fn one(judged: &Judged<'_>) -> String {
    let Judged { claim, judgement, decider, placebo, off, runs, command, similar, .. } = judged;
    let mut text = wrapped(&claim.text, 0);
    text += &wrapped(&format!("\"{}\" ({})", claim.seed_text, claim.source), 4);
    let _ = write!(text, "\n{}: {}", claim.id, judgement.verdict.words());
    text += &judgement.depends_on.as_ref().map(|on| format!(" on {on}")).unwrap_or_default();
    text.push('\n');
    text += &wrapped(&result(judged), 4);
    for step in &judgement.steps {
        let shown = with_interval(step.effect_ppm, step.interval_ppm);
        let _ = writeln!(text, "    at {:<8} {:<19} {shown}", step.value, step.verdict.words());
    }
    if let Some(decider) = decider {
        let correlation = format!("{:.2}", decider.correlation_permille as f64 / 1000.0);
        text += &wrapped(&format!("What decides: {} (rank correlation {correlation}).", decider.group), 4);
    }
    if let Some(off) = off {
        text += &wrapped(&format!("Without what carries it: {}.", shown(off)), 4);
    }
    if let Some(placebo) = placebo {
        text += &wrapped(&format!("The first side against itself, with other seeds: {}.", shown(placebo)), 4);
    }
    if !similar.is_empty() {
        let lines = similar.join("\n  ");
        let _ = write!(text, "\n{runs} runs: {command}\nWith seeds common to all samples:\n  {lines}\n");
    }
    text
}

/// What was found, in a sentence.
pub fn result(judged: &Judged<'_>) -> String {
    let Judged { claim, judgement, reason, .. } = judged;
    let mut text = claim.published.as_ref().map(|figure| format!("Published: {figure}. ")).unwrap_or_default();
    if judgement.agreeing.1 > 0 {
        let _ = write!(text, "Here: {}", shown(judgement));
        let _ = write!(text, ", {} of {} samples with the claimed sign.", judgement.agreeing.0, judgement.agreeing.1);
    }
    if let (Verdict::Unclear, Some(tellable)) = (judgement.verdict, judgement.tellable_ppm) {
        let _ = write!(text, " These runs could have told {}.", percent(tellable).trim_start_matches('+'));
    }
    if let Some(on) = &judgement.depends_on {
        let _ = write!(text, " Depends on {on}.");
    }
    if let Some(reason) = reason {
        let _ = write!(text, " Because {reason}.");
    }
    text.trim().to_owned()
}

/// Numbers of verdicts, and of placebos, on a line each.
pub fn summary(all: &[Judged<'_>]) -> String {
    let of = |verdict: Verdict| all.iter().filter(|judged| judged.judgement.verdict == verdict).count();
    let counts = Verdict::ALL.map(|verdict| format!("{} {}", of(verdict), verdict.words()));
    let (count, hold) = placebos(all);
    format!("{} claims: {}.\n{hold} of {count} placebos hold.", all.len(), counts.join(", "))
}

/// Number of placebos, and of those that a claim of the same sign would hold for.
pub fn placebos(all: &[Judged<'_>]) -> (usize, usize) {
    let placebos = || all.iter().filter_map(|judged| judged.placebo.as_ref());
    let hold = placebos().filter(|one| matches!(one.verdict, Verdict::Holds | Verdict::Direction)).count();
    (placebos().count(), hold)
}

/// A difference with its interval.
pub fn shown(judged: &Judgement) -> String {
    with_interval(judged.effect_ppm, judged.interval_ppm)
}

/// A difference with its interval.
pub fn with_interval(effect: i64, interval: Option<(i64, i64)>) -> String {
    let interval = interval.map(|(low, high)| format!(" ({} to {})", percent(low), percent(high)));
    percent(effect) + &interval.unwrap_or_default()
}

/// `-6.8 %`, with more digits for small differences, or a factor for large ones.
pub fn percent(ppm: i64) -> String {
    if ppm >= FACTOR_PPM {
        return format!("x{:.1}", (ppm + 1_000_000) as f64 / 1e6);
    }
    let percent = ppm as f64 / 1e4;
    if ppm.abs() >= 10_000 { format!("{percent:+.1} %") } else { format!("{percent:+.2} %") }
}

/// The text in lines that fit the screen, indented.
fn wrapped(text: &str, indent: usize) -> String {
    report::wrap(&" ".repeat(indent), text) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_percentages_or_factors() {
        let cases = [(-68_000, "-6.8 %"), (2_500, "+0.25 %"), (0, "+0.00 %"), (2_159_539, "x3.2")];
        for (ppm, expected) in cases {
            assert_eq!(percent(ppm), expected);
        }
        assert_eq!(with_interval(-10_000, Some((-20_000, 5))), "-1.0 % (-2.0 % to +0.00 %)");
    }
}
