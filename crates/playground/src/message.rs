// SPDX-License-Identifier: GPL-2.0-only
//! Messages: the length of a JSON text in 4 bytes, little-endian; the JSON text; bytes that the text describes.

use crate::Refusal;

/// Composes a message.
pub fn compose(json: &str, bytes: &[u8]) -> Vec<u8> {
    let mut message = (json.len() as u32).to_le_bytes().to_vec();
    message.extend_from_slice(json.as_bytes());
    message.extend_from_slice(bytes);
    message
}

/// Splits a message into its JSON text and the bytes after it.
///
/// # Errors
/// If the message is shorter than its length says, or the text is not UTF-8.
pub fn split(message: &[u8]) -> Result<(&str, &[u8]), Refusal> {
    let (length, rest) = message
        .split_first_chunk::<4>()
        .ok_or_else(|| Refusal::new(format_args!("a message of {} bytes; expected at least 4", message.len())))?;
    let length = u32::from_le_bytes(*length) as usize;
    let (text, bytes) = rest
        .split_at_checked(length)
        .ok_or_else(|| Refusal::new(format_args!("a message of {} bytes whose text has {length}", message.len())))?;
    let text =
        std::str::from_utf8(text).map_err(|error| Refusal::new(format_args!("the text of a message: {error}")))?;
    Ok((text, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn composed_message_is_split_into_its_parts() {
        let message = compose("{\"a\": \"ä\"}", &[1, 2, 3]);
        assert_eq!(split(&message).unwrap(), ("{\"a\": \"ä\"}", &[1u8, 2, 3][..]));
    }

    #[test]
    fn truncated_message_is_refused() {
        let message = compose("{}", &[]);
        for length in 0..message.len() {
            assert!(split(&message[..length]).is_err(), "{length} bytes");
        }
        assert!(split(&compose("{}", &[])).is_ok());
        assert!(split(&[2, 0, 0, 0, 0xff, 0xff]).is_err());
    }
}
