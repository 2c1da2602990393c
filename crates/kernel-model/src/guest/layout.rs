// SPDX-License-Identifier: GPL-2.0-only
//! Description of kernel types: members in order, with offsets by the C rules for x86-64.
//!
//! The tables in `structs` and `enums` define the layout of guest objects. The BTF that objects are relocated
//! against, and the offsets at which this crate stores, are both computed from them.

/// Type of a member.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ty {
    /// `bool`.
    Bool,
    /// `char`.
    Char,
    /// `unsigned short`.
    U16,
    /// `int`.
    I32,
    /// `unsigned int`.
    U32,
    /// `long long`.
    I64,
    /// `unsigned long long`.
    U64,
    /// `unsigned long`.
    ULong,
    /// A 4-byte enumeration, by name.
    Enum(&'static str),
    /// Pointer to a structure, by name; the structure is in the tables or only declared.
    Ptr(&'static str),
    /// Pointer to `void`.
    VoidPtr,
    /// Pointer to `char`.
    CharPtr,
    /// Function pointer of an op, with the number of its arguments.
    Op(u32),
    /// An embedded structure.
    Struct(&'static Struct),
    /// Array of elements of one type, with its length.
    Array(&'static Ty, u32),
}

/// A member of a structure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub name: &'static str,
    pub ty: Ty,
}

/// A structure of the kernel, with the members that programs read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Struct {
    pub name: &'static str,
    pub fields: &'static [Field],
}

/// An enumeration of the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Enum {
    pub name: &'static str,
    /// Enumerators with their values; negative values are sign-extended.
    pub values: &'static [(&'static str, u64)],
}

/// A member (a short form for the tables).
pub(crate) const fn field(name: &'static str, ty: Ty) -> Field {
    Field { name, ty }
}

impl Ty {
    /// Size in bytes.
    pub(crate) const fn size(&self) -> u32 {
        match self {
            Ty::Bool | Ty::Char => 1,
            Ty::U16 => 2,
            Ty::I32 | Ty::U32 | Ty::Enum(_) => 4,
            Ty::I64 | Ty::U64 | Ty::ULong | Ty::Ptr(_) | Ty::VoidPtr | Ty::CharPtr | Ty::Op(_) => 8,
            Ty::Struct(inner) => inner.size(),
            Ty::Array(element, count) => element.size() * *count,
        }
    }

    const fn align(&self) -> u32 {
        match self {
            Ty::Struct(inner) => inner.align(),
            Ty::Array(element, _) => element.align(),
            scalar => scalar.size(),
        }
    }
}

impl Struct {
    /// Size in bytes, rounded up to the alignment.
    pub(crate) const fn size(&self) -> u32 {
        align_up(self.end_of(self.fields.len()), self.align())
    }

    const fn align(&self) -> u32 {
        let mut align = 1;
        let mut index = 0;
        while index < self.fields.len() {
            let own = self.fields[index].ty.align();
            if own > align {
                align = own;
            }
            index += 1;
        }
        align
    }

    /// Offset of the end of the first `count` members.
    const fn end_of(&self, count: usize) -> u32 {
        let mut end = 0;
        let mut index = 0;
        while index < count {
            let ty = &self.fields[index].ty;
            end = align_up(end, ty.align()) + ty.size();
            index += 1;
        }
        end
    }

    /// Offset of a member by its position.
    pub(crate) const fn offset_at(&self, index: usize) -> u32 {
        align_up(self.end_of(index), self.fields[index].ty.align())
    }

    /// Offset of a member by its path, such as `scx.slice`. A wrong path does not compile where the offset is a
    /// constant.
    pub(crate) const fn offset(&self, path: &str) -> u32 {
        let path = path.as_bytes();
        let mut structure = self;
        let mut base = 0;
        let mut start = 0;
        loop {
            let end = segment_end(path, start);
            let index = structure.index(path, start, end);
            base += structure.offset_at(index);
            if end == path.len() {
                return base;
            }
            structure = match structure.fields[index].ty {
                Ty::Struct(inner) => inner,
                _ => panic!("only a structure has members"),
            };
            start = end + 1;
        }
    }

    /// Offset and type of a member by its path.
    pub(crate) fn member(&self, path: &str) -> (u32, Ty) {
        let (name, rest) = match path.split_once('.') {
            Some((name, rest)) => (name, Some(rest)),
            None => (path, None),
        };
        let index = self.fields.iter().position(|field| field.name == name);
        let index = index.unwrap_or_else(|| panic!("{} has no member {name}", self.name));
        match (self.fields[index].ty, rest) {
            (ty, None) => (self.offset_at(index), ty),
            (Ty::Struct(inner), Some(rest)) => {
                let (offset, ty) = inner.member(rest);
                (self.offset_at(index) + offset, ty)
            }
            (_, Some(_)) => panic!("{name} of {} is not a structure", self.name),
        }
    }

    const fn index(&self, path: &[u8], start: usize, end: usize) -> usize {
        let mut index = 0;
        while index < self.fields.len() {
            if is_segment(path, start, end, self.fields[index].name.as_bytes()) {
                return index;
            }
            index += 1;
        }
        panic!("no such member");
    }
}

const fn align_up(value: u32, align: u32) -> u32 {
    value.div_ceil(align) * align
}

const fn segment_end(path: &[u8], start: usize) -> usize {
    let mut end = start;
    while end < path.len() && path[end] != b'.' {
        end += 1;
    }
    end
}

const fn is_segment(path: &[u8], start: usize, end: usize, name: &[u8]) -> bool {
    if end - start != name.len() {
        return false;
    }
    let mut index = 0;
    while index < name.len() {
        if path[start + index] != name[index] {
            return false;
        }
        index += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const INNER: Struct = Struct { name: "inner", fields: &[field("a", Ty::Bool), field("b", Ty::U64)] };
    const OUTER: Struct = Struct {
        name: "outer",
        fields: &[
            field("small", Ty::U16),
            field("inner", Ty::Struct(&INNER)),
            field("names", Ty::Array(&Ty::Char, 3)),
            field("last", Ty::I32),
        ],
    };

    #[test]
    fn member_offsets_follow_c_alignment() {
        assert_eq!(INNER.size(), 16);
        assert_eq!(OUTER.offset("inner"), 8);
        assert_eq!(OUTER.offset("inner.b"), 16);
        assert_eq!(OUTER.offset("names"), 24);
        assert_eq!(OUTER.offset("last"), 28);
        assert_eq!(OUTER.size(), 32);
        let (offset, ty) = OUTER.member("inner.b");
        assert_eq!((offset, ty.size()), (16, 8));
    }
}
