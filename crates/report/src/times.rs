// SPDX-License-Identifier: GPL-2.0-only
//! Real, user and system time of a run, as `time` prints them, and the setups of a test suite.

use crate::RunReport;
use ids::Nanos;

/// Times of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// The makespan; `None` if the work was not completed.
    pub real: Option<Nanos>,
    /// CPU time of the tasks in user mode, as far as the workload distinguishes it.
    pub user: Nanos,
    /// The rest of their CPU time, and the time of the scheduler, switches and interrupts.
    pub system: Nanos,
}

impl Times {
    /// Times of the tasks of a run, kthreads excluded.
    pub fn of(run: &RunReport) -> Times {
        let measures = &run.measures;
        let tasks: u64 = measures.tasks.iter().filter(|task| !task.kernel_thread).map(|task| task.account.run.0).sum();
        let work = measures.work.unwrap_or_default().0.max(1);
        let system = measures.system_work.unwrap_or_default().0.min(work);
        let user = (u128::from(tasks) * u128::from(work - system) / u128::from(work)) as u64;
        let overhead = measures.cpu.scheduler + measures.cpu.stolen;
        Times { real: measures.makespan, user: Nanos(user), system: Nanos(tasks - user) + overhead }
    }
}

/// `5m21.850s`.
pub(crate) fn clock(time: Nanos) -> String {
    let ms = (time.0 + 500_000) / 1_000_000;
    format!("{}m{}.{:03}s", ms / 60_000, ms / 1000 % 60, ms % 1000)
}

/// Mean of these times; `None` if there are none, or one is unknown.
pub(crate) fn mean(times: impl Iterator<Item = Option<Nanos>>) -> Option<Nanos> {
    let times: Vec<u64> = times.map(|time| Some(time?.0)).collect::<Option<_>>()?;
    times.iter().sum::<u64>().checked_div(times.len() as u64).map(Nanos)
}

/// Scheduler and machine of a run.
pub(crate) type Setup<'a> = (&'a str, &'a str);

pub(crate) fn setup(run: &RunReport) -> Setup<'_> {
    (&run.tags.scheduler, &run.tags.machine)
}

/// All schedulers and machines of these runs, in the order of their first runs.
pub(crate) fn setups<'a>(runs: &[&'a RunReport]) -> Vec<Setup<'a>> {
    let mut setups = Vec::new();
    for run in runs {
        if !setups.contains(&setup(run)) {
            setups.push(setup(run));
        }
    }
    setups
}

/// Names of setups: the scheduler, and the machine if there are several.
pub(crate) fn names(setups: &[Setup<'_>]) -> Vec<String> {
    let one_machine = setups.iter().all(|setup| setup.1 == setups[0].1);
    let name = |&(scheduler, machine): &Setup<'_>| match one_machine {
        true => scheduler.to_owned(),
        false => format!("{scheduler} on {machine}"),
    };
    setups.iter().map(name).collect()
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

    #[test]
    fn mean_is_unknown_if_one_time_is() {
        assert_eq!(mean([Some(Nanos(10)), Some(Nanos(21))].into_iter()), Some(Nanos(15)));
        assert_eq!(mean([Some(Nanos(10)), None].into_iter()), None);
        assert_eq!(mean([].into_iter()), None);
    }
}
