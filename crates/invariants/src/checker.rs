// SPDX-License-Identifier: GPL-2.0-only
//! The sink that checks a run while it passes.

use crate::caps::Caps;
use crate::demands::Demands;
use crate::findings::{Findings, Property, Violation};
use crate::gangs::Gangs;
use crate::loads::Loads;
use crate::preemption::Preemption;
use crate::promises::{Conditions, GangsBy, Promises, WorkConserving};
use crate::queues::Queues;
use crate::shares::Shares;
use crate::state::{self, State};
use crate::stints::Stints;
use crate::unserved::{Population, Stretch, Unserved};
use crate::windows::{Missed, Windows};
use crate::{gangs, shares};
use event_log::{Event, EventKind, Sink, SwitchReason, TaskInfo, op_name};
use ids::{CpuId, CpuSet, DsqId, Nanos, TaskId};

/// The sink that checks a run while it passes. Memory grows with tasks, CPUs and masks, never with time.
#[derive(Debug)]
pub struct Checker {
    promises: Promises,
    conditions: Conditions,
    /// Whether nothing is promised: what every run owes costs every run something.
    plain: bool,
    state: State,
    unserved: Unserved,
    queues: Queues,
    /// These only where they are promised.
    shares: Option<Shares>,
    stints: Option<Stints>,
    preemption: Option<Preemption>,
    loads: Option<Loads>,
    gangs: Option<Gangs>,
    windows: Option<Windows>,
    caps: Option<Caps>,
    demands: Demands,
    findings: Findings,
    /// Whether the scheduler has the tasks: what it promises counts only then.
    in_charge: bool,
    /// Whether the kernel does its work meanwhile, as it does while a scheduler is unloaded.
    bypassed: bool,
    /// When things changed last that nobody can follow at once.
    disturbed: Option<Nanos>,
}

impl Checker {
    /// For a machine of so many CPUs, of which those that are online idle, and without tasks. Useless migrations are counted
    /// if something is promised. `demands` is what the workload says of its tasks.
    pub fn new(cpus: usize, online: &CpuSet, promises: Promises, conditions: Conditions, demands: Demands) -> Checker {
        let weights = || demands.groups.iter().map(|group| group.weight.into()).collect();
        let beyond = |ticks: u32| Nanos(conditions.tick.0 * u64::from(ticks) + conditions.tolerance.0);
        let sees_shares = promises.weighted_share.filter(|_| conditions.all_tasks);
        let sees_gangs = promises.corun_percent.filter(|_| conditions.all_tasks);
        let jobs = match promises.gang_by {
            GangsBy::Groups => demands.groups.len(),
            GangsBy::Processes => demands.processes,
        };
        let sees_slices = promises.stint_ticks.filter(|_| conditions.has_queues);
        let mut checker = Checker {
            promises,
            conditions,
            plain: promises == Promises::default(),
            state: State::new(cpus),
            unserved: Unserved::new(cpus, conditions.tolerance),
            queues: Queues::new(promises.key_order),
            shares: sees_shares.map(|promise| Shares::new(cpus, promise, conditions.tick, weights())),
            stints: sees_slices.map(|ticks| Stints::new(cpus, beyond(ticks))),
            preemption: promises.preemption.map(|_| Preemption::new(cpus)),
            loads: (promises != Promises::default()).then(|| Loads::new(cpus)),
            gangs: sees_gangs.map(|percent| Gangs::new(online, percent, promises.gang_settles, jobs)),
            windows: promises.windows.then(Windows::default),
            caps: promises.caps.then(|| Caps::new(&demands, promises.caps_half_life, cpus, conditions.tick)),
            demands,
            findings: Findings::default(),
            in_charge: !conditions.has_queues,
            bypassed: false,
            disturbed: None,
        };
        for cpu in CpuSet::first_n(cpus).iter().filter(|cpu| !online.contains(*cpu)) {
            checker.take_away(Nanos::ZERO, cpu);
        }
        checker
    }

    /// What was found until the run ended.
    pub fn finish(mut self, end: Nanos) -> Findings {
        self.close(end);
        for cpu in self.state.cpus() {
            self.judge_place(end, cpu, self.state.running(cpu));
        }
        self.findings.useless_migrations = self.loads.as_ref().map(Loads::useless_migrations);
        self.findings.not_seen = self.not_seen();
        self.findings
    }

