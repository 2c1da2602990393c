// SPDX-License-Identifier: GPL-2.0-only
//! Guest objects as a program reads them, through addresses and BTF offsets.

use super::masks::MASK_SIZE;
use super::types::KernelTypes;
use super::*;
use crate::ExitInfo;
use bpf_machine::{FaultKind, Memory};
use ids::{CpuId, CpuSet, TaskId};
use proptest::prelude::*;

fn new(cpus: u32) -> (Memory, Objects) {
    let mut memory = Memory::default();
    let objects = Objects::new(&mut memory, cpus, &KernelTypes::of((7, 2)));
    (memory, objects)
}

fn view<'a>(pid: i32, tgid: i32, parent: TaskId, allowed: &'a CpuSet) -> TaskView<'a> {
    TaskView {
        pid,
        comm: "a name that is too long",
        flags: 0x40_0000,
        own_cpu: None,
        static_prio: 125,
        prio: 125,
        rt_priority: 0,
        start_time: 0,
        policy: 3,
        weight: 36,
        allowed,
        parent,
        tgid,
        uid: 0,
        session: 0,
        cgroup: 0,
    }
}

/// Reads a member of a struct as a program does.
fn member(memory: &Memory, addr: u64, structure: &str, path: &str) -> u64 {
    let place = KernelTypes::of((7, 2)).layout(structure).place(path);
    memory.load(addr + u64::from(place.offset), place.size).expect("an object of this struct")
}

/// Reads a member of a task as a program does.
pub(crate) fn read(memory: &Memory, task: u64, path: &str) -> u64 {
    member(memory, task, "task_struct", path)
}

/// Offset of a member of a task.
pub(crate) fn offset(path: &str) -> u64 {
    KernelTypes::of((7, 2)).layout("task_struct").offset(path).into()
}

/// The kernel of this version, with 4 CPUs and HZ = 1000.
pub(crate) fn target(version: (u16, u16)) -> Box<dyn bpf_object::Target> {
    super::target(version, KernelTypes::of(version), 1000, 4)
}

#[test]
fn guest_task_struct_shows_published_attributes() {
    let (mut memory, mut objects) = new(4);
    let allowed = "1,3".parse().unwrap();
    objects.publish(&mut memory, TaskId(0), &view(7, 7, TaskId::NONE, &allowed));
    let task = objects.task_addr(&memory, TaskId(0), CpuId(0));
    let numbers = ["pid", "tgid", "flags", "static_prio", "policy", "scx.weight", "nr_cpus_allowed", "scx.tid"]
        .map(|path| read(&memory, task, path));
    assert_eq!(numbers, [7, 7, 0x40_0000, 125, 3, 36, 2, 1]);
    assert_eq!(memory.c_string(task + offset("comm"), 16).unwrap(), "a name that is ");
    assert_eq!(objects.mask(&memory, read(&memory, task, "cpus_ptr")).unwrap(), allowed);
    assert_ne!(read(&memory, task, "mm"), 0);
    let idle = objects.task_addr(&memory, TaskId::NONE, CpuId(0));
    assert_eq!(read(&memory, task, "real_parent"), idle);
    objects.set_allowed(&mut memory, TaskId(0), &"0".parse().unwrap());
    assert_eq!(read(&memory, task, "nr_cpus_allowed"), 1);
    assert_eq!(objects.mask(&memory, read(&memory, task, "cpus_ptr")).unwrap(), "0".parse().unwrap());
}

#[test]
fn updating_a_guest_task_keeps_fields_written_by_programs() {
    let (mut memory, mut objects) = new(2);
    let all = CpuSet::first_n(2);
    objects.publish(&mut memory, TaskId(0), &view(7, 7, TaskId::NONE, &all));
    let task = objects.task_addr(&memory, TaskId(0), CpuId(0));
    memory.store(task + offset("scx.slice"), 8, 5_000).unwrap();
    memory.store(task + offset("scx.disallow"), 1, 1).unwrap();
    objects.set_vtime(&mut memory, TaskId(0), 9);
    objects.publish(&mut memory, TaskId(0), &view(7, 7, TaskId::NONE, &all));
    assert_eq!(objects.slice(&memory, TaskId(0)), 5_000);
    assert_eq!(objects.vtime(&memory, TaskId(0)), 9);
    assert!(objects.disallow(&memory, TaskId(0)));
}

