// SPDX-License-Identifier: GPL-2.0-only
//! Processes that a workload names, whose threads any of its tasks may be.
//!
//! The kernel makes a thread for none but a thread of the same process. The first task of a name that begins leads its
//! process, a *company*, and creates those that begin with it before it does anything else; members create whom they fork. If
//! others can come later that no member forks, the company has an *aide*: one more thread, which sleeps until there is one to
//! be created. Companies that need none have none: a scheduler that counts threads would see it.
//!
//! When all members have ended, so does the aide, and with it the process. The next task of that name begins another.

use super::PlayError;
use super::actor::admit;
use super::prepare::describe;
use super::process::{Kinship, Scope};
use super::shared::{Role, Shared};
use host::sys;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use workload::{Op, Start, Workload};

/// The place where an aide sleeps: 0 while it does.
pub type Bell = Arc<AtomicU32>;

/// A process with a name.
#[derive(Default)]
pub struct Company {
    /// Tasks that were enrolled and have not ended.
    pub members: u32,
    /// Those of them that the leader or the aide is to create.
    pub waiting: Vec<Role>,
    /// Its aide's, whether it has one or not.
    pub bell: Bell,
}

impl Company {
    /// There is something to do for the aide: somebody waits, or nobody is left.
    pub fn ring(&self) {
        self.bell.store(1, SeqCst);
        sys::wake(&self.bell, 1);
    }
}

/// Names of the processes that need an aide: some tasks begin later than others, or are forked by those of other processes.
pub fn with_aide(workload: &Workload) -> BTreeSet<&str> {
    let name = |task: usize| workload.tasks[task].who.process.as_deref();
    let (mut starts, mut aided) = (BTreeMap::new(), BTreeSet::new());
    for (index, task) in workload.tasks.iter().enumerate() {
        if let (Some(own), Start::At(time)) = (name(index), task.start)
            && *starts.entry(own).or_insert(time) != time
        {
            aided.insert(own);
        }
        let forked = |op: &Op| if let Op::Fork(spec) = op { name(*spec as usize) } else { None };
        aided.extend(task.script.iter().filter_map(forked).filter(|forked| name(index) != Some(forked)));
    }
    aided
}

/// The calling task has begun the process of this name, as its spec says: it creates those that begin with it, and an aide if
/// one is needed.
pub fn begin<'scope, 'env, 'w>(shared: &'env Shared<'w>, scope: &'scope Scope<'scope, 'env>, name: &'w str, spec: u32) {
    let (waiting, bell) = shared.lead(name);
    waiting.into_iter().for_each(|role| admit(shared, scope, role));
    if !shared.aided.contains(name) {
        return;
    }
    let aide = move || {
        sys::set_name("weir-aide");
        assist(shared, scope, name, &bell);
    };
    if let Err(source) = scope.spawn(Kinship::Thread, spec, aide) {
        shared.fail(PlayError::Thread { task: describe(shared.workload, spec as usize), source });
    }
}

/// Creates whoever comes, until nobody is left.
fn assist<'scope, 'env, 'w>(shared: &'env Shared<'w>, scope: &'scope Scope<'scope, 'env>, name: &str, bell: &Bell) {
    loop {
        bell.store(0, SeqCst);
        let Some(waiting) = shared.take_waiting(name, bell) else { return };
        if waiting.is_empty() {
            sys::wait(bell, 0, sys::NEVER);
        }
        waiting.into_iter().for_each(|role| admit(shared, scope, role));
    }
}
