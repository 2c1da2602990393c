// SPDX-License-Identifier: GPL-2.0-only
//! The inner loop: arithmetic, jumps, loads and stores. It leaves calls and all that can pause to the outer loop, so
//! that it needs neither the host nor the frames and is compiled twice: with counts of instructions and without.

use crate::Memory;
use crate::op::{Code, Op};

/// Why the inner loop stopped.
pub(super) enum Stop {
    /// At an instruction that it leaves to the outer loop; not yet counted.
    Special,
    /// The budget is used up.
    Budget,
    /// A load that faults.
    BadLoad { addr: u64, size: u32 },
    /// A store that faults.
    BadStore { addr: u64, size: u32 },
}

/// What the inner loop changes besides registers and memory.
pub(super) struct Progress {
    /// Index of the next op; of the faulting one after a fault.
    pub pc: usize,
    /// Instructions left of the budget.
    pub left: u64,
    /// Loads that gave 0 instead of a fault.
    pub probe_reads: u64,
}

/// Whoever counts instructions.
pub(super) trait Count {
    /// The op with this index is executed.
    fn executes(&mut self, pc: usize);
    /// It was not, after all.
    fn takes_back(&mut self, pc: usize);
}

/// Nobody.
impl Count for () {
    #[inline(always)]
    fn executes(&mut self, _: usize) {}
    #[inline(always)]
    fn takes_back(&mut self, _: usize) {}
}

impl Count for [u64] {
    #[inline(always)]
    fn executes(&mut self, pc: usize) {
        self[pc] += 1;
    }
    #[inline(always)]
    fn takes_back(&mut self, pc: usize) {
        self[pc] -= 1;
    }
}

/// Upper half of arena addresses in user space: where the kernel maps an arena on x86 by default (contract 3.2).
const ARENA_USER_BASE: u64 = 1 << 44;

