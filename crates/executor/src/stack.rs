// SPDX-License-Identifier: GPL-2.0-only
//! Stacks that the kernel can merge into one mapping.
//!
//! When a process exits, a kernel with process accounting walks all mappings of its memory (`acct_collect()`). Here
//! all processes share one memory, and libc makes two mappings per stack: with three thousand stacks each exit would
//! take a third of a millisecond. Neighboring mappings with the same flags are merged. The guard page below a stack
//! is a page-table marker where the kernel supports it (`MADV_GUARD_INSTALL`, Linux 6.13), otherwise a mapping.

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

/// `MADV_GUARD_INSTALL` of `include/uapi/asm-generic/mman-common.h`.
const GUARD_INSTALL: i32 = 102;

/// Memory for a stack, with a guard page below it.
#[derive(Debug)]
pub struct Stack {
    mapping: NonNull<c_void>,
    page: usize,
    bytes: usize,
}

#[allow(unsafe_code)]
// SAFETY: a stack is an address and a length; any thread may unmap it.
unsafe impl Send for Stack {}

#[allow(unsafe_code)]
impl Stack {
    /// Maps a stack of at least `bytes` bytes.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn map(bytes: usize) -> io::Result<Stack> {
        let page = rustix::param::page_size();
        let bytes = bytes.next_multiple_of(page);
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: the kernel chooses an unused address.
        let mapping = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), page + bytes, access, flags) }?;
        let stack = Stack { mapping: NonNull::new(mapping).expect("the first page is never mapped"), page, bytes };
        // SAFETY: the mapping is owned and empty. Huge pages are disabled, and the mapping is unlocked although this
        // process locks its memory (`priority.rs`): a locked mapping cannot have guard markers.
        unsafe {
            let _ = rustix::mm::madvise(mapping, page + bytes, Advice::LinuxNoHugepage);
            rustix::mm::munlock(mapping, page + bytes)?;
            if libc::madvise(mapping, page, GUARD_INSTALL) != 0 {
                rustix::mm::mprotect(mapping, page, MprotectFlags::empty())?;
            }
        }
        Ok(stack)
    }

    /// Lowest usable address.
    pub fn bottom(&self) -> *mut c_void {
        self.mapping.as_ptr().wrapping_byte_add(self.page)
    }

    /// Length in bytes, without the guard page.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[allow(unsafe_code)]
impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned; the owner of the stack ensures that it is no longer used.
        unsafe { rustix::mm::munmap(self.mapping.as_ptr(), self.page + self.bytes) }.expect("our own mapping");
    }
}
