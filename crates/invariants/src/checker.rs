// SPDX-License-Identifier: GPL-2.0-only
//! The event sink that checks a run while it proceeds.

use crate::caps::Caps;
use crate::demands::Demands;
use crate::displaced::Displaced;
use crate::findings::{Findings, Property, Violation};
use crate::gangs::Gangs;
use crate::loads::Loads;
use crate::lost::Lost;
use crate::preemption::Preemption;
use crate::promises::{Conditions, GangsBy, Promises, WorkConserving};
use crate::queues::Queues;
use crate::run_intervals::RunIntervals;
use crate::shares::Shares;
use crate::state::{self, State};
use crate::unserved::{Population, Stretch, Unserved};
use crate::warnings::{Unfit, Warnings};
use crate::windows::{Missed, Windows};
use crate::{gangs, shares};
use event_log::{Event, EventKind, Sink, SwitchReason, TaskInfo, op_name};
use ids::{CpuId, CpuSet, DsqId, Nanos, TaskId};

/// The event sink that checks a run while it proceeds. Its memory depends on the number of tasks, CPUs and masks, not
/// on the length of the run.
#[derive(Debug)]
pub struct Checker {
    promises: Promises,
    conditions: Conditions,
    /// Whether the scheduler promises nothing, which lets the checks of the built-in invariants take fewer steps.
    promises_nothing: bool,
    state: State,
    unserved: Unserved,
    lost: Lost,
    queues: Queues,
    displaced: Displaced,
    /// The following checks are present only if the property is promised.
    shares: Option<Shares>,
    run_intervals: Option<RunIntervals>,
    preemption: Option<Preemption>,
    loads: Option<Loads>,
    gangs: Option<Gangs>,
    windows: Option<Windows>,
    caps: Option<Caps>,
    /// Present if warnings are wanted.
    warnings: Option<Warnings>,
    demands: Demands,
    findings: Findings,
    /// Whether the scheduler is attached; its promises count only then.
    is_attached: bool,
    /// Whether the kernel is in bypass mode, as while a scheduler is unloaded.
    bypassed: bool,
    /// Time of the last hotplug, affinity or attachment event, after which schedulers need time to adapt.
    reset_at: Option<Nanos>,
}

impl Checker {
    /// Creates a checker for a machine with this number of CPUs, of which the online ones are idle, and without
    /// tasks. It counts useless migrations if anything is promised. `demands` holds what the workload requests for
    /// its tasks.
    pub fn new(cpus: usize, online: &CpuSet, promises: Promises, conditions: Conditions, demands: Demands) -> Checker {
        let weights = || demands.groups.iter().map(|group| group.weight.into()).collect();
        let beyond = |ticks: u32| Nanos(conditions.tick.0 * u64::from(ticks) + conditions.tolerance.0);
        let checks_shares = promises.weighted_share.filter(|_| conditions.all_tasks);
        let checks_gangs = promises.corun_percent.filter(|_| conditions.all_tasks);
        let jobs = match promises.gang_by {
            GangsBy::Groups => demands.groups.len(),
            GangsBy::Processes => demands.processes,
        };
        let checks_slices = promises.stint_ticks.filter(|_| conditions.has_queues);
        let mut checker = Checker {
            promises,
            conditions,
            promises_nothing: promises == Promises::default(),
            state: State::new(cpus),
            unserved: Unserved::new(cpus, conditions.tolerance),
            lost: Lost::default(),
            queues: Queues::new(promises.key_order),
            displaced: Displaced::default(),
            shares: checks_shares.map(|promise| Shares::new(cpus, promise, conditions.tick, weights())),
            run_intervals: checks_slices.map(|ticks| RunIntervals::new(cpus, beyond(ticks))),
            preemption: promises.preemption.map(|_| Preemption::new(cpus)),
            loads: (promises != Promises::default()).then(|| Loads::new(cpus)),
            gangs: checks_gangs.map(|percent| Gangs::new(online, percent, promises.gang_settles, jobs)),
            windows: promises.windows.then(Windows::default),
            caps: promises.caps.then(|| Caps::new(&demands, promises.caps_half_life, cpus, conditions.tick)),
            warnings: None,
            demands,
            findings: Findings::default(),
            is_attached: !conditions.has_queues,
            bypassed: false,
            reset_at: None,
        };
        for cpu in CpuSet::first_n(cpus).iter().filter(|cpu| !online.contains(*cpu)) {
            checker.set_offline(Nanos::ZERO, cpu);
        }
        checker
    }

