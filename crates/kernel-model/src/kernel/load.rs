// SPDX-License-Identifier: GPL-2.0-only
//! Loading of an object: finds the scheduler in it and checks whether this kernel would accept it (contract 1.2, 1.3,
//! C1).

use super::attach::DUMP_LEN;
use super::{Kernel, Scheduler, Stage};
use crate::core::{Running, ops_flags};
use crate::kfuncs;
use crate::ops::{OP_COUNT, Op};
use crate::{Effect, LaunchError, guest, lacks, verifier};
use bpf_machine::iter_num::IterNum;
use bpf_machine::{Machine, Memory, Resolver};
use bpf_object::{FunctionId, KfuncRef, LinkedObject, MemberUse, MemberValue, ProgramKind, StructOps, Symbol};
use ids::{CpuId, Nanos};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum and default watchdog timeout (contract O6).
const TIMEOUT_MAX_MS: u64 = 30_000;
/// Default of `ops.dispatch_max_batch`.
const BATCH_DFL: u64 = 32;
/// All `ops.flags` that 7.2 accepts.
const KNOWN_FLAGS: u64 = ops_flags::KEEP_BUILTIN_IDLE
    | ops_flags::ENQ_LAST
    | ops_flags::ENQ_EXITING
    | ops_flags::SWITCH_PARTIAL
    | ops_flags::ENQ_MIGRATION_DISABLED
    | ops_flags::ALLOW_QUEUED_WAKEUP
    | ops_flags::BUILTIN_IDLE_PER_NODE
    | ops_flags::ALWAYS_ENQ_IMMED
    | ops_flags::TID_TO_TASK;

/// An empty object, for a kernel without a scheduler.
pub(super) fn empty_object() -> LinkedObject {
    LinkedObject {
        license: String::new(),
        functions: Vec::new(),
        programs: Vec::new(),
        maps: Vec::new(),
        kfuncs: Vec::new(),
        members: Vec::new(),
        struct_ops: Vec::new(),
        variables: Default::default(),
        btf: Default::default(),
    }
}

/// Resolver for the empty object, which has no symbols.
pub(super) struct EmptyResolver;

impl Resolver for EmptyResolver {
    fn kfunc(&self, _: &KfuncRef) -> Option<u32> {
        None
    }
    fn variable(&self, _: &str) -> Option<u64> {
        None
    }
}

/// The kfuncs and variables of a kernel, for symbol resolution.
struct Symbols {
    version: (u16, u16),
    types: guest::KernelTypes,
    /// Guest addresses of its variables.
    variables: BTreeMap<String, u64>,
}

impl Resolver for Symbols {
    fn kfunc(&self, kfunc: &KfuncRef) -> Option<u32> {
        kfuncs::find(&kfunc.name, kfunc.parameters, self.version)
    }
    fn variable(&self, name: &str) -> Option<u64> {
        self.variables.get(name).copied()
    }
    fn iterator(&self, kfunc: &KfuncRef) -> Option<IterNum> {
        kfuncs::iterator(&kfunc.name)
    }
    fn is_live(&self, member: &MemberUse) -> bool {
        matches!(self.types.source(&member.structure, &member.path), Some(guest::Source::Live(_)))
    }
    fn plain(&self, kfunc: &KfuncRef) -> Option<u32> {
        kfuncs::plain::number(&kfunc.name)
    }
}

impl Kernel {
    /// Loads a linked object with its profile applied: checks struct_ops members, the kfuncs of each op, and maps.
    /// `syscall` programs can then be run by [`Kernel::run_program`].
    pub fn load(&mut self, object: &LinkedObject) -> Result<(), LaunchError> {
        if self.stage != Stage::Disabled {
            return Err(LaunchError::Unsuitable("a scheduler is attached already".into()));
        }
        let mut object = object.clone();
        guest::fill_constants(&mut object, &self.core.objects.types);
        let ops = object.scheduler().map_err(|error| unsuitable(error.to_string()))?;
        let scheduler = read_ops(ops, &self.core.objects.types, self.core.config.hz)?;
        check_kfuncs(&object, &scheduler, self.core.config.version)?;
        let findings = verifier::findings(&object, true);
        if !findings.is_empty() {
            return Err(unsuitable(findings.join("; ")));
        }
        let memory = std::mem::take(&mut self.machine.memory);
        self.load_machine(&object, memory)?;
        self.scheduler = Some(Box::new(scheduler));
        *self.op_counts = [0; OP_COUNT];
        Ok(())
    }

