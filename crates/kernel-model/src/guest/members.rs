// SPDX-License-Identifier: GPL-2.0-only
//! The members of kernel structs that have a value in the model. All other members of the kernel's BTF exist too, and
//! read 0; `weir inspect` and `weir sim` name those that an object uses.
//!
//! `docs/reference/kernel-members.md` is generated from this table.

/// How the model keeps a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// Written to guest memory when it changes.
    Stored,
    /// Computed when a program reads it.
    Live(Live),
    /// Always 0, which is the true value: the model has none of what the member counts or points to.
    Zero,
}

/// A member that is computed when a program reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Live {
    State,
    OnCpu,
    OnRq,
    Cpu,
    IoWait,
    VoluntarySwitches,
    InvoluntarySwitches,
    Migrations,
    UserTime,
    KernelTime,
    ExecStart,
    FairOnRq,
    FairDelayed,
    FairVruntime,
    FairDeadline,
    FairLag,
    FairSlice,
    LoadWeight,
    LoadInverse,
    RtSlice,
    DlRuntime,
    DlDeadline,
    DlPeriod,
    Class,
    Dsq,
    DsqFlags,
    OpsState,
    OpsSequence,
    RunnableAt,
    SelectedCpu,
    NoCpu,
    VerdictDsq,
    VerdictFlags,
    QueueLength,
    RqRunning,
    RqSwitches,
    RqClock,
    RqOnline,
    RqCapacity,
    RqIoWait,
    RqFair,
    RqRt,
    RqDeadline,
    RqExt,
    RqImmediate,
    RqPerformance,
    RqReleased,
    RqExtFlags,
    RqLocal,
    Tickless,
}

/// A struct of the kernel with the members that have a value.
#[derive(Debug)]
pub(crate) struct Structure {
    pub name: &'static str,
    pub members: &'static [Member],
}

/// A member that has a value.
#[derive(Debug)]
pub(crate) struct Member {
    /// Path in its struct.
    pub path: &'static str,
    pub source: Source,
    /// Whether the model requires the member; a kernel without it has no sched_ext.
    pub is_needed: bool,
    /// Description of its value for the manual; empty if the name says it.
    #[cfg_attr(not(test), expect(dead_code))]
    pub value: &'static str,
}

const fn needed(path: &'static str, value: &'static str) -> Member {
    Member { path, source: Source::Stored, is_needed: true, value }
}

const fn stored(path: &'static str, value: &'static str) -> Member {
    Member { path, source: Source::Stored, is_needed: false, value }
}

const fn live(path: &'static str, what: Live, value: &'static str) -> Member {
    Member { path, source: Source::Live(what), is_needed: false, value }
}

const fn zero(path: &'static str, value: &'static str) -> Member {
    Member { path, source: Source::Zero, is_needed: false, value }
}

