// SPDX-License-Identifier: GPL-2.0-only
//! Hand-made events with known measures, and random ones that must never break the accounts.

use super::*;
use ids::Topology;
use measures::{Collector, RunMeasures, Totals};
use proptest::prelude::*;

const CPUS: usize = 4;
/// CPU visited before the run; it runs other tasks throughout.
const VISITED: &str = "3";

fn event(time_us: u64, task: Number, work_us: u64, kind: Kind) -> Event {
    Event { time: Nanos::from_us(time_us), task, work: Nanos::from_us(work_us), kind }
}

fn birth(time_us: u64, task: Number, parent: Option<Number>) -> Event {
    event(time_us, task, 0, Kind::Birth { parent, pid: 1, tgid: 1, cpu: CpuId(0), comm: format!("t{task}") })
}

fn wake(time_us: u64, task: Number, waker: Waker, new: bool) -> Event {
    let (waker_cpu, target_cpu) = (CpuId(0), CpuId(1));
    event(time_us, task, 0, Kind::Wake { waker, waker_cpu, target_cpu, device: (false, false), new })
}

/// `ran_us`: CPU time of the previous task.
fn switch(time_us: u64, cpu: u32, previous: Occupant, next: Occupant, left: Left, ran_us: u64) -> Event {
    let task = if let Occupant::Task(task) = next { task } else { u32::MAX };
    let cpu = CpuId(cpu);
    event(time_us, task, ran_us, Kind::Switch { cpu, previous, next, left, io_wait: false, uninterruptible: false })
}

fn feed(events: &[Event], scope: Scope) -> (RunMeasures, Fed) {
    let collector = Collector::new(&Topology::flat(CPUS as u32));
    let mut feed = Feed::new(CPUS, &VISITED.parse().expect("CPUs"), scope, collector);
    events.iter().for_each(|event| feed.take(event));
    let end = events.last().map_or(Nanos::ZERO, |event| event.time);
    let (collector, fed) = feed.finish(end);
    let measures = collector.finish(Totals {
        elapsed: fed.elapsed,
        makespan: fed.makespan,
        cpus: fed.cpus.clone(),
        tasks: fed.tasks.clone(),
        ..Totals::default()
    });
    (measures, fed)
}

#[test]
fn offline_cpu_does_not_count_as_idle() {
    use Occupant::{Idle, Other, Task};
    let (runnable, dead) = (Left::Runnable, Left::Dead);
    let hotplug = |time_us, cpu, online| event(time_us, u32::MAX, 0, Kind::Hotplug { cpu: CpuId(cpu), online });
    let events = [
        hotplug(900, 2, false),
        birth(1_000, 0, None),
        wake(1_000, 0, Waker::Outside, true),
        switch(1_000, 0, Idle, Task(0), runnable, 0),
        // The child waits until CPU 1 is back: no idle CPU could have run it in that time.
        hotplug(1_100, 1, false),
        birth(1_200, 1, Some(0)),
        wake(1_200, 1, Waker::Task(0, Nanos::ZERO), true),
        hotplug(1_500, 1, true),
        switch(1_510, 1, Idle, Other, runnable, 0),
        switch(1_520, 1, Other, Task(1), runnable, 0),
        // CPU 2 comes online without a hotplug event.
        switch(1_600, 2, Idle, Other, runnable, 0),
        switch(1_700, 1, Task(1), Idle, dead, 180),
        switch(1_800, 0, Task(0), Idle, dead, 800),
    ];
    let (measures, fed) = feed(&events, Scope::Command);
    let us = |cpu: &CpuAccount| (cpu.run.0 / 1000, cpu.idle.0 / 1000, cpu.offline.0 / 1000);
    assert_eq!(fed.cpus.iter().map(us).collect::<Vec<_>>(), [(800, 0, 0), (190, 210, 400), (200, 0, 600), (800, 0, 0)]);
    assert_eq!(measures.idle_while_runnable, Nanos::from_us(10), "CPU 1, until its first task");
}