    fn load_machine(&mut self, object: &LinkedObject, memory: Memory) -> Result<(), LaunchError> {
        let named = object.functions.iter().flat_map(|function| function.symbols.values());
        let variables = named.filter_map(|symbol| match symbol {
            Symbol::KernelVariable(name) => Some((name.clone(), self.core.objects.variable(&memory, name)?)),
            _ => None,
        });
        // The maps of the previous object are freed, and their timers are cancelled.
        let armed = std::mem::take(&mut self.core.armed);
        self.core.output.effects.extend(armed.into_iter().map(|timer| Effect::CancelTimer { timer }));
        let (version, types) = (self.core.config.version, self.core.objects.types.clone());
        let symbols = Symbols { version, types, variables: variables.collect() };
        if let Some(coverage) = &mut self.coverage {
            self.machine.cover(coverage);
        }
        *self.machine = Machine::load(object, memory, self.core.cpus(), &symbols)?;
        if self.coverage.is_some() {
            self.machine.count_lines();
        }
        let name = |path: &String| path.rsplit('/').next().unwrap_or_default().to_owned();
        self.core.attached.files = self.machine.files().iter().map(name).collect();
        *self.execution = self.machine.execution();
        self.contexts.forget_executions();
        self.execution.budget = self.core.config.budget;
        Ok(())
    }

    /// Writes an element of a map of the loaded object, as user space does. In a per-CPU map it writes the values of
    /// all CPUs; if `values` is shorter, the first one is repeated.
    ///
    /// # Errors
    /// A positive errno: ENOENT if there is no map of this name, otherwise the reason why the map rejects
    /// the element.
    pub fn set_element(&mut self, map: &str, key: &[u8], values: &[Vec<u8>]) -> Result<(), i32> {
        const ENOENT: i32 = 2;
        let map = self.machine.maps.find(map).ok_or(ENOENT)?;
        let places = if self.machine.maps.is_per_cpu(map) { self.core.cpus() } else { 1 };
        for cpu in 0..places {
            let value = values.get(cpu as usize).unwrap_or(&values[0]);
            let updated = self.machine.maps.update(&mut self.machine.memory, map, key, value, 0, cpu);
            updated.map_err(|errno| -errno)?;
        }
        Ok(())
    }

    /// Runs a `syscall` program of the object with this context, as user space does before attach; returns its `int`
    /// result. `None` if there is no program of this name.
    ///
    /// # Panics
    /// If the context is longer than 1024 bytes.
    pub fn run_program(&mut self, object: &LinkedObject, name: &str, context: &[u8]) -> Option<i32> {
        let program = object.programs.iter().find(|program| {
            program.kind == ProgramKind::Syscall && object.functions[program.function.0 as usize].name == name
        })?;
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let mut words: Vec<u64> = context.chunks(8).map(word).collect();
        // A program without a context still gets one word of zeros.
        words.resize(words.len().max(1), 0);
        let context = self.machine.argument_block(&self.execution, &words);
        let running = Running { op: Some(Op::Program), ..Running::NONE };
        let result = self.execute(running, program.function, &[context]);
        self.report_custody();
        self.finish();
        Some(result as i32)
    }

    /// Like [`Kernel::run_program`], on `cpu` while the scheduler runs.
    ///
    /// # Panics
    /// Like [`Kernel::run_program`].
    pub fn run_program_on(&mut self, cpu: CpuId, object: &LinkedObject, name: &str, context: &[u8]) -> Option<i32> {
        self.core.context.cpu = cpu;
        self.run_program(object, name, context)
    }
}

fn unsuitable(problem: String) -> LaunchError {
    LaunchError::Unsuitable(problem)
}

fn refused(errno: i32, reason: String) -> LaunchError {
    LaunchError::Attach { errno, reason }
}

