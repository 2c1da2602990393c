// SPDX-License-Identifier: GPL-2.0-only
//! Behavior that the proportional-share policies have in common.

use crate::headers;
use crate::world::{World, among};
use ids::{CpuId, TaskId};
use kernel_model::TaskAttributes;

fn sharing() -> Vec<&'static str> {
    among(&["currency", "dwcs", "entitlement", "gang", "lottery", "sets", "stride"])
}

/// Per-CPU kthreads are not clients: they run at once.
#[test]
fn per_cpu_kthreads_run_at_once() {
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

/// With a single CPU, an unbound kthread can also run on that CPU only. It is no per-CPU kthread and waits as other
/// tasks do.
#[test]
fn unbound_kthreads_wait_like_other_tasks() {
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

/// A task that is displaced from its CPU moves to the idle CPU, whatever its number.
#[test]
fn displaced_task_moves_to_an_idle_cpu() {
    for name in sharing() {
        for (busy, idle) in [(1, 0), (0, 1), (2, 3)] {
            let mut world = World::new(name, "node:1 core:4 pu:1", 1000);
            let bound = |world: &World, cpu| world.pinned(cpu, 0);
            // Each CPU but one gets a pinned task, and CPU `busy` a second one, which may later run everywhere.
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
fn dwcs_windows_are_ordered_as_in_the_papers() {
    headers::run_header_test("window");
}

#[test]
fn log2_is_exact_to_16_bits() {
    headers::run_header_test("log2");
}

#[test]
fn jobs_are_numbered_cgroups() {
    headers::run_header_test("jobs");
}

#[test]
fn client_header_excludes_kthreads_and_kicks_idle_cpus() {
    headers::run_header_test("client");
}
