// SPDX-License-Identifier: GPL-2.0-only
//! Writes the value of a CO-RE relocation into its instruction.

use super::CoreKind;
use super::value::Outcome;
use crate::Function;
use crate::linked::LD_IMM64;

pub(super) const CLASS_LDX: u8 = 1;
pub(super) const CLASS_ST: u8 = 2;
pub(super) const CLASS_STX: u8 = 3;
const CLASS_ALU: u8 = 4;
const CLASS_ALU64: u8 = 7;
/// Bit of the operation code that makes the second operand a register.
const SOURCE_REGISTER: u8 = 8;
/// Bits of the operation code that hold the access size; values 0 to 3 mean 4, 2, 1 and 8 bytes.
const SIZE_MASK: u8 = 0x18;

/// Patches the instruction in `slot`. Returns a text if this kernel has no fitting value; the instruction then stays
/// unchanged. An error means that the object is malformed.
pub(super) fn apply(
    function: &mut Function,
    slot: u32,
    kind: CoreKind,
    outcome: Outcome,
) -> Result<Option<String>, String> {
    let at = slot as usize;
    let slots = function.insns.len();
    let insn = &mut function.insns[at];
    let value = match outcome.value {
        Ok(value) => value,
        Err(text) => return Ok(Some(text)),
    };
    let agrees = |found: u64, original: Option<u64>| match original {
        Some(original) if original != found => {
            Err(format!("the instruction holds {found}, but the types require {original}"))
        }
        _ => Ok(()),
    };
    match insn.code & 7 {
        CLASS_ALU | CLASS_ALU64 => {
            if insn.code & SOURCE_REGISTER != 0 {
                return Err(format!("instruction {:#04x} has no immediate", insn.code));
            }
            agrees(insn.imm as u32 as u64, outcome.original)?;
            // Takes the lower 32 bits, as the kernel does.
            insn.imm = value as u32 as i32;
        }
        CLASS_LDX | CLASS_ST | CLASS_STX => {
            agrees(insn.off as u64, outcome.original)?;
            let Ok(off) = i16::try_from(value) else {
                return Ok(Some(format!("is at offset {value} in this kernel, which a load or store cannot hold")));
            };
            if let Some(sizes) = outcome.access {
                match size_bits(sizes.new) {
                    Some(bits) if sizes.adjustable => insn.code = insn.code & !SIZE_MASK | bits,
                    _ => return Ok(Some(format!("has {} bytes in this kernel, not {}", sizes.new, sizes.original))),
                }
            }
            insn.off = off;
            if insn.code & 7 == CLASS_LDX && kind == CoreKind::FieldByteOffset {
                function.kernel_loads.push(slot);
            }
        }
        _ if insn.code == LD_IMM64 && insn.src == 0 && at + 1 < slots => {
            function.insns[at].imm = value as u32 as i32;
            function.insns[at + 1].imm = (value >> 32) as u32 as i32;
        }
        _ => return Err(format!("instruction {:#04x} cannot be relocated", insn.code)),
    }
    Ok(None)
}

fn size_bits(size: u64) -> Option<u8> {
    match size {
        4 => Some(0x00),
        2 => Some(0x08),
        1 => Some(0x10),
        8 => Some(0x18),
        _ => None,
    }
}
