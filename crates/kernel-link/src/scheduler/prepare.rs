// SPDX-License-Identifier: GPL-2.0-only
//! Computes from an object and its launch profile the bytes that libbpf will load. Needs no kernel.

use super::kernel::KernelTypes;
use super::record::{self, Record};
use super::{Request, SchedulerError};
use bpf_object::btf::{Btf, Kind};
use bpf_object::{ConfigExtern, LinkedObject, MapDef, MapKind, MemberValue, Object, ProgramKind, StructOps, Target};
use launch_profile::Steps;

/// Everything to pass to libbpf.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Prepared {
    /// Initial contents of data sections.
    pub sections: Vec<(String, Vec<u8>)>,
    /// Sections with a size other than in the file.
    pub resized: Vec<(String, u32)>,
    /// Maps with another capacity.
    pub capacities: Vec<(String, u32)>,
    /// Inner maps that user space creates: outer map, slot, definition.
    pub inner_maps: Vec<(String, u32, MapDef)>,
    /// Kernel configuration values that the object needs.
    pub config: Vec<ConfigExtern>,
    /// The struct_ops variable.
    pub table: Table,
    /// Programs other than ops that are attached to their own hooks (`tp_btf/…`, `fentry/…`).
    pub others: Vec<String>,
    /// Programs that are not loaded.
    pub left_out: Vec<String>,
    /// Steps after loading the object, before and after attaching the table.
    pub steps: Steps,
    /// Location of the object's exit record.
    pub record: Option<Record>,
    /// Features that were left out, as text.
    pub notes: Vec<String>,
}

/// The struct_ops variable.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Table {
    /// Name of the variable and of its map.
    pub variable: String,
    /// Name of the scheduler.
    pub name: String,
    /// Ops present in the kernel: name and function, in the order of the object's struct.
    pub ops: Vec<(String, String)>,
    /// Bytes to write over those of the file, by offset in the object's struct.
    pub patches: Vec<(usize, Vec<u8>)>,
    /// `SCX_OPS_*` bits, for errors.
    pub flags: u64,
}

/// A kernel that has everything. libbpf links the object against the real kernel; here only data and the struct_ops
/// table matter, which do not depend on the kernel.
#[derive(Default)]
struct Anything {
    btf: Btf,
}

impl Target for Anything {
    fn btf(&self) -> &Btf {
        &self.btf
    }

    fn has_kfunc(&self, _name: &str, _parameters: u32) -> bool {
        true
    }

    fn has_variable(&self, _name: &str) -> bool {
        true
    }

    fn kconfig(&self, _name: &str) -> Option<u64> {
        Some(0)
    }
}

/// Applies constants and profile to the object, as the simulator does.
pub(super) fn prepare(request: &Request<'_>, kernel: &KernelTypes) -> Result<Prepared, SchedulerError> {
    let name = || request.name.to_owned();
    let wrong = |source| SchedulerError::Object { name: name(), source };
    let parsed = Object::parse(request.object).map_err(wrong)?;
    let mut object = parsed.link(&Anything::default()).map_err(wrong)?;
    fill_constants(&mut object, kernel);
    let before: Vec<(u32, u32)> = object.maps.iter().map(|map| (map.value_size, map.max_entries)).collect();
    let applied = request.profile.apply(&mut object, &request.host.machine);
    applied.map_err(|source| SchedulerError::Profile { name: name(), source })?;
    let steps = request.profile.steps(&object, &request.host.machine);
    let steps = steps.map_err(|source| SchedulerError::Profile { name: name(), source })?;
    let ops = object.scheduler().map_err(wrong)?;
    let mut notes = Vec::new();
    let table = table(&object, ops, kernel, request.host.hotplug_seq, &mut notes);
    let dump_len = number_of(ops, "exit_dump_len") as u32;
    record::resize_dump(&mut object, dump_len);
    let changed = |old: fn(&(u32, u32)) -> u32, new: fn(&MapDef) -> u32| {
        let maps = object.maps.iter().zip(&before).filter(|(map, before)| new(map) != old(before));
        maps.map(|(map, _)| (map.name.clone(), new(map))).collect::<Vec<_>>()
    };
    Ok(Prepared {
        sections: sections(&object),
        resized: changed(|before| before.0, |map| map.value_size),
        capacities: changed(|before| before.1, |map| map.max_entries),
        inner_maps: inner_maps(&object, before.len()),
        config: parsed.config(),
        table,
        others: others(&object),
        left_out: request.profile.left_out().map(str::to_owned).collect(),
        steps,
        record: Record::find(&object),
        notes,
    })
}

