// SPDX-License-Identifier: GPL-2.0-only
//! Progress of a CPU: pays the time it owes, then handles the first of its pending events.

use crate::alarms::Alarm;
use crate::cpu::Charge;
use crate::interrupt::{Interrupt, Load};
use crate::model::Model;
use crate::run::{BOOT_CPU, Run};
use crate::tasks::{Need, Phase, Role};
use event_log::{BlockCause, Waker};
use ids::{CpuId, Nanos, TaskId};
use kernel_model::{Leave, Operation};

/// Numbers of ticks to try to skip at once, if the next tick can be skipped but not all ticks until the end of the
/// work.
const TICKS_AT_ONCE: [u64; 3] = [8, 4, 2];

/// An idle system is never entirely idle: kernel timers and kworkers restart the tick of some CPU now and then, and
/// that tick detects a watchdog that is stuck itself. On a real 7.2 kernel, with a scheduler that drops every task
/// and a timeout of 2 s, this happened after 2.208 s.
const HOUSEKEEPING: Nanos = Nanos::from_ms(250);

/// Numbers of housekeeping wakeups to try to skip at once: a timeout is at most 30 s.
const HOUSEKEEPINGS_AT_ONCE: [u64; 4] = [60, 16, 4, 1];

/// Interval at which a CPU that spins for a lock is revisited. Nothing depends on it: the release of the lock
/// notifies the CPU.
const SPIN: Nanos = Nanos::from_ms(1_000);

