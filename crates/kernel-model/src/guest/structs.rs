// SPDX-License-Identifier: GPL-2.0-only
//! Structures that programs may read: those found in the census of sched_ext schedulers (contract 2.4), with the
//! names and types of Linux 7.2. Member order and size are the model's own, except for structures that a program
//! passes to the kernel (the `*_args` of kfuncs, iterators, `cpumask`), which are the kernel's.

use super::layout::{Field, Struct, Ty, field};

/// `struct cpumask` of a kernel built with NR_CPUS = 8192. Objects contain this size, and it is not relocated
/// (contract 2.4).
pub(crate) const CPUMASK: Struct = Struct { name: "cpumask", fields: &[field("bits", Ty::Array(&Ty::ULong, 128))] };

/// A cpumask allocated by a program. Its reference count is kept outside of guest memory.
const BPF_CPUMASK: Struct = Struct { name: "bpf_cpumask", fields: &[field("cpumask", Ty::Struct(&CPUMASK))] };

const LIST_HEAD: Struct =
    Struct { name: "list_head", fields: &[field("next", Ty::Ptr("list_head")), field("prev", Ty::Ptr("list_head"))] };

const SCHED_AVG: Struct = Struct {
    name: "sched_avg",
    fields: &[field("load_avg", Ty::ULong), field("runnable_avg", Ty::ULong), field("util_avg", Ty::ULong)],
};

const SCHED_ENTITY: Struct = Struct {
    name: "sched_entity",
    fields: &[field("sum_exec_runtime", Ty::U64), field("vruntime", Ty::U64), field("avg", Ty::Struct(&SCHED_AVG))],
};

const SCHED_STATISTICS: Struct =
    Struct { name: "sched_statistics", fields: &[field("nr_wakeups", Ty::U64), field("nr_wakeups_sync", Ty::U64)] };

const SCHED_EXT_ENTITY: Struct = Struct {
    name: "sched_ext_entity",
    fields: &[
        field("tid", Ty::U64),
        field("ddsp_dsq_id", Ty::U64),
        field("ddsp_enq_flags", Ty::U64),
        field("flags", Ty::U32),
        field("weight", Ty::U32),
        field("sticky_cpu", Ty::I32),
        field("holding_cpu", Ty::I32),
        field("selected_cpu", Ty::I32),
        field("runnable_at", Ty::ULong),
        field("slice", Ty::U64),
        field("dsq_vtime", Ty::U64),
        field("disallow", Ty::Bool),
    ],
};

/// A task. The mask is last, so that the fields that change share few cache lines. The fields that ticks change
/// (`scx`, `se`) have offsets beyond the size of any small structure, by which the driver recognizes accesses to
/// them.
pub(crate) const TASK_STRUCT: Struct = Struct {
    name: "task_struct",
    fields: &[
        field("__state", Ty::U32),
        field("flags", Ty::U32),
        field("on_cpu", Ty::I32),
        field("wake_cpu", Ty::I32),
        field("recent_used_cpu", Ty::I32),
        field("prio", Ty::I32),
        field("static_prio", Ty::I32),
        field("normal_prio", Ty::I32),
        field("rt_priority", Ty::U32),
        field("policy", Ty::U32),
        field("stats", Ty::Struct(&SCHED_STATISTICS)),
        field("sched_class", Ty::Ptr("sched_class")),
        field("nr_cpus_allowed", Ty::I32),
        field("migration_disabled", Ty::U16),
        field("cpus_ptr", Ty::Ptr("cpumask")),
        field("user_cpus_ptr", Ty::Ptr("cpumask")),
        field("mm", Ty::Ptr("mm_struct")),
        field("pid", Ty::I32),
        field("tgid", Ty::I32),
        field("real_parent", Ty::Ptr("task_struct")),
        field("parent", Ty::Ptr("task_struct")),
        field("group_leader", Ty::Ptr("task_struct")),
        field("thread_pid", Ty::Ptr("pid")),
        field("thread_node", Ty::Struct(&LIST_HEAD)),
        field("utime", Ty::U64),
        field("stime", Ty::U64),
        field("nvcsw", Ty::ULong),
        field("nivcsw", Ty::ULong),
        field("start_time", Ty::U64),
        field("real_cred", Ty::Ptr("cred")),
        field("cred", Ty::Ptr("cred")),
        field("comm", Ty::Array(&Ty::Char, 16)),
        field("signal", Ty::Ptr("signal_struct")),
        field("cgroups", Ty::Ptr("css_set")),
        field("mempolicy", Ty::Ptr("mempolicy")),
        field("numa_preferred_nid", Ty::I32),
        field("scx", Ty::Struct(&SCHED_EXT_ENTITY)),
        field("se", Ty::Struct(&SCHED_ENTITY)),
        field("worker_private", Ty::VoidPtr),
        field("cpus_mask", Ty::Struct(&CPUMASK)),
    ],
};

