// SPDX-License-Identifier: GPL-2.0-only
//! The outcome of a report in one sentence, the good and the bad alike.

use crate::Report;
use crate::measured::value_text;
use measures::catalogue::{Better, Measure, Rank};
use report::{Outcome, Row, Setup, Table, Task, Versus};
use statistics::Verdict;
use std::cmp::Reverse;

/// Number of better and of worse measures that are named.
const NAMED: usize = 3;
/// Changes below this are not named, in parts per million.
const SMALL_PPM: u128 = 20_000;

/// The outcome of a report in one text; `None` without a run.
pub fn verdict(report: &Report<'_>) -> Option<String> {
    let named = |(title, said): (String, String)| if title.is_empty() { said } else { format!("{title}: {said}") };
    let said: Vec<String> = verdicts(report).into_iter().map(named).collect();
    (!said.is_empty()).then(|| said.join(" "))
}

/// The outcome of each table of whole runs: its title, which is empty for a single table, and sentences. Tasks that never
/// got a CPU are named: their waits have no end, so no latency contains them.
pub(crate) fn verdicts(report: &Report<'_>) -> Vec<(String, String)> {
    let content = report::content(report.records);
    let tables: Vec<&Table> = content.tables.iter().filter(|table| table.part.is_none()).collect();
    let title = |table: &Table| if tables.len() > 1 { table.title.clone() } else { String::new() };
    tables.iter().filter_map(|table| Some((title(table), of_table(report, table)?))).collect()
}

/// The outcome of the runs of a table; `None` if nothing can be said.
fn of_table(report: &Report<'_>, table: &Table) -> Option<String> {
    let broken: Vec<Option<String>> = table.setups.iter().map(|setup| broken(report, setup)).collect();
    let mut said = sentences(table, |setup| broken[setup].is_none());
    said.extend(broken.into_iter().flatten());
    said.extend(table.setups.iter().filter_map(|setup| starved(report, setup)));
    (!said.is_empty()).then(|| said.join(" "))
}

/// How many runs of a setup did not complete, if any.
fn broken(report: &Report<'_>, setup: &Setup) -> Option<String> {
    let bad = setup.runs.iter().filter(|run| report.records[**run].ending.outcome() != Outcome::Completed).count();
    let ejected = setup.runs.iter().any(|run| report.records[*run].ending.ejected.is_some());
    let what = if ejected { "was ejected" } else { "did not complete" };
    match (bad, setup.runs.len()) {
        (0, _) => None,
        (_, 1) => Some(format!("{} {what}.", setup.name)),
        (bad, all) => Some(format!("{} {what} in {bad} of {all} runs.", setup.name)),
    }
}

/// Tasks of the first run of a setup that waited for a CPU and never got one.
fn starved(report: &Report<'_>, setup: &Setup) -> Option<String> {
    let details = report.details_of(*setup.runs.first()?)?;
    let never = |task: &&Task| !task.kernel_thread && task.cpu_ns == 0 && task.runnable_ns > 0;
    let names: Vec<&str> = details.tasks.iter().filter(never).map(|task| task.name.as_str()).collect();
    let words = match names.as_slice() {
        [] => return None,
        few if few.len() <= NAMED => few.join(", "),
        [first, rest @ ..] => format!("{first} and {} more tasks", rest.len()),
    };
    Some(format!("Under {}, {} never ran.", setup.name, report::escape(&words)))
}

/// Sentences on the setups for which `completed` is true.
fn sentences(table: &Table, completed: impl Fn(usize) -> bool) -> Vec<String> {
    match table.setups.len() {
        1 => alone(table).filter(|_| completed(0)).into_iter().collect(),
        _ if !completed(0) => Vec::new(),
        all => (1..all).filter(|&setup| completed(setup)).map(|setup| against(table, setup)).collect(),
    }
}

/// A measure that differs, and by how much.
struct Difference<'a> {
    measure: &'static Measure,
    versus: &'a Versus,
    is_better: bool,
    /// The larger of the two values in millionths of the smaller one.
    ratio_ppm: u128,
}

