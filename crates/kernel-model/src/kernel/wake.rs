// SPDX-License-Identifier: GPL-2.0-only
//! Fork and wakeup: `sched_fork`, `wake_up_new_task`, `try_to_wake_up` (contract T1-T3).

use super::{Kernel, Stage};
use crate::core::classes::Turn;
use crate::core::deadline::{Refusal, Request, Reservation};
use crate::core::task::{
    Activation, Class, Entity, ExtState, History, Owner, ReenqueueReason, RunState, Task, Verdict, ext_weight,
};
use crate::core::{SLICE_DFL_NS, enq_flags, ops_flags};
use crate::guest::TaskView;
use crate::ops::Op;
use crate::{CgroupId, TaskAttributes};
use event_log::{DetailKind, EventKind, Waker, modelled_pid};
use ids::{CpuId, CpuSet, DsqId, Nanos, TaskId};
use two_forms::two_forms;

/// SCX_WAKE_FORK.
const WAKE_FORK: u64 = 0x4;
/// SCX_WAKE_TTWU.
const WAKE_TTWU: u64 = 0x8;
/// SCX_WAKE_SYNC.
const WAKE_SYNC: u64 = 0x10;
/// Maximum length of `comm` in bytes.
const COMM_BYTES: usize = 15;

#[two_forms]
impl Kernel {
    /// Decides whether admission control accepts the deadline policy of a task that is about to be created (contract
    /// Q4). [`Kernel::fork`] itself does not check this.
    pub fn admits(&self, attributes: &TaskAttributes) -> Result<(), Refusal> {
        let (policy, allowed, attached) = (attributes.policy, &attributes.allowed, self.attached_how());
        self.core.dl_admit(Request { task: None, policy, allowed, attached })
    }

    /// Creates a task, not yet runnable; executed by `cpu`. Tasks are numbered from 0 in order of creation. If
    /// `init_task` refuses the task, its negative errno is returned, the task is dead, and its number stays used.
    pub fn fork(&mut self, cpu: CpuId, attributes: TaskAttributes) -> Result<TaskId, i32> {
        self.core.context.cpu = cpu;
        let task = TaskId(self.core.tasks.len() as u32);
        let entry = self.new_task(task, cpu, attributes);
        self.core.tasks.add(entry);
        self.publish(task);
        self.core.objects.count_thread(&mut self.machine.memory, task, 1);
        self.core.objects.set_slice(&mut self.machine.memory, task, SLICE_DFL_NS);
        let parent = self.core.task(task).parent;
        if parent != TaskId::NONE {
            self.core.log(parent, EventKind::Fork { child: task });
        }
        if self.stage != Stage::Disabled {
            if let Err(errno) = self.init_task(task, true) {
                self.core.task_mut(task).run_state = RunState::Dead;
                self.core.objects.count_thread(&mut self.machine.memory, task, -1);
                self.finish();
                return Err(errno);
            }
            if self.core.task(task).class == Class::Ext {
                self.enable_task(task);
            }
        }
        self.finish();
        Ok(task)
    }

    fn new_task(&self, task: TaskId, cpu: CpuId, attributes: TaskAttributes) -> Task {
        let TaskAttributes { name, policy, nice, allowed, kernel_thread, own_cpu, thread, parent, identity } =
            attributes;
        let allowed = allowed.intersection(&CpuSet::first_n(self.core.cpus.len()));
        assert!(!allowed.is_empty(), "the affinity of a new task has no CPU of the machine");
        let mut comm = name;
        let end = (0..=COMM_BYTES.min(comm.len())).rev().find(|&end| comm.is_char_boundary(end)).unwrap_or(0);
        comm.truncate(end);
        let switch_all = !self.flag(ops_flags::SWITCH_PARTIAL);
        let pid = modelled_pid(task) as i32;
        let (uid, session, cgroup) = parent.map_or((0, 0, CgroupId::ROOT), |parent| {
            let parent = self.core.task(parent);
            (parent.uid, parent.session, parent.cgroup)
        });
        let sibling = identity.process.or(parent.filter(|_| thread));
        Task {
            blocks: false,
            comm,
            pid,
            tgid: sibling.map_or(pid, |sibling| self.core.task(sibling).tgid),
            policy,
            nice,
            allowed_count: allowed.len() as u32,
            allowed: self.core.tasks.share(allowed),
            kernel_thread,
            own_cpu,
            parent: parent.unwrap_or(TaskId::NONE),
            sibling: sibling.or(parent).unwrap_or(TaskId::NONE),
            exiting: false,
            uid: identity.uid.unwrap_or(uid),
            session: identity.session.unwrap_or(session),
            cgroup: identity.cgroup.unwrap_or(cgroup),
            cpu,
            run_state: RunState::New,
            class: self.core.class_of(policy, switch_all, self.stage == Stage::Enabled),
            sum_exec: Nanos::ZERO,
            class_key: 0,
            class_seq: 0,
            quantum_left: self.core.rr_quantum(),
            fair: Entity::default(),
            dl: Reservation::default(),
            ext_state: ExtState::None,
            queued: false,
            owner: Owner::Core,
            ops_qseq: 0,
            custody: false,
            immediate: false,
            slept: false,
            reenqueue_reason: ReenqueueReason::None,
            migrate_to: cpu,
            verdict: None,
            selected_cpu: cpu,
            queue: None,
            position: (0, 0),
            queue_seq: 0,
            runnable_at: self.core.time.now(),
            reset_runnable_at: true,
            runnable_seq: 0,
            history: History { forked: self.core.time.since_boot(), ..History::default() },
        }
    }

