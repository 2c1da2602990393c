// SPDX-License-Identifier: GPL-2.0-only
//! Conversion of usage to nanoseconds; the only place where counts become time.

use ids::{CpuId, Nanos};
use kernel_model::Usage;
use machine_model::{Costs, Machine};

/// Time that the scheduler's code takes on this machine: instructions, callbacks entered, kfuncs and helpers by kind.
/// Fractions of a nanosecond are dropped once for the sum.
pub(crate) fn price(costs: &Costs, usage: &Usage) -> Nanos {
    let instructions = usage.instructions * costs.instruction_ps / 1_000;
    let calls: u64 = usage.calls.iter().zip(&costs.call_ns).map(|(count, ns)| count * ns).sum();
    Nanos(instructions + usage.callbacks * costs.callback_ns + calls)
}

/// Time from sending an interprocessor interrupt to the start of its handler.
pub(crate) fn ipi(machine: &Machine, from: CpuId, to: CpuId) -> Nanos {
    Nanos(machine.costs.ipi(machine.topology.locality(from, to)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_priced_by_the_machines_numbers() {
        let costs = Costs {
            context_switch_ns: 0,
            ipi_ns: [0; 3],
            ipi_send_ns: 0,
            idle_exit_ns: 0,
            halt: None,
            interrupt_ns: 0,
            tick_ns: 0,
            instruction_ps: 300,
            callback_ns: 20,
            call_ns: [1, 10, 100, 1_000, 10_000, 100_000],
            wakeup_ns: 0,
            fork_ns: 0,
            clone_ns: 0,
            attach_ns: 0,
            disable_ns: 0,
        };
        let usage = Usage { callbacks: 2, instructions: 15, calls: [1, 2, 3, 4, 5, 6] };
        assert_eq!(price(&costs, &usage), Nanos(4 + 40 + 654_321));
        assert_eq!(price(&costs, &Usage::default()), Nanos(0));
    }
}
