// SPDX-License-Identifier: GPL-2.0-only
//! How a task that is killed is missed.
//!
//! Nobody waits for a task in the kernel's sense, so nobody would see it die, and the others might wait for it for ever. But
//! for each thread the kernel keeps the address of a list of locks (`set_robust_list(2)`), and when the thread ends while that
//! list is not empty, however it ends, each lock that holds its number gets the mark that its owner has died. So each task
//! owns one such lock for life: its *will*. A task that ends by itself takes it back before.
//!
//! The same list can name a lock of which a thread is just about to let go. If that is free already when the thread dies, the
//! kernel wakes one of those who wait for it. That lock here is the word at which the stage sleeps, which is 0 then.

use host::sys;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};

/// `FUTEX_OWNER_DIED` of `include/uapi/linux/futex.h`.
const OWNER_DIED: u32 = 0x4000_0000;

/// The list of one task: the kernel's `struct robust_list_head`, and the one entry that it has.
#[repr(C)]
#[derive(Default, Debug)]
pub struct Will {
    /// Address of the entry.
    first: AtomicUsize,
    /// From an entry to its word.
    offset: AtomicUsize,
    /// Address of the entry whose word is the stage's.
    pending: AtomicUsize,
    /// The entry: the address of the next one, which is the head again.
    entry: AtomicUsize,
    /// The entry's word: the task's number while it lives.
    life: AtomicU32,
}

impl Will {
    /// Lives the life of the calling thread. If it is killed meanwhile, who waits by [`sys::wait_shared`] at `bell` is woken,
    /// provided that this is 0.
    pub fn during<Result>(&self, bell: &AtomicU32, life: impl FnOnce() -> Result) -> Result {
        const OFFSET: usize = offset_of!(Will, life) - offset_of!(Will, entry);
        self.first.store(&raw const self.entry as usize, SeqCst);
        self.offset.store(OFFSET, SeqCst);
        self.pending.store((bell as *const AtomicU32 as usize).wrapping_sub(OFFSET), SeqCst);
        self.entry.store(self as *const Will as usize, SeqCst);
        self.life.store(sys::thread_id(), SeqCst);
        /// Takes it back, also if the life ends by a panic.
        struct Valid;
        impl Drop for Valid {
            fn drop(&mut self) {
                deposit(None);
            }
        }
        deposit(Some(self));
        let _valid = Valid;
        life()
    }

    /// Whether its task was killed.
    pub fn is_executed(&self) -> bool {
        self.life.load(SeqCst) & OWNER_DIED != 0
    }
}

/// Tells the kernel where the calling thread's list is.
#[allow(unsafe_code)]
fn deposit(will: Option<&Will>) {
    /// `sizeof(struct robust_list_head)`.
    const HEAD_BYTES: usize = offset_of!(Will, entry);
    let head = will.map_or(std::ptr::null(), |will| will as *const Will);
    // SAFETY: the kernel keeps the address and reads the list when the thread ends, which is before its caller, who borrows
    // will and bell, takes the list back, or never. It writes one word of the list, an atomic one. libc uses the list of a
    // thread only for robust mutexes, of which there are none.
    let result = unsafe { libc::syscall(libc::SYS_set_robust_list, head, HEAD_BYTES) };
    assert_eq!(result, 0, "the kernel takes the list of locks");
}
