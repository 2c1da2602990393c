// SPDX-License-Identifier: GPL-2.0-only
//! Checks the records of a stored log before their consumers see them. A decoded record is well formed, but it may still
//! name a CPU, a task or a time that its run cannot have had; consumers use these as indexes and compute with them.

use crate::{Event, EventKind, LockKind, Record, Waker};
use ids::{CpuId, Nanos, TaskId};

/// Largest end of a run: a year, so that sums over some hundred tasks or CPUs fit into 64 bits.
pub const LONGEST: Nanos = Nanos::from_secs(365 * 24 * 3600);

/// Reason that a record does not belong to its run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OutOfBounds {
    /// A CPU that the machine does not have.
    #[error("CPU {cpu}: the machine has CPUs 0 to {last}")]
    Cpu {
        /// CPU of the record.
        cpu: CpuId,
        /// Last CPU of the machine.
        last: CpuId,
    },
    /// A task that was not announced, or none where one is needed.
    #[error("task {task}: {known} tasks have been announced")]
    Task {
        /// Task of the record, or `none`.
        task: String,
        /// Number of announced tasks.
        known: u32,
    },
    /// A task that is announced out of order.
    #[error("task {task} is announced after {known} tasks; expected task {known}")]
    Order {
        /// Task of the record.
        task: TaskId,
        /// Number of announced tasks.
        known: u32,
    },
    /// A time before that of an earlier record, or after the end of the run.
    #[error("time {time} ns; expected {from} to {to} ns", time = time.0, from = from.0, to = to.0)]
    Time {
        /// Time of the record.
        time: Nanos,
        /// Time of the record before.
        from: Nanos,
        /// End of the run.
        to: Nanos,
    },
}

/// The limits that the records of one run keep.
#[derive(Clone, Debug)]
pub struct Bounds {
    cpus: u32,
    end: Nanos,
    tasks: u32,
    now: Nanos,
}

impl Bounds {
    /// Limits of a run that ended at `end`, on a machine with this number of CPUs, at least one.
    pub fn new(cpus: usize, end: Nanos) -> Bounds {
        Bounds { cpus: cpus as u32, end: end.min(LONGEST), tasks: 0, now: Nanos::ZERO }
    }

    /// Checks the next record.
    ///
    /// # Errors
    /// The first thing that the run cannot have had.
    pub fn check(&mut self, record: &Record) -> Result<(), OutOfBounds> {
        match record {
            Record::SourceFile(..) => Ok(()),
            Record::Task(time, info) => {
                self.time(*time)?;
                info.parent.map_or(Ok(()), |parent| self.task(parent))?;
                if info.id.0 != self.tasks {
                    return Err(OutOfBounds::Order { task: info.id, known: self.tasks });
                }
                self.tasks += 1;
                Ok(())
            }
            Record::Affinity(time, task, _) => {
                self.time(*time)?;
                self.task(*task)
            }
            Record::Printk(printk) => {
                self.time(printk.time)?;
                self.cpu(printk.cpu)?;
                self.task_or_none(printk.task)
            }
            Record::Event(event) => self.event(event),
        }
    }

    fn event(&mut self, event: &Event) -> Result<(), OutOfBounds> {
        self.time(event.time)?;
        self.cpu(event.cpu)?;
        self.task_or_none(event.task)?;
        match event.kind {
            EventKind::Wakeup { waker, target, .. } => {
                self.task(event.task)?;
                self.cpu(target)?;
                match waker {
                    Waker::Task(by) | Waker::Fork(by) => self.task_or_none(by),
                    Waker::Timer | Waker::Interrupt | Waker::External => Ok(()),
                }
            }
            EventKind::SelectCpu { prev, chosen } => {
                self.task(event.task)?;
                self.cpu(prev).and(self.cpu(chosen))
            }
            EventKind::Dispatch { to, .. } => self.task(event.task).and(self.cpu(to)),
            EventKind::Migrate { from, to } => self.task(event.task).and(self.cpu(from)).and(self.cpu(to)),
            EventKind::Switch { prev, .. } => self.task_or_none(prev),
            EventKind::Kick { target, .. } => self.cpu(target),
            EventKind::Fork { child } => self.task_or_none(child),
            EventKind::LockWait { lock, waited } => {
                if let LockKind::Runqueue(cpu) = lock {
                    self.cpu(cpu)?;
                }
                if waited > self.end {
                    return Err(OutOfBounds::Time { time: waited, from: Nanos::ZERO, to: self.end });
                }
                Ok(())
            }
            EventKind::Insert { .. }
            | EventKind::Block { .. }
            | EventKind::Exit
            | EventKind::Affinity
            | EventKind::Priority { .. }
            | EventKind::Yield => self.task(event.task),
            EventKind::Tick
            | EventKind::Idle { .. }
            | EventKind::Hotplug { .. }
            | EventKind::Attached
            | EventKind::Disabled { .. } => Ok(()),
        }
    }

    fn time(&mut self, time: Nanos) -> Result<(), OutOfBounds> {
        if time < self.now || time > self.end {
            return Err(OutOfBounds::Time { time, from: self.now, to: self.end });
        }
        self.now = time;
        Ok(())
    }

    fn cpu(&self, cpu: CpuId) -> Result<(), OutOfBounds> {
        let last = CpuId(self.cpus.saturating_sub(1));
        if cpu.0 < self.cpus { Ok(()) } else { Err(OutOfBounds::Cpu { cpu, last }) }
    }

    fn task(&self, task: TaskId) -> Result<(), OutOfBounds> {
        if task.0 < self.tasks {
            return Ok(());
        }
        let task = task.some().map_or("none".to_owned(), |task| task.to_string());
        Err(OutOfBounds::Task { task, known: self.tasks })
    }

    fn task_or_none(&self, task: TaskId) -> Result<(), OutOfBounds> {
        task.some().map_or(Ok(()), |task| self.task(task))
    }
}
