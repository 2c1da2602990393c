// SPDX-License-Identifier: GPL-2.0-only
//! What the policies that share have in common.

use crate::headers;
use crate::world::{World, among};
use ids::{CpuId, TaskId};
use kernel_model::TaskAttributes;

fn sharing() -> Vec<&'static str> {
    among(&["currency", "dwcs", "entitlement", "gang", "lottery", "sets", "stride"])
}

/// Threads of the kernel that belong to one CPU are no clients: they run at once.
#[test]
fn threads_of_the_kernel_run_at_once() {
    for name in sharing() {
        let mut world = World::new(name, "node:1 core:2 pu:1", 1000);
        let kernel = |cpu| TaskAttributes { kernel_thread: true, own_cpu: Some(CpuId(cpu)), ..world.pinned(cpu, 0) };
        let threads = world.start(vec![kernel(0), kernel(1)]);
        for thread in &threads {
            world.block(*thread);
        }
        let hogs =
            world.start(vec![world.pinned(0, -20), world.pinned(1, -20), world.pinned(0, 0), world.pinned(1, 0)]);
        world.run_ms(5);
        for (cpu, thread) in (0..).zip(&threads) {
            let ran = world.running(cpu);
            world.wake(cpu, *thread, false);
            assert_eq!(world.running(cpu), *thread, "{name}");
            world.block(*thread);
            assert!(hogs.contains(&ran) && hogs.contains(&world.running(cpu)), "{name}");
        }
    }
}

/// Where there is one CPU a thread of the kernel is bound to it even if it belongs to none: it waits as others do.
#[test]
fn threads_that_belong_to_no_cpu_wait() {
    for name in among(&["currency", "dwcs", "gang", "lottery", "stride"]) {
        for own_cpu in [None, Some(CpuId(0))] {
            let mut world = World::new(name, "node:1 core:1 pu:1", 1000);
            let thread = TaskAttributes { kernel_thread: true, own_cpu, ..world.attributes() };
            let thread = world.start(vec![thread])[0];
            world.block(thread);
            let hog = world.start(vec![world.attributes()])[0];
            world.run_ms(1);
            world.wake(0, thread, false);
            assert_eq!(world.running(0) == hog, own_cpu.is_none(), "{name} {own_cpu:?}");
        }
    }
}

/// A task that has to give its CPU away goes to one that idles, whichever it is.
#[test]
fn who_is_displaced_goes_to_an_idle_cpu() {
    for name in sharing() {
        for (busy, idle) in [(1, 0), (0, 1), (2, 3)] {
            let mut world = World::new(name, "node:1 core:4 pu:1", 1000);
            let bound = |world: &World, cpu| world.pinned(cpu, 0);
            // Everybody else has a task, and the free one begins where another waits.
            let mut attributes: Vec<_> = (0..4).filter(|cpu| *cpu != idle).map(|cpu| bound(&world, cpu)).collect();
            attributes.push(bound(&world, busy));
            let tasks = world.start(attributes);
            let free = *tasks.last().unwrap();
            while world.running(busy) != free {
                world.run_ms(1);
            }
            world.kernel.set_affinity(CpuId(busy), free, &ids::CpuSet::first_n(4)).unwrap();
            world.settle();
            let before = world.ran_ms(free);
            world.run_ms(2_000);
            assert_eq!(world.ran_ms(free) - before, 2_000, "{name} from {busy} to {idle}");
            assert_eq!(world.running(idle), free, "{name}");
            assert!((0..4).all(|cpu| world.running(cpu) != TaskId::NONE), "{name}");
        }
    }
}

#[test]
fn windows_are_ordered_as_the_papers_say() {
    headers::holds("window");
}

#[test]
fn logarithms_are_right_to_16_bits() {
    headers::holds("log2");
}

#[test]
fn jobs_are_cgroups_with_numbers() {
    headers::holds("jobs");
}

#[test]
fn who_is_no_client_and_who_is_told() {
    headers::holds("client");
}
