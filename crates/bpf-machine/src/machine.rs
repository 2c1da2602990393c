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
use bpf_object::{FunctionId, KfuncRef, LinkedObject, MemberUse};

/// Why an object could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// An instruction or symbol that cannot be decoded.
    #[error("{function}+{insn}: {problem}")]
    Code {
        /// Name of the function.
        function: String,
        /// Instruction slot.
        insn: u32,
        /// Description of the problem.
        problem: String,
    },
    /// A map that cannot be created.
    #[error("map {name}: {problem}")]
    Map {
        /// Name of the map.
        name: String,
        /// Description of the problem.
        problem: String,
    },
}

/// Resolves the external names of an object.
pub trait Resolver {
    /// The host's number for a kfunc, passed to [`Host::kfunc`]; `None` if the kfunc does not exist.
    fn kfunc(&self, kfunc: &KfuncRef) -> Option<u32>;
    /// Guest address of a kernel variable.
    fn variable(&self, name: &str) -> Option<GuestAddr>;
    /// The function of [`mod@crate::iter_num`] that implements a kfunc, if the machine may execute it itself;
    /// [`Host::counts`] then counts the call.
    fn iterator(&self, _kfunc: &KfuncRef) -> Option<IterNum> {
        None
    }
    /// Whether the host computes this member when it is read.
    fn is_live(&self, _member: &MemberUse) -> bool {
        false
    }
    /// The number of a kfunc's fast path in [`Host::plain`], if it has one.
    fn plain(&self, _kfunc: &KfuncRef) -> Option<u32> {
        None
    }
}

/// Parts of the calling machine that a host function may access.
#[derive(Debug)]
pub struct Context<'a> {
    /// Guest memory.
    pub memory: &'a mut Memory,
    /// Maps.
    pub maps: &'a mut Maps,
    /// CPU of the execution.
    pub cpu: u32,
    /// Own source line of the call: that of the innermost frame that has one.
    pub line: SourceLine,
    /// Number of instructions of the execution so far, this call included.
    pub executed: u64,
}

