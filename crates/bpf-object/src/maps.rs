// SPDX-License-Identifier: GPL-2.0-only
//! Map definitions in BTF: each variable in `.maps` is a struct, and the types of its members encode the map's
//! attributes.
//!
//! `__uint(max_entries, 8)` declares a pointer to an array of 8 ints, `__type(key, u32)` a pointer to a u32,
//! `__array(values, struct inner)` an array of pointers to inner maps, `__ulong(map_extra, …)` an enum with one
//! value.

use crate::btf::{Btf, Type};
use crate::bytes::malformed;
use crate::elf::{Elf, Place, R_BPF_64_ABS64, SymbolKind};
use crate::sections::{Placed, placed_variables};
use crate::{MapDef, MapId, MapKind, ObjectError};
use std::collections::BTreeMap;

const SECTION: &str = ".maps";

/// Positions of the maps in `.maps`.
#[derive(Debug, Default)]
pub(crate) struct MapTable {
    /// ELF section; `None` if the object has no maps.
    pub section: Option<usize>,
    /// Maps by their offset in the section.
    at: BTreeMap<u64, MapId>,
}

impl MapTable {
    /// Returns the map that starts at a byte offset of `.maps`.
    pub fn find(&self, offset: u64) -> Option<MapId> {
        self.at.get(&offset).copied()
    }

    /// Reads all definitions and appends them to `maps`, which must be empty.
    pub fn parse(elf: &Elf<'_>, btf: &Btf, maps: &mut Vec<MapDef>) -> Result<MapTable, ObjectError> {
        if elf.section("maps").is_some() {
            return Err(malformed(
                "maps",
                0,
                "map definitions in the legacy format; define maps through BTF in section .maps",
            ));
        }
        let Some((index, section)) = elf.section(SECTION) else { return Ok(MapTable::default()) };
        let mut variables = placed_variables(elf, btf, index)?;
        variables.sort_by_key(|variable| variable.offset);
        let mut table = MapTable { section: Some(index), at: BTreeMap::new() };
        for variable in &variables {
            table.at.insert(u64::from(variable.offset), MapId(maps.len() as u32));
            maps.push(
                Definition { btf, name: &variable.name, at: variable.offset as usize }.read(variable.type_id, false)?,
            );
        }
        for relocation in elf.relocations(index) {
            let symbol = &elf.symbols[relocation.symbol];
            let offset = relocation.offset;
            let bad = |problem: String| malformed(SECTION, usize::try_from(offset).unwrap_or(usize::MAX), problem);
            if relocation.kind != R_BPF_64_ABS64 || symbol.place != Place::Section(index) {
                return Err(bad(format!("initial slot {}: only maps of this object can be inner maps", symbol.name)));
            }
            let addend = if symbol.kind == SymbolKind::Section { read_u64(section.data, offset) } else { Some(0) };
            let inner = addend.and_then(|addend| table.find(symbol.value.wrapping_add(addend)));
            let inner =
                inner.ok_or_else(|| bad(format!("initial slot: {} is not the address of a map", symbol.name)))?;
            let (map, slot) = initial_slot(btf, &variables, offset)
                .ok_or_else(|| bad("a map address outside of the initial values of a map of maps".to_string()))?;
            maps[map].inner_maps.push((slot, inner));
        }
        Ok(table)
    }
}

fn read_u64(data: &[u8], offset: u64) -> Option<u64> {
    let start = usize::try_from(offset).ok()?;
    let bytes = data.get(start..start.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().expect("8 bytes")))
}

/// Returns the map and the slot of its initial values that lie at an offset of `.maps`.
fn initial_slot(btf: &Btf, variables: &[Placed], offset: u64) -> Option<(usize, u32)> {
    let map = variables.partition_point(|variable| u64::from(variable.offset) <= offset).checked_sub(1)?;
    let values = btf.member(variables[map].type_id, "values")?;
    let start = u64::from(variables[map].offset) + values.byte_offset();
    let within = offset.checked_sub(start).filter(|within| within % 8 == 0)?;
    let inside = offset < u64::from(variables[map].offset) + u64::from(variables[map].size);
    inside.then_some((map, u32::try_from(within / 8).ok()?))
}

/// A map definition that is being read.
struct Definition<'a> {
    btf: &'a Btf,
    name: &'a str,
    at: usize,
}

