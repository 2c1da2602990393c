// SPDX-License-Identifier: GPL-2.0-only
//! A loaded object and the executions of its programs.

use crate::decode::{Places, Program, decode};
use crate::engine::{Engine, Regions};
use crate::execution::{CodeSite, Execution, MAX_LOOPS, Next, REGS, STACK_BYTES, Step};
use crate::iter_num::IterNum;
use crate::maps::{ElementKey, MapHandle, TimerId};
use crate::op::Code;
use crate::quick::{Known, quick};
use crate::{Access, Coverage, Fault, FaultKind, GuestAddr, Maps, Memory, RegionId, SourceLine};
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
    /// Which of [`mod@crate::iter_num`] a kfunc is, if it is one and the machine may do it itself; the host hears of such calls
    /// by [`Host::counts`].
    fn iterator(&self, _kfunc: &KfuncRef) -> Option<IterNum> {
        None
    }
    /// The number by which [`Host::plain`] knows a kfunc, if it does.
    fn plain(&self, _kfunc: &KfuncRef) -> Option<u32> {
        None
    }
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
    /// Line of the policy's own source that calls: of the innermost frame that has one.
    pub line: SourceLine,
    /// Instructions that the execution has executed so far, this call included.
    pub executed: u64,
}

/// What a machine runs on: everything that is not plain BPF.
pub trait Host {
    /// Calls kfunc number `kfunc` (as the [`Resolver`] numbered it).
    fn kfunc(&mut self, kfunc: u32, args: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind>;
    /// Answers a kfunc that only reads and needs to know nothing of its caller, by the number that the [`Resolver`] gave it,
    /// with its first two arguments. `None`: it must be called as any other, and nothing has happened yet.
    fn plain(&mut self, _plain: u32, _kfunc: u32, _args: [u64; 2], _memory: &Memory) -> Option<u64> {
        None
    }
    /// The machine did this kfunc itself, as the [`Resolver`] allowed.
    fn counts(&mut self, _kfunc: u32) {}
    /// Calls a helper that the machine does not have itself (time, current task, …).
    fn helper(&mut self, helper: u32, args: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind>;
    /// `bpf_timer_start`: fire in `nsecs`, or at `nsecs` with flag 1 (ABS); flag 2 pins it to this CPU.
    fn timer_start(&mut self, timer: TimerId, nsecs: u64, flags: u64, cpu: u32);
    /// A program takes a spin lock, or gives it back, after so many instructions.
    fn spin_lock(&mut self, _addr: GuestAddr, _taken: bool, _executed: u64) {}
    /// Whether `bpf_timer_cancel` may be called now: kernels refuse it with interrupts off.
    fn may_cancel_timers(&self) -> bool {
        true
    }
    /// The timer whose callback runs: it cannot be cancelled there, since that waits for the callback's end.
    fn running_timer(&self) -> Option<TimerId> {
        None
    }
    /// `bpf_timer_cancel`; true if it was armed.
    fn timer_cancel(&mut self, timer: TimerId) -> bool;
}

/// 64-bit words of the argument block: no op has more than 5 members, tracepoints have up to 12.
const BLOCK_WORDS: usize = 12;

/// A loaded object: code, memory, maps, timers.
#[derive(Debug)]
pub struct Machine {
    /// Guest memory. The host puts its own objects there.
    pub memory: Memory,
    /// The object's maps.
    pub maps: Maps,
    program: Program,
    regions: Regions,
    /// [`Machine::argument_block`]: slot = execution.
    arguments: RegionId,
    /// Index of an array, for timer callbacks: slot = execution.
    timer_key: RegionId,
    /// Executions made so far; each has a stack of its own.
    executions: u32,
    /// How often each op was executed, if anybody wants to know.
    counts: Option<Vec<u64>>,
}

impl Machine {
    /// Loads an object for a machine of `cpus` CPUs into `memory`, which may hold the host's objects already.
    ///
    /// # Errors
    /// If an instruction or a symbol cannot be decoded or a map cannot be made. Unresolved CO-RE relocations and kfuncs
    /// that do not exist are no errors until they are reached.
    ///
    /// # Panics
    /// If `cpus` is 0.
    pub fn load(
        object: &LinkedObject,
        mut memory: Memory,
        cpus: u32,
        resolver: &dyn Resolver,
    ) -> Result<Machine, LoadError> {
        assert!(cpus > 0, "a machine has at least one CPU");
        let arguments = memory.add_region("arguments", 8 * BLOCK_WORDS as u32, 1, Access::ReadOnly);
        let timer_key = memory.add_region("key of a timer", 4, 1, Access::ReadOnly);
        let regions = Regions {
            functions: memory.add_region("function", 8, object.functions.len() as u32, Access::ReadOnly),
            stacks: memory.add_guarded_region("stack frame", STACK_BYTES, 0, Access::ReadWrite),
            keys: memory.add_region("key of a callback", 4, 0, Access::ReadOnly),
        };
        let maps = Maps::create(&mut memory, &object.maps, cpus)?;
        let program = resolve(object, &mut memory, &maps, regions.functions, resolver)?;
        Ok(Machine { memory, maps, program, regions, arguments, timer_key, executions: 0, counts: None })
    }

    /// A fresh execution, not begun. Make few and reuse them: each has a stack of its own for good.
    pub fn execution(&mut self) -> Execution {
        let stack = self.executions;
        self.executions += 1;
        self.memory.grow(self.arguments, self.executions);
        let place = (self.memory.addr(self.arguments, stack), self.memory.storage_end(self.arguments, stack));
        Execution::new(stack, self.regions.make_stack(&mut self.memory, stack), place)
    }

    /// Puts `execution` at the start of `function` with up to five arguments in r1 to r5; counters restart.
    ///
    /// # Panics
    /// If the function is none of this object's, the CPU none of the machine's, or there are more than five arguments.
    #[inline(always)]
    pub fn begin(&mut self, execution: &mut Execution, function: FunctionId, args: &[u64], cpu: u32) {
        assert!(args.len() <= 5, "{} arguments", args.len());
        assert!(cpu < self.maps.cpus, "CPU {cpu} of {}", self.maps.cpus);
        let code = &self.program.functions[function.0 as usize];
        execution.regs = [0; REGS];
        execution.regs[1..].iter_mut().zip(args).for_each(|(reg, arg)| *reg = *arg);
        execution.pc = code.entry as usize;
        execution.cpu = cpu;
        execution.executed = 0;
        execution.probe_reads = 0;
        execution.depth = 1;
        execution.frames[0].function = function;
        execution.frames[0].loops_left = MAX_LOOPS;
        execution.frames[0].caller = SourceLine::default();
        execution.paused = false;
        execution.pause_behind = false;
        execution.lock = 0;
        execution.point_to_frame();
        self.regions.clear_frame(&mut self.memory, code, execution.frame_end());
    }

    /// Runs until it returns, pauses or faults. After a fault it is over.
    ///
    /// # Errors
    /// What the program did wrong, and where.
    ///
    /// # Panics
    /// If the execution was not begun, or is over.
    // A fault ends an execution: its size costs nothing.
    #[allow(clippy::result_large_err)]
    #[inline(always)]
    pub fn run<H: Host>(&mut self, execution: &mut Execution, host: &mut H) -> Result<Step, Fault> {
        assert!(execution.depth > 0, "the execution is not in flight");
        let Machine { memory, maps, program, regions, counts, .. } = self;
        let mut engine = Engine { program, memory, maps, regions: *regions, counts: counts.as_deref_mut() };
        let result = engine.run(execution, host);
        result.map_err(|kind| {
            let fault = self.fault(execution, kind);
            execution.depth = 0;
            fault
        })
    }

    /// Counts from now on how often each line is executed.
    pub fn count_lines(&mut self) {
        self.counts = Some(vec![0; self.program.ops.len()]);
    }

    /// Adds what was counted to `coverage`; nothing without [`Machine::count_lines`].
    pub fn cover(&self, coverage: &mut Coverage) {
        if let Some(counts) = &self.counts {
            coverage.count(&self.program, counts);
        }
    }

    /// Where an execution that is in flight stands: the instruction to be executed next.
    ///
    /// # Panics
    /// If the execution was not begun, or is over.
    pub fn site(&self, execution: &Execution) -> CodeSite {
        assert!(execution.depth > 0, "the execution is not in flight");
        self.program.site(execution)
    }

    /// What an execution that is in flight stands before.
    ///
    /// # Panics
    /// If the execution was not begun, or is over.
    pub fn next(&self, execution: &Execution) -> Next {
        assert!(execution.depth > 0, "the execution is not in flight");
        let op = &self.program.ops[execution.pc];
        match op.code {
            Code::Kfunc => Next::Kfunc(op.imm as u32, execution.arguments()),
            Code::Helper => Next::Helper(op.imm as u32, execution.arguments()),
            Code::Atomic => Next::Atomic,
            _ => Next::Other,
        }
    }

    /// The fault that `kind` is at the place where the execution stands.
    fn fault(&self, execution: &Execution, kind: FaultKind) -> Fault {
        let CodeSite { function, insn, line: own } = self.program.site(execution);
        let function = &self.program.functions[function.0 as usize];
        let line = function.lines.iter().take_while(|line| line.insn <= insn).last();
        let source = line.map(|line| (line.file.clone(), line.line, line.text.clone()));
        let op = &self.program.ops[execution.pc];
        let helper = (op.code == Code::Helper).then_some(op.imm as u32);
        Fault { kind, function: function.name.clone(), insn, source, own, helper }
    }

    /// The fault of a function whose result kernels refuse, for this reason. The function has returned: the fault is all of it.
    pub fn refused_result(&self, function: FunctionId, why: String) -> Fault {
        let function = self.program.functions[function.0 as usize].name.clone();
        Fault {
            kind: FaultKind::Refused(why),
            function,
            insn: 0,
            source: None,
            own: SourceLine::default(),
            helper: None,
        }
    }

    /// The source files of the object as the compiler saw them: what [`crate::SourceLine::file`] counts.
    pub fn files(&self) -> &[String] {
        &self.program.files.names
    }

    /// The callback of a timer that fired, with its arguments (map, key, value) for this execution, if it has one: not if
    /// it was cancelled or its value was deleted meanwhile.
    pub fn timer_callback(&mut self, execution: &Execution, timer: TimerId) -> Option<(FunctionId, [u64; 3])> {
        let timer = self.maps.timers.get(timer)?;
        let (map, callback) = (timer.map, timer.callback?);
        let element = self.maps.element_at(&self.memory, map, timer.addr)?;
        let key = match element.key {
            ElementKey::At(addr) => addr,
            ElementKey::Index(index) => {
                self.memory.grow(self.timer_key, execution.stack + 1);
                self.memory.set_u32(self.timer_key, execution.stack, 0, index);
                self.memory.addr(self.timer_key, execution.stack)
            }
        };
        Some((callback, [self.maps.addr(&self.memory, map), key, element.value]))
    }

    /// An array of `args.len()` 64-bit words in guest memory: the argument block that r1 of a struct_ops program
    /// points to. Each execution has one of its own, valid until its next call.
    ///
    /// # Panics
    /// If there are more than 12 arguments.
    #[inline(always)]
    pub fn argument_block(&mut self, execution: &Execution, args: &[u64]) -> GuestAddr {
        assert!(args.len() <= BLOCK_WORDS, "{} arguments", args.len());
        let (addr, end) = execution.arguments;
        let block = self.memory.before_mut::<{ 8 * BLOCK_WORDS }>(self.arguments, end).as_chunks_mut().0;
        match *args {
            // Most ops have two.
            [first, second] => (block[0], block[1]) = (first.to_le_bytes(), second.to_le_bytes()),
            _ => block.iter_mut().zip(args).for_each(|(word, arg)| *word = arg.to_le_bytes()),
        }
        addr
    }
}

/// Decodes the code of an object whose maps exist.
fn resolve(
    object: &LinkedObject,
    memory: &mut Memory,
    maps: &Maps,
    functions: RegionId,
    resolver: &dyn Resolver,
) -> Result<Program, LoadError> {
    let kfunc_numbers: Vec<Option<u32>> =
        object.kfuncs.iter().map(|kfunc| if kfunc.present { resolver.kfunc(kfunc) } else { None }).collect();
    // Nothing is at the address of a kfunc; programs only test whether it is 0.
    let kfuncs = memory.add_region("kfunc", 8, object.kfuncs.len() as u32, Access::ReadOnly);
    let kfunc_addr = |(index, number): (usize, &Option<u32>)| number.map_or(0, |_| memory.addr(kfuncs, index as u32));
    let kfunc_addrs: Vec<GuestAddr> = kfunc_numbers.iter().enumerate().map(kfunc_addr).collect();
    let handles = || (0..object.maps.len() as u32).map(MapHandle);
    let map_addrs: Vec<GuestAddr> = handles().map(|map| maps.addr(memory, map)).collect();
    let values: Vec<Option<GuestAddr>> = handles().map(|map| maps.section(memory, map)).collect();
    let function_addrs: Vec<GuestAddr> =
        (0..object.functions.len() as u32).map(|function| memory.addr(functions, function)).collect();
    let places = Places {
        maps: &map_addrs,
        values: &values,
        functions: &function_addrs,
        kfuncs: &kfunc_addrs,
        kfunc_numbers: &kfunc_numbers,
        resolver,
    };
    let mut program = decode(object, &places)?;
    let own = |(kfunc, number): (&KfuncRef, &Option<u32>)| {
        let code = match resolver.iterator(kfunc)? {
            IterNum::New => Code::IterNew,
            IterNum::Next => Code::IterNext,
            IterNum::Destroy => Code::IterDestroy,
        };
        number.map(|number| (number, code))
    };
    let iterators: Vec<(u32, Code)> = object.kfuncs.iter().zip(&kfunc_numbers).filter_map(own).collect();
    let plain = |(kfunc, number): (&KfuncRef, &Option<u32>)| Some(((*number)?, resolver.plain(kfunc)?));
    let plain: Vec<(u32, u32)> = object.kfuncs.iter().zip(&kfunc_numbers).filter_map(plain).collect();
    let constant: Vec<RegionId> = handles().filter_map(|map| maps.constant(map)).collect();
    let known = Known { memory, maps, constant: &constant, iterators: &iterators, plain: &plain };
    program.quick = quick(&program.ops, &known);
    Ok(program)
}
