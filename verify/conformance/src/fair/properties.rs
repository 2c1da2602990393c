// SPDX-License-Identifier: GPL-2.0-only
//! Expected properties of CFS (P1 to P12, computed, not published), compared with Linux 6.1 and `cfs@6.1`, as a
//! table.

use crate::oracle::Values;
use anyhow::{Context, Result};
use std::fmt::Write as _;

/// A value of a case, and its expected value.
struct Row {
    number: &'static str,
    what: &'static str,
    case: &'static str,
    task: &'static str,
    measure: &'static str,
    /// In thousandths of a percent, or microseconds, with 1000 and with 250 ticks a second.
    expected: [Option<u64>; 2],
    tolerance: [u64; 2],
}

const HALF_A_POINT: [u64; 2] = [500; 2];
/// Tick period.
const TICK: [u64; 2] = [1_000, 4_000];

#[rustfmt::skip]
const fn share(number: &'static str, what: &'static str, case: &'static str, task: &'static str, expected: u64,
               tolerance: [u64; 2]) -> Row {
    Row { number, what, case, task, measure: "share", expected: [Some(expected); 2], tolerance }
}

/// Row with an expected time in milliseconds.
#[rustfmt::skip]
const fn time(number: &'static str, what: &'static str, case: &'static str, task: &'static str, measure: &'static str,
              at_1000: u64, at_250: Option<u64>) -> Row {
    let at_250 = match at_250 { Some(ms) => Some(1_000 * ms), None => None };
    Row { number, what, case, task, measure, expected: [Some(1_000 * at_1000), at_250], tolerance: TICK }
}

#[rustfmt::skip]
const ROWS: [Row; 34] = [
    share("P1", "share of nice 0 beside nice 1", "nice-1", "hog-0", 55_530, HALF_A_POINT),
    share("P1", "beside nice 5", "nice-5", "hog-0", 75_350, HALF_A_POINT),
    share("P1", "beside nice 10", "nice-10", "hog-0", 90_300, HALF_A_POINT),
    share("P1", "beside nice 19", "nice-19", "hog-0", 98_560, HALF_A_POINT),
    share("P1", "of nice -5 beside nice 0", "better-5", "hog-0", 75_300, HALF_A_POINT),
    share("P2", "share of SCHED_IDLE beside nice 0", "idle", "idle-0", 290, [100; 2]),
    time("P3", "run interval of 2 hogs", "hogs-2", "hog-0", "turn-p50", 4, Some(4)),
    time("P3", "of 4", "hogs-4", "hog-0", "turn-p50", 2, Some(4)),
    time("P3", "of 8", "hogs-8", "hog-0", "turn-p50", 1, Some(4)),
    time("P3", "of 16", "hogs-16", "hog-0", "turn-p50", 1, Some(4)),
    time("P3", "of 2, units of 4 CPUs", "hogs-2-of-4", "hog-0", "turn-p50", 10, Some(12)),
    time("P3", "of 4, units of 4 CPUs", "hogs-4-of-4", "hog-0", "turn-p50", 5, Some(8)),
    time("P3", "of 8, units of 4 CPUs", "hogs-8-of-4", "hog-0", "turn-p50", 3, Some(4)),
    time("P3", "of 16, units of 4 CPUs", "hogs-16-of-4", "hog-0", "turn-p50", 3, Some(4)),
    share("P4", "share of 8 ms run, 8 ms sleep, beside a hog", "half-asleep", "half-0", 40_000, [1_000; 2]),
    share("P4", "the same, units of 4 CPUs", "half-asleep-of-4", "half-0", 50_000, [1_000; 2]),
    share("P5", "share of 1 ms every 5 ms beside a hog", "often", "job-0", 19_800, HALF_A_POINT),
    Row { tolerance: [100; 2], ..time("P5", "its response, 99th percentile", "often", "job-0", "response-p99", 1, Some(1)) },
    share("P5", "share, units of 4 CPUs", "often-of-4", "job-0", 19_800, HALF_A_POINT),
    Row { tolerance: [100; 2],
          ..time("P5", "its response, units of 4 CPUs", "often-of-4", "job-0", "response-p99", 1, Some(1)) },
    share("P6", "share of 1 ms run, 0.5 ms sleep, beside a hog", "briefly", "brief-0", 49_400, HALF_A_POINT),
    share("P6", "the same, units of 4 CPUs", "briefly-of-4", "brief-0", 49_400, HALF_A_POINT),
    time("P7", "first wait of a hog's child", "child-1", "child", "wait-max", 4, None),
    time("P7", "the same, units of 4 CPUs", "child-1-of-4", "child", "wait-max", 10, None),
    time("P7", "of the child of one of 4 hogs", "child-4", "child", "wait-max", 8, None),
    time("P7", "the same, units of 4 CPUs", "child-4-of-4", "child", "wait-max", 16, None),
    share("P8", "share of a hog beside 20 tasks of 1 ms run, 9 ms sleep", "many-sleepers", "hog-0", 4_800, [300; 2]),
    // The response includes 1 ms of work, so the wait is 0 to 4 ms, or 8 ms with ticks of 4 ms.
    Row { tolerance: [2_000, 3_500], expected: [Some(3_000), Some(4_500)],
          ..time("P9", "response of a job of SCHED_BATCH beside a hog", "batch-job", "job-0", "response-p99", 3, None) },
    share("P10", "share of one of 3 hogs on 2 CPUs, of all time", "three-on-two", "hog-0", 33_333, [2_500; 2]),
    share("P10", "of another", "three-on-two", "hog-1", 33_333, [2_500; 2]),
    share("P10", "of the third", "three-on-two", "hog-2", 33_333, [2_500; 2]),
    share("-", "share of a hog beside one that forks", "forks", "hog-0", 0, HALF_A_POINT),
    share("-", "beside one that changes between nice 0 and 5", "nice-changes", "hog-0", 0, HALF_A_POINT),
    share("-", "of a task of nice -5 in a mixture of five", "mix", "better-0", 0, HALF_A_POINT),
];

