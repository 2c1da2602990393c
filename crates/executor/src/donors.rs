// SPDX-License-Identifier: GPL-2.0-only
//! Stacks and thread-local storage for tasks that libc does not know.
//!
//! A task that shares the memory of this process without being one of its threads (`process.rs`) needs a stack, and
//! the thread-local storage of libc and Rust: errno, the allocator's cache, the panic count. Only `pthread_create(3)`
//! creates such storage. So there are *donors*: threads of this process that sleep while tasks use their storage and
//! the rest of their stacks.
//!
//! 1. Donors are created by a separate thread, the *donor manager*: a task that forks creates no other thread, and an
//!    observer of the tasks sees neither donors nor manager. With sufficient permission, they run above any scheduler
//!    under test.
//! 2. A donor blocks all signals, because a handler would use the storage and stack that it has donated.
//! 3. A donor is free again when the kernel has cleared its [`Donor::recipient`], which it does when a task has
//!    released its memory (`CLONE_CHILD_CLEARTID`). No wakeup announces that; a task that needs a donor polls.
//! 4. A task that was killed may have held the allocator's locks. From then on nothing is freed: [`Donors::abandon`].

use super::stack::Stack;
use super::tombstone::Tombstone;
use host::sys;
use ids::Policy;
use nix::sys::signal::SigSet;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Virtual memory for the stack of a task. Workloads have thousands of tasks, and none nests calls deeply.
const STACK_BYTES: usize = 256 << 10;
/// Stack that the donor itself needs while it sleeps.
const OWN_BYTES: usize = 16 << 10;
/// Number of free donors kept for tasks that are forked; below half of it the manager creates more.
const RESERVE: usize = 32;

/// A thread that donates its storage and stack.
#[derive(Debug)]
pub struct Donor {
    /// TID of the task that uses this donor, 0 if none; set and cleared by the kernel.
    pub recipient: AtomicU32,
    /// Thread pointer for the recipient.
    pub storage: usize,
    /// Top of the recipient's stack, which grows down.
    pub stack: usize,
    /// Tombstone of the recipient.
    pub tombstone: Tombstone,
    /// Label that [`Donors::killed`] returns for the recipient.
    pub label: AtomicU32,
}

/// Free donors, and requests to the manager.
#[derive(Debug, Default)]
struct FreeList {
    /// Free donors, oldest first. Their recipients have exited or are about to.
    free: VecDeque<Arc<Donor>>,
    /// Number of donors to create.
    wanted: usize,
    /// Error number of the last failed creation.
    refused: Option<i32>,
    closing: bool,
}

/// State shared by donors, manager and recipients.
#[derive(Debug, Default)]
pub struct DonorPool {
    free_list: Mutex<FreeList>,
    /// All donors. Only threads of this process and the coordinator take this lock, so no killed task can hold it.
    all: Mutex<Vec<Arc<Donor>>>,
    /// The manager waits here.
    work: Condvar,
    /// Tasks that wait for a donor wait here.
    donor_added: Condvar,
    /// 1: the donors may exit.
    over: AtomicU32,
}

impl DonorPool {
    fn free_list(&self) -> MutexGuard<'_, FreeList> {
        self.free_list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called by a task that exits: `donor` is free as soon as the task is gone.
    pub fn release(&self, donor: Arc<Donor>) {
        self.free_list().free.push_back(donor);
    }

    /// Requests more donors and wakes the manager.
    fn want(&self, free_list: &mut FreeList, count: usize) {
        if count > free_list.wanted {
            free_list.wanted = count;
            free_list.refused = None;
            self.work.notify_one();
        }
    }
}

/// All donors of an execution. Dropping this ends them.
#[derive(Debug)]
pub struct Donors {
    pool: Arc<DonorPool>,
    manager: Option<JoinHandle<()>>,
    abandoned: AtomicBool,
}

impl Donors {
    /// Creates `count` donors and a reserve.
    ///
    /// # Errors
    /// If the manager cannot be created. Failures to create donors are reported when one is acquired.
    pub fn make(count: usize) -> io::Result<Donors> {
        let pool = Arc::new(DonorPool::default());
        pool.free_list().wanted = count + RESERVE;
        let own = pool.clone();
        let manager = thread::Builder::new().name("weir-donor-mgr".into()).spawn(move || run_manager(&own))?;
        let enough = |free_list: &mut FreeList| free_list.free.len() < count + RESERVE && free_list.refused.is_none();
        drop(pool.donor_added.wait_while(pool.free_list(), enough).unwrap_or_else(PoisonError::into_inner));
        Ok(Donors { pool, manager: Some(manager), abandoned: AtomicBool::new(false) })
    }

    /// DonorPool to which recipients return their donors.
    pub fn pool(&self) -> &Arc<DonorPool> {
        &self.pool
    }