    /// Writes the attributes of a task to its guest object.
    pub(super) fn publish(&mut self, task: TaskId) {
        /// PF_EXITING, PF_KTHREAD and PF_NO_SETAFFINITY are the only flags that schedulers read.
        const PF_EXITING: u32 = 0x4;
        const PF_KTHREAD: u32 = 0x20_0000;
        let entry = &self.core.tasks[task];
        let flags = if entry.kernel_thread { PF_KTHREAD } else { 0 } | if entry.exiting { PF_EXITING } else { 0 };
        let view = TaskView {
            pid: entry.pid,
            comm: &entry.comm,
            flags,
            own_cpu: entry.own_cpu,
            static_prio: 120 + i32::from(entry.nice),
            prio: entry.prio(),
            rt_priority: entry.rt_priority(),
            start_time: entry.history.forked.0,
            policy: entry.policy_number(),
            weight: ext_weight(entry.policy, entry.nice),
            allowed: &entry.allowed,
            parent: entry.sibling,
            tgid: entry.tgid,
            uid: entry.uid,
            session: entry.session,
            cgroup: entry.cgroup.0,
        };
        self.core.objects.publish(&mut self.machine.memory, task, &view);
    }

    /// Makes a new task runnable for the first time (`wake_up_new_task`), on behalf of its parent on `cpu`.
    pub async fn wake_new(&mut self, cpu: CpuId, task: TaskId) {
        self.core.context.cpu = cpu;
        assert_eq!(self.core.task(task).run_state, RunState::New, "a task is woken as new once");
        self.core.task_mut(task).history.activation = Activation::New;
        let parent = self.core.task(task).parent;
        let (target, _) = self.select_cpu(task, WAKE_FORK).await;
        let waker = if parent == TaskId::NONE { Waker::External } else { Waker::Fork(parent) };
        self.make_runnable(task, target, waker, false, enq_flags::INITIAL | enq_flags::NOCLOCK).await;
    }

    /// Wakes a sleeping task from `cpu` (`try_to_wake_up`). No effect if the task is runnable or has exited.
    pub async fn wake(&mut self, cpu: CpuId, task: TaskId, waker: Waker, sync: bool) {
        self.core.context.cpu = cpu;
        if !self.claim_wakeup(task).await {
            return;
        }
        self.core.task_mut(task).history.activation = Activation::Woken;
        let (target, selected) = self.select_cpu(task, WAKE_TTWU | if sync { WAKE_SYNC } else { 0 }).await;
        let selected = if selected { enq_flags::CPU_SELECTED } else { 0 };
        let migrated = if target == self.core.task_cpu(task) { 0 } else { enq_flags::MIGRATED };
        self.make_runnable(task, target, waker, sync, enq_flags::WAKEUP | enq_flags::NOCLOCK | selected | migrated)
            .await;
    }

    async fn make_runnable(&mut self, task: TaskId, target: CpuId, waker: Waker, sync: bool, flags: u64) {
        let from = self.core.task_cpu(task);
        if from != target {
            self.core.migrate(task, target);
        }
        self.begin_locked(target, "wakeup").await;
        let entry = self.core.task_mut(task);
        entry.run_state = RunState::Runnable;
        let (class, delayed, fresh) = (entry.class, entry.fair.is_delayed(), flags & enq_flags::INITIAL != 0);
        self.core.log(task, EventKind::Wakeup { waker, sync, target });
        match class {
            Class::Ext => self.enqueue_task(task, flags).await,
            // requeue_delayed_entity(): the running task is charged only after the delayed task is placed again.
            Class::Fair if delayed => {
                self.core.higher_enqueue(task, Turn::Last);
                self.charge_fair(target);
            }
            _ => {
                self.charge_fair(target);
                if class == Class::Deadline {
                    self.core.dl_wake(task);
                }
                self.core.higher_enqueue(task, Turn::Last);
            }
        }
        self.core.task_mut(task).history.activation = Activation::None;
        self.preempt_lower(task, fresh);
        if class == Class::Deadline && self.core.dl_must_push(task) {
            self.push_deadline(target);
        }
        self.unlock().await;
        self.finish().await;
    }

