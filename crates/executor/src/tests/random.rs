// SPDX-License-Identifier: GPL-2.0-only
//! Property test on small random workloads: both executors finish them and agree on the counters.

use super::*;
use proptest::prelude::*;

/// Piece of a script whose counters do not depend on timing, except for waits on a mutex.
fn piece() -> impl Strategy<Value = Vec<Op>> {
    let mutex = || (0..2u32).prop_map(MutexId);
    prop_oneof![
        (0..200u64).prop_map(|us| vec![work(us)]),
        (0..200u64).prop_map(|us| vec![Op::CpuTime(Nanos::from_us(us))]),
        (0..2000u64).prop_map(|us| vec![Op::Sleep(Nanos::from_us(us), Sleep::Timer)]),
        Just(vec![Op::Yield]),
        Just(vec![Op::Fork(3)]),
        (0..3u32).prop_map(|most| vec![Op::Children(most)]),
        (mutex(), 0..100u64).prop_map(|(mutex, us)| vec![Op::Lock(mutex), work(us), Op::Unlock(mutex)]),
        (0..100u64).prop_map(|us| {
            let (outer, inner) = (MutexId(0), MutexId(1));
            vec![Op::Lock(outer), work(us), Op::Lock(inner), Op::Unlock(outer), work(us), Op::Unlock(inner)]
        }),
        (prop::collection::vec(Just(work(20)), 1..3), 1..4u64).prop_map(|(mut ops, times)| {
            ops.push(Op::Yield);
            ops.push(Op::Repeat { from: 0, times: Some(times) });
            ops
        }),
    ]
}

fn any_workload() -> impl Strategy<Value = Workload> {
    let scripts = prop::collection::vec(prop::collection::vec(piece(), 0..6), 3);
    // Posted by an earlier task or at the start, so that no task waits forever: (poster, waiter).
    let signals = prop::collection::vec((0..3usize, 0..3usize), 8);
    (scripts, signals).prop_map(|(mut scripts, signals)| {
        use workload::SignalId;
        for (number, &(poster, waiter)) in signals.iter().enumerate() {
            let signal = SignalId(number as u32);
            let post_at = if poster < waiter { scripts[poster].len() } else { 0 };
            scripts[poster].insert(post_at, vec![Op::Post(signal)]);
            scripts[waiter].push(vec![Op::Await(signal)]);
        }
        let tasks = scripts.into_iter().enumerate().map(|(index, pieces)| {
            let mut script = Vec::new();
            for piece in pieces {
                let base = script.len() as u32;
                script.extend(piece.into_iter().map(|op| match op {
                    Op::Repeat { from, times } => Op::Repeat { from: from + base, times },
                    other => other,
                }));
            }
            spec(&format!("t{index}"), script)
        });
        let child = TaskSpec { start: Start::Forked, ..spec("child", vec![work(50), nap(1), work(50)]) };
        workload(tasks.chain([child]).collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn real_and_virtual_execution_finish_and_agree(workload in any_workload(), gate in any::<bool>()) {
        prop_assert_eq!(workload.validate(), Ok(()));
        let result = real(&workload, &Options { gate, ..options() });
        prop_assert_eq!(&result.end, &End::Finished);
        // Which task waits for which depends on timing; the other counters do not. The numbering of children is
        // arbitrary.
        let plain = |counts: &Counts| Counts { waits: 0, wakes: 0, ..counts.clone() };
        let mut real: Vec<Counts> = result.tasks.iter().map(|task| plain(&Counts::of(task))).collect();
        let mut modelled: Vec<Counts> = model(&workload).0.iter().map(plain).collect();
        real.sort_unstable_by_key(|counts| counts.spec);
        modelled.sort_unstable_by_key(|counts| counts.spec);
        prop_assert_eq!(real, modelled);
        let sum = |count: fn(&TaskResult) -> u64| result.tasks.iter().map(count).sum::<u64>();
        prop_assert_eq!(sum(|task| task.waits), sum(|task| task.wakes), "every wait ends with one wakeup");
    }
}
