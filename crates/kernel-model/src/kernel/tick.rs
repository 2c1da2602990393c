// SPDX-License-Identifier: GPL-2.0-only
//! Timers: the tick, the slice timer of the fair class, the watchdog, and BPF timers (contract T4, W1).

use super::{Kernel, Stage};
use crate::TimerKey;
use crate::core::deadline::server::Served;
use crate::core::task::Class;
use crate::core::{Running, exit_kind};
use crate::guest::jiffies;
use crate::ops::Op;
use event_log::EventKind;
use ids::{CpuId, Nanos, TaskId};
use two_forms::two_forms;

#[two_forms]
impl Kernel {
    /// The tick of `cpu` (`sched_tick`).
    pub async fn tick(&mut self, cpu: CpuId) {
        self.core.context.cpu = cpu;
        self.begin_locked(cpu, "tick").await;
        self.update_current(cpu);
        self.core.fair_update_weights(cpu, None);
        let current = self.core.current(cpu);
        if let Some(task) = current.some() {
            self.core.log(task, EventKind::Tick);
            match self.core.task(task).class {
                Class::Ext => self.tick_ext(cpu, task).await,
                _ => self.tick_higher(cpu, task),
            }
        }
        self.unlock().await;
        for task in self.core.fair_balance(cpu) {
            self.preempt_lower(task, false);
        }
        self.check_watchdog();
        self.finish().await;
    }

    /// `task_tick_scx`; in bypass mode every tick ends the slice (contract B1).
    async fn tick_ext(&mut self, cpu: CpuId, task: TaskId) {
        if self.core.bypassing() {
            self.core.objects.set_slice(&mut self.machine.memory, task, 0);
        } else {
            self.call_task(Op::Tick, task, 0).await;
        }
        let rq = &self.core.cpus[cpu.index()];
        let over = !rq.higher.is_empty() && !rq.servers.is_queued(Served::Ext);
        if over || self.core.objects.slice(&self.machine.memory, task) == 0 {
            self.core.resched(cpu);
        }
    }

    /// A task of a higher class keeps running unless its slice is over or ext tasks are due for the deadline server.
    fn tick_higher(&mut self, cpu: CpuId, task: TaskId) {
        let over = self.core.higher_tick(task);
        let starved = self.core.servers_tick(cpu, self.core.task(task).class);
        let rq = &mut self.core.cpus[cpu.index()];
        rq.preempted |= over;
        if rq.preempted || starved {
            self.core.resched(cpu);
        }
    }

    /// `hrtick`: ends the slice of a fair task. If another class runs by now, that class gets a tick.
    async fn hrtick(&mut self, cpu: CpuId) {
        self.begin_locked(cpu, "hrtick").await;
        self.core.hrtick_fired(cpu);
        self.update_current(cpu);
        if let Some(task) = self.core.current(cpu).some() {
            match self.core.task(task).class {
                Class::Ext => self.tick_ext(cpu, task).await,
                Class::Deadline => {
                    self.tick_higher(cpu, task);
                    if self.core.is_in_class(task) {
                        self.core.dl_start(task);
                    }
                }
                Class::Fair => self.core.resched(cpu),
                _ => self.tick_higher(cpu, task),
            }
        }
        self.unlock().await;
    }

    /// Whether every tick of `cpu` before `until` would only charge time, so that a driver may skip it. Returning
    /// false is always safe.
    pub fn tick_is_idle_until(&self, cpu: CpuId, until: Nanos) -> bool {
        let Some(task) = self.core.current(cpu).some() else { return self.watchdog_quiet_until(until) };
        if self.has(Op::Tick)
            || self.core.task(task).class != Class::Ext
            || self.core.bypassing()
            || !self.core.cpus[cpu.index()].higher.is_empty()
        {
            return false;
        }
        let slice = self.core.objects.slice(&self.machine.memory, task);
        let spent = self.core.time.of_cpu_at(cpu, until).since(self.core.cpus[cpu.index()].exec_start).0;
        slice > spent && self.watchdog_quiet_until(until)
    }

    fn watchdog_quiet_until(&self, until: Nanos) -> bool {
        let Some(scheduler) = &self.scheduler else { return true };
        self.stage != Stage::Enabled || until <= self.watchdog_checked + scheduler.timeout
    }

    /// Checks at a tick whether the watchdog itself has run in time (contract W1).
    #[inline]
    fn check_watchdog(&mut self) {
        let Some(scheduler) = self.scheduler.as_ref().filter(|_| self.stage == Stage::Enabled) else { return };
        // A jiffy is never ahead of `now`, so this cheap test is sufficient.
        if self.core.time.now().since(self.watchdog_checked) <= scheduler.timeout {
            return;
        }
        let late = self.core.jiffies_now().since(self.watchdog_checked);
        if late > scheduler.timeout {
            let message = format!("watchdog failed to check in for {}", seconds(late));
            self.core.error(exit_kind::ERROR_STALL, 0, message);
        }
    }