#[test]
fn only_the_exact_address_of_a_guest_object_finds_its_task() {
    let (mut memory, mut objects) = new(2);
    let all = CpuSet::first_n(2);
    for task in 0..200 {
        objects.publish(&mut memory, TaskId(task), &view(task as i32 + 1, 1, TaskId::NONE, &all));
    }
    for task in [0, 1, 199] {
        let addr = objects.task_addr(&memory, TaskId(task), CpuId(0));
        assert_eq!(objects.task_at(&memory, addr), Some(TaskId(task)));
        assert_eq!(objects.task_at(&memory, addr + 8), None);
    }
    let unpublished = memory.addr(objects.tasks, 200);
    let idle = objects.task_addr(&memory, TaskId::NONE, CpuId(1));
    for addr in [0, unpublished, idle, u64::MAX] {
        assert_eq!(objects.task_at(&memory, addr), None);
    }
    assert_eq!(objects.idle_task_at(&memory, idle), Some(CpuId(1)));
    assert_eq!(objects.idle_task_at(&memory, idle + 8), None);
}

#[test]
fn thread_gets_group_leader_and_real_parent_of_the_forking_thread() {
    let (mut memory, mut objects) = new(1);
    let all = CpuSet::first_n(1);
    objects.publish(&mut memory, TaskId(0), &view(9, 9, TaskId::NONE, &all));
    objects.publish(&mut memory, TaskId(1), &view(10, 10, TaskId(0), &all));
    objects.publish(&mut memory, TaskId(2), &view(11, 10, TaskId(1), &all));
    objects.publish(&mut memory, TaskId(3), &view(12, 10, TaskId(2), &all));
    objects.publish(&mut memory, TaskId(4), &view(13, 13, TaskId(3), &all));
    let related = |how: &str| {
        [1, 2, 3, 4].map(|task| {
            let task = objects.task_addr(&memory, TaskId(task), CpuId(0));
            objects.task_at(&memory, read(&memory, task, how))
        })
    };
    assert_eq!(related("group_leader"), [1, 1, 1, 4].map(|task| Some(TaskId(task))));
    assert_eq!(related("real_parent"), [0, 0, 0, 3].map(|task| Some(TaskId(task))));
}

#[test]
fn rq_curr_points_to_the_running_task() {
    let (mut memory, mut objects) = new(3);
    objects.publish(&mut memory, TaskId(0), &view(1, 1, TaskId::NONE, &CpuSet::first_n(3)));
    objects.set_curr(&mut memory, CpuId(2), TaskId(0));
    let first = objects.variable(&memory, "runqueues").unwrap();
    let curr = KernelTypes::of((7, 2)).layout("rq").offset("curr");
    let running = [0, 1, 2].map(|cpu| {
        let rq = objects.per_cpu.find(&memory, first, cpu).unwrap().1;
        memory.load(rq + u64::from(curr), 8).unwrap()
    });
    let idle = |cpu| objects.task_addr(&memory, TaskId::NONE, CpuId(cpu));
    assert_eq!(running, [idle(0), idle(1), objects.task_addr(&memory, TaskId(0), CpuId(0))]);
    assert_eq!(objects.per_cpu.find(&memory, first, 3), None);
    assert_eq!(objects.per_cpu.find(&memory, first + 8, 0), None);
    assert_eq!(objects.variable(&memory, "jiffies"), None);
}

