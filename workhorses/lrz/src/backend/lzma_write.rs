// SPDX-License-Identifier: MIT OR Apache-2.0
//! The encoder of liblzma, with its memory in large pages.
//!
//! It looks at random into trees of up to 12 times the dictionary, so that with pages of 4 KiB most looks miss the address
//! translation as well as the cache. Large pages take 5 to 15 % of its time away, of sources, logs and machine code.

// liblzma is C, and what its crate offers safely has no place for an allocator.
#![allow(unsafe_code)]

use super::{Failure, room_for};
use liblzma_sys as sys;
use memmap2::{Advice, MmapMut, MmapOptions};
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// Where memory begins to be worth a large page, in bytes.
const LARGE: usize = 2 << 20;

/// How to encode.
pub struct Settings {
    /// Where most of the others come from, 0 to 9.
    pub preset: u32,
    /// In bytes.
    pub dictionary: u32,
    /// Whether each place is decided for itself, by chains of hashes, or several together, by binary trees.
    pub fast: bool,
    /// A match of so many bytes ends the search for a longer one.
    pub nice: u32,
    /// How many places are looked at in search of a match.
    pub depth: u32,
}

/// What one encoder has. The system gives it and gets it back: a refusal is no abort, and there are few pieces.
type Memory = Vec<MmapMut>;

/// `malloc` for liblzma.
///
/// # Safety
/// `memory` is a [`Memory`] that nobody else uses.
unsafe extern "C" fn allocate(memory: *mut c_void, count: usize, size: usize) -> *mut c_void {
    // SAFETY: as above.
    let memory = unsafe { &mut *memory.cast::<Memory>() };
    let Some(length) = count.checked_mul(size) else { return null_mut() };
    let Ok(mut map) = MmapOptions::new().len(length.max(1)).map_anon() else { return null_mut() };
    if memory.try_reserve(1).is_err() {
        return null_mut();
    }
    if length >= LARGE {
        // Where the system has no large pages it works as well.
        let _ = map.advise(Advice::HugePage);
    }
    let start = map.as_mut_ptr().cast();
    memory.push(map);
    start
}

/// `free` for liblzma.
///
/// # Safety
/// As of [`allocate`].
unsafe extern "C" fn release(memory: *mut c_void, start: *mut c_void) {
    // SAFETY: as above.
    let memory = unsafe { &mut *memory.cast::<Memory>() };
    memory.retain(|map| map.as_ptr() != start.cast());
}

/// Packs a block, without a header.
///
/// # Errors
/// [`Failure::NotSmaller`] where it would not become smaller, [`Failure::Memory`] where memory is short.
pub fn pack(plain: &[u8], settings: &Settings) -> Result<Vec<u8>, Failure> {
    let mut packed = room_for(plain)?;
    let mut memory = Memory::new();
    let allocator =
        sys::lzma_allocator { alloc: Some(allocate), free: Some(release), opaque: (&raw mut memory).cast() };
    // SAFETY: the structure has numbers and pointers only, for which zero is a value; the preset fills it.
    let mut options: sys::lzma_options_lzma = unsafe { std::mem::zeroed() };
    // SAFETY: it fills the structure that it is given.
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
    // SAFETY: filters end with the one that says so, input and output have the given lengths, and the allocator's memory
    // outlives the call, after which nothing of it is used.
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
            // SAFETY: the encoder wrote so many bytes, and they fit.
            unsafe { packed.set_len(length) };
            Ok(packed)
        }
        sys::LZMA_MEM_ERROR => Err(Failure::Memory),
        _ => Err(Failure::NotSmaller),
    }
}
