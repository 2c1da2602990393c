// SPDX-License-Identifier: GPL-2.0-only
//! What the fair class of the kernel decided during a wait, as text and JSON.

use crate::RunContext;
use crate::wait::table;
use crate::words::{cpus_name, others, task_json, task_name};
use ids::Nanos;
use report::{count, counted, wrap};
use serde_json::{Value, json};
use std::fmt::Write;
use timeline::{Account, FairAccount, PassedOver, RuleKind};

/// Number of chosen tasks in the table.
const CHOSEN: usize = 5;

/// Most important decision of the fair class during a wait, as a clause.
pub(crate) fn fair_cause(context: &RunContext<'_>, account: &Account) -> Option<String> {
    let fair = context.timeline.fair_account(&account.wait)?;
    let place = fair.queued.last().map(|&(cpu, _)| format!("it was queued on CPU {cpu}"));
    if account.idle.0 * 2 >= account.wait.length().0
        && let Some(place) = &place
    {
        let idle = cpus_name(&account.idle_cpus);
        return Some(match idle_reason(&fair) {
            Some(reason) => format!("{place} and no idle CPU took it: {reason}"),
            None => format!("{place}, and {idle} did not search for tasks meanwhile"),
        });
    }
    let first = fair.passed_over.first()?;
    Some(format!("{} ({})", choice(context, first), place.unwrap_or_else(|| "its runqueue is unknown".to_owned())))
}

/// Why an entry came first, as a clause.
fn choice(context: &RunContext<'_>, entry: &PassedOver) -> String {
    let (chosen, most) = (task_name(context, entry.chosen), Nanos(entry.most_ns));
    match entry.rule {
        RuleKind::Ineligible => format!("it was not eligible, {most} ahead of its share of the CPU, so {chosen} ran"),
        RuleKind::Protected => format!("{chosen} was within its slice"),
        RuleKind::Deadline => format!("the virtual deadline of {chosen} was earlier by {most}"),
    }
}

/// Why idle CPUs did not pull the task.
fn idle_reason(fair: &FairAccount) -> Option<String> {
    let mut reasons = Vec::new();
    let times: u32 = fair.skipped.values().map(|(times, _)| times).sum();
    if let Some((_, ratio)) = fair.skipped.values().max() {
        let skipped = counted(times.into(), "time");
        reasons.push(format!("newidle balancing was skipped {skipped}, since it succeeds in {ratio} of 1,024 cases"));
    }
    if !fair.hot_for.is_empty() {
        reasons.push(format!("it was cache-hot for {}", cpus_name(&fair.hot_for)));
    }
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// The decisions as a section of text.
pub(crate) fn fair_text(context: &RunContext<'_>, fair: &FairAccount) -> String {
    let mut text = String::from("\nfair class\n");
    let mut say = |line: &str| {
        let _ = writeln!(text, "{}", wrap("  ", line));
    };
    for &(cpu, waiting) in fair.queued.iter().take(CHOSEN) {
        say(&format!("queued on CPU {cpu} beside {}", others(waiting.saturating_sub(1))));
    }
    if fair.queued.len() > CHOSEN {
        say(&format!("and requeued {}", counted((fair.queued.len() - CHOSEN) as u64, "more time")));
    }
    if let Some(reason) = idle_reason(fair) {
        say(&reason);
    }
    if !fair.excluded_for.is_empty() {
        say(&format!("its affinity mask excludes {}, which searched for tasks", cpus_name(&fair.excluded_for)));
    }
    if !fair.passed_over.is_empty() {
        text.push_str("\ntasks that the fair class chose before it\n");
        let rows = fair.passed_over.iter().take(CHOSEN).map(|entry| {
            let most = Nanos(entry.most_ns);
            let rule = match entry.rule {
                RuleKind::Ineligible => format!("not eligible: {most} ahead"),
                RuleKind::Protected => "the other was within its slice".to_owned(),
                RuleKind::Deadline => format!("later deadline, by {most}"),
            };
            [task_name(context, entry.chosen), entry.lasted.to_string(), count(entry.times.into()), rule]
        });
        text.push_str(&table(["chosen", "for", "times", "rule"], [21, 9, 7, 32], rows.collect(), 2));
    }
    text
}

/// The decisions as JSON.
pub(crate) fn fair_json(context: &RunContext<'_>, fair: &FairAccount) -> Value {
    let passed = fair.passed_over.iter().map(|entry| {
        json!({
            "task": task_json(context, entry.chosen),
            "rule": match entry.rule {
                RuleKind::Ineligible => "ineligible",
                RuleKind::Protected => "protected",
                RuleKind::Deadline => "deadline",
            },
            "times": entry.times,
            "lasted_ns": entry.lasted.0,
            "most_ns": entry.most_ns,
        })
    });
    let queued = fair.queued.iter().map(|&(cpu, waiting)| json!({ "cpu": cpu.0, "waiting": waiting }));
    let skipped = fair.skipped.iter();
    let skipped = skipped.map(|(cpu, &(times, ratio))| json!({ "cpu": cpu.0, "times": times, "ratio_1024ths": ratio }));
    json!({
        "queued": queued.collect::<Vec<_>>(),
        "passed_over": passed.collect::<Vec<_>>(),
        "newidle_skipped": skipped.collect::<Vec<_>>(),
        "hot_for": fair.hot_for.to_string(),
        "excluded_for": fair.excluded_for.to_string(),
    })
}
