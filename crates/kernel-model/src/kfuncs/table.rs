// SPDX-License-Identifier: GPL-2.0-only
//! The kfuncs as data, sorted by name. Names are the kernel's, including `___v2` suffixes: a loader strips everything
//! from the last `___` of the name in the object and looks up the rest (contract 3.3), so `x___v2___compat` finds
//! `x___v2`. Versions are those of contract part 4.

use super::{Nature, cpumask, dsq, idle, iter, kick, perf, task, text};
use crate::core::Core;
use crate::ops::Group;
use bpf_machine::{Context, FaultKind};

pub(super) type Handler = fn(&mut Core, [u64; 5], &mut Context<'_>) -> Result<u64, FaultKind>;

/// A kfunc of some kernel version.
#[derive(Debug)]
pub(super) struct Kfunc {
    pub name: &'static str,
    /// Number of parameters, without the hidden trailing argument that kernels add since 7.0 (contract N4).
    pub parameters: u32,
    /// First version that has it.
    pub since: (u16, u16),
    /// First version that no longer has it.
    pub until: Option<(u16, u16)>,
    pub groups: &'static [Group],
    pub nature: Nature,
    /// Result of a call from an op that may not call it.
    pub refused: i32,
    pub handler: Handler,
}

impl Kfunc {
    pub fn exists_in(&self, version: (u16, u16)) -> bool {
        version >= self.since && self.until.is_none_or(|until| version < until)
    }

    /// Whether every op may call it.
    #[inline]
    pub fn is_unrestricted(&self) -> bool {
        matches!(self.groups, [Group::Any | Group::Idle])
    }

    const fn until(self, until: (u16, u16)) -> Kfunc {
        Kfunc { until: Some(until), ..self }
    }

    const fn refused(self, refused: i32) -> Kfunc {
        Kfunc { refused, ..self }
    }
}

/// A row of the table.
const fn row(
    name: &'static str,
    parameters: u32,
    since: (u16, u16),
    groups: &'static [Group],
    nature: Nature,
    handler: Handler,
) -> Kfunc {
    Kfunc { name, parameters, since, until: None, groups, nature, refused: 0, handler }
}

const ANY: &[Group] = &[Group::Any];
const IDLE: &[Group] = &[Group::Idle];
const ENQUEUE: &[Group] = &[Group::Enqueue];
const DISPATCH: &[Group] = &[Group::Dispatch];
const MOVE: &[Group] = &[Group::Dispatch, Group::Unlocked];
const SELECT: &[Group] = &[Group::Select, Group::Unlocked];
const UNLOCKED: &[Group] = &[Group::Unlocked];
const RELEASE: &[Group] = &[Group::Release];

/// First version with sched_ext.
const V6_12: (u16, u16) = (6, 12);
const V6_13: (u16, u16) = (6, 13);
const V6_14: (u16, u16) = (6, 14);
const V6_15: (u16, u16) = (6, 15);
const V6_16: (u16, u16) = (6, 16);
const V6_18: (u16, u16) = (6, 18);
const V6_19: (u16, u16) = (6, 19);
const V7_0: (u16, u16) = (7, 0);
const V7_1: (u16, u16) = (7, 1);
const V7_2: (u16, u16) = (7, 2);

/// `-EPERM`.
const EPERM: i32 = -1;

use Nature::{Clock, Interrupt, Lookup, Queue, Scan, Trivial};

/// All kfuncs, except the cid, cmask, arena and sub-scheduler families of 7.1 and later.
pub(super) static KFUNCS: &[Kfunc] = &[
    row("__scx_bpf_dsq_insert_vtime", 2, V6_19, ENQUEUE, Queue, dsq::insert_vtime_args),
    row("__scx_bpf_select_cpu_and", 3, V6_19, SELECT, Scan, idle::select_cpu_and_args).refused(EPERM),
    row("bpf_cgroup_acquire", 1, V6_12, ANY, Trivial, task::cgroup_acquire),
    row("bpf_cgroup_ancestor", 2, V6_12, ANY, Trivial, task::cgroup_ancestor),
    row("bpf_cgroup_from_id", 1, V6_12, ANY, Lookup, task::cgroup_from_id),
    row("bpf_cgroup_release", 1, V6_12, ANY, Trivial, task::cgroup_release),
    row("bpf_cpumask_acquire", 1, V6_12, ANY, Trivial, cpumask::acquire),
    row("bpf_cpumask_and", 3, V6_12, ANY, Scan, cpumask::and),
    row("bpf_cpumask_any_and_distribute", 2, V6_12, ANY, Scan, cpumask::any_and_distribute),
    row("bpf_cpumask_any_distribute", 1, V6_12, ANY, Scan, cpumask::any_distribute),
    row("bpf_cpumask_clear", 1, V6_12, ANY, Scan, cpumask::clear),
    row("bpf_cpumask_clear_cpu", 2, V6_12, ANY, Trivial, cpumask::clear_cpu),
    row("bpf_cpumask_copy", 2, V6_12, ANY, Scan, cpumask::copy),
    row("bpf_cpumask_create", 0, V6_12, ANY, Lookup, cpumask::create),
    row("bpf_cpumask_empty", 1, V6_12, ANY, Scan, cpumask::empty),
    row("bpf_cpumask_equal", 2, V6_12, ANY, Scan, cpumask::equal),
    row("bpf_cpumask_first", 1, V6_12, ANY, Scan, cpumask::first),
    row("bpf_cpumask_first_and", 2, V6_12, ANY, Scan, cpumask::first_and),
    row("bpf_cpumask_first_zero", 1, V6_12, ANY, Scan, cpumask::first_zero),
    row("bpf_cpumask_full", 1, V6_12, ANY, Scan, cpumask::full),
    row("bpf_cpumask_intersects", 2, V6_12, ANY, Scan, cpumask::intersects),
    row("bpf_cpumask_or", 3, V6_12, ANY, Scan, cpumask::or),
    row("bpf_cpumask_populate", 3, V6_15, ANY, Scan, cpumask::populate),
    row("bpf_cpumask_release", 1, V6_12, ANY, Trivial, cpumask::release),
    row("bpf_cpumask_set_cpu", 2, V6_12, ANY, Trivial, cpumask::set_cpu),
    row("bpf_cpumask_setall", 1, V6_12, ANY, Scan, cpumask::set_all),
    row("bpf_cpumask_subset", 2, V6_12, ANY, Scan, cpumask::subset),
    row("bpf_cpumask_test_and_clear_cpu", 2, V6_12, ANY, Trivial, cpumask::test_and_clear_cpu),
    row("bpf_cpumask_test_and_set_cpu", 2, V6_12, ANY, Trivial, cpumask::test_and_set_cpu),
    row("bpf_cpumask_test_cpu", 2, V6_12, ANY, Trivial, cpumask::test_cpu),
    row("bpf_cpumask_weight", 1, V6_12, ANY, Scan, cpumask::weight),
    row("bpf_cpumask_xor", 3, V6_12, ANY, Scan, cpumask::xor),
    row("bpf_iter_num_destroy", 1, V6_12, ANY, Trivial, iter::num_destroy),
    row("bpf_iter_num_new", 3, V6_12, ANY, Trivial, iter::num_new),
    row("bpf_iter_num_next", 1, V6_12, ANY, Trivial, iter::num_next),
    row("bpf_iter_scx_dsq_destroy", 1, V6_12, ANY, Trivial, iter::dsq_destroy),
    row("bpf_iter_scx_dsq_new", 3, V6_12, ANY, Queue, iter::dsq_new),
    row("bpf_iter_scx_dsq_next", 1, V6_12, ANY, Queue, iter::dsq_next),
    row("bpf_local_irq_restore", 1, V6_14, ANY, Trivial, task::mark),
    row("bpf_local_irq_save", 1, V6_14, ANY, Trivial, task::mark),
    row("bpf_preempt_disable", 0, V6_12, ANY, Trivial, task::mark),
    row("bpf_preempt_enable", 0, V6_12, ANY, Trivial, task::mark),
    row("bpf_rcu_read_lock", 0, V6_12, ANY, Trivial, task::mark),
    row("bpf_rcu_read_unlock", 0, V6_12, ANY, Trivial, task::mark),
    row("bpf_task_acquire", 1, V6_12, ANY, Trivial, task::acquire),
    row("bpf_task_from_pid", 1, V6_12, ANY, Lookup, task::from_pid),
    row("bpf_task_release", 1, V6_12, ANY, Trivial, task::release),
    row("scx_bpf_consume", 1, V6_12, DISPATCH, Queue, dsq::move_to_local).until(V6_18),
    row("scx_bpf_cpu_curr", 1, V6_18, ANY, Trivial, task::cpu_curr),
    row("scx_bpf_cpu_node", 1, V6_15, IDLE, Trivial, idle::cpu_node),
    row("scx_bpf_cpu_rq", 1, V6_12, ANY, Trivial, task::cpu_rq),
    row("scx_bpf_cpuperf_cap", 1, V6_12, ANY, Trivial, perf::cap),
    row("scx_bpf_cpuperf_cur", 1, V6_12, ANY, Trivial, perf::cur),
    row("scx_bpf_cpuperf_set", 2, V6_12, ANY, Lookup, perf::set),
    row("scx_bpf_create_dsq", 2, V6_12, UNLOCKED, Queue, dsq::create).refused(EPERM),
    row("scx_bpf_destroy_dsq", 1, V6_12, ANY, Queue, dsq::destroy),
    row("scx_bpf_dispatch", 4, V6_12, ENQUEUE, Queue, dsq::insert).until(V6_18),
    row("scx_bpf_dispatch_cancel", 0, V6_12, DISPATCH, Trivial, dsq::cancel),
    row("scx_bpf_dispatch_from_dsq", 4, V6_12, MOVE, Queue, iter::dsq_move).until(V6_18),
    row("scx_bpf_dispatch_from_dsq_set_slice", 2, V6_12, MOVE, Trivial, iter::move_set_slice).until(V6_18),
    row("scx_bpf_dispatch_from_dsq_set_vtime", 2, V6_12, MOVE, Trivial, iter::move_set_vtime).until(V6_18),
    row("scx_bpf_dispatch_nr_slots", 0, V6_12, DISPATCH, Trivial, dsq::nr_slots),
    row("scx_bpf_dispatch_vtime", 5, V6_12, ENQUEUE, Queue, dsq::insert_vtime).until(V6_18),
    row("scx_bpf_dispatch_vtime_from_dsq", 4, V6_12, MOVE, Queue, iter::dsq_move_vtime).until(V6_18),
    row("scx_bpf_dsq_insert", 4, V6_13, ENQUEUE, Queue, dsq::insert),
    row("scx_bpf_dsq_insert___v2", 4, V6_19, ENQUEUE, Queue, dsq::insert),
    row("scx_bpf_dsq_insert_vtime", 5, V6_13, ENQUEUE, Queue, dsq::insert_vtime),
    row("scx_bpf_dsq_move", 4, V6_13, MOVE, Queue, iter::dsq_move),
    row("scx_bpf_dsq_move_set_slice", 2, V6_13, MOVE, Trivial, iter::move_set_slice),
    row("scx_bpf_dsq_move_set_vtime", 2, V6_13, MOVE, Trivial, iter::move_set_vtime),
    row("scx_bpf_dsq_move_to_local", 1, V6_13, DISPATCH, Queue, dsq::move_to_local),
    row("scx_bpf_dsq_move_to_local___v2", 2, V7_1, DISPATCH, Queue, dsq::move_to_local_flags),
    row("scx_bpf_dsq_move_vtime", 4, V6_13, MOVE, Queue, iter::dsq_move_vtime),
    row("scx_bpf_dsq_nr_queued", 1, V6_12, ANY, Queue, dsq::nr_queued),
    row("scx_bpf_dsq_peek", 1, V6_19, ANY, Lookup, dsq::peek),
    row("scx_bpf_dsq_reenq", 2, V7_0, ANY, Queue, dsq::reenqueue),
    row("scx_bpf_dump_bstr", 3, V6_12, ANY, Scan, text::dump_bstr),
    row("scx_bpf_error_bstr", 3, V6_12, ANY, Scan, text::error_bstr),
    row("scx_bpf_events", 2, V6_15, ANY, Scan, perf::events),
    row("scx_bpf_exit_bstr", 4, V6_12, ANY, Scan, text::exit_bstr),
    row("scx_bpf_get_idle_cpumask", 0, V6_12, IDLE, Trivial, idle::get_cpumask),
    row("scx_bpf_get_idle_cpumask_node", 1, V6_15, IDLE, Trivial, idle::get_cpumask_node),
    row("scx_bpf_get_idle_smtmask", 0, V6_12, IDLE, Trivial, idle::get_smtmask),
    row("scx_bpf_get_idle_smtmask_node", 1, V6_15, IDLE, Trivial, idle::get_smtmask_node),
    row("scx_bpf_get_online_cpumask", 0, V6_12, ANY, Trivial, idle::get_online),
    row("scx_bpf_get_possible_cpumask", 0, V6_12, ANY, Trivial, idle::get_possible),
    row("scx_bpf_kick_cpu", 2, V6_12, ANY, Interrupt, kick::kick_cpu),
    row("scx_bpf_locked_rq", 0, V6_18, ANY, Trivial, dsq::locked_rq),
    row("scx_bpf_now", 0, V6_14, ANY, Clock, task::now),
    row("scx_bpf_nr_cpu_ids", 0, V6_12, ANY, Trivial, idle::nr_cpu_ids),
    row("scx_bpf_nr_node_ids", 0, V6_15, ANY, Trivial, idle::nr_node_ids),
    row("scx_bpf_pick_any_cpu", 2, V6_12, IDLE, Scan, idle::pick_any_cpu),
    row("scx_bpf_pick_any_cpu_node", 3, V6_15, IDLE, Scan, idle::pick_any_cpu_node),
    row("scx_bpf_pick_idle_cpu", 2, V6_12, IDLE, Scan, idle::pick_idle_cpu),
    row("scx_bpf_pick_idle_cpu_node", 3, V6_15, IDLE, Scan, idle::pick_idle_cpu_node),
    row("scx_bpf_put_cpumask", 1, V6_12, ANY, Trivial, idle::put_mask),
    row("scx_bpf_put_idle_cpumask", 1, V6_12, IDLE, Trivial, idle::put_mask),
    row("scx_bpf_reenqueue_local", 0, V6_12, RELEASE, Queue, dsq::reenqueue_released),
    row("scx_bpf_reenqueue_local___v2", 0, V6_19, ANY, Queue, dsq::reenqueue_local),
    row("scx_bpf_select_cpu_and", 5, V6_16, SELECT, Scan, idle::select_cpu_and).refused(EPERM),
    row("scx_bpf_select_cpu_dfl", 4, V6_12, SELECT, Scan, idle::select_cpu_dfl).refused(EPERM),
    row("scx_bpf_task_cgroup", 1, V6_12, ANY, Trivial, task::cgroup),
    row("scx_bpf_task_cpu", 1, V6_12, ANY, Trivial, task::cpu),
    row("scx_bpf_task_running", 1, V6_12, ANY, Trivial, task::running),
    row("scx_bpf_task_set_dsq_vtime", 2, V6_19, ANY, Trivial, task::set_vtime),
    row("scx_bpf_task_set_slice", 2, V6_19, ANY, Trivial, task::set_slice),
    row("scx_bpf_test_and_clear_cpu_idle", 1, V6_12, IDLE, Scan, idle::test_and_clear),
    row("scx_bpf_tid_to_task", 1, V7_2, ANY, Lookup, task::from_tid),
];
