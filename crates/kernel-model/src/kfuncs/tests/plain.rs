// SPDX-License-Identifier: GPL-2.0-only
//! Fast-path kfuncs compared with their handlers.

use super::calls::fill_queue;
use super::{Bench, context};
use crate::guest::tests::read;
use crate::kfuncs::{self, plain};
use bpf_machine::GuestAddr;
use ids::{CpuId, CpuSet, DsqId, Nanos, TaskId};

/// Calls a kfunc through the fast path and through its handler, and checks that the results agree; `None` if the fast
/// path gives no result.
fn both(bench: &mut Bench, name: &str, args: &[u64]) -> Option<u64> {
    let number = plain::number(name).unwrap_or_else(|| panic!("{name} has no fast path"));
    let mut registers = [0; 5];
    registers[..args.len()].copy_from_slice(args);
    let answer = plain::answer(&bench.core, number, [registers[0], registers[1]], &bench.memory)?;
    let kfunc = kfuncs::find(name, args.len() as u32, (7, 2)).expect("it is in the table");
    let handled = kfuncs::call(&mut bench.core, kfunc, registers, &mut context(&mut bench.memory, &mut bench.maps));
    assert_eq!(handled, Ok(answer), "{name} {args:x?}");
    assert_eq!(bench.error(), None, "{name} {args:x?}: an error that the fast path does not report");
    Some(answer)
}

/// Address of a task's affinity mask, as a program reads it.
fn mask_of(bench: &Bench, task: u32) -> GuestAddr {
    read(&bench.memory, bench.task(task), "cpus_ptr")
}

#[test]
fn fast_path_kfunc_returns_the_result_of_its_handler() {
    let mut bench = Bench::new(3);
    bench.core.time.set_now(Nanos(1_234_567));
    assert!(both(&mut bench, "scx_bpf_now", &[]) >= Some(1_234_567));

    for (task, cpu) in [(0, 5), (1, 0), (2, 7)] {
        bench.core.tasks[TaskId(task)].cpu = CpuId(cpu);
        let addr = bench.task(task);
        assert_eq!(both(&mut bench, "scx_bpf_task_cpu", &[addr]), Some(cpu.into()));
    }

    fill_queue(&mut bench, None);
    assert_eq!(bench.call("scx_bpf_create_dsq", &[7, 0]), 0);
    for (queue, tasks) in [(1, 3), (7, 0)] {
        assert_eq!(both(&mut bench, "scx_bpf_dsq_nr_queued", &[queue]), Some(tasks));
    }

    let allowed: CpuSet = "1,6".parse().expect("a list of CPUs");
    bench.core.objects.set_allowed(&mut bench.memory, TaskId(1), &allowed);
    let mask = mask_of(&bench, 1);
    for cpu in 0..8 {
        let expected = u64::from(allowed.contains(CpuId(cpu)));
        assert_eq!(both(&mut bench, "bpf_cpumask_test_cpu", &[cpu.into(), mask]), Some(expected), "CPU {cpu}");
    }
    let online = bench.call("scx_bpf_get_online_cpumask", &[]);
    assert_eq!(both(&mut bench, "bpf_cpumask_test_cpu", &[5, online]), Some(1));
    bench.core.objects.set_allowed(&mut bench.memory, TaskId(2), &"0,5".parse().expect("a list of CPUs"));
    let other = mask_of(&bench, 2);
    for (masks, expected) in [([mask, online], 1), ([mask, other], 0), ([other, other], 1)] {
        assert_eq!(both(&mut bench, "bpf_cpumask_intersects", &masks), Some(expected));
    }
}

/// Arguments that need the handler: a bad task pointer, an idle task, a built-in or missing queue, a bad CPU or mask.
#[test]
fn fast_path_leaves_bad_arguments_to_the_kfunc_handler() {
    let mut bench = Bench::new(1);
    let idle = bench.core.objects.task_addr(&bench.memory, TaskId::NONE, CpuId(3));
    let mask = mask_of(&bench, 0);
    let (task, own) = (bench.task(0), bench.own(0));
    let local_on = DsqId::local_on(CpuId(2)).0;
    let cases: [(&str, &[&[u64]]); 4] = [
        ("scx_bpf_task_cpu", &[&[0], &[task + 8], &[own], &[idle]]),
        ("scx_bpf_dsq_nr_queued", &[&[DsqId::LOCAL.0], &[DsqId::GLOBAL.0], &[local_on], &[99]]),
        ("bpf_cpumask_test_cpu", &[&[8, mask], &[u64::from(u32::MAX), mask], &[0, 0], &[0, task], &[0, own]]),
        ("bpf_cpumask_intersects", &[&[0, mask], &[mask, task], &[own, mask]]),
    ];
    for (name, arguments) in cases {
        for args in arguments {
            assert_eq!(both(&mut bench, name, args), None, "{name} {args:x?}");
        }
    }
}