    /// Also looks for what needs no promise to look wrong. `declared` are the promises of the scheduler, checked or not:
    /// what they allow is no warning. Must be called before the first event.
    #[must_use]
    pub fn with_warnings(mut self, declared: Promises) -> Checker {
        let mut warnings = Warnings::new(self.state.cpus().count(), declared);
        for cpu in self.state.cpus().filter(|cpu| !self.state.is_online(*cpu)) {
            warnings.set_idle(Nanos::ZERO, cpu, false);
        }
        self.warnings = Some(warnings);
        self
    }

    /// Ends the run at `end` and returns what was found.
    pub fn finish(mut self, end: Nanos) -> Findings {
        self.close(end);
        for cpu in self.state.cpus() {
            self.check_affinity(end, cpu, self.state.running(cpu));
        }
        self.findings.useless_migrations = self.loads.as_ref().map(Loads::useless_migrations);
        self.findings.not_seen = self.not_seen();
        self.findings
    }

    /// Promised properties that no situation in the run could have violated.
    fn not_seen(&self) -> Vec<Property> {
        let Promises { work_conserving, weighted_share, key_order, preemption, stint_ticks, .. } = self.promises;
        let Promises { corun_percent, windows, caps, .. } = self.promises;
        let eventually = work_conserving == WorkConserving::Eventually;
        let looked = self.loads.as_ref().is_some_and(Loads::has_scanned);
        let ordered = self.queues.has_keys();
        let all = [
            (Property::WorkConserving, eventually && !looked),
            (Property::WeightedSharePercent, weighted_share.is_some() && !self.shares.iter().any(Shares::has_checked)),
            (Property::KeyOrder, key_order && !ordered),
            (Property::PreemptionUs, preemption.is_some() && !ordered),
            (Property::StintTicks, stint_ticks.is_some() && !self.run_intervals.iter().any(RunIntervals::has_checked)),
            (Property::GangCorunPercent, corun_percent.is_some() && !self.gangs.iter().any(Gangs::has_checked)),
            (Property::Windows, windows && !self.windows.iter().any(Windows::has_checked)),
            (Property::Caps, caps && !self.caps.iter().any(Caps::has_checked)),
        ];
        all.into_iter().filter(|(_, unseen)| *unseen).map(|(property, _)| property).collect()
    }

    fn add(
        &mut self,
        property: Property,
        span: (Nanos, Nanos),
        subjects: (Vec<TaskId>, Vec<CpuId>),
        value: u64,
        limit: u64,
    ) {
        let ((from, to), (tasks, cpus)) = (span, subjects);
        self.findings.add(Violation { property, from, to, tasks, cpus, value, limit });
    }

    /// Checks everything that is still in progress, such as waits and run intervals, as if it ended now.
    fn close(&mut self, now: Nanos) {
        self.advance_caps(now);
        if !self.is_responsible() {
            return;
        }
        for stretch in self.unserved.open(now) {
            self.report_stretch(stretch, now);
        }
        for (period, tasks) in self.lost.take() {
            let value = period.to.since(period.from).0;
            let limit = self.conditions.tolerance.0;
            self.add(Property::LostWakeup, (period.from, period.to), (tasks, period.cpus), value, limit);
        }
        let open = self.warnings.as_ref().map(|warnings| warnings.open(now)).unwrap_or_default();
        open.into_iter().for_each(|stretch| self.warn_of_idle(stretch, now));
        self.check_times(now);
        let waiting: Vec<(TaskId, Nanos)> = self.state.waiting().collect();
        for (task, since) in waiting {
            self.waited(task, since, now);
        }
        for cpu in self.state.cpus() {
            self.check_run_interval(now, cpu);
            self.check_shares(now, cpu);
        }
        let waiters = self.preemption.as_ref().map(Preemption::waiters).unwrap_or_default();
        waiters.into_iter().for_each(|task| self.stop_preempting(now, task));
        let miss = self.gangs.as_mut().map(|gangs| gangs.close(now)).unwrap_or_default();
        miss.into_iter().for_each(|miss| self.report_gang(now, miss));
        let missed = self.windows.as_ref().map(|windows| windows.open(now)).unwrap_or_default();
        missed.into_iter().for_each(|(task, missed)| self.report_window(now, task, missed));
        self.check_caps(now);
    }

