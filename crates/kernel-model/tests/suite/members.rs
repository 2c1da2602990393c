// SPDX-License-Identifier: GPL-2.0-only
//! Members of kernel structs as a scheduler reads them: existence as in 7.2, true values where the model has them, and
//! 0 elsewhere.

use super::bench::{Bench, compiled, flat};
use bpf_object::Object;
use event_log::BlockCause;
use ids::{CpuId, Nanos, Policy, TaskId};
use kernel_model::{Config, Kernel, KernelTypes, Leave};

/// The ops and members of `members.bpf.c`, in its order.
const OPS: [&str; 7] = ["select_cpu", "enqueue", "runnable", "running", "stopping", "quiescent", "tick"];
#[rustfmt::skip]
const MEMBERS: [&str; 28] = [
    "__state", "on_cpu", "on_rq", "in_iowait", "nvcsw", "nivcsw", "utime", "stime", "wake_cpu", "se.nr_migrations",
    "se.exec_start", "start_time", "sched_class", "scx.dsq", "scx.runnable_at", "scx.sticky_cpu", "se.load.weight",
    "se.avg.util_avg", "psi_flags", "nvcsw by helper", "rq.nr_running", "rq.nr_switches", "rq.clock", "rq.cpu",
    "rq.cfs", "rq.scx", "rq.local", "rq.avg_idle",
];
const TICK: Nanos = Nanos::from_ms(4);

fn attached(cpus: u32) -> Bench {
    let mut bench = Bench::load(flat(cpus), &compiled("members", &[])).expect("it loads");
    bench.kernel.set_uptime(Nanos::from_ms(1_000));
    bench.attach();
    bench
}

/// The value of a member when the op was last called for the watched task.
fn seen(bench: &Bench, op: &str, member: &str) -> i64 {
    let op = OPS.iter().position(|name| *name == op).expect("an op of the scheduler");
    let at = MEMBERS.iter().position(|name| *name == member).expect("a member that it reads");
    bench.numbers("values", 8)[op * MEMBERS.len() + at]
}

/// The values of a member in several ops.
fn in_ops<const N: usize>(bench: &Bench, member: &str, ops: [&str; N]) -> [i64; N] {
    ops.map(|op| seen(bench, op, member))
}

