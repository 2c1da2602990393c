// SPDX-License-Identifier: GPL-2.0-only
//! A program in flight. All that an engine must keep while a program is suspended is here, so that any engine can go
//! on where another one stopped.

use crate::memory::pitch;
use crate::{GuestAddr, MapHandle, SourceLine};
use bpf_object::FunctionId;

/// Nested frames, callbacks included, as `MAX_CALL_FRAMES` of the kernel.
pub(crate) const MAX_FRAMES: u32 = 8;

/// Bytes of stack a frame has, as `MAX_BPF_STACK` of the kernel.
pub(crate) const STACK_BYTES: u32 = 512;

/// Bytes from one frame to the next: those between belong to nobody, so that no frame can reach another one.
pub(crate) const FRAME_STRIDE: u32 = 2 * STACK_BYTES;

/// The same in the storage of their region.
pub(crate) const FRAME_PITCH: usize = pitch(STACK_BYTES) as usize;

/// r0 to r10, and more, so that a number of four bits needs no check.
pub(crate) const REGS: usize = 16;

/// r6 to r9, which a function leaves as they were.
pub(crate) const SAVED: std::ops::Range<usize> = 6..10;

/// How often each activation of a function may pass `may_goto`, and how long loops of helpers and iterators may be, as
/// `BPF_MAX_LOOPS` of the kernel.
pub(crate) const MAX_LOOPS: u32 = 8 << 20;

/// Before which instructions an execution stops by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PausePoints {
    /// Before kfunc calls.
    pub kfuncs: bool,
    /// Before helper calls.
    pub helpers: bool,
    /// Before atomic instructions.
    pub atomics: bool,
    /// Before `bpf_spin_lock` and `bpf_spin_unlock`.
    pub spin_locks: bool,
}

/// What an execution stands before: the next instruction that can be a pause point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// The kfunc with this number.
    Kfunc(u32, [u64; 5]),
    /// The helper with this number.
    Helper(u32, [u64; 5]),
    /// An atomic instruction.
    Atomic,
    /// Anything else.
    Other,
}

/// Where an execution stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodeSite {
    /// Function.
    pub function: FunctionId,
    /// Instruction slot in it.
    pub insn: u32,
    /// Line of the policy's own source: of the innermost frame that has one.
    pub line: SourceLine,
}

/// How far an execution got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// It returned r0.
    Done(u64),
    /// It stands before an instruction that [`PausePoints`] names; run it again to go on.
    Paused,
}

/// A program in flight: registers, frames, counters. Reusable: keep one and [`crate::Machine::begin`] on it again; each
/// one owns 4 KiB of stack in its machine for good.
#[derive(Debug)]
pub struct Execution {
    /// CPU on which it runs: selects per-CPU values.
    pub cpu: u32,
    /// Instructions executed so far.
    pub executed: u64,
    /// Where to stop.
    pub pause: PausePoints,
    /// Stop once behind the next kfunc that is called.
    pub pause_behind: bool,
    /// Faults after so many instructions.
    pub budget: u64,
    /// Loads through bad pointers that gave 0, as the kernel's exception table makes them.
    pub probe_reads: u64,
    /// r0 to r10.
    pub(crate) regs: [u64; REGS],
    /// Index of the next op.
    pub(crate) pc: usize,
    pub(crate) frames: [Frame; MAX_FRAMES as usize],
    /// How many of `frames` are in use; 0 when nothing is in flight.
    pub(crate) depth: u32,
    /// Which of the machine's stacks is its own.
    pub(crate) stack: u32,
    /// Address of its outermost frame, and where that ends in the storage of its region.
    stack_addr: GuestAddr,
    stack_end: usize,
    /// Address of its argument block, and where that ends in the storage of its region.
    pub(crate) arguments: (GuestAddr, usize),
    /// It stopped at a pause point and shall not stop there again.
    pub(crate) paused: bool,
    /// The spin lock that it holds; 0 for none.
    pub(crate) lock: GuestAddr,
}

impl Execution {
    /// An execution that is not in flight.
    pub(crate) fn new(
        stack: u32,
        (stack_addr, stack_end): (GuestAddr, usize),
        arguments: (GuestAddr, usize),
    ) -> Execution {
        Execution {
            cpu: 0,
            executed: 0,
            pause: PausePoints::default(),
            pause_behind: false,
            budget: DEFAULT_BUDGET,
            probe_reads: 0,
            regs: [0; REGS],
            pc: 0,
            frames: [Frame::default(); MAX_FRAMES as usize],
            depth: 0,
            stack,
            stack_addr,
            stack_end,
            arguments,
            paused: false,
            lock: 0,
        }
    }

    /// The innermost frame.
    pub(crate) fn frame(&mut self) -> &mut Frame {
        &mut self.frames[self.depth as usize - 1]
    }

    /// Where the innermost frame ends in the storage of its region.
    #[inline]
    pub(crate) fn frame_end(&self) -> usize {
        self.stack_end + (self.depth as usize - 1) * FRAME_PITCH
    }

    /// r10 is the end of the innermost frame's stack.
    #[inline]
    pub(crate) fn point_to_frame(&mut self) {
        self.regs[10] = self.stack_addr + u64::from((self.depth - 1) * FRAME_STRIDE + STACK_BYTES);
    }

    /// A plain call from the innermost frame: a frame for the function, if there is room for one.
    #[inline(always)]
    pub(crate) fn call(
        &mut self,
        function: FunctionId,
        return_pc: u32,
        regs: &[u64; REGS],
        caller: SourceLine,
    ) -> bool {
        let Some(frame) = self.frames.get_mut(self.depth as usize) else { return false };
        frame.function = function;
        frame.return_pc = return_pc;
        frame.saved.copy_from_slice(&regs[SAVED]);
        frame.loops_left = MAX_LOOPS;
        frame.then = Then::Return;
        frame.caller = caller;
        self.depth += 1;
        true
    }

    /// r1 to r5.
    #[inline]
    pub(crate) fn arguments(&self) -> [u64; 5] {
        [self.regs[1], self.regs[2], self.regs[3], self.regs[4], self.regs[5]]
    }
}

/// Instructions after which a callback counts as endless, unless [`Execution::budget`] says otherwise. The verifier
/// explores at most 1 M; executed loops can be longer, and 64 M take a fraction of a second here.
const DEFAULT_BUDGET: u64 = 64 << 20;

/// One activation of a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub function: FunctionId,
    /// Op to go on with in the caller.
    pub return_pc: u32,
    /// The caller's r6 to r9.
    pub saved: [u64; 4],
    /// How often `may_goto` may still fall through.
    pub loops_left: u32,
    /// What happens when it returns.
    pub then: Then,
    /// Own line of the call that led here.
    pub caller: SourceLine,
}

impl Default for Frame {
    fn default() -> Frame {
        let (function, caller) = (FunctionId(0), SourceLine::default());
        Frame { function, return_pc: 0, saved: [0; 4], loops_left: 0, then: Then::Return, caller }
    }
}

/// What happens when a frame returns.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Then {
    /// The caller gets r0.
    Return,
    /// `bpf_loop`: next round, unless r0 is not 0.
    Loop { round: u64, rounds: u64, context: u64 },
    /// `bpf_for_each_map_elem`: next element, unless r0 is not 0. `next` is the slot to look at, `visited` counts.
    ForEach { map: MapHandle, next: u32, visited: u64, context: u64 },
}