    fn report_gang(&mut self, now: Nanos, miss: gangs::GangMiss) {
        if self.is_responsible() {
            let gangs::GangMiss { from, tasks, value, limit } = miss;
            self.add(Property::GangCorunPercent, (from, now), (tasks, vec![]), value.0, limit.0);
        }
    }

    fn report_window(&mut self, now: Nanos, task: TaskId, missed: Missed) {
        if self.is_responsible() {
            let Missed { from, late, limit } = missed;
            self.add(Property::Windows, (from, now), (vec![task], vec![]), late.into(), limit.into());
        }
    }

    fn check_caps(&mut self, now: Nanos) {
        let found = self.caps.as_mut().map(|caps| caps.check(now)).unwrap_or_default();
        for crate::caps::Exceeded { from, tasks, value, limit } in found {
            if self.is_responsible() {
                self.add(Property::Caps, (from, now), (tasks, vec![]), value.0, limit.0);
            }
        }
    }

    fn set_offline(&mut self, now: Nanos, cpu: CpuId) {
        self.state.set_online(now, cpu, false);
        self.shares.iter_mut().for_each(|shares| shares.set_online(now, cpu, false));
        self.set_idle(now, cpu, false);
    }

    fn reset(&mut self, now: Nanos) {
        self.reset_at = Some(now);
        let online = self.state.cpus().filter(|cpu| self.state.is_online(*cpu)).count();
        self.shares.iter_mut().for_each(|shares| shares.reset_windows(now));
        self.preemption.iter_mut().for_each(Preemption::forget);
        self.loads.iter_mut().for_each(Loads::reset_scans);
        self.gangs.iter_mut().for_each(|gangs| gangs.reset_windows(now, online));
        self.windows.iter_mut().for_each(Windows::reset_windows);
        self.caps.iter_mut().for_each(|caps| caps.reset_windows(now));
        self.warnings.iter_mut().for_each(|warnings| warnings.reset(now));
    }

    /// Warns of a stretch, unless a promise covers it.
    fn warn_of_idle(&mut self, stretch: Stretch, now: Nanos) {
        let Some(limit) = self.warnings.as_ref().and_then(Warnings::idle_bound) else { return };
        let from = self.counts_from(stretch.since);
        let value = now.since(from);
        if self.is_responsible() && self.promises.work_conserving == WorkConserving::No && value > limit {
            self.add(Property::IdleBesideWaiting, (from, now), (stretch.tasks, stretch.cpus), value.0, limit.0);
        }
    }

    /// Compares the CPU times of steady tasks, at the end of each window, unless a promise covers them.
    fn check_times(&mut self, now: Nanos) {
        let found = self.warnings.as_mut().map(|warnings| warnings.check(now)).unwrap_or_default();
        for Unfit { inverted, from, less, more } in found {
            let property = if inverted { Property::InvertedWeights } else { Property::UnequalTime };
            if self.is_responsible() {
                self.add(property, (from, now), (vec![less.0, more.0], vec![]), less.1.0, more.1.0);
            }
        }
    }

    /// Whether the scheduler, and not the kernel's bypass mode, decides which tasks wait.
    fn is_responsible(&self) -> bool {
        self.is_attached && !self.bypassed
    }

