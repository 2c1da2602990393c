// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's objects in guest memory, and their updates.

use super::arguments::Arguments;
use super::cgroup::Cgroups;
use super::credentials::Credentials;
use super::idle_masks::IdleMasks;
use super::iterators::Iterators;
use super::masks::{self, CpumaskPool, FixedMasks};
use super::per_cpu::PerCpu;
use super::structs::{MM_STRUCT, RQ, TASK_STRUCT};
use super::writer::Writer;
use crate::CgroupKnobs;
use bpf_machine::{Access, GuestAddr, Memory, RegionId};
use ids::{CpuId, CpuSet, Nanos, TaskId};

/// Offsets in `struct task_struct`, computed from its table.
pub(super) mod task {
    use super::TASK_STRUCT;

    pub const SLICE: u32 = TASK_STRUCT.offset("scx.slice");
    pub const VTIME: u32 = TASK_STRUCT.offset("scx.dsq_vtime");
    pub const DISALLOW: u32 = TASK_STRUCT.offset("scx.disallow");
    pub const SCX_FLAGS: u32 = TASK_STRUCT.offset("scx.flags");
    pub const TID: u32 = TASK_STRUCT.offset("scx.tid");
    pub const SUM_EXEC: u32 = TASK_STRUCT.offset("se.sum_exec_runtime");
    pub const CPUS_MASK: u32 = TASK_STRUCT.offset("cpus_mask");
    pub const CPUS_PTR: u32 = TASK_STRUCT.offset("cpus_ptr");
    pub const NR_CPUS_ALLOWED: u32 = TASK_STRUCT.offset("nr_cpus_allowed");
    pub const PID: u32 = TASK_STRUCT.offset("pid");
    pub const TGID: u32 = TASK_STRUCT.offset("tgid");
    pub const CGROUPS: u32 = TASK_STRUCT.offset("cgroups");
    pub const COMM: u32 = TASK_STRUCT.offset("comm");
    pub const GROUP_LEADER: u32 = TASK_STRUCT.offset("group_leader");
    pub const REAL_PARENT: u32 = TASK_STRUCT.offset("real_parent");
}

/// `rq->curr`.
const CURR: u32 = RQ.offset("curr");

/// `PF_IDLE`: an idle task.
const PF_IDLE: u32 = 0x2;
/// `PF_KTHREAD`: a kthread.
const PF_KTHREAD: u32 = 0x20_0000;
/// Maximum size of `struct task_struct`: a larger one would double the stride of the task region.
const TASK_SLOT_LIMIT: u32 = 2048;
const _: () = assert!(TASK_STRUCT.size() <= TASK_SLOT_LIMIT);

/// Regions of kernel objects in guest memory.
#[derive(Debug)]
pub(crate) struct Objects {
    /// `struct task_struct` of tasks; the slot is the task number.
    pub tasks: RegionId,
    /// `struct task_struct` of idle tasks; the slot is the CPU.
    pub idle_tasks: RegionId,
    /// Per-CPU variables.
    pub per_cpu: PerCpu,
    /// `struct rq`, one of the per-CPU variables.
    pub rqs: RegionId,
    /// CONFIG_HZ, for the dump context; 1000 until the kernel is configured.
    pub hz: u32,
    /// Whether `ops.init()` succeeded, for `scx_exit_info.flags`.
    pub initialized: bool,
    /// Masks allocated by programs.
    pub cpumasks: CpumaskPool,
    /// Copies of the idle masks held by programs.
    pub idle_masks: IdleMasks,
    /// Iterators over dispatch queues.
    pub iterators: Iterators,
    /// Masks of the kernel.
    pub fixed_masks: FixedMasks,
    /// Cgroups.
    pub cgroups: Cgroups,
    /// Credentials, pids and sessions.
    credentials: Credentials,
    arguments: Arguments,
    mm: RegionId,
    cpus: u32,
}

