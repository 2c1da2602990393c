// SPDX-License-Identifier: GPL-2.0-only
//! The columns of lockmeter (lockstat), as printed in Chubb's lecture.
//!
//! UTIL is the share of the time in which the lock was held, CON the share of requests that waited, % CPU the share of
//! all CPU time spent waiting, RJECT the share of try-locks that failed. What the kernel does not show is `-`.

use crate::{Lock, Locks};
use ids::Nanos;

/// The table, one row for each lock and caller.
pub fn lockmeter(table: &Locks) -> String {
    let mut text = "SPINLOCKS\tHOLD\tWAIT\t\t\t\t\t\t\t\t\n".to_owned();
    text += "UTIL\tCON\tMEAN(MAX)\tMEAN(MAX)\t(% CPU)\tTOTAL\tNOWAIT\tSPIN\tRJECT\tNAME\n";
    for lock in &table.rows {
        text += &row(table, lock);
    }
    text
}

fn row(table: &Locks, lock: &Lock) -> String {
    let share = |part: u64, whole: u64| percent(100.0 * part as f64 / whole.max(1) as f64);
    let known = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let (elapsed, cpus) = (table.trust.elapsed.0, table.trust.cpu_time().0);
    let contended = lock.count.map(|count| share(lock.contended, count));
    let hold = lock.hold_mean().zip(lock.hold_max).map(|(mean, max)| format!("{}({})", time(mean), time(max)));
    let cells = [
        known(lock.hold_total.map(|hold| share(hold.0, elapsed))),
        known(contended.clone()),
        known(hold),
        format!("{}({})", time(lock.wait_mean()), time(lock.wait_max)),
        format!("({})", share(lock.wait_total.0, cpus)),
        known(lock.count.map(|count| count.to_string())),
        known(lock.count.map(|count| share(count.saturating_sub(lock.contended), count))),
        known(contended),
        known(lock.count.zip(lock.rejected).map(|(count, rejected)| share(rejected, count))),
        lock.caller.clone(),
    ];
    cells.join("\t") + "\n"
}

/// A percentage as lockstat prints it: one decimal, two below 0.1 %, none for 0.
fn percent(value: f64) -> String {
    match value {
        0.0 => "0%".to_owned(),
        _ if value < 0.095 => format!("{value:.2}%"),
        _ => format!("{value:.1}%"),
    }
}

/// A time as lockstat prints it: microseconds, with a decimal below 10, and milliseconds from 10,000 of them on.
fn time(time: Nanos) -> String {
    let us = time.0 as f64 / 1e3;
    match us {
        _ if us < 9.95 => format!("{us:.1}us"),
        _ if us < 9_999.5 => format!("{us:.0}us"),
        _ => format!("{:.0}ms", us / 1e3),
    }
}
