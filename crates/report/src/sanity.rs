// SPDX-License-Identifier: GPL-2.0-only
//! Sanity test report: a build at several loads, in rounds, printed in the format of `time`, and the means of the
//! rounds.

use crate::RunReport;
use crate::numbers::{versus, wrap};
use crate::table::{align, plain};
use ids::Nanos;
use std::fmt::Write;

/// One load of the test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Level {
    /// Number of jobs in percent of the machine's CPUs.
    pub percent: u32,
    /// Name of the workload with this load.
    pub workload: String,
}

/// Times of all rounds, for each scheduler on each machine, and a table of their means.
///
/// `user` is the CPU time of the tasks in user mode, as far as known; `sys` is the rest of their CPU time, plus the
/// time of the scheduler, switches and interrupts.
pub fn sanity(title: &str, levels: &[Level], runs: &[RunReport]) -> String {
    let of_test: Vec<&RunReport> =
        runs.iter().filter(|run| levels.iter().any(|level| level.workload == run.tags.workload)).collect();
    let mut setups: Vec<(&str, &str)> = Vec::new();
    for run in &of_test {
        let setup = (run.tags.scheduler.as_str(), run.tags.machine.as_str());
        if !setups.contains(&setup) {
            setups.push(setup);
        }
    }
    let mut text = String::new();
    for (scheduler, machine) in &setups {
        let _ = writeln!(text, "{}\n", wrap("", &format!("{scheduler} on {machine}, {title}")));
        for level in levels {
            let _ = writeln!(text, ">>>>>{}% workload", level.percent);
            for (round, run) in (1..).zip(rounds(&of_test, (scheduler, machine), level)) {
                let _ = writeln!(text, ">>>>>round {round}\n{}", times(run));
            }
        }
        text.push('\n');
    }
    text + &means(levels, &setups, &of_test) + "\n"
}

fn rounds<'a>(
    runs: &'a [&'a RunReport],
    setup: (&'a str, &'a str),
    level: &'a Level,
) -> impl Iterator<Item = &'a RunReport> {
    let belongs = move |run: &RunReport| {
        (run.tags.scheduler.as_str(), run.tags.machine.as_str()) == setup && run.tags.workload == level.workload
    };
    runs.iter().copied().filter(move |run| belongs(run))
}

/// Real, user and system time; no real time if the build did not complete.
fn of_run(run: &RunReport) -> (Option<Nanos>, Nanos, Nanos) {
    let measures = &run.measures;
    let tasks: u64 = measures.tasks.iter().filter(|task| !task.kernel_thread).map(|task| task.account.run.0).sum();
    let work = measures.work.unwrap_or_default().0.max(1);
    let system = measures.system_work.unwrap_or_default().0.min(work);
    let user = (u128::from(tasks) * u128::from(work - system) / u128::from(work)) as u64;
    let overhead = measures.cpu.scheduler + measures.cpu.stolen;
    (measures.makespan, Nanos(user), Nanos(tasks - user) + overhead)
}

fn times(run: &RunReport) -> String {
    let (real, user, sys) = of_run(run);
    let real = real.map_or("-".to_owned(), clock);
    format!("real\t{real}\nuser\t{}\nsys\t{}", clock(user), clock(sys))
}

/// `5m21.850s`.
fn clock(time: Nanos) -> String {
    let ms = (time.0 + 500_000) / 1_000_000;
    format!("{}m{}.{:03}s", ms / 60_000, ms / 1000 % 60, ms % 1000)
}

/// One row per load, one column per setup: the mean of its rounds, and the difference from that of the first setup.
fn means(levels: &[Level], setups: &[(&str, &str)], runs: &[&RunReport]) -> String {
    let one_machine = setups.iter().all(|setup| setup.1 == setups[0].1);
    let head = |&(scheduler, machine): &(&str, &str)| match one_machine {
        true => scheduler.to_owned(),
        false => format!("{scheduler} on {machine}"),
    };
    let heads: Vec<String> = std::iter::once("real, mean".to_owned()).chain(setups.iter().map(head)).collect();
    let mut table = plain(&heads.iter().map(String::as_str).collect::<Vec<_>>());
    for level in levels {
        let mean = |setup: &(&str, &str)| {
            let real: Option<Vec<u64>> = rounds(runs, *setup, level).map(|run| Some(of_run(run).0?.0)).collect();
            real.and_then(|real| real.iter().sum::<u64>().checked_div(real.len() as u64))
        };
        let base = setups.first().and_then(mean);
        let cell = |(index, setup): (usize, &(&str, &str))| match (mean(setup), base) {
            (None, _) => "-".to_owned(),
            (Some(real), Some(base)) if index > 0 => {
                format!("{} {}", clock(Nanos(real)), versus(base, real).unwrap_or_default())
            }
            (Some(real), _) => clock(Nanos(real)),
        };
        table.add_row(std::iter::once(format!("{}%", level.percent)).chain(setups.iter().enumerate().map(cell)));
    }
    align(&mut table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_formatted_as_by_the_time_command() {
        for (ns, text) in [(0, "0m0.000s"), (321_850_400_000, "5m21.850s"), (59_999_500_000, "1m0.000s")] {
            assert_eq!(clock(Nanos(ns)), text);
        }
    }
}
