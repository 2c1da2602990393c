// SPDX-License-Identifier: GPL-2.0-only
//! Claims and verdicts as text.

use super::figures::{Figures, tellable};
use super::judged::Judged;
use claims::{Claim, Test, Verdict};
use std::fmt::Write;

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
    let figures = Figures::of(claim);
    let mut text = wrapped(&claim.text, 0);
    text += &wrapped(&format!("\"{}\" ({})", claim.seed_text, claim.source), 4);
    let _ = write!(text, "\n{}: {}", claim.id, judgement.verdict.words());
    text += &judgement.depends_on.as_ref().map(|on| format!(" on {on}")).unwrap_or_default();
    text.push('\n');
    text += &wrapped(&result(judged), 4);
    for step in &judgement.steps {
        let shown = figures.with_interval(step.effect_ppm, step.interval_ppm);
        let _ = writeln!(text, "    at {:<8} {:<19} {shown}", step.value, step.verdict.words());
    }
    if let Some(decider) = decider {
        let correlation = format!("{:.2}", decider.correlation_permille as f64 / 1000.0);
        text += &wrapped(&format!("What decides: {} (rank correlation {correlation}).", decider.group), 4);
    }
    if let Some(off) = off {
        text += &wrapped(&format!("Without what carries it: {}.", figures.judged(off)), 4);
    }
    if let Some(placebo) = placebo {
        text += &wrapped(&format!("The first side against itself, with other seeds: {}.", figures.judged(placebo)), 4);
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
        let agree = if judged.expects_a_sign() { "with the claimed sign" } else { "within the claimed range" };
        let _ = write!(text, "Here: {}", Figures::of(claim).judged(judgement));
        let _ = write!(text, ", {} of {} samples {agree}.", judgement.agreeing.0, judgement.agreeing.1);
    }
    if let (Verdict::Unclear, Some(ppm)) = (judgement.verdict, judgement.tellable_ppm) {
        let _ = write!(text, " These runs could have told {}.", tellable(ppm));
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

/// The text in lines that fit the screen, indented.
fn wrapped(text: &str, indent: usize) -> String {
    report::wrap(&" ".repeat(indent), text) + "\n"
}
