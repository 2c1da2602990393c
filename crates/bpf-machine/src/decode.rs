// SPDX-License-Identifier: GPL-2.0-only
//! Decodes the instructions of an object into [`Op`]s: branch targets become indices, symbols become addresses or
//! numbers, and a 64-bit immediate load becomes one op. Instructions that no engine can execute are rejected.

use crate::execution::STACK_BYTES;
use crate::lines::{self, Files, SourceLine};
use crate::op::{Atomic, Code, Op, Reg};
use crate::{GuestAddr, LoadError, Resolver};
use bpf_object::{Function, InlinedCall, Insn, LineInfo, LinkedObject, MemberAccess, Symbol};

/// Executable code of one object.
#[derive(Debug, Default)]
pub(crate) struct Program {
    /// The ops of all functions, one function after the other.
    pub ops: Vec<Op>,
    /// The ops of the program with superinstructions; see `quick`.
    pub quick: Vec<Op>,
    /// Instruction slot within the function, by op.
    pub slots: Vec<u32>,
    /// Source line according to the object, by op.
    pub stated: Vec<SourceLine>,
    /// Own source line, by op (see `lines`).
    pub own: Vec<SourceLine>,
    /// Source files that `stated` and `own` refer to.
    pub files: Files,
    /// Functions, by [`bpf_object::FunctionId`].
    pub functions: Vec<FunctionCode>,
    /// Messages of [`Code::Poison`] and [`Code::MissingKfunc`].
    pub texts: Vec<String>,
}

/// One function of a [`Program`].
#[derive(Debug)]
pub(crate) struct FunctionCode {
    /// Symbol name.
    pub name: String,
    /// Index of its first op.
    pub entry: u32,
    /// Number of bytes at the end of its frame that it can access; these must be zeroed at entry.
    pub stack: u32,
    /// Source lines, by ascending slot.
    pub lines: Vec<LineInfo>,
    /// Calls inlined into it.
    pub inlined: Vec<InlinedCall>,
}

/// Guest addresses and numbers of the entities that symbols name.
pub(crate) struct Places<'a> {
    /// Map objects, by `MapId`.
    pub maps: &'a [GuestAddr],
    /// Value address of single-value maps, by `MapId`.
    pub values: &'a [Option<GuestAddr>],
    /// Addresses that stand for functions, by `FunctionId`.
    pub functions: &'a [GuestAddr],
    /// Addresses that stand for kfuncs, by index; 0 for a missing kfunc.
    pub kfuncs: &'a [GuestAddr],
    /// The host's kfunc numbers, by index.
    pub kfunc_numbers: &'a [Option<u32>],
    /// Resolver of kernel variables.
    pub resolver: &'a dyn Resolver,
}

/// Decodes all functions.
pub(crate) fn decode(object: &LinkedObject, places: &Places<'_>) -> Result<Program, LoadError> {
    let mut program = Program::default();
    for (number, function) in (0..).zip(&object.functions) {
        let mut kernel_loads = function.kernel_loads.clone();
        kernel_loads.sort_unstable();
        let base = program.ops.len();
        let live = LiveLoads::of(object, bpf_object::FunctionId(number), places.resolver);
        let mut decoder = Decoder { object, places, function, kernel_loads, live, starts: Vec::new(), base };
        decoder.function(&mut program).map_err(|(insn, problem)| LoadError::Code {
            function: function.name.clone(),
            insn,
            problem,
        })?;
    }
    Ok(program)
}

/// The loads of a function that may read members that the host computes when they are read.
#[derive(Debug)]
enum LiveLoads {
    /// The loads in these instruction slots, ascending.
    At(Vec<u32>),
    /// All: the function computes the address of such a member, so that any later load may read it.
    All,
}

