// SPDX-License-Identifier: GPL-2.0-only
//! The lock table: waits and holds of each lock by caller.

use crate::columns::{percent, shorten, table};
use crate::{ROWS, Trust};
use ids::Nanos;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Use of one lock, or of all locks of one kind, by one caller.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lock {
    /// Kind: spin, rw-read, rw-write, mutex, rwsem-read, rwsem-write, percpu, futex, runqueue, dsq, bpf, …
    pub kind: String,
    /// Name or address of the lock.
    pub lock: String,
    /// Function or task that took it.
    pub caller: String,
    /// Address of the caller's instruction, if there is one.
    pub pc: Option<u64>,
    /// Number of acquisitions; `None` where only contended ones are seen.
    pub count: Option<u64>,
    /// Number of acquisitions that waited.
    pub contended: u64,
    /// Number of attempts that gave up; `None` if not measured.
    pub rejected: Option<u64>,
    /// Total wait.
    pub wait_total: Nanos,
    /// Longest wait.
    pub wait_max: Nanos,
    /// Total hold time; `None` if not measured.
    pub hold_total: Option<Nanos>,
    /// Longest hold time; `None` if not measured.
    pub hold_max: Option<Nanos>,
    /// Number of waits of this row that were lost.
    pub lost: u64,
}

impl Lock {
    /// Mean wait of the contended acquisitions, rounded down.
    pub fn wait_mean(&self) -> Nanos {
        Nanos(self.wait_total.0.checked_div(self.contended).unwrap_or(0))
    }

    /// Mean hold time, rounded down.
    pub fn hold_mean(&self) -> Option<Nanos> {
        let count = self.count.filter(|&count| count > 0)?;
        self.hold_total.map(|total| Nanos(total.0 / count))
    }
}

/// Order of the rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sort {
    /// Longest total wait first.
    #[default]
    Total,
    /// Longest mean wait first, the order of the NIX tool.
    Mean,
}

/// A consistency check of the table, with both values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    /// What is compared.
    pub what: String,
    /// Expected value.
    pub expected: Nanos,
    /// Value of the table.
    pub found: Nanos,
    /// Whether they agree as far as they must.
    pub holds: bool,
}

/// The lock table of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Locks {
    /// Circumstances.
    pub trust: Trust,
    /// The rows.
    pub rows: Vec<Lock>,
    /// Time since the meter started, which may be longer than this interval: a wait is charged at its end.
    pub followed: Nanos,
    /// Time in which tasks waited for locks by their microstates (spinning and futex); `None` if unknown.
    pub microstates: Option<Nanos>,
}

impl Locks {
    /// Sorts the rows. Rows of equal waits are in order of their names.
    pub fn sort(&mut self, by: Sort) {
        let key = |lock: &Lock| match by {
            Sort::Total => (lock.wait_total, Nanos(lock.contended)),
            Sort::Mean => (lock.wait_mean(), lock.wait_total),
        };
        self.rows.sort_by(|a, b| {
            key(b).cmp(&key(a)).then_with(|| (&a.kind, &a.lock, &a.caller).cmp(&(&b.kind, &b.lock, &b.caller)))
        });
    }

    /// Merges the callers of each lock.
    pub fn by_lock(self) -> Locks {
        let rows = merge(self.rows, |row| (row.kind.clone(), row.lock.clone()));
        let name = |(row, callers): (Lock, u64)| match callers {
            1 => row,
            _ => Lock { caller: report::counted(callers, "caller"), pc: None, ..row },
        };
        Locks { rows: rows.into_iter().map(name).collect(), ..self }
    }

    /// Merges the locks of a caller, and callers whose names differ in a number at the end only: `find_lock_page` for the
    /// instances `find_lock_page-0` to `find_lock_page-11`. Then a row is a place in the code, as in the tables of NIX and
    /// lockmeter.
    pub fn by_name(self) -> Locks {
        let of_lock =
            merge(self.rows, |row| (row.kind.clone(), without_number(&row.caller).to_owned(), row.lock.clone()));
        let named = of_lock.into_iter().map(|(row, callers)| match callers {
            1 => row,
            _ => Lock { caller: without_number(&row.caller).to_owned(), pc: None, ..row },
        });
        let rows = merge(named.collect(), |row| (row.kind.clone(), without_number(&row.caller).to_owned()));
        let name = |(row, locks): (Lock, u64)| match locks {
            1 => row,
            _ => Lock {
                lock: report::counted(locks, "lock"),
                caller: without_number(&row.caller).to_owned(),
                pc: None,
                ..row
            },
        };
        Locks { rows: rows.into_iter().map(name).collect(), ..self }
    }

