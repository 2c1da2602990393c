// SPDX-License-Identifier: GPL-2.0-only
//! Reader for the parts of an ELF file that a BPF loader needs: sections, symbols, REL entries.

use crate::ObjectError;
use crate::bytes::malformed;
use object::elf;
use object::endian::LittleEndian;
use object::read::elf::{ElfFile64, FileHeader, Rel, SectionHeader, Sym};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Address of data or of a map: 64 bits, spread over the two immediates of `ld_imm64`.
pub(crate) const R_BPF_64_64: u32 = 1;
/// A 64-bit address in a data section.
pub(crate) const R_BPF_64_ABS64: u32 = 2;
/// Immediate of a call.
pub(crate) const R_BPF_64_32: u32 = 10;

/// An ELF section.
#[derive(Debug)]
pub(crate) struct Section<'a> {
    pub name: Cow<'a, str>,
    /// Contents; empty for a section that occupies no bytes in the file.
    pub data: &'a [u8],
    /// Size in memory, in bytes.
    pub size: u64,
    /// Whether the section is all zeros and occupies no bytes in the file (`.bss`).
    pub zeros: bool,
    /// Whether the section is part of the program, as opposed to debug information and tables.
    pub allocated: bool,
    pub writable: bool,
    pub executable: bool,
}

/// Section in which a symbol is defined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Undefined,
    /// Index into [`Elf::sections`].
    Section(usize),
    /// An absolute or common symbol.
    Other,
}

/// Type of a symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SymbolKind {
    Function,
    Section,
    /// A variable, a file or an extern.
    Other,
}

/// An ELF symbol.
#[derive(Debug)]
pub(crate) struct ElfSymbol<'a> {
    pub name: Cow<'a, str>,
    /// Offset in its section, in bytes.
    pub value: u64,
    pub size: u64,
    pub place: Place,
    pub kind: SymbolKind,
    pub local: bool,
    pub weak: bool,
    /// Whether the symbol is invisible outside the object. The verifier treats such a function as static.
    pub hidden: bool,
}

/// A REL entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relocation {
    /// Offset of the patched bytes from the start of the section.
    pub offset: u64,
    /// Relocation type (`R_BPF_*`).
    pub kind: u32,
    /// Index into [`Elf::symbols`].
    pub symbol: usize,
}

/// A parsed ELF file.
#[derive(Debug)]
pub(crate) struct Elf<'a> {
    pub sections: Vec<Section<'a>>,
    pub symbols: Vec<ElfSymbol<'a>>,
    /// Relocations by the index of the section that they patch. Only sections that are part of the program or hold
    /// debug information are included.
    relocations: BTreeMap<usize, Vec<Relocation>>,
}

type File<'a> = ElfFile64<'a, LittleEndian, &'a [u8]>;

fn bad(problem: impl ToString) -> ObjectError {
    ObjectError::Elf(problem.to_string())
}