impl LiveLoads {
    fn of(object: &LinkedObject, function: bpf_object::FunctionId, resolver: &dyn Resolver) -> LiveLoads {
        let used = object.members.iter().filter(|used| used.function == function && used.present);
        let mut slots = Vec::new();
        for used in used.filter(|used| resolver.is_live(used)) {
            match used.access {
                MemberAccess::Load => slots.push(used.slot),
                MemberAccess::Address => return LiveLoads::All,
                MemberAccess::Exists | MemberAccess::Store | MemberAccess::Shape => {}
            }
        }
        slots.sort_unstable();
        LiveLoads::At(slots)
    }

    fn has(&self, slot: u32) -> bool {
        match self {
            LiveLoads::At(slots) => slots.binary_search(&slot).is_ok(),
            LiveLoads::All => true,
        }
    }
}

/// Returns the load `op` as one of a member that the host computes.
fn live(op: Op) -> Op {
    let bytes = match op.code {
        Code::Load8 => 1,
        Code::Load16 => 2,
        Code::Load32 => 4,
        Code::Load64 => 8,
        Code::LoadSx8 => -1,
        Code::LoadSx16 => -2,
        Code::LoadSx32 => -4,
        other => unreachable!("{other:?} is not a load"),
    };
    // The stack of a program has no such member.
    if op.src == Reg::FRAME { op } else { Op { code: Code::LoadLive, imm: bytes, ..op } }
}

/// Description of what is wrong with an instruction.
type Problem = String;

/// Entry of [`Decoder::starts`] for the second half of a 64-bit immediate load.
const SECOND_HALF: u32 = u32::MAX;

/// Instruction classes, the low three bits of the code (RFC 9669, 3).
mod class {
    pub const LD: u8 = 0;
    pub const LDX: u8 = 1;
    pub const ST: u8 = 2;
    pub const STX: u8 = 3;
    pub const ALU: u8 = 4;
    pub const JMP: u8 = 5;
    pub const JMP32: u8 = 6;
}

/// The code of a 64-bit immediate load.
const LD_IMM64: u8 = 0x18;
/// The code of a call.
const CALL: u8 = 0x85;

struct Decoder<'a> {
    object: &'a LinkedObject,
    places: &'a Places<'a>,
    function: &'a Function,
    /// Slots of loads that cannot fault, ascending.
    kernel_loads: Vec<u32>,
    /// Loads of members that the host computes.
    live: LiveLoads,
    /// Index of the op by slot, relative to `base`.
    starts: Vec<u32>,
    /// Index of the first op of the function.
    base: usize,
}

