// SPDX-License-Identifier: GPL-2.0-only
//! Enumerations of Linux 7.2 that programs use by name, with their values. Values change between kernels (contract
//! N1), so they are defined for programs only here.

use super::layout::Enum;

/// All enumerations, by name.
pub(crate) const ENUMS: &[Enum] = &[
    Enum {
        name: "scx_consts",
        values: &[
            ("SCX_DSP_DFL_MAX_BATCH", 32),
            ("SCX_DSP_MAX_LOOPS", 32),
            ("SCX_WATCHDOG_MAX_TIMEOUT", 30_000),
            ("SCX_EXIT_BT_LEN", 64),
            ("SCX_EXIT_MSG_LEN", 1024),
            ("SCX_EXIT_DUMP_DFL_LEN", 32_768),
            ("SCX_CPUPERF_ONE", 1024),
            ("SCX_TASK_ITER_BATCH", 32),
            ("SCX_BYPASS_HOST_NTH", 2),
            ("SCX_BYPASS_LB_DFL_INTV_US", 500_000),
            ("SCX_BYPASS_LB_DONOR_PCT", 125),
            ("SCX_BYPASS_LB_MIN_DELTA_DIV", 4),
            ("SCX_BYPASS_LB_BATCH", 256),
            ("SCX_REENQ_LOCAL_MAX_REPEAT", 256),
            ("SCX_SUB_MAX_DEPTH", 4),
        ],
    },
    Enum {
        name: "scx_cpu_preempt_reason",
        values: &[
            ("SCX_CPU_PREEMPT_RT", 0),
            ("SCX_CPU_PREEMPT_DL", 1),
            ("SCX_CPU_PREEMPT_STOP", 2),
            ("SCX_CPU_PREEMPT_UNKNOWN", 3),
        ],
    },
    Enum {
        name: "scx_deq_flags",
        values: &[
            ("SCX_DEQ_SLEEP", 1),
            ("SCX_DEQ_CORE_SCHED_EXEC", 0x1_0000_0000),
            ("SCX_DEQ_SCHED_CHANGE", 0x2_0000_0000),
        ],
    },
    Enum {
        name: "scx_dsq_id_flags",
        values: &[
            ("SCX_DSQ_FLAG_BUILTIN", 0x8000_0000_0000_0000),
            ("SCX_DSQ_FLAG_LOCAL_ON", 0x4000_0000_0000_0000),
            ("SCX_DSQ_INVALID", 0x8000_0000_0000_0000),
            ("SCX_DSQ_GLOBAL", 0x8000_0000_0000_0001),
            ("SCX_DSQ_LOCAL", 0x8000_0000_0000_0002),
            ("SCX_DSQ_BYPASS", 0x8000_0000_0000_0003),
            ("SCX_DSQ_LOCAL_ON", 0xc000_0000_0000_0000),
            ("SCX_DSQ_LOCAL_CPU_MASK", 0xffff_ffff),
        ],
    },
    Enum {
        name: "scx_dsq_iter_flags",
        values: &[
            ("SCX_DSQ_ITER_REV", 0x1_0000),
            ("__SCX_DSQ_ITER_HAS_SLICE", 0x4000_0000),
            ("__SCX_DSQ_ITER_HAS_VTIME", 0x8000_0000),
            ("__SCX_DSQ_ITER_USER_FLAGS", 0x1_0000),
            ("__SCX_DSQ_ITER_ALL_FLAGS", 0xc001_0000),
        ],
    },
    Enum {
        name: "scx_enable_state",
        values: &[("SCX_ENABLING", 0), ("SCX_ENABLED", 1), ("SCX_DISABLING", 2), ("SCX_DISABLED", 3)],
    },
    Enum {
        name: "scx_enq_flags",
        values: &[
            ("SCX_ENQ_WAKEUP", 1),
            ("SCX_ENQ_HEAD", 0x1_0000),
            ("SCX_ENQ_CPU_SELECTED", 0x10_0000),
            ("SCX_ENQ_PREEMPT", 0x1_0000_0000),
            ("SCX_ENQ_IMMED", 0x2_0000_0000),
            ("SCX_ENQ_REENQ", 0x100_0000_0000),
            ("SCX_ENQ_LAST", 0x200_0000_0000),
            ("__SCX_ENQ_INTERNAL_MASK", 0xff00_0000_0000_0000),
            ("SCX_ENQ_CLEAR_OPSS", 0x100_0000_0000_0000),
            ("SCX_ENQ_DSQ_PRIQ", 0x200_0000_0000_0000),
            ("SCX_ENQ_NESTED", 0x400_0000_0000_0000),
            ("SCX_ENQ_GDSQ_FALLBACK", 0x800_0000_0000_0000),
        ],
    },
    Enum { name: "scx_ent_dsq_flags", values: &[("SCX_TASK_DSQ_ON_PRIQ", 1)] },
    Enum {
        name: "scx_ent_flags",
        values: &[
            ("SCX_TASK_QUEUED", 1),
            ("SCX_TASK_IN_CUSTODY", 2),
            ("SCX_TASK_RESET_RUNNABLE_AT", 4),
            ("SCX_TASK_DEQD_FOR_SLEEP", 8),
            ("SCX_TASK_SUB_INIT", 16),
            ("SCX_TASK_IMMED", 32),
            ("SCX_TASK_STATE_SHIFT", 8),
            ("SCX_TASK_STATE_BITS", 3),
            ("SCX_TASK_STATE_MASK", 0x700),
            ("SCX_TASK_NONE", 0),
            ("SCX_TASK_INIT_BEGIN", 0x100),
            ("SCX_TASK_INIT", 0x200),
            ("SCX_TASK_READY", 0x300),
            ("SCX_TASK_ENABLED", 0x400),
            ("SCX_TASK_DEAD", 0x500),
            ("SCX_TASK_REENQ_REASON_SHIFT", 12),
            ("SCX_TASK_REENQ_REASON_BITS", 2),
            ("SCX_TASK_REENQ_REASON_MASK", 0x3000),
            ("SCX_TASK_REENQ_NONE", 0),
            ("SCX_TASK_REENQ_KFUNC", 0x1000),
            ("SCX_TASK_REENQ_IMMED", 0x2000),
            ("SCX_TASK_REENQ_PREEMPTED", 0x3000),
            ("SCX_TASK_CURSOR", 0xffff_ffff_8000_0000),
        ],
    },
    Enum {
        name: "scx_exit_code",
        values: &[
            ("SCX_ECODE_RSN_HOTPLUG", 0x1_0000_0000),
            ("SCX_ECODE_RSN_CGROUP_OFFLINE", 0x2_0000_0000),
            ("SCX_ECODE_ACT_RESTART", 0x1_0000_0000_0000),
        ],
    },
    Enum { name: "scx_exit_flags", values: &[("SCX_EFLAG_INITIALIZED", 1)] },
    Enum {
        name: "scx_exit_kind",
        values: &[
            ("SCX_EXIT_NONE", 0),
            ("SCX_EXIT_DONE", 1),
            ("SCX_EXIT_UNREG", 64),
            ("SCX_EXIT_UNREG_BPF", 65),
            ("SCX_EXIT_UNREG_KERN", 66),
            ("SCX_EXIT_SYSRQ", 67),
            ("SCX_EXIT_PARENT", 68),
            ("SCX_EXIT_ERROR", 1024),
            ("SCX_EXIT_ERROR_BPF", 1025),
            ("SCX_EXIT_ERROR_STALL", 1026),
        ],
    },
    Enum { name: "scx_kick_flags", values: &[("SCX_KICK_IDLE", 1), ("SCX_KICK_PREEMPT", 2), ("SCX_KICK_WAIT", 4)] },
    Enum {
        name: "scx_ops_flags",
        values: &[
            ("SCX_OPS_KEEP_BUILTIN_IDLE", 1),
            ("SCX_OPS_ENQ_LAST", 2),
            ("SCX_OPS_ENQ_EXITING", 4),
            ("SCX_OPS_SWITCH_PARTIAL", 8),
            ("SCX_OPS_ENQ_MIGRATION_DISABLED", 16),
            ("SCX_OPS_ALLOW_QUEUED_WAKEUP", 32),
            ("SCX_OPS_BUILTIN_IDLE_PER_NODE", 64),
            ("SCX_OPS_ALWAYS_ENQ_IMMED", 128),
            ("SCX_OPS_TID_TO_TASK", 0x100),
            ("SCX_OPS_ALL_FLAGS", 0x1ff),
            ("__SCX_OPS_INTERNAL_MASK", 0xff00_0000_0000_0000),
            ("SCX_OPS_HAS_CPU_PREEMPT", 0x100_0000_0000_0000),
        ],
    },
    Enum {
        name: "scx_ops_state",
        values: &[
            ("SCX_OPSS_NONE", 0),
            ("SCX_OPSS_QUEUEING", 1),
            ("SCX_OPSS_QUEUED", 2),
            ("SCX_OPSS_DISPATCHING", 3),
            ("SCX_OPSS_QSEQ_SHIFT", 2),
        ],
    },
    Enum { name: "scx_pick_idle_cpu_flags", values: &[("SCX_PICK_IDLE_CORE", 1), ("SCX_PICK_IDLE_IN_NODE", 2)] },
    Enum {
        name: "scx_public_consts",
        values: &[
            ("SCX_OPS_NAME_LEN", 128),
            ("SCX_SLICE_DFL", 20_000_000),
            ("SCX_SLICE_BYPASS", 5_000_000),
            ("SCX_SLICE_INF", u64::MAX),
        ],
    },
    Enum {
        name: "scx_reenq_flags",
        values: &[
            ("SCX_REENQ_ANY", 1),
            ("__SCX_REENQ_FILTER_MASK", 0xffff),
            ("__SCX_REENQ_USER_MASK", 1),
            ("SCX_REENQ_TSR_RQ_OPEN", 0x1_0000_0000),
            ("SCX_REENQ_TSR_NOT_FIRST", 0x2_0000_0000),
            ("__SCX_REENQ_TSR_MASK", 0xf_0000_0000),
        ],
    },
    Enum {
        name: "scx_rq_flags",
        values: &[
            ("SCX_RQ_ONLINE", 1),
            ("SCX_RQ_CAN_STOP_TICK", 2),
            ("SCX_RQ_BAL_KEEP", 8),
            ("SCX_RQ_CLK_VALID", 32),
            ("SCX_RQ_BAL_CB_PENDING", 64),
            ("SCX_RQ_IN_WAKEUP", 0x1_0000),
            ("SCX_RQ_IN_BALANCE", 0x2_0000),
        ],
    },
    Enum { name: "scx_tg_flags", values: &[("SCX_TG_ONLINE", 1), ("SCX_TG_INITED", 2)] },
    Enum { name: "scx_wake_flags", values: &[("SCX_WAKE_FORK", 4), ("SCX_WAKE_TTWU", 8), ("SCX_WAKE_SYNC", 16)] },
];