    /// What was promised, and nothing could have shown to be broken.
    fn not_seen(&self) -> Vec<Property> {
        let Promises { work_conserving, weighted_share, key_order, preemption, stint_ticks, .. } = self.promises;
        let Promises { corun_percent, windows, caps, .. } = self.promises;
        let eventually = work_conserving == WorkConserving::Eventually;
        let looked = self.loads.as_ref().is_some_and(Loads::has_looked);
        let ordered = self.queues.has_keys();
        let all = [
            (Property::WorkConserving, eventually && !looked),
            (Property::WeightedSharePercent, weighted_share.is_some() && !self.shares.iter().any(Shares::has_judged)),
            (Property::KeyOrder, key_order && !ordered),
            (Property::PreemptionUs, preemption.is_some() && !ordered),
            (Property::StintTicks, stint_ticks.is_some() && !self.stints.iter().any(Stints::has_judged)),
            (Property::GangCorunPercent, corun_percent.is_some() && !self.gangs.iter().any(Gangs::has_judged)),
            (Property::Windows, windows && !self.windows.iter().any(Windows::has_judged)),
            (Property::Caps, caps && !self.caps.iter().any(Caps::has_judged)),
        ];
        all.into_iter().filter(|(_, unseen)| *unseen).map(|(property, _)| property).collect()
    }

    fn add(
        &mut self,
        property: Property,
        span: (Nanos, Nanos),
        who: (Vec<TaskId>, Vec<CpuId>),
        value: u64,
        limit: u64,
    ) {
        let ((from, to), (tasks, cpus)) = (span, who);
        self.findings.add(Violation { property, from, to, tasks, cpus, value, limit });
    }

    /// All that still waits has waited until now, and who runs has run until now.
    fn close(&mut self, now: Nanos) {
        self.pass(now);
        if !self.is_responsible() {
            return;
        }
        for stretch in self.unserved.open(now) {
            self.judge(stretch, now);
        }
        let waiting: Vec<(TaskId, Nanos)> = self.state.waiting().collect();
        for (task, since) in waiting {
            self.waited(task, since, now);
        }
        for cpu in self.state.cpus() {
            self.judge_stay(now, cpu);
            self.look_at_shares(now, cpu);
        }
        let waiters = self.preemption.as_ref().map(Preemption::waiters).unwrap_or_default();
        waiters.into_iter().for_each(|task| self.stop_preempting(now, task));
        let apart = self.gangs.as_mut().map(|gangs| gangs.close(now)).unwrap_or_default();
        apart.into_iter().for_each(|apart| self.judge_gang(now, apart));
        let missed = self.windows.as_ref().map(|windows| windows.open(now)).unwrap_or_default();
        missed.into_iter().for_each(|(task, missed)| self.judge_window(now, task, missed));
        self.look_at_caps(now);
    }

    fn judge_gang(&mut self, now: Nanos, apart: gangs::Apart) {
        if self.is_responsible() {
            let gangs::Apart { from, tasks, value, limit } = apart;
            self.add(Property::GangCorunPercent, (from, now), (tasks, vec![]), value.0, limit.0);
        }
    }

    fn judge_window(&mut self, now: Nanos, task: TaskId, missed: Missed) {
        if self.is_responsible() {
            let Missed { from, late, limit } = missed;
            self.add(Property::Windows, (from, now), (vec![task], vec![]), late.into(), limit.into());
        }
    }

    fn look_at_caps(&mut self, now: Nanos) {
        let found = self.caps.as_mut().map(|caps| caps.look(now)).unwrap_or_default();
        for crate::caps::Exceeded { from, tasks, value, limit } in found {
            if self.is_responsible() {
                self.add(Property::Caps, (from, now), (tasks, vec![]), value.0, limit.0);
            }
        }
    }

    fn take_away(&mut self, now: Nanos, cpu: CpuId) {
        self.state.set_online(now, cpu, false);
        self.shares.iter_mut().for_each(|shares| shares.set_online(now, cpu, false));
        self.set_idle(now, cpu, false);
    }

    fn disturb(&mut self, now: Nanos) {
        self.disturbed = Some(now);
        let online = self.state.cpus().filter(|cpu| self.state.is_online(*cpu)).count();
        self.shares.iter_mut().for_each(|shares| shares.disturb(now));
        self.preemption.iter_mut().for_each(Preemption::forget);
        self.loads.iter_mut().for_each(Loads::forget_looks);
        self.gangs.iter_mut().for_each(|gangs| gangs.disturb(now, online));
        self.windows.iter_mut().for_each(Windows::disturb);
        self.caps.iter_mut().for_each(|caps| caps.disturb(now));
    }

