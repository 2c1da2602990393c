// SPDX-License-Identifier: GPL-2.0-only
//! Inlined calls. `.BTF.ext` gives each instruction one source line, that of the inlined function. The caller's line
//! is in the compiler's debug information (DWARF), unless a linker or `strip` removed it.

use crate::elf::{Elf, Place, R_BPF_64_ABS64, Relocation, Section, SymbolKind};
use crate::functions::{Code, SLOT};
use crate::{FunctionId, InlinedCall};
use gimli::{AttributeValue, DebuggingInformationEntry, Dwarf, DwarfSections, EndianSlice, LittleEndian, Unit};
use std::borrow::Cow;

/// A 32-bit reference into debug information.
const R_BPF_64_ABS32: u32 = 3;
/// A 32-bit reference into debug information that is never relocated to an address of a program.
const R_BPF_64_NODYLD32: u32 = 4;

/// Code in ELF section N is given the addresses from (N + 1) << SECTION_SHIFT.
const SECTION_SHIFT: u32 = 32;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Inlined calls with the functions that contain them, outer calls before those inside them. Missing or damaged debug
/// information gives none, since programs run without it.
pub(crate) fn inlined(elf: &Elf<'_>, code: &Code) -> Vec<(FunctionId, InlinedCall)> {
    let mut calls = Vec::new();
    let load = |id: gimli::SectionId| {
        let found = elf.sections.iter().enumerate().find(|(_, section)| section.name == id.name());
        Ok::<_, std::convert::Infallible>(
            found.map_or(Cow::Borrowed(&[][..]), |(index, section)| relocated(elf, index, section)),
        )
    };
    let Ok(sections) = DwarfSections::load(load);
    let dwarf = sections.borrow(|section| EndianSlice::new(section, LittleEndian));
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        // The calls that were read before the damage are kept.
        let _ = dwarf.unit(header).and_then(|unit| read_unit(&dwarf, &unit, code, &mut calls));
    }
    calls
}

/// Contents of a section of debug information with its relocations applied.
fn relocated<'a>(elf: &Elf<'_>, index: usize, section: &Section<'a>) -> Cow<'a, [u8]> {
    let relocations = elf.relocations(index);
    if relocations.is_empty() {
        return Cow::Borrowed(section.data);
    }
    let mut data = section.data.to_vec();
    for relocation in relocations {
        patch(elf, &mut data, relocation);
    }
    Cow::Owned(data)
}

fn patch(elf: &Elf<'_>, data: &mut [u8], relocation: &Relocation) {
    let size = match relocation.kind {
        R_BPF_64_ABS64 => 8,
        R_BPF_64_ABS32 | R_BPF_64_NODYLD32 => 4,
        _ => return,
    };
    let place = usize::try_from(relocation.offset).ok().and_then(|at| data.get_mut(at..at.checked_add(size)?));
    let Some(place) = place else { return };
    let symbol = &elf.symbols[relocation.symbol];
    let base = match symbol.place {
        Place::Section(section) if elf.sections[section].executable => (section as u64 + 1) << SECTION_SHIFT,
        _ => 0,
    };
    let value = if symbol.kind == SymbolKind::Section { 0 } else { symbol.value };
    let addend = place.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let sum = addend.wrapping_add(base).wrapping_add(value).to_le_bytes();
    place.copy_from_slice(&sum[..size]);
}

fn read_unit(
    dwarf: &Dwarf<Bytes<'_>>,
    unit: &Unit<Bytes<'_>>,
    code: &Code,
    calls: &mut Vec<(FunctionId, InlinedCall)>,
) -> Result<(), gimli::Error> {
    let mut entries = unit.entries();
    while let Some(entry) = entries.next_dfs()? {
        if entry.tag() != gimli::DW_TAG_inlined_subroutine {
            continue;
        }
        let Some((file, line)) = caller(dwarf, unit, entry) else { continue };
        let mut ranges = dwarf.die_ranges(unit, entry)?;
        while let Some(range) = ranges.next()? {
            let section = (range.begin >> SECTION_SHIFT).checked_sub(1).map(|index| index as usize);
            let offset = range.begin & ((1 << SECTION_SHIFT) - 1);
            let Some((function, first)) = section.and_then(|section| code.locate(section, offset)) else { continue };
            let slots = (range.end.saturating_sub(range.begin) / SLOT) as u32;
            let call = InlinedCall { first, end: first.saturating_add(slots), file: file.clone(), line };
            calls.push((function, call));
        }
    }
    Ok(())
}

/// File and line of the call that was inlined.
fn caller(
    dwarf: &Dwarf<Bytes<'_>>,
    unit: &Unit<Bytes<'_>>,
    entry: &DebuggingInformationEntry<Bytes<'_>>,
) -> Option<(String, u32)> {
    let line = entry.attr_value(gimli::DW_AT_call_line)?.udata_value()?;
    let AttributeValue::FileIndex(file) = entry.attr_value(gimli::DW_AT_call_file)? else { return None };
    let header = unit.line_program.as_ref()?.header();
    let file = header.file(file)?;
    let text = |value| Some(dwarf.attr_string(unit, value).ok()?.to_string_lossy().into_owned());
    // Name, directory and compilation directory: each is relative to the next one. `.BTF.ext` forms its file names in
    // the same way.
    let name = text(file.path_name())?;
    let directory = file.directory(header).and_then(text);
    let root = unit.comp_dir.map(|root| root.to_string_lossy().into_owned());
    let path = below(root, below(directory, name));
    Some((path, u32::try_from(line).ok()?))
}

/// Joins a directory and a path, unless the path is absolute or starts with the directory already.
fn below(directory: Option<String>, path: String) -> String {
    match directory {
        Some(directory) if !path.starts_with('/') && !path.starts_with(&format!("{directory}/")) => {
            format!("{directory}/{path}")
        }
        _ => path,
    }
}
