// SPDX-License-Identifier: GPL-2.0-only
//! The explanations that belong to every page about a run.

use crate::{RunContext, chain_text, idle_text, wait_text};
use ids::Nanos;
use timeline::{Account, Timeline, Wait};

/// Number of waits that are explained.
const WAITS: usize = 3;

/// Titled sections: the longest waits, avoidable idle time, and the critical path.
pub fn overview(context: &RunContext<'_>) -> Vec<(&'static str, String)> {
    let worst = worst_waits(context.timeline, WAITS, |_| true);
    let worst: Vec<String> = worst.iter().map(|account| wait_text(context, account, None)).collect();
    let mut sections = vec![("Why tasks waited longest", worst.join("\n"))];
    sections.extend(idle_text(context).map(|text| ("Why CPUs were idle while tasks waited", text)));
    let chain = chain_text(context, &context.timeline.chain(None));
    sections.push(("What the run waited for, from its beginning to its end", chain));
    sections.retain(|(_, text)| !text.is_empty());
    sections
}

/// The longest waits of the workload's tasks for a CPU, among those for which `counts` is true.
pub fn worst_waits(timeline: &Timeline, count: usize, counts: impl Fn(&Wait) -> bool) -> Vec<Account> {
    let of_workload =
        |wait: &Wait| counts(wait) && wait.length() > Nanos::ZERO && !timeline.task(wait.task).info.kernel_thread;
    let waits = timeline.longest_waits(count, of_workload);
    waits.into_iter().map(|wait| timeline.account(wait)).collect()
}
