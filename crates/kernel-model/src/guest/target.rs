// SPDX-License-Identifier: GPL-2.0-only
//! The kernel that objects are linked against: types (BTF), kfuncs, variables and configuration.

use super::enums::{self, ENUMS};
use super::layout::{Enum, Struct, Ty};
use super::per_cpu;
use super::structs::{self, STRUCTS};
use crate::kfuncs;
use bpf_object::Target;
use bpf_object::btf::{Btf, BtfBuilder, Enumerator, Member, Type};
use std::collections::BTreeMap;

/// CONFIG_NR_CPUS, which sets the size of `struct cpumask` in every object (contract 2.4).
const NR_CPUS: u32 = 8192;

/// The kernel that objects are linked against, by version, HZ and number of CPUs.
pub(crate) fn target(version: (u16, u16), hz: u32, cpus: u32) -> Box<dyn Target> {
    assert!(cpus <= NR_CPUS, "{cpus} CPUs; the kernel supports at most {NR_CPUS}");
    Box::new(Kernel { btf: btf(version), version, hz })
}

#[derive(Debug)]
struct Kernel {
    btf: Btf,
    version: (u16, u16),
    hz: u32,
}

impl Target for Kernel {
    fn btf(&self) -> &Btf {
        &self.btf
    }

    fn has_kfunc(&self, name: &str, parameters: u32) -> bool {
        kfuncs::find(name, parameters, self.version).is_some()
    }

    fn has_variable(&self, name: &str) -> bool {
        per_cpu::exists(name)
    }

    /// Not set: PREEMPT_RCU (so that programs need not correct `migration_disabled` for the BPF prologue, contract
    /// S2), PREEMPT_RT, PARAVIRT_TIME_ACCOUNTING, IRQ_TIME_ACCOUNTING.
    fn kconfig(&self, name: &str) -> Option<u64> {
        let (major, minor) = (u64::from(self.version.0), u64::from(self.version.1));
        match name {
            "LINUX_KERNEL_VERSION" => Some(major << 16 | minor << 8),
            "CONFIG_HZ" => Some(self.hz.into()),
            "CONFIG_NR_CPUS" => Some(NR_CPUS.into()),
            "CONFIG_64BIT" | "CONFIG_X86_64" | "CONFIG_SMP" | "CONFIG_SCHED_SMT" | "CONFIG_NUMA" => Some(1),
            "CONFIG_NO_HZ_IDLE" | "CONFIG_SCHED_CLASS_EXT" | "CONFIG_EXT_GROUP_SCHED" => Some(1),
            _ => None,
        }
    }
}

/// Converts the tables to BTF.
fn btf(version: (u16, u16)) -> Btf {
    let mut types = Types::new();
    for one in ENUMS {
        let id = types.builder.add(enumeration(one, version));
        types.enums.insert(one.name, id);
    }
    // Declares all structures before defining any, because they refer to each other in cycles.
    let structures = || STRUCTS.iter().filter(|structure| structs::exists(structure.name, version));
    for structure in structures() {
        let id = types.builder.declare_struct(structure.name);
        types.structs.insert(structure.name, id);
    }
    for structure in structures() {
        let members = types.members(structure);
        types.builder.define(types.structs[structure.name], structure.size(), members);
    }
    let guard = types.structs[structs::CLASS_RCU.name];
    types.builder.typedef("class_rcu_t", guard);
    types.builder.build()
}

fn enumeration(one: &Enum, version: (u16, u16)) -> Type {
    let signed = one.values.iter().any(|(_, value)| *value >= 1 << 63 && i32::try_from(*value as i64).is_ok());
    let narrow = |value: u64| if signed { i32::try_from(value as i64).is_ok() } else { u32::try_from(value).is_ok() };
    let wide = !one.values.iter().all(|(_, value)| narrow(*value));
    let present = one.values.iter().filter(|(name, _)| enums::exists(name, version));
    let values = present.map(|(name, value)| Enumerator { name: (*name).to_owned(), value: *value }).collect();
    Type::Enum { name: one.name.to_owned(), size: if wide { 8 } else { 4 }, signed: signed && !wide, wide, values }
}

struct Types {
    builder: BtfBuilder,
    scalars: BTreeMap<&'static str, u32>,
    enums: BTreeMap<&'static str, u32>,
    structs: BTreeMap<&'static str, u32>,
    pointers: BTreeMap<u32, u32>,
}

impl Types {
    fn new() -> Types {
        let mut builder = BtfBuilder::new();
        let scalars = [
            ("bool", builder.bool("_Bool")),
            ("char", builder.int("char", 1, true)),
            ("u16", builder.int("short unsigned int", 2, false)),
            ("i32", builder.int("int", 4, true)),
            ("u32", builder.int("unsigned int", 4, false)),
            ("i64", builder.int("long long int", 8, true)),
            ("u64", builder.int("long long unsigned int", 8, false)),
            ("ulong", builder.int("long unsigned int", 8, false)),
        ];
        let (enums, structs, pointers) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Types { builder, scalars: scalars.into(), enums, structs, pointers }
    }

    fn members(&mut self, structure: &Struct) -> Vec<Member> {
        let mut members = Vec::new();
        for (index, field) in structure.fields.iter().enumerate() {
            members.push(Member::at(field.name, structure.offset_at(index), self.id(&field.ty)));
        }
        members
    }

