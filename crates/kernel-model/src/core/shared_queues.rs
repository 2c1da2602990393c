// SPDX-License-Identifier: GPL-2.0-only
//! Dispatch queues that belong to no CPU.

use super::dsq::Dsq;
use ids::DsqId;
use std::collections::BTreeMap;

/// The queues that the scheduler created, and the global queues.
#[derive(Debug)]
pub(crate) struct SharedQueues {
    /// Queues that the scheduler created.
    user: BTreeMap<DsqId, Dsq>,
    /// Global queues by node.
    global: Vec<Dsq>,
}

impl SharedQueues {
    /// Empty global queues of this number of nodes.
    pub fn new(nodes: u32) -> SharedQueues {
        SharedQueues { user: BTreeMap::new(), global: (0..nodes).map(|_| Dsq::new()).collect() }
    }

    /// The global queue of a node.
    pub fn global(&self, node: u32) -> &Dsq {
        &self.global[node as usize]
    }

    /// The global queue of a node, to be changed.
    pub fn global_mut(&mut self, node: u32) -> &mut Dsq {
        &mut self.global[node as usize]
    }

    /// Whether the scheduler created this queue.
    pub fn contains(&self, id: DsqId) -> bool {
        self.user.contains_key(&id)
    }

    /// A queue that the scheduler created.
    pub fn user(&self, id: DsqId) -> Option<&Dsq> {
        self.user.get(&id)
    }

    /// A queue that the scheduler created and that holds a task.
    pub fn holding(&self, id: DsqId) -> &Dsq {
        self.user.get(&id).expect("a queue that holds a task exists")
    }

    /// A queue that the scheduler created and that holds a task, to be changed.
    pub fn holding_mut(&mut self, id: DsqId) -> &mut Dsq {
        self.user.get_mut(&id).expect("a queue that holds a task exists")
    }

    /// The scheduler creates an empty queue.
    pub fn create(&mut self, id: DsqId) {
        self.user.insert(id, Dsq::new());
    }

    /// The scheduler destroys a queue.
    pub fn destroy(&mut self, id: DsqId) {
        self.user.remove(&id);
    }

    /// The scheduler leaves, and all of its queues with it.
    pub fn destroy_all(&mut self) {
        self.user.clear();
    }

    /// All of these queues.
    pub fn all(&self) -> impl Iterator<Item = &Dsq> {
        self.global.iter().chain(self.user.values())
    }
}
