// SPDX-License-Identifier: GPL-2.0-only
//! `__schedule`: switches a CPU from the previous task to the next (contract T5-T8, T12, P7, R1).

use super::Kernel;
use crate::core::classes::Turn;
use crate::core::deadline::server::Served;
use crate::core::dsq::QueueRef;
use crate::core::task::{Class, ExtState, ReenqueueReason, RunState};
use crate::core::{SLICE_INF, deq_flags, enq_flags};
use crate::ops::Op;
use crate::{Leave, Switch};
use event_log::{EventKind, SwitchReason};
use ids::{CpuId, TaskId};
use two_forms::two_forms;

/// `enum scx_cpu_preempt_reason`.
fn preempt_reason(class: Class) -> u32 {
    match class {
        Class::Rt => 0,
        Class::Deadline => 1,
        Class::Stop => 2,
        _ => 3,
    }
}

#[two_forms]
impl Kernel {
    /// Picks the next task of `cpu` and switches to it. With [`Leave::Preempt`] the current task may be picked again.
    pub async fn schedule(&mut self, cpu: CpuId, leave: Leave) -> Switch {
        self.core.context.cpu = cpu;
        let leave = self.begin_switch(cpu, leave).await;
        let rq = &mut self.core.cpus[cpu.index()];
        (rq.need_resched, rq.lazy_resched) = (false, false);
        self.update_current(cpu);
        let prev = self.core.current(cpu);
        self.core.note_iowait(prev, leave);
        self.leave(prev, leave).await;
        let evicted = self.evict(cpu, prev).await;
        let candidate = if evicted { TaskId::NONE } else { prev };
        let next = self.pick_next(cpu, candidate).await;
        let reason = self.reason(prev, next, leave, evicted);
        self.mark_switching(cpu).await;
        if next == prev && !evicted {
            self.stay(cpu, prev).await;
        } else {
            self.put_prev(cpu, candidate, next).await;
            self.core.cpus[cpu.index()].current = next;
            self.core.objects.set_curr(&mut self.machine.memory, cpu, next);
            self.core.count_switch(cpu, prev, leave);
            self.core.log(next, EventKind::Switch { prev, reason });
            self.set_next(cpu, prev, next).await;
        }
        let next_class = self.core.current_class(cpu);
        let rq = &mut self.core.cpus[cpu.index()];
        (rq.preempted, rq.next_class, rq.switching) = (false, next_class, false);
        if self.is_vacant(cpu) {
            self.core.hrtick_stop(cpu);
        }
        let may_stay = next.some().is_none_or(|next| self.may_run_on(next, cpu));
        if !may_stay {
            // `balance_push`: the stopper thread moves the task away at once (contract H1).
            self.core.resched(cpu);
        }
        if next_class == Class::Deadline {
            self.push_deadline(cpu);
        }
        self.unlock().await;
        self.attach_evicted_late().await;
        if leave == Leave::Exit {
            self.finish_dead_task(prev).await;
        }
        self.finish().await;
        Switch { prev, next, reason }
    }

    /// Applies the current task's own action: yield, block or exit.
    async fn leave(&mut self, prev: TaskId, leave: Leave) {
        match leave {
            Leave::Preempt => {}
            Leave::Yield => {
                self.core.log(prev, EventKind::Yield);
                self.yield_current(prev).await;
            }
            Leave::Block(cause) => {
                self.core.log(prev, EventKind::Block { cause });
                self.stop_running(prev, RunState::Sleeping, 0).await;
            }
            Leave::Exit => {
                self.core.log(prev, EventKind::Exit);
                self.core.task_mut(prev).exiting = true;
                self.publish(prev);
                self.stop_running(prev, RunState::Dead, deq_flags::SPECIAL).await;
                self.core.objects.count_thread(&mut self.machine.memory, prev, -1);
            }
        }
    }

    /// `try_to_block_task`; `special` marks a state that no ordinary wakeup ends.
    async fn stop_running(&mut self, prev: TaskId, state: RunState, special: u64) {
        assert!(prev != TaskId::NONE, "the idle task neither blocks nor exits");
        if self.core.task(prev).class == Class::Fair {
            self.core.fair_sleep(prev, state == RunState::Dead);
        }
        if state == RunState::Dead {
            self.core.dl_leave(prev);
        }
        self.core.task_mut(prev).run_state = state;
        if self.core.task(prev).class == Class::Ext {
            self.dequeue_task(prev, deq_flags::SLEEP | deq_flags::NOCLOCK | special).await;
        }
    }

    /// `yield_task_scx` (contract T8).
    async fn yield_current(&mut self, prev: TaskId) {
        let class = self.core.task(prev).class;
        match class {
            Class::Fair => self.core.fair_yield(prev),
            Class::Deadline => self.core.dl_yield(prev),
            _ => {}
        }
        if class != Class::Ext {
            self.core.cpus[self.core.context.cpu.index()].preempted = true;
        } else if self.has(Op::Yield) {
            self.call_task(Op::Yield, prev, 0).await;
        } else {
            self.core.objects.set_slice(&mut self.machine.memory, prev, 0);
        }
    }