/// Attributes of a task that its guest object shows.
#[derive(Clone, Debug)]
pub(crate) struct TaskView<'a> {
    pub pid: i32,
    pub comm: &'a str,
    /// PF_KTHREAD 0x20_0000, PF_EXITING 0x4, ...
    pub flags: u32,
    /// CPU of a per-CPU kthread.
    pub own_cpu: Option<CpuId>,
    /// 120 plus nice value.
    pub static_prio: i32,
    pub prio: i32,
    /// SCHED_* number of the policy.
    pub policy: u32,
    pub weight: u32,
    pub allowed: &'a CpuSet,
    pub parent: TaskId,
    pub tgid: i32,
    pub uid: u32,
    /// Pid of the session leader.
    pub session: u32,
    /// Cgroup number.
    pub cgroup: u32,
}

impl Objects {
    /// Creates the regions for `cpus` CPUs.
    pub fn new(memory: &mut Memory, cpus: u32) -> Objects {
        // Writable because programs may store to slice, vtime and disallow; a kernel's verifier rejects stores to the
        // other fields.
        let tasks = memory.add_region("task_struct", TASK_STRUCT.size(), 64, Access::ReadWrite);
        let idle_tasks = memory.add_region("idle task_struct", TASK_STRUCT.size(), cpus, Access::ReadOnly);
        let per_cpu = PerCpu::new(memory, cpus);
        let mm = memory.add_region("mm_struct", MM_STRUCT.size(), 1, Access::ReadOnly);
        let mut objects = Objects {
            tasks,
            idle_tasks,
            rqs: per_cpu.runqueues(),
            per_cpu,
            hz: 1000,
            initialized: false,
            cpumasks: CpumaskPool::new(memory, cpus),
            idle_masks: IdleMasks::new(memory, cpus),
            iterators: Iterators::default(),
            fixed_masks: FixedMasks::new(memory, cpus),
            cgroups: Cgroups::new(memory),
            credentials: Credentials::new(memory),
            arguments: Arguments::new(memory),
            mm,
            cpus,
        };
        for cpu in (0..cpus).map(CpuId) {
            objects.publish_idle_task(memory, cpu);
        }
        objects
    }

