// SPDX-License-Identifier: GPL-2.0-only
//! Resolves the operands of instructions to functions, maps, data and externs.

use crate::bytes::malformed;
use crate::elf::{Elf, ElfSymbol, Place, R_BPF_64_32, R_BPF_64_64, Relocation, SymbolKind};
use crate::externs::{ExternKind, Externs};
use crate::functions::{Code, SLOT};
use crate::linked::LD_IMM64;
use crate::maps::MapTable;
use crate::sections::DataSections;
use crate::{FunctionId, Insn, ObjectError, Symbol};

/// Operation code of `call`.
pub(crate) const CALL: u8 = 0x85;
/// Source register of a call of another function of the object.
const PSEUDO_CALL: u8 = 1;
/// Source register of a call of a kfunc.
const PSEUDO_KFUNC_CALL: u8 = 2;
/// Source register of an `ld_imm64` of a function's address.
const PSEUDO_FUNC: u8 = 4;

/// A reference to an extern, to be resolved against a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ExternUse {
    pub function: FunctionId,
    pub slot: u32,
    /// Index into [`Externs::all`].
    pub target: usize,
    /// Whether the reference is a call; otherwise it takes the address.
    pub call: bool,
}

/// The parsed parts of an object to which instructions can refer.
pub(crate) struct Parts<'a, 'e> {
    pub elf: &'a Elf<'e>,
    pub maps: &'a MapTable,
    pub data: &'a DataSections,
    pub externs: &'a Externs,
}

/// Target of a reference: in the object, or an extern.
enum Referent {
    Local(Symbol),
    Extern(usize),
}

impl Parts<'_, '_> {
    /// Assigns symbols to all instructions that refer to something, and returns the references to externs.
    pub fn resolve(&self, code: &mut Code) -> Result<Vec<ExternUse>, ObjectError> {
        let mut uses = Vec::new();
        for (index, section) in self.elf.sections.iter().enumerate().filter(|(_, section)| section.executable) {
            for relocation in self.elf.relocations(index) {
                // Code without a symbol is unreachable, so its relocations are skipped.
                let Some((function, slot)) = code.locate(index, relocation.offset) else { continue };
                let insn = code.functions[function.0 as usize].insns[slot as usize];
                let call = insn.code == CALL;
                let referent = self.referent(code, relocation, insn).map_err(|problem| {
                    let problem = format!("{}: {problem}", self.elf.symbols[relocation.symbol].name);
                    malformed(&section.name, relocation.offset as usize, problem)
                })?;
                if insn.code == LD_IMM64 && code.functions[function.0 as usize].insns.len() <= slot as usize + 1 {
                    return Err(malformed(
                        &section.name,
                        relocation.offset as usize,
                        "the second slot of a 64-bit load is missing",
                    ));
                }
                match referent {
                    Referent::Local(symbol) => set_symbol(code, function, slot, Some(symbol)),
                    Referent::Extern(target) => {
                        set_symbol(code, function, slot, None);
                        uses.push(ExternUse { function, slot, target, call });
                    }
                }
            }
        }
        self.resolve_plain_calls(code)?;
        Ok(uses)
    }

    fn referent(&self, code: &Code, relocation: &Relocation, insn: Insn) -> Result<Referent, String> {
        let symbol = &self.elf.symbols[relocation.symbol];
        match (relocation.kind, insn.code) {
            (R_BPF_64_32, CALL) if insn.src == PSEUDO_CALL => {
                if let Some(index) = self.externs.of_symbol(relocation.symbol) {
                    return match self.externs.all[index].kind {
                        ExternKind::Kfunc { .. } => Ok(Referent::Extern(index)),
                        _ => Err("a call of an extern that is not a function".to_string()),
                    };
                }
                // The immediate counts slots from the next instruction: -1 is the symbol itself.
                let offset = i128::from(symbol.value) + (i128::from(insn.imm) + 1) * i128::from(SLOT);
                Ok(Referent::Local(self.function_at(code, symbol, offset)?))
            }
            (R_BPF_64_64, LD_IMM64) => {
                if let Some(index) = self.externs.of_symbol(relocation.symbol) {
                    return Ok(Referent::Extern(index));
                }
                self.address(code, symbol, insn).map(Referent::Local)
            }
            (kind, code) => Err(format!("relocation of type {kind} at an instruction {code:#04x}")),
        }
    }

