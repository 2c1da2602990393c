// SPDX-License-Identifier: GPL-2.0-only
//! What is known of a run when it is over.

use crate::{Histogram, LoadAverage, PeriodSummary, Periods};
use ids::{CpuSet, Nanos, Policy, TaskId};

/// Percentiles of a latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencySummary {
    /// Number of values.
    pub count: u64,
    /// Exact mean, rounded down.
    pub mean: Nanos,
    /// Median and further percentiles, to 1 %.
    pub p50: Nanos,
    /// 90 %.
    pub p90: Nanos,
    /// 99 %.
    pub p99: Nanos,
    /// 99.9 %.
    pub p999: Nanos,
    /// Exact maximum.
    pub max: Nanos,
}

/// Where switch-ins happened, compared with the task's last CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Migrations {
    /// Another thread of the same core.
    pub smt: u64,
    /// Another core, same last-level cache.
    pub llc: u64,
    /// Another cache, same node.
    pub node: u64,
    /// Another node.
    pub far: u64,
}

/// Every nanosecond of a CPU (or of all CPUs together) has one owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuAccount {
    /// Tasks ran.
    pub run: Nanos,
    /// Of `run`: more than the work that got done, as the CPU was slower than the reference.
    pub slowed: Nanos,
    /// Of `run`: tasks polled locks of their workload, waited for cache lines of these, or called the kernel for nothing.
    pub spin: Nanos,
    /// Nothing to do.
    pub idle: Nanos,
    /// Scheduler code, with context switches.
    pub scheduler: Nanos,
    /// Interrupts.
    pub stolen: Nanos,
    /// Not online.
    pub offline: Nanos,
}

/// Every nanosecond of a task's life has one owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskAccount {
    /// Work done, in nanoseconds of the reference CPU.
    pub work: Nanos,
    /// On a CPU, doing its own work.
    pub run: Nanos,
    /// Current, but its CPU was busy with scheduler code or interrupts.
    pub stolen: Nanos,
    /// Waiting for a CPU.
    pub runnable: Nanos,
    /// Not runnable.
    pub blocked: Nanos,
}

/// One task of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskMeasures {
    /// Its number in the run.
    pub id: TaskId,
    /// Its number in the kernel.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// A thread of the kernel (the watchdog's worker, or one of the background), which the run's own numbers leave out.
    pub kernel_thread: bool,
    /// Its policy when it began.
    pub policy: Policy,
    /// Its time.
    pub account: TaskAccount,
    /// Where it was allowed, at the end.
    pub cpus_allowed: CpuSet,
    /// Where it ran.
    pub cpus_used: CpuSet,
    /// From woken to running.
    pub wakeup_latency: LatencySummary,
    /// The same, each time.
    pub wakeup_latencies: Histogram<6>,
    /// The last of them; 0 if there was none.
    pub last_latency: Nanos,
    /// Its periods, if a timer gave it some.
    pub periods: Option<Box<Periods>>,
    /// When it ended; `None`: it did not.
    pub ended: Option<Nanos>,
}

/// The tasks of one part of a composed workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartMeasures {
    /// Its label: the names of its tasks begin with that and a slash.
    pub label: String,
    /// How many tasks there were.
    pub tasks: u64,
    /// When the last of them ended; `None` if one did not.
    pub makespan: Option<Nanos>,
    /// The time of all of them.
    pub account: TaskAccount,
    /// From woken to running.
    pub wakeup_latency: LatencySummary,
    /// Periods of its tasks.
    pub periods: PeriodSummary,
}

/// The tasks of one group and of those in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupMeasures {
    /// Its path within the workload.
    pub path: String,
    /// Its share among its siblings, 1 to 10000.
    pub weight: u32,
    /// Most CPU time that it may have, in percent of one CPU.
    pub cap_percent: Option<u32>,
    /// CPU time that its tasks had.
    pub cpu: Nanos,
    /// How long they waited for a CPU, together.
    pub runnable: Nanos,
}

impl GroupMeasures {
    /// Of a group before anything is known of its tasks.
    pub fn new(path: &str, weight: u32, cap_percent: Option<u32>) -> GroupMeasures {
        GroupMeasures { path: path.to_owned(), weight, cap_percent, ..GroupMeasures::default() }
    }
}

/// How one caller used one lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockUse {
    /// What kind it is, in the words of the lock table: `runqueue`, `dsq`, `bpf`, `spin`, `mutex`, …
    pub kind: &'static str,
    /// Which one.
    pub lock: String,
    /// Who took it: an operation of the kernel, a callback, or a task.
    pub caller: String,
    /// How often.
    pub count: u64,
    /// How often it had to wait.
    pub contended: u64,
    /// For how long, together; the passing on is in it.
    pub wait_total: Nanos,
    /// For how long at most.
    pub wait_max: Nanos,
    /// How long it was held, together.
    pub hold_total: Nanos,
    /// How long at most.
    pub hold_max: Nanos,
    /// Reads of a sequence lock that had to be done again; each counts as a passage.
    pub retries: u64,
}

