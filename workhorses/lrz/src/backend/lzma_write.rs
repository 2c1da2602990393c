// SPDX-License-Identifier: MIT OR Apache-2.0
//! liblzma's encoder, with its memory in huge pages.
//!
//! The match finder accesses trees of up to 12 times the dictionary size at random, so with 4 KiB pages most accesses
//! miss the TLB as well as the cache. Huge pages cut 5 to 15 % of the encoding time for sources, logs and machine
//! code.

// liblzma is C, and the safe API of its crate has no way to pass an allocator.
#![allow(unsafe_code)]

use super::{Failure, room_for};
use liblzma_sys as sys;
use memmap2::{Advice, MmapMut, MmapOptions};
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// Smallest allocation that gets huge pages, in bytes.
const LARGE: usize = 2 << 20;

/// Encoder settings.
pub struct Settings {
    /// liblzma preset 0 to 9, which gives the options not listed here.
    pub preset: u32,
    /// Dictionary size in bytes.
    pub dictionary: u32,
    /// True: fast mode with hash chains. False: normal mode with binary trees.
    pub fast: bool,
    /// Nice length: a match of at least this many bytes ends the search for a longer one.
    pub nice: u32,
    /// Search depth: maximum number of candidate positions per match search.
    pub depth: u32,
}

/// Allocations of one encoder, mapped by `mmap`: a failed mapping returns null to liblzma rather than aborting, and
/// there are few of them.
type Memory = Vec<MmapMut>;

/// `malloc` for liblzma.
///
/// # Safety
/// `memory` must point to a [`Memory`] that has no other user during the call.
unsafe extern "C" fn allocate(memory: *mut c_void, count: usize, size: usize) -> *mut c_void {
    // SAFETY: guaranteed by the caller, see above.
    let memory = unsafe { &mut *memory.cast::<Memory>() };
    let Some(length) = count.checked_mul(size) else { return null_mut() };
    let Ok(mut map) = MmapOptions::new().len(length.max(1)).map_anon() else { return null_mut() };
    if memory.try_reserve(1).is_err() {
        return null_mut();
    }
    if length >= LARGE {
        // Best effort: without huge pages the encoder works as well.
        let _ = map.advise(Advice::HugePage);
    }
    let start = map.as_mut_ptr().cast();
    memory.push(map);
    start
}

/// `free` for liblzma.
///
/// # Safety
/// As for [`allocate`].
unsafe extern "C" fn release(memory: *mut c_void, start: *mut c_void) {
    // SAFETY: guaranteed by the caller, see above.
    let memory = unsafe { &mut *memory.cast::<Memory>() };
    memory.retain(|map| map.as_ptr() != start.cast());
}

/// Compresses a block, without a header.
///
/// # Errors
/// [`Failure::NotSmaller`] if the result would not be smaller, [`Failure::Memory`] if memory is short.
pub fn pack(plain: &[u8], settings: &Settings) -> Result<Vec<u8>, Failure> {
    let mut packed = room_for(plain)?;
    let mut memory = Memory::new();
    let allocator =
        sys::lzma_allocator { alloc: Some(allocate), free: Some(release), opaque: (&raw mut memory).cast() };
    // SAFETY: the structure consists of integers and pointers, for which all-zero is valid; the preset fills it.
    let mut options: sys::lzma_options_lzma = unsafe { std::mem::zeroed() };
    // SAFETY: the call only writes the structure it is given.
    if unsafe { sys::lzma_lzma_preset(&raw mut options, settings.preset) } != 0 {
        return Err(Failure::NotSmaller);
    }
    (options.lc, options.lp, options.pb) = (3, 0, 2);
    (options.dict_size, options.nice_len, options.depth) = (settings.dictionary, settings.nice, settings.depth);
    (options.mode, options.mf) = match settings.fast {
        true => (sys::LZMA_MODE_FAST, sys::LZMA_MF_HC4),
        false => (sys::LZMA_MODE_NORMAL, sys::LZMA_MF_BT4),
    };
    let filters = [
        sys::lzma_filter { id: sys::LZMA_FILTER_LZMA1, options: (&raw mut options).cast() },
        sys::lzma_filter { id: sys::LZMA_VLI_UNKNOWN, options: null_mut() },
    ];
    let (mut length, room) = (0, packed.capacity());
    // SAFETY: the filter list has its terminator, input and output have the given lengths, and the allocator's memory
    // outlives the call and is not used afterwards.
    let status = unsafe {
        let (input, output) = (if plain.is_empty() { null() } else { plain.as_ptr() }, packed.as_mut_ptr());
        sys::lzma_raw_buffer_encode(
            filters.as_ptr(),
            &raw const allocator,
            input,
            plain.len(),
            output,
            &raw mut length,
            room,
        )
    };
    match status {
        sys::LZMA_OK => {
            // SAFETY: the encoder wrote `length` bytes, at most the capacity.
            unsafe { packed.set_len(length) };
            Ok(packed)
        }
        sys::LZMA_MEM_ERROR => Err(Failure::Memory),
        _ => Err(Failure::NotSmaller),
    }
}
