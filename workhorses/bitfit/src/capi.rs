// SPDX-License-Identifier: MIT OR Apache-2.0
//! C interface declared in `include/bitfit.h`.
//!
//! This is the second of two modules with `unsafe` code: the validity of the address and length passed from C cannot
//! be checked. All other arguments are checked, and no panic can cross into C.
#![allow(unsafe_code)]

use core::ffi::c_int;

use crate::{Bitmap, SetError, State};

/// Result of an unsuccessful search, `BITFIT_NONE`.
const NONE: usize = usize::MAX;

/// Results of [`bitfit_set`].
const OK: c_int = 0;
const OUT_OF_RANGE: c_int = 1;
const ILLEGAL: c_int = 2;
const INVALID: c_int = 3;

/// The state with this number, if there is one.
fn state(number: c_int) -> Option<State> {
    State::ALL.into_iter().find(|state| c_int::from(state.bits()) == number)
}

/// The map at an address, if the arguments are valid.
///
/// # Safety
/// If `map` is not null, `bytes` bytes must be readable there and unchanged during `'a`.
unsafe fn read<'a>(map: *const u8, bytes: usize) -> Option<Bitmap<&'a [u8]>> {
    if bytes == 0 {
        return Some(Bitmap::new(&[]));
    }
    // Block numbers must fit in `usize`, and no object exceeds half of the address space.
    if map.is_null() || bytes > isize::MAX as usize / 4 {
        return None;
    }
    // SAFETY: `map` is not null; the caller guarantees the bytes, whose number was checked; any byte is a valid `u8`.
    Some(Bitmap::new(unsafe { core::slice::from_raw_parts(map, bytes) }))
}

/// Performs a search; returns `BITFIT_NONE` for invalid arguments.
///
/// # Safety
/// As [`read`].
unsafe fn search(
    map: *const u8,
    bytes: usize,
    wanted: c_int,
    find: impl FnOnce(Bitmap<&[u8]>, State) -> Option<usize>,
) -> usize {
    // SAFETY: guaranteed by the caller.
    let map = unsafe { read(map, bytes) };
    map.zip(state(wanted)).and_then(|(map, wanted)| find(map, wanted)).unwrap_or(NONE)
}

/// `bitfit_get`: state of a block, or -1.
///
/// # Safety
/// Unless `map` is null, `bytes` bytes must be readable there and unchanged during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bitfit_get(map: *const u8, bytes: usize, block: usize) -> c_int {
    // SAFETY: guaranteed by the caller.
    let map = unsafe { read(map, bytes) };
    map.and_then(|map| map.get(block)).map_or(-1, |state| state.bits().into())
}

/// `bitfit_set`: changes a block if the change is allowed.
///
/// # Safety
/// Unless `map` is null, `bytes` bytes must be readable and writable there and not accessed by others during
/// the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bitfit_set(map: *mut u8, bytes: usize, block: usize, next: c_int) -> c_int {
    let Some(next) = state(next) else { return INVALID };
    // SAFETY: guaranteed by the caller.
    if unsafe { read(map, bytes) }.is_none() {
        return INVALID;
    }
    let map = match bytes {
        0 => &mut [],
        // SAFETY: `read` has validated pointer and length; the caller guarantees the bytes and exclusive access.
        _ => unsafe { core::slice::from_raw_parts_mut(map, bytes) },
    };
    match Bitmap::new(map).set(block, next) {
        Ok(_) => OK,
        Err(SetError::OutOfRange { .. }) => OUT_OF_RANGE,
        Err(SetError::Illegal { .. }) => ILLEGAL,
    }
}

/// `bitfit_find`: first block in a state at or after `from`, or `BITFIT_NONE`.
///
/// # Safety
/// As [`bitfit_get`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bitfit_find(map: *const u8, bytes: usize, state: c_int, from: usize) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe { search(map, bytes, state, |map, state| map.find(state, from)) }
}

/// `bitfit_find_other`: first block in another state at or after `from`, or `BITFIT_NONE`.
///
/// # Safety
/// As [`bitfit_get`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bitfit_find_other(map: *const u8, bytes: usize, state: c_int, from: usize) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe { search(map, bytes, state, |map, state| map.find_other(state, from)) }
}

/// `bitfit_find_run`: start of the first run of `length` blocks in a state at or after `from`, or `BITFIT_NONE`.
///
/// # Safety
/// As [`bitfit_get`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bitfit_find_run(
    map: *const u8,
    bytes: usize,
    state: c_int,
    from: usize,
    length: usize,
) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe { search(map, bytes, state, |map, state| map.find_run(state, from, length)) }
}

/// `bitfit_find_last`: last block in a state below `end`, or `BITFIT_NONE`.
///
/// # Safety
/// As [`bitfit_get`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bitfit_find_last(map: *const u8, bytes: usize, state: c_int, end: usize) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe { search(map, bytes, state, |map, state| map.find_last(state, end)) }
}

/// `bitfit_count`: number of blocks in each state.
///
/// # Safety
/// As [`bitfit_get`]; `counts` must be null or point to four numbers outside the map.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bitfit_count(map: *const u8, bytes: usize, counts: *mut [usize; 4]) -> c_int {
    // SAFETY: guaranteed by the caller.
    let map = unsafe { read(map, bytes) };
    let Some(map) = map.filter(|_| !counts.is_null()) else { return INVALID };
    let counted = map.count();
    // SAFETY: `counts` is not null, and the caller guarantees its length.
    unsafe { counts.write(State::ALL.map(|state| counted.of(state))) };
    OK
}