impl Decoder<'_> {
    fn function(&mut self, program: &mut Program) -> Result<(), (u32, Problem)> {
        let function = self.function;
        self.number_slots()?;
        let mut stack = 0;
        for slot in 0..function.insns.len() as u32 {
            if self.starts[slot as usize] == SECOND_HALF {
                continue;
            }
            let op = self.op(slot, program).map_err(|problem| (slot, problem))?;
            stack = stack.max(reach(&op));
            program.ops.push(op);
            program.slots.push(slot);
        }
        self.check_end(program)?;
        let stated = lines::stated(&function.lines, &program.slots[self.base..], &mut program.files);
        let (ops, slots) = (&program.ops[self.base..], &program.slots[self.base..]);
        program.own.extend(lines::own(function, ops, slots, &stated, &mut program.files));
        program.stated.extend(stated);
        let (name, entry) = (function.name.clone(), self.base as u32);
        let (lines, inlined) = (function.lines.clone(), function.inlined.clone());
        program.functions.push(FunctionCode { name, entry, stack, lines, inlined });
        Ok(())
    }

    /// Checks that the last instruction leaves the function, as the verifier demands.
    fn check_end(&self, program: &Program) -> Result<(), (u32, Problem)> {
        let last = self.function.insns.len().saturating_sub(1) as u32;
        match program.ops[self.base..].last().map(|op| op.code) {
            None => Err((0, "the function has no instructions".to_owned())),
            Some(Code::Exit | Code::Ja | Code::Poison | Code::MissingKfunc) => Ok(()),
            Some(_) => Err((last, "the last instruction is neither exit nor a jump".to_owned())),
        }
    }

    /// Numbers the ops by slot.
    fn number_slots(&mut self) -> Result<(), (u32, Problem)> {
        let insns = &self.function.insns;
        if insns.len() + self.base > i32::MAX as usize / 2 {
            return Err((0, "the object has too many instructions".to_owned()));
        }
        let mut next = 0;
        let mut slot = 0;
        while slot < insns.len() {
            self.starts.push(next);
            next += 1;
            slot += 1;
            if insns[slot - 1].code == LD_IMM64 {
                let Some(second) = insns.get(slot) else {
                    return Err((slot as u32 - 1, "64-bit immediate without its second half".to_owned()));
                };
                if (second.code, second.dst, second.src, second.off) != (0, 0, 0, 0) {
                    return Err((slot as u32, "second half of a 64-bit immediate is not empty".to_owned()));
                }
                self.starts.push(SECOND_HALF);
                slot += 1;
            }
        }
        Ok(())
    }

    fn op(&self, slot: u32, program: &mut Program) -> Result<Op, Problem> {
        let insn = &self.function.insns[slot as usize];
        let symbol = self.function.symbols.get(&slot);
        if let Some(Symbol::Poison(text)) = symbol {
            return Ok(fault(Code::Poison, text.clone(), program));
        }
        if insn.dst > 10 || insn.src > 10 {
            return Err(format!("register r{} does not exist", insn.dst.max(insn.src)));
        }
        match (insn.code & 7, symbol) {
            (class::LD, _) if insn.code == LD_IMM64 => self.load_imm64(slot, insn, symbol),
            (class::JMP, _) if insn.code == CALL => self.call(insn, symbol, program),
            (_, Some(other)) => Err(format!("the instruction cannot take the symbol {other:?}")),
            (class::LD, None) => Err("legacy packet loads are not available to sched_ext".to_owned()),
            (class::LDX, None) => {
                let op = load(insn, self.kernel_loads.binary_search(&slot).is_ok())?;
                Ok(if self.live.has(slot) { live(op) } else { op })
            }
            (class::ST | class::STX, None) => store(insn),
            (class::JMP | class::JMP32, None) => self.jump(slot, insn),
            (_, None) => alu(insn),
        }
    }

    fn load_imm64(&self, slot: u32, insn: &Insn, symbol: Option<&Symbol>) -> Result<Op, Problem> {
        writable(insn)?;
        let high = self.function.insns[slot as usize + 1].imm;
        let value = match symbol {
            None if insn.src == 0 => u64::from(insn.imm as u32) | u64::from(high as u32) << 32,
            None => return Err(format!("64-bit immediate of kind {} without a symbol", insn.src)),
            Some(symbol) => self.address(symbol)?,
        };
        Ok(Op { imm: value as i64, ..op(Code::Mov64K, insn) })
    }

    /// The address that a symbol stands for.
    fn address(&self, symbol: &Symbol) -> Result<GuestAddr, Problem> {
        let address = match symbol {
            Symbol::Map(map) => self.places.maps.get(map.0 as usize).copied(),
            Symbol::MapValue { map, offset } => {
                let value = self.places.values.get(map.0 as usize).copied().flatten();
                value.map(|value| value + u64::from(*offset))
            }
            Symbol::Function(function) => self.places.functions.get(function.0 as usize).copied(),
            Symbol::KfuncAddress(kfunc) => self.places.kfuncs.get(*kfunc as usize).copied(),
            Symbol::KernelVariable(name) => self.places.resolver.variable(name),
            Symbol::Kfunc(_) | Symbol::Poison(_) => None,
        };
        address.ok_or_else(|| match symbol {
            Symbol::KernelVariable(name) => format!("the kernel has no variable {name}"),
            symbol => format!("{symbol:?} does not exist or has no address"),
        })
    }

    fn call(&self, insn: &Insn, symbol: Option<&Symbol>, program: &mut Program) -> Result<Op, Problem> {
        zero(insn.dst == 0 && insn.off == 0)?;
        let call = op(Code::Helper, insn);
        match symbol {
            None if insn.src == 0 => Ok(Op { imm: i64::from(insn.imm as u32), ..call }),
            Some(Symbol::Function(function)) => {
                if function.0 as usize >= self.object.functions.len() {
                    return Err(format!("call of function {}, which does not exist", function.0));
                }
                Ok(Op { code: Code::Call, at: function.0 as i32, ..call })
            }
            Some(Symbol::Kfunc(kfunc)) => {
                let Some(number) = self.places.kfunc_numbers.get(*kfunc as usize) else {
                    return Err(format!("call of kfunc {kfunc}, which does not exist"));
                };
                let name = || self.object.kfuncs[*kfunc as usize].name.clone();
                match number {
                    Some(number) => Ok(Op { code: Code::Kfunc, imm: i64::from(*number), ..call }),
                    None => Ok(fault(Code::MissingKfunc, name(), program)),
                }
            }
            None => Err(format!("call of kind {} without a symbol", insn.src)),
            Some(symbol) => Err(format!("call of {symbol:?}")),
        }
    }

    fn jump(&self, slot: u32, insn: &Insn) -> Result<Op, Problem> {
        let wide = insn.code & 7 == class::JMP;
        let (by_register, offset) = (insn.code & 8 != 0, i64::from(insn.off));
        let (code, offset) = match insn.code {
            0x95 => {
                zero(insn.dst == 0 && insn.src == 0 && insn.off == 0 && insn.imm == 0)?;
                return Ok(op(Code::Exit, insn));
            }
            0x05 => {
                zero(insn.dst == 0 && insn.src == 0 && insn.imm == 0)?;
                (Code::Ja, offset)
            }
            0x06 => {
                zero(insn.dst == 0 && insn.src == 0 && insn.off == 0)?;
                (Code::Ja, i64::from(insn.imm))
            }
            0xe5 => {
                zero(insn.dst == 0 && insn.src == 0 && insn.imm == 0)?;
                (Code::MayGoto, offset)
            }
            _ => {
                zero(if by_register { insn.imm == 0 } else { insn.src == 0 })?;
                (condition(insn.code >> 4, wide, by_register).ok_or_else(|| unknown(insn))?, offset)
            }
        };
        Ok(Op { at: self.target(slot, offset)?, ..op(code, insn) })
    }

    /// Distance of a jump in ops, for an offset in slots.
    fn target(&self, slot: u32, offset: i64) -> Result<i32, Problem> {
        let to = i64::from(slot) + 1 + offset;
        let start = usize::try_from(to).ok().and_then(|to| self.starts.get(to));
        match start {
            None => Err(format!("jump to {to}, which is outside of the function")),
            Some(&SECOND_HALF) => Err(format!("jump to {to}, into a 64-bit immediate")),
            Some(&start) => Ok(start as i32 - self.starts[slot as usize] as i32 - 1),
        }
    }
}

