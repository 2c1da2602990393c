// SPDX-License-Identifier: MIT OR Apache-2.0
//! No search reads outside its slice: the maps are adjacent to inaccessible guard pages.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)] // the pages come from the operating system

use bitfit::{Bitmap, Kernel, State};

/// Maps readable memory between two guard pages; never unmapped.
fn guarded(length: usize) -> &'static mut [u8] {
    const PAGE: usize = 4096;
    let inside = length.div_ceil(PAGE) * PAGE;
    // SAFETY: a new anonymous mapping at an address chosen by the kernel overlaps nothing.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            inside + 2 * PAGE,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    assert_ne!(start, libc::MAP_FAILED);
    // SAFETY: the range is inside the new mapping and has no other user.
    unsafe {
        let inner = start.cast::<u8>().add(PAGE);
        assert_eq!(libc::mprotect(inner.cast(), inside, libc::PROT_READ | libc::PROT_WRITE), 0);
        std::slice::from_raw_parts_mut(inner, inside)
    }
}

fn search_everything(bytes: &[u8]) {
    let map = Bitmap::new(bytes);
    let blocks = map.len();
    for kernel in Kernel::ALL {
        for goal in [0, 1, blocks / 2, blocks.saturating_sub(33), blocks.saturating_sub(1), blocks, blocks + 1] {
            assert_eq!(map.find_with(kernel, State::Free, goal), None);
            assert_eq!(map.find_with(kernel, State::Used, goal), (goal < blocks).then_some(goal));
        }
        assert_eq!(map.count_with(kernel).of(State::Used), blocks);
        bitfit::read(kernel, bytes);
    }
    assert_eq!(map.find_last(State::Free, blocks + 7), None);
    assert_eq!(map.find_other(State::Used, 0), None);
    assert_eq!(map.find_run(State::Used, 0, blocks), Some(0));
}

#[test]
fn searches_do_not_touch_guard_pages_of_short_maps() {
    let memory = guarded(8192);
    memory.fill(0x55);
    for length in (0..=700).chain(4000..=4097) {
        search_everything(&memory[..length]);
        search_everything(&memory[8192 - length..]);
    }
}

#[test]
fn searches_do_not_touch_guard_pages_of_long_maps() {
    let memory = guarded(1 << 20);
    memory.fill(0x55);
    for less in [0, 1, 63, 64, 4095, 16_385] {
        search_everything(&memory[less..]);
        search_everything(&memory[..memory.len() - less]);
    }
}
