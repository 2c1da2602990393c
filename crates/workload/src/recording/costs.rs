// SPDX-License-Identifier: GPL-2.0-only
//! Scheduling costs on the machine of a recording.

use ids::Nanos;

/// CPU time of an event type, summarized over many events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// Low percentile.
    pub low: Nanos,
    /// Median.
    pub typical: Nanos,
    /// High percentile.
    pub high: Nanos,
}

/// Costs measured during the recording and removed from the tasks' work. `None`: not measured, so the work still
/// contains it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Costs {
    /// A context switch between tasks.
    pub switch: Option<Cost>,
    /// Waking a task, and putting it to sleep before that.
    pub wake: Option<Cost>,
    /// An IPI sent by a task to another CPU, usually for a wakeup there, in addition to `wake`.
    pub interrupt: Option<Cost>,
    /// An IPI to a CPU that had been idle so long that its hypervisor may have descheduled it.
    pub interrupt_to_halted: Option<Cost>,
    /// Overhead of the recorder when a task writes to or reads from a pipe or socket.
    pub pass: Option<Cost>,
    /// Ticks and other unavoidable interrupts, per second of a task's CPU time.
    pub ticks: Option<Cost>,
    /// One run of one of the recorder's BPF programs. It is included in the event that triggers it.
    pub probe: Option<Cost>,
}

impl Costs {
    /// All costs with their names in files, in the order of the struct.
    pub fn named(&self) -> [(&'static str, Option<Cost>); 7] {
        [
            ("switch", self.switch),
            ("wake", self.wake),
            ("interrupt", self.interrupt),
            ("interrupt_to_halted", self.interrupt_to_halted),
            ("pass", self.pass),
            ("ticks", self.ticks),
            ("probe", self.probe),
        ]
    }

    /// The cost of this name, to be set; `None` for an unknown name.
    pub(super) fn named_mut(&mut self, name: &str) -> Option<&mut Option<Cost>> {
        Some(match name {
            "switch" => &mut self.switch,
            "wake" => &mut self.wake,
            "interrupt" => &mut self.interrupt,
            "interrupt_to_halted" => &mut self.interrupt_to_halted,
            "pass" => &mut self.pass,
            "ticks" => &mut self.ticks,
            "probe" => &mut self.probe,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cost_has_a_unique_name() {
        for index in 0..Costs::default().named().len() {
            let name = Costs::default().named()[index].0;
            let mut costs = Costs::default();
            let cost = Cost { low: Nanos(1), typical: Nanos(2), high: Nanos(3) };
            *costs.named_mut(name).expect("its own name") = Some(cost);
            let set: Vec<usize> = (0..7).filter(|&other| costs.named()[other].1.is_some()).collect();
            assert_eq!((set, costs.named()[index]), (vec![index], (name, Some(cost))));
        }
        assert_eq!(Costs::default().named_mut("nonsense"), None);
    }
}
