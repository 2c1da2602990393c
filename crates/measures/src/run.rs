// SPDX-License-Identifier: GPL-2.0-only
//! Measures of a finished run.

use crate::{
    DiskMeasures, Histogram, InterruptUse, LoadAverage, NetworkMeasures, PageCacheMeasures, PeriodSummary, Periods,
    RequestMeasures,
};
use ids::{CpuId, CpuSet, Nanos, Policy, TaskId};

/// Summary of a latency distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencySummary {
    /// Number of values.
    pub count: u64,
    /// Exact mean, rounded down.
    pub mean: Nanos,
    /// Median. All percentiles are accurate to 1 %.
    pub p50: Nanos,
    /// 90th percentile.
    pub p90: Nanos,
    /// 99th percentile.
    pub p99: Nanos,
    /// 99.9th percentile.
    pub p999: Nanos,
    /// Exact maximum.
    pub max: Nanos,
}

/// Number of migrations, by distance between the task's previous and new CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Migrations {
    /// To another SMT thread of the same core.
    pub smt: u64,
    /// To another core with the same last-level cache.
    pub llc: u64,
    /// To another last-level cache of the same NUMA node.
    pub node: u64,
    /// To another NUMA node.
    pub far: u64,
}

/// Bytes that CPUs loaded from the memory of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeTraffic {
    /// By CPUs of the node.
    pub local_bytes: u64,
    /// By CPUs of other nodes.
    pub remote_bytes: u64,
}

/// Time account of a CPU (or sum over all CPUs): every nanosecond belongs to exactly one of run, idle, scheduler,
/// stolen and offline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuAccount {
    /// Time in which tasks ran.
    pub run: Nanos,
    /// Part of `run` that exceeds the work done, because the CPU was slower than the reference.
    pub slowed: Nanos,
    /// Part of `run` in which tasks reloaded what their caches had lost.
    pub reload: Nanos,
    /// Part of `run` in which tasks waited for memory longer than for idle memory of their own node.
    pub memory: Nanos,
    /// Part of `run` in which tasks polled locks of their workload, waited for the cache lines of these locks, or
    /// made futex calls that had no effect.
    pub spin: Nanos,
    /// Time in which the CPU was idle.
    pub idle: Nanos,
    /// Time in scheduler code, context switches included.
    pub scheduler: Nanos,
    /// Time in interrupts.
    pub stolen: Nanos,
    /// Time in which the CPU was offline.
    pub offline: Nanos,
}

/// Time account of a task: every nanosecond of its lifetime belongs to exactly one of run, stolen, runnable and
/// blocked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskAccount {
    /// Work done, in nanoseconds of the reference CPU.
    pub work: Nanos,
    /// Time in which the task executed its own code on a CPU, scheduler code and interrupts excluded.
    pub run: Nanos,
    /// Time in which the task was current but its CPU executed scheduler code or interrupts.
    pub stolen: Nanos,
    /// Time runnable but not running.
    pub runnable: Nanos,
    /// Time not runnable.
    pub blocked: Nanos,
}

/// A change of a task's allowed CPUs, by the task, by another one, or by the kernel when the last of them goes offline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AffinityChange {
    /// When it happened.
    pub time: Nanos,
    /// Allowed CPUs before.
    pub from: CpuSet,
    /// Allowed CPUs after.
    pub to: CpuSet,
}

/// A CPU that went offline or came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hotplug {
    /// When it happened.
    pub time: Nanos,
    /// The CPU.
    pub cpu: CpuId,
    /// Whether it came back.
    pub online: bool,
}

/// Measures of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskMeasures {
    /// Number of the task in the run.
    pub id: TaskId,
    /// PID in the kernel.
    pub pid: u32,
    /// Name.
    pub name: String,
    /// The task is a kernel thread (the watchdog's worker, or one of the background noise); excluded from the totals
    /// of the run.
    pub kernel_thread: bool,
    /// Scheduling policy at its start.
    pub policy: Policy,
    /// Time account.
    pub account: TaskAccount,
    /// Allowed CPUs at the end.
    pub cpus_allowed: CpuSet,
    /// First changes of its allowed CPUs.
    pub affinity_changes: Vec<AffinityChange>,
    /// CPUs on which it ran.
    pub cpus_used: CpuSet,
    /// Time from wakeup until running.
    pub wakeup_latency: LatencySummary,
    /// Histogram of `wakeup_latency`.
    pub wakeup_latencies: Histogram<6>,
    /// Last wakeup latency; 0 if there was none.
    pub last_latency: Nanos,
    /// Measures of the task's periods, if a timer releases its jobs.
    pub periods: Option<Box<Periods>>,
    /// Part of its blocked time in which it waited for disks; `None` if the workload uses none.
    pub disk: Option<Nanos>,
    /// Part of its blocked time in which it waited for answers over networks; `None` if the workload uses none.
    pub network: Option<Nanos>,
    /// Time at which it ended; `None` if it did not.
    pub ended: Option<Nanos>,
}

