// SPDX-License-Identifier: GPL-2.0-only
//! Dispatch queues. A FIFO and a queue in order of virtual time are the same ordered map with different keys.

use ids::{CpuId, DsqId, TaskId};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

/// Which queue of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum QueueRef {
    /// Local queue of a CPU.
    Local(CpuId),
    /// Global queue of a node.
    Global(u32),
    /// Bypass queue of a CPU.
    Bypass(CpuId),
    /// A queue that the scheduler made.
    User(DsqId),
}

impl QueueRef {
    /// The id under which events and programs know it.
    pub fn id(self) -> DsqId {
        match self {
            QueueRef::Local(cpu) => DsqId::local_on(cpu),
            QueueRef::Global(_) => DsqId::GLOBAL,
            QueueRef::Bypass(_) => DsqId::BYPASS,
            QueueRef::User(id) => id,
        }
    }

    /// Whether being there means having left the BPF scheduler's custody (contract T14).
    pub fn is_terminal(self) -> bool {
        !matches!(self, QueueRef::User(_))
    }
}

/// Place in a queue: a key, then the order of arrival.
pub(crate) type Position = (u64, u64);

/// How a queue is ordered; decided by the first insert while it is empty (contract O3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    Fifo,
    /// Keys are kept relative to the first one so that the comparison is the kernel's wrap-aware signed difference.
    Vtime {
        origin: u64,
    },
}

/// The middle of the number space: room on both sides for head and tail inserts, and for smaller and larger keys.
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
    /// Counts inserts: an iterator does not see what came after it was made (contract K3).
    seq: u64,
}

/// A mix of FIFO and ordered inserts in a queue that is not empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mixed {
    /// An ordered insert into a FIFO.
    HasFifo,
    /// A FIFO insert into an ordered queue.
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

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Whether it is in order of virtual time.
    pub fn is_ordered(&self) -> bool {
        matches!(self.order, Order::Vtime { .. }) && !self.is_empty()
    }

    /// How many tasks stand before `position`. Takes a step for each.
    pub fn before(&self, position: Position) -> usize {
        self.tasks.range(..position).count()
    }

    /// The first task.
    pub fn first(&self) -> Option<TaskId> {
        self.tasks.first_key_value().map(|(_, &task)| task)
    }

    /// Inserts at the tail, or at the head. In an ordered queue it is an error; the task goes in by key 0 of the
    /// queue's origin then, as the kernel reports and goes on.
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

    /// Inserts by virtual time; equal times keep their order of arrival.
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

    /// Takes out the task at `position`.
    pub fn remove(&mut self, position: Position) -> TaskId {
        self.tasks.remove(&position).expect("a queued task is where it says it is")
    }

    /// The tasks in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Position, TaskId)> + '_ {
        self.tasks.iter().map(|(&position, &task)| (position, task))
    }

    /// The next task behind `after`, or before it if `reverse`; from the end if `None`.
    pub fn next(&self, after: Option<Position>, reverse: bool) -> Option<(Position, TaskId)> {
        let found = match (after, reverse) {
            (None, false) => self.tasks.first_key_value(),
            (None, true) => self.tasks.last_key_value(),
            (Some(position), false) => self.tasks.range((Excluded(position), Unbounded)).next(),
            (Some(position), true) => self.tasks.range((Unbounded, Excluded(position))).next_back(),
        };
        found.map(|(&position, &task)| (position, task))
    }

    /// How many inserts there were.
    pub fn seq(&self) -> u64 {
        self.seq
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The obviously right queue: a list, searched from the tail with the kernel's signed difference.
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
        fn vtime_order_matches_naive(steps in steps()) {
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
    fn o3_mixing_orders_is_reported_until_the_queue_is_empty() {
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
    fn o3_head_inserts_stand_before_all_others() {
        let mut dsq = Dsq::new();
        for (number, at_head) in [(0, false), (1, true), (2, false), (3, true)] {
            dsq.insert_fifo(TaskId(number), at_head).1.expect("a FIFO");
        }
        let order: Vec<u32> = dsq.iter().map(|(_, task)| task.0).collect();
        assert_eq!(order, [3, 1, 0, 2]);
    }
}