impl<M: Model> Run<'_, M> {
    /// An interrupt arrives at `cpu`. A tick due at the same time is handled first; an idle CPU first leaves its idle
    /// state.
    pub fn interrupt(&mut self, cpu: CpuId, interrupt: Option<Interrupt>) {
        self.settle(cpu);
        let entry = &self.cpus[cpu];
        let completes = entry.current.some().is_some_and(|task| self.tasks[task].is_complete());
        if !entry.is_busy() && !completes && entry.next_tick <= self.clock.now() {
            self.tick(cpu);
        }
        let halt = self.halt(cpu, self.clock.now());
        let entry = &mut self.cpus[cpu];
        if entry.sleeps() {
            let own = matches!(interrupt, Some(Interrupt::Sleep(_) | Interrupt::Timer(_)));
            let nominal = match &mut self.speed {
                Some(speed) => speed.leave_idle(self.clock.now(), cpu, own, entry, self.memory.as_deref_mut()),
                None => None,
            };
            let nominal = match halt {
                Some(halt) => Nanos(halt.exit_ns),
                None => nominal.unwrap_or(self.idle_exit),
            };
            entry.idle_since = Nanos::MAX;
            let idle_exit = self.noise.idle_exit(cpu, nominal);
            entry.charge(Charge { idle_exit, ..Charge::default() });
        }
        match interrupt {
            // Shortcut for `advance`, without queueing the interrupt in the inbox.
            Some(interrupt) if !entry.is_busy() && !completes && entry.inbox.is_empty() => self.handle(cpu, interrupt),
            _ => entry.inbox.extend(interrupt),
        }
        self.advance(cpu);
    }

    /// Lets `cpu`, whose account is settled, do everything that it can do now, and sets its alarm for the next event.
    pub fn advance(&mut self, cpu: CpuId) {
        self.go_on(cpu);
        self.watch(cpu);
    }

    fn go_on(&mut self, cpu: CpuId) {
        while !self.clock.is_over() && !self.cpus[cpu].offline {
            let entry = &mut self.cpus[cpu];
            if entry.can_continue() && !entry.owes() {
                if entry.script.is_empty() {
                    self.go_on_with_operation(cpu);
                } else {
                    self.follow_script(cpu);
                }
                continue;
            }
            if entry.is_busy() {
                return self.wait_until_free(cpu);
            }
            let current = entry.current;
            if self.faults.are_freezing() && current != TaskId::NONE && self.tasks[current].role == Role::Workload {
                self.freeze(cpu, current);
            } else if current != TaskId::NONE && self.tasks[current].is_complete() {
                self.tasks[current].complete();
                self.act(cpu, current);
            } else if entry.next_tick <= self.clock.now() {
                self.tick(cpu);
            } else if let Some(interrupt) = entry.inbox.pop_front() {
                self.handle(cpu, interrupt);
            } else if entry.resched {
                self.schedule(cpu, Leave::Preempt);
            } else if current == TaskId::NONE && cpu == BOOT_CPU && self.ticks.is_housekeeping_due(self.clock.now()) {
                self.housekeeping_wakeup();
            } else if current == TaskId::NONE {
                return self.plan_idle(cpu);
            } else if self.tasks[current].phase == Phase::Spin {
                if !self.try_again(cpu, current) {
                    return self.plan_work(cpu, self.clock.now(), Need::Run(SPIN));
                }
            } else if let Some(need) = self.tasks[current].needs(&entry.pace) {
                return self.plan_work(cpu, self.clock.now(), need);
            } else {
                self.act(cpu, current);
            }
        }
    }

    /// `cpu` owes time. If no event is pending for the time it becomes free, the work after that is planned
    /// immediately.
    pub fn wait_until_free(&mut self, cpu: CpuId) {
        let entry = &self.cpus[cpu];
        let free_at = entry.free_at();
        if entry.can_continue() {
            return self.alarms.set(Alarm::Cpu(cpu), free_at);
        }
        if entry.spins() {
            return self.alarms.cancel(Alarm::Cpu(cpu));
        }
        let nothing_waits =
            entry.inbox.is_empty() && !entry.resched && entry.next_tick > free_at && !self.faults.are_freezing();
        let need = entry.current.some().map(|task| self.tasks[task].needs(&entry.pace));
        match need {
            None if nothing_waits && self.machine.no_hz_idle && !entry.executes => self.plan_idle(cpu),
            Some(Some(need)) if nothing_waits => self.plan_work(cpu, free_at, need),
            _ => self.alarms.set(Alarm::Cpu(cpu), free_at),
        }
    }

    /// Plans the work of the current task, which runs from time `from` on: sets the alarm for the end of the work, or
    /// for the first tick that has an effect. A clock read may fall inside a tick; that is resolved when it happens.
    fn plan_work(&mut self, cpu: CpuId, from: Nanos, need: Need) {
        let first = self.cpus[cpu].next_tick;
        let end = match need {
            Need::Run(time) => self.ticks.end(from, time, first, cpu),
            Need::Clock(time) => match Nanos(self.clock.now().0.saturating_add(time.0)) {
                end if end < from => from + Nanos(1),
                end => end,
            },
        };
        let due = if first >= end || (self.ticks.may_skip() && self.tick_is_idle_until(cpu, end)) {
            end
        } else {
            end.min(self.first_needed_tick(cpu, first))
        };
        self.alarms.set(Alarm::Cpu(cpu), due);
    }

    /// Plans idle time; ticks continue if the machine does not stop them.
    fn plan_idle(&mut self, cpu: CpuId) {
        let first = self.cpus[cpu].next_tick;
        let is_quiet = |until: Nanos| self.tick_is_idle_until(cpu, until);
        if first != Nanos::MAX && !(self.ticks.may_skip() && is_quiet(Nanos::MAX)) {
            let due = self.first_needed_tick(cpu, first);
            self.alarms.set(Alarm::Cpu(cpu), due);
        } else if cpu != BOOT_CPU || is_quiet(Nanos::MAX) {
            self.alarms.cancel(Alarm::Cpu(cpu));
        } else {
            let due = next_housekeeping(self.clock.now(), is_quiet);
            self.ticks.plan_housekeeping(due);
            self.alarms.set(Alarm::Cpu(cpu), due);
        }
    }

    /// The boot CPU has been idle for long: a kernel timer wakes it, and its tick checks the watchdog.
    fn housekeeping_wakeup(&mut self) {
        self.ticks.plan_housekeeping(Nanos::MAX);
        if !self.tick_is_idle_until(BOOT_CPU, self.clock.now() + Nanos(1)) {
            let charge = Charge { interrupt: self.ticks.cost(), ..Charge::default() };
            self.operate(BOOT_CPU, Operation::Tick, charge);
        }
    }

    /// The first tick from `first` on that must not be skipped, or an earlier one.
    fn first_needed_tick(&self, cpu: CpuId, first: Nanos) -> Nanos {
        if !self.ticks.may_skip() || !self.tick_is_idle_until(cpu, first + Nanos(1)) {
            return first;
        }
        let after = |count: u64| self.ticks.nth_after(first, count, cpu);
        let skipped = |count: &u64| self.tick_is_idle_until(cpu, after(count - 1) + Nanos(1));
        after(TICKS_AT_ONCE.into_iter().find(skipped).unwrap_or(1))
    }

    /// Handles a tick that is due now.
    fn tick(&mut self, cpu: CpuId) {
        let entry = &mut self.cpus[cpu];
        let charge = Charge { interrupt: self.ticks.cost_at(self.clock.now(), cpu), ..Charge::default() };
        entry.next_tick = self.ticks.after(self.clock.now(), cpu);
        if self.ticks.may_skip() && self.tick_is_idle_until(cpu, self.clock.now() + Nanos(1)) {
            return self.cpus[cpu].charge(charge);
        }
        self.operate(cpu, Operation::Tick, charge);
    }

    fn handle(&mut self, cpu: CpuId, interrupt: Interrupt) {
        // The tasks of the loader are frozen like all of user space; kernel threads continue.
        let goes_on = |interrupt: &Interrupt| match interrupt {
            Interrupt::Timer(_) | Interrupt::Fault(_) | Interrupt::Theft(_) | Interrupt::Shootdown => true,
            Interrupt::Load(load) => matches!(load, Load::EndAttach | Load::EndDisable),
            Interrupt::Sleep(_) | Interrupt::Disk { .. } | Interrupt::Start(_) | Interrupt::Call => false,
        };
        if self.faults.are_freezing() && !goes_on(&interrupt) {
            return self.faults.miss(interrupt);
        }
        if self.operations.wait() && self.interrupt_needs_quiet(interrupt) && !self.is_quiet(cpu) {
            return self.cpus[cpu].inbox.push_front(interrupt);
        }
        let cost = self.machine.costs.interrupt_ns;
        match interrupt {
            Interrupt::Sleep(task) => {
                let role = self.tasks[task].role;
                if matches!(role, Role::Flusher(_)) && !self.flusher_interval_ends(task) {
                    let interrupt = self.noise.interrupt(cpu, cost);
                    return self.only_interrupt(cpu, interrupt);
                }
                self.tasks.count_task(task, |left| left.asleep -= usize::from(role == Role::Workload));
                let waker = match self.tasks[task].slept_for {
                    BlockCause::Timer => Waker::Timer,
                    BlockCause::Io => Waker::Interrupt,
                    BlockCause::Task | BlockCause::Child | BlockCause::External => Waker::External,
                };
                let interrupt = self.noise.interrupt(cpu, cost);
                let wakeup = self.wakeup(cpu, task);
                self.operate(cpu, Operation::Wake(task, waker), Charge { interrupt, ..wakeup });
            }
            Interrupt::Shootdown => self.shootdown(cpu),
            Interrupt::Disk { task, disk, shares } => self.disk_interrupt(cpu, disk, task, shares),
            Interrupt::Timer(key) => {
                let interrupt = self.noise.interrupt(cpu, cost);
                self.operate(cpu, Operation::Timer(key), Charge { interrupt, ..Charge::default() });
            }
            Interrupt::Start(spec) => {
                self.tell_time();
                self.start_by_external_parent(cpu, spec);
            }
            Interrupt::Fault(step) => {
                self.tell_time();
                let charge = self.do_step(cpu, step);
                self.apply(cpu, charge);
            }
            Interrupt::Load(load) => {
                self.tell_time();
                self.do_load(cpu, load);
                self.apply(cpu, Charge::default());
            }
            Interrupt::Call => {
                self.tell_time();
                self.make_calls(cpu);
                self.apply(cpu, Charge::default());
            }
            // The kernel does not notice time that the host steals.
            Interrupt::Theft(interrupt) => self.cpus[cpu].charge(Charge { interrupt, ..Charge::default() }),
        }
    }

    /// Whether this interrupt starts an atomic kernel operation that must not overlap operations in progress.
    fn interrupt_needs_quiet(&self, interrupt: Interrupt) -> bool {
        match interrupt {
            Interrupt::Fault(_) | Interrupt::Load(_) | Interrupt::Call => true,
            Interrupt::Start(_) => self.demands.has_groups() || self.kernel.model.holds_scheduler_lock(),
            Interrupt::Sleep(_)
            | Interrupt::Disk { .. }
            | Interrupt::Timer(_)
            | Interrupt::Theft(_)
            | Interrupt::Shootdown => false,
        }
    }

    /// Calls the kernel's schedule on `cpu`.
    pub fn schedule(&mut self, cpu: CpuId, leave: Leave) {
        self.alarms.cancel(Alarm::Resched(cpu));
        let entry = &mut self.cpus[cpu];
        entry.resched = false;
        entry.schedules += 1;
        if self.operations.wait() {
            return self.begin(cpu, Operation::Schedule(leave), Charge::default());
        }
        let awaits = std::mem::take(&mut entry.awaits);
        self.tell_time();
        let switch = self.kernel.model.execute(cpu, Operation::Schedule(leave));
        let switch = switch.expect("schedule decides");
        let entry = &mut self.cpus[cpu];
        assert_eq!(switch.prev, entry.current, "the kernel and the clock have the same current task on CPU {cpu}");
        let mut charge = Charge::default();
        if switch.next != switch.prev {
            charge.scheduler = self.switch_current(cpu, switch.prev, switch.next);
            charge.locked = charge.scheduler;
        }
        self.apply(cpu, charge);
        self.cpus.spin_for(cpu, awaits);
        if self.cpus.is_any_spinning() {
            self.release_spinning();
        }
    }

    /// Releases the CPUs whose targets have all called schedule. A target counts on entering schedule, even if it
    /// then waits itself, so CPUs that wait for each other do not deadlock.
    pub fn release_spinning(&mut self) {
        for cpu in self.cpus.take_spinning() {
            self.settle(cpu);
            if self.cpus.release_if_switched(cpu) {
                self.alarms.set(Alarm::Cpu(cpu), self.clock.now());
            }
        }
    }
}

/// Time of the next housekeeping wakeup that has an effect, or of an earlier one; `is_quiet` tells whether ticks up to
/// some time have none.
fn next_housekeeping(now: Nanos, is_quiet: impl Fn(Nanos) -> bool) -> Nanos {
    let period = HOUSEKEEPING.0;
    let after = |count: u64| Nanos((now.0 / period + count) * period);
    let quiet = HOUSEKEEPINGS_AT_ONCE.into_iter().find(|&count| is_quiet(after(count) + Nanos(1)));
    after(quiet.unwrap_or(0) + 1)
}