/// Reads the struct_ops members and applies the kernel's checks (contract 1.3, step 1).
fn read_ops(ops: &StructOps, types: &guest::KernelTypes, hz: u32) -> Result<Scheduler, LaunchError> {
    const E2BIG: i32 = 7;
    const EINVAL: i32 = 22;
    let jiffies = |ms: u64| (ms * u64::from(hz)).div_ceil(1_000);
    let mut scheduler = Scheduler {
        name: String::new(),
        ops: [None; OP_COUNT],
        flags: 0,
        timeout_jiffies: jiffies(TIMEOUT_MAX_MS),
        timeout: Nanos::ZERO,
        max_batch: BATCH_DFL as u32,
        dump_len: DUMP_LEN,
        hotplug_seq: 0,
    };
    for member in &ops.members {
        match (&member.value, member.name.as_str()) {
            (MemberValue::Function(function), name) => {
                let op = Op::by_name(name).ok_or_else(|| unsuitable(lacks::missing_op(types, name)))?;
                scheduler.ops[op as usize] = Some(*function);
            }
            // The launch profile has removed this op.
            (MemberValue::Number(0), name) if Op::by_name(name).is_some() => {}
            (MemberValue::Bytes(bytes), "name") => {
                let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
                scheduler.name = String::from_utf8_lossy(&bytes[..end]).into_owned();
            }
            (MemberValue::Number(flags), "flags") => scheduler.flags = *flags,
            (MemberValue::Number(ms), "timeout_ms") if *ms > TIMEOUT_MAX_MS => {
                return Err(refused(E2BIG, format!("timeout_ms is {ms}; the maximum is {TIMEOUT_MAX_MS}")));
            }
            (MemberValue::Number(ms), "timeout_ms") => scheduler.timeout_jiffies = jiffies(*ms),
            (MemberValue::Number(batch), "dispatch_max_batch") if *batch > i32::MAX as u64 => {
                return Err(refused(E2BIG, format!("dispatch_max_batch is {batch}; the maximum is {}", i32::MAX)));
            }
            (MemberValue::Number(batch), "dispatch_max_batch") => scheduler.max_batch = *batch as u32,
            (MemberValue::Number(len), "exit_dump_len") => scheduler.dump_len = *len as u32,
            (MemberValue::Number(seq), "hotplug_seq") => scheduler.hotplug_seq = *seq,
            (_, name) => return Err(unsuitable(format!("struct sched_ext_ops of this kernel has no member {name}"))),
        }
    }
    if scheduler.flags & !KNOWN_FLAGS != 0 {
        let unknown = scheduler.flags & !KNOWN_FLAGS;
        return Err(refused(EINVAL, format!("ops.flags has bits unknown to this kernel: {unknown:#x}")));
    }
    let spelled = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    if scheduler.name.is_empty() || !scheduler.name.chars().all(spelled) {
        let name = &scheduler.name;
        return Err(refused(EINVAL, format!("ops.name {name:?} must be letters, digits, '_' or '.'")));
    }
    scheduler.timeout = guest::jiffies_in_ns(scheduler.timeout_jiffies, hz);
    Ok(scheduler)
}

/// Checks that each op may call the kfuncs that its program names, in dead code too, as 7.2 does (contract 1.2).
fn check_kfuncs(object: &LinkedObject, scheduler: &Scheduler, version: (u16, u16)) -> Result<(), LaunchError> {
    for (index, function) in scheduler.ops.iter().enumerate() {
        let Some(function) = function else { continue };
        let op = Op::by_index(index);
        let sleepable = object
            .programs
            .iter()
            .any(|program| program.function == *function && program.kind == ProgramKind::StructOps { sleepable: true });
        if sleepable && !op.may_sleep() {
            return Err(unsuitable(format!("ops.{} must not be sleepable", op.name())));
        }
        for reference in reachable_kfuncs(object, *function) {
            let kfunc = &object.kfuncs[reference as usize];
            let Some(number) = kfuncs::find(&kfunc.name, kfunc.parameters, version) else { continue };
            if !kfuncs::groups(number).iter().any(|&group| op.allows(group)) {
                let (kfunc, op) = (&kfunc.name, op.name());
                return Err(unsuitable(format!("kfunc {kfunc} is not allowed in ops.{op}()")));
            }
        }
    }
    Ok(())
}

/// Kfuncs that are called by `entry` or by functions reachable from it.
fn reachable_kfuncs(object: &LinkedObject, entry: FunctionId) -> BTreeSet<u32> {
    let (mut found, mut seen, mut open) = (BTreeSet::new(), BTreeSet::from([entry]), vec![entry]);
    while let Some(function) = open.pop() {
        for symbol in object.functions[function.0 as usize].symbols.values() {
            match symbol {
                Symbol::Kfunc(kfunc) => drop(found.insert(*kfunc)),
                Symbol::Function(callee) if seen.insert(*callee) => open.push(*callee),
                _ => {}
            }
        }
    }
    found
}