    /// Merges locks without names that one place in the code takes, such as one for each page table.
    pub fn by_place(self) -> Locks {
        let is_named = |row: &Lock| !row.lock.starts_with("0x");
        let rows = merge(self.rows, |row| {
            let name = if is_named(row) { row.lock.clone() } else { String::new() };
            (row.kind.clone(), row.caller.clone(), name)
        });
        let name = |(row, locks): (Lock, u64)| match locks {
            1 => row,
            _ if is_named(&row) => row,
            _ => Lock { lock: report::counted(locks, "lock"), ..row },
        };
        Locks { rows: rows.into_iter().map(name).collect(), ..self }
    }

    /// Sum of all waits.
    pub fn wait_total(&self) -> Nanos {
        Nanos(self.rows.iter().map(|row| row.wait_total.0).sum())
    }

    /// Self-checks. The first one takes the rounded means and shares that the table shows, as a reader would.
    pub fn checks(&self) -> Vec<Check> {
        let mut checks = Vec::new();
        let elapsed = self.trust.elapsed;
        for row in self.rows.iter().take(2) {
            let (Some(count), Some(mean), Some(hold)) = (row.count, row.hold_mean(), row.hold_total) else { continue };
            let util = (10_000.0 * hold.0 as f64 / elapsed.0.max(1) as f64).round() / 10_000.0;
            if util < 0.01 || mean == Nanos::ZERO {
                continue;
            }
            let found = Nanos((count as f64 * mean.0 as f64 / util) as u64);
            // The mean is rounded down by less than 1 ns, the share by 0.005 % of the time.
            let slack = 1.0 / mean.0 as f64 + 0.000_05 / util;
            let holds = (found.0 as f64 / elapsed.0.max(1) as f64 - 1.0).abs() <= slack;
            let what = format!("TOTAL x HOLD / UTIL of {} {} by {} = elapsed", row.kind, row.lock, row.caller);
            checks.push(Check { what, expected: elapsed, found, holds });
        }
        let longest = self.rows.iter().map(|row| row.wait_max).max().unwrap_or_default();
        let what = "no wait is longer than the measured time".to_owned();
        checks.push(Check { what, expected: self.followed, found: longest, holds: longest <= self.followed });
        if let Some(states) = self.microstates {
            let found = self.wait_total();
            let what = "waits are no longer than lock time and run-queue time of all tasks".to_owned();
            checks.push(Check { what, expected: states, found, holds: found <= states });
        }
        checks
    }

    /// The table as text.
    pub fn to_text(&self, all: bool) -> String {
        let sum = self.wait_total();
        // In a running kernel these columns are empty, and the table fits 80 columns without them.
        let counts = self.rows.iter().any(|row| row.count.is_some());
        let holds = self.rows.iter().any(|row| row.hold_total.is_some());
        let unknown = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let row = |lock: &Lock| {
            let mut cells = vec![lock.kind.clone(), shorten(&lock.lock, 22), shorten(&lock.caller, 26)];
            cells.extend(counts.then(|| unknown(lock.count.map(report::count))));
            cells.extend([
                report::count(lock.contended),
                lock.wait_max.to_string(),
                lock.wait_mean().to_string(),
                lock.wait_total.to_string(),
                percent(lock.wait_total.0, sum.0),
            ]);
            cells.extend(holds.then(|| unknown(lock.hold_mean().map(|time| time.to_string()))));
            cells
        };
        let shown = if all { self.rows.len() } else { ROWS.min(self.rows.len()) };
        let rows: Vec<Vec<String>> = self.rows[..shown].iter().map(row).collect();
        let mut text = self.trust.to_text();
        if rows.is_empty() {
            return text + "no acquisition of a lock was seen to wait\n";
        }
        text += "\n";
        let mut header = vec!["type", "lock", "caller"];
        header.extend(counts.then_some("taken"));
        header.extend(["waited", "wait max", "mean", "total", "share"]);
        header.extend(holds.then_some("hold mean"));
        text += &table(&header, 3, &rows);
        if shown < self.rows.len() {
            text += &format!("{} more rows; --all shows them\n", self.rows.len() - shown);
        }
        text += &format!(
            "\nall waits: {sum}, {} of all CPU time ({} CPUs x {})\n",
            percent(sum.0, self.trust.cpu_time().0),
            self.trust.cpus,
            self.trust.elapsed
        );
        for check in self.checks() {
            let verdict = if check.holds { "check" } else { "FAILED check" };
            text += &format!("{verdict}: {}: {} and {}\n", check.what, check.expected, check.found);
        }
        text
    }

