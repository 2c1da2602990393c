// SPDX-License-Identifier: GPL-2.0-only
//! The inner loop: arithmetic, jumps, loads and stores, and plain calls where no pause is possible. The outer loop
//! executes the rest.
//!
//! Instructions are counted at taken jumps and at the end, not one by one. The code executed between two calls,
//! returns or backward jumps is shorter than the program, so the budget cannot run out in between unless it is nearly
//! exhausted. Then, and when lines are counted, each op is checked. The loop is therefore compiled once for each
//! [`Count`].

use crate::engine::Engine;
use crate::execution::{Execution, FRAME_PITCH, FRAME_STRIDE, MAX_FRAMES, REGS, SAVED, Then};
use crate::op::{Code, Op};
use crate::{Context, FaultKind, Host, MapHandle, SourceLine, helpers, iter_num};
use bpf_object::FunctionId;

/// Why the inner loop stopped.
pub(super) enum Stop {
    /// The program has returned.
    Returned,
    /// The next op is one that only the outer loop executes; it is not counted yet.
    Special,
    /// The budget is exhausted.
    Budget,
    /// The budget may run out before the next taken jump: each op must be checked.
    NearBudget,
    /// A load that faults.
    BadLoad { addr: u64, size: u32 },
    /// A store that faults.
    BadStore { addr: u64, size: u32 },
    /// A call that faults.
    BadCall(Box<FaultKind>),
}

/// Own source line of the op at `pc`, or of the call that led there.
#[inline(always)]
fn line(engine: &Engine<'_>, x: &Execution, pc: usize) -> SourceLine {
    let own = engine.program.own[pc];
    if own.is_known() { own } else { x.frames[x.depth as usize - 1].caller }
}

/// Context of a host call by the op at `pc`; `executed` is the number of instructions executed in this run.
#[inline(always)]
fn context<'c>(engine: &'c mut Engine<'_>, x: &Execution, pc: usize, executed: u64) -> Context<'c> {
    let line = line(engine, x, pc);
    Context { memory: engine.memory, maps: engine.maps, cpu: x.cpu, line, executed: x.executed + executed }
}

/// r1 to r5.
#[inline(always)]
fn arguments(regs: &[u64; REGS]) -> [u64; 5] {
    [regs[1], regs[2], regs[3], regs[4], regs[5]]
}

/// State of the inner loop besides registers and memory.
pub(super) struct Progress {
    /// Index of the next op; after a fault, of the faulting one.
    pub pc: usize,
    /// Remaining budget in instructions.
    pub left: u64,
    /// Number of bad loads that returned 0 instead of faulting.
    pub probe_reads: u64,
}

/// How executed instructions are counted.
pub(super) trait Count {
    /// Whether the budget is checked before each op.
    const EACH: bool;
    /// Whether host calls are made from the inner loop.
    const CALLS: bool = false;
    /// Counts the op with this index.
    fn executes(&mut self, _: usize) {}
    /// Undoes the count of an op that was not executed after all.
    fn uncounts(&mut self, _: usize) {}
}

/// Execution without counting, for a budget longer than the program. The ops include superinstructions.
pub(super) struct Quick;

/// No counting, but the execution may have to pause.
pub(super) struct Blocks;

/// The budget is checked before each op.
pub(super) struct Guard;

impl Count for Quick {
    const EACH: bool = false;
    const CALLS: bool = true;
}

impl Count for Blocks {
    const EACH: bool = false;
}

impl Count for Guard {
    const EACH: bool = true;
}

impl Count for [u64] {
    const EACH: bool = true;
    #[inline(always)]
    fn executes(&mut self, pc: usize) {
        self[pc] += 1;
    }
    #[inline(always)]
    fn uncounts(&mut self, pc: usize) {
        self[pc] -= 1;
    }
}

/// High bits of arena addresses in user space: where the kernel maps an arena on x86 by default (contract 3.2).
const ARENA_USER_BASE: u64 = 1 << 44;

