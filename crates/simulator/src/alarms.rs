// SPDX-License-Identifier: GPL-2.0-only
//! Mapping of alarms to slots of the event queue.

use crate::noise::draw::Draw;
use crate::queue::EventQueue;
use ids::{CpuId, Nanos, TaskId};
use kernel_model::TimerKey;
use std::collections::BTreeMap;

/// Event that can be due at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Alarm {
    /// The CPU's own next event: it is free again, the work of its task is done, or its tick is due.
    Cpu(CpuId),
    /// The rescheduling interrupt arrives at the CPU.
    Resched(CpuId),
    /// The external parent starts the next task.
    Start,
    /// The next step of the fault plan is due.
    Fault,
    /// The next step of attaching or detaching the scheduler is due.
    Load,
    /// A planned call of a program of the scheduler is due.
    Call,
    /// The sleep of the task ends.
    Sleep(TaskId),
    /// A kernel timer expires on this CPU. There is one alarm per key.
    Timer(TimerKey, CpuId),
    /// The host steals the CPU.
    Theft(CpuId),
    /// Requests to disks are complete.
    Disk,
    /// The frequency hardware or its governor takes a sample, or rates of memory are computed.
    Pace,
}

/// Event queue indexed by alarms. Slots: the CPUs' own alarms, their rescheduling interrupts, their stolen time, the
/// starts, the faults, the scheduler, the speed, the calls, the disks, then alternately tasks and timers, whose numbers both
/// grow.
#[derive(Debug)]
pub(crate) struct Alarms {
    queue: EventQueue,
    /// Random order of alarms that are due at the same time; `None`: the order of their slots.
    order: Option<Draw>,
    cpus: u32,
    timers: Vec<(TimerKey, CpuId)>,
    timer_numbers: BTreeMap<TimerKey, u32>,
    /// Slot of the alarm that was taken last.
    ringing: u32,
}

impl Alarms {
    /// Creates the alarms of a machine of this size.
    pub fn new(cpus: usize, order: Option<Draw>) -> Alarms {
        let (queue, cpus) = (EventQueue::default(), cpus as u32);
        Alarms { queue, order, cpus, timers: Vec::new(), timer_numbers: BTreeMap::new(), ringing: 0 }
    }

    /// Sets or moves an alarm.
    #[inline(always)]
    pub fn set(&mut self, alarm: Alarm, time: Nanos) {
        let slot = self.slot(alarm);
        if let Alarm::Timer(key, cpu) = alarm {
            let number = self.timer_number(key);
            self.timers[number as usize].1 = cpu;
        }
        self.set_slot(slot, time);
    }

    #[inline]
    fn set_slot(&mut self, slot: u32, time: Nanos) {
        let rank = self.order.as_mut().map_or(0, Draw::word);
        self.queue.set(slot, time, rank);
    }

    /// Cancels an alarm.
    pub fn cancel(&mut self, alarm: Alarm) {
        let slot = self.slot(alarm);
        self.queue.cancel(slot);
    }

    /// Moves the timers of a CPU that goes offline to another one.
    pub fn move_timers(&mut self, from: CpuId, to: CpuId) {
        self.timers.iter_mut().filter(|(_, cpu)| *cpu == from).for_each(|(_, cpu)| *cpu = to);
    }

    /// Postpones all alarms that are set.
    pub fn postpone(&mut self, by: Nanos) {
        for slot in 0..self.queue.slots() {
            if let Some(due) = self.queue.due(slot) {
                self.set_slot(slot, due + by);
            }
        }
    }

    /// CPU that a timer was last set for, if it was ever set.
    pub fn timer_cpu(&self, key: TimerKey) -> Option<CpuId> {
        self.timer_numbers.get(&key).map(|&number| self.timers[number as usize].1)
    }

    /// Whether the order of simultaneous alarms is random; then each alarm that is set consumes a random number.
    pub fn are_drawn(&self) -> bool {
        self.order.is_some()
    }

    /// Whether the alarm of `cpu`, if it were due now, would have been taken before the current one.
    pub fn comes_before_this(&self, cpu: CpuId) -> bool {
        cpu.0 < self.ringing
    }

    /// Time at which an alarm is due.
    pub fn due(&mut self, alarm: Alarm) -> Option<Nanos> {
        let slot = self.slot(alarm);
        self.queue.due(slot)
    }

    /// Time of the next alarm.
    pub fn next_due(&self) -> Option<Nanos> {
        self.queue.next_due()
    }

