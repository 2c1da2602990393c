// SPDX-License-Identifier: GPL-2.0-only
//! Parts of a machine during a run, and the frames of its executions: shared by the interpreter and the helpers.

use crate::decode::{FunctionCode, Program};
use crate::execution::{Execution, FRAME_STRIDE, MAX_FRAMES, MAX_LOOPS, SAVED, Step, Then};
use crate::maps::ElementKey;
use crate::{FaultKind, GuestAddr, MapHandle, Maps, Memory, RegionId};
use bpf_object::FunctionId;

/// Regions that the engine uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Regions {
    /// Targets of function pointers; the slot is the function.
    pub functions: RegionId,
    /// Stack frames; slot = 1 + stack * [`MAX_FRAMES`] + depth. Slot 0 is unused, so that an address below the first
    /// frame is still in the region and its fault names the stack.
    pub stacks: RegionId,
    /// Array indices that callbacks get as pointers; slots as in `stacks`.
    pub keys: RegionId,
}

/// Parts of a machine, borrowed for a run.
pub(crate) struct Engine<'a> {
    pub program: &'a Program,
    pub memory: &'a mut Memory,
    pub maps: &'a mut Maps,
    pub regions: Regions,
    /// Execution count of each op, if enabled.
    pub counts: Option<&'a mut [u64]>,
}

impl Regions {
    /// Creates a stack; returns the address of its outermost frame, and the end of that frame in the region's
    /// storage.
    pub fn make_stack(&self, memory: &mut Memory, stack: u32) -> (GuestAddr, usize) {
        let (outermost, frames) = (frame_slot(stack, 0), frame_slot(stack, MAX_FRAMES));
        memory.grow(self.stacks, frames);
        memory.grow(self.keys, frames);
        assert_eq!(memory.addr(self.stacks, 1) - memory.addr(self.stacks, 0), u64::from(FRAME_STRIDE));
        (memory.addr(self.stacks, outermost), memory.storage_end(self.stacks, outermost))
    }

    /// Zeroes the frame that ends at `end` before a function starts.
    #[inline(always)]
    pub fn clear_frame(&self, memory: &mut Memory, code: &FunctionCode, end: usize) {
        if code.stack > 0 {
            // Programs with CAP_PERFMON may read uninitialized stack: it must not depend on earlier executions.
            memory.zero_before(self.stacks, end, code.stack as usize);
        }
    }
}

/// Slot of a frame (see [`Regions`]).
fn frame_slot(stack: u32, depth: u32) -> u32 {
    1 + stack * MAX_FRAMES + depth
}

impl Engine<'_> {
    /// The function at a callback pointer.
    pub fn callback(&self, addr: GuestAddr) -> Result<FunctionId, FaultKind> {
        match self.memory.slot_in(self.regions.functions, addr) {
            Some(slot) => Ok(FunctionId(slot)),
            None => Err(FaultKind::BadArgument(format!("{addr:#x} is not the address of a function"))),
        }
    }

    /// Calls a function from the op at `x.pc`.
    pub fn push(&mut self, x: &mut Execution, function: FunctionId, then: Then) -> Result<(), FaultKind> {
        if x.depth == MAX_FRAMES {
            return Err(FaultKind::CallDepth(MAX_FRAMES));
        }
        let caller = self.program.line(x);
        let frame = &mut x.frames[x.depth as usize];
        frame.caller = caller;
        frame.function = function;
        frame.return_pc = x.pc as u32 + 1;
        frame.saved.copy_from_slice(&x.regs[SAVED]);
        frame.then = then;
        x.depth += 1;
        self.enter_frame(x);
        Ok(())
    }

    /// Enters the function of the innermost frame.
    fn enter_frame(&mut self, x: &mut Execution) {
        let frame = x.frame();
        frame.loops_left = MAX_LOOPS;
        let code = &self.program.functions[frame.function.0 as usize];
        x.pc = code.entry as usize;
        self.regions.clear_frame(self.memory, code, x.frame_end());
        x.point_to_frame();
    }

    /// Returns from the innermost frame.
    #[inline]
    pub fn leave(&mut self, x: &mut Execution) -> Result<Option<Step>, FaultKind> {
        if x.depth == 1 {
            if x.lock != 0 {
                return Err(FaultKind::BadArgument(format!("returns with the spin lock at {:#x} held", x.lock)));
            }
            x.depth = 0;
            return Ok(Some(Step::Done(x.regs[0])));
        }
        if let Then::Return = x.frame().then {
            self.pop(x, x.regs[0]);
        } else {
            self.next_callback(x)?;
        }
        Ok(None)
    }

    /// Continues the loop whose callback has returned.
    fn next_callback(&mut self, x: &mut Execution) -> Result<(), FaultKind> {
        let stopped = x.regs[0] != 0;
        match x.frame().then {
            Then::Return => unreachable!("a plain call"),
            Then::Loop { round, rounds, .. } if stopped || round + 1 == rounds => self.pop(x, round + 1),
            Then::Loop { round, rounds, context } => {
                x.frame().then = Then::Loop { round: round + 1, rounds, context };
                (x.regs[1], x.regs[2]) = (round + 1, context);
                self.enter_frame(x);
            }
            Then::ForEach { visited, .. } if stopped => self.pop(x, visited),
            Then::ForEach { map, next, visited, context } => {
                match self.next_element(x, map, next, x.depth - 1, context)? {
                    Some(next) => {
                        x.frame().then = Then::ForEach { map, next, visited: visited + 1, context };
                        self.enter_frame(x);
                    }
                    None => self.pop(x, visited),
                }
            }
        }
        Ok(())
    }

    /// Returns `value` to the caller.
    #[inline]
    pub fn pop(&mut self, x: &mut Execution, value: u64) {
        let frame = x.frame();
        let (return_pc, saved) = (frame.return_pc, frame.saved);
        x.depth -= 1;
        x.pc = return_pc as usize;
        x.regs[0] = value;
        x.regs[SAVED].copy_from_slice(&saved);
        x.point_to_frame();
    }

    /// Calls the callback for the first element of a map; `None` if the map is empty.
    pub fn begin_for_each(
        &mut self,
        x: &mut Execution,
        map: MapHandle,
        callback: FunctionId,
        context: u64,
    ) -> Result<Option<()>, FaultKind> {
        if x.depth == MAX_FRAMES {
            return Err(FaultKind::CallDepth(MAX_FRAMES));
        }
        let Some(next) = self.next_element(x, map, 0, x.depth, context)? else { return Ok(None) };
        self.push(x, callback, Then::ForEach { map, next, visited: 1, context })?;
        Ok(Some(()))
    }

    /// Sets the arguments of the callback at `depth` for the next element; returns the slot to continue from, or
    /// `None` at the end.
    fn next_element(
        &mut self,
        x: &mut Execution,
        map: MapHandle,
        from: u32,
        depth: u32,
        context: u64,
    ) -> Result<Option<u32>, FaultKind> {
        let Some(element) = self.maps.element(self.memory, map, from, x.cpu)? else { return Ok(None) };
        let key = match element.key {
            ElementKey::At(addr) => addr,
            ElementKey::Index(index) => {
                let slot = frame_slot(x.stack, depth);
                self.memory.set_u32(self.regions.keys, slot, 0, index);
                self.memory.addr(self.regions.keys, slot)
            }
        };
        x.regs[1..5].copy_from_slice(&[self.maps.addr(self.memory, map), key, element.value, context]);
        Ok(Some(element.next))
    }
}
