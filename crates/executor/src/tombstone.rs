// SPDX-License-Identifier: GPL-2.0-only
//! Detects a SIGKILLed task through its robust-futex list.
//!
//! No process waits for a task in the kernel's sense, so its death would go unnoticed, and other tasks could wait for
//! it forever. But the kernel keeps the address of a list of locks for each thread (`set_robust_list(2)`). However
//! the thread dies, the kernel sets FUTEX_OWNER_DIED in each listed lock that holds its TID. So each task owns one
//! such lock for its lifetime: its *tombstone*. A task that exits normally removes it before.
//!
//! The list also has a pending entry, for a lock that the thread is about to release. If that lock is already free
//! when the thread dies, the kernel wakes one of its waiters. Here the pending entry is the futex on which the
//! coordinator sleeps, which is 0 then.

use host::sys;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};

/// `FUTEX_OWNER_DIED` of `include/uapi/linux/futex.h`.
const OWNER_DIED: u32 = 0x4000_0000;

/// Robust-futex list of one task: the kernel's `struct robust_list_head`, and its only entry.
#[repr(C)]
#[derive(Default, Debug)]
pub struct Tombstone {
    /// Address of the entry.
    first: AtomicUsize,
    /// Offset from an entry to its futex word.
    offset: AtomicUsize,
    /// Address of the pending entry, whose word is the coordinator's futex.
    pending: AtomicUsize,
    /// The entry: address of the next entry, which is the head again.
    entry: AtomicUsize,
    /// Futex word of the entry: the task's TID while it is alive.
    owner: AtomicU32,
}

impl Tombstone {
    /// Runs `body` on the calling thread. If the thread is killed meanwhile, a waiter in [`sys::wait_shared`] at
    /// `futex` is woken, provided that `futex` is 0.
    pub fn during<Result>(&self, futex: &AtomicU32, body: impl FnOnce() -> Result) -> Result {
        const OFFSET: usize = offset_of!(Tombstone, owner) - offset_of!(Tombstone, entry);
        self.first.store(&raw const self.entry as usize, SeqCst);
        self.offset.store(OFFSET, SeqCst);
        self.pending.store((futex as *const AtomicU32 as usize).wrapping_sub(OFFSET), SeqCst);
        self.entry.store(self as *const Tombstone as usize, SeqCst);
        self.owner.store(sys::thread_id(), SeqCst);
        /// Removes the list, also if `body` panics.
        struct Valid;
        impl Drop for Valid {
            fn drop(&mut self) {
                set_robust_list(None);
            }
        }
        set_robust_list(Some(self));
        let _valid = Valid;
        body()
    }

    /// Whether its task was killed.
    pub fn is_killed(&self) -> bool {
        self.owner.load(SeqCst) & OWNER_DIED != 0
    }
}

/// Sets the kernel's pointer to the calling thread's list.
#[allow(unsafe_code)]
fn set_robust_list(tombstone: Option<&Tombstone>) {
    /// `sizeof(struct robust_list_head)`.
    const HEAD_BYTES: usize = offset_of!(Tombstone, entry);
    let head = tombstone.map_or(std::ptr::null(), |tombstone| tombstone as *const Tombstone);
    // SAFETY: the kernel keeps the address and reads the list when the thread dies. The caller borrows list and futex
    // until it removes the list or the thread dies. The kernel writes only one word of the list, an atomic one. libc
    // uses the list of a thread only for robust mutexes, of which there are none.
    let result = unsafe { libc::syscall(libc::SYS_set_robust_list, head, HEAD_BYTES) };
    assert_eq!(result, 0, "set_robust_list(2) accepts a list of this size");
}
