// SPDX-License-Identifier: GPL-2.0-only
//! The kernel that objects are linked against: types (BTF), kfuncs, variables and configuration.

use super::types::KernelTypes;
use super::{per_cpu, scheduling};
use crate::kfuncs;
use bpf_object::Target;
use bpf_object::btf::Btf;

/// The kernel that objects are linked against, by version, types, HZ and number of CPUs.
pub(crate) fn target(version: (u16, u16), types: KernelTypes, hz: u32, cpus: u32) -> Box<dyn Target> {
    let most = types.nr_cpus();
    assert!(cpus <= most, "{cpus} CPUs; the kernel supports at most {most}");
    Box::new(Kernel { types, version, hz })
}

#[derive(Debug)]
struct Kernel {
    types: KernelTypes,
    version: (u16, u16),
    hz: u32,
}

impl Target for Kernel {
    fn btf(&self) -> &Btf {
        self.types.btf()
    }

    fn has_kfunc(&self, name: &str, parameters: u32) -> bool {
        kfuncs::find(name, parameters, self.version).is_some()
    }

    fn has_variable(&self, name: &str) -> bool {
        per_cpu::exists(name) || scheduling::is_class(name)
    }

    /// Not set: PREEMPT_RCU (so that programs need not correct `migration_disabled` for the BPF prologue, contract
    /// S2), PREEMPT_RT, PARAVIRT_TIME_ACCOUNTING, IRQ_TIME_ACCOUNTING.
    fn kconfig(&self, name: &str) -> Option<u64> {
        let (major, minor) = (u64::from(self.version.0), u64::from(self.version.1));
        match name {
            "LINUX_KERNEL_VERSION" => Some(major << 16 | minor << 8),
            "CONFIG_HZ" => Some(self.hz.into()),
            "CONFIG_NR_CPUS" => Some(self.types.nr_cpus().into()),
            "CONFIG_64BIT" | "CONFIG_X86_64" | "CONFIG_SMP" | "CONFIG_SCHED_SMT" | "CONFIG_NUMA" => Some(1),
            "CONFIG_NO_HZ_IDLE" | "CONFIG_SCHED_CLASS_EXT" | "CONFIG_EXT_GROUP_SCHED" => Some(1),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bpf_object::btf::Kind;

    fn target(version: (u16, u16)) -> Box<dyn Target> {
        super::target(version, KernelTypes::of(version), 250, 4)
    }

    fn btf() -> Btf {
        KernelTypes::of((7, 2)).btf().clone()
    }

    /// Offset of a member by its path, looked up in the BTF.
    fn offset_in(btf: &Btf, structure: &str, path: &str) -> u64 {
        let mut id = btf.find(structure, Kind::Struct).unwrap_or_else(|| panic!("{structure}"));
        let mut offset = 0;
        for segment in path.split('.') {
            let found = btf.member(id, segment).unwrap_or_else(|| panic!("{structure}.{path}"));
            offset += found.byte_offset();
            id = found.member.type_id;
        }
        offset
    }

    /// Every access path to kernel types in the third-party schedulers examined (contract 2.4).
    #[test]
    fn btf_has_every_member_that_programs_read() {
        let btf = btf();
        let paths = [
            ("task_struct", "scx.weight scx.slice scx.dsq_vtime scx.flags scx.tid scx.runnable_at scx.disallow"),
            ("task_struct", "scx.ddsp_dsq_id scx.ddsp_enq_flags cpus_ptr cpus_mask pid tgid flags comm"),
            ("task_struct", "nr_cpus_allowed migration_disabled real_parent static_prio prio policy cgroups mm"),
            ("task_struct", "se.sum_exec_runtime se.avg.util_avg se.avg.runnable_avg nvcsw nivcsw utime stime"),
            ("task_struct", "group_leader thread_node thread_pid signal real_cred sched_class __state mempolicy"),
            ("task_struct", "numa_preferred_nid stats.nr_wakeups stats.nr_wakeups_sync"),
            ("rq", "curr clock clock_task clock_pelt lost_idle_time"),
            ("cpumask", "bits"),
            ("cgroup", "kn level self ancestors dom_cgrp"),
            ("kernfs_node", "id name"),
            ("css_set", "dfl_cgrp"),
            ("cgroup_subsys_state", "cgroup parent"),
            ("scx_exit_info", "kind exit_cpu exit_code flags reason bt bt_len msg dump"),
            ("scx_init_task_args", "fork cgroup"),
            ("scx_cgroup_init_args", "weight bw_period_us bw_quota_us bw_burst_us"),
            ("scx_bpf_dsq_insert_vtime_args", "dsq_id slice vtime enq_flags"),
            ("scx_bpf_select_cpu_and_args", "prev_cpu wake_flags flags"),
            ("sched_ext_ops", "select_cpu cgroup_set_idle sub_cgroup_id name cpu_release"),
        ];
        for (structure, members) in paths {
            for path in members.split(' ') {
                offset_in(&btf, structure, path);
            }
        }
    }

    /// Structures that a program places on its own stack and passes to a kfunc must match the kernel byte for byte.
    #[test]
    fn structures_passed_to_kfuncs_have_the_kernel_layout() {
        let btf = btf();
        let size = |name| btf.size_of(btf.find(name, Kind::Struct).expect("in the table"));
        assert_eq!(size("cpumask"), Some(1024));
        assert_eq!(size("bpf_iter_num"), Some(8));
        assert_eq!(size("bpf_iter_scx_dsq"), Some(48));
        assert_eq!(size("scx_bpf_dsq_insert_vtime_args"), Some(32));
        assert_eq!(size("scx_bpf_select_cpu_and_args"), Some(24));
        assert_eq!(offset_in(&btf, "scx_bpf_select_cpu_and_args", "flags"), 16);
    }

    #[test]
    fn btf_enumerations_have_kernel_values_and_width() {
        let btf = btf();
        let wide = btf.find("scx_enq_flags", Kind::Enum64).expect("64 bits");
        assert_eq!(btf.enumerator(wide, "SCX_ENQ_CPU_SELECTED"), Some(0x10_0000));
        assert_eq!(btf.enumerator(wide, "SCX_ENQ_LAST"), Some(1 << 41));
        let narrow = btf.find("scx_exit_kind", Kind::Enum).expect("32 bits");
        assert_eq!(btf.enumerator(narrow, "SCX_EXIT_ERROR_STALL"), Some(1026));
        assert_eq!(btf.find_enumerator("SCX_DSQ_LOCAL_ON"), Some(0xc000_0000_0000_0000));
        assert_eq!(btf.find_enumerator("SCX_TASK_CURSOR"), Some(0xffff_ffff_8000_0000));
        assert_eq!(btf.find_enumerator("SCX_TASK_ENABLED"), Some(0x400));
        assert_eq!(btf.find_enumerator("SCX_DSQ_ITER_REV"), Some(1 << 16));
    }

    #[test]
    fn kconfig_and_kfuncs_follow_version_and_hz() {
        let kernel = target((7, 2));
        let values = ["LINUX_KERNEL_VERSION", "CONFIG_HZ", "CONFIG_NR_CPUS", "CONFIG_PREEMPT_RT", "CONFIG_PREEMPT_RCU"]
            .map(|name| kernel.kconfig(name));
        assert_eq!(values, [Some(0x7_0200), Some(250), Some(8192), None, None]);
        assert!(kernel.has_variable("runqueues") && kernel.has_variable("sd_llc_id"));
        assert!(!kernel.has_variable("cpu_irqtime"));
        let old = KernelTypes::of((6, 12));
        let old = old.btf();
        assert_eq!(old.find("scx_bpf_dsq_insert_vtime_args", Kind::Struct), None);
        assert_eq!(old.find_enumerator("SCX_ENQ_IMMED"), None);
        assert!(kernel.has_kfunc("scx_bpf_dsq_insert___v2", 4) && !kernel.has_kfunc("scx_bpf_dsq_insert___v2", 3));
        assert!(!target((6, 12)).has_kfunc("scx_bpf_dsq_insert___v2", 4));
    }
}