/// Measures of the tasks of one part of a composed workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartMeasures {
    /// Label of the part: the prefix before the slash in its tasks' names.
    pub label: String,
    /// Number of tasks.
    pub tasks: u64,
    /// Time at which the last of them ended; `None` if one did not.
    pub makespan: Option<Nanos>,
    /// Sum of the tasks' time accounts.
    pub account: TaskAccount,
    /// Time from wakeup until running.
    pub wakeup_latency: LatencySummary,
    /// Periods of its tasks.
    pub periods: PeriodSummary,
}

/// Measures of the tasks of one group and of its subgroups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupMeasures {
    /// Path within the workload.
    pub path: String,
    /// Weight relative to its siblings, 1 to 10000.
    pub weight: u32,
    /// Cap on its CPU time, in percent of one CPU.
    pub cap_percent: Option<u32>,
    /// CPU time of its tasks.
    pub cpu: Nanos,
    /// Total time for which its tasks waited for a CPU.
    pub runnable: Nanos,
}

impl GroupMeasures {
    /// Creates the measures of a group whose tasks are not yet accounted.
    pub fn new(path: &str, weight: u32, cap_percent: Option<u32>) -> GroupMeasures {
        GroupMeasures { path: path.to_owned(), weight, cap_percent, ..GroupMeasures::default() }
    }
}

/// Use of one lock by one caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockUse {
    /// Kind of lock, as in the lock table: `runqueue`, `dsq`, `bpf`, `spin`, `mutex`, …
    pub kind: &'static str,
    /// Name of the lock.
    pub lock: String,
    /// Caller: a kernel operation, a callback, or a task.
    pub caller: String,
    /// Number of acquisitions.
    pub count: u64,
    /// Number of acquisitions that had to wait.
    pub contended: u64,
    /// Total waiting time, handoffs included.
    pub wait_total: Nanos,
    /// Longest waiting time.
    pub wait_max: Nanos,
    /// Total hold time.
    pub hold_total: Nanos,
    /// Longest hold time.
    pub hold_max: Nanos,
    /// Number of retried reads of a sequence lock; each retry is also counted as an acquisition.
    pub retries: u64,
}

