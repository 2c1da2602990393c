// SPDX-License-Identifier: GPL-2.0-only
//! Verdicts as JSON.

use super::judged::Judged;
use super::text::placebos;
use anyhow::Result;
use claims::{Judgement, Test};
use serde_json::{Value, json};

/// The document of all verdicts.
///
/// # Errors
/// If it cannot be written as text.
pub fn document(all: &[Judged<'_>], commit: Option<&str>) -> Result<String> {
    let claims: Vec<Value> = all.iter().map(claim).collect();
    let (count, hold) = placebos(all);
    let document = json!({
        "weir": 1,
        "commit": commit,
        "claims": claims,
        "placebos": { "count": count, "hold": hold },
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn claim(judged: &Judged<'_>) -> Value {
    let Judged { claim, judgement, reason, decider, placebo, off, runs, command, similar } = judged;
    let is_judged = matches!(claim.test, Test::Runs(_)) && judgement.agreeing.1 > 0;
    let decides = decider.as_ref().map(|decider| {
        json!({
            "group": decider.group,
            "correlation_permille": decider.correlation_permille,
            "splits_sign": decider.splits_sign,
            "threshold_permille": decider.threshold_permille,
        })
    });
    let steps: Vec<Value> = judgement
        .steps
        .iter()
        .map(|step| {
            json!({
                "value": step.value,
                "sign": step.sign,
                "verdict": step.verdict.word(),
                "effect_ppm": step.effect_ppm,
                "interval_ppm": step.interval_ppm,
            })
        })
        .collect();
    json!({
        "id": claim.id,
        "text": claim.text,
        "seed_text": claim.seed_text,
        "source": claim.source,
        "published": claim.published,
        "published_ppm": claim.published_ppm,
        "verdict": judgement.verdict.word(),
        "depends_on": judgement.depends_on,
        "reason": reason,
        "effect_ppm": is_judged.then_some(judgement.effect_ppm),
        "interval_ppm": judgement.interval_ppm,
        "tellable_ppm": judgement.tellable_ppm,
        "samples": judgement.agreeing.1,
        "agreeing": judgement.agreeing.0,
        "decides": decides,
        "steps": steps,
        "placebo": placebo.as_ref().map(comparison),
        "off": off.as_ref().map(comparison),
        "runs": runs,
        "command": command,
        "similar": similar,
    })
}

fn comparison(judged: &Judgement) -> Value {
    json!({
        "verdict": judged.verdict.word(),
        "effect_ppm": (judged.agreeing.1 > 0).then_some(judged.effect_ppm),
        "interval_ppm": judged.interval_ppm,
    })
}