#[test]
fn programs_cannot_write_to_read_only_kernel_memory() {
    let (mut memory, mut objects) = new(2);
    let pool = objects.cpumasks.create(&mut memory).unwrap();
    let addrs = [
        objects.task_addr(&memory, TaskId::NONE, CpuId(0)),
        objects.variable(&memory, "runqueues").unwrap(),
        objects.cgroups.addr(&memory, 0),
        objects.fixed_masks.online(&memory),
        pool,
        objects.init_task_args(&mut memory, true, 0),
    ];
    for addr in addrs {
        assert!(matches!(memory.store(addr, 8, 1), Err(FaultKind::ReadOnly { .. })), "{addr:#x}");
    }
}

#[test]
fn exit_info_texts_are_truncated_to_kernel_buffer_sizes() {
    let (mut memory, mut objects) = new(2);
    objects.initialized = true;
    let info = ExitInfo {
        cause: Default::default(),
        kind: 1026,
        code: -5,
        reason: "runnable task stall".to_owned(),
        message: "m".repeat(3000),
        dump: "d".repeat(40_000),
        fault: None,
    };
    let addr = objects.exit_info(&mut memory, &info, 1);
    let get = |path: &str| member(&memory, addr, "scx_exit_info", path);
    assert_eq!(["kind", "exit_cpu", "exit_code", "flags"].map(get), [1026, 1, -5i64 as u64, 1]);
    let text = |path| memory.c_string(get(path), 1 << 20).unwrap();
    assert_eq!(text("reason"), "runnable task stall");
    assert_eq!(text("msg").len(), 1023);
    assert_eq!(text("dump").len(), 32_767);
}

#[test]
fn op_argument_structures_have_the_passed_values() {
    let (mut memory, mut objects) = new(2);
    let cgroup = objects.cgroups.addr(&memory, 0);
    let addr = objects.init_task_args(&mut memory, true, 0);
    assert_eq!([memory.load(addr, 1), memory.load(addr + 8, 8)], [Ok(1), Ok(cgroup)]);
    let addr = objects.exit_task_args(&mut memory, true);
    assert_eq!(memory.load(addr, 1), Ok(1));
    objects.publish(&mut memory, TaskId(0), &view(1, 1, TaskId::NONE, &CpuSet::first_n(2)));
    let addr = objects.cpu_release_args(&mut memory, 2, TaskId(0));
    let task = objects.task_addr(&memory, TaskId(0), CpuId(0));
    assert_eq!([memory.load(addr, 4), memory.load(addr + 8, 8)], [Ok(2), Ok(task)]);
    let addr = objects.dump_ctx(&mut memory, &ExitInfo { kind: 1024, ..ExitInfo::default() }, 2_500_000_000);
    assert_eq!(
        [memory.load(addr, 4), memory.load(addr + 24, 8), memory.load(addr + 32, 8)],
        [Ok(1024), Ok(2_500_000_000), Ok(2_500)]
    );
}

#[test]
fn bpf_cpumask_is_freed_with_its_last_reference() {
    let (mut memory, mut objects) = new(2);
    let pool = &mut objects.cpumasks;
    let (a, b) = (pool.create(&mut memory).unwrap(), pool.create(&mut memory).unwrap());
    assert_ne!(a, b);
    pool.bytes_mut(&mut memory, a).unwrap()[0] = 0xff;
    pool.acquire(&memory, a).unwrap();
    pool.release(&memory, a).unwrap();
    assert_eq!(pool.live(), 2);
    pool.release(&memory, a).unwrap();
    assert_eq!(pool.live(), 1);
    for wrong in [a, b + 8, 0, objects.fixed_masks.online(&memory)] {
        assert!(matches!(objects.cpumasks.release(&memory, wrong), Err(FaultKind::BadArgument(_))), "{wrong:#x}");
    }
    assert!(objects.mask(&memory, a).is_err(), "a released mask is not readable");
    // The slot is reused, with an empty mask.
    assert_eq!(objects.cpumasks.create(&mut memory).unwrap(), a);
    assert!(objects.mask(&memory, a).unwrap().is_empty());
}

