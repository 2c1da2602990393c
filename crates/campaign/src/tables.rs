// SPDX-License-Identifier: GPL-2.0-only
//! The tables of a campaign: a row for each finished run, and a row for each bucket of its histograms.

use crate::{Finished, RunId, Store, StoreError};
use parquet_writer::{Cell, Column, Kind, Writer};
use std::io::{self, Write};
use std::path::Path;

/// Version of the tables' columns, in their footers as `weir.schema`. It changes if a column is renamed or removed.
pub const SCHEMA_VERSION: u32 = 1;

/// Column of the run's identity, in both tables.
const RUN_ID: &str = "run_id";

/// A planned run: its identity, and a value for each column of its axes.
pub struct Row<'a> {
    /// Identity.
    pub id: RunId,
    /// Values of the axes.
    pub cells: Vec<Cell<'a>>,
}

/// Writes both tables: the rows of all finished runs, in the given order. `axes` are the columns of [`Row::cells`] and
/// `measures` the keys with which the store was opened. Returns the number of runs written.
///
/// # Errors
/// If a result cannot be read, or a table cannot be written.
pub fn write_tables<'a, W: Write>(
    axes: &[Column],
    rows: impl Iterator<Item = Row<'a>>,
    measures: &[&str],
    store: &mut Store,
    [runs, histograms]: [&mut W; 2],
) -> Result<u64, StoreError> {
    let failed = |source: io::Error| StoreError::Io { path: Path::new("the tables").to_owned(), source };
    let version = SCHEMA_VERSION.to_string();
    let table = |out, columns| Writer::new(out, columns, &[("weir.schema", &version)]).map_err(failed);
    let mut runs = table(runs, columns_of_runs(axes, measures))?;
    let mut histograms = table(histograms, columns_of_histograms(axes))?;
    let mut count = 0;
    for row in rows {
        let Some(finished) = store.read(row.id)? else { continue };
        add_run(&mut runs, &row, &finished).map_err(failed)?;
        add_histograms(&mut histograms, &row, &finished).map_err(failed)?;
        count += 1;
    }
    runs.finish().map_err(failed)?;
    histograms.finish().map_err(failed)?;
    Ok(count)
}

/// Writes the table of tasks: a row for each task of each finished run, in the given order. `texts` and `integers` name
/// the columns of [`TaskRow`](crate::TaskRow). Returns the number of runs with a result in the store.
///
/// # Errors
/// If a result cannot be read, or the table cannot be written.
pub fn write_tasks<'a, W: Write>(
    axes: &[Column],
    rows: impl Iterator<Item = Row<'a>>,
    [texts, integers]: [&[&str]; 2],
    store: &mut Store,
    out: &mut W,
) -> Result<u64, StoreError> {
    let failed = |source: io::Error| StoreError::Io { path: Path::new("the table of tasks").to_owned(), source };
    let mut columns = vec![Column::required(RUN_ID, Kind::Text)];
    columns.extend_from_slice(axes);
    columns.extend(texts.iter().map(|name| Column::optional(*name, Kind::Text)));
    columns.extend(integers.iter().map(|name| Column::optional(*name, Kind::Integer)));
    let version = SCHEMA_VERSION.to_string();
    let mut table = Writer::new(out, columns, &[("weir.schema", &version)]).map_err(failed)?;
    let mut count = 0;
    for row in rows {
        let Some(finished) = store.read(row.id)? else { continue };
        let id = row.id.to_string();
        for task in &finished.tasks {
            let text = |place: usize| task.texts.get(place).map_or(Cell::Null, |text| Cell::Text(text));
            let value = |place: usize| Cell::from(task.values.get(place).copied().flatten());
            let cells = [Cell::Text(&id)].into_iter().chain(row.cells.iter().copied());
            let cells = cells.chain((0..texts.len()).map(text)).chain((0..integers.len()).map(value));
            cells.enumerate().for_each(|(column, cell)| table.push(column, cell, 1));
            table.rows(1).map_err(failed)?;
        }
        count += 1;
    }
    table.finish().map_err(failed)?;
    Ok(count)
}

fn columns_of_runs(axes: &[Column], measures: &[&str]) -> Vec<Column> {
    let mut columns = vec![Column::required(RUN_ID, Kind::Text)];
    columns.extend_from_slice(axes);
    columns.extend([
        Column::required("outcome", Kind::Text),
        Column::required("exit.kind", Kind::Integer),
        Column::required("exit.reason", Kind::Text),
        Column::required("exit.message", Kind::Text),
        Column::required("log_hash", Kind::Text),
    ]);
    columns.extend(measures.iter().map(|key| Column::optional(*key, Kind::Integer)));
    columns.extend([
        Column::required("deadlocked", Kind::Integer),
        Column::required("failed_forks", Kind::Integer),
        Column::required("refused_changes", Kind::Integer),
        Column::required("restarts", Kind::Integer),
        Column::required("failed_calls", Kind::Integer),
        Column::optional("violation_count", Kind::Integer),
        Column::required("doubtful", Kind::Text),
    ]);
    columns
}

fn columns_of_histograms(axes: &[Column]) -> Vec<Column> {
    let mut columns = vec![Column::required(RUN_ID, Kind::Text)];
    columns.extend_from_slice(axes);
    columns.push(Column::required("measure", Kind::Text));
    columns.extend(["from_ns", "to_ns", "count"].map(|name| Column::required(name, Kind::Integer)));
    columns
}

