// SPDX-License-Identifier: GPL-2.0-only
//! The kfunc that kicks CPUs.

use crate::core::Core;
use bpf_machine::{Context, FaultKind};

/// Implements `scx_bpf_kick_cpu(cpu, flags)`.
pub(super) fn kick_cpu(core: &mut Core, a: [u64; 5], _: &mut Context<'_>) -> Result<u64, FaultKind> {
    core.kick_cpu(a[0] as i32, a[1]);
    Ok(0)
}
