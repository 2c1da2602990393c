// SPDX-License-Identifier: GPL-2.0-only
//! Fast path of frequently called kfuncs that only read and do not depend on their caller: they bypass the kfunc
//! table. Results and call counts equal those of their handlers.

use crate::core::Core;
use bpf_machine::Memory;
use ids::{CpuId, DsqId};

/// Names of the fast-path kfuncs; the index is the number that the BPF machine uses.
const NAMES: [&str; 5] =
    ["scx_bpf_now", "scx_bpf_task_cpu", "scx_bpf_dsq_nr_queued", "bpf_cpumask_test_cpu", "bpf_cpumask_intersects"];

/// Number of a kfunc, if it has a fast path.
pub(crate) fn number(name: &str) -> Option<u32> {
    NAMES.iter().position(|plain| *plain == name).map(|number| number as u32)
}

/// Result of a fast-path kfunc; `None` if the handler must be called, for example to report an error.
#[inline(always)]
pub(crate) fn answer(core: &Core, number: u32, args: [u64; 2], memory: &Memory) -> Option<u64> {
    match number {
        0 => Some(core.clock().0),
        1 => Some(core.task_cpu(core.objects.task_at(memory, args[0])?).0.into()),
        2 => Some(core.queues.user(DsqId(args[0]))?.len() as u64),
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
    fn fast_path_kfuncs_are_allowed_in_every_op() {
        for (number, name) in NAMES.iter().enumerate() {
            assert_eq!(super::number(name), Some(number as u32));
            let row = KFUNCS.iter().find(|kfunc| kfunc.name == *name).expect("it is in the table");
            assert!(row.is_unrestricted(), "{name}");
        }
        assert_eq!(super::number("scx_bpf_kick_cpu"), None);
        assert!(kfuncs::find("scx_bpf_now", 0, (7, 2)).is_some());
    }
}