#[test]
fn parent_child_and_outside_task_are_accounted() {
    use Occupant::{Idle, Other, Task};
    let (blocked, runnable, dead) = (Left::Blocked, Left::Runnable, Left::Dead);
    let events = [
        // Before the run: CPU 1 runs a task outside the tree; CPU 0 forks the first task and runs it.
        switch(500, 1, Idle, Other, runnable, 0),
        switch(600, 0, Idle, Other, runnable, 0),
        birth(1_000, 0, None),
        wake(1_010, 0, Waker::Outside, true),
        switch(1_020, 0, Other, Task(0), runnable, 0),
        // The first task forks a child, which waits for CPU 1 while CPU 2 is idle, and runs 80 us later.
        birth(1_100, 1, Some(0)),
        wake(1_120, 1, Waker::Task(0, Nanos::ZERO), true),
        switch(1_200, 1, Other, Task(1), runnable, 0),
        // The parent sleeps. Of its 280 us on the CPU, an interrupt took 30 us.
        switch(1_300, 0, Task(0), Idle, blocked, 250),
        // The child is preempted by an outside task, waits 50 us, and continues on another CPU.
        switch(1_400, 1, Task(1), Other, runnable, 200),
        switch(1_450, 2, Idle, Task(1), runnable, 0),
        wake(1_500, 0, Waker::Task(1, Nanos::ZERO), false),
        switch(1_510, 0, Idle, Task(0), runnable, 0),
        switch(1_550, 2, Task(1), Idle, dead, 300),
        switch(1_600, 0, Task(0), Other, dead, 340),
        switch(9_000, 0, Other, Idle, runnable, 0),
    ];
    let (measures, fed) = feed(&events, Scope::Command);
    let us = Nanos::from_us;
    assert_eq!((measures.elapsed, measures.makespan, fed.unfinished), (us(600), Some(us(600)), 0));
    assert_eq!((measures.context_switches, measures.wakeups), (4, 3));
    let account = |run, stolen, runnable, blocked| TaskAccount {
        work: Nanos::ZERO,
        run: us(run),
        stolen: us(stolen),
        runnable: us(runnable),
        blocked: us(blocked),
    };
    // By the times of the switches the parent was on a CPU for 280 + 90 us, and the child for 200 + 100 us.
    assert_eq!(fed.tasks, [account(340, 30, 20, 210), account(300, 0, 130, 20)]);
    let latency = measures.wakeup_latency;
    assert_eq!((latency.count, latency.max, latency.mean), (3, us(80), Nanos(100_000 / 3)));
    assert_eq!((measures.run_delay.count, measures.migrations.llc), (4, 1));
    // Other CPUs were idle while the first task waited for CPU 0, the child for CPU 1 (twice), and the parent for CPU
    // 0.
    assert_eq!(measures.idle_while_runnable, us(10 + 80 + 50 + 10));
    let cpus: Vec<_> = fed.cpus.iter().map(|cpu| (cpu.run, cpu.idle)).collect();
    assert_eq!(cpus, [(us(390), us(210)), (us(600), us(0)), (us(100), us(500)), (us(600), us(0))]);
    assert_eq!(measures.tasks[1].cpus_used.to_string(), "1-2");
}

#[test]
fn hidden_wakeups_are_counted_without_latency() {
    use Occupant::{Idle, Other, Task};
    let events = [
        birth(0, 0, None),
        wake(0, 0, Waker::Outside, true),
        switch(10, 0, Idle, Task(0), Left::Runnable, 0),
        // Task 0 blocks and a hidden task is switched in; task 0 is woken, runs next, for 30 us.
        switch(20, 0, Task(0), Other, Left::Blocked, 10),
        switch(70, 0, Other, Task(0), Left::Unseen, 0),
        wake(70, 0, Waker::Unseen, false),
        // A wakeup by a hidden task, after which the switch was seen.
        switch(100, 0, Task(0), Idle, Left::Blocked, 40),
        switch(150, 0, Idle, Task(0), Left::Runnable, 0),
        wake(150, 0, Waker::Unseen, false),
        switch(160, 0, Task(0), Idle, Left::Dead, 50),
    ];
    let (measures, fed) = feed(&events, Scope::Command);
    assert_eq!((measures.context_switches, measures.wakeups, fed.unseen), (3, 3, (1, 2)));
    let latency = measures.wakeup_latency;
    assert_eq!((latency.count, latency.max), (1, Nanos::from_us(10)), "only the first wakeup has a latency");
    let account = fed.tasks[0];
    let [run, runnable, blocked] = [account.run, account.runnable, account.blocked].map(|time| time.0 / 1_000);
    assert_eq!((run, runnable, blocked), (50, 10, 100));
}

