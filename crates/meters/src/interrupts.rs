// SPDX-License-Identifier: GPL-2.0-only
//! Interrupts by source and CPU.

use crate::columns::{percent, table};
use crate::{ROWS, Trust};
use ids::{CpuId, Nanos};
use serde_json::{Value, json};

/// Interrupts of one source on one CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interrupt {
    /// Source: `irq N NAME`, `softirq NAME`, `local timer`, `tick`, …
    pub source: String,
    /// CPU that served them.
    pub cpu: CpuId,
    /// Number of interrupts.
    pub count: u64,
    /// Time in their handlers; `None` if not measured.
    pub total: Option<Nanos>,
    /// Longest handler; `None` if not measured.
    pub max: Option<Nanos>,
}

/// Interrupts of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interrupts {
    /// Circumstances.
    pub trust: Trust,
    /// The rows.
    pub rows: Vec<Interrupt>,
    /// Time that interrupts took from each CPU, by number, where only the sum is known.
    pub stolen: Vec<Nanos>,
}

impl Interrupts {
    /// Sorts the rows: longest time first, then the most frequent.
    pub fn sort(&mut self) {
        self.rows.sort_by(|a, b| {
            (b.total, b.count).cmp(&(a.total, a.count)).then_with(|| (&a.source, a.cpu).cmp(&(&b.source, b.cpu)))
        });
    }

    /// The table as text.
    pub fn to_text(&self, all: bool) -> String {
        let seconds = self.trust.elapsed.0.max(1) as f64 / 1e9;
        let time = |time: Option<Nanos>| time.map_or("-".to_owned(), |time| time.to_string());
        let row = |row: &Interrupt| {
            vec![
                report::escape(&row.source).into_owned(),
                row.cpu.to_string(),
                report::count(row.count),
                format!("{:.0}/s", row.count as f64 / seconds),
                time(row.total.map(|total| Nanos(total.0.checked_div(row.count).unwrap_or(0)))),
                time(row.max),
                time(row.total),
                row.total.map_or("-".to_owned(), |total| percent(total.0, self.trust.elapsed.0)),
            ]
        };
        let shown = if all { self.rows.len() } else { ROWS.min(self.rows.len()) };
        let rows: Vec<Vec<String>> = self.rows[..shown].iter().map(row).collect();
        let mut text = self.trust.to_text() + "\n";
        text += &table(&["source", "CPU", "count", "rate", "mean", "max", "total", "of the CPU"], 1, &rows);
        if shown < self.rows.len() {
            text += &format!("{} more rows; --all shows them\n", self.rows.len() - shown);
        }
        for (cpu, stolen) in self.stolen.iter().enumerate().filter(|(_, stolen)| **stolen > Nanos::ZERO) {
            text += &format!("interrupts took {stolen} of CPU {cpu}, {}\n", percent(stolen.0, self.trust.elapsed.0));
        }
        text
    }

    /// The table as JSON.
    pub fn to_json(&self) -> Value {
        let mut json = self.trust.to_json();
        let row = |row: &Interrupt| {
            json!({
                "source": row.source, "cpu": row.cpu.0, "count": row.count,
                "total_ns": row.total.map(|time| time.0), "max_ns": row.max.map(|time| time.0),
            })
        };
        json["interrupts"] = self.rows.iter().map(row).collect();
        json["stolen_ns"] = self.stolen.iter().map(|time| json!(time.0)).collect();
        json
    }

    /// The table as CSV.
    pub fn to_csv(&self) -> String {
        let mut text = "source,cpu,count,total_ns,max_ns\n".to_owned();
        let number = |time: Option<Nanos>| time.map(|time| time.0.to_string()).unwrap_or_default();
        for row in &self.rows {
            text += &format!(
                "{},{},{},{},{}\n",
                report::cell(&row.source),
                row.cpu.0,
                row.count,
                number(row.total),
                number(row.max)
            );
        }
        text
    }
}