/// Inner maps that the profile added after the object's `own` maps.
fn inner_maps(object: &LinkedObject, own: usize) -> Vec<(String, u32, MapDef)> {
    let slots = object.maps[..own].iter().flat_map(|map| map.inner_maps.iter().map(|(slot, id)| (&map.name, slot, id)));
    let added = slots.filter(|(_, _, id)| id.0 as usize >= own);
    added.map(|(name, slot, id)| (name.clone(), *slot, object.maps[id.0 as usize].clone())).collect()
}

/// Sets the `__SCX_*` variables to the values of the kernel's enums; those of missing constants stay 0 (contract L6).
fn fill_constants(object: &mut LinkedObject, kernel: &KernelTypes) {
    for (name, variable) in object.variables.iter().filter(|(name, _)| name.starts_with("__SCX_")) {
        // Some kernel names themselves begin with two underscores: `__SCX_ENQ_INTERNAL_MASK`.
        let Some(value) = kernel.constants.get(&name[2..]).or_else(|| kernel.constants.get(name)) else { continue };
        let (begin, size) = (variable.offset as usize, variable.size.min(8) as usize);
        let bytes = object.maps[variable.map.0 as usize].initial.as_mut();
        if let Some(bytes) = bytes.and_then(|bytes| bytes.get_mut(begin..begin + size)) {
            bytes.copy_from_slice(&value.to_le_bytes()[..size]);
        }
    }
}

fn number_of(ops: &StructOps, member: &str) -> u64 {
    let found = ops.members.iter().find(|found| found.name == member);
    found.map_or(0, |found| if let MemberValue::Number(number) = found.value { number } else { 0 })
}

/// The table with the profile's numbers. Ops that this kernel lacks (contract L4) are zeroed, which makes libbpf
/// leave them out.
fn table(
    object: &LinkedObject,
    ops: &StructOps,
    kernel: &KernelTypes,
    hotplug_seq: u64,
    notes: &mut Vec<String>,
) -> Table {
    let mut table = Table { variable: ops.name.clone(), flags: number_of(ops, "flags"), ..Table::default() };
    let type_id = object.btf.find(&ops.type_name, Kind::Struct);
    let place = |member: &str| {
        let found = object.btf.member(type_id?, member)?;
        Some((found.byte_offset() as usize, object.btf.size_of(found.member.type_id)? as usize))
    };
    for member in &ops.members {
        match &member.value {
            MemberValue::Function(function) if kernel.ops.contains(&member.name) => {
                table.ops.push((member.name.clone(), object.functions[function.0 as usize].name.clone()));
            }
            MemberValue::Function(_) => {
                notes.push(format!("this kernel has no op `{}`: it is left out", member.name));
                table.patches.extend(place(&member.name).map(|(offset, size)| (offset, vec![0; size])));
            }
            MemberValue::Number(number) => {
                let bytes = number.to_le_bytes();
                table.patches.extend(place(&member.name).map(|(offset, size)| (offset, bytes[..size.min(8)].to_vec())));
            }
            MemberValue::Bytes(bytes) if member.name == "name" => {
                let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
                table.name = String::from_utf8_lossy(&bytes[..end]).into_owned();
            }
            MemberValue::Bytes(_) => {}
        }
    }
    if let Some((offset, 8)) = place("hotplug_seq").filter(|_| kernel.ops.contains("hotplug_seq")) {
        table.patches.push((offset, hotplug_seq.to_le_bytes().to_vec()));
    }
    table
}

/// Initial contents of data sections. libbpf itself fills in the kernel configuration.
fn sections(object: &LinkedObject) -> Vec<(String, Vec<u8>)> {
    let sections = object.maps.iter().filter(|map| matches!(map.kind, MapKind::Array | MapKind::Arena));
    let sections = sections.filter(|map| map.name != ".kconfig");
    sections.filter_map(|map| Some((map.name.clone(), map.initial.clone()?))).collect()
}

fn others(object: &LinkedObject) -> Vec<String> {
    let others = object.programs.iter().filter(|one| one.autoload && matches!(one.kind, ProgramKind::Other(_)));
    others.map(|program| object.functions[program.function.0 as usize].name.clone()).collect()
}
