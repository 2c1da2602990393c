// SPDX-License-Identifier: GPL-2.0-only
//! Compares counts of waiting tasks by mask with a scan of the whole history.

use super::*;
use proptest::prelude::*;

const CPUS: usize = 3;
const TASKS: u32 = 5;
const BEYOND: u64 = 4;

#[derive(Clone, Copy, Debug)]
enum Step {
    Wait(u32, bool),
    Allow(u32, u64),
    Begin(u32, u32),
    End(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..TASKS, any::<bool>()).prop_map(|(task, waits)| Step::Wait(task, waits)),
        (0..TASKS, 1u64..8).prop_map(|(task, mask)| Step::Allow(task, mask)),
        (0..TASKS, 0..CPUS as u32).prop_map(|(task, cpu)| Step::Begin(task, cpu)),
        (0..CPUS as u32).prop_map(Step::End),
    ]
}

/// The mask of each task that waits after a step, by task; a history begins with the initial state.
type Moment = Vec<Option<u64>>;

/// Time since which a task of some mask that includes this CPU has always waited. Each mask is examined separately,
/// since the implementation counts waiting tasks by mask.
fn contested(history: &[Moment], cpu: u32) -> Option<u64> {
    let since = |mask: u64| {
        let waits = |moment: &&Moment| moment.contains(&Some(mask));
        let length = history.iter().rev().take_while(waits).count();
        (length > 0 && mask & 1 << cpu != 0).then(|| (history.len() - length) as u64)
    };
    (1..8).filter_map(since).min()
}

proptest! {
    #[test]
    fn overlong_run_intervals_match_a_scan_of_the_history(steps in prop::collection::vec(step(), 0..200)) {
        let mut run_intervals = RunIntervals::new(CPUS, Nanos(BEYOND));
        (0..TASKS).for_each(|_| run_intervals.announce(&CpuSet::first_n(CPUS)));
        (0..TASKS).for_each(|task| run_intervals.set_slice(TaskId(task), Nanos(10 * u64::from(task))));
        let (mut masks, mut waits) = ([7u64; TASKS as usize], [false; TASKS as usize]);
        let mut intervals = [(0, Nanos::ZERO.0); CPUS];
        let mut history: Vec<Moment> = vec![vec![None; TASKS as usize]];
        for (now, step) in (1..).zip(steps) {
            match step {
                Step::Wait(task, wait) => {
                    waits[task as usize] = wait;
                    run_intervals.set_waiting(Nanos(now), TaskId(task), wait);
                }
                Step::Allow(task, mask) => {
                    masks[task as usize] = mask;
                    run_intervals.set_allowed(Nanos(now), TaskId(task), &CpuSet::from_words(&[mask]));
                }
                Step::Begin(task, cpu) => {
                    intervals[cpu as usize] = (now, 10 * u64::from(task));
                    run_intervals.begin(Nanos(now), TaskId(task), CpuId(cpu));
                }
                Step::End(cpu) => {
                    let (since, slice) = intervals[cpu as usize];
                    let expected = contested(&history, cpu).and_then(|contested| {
                        let slice = if contested > since { slice.max(DEFAULT_SLICE.0) } else { slice };
                        let (from, limit) = (since.max(contested), slice + BEYOND);
                        (now - from > limit).then_some((from, now - from, limit))
                    });
                    let found = run_intervals.end(Nanos(now), CpuId(cpu)).map(|it| (it.from.0, it.value.0, it.limit.0));
                    prop_assert_eq!(found, expected, "{} at {}", cpu, now);
                }
            }
            history.push((0..TASKS as usize).map(|task| waits[task].then_some(masks[task])).collect());
        }
    }
}