/// Measures of a whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunMeasures {
    /// Time that the run covers.
    pub elapsed: Nanos,
    /// Time at which the last finite task ended; `None` if a task is endless or was cut short.
    pub makespan: Option<Nanos>,
    /// Work of the workload's tasks, in nanoseconds of the reference CPU; `None` where only CPU time is known.
    pub work: Option<Nanos>,
    /// Part of `work` that was done in system calls; `None` where unknown.
    pub system_work: Option<Nanos>,
    /// Load average at the end.
    pub load_average: LoadAverage,
    /// Periods of the workload's tasks.
    pub periods: PeriodSummary,
    /// Number of switches to a task of the workload; switches to idle are not counted.
    pub context_switches: u64,
    /// Number of wakeups of the workload's tasks.
    pub wakeups: u64,
    /// Time during which a CPU idled while a task allowed there waited.
    pub idle_while_runnable: Nanos,
    /// Migrations of tasks.
    pub migrations: Migrations,
    /// Time from wakeup until running, over all tasks of the workload.
    pub wakeup_latency: LatencySummary,
    /// Time from runnable until running, over all tasks of the workload, whether woken or switched out while
    /// runnable.
    pub run_delay: LatencySummary,
    /// Histogram of `wakeup_latency`, with 8 buckets per power of two.
    pub wakeup_latencies: Histogram<3>,
    /// Histogram of `run_delay`, with 8 buckets per power of two.
    pub run_delays: Histogram<3>,
    /// Sum of the time accounts of all CPUs.
    pub cpu: CpuAccount,
    /// Time account of each CPU.
    pub cpus: Vec<CpuAccount>,
    /// First changes of the CPUs that are online.
    pub hotplugs: Vec<Hotplug>,
    /// Number of BPF instructions executed; `None` for a real kernel, which does not count them.
    pub bpf_instructions: Option<u64>,
    /// Total waiting time for locks, the sum over `locks`; `None` if neither modelled nor measured.
    pub lock_wait: Option<Nanos>,
    /// Use of each lock by each caller, the longest waits first; `None` if neither modelled nor measured.
    pub locks: Option<Vec<LockUse>>,
    /// Energy in parts per million of that of a machine whose cores are all busy at the highest non-turbo frequency
    /// for the same time; `None` if neither modelled nor measured.
    pub energy_ratio_ppm: Option<u64>,
    /// Part of `cpu.run` that exceeds the work done, because CPUs were slower than the reference; `None` where
    /// unknown.
    pub slowed: Option<Nanos>,
    /// Part of `cpu.run` in which tasks polled locks of their workload, waited for the cache lines of these locks, or
    /// made futex calls that had no effect; `None` where unknown.
    pub spin: Option<Nanos>,
    /// Part of the run time in which tasks reloaded what their caches had lost; `None`: not modelled.
    pub reload: Option<Nanos>,
    /// Part of the run time in which tasks waited for memory longer than for idle memory of their own node; `None`:
    /// not modelled.
    pub memory: Option<Nanos>,
    /// Bytes loaded from the memory of each node; `None`: not modelled.
    pub memory_nodes: Option<Vec<NodeTraffic>>,
    /// Use of each disk; `None` if the workload uses none.
    pub disks: Option<Vec<DiskMeasures>>,
    /// Use of each network; `None` if the workload uses none.
    pub networks: Option<Vec<NetworkMeasures>>,
    /// Use of the page cache; `None` if the machine has none, or the workload does not use it.
    pub page_cache: Option<PageCacheMeasures>,
    /// Interrupts of devices, by source and CPU; `None` if the workload uses no device.
    pub interrupts: Option<Vec<InterruptUse>>,
    /// Requests of each source of the workload.
    pub requests: Vec<RequestMeasures>,
    /// Each part of the workload, if it has several or one with a label.
    pub parts: Vec<PartMeasures>,
    /// Each group of the workload, parents first.
    pub groups: Vec<GroupMeasures>,
    /// Each task, by number.
    pub tasks: Vec<TaskMeasures>,
}

impl RunMeasures {
    /// Time for which tasks waited for answers over networks, as a part of their blocked time; `None` if the workload uses
    /// none.
    pub fn network_wait(&self) -> Option<Nanos> {
        let own = self.tasks.iter().filter(|task| !task.kernel_thread);
        let known = own.filter_map(|task| task.network).map(|time| time.0);
        known.reduce(|sum, time| sum + time).map(Nanos)
    }

    /// Time for which tasks waited for disks, as a part of their blocked time; `None` if the workload uses none.
    pub fn disk_wait(&self) -> Option<Nanos> {
        self.disks.as_ref()?;
        let own = self.tasks.iter().filter(|task| !task.kernel_thread);
        let known = own.filter_map(|task| task.disk).map(|time| time.0);
        known.reduce(|sum, time| sum + time).map(Nanos)
    }

    /// Time from arrival to completion of the requests of all sources; `None` if the workload has no source.
    pub fn request_latency(&self) -> Option<LatencySummary> {
        crate::requests::latency(&self.requests)
    }

    /// Average number of running and waiting tasks of the workload, in thousandths.
    pub fn load_milli(&self) -> u64 {
        let tasks = self.tasks.iter().filter(|task| !task.kernel_thread).map(|task| &task.account);
        let time: u128 = tasks.map(|task| u128::from((task.run + task.stolen + task.runnable).0)).sum();
        (time * 1000 / u128::from(self.elapsed.0.max(1))) as u64
    }

    /// Measures the parts with these labels, whose tasks are named `LABEL/name`. The flag tells whether the tasks of
    /// a part end by themselves; if not, the part has no makespan even if the end of the run ended them.
    pub fn divide<'a>(&mut self, parts: impl IntoIterator<Item = (&'a str, bool)>) {
        let part = |(label, ends)| {
            let part = self.part(label);
            PartMeasures { makespan: part.makespan.filter(|_| ends), ..part }
        };
        self.parts = parts.into_iter().map(part).collect();
    }

    /// Adds up the time accounts of each group's tasks, given the group path of each task. A task counts for its
    /// group and all groups around it.
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
