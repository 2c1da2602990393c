// SPDX-License-Identifier: GPL-2.0-only
//! What scheduling cost on the machine of a recording.

use ids::Nanos;

/// CPU time that one event took, over many of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// What nearly all of them took at least.
    pub low: Nanos,
    /// The median.
    pub typical: Nanos,
    /// What nearly none of them took more than.
    pub high: Nanos,
}

/// Costs that were measured while a workload was recorded, and taken out of its tasks' work. `None`: not measured, so
/// work still contains it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Costs {
    /// A switch from one task to another.
    pub switch: Option<Cost>,
    /// To wake a task, and its falling asleep before that.
    pub wake: Option<Cost>,
    /// An interrupt that a task sent to another CPU, mostly since it woke a task there, beyond the wakeup itself.
    pub interrupt: Option<Cost>,
    /// The same to a CPU that had idled so long that its hypervisor may have put it to sleep.
    pub interrupt_to_halted: Option<Cost>,
    /// For being seen by the recorder to write bytes to a pipe or socket, or to read some.
    pub pass: Option<Cost>,
    /// Ticks and other interrupts that a task cannot help, in each second of its time.
    pub ticks: Option<Cost>,
    /// One run of one of the recorder's own programs. It is contained in what causes it.
    pub probe: Option<Cost>,
}

impl Costs {
    /// All of them with their names in files, in the order of the struct.
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

    /// The one of this name, to be set; `None` for a name that is not known here.
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
    fn each_cost_has_one_name() {
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
