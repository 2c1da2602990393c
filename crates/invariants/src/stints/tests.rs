// SPDX-License-Identifier: GPL-2.0-only
//! Groups of waiting tasks against a look at each task for each CPU at each moment.

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

/// Who waits with which mask after each step; the first is before all of them.
type Moment = Vec<Option<u64>>;

/// Since when there has always been somebody with one mask who waits for this CPU. That is earlier or later than for somebody
/// at all only where masks differ; masks make the groups, so it is asked for each.
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
    fn matches_naive(steps in prop::collection::vec(step(), 0..200)) {
        let mut stints = Stints::new(CPUS, Nanos(BEYOND));
        (0..TASKS).for_each(|_| stints.announce(&CpuSet::first_n(CPUS)));
        (0..TASKS).for_each(|task| stints.set_slice(TaskId(task), Nanos(10 * u64::from(task))));
        let (mut masks, mut waits) = ([7u64; TASKS as usize], [false; TASKS as usize]);
        let mut stays = [(0, Nanos::ZERO.0); CPUS];
        let mut history: Vec<Moment> = vec![vec![None; TASKS as usize]];
        for (now, step) in (1..).zip(steps) {
            match step {
                Step::Wait(task, wait) => {
                    waits[task as usize] = wait;
                    stints.set_waiting(Nanos(now), TaskId(task), wait);
                }
                Step::Allow(task, mask) => {
                    masks[task as usize] = mask;
                    stints.set_allowed(Nanos(now), TaskId(task), &CpuSet::from_words(&[mask]));
                }
                Step::Begin(task, cpu) => {
                    stays[cpu as usize] = (now, 10 * u64::from(task));
                    stints.begin(Nanos(now), TaskId(task), CpuId(cpu));
                }
                Step::End(cpu) => {
                    let (since, slice) = stays[cpu as usize];
                    let expected = contested(&history, cpu).and_then(|contested| {
                        let slice = if contested > since { slice.max(DEFAULT_SLICE.0) } else { slice };
                        let (from, limit) = (since.max(contested), slice + BEYOND);
                        (now - from > limit).then_some((from, now - from, limit))
                    });
                    let found = stints.end(Nanos(now), CpuId(cpu)).map(|it| (it.from.0, it.value.0, it.limit.0));
                    prop_assert_eq!(found, expected, "{} at {}", cpu, now);
                }
            }
            history.push((0..TASKS as usize).map(|task| waits[task].then_some(masks[task])).collect());
        }
    }
}
