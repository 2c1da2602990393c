// SPDX-License-Identifier: GPL-2.0-only
//! A loaded object and the executions of its programs.

use crate::{Fault, FaultKind, GuestAddr, Maps, Memory};
use bpf_object::{FunctionId, KfuncRef, LinkedObject};

/// Why an object could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// An instruction or reference that cannot be decoded.
    #[error("{function}+{insn}: {problem}")]
    Code {
        /// Function.
        function: String,
        /// Instruction slot.
        insn: u32,
        /// What is wrong.
        problem: String,
    },
    /// A map that cannot be made.
    #[error("map {name}: {problem}")]
    Map {
        /// Name of the map.
        name: String,
        /// What is wrong.
        problem: String,
    },
}

/// Resolves what an object names but does not hold.
pub trait Resolver {
    /// The host's number for a kfunc, which [`Host::kfunc`] will get; `None` if it does not exist.
    fn kfunc(&self, kfunc: &KfuncRef) -> Option<u32>;
    /// Guest address of a kernel variable.
    fn variable(&self, name: &str) -> Option<GuestAddr>;
}

/// A loaded object: code, memory, maps, timers.
#[derive(Debug)]
pub struct Machine {
    /// Guest memory. The host puts its own objects there.
    pub memory: Memory,
    /// The object's maps.
    pub maps: Maps,
}

/// Before which instructions an execution stops by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PausePoints {
    /// Before kfunc calls.
    pub kfuncs: bool,
    /// Before helper calls.
    pub helpers: bool,
    /// Before atomic instructions.
    pub atomics: bool,
}

/// A timer of the object (`struct bpf_timer`), dense from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TimerId(pub u32);

/// Where an execution stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodeSite {
    /// Function.
    pub function: FunctionId,
    /// Instruction slot in it.
    pub insn: u32,
    /// Source line, 0 if unknown.
    pub line: u32,
}

/// How far an execution got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// It returned r0.
    Done(u64),
    /// It stands before an instruction that [`PausePoints`] names; run it again to go on.
    Paused,
}

/// A program in flight: registers, frames, counters. Reusable: keep one and [`Machine::begin`] on it again.
#[derive(Debug)]
pub struct Execution {
    /// CPU on which it runs: selects per-CPU values.
    pub cpu: u32,
    /// Instructions executed so far.
    pub executed: u64,
    /// Where to stop.
    pub pause: PausePoints,
    /// Faults after so many instructions.
    pub budget: u64,
}

/// What a host function may touch of the machine that called it.
#[derive(Debug)]
pub struct Context<'a> {
    /// Guest memory.
    pub memory: &'a mut Memory,
    /// Maps.
    pub maps: &'a mut Maps,
    /// CPU of the execution.
    pub cpu: u32,
    /// The calling instruction.
    pub site: CodeSite,
}

/// What a machine runs on: everything that is not plain BPF.
pub trait Host {
    /// Calls kfunc number `kfunc` (as the [`Resolver`] numbered it).
    fn kfunc(&mut self, kfunc: u32, args: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind>;
    /// Calls a helper that the machine does not have itself (time, current task, …).
    fn helper(&mut self, helper: u32, args: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind>;
    /// `bpf_timer_start`: fire in `nsecs`, or at `nsecs` with flag 1 (ABS); flag 2 pins it to this CPU.
    fn timer_start(&mut self, timer: TimerId, nsecs: u64, flags: u64, cpu: u32);
    /// `bpf_timer_cancel`; true if it was armed.
    fn timer_cancel(&mut self, timer: TimerId) -> bool;
}

impl Machine {
    /// Loads an object for a machine of `cpus` CPUs into `memory`, which may hold the host's objects already.
    pub fn load(
        object: &LinkedObject,
        memory: Memory,
        cpus: u32,
        resolver: &dyn Resolver,
    ) -> Result<Machine, LoadError> {
        todo!("{object:?} {memory:?} {cpus} {}", resolver.variable("").is_some())
    }

    /// A fresh execution, not begun.
    pub fn execution(&self) -> Execution {
        todo!()
    }

    /// Puts `execution` at the start of `function` with up to five arguments in r1 to r5; counters restart.
    pub fn begin(&self, execution: &mut Execution, function: FunctionId, args: &[u64], cpu: u32) {
        todo!("{execution:?} {function:?} {args:?} {cpu}")
    }

    /// Runs until it returns, pauses or faults.
    pub fn run<H: Host>(&mut self, execution: &mut Execution, host: &mut H) -> Result<Step, Fault> {
        let _ = host;
        todo!("{execution:?}")
    }

    /// The callback of a timer that fired, with its arguments (map, key, value), if it has one.
    pub fn timer_callback(&mut self, timer: TimerId) -> Option<(FunctionId, [u64; 3])> {
        todo!("{timer:?}")
    }

    /// An array of `args.len()` 64-bit words in guest memory: the argument block that r1 of a struct_ops program
    /// points to. Valid until the next call.
    pub fn argument_block(&mut self, args: &[u64]) -> GuestAddr {
        todo!("{args:?}")
    }
}
