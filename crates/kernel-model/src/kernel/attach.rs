// SPDX-License-Identifier: GPL-2.0-only
//! Attach and detach of a scheduler, and their effects on tasks (contract 1.3, X1, X2).

use super::{Kernel, Stage};
use crate::core::task::{Class, ExtState, RunState};
use crate::core::{deq_flags, exit_kind, ops_flags};
use crate::kfuncs;
use crate::ops::Op;
use crate::{Effect, LaunchError};
use bpf_machine::PausePoints;
use event_log::EventKind;
use ids::{CpuId, Policy, TaskId};
use two_forms::two_forms;

/// EBUSY.
const EBUSY: i32 = 16;
/// EINVAL.
const EINVAL: i32 = 22;
/// `-EPROTO`.
const EPROTO: i32 = -71;
/// Largest errno (`MAX_ERRNO` of the kernel).
const MAX_ERRNO: i32 = 4095;
/// `SCX_ECODE_ACT_RESTART | SCX_ECODE_RSN_HOTPLUG`.
pub(super) const RESTART_FOR_HOTPLUG: i64 = 1 << 48 | 1 << 32;
/// Slice of a task that is switched to ext at attach, in nanoseconds.
const SWITCH_SLICE_NS: u64 = 5_000_000;
/// Default length of the debug dump in bytes, for an `ops.exit_dump_len` of 0.
pub(super) const DUMP_LEN: u32 = 32_768;

impl Kernel {
    /// Attaches the loaded scheduler; `cpu` executes the attach. A failure after the first checks is reported by
    /// [`Kernel::exit_info`], as in the kernel.
    pub fn attach(&mut self, cpu: CpuId) -> Result<(), LaunchError> {
        self.begin_attach(cpu)?;
        self.end_attach(cpu);
        Ok(())
    }

    /// First half of an attach: afterwards the tasks belong to the scheduler, in bypass mode until
    /// [`Kernel::end_attach`].
    pub fn begin_attach(&mut self, cpu: CpuId) -> Result<(), LaunchError> {
        let refuse = |errno, reason: &str| Err(LaunchError::Attach { errno, reason: reason.to_owned() });
        if self.stage != Stage::Disabled {
            return refuse(EBUSY, "another scheduler is attached");
        }
        let Some(scheduler) = &self.scheduler else { return refuse(EINVAL, "no scheduler is loaded") };
        self.core.context.cpu = cpu;
        let (flags, batch) = (scheduler.flags, scheduler.max_batch);
        self.prepare(flags, batch);
        self.stage = Stage::Enabling;
        if self.initialize() {
            self.switch_tasks();
        }
        if self.core.attached.is_exiting() {
            self.disable();
        }
        self.finish();
        Ok(())
    }

    /// Step 2: resets the state left by the previous scheduler.
    fn prepare(&mut self, flags: u64, batch: u32) {
        let core = &mut self.core;
        core.attached.begin(flags, batch as usize);
        (0..core.cpus.len()).for_each(|cpu| core.set_performance_target(CpuId(cpu as u32), 1024));
        core.idle.enabled = true;
        core.idle.per_node = flags & ops_flags::BUILTIN_IDLE_PER_NODE != 0;
        core.idle.reset();
        core.objects.initialized = false;
        self.exit_info = None;
        let overrides = self.has(Op::UpdateIdle) && flags & ops_flags::KEEP_BUILTIN_IDLE == 0;
        self.core.idle.enabled = !overrides;
    }

    /// Steps 3 to 5; returns false if one of them failed.
    fn initialize(&mut self) -> bool {
        let result = self.call(Op::Init, &[]).unwrap_or(0) as i32;
        if result != 0 {
            let result = self.sanitize_errno(Op::Init, result);
            self.core.fail_after(Op::Init, format!("ops.init() failed ({result})"));
            return false;
        }
        self.core.objects.initialized = self.has(Op::Init);
        let expected = self.scheduler.as_ref().map_or(0, |scheduler| scheduler.hotplug_seq);
        let actual = self.core.hotplug_seq;
        if expected != 0 && expected != actual {
            let message = format!("expected hotplug seq {expected} did not match actual {actual}");
            self.core.error(exit_kind::UNREGISTERED_KERNEL, RESTART_FOR_HOTPLUG, message);
            return false;
        }
        self.core.idle.spans.tune();
        if self.flag(ops_flags::ENQ_LAST) && !self.has(Op::Enqueue) {
            self.core.fail("SCX_OPS_ENQ_LAST requires ops.enqueue() to be implemented".into());
        }
        if self.core.idle.per_node && !self.core.idle.enabled {
            self.core.fail("SCX_OPS_BUILTIN_IDLE_PER_NODE requires CPU idle selection enabled".into());
        }
        !self.core.attached.is_exiting()
    }

