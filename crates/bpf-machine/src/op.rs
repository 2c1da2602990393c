// SPDX-License-Identifier: GPL-2.0-only
//! Pre-decoded instructions: what an engine executes.

/// One instruction, decoded. 16 bytes, so that four share a cache line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Op {
    /// What to do.
    pub code: Code,
    /// Destination register.
    pub dst: Reg,
    /// Source register.
    pub src: Reg,
    /// A load that cannot fault: bad addresses read as 0 (`Function::kernel_loads`).
    pub probe: bool,
    /// Jumps: how many ops to pass over, or to go back where it is negative. Loads and stores: signed offset. Calls of
    /// functions: its number.
    pub at: i32,
    /// Immediate, sign-extended; the address or number that a symbol stands for.
    pub imm: i64,
}

/// A register. A type with so few values is an index that needs no check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[rustfmt::skip]
pub(crate) enum Reg { R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10 }

impl Reg {
    /// The end of the stack, read-only.
    pub const FRAME: Reg = Reg::R10;

    /// The register with this number, if there is one.
    #[rustfmt::skip]
    pub fn new(number: u8) -> Option<Reg> {
        use Reg::*;
        [R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10].get(usize::from(number)).copied()
    }
}

/// What an [`Op`] does. `K` takes the immediate, `X` the source register; 64 and 32 are the width in bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[rustfmt::skip]
pub(crate) enum Code {
    Add64K, Add64X, Add32K, Add32X,
    Sub64K, Sub64X, Sub32K, Sub32X,
    Mul64K, Mul64X, Mul32K, Mul32X,
    Div64K, Div64X, Div32K, Div32X,
    Sdiv64K, Sdiv64X, Sdiv32K, Sdiv32X,
    Mod64K, Mod64X, Mod32K, Mod32X,
    Smod64K, Smod64X, Smod32K, Smod32X,
    Or64K, Or64X, Or32K, Or32X,
    And64K, And64X, And32K, And32X,
    Xor64K, Xor64X, Xor32K, Xor32X,
    Lsh64K, Lsh64X, Lsh32K, Lsh32X,
    Rsh64K, Rsh64X, Rsh32K, Rsh32X,
    Arsh64K, Arsh64X, Arsh32K, Arsh32X,
    Mov64K, Mov64X, Mov32K, Mov32X,
    Neg64, Neg32,
    Movsx8To64, Movsx16To64, Movsx32To64, Movsx8To32, Movsx16To32,
    /// Host order to little endian: guest memory is little-endian, so this only truncates.
    Le16, Le32, Le64,
    /// Swaps the bytes of the low 16, 32 or 64 bits and clears the rest.
    Swap16, Swap32, Swap64,
    /// Arena address to kernel address: the low 32 bits.
    CastKernel,
    /// Arena address to user address: the base in user space, or NULL.
    CastUser,

    Ja,
    Jeq64K, Jeq64X, Jeq32K, Jeq32X,
    Jne64K, Jne64X, Jne32K, Jne32X,
    Jgt64K, Jgt64X, Jgt32K, Jgt32X,
    Jge64K, Jge64X, Jge32K, Jge32X,
    Jlt64K, Jlt64X, Jlt32K, Jlt32X,
    Jle64K, Jle64X, Jle32K, Jle32X,
    Jsgt64K, Jsgt64X, Jsgt32K, Jsgt32X,
    Jsge64K, Jsge64X, Jsge32K, Jsge32X,
    Jslt64K, Jslt64X, Jslt32K, Jslt32X,
    Jsle64K, Jsle64X, Jsle32K, Jsle32X,
    Jset64K, Jset64X, Jset32K, Jset32X,

    Load8, Load16, Load32, Load64,
    LoadSx8, LoadSx16, LoadSx32,
    Store8K, Store16K, Store32K, Store64K,
    Store8X, Store16X, Store32X, Store64X,

    // From here on the outer loop of the engine does the work.
    /// Read-modify-write or ordered access; `imm` is an [`Atomic`] of `1 << width` bytes: `op << 8 | bytes`.
    Atomic,
    /// Takes the branch once the counter of the activation has run out.
    MayGoto,
    /// Calls function `at`.
    Call,
    /// Calls helper `imm`.
    Helper,
    /// Calls the host's kfunc `imm`.
    Kfunc,
    Exit,
    /// Faults with text `imm`.
    Poison,
    /// Faults: kfunc with name `imm` in the texts does not exist.
    MissingKfunc,