fn add_run<W: Write>(table: &mut Writer<W>, row: &Row<'_>, run: &Finished) -> io::Result<()> {
    let id = row.id.to_string();
    let doubtful: Vec<String> = run.doubtful.iter().map(|(measure, reason)| format!("{measure}: {reason}")).collect();
    let doubtful = doubtful.join("; ");
    let number = |value: u64| Cell::from(Some(value));
    let before = [
        Cell::Text(&run.outcome),
        number(run.exit_kind.into()),
        Cell::Text(&run.exit_reason),
        Cell::Text(&run.exit_message),
        Cell::Text(&run.log_hash),
    ];
    let after = [
        number(run.deadlocked.into()),
        number(run.failed_forks),
        number(run.refused_changes),
        number(run.restarts),
        number(run.failed_calls),
        Cell::from(run.violation_count),
        Cell::Text(&doubtful),
    ];
    let values = run.values.iter().map(|value| Cell::from(*value));
    let cells = [Cell::Text(&id)].into_iter().chain(row.cells.iter().copied()).chain(before).chain(values).chain(after);
    cells.enumerate().for_each(|(column, cell)| table.push(column, cell, 1));
    table.rows(1)
}

fn add_histograms<W: Write>(table: &mut Writer<W>, row: &Row<'_>, run: &Finished) -> io::Result<()> {
    let id = row.id.to_string();
    for histogram in &run.histograms {
        let length = histogram.count.len() as u64;
        let same = [Cell::Text(&id)].into_iter().chain(row.cells.iter().copied());
        let same = same.chain([Cell::Text(&histogram.measure)]).enumerate();
        let first = same.map(|(column, cell)| table.push(column, cell, length)).count();
        for (place, values) in [&histogram.from, &histogram.to, &histogram.count].into_iter().enumerate() {
            values.iter().for_each(|value| table.push(first + place, Cell::from(Some(*value)), 1));
        }
        table.rows(length)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Appender, Buckets};
    use std::time::{Duration, Instant};

    /// Number of measures, as in the catalogue.
    const MEASURES: usize = 50;
    const KEYS: [&str; MEASURES] = {
        let mut keys = ["another_measure_ns"; MEASURES];
        (keys[0], keys[1]) = ("makespan_ns", "wakeup_latency_ns.p99");
        keys
    };

    fn run(number: u64, buckets: u64) -> Finished {
        let histogram = |measure: &str| Buckets {
            measure: measure.to_owned(),
            from: (0..buckets).map(|bucket| bucket * 1000).collect(),
            to: (0..buckets).map(|bucket| bucket * 1000 + 999).collect(),
            count: (0..buckets).map(|bucket| number * bucket % 97).collect(),
        };
        Finished {
            outcome: "completed".to_owned(),
            log_hash: format!("{:032x}", u128::from(number) << 64 | u128::from(number * number)),
            values: (0..MEASURES as u64)
                .map(|at| (!(number + at).is_multiple_of(3)).then_some(number * 7919 + at))
                .collect(),
            histograms: vec![histogram("wakeup_latency_ns"), histogram("run_delay_ns")],
            ..Finished::default()
        }
    }

    fn tables(directory: &Path, count: u64) -> [Vec<u8>; 2] {
        let axes = [Column::required("scheduler", Kind::Text), Column::required("seed", Kind::Integer)];
        let row = |seed: u64| Row {
            id: RunId(seed.into()),
            cells: vec![Cell::Text(["bfs", "fifo"][seed as usize % 2]), Cell::Integer(seed as i64)],
        };
        let mut store = Store::open(&[directory], &KEYS).unwrap();
        let (mut runs, mut histograms) = (Vec::new(), Vec::new());
        let written =
            write_tables(&axes, (0..count).map(row), &KEYS, &mut store, [&mut runs, &mut histograms]).unwrap();
        assert_eq!(written, store.len() as u64);
        [runs, histograms]
    }

    #[test]
    fn tables_do_not_depend_on_the_order_of_results_or_their_repetition() {
        let write = |parts: &[&[u64]]| {
            let directory = tempfile::tempdir().unwrap();
            for part in parts {
                let mut appender = Appender::new(directory.path(), &KEYS).unwrap();
                part.iter().for_each(|&number| appender.append(RunId(number.into()), &run(number, 20)).unwrap());
            }
            tables(directory.path(), 6)
        };
        let whole = write(&[&[0, 1, 2, 3, 4, 5]]);
        assert_eq!(write(&[&[5, 1], &[4, 0, 2], &[3, 1, 5]]), whole);
        assert_ne!(write(&[&[5, 1], &[4, 0, 2]]), whole);
    }

    /// The bound of 5 s and 300 MB is that of `cargo test --release`.
    #[test]
    #[ignore = "writes 400 MB; run with --release"]
    fn hundred_thousand_results_aggregate_in_five_seconds() {
        let directory = tempfile::tempdir().unwrap();
        let mut appender = Appender::new(directory.path(), &KEYS).unwrap();
        (0..100_000).for_each(|number| appender.append(RunId(number.into()), &run(number, 60)).unwrap());
        let began = Instant::now();
        let [runs, histograms] = tables(directory.path(), 100_000);
        let took = began.elapsed();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        eprintln!("{took:?}, {peak}, runs {} bytes, histograms {} bytes", runs.len(), histograms.len());
        let kib: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!(kib < 300 << 10, "{peak}");
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
}
