// SPDX-License-Identifier: GPL-2.0-only
//! What versions that are not packaged lack of the types of the next newer one.

/// Names added after 6.12, with the first version that has them (contract part 4). Values are those of the packaged
/// types: a program on an older kernel only learns which are missing.
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
    // Structs, for whose existence programs test to find out which kfuncs exist.
    ("scx_event_stats", (6, 15)),
    ("scx_bpf_dsq_insert_vtime_args", (6, 19)),
    ("scx_bpf_select_cpu_and_args", (6, 19)),
];

/// Whether a kernel version has the enumerator, struct or union.
pub(crate) fn exists(name: &str, version: (u16, u16)) -> bool {
    SINCE.iter().all(|(other, since)| *other != name || version >= *since)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KernelTypes;
    use bpf_object::btf::Kind;

    #[test]
    fn enumerators_are_absent_before_their_first_version() {
        assert!(!exists("SCX_ENQ_IMMED", (7, 0)) && exists("SCX_ENQ_IMMED", (7, 1)));
        assert!(exists("SCX_ENQ_LAST", (6, 12)));
    }

    /// The table against the types of a real 6.18.
    #[test]
    fn names_are_in_the_types_of_linux_6_18_if_they_are_not_newer() {
        let types = KernelTypes::of((6, 18));
        for (name, since) in SINCE {
            let is_struct = types.btf().find(name, Kind::Struct).is_some();
            assert_eq!(is_struct || types.constant(name).is_some(), *since <= (6, 18), "{name}");
        }
    }
}
