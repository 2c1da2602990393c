// SPDX-License-Identifier: GPL-2.0-only
//! Dispatch queues. A FIFO and a vtime-ordered queue are the same ordered map with different keys.

use ids::{CpuId, DsqId, TaskId};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

/// Reference to a dispatch queue of any kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum QueueRef {
    /// Local queue of a CPU.
    Local(CpuId),
    /// Global queue of a node.
    Global(u32),
    /// Bypass queue of a CPU.
    Bypass(CpuId),
    /// A queue that the scheduler created.
    User(DsqId),
}

impl QueueRef {
    /// The DSQ id that events and programs see.
    pub fn id(self) -> DsqId {
        match self {
            QueueRef::Local(cpu) => DsqId::local_on(cpu),
            QueueRef::Global(_) => DsqId::GLOBAL,
            QueueRef::Bypass(_) => DsqId::BYPASS,
            QueueRef::User(id) => id,
        }
    }

    /// Whether a task in this queue has left BPF custody (contract T14).
    pub fn is_terminal(self) -> bool {
        !matches!(self, QueueRef::User(_))
    }
}

/// Position in a queue: key, then arrival number.
pub(crate) type Position = (u64, u64);

/// Order of a queue, fixed by the first insert while it is empty (contract O3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    Fifo,
    /// By virtual time. Keys are stored relative to the first one, which gives the kernel's wrap-aware signed
    /// comparison.
    Vtime {
        origin: u64,
    },
}

/// Middle of the u64 range: leaves room on both sides for head and tail inserts, and for smaller and larger keys.
const MIDDLE: u64 = 1 << 63;

/// A dispatch queue.
#[derive(Debug)]
pub(crate) struct Dsq {
    tasks: BTreeMap<Position, TaskId>,
    order: Order,
    /// Arrival number of the next task at the tail.
    tail: u64,
    /// Arrival number of the next task at the head.
    head: u64,
    /// Number of inserts: an iterator skips tasks inserted after it was created (contract K3).
    seq: u64,
}

/// Error: FIFO and vtime inserts mixed in a queue that is not empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mixed {
    /// A vtime insert into a FIFO.
    HasFifo,
    /// A FIFO insert into a vtime-ordered queue.
    HasVtime,
}

impl Dsq {
    /// An empty queue.
    pub fn new() -> Dsq {
        Dsq { tasks: BTreeMap::new(), order: Order::Fifo, tail: MIDDLE, head: MIDDLE - 1, seq: 0 }
    }

    /// Number of tasks.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether the queue has no tasks.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Whether the queue has tasks and is vtime-ordered.
    pub fn is_ordered(&self) -> bool {
        matches!(self.order, Order::Vtime { .. }) && !self.is_empty()
    }

    /// Number of tasks before `position`. Takes time linear in the result.
    pub fn before(&self, position: Position) -> usize {
        self.tasks.range(..position).count()
    }

    /// The first task.
    pub fn first(&self) -> Option<TaskId> {
        self.tasks.first_key_value().map(|(_, &task)| task)
    }

    /// Inserts at the tail, or at the head if `at_head`. In a vtime-ordered queue this is an error, and the task is
    /// put after or before all others: the kernel too reports the error and inserts the task.
    pub fn insert_fifo(&mut self, task: TaskId, at_head: bool) -> (Position, Result<(), Mixed>) {
        let mixed = match self.order {
            Order::Vtime { .. } if !self.is_empty() => Err(Mixed::HasVtime),
            _ => Ok(()),
        };
        if mixed.is_ok() {
            self.order = Order::Fifo;
        }
        let position = if at_head {
            self.head -= 1;
            (if mixed.is_ok() { MIDDLE } else { 0 }, self.head + 1)
        } else {
            self.tail += 1;
            (if mixed.is_ok() { MIDDLE } else { u64::MAX }, self.tail - 1)
        };
        self.put(position, task);
        (position, mixed)
    }

    /// Inserts by virtual time; tasks with equal virtual times stay in order of arrival.
    pub fn insert_vtime(&mut self, task: TaskId, vtime: u64) -> (Position, Result<(), Mixed>) {
        if self.is_empty() {
            self.order = Order::Vtime { origin: vtime };
        }
        let (key, mixed) = match self.order {
            Order::Vtime { origin } => (vtime.wrapping_sub(origin).wrapping_add(MIDDLE), Ok(())),
            Order::Fifo => (MIDDLE, Err(Mixed::HasFifo)),
        };
        self.tail += 1;
        let position = (key, self.tail - 1);
        self.put(position, task);
        (position, mixed)
    }