const SCX_RQ: Struct = Struct {
    name: "scx_rq",
    fields: &[
        field("nr_running", Ty::U32),
        field("cpuperf_target", Ty::U32),
        field("flags", Ty::U32),
        field("clock", Ty::U64),
    ],
};

/// A runqueue. Of 7.2's `union { donor; curr; }` programs only read `curr`.
pub(crate) const RQ: Struct = Struct {
    name: "rq",
    fields: &[
        field("nr_running", Ty::U32),
        field("cpu", Ty::I32),
        field("curr", Ty::Ptr("task_struct")),
        field("idle", Ty::Ptr("task_struct")),
        field("nr_switches", Ty::U64),
        field("clock_task", Ty::U64),
        field("clock_pelt", Ty::U64),
        field("clock", Ty::U64),
        field("lost_idle_time", Ty::ULong),
        field("prev_steal_time", Ty::U64),
        field("scx", Ty::Struct(&SCX_RQ)),
    ],
};

const CGROUP_SUBSYS_STATE: Struct = Struct {
    name: "cgroup_subsys_state",
    fields: &[
        field("cgroup", Ty::Ptr("cgroup")),
        field("parent", Ty::Ptr("cgroup_subsys_state")),
        field("id", Ty::I32),
        field("serial_nr", Ty::U64),
    ],
};

/// A cgroup.
pub(crate) const CGROUP: Struct = Struct {
    name: "cgroup",
    fields: &[
        field("self", Ty::Struct(&CGROUP_SUBSYS_STATE)),
        field("level", Ty::I32),
        field("kn", Ty::Ptr("kernfs_node")),
        field("dom_cgrp", Ty::Ptr("cgroup")),
        field("ancestors", Ty::Array(&Ty::Ptr("cgroup"), super::cgroup::MAX_LEVEL + 1)),
    ],
};

/// The kernfs directory of a cgroup.
pub(crate) const KERNFS_NODE: Struct =
    Struct { name: "kernfs_node", fields: &[field("name", Ty::CharPtr), field("id", Ty::U64)] };

/// The set of cgroups of a task.
pub(crate) const CSS_SET: Struct = Struct { name: "css_set", fields: &[field("dfl_cgrp", Ty::Ptr("cgroup"))] };

/// The structure behind `worker_private` of a kthread (`to_kthread()`): private to the kernel, but in its BTF.
pub(crate) const KTHREAD: Struct =
    Struct { name: "kthread", fields: &[field("flags", Ty::ULong), field("cpu", Ty::U32), field("node", Ty::U32)] };

/// The address space of a task; programs only test whether it has one.
pub(crate) const MM_STRUCT: Struct = Struct { name: "mm_struct", fields: &[field("start_code", Ty::ULong)] };

const UPID: Struct = Struct { name: "upid", fields: &[field("nr", Ty::I32), field("ns", Ty::Ptr("pid_namespace"))] };

pub(crate) const PID: Struct =
    Struct { name: "pid", fields: &[field("level", Ty::U32), field("numbers", Ty::Array(&Ty::Struct(&UPID), 1))] };

const PID_NAMESPACE: Struct =
    Struct { name: "pid_namespace", fields: &[field("level", Ty::U32), field("parent", Ty::Ptr("pid_namespace"))] };

/// Both `kuid_t` and `kgid_t`.
const KUID: Struct = Struct { name: "kuid_t", fields: &[field("val", Ty::U32)] };

/// Credentials of a task.
pub(crate) const CRED: Struct = Struct {
    name: "cred",
    fields: &[
        field("uid", Ty::Struct(&KUID)),
        field("gid", Ty::Struct(&KUID)),
        field("euid", Ty::Struct(&KUID)),
        field("egid", Ty::Struct(&KUID)),
    ],
};

/// State shared by the threads of a process. `pids` is indexed by `enum pid_type`.
pub(crate) const SIGNAL_STRUCT: Struct = Struct {
    name: "signal_struct",
    fields: &[
        field("nr_threads", Ty::I32),
        field("thread_head", Ty::Struct(&LIST_HEAD)),
        field("pids", Ty::Array(&Ty::Ptr("pid"), 4)),
    ],
};

/// `cpustat` has NR_STATS elements, the last one for CONFIG_SCHED_CORE.
pub(crate) const KERNEL_CPUSTAT: Struct =
    Struct { name: "kernel_cpustat", fields: &[field("cpustat", Ty::Array(&Ty::U64, 11))] };