#[test]
fn task_on_a_cpu_at_the_end_of_the_run_is_known_from_the_next_switch() {
    use Occupant::{Idle, Other, Task};
    let idle = |after_the_end: &[Event]| {
        let mut events = vec![
            birth(0, 0, None),
            wake(0, 0, Waker::Outside, true),
            switch(0, 0, Idle, Task(0), Left::Runnable, 0),
            // A hidden task gets CPU 1, and no event reports when it leaves.
            switch(100, 1, Idle, Other, Left::Runnable, 0),
            switch(900, 0, Task(0), Idle, Left::Dead, 900),
        ];
        events.extend_from_slice(after_the_end);
        let (measures, fed) = feed(&events, Scope::Command);
        assert_eq!(measures.elapsed, Nanos::from_us(900));
        fed.cpus[1].idle
    };
    assert_eq!(idle(&[]), Nanos::from_us(100));
    let next = [switch(950, 1, Idle, Other, Left::Runnable, 0), switch(960, 1, Other, Idle, Left::Runnable, 0)];
    assert_eq!(idle(&next), Nanos::from_us(900));
    assert_eq!(idle(&[next[1].clone(), next[0].clone()]), Nanos::from_us(100), "only the first switch counts");
}

#[test]
fn run_with_unfinished_tasks_has_no_makespan() {
    use Occupant::{Idle, Task};
    let events = [
        birth(0, 0, None),
        wake(0, 0, Waker::Outside, true),
        switch(5, 0, Idle, Task(0), Left::Runnable, 0),
        switch(8, 0, Task(0), Idle, Left::Blocked, 3),
        switch(100, 2, Idle, Occupant::Other, Left::Runnable, 0),
    ];
    let (measures, fed) = feed(&events, Scope::Command);
    assert_eq!((measures.elapsed, measures.makespan, fed.unfinished), (Nanos::from_us(100), None, 1));
    assert_eq!(fed.tasks[0].blocked, Nanos::from_us(92));
}

#[test]
fn run_time_follows_the_scheduler_and_reduces_waiting_time() {
    use Occupant::{Idle, Task};
    let run = |ran| {
        let events = [
            birth(0, 0, None),
            wake(10, 0, Waker::Outside, true),
            switch(25, 0, Idle, Task(0), Left::Runnable, 0),
            switch(125, 0, Task(0), Idle, Left::Dead, ran),
        ];
        let account = feed(&events, Scope::Command).1.tasks[0];
        [account.run, account.stolen, account.runnable, account.blocked].map(|time| time.0 / 1_000)
    };
    assert_eq!(run(100), [100, 0, 15, 10]);
    assert_eq!(run(90), [90, 10, 15, 10]);
    assert_eq!(run(112), [112, 0, 3, 10]);
    assert_eq!(run(120), [120, 0, 0, 5]);
    assert_eq!(run(999), [125, 0, 0, 0]);
}