    fn put(&mut self, position: Position, task: TaskId) {
        self.seq += 1;
        let old = self.tasks.insert(position, task);
        assert!(old.is_none(), "two tasks at one position of a queue");
    }

    /// Removes the task at `position`.
    pub fn remove(&mut self, position: Position) -> TaskId {
        self.tasks.remove(&position).expect("a queued task is where it says it is")
    }

    /// The tasks in queue order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Position, TaskId)> + '_ {
        self.tasks.iter().map(|(&position, &task)| (position, task))
    }

    /// The task after `after`, or the one before it if `reverse`. `None` starts at the head, or at the tail if
    /// `reverse`.
    pub fn next(&self, after: Option<Position>, reverse: bool) -> Option<(Position, TaskId)> {
        let found = match (after, reverse) {
            (None, false) => self.tasks.first_key_value(),
            (None, true) => self.tasks.last_key_value(),
            (Some(position), false) => self.tasks.range((Excluded(position), Unbounded)).next(),
            (Some(position), true) => self.tasks.range((Unbounded, Excluded(position))).next_back(),
        };
        found.map(|(&position, &task)| (position, task))
    }

    /// Number of inserts so far.
    pub fn seq(&self) -> u64 {
        self.seq
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reference queue: a list, searched from the tail with the kernel's signed difference.
    #[derive(Default)]
    struct Naive(Vec<(u64, TaskId)>);

    impl Naive {
        fn insert_vtime(&mut self, task: TaskId, vtime: u64) {
            let before = self.0.iter().rposition(|&(key, _)| (vtime.wrapping_sub(key) as i64) >= 0);
            self.0.insert(before.map_or(0, |index| index + 1), (vtime, task));
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64),
        Pop,
        Remove(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let key = prop_oneof![0u64..8, (u64::MAX - 4)..=u64::MAX];
        let step =
            prop_oneof![3 => key.prop_map(Step::Insert), 1 => Just(Step::Pop), 1 => (0usize..8).prop_map(Step::Remove)];
        prop::collection::vec(step, 0..60)
    }

    proptest! {
        #[test]
        fn vtime_queue_order_matches_naive_list(steps in steps()) {
            let (mut dsq, mut naive) = (Dsq::new(), Naive::default());
            let mut positions = BTreeMap::new();
            for (number, step) in steps.into_iter().enumerate() {
                let task = TaskId(number as u32);
                match step {
                    Step::Insert(key) => {
                        positions.insert(task, dsq.insert_vtime(task, key).0);
                        naive.insert_vtime(task, key);
                    }
                    Step::Pop if !naive.0.is_empty() => {
                        let (_, first) = naive.0.remove(0);
                        prop_assert_eq!(dsq.first(), Some(first));
                        dsq.remove(positions[&first]);
                    }
                    Step::Remove(index) if index < naive.0.len() => {
                        let (_, gone) = naive.0.remove(index);
                        prop_assert_eq!(dsq.remove(positions[&gone]), gone);
                    }
                    _ => {}
                }
                let order: Vec<TaskId> = dsq.iter().map(|(_, task)| task).collect();
                prop_assert_eq!(order, naive.0.iter().map(|&(_, task)| task).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn o3_mixing_fifo_and_vtime_is_reported_until_the_queue_is_empty() {
        let mut dsq = Dsq::new();
        let (first, ok) = dsq.insert_vtime(TaskId(0), 5);
        assert_eq!(ok, Ok(()));
        let (second, mixed) = dsq.insert_fifo(TaskId(1), false);
        assert_eq!(mixed, Err(Mixed::HasVtime));
        dsq.remove(first);
        dsq.remove(second);
        assert_eq!(dsq.insert_fifo(TaskId(1), false).1, Ok(()));
        assert_eq!(dsq.insert_vtime(TaskId(2), 0).1, Err(Mixed::HasFifo));
    }

    #[test]
    fn o3_head_inserts_go_before_all_queued_tasks() {
        let mut dsq = Dsq::new();
        for (number, at_head) in [(0, false), (1, true), (2, false), (3, true)] {
            dsq.insert_fifo(TaskId(number), at_head).1.expect("a FIFO");
        }
        let order: Vec<u32> = dsq.iter().map(|(_, task)| task.0).collect();
        assert_eq!(order, [3, 1, 0, 2]);
    }
}
