// SPDX-License-Identifier: GPL-2.0-only
//! Timelines of a real kernel: tasks outside the run use the CPUs too, the cause of a sleep is unknown, and no queue
//! is visible.

use event_log::{BlockCause, CallbackSite, Event, EventKind, Sink, SwitchReason, TaskInfo, Waker};
use ids::{CpuId, CpuSet, Nanos, Policy, TaskId};
use timeline::{Kind, Order, Recorder, Timeline};

const NO_TASK: TaskId = TaskId::NONE;
const TASK: TaskId = TaskId(0);

fn info(id: u32) -> TaskInfo {
    TaskInfo {
        id: TaskId(id),
        pid: 4000 + id,
        name: "sh".to_owned(),
        parent: None,
        allowed: CpuSet::first_n(2),
        policy: Policy::Other,
        nice: 0,
        kernel_thread: false,
    }
}

/// A run of one task on two CPUs, in events as the meter produces them.
struct RunBuilder(Recorder);

impl RunBuilder {
    fn new() -> RunBuilder {
        let mut recorder = Recorder::of_real_run(2);
        recorder.task(Nanos::ZERO, &info(0));
        RunBuilder(recorder)
    }

    fn event(&mut self, at: u64, cpu: u32, task: TaskId, kind: EventKind) {
        let site = CallbackSite::default();
        self.0.event(&Event { time: Nanos(at), cpu: CpuId(cpu), task, kind, site });
    }

    fn switch(&mut self, at: u64, cpu: u32, prev: TaskId, next: TaskId, reason: SwitchReason) {
        self.event(at, cpu, next, EventKind::Switch { prev, reason });
    }

    /// Switches the CPU to a task outside the run.
    fn others(&mut self, at: u64, cpu: u32, prev: TaskId, reason: SwitchReason) {
        if prev != NO_TASK {
            self.switch(at, cpu, prev, NO_TASK, reason);
        }
        self.event(at, cpu, NO_TASK, EventKind::Idle { entered: false });
    }

    fn idles(&mut self, at: u64, cpu: u32) {
        self.event(at, cpu, NO_TASK, EventKind::Idle { entered: true });
    }

    fn wake(&mut self, at: u64, waker: Waker) {
        self.event(at, 0, TASK, EventKind::Wakeup { waker, sync: false, target: CpuId(0) });
    }

    fn end(self, at: u64) -> Timeline {
        self.0.finish(Nanos(at))
    }
}

#[test]
fn cpus_that_run_other_tasks_do_not_count_as_idle() {
    let mut run = RunBuilder::new();
    run.others(0, 1, NO_TASK, SwitchReason::Idle);
    run.wake(0, Waker::External);
    run.switch(10, 0, NO_TASK, TASK, SwitchReason::Idle);
    // The task loses CPU 0 to a task outside the run, and then to another one; CPU 1 idles for a short time.
    run.others(100, 0, TASK, SwitchReason::Preempt);
    run.others(150, 0, NO_TASK, SwitchReason::Idle);
    run.idles(160, 1);
    run.others(170, 1, NO_TASK, SwitchReason::Idle);
    run.switch(200, 0, NO_TASK, TASK, SwitchReason::Idle);
    let timeline = run.end(300);
    let others: Vec<_> = timeline.cpus.iter().map(|cpu| cpu.others.clone()).collect();
    let span = |from, to| (Nanos(from), Nanos(to));
    assert_eq!(others, [vec![span(100, 200)], vec![span(0, 160), span(170, 300)]]);
    let wait = timeline.longest_waits(1, |_| true)[0];
    let account = timeline.account(wait);
    assert_eq!((wait.from, wait.to), (Nanos(100), Nanos(200)));
    assert_eq!((account.idle, account.idle_cpus.to_string()), (Nanos(10), "1".to_owned()));
    let [runner] = account.runners.as_slice() else {
        panic!("all tasks outside the run count as one runner: {:?}", account.runners)
    };
    assert_eq!((runner.task, runner.ran, runner.turns), (NO_TASK, Nanos(190), 3));
    // The longest run interval, on CPU 0, began together with the wait.
    assert_eq!(runner.order, Order::Before);
    assert!(account.suspects.is_empty() && account.empty_dispatches.is_none(), "nothing is known of the scheduler");
}

#[test]
fn order_of_tasks_outside_the_run_is_unseen_if_they_start_later() {
    let mut run = RunBuilder::new();
    run.wake(0, Waker::External);
    run.others(40, 0, NO_TASK, SwitchReason::Idle);
    run.others(40, 1, NO_TASK, SwitchReason::Idle);
    run.switch(100, 0, NO_TASK, TASK, SwitchReason::Idle);
    let timeline = run.end(100);
    let account = timeline.account(timeline.longest_waits(1, |_| true)[0]);
    assert_eq!(account.runners[0].order, Order::Unseen);
}

/// An offline CPU ends the period of other tasks on it, and run intervals of the run's own task are not such periods.
#[test]
fn periods_of_other_tasks_end_with_hotplug_and_own_tasks() {
    let mut run = RunBuilder::new();
    run.others(0, 1, NO_TASK, SwitchReason::Idle);
    run.event(50, 1, NO_TASK, EventKind::Hotplug { online: false });
    run.wake(0, Waker::External);
    run.switch(10, 0, NO_TASK, TASK, SwitchReason::Idle);
    run.event(20, 0, NO_TASK, EventKind::Idle { entered: false });
    let timeline = run.end(100);
    assert_eq!(timeline.cpus[1].others, [(Nanos(0), Nanos(50))]);
    assert_eq!(timeline.cpus[1].offline, [(Nanos(50), Nanos(100))]);
    assert!(timeline.cpus[0].others.is_empty(), "CPU 0 runs a task of the run");
}

#[test]
fn kind_of_a_sleep_follows_from_its_cause_or_its_waker() {
    for (waker, cause, kind) in [
        (Waker::Timer, BlockCause::External, Kind::Timer),
        (Waker::Interrupt, BlockCause::External, Kind::Device),
        (Waker::External, BlockCause::External, Kind::Outside),
        (Waker::External, BlockCause::Io, Kind::Device),
    ] {
        let mut run = RunBuilder::new();
        run.wake(0, Waker::External);
        run.switch(0, 0, NO_TASK, TASK, SwitchReason::Idle);
        run.event(30, 0, TASK, EventKind::Block { cause });
        run.switch(30, 0, TASK, NO_TASK, SwitchReason::Block);
        run.wake(90, waker);
        run.switch(100, 0, NO_TASK, TASK, SwitchReason::Idle);
        run.event(120, 0, TASK, EventKind::Exit);
        run.switch(120, 0, TASK, NO_TASK, SwitchReason::Exit);
        let chain = run.end(120).chain(None);
        assert_eq!(chain.sum(kind), Nanos(60), "{waker:?}, {cause:?}: {chain:?}");
        assert_eq!((chain.sum(Kind::Ran), chain.sum(Kind::Waited)), (Nanos(50), Nanos(10)));
    }
}
