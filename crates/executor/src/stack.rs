// SPDX-License-Identifier: GPL-2.0-only
//! Stacks that lie beside each other in one mapping.
//!
//! When a process ends, a kernel with process accounting looks at each mapping of its memory (`acct_collect()`). Here all
//! processes have one memory, and libc makes two mappings for each stack: with three thousand of them each end takes a third
//! of a millisecond. Neighbours that have the same flags are one mapping; the page below a stack that must not be touched is a
//! mark in the page table where the kernel has such marks (`MADV_GUARD_INSTALL`, Linux 6.13), and else a mapping.

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

/// `MADV_GUARD_INSTALL` of `include/uapi/asm-generic/mman-common.h`.
const GUARD_INSTALL: i32 = 102;

/// Memory for a stack, with a page below it that must not be touched.
#[derive(Debug)]
pub struct Stack {
    mapping: NonNull<c_void>,
    page: usize,
    bytes: usize,
}

#[allow(unsafe_code)]
// SAFETY: it is an address and a length; any thread may unmap it.
unsafe impl Send for Stack {}

#[allow(unsafe_code)]
impl Stack {
    /// Room for so many bytes at least.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn map(bytes: usize) -> io::Result<Stack> {
        let page = rustix::param::page_size();
        let bytes = bytes.next_multiple_of(page);
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: the kernel chooses a place where nothing is.
        let mapping = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), page + bytes, access, flags) }?;
        let stack = Stack { mapping: NonNull::new(mapping).expect("the first page is never mapped"), page, bytes };
        // SAFETY: it is our mapping, and empty. Its pages shall be small, and need not stay in memory, where all of this
        // process's do (`priority.rs`): a locked mapping takes no marks.
        unsafe {
            let _ = rustix::mm::madvise(mapping, page + bytes, Advice::LinuxNoHugepage);
            rustix::mm::munlock(mapping, page + bytes)?;
            if libc::madvise(mapping, page, GUARD_INSTALL) != 0 {
                rustix::mm::mprotect(mapping, page, MprotectFlags::empty())?;
            }
        }
        Ok(stack)
    }

    /// Its lowest address.
    pub fn bottom(&self) -> *mut c_void {
        self.mapping.as_ptr().wrapping_byte_add(self.page)
    }

    /// Its length.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[allow(unsafe_code)]
impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: it is our mapping, and whoever owns it sees to it that nobody uses it any more.
        unsafe { rustix::mm::munmap(self.mapping.as_ptr(), self.page + self.bytes) }.expect("our own mapping");
    }
}
