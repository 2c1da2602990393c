// SPDX-License-Identifier: GPL-2.0-only
//! Speed of the CPUs in a run.
//!
//! 1. A CPU counts as busy from the interrupt that wakes it, or from when it gets a task, until it owes no time and
//!    has no task. A tick on an idle CPU does not count.
//! 2. Changed rates are applied in one place, after all events of that instant: the account is settled at the old
//!    rate, and planned events are replanned.
//! 3. A deep idle state empties the private cache of its core.
//! 4. Scheduler code and interrupts take the times of the machine file at any rate.

use crate::alarms::Alarm;
use crate::cpu::Cpu;
use crate::memory::TaskMemory;
use crate::model::{MachineChange, Model};
use crate::run::Run;
use ids::{CpuId, Nanos, TaskId};
use machine_model::{Halt, Machine};
use speed::{Processor, Signal};
use std::borrow::Cow;

/// Speed model of the CPUs.
#[derive(Debug)]
pub(crate) struct Speed {
    processor: Processor,
    /// Buffer, kept for reuse.
    changed: Vec<CpuId>,
    /// The processor was notified since rates were last applied; otherwise no rate has changed.
    touched: bool,
}

impl Speed {
    /// Creates the model; `None` if no effect of this machine changes a CPU's speed. `limit` is the largest exit latency
    /// of idle states that the workload permits.
    pub fn new(machine: &Machine, limit: Option<Nanos>, tick: Nanos, signal: Signal) -> Option<Box<Speed>> {
        let mut effects = Cow::Borrowed(&machine.effects);
        limit.into_iter().for_each(|limit| effects.to_mut().limit_idle_exit(limit));
        let processor = Processor::new(&effects, &machine.topology, tick, signal)?;
        Some(Box::new(Speed { processor, changed: Vec::new(), touched: true }))
    }

    /// The processor, which is about to be notified.
    fn touch(&mut self) -> &mut Processor {
        self.touched = true;
        &mut self.processor
    }

    /// An interrupt arrives at the sleeping `cpu`; `own` tells whether it is its own timer. Returns the exit latency
    /// of the idle state, if the machine has idle states. A deep one has emptied the private cache.
    pub fn leave_idle(
        &mut self,
        now: Nanos,
        cpu: CpuId,
        own: bool,
        entry: &mut Cpu,
        memory: Option<&mut TaskMemory>,
    ) -> Option<Nanos> {
        if std::mem::replace(&mut entry.executes, true) {
            return None;
        }
        let exit = self.touch().begin(now, cpu, own);
        if let Some(memory) = memory
            && self.processor.take_emptied(cpu)
        {
            memory.flush(cpu);
        }
        exit
    }

    /// See [`Processor::energy_ratio_ppm`].
    pub fn energy_ratio_ppm(&mut self, now: Nanos) -> Option<u64> {
        self.processor.energy_ratio_ppm(now)
    }
}

impl<M: Model> Run<'_, M> {
    /// Notes whether `cpu` is busy now.
    pub fn watch(&mut self, cpu: CpuId) {
        if self.machine.costs.halt.is_some() {
            let entry = &mut self.cpus[cpu];
            if entry.sleeps() {
                entry.idle_since = entry.idle_since.min(self.clock.now());
            } else if entry.current != TaskId::NONE {
                entry.idle_since = Nanos::MAX;
            }
        }
        let Some(speed) = &mut self.speed else { return };
        let entry = &mut self.cpus[cpu];
        if entry.executes && entry.sleeps() {
            entry.executes = false;
            speed.touch().end(self.clock.now(), cpu);
        } else if !entry.executes && entry.current != TaskId::NONE {
            entry.executes = true;
            speed.touch().begin(self.clock.now(), cpu, false);
            if let Some(memory) = &mut self.memory
                && speed.processor.take_emptied(cpu)
            {
                memory.flush(cpu);
            }
        }
    }

    /// Costs that apply to `cpu` at time `at`, if it is descheduled by then because it idles.
    pub fn halt(&self, cpu: CpuId, at: Nanos) -> Option<Halt> {
        let since = self.cpus[cpu].idle_since;
        self.machine.costs.halt.filter(|halt| since < Nanos::MAX && at >= since + Nanos(halt.after_ns))
    }

    /// The timer of the frequency hardware or its governor expires, or rates of memory are due.
    pub fn pace_due(&mut self) {
        self.pace_due = Nanos::MAX;
        let now = self.clock.now();
        if let Some(speed) = &mut self.speed
            && speed.processor.next_due().is_some_and(|due| due <= now)
        {
            speed.touch().run_due(now);
        }
        self.memory_due();
    }

    /// The scheduler sets a performance target for `cpu`, from 0 to 1024.
    pub fn want_performance(&mut self, cpu: CpuId, target: u32) {
        if let Some(speed) = &mut self.speed {
            speed.touch().set_target(self.clock.now(), cpu, target);
            let change = MachineChange::Performance(speed.processor.performance(cpu));
            self.kernel.model.change_machine(cpu, change);
        }
    }

    /// Applies changed rates, and plans the next change.
    pub fn follow_rates(&mut self) {
        let touched = self.speed.as_ref().is_some_and(|speed| speed.touched);
        if touched {
            self.follow_speed();
        }
        if touched || self.memory.is_some() {
            self.plan_pace();
        }
    }

    fn follow_speed(&mut self) {
        let Some(mut speed) = self.speed.take() else { return };
        while speed.processor.has_changed() {
            let mut changed = std::mem::take(&mut speed.changed);
            speed.processor.take_changed(&mut changed);
            for &cpu in &changed {
                let change = MachineChange::Performance(speed.processor.performance(cpu));
                self.kernel.model.change_machine(cpu, change);
                let rate = speed.processor.rate(cpu);
                if rate == self.cpus[cpu].pace.cpu() {
                    continue;
                }
                self.settle(cpu);
                self.cpus[cpu].pace.set_cpu(rate);
                self.speed = Some(speed);
                self.advance(cpu);
                speed = self.speed.take().expect("only this function takes it");
            }
            changed.clear();
            speed.changed = changed;
        }
        speed.touched = false;
        self.speed = Some(speed);
    }

    /// Sets the alarm for the next change of speed or memory.
    fn plan_pace(&mut self) {
        let now = self.clock.now();
        let speed = self.speed.as_mut().and_then(|speed| speed.processor.next_due()).unwrap_or(Nanos::MAX);
        let memory = self.memory.as_mut().map_or(Nanos::MAX, |memory| memory.due(now));
        let due = speed.min(memory);
        if due != self.pace_due {
            self.pace_due = due;
            match due {
                Nanos::MAX => self.alarms.cancel(Alarm::Pace),
                due => self.alarms.set(Alarm::Pace, due.max(now)),
            }
        }
    }
}
