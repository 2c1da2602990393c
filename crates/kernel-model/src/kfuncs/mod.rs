// SPDX-License-Identifier: GPL-2.0-only
//! The kfunc table: name, versions, allowed contexts, cost nature, handler. Data first, handlers beside it.

use crate::core::Core;
use bpf_machine::{Context, FaultKind};

/// A group of kfuncs that an op may or may not call (contract 1.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Group {
    /// From anywhere.
    Any,
    /// Built-in idle tracking: from anywhere.
    Idle,
    /// dsq_insert*.
    Enqueue,
    /// move_to_local, slots, cancel, dsq_move*.
    Dispatch,
    /// select_cpu_dfl, select_cpu_and.
    Select,
    /// create_dsq, and dsq_move*/select_cpu_* outside of locks.
    Unlocked,
    /// Synchronous reenqueue_local.
    Release,
    /// scx_bpf_dump.
    Dump,
}

/// Number of the kfunc with this name and parameter count in `version`, if that kernel has it.
pub(crate) fn find(name: &str, parameters: u32, version: (u16, u16)) -> Option<u32> { todo!("{name} {parameters} {version:?}") }
/// Its groups: allowed if any of them is.
pub(crate) fn groups(kfunc: u32) -> &'static [Group] { todo!("{kfunc}") }
/// What it costs: index of `machine_model::Nature`.
pub(crate) fn nature(kfunc: u32) -> usize { todo!("{kfunc}") }
/// Its name.
pub(crate) fn name(kfunc: u32) -> &'static str { todo!("{kfunc}") }
/// Calls it.
pub(crate) fn call(core: &mut Core, kfunc: u32, args: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> { todo!("{core:?} {kfunc} {args:?} {cx:?}") }
/// What a helper costs: index of `machine_model::Nature`.
pub(crate) fn helper_nature(helper: u32) -> usize { todo!("{helper}") }
/// Calls a helper that the BPF machine leaves to the kernel.
pub(crate) fn helper(core: &mut Core, helper: u32, args: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> { todo!("{core:?} {helper} {args:?} {cx:?}") }