/// A setup against the first one.
fn against(table: &Table, setup: usize) -> String {
    let (first, name) = (&table.setups[0], &table.setups[setup]);
    let mut all: Vec<Difference<'_>> = table.rows.iter().filter_map(|row| difference(row, setup)).collect();
    // One measure of each family (mean, percentiles and maximum of a latency): a headline, or the largest difference.
    all.sort_by_key(|one| (family(one.measure), one.is_better, one.measure.rank, Reverse(one.ratio_ppm)));
    all.dedup_by_key(|difference| (family(difference.measure), difference.is_better));
    // The headline measures come first, although counts of rare events often have larger ratios.
    all.sort_by_key(|one| (one.measure.rank, Reverse(one.ratio_ppm), one.measure.key));
    let named = |is_better: bool| {
        let some = all.iter().filter(|difference| difference.is_better == is_better).take(NAMED);
        let words: Vec<String> = some.map(|one| format!("{} {}", one.measure.label, one.versus.text)).collect();
        words.join(", ")
    };
    let (better, worse) = (named(true), named(false));
    let single = first.runs.len() == 1 && name.runs.len() == 1;
    let hedge = if single { " One run of each: other seeds may differ." } else { "" };
    let said = match (better.is_empty(), worse.is_empty()) {
        (true, true) => return format!("{} and {}: no clear difference of 2\u{a0}% or more.", name.name, first.name),
        (false, true) => format!("Better: {better}. Nothing is worse by 2\u{a0}% or more."),
        (true, false) => format!("Nothing is better by 2\u{a0}% or more. Worse: {worse}."),
        (false, false) => format!("Better: {better}. Worse: {worse}."),
    };
    format!("{} against {}. {said}{hedge}", name.name, first.name)
}

/// First part of the key: measures that share it describe the same thing. Owners of CPU time are measures of their own.
fn family(measure: &Measure) -> &'static str {
    match measure.key.split_once('.') {
        Some((family, _)) if family != "cpu_ns" => family,
        _ => measure.key,
    }
}

/// How a measure of a setup differs from that of the first, if it says which of them is better.
fn difference(row: &Row, setup: usize) -> Option<Difference<'_>> {
    // Interrupts are no choice of a scheduler.
    let is_other = row.measure.rank == Rank::Detail || row.measure.key == "cpu_ns.stolen";
    if is_other || row.measure.better == Better::Neither {
        return None;
    }
    let (base, cell) = (&row.cells[0], &row.cells[setup]);
    let (a, b, versus) = (base.median?, cell.median?, cell.versus.as_ref()?);
    let is_better = match versus.judgement.map(|judged| judged.verdict) {
        Some(Verdict::Better) => true,
        Some(Verdict::Worse) => false,
        Some(_) => return None,
        None => (b < a) == (row.measure.better == Better::Less),
    };
    let (low, high) = (u128::from(a.min(b)), u128::from(a.max(b)));
    let ratio_ppm = high * 1_000_000 / low.max(1);
    let fine = a != b && ratio_ppm >= 1_000_000 + SMALL_PPM && !versus.text.is_empty();
    fine.then_some(Difference { measure: row.measure, versus, is_better, ratio_ppm })
}