    /// Whether it is the scheduler that lets tasks wait.
    fn is_responsible(&self) -> bool {
        self.in_charge && !self.bypassed
    }

    /// From when on a stretch counts that began then.
    fn counts_from(&self, since: Nanos) -> Nanos {
        self.disturbed.map_or(since, |disturbed| since.max(disturbed + self.conditions.tolerance))
    }

    fn judge(&mut self, stretch: Stretch, now: Nanos) {
        let property = match stretch.population {
            Population::Waiting if self.promises.work_conserving == WorkConserving::Yes => Property::WorkConserving,
            Population::Lost if self.conditions.has_queues => Property::LostWakeup,
            _ => return,
        };
        let from = self.counts_from(stretch.since);
        let (value, limit) = (now.since(from).0, self.conditions.tolerance.0);
        if self.is_responsible() && value > limit {
            self.add(property, (from, now), (stretch.tasks, stretch.cpus), value, limit);
        }
    }

    fn waited(&mut self, task: TaskId, since: Nanos, now: Nanos) {
        let Some(bound) = self.promises.starvation.filter(|_| !self.is_held(task)) else { return };
        let held_until = self.caps.as_ref().map_or(Nanos::ZERO, |caps| caps.held_until(task));
        let value = self.state.waited(task, since, now).min(now.since(since.max(held_until)));
        if self.is_responsible() && self.state.must_not_starve(task) && value > bound {
            self.add(Property::StarvationMs, (since, now), (vec![task], vec![]), value.0, bound.0);
        }
    }

    /// Whether a task waits for nobody but its group, which has had its cap.
    fn is_held(&self, task: TaskId) -> bool {
        self.caps.as_ref().is_some_and(|caps| caps.is_held(task))
    }

    /// Tasks whose groups came to their caps no longer wait for a CPU, and those whose groups have come down do.
    fn pass(&mut self, now: Nanos) {
        for turn in self.caps.as_mut().map(|caps| caps.pass(now)).unwrap_or_default() {
            match turn.is_held {
                _ if !self.state.waits(turn.task) => {}
                true => self.stop_asking(turn.at, turn.task),
                false => self.wait(turn.at, turn.task),
            }
        }
        if self.promises.caps_half_life.is_some() {
            self.look_at_caps(now);
        }
    }

    fn wait(&mut self, now: Nanos, task: TaskId) {
        if !self.state.is_scheduled(task) || self.is_held(task) {
            return;
        }
        if self.promises.work_conserving == WorkConserving::Yes {
            self.unserved.wait(now, task, Population::Waiting);
        }
        // A scheduler puts a task that loses its CPU into a queue before the switch.
        if !self.queues.contains(task) {
            self.unserved.wait(now, task, Population::Lost);
        }
        self.stints.iter_mut().for_each(|stints| stints.set_waiting(now, task, true));
    }

    fn stop_waiting(&mut self, now: Nanos, task: TaskId, since: Nanos) {
        self.waited(task, since, now);
        self.stop_asking(now, task);
        self.stop_preempting(now, task);
    }

    fn stop_asking(&mut self, now: Nanos, task: TaskId) {
        for population in [Population::Waiting, Population::Lost] {
            self.stop_in(now, task, population);
        }
        self.stints.iter_mut().for_each(|stints| stints.set_waiting(now, task, false));
    }

    fn stop_in(&mut self, now: Nanos, task: TaskId, population: Population) {
        if let Some(stretch) = self.unserved.stop_waiting(now, task, population) {
            self.judge(stretch, now);
        }
    }

    fn stop_preempting(&mut self, now: Nanos, task: TaskId) {
        if self.plain {
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
            self.judge(stretch, now);
        }
    }

    /// Whether the task stayed on this CPU for too long after it lost the right to it.
    fn judge_place(&mut self, now: Nanos, cpu: CpuId, task: TaskId) {
        let Some(task) = task.some() else { return };
        if let Some((since, limit)) = self.state.overstays(task, cpu, now, self.conditions.tick) {
            self.add(Property::Affinity, (since, now), (vec![task], vec![cpu]), now.since(since).0, limit.0);
        }
    }

