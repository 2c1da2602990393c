// SPDX-License-Identifier: GPL-2.0-only
//! The clock and the speed of CPUs.
//!
//! 1. A CPU executes from the interrupt that wakes it, or from when it gets a task, until it owes nothing and has no
//!    task. A tick that an idle CPU takes does not count.
//! 2. Rates that changed are taken over at the end of whatever happened at that instant, in one place: the account is
//!    settled at the old rate, and what was planned is planned anew.
//! 3. Scheduler code and interrupts take the times of the machine file at any rate.

use crate::alarms::Alarm;
use crate::cpu::Cpu;
use crate::model::Model;
use crate::run::Run;
use ids::{CpuId, Nanos, TaskId};
use machine_model::{Halt, Machine};
use speed::{Processor, Signal};

/// How fast the CPUs are.
#[derive(Debug)]
pub(crate) struct Speed {
    processor: Processor,
    /// When the alarm is set for; [`Nanos::MAX`]: it is not.
    due: Nanos,
    /// Kept to be filled again.
    changed: Vec<CpuId>,
    /// Something was said to the processor since rates were followed last: before that nothing changes.
    touched: bool,
}

impl Speed {
    /// `None` if nothing makes a CPU of this machine slower or faster.
    pub fn new(machine: &Machine, tick: Nanos, signal: Signal) -> Option<Box<Speed>> {
        let processor = Processor::new(&machine.effects, &machine.topology, tick, signal)?;
        Some(Box::new(Speed { processor, due: Nanos::MAX, changed: Vec::new(), touched: true }))
    }

    /// The processor, to be told something.
    fn touch(&mut self) -> &mut Processor {
        self.touched = true;
        &mut self.processor
    }

    /// An interrupt reaches `cpu`, which sleeps, and was its own timer's: how long it takes to leave the idle state, if
    /// the machine has such.
    pub fn leave_idle(&mut self, now: Nanos, cpu: CpuId, own: bool, entry: &mut Cpu) -> Option<Nanos> {
        if std::mem::replace(&mut entry.executes, true) {
            return None;
        }
        self.touch().begin(now, cpu, own)
    }

    /// See [`Processor::energy_ratio_ppm`].
    pub fn energy_ratio_ppm(&mut self, now: Nanos) -> Option<u64> {
        self.processor.energy_ratio_ppm(now)
    }
}

impl<M: Model> Run<'_, M> {
    /// Notes whether `cpu` executes now.
    pub fn watch(&mut self, cpu: CpuId) {
        if self.machine.costs.halt.is_some() {
            let entry = &mut self.cpus[cpu.index()];
            if entry.sleeps() {
                entry.idle_since = entry.idle_since.min(self.now);
            } else if entry.current != TaskId::NONE {
                entry.idle_since = Nanos::MAX;
            }
        }
        let Some(speed) = &mut self.speed else { return };
        let entry = &mut self.cpus[cpu.index()];
        if entry.executes && entry.sleeps() {
            entry.executes = false;
            speed.touch().end(self.now, cpu);
        } else if !entry.executes && entry.current != TaskId::NONE {
            entry.executes = true;
            speed.touch().begin(self.now, cpu, false);
        }
    }

    /// What holds for `cpu` at this time, if it is given away by then because it idles.
    pub fn halt(&self, cpu: CpuId, at: Nanos) -> Option<Halt> {
        let since = self.cpus[cpu.index()].idle_since;
        self.machine.costs.halt.filter(|halt| since < Nanos::MAX && at >= since + Nanos(halt.after_ns))
    }

    /// The hardware or its governor looks at frequencies.
    pub fn speed_due(&mut self) {
        if let Some(speed) = &mut self.speed {
            speed.due = Nanos::MAX;
            speed.touch().run_due(self.now);
        }
    }

    /// The scheduler wants `cpu` to be so fast, of 1024.
    pub fn want_performance(&mut self, cpu: CpuId, target: u32) {
        if let Some(speed) = &mut self.speed {
            speed.touch().set_target(self.now, cpu, target);
            self.model.set_performance(cpu, speed.processor.performance(cpu));
        }
    }

    /// Takes over rates that changed.
    pub fn follow_rates(&mut self) {
        let Some(mut speed) = self.speed.take_if(|speed| speed.touched) else { return };
        while speed.processor.has_changed() {
            let mut changed = std::mem::take(&mut speed.changed);
            speed.processor.take_changed(&mut changed);
            for &cpu in &changed {
                self.model.set_performance(cpu, speed.processor.performance(cpu));
                let rate = speed.processor.rate(cpu);
                if rate == self.cpus[cpu.index()].rate {
                    continue;
                }
                self.settle(cpu);
                self.cpus[cpu.index()].rate = rate;
                self.speed = Some(speed);
                self.advance(cpu);
                speed = self.speed.take().expect("nobody else takes it");
            }
            changed.clear();
            speed.changed = changed;
        }
        let due = speed.processor.next_due().unwrap_or(Nanos::MAX);
        if due != speed.due {
            speed.due = due;
            match due {
                Nanos::MAX => self.alarms.cancel(Alarm::Speed),
                due => self.alarms.set(Alarm::Speed, due.max(self.now)),
            }
        }
        speed.touched = false;
        self.speed = Some(speed);
    }
}
