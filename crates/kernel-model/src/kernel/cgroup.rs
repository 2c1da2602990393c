// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups: creation, settings, removal, and task moves between them (contract G1).

use super::Kernel;
use crate::core::deq_flags;
use crate::core::task::RunState;
use crate::guest::MAX_CGROUP_LEVEL;
use crate::ops::Op;
use crate::{CgroupId, CgroupKnobs};
use ids::{CpuId, TaskId};

/// `-EAGAIN`: the maximum depth is reached (`cgroup.max.depth`).
const EAGAIN: i32 = -11;
/// `-EBUSY`.
const EBUSY: i32 = -16;

impl Kernel {
    /// Creates a cgroup named `name` in `parent`, with the cpu controller; executed by `cpu`. If an attached
    /// scheduler refuses it in `cgroup_init`, the op's errno is returned and the number stays used.
    ///
    /// # Errors
    /// The negative errno of mkdir(2).
    pub fn make_cgroup(&mut self, cpu: CpuId, parent: CgroupId, name: &str) -> Result<CgroupId, i32> {
        if self.core.cgroups.get(parent).level == MAX_CGROUP_LEVEL {
            return Err(EAGAIN);
        }
        self.core.context.cpu = cpu;
        let cgroup = self.core.cgroups.make(parent);
        self.core.objects.cgroups.publish(&mut self.machine.memory, cgroup.0, Some(parent.0), name);
        let accepted = if self.core.cgroups.enabled { self.init_cgroup(cgroup) } else { Ok(()) };
        if accepted.is_err() {
            self.core.cgroups.remove(cgroup);
        }
        self.finish();
        accepted.map(|()| cgroup)
    }

    /// Removes an empty cgroup, which must not be the root.
    ///
    /// # Errors
    /// -EBUSY if it has tasks or child cgroups.
    pub fn remove_cgroup(&mut self, cpu: CpuId, cgroup: CgroupId) -> Result<(), i32> {
        let is_inside = |task: &crate::core::task::Task| task.cgroup == cgroup && task.run_state != RunState::Dead;
        if !self.core.cgroups.get(cgroup).children.is_empty() || self.core.tasks.iter().any(is_inside) {
            return Err(EBUSY);
        }
        self.core.context.cpu = cpu;
        self.exit_cgroup(cgroup);
        self.core.cgroups.remove(cgroup);
        self.finish();
        Ok(())
    }

    /// Changes the settings of a cgroup. A changed weight, bandwidth or `idle` is passed to the scheduler's ops. (The
    /// kernel also passes an `idle` that is set to its old value.)
    pub fn set_cgroup(&mut self, cpu: CpuId, cgroup: CgroupId, knobs: CgroupKnobs) {
        self.core.context.cpu = cpu;
        let old = self.core.cgroups.get(cgroup).knobs;
        let addr = self.cgroup_addr(cgroup);
        let bandwidth = |knobs: CgroupKnobs| [knobs.period_us, knobs.quota_us, knobs.burst_us];
        if self.core.cgroups.enabled {
            if knobs.weight != old.weight {
                self.call(Op::CgroupSetWeight, &[addr, knobs.weight.into()]);
            }
            if bandwidth(knobs) != bandwidth(old) {
                let [period, quota, burst] = bandwidth(knobs);
                self.call(Op::CgroupSetBandwidth, &[addr, period, quota, burst]);
            }
            if knobs.idle != old.idle {
                self.call(Op::CgroupSetIdle, &[addr, knobs.idle.into()]);
            }
        }
        // As in the kernel, the new values take effect after the ops.
        self.core.cgroups.get_mut(cgroup).knobs = knobs;
        self.finish();
    }

    /// Moves tasks to a cgroup, all or none of them. Calls `cgroup_prep_move` for all tasks before the first one
    /// moves, and `cgroup_move` for each move. Tasks that are in the cgroup already are skipped.
    ///
    /// # Errors
    /// The negative errno with which the scheduler refused a task.
    pub fn move_to_cgroup(&mut self, cpu: CpuId, tasks: &[TaskId], to: CgroupId) -> Result<(), i32> {
        self.core.context.cpu = cpu;
        let moves = |task: &TaskId| self.core.task(*task).cgroup != to;
        let moving: Vec<TaskId> = tasks.iter().copied().filter(moves).collect();
        let prepared = self.prepare_moves(&moving, to);
        if prepared.is_ok() {
            for task in &moving {
                self.core.objects.set_cgroup(&mut self.machine.memory, *task, to.0);
            }
            moving.iter().for_each(|task| self.move_task(*task, to));
        }
        self.finish();
        prepared
    }

