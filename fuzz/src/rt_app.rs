// SPDX-License-Identifier: GPL-2.0-only
//! rt-app files: any bytes give a result without a panic, and accepted workloads can be stored, read and executed.

use ids::{Nanos, TaskId};
use std::collections::VecDeque;
use workload::{Demand, Executor, MutexSpec, Observed, Recording, RecordingMeta, Start, Workload};

/// Maximum number of tasks: instances cost memory and time without increasing coverage.
const MAX_TASKS: usize = 200;

/// Parses the bytes as rt-app JSON.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(mut workload) = Workload::from_rt_app("fuzz.json", &text) else { return };
    workload.validate().expect("a loader returns valid workloads");
    // Attributes that only workload files have are not stored in recordings.
    for task in &mut workload.tasks {
        (task.window, task.lends, task.memory) = (None, None, None);
    }
    workload.mutexes = MutexSpec::unnamed(workload.mutexes.len());
    if workload.tasks.len() <= MAX_TASKS {
        let recording = Recording { meta: RecordingMeta::default(), workload, observed: Observed::default() };
        let stored = recording.to_bytes().expect("a loaded workload can be stored");
        assert_eq!(Recording::from_bytes("fuzz", &stored).expect("a stored workload can be read"), recording);
        execute(&recording.workload);
    }
}

/// Executes all tasks in turn for a while, granting every demand.
pub fn execute(workload: &Workload) {
    let mut player = Executor::new(workload);
    let mut ready = VecDeque::new();
    let mut tasks = 0;
    let mut start = |player: &mut Executor<'_>, ready: &mut VecDeque<TaskId>, spec| {
        player.started(TaskId(tasks), spec, Nanos::MAX);
        ready.push_back(TaskId(tasks));
        tasks += 1;
    };
    for (spec, task) in workload.tasks.iter().enumerate() {
        if task.start != Start::Forked {
            start(&mut player, &mut ready, spec as u32);
        }
    }
    let mut woken = Vec::new();
    for step in 0..5_000 {
        let Some(task) = ready.pop_front() else { return };
        woken.clear();
        let demand = player.next(task, Nanos(step), &mut woken).demand;
        ready.extend(woken.iter().copied());
        match demand {
            Demand::Wait | Demand::Exit => continue,
            Demand::Fork(spec) => start(&mut player, &mut ready, spec),
            Demand::Work { work, system } => assert!(work > Nanos::ZERO && system <= work),
            _ => {}
        }
        ready.push_back(task);
    }
}
