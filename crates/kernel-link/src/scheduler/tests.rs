// SPDX-License-Identifier: GPL-2.0-only
//! Tests of loading a scheduler that need no sched_ext kernel. `tests/in_kernel.rs` has the others.

use super::attached::{errno, fill, most_telling, verifier_verdict};
use super::kernel::{KernelTypes, constants, hz};
use super::prepare::{Prepared, prepare};
use super::{Host, Request, SchedulerError, load};
use crate::LinkError;
use bpf_object::{LinkedObject, MemberValue, Object, Target};
use launch_profile::Profile;
use libbpf_rs::ObjectBuilder;
use libbpf_rs::btf::Btf;
use machine_model::Machine;
use std::collections::BTreeMap;
use std::path::Path;

fn host() -> Host {
    Host { machine: Machine::from_synthetic("node:2 core:3 pu:2").unwrap(), hotplug_seq: 12 }
}

/// A kernel with all ops needed here, and two constants.
fn kernel() -> KernelTypes {
    let constants = [("SCX_SLICE_DFL", 20_000_000), ("SCX_DSQ_LOCAL", 1 << 63 | 2)];
    let ops = "init_task enable disable select_cpu enqueue dispatch runnable running tick stopping quiescent yield set_weight \
               cgroup_init cgroup_exit cgroup_move cgroup_set_weight cgroup_set_bandwidth cpu_acquire cpu_release \
               update_idle cpu_online cpu_offline exit_task init exit name flags timeout_ms exit_dump_len hotplug_seq";
    KernelTypes {
        constants: constants.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        ops: ops.split_whitespace().map(str::to_owned).collect(),
    }
}

/// The prepared object, and the sections and struct_ops variable that libbpf then has.
fn filled(object: &[u8], profile: &str, kernel: &KernelTypes) -> (Prepared, BTreeMap<String, Vec<u8>>) {
    let profile = Profile::from_toml("profile.toml", profile).unwrap();
    let host = host();
    let request = Request { name: "test", object, profile: &profile, host: &host, measure: false };
    let prepared = prepare(&request, kernel).unwrap();
    let mut open = ObjectBuilder::default().name("test").unwrap().open_memory(object).unwrap();
    fill("test", &mut open, &prepared).unwrap();
    let bytes = |map: libbpf_rs::OpenMap<'_>| {
        let name = map.name().to_string_lossy().trim_start_matches("test").to_owned();
        Some((name, map.initial_value()?.to_vec()))
    };
    let maps = open.maps().filter_map(bytes).collect();
    (prepared, maps)
}

/// The object as linked and applied by the simulator.
fn applied(object: &[u8], profile: &str) -> LinkedObject {
    struct Nothing(bpf_object::btf::Btf);
    impl Target for Nothing {
        fn btf(&self) -> &bpf_object::btf::Btf {
            &self.0
        }
        fn has_kfunc(&self, _name: &str, _parameters: u32) -> bool {
            true
        }
        fn has_variable(&self, _name: &str) -> bool {
            true
        }
        fn kconfig(&self, _name: &str) -> Option<u64> {
            None
        }
    }
    let mut object = Object::parse(object).unwrap().link(&Nothing(Default::default())).unwrap();
    Profile::from_toml("profile.toml", profile).unwrap().apply(&mut object, &host().machine).unwrap();
    object
}

fn variable<'a>(object: &LinkedObject, maps: &'a BTreeMap<String, Vec<u8>>, name: &str) -> &'a [u8] {
    let variable = &object.variables[name];
    let section = &maps[&object.maps[variable.map.0 as usize].name];
    &section[variable.offset as usize..][..variable.size as usize]
}

