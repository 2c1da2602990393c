// SPDX-License-Identifier: GPL-2.0-only
//! Measured points, and their CSV form.

use crate::ScalingError;

/// Throughput at one size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Number of CPUs, jobs or clients; at least 1.
    pub n: f64,
    /// Completed units of work for each unit of time; above 0. The units are those of the input.
    pub throughput: f64,
}

/// Reads a table with the columns `n` and `throughput`. Other columns are permitted and not read; a size may occur in
/// several rows.
///
/// # Errors
/// If a column is missing, or a value is not a number in its range.
pub fn read_csv(text: &str) -> Result<Vec<Point>, ScalingError> {
    let fault = |line: u64, problem: String| ScalingError::Table { line, problem };
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).comment(Some(b'#')).from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| fault(1, error.to_string()))?.clone();
    let column = |name: &str| {
        let found = header.iter().position(|column| column == name);
        let names = header.iter().collect::<Vec<_>>().join(",");
        found.ok_or_else(|| fault(1, format!("no column {name:?} in {names:?}; expected the columns n,throughput")))
    };
    let (n, throughput) = (column("n")?, column("throughput")?);
    let mut points = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| {
            let line = error.position().map_or(1, csv::Position::line);
            fault(line, error.to_string())
        })?;
        let line = record.position().map_or(1, csv::Position::line);
        let number = |column: usize, name: &str, least: &str, fits: fn(f64) -> bool| {
            let text = record.get(column).unwrap_or_default();
            let number = text.parse().ok().filter(|&number: &f64| number.is_finite() && fits(number));
            number.ok_or_else(|| fault(line, format!("{name} is {text:?}; expected a number {least}")))
        };
        points.push(Point {
            n: number(n, "n", "of at least 1", |n| n >= 1.0)?,
            throughput: number(throughput, "throughput", "above 0", |x| x > 0.0)?,
        });
    }
    Ok(points)
}

/// Writes the points as a table that [`read_csv`] reads.
pub fn to_csv(points: &[Point]) -> String {
    let rows = points.iter().map(|point| format!("{},{}\n", point.n, point.throughput));
    std::iter::once("n,throughput\n".to_owned()).chain(rows).collect()
}
