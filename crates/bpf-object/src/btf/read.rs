// SPDX-License-Identifier: GPL-2.0-only
//! BTF parser. The format is described in Documentation/bpf/btf.rst of the Linux source and include/uapi/linux/btf.h.

use super::{Btf, Enumerator, IntEncoding, Linkage, Member, Parameter, SectionVariable, Type};
use crate::ObjectError;
use crate::bytes::{Reader, Strings};

pub(crate) const MAGIC: u16 = 0xeb9f;
const SECTION: &str = ".BTF";

/// Fields of the `.BTF` header after magic number, version and flags. Offsets are relative to the end of the header.
struct Header {
    header_len: usize,
    type_off: usize,
    type_len: usize,
    string_off: usize,
    string_len: usize,
}

/// Parses the types and also returns the string table, to which `.BTF.ext` refers.
pub(crate) fn parse_with_strings(bytes: &[u8]) -> Result<(Btf, Strings<'_>), ObjectError> {
    let whole = Reader::new(SECTION, bytes);
    let header = read_header(&mut whole.clone())?;
    let at = |part: usize| header.header_len.checked_add(part).ok_or_else(|| whole.error("header offsets overflow"));
    let strings = whole.window(at(header.string_off)?, header.string_len)?;
    if strings.all().first().is_some_and(|byte| *byte != 0) {
        return Err(strings.error("the string table must start with an empty string"));
    }
    // Bounds the copied names to 16 bytes per byte of the file: a record takes at least 8 bytes, and a name rarely
    // exceeds 30.
    let strings = Strings::new(strings.all(), bytes.len().saturating_mul(16) + 65_536);
    let mut reader = whole.window(at(header.type_off)?, header.type_len)?;
    let mut types = vec![Type::Void];
    let mut starts = vec![0];
    while !reader.is_empty() {
        starts.push(reader.offset());
        types.push(read_type(&mut reader, &strings)?);
    }
    for (ty, start) in types.iter().zip(starts) {
        if let Some(bad) = ty.references().into_iter().find(|id| *id as usize >= types.len()) {
            let problem = format!("{:?} {:?} refers to type {bad} of {}", ty.kind(), ty.name(), types.len());
            return Err(crate::bytes::malformed(SECTION, start, problem));
        }
    }
    Ok((Btf::from_types(types), strings))
}

fn read_header(reader: &mut Reader<'_>) -> Result<Header, ObjectError> {
    let magic = reader.u16()?;
    if magic != MAGIC {
        return Err(reader.error(format!("magic number {MAGIC:#06x} (little-endian) expected, {magic:#06x} found")));
    }
    let version = reader.take(2)?[0];
    if version != 1 {
        return Err(reader.error(format!("BTF version 1 expected, {version} found")));
    }
    let header_len = reader.u32()? as usize;
    if header_len < 24 {
        return Err(reader.error(format!("a header of at least 24 bytes expected, {header_len} found")));
    }
    let mut next = || reader.u32().map(|value| value as usize);
    Ok(Header { header_len, type_off: next()?, type_len: next()?, string_off: next()?, string_len: next()? })
}

/// The three 32-bit words at the start of every type record.
struct Common {
    name: String,
    kind: u32,
    count: u32,
    flag: bool,
    size_or_type: u32,
}

fn read_type(reader: &mut Reader<'_>, strings: &Strings<'_>) -> Result<Type, ObjectError> {
    let start = reader.clone();
    let name = strings.get(reader.u32()?)?;
    let info = reader.u32()?;
    let size_or_type = reader.u32()?;
    let common = Common { name, kind: info >> 24 & 0x1f, count: info & 0xffff, flag: info >> 31 == 1, size_or_type };
    read_contents(common, reader, strings, &start)
}