/// Member of the struct_ops variable in libbpf's data.
fn member(object: &LinkedObject, maps: &BTreeMap<String, Vec<u8>>, name: &str) -> u64 {
    let table = &maps[&object.struct_ops[0].name];
    let type_id = object.btf.find("sched_ext_ops", bpf_object::btf::Kind::Struct).unwrap();
    let found = object.btf.member(type_id, name).unwrap();
    let (at, size) = (found.byte_offset() as usize, object.btf.size_of(found.member.type_id).unwrap() as usize);
    let mut wide = [0; 8];
    wide[..size].copy_from_slice(&table[at..at + size]);
    u64::from_le_bytes(wide)
}

#[test]
fn libbpf_and_simulator_get_the_same_bytes() {
    for policy in policies::all() {
        let linked = applied(policy.object, policy.profile);
        let (prepared, maps) = filled(policy.object, policy.profile, &kernel());
        assert_eq!(prepared.notes, [""; 0], "{}", policy.name);
        for (name, place) in &linked.variables {
            let simulated = &linked.maps[place.map.0 as usize].initial.as_ref().unwrap();
            let simulated = &simulated[place.offset as usize..][..place.size as usize];
            let real = variable(&linked, &maps, name);
            match name.as_str() {
                "__SCX_SLICE_DFL" => assert_eq!(real, 20_000_000u64.to_le_bytes()),
                "__SCX_DSQ_LOCAL" => assert_eq!(real, (1u64 << 63 | 2).to_le_bytes()),
                _ => assert_eq!(real, simulated, "{}: {name}", policy.name),
            }
        }
        assert_eq!(member(&linked, &maps, "hotplug_seq"), 12);
        assert_ne!(member(&linked, &maps, "enqueue"), 0, "libbpf's program");
    }
    let (_, maps) = filled(policies::find("bfs").unwrap().object, policies::find("bfs").unwrap().profile, &kernel());
    let linked = applied(policies::find("bfs").unwrap().object, "");
    assert_eq!(variable(&linked, &maps, "nr_cpus"), 12u32.to_le_bytes());
}

#[test]
fn launch_profile_sets_struct_ops_members() {
    let fifo = policies::find("fifo").unwrap().object;
    let profile = "[ops]\nflags = [\"ENQ_LAST\", \"ENQ_EXITING\"]\ntimeout_ms = 7000\n";
    let (prepared, maps) = filled(fifo, profile, &kernel());
    let linked = applied(fifo, profile);
    assert_eq!((member(&linked, &maps, "flags"), member(&linked, &maps, "timeout_ms")), (6, 7000));
    assert_eq!((prepared.table.flags, prepared.table.name.as_str()), (6, "fifo"));
    let numbers = linked.struct_ops[0].members.iter().filter(|one| matches!(one.value, MemberValue::Number(_)));
    assert_eq!(numbers.count(), 2);
}