    // From here on only in the quick form of a program (`quick`). A number says how many instructions an op stands for.
    /// `dst` = `imm`.
    Const2, Const3,
    /// The same, and the last instruction jumps.
    ConstJump2, ConstJump3,
    /// `dst` = `src` + `imm`.
    Sum2,
    /// `dst` = `src` << `imm`.
    MovLsh2,
    /// `dst` = (`dst` & low half of `imm`) << its high half.
    AndLsh2,
    /// `dst` = `src`; the register that the low byte of `at` names = that of the next byte.
    MovMov2,
    /// `dst` = `imm`, `src` = `at`.
    SetSet2,
    /// `dst` = `imm`; the register that the low byte of `at` names = that of the next byte.
    SetMov2,
    /// `dst` = `src` - the register that `at` names.
    Difference2,
    /// `dst` = loaded from `src` + `at`; then a [`Code::Difference2`] whose three registers are the bytes of `imm`.
    LoadDifference3,
    /// `dst` = low half of `imm`, extended to 64 bits; jumps if `src` is above the register that the high half names, or not
    /// below it.
    SetJgt2, SetJge2,
    /// `dst` &= `imm` on 32 bits; jumps if that gives 0, or something else.
    AndJz2, AndJnz2,
    /// Loads from `src` + high half of `imm`; jumps if 32 bits of that are the low half, or are not.
    Load8Jeq2, Load8Jne2, Load32Jeq2, Load32Jne2,
    /// Loads from `imm` + `src`.
    Table8x3, Table16x3, Table32x3, Table64x3,
    /// `dst` = `imm` + `src`; loads from there, and as many bytes on as `at` without its low byte says, into the register that
    /// the low byte names.
    Element64x3,
    /// Loads from place `imm` of region `at`.
    Global8x2, Global16x2, Global32x2, Global64x2,
    /// Loads, or stores `src`, `imm` bytes below the end of the frame.
    FrameLoad8, FrameLoad16, FrameLoad32, FrameLoad64,
    FrameStore8, FrameStore16, FrameStore32, FrameStore64,
    /// Kfunc `imm`, which the machine has itself: `iter_num`.
    IterNew, IterNext, IterDestroy,
    /// `dst` = `src`, then kfunc `imm`; the first on 64 or 32 bits.
    MovKfunc2, MovwKfunc2,
    /// `dst` = `src`, then a call of function `at`; the first on 64 or 32 bits.
    MovCall2, MovwCall2,
    /// The kfunc that the low half of `imm` is, which the host may answer as the plain one that the high half is.
    PlainKfunc, MovPlain2, MovwPlain2,
    /// Helper `imm`, which only the host has.
    HostHelper,
    /// `bpf_task_storage_get`, and the same for cgroups.
    StorageGet,
    /// The same with its arguments: what the map at `imm`, whose number is `at`, keeps for `src`, if anything.
    StorageFind5,
}

impl Code {
    /// Whether [`Op::at`] is the index of an op.
    pub fn may_jump(self) -> bool {
        (Code::Ja as u8..=Code::Jset32X as u8).contains(&(self as u8)) || self == Code::MayGoto
    }

    /// Whether it jumps if a register equals a number, or does not.
    pub fn compares_with_number(self) -> bool {
        matches!(self, Code::Jeq64K | Code::Jeq32K | Code::Jne64K | Code::Jne32K)
    }

    /// Whether such a jump is taken, with this in the register.
    pub fn holds(self, register: u64, number: u64) -> bool {
        match self {
            Code::Jeq64K => register == number,
            Code::Jne64K => register != number,
            Code::Jeq32K => register as u32 == number as u32,
            Code::Jne32K => register as u32 != number as u32,
            other => unreachable!("{other:?} compares with no number"),
        }
    }
}

/// Kinds of [`Code::Atomic`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Atomic {
    Add,
    Or,
    And,
    Xor,
    FetchAdd,
    FetchOr,
    FetchAnd,
    FetchXor,
    Exchange,
    CompareExchange,
    LoadAcquire,
    StoreRelease,
}

impl Atomic {
    /// All of them, by number.
    pub const ALL: [Atomic; 12] = [
        Atomic::Add,
        Atomic::Or,
        Atomic::And,
        Atomic::Xor,
        Atomic::FetchAdd,
        Atomic::FetchOr,
        Atomic::FetchAnd,
        Atomic::FetchXor,
        Atomic::Exchange,
        Atomic::CompareExchange,
        Atomic::LoadAcquire,
        Atomic::StoreRelease,
    ];

    /// The operation that an instruction's immediate selects (RFC 9669, 5.3; the last two are of Linux 6.15).
    pub fn from_imm(imm: i32) -> Option<Atomic> {
        Some(match imm {
            0x00 => Atomic::Add,
            0x40 => Atomic::Or,
            0x50 => Atomic::And,
            0xa0 => Atomic::Xor,
            0x01 => Atomic::FetchAdd,
            0x41 => Atomic::FetchOr,
            0x51 => Atomic::FetchAnd,
            0xa1 => Atomic::FetchXor,
            0xe1 => Atomic::Exchange,
            0xf1 => Atomic::CompareExchange,
            0x100 => Atomic::LoadAcquire,
            0x110 => Atomic::StoreRelease,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_op_is_small() {
        assert_eq!(size_of::<Op>(), 16);
    }

    #[test]
    fn registers_are_numbered() {
        for number in 0..=10 {
            assert_eq!(Reg::new(number).map(|reg| reg as u8), Some(number));
        }
        assert_eq!(Reg::new(11), None);
    }

    #[test]
    fn atomics_are_numbered_by_position() {
        for (number, atomic) in Atomic::ALL.into_iter().enumerate() {
            assert_eq!(atomic as usize, number);
        }
    }
}
