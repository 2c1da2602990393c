// SPDX-License-Identifier: GPL-2.0-only

use super::*;
use event_log::{CallbackSite, Waker};

const IDLE: TaskId = TaskId::NONE;

/// Creates a follower of two CPUs with three sleeping tasks.
fn follower() -> Follower {
    let mut follower = Follower::new(2);
    for id in 0..3 {
        follower.task(Nanos::ZERO, &info(id));
    }
    follower
}

fn info(id: u32) -> TaskInfo {
    TaskInfo {
        id: TaskId(id),
        pid: 100 + id,
        name: format!("t{id}"),
        parent: None,
        allowed: CpuSet::first_n(2),
        policy: Default::default(),
        nice: 0,
        kernel_thread: false,
    }
}

fn send(follower: &mut Follower, us: u64, cpu: u32, task: TaskId, kind: EventKind) {
    let time = Nanos(us * 1_000);
    follower.event(&Event { time, cpu: CpuId(cpu), task, kind, site: CallbackSite::default() });
}

fn wake(follower: &mut Follower, us: u64, task: u32, target: u32) {
    let kind = EventKind::Wakeup { waker: Waker::Timer, sync: false, target: CpuId(target) };
    send(follower, us, 0, TaskId(task), kind);
}

fn switch(follower: &mut Follower, us: u64, cpu: u32, prev: TaskId, next: TaskId, reason: SwitchReason) {
    send(follower, us, cpu, next, EventKind::Switch { prev, reason });
}

fn us(times: u64) -> Nanos {
    Nanos(times * 1_000)
}

const FRAME: Nanos = Nanos::from_ms(200);

#[test]
fn snapshot_has_delays_shares_and_depths_of_the_events() {
    let mut f = follower();
    let [a, b, c] = [0, 1, 2].map(TaskId);
    wake(&mut f, 0, 0, 0);
    switch(&mut f, 10, 0, IDLE, a, SwitchReason::Idle);
    wake(&mut f, 20, 1, 0);
    wake(&mut f, 30, 2, 0);
    // b preempts a; a and c now wait.
    switch(&mut f, 50, 0, a, b, SwitchReason::Preempt);
    switch(&mut f, 60, 1, IDLE, IDLE, SwitchReason::Idle);
    send(&mut f, 60, 1, IDLE, EventKind::Idle { entered: false });
    let seen = f.snapshot(us(100), FRAME);
    assert_eq!((seen.switches, seen.wakeups, seen.alive), (2, 3, Some(3)));
    assert_eq!(seen.interval, us(100));
    let [first, second] = seen.cpus.as_slice() else { panic!("two CPUs") };
    assert_eq!((first.run, first.others, first.idle, first.waiting), (us(90), Nanos::ZERO, us(10), Some(2)));
    assert_eq!(first.current.as_deref(), Some("t1[101]"));
    assert_eq!((second.run, second.others, second.idle, second.waiting), (Nanos::ZERO, us(40), us(60), Some(0)));
    let summary = seen.latencies.summary();
    assert_eq!((summary.count, summary.max), (2, us(30)), "a preempted task was not woken");
    let waiters: Vec<_> = seen.waiters.unwrap().into_iter().map(|w| (w.name, w.waited, w.now)).collect();
    let here = CpuId(0);
    let wanted = [
        ("t2[102]", us(70), Some((us(70), here))),
        ("t0[100]", us(60), Some((us(50), here))),
        ("t1[101]", us(30), None),
    ];
    assert_eq!(waiters, wanted.map(|(name, waited, now)| (name.to_owned(), waited, now)));
    assert_eq!(seen.depths.unwrap(), [2]);
    // The next frame starts with the tasks waiting then.
    switch(&mut f, 110, 0, b, c, SwitchReason::Exit);
    send(&mut f, 110, 0, b, EventKind::Exit);
    let seen = f.snapshot(us(120), FRAME);
    assert_eq!((seen.depths.unwrap(), seen.alive), (vec![2, 2], Some(2)));
    assert_eq!(f.snapshot(us(130), FRAME).depths.unwrap(), [2, 2, 1]);
}

#[test]
fn rates_cover_the_last_five_frames() {
    let mut f = follower();
    let a = TaskId(0);
    for frame in 0..20 {
        let at = frame * 200_000;
        wake(&mut f, at, 0, 0);
        switch(&mut f, at, 0, IDLE, a, SwitchReason::Idle);
        send(&mut f, at + 50_000, 0, a, EventKind::Block { cause: event_log::BlockCause::External });
        switch(&mut f, at + 50_000, 0, a, IDLE, SwitchReason::Block);
        let seen = f.snapshot(us(at + 200_000), FRAME);
        let frames = (frame + 1).min(FRAMES as u64);
        assert_eq!((seen.interval, seen.switches, seen.wakeups), (us(frames * 200_000), frames, frames));
        assert_eq!((seen.cpus[0].run, seen.cpus[0].idle), (us(frames * 50_000), us(frames * 150_000)));
    }
}

#[test]
fn delays_older_than_two_windows_are_dropped() {
    let mut f = follower();
    wake(&mut f, 0, 0, 0);
    switch(&mut f, 7, 0, IDLE, TaskId(0), SwitchReason::Idle);
    let counts = |f: &mut Follower, time| {
        let seen = f.snapshot(time, FRAME);
        (seen.latencies.summary().count, seen.waiters.unwrap().len())
    };
    assert_eq!(counts(&mut f, Nanos::from_secs(1)), (1, 1));
    assert_eq!(counts(&mut f, Nanos::from_ms(9_900)), (1, 1));
    assert_eq!(counts(&mut f, Nanos::from_secs(10)), (0, 0));
}

#[test]
fn inconsistent_events_are_tolerated() {
    let mut f = follower();
    // Events of an unknown CPU and an unknown task, out of order, and after an exit.
    switch(&mut f, 10, 9, TaskId(77), TaskId(78), SwitchReason::Preempt);
    wake(&mut f, 20, 88, 9);
    wake(&mut f, 30, 0, 9);
    send(&mut f, 40, 0, TaskId(0), EventKind::Exit);
    send(&mut f, 40, 0, TaskId(0), EventKind::Exit);
    wake(&mut f, 50, 0, 0);
    send(&mut f, 5, 0, IDLE, EventKind::Hotplug { online: false });
    f.renamed(us(60), TaskId(1), "new");
    let seen = f.snapshot(us(1), FRAME);
    assert_eq!((seen.elapsed, seen.alive), (us(50), Some(2)), "time does not go back");
    assert!(seen.cpus[0].is_offline);
    wake(&mut f, 60, 1, 0);
    assert_eq!(f.snapshot(us(90), FRAME).waiters.unwrap()[0].name, "new[101]");
}