    /// Charges the fair task running on `cpu` before others are compared with it (`update_curr`).
    pub(super) fn charge_fair(&mut self, cpu: CpuId) {
        if self.core.current_class(cpu) == Class::Fair {
            self.update_current(cpu);
            if self.core.cpus[cpu.index()].preempted {
                self.core.resched_lazily(cpu);
            }
        }
    }

    /// `select_task_rq`: selects the CPU of a waking task; also returns whether the class was asked (contract T2).
    async fn select_cpu(&mut self, task: TaskId, wake_flags: u64) -> (CpuId, bool) {
        let forked = wake_flags & WAKE_FORK != 0;
        let stays = self.core.task(task).fair.is_delayed();
        let entry = self.core.task(task);
        let asked = entry.allowed_count > 1;
        let cpu = match entry.class {
            // A delayed task is still on its CPU's queue (DELAY_DEQUEUE) and stays there.
            _ if stays => entry.cpu,
            _ if !asked => entry.allowed.first().expect("an affinity is never empty"),
            Class::Ext => self.select_cpu_ext(task, wake_flags).await,
            Class::Fair if forked => self.core.fair_select_new(task, self.core.context.cpu),
            Class::Fair => self.core.fair_select_woken(task, self.core.context.cpu, wake_flags & WAKE_SYNC != 0),
            Class::Deadline => self.core.dl_select_cpu(task, forked),
            _ => self.core.higher_select_cpu(task),
        };
        (self.correct_cpu(task, cpu).await, asked)
    }

    /// `is_cpu_allowed`: whether a task may run on a CPU, by its affinity and the state of the CPU. Per-CPU kthreads
    /// may run there as long as it is online.
    pub(super) fn may_run_on(&self, task: TaskId, cpu: CpuId) -> bool {
        let rq = &self.core.cpus[cpu.index()];
        self.core.task(task).allowed.contains(cpu) && (rq.active || rq.online && self.belongs_to_cpu(task))
    }

    /// `kthread_is_per_cpu`.
    pub(super) fn belongs_to_cpu(&self, task: TaskId) -> bool {
        let entry = self.core.task(task);
        entry.own_cpu.is_some()
    }

    /// `select_fallback_rq`: silently replaces a CPU where the task may not run by the first allowed one of the
    /// task's node, or the first allowed one anywhere. A task pinned only to offlined CPUs loses its affinity
    /// permanently.
    pub(super) async fn correct_cpu(&mut self, task: TaskId, cpu: CpuId) -> CpuId {
        if self.may_run_on(task, cpu) {
            return cpu;
        }
        let home = self.core.node_of(self.core.task_cpu(task));
        let mut usable = self.core.task(task).allowed.iter().filter(|&cpu| self.core.cpus[cpu.index()].active);
        let first = usable.next();
        let near = first.into_iter().chain(usable).find(|&cpu| self.core.node_of(cpu) == home);
        if let Some(found) = near.or(first) {
            return found;
        }
        let everywhere = self.core.tasks.everywhere().clone();
        self.change(task, 0, async |kernel: &mut Kernel| kernel.apply_affinity(task, &everywhere).await).await;
        self.core.log(task, EventKind::Affinity);
        self.core.active_cpus().first().expect("some CPU is active")
    }

    async fn select_cpu_ext(&mut self, task: TaskId, wake_flags: u64) -> CpuId {
        let prev = self.core.task_cpu(task);
        let asked = self.has(Op::SelectCpu) && !self.core.bypassing();
        let chosen = if asked {
            let args = [self.addr(task), u64::from(prev.0), wake_flags];
            let cpu = self.call_deciding(Op::SelectCpu, &args, task).await.unwrap_or(prev.0);
            self.core.task_mut(task).selected_cpu = CpuId(cpu);
            self.core.cpu(cpu as i32).unwrap_or_else(|| {
                let message = format!("invalid CPU {} from ops.select_cpu()", cpu as i32);
                self.core.fail_after(Op::SelectCpu, message);
                prev
            })
        } else {
            self.core.attached.counters.bypass_dispatch += u64::from(self.core.bypassing());
            let cpu = self.select_cpu_default(task, prev, wake_flags);
            self.core.task_mut(task).selected_cpu = cpu;
            cpu
        };
        self.core.log(task, EventKind::SelectCpu { prev, chosen });
        if asked {
            self.core.detail_of(Op::SelectCpu, task, |_| DetailKind::Chose);
        }
        chosen
    }

    /// Without the op: the default search, and a direct dispatch to the local queue of an idle CPU (contract D11).
    fn select_cpu_default(&mut self, task: TaskId, prev: CpuId, wake_flags: u64) -> CpuId {
        let cpu = self.core.search_idle(task, prev, wake_flags, None, 0);
        if cpu < 0 {
            return prev;
        }
        self.core.refill_slice(&mut self.machine.memory, task);
        let verdict = Verdict { dsq: DsqId::LOCAL, ordered: false, enq_flags: 0, op: None, call: None };
        self.core.task_mut(task).verdict = Some(verdict);
        CpuId(cpu as u32)
    }
}
