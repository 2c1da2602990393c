// SPDX-License-Identifier: GPL-2.0-only
//! The kfuncs of `struct bpf_iter_num`, used by `bpf_for`: 8 bytes with the current and the end value. They access
//! only guest memory, so every host with a kfunc table can use them.

use crate::Context;
use crate::FaultKind;
use crate::errno::{E2BIG, EINVAL, negative};
use crate::execution::MAX_LOOPS;

/// The kfuncs `bpf_iter_num_new`, `bpf_iter_num_next` and `bpf_iter_num_destroy`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IterNum {
    /// [`new`]
    New,
    /// [`next`]
    Next,
    /// [`destroy`]
    Destroy,
}

/// `bpf_iter_num_new(it, start, end)`: returns -EINVAL if the range is backwards, -E2BIG if it has more than 8 Mi
/// numbers; the iterator is then empty.
///
/// # Errors
/// If `args[0]` does not point to 8 writable bytes.
pub fn new(cx: &mut Context<'_>, args: [u64; 5]) -> Result<u64, FaultKind> {
    let (start, end) = (args[1] as i32, args[2] as i32);
    let (range, result) = if start > end {
        ((0, 0), negative(EINVAL))
    } else if i64::from(end) - i64::from(start) > i64::from(MAX_LOOPS) {
        ((0, 0), negative(E2BIG))
    } else {
        // The current value is one less than the first; it may wrap, as in the kernel.
        ((start.wrapping_sub(1), end), 0)
    };
    set(cx, args[0], range)?;
    Ok(result)
}

/// `bpf_iter_num_next(it)`: returns the address of the next number, or NULL after the last one.
///
/// # Errors
/// If `args[0]` does not point to 8 writable bytes.
pub fn next(cx: &mut Context<'_>, args: [u64; 5]) -> Result<u64, FaultKind> {
    let state = cx.memory.load(args[0], 8)?;
    let (current, end) = (state as i32, (state >> 32) as i32);
    let next = current.wrapping_add(1);
    if next >= end {
        set(cx, args[0], (0, 0))?;
        return Ok(0);
    }
    set(cx, args[0], (next, end))?;
    Ok(args[0])
}

/// `bpf_iter_num_destroy(it)`.
///
/// # Errors
/// If `args[0]` does not point to 8 writable bytes.
pub fn destroy(cx: &mut Context<'_>, args: [u64; 5]) -> Result<u64, FaultKind> {
    set(cx, args[0], (0, 0))?;
    Ok(0)
}

fn set(cx: &mut Context<'_>, iterator: u64, (current, end): (i32, i32)) -> Result<(), FaultKind> {
    cx.memory.store(iterator, 8, u64::from(current as u32) | u64::from(end as u32) << 32)
}
