// SPDX-License-Identifier: GPL-2.0-only
//! Follows the paths through each function. A register or stack slot is known to be a constant, the address of a map
//! or constant, or a pointer that was tested for NULL or not; all else is unknown. Both directions of a jump are
//! followed unless its outcome is known, so that code behind a test for existence is not reached where it fails.

use bpf_object::{FunctionId, Insn, LinkedObject, MapId, MapKind, Symbol};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of instructions that are followed in one function; a longer one has no findings of pointers.
const MAX_STEPS: usize = 20_000;

/// Function and instruction slot.
pub(super) type At = (u32, u32);

/// What the paths from the given entries reach.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Reached instructions.
    pub reached: BTreeSet<At>,
    /// Reached uses of kfuncs, types or constants that the kernel lacks, with the error message.
    pub poison: BTreeMap<At, String>,
    /// Reached calls of kfuncs.
    pub calls: BTreeSet<(At, String)>,
    /// Accesses through a pointer that is untested on all paths, with the function that returned it.
    pub untested: BTreeMap<At, String>,
}

/// What is known of a register or stack slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Value {
    Unknown,
    Number(u64),
    /// Address of a map.
    Map(MapId),
    /// Address in a constant data section.
    Constant(MapId, u32),
    /// Address in the frame, relative to its end.
    Frame(i32),
    /// Pointer that may be NULL, returned by the call in this slot.
    Untested(u32),
    /// An address that is not NULL.
    Address,
}

/// State of a path. Stack slots have 8 bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct State {
    slot: u32,
    regs: [Value; 11],
    stack: BTreeMap<i32, Value>,
}

/// Follows all paths from these functions.
pub(super) fn explore(object: &LinkedObject, entries: &[FunctionId], final_constants: bool) -> Found {
    let mut found = Found::default();
    let unknown = [Value::Unknown; 5];
    let mut open: Vec<(u32, [Value; 5])> = entries.iter().map(|entry| (entry.0, unknown)).collect();
    let mut seen = BTreeSet::new();
    while let Some((function, arguments)) = open.pop() {
        if seen.insert((function, arguments)) {
            let mut walk = Walk {
                object,
                final_constants,
                function,
                found: &mut found,
                callees: Vec::new(),
                accesses: BTreeMap::new(),
                sources: BTreeMap::new(),
            };
            walk.run(arguments);
            open.append(&mut walk.callees);
        }
    }
    found
}

struct Walk<'a> {
    object: &'a LinkedObject,
    final_constants: bool,
    function: u32,
    found: &'a mut Found,
    callees: Vec<(u32, [Value; 5])>,
    /// By instruction: the calls whose untested results it uses, and whether it also uses something else.
    accesses: BTreeMap<u32, (BTreeSet<u32>, bool)>,
    /// Name of the function that each call calls.
    sources: BTreeMap<u32, String>,
}

/// Helpers whose result may be NULL.
const NULLABLE_HELPERS: [(i32, &str); 4] = [
    (131, "bpf_ringbuf_reserve"),
    (156, "bpf_task_storage_get"),
    (195, "bpf_map_lookup_percpu_elem"),
    (210, "bpf_cgrp_storage_get"),
];
const MAP_LOOKUP: i32 = 1;
/// Kfuncs whose result may be NULL (KF_RET_NULL).
const NULLABLE_KFUNCS: [&str; 5] =
    ["bpf_cgroup_ancestor", "bpf_cgroup_from_id", "bpf_cpumask_create", "bpf_task_from_pid", "bpf_task_from_vpid"];

const LD_IMM64: u8 = 0x18;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

