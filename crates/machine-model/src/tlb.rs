// SPDX-License-Identifier: GPL-2.0-only
//! TLB shootdowns of a machine. `docs/explanation/devices.md` has the rules.

use crate::Estimate;

/// Costs of a TLB shootdown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tlb {
    /// Time for which the initiator waits for the first target, in nanoseconds.
    pub wait_ns: Estimate,
    /// Time for which it waits for each further target, in nanoseconds.
    pub target_ns: Estimate,
    /// Interrupt of a target: entry, flush, acknowledgement, in nanoseconds.
    pub handler_ns: Estimate,
}

impl Tlb {
    /// Uncertain constants, with their group.
    pub(crate) fn estimates(&mut self) -> [(&'static str, &mut Estimate); 3] {
        [("tlb", &mut self.wait_ns), ("tlb", &mut self.target_ns), ("tlb", &mut self.handler_ns)]
    }
}