fn read_contents(
    common: Common,
    reader: &mut Reader<'_>,
    strings: &Strings<'_>,
    start: &Reader<'_>,
) -> Result<Type, ObjectError> {
    let Common { name, kind, count, flag, size_or_type } = common;
    let (size, target) = (size_or_type, size_or_type);
    Ok(match kind {
        1 => read_int(name, size, reader.u32()?),
        2 => Type::Ptr { target },
        3 => Type::Array { element: reader.u32()?, index: reader.u32()?, count: reader.u32()? },
        4 => Type::Struct { name, size, members: read_members(count, flag, reader, strings)? },
        5 => Type::Union { name, size, members: read_members(count, flag, reader, strings)? },
        6 | 19 => {
            let values =
                (0..count).map(|_| read_enumerator(kind == 19, flag, reader, strings)).collect::<Result<_, _>>()?;
            Type::Enum { name, size, signed: flag, wide: kind == 19, values }
        }
        7 => Type::Fwd { name, union: flag },
        8 => Type::Typedef { name, target },
        9 => Type::Volatile { target },
        10 => Type::Const { target },
        11 => Type::Restrict { target },
        12 => Type::Func { name, proto: target, linkage: read_linkage(count, start)? },
        13 => {
            let parameter = |_| Ok(Parameter { name: strings.get(reader.u32()?)?, type_id: reader.u32()? });
            Type::FuncProto {
                result: target,
                parameters: (0..count).map(parameter).collect::<Result<_, ObjectError>>()?,
            }
        }
        14 => Type::Var { name, type_id: target, linkage: read_linkage(reader.u32()?, start)? },
        15 => {
            let variable =
                |_| Ok(SectionVariable { type_id: reader.u32()?, offset: reader.u32()?, size: reader.u32()? });
            Type::Datasec { name, size, variables: (0..count).map(variable).collect::<Result<_, ObjectError>>()? }
        }
        16 => Type::Float { name, size },
        17 => Type::DeclTag { name, target, component: reader.u32()? as i32, attribute: flag },
        18 => Type::TypeTag { name, target, attribute: flag },
        _ => return Err(start.error(format!("type {name:?} is of the unknown kind {kind}; 1 to 19 expected"))),
    })
}

fn read_int(name: String, size: u32, word: u32) -> Type {
    let bit = |bit: u32| word >> bit & 1 == 1;
    Type::Int {
        name,
        size,
        encoding: IntEncoding { signed: bit(24), char: bit(25), bool: bit(26) },
        bit_offset: (word >> 16) as u8,
        bits: word as u8,
    }
}

fn read_members(
    count: u32,
    flag: bool,
    reader: &mut Reader<'_>,
    strings: &Strings<'_>,
) -> Result<Vec<Member>, ObjectError> {
    let member = |_| {
        let name = strings.get(reader.u32()?)?;
        let type_id = reader.u32()?;
        let word = reader.u32()?;
        // If the flag is set, the word holds the width of a bit-field in its upper 8 bits.
        let (bit_offset, bit_size) = if flag { (word & 0xff_ffff, word >> 24) } else { (word, 0) };
        Ok(Member { name, type_id, bit_offset, bit_size })
    };
    (0..count).map(member).collect()
}

fn read_enumerator(
    wide: bool,
    signed: bool,
    reader: &mut Reader<'_>,
    strings: &Strings<'_>,
) -> Result<Enumerator, ObjectError> {
    let name = strings.get(reader.u32()?)?;
    let low = reader.u32()?;
    let value = match (wide, signed) {
        (true, _) => u64::from(low) | u64::from(reader.u32()?) << 32,
        (false, true) => low as i32 as u64,
        (false, false) => u64::from(low),
    };
    Ok(Enumerator { name, value })
}

fn read_linkage(number: u32, start: &Reader<'_>) -> Result<Linkage, ObjectError> {
    match number {
        0 => Ok(Linkage::Static),
        1 => Ok(Linkage::Global),
        2 => Ok(Linkage::Extern),
        _ => Err(start.error(format!("linkage 0, 1 or 2 expected, {number} found"))),
    }
}