    /// Whether the one that has this CPU kept it for too long.
    fn judge_stay(&mut self, now: Nanos, cpu: CpuId) {
        if self.plain {
            return;
        }
        let Some(task) = self.state.running(cpu).some().filter(|task| self.state.is_scheduled(*task)) else { return };
        let Some(stay) = self.stints.as_mut().and_then(|stints| stints.end(now, cpu)) else { return };
        let from = self.counts_from(stay.from);
        if self.is_responsible() && now.since(from) > stay.limit {
            self.add(Property::StintTicks, (from, now), (vec![task], vec![cpu]), stay.value.0, stay.limit.0);
        }
    }

    fn look_at_shares(&mut self, now: Nanos, cpu: CpuId) {
        if self.plain {
            return;
        }
        let found = self.shares.as_mut().map(|shares| shares.look(now, cpu)).unwrap_or_default();
        let responsible = self.is_responsible();
        for shares::Unfair { from, tasks, cpus, error, limit } in found.into_iter().filter(|_| responsible) {
            self.add(Property::WeightedSharePercent, (from, now), (tasks, cpus), error.0, limit.0);
        }
    }

    /// The check of each second.
    fn look_at_loads(&mut self, now: Nanos) {
        let (state, tolerance) = (&self.state, self.conditions.tolerance);
        let Some(loads) = self.loads.as_mut().filter(|loads| loads.is_due(now)) else { return };
        let waiting = state.waiting().filter(|(_, since)| now.since(*since) > tolerance);
        let waiting = waiting.map(|(task, _)| (task, state.allowed(task)));
        let found = loads.look(now, |cpu| state.is_online(cpu), waiting);
        if self.is_responsible() && self.promises.work_conserving == WorkConserving::Eventually {
            for (cpu, since) in found {
                let tasks = self.state.waiting().map(|(task, _)| task).filter(|task| self.state.may_use(*task, cpu));
                let who = (tasks.collect(), vec![cpu]);
                self.add(Property::WorkConserving, (since, now), who, now.since(since).0, 0);
            }
        }
    }

    fn switch(&mut self, event: &Event, prev: TaskId, reason: SwitchReason) {
        let Event { time, cpu, task, .. } = *event;
        if let Some(who) = self.state.contradiction(cpu, prev, task) {
            self.add(Property::Sanity, (time, time), (vec![who], vec![cpu]), 0, 0);
        }
        if prev != task {
            self.leave(time, cpu, prev, state::stays_runnable(reason));
            self.take(time, cpu, task);
        }
        self.state.set_running(time, cpu, task, reason == SwitchReason::Change);
        self.set_idle(time, cpu, task == TaskId::NONE);
        self.look_at_shares(time, cpu);
    }

    /// Who had the CPU leaves it.
    fn leave(&mut self, now: Nanos, cpu: CpuId, prev: TaskId, still_runnable: bool) {
        if prev == TaskId::NONE {
            return;
        }
        self.judge_place(now, cpu, prev);
        self.judge_stay(now, cpu);
        self.set_running(now, prev, false);
        self.gangs.iter_mut().for_each(|gangs| gangs.leave(cpu, prev, still_runnable));
        if self.state.leave(now, prev, still_runnable) {
            self.wait(now, prev);
        }
    }