impl<'a> Elf<'a> {
    /// Parses a relocatable, little-endian BPF file.
    pub fn parse(bytes: &'a [u8]) -> Result<Elf<'a>, ObjectError> {
        if bytes.get(..6).is_some_and(|ident| ident[..4] == *b"\x7fELF" && ident[5] == 2) {
            return Err(bad("big-endian; compile with -target bpfel"));
        }
        let file = File::parse(bytes).map_err(bad)?;
        let header = file.elf_header();
        let machine = header.e_machine(LittleEndian);
        if machine != elf::EM_BPF {
            return Err(bad(format!("machine {} (BPF) expected, {} found", elf::EM_BPF.0, machine.0)));
        }
        if header.e_type(LittleEndian) != elf::ET_REL {
            return Err(bad("a relocatable file (ET_REL) expected"));
        }
        let sections = read_sections(&file, bytes)?;
        let symbols = read_symbols(&file, sections.len())?;
        let relocations = read_relocations(&file, bytes, &sections, symbols.len())?;
        Ok(Elf { sections, symbols, relocations })
    }

    /// Returns the index and the first section with this name that is not empty.
    pub fn section(&self, name: &str) -> Option<(usize, &Section<'a>)> {
        self.sections.iter().enumerate().find(|(_, section)| section.name == name && section.size > 0)
    }

    /// Relocations that patch a section, in the order of the file.
    pub fn relocations(&self, section: usize) -> &[Relocation] {
        self.relocations.get(&section).map_or(&[], Vec::as_slice)
    }
}

fn read_sections<'a>(file: &File<'a>, bytes: &'a [u8]) -> Result<Vec<Section<'a>>, ObjectError> {
    let table = file.elf_section_table();
    let mut sections = Vec::new();
    for header in table.iter() {
        let kind = header.sh_type(LittleEndian);
        let flags = header.sh_flags(LittleEndian);
        let zeros = kind == elf::SHT_NOBITS;
        let name = String::from_utf8_lossy(table.section_name(LittleEndian, header).map_err(bad)?);
        let contents = zeros || kind == elf::SHT_PROGBITS;
        let data =
            if contents { header.data(LittleEndian, bytes).map_err(|e| bad(format!("{name}: {e}")))? } else { &[] };
        sections.push(Section {
            name,
            data,
            size: if zeros { header.sh_size(LittleEndian) } else { data.len() as u64 },
            zeros,
            allocated: contents && flags.contains(elf::SHF_ALLOC),
            writable: flags.contains(elf::SHF_WRITE),
            executable: contents && !zeros && flags.contains(elf::SHF_EXECINSTR),
        });
    }
    Ok(sections)
}

fn read_symbols<'a>(file: &File<'a>, sections: usize) -> Result<Vec<ElfSymbol<'a>>, ObjectError> {
    let table = file.elf_symbol_table();
    let mut symbols = Vec::new();
    for (index, symbol) in table.enumerate() {
        let name = String::from_utf8_lossy(table.symbol_name(LittleEndian, symbol).map_err(bad)?);
        let place = if symbol.is_undefined(LittleEndian) {
            Place::Undefined
        } else {
            match table.symbol_section(LittleEndian, symbol, index).map_err(bad)? {
                Some(section) if section.0 < sections => Place::Section(section.0),
                Some(section) => return Err(bad(format!("symbol {name} lies in section {} of {sections}", section.0))),
                None => Place::Other,
            }
        };
        let kind = match symbol.st_type() {
            elf::STT_FUNC => SymbolKind::Function,
            elf::STT_SECTION => SymbolKind::Section,
            _ => SymbolKind::Other,
        };
        let hidden = matches!(symbol.st_visibility(), elf::STV_HIDDEN | elf::STV_INTERNAL);
        symbols.push(ElfSymbol {
            name,
            value: symbol.st_value(LittleEndian),
            size: symbol.st_size(LittleEndian),
            place,
            kind,
            local: symbol.is_local(),
            weak: symbol.is_weak(),
            hidden,
        });
    }
    Ok(symbols)
}

fn read_relocations(
    file: &File<'_>,
    bytes: &[u8],
    sections: &[Section<'_>],
    symbols: usize,
) -> Result<BTreeMap<usize, Vec<Relocation>>, ObjectError> {
    let mut relocations: BTreeMap<usize, Vec<Relocation>> = BTreeMap::new();
    for header in file.elf_section_table().iter() {
        let Some((entries, _)) = SectionHeader::rel(header, LittleEndian, bytes).map_err(bad)? else { continue };
        let patched = header.sh_info(LittleEndian) as usize;
        let Some(section) = sections.get(patched) else {
            return Err(bad(format!("relocations of section {patched} of {}", sections.len())));
        };
        if !section.allocated && !section.name.starts_with(".debug_") {
            continue;
        }
        for entry in entries {
            let offset = entry.r_offset(LittleEndian);
            let symbol = entry.r_sym(LittleEndian) as usize;
            if symbol >= symbols {
                let problem = format!("relocation by symbol {symbol}, but there are {symbols} symbols");
                return Err(malformed(&section.name, usize::try_from(offset).unwrap_or(usize::MAX), problem));
            }
            let kind = entry.r_type(LittleEndian).0;
            relocations.entry(patched).or_default().push(Relocation { offset, kind, symbol });
        }
    }
    Ok(relocations)
}
