// SPDX-License-Identifier: GPL-2.0-only
//! Number of tasks in the scheduler's queues over time.

use ids::{DsqId, Nanos};
use timeline::{Queue, Timeline};

/// Number of queues shown: the deepest ones.
const QUEUES: usize = 12;
/// Maximum number of steps of a queue that are kept unchanged. If there are more, each part of the run keeps its
/// maximum and its last value.
const STEPS: usize = 20_000;

/// A queue, or all queues of a kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Depth {
    pub name: String,
    /// Times from which on the queue contained this number of tasks, in order.
    pub steps: Vec<(Nanos, u32)>,
}

/// The deepest queues, in order of their numbers with the CPUs' local queues last, and the number of other queues.
pub fn depths(timeline: &Timeline) -> (Vec<Depth>, usize) {
    let is_local = |queue: DsqId| queue.local_cpu().is_some();
    let single = timeline.queues.iter().filter(|(id, _)| !is_local(**id));
    let mut all: Vec<Depth> = single.map(|(id, queue)| depth(name(*id), &[queue], timeline.end)).collect();
    let local: Vec<&Queue> = timeline.queues.iter().filter(|(id, _)| is_local(**id)).map(|(_, queue)| queue).collect();
    if !local.is_empty() {
        all.push(depth("local queues".to_owned(), &local, timeline.end));
    }
    all.retain(|depth| depth.most() > 0);
    let left = all.len().saturating_sub(QUEUES);
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|&index| (std::cmp::Reverse(all[index].most()), index));
    order.truncate(QUEUES);
    let mut index = 0..;
    all.retain(|_| order.contains(&index.next().expect("an infinite iterator")));
    (all, left)
}

impl Depth {
    /// Maximum depth that lasted for some time.
    fn most(&self) -> u32 {
        let lasting = self.steps.windows(2).filter(|pair| pair[0].0 < pair[1].0).map(|pair| pair[0].1);
        lasting.chain(self.steps.last().map(|step| step.1)).max().unwrap_or(0)
    }
}

fn name(queue: DsqId) -> String {
    match queue {
        DsqId::GLOBAL => "global queue".to_owned(),
        DsqId::BYPASS => "bypass".to_owned(),
        queue => format!("queue {queue}"),
    }
}

/// Sum of these queues' depths.
fn depth(name: String, queues: &[&Queue], end: Nanos) -> Depth {
    let changes = |queue: &&Queue| {
        let mut before = 0;
        let change = move |(time, depth): (Nanos, u32)| {
            let by = i64::from(depth) - i64::from(std::mem::replace(&mut before, depth));
            (time, by)
        };
        queue.depths().map(change).collect::<Vec<_>>()
    };
    let mut changes: Vec<(Nanos, i64)> = queues.iter().flat_map(changes).collect();
    changes.sort_by_key(|(time, _)| *time);
    let mut now = 0;
    let mut steps: Vec<(Nanos, u32)> = Vec::new();
    for (time, by) in changes {
        now += by;
        let depth = u32::try_from(now).unwrap_or(0);
        // A depth of zero duration is omitted.
        match steps.last_mut().filter(|last| last.0 == time) {
            Some(last) => last.1 = depth,
            None => steps.push((time, depth)),
        }
    }
    steps.dedup_by_key(|step| step.1);
    Depth { name, steps: coarse(steps, end) }
}

/// Reduces to about [`STEPS`] steps.
fn coarse(steps: Vec<(Nanos, u32)>, end: Nanos) -> Vec<(Nanos, u32)> {
    if steps.len() <= STEPS {
        return steps;
    }
    let part = |time: Nanos| u128::from(time.0) * (STEPS as u128 / 2) / u128::from(end.0.max(1));
    let chunks = steps.chunk_by(|one, other| part(one.0) == part(other.0));
    let ends = |chunk: &[(Nanos, u32)]| {
        let most = chunk.iter().map(|step| step.1).max().expect("a chunk has a step");
        let (first, last) = (chunk[0], chunk[chunk.len() - 1]);
        if chunk.len() == 1 { vec![first] } else { vec![(first.0, most), last] }
    };
    chunks.flat_map(ends).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::{CpuId, TaskId};
    use timeline::Change;

    fn queue(changes: &[(u64, i32)]) -> Queue {
        let mut queue = Queue::default();
        for &(time, by) in changes {
            queue.push(Nanos(time), if by > 0 { Change::Entered(TaskId(0), 0) } else { Change::Left(TaskId(0)) });
        }
        queue
    }

    #[test]
    fn local_queues_share_a_row_and_depths_of_no_duration_are_omitted() {
        let mut timeline = Timeline { end: Nanos(100), ..Timeline::default() };
        timeline.queues.insert(DsqId(7), queue(&[(10, 1), (10, 1), (20, -1), (30, -1)]));
        timeline.queues.insert(DsqId(8), queue(&[(10, 1), (10, -1)]));
        for (cpu, changes) in [(0, [(5, 1), (50, -1)]), (1, [(6, 1), (40, -1)])] {
            timeline.queues.insert(DsqId::local_on(CpuId(cpu)), queue(&changes));
        }
        let steps = |steps: &[(u64, u32)]| steps.iter().map(|&(time, depth)| (Nanos(time), depth)).collect::<Vec<_>>();
        let wanted = [
            Depth { name: "queue 0x7".to_owned(), steps: steps(&[(10, 2), (20, 1), (30, 0)]) },
            Depth { name: "local queues".to_owned(), steps: steps(&[(5, 1), (6, 2), (40, 1), (50, 0)]) },
        ];
        assert_eq!(depths(&timeline), (wanted.to_vec(), 0));
    }

    #[test]
    fn deepest_queues_are_shown_and_the_others_counted() {
        let mut timeline = Timeline { end: Nanos(100), ..Timeline::default() };
        for id in 0..20 {
            let changes: Vec<(u64, i32)> = (0..=id).map(|time| (time, 1)).collect();
            timeline.queues.insert(DsqId(id + 1), queue(&changes));
        }
        let (shown, left) = depths(&timeline);
        assert_eq!((shown.len(), left), (12, 8));
        assert_eq!((shown[0].name.as_str(), shown[11].name.as_str()), ("queue 0x9", "queue 0x14"));
    }

    #[test]
    fn reduced_history_keeps_its_maxima() {
        let mut steps: Vec<(Nanos, u32)> = (0..100_000).map(|time| (Nanos(time), (time % 2) as u32)).collect();
        steps[50_000].1 = 77;
        let short = coarse(steps.clone(), Nanos(100_000));
        assert!(short.len() <= STEPS + 2, "{}", short.len());
        assert_eq!(short.iter().map(|step| step.1).max(), Some(77));
        assert_eq!(short.last(), steps.last());
        assert!(short.is_sorted_by_key(|step| step.0));
    }
}
