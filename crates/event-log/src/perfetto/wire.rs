// SPDX-License-Identifier: GPL-2.0-only
//! The wire format of Protocol Buffers, as far as a trace needs it: messages of optional and repeated varints, strings
//! and messages (<https://protobuf.dev/programming-guides/encoding>).

/// Wire types, the three low bits of a field's tag.
const VARINT: u64 = 0;
pub(crate) const LENGTH_DELIMITED: u64 = 2;

/// A value of a field.
pub(crate) trait Value: Default {
    /// Wire type of its encoding.
    const TYPE: u64;
    /// Appends the encoding without the tag.
    fn put(&self, out: &mut Vec<u8>);
    /// Decodes what [`Value::put`] encodes and removes it from `bytes`.
    #[cfg(test)]
    fn take(bytes: &mut &[u8]) -> Self;
}

/// A field: an optional or repeated value.
pub(crate) trait Field {
    /// Appends the field with its tag, if it has values.
    fn put(&self, number: u64, out: &mut Vec<u8>);
    /// Adds a value from its encoding.
    #[cfg(test)]
    fn take(&mut self, bytes: &mut &[u8]);
}

impl<T: Value> Field for Option<T> {
    fn put(&self, number: u64, out: &mut Vec<u8>) {
        self.iter().for_each(|value| put_tagged(value, number, out));
    }

    #[cfg(test)]
    fn take(&mut self, bytes: &mut &[u8]) {
        *self = Some(T::take(bytes));
    }
}

impl<T: Value> Field for Vec<T> {
    fn put(&self, number: u64, out: &mut Vec<u8>) {
        self.iter().for_each(|value| put_tagged(value, number, out));
    }

    #[cfg(test)]
    fn take(&mut self, bytes: &mut &[u8]) {
        self.push(T::take(bytes));
    }
}

fn put_tagged<T: Value>(value: &T, number: u64, out: &mut Vec<u8>) {
    put_varint(number << 3 | T::TYPE, out);
    value.put(out);
}

/// Groups of seven bits, the lowest first; the high bit of a byte says that another one follows.
fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
pub(crate) fn take_varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    panic!("a varint of more than ten bytes");
}

#[cfg(test)]
pub(crate) fn take_delimited<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let length = take_varint(bytes) as usize;
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    taken
}

/// Appends the encoding of `fill`, preceded by its length.
pub(crate) fn put_delimited(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    fill(out);
    let mut length = Vec::new();
    put_varint((out.len() - start) as u64, &mut length);
    out.splice(start..start, length);
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl Value for $integer {
            const TYPE: u64 = VARINT;

            // Negative numbers of any width are encoded as 64 bits.
            fn put(&self, out: &mut Vec<u8>) {
                put_varint(*self as u64, out);
            }

            #[cfg(test)]
            fn take(bytes: &mut &[u8]) -> $integer {
                take_varint(bytes) as $integer
            }
        }
    )*};
}

integers!(u32, u64, i32, i64);

impl Value for String {
    const TYPE: u64 = LENGTH_DELIMITED;

    fn put(&self, out: &mut Vec<u8>) {
        put_varint(self.len() as u64, out);
        out.extend(self.as_bytes());
    }

    #[cfg(test)]
    fn take(bytes: &mut &[u8]) -> String {
        String::from_utf8(take_delimited(bytes).to_vec()).unwrap()
    }
}

/// Defines messages with the numbers and types of their fields.
macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $number:literal $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug, Default)]
        pub(crate) struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $name {
            /// Appends the fields in order of their numbers.
            pub(crate) fn encode(&self, out: &mut Vec<u8>) {
                $(wire::Field::put(&self.$field, $number, out);)*
            }

            #[cfg(test)]
            pub(crate) fn decode(mut bytes: &[u8]) -> $name {
                let mut message = $name::default();
                while !bytes.is_empty() {
                    match wire::take_varint(&mut bytes) >> 3 {
                        $($number => wire::Field::take(&mut message.$field, &mut bytes),)*
                        other => panic!("field {other} of {}", stringify!($name)),
                    }
                }
                message
            }
        }

        impl wire::Value for $name {
            const TYPE: u64 = wire::LENGTH_DELIMITED;

            fn put(&self, out: &mut Vec<u8>) {
                wire::put_delimited(out, |out| self.encode(out));
            }

            #[cfg(test)]
            fn take(bytes: &mut &[u8]) -> $name {
                $name::decode(wire::take_delimited(bytes))
            }
        }
    )*};
}

pub(crate) use messages;

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out);
        out
    }

    /// The examples of the format's documentation.
    #[test]
    fn values_are_encoded_as_documented() {
        assert_eq!(bytes(|out| Field::put(&Some(150u64), 1, out)), [0x08, 0x96, 0x01]);
        assert_eq!(bytes(|out| Field::put(&Some("testing".to_owned()), 2, out)), b"\x12\x07testing");
        assert_eq!(
            bytes(|out| Field::put(&Some(-2i32), 1, out))[1..],
            [0xfe, 255, 255, 255, 255, 255, 255, 255, 255, 1]
        );
        assert_eq!(bytes(|out| Field::put(&vec![1u32, 2], 16, out)), [0x80, 0x01, 1, 0x80, 0x01, 2]);
        assert_eq!(bytes(|out| Field::put(&None::<u64>, 1, out)), [0; 0]);
        assert_eq!(bytes(|out| put_delimited(out, |out| out.extend([7; 200])))[..3], [0xc8, 0x01, 7]);
    }
}
