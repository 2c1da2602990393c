// SPDX-License-Identifier: GPL-2.0-only
//! Receivers of a run's events: the hash, the measures and the log.

use event_log::{Detail, Event, LogHash, Printk, Sink, TaskInfo};
use ids::{CpuSet, Nanos, TaskId, Topology};
use measures::Collector;

/// Receivers of each event.
pub(crate) struct Sinks<'a> {
    pub hash: LogHash,
    pub collector: Collector,
    log: &'a mut dyn Sink,
    /// The log requests details that events omit.
    pub wants_details: bool,
}

impl<'a> Sinks<'a> {
    /// Creates the hash and the measures beside this log.
    pub fn new(topology: &Topology, log: &'a mut dyn Sink) -> Sinks<'a> {
        let wants_details = log.wants_details();
        Sinks { hash: LogHash::new(), collector: Collector::new(topology), log, wants_details }
    }

    #[inline(always)]
    pub fn event(&mut self, event: &Event) {
        self.hash.event(event);
        self.collector.event(event);
        self.log.event(event);
    }

    pub fn task(&mut self, time: Nanos, info: &TaskInfo) {
        self.hash.task(time, info);
        self.collector.task(time, info);
        self.log.task(time, info);
    }

    pub fn source_file(&mut self, file: u16, name: &str) {
        self.hash.source_file(file, name);
        self.log.source_file(file, name);
    }

    pub fn printk(&mut self, printk: &Printk) {
        self.hash.printk(printk);
        self.log.printk(printk);
    }

    /// Details are not part of the hash, and are not measured.
    pub fn detail(&mut self, detail: &Detail) {
        self.log.detail(detail);
    }

    pub fn affinity(&mut self, time: Nanos, task: TaskId, allowed: &CpuSet) {
        self.hash.affinity(time, task, allowed);
        self.collector.affinity(time, task, allowed);
        self.log.affinity(time, task, allowed);
    }
}
