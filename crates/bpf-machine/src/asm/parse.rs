// SPDX-License-Identifier: GPL-2.0-only
//! Lines, declarations, names and labels.

use super::AsmError;
use super::statement::{Operand, statement};
use bpf_object::btf::Btf;
use bpf_object::{Function, FunctionId, Insn, KfuncRef, LineInfo, LinkedObject, MapDef, MapId, MapKind, Symbol};
use std::collections::BTreeMap;

/// A jump whose label is not resolved yet.
struct Jump {
    function: usize,
    slot: usize,
    label: String,
    line: u32,
    /// `gotol`: the jump distance is in the immediate.
    long: bool,
}

struct Parser<'a> {
    file: &'a str,
    object: LinkedObject,
    /// The function being assembled.
    current: Option<usize>,
    /// Slot by (function, label).
    labels: BTreeMap<(usize, String), usize>,
    jumps: Vec<Jump>,
}

/// Assembles a text.
pub(super) fn object(file: &str, text: &str) -> Result<LinkedObject, AsmError> {
    let object = LinkedObject {
        license: "GPL".to_owned(),
        functions: Vec::new(),
        programs: Vec::new(),
        maps: Vec::new(),
        kfuncs: Vec::new(),
        members: Vec::new(),
        struct_ops: Vec::new(),
        variables: BTreeMap::new(),
        btf: Btf::default(),
    };
    let mut parser = Parser { file, object, current: None, labels: BTreeMap::new(), jumps: Vec::new() };
    // Names may be used before their declaration, so declarations are parsed in a first pass.
    for pass in [Parser::declaration, Parser::instruction] {
        for (number, line) in (1..).zip(text.lines()) {
            let code = line.split('#').next().unwrap_or_default().trim();
            if !code.is_empty() {
                pass(&mut parser, code, number).map_err(|problem| AsmError { line: number, problem })?;
            }
        }
    }
    parser.resolve()?;
    Ok(parser.object)
}

/// First words of declarations.
const DECLARATIONS: [&str; 5] = ["map", "data", "inner", "kfunc", "func"];