impl Row {
    fn value(&self, of: &Values) -> Option<u64> {
        of.get(self.case, self.task, self.measure)
    }

    /// Formats a value for display.
    fn shown(&self, value: u64) -> String {
        match self.measure {
            "share" => format!("{}.{:02} %", value / 1_000, value % 1_000 / 10),
            _ => format!("{}.{} ms", value / 1_000, value % 1_000 / 100),
        }
    }

    fn holds(&self, value: u64, at: usize) -> Option<bool> {
        let expected = self.expected[at].filter(|expected| *expected > 0)?;
        Some(value.abs_diff(expected) <= self.tolerance[at])
    }

    /// Returns a column: range of the values, marked if they are not as expected.
    fn column(&self, of: &[Values], at: usize) -> String {
        let values: Vec<u64> = of.iter().filter_map(|values| self.value(values)).collect();
        let (Some(least), Some(most)) = (values.iter().min(), values.iter().max()) else { return "not played".into() };
        let (least_shown, most_shown) = (self.shown(*least), self.shown(*most));
        let shown = if least_shown == most_shown { least_shown } else { format!("{least_shown} to {most_shown}") };
        match values.iter().filter(|value| self.holds(**value, at) == Some(false)).count() {
            0 => shown,
            missed if missed == values.len() => format!("{shown}, **does not hold**"),
            missed => format!("{shown}, **does not hold** in {missed} of {}", values.len()),
        }
    }
}

/// P12: switches without a wakeup granularity per thousand with it.
fn p12(of: &[Values]) -> String {
    let ratio = |values: &Values| {
        let switches = |case| values.get(case, "all", "switches");
        Some(1_000 * switches("messages-at-once")? / switches("messages")?.max(1))
    };
    let ratios: Vec<u64> = of.iter().filter_map(ratio).collect();
    let (Some(least), Some(most)) = (ratios.iter().min(), ratios.iter().max()) else { return "not played".into() };
    let shown = if least == most { format!("{least}") } else { format!("{least} to {most}") };
    if *least > 1_000 { shown } else { format!("{shown}, **does not hold**") }
}

