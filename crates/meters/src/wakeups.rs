// SPDX-License-Identifier: GPL-2.0-only
//! Wakeups: which task woke which, and how long the woken one waited for its CPU.

use crate::columns::{percent, shorten, table};
use crate::{ROWS, Trust};
use ids::Nanos;
use serde_json::{Value, json};

/// Wakeups of one task name by another.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pair {
    /// Name of the waker; `(timer)`, `(interrupt)` and the like if no task woke it.
    pub waker: String,
    /// Name of the woken task.
    pub task: String,
    /// Number of wakeups.
    pub count: u64,
    /// Number of wakeups after which the task was seen to run, so that their latency is known.
    pub measured: u64,
    /// Total latency: from wakeup to running.
    pub total: Nanos,
    /// Longest latency.
    pub max: Nanos,
}

/// Wakeups of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wakeups {
    /// Circumstances.
    pub trust: Trust,
    /// Wakeups by pair of waker and woken task.
    pub pairs: Vec<Pair>,
    /// Time during which a CPU idled while a task waited; `None` if unknown.
    pub idle_while_runnable: Option<Nanos>,
}

impl Wakeups {
    /// Sorts the rows: longest total latency first.
    pub fn sort(&mut self) {
        self.pairs.sort_by(|a, b| {
            (b.total, b.count).cmp(&(a.total, a.count)).then_with(|| (&a.waker, &a.task).cmp(&(&b.waker, &b.task)))
        });
    }

    /// Number of wakeups, total latency, and longest latency.
    pub fn sum(&self) -> (u64, Nanos, Nanos) {
        let total = Nanos(self.pairs.iter().map(|pair| pair.total.0).sum());
        let max = self.pairs.iter().map(|pair| pair.max).max().unwrap_or_default();
        (self.pairs.iter().map(|pair| pair.count).sum(), total, max)
    }

    /// The table as text.
    pub fn to_text(&self, all: bool) -> String {
        let (count, total, max) = self.sum();
        let mean =
            |pair: &Pair| pair.total.0.checked_div(pair.measured).map_or("-".to_owned(), |ns| Nanos(ns).to_string());
        let row = |pair: &Pair| {
            vec![
                shorten(&pair.waker, 24),
                shorten(&pair.task, 24),
                report::count(pair.count),
                mean(pair),
                pair.max.to_string(),
                pair.total.to_string(),
                percent(pair.total.0, total.0),
            ]
        };
        let shown = if all { self.pairs.len() } else { ROWS.min(self.pairs.len()) };
        let rows: Vec<Vec<String>> = self.pairs[..shown].iter().map(row).collect();
        let mut text = self.trust.to_text() + "\n";
        text += &table(&["waker", "woken", "wakeups", "mean", "max", "total", "share"], 2, &rows);
        if shown < self.pairs.len() {
            text += &format!("{} more rows; --all shows them\n", self.pairs.len() - shown);
        }
        text += &format!("\n{} wakeups, latency {total} in total, {max} at most\n", report::count(count));
        if let Some(idle) = self.idle_while_runnable {
            let share = percent(idle.0, self.trust.elapsed.0);
            text += &format!("a CPU idled while a task waited for {idle}, {share} of the measured time\n");
        }
        text
    }

    /// The table as JSON.
    pub fn to_json(&self) -> Value {
        let (count, total, max) = self.sum();
        let mut json = self.trust.to_json();
        json["wakeups"] = json!(count);
        json["latency_total_ns"] = json!(total.0);
        json["latency_max_ns"] = json!(max.0);
        json["idle_while_runnable_ns"] = json!(self.idle_while_runnable.map(|time| time.0));
        let pair = |pair: &Pair| {
            json!({
                "waker": pair.waker, "task": pair.task, "count": pair.count, "measured": pair.measured,
                "latency_total_ns": pair.total.0, "latency_max_ns": pair.max.0,
            })
        };
        json["pairs"] = self.pairs.iter().map(pair).collect();
        json
    }

    /// The table as CSV.
    pub fn to_csv(&self) -> String {
        let mut text = "waker,task,count,measured,latency_total_ns,latency_max_ns\n".to_owned();
        for pair in &self.pairs {
            let (waker, task) = (report::cell(&pair.waker), report::cell(&pair.task));
            text += &format!("{waker},{task},{},{},{},{}\n", pair.count, pair.measured, pair.total.0, pair.max.0);
        }
        text
    }
}
