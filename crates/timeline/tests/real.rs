// SPDX-License-Identifier: GPL-2.0-only
//! Timelines of what a real kernel tells: tasks of others have CPUs too, why a sleep began is not known, and no queue is seen.

use event_log::{BlockCause, CallbackSite, Event, EventKind, Sink, SwitchReason, TaskInfo, Waker};
use ids::{CpuId, CpuSet, Nanos, Policy, TaskId};
use timeline::{Kind, Order, Recorder, Timeline};

const NOBODY: TaskId = TaskId::NONE;
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

/// A run of one task on two CPUs, in the events that the meter makes.
struct Story(Recorder);

impl Story {
    fn new() -> Story {
        let mut recorder = Recorder::of_real_run(2);
        recorder.task(Nanos::ZERO, &info(0));
        Story(recorder)
    }

    fn tell(&mut self, at: u64, cpu: u32, task: TaskId, kind: EventKind) {
        let site = CallbackSite::default();
        self.0.event(&Event { time: Nanos(at), cpu: CpuId(cpu), task, kind, site });
    }

    fn switch(&mut self, at: u64, cpu: u32, prev: TaskId, next: TaskId, reason: SwitchReason) {
        self.tell(at, cpu, next, EventKind::Switch { prev, reason });
    }

    /// The CPU goes to somebody outside the run.
    fn others(&mut self, at: u64, cpu: u32, prev: TaskId, reason: SwitchReason) {
        if prev != NOBODY {
            self.switch(at, cpu, prev, NOBODY, reason);
        }
        self.tell(at, cpu, NOBODY, EventKind::Idle { entered: false });
    }

    fn idles(&mut self, at: u64, cpu: u32) {
        self.tell(at, cpu, NOBODY, EventKind::Idle { entered: true });
    }

    fn wake(&mut self, at: u64, waker: Waker) {
        self.tell(at, 0, TASK, EventKind::Wakeup { waker, sync: false, target: CpuId(0) });
    }

    fn end(self, at: u64) -> Timeline {
        self.0.finish(Nanos(at))
    }
}

#[test]
fn who_waits_for_others_does_not_wait_beside_idle_cpus() {
    let mut story = Story::new();
    story.others(0, 1, NOBODY, SwitchReason::Idle);
    story.wake(0, Waker::External);
    story.switch(10, 0, NOBODY, TASK, SwitchReason::Idle);
    // It loses CPU 0 to somebody outside; another comes; CPU 1 idles for a moment.
    story.others(100, 0, TASK, SwitchReason::Preempt);
    story.others(150, 0, NOBODY, SwitchReason::Idle);
    story.idles(160, 1);
    story.others(170, 1, NOBODY, SwitchReason::Idle);
    story.switch(200, 0, NOBODY, TASK, SwitchReason::Idle);
    let timeline = story.end(300);
    let others: Vec<_> = timeline.cpus.iter().map(|cpu| cpu.others.clone()).collect();
    let span = |from, to| (Nanos(from), Nanos(to));
    assert_eq!(others, [vec![span(100, 200)], vec![span(0, 160), span(170, 300)]]);
    let wait = timeline.longest_waits(1, |_| true)[0];
    let account = timeline.account(wait);
    assert_eq!((wait.from, wait.to), (Nanos(100), Nanos(200)));
    assert_eq!((account.idle, account.idle_cpus.to_string()), (Nanos(10), "1".to_owned()));
    let [runner] = account.runners.as_slice() else { panic!("all others are one: {:?}", account.runners) };
    assert_eq!((runner.task, runner.ran, runner.turns), (NOBODY, Nanos(190), 3));
    // Its longest turn, on CPU 0, began as the wait did.
    assert_eq!(runner.order, Order::Before);
    assert!(account.suspects.is_empty() && account.empty_dispatches.is_none(), "nothing of the scheduler was seen");
}

#[test]
fn since_when_others_waited_was_not_seen() {
    let mut story = Story::new();
    story.wake(0, Waker::External);
    story.others(40, 0, NOBODY, SwitchReason::Idle);
    story.others(40, 1, NOBODY, SwitchReason::Idle);
    story.switch(100, 0, NOBODY, TASK, SwitchReason::Idle);
    let timeline = story.end(100);
    let account = timeline.account(timeline.longest_waits(1, |_| true)[0]);
    assert_eq!(account.runners[0].order, Order::Unseen);
}

/// A CPU that goes takes its others with it, and a task's own turns are no time of others.
#[test]
fn others_end_with_the_cpu_and_with_the_runs_own_tasks() {
    let mut story = Story::new();
    story.others(0, 1, NOBODY, SwitchReason::Idle);
    story.tell(50, 1, NOBODY, EventKind::Hotplug { online: false });
    story.wake(0, Waker::External);
    story.switch(10, 0, NOBODY, TASK, SwitchReason::Idle);
    story.tell(20, 0, NOBODY, EventKind::Idle { entered: false });
    let timeline = story.end(100);
    assert_eq!(timeline.cpus[1].others, [(Nanos(0), Nanos(50))]);
    assert_eq!(timeline.cpus[1].offline, [(Nanos(50), Nanos(100))]);
    assert!(timeline.cpus[0].others.is_empty(), "it runs a task of the run");
}

#[test]
fn what_ended_a_sleep_says_what_it_was_for() {
    for (waker, cause, kind) in [
        (Waker::Timer, BlockCause::External, Kind::Timer),
        (Waker::Interrupt, BlockCause::External, Kind::Device),
        (Waker::External, BlockCause::External, Kind::Outside),
        (Waker::External, BlockCause::Io, Kind::Device),
    ] {
        let mut story = Story::new();
        story.wake(0, Waker::External);
        story.switch(0, 0, NOBODY, TASK, SwitchReason::Idle);
        story.tell(30, 0, TASK, EventKind::Block { cause });
        story.switch(30, 0, TASK, NOBODY, SwitchReason::Block);
        story.wake(90, waker);
        story.switch(100, 0, NOBODY, TASK, SwitchReason::Idle);
        story.tell(120, 0, TASK, EventKind::Exit);
        story.switch(120, 0, TASK, NOBODY, SwitchReason::Exit);
        let chain = story.end(120).chain(None);
        assert_eq!(chain.sum(kind), Nanos(60), "{waker:?}, {cause:?}: {chain:?}");
        assert_eq!((chain.sum(Kind::Ran), chain.sum(Kind::Waited)), (Nanos(50), Nanos(10)));
    }
}
