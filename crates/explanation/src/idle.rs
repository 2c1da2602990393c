// SPDX-License-Identifier: GPL-2.0-only
//! Why CPUs were idle while tasks waited, as text and JSON.

use crate::RunContext;
use crate::fair::fair_cause;
use crate::words::{moment, reason_key, site_json, suspect_sentence, task_json, task_name};
use report::{count, counted, wrap};
use serde_json::{Value, json};
use std::fmt::Write;
use timeline::{Account, IdleCauses};

/// Idle time below this percentage of the waits is not worth a section.
const SHOWN_PERCENT: u128 = 10;
/// Number of causes that are shown.
const CAUSES: usize = 3;

/// The cause of a wait, as a clause.
fn cause(context: &RunContext<'_>, account: &Account) -> String {
    match account.suspects.first() {
        Some(suspect) => suspect_sentence(context, account, suspect),
        None => fair_cause(context, account).unwrap_or_else(|| "cause unknown".to_owned()),
    }
}

/// The causes as text; `None` if CPUs were hardly idle while tasks waited.
pub fn idle_text(context: &RunContext<'_>) -> Option<String> {
    let IdleCauses { waits, waited, idle, causes } = context.timeline.idle_causes();
    let percent = u128::from(idle.0) * 100 / u128::from(waited.0.max(1));
    if percent < SHOWN_PERCENT {
        return None;
    }
    let waits = counted(waits, "longest wait");
    let head = format!(
        "In {percent} % of the time of the {waits}, a CPU that the task may use was idle ({idle} of {waited}):"
    );
    let mut text = wrap("", &head) + "\n";
    for found in causes.iter().take(CAUSES) {
        let waits = counted(found.waits, "wait");
        let _ =
            writeln!(text, "{}", wrap("  ", &format!("{} in {waits}: {}", found.idle, cause(context, &found.example))));
        let wait = &found.example.wait;
        let example = format!("longest: {} at {}", task_name(context, wait.task), moment(wait.from));
        let _ = writeln!(text, "{}", wrap("    ", &example));
    }
    if causes.len() > CAUSES {
        let _ = writeln!(text, "  and {} more causes", count((causes.len() - CAUSES) as u64));
    }
    Some(text)
}

/// The causes as JSON.
pub fn idle_json(context: &RunContext<'_>) -> Value {
    let IdleCauses { waits, waited, idle, causes } = context.timeline.idle_causes();
    let causes = causes.iter().map(|found| {
        let first = found.example.suspects.first();
        let mut value = first.map_or_else(|| json!({}), |suspect| site_json(context, suspect.site));
        value["reason"] = json!(first.map(|suspect| reason_key(suspect.reason)));
        value["sentence"] = json!(cause(context, &found.example));
        value["idle_ns"] = json!(found.idle.0);
        value["waits"] = json!(found.waits);
        value["example"] =
            json!({ "task": task_json(context, found.example.wait.task), "from_ns": found.example.wait.from.0 });
        value
    });
    json!({ "waits": waits, "waited_ns": waited.0, "idle_ns": idle.0, "causes": causes.collect::<Vec<_>>() })
}