    fn function_at(&self, code: &Code, symbol: &ElfSymbol<'_>, offset: i128) -> Result<Symbol, String> {
        let Place::Section(section) = symbol.place else { return Err("the symbol is not defined".to_string()) };
        let function = u64::try_from(offset).ok().and_then(|offset| code.starting_at(section, offset));
        function.map(Symbol::Function).ok_or_else(|| format!("no function starts at byte {offset} of its section"))
    }

    /// Symbol that an `ld_imm64` loads; the immediate is an offset from the ELF symbol.
    fn address(&self, code: &Code, symbol: &ElfSymbol<'_>, insn: Insn) -> Result<Symbol, String> {
        let Place::Section(index) = symbol.place else { return Err("the symbol is not defined".to_string()) };
        let section = &self.elf.sections[index];
        let offset = i128::from(symbol.value) + i128::from(insn.imm);
        if section.executable {
            return self.function_at(code, symbol, offset);
        }
        if self.maps.section == Some(index) {
            let map = u64::try_from(offset).ok().and_then(|offset| self.maps.find(offset));
            return map.map(Symbol::Map).ok_or_else(|| format!("no map starts at byte {offset} of .maps"));
        }
        match self.data.maps.get(&index) {
            // The end of a section is a valid address, since some loops compare with it.
            Some(map) if (0..=i128::from(section.size)).contains(&offset) => {
                Ok(Symbol::MapValue { map: *map, offset: offset as u32 })
            }
            Some(_) => Err(format!("byte {offset} lies outside of section {}", section.name)),
            None if symbol.kind == SymbolKind::Section => Err(format!("section {} holds no data", section.name)),
            None => Err(format!("the symbol lies in section {}, which programs cannot address", section.name)),
        }
    }

    /// Resolves calls within one section, which have no relocation: their immediates are relative already.
    fn resolve_plain_calls(&self, code: &mut Code) -> Result<(), ObjectError> {
        for id in 0..code.functions.len() {
            let function = FunctionId(id as u32);
            let (section, start) = code.start_of(function);
            let mut slot = 0;
            while let Some(insn) = code.functions[id].insns.get(slot).copied() {
                let known = code.functions[id].symbols.contains_key(&(slot as u32));
                if insn.code == CALL && insn.src == PSEUDO_CALL && !known {
                    let offset = start + slot as u64 * SLOT;
                    let target = i128::from(offset) + (i128::from(insn.imm) + 1) * i128::from(SLOT);
                    let callee = u64::try_from(target).ok().and_then(|target| code.starting_at(section, target));
                    let callee = callee.ok_or_else(|| {
                        let problem = format!("call of byte {target}, at which no function starts");
                        malformed(&self.elf.sections[section].name, offset as usize, problem)
                    })?;
                    set_symbol(code, function, slot as u32, Some(Symbol::Function(callee)));
                }
                slot += if insn.code == LD_IMM64 { 2 } else { 1 };
            }
        }
        Ok(())
    }
}

/// Stores the symbol of an instruction and clears its immediates, whose contents the symbol now holds.
fn set_symbol(code: &mut Code, function: FunctionId, slot: u32, symbol: Option<Symbol>) {
    let function = &mut code.functions[function.0 as usize];
    let insn = &mut function.insns[slot as usize];
    insn.imm = 0;
    match (&symbol, insn.code) {
        (None, CALL) => insn.src = PSEUDO_KFUNC_CALL,
        (Some(Symbol::Function(_)), LD_IMM64) => insn.src = PSEUDO_FUNC,
        _ => {}
    }
    if insn.code == LD_IMM64 {
        function.insns[slot as usize + 1].imm = 0;
    }
    if let Some(symbol) = symbol {
        function.symbols.insert(slot, symbol);
    }
}