impl Parser<'_> {
    fn declaration(&mut self, line: &str, _number: u32) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["map", name, kind, "key", key, "value", value, "max", max] => {
                let mut map = map(name, map_kind(kind)?);
                (map.key_size, map.value_size, map.max_entries) = (small(key)?, small(value)?, small(max)?);
                self.object.maps.push(map);
            }
            ["data", name, rest @ ..] => {
                let (read_only, bytes) = match rest {
                    ["read_only", bytes @ ..] => (true, bytes),
                    bytes => (false, bytes),
                };
                let byte = |text: &&str| u8::from_str_radix(text, 16).map_err(|_| format!("{text} is not a byte"));
                let initial: Vec<u8> = bytes.iter().map(byte).collect::<Result<_, _>>()?;
                let (value_size, initial) = (initial.len() as u32, Some(initial));
                let array = map(name, MapKind::Array);
                self.object.maps.push(MapDef { key_size: 4, value_size, max_entries: 1, initial, read_only, ..array });
            }
            ["kfunc", name, rest @ ..] => {
                let present = rest.is_empty();
                let (name, spelled) = ((*name).to_owned(), (*name).to_owned());
                self.object.kfuncs.push(KfuncRef { name, spelled, weak: !present, present, parameters: 5 });
            }
            ["inner", outer, index, inner] => {
                let (outer, inner) = (self.map(outer)?, self.map(inner)?);
                self.object.maps[outer.0 as usize].inner_maps.push((small(index)?, inner));
            }
            ["func", name] if self.function(name).is_ok() => return Err(format!("function {name} is declared twice")),
            ["func", name] => self.object.functions.push(function(name)),
            [first, ..] if DECLARATIONS.contains(first) => return Err(format!("cannot read the declaration: {line}")),
            _ => {}
        }
        Ok(())
    }

    /// Second pass: assembles the instructions, function by function.
    fn instruction(&mut self, line: &str, number: u32) -> Result<(), String> {
        let first = line.split_whitespace().next().unwrap_or_default();
        if first == "func" {
            let name = line.split_whitespace().nth(1).unwrap_or_default();
            self.current = Some(self.function(name)?.0 as usize);
            return Ok(());
        }
        if DECLARATIONS.contains(&first) {
            return Ok(());
        }
        let function = self.current.ok_or("an instruction outside of a function")?;
        let slot = self.object.functions[function].insns.len();
        if let Some(label) = line.strip_suffix(':') {
            let known = self.labels.insert((function, label.trim().to_owned()), slot);
            return if known.is_some() { Err(format!("label {label} is defined twice")) } else { Ok(()) };
        }
        let statement = statement(line)?;
        let symbol = match statement.operand {
            Operand::None => None,
            Operand::Label { name, long } => {
                self.jumps.push(Jump { function, slot, label: name, line: number, long });
                None
            }
            Operand::Poison(text) => Some(Symbol::Poison(text)),
            Operand::Map(name) => Some(Symbol::Map(self.map(&name)?)),
            Operand::Value { name, offset } => Some(Symbol::MapValue { map: self.map(&name)?, offset }),
            Operand::Function(name) => Some(Symbol::Function(self.function(&name)?)),
            Operand::Kfunc(name) => Some(Symbol::Kfunc(self.kfunc(&name)?)),
            Operand::KfuncAddress(name) => Some(Symbol::KfuncAddress(self.kfunc(&name)?)),
            Operand::Variable(name) => Some(Symbol::KernelVariable(name)),
        };
        let text = line.to_owned();
        let source = LineInfo { insn: slot as u32, file: self.file.to_owned(), line: number, column: 1, text };
        let code = &mut self.object.functions[function];
        code.lines.push(source);
        if let Some(symbol) = symbol {
            code.symbols.insert(slot as u32, symbol);
        }
        if statement.probe {
            code.kernel_loads.push(slot as u32);
        }
        code.insns.push(statement.insn);
        if let Some(imm) = statement.second_half {
            code.insns.push(Insn { imm, ..Insn::default() });
        }
        Ok(())
    }

    /// Fills in the distances of jumps.
    fn resolve(&mut self) -> Result<(), AsmError> {
        for Jump { function, slot, label, line, long } in &self.jumps {
            let problem = |problem: String| AsmError { line: *line, problem };
            let Some(target) = self.labels.get(&(*function, label.clone())) else {
                return Err(problem(format!("there is no label {label}")));
            };
            let distance = *target as i64 - *slot as i64 - 1;
            let insn = &mut self.object.functions[*function].insns[*slot];
            if *long {
                insn.imm = distance as i32;
            } else {
                insn.off = i16::try_from(distance).map_err(|_| problem(format!("{label} is too far away")))?;
            }
        }
        Ok(())
    }

    fn map(&self, name: &str) -> Result<MapId, String> {
        let at = self.object.maps.iter().position(|map| map.name == name);
        at.map(|at| MapId(at as u32)).ok_or_else(|| format!("there is no map {name}"))
    }

    fn function(&self, name: &str) -> Result<FunctionId, String> {
        let at = self.object.functions.iter().position(|function| function.name == name);
        at.map(|at| FunctionId(at as u32)).ok_or_else(|| format!("there is no function {name}"))
    }

    fn kfunc(&self, name: &str) -> Result<u32, String> {
        let at = self.object.kfuncs.iter().position(|kfunc| kfunc.name == name);
        at.map(|at| at as u32).ok_or_else(|| format!("there is no kfunc {name}"))
    }
}

fn small(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("{text} is not a number from 0 to 2^32 - 1"))
}

fn map_kind(text: &str) -> Result<MapKind, String> {
    let found = MapKind::ALL.into_iter().find(|kind| format!("{kind:?}") == text);
    found.ok_or_else(|| format!("{text} is not a kind of map; kinds are {:?}", MapKind::ALL))
}

fn map(name: &str, kind: MapKind) -> MapDef {
    MapDef {
        name: name.to_owned(),
        kind,
        key_size: 0,
        value_size: 0,
        max_entries: 0,
        flags: 0,
        extra: 0,
        initial: None,
        read_only: false,
        value_type: 0,
        inner: None,
        inner_maps: Vec::new(),
    }
}

fn function(name: &str) -> Function {
    Function {
        name: name.to_owned(),
        insns: Vec::new(),
        symbols: BTreeMap::new(),
        kernel_loads: Vec::new(),
        inlined: Vec::new(),
        lines: Vec::new(),
        global: false,
        arguments: 5,
    }
}