/// The guard of `guard(rcu)()`; programs read its `lock` but do not use it.
pub(crate) const CLASS_RCU: Struct = Struct { name: "class_rcu", fields: &[field("lock", Ty::VoidPtr)] };

const CPUFREQ_POLICY: Struct = Struct {
    name: "cpufreq_policy",
    fields: &[field("cpu", Ty::U32), field("min", Ty::U32), field("max", Ty::U32), field("cur", Ty::U32)],
};

/// Exit information passed to `exit`.
pub(crate) const SCX_EXIT_INFO: Struct = Struct {
    name: "scx_exit_info",
    fields: &[
        field("kind", Ty::Enum("scx_exit_kind")),
        field("exit_cpu", Ty::I32),
        field("exit_code", Ty::I64),
        field("flags", Ty::U64),
        field("reason", Ty::CharPtr),
        field("bt", Ty::VoidPtr),
        field("bt_len", Ty::U32),
        field("msg", Ty::CharPtr),
        field("dump", Ty::CharPtr),
    ],
};

/// Second argument of `init_task`.
pub(crate) const SCX_INIT_TASK_ARGS: Struct =
    Struct { name: "scx_init_task_args", fields: &[field("fork", Ty::Bool), field("cgroup", Ty::Ptr("cgroup"))] };

/// Second argument of `exit_task`.
pub(crate) const SCX_EXIT_TASK_ARGS: Struct =
    Struct { name: "scx_exit_task_args", fields: &[field("cancelled", Ty::Bool)] };

pub(crate) const SCX_CGROUP_INIT_ARGS: Struct = Struct {
    name: "scx_cgroup_init_args",
    fields: &[
        field("weight", Ty::U32),
        field("bw_period_us", Ty::U64),
        field("bw_quota_us", Ty::U64),
        field("bw_burst_us", Ty::U64),
    ],
};

/// Second argument of `cpu_acquire`; empty in the kernel too.
pub(crate) const SCX_CPU_ACQUIRE_ARGS: Struct = Struct { name: "scx_cpu_acquire_args", fields: &[] };

/// Second argument of `cpu_release`.
pub(crate) const SCX_CPU_RELEASE_ARGS: Struct = Struct {
    name: "scx_cpu_release_args",
    fields: &[field("reason", Ty::Enum("scx_cpu_preempt_reason")), field("task", Ty::Ptr("task_struct"))],
};

/// First argument of the dump ops.
pub(crate) const SCX_DUMP_CTX: Struct = Struct {
    name: "scx_dump_ctx",
    fields: &[
        field("kind", Ty::Enum("scx_exit_kind")),
        field("exit_code", Ty::I64),
        field("reason", Ty::CharPtr),
        field("at_ns", Ty::U64),
        field("at_jiffies", Ty::U64),
    ],
};

/// Arguments of `__scx_bpf_dsq_insert_vtime`.
pub(crate) const SCX_BPF_DSQ_INSERT_VTIME_ARGS: Struct = Struct {
    name: "scx_bpf_dsq_insert_vtime_args",
    fields: &[field("dsq_id", Ty::U64), field("slice", Ty::U64), field("vtime", Ty::U64), field("enq_flags", Ty::U64)],
};

/// Arguments of `__scx_bpf_select_cpu_and`.
pub(crate) const SCX_BPF_SELECT_CPU_AND_ARGS: Struct = Struct {
    name: "scx_bpf_select_cpu_and_args",
    fields: &[field("prev_cpu", Ty::I32), field("wake_flags", Ty::U64), field("flags", Ty::U64)],
};

/// Result of `scx_bpf_events`, in the kernel's order, because a shorter buffer receives only the first counters.
pub(crate) const SCX_EVENT_STATS: Struct = Struct {
    name: "scx_event_stats",
    fields: &[
        field("SCX_EV_SELECT_CPU_FALLBACK", Ty::I64),
        field("SCX_EV_DISPATCH_LOCAL_DSQ_OFFLINE", Ty::I64),
        field("SCX_EV_DISPATCH_KEEP_LAST", Ty::I64),
        field("SCX_EV_ENQ_SKIP_EXITING", Ty::I64),
        field("SCX_EV_ENQ_SKIP_MIGRATION_DISABLED", Ty::I64),
        field("SCX_EV_REENQ_IMMED", Ty::I64),
        field("SCX_EV_REENQ_LOCAL_REPEAT", Ty::I64),
        field("SCX_EV_REFILL_SLICE_DFL", Ty::I64),
        field("SCX_EV_BYPASS_DURATION", Ty::I64),
        field("SCX_EV_BYPASS_DISPATCH", Ty::I64),
        field("SCX_EV_BYPASS_ACTIVATE", Ty::I64),
        field("SCX_EV_INSERT_NOT_OWNED", Ty::I64),
        field("SCX_EV_SUB_BYPASS_DISPATCH", Ty::I64),
    ],
};

