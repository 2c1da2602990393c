// SPDX-License-Identifier: GPL-2.0-only
//! Schedulers of several kinds, for tests with random operations.

use std::sync::OnceLock;

/// Ops that all kinds have.
const OPS: [&str; 7] = ["OP_SELECT_CPU", "OP_ENQUEUE", "OP_DISPATCH", "OP_RUN", "OP_DEQUEUE", "OP_TASK", "OP_HOTPLUG"];
/// `enqueue` inserts into the local queue of a random allowed CPU.
const ANYWHERE: &str =
    "ON_ENQUEUE=dsq_insert(p,LOCAL_ON(scx_bpf_pick_any_cpu(p->cpus_ptr,0)),SCX_SLICE_DFL,enq_flags&FLAG);";

/// Which tasks a scheduler guarantees to run eventually.
#[derive(Clone, Copy, PartialEq)]
pub enum Serves {
    /// Every runnable task.
    EveryTask,
    /// Every task that was enqueued while all of its allowed CPUs were online. A task sent to an offline CPU waits in
    /// the global queue, which a CPU consumes only when its local queue is empty (P3, P4). That may never happen,
    /// even after the offline CPU is back.
    ReachableTasks,
    /// No guarantee: some runnable tasks may never run.
    NotAllTasks,
}

/// The schedulers: what each defines in addition to [`OPS`], and which tasks it runs.
pub const KINDS: [(&[&str], Serves); 9] = [
    (&["OP_UPDATE_IDLE", "FLAGS=1"], Serves::EveryTask),
    (
        &[
            "ON_SELECT=s32 c=scx_bpf_select_cpu_dfl(p,prev_cpu,wake_flags,&idle);if(idle)dsq_insert(p,SCX_DSQ_LOCAL,SCX_SLICE_DFL,0);return c;",
        ],
        Serves::EveryTask,
    ),
    (&["ON_ENQUEUE=dsq_insert(p,SCX_DSQ_LOCAL,1000000,0);", "OP_PREEMPT", "OP_YIELD", "FLAGS=4"], Serves::EveryTask),
    (&[ANYWHERE], Serves::ReachableTasks),
    (
        &[
            "ON_ENQUEUE=hold(p);",
            "ON_DISPATCH=struct task_struct*t=held_task();if(t){dsq_insert(t,cpu&1?SHARED:LOCAL_ON(scx_bpf_task_cpu(t)),SCX_SLICE_DFL,0);bpf_task_release(t);}dsq_move_to_local(SHARED);",
        ],
        Serves::NotAllTasks,
    ),
    (
        &[
            "ON_ENQUEUE=if(enq_flags&(1ULL<<40))dsq_insert(p,SHARED,SCX_SLICE_DFL,0);else dsq_insert(p,SCX_DSQ_LOCAL,SCX_SLICE_DFL,1ULL<<33);",
            "OP_PREEMPT",
        ],
        Serves::EveryTask,
    ),
    (
        &[
            "FLAGS=128",
            "ON_SELECT=s32 c=scx_bpf_pick_idle_cpu(p->cpus_ptr,0);if(c>=0){dsq_insert(p,SCX_DSQ_LOCAL,SCX_SLICE_DFL,0);return c;}return prev_cpu;",
        ],
        Serves::EveryTask,
    ),
    (
        &[
            "ON_ENQUEUE=dsq_insert_by_key(p,ORDERED,2000000,p->scx.dsq_vtime+bpf_get_prandom_u32()%1000,0);scx_bpf_kick_cpu(scx_bpf_task_cpu(p),counter++%3?1:2);",
            "ON_DISPATCH=dsq_move_to_local(ORDERED);",
        ],
        Serves::EveryTask,
    ),
    (
        &["ON_ENQUEUE=dsq_insert(p,GLOBAL,SCX_SLICE_DFL,0);", "OP_TICK", "ON_TICK=if(counter++%5==0)p->scx.slice=0;"],
        Serves::NotAllTasks,
    ),
];

/// The object of a kind, compiled once.
pub fn object(kind: usize) -> &'static [u8] {
    static OBJECTS: [OnceLock<Vec<u8>>; KINDS.len()] = [const { OnceLock::new() }; KINDS.len()];
    OBJECTS[kind].get_or_init(|| {
        let defines: Vec<String> =
            OPS.iter().chain(KINDS[kind].0).map(|define| define.replace("&FLAG", "&0x10000")).collect();
        super::probe(&defines.iter().map(String::as_str).collect::<Vec<_>>())
    })
}
