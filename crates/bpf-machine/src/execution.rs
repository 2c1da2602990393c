// SPDX-License-Identifier: GPL-2.0-only
//! State of a program in progress. It holds everything that an engine needs to continue a suspended program, so that
//! any engine can continue it.

use crate::memory::pitch;
use crate::{GuestAddr, MapHandle, SourceLine};
use bpf_object::FunctionId;

/// Maximum number of nested frames, callbacks included (`MAX_CALL_FRAMES` of the kernel).
pub(crate) const MAX_FRAMES: u32 = 8;

/// Stack size of a frame in bytes (`MAX_BPF_STACK` of the kernel).
pub(crate) const STACK_BYTES: u32 = 512;

/// Distance between frame addresses in bytes: the gap between frames is unmapped, so that no frame can access
/// another.
pub(crate) const FRAME_STRIDE: u32 = 2 * STACK_BYTES;

/// Distance between frames in the region's storage, in bytes.
pub(crate) const FRAME_PITCH: usize = pitch(STACK_BYTES) as usize;

/// r0 to r10, padded to 16 so that a 4-bit index needs no bounds check.
pub(crate) const REGS: usize = 16;

/// Callee-saved registers r6 to r9.
pub(crate) const SAVED: std::ops::Range<usize> = 6..10;

/// Maximum number of `may_goto` fall-throughs per function activation, and of iterations of helper loops and
/// iterators (`BPF_MAX_LOOPS` of the kernel).
pub(crate) const MAX_LOOPS: u32 = 8 << 20;

/// Instructions before which an execution pauses.
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

/// The next instruction of an execution, if it can be a pause point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// A call of the kfunc with this number and these arguments.
    Kfunc(u32, [u64; 5]),
    /// A call of the helper with this number and these arguments.
    Helper(u32, [u64; 5]),
    /// An atomic instruction.
    Atomic,
    /// Any other instruction.
    Other,
}

/// Position of an execution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodeSite {
    /// Function.
    pub function: FunctionId,
    /// Instruction slot in the function.
    pub insn: u32,
    /// Own source line of the innermost frame that has one.
    pub line: SourceLine,
}

/// Result of running an execution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The program has returned this r0.
    Done(u64),
    /// The execution is before an instruction that [`PausePoints`] names; run it again to continue.
    Paused,
}

/// A program in progress: registers, frames, counters. Reusable by [`crate::Machine::begin`]; each execution
/// permanently owns 4 KiB of stack in its machine.
#[derive(Debug)]
pub struct Execution {
    /// CPU on which it runs; selects per-CPU values.
    pub cpu: u32,
    /// Number of instructions executed so far.
    pub executed: u64,
    /// Pause points.
    pub pause: PausePoints,
    /// Pause once after the next kfunc call.
    pub pause_behind: bool,
    /// Maximum number of instructions; more are a fault.
    pub budget: u64,
    /// Number of loads through bad pointers that returned 0, as with the kernel's exception table.
    pub probe_reads: u64,
    /// r0 to r10.
    pub(crate) regs: [u64; REGS],
    /// Index of the next op.
    pub(crate) pc: usize,
    pub(crate) frames: [Frame; MAX_FRAMES as usize],
    /// Number of frames in use; 0 if no program is in progress.
    pub(crate) depth: u32,
    /// Number of its stack in the machine.
    pub(crate) stack: u32,
    /// Guest address of the outermost frame, and the end of that frame as an offset in its region's storage.
    stack_addr: GuestAddr,
    stack_end: usize,
    /// Guest address of the argument block, and the end of the block as an offset in its region's storage.
    pub(crate) arguments: (GuestAddr, usize),
    /// Whether the execution is stopped at a pause point, at which it must not stop again when it resumes.
    pub(crate) paused: bool,
    /// Address of the spin lock that it holds; 0 for none.
    pub(crate) lock: GuestAddr,
}

impl Execution {
    /// An execution without a program in progress.
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

    /// End of the innermost frame in the region's storage.
    #[inline]
    pub(crate) fn frame_end(&self) -> usize {
        self.stack_end + (self.depth as usize - 1) * FRAME_PITCH
    }

    /// Sets r10 to the end of the innermost frame.
    #[inline]
    pub(crate) fn point_to_frame(&mut self) {
        self.regs[10] = self.stack_addr + u64::from((self.depth - 1) * FRAME_STRIDE + STACK_BYTES);
    }

    /// Pushes a frame for a plain call; returns false if the call depth is exceeded.
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

/// Default instruction budget of a callback. The verifier explores at most 1 M instructions, but executed loops can
/// be longer; 64 M take a fraction of a second.
const DEFAULT_BUDGET: u64 = 64 << 20;

/// One activation of a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub function: FunctionId,
    /// Op at which the caller continues.
    pub return_pc: u32,
    /// The caller's r6 to r9.
    pub saved: [u64; 4],
    /// Remaining `may_goto` fall-throughs.
    pub loops_left: u32,
    /// Action when the function returns.
    pub then: Then,
    /// Own source line of the call.
    pub caller: SourceLine,
}

impl Default for Frame {
    fn default() -> Frame {
        let (function, caller) = (FunctionId(0), SourceLine::default());
        Frame { function, return_pc: 0, saved: [0; 4], loops_left: 0, then: Then::Return, caller }
    }
}

/// Action when the function of a frame returns.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Then {
    /// The caller continues with r0.
    Return,
    /// `bpf_loop`: the next iteration, unless r0 is nonzero.
    Loop { round: u64, rounds: u64, context: u64 },
    /// `bpf_for_each_map_elem`: the next element, unless r0 is nonzero. `next` is the slot to continue from,
    /// `visited` the number of elements so far.
    ForEach { map: MapHandle, next: u32, visited: u64, context: u64 },
}
