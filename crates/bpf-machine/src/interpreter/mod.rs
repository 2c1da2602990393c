// SPDX-License-Identifier: GPL-2.0-only
//! The interpreter: executes decoded ops one by one. The inner loop is in `straight`; this outer loop executes ops
//! that need frames or the host, or that can pause.

mod atomic;
mod straight;

use crate::decode::Program;
use crate::engine::Engine;
use crate::execution::{CodeSite, Execution, PausePoints, Step, Then};
use crate::helpers::{self, Outcome};
use crate::op::{Code, Op};
use crate::{Context, FaultKind, Host, SourceLine};
use bpf_object::FunctionId;
use straight::{Blocks, Guard, Progress, Quick, Stop};

impl Execution {
    /// Whether the execution pauses before `op`, unless it has just paused there.
    fn pauses_before(&self, op: &Op) -> bool {
        match op.code {
            Code::Kfunc => self.pause.kfuncs,
            Code::Helper => self.pause.helpers || self.pause.spin_locks && helpers::is_of_spin_lock(op.imm as u32),
            Code::Atomic => self.pause.atomics,
            _ => false,
        }
    }
}

impl Program {
    /// Position of an execution.
    pub(crate) fn site(&self, x: &Execution) -> CodeSite {
        let function = x.frames[x.depth as usize - 1].function;
        CodeSite { function, insn: self.slots[x.pc], line: self.line(x) }
    }

    /// Own source line of the innermost frame that has one.
    #[inline]
    pub(crate) fn line(&self, x: &Execution) -> SourceLine {
        let line = self.own[x.pc];
        if line.is_known() { line } else { x.frames[x.depth as usize - 1].caller }
    }
}

impl Engine<'_> {
    /// Runs until the program returns, pauses or faults; after a fault, `x.pc` is at the faulting op.
    #[inline(always)]
    pub fn run<H: Host>(&mut self, x: &mut Execution, host: &mut H) -> Result<Step, FaultKind> {
        // Pausing and line counting need the original ops, without superinstructions.
        let quick = x.pause == PausePoints::default();
        loop {
            let left = x.budget.saturating_sub(x.executed);
            let (stop, left_then) = self.straight(x, host, left, quick);
            x.executed += left - left_then;
            match stop {
                Stop::Special if left_then == 0 => return Err(FaultKind::Budget(x.budget)),
                Stop::Special => {
                    if let Some(step) = self.special(x, host)? {
                        return Ok(step);
                    }
                }
                Stop::Returned => {
                    x.depth = 0;
                    return Ok(Step::Done(x.regs[0]));
                }
                Stop::NearBudget => {}
                Stop::Budget => return Err(FaultKind::Budget(x.budget)),
                Stop::BadLoad { addr, size } => return Err(self.memory.bad_load(addr, size)),
                Stop::BadStore { addr, size } => return Err(self.memory.bad_store(addr, size)),
                Stop::BadCall(fault) => return Err(*fault),
            }
        }
    }

    /// Runs the inner loop; returns the reason of its end and the remaining budget.
    #[inline(always)]
    fn straight<H: Host>(&mut self, x: &mut Execution, host: &mut H, left: u64, quick: bool) -> (Stop, u64) {
        let program = self.program;
        let ops = &program.ops;
        let mut progress = Progress { pc: x.pc, left, probe_reads: x.probe_reads };
        let stop = match self.counts.take() {
            Some(counts) => {
                let stop = straight::run(ops, self, x, host, &mut progress, &mut *counts);
                self.counts = Some(counts);
                stop
            }
            None if left < ops.len() as u64 => straight::run(ops, self, x, host, &mut progress, &mut Guard),
            None if quick => straight::run(&program.quick, self, x, host, &mut progress, &mut Quick),
            None => straight::run(ops, self, x, host, &mut progress, &mut Blocks),
        };
        x.pc = progress.pc;
        x.probe_reads = progress.probe_reads;
        (stop, progress.left)
    }

    /// Executes one op that the inner loop does not handle. `Some` ends the run.
    fn special<H: Host>(&mut self, x: &mut Execution, host: &mut H) -> Result<Option<Step>, FaultKind> {
        let program = self.program;
        let op = &program.ops[x.pc];
        let paused = std::mem::take(&mut x.paused);
        if x.pause != PausePoints::default() && !paused && x.pauses_before(op) {
            x.paused = true;
            return Ok(Some(Step::Paused));
        }
        x.executed += 1;
        if let Some(counts) = &mut self.counts {
            counts[x.pc] += 1;
        }
        match op.code {
            Code::Kfunc => {
                let line = program.line(x);
                let (cpu, executed) = (x.cpu, x.executed);
                let mut cx = Context { memory: self.memory, maps: self.maps, cpu, line, executed };
                x.regs[0] = host.kfunc(op.imm as u32, x.arguments(), &mut cx)?;
                x.pc += 1;
                if x.pause_behind {
                    x.pause_behind = false;
                    return Ok(Some(Step::Paused));
                }
            }
            Code::Helper => return self.helper(x, host, op.imm as u32),
            Code::Atomic => {
                atomic::execute(op, &mut x.regs, self.memory)?;
                x.pc += 1;
            }
            Code::Call => self.push(x, FunctionId(op.at as u32), Then::Return)?,
            Code::Exit => return self.leave(x),
            Code::Poison => return Err(FaultKind::Poison(self.text(op))),
            Code::MissingKfunc => return Err(FaultKind::MissingKfunc(self.text(op))),
            _ => unreachable!("the inner loop executes {:?}", op.code),
        }
        Ok(None)
    }

    fn text(&self, op: &Op) -> String {
        self.program.texts[op.imm as usize].clone()
    }

    fn helper<H: Host>(&mut self, x: &mut Execution, host: &mut H, helper: u32) -> Result<Option<Step>, FaultKind> {
        match helpers::call(self, x, host, helper)? {
            Outcome::Value(value) => {
                x.regs[0] = value;
                x.pc += 1;
                Ok(None)
            }
            Outcome::Entered => Ok(None),
            Outcome::Wait => {
                // The call will be repeated, and is counted when it succeeds.
                x.executed -= 1;
                if let Some(counts) = &mut self.counts {
                    counts[x.pc] -= 1;
                }
                x.paused = true;
                Ok(Some(Step::Paused))
            }
        }
    }
}