/// A single setup: how busy the CPUs were, and how long tasks waited.
fn alone(table: &Table) -> Option<String> {
    let value = |key: &str| table.rows.iter().find(|row| row.measure.key == key)?.cells[0].median;
    let text = |key: &str| {
        let row = table.rows.iter().find(|row| row.measure.key == key)?;
        Some(value_text(row.measure, row.cells[0].median?))
    };
    let total = ["run", "scheduler", "stolen", "idle"].map(|owner| value(&format!("cpu_ns.{owner}")).unwrap_or(0));
    let whole: u64 = total.iter().sum();
    let share = |part: u64| format!("{:.1}\u{a0}%", part as f64 * 100.0 / whole.max(1) as f64);
    let mut said = vec![format!("{}: CPUs ran tasks {} of the time", table.setups[0].name, share(total[0]))];
    if let (Some(mean), Some(max)) = (text("wakeup_latency_ns.mean"), text("wakeup_latency_ns.max")) {
        said.push(format!("a woken task waited {mean} on average and {max} at most"));
    }
    if let (Some(idle), Some(elapsed)) = (value("idle_while_runnable_ns"), value("elapsed_ns")) {
        let part = idle as f64 * 100.0 / elapsed.max(1) as f64;
        said.push(match idle {
            0 => "no CPU idled while a task waited".to_owned(),
            _ if part < 0.1 => "CPUs idled while a task waited for less than 0.1\u{a0}% of the time".to_owned(),
            _ => format!("for {part:.1}\u{a0}% of the time some CPU idled while a task waited"),
        });
    }
    Some(said.join("; ") + ".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use measures::catalogue::CATALOGUE;
    use report::Cell;

    fn row(key: &str, values: &[u64], text: &str) -> Row {
        let measure = CATALOGUE.iter().find(|measure| measure.key == key).unwrap();
        let versus = |index| {
            let versus = Versus { text: text.to_owned(), range: None, judgement: None, paired: false };
            (index > 0).then_some(versus)
        };
        let cell = |(index, &value)| Cell {
            values: vec![value],
            median: Some(value),
            interval: None,
            text: value.to_string(),
            versus: versus(index),
        };
        Row { measure, cells: values.iter().enumerate().map(cell).collect(), is_shown: true }
    }

    fn sentence(names: &[&str], rows: Vec<Row>) -> String {
        let setup = |(index, name): (usize, &&str)| Setup { name: (*name).to_owned(), runs: vec![index] };
        let table = Table {
            title: String::new(),
            axis: "scheduler",
            part: None,
            setups: names.iter().enumerate().map(setup).collect(),
            rows,
            sentences: Vec::new(),
            same: Vec::new(),
            notes: Vec::new(),
        };
        sentences(&table, |_| true).join(" ")
    }

    #[test]
    fn verdict_names_what_is_better_and_what_is_worse() {
        let rows = || {
            vec![
                row("work_ns", &[1000, 900], "-10 %"),
                row("wakeup_latency_ns.p99", &[1000, 100], "1/10"),
                row("context_switches", &[10, 900], "90x"),
                row("wakeup_latency_ns.mean", &[1000, 995], "-0.5 %"),
                row("wakeup_latency_ns.max", &[9000, 90], "1/100"),
                row("wakeup_latency_ns.p50", &[10, 40], "4x"),
                row("cpu_ns.scheduler", &[10, 70], "7x"),
            ]
        };
        let single = "One run of each: other seeds may differ.";
        assert_eq!(
            sentence(&["a", "b"], rows()),
            format!(
                "b against a. Better: wakeup p99 1/10. Worse: work done -10 %, CPU: scheduler 7x, wakeup p50 4x. {single}"
            )
        );
        let is_better = |row: &Row| ["wakeup_latency_ns.p99", "wakeup_latency_ns.max"].contains(&row.measure.key);
        let (better, worse): (Vec<Row>, Vec<Row>) = rows().into_iter().partition(is_better);
        assert_eq!(
            sentence(&["a", "b"], better),
            format!("b against a. Better: wakeup p99 1/10. Nothing is worse by 2\u{a0}% or more. {single}")
        );
        assert_eq!(
            sentence(&["a", "b"], worse),
            format!(
                "b against a. Nothing is better by 2\u{a0}% or more. Worse: work done -10 %, CPU: scheduler 7x, \
                 wakeup p50 4x. {single}"
            )
        );
        assert_eq!(
            sentence(&["a", "b"], vec![row("work_ns", &[5, 5], "")]),
            "b and a: no clear difference of 2\u{a0}% or more."
        );
    }

    #[test]
    fn verdict_names_headline_measures_before_larger_ratios() {
        let rows = vec![
            row("lock_wait_ns", &[1_000_000, 1], "-100 %"),
            row("cpu_ns.scheduler", &[900, 10], "1/90"),
            row("run_delay_ns.mean", &[500, 10], "1/50"),
            row("idle_while_runnable_ns", &[400, 10], "1/40"),
            row("makespan_ns", &[1000, 900], "-10 %"),
        ];
        let said = sentence(&["a", "b"], rows);
        assert!(
            said.starts_with("b against a. Better: makespan -10 %, lock wait -100 %, CPU: scheduler 1/90. Nothing"),
            "{said}"
        );
    }

    #[test]
    fn verdict_of_one_setup_tells_use_and_waits() {
        let rows = vec![
            row("cpu_ns.run", &[75], ""),
            row("cpu_ns.idle", &[25], ""),
            row("elapsed_ns", &[50], ""),
            row("idle_while_runnable_ns", &[1], ""),
            row("wakeup_latency_ns.mean", &[1500], ""),
            row("wakeup_latency_ns.max", &[9000], ""),
        ];
        assert_eq!(
            sentence(&["a"], rows),
            "a: CPUs ran tasks 75.0\u{a0}% of the time; a woken task waited 1.50 us on average and 9.00 us at most; for \
             2.0\u{a0}% of the time some CPU idled while a task waited."
        );
    }
}
