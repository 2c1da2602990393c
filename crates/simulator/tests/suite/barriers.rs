// SPDX-License-Identifier: GPL-2.0-only
//! Barriers at which tasks sleep or spin: CPU time left for other tasks, and runs in which a participant never
//! arrives.

use crate::common::{Scheduler, free_machine, rt_app};
use ids::Nanos;

/// Two tasks on two CPUs that meet 10 times at a barrier, one after 1 ms of work and one after 3 ms.
fn pair(barrier: &str, more: &str) -> String {
    format!(
        r#"{{"tasks": {{
            "fast": {{"loop": 10, "cpus": [0], "run": 1000, "{barrier}": "b"}},
            "slow": {{"loop": 10, "cpus": [1], "run": 3000, "{barrier}": "b"}}{more}}}}}"#
    )
}

fn ms(time: Nanos) -> u64 {
    (time.0 + 500_000) / 1_000_000
}

#[test]
fn task_spinning_at_a_barrier_uses_its_cpu_until_the_last_arrival() {
    let machine = free_machine("core:2 pu:1");
    for scheduler in [Scheduler::kernel(), Scheduler::shipped("fifo"), Scheduler::shipped("bfs")] {
        let run = |barrier| scheduler.play(&machine, &rt_app(&pair(barrier, ""))).completed().outcome.measures;
        let (sleeps, spins) = (run("barrier"), run("spin_barrier"));
        for measures in [&sleeps, &spins] {
            assert_eq!(measures.makespan.map(ms), Some(30), "both take as long as the slow task");
            assert_eq!(measures.work.map(ms), Some(40), "both do the same work");
        }
        let fast = |measures: &measures::RunMeasures| measures.tasks.iter().find(|task| task.name == "fast").cloned();
        let [asleep, busy] = [&sleeps, &spins].map(|measures| fast(measures).unwrap().account);
        assert_eq!((ms(asleep.run), ms(asleep.blocked)), (10, 20));
        assert_eq!((ms(busy.run), ms(busy.blocked)), (30, 0), "it spins for 20 ms at the barrier");
        assert_eq!((sleeps.spin.map(ms), spins.spin.map(ms)), (Some(0), Some(20)));
        let wakeups = |measures: &measures::RunMeasures| measures.wakeups;
        assert!(wakeups(&spins) < wakeups(&sleeps), "spinning tasks need no wakeup");
    }
}

#[test]
fn spinning_takes_cpu_time_from_other_tasks() {
    let machine = free_machine("core:2 pu:1");
    let beside = r#", "beside": {"loop": 1, "cpus": [0], "run": 20000}"#;
    for scheduler in [Scheduler::kernel(), Scheduler::shipped("fifo"), Scheduler::shipped("bfs")] {
        let run = |barrier| scheduler.play(&machine, &rt_app(&pair(barrier, beside))).completed().outcome.measures;
        let ended = |measures: &measures::RunMeasures, name| {
            measures.tasks.iter().find(|task| task.name == name).unwrap().ended.map(ms).unwrap()
        };
        let (sleeps, spins) = (run("barrier"), run("spin_barrier"));
        assert!(ended(&sleeps, "beside") < ended(&spins, "beside"), "the background task gets the unused CPU time");
        assert_eq!(spins.work.map(ms), Some(60));
        assert_eq!(ms(spins.cpu.run), 60 + spins.spin.map(ms).unwrap(), "run time is work or spinning");
    }
}

#[test]
fn spinning_for_a_task_that_never_arrives_ends_the_run() {
    let machine = free_machine("core:2 pu:1");
    for barrier in ["barrier", "spin_barrier"] {
        let text = format!(
            r#"{{"tasks": {{"a": {{"loop": 3, "run": 1000, "{barrier}": "b"}},
                           "b": {{"loop": 2, "run": 1000, "{barrier}": "b"}}}}}}"#
        );
        let played = Scheduler::kernel().play(&machine, &rt_app(&text));
        assert_eq!(played.outcome.measures.makespan, None, "{barrier}");
        assert!(played.outcome.measures.elapsed < Nanos::from_ms(20), "{barrier}");
    }
}

#[test]
fn spinning_at_a_barrier_works_if_operations_are_interleaved() {
    let mut machine = free_machine("core:2 pu:1");
    machine.effects.locks = machine_model::Machine::preset("laptop-2c4t").unwrap().effects.locks;
    let workload = rt_app(&pair("spin_barrier", ""));
    let played = Scheduler::shipped("fifo").play_waiting(&machine, &workload, 0, &Default::default()).completed();
    assert_eq!(played.outcome.measures.makespan.map(ms), Some(30));
    assert_eq!(played.outcome.measures.spin.map(ms), Some(20));
}