    /// Returns an unused donor, and whether the caller had to wait for it.
    ///
    /// # Errors
    /// The kernel's error in creating a thread.
    pub fn acquire(&self) -> io::Result<(Arc<Donor>, bool)> {
        let mut free_list = self.pool.free_list();
        let mut waited = false;
        loop {
            let idle = free_list.free.iter().position(|donor| donor.recipient.load(SeqCst) == 0);
            if let Some(donor) = idle.and_then(|index| free_list.free.remove(index)) {
                if free_list.free.len() < RESERVE / 2 {
                    let missing = RESERVE - free_list.free.len();
                    self.pool.want(&mut free_list, missing);
                }
                return Ok((donor, waited));
            }
            if let Some(number) = free_list.refused.filter(|_| waited) {
                return Err(io::Error::from_raw_os_error(number));
            }
            waited = true;
            self.pool.want(&mut free_list, RESERVE);
            free_list = self.pool.donor_added.wait(free_list).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Label of a recipient that was killed, if any.
    pub fn killed(&self) -> Option<u32> {
        let all = self.pool.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|donor| donor.tombstone.is_killed()).map(|donor| donor.label.load(SeqCst))
    }

    /// Waits until the kernel has ended all recipients except the caller. No new ones may start meanwhile.
    pub fn wait_for_recipients(&self) {
        let own = sys::thread_id();
        let all = self.pool.all.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.iter().for_each(|donor| donor.wait_for_recipient_but(own));
    }

    /// Leaves all memory as it is until this process exits.
    pub fn abandon(&self) {
        self.abandoned.store(true, SeqCst);
    }
}

impl Drop for Donors {
    fn drop(&mut self) {
        if self.abandoned.load(SeqCst) {
            return;
        }
        self.pool.free_list().closing = true;
        self.pool.work.notify_one();
        if let Some(Err(panic)) = self.manager.take().map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Donor {
    /// Waits until the donor is unused.
    pub fn wait_for_recipient(&self) {
        self.wait_for_recipient_but(0);
    }

    fn wait_for_recipient_but(&self, own: u32) {
        loop {
            match self.recipient.load(SeqCst) {
                number if number == 0 || number == own => return,
                number => sys::wait_shared(&self.recipient, number, sys::NEVER),
            }
        }
    }
}

/// Main loop of the manager.
fn run_manager(pool: &Arc<DonorPool>) {
    // Real-time priority, because a scheduler under test could otherwise delay the manager and thus tasks that fork.
    let _ = sys::set_policy(0, Policy::Fifo(1), 0);
    let mut made: Vec<Thread> = Vec::new();
    loop {
        let idle = |free_list: &mut FreeList| free_list.wanted == 0 && !free_list.closing;
        let mut free_list = pool.work.wait_while(pool.free_list(), idle).unwrap_or_else(PoisonError::into_inner);
        if free_list.closing {
            break;
        }
        free_list.wanted -= 1;
        drop(free_list);
        match Thread::begin(STACK_BYTES + OWN_BYTES, pool.clone()) {
            Ok(donor) => made.push(donor),
            Err(error) => {
                let mut free_list = pool.free_list();
                free_list.wanted = 0;
                free_list.refused = Some(error.raw_os_error().unwrap_or(libc::EAGAIN));
                pool.donor_added.notify_all();
            }
        }
    }
    pool.over.store(1, SeqCst);
    sys::wake(&pool.over, i32::MAX as u32);
    made.into_iter().for_each(Thread::join);
}

/// A thread on a stack of our own, which the standard library does not support.
struct Thread {
    number: libc::pthread_t,
    stack: Stack,
}

#[allow(unsafe_code)]
impl Thread {
    /// Starts a donor of this pool.
    fn begin(bytes: usize, pool: Arc<DonorPool>) -> io::Result<Thread> {
        let stack = Stack::map(bytes)?;
        let check = |result: i32| if result == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(result)) };
        let mut attributes = MaybeUninit::uninit();
        let mut number = MaybeUninit::uninit();
        // SAFETY: attributes are initialized before use. The stack is owned and stays until the thread has been
        // joined. `pool` belongs to the thread if it was created.
        unsafe {
            check(libc::pthread_attr_init(attributes.as_mut_ptr()))?;
            check(libc::pthread_attr_setstack(attributes.as_mut_ptr(), stack.bottom(), stack.bytes()))?;
            let pool = Arc::into_raw(pool);
            let begin = libc::pthread_create(number.as_mut_ptr(), attributes.as_ptr(), donor, pool.cast_mut().cast());
            check(begin).inspect_err(|_| drop(Arc::from_raw(pool)))?;
            Ok(Thread { number: number.assume_init(), stack })
        }
    }

    /// Waits for its exit.
    fn join(self) {
        // SAFETY: it is joined only once, since this consumes it. Afterwards the stack is unused.
        let result = unsafe { libc::pthread_join(self.number, std::ptr::null_mut()) };
        assert_eq!(result, 0, "the thread is joinable");
        drop(self.stack);
    }
}

#[allow(unsafe_code)]
extern "C" fn donor(pool: *mut c_void) -> *mut c_void {
    // SAFETY: `begin` passed ownership to this thread.
    let pool = unsafe { Arc::from_raw(pool.cast_const().cast::<DonorPool>()) };
    run_donor(&pool);
    std::ptr::null_mut()
}

/// Body of a donor thread. Its exit frees what recipients left in its storage.
fn run_donor(pool: &DonorPool) {
    sys::set_name("weir-donor");
    SigSet::all().thread_block().expect("a valid set of signals");
    let here = 0u8;
    let stack = (&raw const here as usize - OWN_BYTES) & !0xf;
    let donor = Arc::new(Donor {
        recipient: AtomicU32::new(0),
        storage: thread_pointer(),
        stack,
        tombstone: Tombstone::default(),
        label: AtomicU32::new(0),
    });
    pool.all.lock().unwrap_or_else(PoisonError::into_inner).push(donor.clone());
    pool.free_list().free.push_back(donor);
    pool.donor_added.notify_all();
    while pool.over.load(SeqCst) == 0 {
        sys::wait(&pool.over, 0, sys::NEVER);
    }
}

/// The thread pointer of the calling thread, as passed to `CLONE_SETTLS`.
#[allow(unsafe_code)]
fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: these instructions only read a register, or the word at the start of the thread-local storage that
    // holds its own address by the ABI.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly));
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, preserves_flags, nomem));
        #[cfg(target_arch = "riscv64")]
        std::arch::asm!("mv {}, tp", out(reg) pointer, options(nostack, preserves_flags, nomem));
    }
    pointer
}
