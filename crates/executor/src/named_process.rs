// SPDX-License-Identifier: GPL-2.0-only
//! Named processes: processes that a workload names and that any of its tasks may belong to.
//!
//! The kernel lets only a thread create further threads of its process. The first task of a name leads the *named
//! process* and creates those that start with it before its own script; members create the tasks that they fork. If
//! tasks can join later that no member forks, the process has a *helper thread*, which sleeps until there is a task
//! to create. Other named processes have none, since a scheduler that counts threads would notice it.
//!
//! When all members have exited, the helper exits, and with it the process. The next task of that name starts a new
//! process.

use super::ExecuteError;
use super::prepare::describe;
use super::process::{Scope, TaskKind};
use super::shared::{Shared, TaskSetup};
use super::task::create;
use host::sys;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use workload::{Op, Start, Workload};

/// Futex on which a helper sleeps; 0 while it sleeps.
pub type HelperFutex = Arc<AtomicU32>;

/// A process with a name.
#[derive(Default)]
pub struct NamedProcess {
    /// Number of registered members that have not exited.
    pub members: u32,
    /// Members that the leader or the helper still has to create.
    pub waiting: Vec<TaskSetup>,
    /// Futex of its helper, whether it has one or not.
    pub futex: HelperFutex,
}

impl NamedProcess {
    /// Wakes the helper: a member waits to be created, or none is left.
    pub fn wake(&self) {
        self.futex.store(1, SeqCst);
        sys::wake(&self.futex, 1);
    }
}

/// Names of the processes that need a helper, because members start at different times or are forked by other
/// processes.
pub fn needing_helper(workload: &Workload) -> BTreeSet<&str> {
    let name = |task: usize| workload.tasks[task].who.process.as_deref();
    let (mut starts, mut with_helper) = (BTreeMap::new(), BTreeSet::new());
    for (index, task) in workload.tasks.iter().enumerate() {
        if let (Some(own), Start::At(time)) = (name(index), task.start)
            && *starts.entry(own).or_insert(time) != time
        {
            with_helper.insert(own);
        }
        let forked = |op: &Op| if let Op::Fork(spec) = op { name(*spec as usize) } else { None };
        with_helper.extend(task.script.iter().filter_map(forked).filter(|forked| name(index) != Some(forked)));
    }
    with_helper
}

/// Called by the leader of a named process: creates the members that start with it, and a helper if needed.
pub fn begin<'scope, 'env, 'w>(shared: &'env Shared<'w>, scope: &'scope Scope<'scope, 'env>, name: &'w str, spec: u32) {
    let (waiting, futex) = shared.lead(name);
    waiting.into_iter().for_each(|setup| create(shared, scope, setup));
    if !shared.with_helper.contains(name) {
        return;
    }
    let helper = move || {
        sys::set_name("weir-helper");
        run_helper(shared, scope, name, &futex);
    };
    if let Err(source) = scope.spawn(TaskKind::Thread, spec, helper) {
        shared.fail(ExecuteError::Thread { task: describe(shared.workload, spec as usize), source });
    }
}

/// Loop of a helper: creates members until none is left.
fn run_helper<'scope, 'env, 'w>(
    shared: &'env Shared<'w>,
    scope: &'scope Scope<'scope, 'env>,
    name: &str,
    futex: &HelperFutex,
) {
    loop {
        futex.store(0, SeqCst);
        let Some(waiting) = shared.take_waiting(name, futex) else { return };
        if waiting.is_empty() {
            sys::wait(futex, 0, sys::NEVER);
        }
        waiting.into_iter().for_each(|setup| create(shared, scope, setup));
    }
}
