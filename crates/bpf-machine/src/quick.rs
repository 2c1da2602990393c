// SPDX-License-Identifier: GPL-2.0-only
//! The quick form of a program: the same ops at the same indices, except that the first op of a frequent sequence of
//! two or three executes the whole sequence and continues after it (a superinstruction). The other ops stay, as jump
//! targets. Execution and counts are unchanged.
//!
//! The sequences are those that schedulers execute most: addresses of global variables and table elements, constants
//! that user space sets before load, stack accesses, and tests of kfunc results.

use crate::execution::STACK_BYTES;
use crate::helpers;
use crate::op::{Code, Op, Reg};
use crate::{Maps, Memory, RegionId};

/// Facts known when a program is loaded.
pub(crate) struct Known<'a> {
    pub memory: &'a Memory,
    pub maps: &'a Maps,
    /// Regions that are never written any more.
    pub constant: &'a [RegionId],
    /// Kfuncs that the machine executes itself, by the host's number.
    pub iterators: &'a [(u32, Code)],
    /// Fast-path numbers of the host's kfuncs, by kfunc number.
    pub plain: &'a [(u32, u32)],
}

/// Returns the quick form of `ops`.
pub(crate) fn quick(ops: &[Op], known: &Known<'_>) -> Vec<Op> {
    let quick = |at: usize| {
        let (ops, one) = (&ops[at..], || known.one(ops[at]));
        known.storage(ops).or_else(|| known.three(ops)).or_else(|| known.two(ops)).unwrap_or_else(one)
    };
    (0..ops.len()).map(quick).collect()
}

