// SPDX-License-Identifier: GPL-2.0-only
//! Events of disks: the extensions `read` and `write`, and rt-app's `iorun`.
//!
//! ```json
//! {"tasks": {"t": {"read": {"disk": "sda", "bytes": 4096}, "write": {"bytes": 65536, "at": "sequential", "cached": true}, "fsync": "sda"}}}
//! ```

use super::document::{Fault, Object, integer, string, wrong};
use crate::io::MAX_IO_BYTES;
use crate::json::{Kind, Member};
use crate::{DiskId, Io, IoPlace};

/// Reads `read` or `write`. Returns the name of the disk, and the request without its number.
pub(super) fn event<'a>(what: &str, member: &'a Member, write: bool) -> Result<(&'a str, Io), Fault> {
    let bytes = |key: &str, value| integer(key, value, 1..=MAX_IO_BYTES as i64).map(|bytes| bytes as u64);
    let io = |bytes, place, cached, within| Io { disk: DiskId(0), write, bytes, place, cached, within };
    if let Kind::Integer(_) = member.value.kind {
        return Ok(("", io(bytes(&member.key, &member.value)?, IoPlace::Random, false, 0)));
    }
    let mut object = Object::new(format!("{what}, {:?}", member.key), member.at, &member.value)?;
    let length = bytes("bytes", &object.required("bytes")?.value)?;
    let disk = object.string("disk")?.map_or("", |(_, name)| name);
    let place = match object.optional("at")? {
        None => IoPlace::Random,
        Some(at) => match &at.value.kind {
            Kind::Integer(byte @ 0..) => IoPlace::At(*byte as u64),
            Kind::String(word) if word == "random" => IoPlace::Random,
            Kind::String(word) if word == "sequential" => IoPlace::Sequential,
            _ => return Err(wrong("at", &at.value, "\"random\", \"sequential\" or the number of a byte")),
        },
    };
    let cached = match object.optional("cached")? {
        None => false,
        Some(cached) => match cached.value.kind {
            Kind::Bool(cached) => cached,
            _ => return Err(wrong("cached", &cached.value, "true or false")),
        },
    };
    let within = match object.optional("within")? {
        None => 0,
        Some(within) if place != IoPlace::Random => {
            let expected = "expected \"at\": \"random\", or no \"within\"";
            let problem = format!("{} has \"within\", which limits random positions only; {expected}", object.what);
            return Err(Fault { at: within.at, problem });
        }
        Some(within) => {
            let most = 1 << 50;
            let within = integer("within", &within.value, length as i64..=most)?;
            within as u64
        }
    };
    object.finish()?;
    Ok((disk, io(length, place, cached, within)))
}

/// Reads `iorun`: bytes written to the device of the file, each event where the last one ended.
pub(super) fn iorun<'a>(member: &Member, device: Option<&'a str>) -> Result<(&'a str, Io), Fault> {
    let bytes = integer(&member.key, &member.value, 1..=MAX_IO_BYTES as i64)? as u64;
    let name = device.and_then(|device| device.strip_prefix("/dev/")).filter(|name| *name != "null");
    let name = name.ok_or_else(|| Fault {
        at: member.at,
        problem:
            "iorun needs \"io_device\": \"/dev/NAME\" in \"global\", a disk of the machine; without it, rt-app writes \
                  to /dev/null"
                .to_owned(),
    })?;
    Ok((name, Io { disk: DiskId(0), write: true, bytes, place: IoPlace::Sequential, cached: false, within: 0 }))
}

/// Reads `fsync`: the name of a disk, empty for the first one.
pub(super) fn fsync(member: &Member) -> Result<&str, Fault> {
    string(&member.key, &member.value)
}

/// Reads the device of `iorun` in `global`.
pub(super) fn device<'a>(global: &mut Object<'a>) -> Result<Option<&'a str>, Fault> {
    global.optional("io_device")?.map(|member| string("io_device", &member.value)).transpose()
}