/// A whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunMeasures {
    /// Simulated time that the run covers.
    pub elapsed: Nanos,
    /// When the last finite task ended; `None` if one is endless or was cut short.
    pub makespan: Option<Nanos>,
    /// Work of the workload's tasks, in nanoseconds of the reference CPU; `None` where only CPU time is known.
    pub work: Option<Nanos>,
    /// Of `work`, what its tasks had the kernel do; `None` where that is not known.
    pub system_work: Option<Nanos>,
    /// The load average at the end.
    pub load_average: LoadAverage,
    /// Periods of the workload's tasks.
    pub periods: PeriodSummary,
    /// Switch-ins of the workload's tasks, not of idle.
    pub context_switches: u64,
    /// Tasks made runnable.
    pub wakeups: u64,
    /// Time during which some CPU idled while a task allowed there waited.
    pub idle_while_runnable: Nanos,
    /// Where tasks moved.
    pub migrations: Migrations,
    /// From woken to running, all tasks of the workload.
    pub wakeup_latency: LatencySummary,
    /// From runnable to running, all tasks of the workload, whether woken or switched out while runnable.
    pub run_delay: LatencySummary,
    /// How `wakeup_latency` is distributed, to an eighth of each power of two.
    pub wakeup_latencies: Histogram<3>,
    /// The same of `run_delay`.
    pub run_delays: Histogram<3>,
    /// All CPUs together.
    pub cpu: CpuAccount,
    /// Each CPU.
    pub cpus: Vec<CpuAccount>,
    /// BPF instructions executed; `None` in a real kernel, which does not count them.
    pub bpf_instructions: Option<u64>,
    /// Time spent waiting for locks: the sum of `locks`; `None` while nothing models or measures it.
    pub lock_wait: Option<Nanos>,
    /// Who used which lock, the longest waits first; `None` while nothing models or measures it.
    pub locks: Option<Vec<LockUse>>,
    /// What the machine took, in parts per million of what it takes with all cores busy at the last frequency without
    /// turbo for the same time; `None` while nothing models or measures it.
    pub energy_ratio_ppm: Option<u64>,
    /// Of `cpu.run`: more than the work that got done, as CPUs were slower than the reference; `None` where that is not
    /// known.
    pub slowed: Option<Nanos>,
    /// Of `cpu.run`: tasks polled locks of their workload, waited for cache lines of these, or called the kernel for nothing;
    /// `None` where that is not known.
    pub spin: Option<Nanos>,
    /// Each part of the workload, if it has several or one with a label.
    pub parts: Vec<PartMeasures>,
    /// Each group of the workload, parents first.
    pub groups: Vec<GroupMeasures>,
    /// Each task, by number.
    pub tasks: Vec<TaskMeasures>,
}

impl RunMeasures {
    /// How many tasks of the workload ran or waited for a CPU on average, in thousandths.
    pub fn load_milli(&self) -> u64 {
        let tasks = self.tasks.iter().filter(|task| !task.kernel_thread).map(|task| &task.account);
        let time: u128 = tasks.map(|task| u128::from((task.run + task.stolen + task.runnable).0)).sum();
        (time * 1000 / u128::from(self.elapsed.0.max(1))) as u64
    }

    /// Measures the parts of these labels, whose tasks are called `LABEL/name`. Those that do not end by themselves have
    /// no makespan, also if the end of the run ended them.
    pub fn divide<'a>(&mut self, parts: impl IntoIterator<Item = (&'a str, bool)>) {
        let part = |(label, ends)| {
            let part = self.part(label);
            PartMeasures { makespan: part.makespan.filter(|_| ends), ..part }
        };
        self.parts = parts.into_iter().map(part).collect();
    }

    /// Adds up the time of each group's tasks, given the path of each task's own. Time of tasks in a group is that of all
    /// groups around it too.
    pub fn gather<'a>(
        &mut self,
        groups: impl IntoIterator<Item = GroupMeasures>,
        path_of: impl Fn(&TaskMeasures) -> Option<&'a str>,
    ) {
        self.groups = groups.into_iter().collect();
        for task in &self.tasks {
            let Some(path) = path_of(task) else { continue };
            let is_in = |group: &&mut GroupMeasures| {
                path.strip_prefix(group.path.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            for group in self.groups.iter_mut().filter(is_in) {
                group.cpu += task.account.run;
                group.runnable += task.account.runnable;
            }
        }
    }

    fn part(&self, label: &str) -> PartMeasures {
        let is_of_part = |task: &&TaskMeasures| {
            task.name.strip_prefix(label).is_some_and(|rest| rest.starts_with('/')) && !task.kernel_thread
        };
        let mut account = TaskAccount::default();
        let (mut latencies, mut periods) = (Histogram::new(), Periods::default());
        let (mut tasks, mut makespan) = (0, Some(Nanos::ZERO));
        for task in self.tasks.iter().filter(is_of_part) {
            let TaskAccount { work, run, stolen, runnable, blocked } = task.account;
            account.work += work;
            account.run += run;
            account.stolen += stolen;
            account.runnable += runnable;
            account.blocked += blocked;
            latencies.add(&task.wakeup_latencies);
            task.periods.iter().for_each(|own| periods.add(own));
            makespan = makespan.zip(task.ended).map(|(last, ended)| last.max(ended));
            tasks += 1;
        }
        PartMeasures {
            label: label.to_owned(),
            tasks,
            makespan,
            account,
            wakeup_latency: latencies.summary(),
            periods: periods.summary(),
        }
    }
}