impl Known<'_> {
    /// The quick form of a single instruction.
    fn one(&self, op: Op) -> Op {
        use Code::*;
        let code = match op.code {
            Helper if op.imm == 156 || op.imm == 210 => StorageGet,
            Helper if !helpers::is_own(op.imm as u32) => HostHelper,
            Kfunc => match self.plain(&op) {
                Some(imm) => return Op { code: PlainKfunc, imm, ..op },
                None => self.iterator(&op).unwrap_or(Kfunc),
            },
            Load8 | Load16 | Load32 | Load64 if op.src == Reg::FRAME => return frame(op, op.code).unwrap_or(op),
            Store8X | Store16X | Store32X | Store64X if op.dst == Reg::FRAME => {
                return frame(op, op.code).unwrap_or(op);
            }
            other => other,
        };
        Op { code, ..op }
    }

    /// The op that the machine executes instead of calling a kfunc of the host.
    fn iterator(&self, op: &Op) -> Option<Code> {
        self.iterators.iter().find(|(kfunc, _)| i64::from(*kfunc) == op.imm).map(|(_, code)| *code)
    }

    /// Kfunc and fast-path numbers of a call, packed, if the kfunc has a fast path.
    fn plain(&self, op: &Op) -> Option<i64> {
        let found = self.plain.iter().find(|(kfunc, _)| i64::from(*kfunc) == op.imm);
        found.map(|&(kfunc, plain)| i64::from(kfunc) | i64::from(plain) << 32)
    }

    /// The op for a kfunc call `b` after `a`, depending on whether the kfunc has a fast path.
    fn call_after(&self, a: &Op, b: &Op, [any, plain]: [Code; 2]) -> Op {
        match self.plain(b) {
            Some(imm) => Op { code: plain, imm, ..*a },
            None => Op { code: any, imm: b.imm, ..*a },
        }
    }

    fn two(&self, ops: &[Op]) -> Option<Op> {
        use Code::*;
        let [a, b, ..] = ops else { return None };
        let same = a.dst == b.dst;
        Some(match (a.code, b.code) {
            (Mov64K, Load8 | Load16 | Load32 | Load64) if same && b.src == a.dst => match self.constant(a, b) {
                Some(value) => Op { code: Const2, imm: value, ..*a },
                None => self.global(a, b)?,
            },
            (Mov64K | Mov32K, _) if b.code.compares_with_number() && same => {
                let imm = number(a);
                match b.code.holds(imm as u64, b.imm as u64) {
                    true => Op { code: ConstJump2, at: b.at, imm, ..*a },
                    false => Op { code: Const2, imm, ..*a },
                }
            }
            (Mov64K | Mov32K, Jgt64X | Jge64X) => {
                let code = if b.code == Jgt64X { SetJgt2 } else { SetJge2 };
                let (value, other) = (i32::try_from(a.imm).ok()?, b.src as i64);
                // The value must survive the sign extension of its low 32 bits.
                (number(a) == a.imm).then_some(())?;
                Op { code, src: b.dst, at: b.at, imm: i64::from(value as u32) | other << 32, ..*a }
            }
            (Mov64X, Call) => Op { code: MovCall2, at: b.at, ..*a },
            (Mov32X, Call) => Op { code: MovwCall2, at: b.at, ..*a },
            (Mov64K, Add64X) if same && b.src != a.dst => Op { code: Sum2, src: b.src, ..*a },
            (Mov64X, Add64K) if same => Op { code: Sum2, imm: b.imm, ..*a },
            (Mov64X, Lsh64K) if same => Op { code: MovLsh2, imm: b.imm, ..*a },
            (And32K, Lsh64K) if same => Op { code: AndLsh2, imm: i64::from(a.imm as u32) | (b.imm & 63) << 32, ..*a },
            (And32K, Jeq32K) if same && b.imm == 0 => Op { code: AndJz2, at: b.at, ..*a },
            (And32K, Jne32K) if same && b.imm == 0 => Op { code: AndJnz2, at: b.at, ..*a },
            (Load8, Jeq32K) if same => self.load_and_jump(Load8Jeq2, a, b)?,
            (Load8, Jne32K) if same => self.load_and_jump(Load8Jne2, a, b)?,
            (Load32, Jeq32K) if same => self.load_and_jump(Load32Jeq2, a, b)?,
            (Load32, Jne32K) if same => self.load_and_jump(Load32Jne2, a, b)?,
            (Mov64X, Kfunc) if self.iterator(b).is_none() => self.call_after(a, b, [MovKfunc2, MovPlain2]),
            (Mov32X, Kfunc) if self.iterator(b).is_none() => self.call_after(a, b, [MovwKfunc2, MovwPlain2]),
            (Mov64X, Mov64X) => Op { code: MovMov2, at: b.dst as i32 | (b.src as i32) << 8, ..*a },
            (Mov64K, Mov64X) => Op { code: SetMov2, at: b.dst as i32 | (b.src as i32) << 8, ..*a },
            (Mov64X, Sub64X) if same && b.src != a.dst => Op { code: Difference2, at: b.src as i32, ..*a },
            (Mov64K | Mov32K, Mov64K | Mov32K) => {
                Op { code: SetSet2, src: b.dst, at: i32::try_from(number(b)).ok()?, imm: number(a), ..*a }
            }
            _ => return None,
        })
    }

    fn three(&self, ops: &[Op]) -> Option<Op> {
        use Code::*;
        let [a, b, c, ..] = ops else { return None };
        let same = a.dst == b.dst && b.dst == c.dst;
        match (a.code, b.code, c.code) {
            (Load64, Mov64X, Sub64X) if !a.probe && b.dst == c.dst && c.src != c.dst => {
                let registers = [b.dst, b.src, c.src].iter().rev().fold(0, |all, &reg| all << 8 | reg as i64);
                Some(Op { code: LoadDifference3, imm: registers, ..*a })
            }
            (Mov64K, Add64X, Load64) if a.dst == b.dst && c.src == a.dst && c.dst != a.dst && b.src != a.dst => {
                (!c.probe).then_some(Op { code: Element64x3, src: b.src, at: c.dst as i32 | c.at << 8, ..*a })
            }
            (Mov64K, Load8 | Load16 | Load32 | Load64, _)
                if same && b.src == a.dst && c.code.compares_with_number() =>
            {
                let imm = self.constant(a, b)?;
                Some(match c.code.holds(imm as u64, c.imm as u64) {
                    true => Op { code: ConstJump3, at: c.at, imm, ..*a },
                    false => Op { code: Const3, imm, ..*a },
                })
            }
            (Mov64K, Add64X, Load8 | Load16 | Load32 | Load64) if same && b.src != a.dst && c.src == c.dst => {
                let code = sized(c.code, [Table8x3, Table16x3, Table32x3, Table64x3]);
                let imm = a.imm.wrapping_add(i64::from(c.at));
                (!c.probe).then_some(Op { code, src: b.src, imm, ..*a })
            }
            _ => None,
        }
    }

    /// `bpf_task_storage_get` of a map known at load, without creation.
    fn storage(&self, ops: &[Op]) -> Option<Op> {
        use Code::*;
        let [map, owner, rest @ ..] = ops.first_chunk::<5>()?;
        let is_zero = |op: &Op, dst| matches!(op.code, Mov64K | Mov32K) && op.imm == 0 && op.dst == dst;
        let [initial, flags, call] = rest;
        let fits = (map.code, map.dst) == (Mov64K, Reg::R1)
            && (owner.code, owner.dst) == (Mov64X, Reg::R2)
            && owner.src != Reg::R1
            && is_zero(initial, Reg::R3)
            && is_zero(flags, Reg::R4)
            && self.one(*call).code == StorageGet;
        let handle = self.maps.storage_at(self.memory, map.imm as u64).filter(|_| fits)?;
        Some(Op { code: StorageFind5, src: owner.src, at: handle.0 as i32, ..*map })
    }

    /// The value that load `b` reads from the address set by `a`, if it is constant.
    fn constant(&self, a: &Op, b: &Op) -> Option<i64> {
        let (region, _) = self.place(a, b)?;
        let load = || self.memory.load(address(a, b), bytes(b.code)).ok();
        self.constant.contains(&region).then(load).flatten().map(|value| value as i64)
    }

    /// A fused load `b` from the address set by `a`.
    fn global(&self, a: &Op, b: &Op) -> Option<Op> {
        use Code::*;
        let (region, at) = self.place(a, b)?;
        let code = sized(b.code, [Global8x2, Global16x2, Global32x2, Global64x2]);
        Some(Op { code, at: i32::from(region.0), imm: at as i64, ..*a })
    }

    fn place(&self, a: &Op, b: &Op) -> Option<(RegionId, usize)> {
        self.memory.place(address(a, b), bytes(b.code)).filter(|_| !b.probe)
    }

    /// A fused load `a` and jump `b`.
    fn load_and_jump(&self, code: Code, a: &Op, b: &Op) -> Option<Op> {
        let imm = i64::from(a.at) << 32 | i64::from(b.imm as u32);
        (!a.probe).then_some(Op { code, at: b.at, imm, ..*a })
    }
}