/// Returns a Markdown table: expected values, and a column for each set of values, with this tick rate.
#[must_use]
pub fn markdown(hz: u32, columns: &[(&str, &[Values])]) -> String {
    let at = usize::from(hz == 250);
    let (mut head, mut rule) = ("| | what | expected |".to_owned(), "|---|---|---|".to_owned());
    for (name, _) in columns {
        write!(head, " {name} |").expect("a string takes all");
        rule += "---|";
    }
    let mut lines = vec![head, rule];
    let mut line = |number: &str, what: &str, expected: &str, cells: Vec<String>| {
        lines.push(format!("| {number} | {what} | {expected} | {} |", cells.join(" | ")));
    };
    for row in &ROWS {
        let expected = row.expected[at]
            .filter(|expected| *expected > 0)
            .map_or("-".to_owned(), |expected| format!("{} ± {}", row.shown(expected), row.shown(row.tolerance[at])));
        line(row.number, row.what, &expected, columns.iter().map(|(_, of)| row.column(of, at)).collect());
    }
    let cells = columns.iter().map(|(_, of)| p12(of)).collect();
    line(
        "P12",
        "switches of 20 senders and 20 receivers without a wakeup granularity, per 1000 with it",
        "> 1000",
        cells,
    );
    lines.join("\n")
}

/// Returns the rows whose values differ by more than the tolerance, as displayed, with this tick rate.
#[must_use]
pub fn apart(hz: u32, model: &Values, kernel: &Values) -> Vec<String> {
    let tolerance = |row: &Row| row.tolerance[usize::from(hz == 250)];
    let differs = |row: &&Row| match (row.value(model), row.value(kernel)) {
        (Some(model), Some(kernel)) => model.abs_diff(kernel) > tolerance(row),
        // Property P10 needs two CPUs, but the recorded kernel had only one.
        _ => false,
    };
    let shown = |row: &Row| {
        let cells = [model, kernel].map(|of| row.value(of).map_or("-".to_owned(), |value| row.shown(value)));
        format!("{} {} {}: {} {}", row.case, row.task, row.measure, cells[0], cells[1])
    };
    ROWS.iter().filter(differs).map(shown).collect()
}

/// Replaces the table for this tick rate in a document.
///
/// # Errors
/// If the document lacks the markers.
pub fn in_page(page: &str, hz: u32, table: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- made by UPDATE_EXPECT=1 cargo test -p conformance: {hz} -->"), "<!-- end -->");
    let place = page.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(end)?.1)));
    let (before, after) = place.with_context(|| format!("the document lacks the markers for the table of {hz}"))?;
    Ok(format!("{before}{begin}\n{table}\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violated_properties_are_marked() {
        let of = |share: u64, wait: u64, switches: u64| -> Values {
            format!(
                "nice-1 hog-0 share {share}\nchild-1 child wait-max {wait}\nmessages all switches 200\n\
                 messages-at-once all switches {switches}\n"
            )
            .parse()
            .unwrap()
        };
        let table = markdown(
            1_000,
            &[("a", &[of(55_900, 4_900, 210)]), ("b", &[of(56_100, 5_100, 200), of(55_800, 4_000, 300)])],
        );
        let line =
            |number: &str| table.lines().find(|line| line.starts_with(&format!("| {number} "))).unwrap().to_owned();
        assert!(
            line("P1").ends_with("| 55.53 % ± 0.50 % | 55.90 % | 55.80 % to 56.10 %, **does not hold** in 1 of 2 |")
        );
        assert!(line("P7").ends_with("| 4.0 ms ± 1.0 ms | 4.9 ms | 4.0 ms to 5.1 ms, **does not hold** in 1 of 2 |"));
        assert!(line("P12").ends_with("| > 1000 | 1050 | 1000 to 1500, **does not hold** |"), "{table}");
        assert!(line("P8").ends_with("| 4.80 % ± 0.30 % | not played | not played |"));
        assert!(
            markdown(250, &[("a", &[of(55_900, 4_900, 210)])])
                .contains("| P7 | first wait of a hog's child | - | 4.9 ms |")
        );
    }
}