    /// A call like `yield_to` of the task current on `cpu`; returns whether the scheduler agreed.
    pub fn yield_to(&mut self, cpu: CpuId, to: TaskId) -> bool {
        self.core.context.cpu = cpu;
        let from = self.core.current(cpu);
        let both_ext = [from, to].iter().all(|&task| self.core.task(task).class == Class::Ext);
        let agreed = both_ext && self.call_yield_to(from, to).is_some_and(|agreed| agreed & 1 != 0);
        if agreed {
            self.core.resched(cpu);
        }
        self.finish();
        agreed
    }

    /// The stopper thread (stop class) takes a running task off a CPU where it may no longer run (contract T10), or from
    /// where it must move to an idle CPU (active balancing). It takes no time in the model, but the scheduler sees the
    /// stop class run.
    async fn evict(&mut self, cpu: CpuId, prev: TaskId) -> bool {
        let running = prev.some().filter(|&task| self.core.task(task).is_runnable());
        let pushed = self.core.fair_take_push(cpu, running);
        if let Some((task, to)) = pushed.filter(|&(task, _)| Some(task) != running) {
            self.core.fair_move(task, to);
            self.preempt_lower(task, false);
        }
        let pushed_to = pushed.filter(|&(task, _)| Some(task) == running).map(|(_, to)| to);
        let Some(task) = running else { return false };
        if pushed_to.is_none() && self.may_run_on(task, cpu) {
            return false;
        }
        if self.core.task(task).class == Class::Ext {
            self.put_prev_ext(cpu, task, Class::Stop, TaskId::NONE).await;
        } else {
            self.core.higher_put_back(task, Turn::First);
        }
        self.core.cpus[cpu.index()].current = TaskId::NONE;
        // A verdict for another CPU is carried out as soon as the lock is free, before the stopper thread runs.
        let deferred = &mut self.core.context.deferred;
        if let Some(at) = deferred.iter().position(|&deferred| deferred == task) {
            deferred.remove(at);
            self.deliver(task).await;
            return true;
        }
        let asked = pushed_to.unwrap_or(self.core.task(task).migrate_to);
        let to = if self.core.cpus[cpu.index()].active { asked } else { cpu };
        let to = self.correct_cpu(task, to).await;
        self.detach_task(task, to).await;
        self.attach_evicted(task).await;
        true
    }

    fn reason(&self, prev: TaskId, next: TaskId, leave: Leave, evicted: bool) -> SwitchReason {
        let class = |task: TaskId| task.some().map_or(Class::Idle, |task| self.core.task(task).class);
        match leave {
            _ if prev == TaskId::NONE => SwitchReason::Idle,
            _ if evicted => SwitchReason::Change,
            Leave::Block(_) => SwitchReason::Block,
            Leave::Exit => SwitchReason::Exit,
            Leave::Yield => SwitchReason::Yield,
            Leave::Preempt if class(next) < class(prev) => SwitchReason::HigherClass,
            Leave::Preempt if self.core.cpus[self.core.context.cpu.index()].preempted => SwitchReason::Preempt,
            Leave::Preempt => SwitchReason::SliceEnd,
        }
    }

    /// The CPU continues with its current task. An idle CPU refreshes the idle masks without calling the op (contract
    /// P7), unless an unmodelled context held it.
    async fn stay(&mut self, cpu: CpuId, prev: TaskId) {
        if std::mem::take(&mut self.core.cpus[cpu.index()].occupied) {
            self.update_idle(cpu, true).await;
        } else if prev == TaskId::NONE {
            self.core.note_idle(cpu, true);
        }
    }

    /// `put_prev_task`.
    async fn put_prev(&mut self, cpu: CpuId, prev: TaskId, next: TaskId) {
        let next_class = next.some().map_or(Class::Idle, |next| self.core.task(next).class);
        let Some(task) = prev.some() else { return };
        if self.core.task(task).class == Class::Ext {
            self.put_prev_ext(cpu, task, next_class, next).await;
        }
    }

