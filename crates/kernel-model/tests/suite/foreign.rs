// SPDX-License-Identifier: GPL-2.0-only
//! Kernel features used by objects that were not written for Weir: per-CPU variables, cgroups, timers.

#[allow(dead_code)]
use crate::bench::{Bench, TICK, compiled};
use bpf_object::Object;
use ids::{Nanos, Policy, Topology};
use kernel_model::{Config, Kernel};

/// Eight cores without SMT in three LLCs, whose first CPUs are 0, 1 and 4.
fn three_caches() -> Topology {
    Topology::of_groups(&[0, 1, 2, 3, 4, 5, 6, 7], &[1, 0, 1, 0, 2, 2, 1, 0], &[0; 8])
}

fn attached(defines: &[&str]) -> Bench {
    let mut bench = Bench::load(three_caches(), &compiled("foreign", defines)).expect("it loads");
    bench.attach();
    bench
}

/// Wakes a new task, so that `select_cpu` reads the variables.
fn wake_new_task(bench: &mut Bench) {
    let task = bench.fork("new", "", Policy::Other, 0);
    bench.kernel.wake_new(ids::CpuId(0), task);
    bench.settle();
    bench.block(task);
}

#[test]
fn weak_per_cpu_variables_have_the_values_of_their_cpu() {
    let mut bench = attached(&[]);
    wake_new_task(&mut bench);
    assert_eq!(bench.numbers("llc_id", 4), [0, 1, 0, 1, 2, 2, 0, 1], "dense ids in the order of first CPUs");
    assert_eq!(bench.numbers("llc_size", 4), [3, 3, 3, 3, 2, 2, 3, 3]);
    assert_eq!(bench.numbers("priority", 4), [0; 8]);
    assert_eq!(bench.variable("absent_is_null") as u32, 1);
}

#[test]
fn sd_llc_size_follows_cpu_hotplug() {
    let mut bench = attached(&[]);
    bench.offline(4);
    bench.restart();
    wake_new_task(&mut bench);
    assert_eq!(bench.numbers("llc_id", 4), [0, 1, 0, 1, -1, 2, 0, 1]);
    assert_eq!(bench.numbers("llc_size", 4), [3, 3, 3, 3, 1, 1, 3, 3]);
    bench.online(4);
    bench.restart();
    wake_new_task(&mut bench);
    assert_eq!(bench.numbers("llc_size", 4), [3, 3, 3, 3, 2, 2, 3, 3]);
}

#[test]
fn kernel_cpustat_counts_whole_ticks_by_kind() {
    let mut bench = attached(&[]);
    let busy = bench.fork("busy", "2", Policy::Other, 0);
    let nice = bench.fork("nice", "3", Policy::Other, 5);
    for task in [busy, nice] {
        bench.kernel.wake_new(ids::CpuId(0), task);
        bench.settle();
    }
    bench.run(&[], TICK);
    bench.run(&[], TICK);
    bench.pass(Nanos::from_us(100));
    wake_new_task(&mut bench);
    let two_ticks = 2 * TICK.0 as i64;
    assert_eq!(bench.numbers("user_ns", 8), [0, 0, two_ticks, 0, 0, 0, 0, 0]);
    assert_eq!(bench.numbers("nice_ns", 8), [0, 0, 0, two_ticks, 0, 0, 0, 0]);
    let idle = bench.numbers("idle_ns", 8);
    assert_eq!(idle, [two_ticks, two_ticks, 0, 0, two_ticks, two_ticks, two_ticks, two_ticks]);
}

#[test]
fn root_cgroup_is_initialized_at_attach_and_exited_at_disable() {
    let mut bench = attached(&[]);
    let passed = ["cgroups", "weight", "period_us", "quota_us", "burst_us"].map(|name| bench.variable(name));
    assert_eq!(passed, [1, 100, 100_000, u64::MAX, 0]);
    bench.kernel.detach(ids::CpuId(0));
    bench.settle();
    assert_eq!(bench.variable("cgroups"), 101);
}

#[test]
fn cgroup_init_error_fails_the_attach() {
    let mut bench = attached(&["REFUSE"]);
    bench.settle();
    assert_eq!(bench.error(), (1024, "ops.cgroup_init() failed (-12)"));
    assert_eq!(bench.variable("cgroups"), 1, "no cgroup_exit for a refused cgroup");
}

#[test]
fn lacks_lists_every_missing_feature_with_its_cause() {
    let config = Config {
        topology: three_caches(),
        hz: 250,
        version: (7, 2),
        budget: 0,
        seed: 0,
        newidle_ratio: None,
        autogroup: false,
        types: None,
    };
    let lacks = |defines: &[&str]| {
        Kernel::lacks(&config, &Object::parse(&compiled("foreign", defines)).expect("clang makes objects"))
    };
    assert_eq!(
        lacks(&["LACKING"]).needed,
        [
            "weir does not model the kfunc bpf_rbtree_first (red-black trees), which kernel 7.2 has",
            "kernel 7.2 has no kfunc scx_bpf_dispatch any more: 6.18 removed it",
            "weir does not model arenas (map `everything`)",
        ]
    );
    let refused = |name| format!("kernel 7.2 does not allow the helper {name} in schedulers");
    assert_eq!(lacks(&["REFUSED"]).reached[1..], [refused("bpf_probe_read"), refused("bpf_probe_read_str")]);
    let plain = lacks(&[]);
    assert_eq!(plain.refusal(), None);
    assert_eq!(plain.reached, ["weir does not model the kernel's variable no_such_variable"]);
}

/// kernel/bpf/helpers.c of 7.2: `defer_timer_wq_op()` fails while interrupts are off.
#[test]
fn a_timer_cannot_be_cancelled_with_interrupts_off() {
    let mut bench = attached(&[]);
    assert_eq!(bench.numbers("cancelled_by_init", 4), [1], "init may cancel the armed timer");
    wake_new_task(&mut bench);
    assert_eq!(bench.numbers("cancelled_by_select", 4), [-95]);
}

/// kernel/bpf/helpers.c: `bpf_timer_cancel()` would wait for the callback that calls it.
#[test]
fn timer_callback_cannot_cancel_its_own_timer() {
    let mut bench = attached(&["FIRING"]);
    bench.run(&[], TICK);
    bench.run(&[], TICK);
    assert_eq!(bench.numbers("cancelled_by_itself", 4), [-35]);
    assert!(bench.variable("fires") > 1, "the timer keeps its callback");
}

/// kernel/bpf/verifier.c: a timer callback must return 0 (`callback_ret_range`).
#[test]
fn timer_callback_must_return_0() {
    for (returned, faults) in [("0", false), ("1", true), ("-1", true)] {
        let mut bench = attached(&["FIRING", &format!("RETURNING={returned}")]);
        bench.run(&[], TICK);
        assert_eq!(bench.kernel.exit_info().is_some_and(|exit| exit.fault.is_some()), faults, "{returned}");
    }
}

/// A real scheduler attaches long after boot: clocks are far from 0, and absolute timers use the same clock.
#[test]
fn program_clocks_include_the_uptime() {
    let mut bench = Bench::load(three_caches(), &compiled("foreign", &["ALARM"])).expect("it loads");
    bench.kernel.set_uptime(Nanos::from_ms(600_000));
    bench.attach();
    assert_eq!(bench.variable("attached_at"), 600_000_000_000);
    assert_eq!(bench.variable("fires"), 0);
    bench.run(&[], TICK);
    assert_eq!(bench.variable("fires"), 1, "the alarm was set for 1 ms after attach");
}