#[test]
fn coordinator_is_not_a_task_and_its_exit_ends_the_run() {
    use Occupant::{Idle, Other, Task};
    let nice = |time, task, nice| {
        let cpus = CpuSet::first_n(2);
        event(time, task, 0, Kind::Attributes { policy: Policy::Other, nice, cpus })
    };
    let events = [
        birth(0, 0, None),
        nice(0, 0, 4),
        wake(3, 0, Waker::Outside, true),
        switch(5, 0, Idle, Task(0), Left::Runnable, 0),
        birth(100, 1, Some(0)),
        wake(110, 1, Waker::Task(0, Nanos::ZERO), true),
        switch(120, 1, Idle, Task(1), Left::Runnable, 0),
        switch(130, 0, Task(0), Other, Left::Blocked, 125),
        switch(150, 1, Task(1), Idle, Left::Dead, 30),
        wake(151, 0, Waker::Task(1, Nanos::ZERO), false),
        switch(160, 0, Other, Task(0), Left::Runnable, 0),
        switch(170, 0, Task(0), Idle, Left::Dead, 135),
        switch(900, 0, Idle, Other, Left::Runnable, 0),
    ];
    let (measures, fed) = feed(&events, Scope::Workload);
    assert_eq!((measures.tasks.len(), measures.wakeups, measures.context_switches), (1, 1, 1));
    assert_eq!((measures.elapsed, measures.makespan), (Nanos::from_us(170), Some(Nanos::from_us(150))));
    assert_eq!(measures.tasks[0].cpus_allowed, CpuSet::first_n(2), "inherited from the coordinator");
    assert_eq!((fed.orphans, fed.unseen, fed.threads), (0, (0, 0), vec![1]));
    assert_eq!((fed.cpus[0].run, fed.cpus[1].run), (Nanos::from_us(165), Nanos::from_us(30)));
}

fn occupant() -> impl Strategy<Value = Occupant> {
    prop_oneof![Just(Occupant::Idle), Just(Occupant::Other), (0..6u32).prop_map(Occupant::Task)]
}

fn any_event() -> impl Strategy<Value = Event> {
    let left = prop_oneof![Just(Left::Runnable), Just(Left::Blocked), Just(Left::ForHigherClass), Just(Left::Unseen)];
    let (numbers, parents) = (0..6u32, prop::option::of(0..6u32));
    let waker = prop_oneof![
        Just(Waker::HardInterrupt),
        Just(Waker::Unseen),
        (0..6u32).prop_map(|task| Waker::Task(task, Nanos::ZERO))
    ];
    prop_oneof![
        1 => (numbers.clone(), parents).prop_map(|(task, parent)| birth(0, task, parent)),
        3 => (numbers.clone(), waker, any::<bool>()).prop_map(|(task, waker, new)| wake(0, task, waker, new)),
        8 => (0..CPUS as u32 + 1, occupant(), occupant(), left, 0..500u64)
            .prop_map(|(cpu, previous, next, left, ran)| switch(0, cpu, previous, next, left, ran)),
        1 => numbers.prop_map(|task| event(0, task, 0, Kind::Rename { comm: "x".to_owned() })),
        1 => (0..6u32, 0..4u32).prop_map(|(task, cpu)| {
            let cpus = [CpuId(cpu)].into_iter().collect();
            event(0, task, 0, Kind::Attributes { policy: Policy::Other, nice: 3, cpus })
        }),
    ]
}

proptest! {
    /// As after losses: births of known tasks, switches from absent tasks. The collector asserts that the times of
    /// each task and each CPU add up.
    #[test]
    fn accounts_add_up_despite_lost_events(events in prop::collection::vec((any_event(), 0..50u64), 0..80)) {
        let mut born = [false; 6];
        let mut time = 0;
        let mut fed = Vec::new();
        for (mut event, pause) in events {
            time += pause;
            event.time = Nanos::from_us(time);
            // Task numbers are never reused, and a dead task has no further events.
            let again = matches!(event.kind, Kind::Birth { .. })
                && std::mem::replace(&mut born[event.task as usize], true);
            if !again {
                fed.push(event);
            }
        }
        let births = born.iter().filter(|&&born| born).count();
        let (measures, _) = feed(&fed, Scope::Children);
        prop_assert_eq!(measures.tasks.len(), births);
    }
}