    /// `put_prev_task_scx`: a task with slice left that a higher class preempts goes to the head of the local queue;
    /// otherwise it is enqueued (contract T5, T7).
    async fn put_prev_ext(&mut self, cpu: CpuId, task: TaskId, next_class: Class, next: TaskId) {
        self.core.cpus[cpu.index()].kick_sync += 1;
        if self.core.task(task).queued {
            self.call_task(Op::Stopping, task, 1).await;
            self.core.set_runnable(&mut self.machine.memory, task);
            let memory = &mut self.machine.memory;
            let has_slice = self.core.objects.slice(memory, task) > 0;
            if has_slice && !self.core.bypassing() {
                if self.core.task(task).immediate {
                    self.enqueue_again(task, ReenqueueReason::Preempted).await;
                } else {
                    self.core.enqueue_to(memory, task, QueueRef::Local(cpu), false, enq_flags::HEAD);
                }
            } else {
                let last = if next_class == Class::Idle { enq_flags::LAST } else { 0 };
                self.do_enqueue(task, last).await;
                if last != 0 && !self.core.cpus[cpu.index()].local.is_empty() {
                    // The CPU would idle with a task in its local queue: it reschedules at once (contract P6).
                    self.core.resched(cpu);
                }
            }
        }
        let rq = &mut self.core.cpus[cpu.index()];
        if next_class < Class::Ext && !rq.released {
            rq.released = true;
            let reason = preempt_reason(next_class);
            let args = self.core.objects.cpu_release_args(&mut self.machine.memory, reason, next);
            self.call(Op::CpuRelease, &[u64::from(cpu.0), args]).await;
        }
    }

    /// `set_next_task`, and the idle masks when entering or leaving idle (contract P7).
    async fn set_next(&mut self, cpu: CpuId, prev: TaskId, next: TaskId) {
        self.core.cpus[cpu.index()].exec_start = self.core.rq_clock(cpu);
        let occupied = std::mem::take(&mut self.core.cpus[cpu.index()].occupied);
        if prev == TaskId::NONE && next != TaskId::NONE && !occupied {
            self.update_idle(cpu, false).await;
        }
        match next.some() {
            Some(task) if self.core.task(task).class == Class::Ext => {
                self.take_from_bpf(task, deq_flags::CORE_SCHED_EXEC).await;
                self.core.dequeue_from(task);
                self.call_task(Op::Running, task, 0).await;
                self.core.clear_runnable(&mut self.machine.memory, task, true);
            }
            Some(task) if self.core.task(task).class == Class::Fair => self.core.fair_start(task),
            Some(task) if self.core.task(task).class == Class::Deadline => self.core.dl_start(task),
            Some(_) => {}
            None if prev == TaskId::NONE => self.core.note_idle(cpu, true),
            None => self.update_idle(cpu, true).await,
        }
    }

    /// Lets an unmodelled context run on idle `cpu`, for example a parent outside of the workload that forks tasks.
    /// The CPU counts as busy until its next reschedule, which the driver is asked for.
    pub fn occupy(&mut self, cpu: CpuId) {
        self.core.context.cpu = cpu;
        let rq = &mut self.core.cpus[cpu.index()];
        if rq.current == TaskId::NONE && !std::mem::replace(&mut rq.occupied, true) {
            self.update_idle(cpu, false);
            self.core.resched(cpu);
        }
        self.finish();
    }

    pub(super) async fn update_idle(&mut self, cpu: CpuId, idle: bool) {
        self.core.note_idle(cpu, idle);
        self.core.log(TaskId::NONE, EventKind::Idle { entered: idle });
        if self.schedules() && !self.core.bypassing() {
            self.call(Op::UpdateIdle, &[u64::from(cpu.0), u64::from(idle)]).await;
        }
    }

    /// The last switch away from a task that exits (contract T12).
    async fn finish_dead_task(&mut self, task: TaskId) {
        if self.core.task(task).ext_state == ExtState::Enabled {
            self.disable_task(task).await;
        }
        self.exit_task(task, false).await;
        let pid = self.core.task(task).pid;
        self.core.tasks.free_pid(pid);
        let addr = self.addr(task);
        self.machine.maps.forget_owner(&mut self.machine.memory, addr).expect("a task is an owner");
    }

    /// `update_curr`: charges the current task of `cpu` for the time since the last charge.
    pub(super) fn update_current(&mut self, cpu: CpuId) {
        let now = self.core.rq_clock(cpu);
        let ran = now.since(self.core.cpus[cpu.index()].exec_start);
        self.core.charge_cpu_time(cpu, ran);
        let rq = &mut self.core.cpus[cpu.index()];
        rq.exec_start = now;
        let (current, occupied) = (rq.current, rq.occupied);
        if ran.0 == 0 {
            return;
        }
        let Some(task) = current.some() else {
            if !occupied {
                self.core.server_charge_idle(cpu, ran);
            }
            return;
        };
        let uptime = self.core.time.uptime();
        let entry = self.core.task_mut(task);
        entry.sum_exec += ran;
        entry.history.charged = now + uptime;
        let (class, sum_exec) = (entry.class, entry.sum_exec);
        let memory = &mut self.machine.memory;
        self.core.objects.set_sum_exec_runtime(memory, task, sum_exec.0);
        if class == Class::Ext {
            let slice = self.core.objects.slice(memory, task);
            if slice != SLICE_INF {
                self.core.objects.set_slice(memory, task, slice.saturating_sub(ran.0));
            }
            self.core.server_charge(cpu, Served::Ext, ran);
        } else if self.core.higher_charge(task, ran) {
            self.core.cpus[cpu.index()].preempted = true;
        }
    }
}