    /// Number of CPUs.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    fn publish_idle_task(&mut self, memory: &mut Memory, cpu: CpuId) {
        let view = TaskView {
            pid: 0,
            comm: &format!("swapper/{cpu}"),
            flags: PF_IDLE | PF_KTHREAD,
            own_cpu: Some(cpu),
            static_prio: 120,
            prio: 120,
            policy: 0,
            weight: 0,
            allowed: &[cpu].into_iter().collect(),
            parent: TaskId::NONE,
            tgid: 0,
            uid: 0,
            session: 0,
            cgroup: 0,
        };
        let init = memory.addr(self.idle_tasks, 0);
        self.fill(memory, self.idle_tasks, cpu.0, &view, init);
        let idle = memory.addr(self.idle_tasks, cpu.0);
        let mut rq = Writer { bytes: memory.slot_mut(self.rqs, cpu.0), structure: &RQ };
        rq.set("cpu", u64::from(cpu.0));
        rq.set("curr", idle);
        rq.set("idle", idle);
    }

    /// Creates or updates the guest object of a task. Fields that programs or the core write (slice, vtime, flags)
    /// are kept.
    pub fn publish(&mut self, memory: &mut Memory, task: TaskId, view: &TaskView<'_>) {
        // Growing to powers of two limits the copying as tasks are created one by one.
        memory.grow(self.tasks, (task.0 + 1).next_power_of_two());
        memory.grow(self.mm, (task.0 + 1).next_power_of_two());
        // A task forked outside of the model has the first idle task as its parent, like init in the kernel.
        let parent = self.task_addr(memory, view.parent, CpuId(0));
        self.fill(memory, self.tasks, task.0, view, parent);
        // The kernel allocates tids from 1; 0 is not a tid.
        memory.set_u64(self.tasks, task.0, task::TID, u64::from(task.0) + 1);
        let leader = memory.get_u64(self.tasks, task.0, task::GROUP_LEADER);
        let leader = memory.slot_in(self.tasks, leader).expect("every task has a group leader");
        let pid = self.credentials.pid(memory, task.0, view.pid);
        let signal = self.credentials.signal(memory, leader, view.session);
        let kthread = match view.flags & PF_KTHREAD {
            0 => 0,
            _ => self.credentials.kthread(memory, task.0, view.own_cpu),
        };
        let mut to = Writer { bytes: memory.slot_mut(self.tasks, task.0), structure: &TASK_STRUCT };
        to.set("thread_pid", pid);
        to.set("signal", signal);
        to.set("worker_private", kthread);
    }

    /// Adds `change` to the thread count of a task's process.
    pub fn count_thread(&self, memory: &mut Memory, task: TaskId, change: i32) {
        let leader = memory.get_u64(self.tasks, task.0, task::GROUP_LEADER);
        let leader = memory.slot_in(self.tasks, leader).expect("every task has a group leader");
        self.credentials.count_thread(memory, leader, change);
    }

    fn fill(&mut self, memory: &mut Memory, region: RegionId, slot: u32, view: &TaskView<'_>, parent: GuestAddr) {
        let own = memory.addr(region, slot);
        let (leader, parent) = match view.pid == view.tgid {
            true => (own, parent),
            // A new thread has the parent of the thread that forks it (copy_process()).
            false => (self.leader_through(memory, parent, view.tgid, own), self.parent_through(memory, parent)),
        };
        // Threads share the mm of their group leader. Idle tasks and kthreads have none.
        let process = memory.slot_in(self.tasks, leader).filter(|_| view.flags & PF_KTHREAD == 0);
        let mm = process.map_or(0, |slot| memory.addr(self.mm, slot));
        let css_set = self.cgroups.css_set(memory, view.cgroup);
        let cred = self.credentials.cred(memory, view.uid);
        let mut to = Writer { bytes: memory.slot_mut(region, slot), structure: &TASK_STRUCT };
        to.set("pid", view.pid as u64);
        to.set("tgid", view.tgid as u64);
        to.set("flags", view.flags.into());
        to.set("static_prio", view.static_prio as u64);
        to.set("normal_prio", view.prio as u64);
        to.set("prio", view.prio as u64);
        to.set("policy", view.policy.into());
        to.set("scx.weight", view.weight.into());
        to.set("cpus_ptr", own + u64::from(task::CPUS_MASK));
        to.set("real_parent", parent);
        to.set("parent", parent);
        to.set("group_leader", leader);
        to.set("mm", mm);
        to.set("cgroups", css_set);
        to.set("real_cred", cred);
        to.set("cred", cred);
        to.text("comm", view.comm);
        self.set_mask(to.bytes, view.allowed);
    }

    /// The leader of thread group `tgid`, looked up in `parent`, which is in the same group if the task is a thread.
    fn leader_through(&self, memory: &Memory, parent: GuestAddr, tgid: i32, own: GuestAddr) -> GuestAddr {
        let Some(slot) = memory.slot_in(self.tasks, parent) else { return own };
        let same_group = memory.get_u32(self.tasks, slot, task::TGID) as i32 == tgid;
        if same_group { memory.get_u64(self.tasks, slot, task::GROUP_LEADER) } else { own }
    }

    /// The parent of `task`, or `task` itself if that is not a task object.
    fn parent_through(&self, memory: &Memory, task: GuestAddr) -> GuestAddr {
        memory.slot_in(self.tasks, task).map_or(task, |slot| memory.get_u64(self.tasks, slot, task::REAL_PARENT))
    }

    fn set_mask(&self, task: &mut [u8], allowed: &CpuSet) {
        masks::write(&mut task[task::CPUS_MASK as usize..], allowed);
        let count = (allowed.len() as u32).to_le_bytes();
        task[task::NR_CPUS_ALLOWED as usize..][..4].copy_from_slice(&count);
    }

    /// Updates `p->cgroups` after the task has moved to another cgroup.
    pub fn set_css_set(&self, memory: &mut Memory, task: TaskId, set: GuestAddr) {
        memory.set_u64(self.tasks, task.0, task::CGROUPS, set);
    }

    /// Updates the affinity fields only (cpus_mask, nr_cpus_allowed).
    pub fn set_allowed(&self, memory: &mut Memory, task: TaskId, allowed: &CpuSet) {
        self.set_mask(memory.slot_mut(self.tasks, task.0), allowed);
    }

    /// Address of a task's object; the idle task of `cpu` for NONE.
    #[inline]
    pub fn task_addr(&self, memory: &Memory, task: TaskId, cpu: CpuId) -> GuestAddr {
        match task.some() {
            Some(task) => memory.addr(self.tasks, task.0),
            None => memory.addr(self.idle_tasks, cpu.0),
        }
    }

    /// Task whose object starts exactly at `addr`.
    #[inline]
    pub fn task_at(&self, memory: &Memory, addr: GuestAddr) -> Option<TaskId> {
        let slot = memory.slot_at(self.tasks, addr)?;
        // The region has spare slots: only the object of an existing task has its mask pointer set.
        (memory.get_u64(self.tasks, slot, task::CPUS_PTR) != 0).then_some(TaskId(slot))
    }

    /// CPU whose idle task's object starts exactly at `addr`.
    pub fn idle_task_at(&self, memory: &Memory, addr: GuestAddr) -> Option<CpuId> {
        memory.slot_at(self.idle_tasks, addr).map(CpuId)
    }

    /// `p->scx.slice`, in nanoseconds.
    #[inline]
    pub fn slice(&self, memory: &Memory, task: TaskId) -> u64 {
        memory.get_u64(self.tasks, task.0, task::SLICE)
    }

    #[inline]
    pub fn set_slice(&self, memory: &mut Memory, task: TaskId, slice: u64) {
        memory.set_u64(self.tasks, task.0, task::SLICE, slice);
    }

    /// `p->scx.dsq_vtime`.
    #[inline]
    pub fn vtime(&self, memory: &Memory, task: TaskId) -> u64 {
        memory.get_u64(self.tasks, task.0, task::VTIME)
    }

    #[inline]
    pub fn set_vtime(&self, memory: &mut Memory, task: TaskId, vtime: u64) {
        memory.set_u64(self.tasks, task.0, task::VTIME, vtime);
    }

    /// `p->scx.disallow`.
    pub fn disallow(&self, memory: &Memory, task: TaskId) -> bool {
        memory.slot(self.tasks, task.0)[task::DISALLOW as usize] != 0
    }

    /// `p->scx.flags`.
    #[inline]
    pub fn set_scx_flags(&self, memory: &mut Memory, task: TaskId, flags: u32) {
        memory.set_u32(self.tasks, task.0, task::SCX_FLAGS, flags);
    }

    /// `p->se.sum_exec_runtime`, in nanoseconds.
    #[inline]
    pub fn set_sum_exec_runtime(&self, memory: &mut Memory, task: TaskId, ns: u64) {
        memory.set_u64(self.tasks, task.0, task::SUM_EXEC, ns);
    }

    /// `cpu_rq(cpu)->curr`.
    #[inline]
    pub fn set_curr(&self, memory: &mut Memory, cpu: CpuId, task: TaskId) {
        let addr = self.task_addr(memory, task, cpu);
        memory.set_u64(self.rqs, cpu.0, CURR, addr);
    }

    fn object(&self, task: TaskId, cpu: CpuId) -> (RegionId, u32) {
        task.some().map_or((self.idle_tasks, cpu.0), |task| (self.tasks, task.0))
    }

    /// Pid and tgid of a task; for NONE, those of the idle task of `cpu`.
    pub fn pid_tgid(&self, memory: &Memory, task: TaskId, cpu: CpuId) -> (u32, u32) {
        let (region, slot) = self.object(task, cpu);
        (memory.get_u32(region, slot, task::PID), memory.get_u32(region, slot, task::TGID))
    }

    /// `comm` of a task: up to 15 bytes, NUL-padded.
    pub fn comm(&self, memory: &Memory, task: TaskId, cpu: CpuId) -> [u8; 16] {
        let (region, slot) = self.object(task, cpu);
        memory.slot(region, slot)[task::COMM as usize..][..16].try_into().expect("16 bytes")
    }

    /// Guest address of a kernel variable that programs may name; for a per-CPU variable, that of CPU 0.
    pub fn variable(&self, memory: &Memory, name: &str) -> Option<GuestAddr> {
        self.per_cpu.variable(memory, name)
    }

    /// `struct scx_init_task_args { fork, cgroup }` in guest memory; valid until the next call.
    pub fn init_task_args(&self, memory: &mut Memory, fork: bool, cgroup: u32) -> GuestAddr {
        let cgroup = self.cgroups.addr(memory, cgroup);
        self.arguments.init_task(memory, fork, cgroup)
    }

    /// `struct scx_cgroup_init_args` of a cgroup with these settings.
    pub fn cgroup_init_args(&self, memory: &mut Memory, knobs: &CgroupKnobs) -> GuestAddr {
        self.arguments.cgroup_init(memory, knobs)
    }

    /// `struct scx_exit_task_args { cancelled }`.
    pub fn exit_task_args(&self, memory: &mut Memory, cancelled: bool) -> GuestAddr {
        self.arguments.exit_task(memory, cancelled)
    }

    /// `struct scx_exit_info`.
    pub fn exit_info(&self, memory: &mut Memory, info: &crate::ExitInfo, exit_cpu: i32) -> GuestAddr {
        self.arguments.exit(memory, info, exit_cpu, self.initialized)
    }

    /// `struct scx_cpu_release_args { reason, task }`, or an empty `scx_cpu_acquire_args` for `TaskId::NONE`.
    pub fn cpu_release_args(&self, memory: &mut Memory, reason: u32, task: TaskId) -> GuestAddr {
        match task.some() {
            Some(_) => {
                let task = self.task_addr(memory, task, CpuId(0));
                self.arguments.cpu_release(memory, reason, task)
            }
            None => self.arguments.cpu_acquire(memory),
        }
    }

    /// `struct cpumask` with this set (for `set_cpumask`); valid until the next call.
    pub fn cpumask(&self, memory: &mut Memory, set: &CpuSet) -> GuestAddr {
        self.fixed_masks.scratch(memory, set)
    }

    /// `struct scx_dump_ctx`; `now` in nanoseconds.
    pub fn dump_ctx(&self, memory: &mut Memory, info: &crate::ExitInfo, now: u64) -> GuestAddr {
        self.arguments.dump(memory, info, now, jiffies(now, self.hz))
    }
}

/// Jiffies since boot at `now` nanoseconds. A real kernel starts five minutes before the counter wraps, to expose
/// overflow bugs; programs only use differences.
pub(crate) fn jiffies(now: u64, hz: u32) -> u64 {
    scaled(now, u64::from(hz), NS_PER_S) as u64
}

/// Converts jiffies to nanoseconds.
pub(crate) fn jiffies_in_ns(jiffies: u64, hz: u32) -> Nanos {
    let ns = scaled(jiffies, NS_PER_S, u64::from(hz));
    Nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

const NS_PER_S: u64 = 1_000_000_000;

/// `value * factor / divisor`. The product nearly always fits in 64 bits, where the division is much faster.
#[inline]
fn scaled(value: u64, factor: u64, divisor: u64) -> u128 {
    match value.checked_mul(factor) {
        Some(product) => u128::from(product / divisor),
        None => u128::from(value) * u128::from(factor) / u128::from(divisor),
    }
}
