// SPDX-License-Identifier: GPL-2.0-only
//! Creates the maps of an object.

use super::hash::{HashStore, Shape};
use super::{Map, MapHandle, Maps, QueueStore, Ring, Store, Timers, is_storage};
use crate::{Access, GuestAddr, LoadError, Memory, RegionId};
use bpf_object::{MapDef, MapKind};

/// Maximum size of one map's values in bytes: a region spans 4 GiB.
const MAX_BYTES: u64 = 1 << 30;

/// Maximum number of maps: the largest known object has 17, plus 4096 inner maps created by its user space.
const MAX_MAPS: usize = 1 << 13;

/// Map flag: elements are allocated when they are inserted.
const BPF_F_NO_PREALLOC: u32 = 1;

/// Map flag: read-only for programs.
const BPF_F_RDONLY_PROG: u32 = 1 << 7;

/// Page size that ring buffers are measured in.
const PAGE: u32 = 4096;

impl Maps {
    /// Creates the maps of an object; a per-CPU map gets one value per key for each of `cpus` CPUs. Together they take at
    /// most as much memory as [`Memory::limit_maps`] allows, which is checked before any is allocated.
    pub(crate) fn create(memory: &mut Memory, definitions: &[MapDef], cpus: u32) -> Result<Maps, LoadError> {
        if definitions.len() > MAX_MAPS {
            let problem = format!("the object has {} maps; at most {MAX_MAPS} are possible", definitions.len());
            return Err(LoadError::Map { name: definitions[MAX_MAPS].name.clone(), problem });
        }
        // Roughly the size of the kernel's struct bpf_map; its content is never read.
        let objects = memory.add_region("map", 256, definitions.len() as u32, Access::ReadOnly);
        let mut maps = Maps { objects, cpus, timers: Timers::default(), ..Maps::default() };
        let (mut needed, mut fixed) = (0u64, 0u64);
        for definition in definitions {
            let bytes = bytes_at_load(definition, cpus);
            needed = needed.saturating_add(bytes);
            fixed = fixed.saturating_add(if grows(definition.kind) { 0 } else { bytes });
            if needed > memory.map_bytes {
                let problem = format!(
                    "the maps up to this one take {} MiB, and the limit is {} MiB (--map-memory)",
                    needed.div_ceil(1 << 20),
                    memory.map_bytes >> 20
                );
                return Err(LoadError::Map { name: definition.name.clone(), problem });
            }
        }
        memory.map_bytes_left = memory.map_bytes - fixed;
        for definition in definitions {
            let store = make(memory, definition, cpus, definitions.len())
                .map_err(|problem| LoadError::Map { name: definition.name.clone(), problem })?;
            let MapDef { name, kind, value_size, .. } = definition;
            let key_size = match kind {
                MapKind::Queue | MapKind::Stack | MapKind::Ringbuf => 0,
                kind if is_storage(*kind) => 8,
                _ => definition.key_size,
            };
            let (name, kind, value_size) = (name.clone(), *kind, *value_size);
            let frozen = definition.read_only;
            maps.list.push(Map { name, kind, key_size, value_size, store, frozen, has_timers: false });
        }
        Ok(maps)
    }

    /// Region of a data section that is frozen.
    pub(crate) fn constant(&self, map: MapHandle) -> Option<RegionId> {
        match self.get(map) {
            Map { frozen: true, store: Store::Array { values, .. }, .. } => Some(*values),
            _ => None,
        }
    }

    /// Address of the only value of a data section.
    pub(crate) fn section(&self, memory: &Memory, map: MapHandle) -> Option<GuestAddr> {
        match self.get(map).store {
            Store::Array { values, entries: 1, per_slot: 1 } => Some(memory.addr(values, 0)),
            _ => None,
        }
    }
}

fn make(memory: &mut Memory, map: &MapDef, cpus: u32, maps: usize) -> Result<Store, String> {
    let name = map.name.as_str();
    if let Some(initial) = &map.initial
        && (map.kind != MapKind::Array || initial.len() > map.value_size as usize)
    {
        return Err(format!(
            "{} initial bytes for a {:?} map of {}-byte values",
            initial.len(),
            map.kind,
            map.value_size
        ));
    }
    match map.kind {
        MapKind::Array | MapKind::PercpuArray => {
            let per_slot = if map.kind == MapKind::PercpuArray { cpus } else { 1 };
            array_key(map)?;
            bounded(map, per_slot)?;
            array(memory, map, per_slot)
        }
        MapKind::Hash | MapKind::LruHash | MapKind::PercpuHash => {
            let per_slot = if map.kind == MapKind::PercpuHash { cpus } else { 1 };
            // The kernel limits keys to MAX_BPF_STACK.
            if map.key_size == 0 || map.key_size > 512 {
                return Err(format!("a key has {} bytes; 1 to 512 are possible", map.key_size));
            }
            bounded(map, per_slot)?;
            Ok(hash(memory, map, (map.key_size, map.max_entries, per_slot)))
        }
        MapKind::TaskStorage | MapKind::CgroupStorage => {
            if map.value_size == 0 || map.value_size > 1 << 16 {
                return Err(format!("a value has {} bytes; 1 to 65536 are possible", map.value_size));
            }
            let capacity = MAX_BYTES / u64::from(map.value_size.next_power_of_two().max(8));
            Ok(hash(memory, map, (8, capacity as u32, 1)))
        }
        MapKind::Queue | MapKind::Stack => {
            bounded(map, 1)?;
            let lifo = map.kind == MapKind::Stack;
            Ok(Store::Queue(QueueStore::new(memory, name, map.value_size, map.max_entries, lifo)))
        }
        MapKind::ArrayOfMaps => {
            array_key(map)?;
            if map.max_entries == 0 || map.max_entries > 1 << 20 {
                return Err(format!("max_entries is {}; 1 to 2^20 are possible", map.max_entries));
            }
            inner(map, maps)
        }
        MapKind::Ringbuf => {
            if map.max_entries == 0 || u64::from(map.max_entries) * 2 > MAX_BYTES {
                return Err(format!("max_entries is {}; 1 to 2^29 bytes are possible", map.max_entries));
            }
            // libbpf rounds up to a power of two of pages (`adjust_ringbuf_sz`).
            let size = map.max_entries.div_ceil(PAGE).next_power_of_two() * PAGE;
            Ok(Store::Ring(Ring::new(memory, name, size)))
        }
        MapKind::PerfEventArray | MapKind::UserRingbuf => Ok(Store::Opaque),
        MapKind::Arena => Err("arenas are not supported".to_owned()),
        other => Err(format!("maps of kind {other:?} are not supported")),
    }
}