/// The kernel side of a machine: everything that needs more than BPF.
pub trait Host {
    /// Calls a kfunc by the [`Resolver`]'s number.
    fn kfunc(&mut self, kfunc: u32, args: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind>;
    /// Fast path of a kfunc that only reads and does not depend on its caller, by the [`Resolver`]'s number, with its
    /// first two arguments. `None`: nothing has happened, and the kfunc must be called in the regular way.
    fn plain(&mut self, _plain: u32, _kfunc: u32, _args: [u64; 2], _memory: &Memory) -> Option<u64> {
        None
    }
    /// Brings members up to date that are computed when they are read: those among the `_len` bytes at `_addr`.
    fn refresh(&mut self, _addr: GuestAddr, _len: u32, _memory: &mut Memory) {}
    /// Counts a kfunc call that the machine executed itself.
    fn counts(&mut self, _kfunc: u32) {}
    /// Calls a helper that the machine does not implement (time, current task, ...).
    fn helper(&mut self, helper: u32, args: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind>;
    /// `bpf_timer_start`: fires after `nsecs`, or at `nsecs` with flag 1 (ABS); flag 2 pins the timer to this CPU.
    fn timer_start(&mut self, timer: TimerId, nsecs: u64, flags: u64, cpu: u32);
    /// A program acquires or releases a spin lock, as instruction number `_executed` of its execution.
    fn spin_lock(&mut self, _addr: GuestAddr, _taken: bool, _executed: u64) {}
    /// Whether `bpf_timer_cancel` is allowed now; kernels refuse it while interrupts are off.
    fn may_cancel_timers(&self) -> bool {
        true
    }
    /// The timer whose callback is running: its callback cannot cancel it, because that would wait for the callback
    /// to end.
    fn running_timer(&self) -> Option<TimerId> {
        None
    }
    /// `bpf_timer_cancel`; returns whether the timer was armed.
    fn timer_cancel(&mut self, timer: TimerId) -> bool;
}

/// Size of the argument block in 64-bit words: ops have at most 5 arguments, tracepoints up to 12, and the context of a
/// `syscall` program can be an array.
const BLOCK_WORDS: usize = 128;

/// A loaded object: code, memory, maps, timers.
#[derive(Debug)]
pub struct Machine {
    /// Guest memory, which also contains the objects of the host, such as the kernel model's tasks.
    pub memory: Memory,
    /// The object's maps.
    pub maps: Maps,
    program: Program,
    regions: Regions,
    /// Argument blocks (see [`Machine::argument_block`]); the slot is the execution.
    arguments: RegionId,
    /// Array index passed to a timer callback; the slot is the execution.
    timer_key: RegionId,
    /// Number of executions created; each has a stack of its own.
    executions: u32,
    /// Execution count of each op, if enabled.
    counts: Option<Vec<u64>>,
}

impl Machine {
    /// Loads an object for `cpus` CPUs into `memory`, which may have objects of the host already.
    ///
    /// # Errors
    /// If an instruction or symbol cannot be decoded, or a map cannot be created. Unresolved CO-RE
    /// relocations and missing kfuncs are errors only when executed.
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

    /// Creates an execution. Create few and reuse them: each owns a stack permanently.
    pub fn execution(&mut self) -> Execution {
        let stack = self.executions;
        self.executions += 1;
        self.memory.grow(self.arguments, self.executions);
        let place = (self.memory.addr(self.arguments, stack), self.memory.storage_end(self.arguments, stack));
        Execution::new(stack, self.regions.make_stack(&mut self.memory, stack), place)
    }

    /// Starts `function` on `execution` with up to five arguments in r1 to r5; counters are reset.
    ///
    /// # Panics
    /// If the function or the CPU does not exist, or there are more than five arguments.
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

    /// Runs the execution until it returns, pauses or faults. A fault ends it.
    ///
    /// # Errors
    /// The fault and its position.
    ///
    /// # Panics
    /// If the execution was not begun, or has ended.
    // `Fault` is large, but is returned at most once per execution.
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

    /// Counts line executions from now on.
    pub fn count_lines(&mut self) {
        self.counts = Some(vec![0; self.program.ops.len()]);
    }

    /// Adds the counts to `coverage`; none without [`Machine::count_lines`].
    pub fn cover(&self, coverage: &mut Coverage) {
        if let Some(counts) = &self.counts {
            coverage.count(&self.program, counts);
        }
    }

    /// Position of an execution in progress: the next instruction.
    ///
    /// # Panics
    /// If the execution was not begun, or has ended.
    pub fn site(&self, execution: &Execution) -> CodeSite {
        assert!(execution.depth > 0, "the execution is not in flight");
        self.program.site(execution)
    }

    /// The next instruction of an execution in progress, if it can be a pause point.
    ///
    /// # Panics
    /// If the execution was not begun, or has ended.
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

    /// The fault of this kind at the position of the execution.
    fn fault(&self, execution: &Execution, kind: FaultKind) -> Fault {
        let CodeSite { function, insn, line: own } = self.program.site(execution);
        let function = &self.program.functions[function.0 as usize];
        let line = function.lines.iter().take_while(|line| line.insn <= insn).last();
        let source = line.map(|line| (line.file.clone(), line.line, line.text.clone()));
        let op = &self.program.ops[execution.pc];
        let helper = (op.code == Code::Helper).then_some(op.imm as u32);
        Fault { kind, function: function.name.clone(), insn, source, own, helper }
    }

    /// The fault of a function that returned a result that kernels reject. The function has returned, so there is no
    /// instruction.
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

    /// Source files of the object as the compiler saw them; [`crate::SourceLine::file`] is the index.
    pub fn files(&self) -> &[String] {
        &self.program.files.names
    }

    /// The callback of an expired timer with its arguments (map, key, value) for this execution; `None` if the timer
    /// was cancelled or its map value was deleted.
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

    /// Writes `args` as 64-bit words to the execution's argument block in guest memory, which r1 of a struct_ops
    /// program points to; returns its address. It is valid until the execution's next call.
    ///
    /// # Panics
    /// If there are more than 128 arguments.
    #[inline(always)]
    pub fn argument_block(&mut self, execution: &Execution, args: &[u64]) -> GuestAddr {
        assert!(args.len() <= BLOCK_WORDS, "{} arguments", args.len());
        let (addr, end) = execution.arguments;
        let block = self.memory.before_mut::<{ 8 * BLOCK_WORDS }>(self.arguments, end).as_chunks_mut().0;
        match *args {
            // The most frequent case.
            [first, second] => (block[0], block[1]) = (first.to_le_bytes(), second.to_le_bytes()),
            _ => block.iter_mut().zip(args).for_each(|(word, arg)| *word = arg.to_le_bytes()),
        }
        addr
    }
}

/// Decodes the code of an object whose maps have been created.
fn resolve(
    object: &LinkedObject,
    memory: &mut Memory,
    maps: &Maps,
    functions: RegionId,
    resolver: &dyn Resolver,
) -> Result<Program, LoadError> {
    let kfunc_numbers: Vec<Option<u32>> =
        object.kfuncs.iter().map(|kfunc| if kfunc.present { resolver.kfunc(kfunc) } else { None }).collect();
    // Kfunc addresses have no content; programs only test whether they are 0.
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