/// Panic message for a frame or region location that is invalid: all are checked when the program is loaded.
const STAYS: &str = "the location was checked at load";

/// Runs until it stops for one of the reasons in [`Stop`]. It is one long function so that the dispatch compiles to
/// one jump table.
pub(super) fn run<C: Count + ?Sized, H: Host>(
    ops: &[Op],
    engine: &mut Engine<'_>,
    x: &mut Execution,
    host: &mut H,
    progress: &mut Progress,
    count: &mut C,
) -> Stop {
    use Code::*;
    let all = progress.left;
    let stacks = engine.regions.stacks.0;
    let mut frame_end = x.frame_end();
    // A local copy of the registers is faster than access through `x`.
    let mut regs = x.regs;
    // The remaining ops. Only this changes from op to op; `spare` plus its length is the remaining budget.
    let mut rest = ops[progress.pc..].iter();
    let mut spare = all.wrapping_sub(rest.len() as u64);
    let (stop, pc) = loop {
        // `pc!`: index of the next op. `left!`: remaining budget before it.
        macro_rules! pc {
            () => {
                ops.len() - rest.len()
            };
        }
        macro_rules! left {
            () => {
                spare.wrapping_add(rest.len() as u64)
            };
        }
        if C::EACH && left!() == 0 {
            break (Stop::Budget, pc!());
        }
        count.executes(pc!());
        let op = rest.next().expect("a function ends with an exit or a jump");
        let k = op.imm as u64;
        // Stops at this op, or at the `$nth` of the ops that it replaces.
        macro_rules! stop {
            ($stop:expr) => {
                stop!($stop, 1)
            };
            ($stop:expr, $nth:literal) => {
                break ($stop, pc!() + $nth - 2)
            };
        }
        // Skips the ops that this one replaces.
        macro_rules! skip {
            (1) => {
                rest.next()
            };
            ($count:literal) => {
                rest.nth($count - 1)
            };
        }
        macro_rules! dst {
            () => {
                regs[op.dst as usize]
            };
        }
        macro_rules! src {
            () => {
                regs[op.src as usize]
            };
        }

        // 64-bit or 32-bit operation; the latter clears the upper half.
        macro_rules! alu64k {
            ($f:expr) => {
                dst!() = $f(dst!(), k)
            };
        }
        macro_rules! alu64x {
            ($f:expr) => {
                dst!() = $f(dst!(), src!())
            };
        }
        macro_rules! alu32k {
            ($f:expr) => {
                dst!() = u64::from($f(dst!() as u32, k as u32))
            };
        }
        macro_rules! alu32x {
            ($f:expr) => {
                dst!() = u64::from($f(dst!() as u32, src!() as u32))
            };
        }
        macro_rules! go_on_at {
            ($pc:expr) => {{
                let left = left!();
                rest = ops[$pc..].iter();
                spare = left.wrapping_sub(rest.len() as u64);
                if !C::EACH && left < ops.len() as u64 {
                    break (Stop::NearBudget, pc!());
                }
            }};
        }
        macro_rules! jump {
            ($condition:expr) => {
                if $condition {
                    match usize::try_from(op.at) {
                        Ok(over) => {
                            rest = rest.as_slice()[over..].iter();
                            spare = spare.wrapping_add(over as u64);
                        }
                        Err(_) => go_on_at!(pc!().wrapping_add_signed(op.at as isize)),
                    }
                }
            };
        }
        macro_rules! load {
            ($bytes:literal, $extend:expr) => {{
                let addr = src!().wrapping_add(i64::from(op.at) as u64);
                match engine.memory.load_le::<$bytes>(addr) {
                    Some(value) => dst!() = $extend(value),
                    None if op.probe => {
                        progress.probe_reads += 1;
                        dst!() = 0;
                    }
                    None => stop!(Stop::BadLoad { addr, size: $bytes }),
                }
            }};
        }
        macro_rules! store {
            ($bytes:literal, $value:expr) => {{
                let addr = dst!().wrapping_add(i64::from(op.at) as u64);
                if engine.memory.store_le::<$bytes>(addr, $value).is_none() {
                    stop!(Stop::BadStore { addr, size: $bytes });
                }
            }};
        }
        // A load within a fused op, of which the load is the `$nth` instruction.
        macro_rules! load_from {
            ($bytes:literal, $addr:expr, $nth:literal) => {{
                let addr = $addr;
                match engine.memory.load_le::<$bytes>(addr) {
                    Some(value) => dst!() = value,
                    None => stop!(Stop::BadLoad { addr, size: $bytes }, $nth),
                }
            }};
        }
        macro_rules! table {
            ($bytes:literal) => {{
                load_from!($bytes, k.wrapping_add(src!()), 3);
                skip!(2);
            }};
        }
        macro_rules! global {
            ($bytes:literal) => {{
                dst!() = engine.memory.load_at::<$bytes>(op.at as u16, k as usize).expect(STAYS);
                skip!(1);
            }};
        }
        macro_rules! load_and_jump {
            ($bytes:literal, $compare:ident) => {{
                load_from!($bytes, src!().wrapping_add((op.imm >> 32) as u64), 1);
                skip!(1);
                jump!((dst!() as u32).$compare(&(k as u32)))
            }};
        }
        macro_rules! set_and_jump {
            ($compare:ident) => {{
                dst!() = i64::from(k as i32) as u64;
                skip!(1);
                jump!(src!().$compare(&regs[(k >> 32) as usize % REGS]))
            }};
        }
        macro_rules! frame {
            () => {
                frame_end.wrapping_sub(k as usize)
            };
        }
        macro_rules! frame_load {
            ($bytes:literal) => {
                dst!() = engine.memory.load_at::<$bytes>(stacks, frame!()).expect(STAYS)
            };
        }
        macro_rules! frame_store {
            ($bytes:literal) => {
                engine.memory.store_at::<$bytes>(stacks, frame!(), src!()).expect(STAYS)
            };
        }
        // Calls `$call` with the host and a context, and stores its value in r0.
        macro_rules! call {
            ($call:expr) => {{
                let mut context = context(engine, x, pc!() - 1, all.wrapping_sub(left!()));
                match $call(&mut *host, arguments(&regs), &mut context) {
                    Ok(value) => regs[0] = value,
                    Err(fault) => stop!(Stop::BadCall(Box::new(fault))),
                }
            }};
        }
        macro_rules! kfunc {
            () => {
                call!(|host: &mut H, args, context: &mut Context<'_>| host.kfunc(k as u32, args, context))
            };
        }
        macro_rules! plain {
            () => {
                match host.plain((k >> 32) as u32, k as u32, [regs[1], regs[2]], engine.memory) {
                    Some(value) => regs[0] = value,
                    None => kfunc!(),
                }
            };
        }
        macro_rules! enter {
            () => {{
                let code = &engine.program.functions[op.at as usize];
                let caller = line(engine, x, pc!() - 1);
                if !x.call(FunctionId(op.at as u32), pc!() as u32, &regs, caller) {
                    stop!(Stop::BadCall(Box::new(FaultKind::CallDepth(MAX_FRAMES))));
                }
                regs[10] += u64::from(FRAME_STRIDE);
                frame_end += FRAME_PITCH;
                engine.regions.clear_frame(engine.memory, code, frame_end);
                go_on_at!(code.entry as usize);
            }};
        }
        macro_rules! storage {
            () => {
                match helpers::storage_get(engine.memory, engine.maps, arguments(&regs)) {
                    Ok(value) => regs[0] = value,
                    Err(fault) => stop!(Stop::BadCall(Box::new(fault))),
                }
            };
        }
        macro_rules! iterate {
            ($kfunc:path) => {
                call!(|host: &mut H, args, context: &mut Context<'_>| {
                    host.counts(k as u32);
                    $kfunc(context, args)
                })
            };
        }

        match op.code {
            Call if C::CALLS => enter!(),
            MovCall2 => {
                dst!() = src!();
                skip!(1);
                enter!()
            }
            MovwCall2 => {
                dst!() = u64::from(src!() as u32);
                skip!(1);
                enter!()
            }
            Exit if C::CALLS && x.depth > 1 && matches!(x.frame().then, Then::Return) => {
                let frame = x.frame();
                regs[SAVED].copy_from_slice(&frame.saved);
                let return_pc = frame.return_pc as usize;
                x.depth -= 1;
                regs[10] -= u64::from(FRAME_STRIDE);
                frame_end -= FRAME_PITCH;
                go_on_at!(return_pc);
            }
            Exit if C::CALLS && x.depth == 1 && x.lock == 0 => break (Stop::Returned, pc!()),
            Kfunc if C::CALLS => kfunc!(),
            MovKfunc2 => {
                dst!() = src!();
                skip!(1);
                kfunc!()
            }
            MovwKfunc2 => {
                dst!() = u64::from(src!() as u32);
                skip!(1);
                kfunc!()
            }
            PlainKfunc => plain!(),
            MovPlain2 => {
                dst!() = src!();
                skip!(1);
                plain!()
            }
            MovwPlain2 => {
                dst!() = u64::from(src!() as u32);
                skip!(1);
                plain!()
            }
            HostHelper => call!(|host: &mut H, args, context: &mut Context<'_>| host.helper(k as u32, args, context)),
            StorageGet => storage!(),
            StorageFind5 => {
                (regs[1], regs[2], regs[3], regs[4]) = (k, src!(), 0, 0);
                skip!(4);
                match engine.maps.kept(engine.memory, MapHandle(op.at as u32), regs[2]) {
                    Some(value) => regs[0] = value,
                    None => storage!(),
                }
            }
            IterNext => iterate!(iter_num::next),
            IterNew => iterate!(iter_num::new),
            IterDestroy => iterate!(iter_num::destroy),

            Const2 => {
                dst!() = k;
                skip!(1);
            }
            Const3 => {
                dst!() = k;
                skip!(2);
            }
            ConstJump2 => {
                dst!() = k;
                skip!(1);
                jump!(true)
            }
            ConstJump3 => {
                dst!() = k;
                skip!(2);
                jump!(true)
            }
            Sum2 => {
                dst!() = src!().wrapping_add(k);
                skip!(1);
            }
            MovLsh2 => {
                dst!() = src!().wrapping_shl(k as u32);
                skip!(1);
            }
            AndLsh2 => {
                dst!() = u64::from(dst!() as u32 & k as u32).wrapping_shl((k >> 32) as u32);
                skip!(1);
            }
            MovMov2 => {
                dst!() = src!();
                regs[op.at as usize % REGS] = regs[(op.at >> 8) as usize % REGS];
                skip!(1);
            }
            SetSet2 => {
                dst!() = k;
                src!() = i64::from(op.at) as u64;
                skip!(1);
            }
            SetMov2 => {
                dst!() = k;
                regs[op.at as usize % REGS] = regs[(op.at >> 8) as usize % REGS];
                skip!(1);
            }
            Difference2 => {
                dst!() = src!().wrapping_sub(regs[op.at as usize % REGS]);
                skip!(1);
            }
            LoadDifference3 => {
                load_from!(8, src!().wrapping_add(i64::from(op.at) as u64), 1);
                let [dst, from, less, ..] = k.to_le_bytes().map(|register| usize::from(register) % REGS);
                regs[dst] = regs[from].wrapping_sub(regs[less]);
                skip!(2);
            }
            SetJgt2 => set_and_jump!(gt),
            SetJge2 => set_and_jump!(ge),
            AndJz2 => {
                dst!() = u64::from(dst!() as u32 & k as u32);
                skip!(1);
                jump!(dst!() == 0)
            }
            AndJnz2 => {
                dst!() = u64::from(dst!() as u32 & k as u32);
                skip!(1);
                jump!(dst!() != 0)
            }
            Load8Jeq2 => load_and_jump!(1, eq),
            Load8Jne2 => load_and_jump!(1, ne),
            Load32Jeq2 => load_and_jump!(4, eq),
            Load32Jne2 => load_and_jump!(4, ne),
            Table8x3 => table!(1),
            Table16x3 => table!(2),
            Table32x3 => table!(4),
            Table64x3 => table!(8),
            Element64x3 => {
                dst!() = k.wrapping_add(src!());
                let addr = dst!().wrapping_add(i64::from(op.at >> 8) as u64);
                let Some(value) = engine.memory.load_le::<8>(addr) else {
                    stop!(Stop::BadLoad { addr, size: 8 }, 3);
                };
                regs[op.at as usize % REGS] = value;
                skip!(2);
            }
            Global8x2 => global!(1),
            Global16x2 => global!(2),
            Global32x2 => global!(4),
            Global64x2 => global!(8),
            FrameLoad8 => frame_load!(1),
            FrameLoad16 => frame_load!(2),
            FrameLoad32 => frame_load!(4),
            FrameLoad64 => frame_load!(8),
            FrameStore8 => frame_store!(1),
            FrameStore16 => frame_store!(2),
            FrameStore32 => frame_store!(4),
            FrameStore64 => frame_store!(8),

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
            // Shift counts are taken modulo the width (RFC 9669, 4.1), as in `wrapping_shl`.
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
            Mov64K => dst!() = k,
            Mov64X => dst!() = src!(),
            Mov32K => dst!() = u64::from(k as u32),
            Mov32X => dst!() = u64::from(src!() as u32),
            Neg64 => dst!() = dst!().wrapping_neg(),
            Neg32 => dst!() = u64::from((dst!() as u32).wrapping_neg()),
            Movsx8To64 => dst!() = i64::from(src!() as i8) as u64,
            Movsx16To64 => dst!() = i64::from(src!() as i16) as u64,
            Movsx32To64 => dst!() = i64::from(src!() as i32) as u64,
            Movsx8To32 => dst!() = u64::from(i32::from(src!() as i8) as u32),
            Movsx16To32 => dst!() = u64::from(i32::from(src!() as i16) as u32),
            Le16 => dst!() = u64::from(dst!() as u16),
            Le32 => dst!() = u64::from(dst!() as u32),
            Le64 => {}
            Swap16 => dst!() = u64::from((dst!() as u16).swap_bytes()),
            Swap32 => dst!() = u64::from((dst!() as u32).swap_bytes()),
            Swap64 => dst!() = dst!().swap_bytes(),
            CastKernel => dst!() = u64::from(src!() as u32),
            CastUser => dst!() = if src!() as u32 == 0 { 0 } else { u64::from(src!() as u32) | ARENA_USER_BASE },

            Ja => jump!(true),
            MayGoto if x.frame().loops_left == 0 => jump!(true),
            MayGoto => x.frame().loops_left -= 1,
            Jeq64K => jump!(dst!() == k),
            Jeq64X => jump!(dst!() == src!()),
            Jeq32K => jump!(dst!() as u32 == k as u32),
            Jeq32X => jump!(dst!() as u32 == src!() as u32),
            Jne64K => jump!(dst!() != k),
            Jne64X => jump!(dst!() != src!()),
            Jne32K => jump!(dst!() as u32 != k as u32),
            Jne32X => jump!(dst!() as u32 != src!() as u32),
            Jgt64K => jump!(dst!() > k),
            Jgt64X => jump!(dst!() > src!()),
            Jgt32K => jump!(dst!() as u32 > k as u32),
            Jgt32X => jump!(dst!() as u32 > src!() as u32),
            Jge64K => jump!(dst!() >= k),
            Jge64X => jump!(dst!() >= src!()),
            Jge32K => jump!(dst!() as u32 >= k as u32),
            Jge32X => jump!(dst!() as u32 >= src!() as u32),
            Jlt64K => jump!(dst!() < k),
            Jlt64X => jump!(dst!() < src!()),
            Jlt32K => jump!((dst!() as u32) < k as u32),
            Jlt32X => jump!((dst!() as u32) < src!() as u32),
            Jle64K => jump!(dst!() <= k),
            Jle64X => jump!(dst!() <= src!()),
            Jle32K => jump!(dst!() as u32 <= k as u32),
            Jle32X => jump!(dst!() as u32 <= src!() as u32),
            Jsgt64K => jump!(dst!() as i64 > k as i64),
            Jsgt64X => jump!(dst!() as i64 > src!() as i64),
            Jsgt32K => jump!(dst!() as i32 > k as i32),
            Jsgt32X => jump!(dst!() as i32 > src!() as i32),
            Jsge64K => jump!(dst!() as i64 >= k as i64),
            Jsge64X => jump!(dst!() as i64 >= src!() as i64),
            Jsge32K => jump!(dst!() as i32 >= k as i32),
            Jsge32X => jump!(dst!() as i32 >= src!() as i32),
            Jslt64K => jump!((dst!() as i64) < k as i64),
            Jslt64X => jump!((dst!() as i64) < src!() as i64),
            Jslt32K => jump!((dst!() as i32) < k as i32),
            Jslt32X => jump!((dst!() as i32) < src!() as i32),
            Jsle64K => jump!(dst!() as i64 <= k as i64),
            Jsle64X => jump!(dst!() as i64 <= src!() as i64),
            Jsle32K => jump!(dst!() as i32 <= k as i32),
            Jsle32X => jump!(dst!() as i32 <= src!() as i32),
            Jset64K => jump!(dst!() & k != 0),
            Jset64X => jump!(dst!() & src!() != 0),
            Jset32K => jump!((dst!() & k) as u32 != 0),
            Jset32X => jump!((dst!() & src!()) as u32 != 0),

            Load8 => load!(1, u64::from),
            Load16 => load!(2, u64::from),
            Load32 => load!(4, u64::from),
            Load64 => load!(8, u64::from),
            LoadSx8 => load!(1, |value| i64::from(value as i8) as u64),
            LoadSx16 => load!(2, |value| i64::from(value as i16) as u64),
            LoadSx32 => load!(4, |value| i64::from(value as i32) as u64),
            LoadLive => {
                let addr = src!().wrapping_add(i64::from(op.at) as u64);
                host.refresh(addr, op.imm.unsigned_abs() as u32, engine.memory);
                match op.imm {
                    1 => load!(1, u64::from),
                    2 => load!(2, u64::from),
                    4 => load!(4, u64::from),
                    -1 => load!(1, |value| i64::from(value as i8) as u64),
                    -2 => load!(2, |value| i64::from(value as i16) as u64),
                    -4 => load!(4, |value| i64::from(value as i32) as u64),
                    _ => load!(8, u64::from),
                }
            }
            Store8K => store!(1, k),
            Store16K => store!(2, k),
            Store32K => store!(4, k),
            Store64K => store!(8, k),
            Store8X => store!(1, src!()),
            Store16X => store!(2, src!()),
            Store32X => store!(4, src!()),
            Store64X => store!(8, src!()),

            Atomic | Call | Helper | Kfunc | Exit | Poison | MissingKfunc => {
                count.uncounts(pc!() - 1);
                stop!(Stop::Special);
            }
        }
    };
    match stop {
        Stop::Returned => x.regs[0] = regs[0],
        _ => x.regs = regs,
    }
    // A faulting op counts as executed, and `pc` stays at it.
    let faulted = matches!(stop, Stop::BadLoad { .. } | Stop::BadStore { .. } | Stop::BadCall(_));
    progress.pc = pc;
    progress.left = spare.wrapping_add((ops.len() - pc) as u64) - u64::from(faulted);
    stop
}

// Division by zero yields 0, and a remainder by zero the dividend (RFC 9669, 4.1); the smallest number divided by -1
// wraps.

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