impl Walk<'_> {
    fn run(&mut self, arguments: [Value; 5]) {
        let mut regs = [Value::Unknown; 11];
        regs[1..6].copy_from_slice(&arguments);
        regs[10] = Value::Frame(0);
        let mut open = vec![State { slot: 0, regs, stack: BTreeMap::new() }];
        let mut seen = BTreeSet::new();
        let mut steps = 0;
        // States are compared only where a path begins: behind a jump.
        while let Some(mut state) = open.pop() {
            if !seen.insert(state.clone()) {
                continue;
            }
            loop {
                steps += 1;
                if steps > MAX_STEPS {
                    return self.reach_all();
                }
                if !self.step(&mut state, &mut open) {
                    break;
                }
            }
        }
        for (slot, (calls, other)) in std::mem::take(&mut self.accesses) {
            if let (Some(call), false) = (calls.first(), other) {
                self.found.untested.insert((self.function, slot), self.sources[call].clone());
            }
        }
    }

    /// Gives up on a function: all of its calls are reached, and nothing is found in it.
    fn reach_all(&mut self) {
        for symbol in self.object.functions[self.function as usize].symbols.values() {
            if let Symbol::Function(callee) = symbol {
                self.callees.push((callee.0, [Value::Unknown; 5]));
            }
        }
    }

    /// Executes one instruction; returns whether the path goes on behind it. The paths behind a jump are added to
    /// `open`.
    fn step(&mut self, state: &mut State, open: &mut Vec<State>) -> bool {
        let function = &self.object.functions[self.function as usize];
        let slot = state.slot;
        let Some(&insn) = function.insns.get(slot as usize) else { return false };
        self.found.reached.insert((self.function, slot));
        let symbol = function.symbols.get(&slot);
        if let Some(Symbol::Poison(text)) = symbol {
            self.found.poison.insert((self.function, slot), text.clone());
            return false;
        }
        let (dst, src) = (usize::from(insn.dst.min(10)), usize::from(insn.src.min(10)));
        let mut next = slot + 1;
        match insn.code & 7 {
            _ if insn.code == LD_IMM64 => {
                state.regs[dst] = self.immediate(insn, slot, symbol);
                next = slot + 2;
            }
            1 => {
                self.uses(slot, state.regs[src]);
                state.regs[dst] = self.loaded(state, state.regs[src], insn);
            }
            2 | 3 => {
                self.uses(slot, state.regs[dst]);
                let stored = if insn.code & 7 == 3 && insn.code == 0x7b { state.regs[src] } else { Value::Unknown };
                if let Value::Frame(base) = state.regs[dst] {
                    let at = base + i32::from(insn.off);
                    state.stack.retain(|other, _| (*other - at).abs() >= 8);
                    if stored != Value::Unknown && insn.code == 0x7b {
                        state.stack.insert(at, stored);
                    }
                }
                // Atomic instructions may return the old value.
                if matches!(insn.code, 0xc3 | 0xdb) {
                    (state.regs[src], state.regs[0]) = (Value::Unknown, Value::Unknown);
                }
            }
            4 | 7 => state.regs[dst] = arithmetic(state, insn),
            _ if insn.code == EXIT => return false,
            _ if insn.code == CALL => self.call(slot, insn, symbol, state),
            _ => {
                let target =
                    i64::from(slot) + 1 + i64::from(if insn.code == 0x06 { insn.imm } else { i32::from(insn.off) });
                let Ok(target) = u32::try_from(target) else { return false };
                let outcomes = branch(state, insn);
                if let Some(taken) = outcomes.1 {
                    open.push(State { slot: target, ..taken });
                }
                if let Some(falls) = outcomes.0 {
                    open.push(State { slot: next, ..falls });
                }
                return false;
            }
        }
        state.slot = next;
        true
    }

    /// Notes an access through a value.
    fn uses(&mut self, slot: u32, base: Value) {
        let (calls, other) = self.accesses.entry(slot).or_default();
        match base {
            Value::Untested(call) => drop(calls.insert(call)),
            _ => *other = true,
        }
    }

    fn immediate(&self, insn: Insn, slot: u32, symbol: Option<&Symbol>) -> Value {
        let high =
            self.object.functions[self.function as usize].insns.get(slot as usize + 1).map_or(0, |insn| insn.imm);
        match symbol {
            None if insn.src == 0 => Value::Number(u64::from(insn.imm as u32) | u64::from(high as u32) << 32),
            Some(Symbol::Map(map)) => Value::Map(*map),
            Some(Symbol::MapValue { map, offset }) => Value::Constant(*map, *offset),
            Some(Symbol::KfuncAddress(kfunc)) if !self.object.kfuncs[*kfunc as usize].present => Value::Number(0),
            Some(_) => Value::Address,
            None => Value::Unknown,
        }
    }

    fn loaded(&self, state: &State, base: Value, insn: Insn) -> Value {
        let size = match insn.code & 0x18 {
            0x00 => 4,
            0x08 => 2,
            0x10 => 1,
            _ => 8,
        };
        match base {
            Value::Frame(base) if size == 8 => {
                state.stack.get(&(base + i32::from(insn.off))).copied().unwrap_or(Value::Unknown)
            }
            Value::Constant(map, offset) => {
                let map = &self.object.maps[map.0 as usize];
                let fixed = map.read_only && (self.final_constants || map.name.ends_with("kconfig"));
                let start = i64::from(offset) + i64::from(insn.off);
                let bytes =
                    usize::try_from(start).ok().and_then(|start| map.initial.as_ref()?.get(start..start + size));
                match bytes {
                    Some(bytes) if fixed => {
                        Value::Number(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
                    }
                    _ => Value::Unknown,
                }
            }
            _ => Value::Unknown,
        }
    }

    fn call(&mut self, slot: u32, insn: Insn, symbol: Option<&Symbol>, state: &mut State) {
        let mut result = Value::Unknown;
        match symbol {
            Some(Symbol::Function(callee)) => {
                let known = |value: Value| if matches!(value, Value::Number(_)) { value } else { Value::Unknown };
                let arguments: [Value; 5] = std::array::from_fn(|number| known(state.regs[number + 1]));
                self.callees.push((callee.0, arguments));
            }
            Some(Symbol::Kfunc(kfunc)) => {
                let name = &self.object.kfuncs[*kfunc as usize].name;
                self.found.calls.insert(((self.function, slot), name.clone()));
                if NULLABLE_KFUNCS.contains(&name.as_str()) {
                    result = self.untested(slot, name);
                }
            }
            None if insn.src == 0 => {
                if let Some((_, name)) = NULLABLE_HELPERS.iter().find(|(number, _)| *number == insn.imm) {
                    result = self.untested(slot, name);
                }
                // Kernels know since 6.14 that a constant index into an array has a value.
                let kind = |map: MapId| self.object.maps[map.0 as usize].kind;
                let is_array = |kind| matches!(kind, MapKind::Array | MapKind::PercpuArray);
                if insn.imm == MAP_LOOKUP
                    && let Value::Map(map) = state.regs[1]
                    && !is_array(kind(map))
                {
                    result = self.untested(slot, "bpf_map_lookup_elem");
                }
                self.callbacks(state);
            }
            _ => {}
        }
        // A callee may store through pointers into this frame.
        if (1..6).any(|number| matches!(state.regs[number], Value::Frame(_))) {
            state.stack.clear();
        }
        state.regs[0] = result;
        state.regs[1..6].fill(Value::Unknown);
    }

    fn untested(&mut self, slot: u32, name: &str) -> Value {
        self.sources.insert(slot, name.to_owned());
        Value::Untested(slot)
    }

    /// Functions whose addresses the code loads are called by helpers.
    fn callbacks(&mut self, _: &State) {
        let function = &self.object.functions[self.function as usize];
        for (slot, symbol) in &function.symbols {
            if let Symbol::Function(callee) = symbol
                && function.insns[*slot as usize].code == LD_IMM64
            {
                self.callees.push((callee.0, [Value::Unknown; 5]));
            }
        }
    }
}