/// The op with the fields of `insn`, whose registers exist.
fn op(code: Code, insn: &Insn) -> Op {
    let [dst, src] = [insn.dst, insn.src].map(|number| Reg::new(number).expect("both were looked at"));
    Op { code, dst, src, probe: false, at: i32::from(insn.off), imm: i64::from(insn.imm) }
}

/// Number of bytes of the frame that an op can access itself or through a pointer: the whole frame unless it only
/// loads or stores.
fn reach(op: &Op) -> u32 {
    use Code::*;
    let goes_on = match op.code {
        Load8 | Load16 | Load32 | Load64 | LoadSx8 | LoadSx16 | LoadSx32 => op.src == Reg::FRAME,
        Store8K | Store16K | Store32K | Store64K => op.dst == Reg::FRAME,
        Store8X | Store16X | Store32X | Store64X => op.dst == Reg::FRAME && op.src != Reg::FRAME,
        _ => false,
    };
    match op.at {
        at if goes_on && -(STACK_BYTES as i32) < at && at < 0 => at.unsigned_abs(),
        _ if op.dst == Reg::FRAME || op.src == Reg::FRAME => STACK_BYTES,
        _ => 0,
    }
}

/// An op that faults with a message when executed.
fn fault(code: Code, text: String, program: &mut Program) -> Op {
    program.texts.push(text);
    Op { code, dst: Reg::R0, src: Reg::R0, probe: false, at: 0, imm: program.texts.len() as i64 - 1 }
}

