// SPDX-License-Identifier: GPL-2.0-only
//! Ticket transfers: a client that sleeps until its server has worked for it lends the server its tickets meanwhile
//! (C. A. Waldspurger and W. E. Weihl, 1994, section 3.1). The kernel does not know which task waits for which, so
//! the workload declares it.

use crate::Workload;
use crate::check::Flaw;
use crate::window::kept_of_name;
use std::collections::{BTreeMap, BTreeSet};

/// A task that lends tickets, or is lent tickets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lending<'a> {
    /// Task name as truncated by the kernel.
    pub task: &'a str,
    /// Number of its server; 0 if it lends to none.
    pub lends_to: u32,
    /// Its number as a server, from 1 in the order of names; 0 if it is no server.
    pub lent_as: u32,
}

impl Workload {
    /// All clients and servers, in the order of their names, each name once.
    pub fn lending(&self) -> Vec<Lending<'_>> {
        let name = |spec: u32| kept_of_name(&self.tasks[spec as usize].name);
        let clients = self.tasks.iter().filter_map(|task| Some((kept_of_name(&task.name), name(task.lends?))));
        let clients: BTreeMap<&str, &str> = clients.collect();
        let servers: BTreeSet<&str> = clients.values().copied().collect();
        let number = |name: &str| servers.iter().position(|server| *server == name).map_or(0, |at| at as u32 + 1);
        let all: BTreeSet<&str> = clients.keys().chain(&servers).copied().collect();
        let lending = |task| Lending {
            task,
            lends_to: clients.get(task).map_or(0, |server| number(server)),
            lent_as: number(task),
        };
        all.into_iter().map(lending).collect()
    }

    /// Schedulers identify clients by name: tasks with the same name must lend to the same server, and a server's
    /// name must be unique.
    pub(crate) fn check_lending(&self) -> Result<(), Flaw> {
        for (task, spec) in self.tasks.iter().enumerate() {
            let Some(server) = spec.lends else { continue };
            let flaw = |problem| Err(Flaw { task, op: None, problem });
            let Some(lent) = self.tasks.get(server as usize).filter(|_| server as usize != task) else {
                return flaw(format!("it lends to task number {server}; expected a different, existing task"));
            };
            let alike = |kept| self.tasks.iter().filter(move |other| kept_of_name(&other.name) == kept);
            let kept = kept_of_name(&lent.name);
            if alike(kept).count() > 1 {
                return flaw(format!("it lends to {kept:?}, but in the kernel several tasks have that name"));
            }
            if let Some(other) = alike(kept_of_name(&spec.name)).find(|other| other.lends != spec.lends) {
                let names = format!("{:?} and {:?}", spec.name, other.name);
                return flaw(format!("{names} have the same name in the kernel, but do not lend to the same task"));
            }
        }
        Ok(())
    }
}
