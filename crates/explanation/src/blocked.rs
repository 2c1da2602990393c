// SPDX-License-Identifier: GPL-2.0-only
//! A wait for another task as a sentence, as text, and as JSON.

use crate::RunContext;
use crate::wait::{wait_json, wait_sentence};
use crate::words::{moment, policy_name, task_json, task_name};
use ids::Nanos;
use report::{escape, wrap};
use serde_json::{Value, json};
use timeline::{Blocked, BlockedAccount};

/// Number of further tasks that are followed from one awaited task to the next.
const FOLLOWED: usize = 6;

/// The wait in one sentence.
fn sentence(context: &RunContext<'_>, account: &BlockedAccount) -> String {
    let blocked = &account.blocked;
    let object = match (&blocked.object, blocked.lock, blocked.awaited) {
        (Some(object), true, Some(holder)) => format!("{}, held by {}", escape(object), task_name(context, holder)),
        (Some(object), _, Some(waker)) => format!("{}; {} ended the wait", escape(object), task_name(context, waker)),
        (Some(object), _, None) => escape(object).into_owned(),
        (None, _, Some(waker)) => format!("{}, which woke it", task_name(context, waker)),
        (None, _, None) => "an unknown task".to_owned(),
    };
    format!(
        "{} waited {} from {} on for {object}.",
        task_name(context, blocked.task),
        blocked.length(),
        moment(blocked.from)
    )
}

/// What the awaited task did meanwhile, in one sentence.
fn meanwhile(context: &RunContext<'_>, account: &BlockedAccount) -> Option<String> {
    let name = task_name(context, account.blocked.awaited?);
    let parts = [("ran for", account.ran), ("waited for a CPU for", account.waited), ("slept for", account.slept)];
    let parts = parts.iter().filter(|(_, time)| *time > Nanos::ZERO).map(|(did, time)| format!("{did} {time}"));
    Some(format!("Meanwhile {name} {}.", parts.collect::<Vec<_>>().join(", ")))
}

/// The priority inversion, in one sentence.
fn inversion(context: &RunContext<'_>, account: &BlockedAccount) -> Option<String> {
    let (between, holder) = (account.inverted_by?, account.blocked.awaited?);
    let told = |task| format!("{} ({})", task_name(context, task), policy_name(context, task));
    Some(format!(
        "Priority inversion: {} kept {} off the CPU, for which {} waited. A mutex with priority inheritance \
         (\"pi_enabled\") avoids this.",
        told(between),
        told(holder),
        told(account.blocked.task)
    ))
}

/// The waits for third tasks on which the awaited one depended, nearest first.
fn followed(context: &RunContext<'_>, account: &BlockedAccount) -> Vec<BlockedAccount> {
    let mut chain: Vec<BlockedAccount> = Vec::new();
    let mut seen = vec![account.blocked.task];
    let mut next = account.next.clone();
    while let Some(blocked) = next.filter(|next| chain.len() < FOLLOWED && !seen.contains(&next.task)) {
        seen.push(blocked.task);
        let account = context.timeline.blocked_account(blocked);
        next = account.next.clone();
        chain.push(account);
    }
    chain
}

/// The wait as text.
pub fn blocked_text(context: &RunContext<'_>, account: &BlockedAccount) -> String {
    let mut lines = vec![sentence(context, account)];
    lines.extend(meanwhile(context, account));
    if let Some(longest) = &account.longest {
        lines.push(wait_sentence(context, longest));
    }
    lines.extend(inversion(context, account));
    lines.extend(followed(context, account).iter().map(|account| sentence(context, account)));
    lines.iter().map(|line| wrap("", line) + "\n").collect()
}

/// The wait as JSON.
pub fn blocked_json(context: &RunContext<'_>, account: &BlockedAccount) -> Value {
    let one = |account: &BlockedAccount| {
        let Blocked { task, from, to, object, lock, awaited } = &account.blocked;
        json!({
            "task": task_json(context, *task),
            "from_ns": from.0,
            "to_ns": to.0,
            "wait_ns": account.blocked.length().0,
            "object": object,
            "lock": lock,
            "awaited": awaited.map(|awaited| task_json(context, awaited)),
            "awaited_ran_ns": account.ran.0,
            "awaited_runnable_ns": account.waited.0,
            "awaited_slept_ns": account.slept.0,
            "priority_inversion": account.inverted_by.map(|task| task_json(context, task)),
        })
    };
    let mut value = one(account);
    value["sentence"] = json!(sentence(context, account));
    value["awaited_wait"] = json!(account.longest.as_ref().map(|longest| wait_json(context, longest, None)));
    value["followed"] = followed(context, account).iter().map(one).collect();
    value
}
