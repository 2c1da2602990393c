// SPDX-License-Identifier: GPL-2.0-only
//! The sched_ext core: what the kernel does around the callbacks, and the services that kfuncs call.
//!
//! [`Core`] is the host of the BPF machine. Guest memory belongs to the machine, so every method that touches a guest
//! object is handed the memory.

use bpf_machine::{CodeSite, Memory};
use ids::{CpuId, CpuSet, DsqId, Nanos, TaskId};

/// Everything of a kernel but the BPF machine.
#[derive(Debug)]
pub(crate) struct Core {
    /// The time.
    pub now: Nanos,
    /// Guest objects, made by `guest::Objects::new` before the scheduler is loaded.
    pub objects: crate::guest::Objects,
    /// CPU on which the current operation is done ("this CPU").
    pub this_cpu: CpuId,
    /// State of `bpf_get_prandom_u32`.
    pub prandom: u64,
}

/// Position of a DSQ iterator (`struct bpf_iter_scx_dsq` holds it as three u64: dsq, cursor, flags|seq).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DsqCursor {
    /// The queue.
    pub dsq: DsqId,
    /// The last task that was handed out, or NONE.
    pub last: TaskId,
    /// Insertion sequence of the queue when the iterator was made: later arrivals are not seen (contract K3).
    pub seq: u64,
    /// Walk from the tail.
    pub reverse: bool,
    /// Position in the order, so that removal of `last` is tolerated: its (key, sequence).
    pub position: (u64, u64),
}

/// Services for kfunc handlers. Errors that the kernel reports with `scx_error` are reported inside (first one wins);
/// the return value is what the kfunc returns to the program.
#[allow(unused_variables)]
impl Core {
    /// `scx_error`: kind 1024 (runtime error) unless told otherwise; the first one wins (contract E1).
    pub fn error(&mut self, kind: u32, code: i64, message: String) { todo!() }
    /// Number of CPUs.
    pub fn cpus(&self) -> u32 { todo!() }
    /// Whether the number names a possible CPU; if not, reports `invalid CPU <n>` as the kernel does.
    pub fn check_cpu(&mut self, cpu: i32) -> Option<CpuId> { todo!() }
    /// Who runs on `cpu`; NONE is its idle task.
    pub fn current(&self, cpu: CpuId) -> TaskId { todo!() }
    /// CPU of a task.
    pub fn task_cpu(&self, task: TaskId) -> CpuId { todo!() }
    /// Task with this pid.
    pub fn task_by_pid(&self, pid: i32) -> Option<TaskId> { todo!() }
    /// scx_bpf_now (contract S1).
    pub fn clock(&self) -> Nanos { todo!() }

    /// scx_bpf_dsq_insert; `vtime` for the ordered form.
    pub fn dsq_insert(&mut self, memory: &mut Memory, task: TaskId, dsq: DsqId, slice: u64, vtime: Option<u64>, enq_flags: u64, site: CodeSite) -> bool { todo!() }
    /// scx_bpf_dsq_move_to_local.
    pub fn dsq_move_to_local(&mut self, memory: &mut Memory, dsq: DsqId, enq_flags: u64) -> bool { todo!() }
    /// scx_bpf_dispatch_nr_slots.
    pub fn dispatch_nr_slots(&mut self) -> u32 { todo!() }
    /// scx_bpf_dispatch_cancel.
    pub fn dispatch_cancel(&mut self) { todo!() }
    /// scx_bpf_create_dsq: 0 or a negative errno.
    pub fn create_dsq(&mut self, dsq: DsqId, node: i32) -> i32 { todo!() }
    /// scx_bpf_destroy_dsq.
    pub fn destroy_dsq(&mut self, dsq: DsqId) { todo!() }
    /// scx_bpf_dsq_nr_queued: count or -ENOENT.
    pub fn dsq_nr_queued(&mut self, dsq: DsqId) -> i32 { todo!() }
    /// scx_bpf_dsq_peek.
    pub fn dsq_peek(&mut self, dsq: DsqId) -> Option<TaskId> { todo!() }
    /// Starts an iteration over a user queue; negative errno (-ENOENT missing, -EINVAL bad flags).
    pub fn dsq_iter(&mut self, dsq: DsqId, flags: u64) -> Result<DsqCursor, i32> { todo!() }
    /// Next task of an iteration; advances the cursor.
    pub fn dsq_iter_next(&mut self, cursor: &mut DsqCursor) -> Option<TaskId> { todo!() }
    /// scx_bpf_dsq_move(_vtime) from an iterator, with its one-shot overrides.
    pub fn dsq_move(&mut self, memory: &mut Memory, cursor: &DsqCursor, task: TaskId, to: DsqId, slice: Option<u64>, vtime: Option<u64>, ordered: bool, enq_flags: u64) -> bool { todo!() }
    /// scx_bpf_dsq_reenq / scx_bpf_reenqueue_local; the count for the synchronous form.
    pub fn reenqueue_local(&mut self, memory: &mut Memory) -> u32 { todo!() }
    /// scx_bpf_kick_cpu.
    pub fn kick_cpu(&mut self, cpu: i32, flags: u64) { todo!() }

