// SPDX-License-Identifier: GPL-2.0-only
//! Pre-decoded instructions, as executed by the engine.

/// A decoded instruction. 16 bytes, so that four share a cache line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Op {
    /// Operation.
    pub code: Code,
    /// Destination register.
    pub dst: Reg,
    /// Source register.
    pub src: Reg,
    /// A load that cannot fault: bad addresses read as 0 (`Function::kernel_loads`).
    pub probe: bool,
    /// Jumps: distance in ops, negative for backward. Loads and stores: signed offset. Function calls: number of the
    /// function.
    pub at: i32,
    /// Immediate, sign-extended, or the address or number of a symbol.
    pub imm: i64,
}

/// A register. As an enum of 11 values it needs no bounds check as an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[rustfmt::skip]
pub(crate) enum Reg { R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10 }

impl Reg {
    /// r10, the read-only frame pointer.
    pub const FRAME: Reg = Reg::R10;

    /// The register with this number, if there is one.
    #[rustfmt::skip]
    pub fn new(number: u8) -> Option<Reg> {
        use Reg::*;
        [R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10].get(usize::from(number)).copied()
    }
}

/// Operation of an [`Op`]. `K` takes the immediate, `X` the source register; 64 and 32 are the width in bits.
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
    /// Host to little endian: guest memory is little-endian, so this only truncates.
    Le16, Le32, Le64,
    /// Swaps the bytes of the low 16, 32 or 64 bits and clears the rest.
    Swap16, Swap32, Swap64,
    /// Arena address to kernel address: the low 32 bits.
    CastKernel,
    /// Arena address to user address: adds the user-space base; NULL stays NULL.
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
    /// A load of a member that the host computes when it is read ([`crate::Host::refresh`]). `imm` is the number of
    /// bytes; negative for a sign-extending load.
    LoadLive,
    Store8K, Store16K, Store32K, Store64K,
    Store8X, Store16X, Store32X, Store64X,

    // The following ops are executed by the outer loop of the engine.
    /// Read-modify-write or ordered access; `imm` is [`Atomic`] << 8 | bytes.
    Atomic,
    /// Takes the branch once the activation's counter has run out.
    MayGoto,
    /// Calls function `at`.
    Call,
    /// Calls helper `imm`.
    Helper,
    /// Calls the host's kfunc `imm`.
    Kfunc,
    Exit,
    /// Faults with message `imm`.
    Poison,
    /// Faults because the kfunc named in message `imm` does not exist.
    MissingKfunc,

    // The following ops are superinstructions, which only the quick form of a program contains (see `quick`). The
    // number in a name is the number of instructions that the op replaces.
    /// `dst` = `imm`.
    Const2, Const3,
    /// Like Const2 and Const3, where the last instruction is a taken jump.
    ConstJump2, ConstJump3,
    /// `dst` = `src` + `imm`.
    Sum2,
    /// `dst` = `src` << `imm`.
    MovLsh2,
    /// `dst` = (`dst` & low half of `imm`) << its high half.
    AndLsh2,
    /// `dst` = `src`; then the register in the low byte of `at` = the register in the next byte.
    MovMov2,
    /// `dst` = `imm`, `src` = `at`.
    SetSet2,
    /// `dst` = `imm`; then the register in the low byte of `at` = the register in the next byte.
    SetMov2,
    /// `dst` = `src` - register `at`.
    Difference2,
    /// `dst` = load from `src` + `at`; then a [`Code::Difference2`] with the three registers in the bytes of `imm`.
    LoadDifference3,
    /// `dst` = sign-extended low half of `imm`; jumps if `src` is greater than (greater than or equal to) the
    /// register in the high half.
    SetJgt2, SetJge2,
    /// `dst` &= `imm` on 32 bits; jumps if the result is zero (nonzero).
    AndJz2, AndJnz2,
    /// Loads from `src` + high half of `imm`; jumps if the low 32 bits equal (do not equal) the low half.
    Load8Jeq2, Load8Jne2, Load32Jeq2, Load32Jne2,
    /// Loads from `imm` + `src`.
    Table8x3, Table16x3, Table32x3, Table64x3,
    /// `dst` = `imm` + `src`; then loads from `dst` + (`at` >> 8) into the register in the low byte of `at`.
    Element64x3,
    /// Loads from storage offset `imm` of region `at`.
    Global8x2, Global16x2, Global32x2, Global64x2,
    /// Loads to `dst`, or stores `src`, at `imm` bytes below the end of the frame.
    FrameLoad8, FrameLoad16, FrameLoad32, FrameLoad64,
    FrameStore8, FrameStore16, FrameStore32, FrameStore64,
    /// Calls kfunc `imm`, which the machine implements itself (`iter_num`).
    IterNew, IterNext, IterDestroy,
    /// `dst` = `src` (64 or 32 bits), then calls kfunc `imm`.
    MovKfunc2, MovwKfunc2,
    /// `dst` = `src` (64 or 32 bits), then calls function `at`.
    MovCall2, MovwCall2,
    /// Calls the kfunc in the low half of `imm`, whose fast-path number is in the high half.
    PlainKfunc, MovPlain2, MovwPlain2,
    /// Calls helper `imm`, which only the host implements.
    HostHelper,
    /// `bpf_task_storage_get` or `bpf_cgrp_storage_get`.
    StorageGet,
    /// A storage lookup with its argument set-up: the value for `src` in map `at`, whose address is `imm`, without
    /// creation.
    StorageFind5,
}

impl Code {
    /// Whether [`Op::at`] is a jump distance.
    pub fn may_jump(self) -> bool {
        (Code::Ja as u8..=Code::Jset32X as u8).contains(&(self as u8)) || self == Code::MayGoto
    }

    /// Whether the op is a jump that tests a register for (in)equality with an immediate.
    pub fn compares_with_number(self) -> bool {
        matches!(self, Code::Jeq64K | Code::Jeq32K | Code::Jne64K | Code::Jne32K)
    }

    /// Whether the jump that this op makes is taken if the register has this value.
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
    /// All kinds, in enum order.
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

    /// The operation selected by an instruction's immediate (RFC 9669, 5.3; the last two since Linux 6.15).
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
    fn op_has_16_bytes() {
        assert_eq!(size_of::<Op>(), 16);
    }

    #[test]
    fn register_enum_values_are_register_numbers() {
        for number in 0..=10 {
            assert_eq!(Reg::new(number).map(|reg| reg as u8), Some(number));
        }
        assert_eq!(Reg::new(11), None);
    }

    #[test]
    fn atomic_list_order_matches_enum_values() {
        for (number, atomic) in Atomic::ALL.into_iter().enumerate() {
            assert_eq!(atomic as usize, number);
        }
    }
}
