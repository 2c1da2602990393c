// SPDX-License-Identifier: GPL-2.0-only
//! The page of a table: its largest rows as bars.

use super::Table;
use ids::Nanos;
use meters::{Interrupts, Locks, Microstates, State, Wakeups};
use page::{Bar, Metered};

/// Number of bars.
const BARS: usize = 40;

/// Arranges a sorted table for the page.
pub fn metered(table: &Table) -> Metered {
    let (title, kinds, bars, text) = match table {
        Table::Locks(locks) => {
            ("Which locks were waited for?", one("waits", "time waited for it"), of_locks(locks), locks.to_text(true))
        }
        Table::Microstates(states) => {
            ("What did the tasks do with their time?", states_and_meanings(), of_states(states), states.to_text(true))
        }
        Table::Wakeups(wakeups) => (
            "Which task woke which, and how long did it wait for a CPU?",
            one("latency", "time from wakeup to CPU"),
            of_wakeups(wakeups),
            wakeups.to_text(true),
        ),
        Table::Interrupts(interrupts) => (
            "What did interrupts take?",
            one("handlers", "time in the handlers"),
            of_interrupts(interrupts),
            interrupts.to_text(true),
        ),
    };
    Metered { title: title.to_owned(), kinds, bars: bars.into_iter().take(BARS).collect(), text }
}

fn one(name: &str, meaning: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), meaning.to_owned())]
}

fn states_and_meanings() -> Vec<(String, String)> {
    State::ALL.iter().map(|state| (state.heading().to_owned(), state.meaning().to_owned())).collect()
}

fn of_states(states: &Microstates) -> Vec<Bar> {
    let bar = |task: &meters::Task| {
        let reason =
            task.reasons.first().map(|reason| format!("{} in {}: {}", reason.state.key(), reason.what, reason.time));
        Bar {
            name: format!("{}[{}]", task.name, task.pid),
            notes: [format!("life {}", task.life)].into_iter().chain(reason).collect(),
            whole_ns: task.life.0,
            parts: State::ALL
                .iter()
                .enumerate()
                .filter_map(|(at, state)| Some((at, task.states.get(state)?.0)))
                .collect(),
        }
    };
    states.tasks.iter().map(bar).collect()
}

/// Bars with one part each, all on the scale of the longest.
fn scaled(rows: impl Iterator<Item = (String, Nanos, String)>) -> Vec<Bar> {
    let rows: Vec<_> = rows.filter(|(_, time, _)| *time > Nanos::ZERO).collect();
    let longest = rows.iter().map(|(_, time, _)| time.0).max().unwrap_or(0);
    let bar = |(name, time, note): (String, Nanos, String)| Bar {
        name,
        notes: vec![time.to_string(), note],
        whole_ns: longest,
        parts: vec![(0, time.0)],
    };
    rows.into_iter().map(bar).collect()
}

fn of_locks(locks: &Locks) -> Vec<Bar> {
    scaled(locks.rows.iter().map(|lock| {
        let note = format!("{}, {} waits, mean {}", lock.kind, report::count(lock.contended), lock.wait_mean());
        (format!("{} by {}", lock.lock, lock.caller), lock.wait_total, note)
    }))
}

fn of_wakeups(wakeups: &Wakeups) -> Vec<Bar> {
    scaled(wakeups.pairs.iter().map(|pair| {
        let note = format!("{} wakeups, longest {}", report::count(pair.count), pair.max);
        (format!("{} by {}", pair.task, pair.waker), pair.total, note)
    }))
}

fn of_interrupts(interrupts: &Interrupts) -> Vec<Bar> {
    scaled(interrupts.rows.iter().map(|row| {
        let note = format!("{} of them", report::count(row.count));
        (format!("{} on CPU {}", row.source, row.cpu), row.total.unwrap_or_default(), note)
    }))
}