    /// scx_bpf_select_cpu_dfl: CPU and whether it was idle (and is now claimed).
    pub fn select_cpu_dfl(&mut self, memory: &mut Memory, task: TaskId, prev_cpu: i32, wake_flags: u64) -> (i32, bool) { todo!() }
    /// scx_bpf_select_cpu_and: CPU or negative errno.
    pub fn select_cpu_and(&mut self, memory: &mut Memory, task: TaskId, prev_cpu: i32, wake_flags: u64, allowed: &CpuSet, flags: u64) -> i32 { todo!() }
    /// scx_bpf_pick_idle_cpu(_node): CPU or -EBUSY. `node` None for the flat form.
    pub fn pick_idle_cpu(&mut self, allowed: &CpuSet, node: Option<i32>, flags: u64) -> i32 { todo!() }
    /// scx_bpf_pick_any_cpu(_node).
    pub fn pick_any_cpu(&mut self, allowed: &CpuSet, node: Option<i32>, flags: u64) -> i32 { todo!() }
    /// scx_bpf_test_and_clear_cpu_idle.
    pub fn test_and_clear_cpu_idle(&mut self, cpu: i32) -> bool { todo!() }
    /// The idle mask (`smt` false) or the mask of fully idle cores, of a node or flat; reports misuse, then empty.
    pub fn idle_mask(&mut self, node: Option<i32>, smt: bool) -> CpuSet { todo!() }
    /// The shared "distribute" cursor of this CPU: next set bit after it, wrapping (contract I3).
    pub fn any_distribute(&mut self, mask: &CpuSet) -> u32 { todo!() }

    /// scx_bpf_task_running: is it the current task of its CPU.
    pub fn task_running(&self, task: TaskId) -> bool { todo!() }
    /// scx_bpf_cpuperf_set, 0 to 1024.
    pub fn cpuperf_set(&mut self, cpu: i32, perf: u32) { todo!() }
    /// scx_bpf_cpuperf_cur.
    pub fn cpuperf_cur(&mut self, cpu: i32) -> u32 { todo!() }
    /// scx_bpf_exit_bstr.
    pub fn bpf_exit(&mut self, code: i64, message: String) { todo!() }
    /// scx_bpf_dump_bstr: appends to the dump that is being made.
    pub fn dump(&mut self, text: String) { todo!() }
    /// Node of a CPU.
    pub fn node_of(&self, cpu: CpuId) -> u32 { todo!() }
    /// Nodes of the machine.
    pub fn nodes(&self) -> u32 { todo!() }
    /// Value of an event counter by its name (`SCX_EV_…`).
    pub fn event_count(&self, name: &str) -> u64 { todo!() }
    /// Whether the current operation's op allows this group of kfuncs; the table asks before every call.
    pub fn allows(&self, group: crate::kfuncs::Group) -> bool { todo!() }
}