fn unknown(insn: &Insn) -> Problem {
    format!("unknown instruction {:#04x} (offset {}, immediate {})", insn.code, insn.off, insn.imm)
}

/// Checks that unused fields are zero: a later instruction set may give them a meaning.
fn zero(fields_are_zero: bool) -> Result<(), Problem> {
    if fields_are_zero { Ok(()) } else { Err("a field that the instruction does not use is not zero".to_owned()) }
}

/// Checks that the destination is not the frame pointer, which is read-only.
fn writable(insn: &Insn) -> Result<(), Problem> {
    if insn.dst == 10 { Err("r10, the frame pointer, is read-only".to_owned()) } else { Ok(()) }
}

fn load(insn: &Insn, probe: bool) -> Result<Op, Problem> {
    writable(insn)?;
    zero(insn.imm == 0)?;
    let code = match insn.code {
        0x71 => Code::Load8,
        0x69 => Code::Load16,
        0x61 => Code::Load32,
        0x79 => Code::Load64,
        0x91 => Code::LoadSx8,
        0x89 => Code::LoadSx16,
        0x81 => Code::LoadSx32,
        _ => return Err(unknown(insn)),
    };
    Ok(Op { probe, ..op(code, insn) })
}

fn store(insn: &Insn) -> Result<Op, Problem> {
    let code = match insn.code {
        0x72 => Code::Store8K,
        0x6a => Code::Store16K,
        0x62 => Code::Store32K,
        0x7a => Code::Store64K,
        0x73 => Code::Store8X,
        0x6b => Code::Store16X,
        0x63 => Code::Store32X,
        0x7b => Code::Store64X,
        0xd3 | 0xcb | 0xc3 | 0xdb => return atomic(insn),
        _ => return Err(unknown(insn)),
    };
    zero(if insn.code & 7 == class::ST { insn.src == 0 } else { insn.imm == 0 })?;
    Ok(op(code, insn))
}

fn atomic(insn: &Insn) -> Result<Op, Problem> {
    let bytes: i64 = match insn.code & 0x18 {
        0x00 => 4,
        0x08 => 2,
        0x10 => 1,
        _ => 8,
    };
    let kind = Atomic::from_imm(insn.imm).ok_or_else(|| unknown(insn))?;
    let ordered_only = matches!(kind, Atomic::LoadAcquire | Atomic::StoreRelease);
    if bytes < 4 && !ordered_only {
        return Err(unknown(insn));
    }
    let written = match kind {
        Atomic::Add | Atomic::Or | Atomic::And | Atomic::Xor | Atomic::StoreRelease | Atomic::CompareExchange => 0,
        Atomic::LoadAcquire => insn.dst,
        _ => insn.src,
    };
    writable(&Insn { dst: written, ..*insn })?;
    Ok(Op { imm: (kind as i64) << 8 | bytes, ..op(Code::Atomic, insn) })
}