/// Enumerators added after 6.12, with the first version that has them (contract part 4). Their values are those of
/// 7.2 for every version: a program on an older kernel only learns which are missing.
const SINCE: &[(&str, (u16, u16))] = &[
    ("SCX_OPS_ENQ_MIGRATION_DISABLED", (6, 14)),
    ("SCX_OPS_ALLOW_QUEUED_WAKEUP", (6, 15)),
    ("SCX_OPS_BUILTIN_IDLE_PER_NODE", (6, 15)),
    ("SCX_PICK_IDLE_IN_NODE", (6, 15)),
    ("SCX_DEQ_SCHED_CHANGE", (7, 1)),
    ("SCX_ENQ_IMMED", (7, 1)),
    ("SCX_OPS_ALWAYS_ENQ_IMMED", (7, 1)),
    ("SCX_TASK_IMMED", (7, 1)),
    ("SCX_TASK_IN_CUSTODY", (7, 1)),
    ("SCX_TASK_REENQ_IMMED", (7, 1)),
    ("SCX_TASK_REENQ_KFUNC", (7, 1)),
    ("SCX_TASK_REENQ_PREEMPTED", (7, 1)),
    ("SCX_OPS_TID_TO_TASK", (7, 2)),
    ("SCX_TASK_DEAD", (7, 2)),
    ("SCX_TASK_INIT_BEGIN", (7, 2)),
];

/// Whether a kernel version has the enumerator.
pub(crate) fn exists(enumerator: &str, version: (u16, u16)) -> bool {
    SINCE.iter().all(|(name, since)| *name != enumerator || version >= *since)
}

/// Value of an enumerator in 7.2.
pub(crate) fn value_of(enumerator: &str) -> Option<u64> {
    ENUMS.iter().flat_map(|one| one.values).find(|(name, _)| *name == enumerator).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enumerators_are_absent_before_their_first_version() {
        for (name, _) in SINCE {
            assert!(value_of(name).is_some(), "{name}");
        }
        assert!(!exists("SCX_ENQ_IMMED", (7, 0)) && exists("SCX_ENQ_IMMED", (7, 1)));
        assert!(exists("SCX_ENQ_LAST", (6, 12)));
    }
}