/// Runs until something stops it. One function, however long: the dispatch has to be one jump table.
pub(super) fn run<C: Count + ?Sized>(
    ops: &[Op],
    r: &mut [u64; 16],
    memory: &mut Memory,
    progress: &mut Progress,
    count: &mut C,
) -> Stop {
    use Code::*;
    let mut pc = progress.pc;
    let mut left = progress.left;
    let stop = loop {
        let op = &ops[pc];
        if left == 0 {
            break Stop::Budget;
        }
        left -= 1;
        count.executes(pc);
        pc += 1;
        let (d, s) = (usize::from(op.dst & 15), usize::from(op.src & 15));
        let k = op.imm as u64;

        // The result of an operation on 64 or 32 bits; the latter clears the upper half.
        macro_rules! alu64k {
            ($f:expr) => {
                r[d] = $f(r[d], k)
            };
        }
        macro_rules! alu64x {
            ($f:expr) => {
                r[d] = $f(r[d], r[s])
            };
        }
        macro_rules! alu32k {
            ($f:expr) => {
                r[d] = u64::from($f(r[d] as u32, k as u32))
            };
        }
        macro_rules! alu32x {
            ($f:expr) => {
                r[d] = u64::from($f(r[d] as u32, r[s] as u32))
            };
        }
        macro_rules! jump {
            ($condition:expr) => {
                if $condition {
                    pc = op.at as usize;
                }
            };
        }
        macro_rules! load {
            ($bytes:literal, $extend:expr) => {{
                let addr = r[s].wrapping_add(i64::from(op.at) as u64);
                match memory.load_le::<$bytes>(addr) {
                    Some(value) => r[d] = $extend(value),
                    None if op.probe => {
                        progress.probe_reads += 1;
                        r[d] = 0;
                    }
                    None => {
                        pc -= 1;
                        break Stop::BadLoad { addr, size: $bytes };
                    }
                }
            }};
        }
        macro_rules! store {
            ($bytes:literal, $value:expr) => {{
                let addr = r[d].wrapping_add(i64::from(op.at) as u64);
                if memory.store_le::<$bytes>(addr, $value).is_none() {
                    pc -= 1;
                    break Stop::BadStore { addr, size: $bytes };
                }
            }};
        }

        match op.code {
            Add64K => alu64k!(u64::wrapping_add),
            Add64X => alu64x!(u64::wrapping_add),
            Add32K => alu32k!(u32::wrapping_add),
            Add32X => alu32x!(u32::wrapping_add),
            Sub64K => alu64k!(u64::wrapping_sub),
            Sub64X => alu64x!(u64::wrapping_sub),
            Sub32K => alu32k!(u32::wrapping_sub),
            Sub32X => alu32x!(u32::wrapping_sub),
            Mul64K => alu64k!(u64::wrapping_mul),
            Mul64X => alu64x!(u64::wrapping_mul),
            Mul32K => alu32k!(u32::wrapping_mul),
            Mul32X => alu32x!(u32::wrapping_mul),
            Div64K => alu64k!(div64),
            Div64X => alu64x!(div64),
            Div32K => alu32k!(div32),
            Div32X => alu32x!(div32),
            Sdiv64K => alu64k!(sdiv64),
            Sdiv64X => alu64x!(sdiv64),
            Sdiv32K => alu32k!(sdiv32),
            Sdiv32X => alu32x!(sdiv32),
            Mod64K => alu64k!(mod64),
            Mod64X => alu64x!(mod64),
            Mod32K => alu32k!(mod32),
            Mod32X => alu32x!(mod32),
            Smod64K => alu64k!(smod64),
            Smod64X => alu64x!(smod64),
            Smod32K => alu32k!(smod32),
            Smod32X => alu32x!(smod32),
            Or64K => alu64k!(|a, b| a | b),
            Or64X => alu64x!(|a, b| a | b),
            Or32K => alu32k!(|a, b| a | b),
            Or32X => alu32x!(|a, b| a | b),
            And64K => alu64k!(|a, b| a & b),
            And64X => alu64x!(|a, b| a & b),
            And32K => alu32k!(|a, b| a & b),
            And32X => alu32x!(|a, b| a & b),
            Xor64K => alu64k!(|a, b| a ^ b),
            Xor64X => alu64x!(|a, b| a ^ b),
            Xor32K => alu32k!(|a, b| a ^ b),
            Xor32X => alu32x!(|a, b| a ^ b),
            // Shift counts are taken modulo the width (RFC 9669, 4.1), which is what `wrapping_shl` does.
            Lsh64K => alu64k!(|a: u64, b| a.wrapping_shl(b as u32)),
            Lsh64X => alu64x!(|a: u64, b| a.wrapping_shl(b as u32)),
            Lsh32K => alu32k!(u32::wrapping_shl),
            Lsh32X => alu32x!(u32::wrapping_shl),
            Rsh64K => alu64k!(|a: u64, b| a.wrapping_shr(b as u32)),
            Rsh64X => alu64x!(|a: u64, b| a.wrapping_shr(b as u32)),
            Rsh32K => alu32k!(u32::wrapping_shr),
            Rsh32X => alu32x!(u32::wrapping_shr),
            Arsh64K => alu64k!(|a, b| (a as i64).wrapping_shr(b as u32) as u64),
            Arsh64X => alu64x!(|a, b| (a as i64).wrapping_shr(b as u32) as u64),
            Arsh32K => alu32k!(|a, b| (a as i32).wrapping_shr(b) as u32),
            Arsh32X => alu32x!(|a, b| (a as i32).wrapping_shr(b) as u32),
            Mov64K => r[d] = k,
            Mov64X => r[d] = r[s],
            Mov32K => r[d] = u64::from(k as u32),
            Mov32X => r[d] = u64::from(r[s] as u32),
            Neg64 => r[d] = r[d].wrapping_neg(),
            Neg32 => r[d] = u64::from((r[d] as u32).wrapping_neg()),
            Movsx8To64 => r[d] = i64::from(r[s] as i8) as u64,
            Movsx16To64 => r[d] = i64::from(r[s] as i16) as u64,
            Movsx32To64 => r[d] = i64::from(r[s] as i32) as u64,
            Movsx8To32 => r[d] = u64::from(i32::from(r[s] as i8) as u32),
            Movsx16To32 => r[d] = u64::from(i32::from(r[s] as i16) as u32),
            Le16 => r[d] = u64::from(r[d] as u16),
            Le32 => r[d] = u64::from(r[d] as u32),
            Le64 => {}
            Swap16 => r[d] = u64::from((r[d] as u16).swap_bytes()),
            Swap32 => r[d] = u64::from((r[d] as u32).swap_bytes()),
            Swap64 => r[d] = r[d].swap_bytes(),
            CastKernel => r[d] = u64::from(r[s] as u32),
            CastUser => r[d] = if r[s] as u32 == 0 { 0 } else { u64::from(r[s] as u32) | ARENA_USER_BASE },

            Ja => pc = op.at as usize,
            Jeq64K => jump!(r[d] == k),
            Jeq64X => jump!(r[d] == r[s]),
            Jeq32K => jump!(r[d] as u32 == k as u32),
            Jeq32X => jump!(r[d] as u32 == r[s] as u32),
            Jne64K => jump!(r[d] != k),
            Jne64X => jump!(r[d] != r[s]),
            Jne32K => jump!(r[d] as u32 != k as u32),
            Jne32X => jump!(r[d] as u32 != r[s] as u32),
            Jgt64K => jump!(r[d] > k),
            Jgt64X => jump!(r[d] > r[s]),
            Jgt32K => jump!(r[d] as u32 > k as u32),
            Jgt32X => jump!(r[d] as u32 > r[s] as u32),
            Jge64K => jump!(r[d] >= k),
            Jge64X => jump!(r[d] >= r[s]),
            Jge32K => jump!(r[d] as u32 >= k as u32),
            Jge32X => jump!(r[d] as u32 >= r[s] as u32),
            Jlt64K => jump!(r[d] < k),
            Jlt64X => jump!(r[d] < r[s]),
            Jlt32K => jump!((r[d] as u32) < k as u32),
            Jlt32X => jump!((r[d] as u32) < r[s] as u32),
            Jle64K => jump!(r[d] <= k),
            Jle64X => jump!(r[d] <= r[s]),
            Jle32K => jump!(r[d] as u32 <= k as u32),
            Jle32X => jump!(r[d] as u32 <= r[s] as u32),
            Jsgt64K => jump!(r[d] as i64 > k as i64),
            Jsgt64X => jump!(r[d] as i64 > r[s] as i64),
            Jsgt32K => jump!(r[d] as i32 > k as i32),
            Jsgt32X => jump!(r[d] as i32 > r[s] as i32),
            Jsge64K => jump!(r[d] as i64 >= k as i64),
            Jsge64X => jump!(r[d] as i64 >= r[s] as i64),
            Jsge32K => jump!(r[d] as i32 >= k as i32),
            Jsge32X => jump!(r[d] as i32 >= r[s] as i32),
            Jslt64K => jump!((r[d] as i64) < k as i64),
            Jslt64X => jump!((r[d] as i64) < r[s] as i64),
            Jslt32K => jump!((r[d] as i32) < k as i32),
            Jslt32X => jump!((r[d] as i32) < r[s] as i32),
            Jsle64K => jump!(r[d] as i64 <= k as i64),
            Jsle64X => jump!(r[d] as i64 <= r[s] as i64),
            Jsle32K => jump!(r[d] as i32 <= k as i32),
            Jsle32X => jump!(r[d] as i32 <= r[s] as i32),
            Jset64K => jump!(r[d] & k != 0),
            Jset64X => jump!(r[d] & r[s] != 0),
            Jset32K => jump!((r[d] & k) as u32 != 0),
            Jset32X => jump!((r[d] & r[s]) as u32 != 0),

            Load8 => load!(1, u64::from),
            Load16 => load!(2, u64::from),
            Load32 => load!(4, u64::from),
            Load64 => load!(8, u64::from),
            LoadSx8 => load!(1, |value| i64::from(value as i8) as u64),
            LoadSx16 => load!(2, |value| i64::from(value as i16) as u64),
            LoadSx32 => load!(4, |value| i64::from(value as i32) as u64),
            Store8K => store!(1, k),
            Store16K => store!(2, k),
            Store32K => store!(4, k),
            Store64K => store!(8, k),
            Store8X => store!(1, r[s]),
            Store16X => store!(2, r[s]),
            Store32X => store!(4, r[s]),
            Store64X => store!(8, r[s]),

            Atomic | MayGoto | Call | Helper | Kfunc | Exit | Poison | MissingKfunc => {
                pc -= 1;
                left += 1;
                count.takes_back(pc);
                break Stop::Special;
            }
        }
    };
    progress.pc = pc;
    progress.left = left;
    stop
}

// Division by zero gives 0, a remainder by zero the dividend (RFC 9669, 4.1); the smallest number divided by -1 wraps.

fn div64(a: u64, b: u64) -> u64 {
    a.checked_div(b).unwrap_or(0)
}

fn div32(a: u32, b: u32) -> u32 {
    a.checked_div(b).unwrap_or(0)
}

fn mod64(a: u64, b: u64) -> u64 {
    a.checked_rem(b).unwrap_or(a)
}

fn mod32(a: u32, b: u32) -> u32 {
    a.checked_rem(b).unwrap_or(a)
}

fn sdiv64(a: u64, b: u64) -> u64 {
    if b == 0 { 0 } else { (a as i64).wrapping_div(b as i64) as u64 }
}

fn sdiv32(a: u32, b: u32) -> u32 {
    if b == 0 { 0 } else { (a as i32).wrapping_div(b as i32) as u32 }
}

fn smod64(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { (a as i64).wrapping_rem(b as i64) as u64 }
}

fn smod32(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { (a as i32).wrapping_rem(b as i32) as u32 }
}