/// A task that has been forked, has run and sleeps.
fn task(bench: &mut Bench, name: &str) -> TaskId {
    let task = bench.fork(name, "", Policy::Other, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    bench.block(task);
    task
}

/// A task that has run for a tick and sleeps again.
fn slept(bench: &mut Bench, cause: BlockCause) -> TaskId {
    let task = task(bench, "watched");
    bench.wake(task);
    bench.run(&[0], TICK);
    bench.leave(task, Leave::Block(cause));
    task
}

#[test]
fn task_state_members_change_as_in_the_kernel_during_wakeup_and_sleep() {
    let mut bench = attached(1);
    slept(&mut bench, BlockCause::Timer);
    // TASK_WAKING until the task has been enqueued, TASK_RUNNING, TASK_INTERRUPTIBLE.
    assert_eq!(in_ops(&bench, "__state", ["runnable", "enqueue", "running", "tick"]), [0x200, 0x200, 0, 0]);
    assert_eq!(in_ops(&bench, "__state", ["stopping", "quiescent"]), [1, 1]);
    assert_eq!(in_ops(&bench, "on_rq", ["enqueue", "running", "tick", "quiescent"]), [0, 1, 1, 1]);
    assert_eq!(in_ops(&bench, "on_cpu", ["enqueue", "running", "tick", "stopping"]), [0, 0, 1, 1]);
}

#[test]
fn task_blocked_by_a_device_is_in_iowait_until_it_runs() {
    let mut bench = attached(1);
    let task = slept(&mut bench, BlockCause::Io);
    assert_eq!(in_ops(&bench, "in_iowait", ["stopping", "quiescent", "tick"]), [1, 1, 0]);
    assert_eq!(seen(&bench, "quiescent", "__state"), 2, "TASK_UNINTERRUPTIBLE");
    bench.wake(task);
    assert_eq!(in_ops(&bench, "in_iowait", ["runnable", "enqueue"]), [1, 1]);
    bench.run(&[0], TICK);
    bench.leave(task, Leave::Block(BlockCause::Timer));
    assert_eq!(seen(&bench, "quiescent", "in_iowait"), 0);
}

#[test]
fn voluntary_and_involuntary_switches_are_counted_separately() {
    let mut bench = attached(1);
    let other = self::task(&mut bench, "other");
    let task = slept(&mut bench, BlockCause::Timer);
    // Before the second sleep there was one voluntary switch, that of the first sleep.
    assert_eq!(in_ops(&bench, "nvcsw", ["quiescent", "stopping"]), [1, 1]);
    assert_eq!(seen(&bench, "quiescent", "nvcsw by helper"), 1);
    bench.wake(task);
    assert_eq!(in_ops(&bench, "nvcsw", ["runnable", "running"]), [2, 2]);
    assert_eq!(seen(&bench, "running", "nivcsw"), 0);
    bench.wake(other);
    bench.leave(task, Leave::Yield);
    bench.leave(other, Leave::Block(BlockCause::Timer));
    assert_eq!(in_ops(&bench, "nivcsw", ["running"]), [1]);
    assert!(seen(&bench, "running", "rq.nr_switches") >= 6);
}

#[test]
fn time_members_have_the_times_of_the_task_and_its_runqueue() {
    let mut bench = attached(1);
    slept(&mut bench, BlockCause::Timer);
    let tick = TICK.0 as i64;
    assert_eq!(in_ops(&bench, "utime", ["running", "quiescent"]), [0, tick]);
    assert_eq!(seen(&bench, "quiescent", "stime"), 0);
    assert_eq!(seen(&bench, "quiescent", "start_time"), 1_000_000_000);
    assert_eq!(seen(&bench, "quiescent", "rq.clock"), 1_000_000_000 + tick);
    assert_eq!(seen(&bench, "quiescent", "se.exec_start"), 1_000_000_000 + tick);
    assert_eq!(seen(&bench, "enqueue", "scx.runnable_at"), 250);
}

#[test]
fn class_queue_and_runqueue_members_have_the_models_values() {
    let mut bench = attached(2);
    let task = slept(&mut bench, BlockCause::Timer);
    assert_eq!(in_ops(&bench, "sched_class", ["enqueue", "quiescent"]), [1, 1]);
    assert_eq!(in_ops(&bench, "scx.sticky_cpu", ["enqueue"]), [-1]);
    assert_eq!(seen(&bench, "enqueue", "se.load.weight"), 1 << 20);
    assert_eq!(in_ops(&bench, "rq.nr_running", ["running", "select_cpu"]), [1, 0]);
    assert_eq!(in_ops(&bench, "rq.scx", ["running", "select_cpu"]), [1, 0]);
    assert_eq!(seen(&bench, "running", "rq.cfs"), 0);
    assert_eq!(seen(&bench, "select_cpu", "wake_cpu"), i64::from(bench.kernel.task_cpu(task).0));
    assert_eq!(bench.kernel.task_cpu(task), CpuId(seen(&bench, "running", "rq.cpu") as u32));
}

#[test]
fn unmodelled_members_read_0_and_are_listed() {
    let mut bench = attached(1);
    slept(&mut bench, BlockCause::Timer);
    for member in ["se.avg.util_avg", "psi_flags", "rq.avg_idle"] {
        assert_eq!(seen(&bench, "running", member), 0, "{member}");
    }
    assert!(bench.kernel.exit_info().is_none());
    let config = Config {
        topology: flat(1),
        hz: 250,
        version: (7, 2),
        budget: 0,
        seed: 0,
        newidle_ratio: None,
        autogroup: false,
        types: None,
    };
    let object = Object::parse(&compiled("members", &[])).expect("clang makes objects");
    let named = Kernel::unmodelled(&config, &object);
    let expected = ["rq.avg_idle", "task_struct.in_execve", "task_struct.psi_flags", "task_struct.se.avg.util_avg"];
    assert_eq!(named, expected);
}

/// 7.2 has `scx.slice`, `se.avg.util_avg` and `on_cpu`; `core_cookie` needs CONFIG_SCHED_CORE, and `on_cpu` is no
/// longer an `int`.
#[test]
fn member_exists_if_the_kernel_version_has_it() {
    let mut bench = attached(2);
    slept(&mut bench, BlockCause::Timer);
    assert_eq!(bench.variable("exists"), 0b1101);
}

#[test]
fn btf_of_another_kernel_is_accepted_if_it_has_sched_ext() {
    let own = KernelTypes::of((7, 2)).btf().to_bytes();
    let types = KernelTypes::parse("own.btf", &own).expect("BTF of a kernel");
    assert_eq!(types.name(), "own.btf");
    let error = KernelTypes::parse("empty.btf", &bpf_object::btf::Btf::default().to_bytes()).unwrap_err().to_string();
    assert_eq!(error, "empty.btf: no member self.cgroup in struct cgroup; expected BTF of a kernel with sched_ext");
    assert!(KernelTypes::parse("x", b"text").is_err());
}