    /// Time from which a stretch that began at `since` counts: not before one tolerance has passed since the last
    /// reset.
    fn counts_from(&self, since: Nanos) -> Nanos {
        self.reset_at.map_or(since, |reset_at| since.max(reset_at + self.conditions.tolerance))
    }

    fn report_stretch(&mut self, stretch: Stretch, now: Nanos) {
        let from = self.counts_from(stretch.since);
        let (value, limit) = (now.since(from).0, self.conditions.tolerance.0);
        if !self.is_responsible() || value <= limit {
            return;
        }
        match stretch.population {
            Population::Waiting if self.promises.work_conserving == WorkConserving::Yes => {
                self.add(Property::WorkConserving, (from, now), (stretch.tasks, stretch.cpus), value, limit);
            }
            Population::Lost if self.conditions.has_queues => self.lost.add(&stretch, from, now),
            _ => {}
        }
    }

    fn waited(&mut self, task: TaskId, since: Nanos, now: Nanos) {
        let warned = self.warnings.as_ref().map(|warnings| (warnings.starvation_bound(task), Property::Starved));
        let promised = self.promises.starvation.map(|bound| (bound, Property::StarvationMs));
        let Some((bound, property)) = promised.or(warned).filter(|_| !self.is_throttled(task)) else { return };
        let throttled_until = self.caps.as_ref().map_or(Nanos::ZERO, |caps| caps.throttled_until(task));
        let value = self.state.waited(task, since, now).min(now.since(since.max(throttled_until)));
        if self.is_responsible() && self.state.must_not_starve(task) && value > bound {
            self.add(property, (since, now), (vec![task], vec![]), value.0, bound.0);
        }
    }

    /// Whether a task waits only because its group is at its cap.
    fn is_throttled(&self, task: TaskId) -> bool {
        self.caps.as_ref().is_some_and(|caps| caps.is_throttled(task))
    }

    /// Advances the caps to `now`: throttled tasks stop waiting for a CPU, tasks that are no longer throttled wait
    /// again.
    fn advance_caps(&mut self, now: Nanos) {
        for change in self.caps.as_mut().map(|caps| caps.advance(now)).unwrap_or_default() {
            match change.is_throttled {
                _ if !self.state.waits(change.task) => {}
                true => self.end_wait_for_cpu(change.at, change.task),
                false => self.wait(change.at, change.task),
            }
        }
        if self.promises.caps_half_life.is_some() {
            self.check_caps(now);
        }
    }

    fn wait(&mut self, now: Nanos, task: TaskId) {
        if !self.state.is_scheduled(task) || self.is_throttled(task) {
            return;
        }
        if self.promises.work_conserving == WorkConserving::Yes {
            self.unserved.wait(now, task, Population::Waiting);
        }
        self.warnings.iter_mut().for_each(|warnings| warnings.wait(now, task));
        // A scheduler puts a preempted task into a queue before the switch.
        if !self.queues.contains(task) {
            self.unserved.wait(now, task, Population::Lost);
        }
        self.run_intervals.iter_mut().for_each(|run_intervals| run_intervals.set_waiting(now, task, true));
    }

    fn stop_waiting(&mut self, now: Nanos, task: TaskId, since: Nanos) {
        self.waited(task, since, now);
        self.end_wait_for_cpu(now, task);
        self.stop_preempting(now, task);
    }

    fn end_wait_for_cpu(&mut self, now: Nanos, task: TaskId) {
        for population in [Population::Waiting, Population::Lost] {
            self.stop_in(now, task, population);
        }
        let stretch = self.warnings.as_mut().and_then(|warnings| warnings.stop_waiting(now, task));
        stretch.into_iter().for_each(|stretch| self.warn_of_idle(stretch, now));
        self.run_intervals.iter_mut().for_each(|run_intervals| run_intervals.set_waiting(now, task, false));
    }

    fn stop_in(&mut self, now: Nanos, task: TaskId, population: Population) {
        if let Some(stretch) = self.unserved.stop_waiting(now, task, population) {
            self.report_stretch(stretch, now);
        }
        if population == Population::Lost {
            self.lost.end(task);
        }
    }

