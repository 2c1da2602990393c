// SPDX-License-Identifier: GPL-2.0-only
//! Sanity test report: a build at several loads, in rounds, printed like the output of Alfred Chen's script, and the
//! means of the rounds.

use crate::RunReport;
use crate::numbers::{versus, wrap};
use crate::table::{align, plain};
use crate::times::{self, Setup, Times, clock};
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

/// A sanity test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sanity {
    /// Title of its listings.
    pub title: String,
    /// Scheduling policy of the build as the posts name it: `Batch`, `Idle`, `Normal`.
    pub policy: String,
    /// Its loads; the comparison by policy is made at the last one.
    pub levels: Vec<Level>,
}

/// Times of all rounds, for each scheduler on each machine, a table of their means, and the means at the last load in
/// the form of the post of 28 December 2015.
///
/// `user` is the CPU time of the tasks in user mode, as far as known; `sys` is the rest of their CPU time, plus the
/// time of the scheduler, switches and interrupts.
pub fn sanity(test: &Sanity, runs: &[RunReport]) -> String {
    let of_test: Vec<&RunReport> =
        runs.iter().filter(|run| test.levels.iter().any(|level| level.workload == run.tags.workload)).collect();
    let setups = times::setups(&of_test);
    let mut text = String::new();
    for setup in &setups {
        let _ = writeln!(text, "{}\n", wrap("", &format!("{} on {}, {}", setup.0, setup.1, test.title)));
        // The script begins with a build whose time does not count. A simulated run needs none, as nothing remains of the
        // runs before it.
        text += ">>>>>spining up\n";
        for level in &test.levels {
            let _ = writeln!(text, ">>>>>{}% workload", level.percent);
            for (round, run) in (1..).zip(rounds(&of_test, *setup, level)) {
                let _ = writeln!(text, ">>>>>round {round}\n{}", as_time_prints(Times::of(run)));
            }
        }
        text.push('\n');
    }
    text + &means(test, &setups, &of_test) + "\n\n" + &by_policy(test, &setups, &of_test)
}

fn rounds<'a>(runs: &'a [&'a RunReport], setup: Setup<'a>, level: &'a Level) -> impl Iterator<Item = &'a RunReport> {
    runs.iter().copied().filter(move |run| times::setup(run) == setup && run.tags.workload == level.workload)
}

/// Mean of the real times of all rounds; `None` if a build did not complete.
fn mean(runs: &[&RunReport], setup: Setup<'_>, level: &Level) -> Option<Nanos> {
    times::mean(rounds(runs, setup, level).map(|run| Times::of(run).real))
}

fn as_time_prints(Times { real, user, system }: Times) -> String {
    format!("real\t{}\nuser\t{}\nsys\t{}", known(real), clock(user), clock(system))
}

fn known(time: Option<Nanos>) -> String {
    time.map_or("-".to_owned(), clock)
}

/// One row per load, one column per setup: the mean of its rounds, and the difference from that of the first setup.
fn means(test: &Sanity, setups: &[Setup<'_>], runs: &[&RunReport]) -> String {
    let heads: Vec<String> = std::iter::once("real, mean".to_owned()).chain(times::names(setups)).collect();
    let mut table = plain(&heads.iter().map(String::as_str).collect::<Vec<_>>());
    for level in &test.levels {
        let base = setups.first().and_then(|setup| mean(runs, *setup, level));
        let cell = |(index, setup): (usize, &Setup<'_>)| match (mean(runs, *setup, level), base) {
            (Some(real), Some(base)) if index > 0 => {
                format!("{} {}", clock(real), versus(base.0, real.0).unwrap_or_default())
            }
            (real, _) => known(real),
        };
        table.add_row(std::iter::once(format!("{}%", level.percent)).chain(setups.iter().enumerate().map(cell)));
    }
    align(&mut table)
}

/// `Batch policy 300% workload compile benchmark:` and a line for each setup.
fn by_policy(test: &Sanity, setups: &[Setup<'_>], runs: &[&RunReport]) -> String {
    let Some(level) = test.levels.last() else { return String::new() };
    let mut text = format!("{} policy {}% workload compile benchmark:\n", test.policy, level.percent);
    for (name, setup) in times::names(setups).iter().zip(setups) {
        let _ = writeln!(text, "{name} -- {}", known(mean(runs, *setup, level)));
    }
    text
}