/// Result of an arithmetic instruction: only moves keep what is known.
fn arithmetic(state: &State, insn: Insn) -> Value {
    let (dst, src) = (state.regs[usize::from(insn.dst.min(10))], state.regs[usize::from(insn.src.min(10))]);
    let number = i64::from(insn.imm) as u64;
    match (insn.code, dst) {
        (0xb7, _) => Value::Number(number),
        (0xb4, _) => Value::Number(u64::from(insn.imm as u32)),
        (0xbf, _) if insn.off == 0 => src,
        (0xbc, _) if insn.off == 0 => match src {
            Value::Number(number) => Value::Number(u64::from(number as u32)),
            _ => Value::Unknown,
        },
        (0x07, Value::Frame(base)) => Value::Frame(base.wrapping_add(insn.imm)),
        (0x07, Value::Constant(map, offset)) => Value::Constant(map, offset.wrapping_add_signed(insn.imm)),
        (0x57, Value::Number(value)) => Value::Number(value & number),
        (0x47, Value::Number(value)) => Value::Number(value | number),
        (0x67, Value::Number(value)) => Value::Number(value << (insn.imm & 63)),
        (0x77, Value::Number(value)) => Value::Number(value >> (insn.imm & 63)),
        _ => Value::Unknown,
    }
}