    fn stop_preempting(&mut self, now: Nanos, task: TaskId) {
        if self.promises_nothing {
            return;
        }
        let Some((limit, since)) = self.promises.preemption.zip(self.preemption.as_mut().and_then(|it| it.stop(task)))
        else {
            return;
        };
        let (value, limit) = (now.since(since), limit + self.conditions.tolerance);
        if self.is_responsible() && value > limit {
            self.add(Property::PreemptionUs, (since, now), (vec![task], vec![]), value.0, limit.0);
        }
    }

    fn set_idle(&mut self, now: Nanos, cpu: CpuId, idle: bool) {
        for stretch in self.unserved.set_idle(now, cpu, idle) {
            self.report_stretch(stretch, now);
        }
        let ended = self.warnings.as_mut().map(|warnings| warnings.set_idle(now, cpu, idle)).unwrap_or_default();
        ended.into_iter().for_each(|stretch| self.warn_of_idle(stretch, now));
    }

    /// Checks that the task was not on this CPU for too long after its mask excluded the CPU.
    fn check_affinity(&mut self, now: Nanos, cpu: CpuId, task: TaskId) {
        let Some(task) = task.some() else { return };
        if let Some((since, limit)) = self.state.overstays(task, cpu, now, self.conditions.tick) {
            self.add(Property::Affinity, (since, now), (vec![task], vec![cpu]), now.since(since).0, limit.0);
        }
    }

    /// Checks that the task on this CPU did not keep it beyond its slice.
    fn check_run_interval(&mut self, now: Nanos, cpu: CpuId) {
        if self.promises_nothing {
            return;
        }
        let Some(task) = self.state.running(cpu).some().filter(|task| self.state.is_scheduled(*task)) else { return };
        let Some(interval) = self.run_intervals.as_mut().and_then(|run_intervals| run_intervals.end(now, cpu)) else {
            return;
        };
        let from = self.counts_from(interval.from);
        if self.is_responsible() && now.since(from) > interval.limit {
            self.add(Property::StintTicks, (from, now), (vec![task], vec![cpu]), interval.value.0, interval.limit.0);
        }
    }

    fn check_shares(&mut self, now: Nanos, cpu: CpuId) {
        if self.promises_nothing {
            return;
        }
        let found = self.shares.as_mut().map(|shares| shares.check_cpu(now, cpu)).unwrap_or_default();
        let responsible = self.is_responsible();
        for shares::Unfair { from, tasks, cpus, error, limit } in found.into_iter().filter(|_| responsible) {
            self.add(Property::WeightedSharePercent, (from, now), (tasks, cpus), error.0, limit.0);
        }
    }

    /// Checks the load of all runqueues, once a second.
    fn scan_loads(&mut self, now: Nanos) {
        let (state, tolerance) = (&self.state, self.conditions.tolerance);
        let Some(loads) = self.loads.as_mut().filter(|loads| loads.is_due(now)) else { return };
        let waiting = state.waiting().filter(|(_, since)| now.since(*since) > tolerance);
        let waiting = waiting.map(|(task, _)| (task, state.allowed(task)));
        let found = loads.scan(now, |cpu| state.is_online(cpu), waiting);
        if self.is_responsible() && self.promises.work_conserving == WorkConserving::Eventually {
            for (cpu, since) in found {
                let tasks = self.state.waiting().map(|(task, _)| task).filter(|task| self.state.may_use(*task, cpu));
                let subjects = (tasks.collect(), vec![cpu]);
                self.add(Property::WorkConserving, (since, now), subjects, now.since(since).0, 0);
            }
        }
    }

    fn switch(&mut self, event: &Event, prev: TaskId, reason: SwitchReason) {
        let Event { time, cpu, task, .. } = *event;
        if let Some(task) = self.state.contradiction(cpu, prev, task) {
            self.add(Property::Sanity, (time, time), (vec![task], vec![cpu]), 0, 0);
        }
        self.displace(cpu, task);
        if prev != task {
            self.leave(time, cpu, prev, state::stays_runnable(reason));
            self.take(time, cpu, task);
        }
        self.state.set_running(time, cpu, task, reason == SwitchReason::Change);
        self.set_idle(time, cpu, task == TaskId::NONE);
        self.check_shares(time, cpu);
    }

