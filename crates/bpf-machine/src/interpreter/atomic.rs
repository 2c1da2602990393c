// SPDX-License-Identifier: GPL-2.0-only
//! Atomic instructions. One execution runs at a time, so each is a plain read-modify-write.

use crate::execution::REGS;
use crate::op::{Atomic, Op};
use crate::{FaultKind, Memory};

/// Executes a `Code::Atomic`.
pub(super) fn execute(op: &Op, r: &mut [u64; REGS], memory: &mut Memory) -> Result<(), FaultKind> {
    let (kind, bytes) = (Atomic::ALL[(op.imm >> 8) as usize], op.imm as u32 & 0xff);
    let (d, s) = (op.dst as usize, op.src as usize);
    let offset = i64::from(op.at) as u64;
    if kind == Atomic::LoadAcquire {
        r[d] = memory.load(r[s].wrapping_add(offset), bytes)?;
        return Ok(());
    }
    let addr = r[d].wrapping_add(offset);
    if kind == Atomic::StoreRelease {
        return memory.store(addr, bytes, r[s]);
    }
    // A failing read-modify-write faults as a store, before memory changes.
    let old = memory.load(addr, bytes).map_err(|_| memory.bad_store(addr, bytes))?;
    let operand = r[s];
    let new = match kind {
        Atomic::Add | Atomic::FetchAdd => old.wrapping_add(operand),
        Atomic::Or | Atomic::FetchOr => old | operand,
        Atomic::And | Atomic::FetchAnd => old & operand,
        Atomic::Xor | Atomic::FetchXor => old ^ operand,
        Atomic::Exchange => operand,
        Atomic::CompareExchange => {
            let expected = if bytes == 4 { u64::from(r[0] as u32) } else { r[0] };
            if old == expected { operand } else { old }
        }
        Atomic::LoadAcquire | Atomic::StoreRelease => unreachable!("handled above"),
    };
    memory.store(addr, bytes, new)?;
    match kind {
        Atomic::Add | Atomic::Or | Atomic::And | Atomic::Xor => {}
        Atomic::CompareExchange => r[0] = old,
        _ => r[s] = old,
    }
    Ok(())
}
