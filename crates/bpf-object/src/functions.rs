// SPDX-License-Identifier: GPL-2.0-only
//! Splits executable sections into functions and determines which of them are programs (entry points).

use crate::btf::ext::BtfExt;
use crate::btf::{Btf, Kind};
use crate::bytes::malformed;
use crate::dwarf;
use crate::elf::{Elf, ElfSymbol, Place, Section, SymbolKind};
use crate::{Function, FunctionId, Insn, LineInfo, ObjectError, Program, ProgramKind};
use std::collections::BTreeMap;

/// Size of an instruction slot in bytes.
pub(crate) const SLOT: u64 = 8;

/// Byte range of a function in its section.
#[derive(Clone, Copy, Debug)]
struct Range {
    section: usize,
    start: u64,
    end: u64,
}

/// All functions of an object.
#[derive(Debug, Default)]
pub(crate) struct Code {
    pub functions: Vec<Function>,
    pub programs: Vec<Program>,
    /// One range per function, in ascending order of section and start, without overlaps.
    ranges: Vec<Range>,
}

impl Code {
    /// Reads all functions that a symbol names. A static linker leaves unnamed code where a strong function replaced
    /// a weak one; that code is unreachable and skipped.
    pub fn parse(elf: &Elf<'_>, btf: &Btf, ext: &BtfExt) -> Result<Code, ObjectError> {
        let mut code = Code::default();
        for (index, section) in elf.sections.iter().enumerate().filter(|(_, section)| section.executable) {
            let mut symbols: Vec<&ElfSymbol<'_>> = elf
                .symbols
                .iter()
                .filter(|symbol| symbol.kind == SymbolKind::Function && symbol.place == Place::Section(index))
                .collect();
            // If a function has several symbols, the global one is taken.
            symbols.sort_by_key(|symbol| (symbol.value, symbol.local));
            symbols.dedup_by_key(|symbol| symbol.value);
            for symbol in symbols {
                code.add(index, section, symbol)?;
            }
        }
        code.add_signatures(elf, btf, ext);
        code.add_lines(elf, ext);
        for (function, call) in dwarf::inlined(elf, &code) {
            code.functions[function.0 as usize].inlined.push(call);
        }
        Ok(code)
    }

    fn add(&mut self, index: usize, section: &Section<'_>, symbol: &ElfSymbol<'_>) -> Result<(), ObjectError> {
        let bad = |problem: &str| {
            let offset = usize::try_from(symbol.value).unwrap_or(usize::MAX);
            malformed(&section.name, offset, format!("function {}: {problem}", symbol.name))
        };
        let end = symbol.value.checked_add(symbol.size).filter(|end| *end <= section.size);
        let end = end.ok_or_else(|| bad("exceeds its section"))?;
        if symbol.size == 0 || !symbol.value.is_multiple_of(SLOT) || !symbol.size.is_multiple_of(SLOT) {
            return Err(bad("its start and size must be multiples of 8 bytes, and it must not be empty"));
        }
        if self.ranges.last().is_some_and(|last| last.section == index && last.end > symbol.value) {
            return Err(bad("overlaps the function before it"));
        }
        let entry = entry_point(&section.name, symbol);
        self.ranges.push(Range { section: index, start: symbol.value, end });
        let function = FunctionId(self.functions.len() as u32);
        self.functions.push(Function {
            name: symbol.name.to_string(),
            insns: section.data[symbol.value as usize..end as usize].chunks_exact(8).map(decode).collect(),
            symbols: BTreeMap::new(),
            kernel_loads: Vec::new(),
            lines: Vec::new(),
            inlined: Vec::new(),
            global: !symbol.local && !symbol.hidden,
            arguments: 0,
        });
        if let Some((kind, autoload)) = entry {
            self.programs.push(Program { function, kind, autoload });
        }
        Ok(())
    }

    /// Function and instruction slot at a byte offset of a section.
    pub fn locate(&self, section: usize, offset: u64) -> Option<(FunctionId, u32)> {
        let after = self.ranges.partition_point(|range| (range.section, range.start) <= (section, offset));
        let index = after.checked_sub(1)?;
        let range = self.ranges[index];
        let inside = range.section == section && offset < range.end && (offset - range.start).is_multiple_of(SLOT);
        inside.then(|| (FunctionId(index as u32), ((offset - range.start) / SLOT) as u32))
    }

    /// The function that starts at a byte offset of a section.
    pub fn starting_at(&self, section: usize, offset: u64) -> Option<FunctionId> {
        self.locate(section, offset).filter(|(_, slot)| *slot == 0).map(|(function, _)| function)
    }

    /// Section and start offset of a function.
    pub fn start_of(&self, function: FunctionId) -> (usize, u64) {
        let range = self.ranges[function.0 as usize];
        (range.section, range.start)
    }

    /// The function and slot that a `.BTF.ext` record describes.
    pub fn at(&self, elf: &Elf<'_>, section: &str, offset: u32) -> Option<(FunctionId, u32)> {
        self.locate(elf.section(section)?.0, u64::from(offset))
    }

    fn add_signatures(&mut self, elf: &Elf<'_>, btf: &Btf, ext: &BtfExt) {
        let by_name = |function: &Function| btf.find(&function.name, Kind::Func);
        let mut types: Vec<Option<u32>> = self.functions.iter().map(by_name).collect();
        for at in &ext.functions {
            if let Some((function, 0)) = self.at(elf, &at.section, at.offset) {
                types[function.0 as usize] = Some(at.record);
            }
        }
        for (function, type_id) in self.functions.iter_mut().zip(types) {
            function.arguments = type_id.and_then(|id| btf.parameters(id)).map_or(0, |all| all.len() as u32);
        }
    }

    fn add_lines(&mut self, elf: &Elf<'_>, ext: &BtfExt) {
        for at in &ext.lines {
            let Some((function, insn)) = self.at(elf, &at.section, at.offset) else { continue };
            let line = &at.record;
            self.functions[function.0 as usize].lines.push(LineInfo {
                insn,
                file: line.file.clone(),
                line: line.line,
                column: line.column,
                text: line.text.clone(),
            });
        }
        for function in &mut self.functions {
            function.lines.sort_by_key(|line| line.insn);
        }
    }
}

fn decode(slot: &[u8]) -> Insn {
    Insn {
        code: slot[0],
        dst: slot[1] & 0xf,
        src: slot[1] >> 4,
        off: i16::from_le_bytes([slot[2], slot[3]]),
        imm: i32::from_le_bytes([slot[4], slot[5], slot[6], slot[7]]),
    }
}

/// Kind of program that a function is and whether it is loaded by default; `None` for a subprogram. Every function in
/// `.text` is a subprogram; in other sections, every function visible to other files is a program.
fn entry_point(section: &str, symbol: &ElfSymbol<'_>) -> Option<(ProgramKind, bool)> {
    if symbol.local || section == ".text" || section.starts_with(".text.") {
        return None;
    }
    let name = section.strip_prefix('?').unwrap_or(section);
    let kind = match name.split('/').next().unwrap_or(name) {
        "struct_ops" => ProgramKind::StructOps { sleepable: false },
        "struct_ops.s" => ProgramKind::StructOps { sleepable: true },
        "syscall" => ProgramKind::Syscall,
        _ => ProgramKind::Other(name.to_string()),
    };
    Some((kind, name == section))
}