#[test]
fn programs_left_out_by_the_profile_are_not_loaded() {
    let bfs = policies::find("bfs").unwrap();
    let profile = format!("leave-out = [\"bfs_cpu_release\"]\n{}", bfs.profile);
    let parsed = Profile::from_toml("profile.toml", &profile).unwrap();
    let host = host();
    let request = Request { name: "test", object: bfs.object, profile: &parsed, host: &host, measure: false };
    let prepared = prepare(&request, &kernel()).unwrap();
    assert!(!prepared.table.ops.iter().any(|(op, _)| op == "cpu_release"));
    let mut open = ObjectBuilder::default().name("test").unwrap().open_memory(bfs.object).unwrap();
    let loaded = |open: &libbpf_rs::OpenObject| {
        let all = open.progs().map(|one| (one.name().to_string_lossy().into_owned(), one.autoload()));
        all.filter(|(_, autoload)| !autoload).map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(loaded(&open), [""; 0]);
    fill("test", &mut open, &prepared).unwrap();
    assert_eq!(loaded(&open), ["bfs_cpu_release"]);
    let (_, maps) = filled(bfs.object, &profile, &kernel());
    assert_eq!(member(&applied(bfs.object, &profile), &maps, "cpu_release"), 0);
}

#[test]
fn ops_missing_in_the_kernel_are_left_out_with_a_note() {
    let mut kernel = kernel();
    for gone in ["cpu_release", "hotplug_seq"] {
        kernel.ops.remove(gone);
    }
    let bfs = policies::find("bfs").unwrap();
    let (prepared, maps) = filled(bfs.object, bfs.profile, &kernel);
    assert_eq!(prepared.notes, ["this kernel has no op `cpu_release`: it is left out"]);
    assert!(!prepared.table.ops.iter().any(|(op, _)| op == "cpu_release"));
    let linked = applied(bfs.object, bfs.profile);
    assert_eq!((member(&linked, &maps, "cpu_release"), member(&linked, &maps, "hotplug_seq")), (0, 0));
    assert_eq!(variable(&linked, &maps, "__SCX_KICK_IDLE"), [0; 8], "this kernel does not have the constant");
}

#[test]
fn exit_record_is_found_in_weir_and_scx_form() {
    let source = Path::new("tests/schedulers/customary.bpf.c");
    let object = bpf_clang::object_of(source, Path::new(env!("OUT_DIR")), &[]);
    let (prepared, maps) = filled(&object, "", &kernel());
    let linked = applied(&object, "");
    assert_eq!(prepared.resized, [(".data.uei_dump".to_owned(), 65_536)]);
    assert_eq!(
        (maps[".data.uei_dump"].len(), variable(&linked, &maps, "uei_dump_len")),
        (65_536, &65_536u32.to_le_bytes()[..])
    );

    let record = prepared.record.expect("uei");
    let mut sections: BTreeMap<String, Vec<u8>> = prepared.sections.into_iter().collect();
    let read = |sections: &BTreeMap<String, Vec<u8>>| record.read(|name| Ok::<_, ()>(sections[name].clone())).unwrap();
    assert_eq!(read(&sections), None);
    let at = linked.variables["uei"].offset as usize;
    let data = sections.get_mut(".data").unwrap();
    data[at..at + 4].copy_from_slice(&66i32.to_le_bytes());
    data[at + 4..at + 8].copy_from_slice(&(-1i32).to_le_bytes());
    data[at + 8..at + 16].copy_from_slice(&(1i64 << 48 | 1 << 32).to_le_bytes());
    data[at + 16..at + 19].copy_from_slice(b"why");
    data[at + 144..at + 148].copy_from_slice(b"what");
    sections.get_mut(".data.uei_dump").unwrap()[..4].copy_from_slice(b"dump");
    let exit = read(&sections).expect("the scheduler has exited");
    assert_eq!((exit.kind, exit.exit_cpu, exit.wants_restart(), exit.by_hotplug()), (66, None, true, true));
    assert_eq!([&*exit.reason, &*exit.message, &*exit.dump], ["why", "what", "dump"]);

    let ours = filled(policies::find("fifo").unwrap().object, "", &kernel()).0.record.expect("weir_exit");
    assert_eq!(ours.read(|_| Ok::<_, ()>(vec![1; 40_000])).unwrap().unwrap().dump.len(), 32_768);
}

#[test]
fn constants_are_read_from_the_kernel_btf() {
    let Ok(btf) = Btf::from_vmlinux() else {
        skip::skip("this kernel has no BTF");
        return;
    };
    let all = constants(&btf, |_| true);
    // A 32-bit and a 64-bit enum of include/uapi/linux/bpf.h.
    assert_eq!((all["BPF_MAP_TYPE_TASK_STORAGE"], all["BPF_F_CTXLEN_MASK"]), (29, 0xf_ffff << 32));
    assert!([100, 250, 300, 1000].contains(&hz()), "{}", hz());
}

#[test]
fn kernel_without_sched_ext_gives_a_one_line_error() {
    if Path::new("/sys/kernel/sched_ext").exists() {
        skip::skip("this kernel has it");
        return;
    }
    let (host, profile) = (host(), Profile::default());
    let request = Request { name: "fifo", object: &[], profile: &profile, host: &host, measure: false };
    for error in [load(&request).unwrap_err(), Host::read().unwrap_err()] {
        assert!(matches!(error, LinkError::Scheduler(SchedulerError::NoSchedExt { .. })));
        let text = error.to_string();
        assert!(text.starts_with("this kernel (") && text.ends_with("CONFIG_SCHED_CLASS_EXT=y"), "{text}");
        assert!(!text.contains('\n'));
    }
}

#[test]
fn objects_without_a_scheduler_are_rejected_before_libbpf() {
    let (host, profile) = (host(), Profile::from_toml("p", "[rodata]\nnothing = 1\n").unwrap());
    let error = |object: &[u8], profile: &Profile| {
        let request = Request { name: "it", object, profile, host: &host, measure: false };
        prepare(&request, &kernel()).unwrap_err().to_string()
    };
    assert!(error(b"no ELF", &Profile::default()).starts_with("it: "));
    let fifo = policies::find("fifo").unwrap().object;
    assert!(
        error(fifo, &profile).starts_with("it: p:2: unknown variable of the object `nothing`"),
        "{}",
        error(fifo, &profile)
    );
    let recorder = include_bytes!(concat!(env!("OUT_DIR"), "/record.bpf.o"));
    let expected = "it: not a sched_ext scheduler: expected a struct sched_ext_ops, found no struct_ops variable";
    assert_eq!(error(recorder, &Profile::default()), expected);
}

#[test]
fn verifier_reason_is_extracted_from_its_log() {
    let log = "libbpf: prog 'x_enqueue': BPF program load failed: -EACCES\n\
               libbpf: prog 'x_enqueue': -- BEGIN PROG LOAD LOG --\n\
               0: (b7) r1 = 0\n\
               R1 invalid mem access 'scalar'\n\
               processed 12 insns (limit 1000000) max_states_per_insn 0 total_states 1 peak_states 1 mark_read 0\n\
               -- END PROG LOAD LOG --\n\
               libbpf: prog 'x_enqueue': failed to load: -EACCES\n";
    let expected = ("x_enqueue".to_owned(), "R1 invalid mem access 'scalar'".to_owned());
    assert_eq!(verifier_verdict(log), Some(expected.clone()));
    let explained = "R1 invalid mem access 'scalar'\n\nVerification failed: Register Type Safety: Invalid dereference\n\n\
                     Suggestion:\n  Reload the pointer.\n\n";
    let log = log.replace("R1 invalid mem access 'scalar'\n", explained);
    assert_eq!(verifier_verdict(&log), Some(expected), "as 7.3 writes it");
    let other = "libbpf: extern (func ksym) 'scx_bpf_none': not found in kernel or module BTFs\n\
                 libbpf: failed to load object 'x'\n";
    assert_eq!(verifier_verdict(other), None);
    assert_eq!(most_telling(other), "extern (func ksym) 'scx_bpf_none': not found in kernel or module BTFs");
    let other = "libbpf: extern (func ksym) 'scx_bpf_create_dsq': func_proto [38] incompatible with vmlinux [48029]\n";
    assert!(most_telling(other).ends_with(
        "[48029]: the BTF of this kernel has other parameters for the function; try another build of \
                                           the kernel"
    ));
    let config = most_telling("libbpf: failed to open system Kconfig\n");
    let places = "expected /proc/config.gz, /boot/config-RELEASE or /usr/lib/modules/RELEASE/config";
    assert!(config.ends_with(places), "{config}");
}

#[test]
fn errno_is_found_behind_the_error_context() {
    use libbpf_rs::ErrorExt;
    let error = libbpf_rs::Error::from(std::io::Error::from_raw_os_error(22));
    assert_eq!(errno(&error.context("failed to attach struct_ops").context("again")), Some(22));
    assert_eq!(errno(&libbpf_rs::Error::from(std::io::Error::other("no number"))), None);
}
