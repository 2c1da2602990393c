// SPDX-License-Identifier: GPL-2.0-only
//! The shipped recording is replayed in virtual time on a machine with a CPU for every task: it completes, does all
//! of its work, and takes no longer than on the recorded machine, which had fewer CPUs.

use ids::{Nanos, TaskId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs;
use std::path::Path;
use workload::{Demand, Executor, Op, Recording, Start, Workload};

fn shipped() -> Recording {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads/recorded/build.weir");
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Recording::from_bytes("build.weir", &bytes).unwrap_or_else(|error| panic!("{error}"))
}

/// Executes a workload where every runnable task runs. Returns time of the last exit, work done, tasks exited.
fn play(workload: &Workload) -> (Nanos, Nanos, usize) {
    let mut player = Executor::new(workload);
    let mut ready = BinaryHeap::new();
    let (mut tasks, mut exited, mut done, mut end) = (0, 0, Nanos::ZERO, Nanos::ZERO);
    let mut start = |player: &mut Executor<'_>, index: u32, now: Nanos| {
        let task = TaskId(tasks);
        tasks += 1;
        player.started(task, index, now);
        task
    };
    for (index, spec) in workload.tasks.iter().enumerate() {
        if let Start::At(time) = spec.start {
            ready.push(Reverse((time, start(&mut player, index as u32, time))));
        }
    }
    let mut woken = Vec::new();
    while let Some(Reverse((now, task))) = ready.pop() {
        loop {
            let demand = player.next(task, now, &mut woken).demand;
            ready.extend(woken.drain(..).map(|other| Reverse((now, other))));
            match demand {
                Demand::Work { work, .. } => {
                    done += work;
                    ready.push(Reverse((now + work, task)));
                    break;
                }
                Demand::Sleep(time, _) => {
                    ready.push(Reverse((now + time, task)));
                    break;
                }
                Demand::Wait | Demand::Spin => break,
                Demand::Fork(index) => ready.push(Reverse((now, start(&mut player, index, now)))),
                Demand::Change { .. } => {}
                Demand::Exit => {
                    exited += 1;
                    end = end.max(now);
                    break;
                }
                other => panic!("{other:?} does not occur in recordings"),
            }
        }
    }
    (end, done, exited)
}

#[test]
fn shipped_build_completes_within_the_recorded_time() {
    let Recording { meta, workload, .. } = shipped();
    let (end, done, exited) = play(&workload);
    assert_eq!(exited, workload.tasks.len(), "every task starts once and exits");
    let work = |op: &Op| match op {
        Op::Work { user, system } => user.0 + system.0,
        _ => 0,
    };
    let recorded: u64 = workload.tasks.iter().flat_map(|task| &task.script).map(work).sum();
    assert_eq!(done, Nanos(recorded));
    assert!(recorded <= meta.elapsed.0 * u64::from(meta.cpus), "the recorded work fits into the recorded CPU time");
    assert!(end <= meta.elapsed, "critical path {end}, recorded {}", meta.elapsed);
}

#[test]
fn shipped_build_matches_its_readme() {
    let Recording { meta, workload, .. } = shipped();
    assert_eq!(meta.lost_events, 0);
    let compilations = workload.tasks.iter().filter(|task| task.name == "cc1").count();
    assert!(compilations >= 400, "{compilations} compilations");
    // gcc waits for cc1, and make for gcc: the build is driven by causes, not by times.
    let ops = || workload.tasks.iter().flat_map(|task| &task.script);
    let awaits = ops().filter(|op| matches!(op, Op::Await(_))).count();
    let sleeps = ops().filter(|op| matches!(op, Op::Sleep(..))).count();
    assert!(awaits > 2 * compilations, "{awaits}");
    assert!(sleeps < awaits, "{sleeps} sleeps of fixed length");
    let compiler = workload.tasks.iter().find(|task| task.name == "cc1").expect("counted above");
    assert!(compiler.command.as_deref().is_some_and(|line| line.contains("/cc1 ")) && compiler.peak_rss_bytes > 0);
}
