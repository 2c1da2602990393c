// SPDX-License-Identifier: GPL-2.0-only
//! The kernel as BPF programs see it: object layouts, their BTF, constants, and the guest copies of kernel objects.

use bpf_machine::{GuestAddr, Memory, RegionId};
use bpf_object::{LinkedObject, Target};
use ids::{CpuId, CpuSet, TaskId};

/// Regions of the kernel's objects in guest memory.
#[derive(Debug)]
pub(crate) struct Objects {
    /// `struct task_struct`, one a task (slot = task number), the idle tasks in a region of their own (slot = CPU).
    pub tasks: RegionId,
    /// Idle tasks.
    pub idle_tasks: RegionId,
    /// `struct rq`, one a CPU.
    pub rqs: RegionId,
}

/// What of a task its guest object shows.
#[derive(Clone, Debug)]
pub(crate) struct TaskView<'a> {
    pub pid: i32,
    pub comm: &'a str,
    /// PF_KTHREAD 0x20_0000, PF_EXITING 0x4, …
    pub flags: u32,
    /// Kernel's: 120 + nice for normal tasks.
    pub static_prio: i32,
    pub prio: i32,
    /// SCHED_* number.
    pub policy: u32,
    pub weight: u32,
    pub allowed: &'a CpuSet,
    pub parent: TaskId,
    pub tgid: i32,
}

#[allow(unused_variables)]
impl Objects {
    /// Makes the regions for `cpus` CPUs.
    pub fn new(memory: &mut Memory, cpus: u32) -> Objects { todo!() }
    /// Makes or refreshes the guest object of a task.
    pub fn publish(&self, memory: &mut Memory, task: TaskId, view: &TaskView<'_>) { todo!() }
    /// Refreshes the affinity fields only (cpus_mask, nr_cpus_allowed).
    pub fn set_allowed(&self, memory: &mut Memory, task: TaskId, allowed: &CpuSet) { todo!() }
    /// Address of a task's object; the idle task of `cpu` for NONE.
    pub fn task_addr(&self, memory: &Memory, task: TaskId, cpu: CpuId) -> GuestAddr { todo!() }
    /// Task whose object starts at `addr` (exactly).
    pub fn task_at(&self, memory: &Memory, addr: GuestAddr) -> Option<TaskId> { todo!() }
    /// `p->scx.slice`.
    pub fn slice(&self, memory: &Memory, task: TaskId) -> u64 { todo!() }
    pub fn set_slice(&self, memory: &mut Memory, task: TaskId, slice: u64) { todo!() }
    /// `p->scx.dsq_vtime`.
    pub fn vtime(&self, memory: &Memory, task: TaskId) -> u64 { todo!() }
    pub fn set_vtime(&self, memory: &mut Memory, task: TaskId, vtime: u64) { todo!() }
    pub fn disallow(&self, memory: &Memory, task: TaskId) -> bool { todo!() }
    pub fn set_scx_flags(&self, memory: &mut Memory, task: TaskId, flags: u32) { todo!() }
    pub fn set_sum_exec_runtime(&self, memory: &mut Memory, task: TaskId, ns: u64) { todo!() }
    /// `cpu_rq(cpu)->curr`.
    pub fn set_curr(&self, memory: &mut Memory, cpu: CpuId, task: TaskId) { todo!() }
    /// `struct scx_init_task_args { fork, cgroup }` in guest memory; valid until the next call.
    pub fn init_task_args(&self, memory: &mut Memory, fork: bool) -> GuestAddr { todo!() }
    /// `struct scx_exit_task_args { cancelled }`.
    pub fn exit_task_args(&self, memory: &mut Memory, cancelled: bool) -> GuestAddr { todo!() }
    /// `struct scx_exit_info` for `exit`.
    pub fn exit_info(&self, memory: &mut Memory, info: &crate::ExitInfo, exit_cpu: i32) -> GuestAddr { todo!() }
    /// `struct scx_cpu_release_args { reason, task }`; an empty `scx_cpu_acquire_args` for None.
    pub fn cpu_release_args(&self, memory: &mut Memory, reason: u32, task: TaskId) -> GuestAddr { todo!() }
    /// `struct cpumask` filled with `set` in a scratch slot (for `set_cpumask`); valid until the next call.
    pub fn cpumask(&self, memory: &mut Memory, set: &CpuSet) -> GuestAddr { todo!() }
    /// `struct scx_dump_ctx`.
    pub fn dump_ctx(&self, memory: &mut Memory, info: &crate::ExitInfo, now: u64) -> GuestAddr { todo!() }
}

/// The kernel that objects are linked against, for a version and HZ.
pub(crate) fn target(version: (u16, u16), hz: u32, cpus: u32) -> Box<dyn Target> { todo!("{version:?} {hz} {cpus}") }

/// Fills the `__SCX_*` variables of the object from the kernel's enums (contract 2.5 L6).
pub fn fill_constants(object: &mut LinkedObject, version: (u16, u16)) { todo!("{object:?} {version:?}") }
