// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions that `include/bitfit.h` declares.
//!
//! The second of the two modules with `unsafe` code: a caller in C gives an address and a length, which nobody can check.
//! Everything else about its arguments is checked, and no panic can reach it.
#![allow(unsafe_code)]

use core::ffi::c_int;

use crate::{Bitmap, SetError, State};

/// The answer of a search that finds nothing, `BITFIT_NONE`.
const NONE: usize = usize::MAX;

/// The answers of [`bitfit_set`].
const OK: c_int = 0;
const OUT_OF_RANGE: c_int = 1;
const ILLEGAL: c_int = 2;
const INVALID: c_int = 3;

/// The state with that number.
fn state(number: c_int) -> Option<State> {
    State::ALL.into_iter().find(|state| c_int::from(state.bits()) == number)
}

/// The map at an address, if there can be one.
///
/// # Safety
/// If `map` is not null, `bytes` bytes must be readable there, and nobody may change them during `'a`.
unsafe fn read<'a>(map: *const u8, bytes: usize) -> Option<Bitmap<&'a [u8]>> {
    if bytes == 0 {
        return Some(Bitmap::new(&[]));
    }
    // A block's number must fit, and no object is larger than half of the address space.
    if map.is_null() || bytes > isize::MAX as usize / 4 {
        return None;
    }
    // SAFETY: not null; the caller vouches for the bytes, whose number was checked; every byte is a valid `u8`.
    Some(Bitmap::new(unsafe { core::slice::from_raw_parts(map, bytes) }))
}

/// A search, or nothing for arguments that make none.
///
/// # Safety
/// As [`read`].
unsafe fn search(
    map: *const u8,
    bytes: usize,
    wanted: c_int,
    find: impl FnOnce(Bitmap<&[u8]>, State) -> Option<usize>,
) -> usize {
    // SAFETY: the caller's promise is passed on.
    let map = unsafe { read(map, bytes) };
    map.zip(state(wanted)).and_then(|(map, wanted)| find(map, wanted)).unwrap_or(NONE)
}

/// `bitfit_get`: the state of a block, or -1.
///
/// # Safety
/// `bytes` bytes must be readable at `map`, unless it is null, and nobody may change them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bitfit_get(map: *const u8, bytes: usize, block: usize) -> c_int {
    // SAFETY: the caller's promise is passed on.
    let map = unsafe { read(map, bytes) };
    map.and_then(|map| map.get(block)).map_or(-1, |state| state.bits().into())
}

/// `bitfit_set`: changes a block, if the change is allowed.
///
/// # Safety
/// `bytes` bytes must be readable and writable at `map`, unless it is null, and nobody else may touch them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bitfit_set(map: *mut u8, bytes: usize, block: usize, next: c_int) -> c_int {
    let Some(next) = state(next) else { return INVALID };
    // SAFETY: the caller's promise is passed on.
    if unsafe { read(map, bytes) }.is_none() {
        return INVALID;
    }
    let map = match bytes {
        0 => &mut [],
        // SAFETY: `read` has found that there can be a map; the caller vouches for its bytes and for being alone.
        _ => unsafe { core::slice::from_raw_parts_mut(map, bytes) },
    };
    match Bitmap::new(map).set(block, next) {
        Ok(_) => OK,
        Err(SetError::OutOfRange { .. }) => OUT_OF_RANGE,
        Err(SetError::Illegal { .. }) => ILLEGAL,
    }
}

/// `bitfit_find`: the first block in a state at or after `from`, or `BITFIT_NONE`.
///
/// # Safety
/// As [`bitfit_get`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bitfit_find(map: *const u8, bytes: usize, state: c_int, from: usize) -> usize {
    // SAFETY: the caller's promise is passed on.
    unsafe { search(map, bytes, state, |map, state| map.find(state, from)) }
}

/// `bitfit_find_other`: the first block in another state at or after `from`, or `BITFIT_NONE`.
///
/// # Safety
/// As [`bitfit_get`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bitfit_find_other(map: *const u8, bytes: usize, state: c_int, from: usize) -> usize {
    // SAFETY: the caller's promise is passed on.
    unsafe { search(map, bytes, state, |map, state| map.find_other(state, from)) }
}

/// `bitfit_find_run`: the first block at or after `from` that starts `length` blocks in a state, or `BITFIT_NONE`.
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
    // SAFETY: the caller's promise is passed on.
    unsafe { search(map, bytes, state, |map, state| map.find_run(state, from, length)) }
}

/// `bitfit_find_last`: the last block in a state below `end`, or `BITFIT_NONE`.
///
/// # Safety
/// As [`bitfit_get`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bitfit_find_last(map: *const u8, bytes: usize, state: c_int, end: usize) -> usize {
    // SAFETY: the caller's promise is passed on.
    unsafe { search(map, bytes, state, |map, state| map.find_last(state, end)) }
}

/// `bitfit_count`: how many blocks are in each state.
///
/// # Safety
/// As [`bitfit_get`]; and `counts` must be null or have room for four numbers outside the map.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bitfit_count(map: *const u8, bytes: usize, counts: *mut [usize; 4]) -> c_int {
    // SAFETY: the caller's promise is passed on.
    let map = unsafe { read(map, bytes) };
    let Some(map) = map.filter(|_| !counts.is_null()) else { return INVALID };
    let counted = map.count();
    // SAFETY: not null, and the caller vouches for the room.
    unsafe { counts.write(State::ALL.map(|state| counted.of(state))) };
    OK
}
