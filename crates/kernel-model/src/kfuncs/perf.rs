// SPDX-License-Identifier: GPL-2.0-only
//! Kfuncs for CPU performance levels and for the core's event counters.

use crate::core::Core;
use bpf_machine::{Context, FaultKind};
use ids::Topology;

/// Implements `scx_bpf_cpuperf_cap(cpu)`: returns the capacity relative to the fastest CPU, which has
/// `SCX_CPUPERF_ONE`; also returns that for an invalid CPU.
pub(super) fn cap(core: &mut Core, a: [u64; 5], _: &mut Context<'_>) -> Result<u64, FaultKind> {
    core.check_cpu(a[0] as i32);
    let capacity = core.config.topology.capacities.get(a[0] as u32 as usize);
    Ok(capacity.copied().unwrap_or(Topology::FULL_CAPACITY).into())
}

/// Implements `scx_bpf_cpuperf_cur(cpu)`.
pub(super) fn cur(core: &mut Core, a: [u64; 5], _: &mut Context<'_>) -> Result<u64, FaultKind> {
    Ok(core.cpuperf_cur(a[0] as i32).into())
}

/// Implements `scx_bpf_cpuperf_set(cpu, perf)`.
pub(super) fn set(core: &mut Core, a: [u64; 5], _: &mut Context<'_>) -> Result<u64, FaultKind> {
    core.cpuperf_set(a[0] as i32, a[1] as u32);
    Ok(0)
}

/// Implements `scx_bpf_events(events, events__sz)`: copies as many counters as fit; a program may know fewer or more of
/// them.
pub(super) fn events(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    let names = core.objects.types.counters();
    let counters: Vec<u8> = names.flat_map(|name| core.event_count(name).to_le_bytes()).collect();
    let len = counters.len().min(a[1] as usize);
    cx.memory.bytes_mut(a[0], len as u32)?.copy_from_slice(&counters[..len]);
    Ok(0)
}