    fn id(&mut self, ty: &Ty) -> u32 {
        match ty {
            Ty::Bool => self.scalars["bool"],
            Ty::Char => self.scalars["char"],
            Ty::U16 => self.scalars["u16"],
            Ty::I32 => self.scalars["i32"],
            Ty::U32 => self.scalars["u32"],
            Ty::I64 => self.scalars["i64"],
            Ty::U64 => self.scalars["u64"],
            Ty::ULong => self.scalars["ulong"],
            Ty::Enum(name) => self.enums[name],
            Ty::Struct(inner) => self.structs[inner.name],
            Ty::VoidPtr => self.pointer(0),
            Ty::CharPtr => self.pointer(self.scalars["char"]),
            Ty::Ptr(name) => {
                let target = match self.structs.get(name) {
                    Some(id) => *id,
                    None => self.forward(name),
                };
                self.pointer(target)
            }
            Ty::Op(arguments) => {
                // Argument and result types of ops are not checked here; only their number matters.
                let parameters = vec![("", self.scalars["u64"]); *arguments as usize];
                let proto = self.builder.func_proto(self.scalars["i32"], &parameters);
                self.pointer(proto)
            }
            Ty::Array(element, count) => {
                let element = self.id(element);
                self.builder.array(element, *count)
            }
        }
    }

    /// A structure that is only declared. It is remembered like the others, so that it exists once.
    fn forward(&mut self, name: &'static str) -> u32 {
        let id = self.builder.forward(name, false);
        self.structs.insert(name, id);
        id
    }

    fn pointer(&mut self, target: u32) -> u32 {
        match self.pointers.get(&target) {
            Some(id) => *id,
            None => {
                let id = self.builder.pointer(target);
                self.pointers.insert(target, id);
                id
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::objects::task;
    use bpf_object::btf::Kind;

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

    /// Every access path of the census (contract 2.4) to the types of the model.
    #[test]
    fn btf_has_every_member_that_programs_read() {
        let btf = btf((7, 2));
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

    #[test]
    fn offsets_and_sizes_match_btf() {
        let btf = btf((7, 2));
        let of_task = [
            (task::SLICE, "scx.slice"),
            (task::VTIME, "scx.dsq_vtime"),
            (task::DISALLOW, "scx.disallow"),
            (task::SCX_FLAGS, "scx.flags"),
            (task::TID, "scx.tid"),
            (task::SUM_EXEC, "se.sum_exec_runtime"),
            (task::CPUS_MASK, "cpus_mask"),
            (task::CPUS_PTR, "cpus_ptr"),
            (task::NR_CPUS_ALLOWED, "nr_cpus_allowed"),
            (task::PID, "pid"),
            (task::TGID, "tgid"),
            (task::COMM, "comm"),
            (task::GROUP_LEADER, "group_leader"),
        ];
        for (offset, path) in of_task {
            assert_eq!(u64::from(offset), offset_in(&btf, "task_struct", path), "{path}");
        }
        for structure in STRUCTS {
            let id = btf.find(structure.name, Kind::Struct).expect("in the table");
            assert_eq!(btf.size_of(id), Some(structure.size().into()), "{}", structure.name);
            for (index, field) in structure.fields.iter().enumerate() {
                let found = btf.member(id, field.name).expect("in the table");
                assert_eq!(found.byte_offset(), u64::from(structure.offset_at(index)), "{}", field.name);
                assert_eq!(btf.size_of(found.member.type_id), Some(field.ty.size().into()), "{}", field.name);
            }
        }
    }

    /// Structures that a program places on its own stack and passes to a kfunc must match the kernel byte for byte.
    #[test]
    fn structures_passed_to_kfuncs_have_the_kernel_layout() {
        let btf = btf((7, 2));
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
        let btf = btf((7, 2));
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
    fn btf_round_trips_through_bytes() {
        let btf = btf((7, 2));
        assert_eq!(Btf::parse(&btf.to_bytes()).expect("well-formed"), btf);
    }

    #[test]
    fn kconfig_and_kfuncs_follow_version_and_hz() {
        let kernel = target((7, 2), 250, 4);
        let values = ["LINUX_KERNEL_VERSION", "CONFIG_HZ", "CONFIG_NR_CPUS", "CONFIG_PREEMPT_RT", "CONFIG_PREEMPT_RCU"]
            .map(|name| kernel.kconfig(name));
        assert_eq!(values, [Some(0x7_0200), Some(250), Some(8192), None, None]);
        assert!(kernel.has_variable("runqueues") && kernel.has_variable("sd_llc_id"));
        assert!(!kernel.has_variable("cpu_irqtime"));
        let old = btf((6, 12));
        assert_eq!(old.find("scx_bpf_dsq_insert_vtime_args", Kind::Struct), None);
        assert_eq!(old.find_enumerator("SCX_ENQ_IMMED"), None);
        assert!(kernel.has_kfunc("scx_bpf_dsq_insert___v2", 4) && !kernel.has_kfunc("scx_bpf_dsq_insert___v2", 3));
        assert!(!target((6, 12), 250, 4).has_kfunc("scx_bpf_dsq_insert___v2", 4));
    }
}
