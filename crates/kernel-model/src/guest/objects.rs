// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's objects in guest memory, and their updates.

use super::arguments::Arguments;
use super::cgroup::Cgroups;
use super::credentials::Credentials;
use super::idle_masks::IdleMasks;
use super::iterators::Iterators;
use super::masks::{self, CpumaskPool, FixedMasks};
use super::per_cpu::PerCpu;
use super::scheduling::Scheduling;
use super::types::KernelTypes;
use super::writer::Writer;
use crate::CgroupKnobs;
use bpf_machine::{Access, GuestAddr, Memory, RegionId};
use ids::{CpuId, CpuSet, DsqId, Nanos, TaskId};

/// Offsets in `struct task_struct` of members that change often, and in `struct rq`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offsets {
    pub slice: u32,
    pub vtime: u32,
    pub disallow: u32,
    pub scx_flags: u32,
    pub sum_exec: u32,
    pub cpus_mask: u32,
    pub cpus_mask_bytes: u32,
    pub cpus_ptr: u32,
    pub nr_cpus_allowed: u32,
    pub pid: u32,
    pub tgid: u32,
    pub comm: u32,
    pub group_leader: u32,
    pub real_parent: u32,
    /// `rq->curr`.
    pub curr: u32,
    /// `rq->donor`, where it is not another name of `curr`.
    pub donor: Option<u32>,
}

impl Offsets {
    fn of(types: &KernelTypes) -> Offsets {
        let (task, rq) = (types.layout("task_struct"), types.layout("rq"));
        Offsets {
            slice: task.offset("scx.slice"),
            vtime: task.offset("scx.dsq_vtime"),
            disallow: task.offset("scx.disallow"),
            scx_flags: task.offset("scx.flags"),
            sum_exec: task.offset("se.sum_exec_runtime"),
            cpus_mask: task.offset("cpus_mask"),
            cpus_mask_bytes: task.place("cpus_mask").size,
            cpus_ptr: task.offset("cpus_ptr"),
            nr_cpus_allowed: task.offset("nr_cpus_allowed"),
            pid: task.offset("pid"),
            tgid: task.offset("tgid"),
            comm: task.offset("comm"),
            group_leader: task.offset("group_leader"),
            real_parent: task.offset("real_parent"),
            curr: rq.offset("curr"),
            donor: Some(rq.place("donor"))
                .filter(|donor| donor.exists() && *donor != rq.place("curr"))
                .map(|donor| donor.offset),
        }
    }
}

