// SPDX-License-Identifier: GPL-2.0-only
//! The tables of a campaign's directory.

use super::planned::Planned;
use super::results::{self, TASK_INTEGERS, TASK_TEXTS};
use crate::output;
use anyhow::Result;
use campaign::{Axis, Named, Row, Store};
use output_file::{Privacy, Target};
use parquet_writer::{Cell, Column, Kind};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Paths of the tables of a directory.
pub fn paths(directory: &Path) -> [PathBuf; 2] {
    ["runs.parquet", "histograms.parquet"].map(|name| directory.join(name))
}

/// Path of the table of tasks.
pub fn path_of_tasks(directory: &Path) -> PathBuf {
    directory.join("tasks.parquet")
}

/// A varied key of schedulers, machines or workloads, which has a column of its own.
struct Key {
    column: Column,
    axis: Axis,
    key: String,
}

/// Writes the tables of the finished runs of a store of all measures. Returns the number of these.
///
/// # Errors
/// If the store cannot be read or a table cannot be written.
pub fn write(directory: &Path, all: &[Planned<'_>], store: &mut Store) -> Result<u64> {
    let measures = results::keys();
    let targets = paths(directory).map(|path| Target::check_file(&path, Privacy::Public));
    let [runs, histograms] = targets;
    let (runs, histograms) = (runs?, histograms?);
    let (mut runs, mut histograms) = (runs.create()?, histograms.create()?);
    let keys = keys(all);
    let mut hashes = BTreeMap::new();
    let texts: Vec<Texts> = all.iter().map(|planned| Texts::of(planned, &mut hashes)).collect();
    let columns = columns(&keys);
    let rows =
        all.iter().zip(&texts).map(|(planned, texts)| Row { id: planned.id, cells: cells(planned, texts, &keys) });
    let count = campaign::write_tables(&columns, rows, &measures, store, [&mut runs, &mut histograms])?;
    // The histograms first: a run of one table is then in the other one, too, whenever they are read.
    histograms.finish()?;
    runs.finish()?;
    Ok(count)
}

/// Writes the table of tasks of the runs in a store that has them.
///
/// # Errors
/// If the store cannot be read or the table cannot be written.
pub fn write_tasks(directory: &Path, all: &[Planned<'_>], store: &mut Store) -> Result<u64> {
    let mut table = Target::check_file(&path_of_tasks(directory), Privacy::Public)?.create()?;
    let keys = keys(all);
    let mut hashes = BTreeMap::new();
    let texts: Vec<Texts> = all.iter().map(|planned| Texts::of(planned, &mut hashes)).collect();
    let rows =
        all.iter().zip(&texts).map(|(planned, texts)| Row { id: planned.id, cells: cells(planned, texts, &keys) });
    let integers = TASK_INTEGERS.map(|(key, _)| key);
    let count = campaign::write_tasks(&columns(&keys), rows, [&TASK_TEXTS, &integers], store, &mut table)?;
    table.finish()?;
    Ok(count)
}

/// Texts of a row that its run does not have as such.
struct Texts {
    kernel: String,
    object_hash: Option<Rc<str>>,
}

/// Hashes of the objects of schedulers, by the addresses of these.
type Hashes = BTreeMap<usize, Option<Rc<str>>>;

impl Texts {
    fn of(planned: &Planned<'_>, hashes: &mut Hashes) -> Texts {
        let scheduler = planned.run.scheduler;
        let hash = || scheduler.object().map(|object| worlds::object_hash(object).into());
        let object_hash = hashes.entry(std::ptr::from_ref(scheduler).addr()).or_insert_with(hash).clone();
        Texts { kernel: planned.run.conditions.kernel.to_string(), object_hash }
    }
}

fn columns(keys: &[Key]) -> Vec<Column> {
    let mut columns = vec![
        Column::required("scheduler", Kind::Text),
        Column::required("machine", Kind::Text),
        Column::required("workload", Kind::Text),
        Column::required("kernel", Kind::Text),
        Column::required("cpus", Kind::Integer),
        Column::required("without", Kind::Text),
        Column::required("seed", Kind::Integer),
        Column::required("draw", Kind::Integer),
    ];
    columns.extend(keys.iter().map(|key| key.column.clone()));
    columns.extend([Column::optional("object_hash", Kind::Text), Column::required("weir_version", Kind::Text)]);
    columns
}

fn cells<'a>(planned: &'a Planned<'_>, texts: &'a Texts, keys: &[Key]) -> Vec<Cell<'a>> {
    let point = &planned.point;
    let number = |value: u64| Cell::from(Some(value));
    let mut cells = vec![
        Cell::Text(&point.scheduler.text),
        Cell::Text(&point.machine.text),
        Cell::Text(&point.workload.text),
        Cell::Text(&texts.kernel),
        number(planned.run.machine.online_cpus().len() as u64),
        Cell::Text(planned.without),
        number(point.seed),
        number(point.draw),
    ];
    let value =
        |key: &Key| match (values(planned, key.axis).keys.iter().find(|(name, _)| *name == key.key), key.column.kind) {
            (None, _) => Cell::Null,
            (Some((_, text)), Kind::Text) => Cell::Text(text),
            (Some((_, text)), Kind::Integer) => text.parse().map_or(Cell::Null, Cell::Integer),
        };
    cells.extend(keys.iter().map(value));
    cells.extend([texts.object_hash.as_deref().map_or(Cell::Null, Cell::Text), Cell::Text(output::FULL_VERSION)]);
    cells
}

fn values<'a>(planned: &Planned<'a>, axis: Axis) -> &'a Named {
    match axis {
        Axis::Scheduler => planned.point.scheduler,
        Axis::Machine => planned.point.machine,
        _ => planned.point.workload,
    }
}

/// The varied keys, in order of appearance. A key whose values are all integers is a column of integers.
fn keys(all: &[Planned<'_>]) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    for axis in [Axis::Scheduler, Axis::Machine, Axis::Workload] {
        for (key, value) in all.iter().flat_map(|planned| &values(planned, axis).keys) {
            let is_integer = value.parse::<i64>().is_ok_and(|number| number.to_string() == *value);
            match keys.iter_mut().find(|known| known.axis == axis && known.key == *key) {
                Some(known) if !is_integer => known.column.kind = Kind::Text,
                Some(_) => {}
                None => {
                    let kind = if is_integer { Kind::Integer } else { Kind::Text };
                    let column = Column::optional(format!("{}.{key}", axis.name()), kind);
                    keys.push(Key { column, axis, key: key.clone() });
                }
            }
        }
    }
    keys
}