    /// Steps 6 to 10: switches the tasks to the scheduler.
    fn switch_tasks(&mut self) {
        self.enter_bypass();
        self.watchdog_checked = self.core.jiffies_now();
        self.arm_watchdog(self.core.context.cpu);
        if !self.init_cgroups() {
            return;
        }
        for task in self.all_tasks() {
            if self.init_task(task, false).is_err() {
                return;
            }
        }
        self.stage = Stage::Enabled;
        let switch_all = !self.flag(ops_flags::SWITCH_PARTIAL);
        for task in self.all_tasks() {
            let policy = self.core.task(task).policy;
            self.core.objects.set_slice(&mut self.machine.memory, task, SWITCH_SLICE_NS);
            if self.core.class_of(policy, switch_all, true) == Class::Ext {
                self.switch_to_ext(task);
            }
        }
        // An error does not stop the switch of the tasks, but bypass then lasts until the scheduler is disabled.
        self.attaching = !self.core.attached.is_exiting();
    }

    /// Second half of an attach (contract 1.3, step 10), executed by `cpu`. No effect if the scheduler has been
    /// disabled.
    pub fn end_attach(&mut self, cpu: CpuId) {
        self.core.context.cpu = cpu;
        if std::mem::take(&mut self.attaching) {
            self.leave_bypass();
            self.core.log(TaskId::NONE, EventKind::Attached);
        }
        self.finish();
    }

    /// `ops_sanitize_err`: an op that fails must return a negative errno; any other number is a runtime error and
    /// becomes -EPROTO.
    pub(super) fn sanitize_errno(&mut self, op: Op, result: i32) -> i32 {
        if (-MAX_ERRNO..0).contains(&result) {
            return result;
        }
        self.core.fail_after(op, format!("ops.{}() returned an invalid errno {result}", op.name()));
        EPROTO
    }

    /// Tasks that have not exited, in order of creation.
    fn all_tasks(&self) -> Vec<TaskId> {
        let alive = |&task: &TaskId| self.core.task(task).run_state != RunState::Dead;
        (0..self.core.tasks.len() as u32).map(TaskId).filter(alive).collect()
    }

    fn switch_to_ext(&mut self, task: TaskId) {
        self.change(task, deq_flags::MOVE | deq_flags::CLASS, |kernel| {
            kernel.core.task_mut(task).class = Class::Ext;
            kernel.enable_task(task);
            kernel.call_set_cpumask(task);
        });
    }

    /// Calls `init_task`; its negative errno fails the attach or the fork (contract T1).
    pub(super) fn init_task(&mut self, task: TaskId, fork: bool) -> Result<(), i32> {
        let cgroup = self.core.task(task).cgroup.0;
        let args = self.core.objects.init_task_args(&mut self.machine.memory, fork, cgroup);
        self.set_state(task, ExtState::InitBegin);
        let result = self.call_task(Op::InitTask, task, args).unwrap_or(0) as i32;
        if result != 0 {
            self.set_state(task, ExtState::None);
            let result = self.sanitize_errno(Op::InitTask, result);
            if !fork {
                let name = self.core.name_of(task);
                self.core.fail_after(Op::InitTask, format!("ops.init_task() failed ({result}) for {name}"));
            }
            return Err(result);
        }
        self.core.task_mut(task).reset_runnable_at = true;
        self.set_state(task, ExtState::Ready);
        if self.core.objects.disallow(&self.machine.memory, task) {
            self.apply_disallow(task, fork);
        }
        Ok(())
    }

    /// At attach, `disallow` reverts a SCHED_EXT policy to SCHED_OTHER; in a fork it is an error (contract 1.3, step
    /// 8).
    fn apply_disallow(&mut self, task: TaskId, fork: bool) {
        if fork {
            let name = self.core.name_of(task);
            let message = format!("ops.init_task() set task->scx.disallow for {name} during fork");
            self.core.fail_after(Op::InitTask, message);
        } else if self.core.task(task).policy == Policy::Ext {
            self.core.task_mut(task).policy = Policy::Other;
        }
    }

    /// `scx_enable_task`: calls `enable`, then `set_weight`; only then the task is marked enabled.
    pub(super) fn enable_task(&mut self, task: TaskId) {
        if self.core.task(task).ext_state != ExtState::Ready {
            return;
        }
        self.call_task(Op::Enable, task, 0);
        self.call_task(Op::SetWeight, task, self.weight(task));
        self.set_state(task, ExtState::Enabled);
    }

