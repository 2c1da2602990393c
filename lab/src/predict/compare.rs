// SPDX-License-Identifier: GPL-2.0-only
//! Real runs beside predicted ones.

use super::run::Run;
use comfy_table::{CellAlignment, Table, presets};

/// One measure of all runs of a case.
struct Measure {
    name: &'static str,
    /// How many units of the source one printed unit has.
    scale: f64,
    real: Vec<f64>,
    predicted: Vec<f64>,
}

/// Real and predicted runs of one case.
pub struct Comparison {
    measures: Vec<Measure>,
    /// See [`task_error`].
    task_error: f64,
    /// The same between real runs: no prediction can be expected to be better.
    task_spread: f64,
}

const NS_PER_S: f64 = 1e9;
const NS_PER_US: f64 = 1e3;

impl Comparison {
    /// Of at least one run on each side, on so many CPUs.
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
            // Idle, or with others: disk waits, the kernel's threads, switches, and what the scheduler wasted.
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

    /// At most 80 columns.
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

/// By how much the CPU times of single tasks differ: tasks of one name are paired by rank, and the absolute differences
/// are summed and divided by the sum of the left run's times. A task without a partner counts whole.
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

/// Three significant digits or all before the point.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// The middle one; the mean of the two in the middle. Of at least one value.
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
        // 50 beside 60, 10 beside 8, a third of 5 alone, and `as` without a partner.
        let right = run(1, &[("cc1", &[5, 8, 60])]);
        assert_eq!(task_error(&left, &right), Some((10.0 + 2.0 + 5.0 + 40.0) / 100.0));
        assert_eq!(task_error(&run(1, &[]), &right), None);
    }

    #[test]
    fn medians_and_spreads_stand_in_a_table_of_80_columns() {
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
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