    /// `scx_cgroup_can_attach`: calls `cgroup_prep_move` for each task. If it refuses one, `cgroup_cancel_move` is
    /// called for the tasks before it.
    fn prepare_moves(&mut self, moving: &[TaskId], to: CgroupId) -> Result<(), i32> {
        if !self.core.cgroups.enabled {
            return Ok(());
        }
        for (done, task) in moving.iter().enumerate() {
            let result = self.call_move(Op::CgroupPrepMove, *task, to).unwrap_or(0) as i32;
            if result != 0 {
                for task in &moving[..done] {
                    self.call_move(Op::CgroupCancelMove, *task, to);
                }
                return Err(self.sanitize_errno(Op::CgroupPrepMove, result));
            }
        }
        Ok(())
    }

    /// `sched_move_task`: dequeues the task, changes its cgroup, and enqueues it. The CPU of a running task
    /// reschedules.
    fn move_task(&mut self, task: TaskId, to: CgroupId) {
        let cpu = self.core.task_cpu(task);
        self.core.begin_locked(cpu, "cgroup");
        self.change(task, deq_flags::MOVE, |kernel| {
            let from = std::mem::replace(&mut kernel.core.task_mut(task).cgroup, to);
            if kernel.core.cgroups.enabled {
                let args = [kernel.addr(task), kernel.cgroup_addr(from), kernel.cgroup_addr(to)];
                kernel.call_about(Op::CgroupMove, &args, task);
            }
        });
        if self.core.current(cpu) == task {
            self.core.resched(cpu);
        }
        self.core.unlock_runqueue();
    }

    /// Calls an op about a move that has not been made, with no lock held.
    fn call_move(&mut self, op: Op, task: TaskId, to: CgroupId) -> Option<u32> {
        let from = self.core.task(task).cgroup;
        let args = [self.addr(task), self.cgroup_addr(from), self.cgroup_addr(to)];
        self.call(op, &args)
    }

    fn cgroup_addr(&self, cgroup: CgroupId) -> u64 {
        self.core.objects.cgroups.addr(&self.machine.memory, cgroup.0)
    }

    /// Step 7 of an attach: calls `cgroup_init` for each cgroup. Returns false if one call failed.
    pub(super) fn init_cgroups(&mut self) -> bool {
        self.core.cgroups.enabled = true;
        for cgroup in self.core.cgroups.parents_first() {
            if let Err(errno) = self.init_cgroup(cgroup) {
                self.core.fail_after(Op::CgroupInit, format!("ops.cgroup_init() failed ({errno})"));
                return false;
            }
        }
        true
    }

    fn init_cgroup(&mut self, cgroup: CgroupId) -> Result<(), i32> {
        let knobs = self.core.cgroups.get(cgroup).knobs;
        let args = self.core.objects.cgroup_init_args(&mut self.machine.memory, &knobs);
        let result = self.call(Op::CgroupInit, &[self.cgroup_addr(cgroup), args]).unwrap_or(0) as i32;
        if result != 0 {
            return Err(self.sanitize_errno(Op::CgroupInit, result));
        }
        self.core.cgroups.get_mut(cgroup).is_initialized = true;
        Ok(())
    }

    /// At disable: calls `cgroup_exit` for each cgroup that was initialized (contract X1).
    pub(super) fn exit_cgroups(&mut self) {
        self.core.cgroups.enabled = false;
        for cgroup in self.core.cgroups.children_first() {
            self.exit_cgroup(cgroup);
        }
    }

    fn exit_cgroup(&mut self, cgroup: CgroupId) {
        if std::mem::take(&mut self.core.cgroups.get_mut(cgroup).is_initialized) {
            self.call(Op::CgroupExit, &[self.cgroup_addr(cgroup)]);
        }
    }
}