/// All structs that the model keeps in guest memory, by name.
#[rustfmt::skip]
pub(crate) const MEMBERS: &[Structure] = &[
    Structure { name: "bpf_iter_num", members: &[] },
    Structure { name: "bpf_iter_scx_dsq", members: &[] },
    Structure { name: "cgroup", members: &[
        needed("self.cgroup", ""),
        needed("self.parent", ""),
        needed("self.id", "the inode number of its directory"),
        needed("self.serial_nr", "in the order of creation"),
        needed("level", ""),
        needed("kn", ""),
        needed("dom_cgrp", "itself: no threaded cgroups"),
        needed("ancestors", ""),
    ] },
    Structure { name: "cpumask", members: &[needed("bits", "")] },
    Structure { name: "cred", members: &[
        needed("uid.val", ""),
        needed("euid.val", "as `uid`"),
        zero("gid.val", "root"),
        zero("egid.val", "root"),
    ] },
    Structure { name: "css_set", members: &[needed("dfl_cgrp", "")] },
    Structure { name: "kernel_cpustat", members: &[
        needed("cpustat", "user, nice, system and idle time in whole ticks; the others are 0"),
    ] },
    Structure { name: "kernfs_node", members: &[needed("name", ""), needed("id", "")] },
    Structure { name: "kthread", members: &[stored("flags", "KTHREAD_IS_PER_CPU"), stored("cpu", "")] },
    Structure { name: "mm_struct", members: &[stored("owner", "the group leader")] },
    Structure { name: "pid", members: &[
        zero("level", "no pid namespaces"),
        needed("numbers", "`numbers[0].nr`"),
    ] },
    Structure { name: "rq", members: &[
        live("nr_running", Live::RqRunning, ""),
        live("cpu_capacity", Live::RqCapacity, "the capacity of the CPU; no time is subtracted for higher classes"),
        needed("curr", ""),
        stored("donor", "as `curr`: no proxy execution"),
        stored("idle", ""),
        live("nr_switches", Live::RqSwitches, ""),
        live("nohz_tick_stopped", Live::Tickless, ""),
        live("cfs.nr_queued", Live::RqFair, "as `h_nr_queued`: cgroups have no queues of their own"),
        live("cfs.h_nr_queued", Live::RqFair, "with tasks whose dequeue is delayed"),
        live("rt.rt_nr_running", Live::RqRt, ""),
        live("dl.dl_nr_running", Live::RqDeadline, ""),
        live("clock", Live::RqClock, "the clock of the CPU"),
        live("clock_task", Live::RqClock, "as `clock`: no time is charged to interrupts"),
        stored("cpu", ""),
        live("online", Live::RqOnline, ""),
        zero("prev_steal_time", "no hypervisor"),
        live("nr_iowait", Live::RqIoWait, ""),
        live("scx.local_dsq.nr", Live::RqLocal, ""),
        stored("scx.local_dsq.id", "SCX_DSQ_LOCAL"),
        live("scx.nr_running", Live::RqExt, ""),
        live("scx.cpuperf_target", Live::RqPerformance, ""),
        live("scx.cpu_released", Live::RqReleased, ""),
        live("scx.flags", Live::RqExtFlags, "SCX_RQ_ONLINE and SCX_RQ_IN_BALANCE"),
        live("scx.nr_immed", Live::RqImmediate, ""),
        live("scx.clock", Live::RqClock, "as `clock`"),
    ] },
    Structure { name: "sched_class", members: &[] },
    Structure { name: "scx_cgroup_init_args", members: &[
        needed("weight", ""), stored("bw_period_us", ""), stored("bw_quota_us", ""), stored("bw_burst_us", ""),
    ] },
    Structure { name: "scx_cpu_acquire_args", members: &[] },
    Structure { name: "scx_cpu_release_args", members: &[stored("reason", ""), stored("task", "")] },
    Structure { name: "scx_dispatch_q", members: &[
        needed("id", ""),
        live("nr", Live::QueueLength, ""),
    ] },
    Structure { name: "scx_dump_ctx", members: &[
        needed("kind", ""), needed("exit_code", ""), needed("reason", ""), needed("at_ns", ""),
        needed("at_jiffies", ""),
    ] },
    Structure { name: "scx_exit_info", members: &[
        needed("kind", ""), stored("exit_cpu", ""), needed("exit_code", ""), stored("flags", ""),
        needed("reason", ""), zero("bt", "no backtrace"), zero("bt_len", "no backtrace"), needed("msg", ""),
        needed("dump", ""),
    ] },
    Structure { name: "scx_exit_task_args", members: &[needed("cancelled", "")] },
    Structure { name: "scx_init_task_args", members: &[needed("fork", ""), stored("cgroup", "")] },
    Structure { name: "signal_struct", members: &[
        needed("nr_threads", ""),
        stored("live", "as `nr_threads`"),
        needed("pids", "the process and its session"),
    ] },
    Structure { name: "task_group", members: &[
        stored("css.cgroup", ""),
        stored("parent", ""),
    ] },
    Structure { name: "task_struct", members: &[
        live("thread_info.cpu", Live::Cpu, "the CPU where it runs, waits or last ran"),
        live("__state", Live::State,
            "TASK_RUNNING, TASK_NEW, TASK_WAKING, TASK_DEAD; blocked tasks: TASK_INTERRUPTIBLE, for I/O _UNINTERRUPTIBLE"),
        needed("flags", "PF_KTHREAD, PF_EXITING and PF_IDLE"),
        zero("ptrace", "no debugger"),
        live("on_cpu", Live::OnCpu, ""),
        live("on_rq", Live::OnRq, ""),
        zero("wakee_flips", "only the fair class counts them; not modelled there"),
        zero("last_wakee", "as `wakee_flips`"),
        live("wake_cpu", Live::Cpu, "as `thread_info.cpu`"),
        needed("prio", ""), needed("static_prio", ""), needed("normal_prio", ""), stored("rt_priority", ""),
        live("se.load.weight", Live::LoadWeight, "of its nice value"),
        live("se.load.inv_weight", Live::LoadInverse, "of its nice value"),
        live("se.deadline", Live::FairDeadline, "of its last time in the fair class"),
        live("se.on_rq", Live::FairOnRq, ""),
        live("se.sched_delayed", Live::FairDelayed, ""),
        live("se.exec_start", Live::ExecStart, "when its time was last charged"),
        needed("se.sum_exec_runtime", ""),
        live("se.vruntime", Live::FairVruntime, "of its last time in the fair class"),
        live("se.vlag", Live::FairLag, "of its last time in the fair class"),
        live("se.slice", Live::FairSlice, "the base slice: no custom slices"),
        live("se.nr_migrations", Live::Migrations, ""),
        zero("se.depth", "cgroups have no queues of their own"),
        live("rt.time_slice", Live::RtSlice, "of SCHED_RR, in ticks"),
        live("dl.dl_runtime", Live::DlRuntime, ""), live("dl.dl_deadline", Live::DlDeadline, ""),
        live("dl.dl_period", Live::DlPeriod, ""),
        live("scx.dsq", Live::Dsq, ""),
        live("scx.ops_state", Live::OpsState, ""),
        live("scx.ddsp_dsq_id", Live::VerdictDsq, ""),
        live("scx.ddsp_enq_flags", Live::VerdictFlags, ""),
        live("scx.dsq_flags", Live::DsqFlags, ""),
        needed("scx.flags", ""), needed("scx.weight", ""),
        live("scx.sticky_cpu", Live::NoCpu, "-1: migrations take no time"),
        live("scx.holding_cpu", Live::NoCpu, "-1: migrations take no time"),
        live("scx.selected_cpu", Live::SelectedCpu, ""),
        live("scx.ops_qseq", Live::OpsSequence, ""),
        live("scx.runnable_at", Live::RunnableAt, "in jiffies"),
        stored("scx.tid", ""),
        needed("scx.slice", ""), needed("scx.dsq_vtime", ""), needed("scx.disallow", ""),
        live("sched_class", Live::Class, "the address of `ext_sched_class`, `fair_sched_class` and so on"),
        zero("stats", "schedstats are off, as by default"),
        needed("policy", ""), needed("nr_cpus_allowed", ""), needed("cpus_ptr", ""), needed("cpus_mask", ""),
        zero("migration_disabled", "no task disables migration"),
        stored("mm", "one of each process; NULL for kthreads"),
        stored("active_mm", "as `mm`"),
        live("in_iowait", Live::IoWait, "blocked by a device, until it runs again"),
        needed("pid", ""), needed("tgid", ""), needed("real_parent", ""), stored("parent", "as `real_parent`"),
        needed("group_leader", ""), stored("thread_pid", ""), stored("worker_private", "of kthreads"),
        live("utime", Live::UserTime, "executed time in whole ticks; 0 for kthreads"),
        live("stime", Live::KernelTime, "executed time of kthreads in whole ticks; 0 for other tasks"),
        live("nvcsw", Live::VoluntarySwitches, ""),
        live("nivcsw", Live::InvoluntarySwitches, ""),
        stored("start_time", ""),
        stored("start_boottime", "as `start_time`: time in suspend is not added"),
        stored("real_cred", ""), stored("cred", ""), needed("comm", ""), stored("signal", ""),
        stored("cgroups", ""),
        stored("sched_task_group", ""),
        zero("mempolicy", "no memory policy"),
    ] },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::KernelTypes;
    use std::fmt::Write;

    /// Structs that the kernel passes to ops, or that ops pass to the kernel: all of their members have a value.
    fn is_argument(structure: &str) -> bool {
        structure.ends_with("_args") || structure.ends_with("_info") || structure.ends_with("_ctx")
    }

    /// The page in the manual lists the members of this table. `UPDATE_EXPECT=1` updates it.
    #[test]
    fn manual_lists_the_members_that_have_a_value() {
        let mut page = "# Members of kernel structs

A scheduler reads members of the kernel's structs by name. Which of them exist, at which offset and of which type, is
taken from the BTF of a real kernel: of Debian's 7.2.13, unless `weir sim --btf FILE` names another. A member that the
kernel lacks does not exist for `bpf_core_field_exists` either.

The members listed here have their true value. **Every other member reads 0**; `weir inspect` and `weir sim` name those
that an object reads. Text behind a member says how it departs from a real kernel.

This page is made from the table of the model (`UPDATE_EXPECT=1 cargo test -p kernel-model manual_lists`).
"
        .to_owned();
        for structure in MEMBERS.iter().filter(|one| !one.members.is_empty() && !is_argument(one.name)) {
            let _ = writeln!(page, "\n## `struct {}`\n", structure.name);
            for Member { path, value, source, .. } in structure.members {
                let value = match (*source, *value) {
                    (Source::Zero, why) => format!(": always 0: {why}"),
                    (_, "") => String::new(),
                    (_, value) => format!(": {value}"),
                };
                let _ = writeln!(page, "- `{path}`{value}");
            }
        }
        expect_test::expect_file!["../../../../docs/reference/kernel-members.md"].assert_eq(&page);
    }

    #[test]
    fn table_is_sorted_and_its_members_exist_in_the_packaged_kernel() {
        assert!(MEMBERS.is_sorted_by_key(|structure| structure.name));
        let types = KernelTypes::of((7, 2));
        for structure in MEMBERS {
            let layout = types.layout(structure.name);
            for member in structure.members {
                assert!(layout.place(member.path).exists(), "{}.{}", structure.name, member.path);
            }
        }
    }

    /// Members of nested structs are found from the struct on their path, members of others are not.
    #[test]
    fn source_of_a_member_is_found_from_each_struct_on_its_path() {
        let types = KernelTypes::of((7, 2));
        assert_eq!(types.source("task_struct", "nvcsw"), Some(&Source::Live(Live::VoluntarySwitches)));
        assert_eq!(types.source("sched_entity", "vruntime"), Some(&Source::Live(Live::FairVruntime)));
        assert_eq!(types.source("sched_ext_entity", "slice"), Some(&Source::Stored));
        assert_eq!(types.source("task_struct", "stats.nr_wakeups"), Some(&Source::Zero));
        assert_eq!(types.source("task_struct", "cpus_mask.bits"), Some(&Source::Stored));
        assert_eq!(types.source("task_struct", "se.avg.util_avg"), None);
        assert_eq!(types.source("rq", "avg_idle"), None);
    }
}