    /// Takes the next alarm.
    pub fn pop(&mut self) -> Option<(Nanos, Alarm)> {
        let (time, slot) = self.queue.pop()?;
        self.ringing = slot;
        let alarm = if slot < self.cpus {
            Alarm::Cpu(CpuId(slot))
        } else if slot < 2 * self.cpus {
            Alarm::Resched(CpuId(slot - self.cpus))
        } else if slot < 3 * self.cpus {
            Alarm::Theft(CpuId(slot - 2 * self.cpus))
        } else {
            match slot - 3 * self.cpus {
                0 => Alarm::Start,
                1 => Alarm::Fault,
                2 => Alarm::Load,
                3 => Alarm::Pace,
                4 => Alarm::Call,
                5 => Alarm::Disk,
                even if even % 2 == 0 => Alarm::Sleep(TaskId((even - 6) / 2)),
                odd => {
                    let (key, cpu) = self.timers[(odd as usize - 7) / 2];
                    Alarm::Timer(key, cpu)
                }
            }
        };
        Some((time, alarm))
    }

    #[inline(always)]
    fn slot(&mut self, alarm: Alarm) -> u32 {
        let rest = 3 * self.cpus;
        match alarm {
            Alarm::Theft(cpu) => 2 * self.cpus + cpu.0,
            Alarm::Cpu(cpu) => cpu.0,
            Alarm::Resched(cpu) => self.cpus + cpu.0,
            Alarm::Start => rest,
            Alarm::Fault => rest + 1,
            Alarm::Load => rest + 2,
            Alarm::Pace => rest + 3,
            Alarm::Call => rest + 4,
            Alarm::Disk => rest + 5,
            Alarm::Sleep(task) => rest + 6 + 2 * task.0,
            Alarm::Timer(key, _) => rest + 7 + 2 * self.timer_number(key),
        }
    }

    fn timer_number(&mut self, key: TimerKey) -> u32 {
        if let Some(&number) = self.timer_numbers.get(&key) {
            return number;
        }
        let number = self.timers.len() as u32;
        self.timers.push((key, CpuId(0)));
        self.timer_numbers.insert(key, number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bpf_machine::TimerId;

    #[test]
    fn alarms_at_the_same_time_expire_in_slot_order() {
        let all = [
            Alarm::Cpu(CpuId(0)),
            Alarm::Cpu(CpuId(2)),
            Alarm::Resched(CpuId(0)),
            Alarm::Resched(CpuId(2)),
            Alarm::Theft(CpuId(1)),
            Alarm::Start,
            Alarm::Fault,
            Alarm::Load,
            Alarm::Call,
            Alarm::Sleep(TaskId(0)),
            Alarm::Timer(TimerKey::Bpf(TimerId(7)), CpuId(1)),
            Alarm::Sleep(TaskId(1)),
            Alarm::Timer(TimerKey::Watchdog, CpuId(2)),
        ];
        let mut alarms = Alarms::new(3, None);
        for alarm in all {
            alarms.set(alarm, Nanos(5));
        }
        alarms.set(Alarm::Sleep(TaskId(1)), Nanos(4));
        alarms.cancel(Alarm::Start);
        alarms.postpone(Nanos(10));
        alarms.move_timers(CpuId(2), CpuId(0));
        let order: Vec<(Nanos, Alarm)> = std::iter::from_fn(|| alarms.pop()).collect();
        let moved = Alarm::Timer(TimerKey::Watchdog, CpuId(0));
        let rest = [all[0], all[1], all[2], all[3], all[4], all[6], all[7], all[8], all[9], all[10], moved];
        assert_eq!(order[0], (Nanos(14), all[11]));
        assert_eq!(order[1..], rest.map(|alarm| (Nanos(15), alarm)));
    }

    #[test]
    fn random_order_of_simultaneous_alarms_is_fair() {
        let mut alarms = Alarms::new(2, Some(Draw::new(1, "test")));
        let mut first = || {
            alarms.set(Alarm::Cpu(CpuId(0)), Nanos(5));
            alarms.set(Alarm::Cpu(CpuId(1)), Nanos(5));
            alarms.set(Alarm::Start, Nanos(6));
            let order: Vec<Alarm> = std::iter::from_fn(|| alarms.pop()).map(|(_, alarm)| alarm).collect();
            assert_eq!((order.len(), order[2]), (3, Alarm::Start), "time precedes the random order");
            order[0]
        };
        let zeros = (0..1_000).filter(|_| first() == Alarm::Cpu(CpuId(0))).count();
        assert!((400..600).contains(&zeros), "CPU 0 was first {zeros} times of 1000");
    }
}
