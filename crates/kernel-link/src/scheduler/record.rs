// SPDX-License-Identifier: GPL-2.0-only
//! Location of an object's exit record: a variable of a known struct type that its `exit` op fills.

use super::KernelExit;
use bpf_object::btf::Type;
use bpf_object::{LinkedObject, Variable};

/// Struct types of exit records: that of Weir's policies, and that of scx.
const STRUCTS: [&str; 2] = ["weir_exit", "user_exit_info"];

/// `SCX_EXIT_DUMP_DFL_LEN`: default length of a dump in bytes (contract O6).
const DUMP_LEN: u32 = 32_768;

/// Position of some bytes in a data section.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Place {
    section: String,
    offset: usize,
    size: usize,
}

/// Position of the record's members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Record {
    kind: Place,
    code: Option<Place>,
    reason: Option<Place>,
    message: Option<Place>,
    exit_cpu: Option<Place>,
    dump: Option<Place>,
}

impl Record {
    /// Finds the record in an object. In scx objects the dump is a separate variable in a section of its own, which
    /// the loader resizes: see [`resize_dump`].
    pub fn find(object: &LinkedObject) -> Option<Record> {
        let (name, variable) = variable_of(object)?;
        let place = |member: &str| member_place(object, variable, member);
        let dump = || {
            let dump = object.variables.get(&format!("{name}_dump"))?;
            let section = &object.maps[dump.map.0 as usize];
            Some(Place {
                section: section.name.clone(),
                offset: dump.offset as usize,
                size: section.value_size as usize,
            })
        };
        Some(Record {
            kind: place("kind")?,
            code: place("exit_code").or_else(|| place("code")),
            reason: place("reason"),
            message: place("msg").or_else(|| place("message")),
            exit_cpu: place("exit_cpu"),
            dump: place("dump").or_else(dump),
        })
    }

    /// Reads the record; `None` while the scheduler has not exited. `read` returns the bytes of a section.
    pub fn read<E>(&self, mut read: impl FnMut(&str) -> Result<Vec<u8>, E>) -> Result<Option<KernelExit>, E> {
        let mut bytes = |place: &Place| -> Result<Vec<u8>, E> {
            let section = read(&place.section)?;
            Ok(section.get(place.offset..).unwrap_or_default().iter().take(place.size).copied().collect())
        };
        let kind = number(&bytes(&self.kind)?) as u64;
        if kind == 0 {
            return Ok(None);
        }
        let mut exit = KernelExit { kind, ..KernelExit::default() };
        if let Some(code) = &self.code {
            exit.code = number(&bytes(code)?);
        }
        if let Some(cpu) = &self.exit_cpu {
            exit.exit_cpu = u32::try_from(number(&bytes(cpu)?)).ok();
        }
        for (place, to) in
            [(&self.reason, &mut exit.reason), (&self.message, &mut exit.message), (&self.dump, &mut exit.dump)]
        {
            if let Some(place) = place {
                *to = text(&bytes(place)?);
            }
        }
        Ok(Some(exit))
    }
}

/// Variable that holds the record.
fn variable_of(object: &LinkedObject) -> Option<(&String, &Variable)> {
    let is_record = |variable: &Variable| match object.btf.resolved(variable.type_id) {
        Type::Struct { name, .. } => STRUCTS.contains(&name.as_str()),
        _ => false,
    };
    object.variables.iter().find(|(_, variable)| is_record(variable))
}

fn member_place(object: &LinkedObject, variable: &Variable, member: &str) -> Option<Place> {
    let found = object.btf.member(object.btf.resolve(variable.type_id), member)?;
    Some(Place {
        section: object.maps[variable.map.0 as usize].name.clone(),
        offset: variable.offset as usize + found.byte_offset() as usize,
        size: object.btf.size_of(found.member.type_id)? as usize,
    })
}

/// Makes room for the dump of an scx object: sets `NAME_dump_len`, and returns the section of `NAME_dump` with its
/// new size; `None` if the object has no such dump.
pub(super) fn resize_dump(object: &mut LinkedObject, exit_dump_len: u32) {
    let size = if exit_dump_len == 0 { DUMP_LEN } else { exit_dump_len };
    let Some((name, _)) = variable_of(object) else { return };
    let name = name.clone();
    let Some(dump) = object.variables.get(&format!("{name}_dump")) else { return };
    let dump = dump.map.0 as usize;
    // Only a section with a single variable can grow.
    if object.variables.values().filter(|variable| variable.map.0 as usize == dump).count() != 1 {
        return;
    }
    if let Some(length) = object.variables.get(&format!("{name}_dump_len")).filter(|length| length.size == 4) {
        let at = length.offset as usize;
        if let Some(bytes) = object.maps[length.map.0 as usize].initial.as_mut().and_then(|all| all.get_mut(at..at + 4))
        {
            bytes.copy_from_slice(&size.to_le_bytes());
        }
    }
    let section = &mut object.maps[dump];
    section.value_size = size;
    section.initial = Some(vec![0; size as usize]);
}

/// A little-endian signed number of up to 8 bytes.
fn number(bytes: &[u8]) -> i64 {
    let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut wide = if negative { [0xff; 8] } else { [0; 8] };
    let size = bytes.len().min(8);
    wide[..size].copy_from_slice(&bytes[..size]);
    i64::from_le_bytes(wide)
}

/// Text up to the first zero byte.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