#[test]
fn program_that_leaks_bpf_cpumasks_faults_at_the_limit() {
    let (mut memory, mut objects) = new(2);
    let fault = (0..=1 << 16).find_map(|_| objects.cpumasks.create(&mut memory).err());
    assert!(matches!(fault, Some(FaultKind::BadArgument(text)) if text.contains("does not release")));
}

#[test]
fn addresses_other_than_cpumasks_are_rejected() {
    let (mut memory, mut objects) = new(70);
    objects.publish(&mut memory, TaskId(0), &view(1, 1, TaskId::NONE, &CpuSet::first_n(70)));
    let task = objects.task_addr(&memory, TaskId(0), CpuId(0));
    for wrong in [0, task, task + 8, objects.cgroups.addr(&memory, 0), objects.fixed_masks.online(&memory) + 8] {
        assert!(matches!(objects.mask(&memory, wrong), Err(FaultKind::BadArgument(_))), "{wrong:#x}");
    }
    // 1024 bytes of the program's own memory are a valid mask; bits above the last CPU are ignored.
    let own = memory.add_region("bss", MASK_SIZE, 1, bpf_machine::Access::ReadWrite);
    memory.slot_mut(own, 0).fill(0xff);
    assert_eq!(objects.mask(&memory, memory.addr(own, 0)).unwrap(), CpuSet::first_n(70));
}

#[test]
fn idle_mask_copies_are_shared_and_reference_counted() {
    let (mut memory, mut objects) = new(8);
    let cpus = IdleMask { node: None, smt: false };
    let cores = IdleMask { node: None, smt: true };
    let masks = &mut objects.idle_masks;
    let first = masks.get(&mut memory, cpus, [0xf].into_iter());
    let second = masks.get(&mut memory, cores, [4].into_iter());
    assert_ne!(first, second);
    assert_eq!(masks.get(&mut memory, cpus, [7].into_iter()), first, "both references share one copy");
    assert_eq!((masks.next_held(0), masks.next_held(1), masks.next_held(2)), (Some((0, cpus)), Some((1, cores)), None));
    assert!(masks.put(&memory, second) && !masks.put(&memory, second));
    assert_eq!(masks.next_held(1), None);
    assert_eq!(objects.mask(&memory, first).unwrap(), "0-2".parse().unwrap());
}

proptest! {
    #[test]
    fn cpumask_reads_back_as_written(cpus in 1u32..600, set in prop::collection::btree_set(0u32..600, 0..40)) {
        let (mut memory, objects) = new(cpus);
        let set: CpuSet = set.into_iter().filter(|cpu| *cpu < cpus).map(CpuId).collect();
        let addr = objects.cpumask(&mut memory, &set);
        prop_assert_eq!(objects.mask(&memory, addr).unwrap(), set.clone());
        for cpu in 0..cpus + 70 {
            let contains = objects.mask_contains(&memory, addr, CpuId(cpu)).unwrap();
            prop_assert_eq!(contains, set.contains(CpuId(cpu)));
        }
    }
}

/// `to_kthread()`: a kthread shows whether it is per-CPU; `worker_private` of other tasks is NULL.
#[test]
fn kthread_flags_mark_per_cpu_kthreads() {
    let (mut memory, mut objects) = new(4);
    let all = CpuSet::first_n(4);
    let own = [None, None, Some(CpuId(2))];
    for (task, own_cpu) in (0..).zip(own) {
        let flags = if task == 0 { 0 } else { 0x20_0000 };
        let view = TaskView { flags, own_cpu, ..view(7 + task, 7 + task, TaskId::NONE, &all) };
        objects.publish(&mut memory, TaskId(task as u32), &view);
    }
    let thread = |task| read(&memory, objects.task_addr(&memory, TaskId(task), CpuId(0)), "worker_private");
    let of = |task, path| member(&memory, thread(task), "kthread", path);
    assert_eq!(thread(0), 0);
    assert_eq!([of(1, "flags"), of(2, "flags"), of(2, "cpu")], [0, 1, 2]);
}
