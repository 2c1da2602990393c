// SPDX-License-Identifier: GPL-2.0-only
//! Helpers that copy or compare bytes.

use crate::errno::{EFAULT, negative};
use crate::{FaultKind, GuestAddr, Memory};

/// Copies bytes from one object to another.
pub(super) fn copy(memory: &mut Memory, from: GuestAddr, to: GuestAddr, len: u32) -> Result<(), FaultKind> {
    // Source and destination are in the same memory, so it copies through a small buffer.
    let mut done = 0;
    let mut buffer = [0; 64];
    while done < len {
        let part = (len - done).min(buffer.len() as u32);
        let piece = &mut buffer[..part as usize];
        piece.copy_from_slice(memory.bytes(from + u64::from(done), part)?);
        memory.bytes_mut(to + u64::from(done), part)?.copy_from_slice(piece);
        done += part;
    }
    Ok(())
}

/// `bpf_strncmp(text, size, other)`: `other` is NUL-terminated, `text` need not be.
pub(super) fn strncmp(memory: &Memory, args: [u64; 5]) -> Result<u64, FaultKind> {
    let size = args[1] as u32;
    let text = memory.bytes(args[0], size)?;
    for (at, &byte) in text.iter().enumerate() {
        let other = memory.load(args[2].wrapping_add(at as u64), 1)? as u8;
        if byte != other {
            return Ok(if byte < other { u64::MAX } else { 1 });
        }
        if byte == 0 {
            break;
        }
    }
    Ok(0)
}

/// `bpf_probe_read_kernel(to, size, from)`: a bad `from` yields zeros and -EFAULT.
pub(super) fn probe_read(memory: &mut Memory, args: [u64; 5]) -> Result<u64, FaultKind> {
    let (to, size, from) = (args[0], args[1] as u32, args[2]);
    if size == 0 {
        return Ok(0);
    }
    memory.bytes_mut(to, size)?;
    if memory.bytes(from, size).is_err() {
        memory.bytes_mut(to, size)?.fill(0);
        return Ok(negative(EFAULT));
    }
    copy(memory, from, to, size)?;
    Ok(0)
}

/// `bpf_probe_read_kernel_str(to, size, from)`: copies up to and including the NUL, truncated to `size`; returns the
/// number of bytes copied.
pub(super) fn probe_read_string(memory: &mut Memory, args: [u64; 5]) -> Result<u64, FaultKind> {
    let (to, size, from) = (args[0], args[1] as u32, args[2]);
    if size == 0 {
        return Ok(0);
    }
    memory.bytes_mut(to, size)?;
    let text = memory.bytes_to_end(from, size);
    let (len, cut) = match text.map(|text| (text.len(), text.iter().position(|&byte| byte == 0))) {
        Some((_, Some(nul))) => (nul as u32 + 1, false),
        Some((len, None)) if len == size as usize => (size, true),
        _ => {
            memory.bytes_mut(to, size)?.fill(0);
            return Ok(negative(EFAULT));
        }
    };
    copy(memory, from, to, len)?;
    if cut {
        memory.store(to + u64::from(len) - 1, 1, 0)?;
    }
    Ok(u64::from(len))
}