    /// The waits beside idle CPUs of tasks that lost this CPU to a task of a higher class count from that loss.
    fn displace(&mut self, cpu: CpuId, next: TaskId) {
        let is_higher = next != TaskId::NONE && !self.state.is_scheduled(next);
        for (task, since) in self.displaced.switch(cpu, is_higher) {
            if self.promises.work_conserving == WorkConserving::Yes && self.state.waits(task) {
                self.stop_in(since, task, Population::Waiting);
                self.unserved.wait(since, task, Population::Waiting);
            }
        }
    }

    /// The task `prev` leaves the CPU.
    fn leave(&mut self, now: Nanos, cpu: CpuId, prev: TaskId, still_runnable: bool) {
        if prev == TaskId::NONE {
            return;
        }
        self.check_affinity(now, cpu, prev);
        self.check_run_interval(now, cpu);
        self.set_running(now, prev, false);
        self.gangs.iter_mut().for_each(|gangs| gangs.leave(cpu, prev, still_runnable));
        if self.state.leave(now, prev, still_runnable) {
            self.wait(now, prev);
        }
    }

    /// The task starts to run on the CPU.
    fn take(&mut self, now: Nanos, cpu: CpuId, task: TaskId) {
        if task != TaskId::NONE {
            self.begin(now, cpu, task);
        }
        self.preemption.iter_mut().for_each(|preemption| preemption.run(now, cpu, task));
    }

    fn begin(&mut self, now: Nanos, cpu: CpuId, task: TaskId) {
        self.queues.remove(task);
        if let Some(since) = self.state.run(now, task, cpu) {
            self.stop_waiting(now, task, since);
        }
        if !self.state.may_use(task, cpu) {
            self.add(Property::Affinity, (now, now), (vec![task], vec![cpu]), 0, 0);
        }
        self.run_intervals.iter_mut().for_each(|run_intervals| run_intervals.begin(now, task, cpu));
        self.gangs.iter_mut().for_each(|gangs| gangs.take(cpu, task));
        self.set_running(now, task, true);
        self.loads.iter_mut().for_each(|loads| loads.place(task, cpu));
    }

    /// Passes the start or end of a run interval to the checks that count CPU time.
    fn set_running(&mut self, now: Nanos, task: TaskId, runs: bool) {
        self.warnings.iter_mut().for_each(|warnings| warnings.set_running(now, task, runs));
        if self.promises_nothing {
            return;
        }
        self.shares.iter_mut().for_each(|shares| shares.set_running(now, task, runs));
        self.gangs.iter_mut().for_each(|gangs| gangs.set_running(now, task, runs));
        self.caps.iter_mut().for_each(|caps| caps.set_running(now, task, runs));
    }

    /// Passes a change of runnability to the checks that depend on it.
    fn set_runnable(&mut self, now: Nanos, task: TaskId, runnable: bool) {
        self.warnings.iter_mut().for_each(|warnings| warnings.set_runnable(task, runnable));
        if self.promises_nothing {
            return;
        }
        self.shares.iter_mut().for_each(|shares| shares.set_runnable(now, task, runnable));
        let miss = self.gangs.as_mut().and_then(|gangs| gangs.set_runnable(now, task, runnable));
        miss.into_iter().for_each(|miss| self.report_gang(now, miss));
        let missed = self.windows.as_mut().and_then(|windows| match runnable {
            true => {
                windows.begin(now, task);
                None
            }
            false => windows.end(now, task),
        });
        missed.into_iter().for_each(|missed| self.report_window(now, task, missed));
    }

    fn wake(&mut self, now: Nanos, task: TaskId, target: CpuId) {
        if self.state.wake(now, task) {
            self.wait(now, task);
        }
        self.set_runnable(now, task, true);
        self.loads.iter_mut().for_each(|loads| loads.place(task, target));
    }