impl Definition<'_> {
    fn error(&self, problem: impl std::fmt::Display) -> ObjectError {
        malformed(SECTION, self.at, format!("map {}: {problem}", self.name))
    }

    fn read(&self, type_id: u32, inner: bool) -> Result<MapDef, ObjectError> {
        let definition = self.btf.resolved(type_id);
        if !matches!(definition, Type::Struct { .. }) {
            return Err(self.error(format!("a struct expected, {:?} found", definition.kind())));
        }
        let mut map = MapDef {
            name: self.name.to_string(),
            kind: MapKind::Array,
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
        };
        let mut kind = None;
        for member in definition.members() {
            let id = member.type_id;
            match member.name.as_str() {
                "type" => kind = Some(self.number(&member.name, id)?),
                "max_entries" => map.max_entries = self.number(&member.name, id)?,
                "map_flags" => map.flags = self.number(&member.name, id)?,
                "map_extra" => map.extra = self.long_number(&member.name, id)?,
                // NUMA node and pinning path have no meaning in the simulator.
                "numa_node" | "pinning" => {}
                "key_size" => self.set_size(&mut map.key_size, "key", self.number(&member.name, id)?)?,
                "value_size" => self.set_size(&mut map.value_size, "value", self.number(&member.name, id)?)?,
                "key" => {
                    let (_, size) = self.pointed(&member.name, id)?;
                    self.set_size(&mut map.key_size, "key", size)?;
                }
                "value" => {
                    let (value, size) = self.pointed(&member.name, id)?;
                    map.value_type = value;
                    self.set_size(&mut map.value_size, "value", size)?;
                }
                "values" if inner => return Err(self.error("an inner map cannot hold maps")),
                "values" => {
                    map.inner = Some(Box::new(self.inner(id)?));
                    self.set_size(&mut map.value_size, "value", 4)?;
                }
                other => return Err(self.error(format!("unknown attribute {other:?}"))),
            }
        }
        let kind = kind.ok_or_else(|| self.error("the attribute `type` is missing"))?;
        map.kind = MapKind::of(kind).ok_or_else(|| self.error(format!("map type {kind} is unknown")))?;
        if map.inner.is_some() != map.kind.is_of_maps() && !(inner && map.inner.is_none()) {
            return Err(self.error("`values` is required for a map of maps and not allowed for other maps"));
        }
        if map.kind == MapKind::ArrayOfMaps {
            self.set_size(&mut map.key_size, "key", 4)?;
        }
        Ok(map)
    }

    fn set_size(&self, size: &mut u32, what: &str, value: u32) -> Result<(), ObjectError> {
        if *size != 0 && *size != value {
            return Err(self.error(format!("{what} size {value} contradicts {what} size {size}")));
        }
        *size = value;
        Ok(())
    }

    /// Returns the number in `__uint(name, number)`.
    fn number(&self, attribute: &str, id: u32) -> Result<u32, ObjectError> {
        if let Type::Ptr { target } = self.btf.resolved(id)
            && let Type::Array { count, .. } = self.btf.resolved(*target)
        {
            return Ok(*count);
        }
        let number = self.long_number(attribute, id)?;
        u32::try_from(number).map_err(|_| self.error(format!("{attribute}: {number} does not fit in 32 bits")))
    }

    /// Returns the number in `__ulong(name, number)` or `__uint(name, number)`.
    fn long_number(&self, attribute: &str, id: u32) -> Result<u64, ObjectError> {
        match self.btf.resolved(id) {
            Type::Ptr { target } => match self.btf.resolved(*target) {
                Type::Array { count, .. } => Ok(u64::from(*count)),
                _ => Err(self.error(format!("{attribute}: a pointer to an array expected"))),
            },
            Type::Enum { values, .. } if values.len() == 1 => Ok(values[0].value),
            other => Err(self.error(format!("{attribute}: `__uint` or `__ulong` expected, {:?} found", other.kind()))),
        }
    }

    /// Returns the type in `__type(name, type)` and its size.
    fn pointed(&self, attribute: &str, id: u32) -> Result<(u32, u32), ObjectError> {
        let Type::Ptr { target } = self.btf.resolved(id) else {
            return Err(self.error(format!("{attribute}: `__type` expected")));
        };
        let size = self.btf.size_of(*target).and_then(|size| u32::try_from(size).ok());
        let size = size.ok_or_else(|| self.error(format!("{attribute}: a type of known size below 4 GiB expected")))?;
        Ok((*target, size))
    }

    /// Reads the inner map in `__array(values, struct inner)`.
    fn inner(&self, id: u32) -> Result<MapDef, ObjectError> {
        let Type::Array { element, .. } = self.btf.resolved(id) else {
            return Err(self.error("values: `__array` expected"));
        };
        let Type::Ptr { target } = self.btf.resolved(*element) else {
            return Err(self.error("values: an array of pointers expected"));
        };
        let name = format!("{}.inner", self.name);
        Definition { btf: self.btf, name: &name, at: self.at }.read(*target, true)
    }
}