/// Result of `bpf_perf_event_read_value`. The model has no performance counters, but programs that could read some
/// still load.
const BPF_PERF_EVENT_VALUE: Struct = Struct {
    name: "bpf_perf_event_value",
    fields: &[field("counter", Ty::U64), field("enabled", Ty::U64), field("running", Ty::U64)],
};

const BPF_ITER_NUM: Struct = Struct { name: "bpf_iter_num", fields: &[field("__opaque", Ty::Array(&Ty::U64, 1))] };

/// An iterator over a dispatch queue, as stored on the program's stack.
pub(crate) const BPF_ITER_SCX_DSQ: Struct =
    Struct { name: "bpf_iter_scx_dsq", fields: &[field("__opaque", Ty::Array(&Ty::U64, 6))] };

const fn op(name: &'static str, arguments: u32) -> Field {
    field(name, Ty::Op(arguments))
}

/// `struct sched_ext_ops` with the member order of 7.2.
const SCHED_EXT_OPS: Struct = Struct {
    name: "sched_ext_ops",
    fields: &[
        op("select_cpu", 3),
        op("enqueue", 2),
        op("dequeue", 2),
        op("dispatch", 2),
        op("tick", 1),
        op("runnable", 2),
        op("running", 1),
        op("stopping", 2),
        op("quiescent", 2),
        op("yield", 2),
        op("core_sched_before", 2),
        op("set_weight", 2),
        op("set_cpumask", 2),
        op("update_idle", 2),
        op("init_task", 2),
        op("exit_task", 2),
        op("enable", 1),
        op("disable", 1),
        op("dump", 1),
        op("dump_cpu", 3),
        op("dump_task", 2),
        op("cgroup_init", 2),
        op("cgroup_exit", 1),
        op("cgroup_prep_move", 3),
        op("cgroup_move", 3),
        op("cgroup_cancel_move", 3),
        op("cgroup_set_weight", 2),
        op("cgroup_set_bandwidth", 4),
        op("cgroup_set_idle", 2),
        op("sub_attach", 1),
        op("sub_detach", 1),
        op("cpu_online", 1),
        op("cpu_offline", 1),
        op("init", 0),
        op("exit", 1),
        field("dispatch_max_batch", Ty::U32),
        field("flags", Ty::U64),
        field("timeout_ms", Ty::U32),
        field("exit_dump_len", Ty::U32),
        field("hotplug_seq", Ty::U64),
        field("sub_cgroup_id", Ty::U64),
        field("name", Ty::Array(&Ty::Char, 128)),
        field("priv", Ty::VoidPtr),
        op("cpu_acquire", 2),
        op("cpu_release", 2),
    ],
};

/// All structures; embedded ones come first.
pub(crate) const STRUCTS: &[Struct] = &[
    CPUMASK,
    BPF_CPUMASK,
    LIST_HEAD,
    SCHED_AVG,
    SCHED_ENTITY,
    SCHED_STATISTICS,
    SCHED_EXT_ENTITY,
    TASK_STRUCT,
    SCX_RQ,
    RQ,
    CGROUP_SUBSYS_STATE,
    CGROUP,
    KERNFS_NODE,
    CSS_SET,
    KTHREAD,
    MM_STRUCT,
    UPID,
    PID,
    PID_NAMESPACE,
    KUID,
    CRED,
    SIGNAL_STRUCT,
    KERNEL_CPUSTAT,
    CLASS_RCU,
    CPUFREQ_POLICY,
    SCX_EXIT_INFO,
    SCX_INIT_TASK_ARGS,
    SCX_EXIT_TASK_ARGS,
    SCX_CGROUP_INIT_ARGS,
    SCX_CPU_ACQUIRE_ARGS,
    SCX_CPU_RELEASE_ARGS,
    SCX_DUMP_CTX,
    SCX_BPF_DSQ_INSERT_VTIME_ARGS,
    SCX_BPF_SELECT_CPU_AND_ARGS,
    SCX_EVENT_STATS,
    BPF_PERF_EVENT_VALUE,
    BPF_ITER_NUM,
    BPF_ITER_SCX_DSQ,
    SCHED_EXT_OPS,
];

/// Whether a kernel version has the structure: programs test for some to find out which kfuncs exist.
pub(crate) fn exists(structure: &str, version: (u16, u16)) -> bool {
    match structure {
        "scx_event_stats" => version >= (6, 15),
        "scx_bpf_dsq_insert_vtime_args" | "scx_bpf_select_cpu_and_args" => version >= (6, 19),
        _ => true,
    }
}
