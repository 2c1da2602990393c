// SPDX-License-Identifier: GPL-2.0-only
//! Comparison of real and predicted runs.

use super::run::Run;
use comfy_table::{CellAlignment, Table, presets};

/// One measure of all runs of a case.
struct Measure {
    name: &'static str,
    /// Number of source units per printed unit.
    scale: f64,
    real: Vec<f64>,
    predicted: Vec<f64>,
}

/// Real and predicted runs of one case.
pub struct Comparison {
    measures: Vec<Measure>,
    /// See [`task_error`].
    task_error: f64,
    /// [`task_error`] between real runs, the lower bound for any prediction.
    task_spread: f64,
}

const NS_PER_S: f64 = 1e9;
const NS_PER_US: f64 = 1e3;

impl Comparison {
    /// Compares at least one run on each side, on this number of CPUs.
    pub fn new(real: &[Run], predicted: &[Run], cpus: u64) -> Comparison {
        let unused = |run: &Run| (cpus * run.makespan_ns).saturating_sub(run.cpu_total_ns());
        let measure = |name, scale, of: &dyn Fn(&Run) -> u64| Measure {
            name,
            scale,
            real: real.iter().map(|run| of(run) as f64).collect(),
            predicted: predicted.iter().map(|run| of(run) as f64).collect(),
        };
        let measures = vec![
            measure("makespan, s", NS_PER_S, &|run| run.makespan_ns),
            measure("CPU time, s", NS_PER_S, &Run::cpu_total_ns),
            // Idle time or other tasks: disk waits, kthreads, switches, and time lost by the scheduler.
            measure("rest of CPUs, s", NS_PER_S, &unused),
            measure("switches", 1.0, &|run| run.context_switches),
            measure("wakeups", 1.0, &|run| run.wakeups),
            measure("latency mean, us", NS_PER_US, &|run| run.latency_ns[0]),
            measure("latency p50, us", NS_PER_US, &|run| run.latency_ns[1]),
            measure("latency p99, us", NS_PER_US, &|run| run.latency_ns[2]),
        ];
        let pairs = |left: &[Run], right: &[Run]| {
            let errors: Vec<f64> = left.iter().zip(right).filter_map(|(left, right)| task_error(left, right)).collect();
            if errors.is_empty() { f64::NAN } else { median(errors) }
        };
        let mut shifted = real.to_vec();
        shifted.rotate_left(1);
        Comparison { measures, task_error: pairs(real, predicted), task_spread: pairs(real, &shifted) }
    }

    /// Renders a table of at most 80 columns.
    pub fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header(["", "real", "spread", "predicted", "spread", "error"]);
        for measure in &self.measures {
            let show = |values: &[f64]| {
                let values: Vec<f64> = values.iter().map(|value| value / measure.scale).collect();
                let middle = median(values.clone());
                let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(*v), b.max(*v)));
                (middle, format!("{}..{}", digits(least), digits(most)))
            };
            let (real, real_spread) = show(&measure.real);
            let (predicted, predicted_spread) = show(&measure.predicted);
            let error = if real > 0.0 { format!("{:+.1} %", 100.0 * (predicted / real - 1.0)) } else { String::new() };
            let cells = [measure.name.into(), digits(real), real_spread, digits(predicted), predicted_spread, error];
            table.add_row(cells);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        format!(
            "{table}\n\nCPU time of single tasks: off by {:.1} % of their sum (between real runs: {:.1} %)",
            100.0 * self.task_error,
            100.0 * self.task_spread
        )
    }
}

/// Returns the relative difference of the CPU times of single tasks: tasks of one name are paired by rank, and the
/// sum of absolute differences is divided by the sum of the left run's times. A task without a partner counts fully.
fn task_error(left: &Run, right: &Run) -> Option<f64> {
    let mut difference = 0;
    let names: std::collections::BTreeSet<&String> = left.cpu_ns.keys().chain(right.cpu_ns.keys()).collect();
    for name in names {
        let times = |run: &Run| -> Vec<u64> {
            run.cpu_ns.get(name).map(|times| times.iter().rev().copied().collect()).unwrap_or_default()
        };
        let (left, right) = (times(left), times(right));
        for rank in 0..left.len().max(right.len()) {
            let at = |times: &[u64]| times.get(rank).copied().unwrap_or(0);
            difference += at(&left).abs_diff(at(&right));
        }
    }
    let total = left.cpu_total_ns();
    (total > 0).then(|| difference as f64 / total as f64)
}

/// Formats with three significant digits, or all digits before the point.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Returns the median of at least one value.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { (values[half - 1] + values[half]) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(makespan_s: u64, tasks: &[(&str, &[u64])]) -> Run {
        Run {
            makespan_ns: makespan_s * 1_000_000_000,
            cpu_ns: tasks.iter().map(|(name, times)| ((*name).to_owned(), times.to_vec())).collect(),
            ..Run::default()
        }
    }

    #[test]
    fn tasks_are_paired_by_name_and_rank() {
        let left = run(1, &[("cc1", &[10, 50]), ("as", &[40])]);
        assert_eq!(task_error(&left, &left), Some(0.0));
        // 50 is paired with 60, 10 with 8, the third value 5 is alone, and `as` has no partner.
        let right = run(1, &[("cc1", &[5, 8, 60])]);
        assert_eq!(task_error(&left, &right), Some((10.0 + 2.0 + 5.0 + 40.0) / 100.0));
        assert_eq!(task_error(&run(1, &[]), &right), None);
    }

    #[test]
    fn table_has_medians_and_spreads_in_80_columns() {
        let task: &[(&str, &[u64])] = &[("a", &[2_000_000_000])];
        let real = [run(10, task), run(12, task), run(11, task)];
        let predicted = [run(22, task), run(23, task)];
        let table = Comparison::new(&real, &predicted, 2).table();
        let line = table.lines().find(|line| line.contains("makespan, s")).unwrap();
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        assert_eq!(cells[1..7], ["makespan, s", "11.0", "10.0..12.0", "22.5", "22.0..23.0", "+104.5 %"]);
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    }

    #[test]
    fn median_of_an_even_number_of_values_is_the_mean_of_the_middle_two() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
