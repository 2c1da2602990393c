// SPDX-License-Identifier: GPL-2.0-only
//! Kfuncs that are called most, only read, and need to know nothing of their caller: they are answered without the way
//! through the table. What they answer, and what they count, is what their handlers in the table would.

use crate::core::Core;
use bpf_machine::Memory;
use ids::{CpuId, DsqId};

/// Their names, each at the number by which the machine knows it.
const NAMES: [&str; 5] =
    ["scx_bpf_now", "scx_bpf_task_cpu", "scx_bpf_dsq_nr_queued", "bpf_cpumask_test_cpu", "bpf_cpumask_intersects"];

/// The number of a kfunc, if it is one of these.
pub(crate) fn number(name: &str) -> Option<u32> {
    NAMES.iter().position(|plain| *plain == name).map(|number| number as u32)
}

/// What it answers; `None` where the handler has to say more, errors among it.
#[inline(always)]
pub(crate) fn answer(core: &Core, number: u32, args: [u64; 2], memory: &Memory) -> Option<u64> {
    match number {
        0 => Some(core.clock().0),
        1 => Some(core.task_cpu(core.objects.task_at(memory, args[0])?).0.into()),
        2 => Some(core.dsqs.get(&DsqId(args[0]))?.len() as u64),
        3 => {
            let (cpu, mask, masks) = (CpuId(args[0] as u32), args[1], &core.objects);
            masks.task_may_use(memory, mask, cpu).or_else(|| masks.any_mask_holds(memory, mask, cpu)).map(u64::from)
        }
        4 => core.objects.masks_intersect(memory, args).ok().map(u64::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kfuncs::{self, table::KFUNCS};

    #[test]
    fn every_program_may_call_them() {
        for (number, name) in NAMES.iter().enumerate() {
            assert_eq!(super::number(name), Some(number as u32));
            let row = KFUNCS.iter().find(|kfunc| kfunc.name == *name).expect("it is in the table");
            assert!(row.is_unrestricted(), "{name}");
        }
        assert_eq!(super::number("scx_bpf_kick_cpu"), None);
        assert!(kfuncs::find("scx_bpf_now", 0, (7, 2)).is_some());
    }
}