    /// The work of the watchdog, executed by its kworker as the current task of `cpu`: checks for stalled tasks and
    /// rearms the timer.
    pub fn watchdog_work(&mut self, cpu: CpuId) {
        self.core.context.cpu = cpu;
        if self.stage == Stage::Enabled {
            self.watchdog_checked = self.core.jiffies_now();
            self.find_stalled();
            self.arm_watchdog(cpu);
        }
        self.finish();
    }

    pub(super) fn arm_watchdog(&mut self, cpu: CpuId) {
        let timeout = self.scheduler.as_ref().expect("a scheduler is watched").timeout_jiffies;
        self.arm_in_jiffies(TimerKey::Watchdog, cpu, (timeout / 2).max(1));
    }

    /// Arms a timer of the kernel's timer wheel: it fires at a tick, with a granularity that grows with the delay.
    pub(super) fn arm_in_jiffies(&mut self, timer: TimerKey, cpu: CpuId, delay: u64) {
        let now = jiffies(self.core.time.now().0, self.core.config.hz);
        let at = self.core.jiffies_in_ns(wheel_expiry(now, delay));
        self.arm(timer, cpu, at);
    }

    /// Arms a timer through the driver.
    pub(super) fn arm(&mut self, timer: TimerKey, cpu: CpuId, at: Nanos) {
        self.core.armed.insert(timer);
        self.core.output.effects.push(crate::Effect::ArmTimer { timer, cpu, at });
    }

    /// Reports a stall if a task has been runnable for longer than the timeout without having run.
    fn find_stalled(&mut self) {
        let timeout = self.scheduler.as_ref().expect("a scheduler is watched").timeout;
        let now = self.core.jiffies_now();
        for task in self.core.runnable() {
            let entry = self.core.task(task);
            let waited = now.since(entry.runnable_at);
            if entry.queued && waited > timeout {
                let (cpu, name) = (entry.cpu, self.core.name_of(task));
                let message = format!("{name} failed to run for {}", seconds(waited));
                self.core.error_on(Some(cpu), exit_kind::ERROR_STALL, 0, message);
                return;
            }
        }
    }

    /// Handles a timer, armed by an effect, that has fired on `cpu`.
    pub async fn timer(&mut self, cpu: CpuId, timer: TimerKey) {
        self.core.context.cpu = cpu;
        if self.core.armed.remove(&timer) {
            match timer {
                TimerKey::Bpf(timer) => {
                    if let Some((function, args)) = self.machine.timer_callback(&self.execution, timer) {
                        let running = Running { op: Some(Op::Timer), timer: Some(timer), ..Running::NONE };
                        let result = self.execute(running, function, &args).await;
                        if result != 0 {
                            // `callback_ret_range` of kernel/bpf/verifier.c allows only 0 for timer callbacks.
                            let why = format!("a timer callback returned {result}; the verifier allows only 0");
                            let fault = self.machine.refused_result(function, why);
                            self.fault(Op::Timer, fault);
                        }
                        self.report_custody().await;
                    }
                }
                TimerKey::Hrtick(cpu) => self.hrtick(cpu).await,
                TimerKey::Replenish(task) => self.replenish(task).await,
                TimerKey::Server(cpu) => self.server_timer(cpu).await,
                TimerKey::Watchdog => {
                    let worker = self.watchdog_worker;
                    if worker != TaskId::NONE {
                        self.wake(cpu, worker, event_log::Waker::Timer, false).await;
                    }
                }
            }
        }
        self.finish().await;
    }
}

/// The jiffy at which the timer wheel fires a timer set at `now` for `delay` jiffies later: never early, and rounded
/// up to a multiple of 1, 8, 64, ... jiffies, depending on the delay.
fn wheel_expiry(now: u64, delay: u64) -> u64 {
    /// The granularity of each level of 64 buckets is coarser by this many bits.
    const LEVEL_BITS: u32 = 3;
    const LEVELS: u32 = 9;
    let level = (0..LEVELS - 1).find(|level| delay < 63 << (level * LEVEL_BITS)).unwrap_or(LEVELS - 1);
    let shift = level * LEVEL_BITS;
    (((now + delay) >> shift) + 1) << shift
}

/// `S.mmms`, as the kernel prints the duration of a stall.
fn seconds(duration: Nanos) -> String {
    let ms = duration.0 / 1_000_000;
    format!("{}.{:03}s", ms / 1_000, ms % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w1_timer_wheel_is_never_early_and_coarser_for_long_delays() {
        for (now, delay, fires) in [(0, 1, 2), (10, 62, 73), (0, 63, 64), (1, 375, 384), (0, 504, 512), (5, 3750, 3776)]
        {
            assert_eq!(wheel_expiry(now, delay), fires, "{delay} jiffies from {now}");
        }
    }
}