/// Value of a register after `set`.
fn number(set: &Op) -> i64 {
    if set.code == Code::Mov64K { set.imm } else { i64::from(set.imm as u32) }
}

/// Address that load `b` reads after `a` has set the base.
fn address(a: &Op, b: &Op) -> u64 {
    (a.imm as u64).wrapping_add(i64::from(b.at) as u64)
}

/// Size of a load or store in bytes.
fn bytes(code: Code) -> u32 {
    sized(code, [1, 2, 4, 8])
}

/// The alternative for an access of 1, 2, 4 or 8 bytes.
fn sized<T: Copy>(code: Code, four: [T; 4]) -> T {
    use Code::*;
    match code {
        Load8 | Store8X => four[0],
        Load16 | Store16X => four[1],
        Load32 | Store32X => four[2],
        Load64 | Store64X => four[3],
        other => unreachable!("{other:?} is not a plain load or store"),
    }
}

/// A stack access that stays within its frame.
fn frame(op: Op, code: Code) -> Option<Op> {
    use Code::*;
    let below = i64::from(op.at).checked_neg()?;
    let within = i64::from(bytes(code)) <= below && below <= i64::from(STACK_BYTES);
    let four = match code {
        Load8 | Load16 | Load32 | Load64 => [FrameLoad8, FrameLoad16, FrameLoad32, FrameLoad64],
        _ => [FrameStore8, FrameStore16, FrameStore32, FrameStore64],
    };
    (within && !op.probe).then_some(Op { code: sized(code, four), imm: below, ..op })
}
