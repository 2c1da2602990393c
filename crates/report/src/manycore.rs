// SPDX-License-Identifier: GPL-2.0-only
//! Report of NIX's tests of schedulers (18 and 21 January 2012): three tests for each scheduler, as the author's
//! `output:times` files, and a row of total times for each scheduler.

use crate::RunReport;
use crate::numbers::wrap;
use crate::times::{self, Setup, Times};
use ids::Nanos;
use std::fmt::Write;

/// Times of these workloads, in this order, for each scheduler on each machine, in seconds: user, system and total of
/// each run, and a row with the mean totals of all workloads.
pub fn manycore(workloads: &[String], runs: &[RunReport]) -> String {
    let of_test: Vec<&RunReport> = runs.iter().filter(|run| workloads.contains(&run.tags.workload)).collect();
    let setups = times::setups(&of_test);
    let mut text = String::new();
    let mut number = 0;
    for setup in &setups {
        let _ = writeln!(text, "- {} on {} for {} cores:", setup.0, setup.1, cores(&of_test, *setup));
        for workload in workloads {
            for run in tests(&of_test, *setup, workload) {
                number += 1;
                let _ = writeln!(text, "- {number}/output:times {}", in_seconds(Times::of(run)));
            }
        }
    }
    let explained =
        format!("Times are user, system and total in seconds. Rows: mean total time of {}.", workloads.join(", "));
    text += &format!("\n{}\n\n", wrap("", &explained));
    for (name, setup) in times::names(&setups).iter().zip(&setups) {
        let total =
            |workload: &String| known(times::mean(tests(&of_test, *setup, workload).map(|run| Times::of(run).real)));
        let totals: Vec<String> = workloads.iter().map(total).collect();
        let _ = writeln!(text, "{} {name} sched. {} cores.", totals.join(" "), cores(&of_test, *setup));
    }
    text
}

fn tests<'a>(runs: &'a [&'a RunReport], setup: Setup<'a>, workload: &'a str) -> impl Iterator<Item = &'a RunReport> {
    runs.iter().copied().filter(move |run| times::setup(run) == setup && run.tags.workload == workload)
}

/// Number of CPUs that were online at some time.
fn cores(runs: &[&RunReport], of: Setup<'_>) -> usize {
    let run = runs.iter().find(|run| times::setup(run) == of).expect("a setup has runs");
    run.measures.cpus.iter().filter(|cpu| cpu.offline < run.measures.elapsed).count()
}

fn in_seconds(Times { real, user, system }: Times) -> String {
    format!("{} {} {}", seconds(user), seconds(system), known(real))
}

fn known(time: Option<Nanos>) -> String {
    time.map_or("-".to_owned(), seconds)
}

/// Six significant digits without trailing zeros, like `%g` of C: `14.0344`, `0.608`.
fn seconds(time: Nanos) -> String {
    let digits = time.0.max(1).ilog10() as i32 + 1;
    // Nanoseconds have 9 decimals; all digits after the sixth go.
    let decimals = (9 - (digits - 6).max(0)).clamp(0, 9) as usize;
    let text = format!("{:.decimals$}", time.0 as f64 / 1e9);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_six_significant_digits() {
        for (ns, text) in [
            (14_034_400_000, "14.0344"),
            (7_035_560_499, "7.03556"),
            (608_000_000, "0.608"),
            (659_123_456, "0.659123"),
            (1_234_567, "0.00123457"),
            (2_000_000_000, "2"),
            (0, "0"),
        ] {
            assert_eq!(seconds(Nanos(ns)), text);
        }
    }
}