    fn block(&mut self, now: Nanos, task: TaskId) {
        self.state.block(now, task);
        self.set_runnable(now, task, false);
        self.loads.iter_mut().for_each(|loads| loads.remove(task));
    }

    /// Inserts a task into a queue; `called` is whether a callback of the scheduler did.
    fn insert(&mut self, now: Nanos, task: TaskId, (dsq, key): (DsqId, u64), slice: Nanos, called: bool) {
        if dsq == DsqId::BYPASS {
            self.bypassed = true;
        } else if called && std::mem::take(&mut self.bypassed) {
            self.reset(now);
        }
        self.queues.insert(dsq, key, task);
        if let Some((since, ran)) = self.warnings.as_mut().and_then(|warnings| warnings.insert(now, task, dsq, key))
            && self.is_responsible()
        {
            self.add(Property::StalledVirtualTime, (since, now), (vec![task], vec![]), ran.0, key);
        }
        self.stop_in(now, task, Population::Lost);
        self.run_intervals.iter_mut().for_each(|run_intervals| run_intervals.set_slice(task, slice));
        self.stop_preempting(now, task);
        if let Some(preemption) = &mut self.preemption {
            let key = (!dsq.is_builtin()).then_some((dsq, key));
            preemption.insert(now, task, key, self.state.has_woken(task), self.state.allowed(task));
        }
    }

    /// Removes a task from its queue for `dsq_move()`, which reports only the destination.
    fn move_out(&mut self, event: &Event, to: DsqId) {
        let matters = self.promises.key_order || self.preemption.is_some();
        if matters && to.is_builtin() && op_name(event.site.op) == Some("dispatch") {
            let from = self.queues.place(event.task).filter(|from| !from.is_builtin());
            from.into_iter().for_each(|from| self.dispatch(event, from, event.cpu));
        }
    }

    fn dispatch(&mut self, event: &Event, from: DsqId, to: CpuId) {
        if from == DsqId::BYPASS {
            self.bypassed = true;
        }
        let taken = self.queues.take(from, event.task);
        self.preemption.iter_mut().for_each(|preemption| preemption.leave(event.task));
        let Some(key) = taken.filter(|_| self.promises.key_order && self.is_responsible() && !from.is_builtin()) else {
            return;
        };
        let state = &self.state;
        if let Some((smaller, passed)) = self.queues.smaller(from, key, |task| state.may_use(task, to)) {
            self.add(Property::KeyOrder, (event.time, event.time), (vec![event.task, passed], vec![to]), key, smaller);
        }
    }

    /// Handles a change of nice value. If the value is the old one, the policy has changed, to which one the event
    /// does not say.
    fn priority(&mut self, now: Nanos, task: TaskId, nice: i8) {
        let known = self.state.set_nice(task, nice);
        self.warnings.iter_mut().for_each(|warnings| warnings.set_nice(task, nice));
        if let Some(shares) = &mut self.shares {
            let weight = known.map(|policy| shares.weight_of(policy, nice)).filter(|_| shares.weight(task).is_some());
            shares.change(now, task, None, weight);
        }
    }
}

impl Sink for Checker {
    fn task(&mut self, time: Nanos, info: &TaskInfo) {
        self.state.announce(time, info);
        self.unserved.announce(time, info.id, &info.allowed);
        self.queues.announce();
        let (ours, demand) = (self.state.is_scheduled(info.id), self.demands.of(&info.name));
        self.warnings.iter_mut().for_each(|warnings| warnings.announce(time, info, ours, demand.group));
        let is_capped = self.promises.caps && demand.group.is_some_and(|group| self.demands.is_capped(group));
        if let Some(shares) = &mut self.shares {
            // The weight does not determine the share of a task in a capped group.
            let weight = (ours && !is_capped).then(|| shares.weight_of(info.policy, info.nice));
            shares.announce(&info.allowed, weight, demand.group);
        }
        let free = ours && !info.kernel_thread;
        let job = match self.promises.gang_by {
            GangsBy::Groups => demand.group,
            GangsBy::Processes => demand.process,
        };
        self.gangs.iter_mut().for_each(|gangs| gangs.announce(job, &info.allowed, free));
        self.windows.iter_mut().for_each(|windows| windows.announce(demand.window));
        self.caps.iter_mut().for_each(|caps| caps.announce(info.id, demand.group.filter(|_| ours)));
        self.run_intervals.iter_mut().for_each(|run_intervals| run_intervals.announce(&info.allowed));
        self.preemption.iter_mut().for_each(Preemption::announce);
        self.loads.iter_mut().for_each(Loads::announce);
    }