    /// Who comes takes it.
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
        self.stints.iter_mut().for_each(|stints| stints.begin(now, task, cpu));
        self.gangs.iter_mut().for_each(|gangs| gangs.take(cpu, task));
        self.set_running(now, task, true);
        self.loads.iter_mut().for_each(|loads| loads.place(task, cpu));
    }

    /// What counts CPU time.
    fn set_running(&mut self, now: Nanos, task: TaskId, runs: bool) {
        if self.plain {
            return;
        }
        self.shares.iter_mut().for_each(|shares| shares.set_running(now, task, runs));
        self.gangs.iter_mut().for_each(|gangs| gangs.set_running(now, task, runs));
        self.caps.iter_mut().for_each(|caps| caps.set_running(now, task, runs));
    }

    /// What counts who could run.
    fn set_runnable(&mut self, now: Nanos, task: TaskId, runnable: bool) {
        if self.plain {
            return;
        }
        self.shares.iter_mut().for_each(|shares| shares.set_runnable(now, task, runnable));
        let apart = self.gangs.as_mut().and_then(|gangs| gangs.set_runnable(now, task, runnable));
        apart.into_iter().for_each(|apart| self.judge_gang(now, apart));
        let missed = self.windows.as_mut().and_then(|windows| match runnable {
            true => {
                windows.begin(now, task);
                None
            }
            false => windows.end(now, task),
        });
        missed.into_iter().for_each(|missed| self.judge_window(now, task, missed));
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

    /// A task goes into a queue; `called`: because the scheduler said so.
    fn insert(&mut self, now: Nanos, task: TaskId, (dsq, key): (DsqId, u64), slice: Nanos, called: bool) {
        if dsq == DsqId::BYPASS {
            self.bypassed = true;
        } else if called && std::mem::take(&mut self.bypassed) {
            self.disturb(now);
        }
        self.queues.insert(dsq, key, task);
        self.stop_in(now, task, Population::Lost);
        self.stints.iter_mut().for_each(|stints| stints.set_slice(task, slice));
        self.stop_preempting(now, task);
        if let Some(preemption) = &mut self.preemption {
            let key = (!dsq.is_builtin()).then_some((dsq, key));
            preemption.insert(now, task, key, self.state.has_woken(task), self.state.allowed(task));
        }
    }

    /// `dsq_move()` takes a task out of a queue and says only where it goes.
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

    /// A nice value that is what it was: the policy is another one, and nobody says which.
    fn priority(&mut self, now: Nanos, task: TaskId, nice: i8) {
        let known = self.state.set_nice(task, nice);
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
        let is_capped = self.promises.caps && demand.group.is_some_and(|group| self.demands.is_capped(group));
        if let Some(shares) = &mut self.shares {
            // What is due to tasks of a group with a cap, weights do not say.
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
        self.stints.iter_mut().for_each(|stints| stints.announce(&info.allowed));
        self.preemption.iter_mut().for_each(Preemption::announce);
        self.loads.iter_mut().for_each(Loads::announce);
    }

    /// In a real run a thread has its parent's name until it gives itself its own. Whose shares and jobs are judged (in the
    /// model alone, which shows all tasks) is told with the first name.
    fn renamed(&mut self, time: Nanos, task: TaskId, name: &str) {
        let demand = self.demands.of(name);
        let (runs, ours) = (self.state.runs(task), self.state.is_scheduled(task));
        self.windows.iter_mut().for_each(|windows| windows.rename(task, demand.window));
        self.caps.iter_mut().for_each(|caps| caps.rename(time, task, demand.group.filter(|_| ours), runs));
    }

    fn affinity(&mut self, time: Nanos, task: TaskId, allowed: &CpuSet) {
        self.disturb(time);
        self.state.set_allowed(time, task, allowed);
        for stretch in self.unserved.set_allowed(time, task, allowed) {
            self.judge(stretch, time);
        }
        self.stints.iter_mut().for_each(|stints| stints.set_allowed(time, task, allowed));
        self.gangs.iter_mut().for_each(|gangs| gangs.set_allowed(task, allowed));
        if let Some(shares) = &mut self.shares {
            shares.change(time, task, Some(allowed), shares.weight(task));
        }
    }

    fn event(&mut self, event: &Event) {
        let Event { time, cpu, task, .. } = *event;
        self.pass(time);
        self.look_at_loads(time);
        match event.kind {
            EventKind::Wakeup { target, .. } => self.wake(time, task, target),
            EventKind::Block { .. } | EventKind::Exit => self.block(time, task),
            EventKind::Switch { prev, reason } => self.switch(event, prev, reason),
            EventKind::Idle { entered } => self.set_idle(time, cpu, entered),
            EventKind::Insert { dsq, key, slice_ns } => {
                self.move_out(event, dsq);
                self.insert(time, task, (dsq, key), Nanos(slice_ns), event.site.op != 0);
            }
            EventKind::Dispatch { from, to } => self.dispatch(event, from, to),
            EventKind::Migrate { to, .. } => {
                self.loads.iter_mut().for_each(|loads| loads.migrate(task, to));
            }
            EventKind::Priority { nice } => self.priority(time, task, nice),
            EventKind::Tick => {
                self.look_at_shares(time, cpu);
                self.look_at_caps(time);
            }
            EventKind::Hotplug { online } => {
                self.disturb(time);
                match online {
                    true => {
                        self.state.set_online(time, cpu, true);
                        self.shares.iter_mut().for_each(|shares| shares.set_online(time, cpu, true));
                    }
                    false => {
                        self.take_away(time, cpu);
                        self.findings.forgive(cpu, self.state.left_at(cpu));
                    }
                }
            }
            EventKind::Attached => {
                self.disturb(time);
                self.caps.iter_mut().for_each(Caps::forget);
                (self.in_charge, self.bypassed) = (true, false);
            }
            EventKind::Disabled { .. } => {
                self.close(time);
                self.disturb(time);
                self.in_charge = false;
            }
            _ => {}
        }
    }
}
