// SPDX-License-Identifier: GPL-2.0-only
//! Data sections and their variables. Each data section becomes a map with one value.

use crate::btf::{Btf, Kind, Linkage, Type};
use crate::bytes::malformed;
use crate::elf::{Elf, ElfSymbol, Place, Section, SymbolKind};
use crate::{MapDef, MapId, MapKind, ObjectError, Variable};
use std::collections::BTreeMap;

/// `BPF_F_RDONLY_PROG`: programs may not write the map.
pub(crate) const READ_ONLY_FLAG: u32 = 0x80;

/// Largest total size of the data sections of an object. The largest known scheduler has 22 MB.
const MAX_DATA: u64 = 256 << 20;

/// Section of the arena's global variables (address space 1 of clang).
pub(crate) const ARENA_SECTION: &str = ".addr_space.1";

/// A variable with its offset in its section.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub name: String,
    /// Type of its value.
    pub type_id: u32,
    pub offset: u32,
    pub size: u32,
    pub linkage: Linkage,
}

/// Maps of the data sections.
#[derive(Debug, Default)]
pub(crate) struct DataSections {
    /// Maps by the index of the ELF section.
    pub maps: BTreeMap<usize, MapId>,
    pub variables: BTreeMap<String, Variable>,
}

impl DataSections {
    /// Adds a map for each data section to `maps`. The arena's section becomes the initial value of the arena map,
    /// which `maps` must contain already.
    pub fn parse(elf: &Elf<'_>, btf: &Btf, maps: &mut Vec<MapDef>) -> Result<DataSections, ObjectError> {
        let mut data = DataSections::default();
        let mut statics = BTreeMap::new();
        let mut total = 0u64;
        for (index, section) in elf.sections.iter().enumerate().filter(|(_, section)| is_data(section)) {
            total = total.saturating_add(section.size);
            if total > MAX_DATA {
                return Err(malformed(&section.name, 0, format!("more than {} MiB of data", MAX_DATA >> 20)));
            }
            let map = if section.name == ARENA_SECTION {
                fill_arena(section, maps)?
            } else {
                maps.push(section_map(section, btf));
                MapId(maps.len() as u32 - 1)
            };
            data.maps.insert(index, map);
            let read_only = maps[map.0 as usize].read_only;
            for placed in placed_variables(elf, btf, index)? {
                let Placed { name, type_id, offset, size, linkage } = placed;
                // Each file may have a static variable of the same name. A global variable takes precedence, then the
                // first static one.
                let names = if linkage == Linkage::Static { &mut statics } else { &mut data.variables };
                names.entry(name).or_insert(Variable { map, offset, size, type_id, read_only });
            }
        }
        for (name, variable) in statics {
            data.variables.entry(name).or_insert(variable);
        }
        Ok(data)
    }
}

/// Whether a section holds variables of the program, whatever its name.
fn is_data(section: &Section<'_>) -> bool {
    let other = ["license", "version", ".maps", ".struct_ops", ".struct_ops.link", "?.struct_ops", "?.struct_ops.link"];
    section.allocated
        && !section.executable
        && section.size > 0
        && !other.contains(&section.name.as_ref())
        && !section.name.starts_with(".eh_frame")
}

/// Initial contents of a section.
fn contents(section: &Section<'_>) -> Vec<u8> {
    if section.zeros { vec![0; section.size as usize] } else { section.data.to_vec() }
}

fn section_map(section: &Section<'_>, btf: &Btf) -> MapDef {
    let read_only = section.name.starts_with(".rodata") || !section.writable;
    MapDef {
        name: section.name.to_string(),
        kind: MapKind::Array,
        key_size: 4,
        value_size: section.size as u32,
        max_entries: 1,
        flags: if read_only { READ_ONLY_FLAG } else { 0 },
        extra: 0,
        initial: Some(contents(section)),
        read_only,
        value_type: btf.find(&section.name, Kind::Datasec).unwrap_or(0),
        inner: None,
        inner_maps: Vec::new(),
    }
}

fn fill_arena(section: &Section<'_>, maps: &mut [MapDef]) -> Result<MapId, ObjectError> {
    let arena = maps.iter().position(|map| map.kind == MapKind::Arena);
    let arena =
        arena.ok_or_else(|| malformed(ARENA_SECTION, 0, "variables of an arena, but the object has no arena map"))?;
    maps[arena].initial = Some(contents(section));
    Ok(MapId(arena as u32))
}

/// Variables of an ELF section with their offsets. In an object that was not linked, only the ELF symbols give the
/// offsets of global variables (contract 3.3).
pub(crate) fn placed_variables(elf: &Elf<'_>, btf: &Btf, index: usize) -> Result<Vec<Placed>, ObjectError> {
    let section = &elf.sections[index];
    let Some(datasec) = btf.find(&section.name, Kind::Datasec) else { return Ok(Vec::new()) };
    let Type::Datasec { size, variables, .. } = btf.type_of(datasec) else { return Ok(Vec::new()) };
    let symbols = if *size == 0 { data_symbols(elf, index) } else { BTreeMap::new() };
    let mut placed = Vec::with_capacity(variables.len());
    for variable in variables {
        let Type::Var { name, type_id, linkage } = btf.type_of(variable.type_id) else { continue };
        let symbol = symbols.get(name.as_str()).copied().flatten();
        let offset = symbol.map_or(u64::from(variable.offset), |symbol| symbol.value);
        let size = if variable.size != 0 { u64::from(variable.size) } else { btf.size_of(*type_id).unwrap_or(0) };
        let end = offset.checked_add(size).filter(|end| *end <= section.size && *end <= u64::from(u32::MAX));
        let Some(end) = end else {
            let at = usize::try_from(offset).unwrap_or(usize::MAX);
            return Err(malformed(&section.name, at, format!("variable {name} of {size} bytes exceeds its section")));
        };
        let (offset, size) = (offset as u32, (end - offset) as u32);
        placed.push(Placed { name: name.clone(), type_id: *type_id, offset, size, linkage: *linkage });
    }
    Ok(placed)
}

/// Symbols of the variables in a section by name; `None` where several symbols have the name.
fn data_symbols<'e, 'a>(elf: &'e Elf<'a>, index: usize) -> BTreeMap<&'e str, Option<&'e ElfSymbol<'a>>> {
    let mut symbols = BTreeMap::new();
    for symbol in &elf.symbols {
        if symbol.place == Place::Section(index) && symbol.kind == SymbolKind::Other {
            symbols.entry(symbol.name.as_ref()).and_modify(|known| *known = None).or_insert(Some(symbol));
        }
    }
    symbols
}