/// The states behind a jump: if it is not taken, and if it is. `None` for an outcome that cannot be.
fn branch(state: &State, insn: Insn) -> (Option<State>, Option<State>) {
    let both = || (Some(state.clone()), Some(state.clone()));
    if matches!(insn.code, 0x05 | 0x06) {
        return (None, Some(state.clone()));
    }
    let dst = state.regs[usize::from(insn.dst.min(10))];
    if insn.code & 8 != 0 {
        return both();
    }
    let wide = insn.code & 7 == 5;
    let other = if wide { i64::from(insn.imm) as u64 } else { u64::from(insn.imm as u32) };
    match (dst, insn.code >> 4) {
        (Value::Number(value), operation) => {
            let value = if wide { value } else { u64::from(value as u32) };
            let signed = |number: u64| if wide { number as i64 } else { i64::from(number as u32 as i32) };
            let taken = match operation {
                0x1 => value == other,
                0x2 => value > other,
                0x3 => value >= other,
                0x4 => value & other != 0,
                0x5 => value != other,
                0x6 => signed(value) > signed(other),
                0x7 => signed(value) >= signed(other),
                0xa => value < other,
                0xb => value <= other,
                0xc => signed(value) < signed(other),
                0xd => signed(value) <= signed(other),
                _ => return both(),
            };
            if taken { (None, Some(state.clone())) } else { (Some(state.clone()), None) }
        }
        (Value::Untested(call), 0x1) if other == 0 => {
            (Some(tested(state, call, Value::Address)), Some(tested(state, call, Value::Number(0))))
        }
        (Value::Untested(call), 0x5) if other == 0 => {
            (Some(tested(state, call, Value::Number(0))), Some(tested(state, call, Value::Address)))
        }
        (Value::Address | Value::Map(_) | Value::Constant(..) | Value::Frame(_), 0x1) if other == 0 => {
            (Some(state.clone()), None)
        }
        (Value::Address | Value::Map(_) | Value::Constant(..) | Value::Frame(_), 0x5) if other == 0 => {
            (None, Some(state.clone()))
        }
        // Any other comparison of the pointer: it counts as tested.
        (Value::Untested(call), _) => {
            let tested = || Some(tested(state, call, Value::Unknown));
            (tested(), tested())
        }
        _ => both(),
    }
}

/// The state after the result of a call has turned out to be `value`, in all of its copies.
fn tested(state: &State, call: u32, value: Value) -> State {
    let mut state = state.clone();
    let copies = state.regs.iter_mut().chain(state.stack.values_mut());
    copies.filter(|copy| **copy == Value::Untested(call)).for_each(|copy| *copy = value);
    state
}