    /// Handles a new task name. In a real run a task has its parent's name until it sets its own. Shares and jobs,
    /// which only the model checks since it shows all tasks, use the first name.
    fn renamed(&mut self, time: Nanos, task: TaskId, name: &str) {
        let demand = self.demands.of(name);
        let (runs, ours) = (self.state.runs(task), self.state.is_scheduled(task));
        self.windows.iter_mut().for_each(|windows| windows.rename(task, demand.window));
        self.caps.iter_mut().for_each(|caps| caps.rename(time, task, demand.group.filter(|_| ours), runs));
    }

    fn affinity(&mut self, time: Nanos, task: TaskId, allowed: &CpuSet) {
        self.reset(time);
        self.state.set_allowed(time, task, allowed);
        for stretch in self.unserved.set_allowed(time, task, allowed) {
            self.report_stretch(stretch, time);
        }
        let ended = self.warnings.as_mut().map(|warnings| warnings.set_allowed(time, task, allowed));
        ended.into_iter().flatten().for_each(|stretch| self.warn_of_idle(stretch, time));
        self.run_intervals.iter_mut().for_each(|run_intervals| run_intervals.set_allowed(time, task, allowed));
        self.gangs.iter_mut().for_each(|gangs| gangs.set_allowed(task, allowed));
        if let Some(shares) = &mut self.shares {
            shares.change(time, task, Some(allowed), shares.weight(task));
        }
    }

    fn event(&mut self, event: &Event) {
        let Event { time, cpu, task, .. } = *event;
        self.advance_caps(time);
        self.scan_loads(time);
        match event.kind {
            EventKind::Wakeup { target, .. } => self.wake(time, task, target),
            EventKind::Block { .. } | EventKind::Exit => self.block(time, task),
            EventKind::Switch { prev, reason } => self.switch(event, prev, reason),
            EventKind::Idle { entered } => self.set_idle(time, cpu, entered),
            EventKind::Insert { dsq, key, slice_ns } => {
                self.move_out(event, dsq);
                if op_name(event.site.op) == Some("enqueue") && !self.promises_nothing {
                    self.displaced.enqueue(time, cpu, task, self.queues.place(task));
                }
                self.insert(time, task, (dsq, key), Nanos(slice_ns), event.site.op != 0);
            }
            EventKind::Dispatch { from, to } => self.dispatch(event, from, to),
            EventKind::Migrate { to, .. } => {
                self.loads.iter_mut().for_each(|loads| loads.migrate(task, to));
            }
            EventKind::Priority { nice } => self.priority(time, task, nice),
            EventKind::Tick => {
                self.check_shares(time, cpu);
                self.check_caps(time);
                self.check_times(time);
            }
            EventKind::Hotplug { online } => {
                self.reset(time);
                match online {
                    true => {
                        self.state.set_online(time, cpu, true);
                        self.shares.iter_mut().for_each(|shares| shares.set_online(time, cpu, true));
                    }
                    false => {
                        self.set_offline(time, cpu);
                        self.findings.discard_while_going_offline(cpu, self.state.left_at(cpu));
                    }
                }
            }
            EventKind::Attached => {
                self.reset(time);
                self.caps.iter_mut().for_each(Caps::forget);
                (self.is_attached, self.bypassed) = (true, false);
            }
            EventKind::Disabled { .. } => {
                self.close(time);
                self.reset(time);
                self.is_attached = false;
            }
            _ => {}
        }
    }
}