/// Whether memory for the values is allocated here when they are inserted.
fn grows(kind: MapKind) -> bool {
    matches!(kind, MapKind::Hash | MapKind::LruHash | MapKind::PercpuHash) || is_storage(kind)
}

/// Memory in bytes that a map takes when it is created, as in the kernel: storage, and hash maps that are not
/// preallocated, take theirs later.
fn bytes_at_load(map: &MapDef, cpus: u32) -> u64 {
    let per_key = match map.kind {
        MapKind::Array | MapKind::Queue | MapKind::Stack => u64::from(map.value_size),
        MapKind::PercpuArray => u64::from(map.value_size) * u64::from(cpus),
        MapKind::Hash | MapKind::LruHash | MapKind::PercpuHash if map.flags & BPF_F_NO_PREALLOC == 0 => {
            let per_slot = if map.kind == MapKind::PercpuHash { cpus } else { 1 };
            u64::from(map.key_size) + u64::from(map.value_size) * u64::from(per_slot)
        }
        MapKind::ArrayOfMaps => size_of::<Option<MapHandle>>() as u64,
        // A ring buffer is stored twice in a row.
        MapKind::Ringbuf => 2,
        _ => 0,
    };
    per_key.saturating_mul(u64::from(map.max_entries))
}

fn array_key(map: &MapDef) -> Result<(), String> {
    if map.key_size == 4 { Ok(()) } else { Err(format!("key_size is {}; arrays need 4", map.key_size)) }
}

/// Checks that all values fit into a region, with a margin.
fn bounded(map: &MapDef, per_slot: u32) -> Result<(), String> {
    if map.value_size == 0 {
        return Err("a value has 0 bytes".to_owned());
    }
    if map.max_entries == 0 {
        return Err("max_entries is 0: it has to be set before the object is loaded".to_owned());
    }
    let key_size = if map.kind == MapKind::Array { 1 } else { map.key_size.max(1) };
    let stride = u64::from(map.value_size) * 2 * u64::from(per_slot) + u64::from(key_size) * 2;
    match stride.checked_mul(u64::from(map.max_entries)) {
        // Rounding up to a power of two at most doubles the size.
        Some(bytes) if bytes <= 2 * MAX_BYTES => Ok(()),
        _ => Err(format!(
            "{} entries of {per_slot} × {} bytes are more than {MAX_BYTES} bytes",
            map.max_entries, map.value_size
        )),
    }
}

fn array(memory: &mut Memory, map: &MapDef, per_slot: u32) -> Result<Store, String> {
    let read_only = map.read_only || map.flags & BPF_F_RDONLY_PROG != 0;
    let access = if read_only { Access::ReadOnly } else { Access::ReadWrite };
    let values = memory.add_region(&map.name, map.value_size, map.max_entries * per_slot, access);
    if let Some(initial) = &map.initial {
        memory.slot_mut(values, 0)[..initial.len()].copy_from_slice(initial);
    }
    Ok(Store::Array { values, entries: map.max_entries, per_slot })
}

fn hash(memory: &mut Memory, map: &MapDef, (key_size, capacity, per_slot): (u32, u32, u32)) -> Store {
    let (value_size, lru) = (map.value_size, map.kind == MapKind::LruHash);
    Store::Hash(HashStore::new(memory, &Shape { name: &map.name, key_size, value_size, per_slot, capacity, lru }))
}

fn inner(map: &MapDef, maps: usize) -> Result<Store, String> {
    let mut slots = vec![None; map.max_entries as usize];
    for (index, inner) in &map.inner_maps {
        if inner.0 as usize >= maps {
            return Err(format!("inner map {} does not exist", inner.0));
        }
        let slot =
            slots.get_mut(*index as usize).ok_or_else(|| format!("there is no slot {index} for an inner map"))?;
        *slot = Some(MapHandle(inner.0));
    }
    Ok(Store::Inner(slots))
}
