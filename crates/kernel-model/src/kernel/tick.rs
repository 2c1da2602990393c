// SPDX-License-Identifier: GPL-2.0-only
//! Timers: the tick, the watchdog, and the scheduler's own (contract T4, W1).

use super::pick::SERVER_DELAY;
use super::{Kernel, Stage};
use crate::TimerKey;
use crate::core::dsq::QueueRef;
use crate::core::task::Class;
use crate::core::{DirectDispatch, exit_kind};
use crate::ops::Op;
use event_log::EventKind;
use ids::{CpuId, Nanos, TaskId};

/// Period of the balancer of the bypass queues (contract B1).
pub(super) const BYPASS_BALANCE_PERIOD: Nanos = Nanos::from_ms(500);

impl Kernel {
    /// The timer interrupt of `cpu` (`sched_tick`).
    pub fn tick(&mut self, cpu: CpuId) {
        self.core.this_cpu = cpu;
        self.update_current(cpu);
        self.check_watchdog();
        let current = self.core.current(cpu);
        if let Some(task) = current.some() {
            self.core.log(task, EventKind::Tick);
            match self.core.task(task).class {
                Class::Ext => self.tick_ext(cpu, task),
                _ => self.tick_higher(cpu),
            }
        }
        self.finish();
    }

    /// `task_tick_scx`; while bypassed every tick rotates (contract B1).
    fn tick_ext(&mut self, cpu: CpuId, task: TaskId) {
        if self.core.bypassing() {
            self.core.objects.set_slice(&mut self.machine.memory, task, 0);
        } else {
            self.call_task(Op::Tick, task, 0);
        }
        let rq = &self.core.cpus[cpu.index()];
        let served = !rq.higher.is_empty() && self.core.now >= rq.server_until;
        if served || self.core.objects.slice(&self.machine.memory, task) == 0 {
            self.core.resched(cpu);
        }
    }

    /// A higher class goes on unless its turn is over, or the deadline server has work to do.
    fn tick_higher(&mut self, cpu: CpuId) {
        self.note_starvation(cpu, true);
        let rq = &self.core.cpus[cpu.index()];
        let starved = rq.starved_since.is_some_and(|since| self.core.now.since(since) >= SERVER_DELAY);
        if rq.preempted || starved {
            self.core.resched(cpu);
        }
    }

    /// Whether a tick of `cpu` at any time before `until` could do nothing but account time: drivers may then skip it.
    /// False answers are always safe.
    pub fn tick_is_idle_until(&self, cpu: CpuId, until: Nanos) -> bool {
        let Some(task) = self.core.current(cpu).some() else { return self.watchdog_quiet_until(until) };
        if self.core.task(task).class != Class::Ext
            || self.core.bypassing()
            || self.has(Op::Tick)
            || !self.core.cpus[cpu.index()].higher.is_empty()
        {
            return false;
        }
        let slice = self.core.objects.slice(&self.machine.memory, task);
        let spent = until.since(self.core.cpus[cpu.index()].exec_start).0;
        slice > spent && self.watchdog_quiet_until(until)
    }

    fn watchdog_quiet_until(&self, until: Nanos) -> bool {
        let Some(scheduler) = &self.scheduler else { return true };
        self.stage != Stage::Enabled || until <= self.watchdog_checked + scheduler.timeout
    }

    /// The tick looks whether the watchdog's work itself is done in time (contract W1).
    fn check_watchdog(&mut self) {
        let Some(scheduler) = self.scheduler.as_ref().filter(|_| self.stage == Stage::Enabled) else { return };
        let late = self.core.jiffies_now().since(self.watchdog_checked);
        if late > scheduler.timeout {
            let message = format!("watchdog failed to check in for {}", seconds(late));
            self.core.error(exit_kind::ERROR_STALL, 0, message);
        }
    }

    /// The watchdog's work, done by its kworker as current task of `cpu`: looks for stalled tasks, arms the timer anew.
    pub fn watchdog_work(&mut self, cpu: CpuId) {
        self.core.this_cpu = cpu;
        if self.stage == Stage::Enabled {
            self.watchdog_checked = self.core.jiffies_now();
            self.find_stalled();
            self.arm_watchdog(cpu);
        }
        self.finish();
    }

    pub(super) fn arm_watchdog(&mut self, cpu: CpuId) {
        let timeout = self.scheduler.as_ref().expect("a scheduler is watched").timeout;
        self.arm(TimerKey::Watchdog, cpu, self.core.now + Nanos(timeout.0 / 2));
    }

    /// Arms a timer through the driver.
    pub(super) fn arm(&mut self, timer: TimerKey, cpu: CpuId, at: Nanos) {
        self.core.armed.insert(timer);
        self.core.output.effects.push(crate::Effect::ArmTimer { timer, cpu, at });
    }

    /// A task that is runnable for longer than the timeout without having run is a stall.
    fn find_stalled(&mut self) {
        let timeout = self.scheduler.as_ref().expect("a scheduler is watched").timeout;
        let now = self.core.jiffies_now();
        for cpu in 0..self.core.cpus() {
            for task in self.core.runnable_on(CpuId(cpu)) {
                let waited = now.since(self.core.task(task).runnable_at);
                if self.core.task(task).queued && waited > timeout {
                    let message = format!("{} failed to run for {}", self.core.name_of(task), seconds(waited));
                    self.core.error(exit_kind::ERROR_STALL, 0, message);
                    return;
                }
            }
        }
    }

    /// A timer that an effect armed has fired on `cpu`.
    pub fn timer(&mut self, cpu: CpuId, timer: TimerKey) {
        self.core.this_cpu = cpu;
        if self.core.armed.remove(&timer) {
            match timer {
                TimerKey::Bpf(timer) => {
                    if let Some((function, args)) = self.machine.timer_callback(timer) {
                        self.execute(Op::Timer, function, &args, DirectDispatch::Off);
                        self.report_custody();
                    }
                }
                TimerKey::Watchdog => {
                    let worker = self.watchdog_worker;
                    if worker != TaskId::NONE {
                        self.wake(cpu, worker, event_log::Waker::Timer, false);
                    }
                }
                TimerKey::BypassBalance => self.balance_bypass(cpu),
            }
        }
        self.finish();
    }

    /// While bypassed, idle CPUs get tasks from the longest bypass queue of their node.
    fn balance_bypass(&mut self, cpu: CpuId) {
        if !self.core.bypassing() {
            return;
        }
        for target in (0..self.core.cpus()).map(CpuId) {
            if self.core.current(target) != TaskId::NONE || !self.core.cpus[target.index()].online {
                continue;
            }
            let longest = (0..self.core.cpus())
                .map(CpuId)
                .max_by_key(|&donor| (self.core.cpus[donor.index()].bypass.len(), std::cmp::Reverse(donor)));
            let donor = longest.expect("a machine has CPUs");
            let waiting = self.core.cpus[donor.index()].bypass.iter();
            let movable = waiting.map(|(_, task)| task).find(|&task| self.core.task(task).allowed.contains(target));
            if let Some(task) = movable {
                self.core.dequeue_from(task);
                self.core.migrate(task, target);
                self.core.enqueue_to(&mut self.machine.memory, task, QueueRef::Bypass(target), None, 0, 0);
                self.core.resched(target);
            }
        }
        self.arm(TimerKey::BypassBalance, cpu, self.core.now + BYPASS_BALANCE_PERIOD);
    }
}

/// `S.mmm s`, as the kernel prints durations of stalls.
fn seconds(duration: Nanos) -> String {
    let ms = duration.0 / 1_000_000;
    format!("{}.{:03}s", ms / 1_000, ms % 1_000)
}