fn alu(insn: &Insn) -> Result<Op, Problem> {
    use Code::*;
    writable(insn)?;
    let wide = insn.code & 7 != class::ALU;
    let by_register = insn.code & 8 != 0;
    let operation = insn.code >> 4;
    let off = insn.off;
    let sources_are_zero = if by_register { insn.imm == 0 } else { insn.src == 0 };
    let codes = match (operation, off) {
        (0x0, 0) => [Add64K, Add64X, Add32K, Add32X],
        (0x1, 0) => [Sub64K, Sub64X, Sub32K, Sub32X],
        (0x2, 0) => [Mul64K, Mul64X, Mul32K, Mul32X],
        (0x3, 0) => [Div64K, Div64X, Div32K, Div32X],
        (0x3, 1) => [Sdiv64K, Sdiv64X, Sdiv32K, Sdiv32X],
        (0x4, 0) => [Or64K, Or64X, Or32K, Or32X],
        (0x5, 0) => [And64K, And64X, And32K, And32X],
        (0x6, 0) => [Lsh64K, Lsh64X, Lsh32K, Lsh32X],
        (0x7, 0) => [Rsh64K, Rsh64X, Rsh32K, Rsh32X],
        (0x8, 0) if !by_register => {
            zero(insn.src == 0 && insn.imm == 0)?;
            [Neg64, Neg64, Neg32, Neg32]
        }
        (0x9, 0) => [Mod64K, Mod64X, Mod32K, Mod32X],
        (0x9, 1) => [Smod64K, Smod64X, Smod32K, Smod32X],
        (0xa, 0) => [Xor64K, Xor64X, Xor32K, Xor32X],
        (0xb, 0) => [Mov64K, Mov64X, Mov32K, Mov32X],
        (0xb, _) if by_register => return move_with_offset(insn, wide),
        (0xc, 0) => [Arsh64K, Arsh64X, Arsh32K, Arsh32X],
        (0xd, 0) => return byte_order(insn, wide, by_register),
        _ => return Err(unknown(insn)),
    };
    zero(sources_are_zero)?;
    Ok(op(codes[usize::from(!wide) * 2 + usize::from(by_register)], insn))
}

/// Sign-extending moves and casts between address spaces.
fn move_with_offset(insn: &Insn, wide: bool) -> Result<Op, Problem> {
    let code = match (wide, insn.off, insn.imm) {
        (true, 8, 0) => Code::Movsx8To64,
        (true, 16, 0) => Code::Movsx16To64,
        (true, 32, 0) => Code::Movsx32To64,
        (false, 8, 0) => Code::Movsx8To32,
        (false, 16, 0) => Code::Movsx16To32,
        // The immediate is new address space << 16 | old address space; space 1 is the arena.
        (true, 1, 1) => Code::CastKernel,
        (true, 1, 0x1_0000) => Code::CastUser,
        _ => return Err(unknown(insn)),
    };
    Ok(op(code, insn))
}

fn byte_order(insn: &Insn, wide: bool, big_endian: bool) -> Result<Op, Problem> {
    zero(insn.src == 0)?;
    let code = match (wide, big_endian, insn.imm) {
        (false, false, 16) => Code::Le16,
        (false, false, 32) => Code::Le32,
        (false, false, 64) => Code::Le64,
        (false, true, 16) | (true, false, 16) => Code::Swap16,
        (false, true, 32) | (true, false, 32) => Code::Swap32,
        (false, true, 64) | (true, false, 64) => Code::Swap64,
        _ => return Err(unknown(insn)),
    };
    Ok(op(code, insn))
}

fn condition(operation: u8, wide: bool, by_register: bool) -> Option<Code> {
    use Code::*;
    let codes = match operation {
        0x1 => [Jeq64K, Jeq64X, Jeq32K, Jeq32X],
        0x2 => [Jgt64K, Jgt64X, Jgt32K, Jgt32X],
        0x3 => [Jge64K, Jge64X, Jge32K, Jge32X],
        0x4 => [Jset64K, Jset64X, Jset32K, Jset32X],
        0x5 => [Jne64K, Jne64X, Jne32K, Jne32X],
        0x6 => [Jsgt64K, Jsgt64X, Jsgt32K, Jsgt32X],
        0x7 => [Jsge64K, Jsge64X, Jsge32K, Jsge32X],
        0xa => [Jlt64K, Jlt64X, Jlt32K, Jlt32X],
        0xb => [Jle64K, Jle64X, Jle32K, Jle32X],
        0xc => [Jslt64K, Jslt64X, Jslt32K, Jslt32X],
        0xd => [Jsle64K, Jsle64X, Jsle32K, Jsle32X],
        _ => return None,
    };
    Some(codes[usize::from(!wide) * 2 + usize::from(by_register)])
}