    /// Detaches the scheduler (exit kind 64); executed by `cpu`.
    pub fn detach(&mut self, cpu: CpuId) {
        self.core.context.cpu = cpu;
        self.core.error_on(None, exit_kind::UNREGISTERED, 0, String::new());
        self.finish();
    }

    /// Detaches the scheduler through SysRq-S (exit kind 67); handled by `cpu`.
    pub fn sysrq(&mut self, cpu: CpuId) {
        self.core.context.cpu = cpu;
        self.core.error_on(None, exit_kind::SYSRQ, 0, String::new());
        self.finish();
    }

    /// Splits the disable sequence from now on: an error only enters bypass, and the driver requests the rest by
    /// [`Kernel::end_disable`], as a kworker would do some time later. By default both happen at one instant.
    pub fn disable_in_steps(&mut self) {
        self.in_steps = true;
    }

    /// Whether the scheduler is in bypass and waits for [`Kernel::end_disable`].
    pub fn is_disabling(&self) -> bool {
        self.stage == Stage::Disabling
    }

    /// Executes the disable sequence (contract X1), or its first half.
    pub(super) fn disable(&mut self) {
        // The disable sequence runs without stops, also at the end of an operation that stopped at locks
        // (`+waiting`).
        self.execution.pause = PausePoints::default();
        let mut info = self.core.attached.exit.clone().expect("there is a reason to disable");
        info.cause.call = self.core.attached.exit_callee.map(kfuncs::callee_name);
        if info.kind >= exit_kind::ERROR {
            info.dump = self.make_dump(&info);
        }
        self.core.attached.exit = Some(info);
        self.enter_bypass();
        let (in_steps, enabled) = (self.in_steps, self.stage == Stage::Enabled);
        self.stage = Stage::Disabling;
        if in_steps && enabled {
            self.core.output.effects.push(Effect::Disabling);
        } else {
            self.finish_disable();
        }
    }

    /// Second half of the disable sequence, executed by `cpu`. No effect unless [`Kernel::is_disabling`].
    pub fn end_disable(&mut self, cpu: CpuId) {
        self.core.context.cpu = cpu;
        if self.is_disabling() {
            self.finish_disable();
        }
        self.finish();
    }

    fn finish_disable(&mut self) {
        let info = self.core.attached.exit.clone().expect("there is a reason to disable");
        self.exit_cgroups();
        for task in self.all_tasks() {
            if self.core.task(task).class == Class::Ext {
                self.change(task, deq_flags::MOVE | deq_flags::CLASS, |kernel| {
                    kernel.disable_task(task);
                    kernel.core.task_mut(task).class = Class::Fair;
                });
            }
            self.exit_task(task, false);
        }
        self.stage = Stage::Disabled;
        let exit_cpu = self.core.attached.exit_cpu.map_or(-1, |cpu| cpu.0 as i32);
        let address = self.core.objects.exit_info(&mut self.machine.memory, &info, exit_cpu);
        self.call(Op::Exit, &[address]);
        self.core.log(TaskId::NONE, EventKind::Disabled { kind: info.kind });
        self.core.queues.destroy_all();
        self.core.context.kicks.clear();
        self.core.context.reenqueue_users.clear();
        self.scheduler = None;
        self.core.attached.end();
        self.core.bypass.flatten();
        self.leave_bypass();
        (self.attaching, self.suspending) = (false, false);
        self.exit_info = Some(Box::new(info));
        self.core.output.effects.push(Effect::Disabled);
    }
}

#[two_forms]
impl Kernel {
    /// `scx_disable_task`: calls `disable`, then zeroes slice and virtual time (contract T11).
    pub(super) async fn disable_task(&mut self, task: TaskId) {
        if self.core.task(task).ext_state != ExtState::Enabled {
            return;
        }
        self.call_task(Op::Disable, task, 0).await;
        self.set_state(task, ExtState::Ready);
        self.core.objects.set_slice(&mut self.machine.memory, task, 0);
        self.core.objects.set_vtime(&mut self.machine.memory, task, 0);
    }

    /// Calls `exit_task`; `cancelled` is its argument.
    pub(super) async fn exit_task(&mut self, task: TaskId, cancelled: bool) {
        if self.core.task(task).ext_state == ExtState::None {
            return;
        }
        let args = self.core.objects.exit_task_args(&mut self.machine.memory, cancelled);
        self.call_task(Op::ExitTask, task, args).await;
        self.set_state(task, ExtState::None);
    }
}