/// `PF_IDLE`: an idle task.
const PF_IDLE: u32 = 0x2;
/// `PF_KTHREAD`: a kthread.
const PF_KTHREAD: u32 = 0x20_0000;
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
    /// Types of the kernel.
    pub types: KernelTypes,
    /// Offsets of members that change often.
    pub(super) at: Offsets,
    /// Scheduling classes and dispatch queues.
    pub scheduling: Scheduling,
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
    /// Last region of a kernel object; the regions behind it are memory of the program.
    pub(super) last: RegionId,
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
    /// Real-time priority, 1 to 99; 0 for other policies.
    pub rt_priority: u32,
    /// Time of the fork, in nanoseconds since boot.
    pub start_time: u64,
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
    pub fn new(memory: &mut Memory, cpus: u32, types: &KernelTypes) -> Objects {
        let size = types.layout("task_struct").size;
        // Writable because programs may store to slice, vtime and disallow; a kernel's verifier rejects stores to the
        // other fields.
        let tasks = memory.add_region("task_struct", size, 64, Access::ReadWrite);
        let idle_tasks = memory.add_region("idle task_struct", size, cpus, Access::ReadOnly);
        let per_cpu = PerCpu::new(memory, cpus, types);
        let mm = memory.add_region("mm_struct", types.layout("mm_struct").size, 1, Access::ReadOnly);
        let mut objects = Objects {
            tasks,
            idle_tasks,
            rqs: per_cpu.runqueues(),
            per_cpu,
            types: types.clone(),
            at: Offsets::of(types),
            scheduling: Scheduling::new(memory, types),
            hz: 1000,
            initialized: false,
            cpumasks: CpumaskPool::new(memory, cpus),
            idle_masks: IdleMasks::new(memory, cpus),
            iterators: Iterators::default(),
            fixed_masks: FixedMasks::new(memory, cpus),
            cgroups: Cgroups::new(memory, types),
            credentials: Credentials::new(memory, types),
            arguments: Arguments::new(memory, types),
            mm,
            cpus,
            last: mm,
        };
        objects.last = memory.last_region();
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
            rt_priority: 0,
            start_time: 0,
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
        let mut rq = Writer { bytes: memory.slot_mut(self.rqs, cpu.0), layout: self.types.layout("rq") };
        rq.set("cpu", u64::from(cpu.0));
        rq.set("curr", idle);
        rq.set("donor", idle);
        rq.set("scx.local_dsq.id", DsqId::LOCAL.0);
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
        let leader = memory.get_u64(self.tasks, task.0, self.at.group_leader);
        let leader = memory.slot_in(self.tasks, leader).expect("every task has a group leader");
        let pid = self.credentials.pid(memory, task.0, view.pid);
        let signal = self.credentials.signal(memory, leader, view.session);
        let kthread = match view.flags & PF_KTHREAD {
            0 => 0,
            _ => self.credentials.kthread(memory, task.0, view.own_cpu),
        };
        let layout = self.types.layout("task_struct");
        let mut to = Writer { bytes: memory.slot_mut(self.tasks, task.0), layout };
        // The kernel allocates tids from 1; 0 is not a tid.
        to.set("scx.tid", u64::from(task.0) + 1);
        to.set("thread_pid", pid);
        to.set("signal", signal);
        to.set("worker_private", kthread);
    }

    /// Adds `change` to the thread count of a task's process.
    pub fn count_thread(&self, memory: &mut Memory, task: TaskId, change: i32) {
        let leader = memory.get_u64(self.tasks, task.0, self.at.group_leader);
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
        let group = self.cgroups.task_group(memory, view.cgroup);
        if let Some(leader) = process {
            let leader_addr = memory.addr(self.tasks, leader);
            let layout = self.types.layout("mm_struct");
            Writer { bytes: memory.slot_mut(self.mm, leader), layout }.set("owner", leader_addr);
        }
        let layout = self.types.layout("task_struct");
        let mut to = Writer { bytes: memory.slot_mut(region, slot), layout };
        to.set("pid", view.pid as u64);
        to.set("tgid", view.tgid as u64);
        to.set("flags", view.flags.into());
        to.set("static_prio", view.static_prio as u64);
        to.set("normal_prio", view.prio as u64);
        to.set("prio", view.prio as u64);
        to.set("rt_priority", view.rt_priority.into());
        to.set("policy", view.policy.into());
        to.set("start_time", view.start_time);
        to.set("start_boottime", view.start_time);
        to.set("sched_task_group", group);
        to.set("scx.weight", view.weight.into());
        to.set("cpus_ptr", own + u64::from(self.at.cpus_mask));
        to.set("real_parent", parent);
        to.set("parent", parent);
        to.set("group_leader", leader);
        to.set("mm", mm);
        to.set("active_mm", mm);
        to.set("cgroups", css_set);
        to.set("real_cred", cred);
        to.set("cred", cred);
        to.text("comm", view.comm);
        let at = self.at;
        set_mask(to.bytes, at, view.allowed);
    }

    /// The leader of thread group `tgid`, looked up in `parent`, which is in the same group if the task is a thread.
    fn leader_through(&self, memory: &Memory, parent: GuestAddr, tgid: i32, own: GuestAddr) -> GuestAddr {
        let Some(slot) = memory.slot_in(self.tasks, parent) else { return own };
        let same_group = memory.get_u32(self.tasks, slot, self.at.tgid) as i32 == tgid;
        if same_group { memory.get_u64(self.tasks, slot, self.at.group_leader) } else { own }
    }

    /// The parent of `task`, or `task` itself if that is not a task object.
    fn parent_through(&self, memory: &Memory, task: GuestAddr) -> GuestAddr {
        memory.slot_in(self.tasks, task).map_or(task, |slot| memory.get_u64(self.tasks, slot, self.at.real_parent))
    }

    /// Updates `p->cgroups` and `p->sched_task_group` after the task has moved to another cgroup.
    pub fn set_cgroup(&self, memory: &mut Memory, task: TaskId, cgroup: u32) {
        let (set, group) = (self.cgroups.css_set(memory, cgroup), self.cgroups.task_group(memory, cgroup));
        let layout = self.types.layout("task_struct");
        let mut to = Writer { bytes: memory.slot_mut(self.tasks, task.0), layout };
        to.set("cgroups", set);
        to.set("sched_task_group", group);
    }

    /// Updates the affinity fields only (cpus_mask, nr_cpus_allowed).
    pub fn set_allowed(&self, memory: &mut Memory, task: TaskId, allowed: &CpuSet) {
        set_mask(memory.slot_mut(self.tasks, task.0), self.at, allowed);
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
        (memory.get_u64(self.tasks, slot, self.at.cpus_ptr) != 0).then_some(TaskId(slot))
    }

    /// CPU whose idle task's object starts exactly at `addr`.
    pub fn idle_task_at(&self, memory: &Memory, addr: GuestAddr) -> Option<CpuId> {
        memory.slot_at(self.idle_tasks, addr).map(CpuId)
    }

    /// `p->scx.slice`, in nanoseconds.
    #[inline]
    pub fn slice(&self, memory: &Memory, task: TaskId) -> u64 {
        memory.get_u64(self.tasks, task.0, self.at.slice)
    }

    #[inline]
    pub fn set_slice(&self, memory: &mut Memory, task: TaskId, slice: u64) {
        memory.set_u64(self.tasks, task.0, self.at.slice, slice);
    }

    /// `p->scx.dsq_vtime`.
    #[inline]
    pub fn vtime(&self, memory: &Memory, task: TaskId) -> u64 {
        memory.get_u64(self.tasks, task.0, self.at.vtime)
    }

    #[inline]
    pub fn set_vtime(&self, memory: &mut Memory, task: TaskId, vtime: u64) {
        memory.set_u64(self.tasks, task.0, self.at.vtime, vtime);
    }

    /// `p->scx.disallow`.
    pub fn disallow(&self, memory: &Memory, task: TaskId) -> bool {
        memory.slot(self.tasks, task.0)[self.at.disallow as usize] != 0
    }

    /// `p->scx.flags`.
    #[inline]
    pub fn set_scx_flags(&self, memory: &mut Memory, task: TaskId, flags: u32) {
        memory.set_u32(self.tasks, task.0, self.at.scx_flags, flags);
    }

    /// `p->se.sum_exec_runtime`, in nanoseconds.
    #[inline]
    pub fn set_sum_exec_runtime(&self, memory: &mut Memory, task: TaskId, ns: u64) {
        memory.set_u64(self.tasks, task.0, self.at.sum_exec, ns);
    }

    /// `cpu_rq(cpu)->curr`.
    #[inline]
    pub fn set_curr(&self, memory: &mut Memory, cpu: CpuId, task: TaskId) {
        let addr = self.task_addr(memory, task, cpu);
        memory.set_u64(self.rqs, cpu.0, self.at.curr, addr);
        if let Some(donor) = self.at.donor {
            memory.set_u64(self.rqs, cpu.0, donor, addr);
        }
    }

    fn object(&self, task: TaskId, cpu: CpuId) -> (RegionId, u32) {
        task.some().map_or((self.idle_tasks, cpu.0), |task| (self.tasks, task.0))
    }

    /// Pid and tgid of a task; for NONE, those of the idle task of `cpu`.
    pub fn pid_tgid(&self, memory: &Memory, task: TaskId, cpu: CpuId) -> (u32, u32) {
        let (region, slot) = self.object(task, cpu);
        (memory.get_u32(region, slot, self.at.pid), memory.get_u32(region, slot, self.at.tgid))
    }

    /// `comm` of a task: up to 15 bytes, NUL-padded.
    pub fn comm(&self, memory: &Memory, task: TaskId, cpu: CpuId) -> [u8; 16] {
        let (region, slot) = self.object(task, cpu);
        memory.slot(region, slot)[self.at.comm as usize..][..16].try_into().expect("16 bytes")
    }

    /// Guest address of a kernel variable that programs may name; for a per-CPU variable, that of CPU 0.
    pub fn variable(&self, memory: &Memory, name: &str) -> Option<GuestAddr> {
        self.per_cpu.variable(memory, name).or_else(|| self.scheduling.variable(memory, name))
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

fn set_mask(task: &mut [u8], at: Offsets, allowed: &CpuSet) {
    masks::write(&mut task[at.cpus_mask as usize..][..at.cpus_mask_bytes as usize], allowed);
    let count = (allowed.len() as u32).to_le_bytes();
    task[at.nr_cpus_allowed as usize..][..4].copy_from_slice(&count);
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