    /// The table as JSON.
    pub fn to_json(&self) -> Value {
        let mut json = self.trust.to_json();
        let sum = self.wait_total();
        let row = |lock: &Lock| {
            json!({
                "type": lock.kind,
                "lock": lock.lock,
                "caller": lock.caller,
                "count": lock.count,
                "contended": lock.contended,
                "rejected": lock.rejected,
                "wait_total_ns": lock.wait_total.0,
                "wait_max_ns": lock.wait_max.0,
                "wait_mean_ns": lock.wait_mean().0,
                "share_ppm": (sum > Nanos::ZERO).then(|| u128::from(lock.wait_total.0) * 1_000_000 / u128::from(sum.0)),
                "hold_total_ns": lock.hold_total.map(|time| time.0),
                "hold_max_ns": lock.hold_max.map(|time| time.0),
                "lost": lock.lost,
            })
        };
        json["lock_wait_ns"] = json!(sum.0);
        json["locks"] = self.rows.iter().map(row).collect();
        let check = |check: Check| json!({ "check": check.what, "expected_ns": check.expected.0, "found_ns": check.found.0, "holds": check.holds });
        json["checks"] = self.checks().into_iter().map(check).collect();
        json
    }

    /// The table as CSV.
    pub fn to_csv(&self) -> String {
        let mut text =
            "type,lock,caller,count,contended,wait_total_ns,wait_max_ns,hold_total_ns,hold_max_ns,lost\n".to_owned();
        let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
        for lock in &self.rows {
            text += &format!(
                "{},{},{},{},{},{},{},{},{},{}\n",
                report::cell(&lock.kind),
                report::cell(&lock.lock),
                report::cell(&lock.caller),
                number(lock.count),
                lock.contended,
                lock.wait_total.0,
                lock.wait_max.0,
                number(lock.hold_total.map(|time| time.0)),
                number(lock.hold_max.map(|time| time.0)),
                lock.lost
            );
        }
        text
    }

    /// The columns of the NIX tool: contended acquisitions only. It printed times in cycles; here they are nanoseconds.
    pub fn to_nix(&self) -> String {
        let mut text = "what pc #times maxtime tottime where meantime\n".to_owned();
        for lock in self.rows.iter().filter(|lock| lock.contended > 0) {
            let pc = lock.pc.map_or("-".to_owned(), |pc| format!("{pc:#x}"));
            text += &format!(
                "{} {pc} {} {} {} {} {}\n",
                lock.kind,
                lock.contended,
                lock.wait_max.0,
                lock.wait_total.0,
                lock.caller.replace(' ', "_"),
                lock.wait_mean().0
            );
        }
        text
    }
}

/// The name without the number of an instance: `cc1` for `cc1-7`.
fn without_number(name: &str) -> &str {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    stem.strip_suffix('-').filter(|base| !base.is_empty() && stem.len() < name.len()).unwrap_or(name)
}

/// Merges rows with the same key, with the number of rows of each.
fn merge<K: Ord>(rows: Vec<Lock>, key: impl Fn(&Lock) -> K) -> Vec<(Lock, u64)> {
    let add = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a + b);
    let add_time = |a: Option<Nanos>, b: Option<Nanos>| a.zip(b).map(|(a, b)| a + b);
    let mut merged: BTreeMap<K, (Lock, u64)> = BTreeMap::new();
    for row in rows {
        let Some((sum, count)) = merged.get_mut(&key(&row)) else {
            merged.insert(key(&row), (row, 1));
            continue;
        };
        *count += 1;
        sum.count = add(sum.count, row.count);
        sum.contended += row.contended;
        sum.rejected = add(sum.rejected, row.rejected);
        sum.wait_total += row.wait_total;
        sum.wait_max = sum.wait_max.max(row.wait_max);
        sum.hold_total = add_time(sum.hold_total, row.hold_total);
        sum.hold_max = sum.hold_max.max(row.hold_max);
        sum.lost += row.lost;
    }
    merged.into_values().collect()
}
