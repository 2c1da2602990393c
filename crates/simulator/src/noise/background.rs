// SPDX-License-Identifier: GPL-2.0-only
//! Kernel background threads: real tasks that wake up now and then, need a CPU like any other task, and sleep again.
//!
//! 1. The machine is booted when a run begins: each thread has run once on its CPU and sleeps, at no cost.
//! 2. The first wakeup comes after a random part of a sleep time, as the phase of a thread's sleep is unknown.
//! 3. A thread of an offline CPU continues to sleep. One whose CPU goes offline while it runs completes its work
//!    there first.

use super::draw::Draw;
use crate::alarms::Alarm;
use crate::cpu::Charge;
use crate::interrupt::Interrupt;
use crate::model::Model;
use crate::run::{BOOT_CPU, Run};
use crate::tasks::Role;
use event_log::BlockCause;
use ids::{CpuId, CpuSet, Nanos, Policy, TaskId};
use kernel_model::{Identity, Leave, Operation, TaskAttributes};
use machine_model::{BackgroundThread, Machine};

/// A kernel background thread.
#[derive(Debug)]
pub(crate) struct Thread {
    name: String,
    nice: i8,
    /// The only CPU that it may use.
    cpu: Option<CpuId>,
    size: BackgroundThread,
    draw: Draw,
}

/// All threads of a machine, grouped by kind.
pub(super) fn threads(seed: u64, machine: &Machine) -> Vec<Thread> {
    let mut threads = Vec::new();
    for size in &machine.noise.threads {
        let mut thread = |name: String, cpu| {
            let draw = Draw::new(seed, &format!("thread {name}"));
            threads.push(Thread { name, nice: size.nice, cpu, size: size.clone(), draw });
        };
        if size.each_cpu {
            machine.all_cpus().iter().for_each(|cpu| thread(format!("{}/{cpu}", size.name), Some(cpu)));
        } else {
            thread(size.name.clone(), None);
        }
    }
    threads
}

impl Thread {
    fn sleep(&mut self) -> Nanos {
        Nanos(self.draw.time(&self.size.sleep_us).0 * 1_000)
    }

    fn work(&mut self) -> Nanos {
        self.draw.time(&self.size.work_ns).max(Nanos(1))
    }
}

impl<M: Model> Run<'_, M> {
    /// Creates the threads during boot, which takes no time.
    pub fn create_background(&mut self) {
        for number in 0..self.noise.threads.len() {
            let thread = &mut self.noise.threads[number];
            let cpu = thread.cpu.unwrap_or(BOOT_CPU);
            let first = thread.sleep();
            let first = thread.draw.before(first);
            let attributes = TaskAttributes {
                name: thread.name.clone(),
                policy: Policy::Other,
                nice: thread.nice,
                allowed: thread.cpu.map_or_else(|| self.machine.all_cpus(), |cpu| CpuSet::from_iter([cpu])),
                kernel_thread: true,
                own_cpu: thread.cpu,
                thread: false,
                parent: None,
                identity: Identity::default(),
            };
            let task = self.boot_thread(cpu, attributes, Role::Background(number as u32));
            self.alarms.set(Alarm::Sleep(task), first);
        }
    }

    /// Creates a kthread, which runs once on `cpu` and goes to sleep.
    pub fn boot_thread(&mut self, cpu: CpuId, attributes: TaskAttributes, role: Role) -> TaskId {
        let (task, result) = self.fork(cpu, attributes);
        result.expect("no scheduler is attached that could refuse it");
        let entry = &mut self.tasks[task];
        (entry.role, entry.slept_on) = (role, cpu);
        self.kernel.model.execute(cpu, Operation::WakeNew(task));
        let switch = self.kernel.model.execute(cpu, Operation::Schedule(Leave::Preempt));
        assert_eq!(switch.map(|switch| switch.next), Some(task), "no other task exists");
        self.kernel.model.execute(cpu, Operation::Schedule(Leave::Block(BlockCause::External)));
        self.apply(cpu, Charge::default());
        self.cpus[cpu].resched = false;
        task
    }

    /// The sleep of a task ends.
    pub fn sleep_over(&mut self, task: TaskId) {
        let entry = &self.tasks[task];
        let cpu = entry.slept_on;
        if let Role::Background(number) = entry.role {
            let thread = &mut self.noise.threads[number as usize];
            if thread.cpu.is_some_and(|own| self.cpus[own].offline) {
                let later = self.clock.now() + thread.sleep();
                return self.alarms.set(Alarm::Sleep(task), later);
            }
        }
        self.interrupt(cpu, Some(Interrupt::Sleep(task)));
    }

    /// Background thread `number` works, and sleeps again afterwards.
    pub fn run_background_thread(&mut self, cpu: CpuId, task: TaskId, number: u32) {
        let thread = &mut self.noise.threads[number as usize];
        let entry = &mut self.tasks[task];
        if !std::mem::replace(&mut entry.took_work, true) {
            return entry.begin_work(thread.work());
        }
        (entry.took_work, entry.slept_on, entry.slept_for) = (false, cpu, BlockCause::Timer);
        let over = self.clock.now() + thread.sleep();
        self.alarms.set(Alarm::Sleep(task), over);
        self.schedule(cpu, Leave::Block(BlockCause::Timer));
    }
}
