// SPDX-License-Identifier: GPL-2.0-only
//! Storage for tasks that libc knows nothing of.
//!
//! A task that shares the memory of this process without being one of its threads (`process.rs`) needs a stack, and the
//! storage where libc and Rust keep what each thread has for itself: the error number, the allocator's cache, how often it
//! panics. Only `pthread_create(3)` makes such storage. So there are *lenders*: threads of this process which sleep as long
//! as others use theirs, together with the rest of their stacks.
//!
//! 1. Lenders are made by a thread of their own, the *keeper*: who forks a task makes no other thread, and who watches the
//!    tasks sees neither lenders nor keeper. All of them are above whatever scheduler is tried, if this user may do that.
//! 2. A lender blocks all signals: a handler would use the storage and the stack that it has lent.
//! 3. A lender is free again when the kernel has cleared its [`Lender::borrower`], as it does when a task has left its memory
//!    for good (`CLONE_CHILD_CLEARTID`). Nobody is woken for that: who needs a lender looks.
//! 4. A task that was killed may have held the allocator's locks. After that nothing is freed: [`Lenders::abandon`].

use super::stack::Stack;
use super::will::Will;
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

/// Virtual memory for the stack of a task; workloads have thousands of tasks, and none nests calls deeply.
const STACK_BYTES: usize = 256 << 10;
/// What a lender needs of its stack below the place where it sleeps.
const OWN_BYTES: usize = 16 << 10;
/// As many are kept for tasks that are forked; half of it, and the keeper makes new ones.
const RESERVE: usize = 32;

/// A thread that lends its storage.
#[derive(Debug)]
pub struct Lender {
    /// The kernel's number of the task that has borrowed, 0 if nobody has. The kernel sets and clears it.
    pub borrower: AtomicU32,
    /// What the thread pointer of a borrower is.
    pub storage: usize,
    /// Where its stack begins, which grows down from here.
    pub stack: usize,
    /// That of the borrower, if it has one.
    pub will: Will,
    /// What [`Lenders::killed`] calls the borrower.
    pub label: AtomicU32,
}

/// Those that can be borrowed, and what the keeper has to do.
#[derive(Debug, Default)]
struct Shelf {
    /// Those that came back first stand first. Their borrowers have ended or are about to.
    free: VecDeque<Arc<Lender>>,
    /// How many are to be made.
    wanted: usize,
    /// Why the last one that was wanted could not be made (an error number).
    refused: Option<i32>,
    closing: bool,
}

/// What lenders, keeper and borrowers share.
#[derive(Debug, Default)]
pub struct Pool {
    shelf: Mutex<Shelf>,
    /// All that there are. Only threads of this process and the stage take this lock, so that no killed task holds it.
    all: Mutex<Vec<Arc<Lender>>>,
    /// The keeper sleeps here.
    work: Condvar,
    /// Who waits for a lender sleeps here.
    came: Condvar,
    /// 1: the lenders may end.
    over: AtomicU32,
}

impl Pool {
    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calling task ends now: `lender` is free as soon as it has.
    pub fn give_back(&self, lender: Arc<Lender>) {
        self.shelf().free.push_back(lender);
    }

    /// Asks for so many more. The caller then wakes the keeper.
    fn want(&self, shelf: &mut Shelf, count: usize) {
        if count > shelf.wanted {
            shelf.wanted = count;
            shelf.refused = None;
            self.work.notify_one();
        }
    }
}

/// All lenders of a play. When dropped, they end.
#[derive(Debug)]
pub struct Lenders {
    pool: Arc<Pool>,
    keeper: Option<JoinHandle<()>>,
    abandoned: AtomicBool,
}

impl Lenders {
    /// Makes so many, and a reserve.
    ///
    /// # Errors
    /// If not even the keeper can be created. Lenders that cannot are missed by those who want to borrow.
    pub fn make(count: usize) -> io::Result<Lenders> {
        let pool = Arc::new(Pool::default());
        pool.shelf().wanted = count + RESERVE;
        let own = pool.clone();
        let keeper = thread::Builder::new().name("weir-keeper".into()).spawn(move || keep(&own))?;
        let enough = |shelf: &mut Shelf| shelf.free.len() < count + RESERVE && shelf.refused.is_none();
        drop(pool.came.wait_while(pool.shelf(), enough).unwrap_or_else(PoisonError::into_inner));
        Ok(Lenders { pool, keeper: Some(keeper), abandoned: AtomicBool::new(false) })
    }

    /// What borrowers need to give back what they have.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// A lender that nobody uses, and whether it had to be waited for.
    ///
    /// # Errors
    /// Why the kernel made no thread.
    pub fn borrow(&self) -> io::Result<(Arc<Lender>, bool)> {
        let mut shelf = self.pool.shelf();
        let mut waited = false;
        loop {
            let idle = shelf.free.iter().position(|lender| lender.borrower.load(SeqCst) == 0);
            if let Some(lender) = idle.and_then(|index| shelf.free.remove(index)) {
                if shelf.free.len() < RESERVE / 2 {
                    let missing = RESERVE - shelf.free.len();
                    self.pool.want(&mut shelf, missing);
                }
                return Ok((lender, waited));
            }
            if let Some(number) = shelf.refused.filter(|_| waited) {
                return Err(io::Error::from_raw_os_error(number));
            }
            waited = true;
            self.pool.want(&mut shelf, RESERVE);
            shelf = self.pool.came.wait(shelf).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The label of a borrower that was killed, if one was.
    pub fn killed(&self) -> Option<u32> {
        let all = self.pool.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|lender| lender.will.is_executed()).map(|lender| lender.label.load(SeqCst))
    }

    /// Waits until the kernel has ended all borrowers but the caller, if that is one. No further ones may begin meanwhile.
    pub fn wait_for_borrowers(&self) {
        let own = sys::thread_id();
        let all = self.pool.all.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.iter().for_each(|lender| lender.wait_for_borrower_but(own));
    }

    /// Leaves everything as it is until this process ends.
    pub fn abandon(&self) {
        self.abandoned.store(true, SeqCst);
    }
}

impl Drop for Lenders {
    fn drop(&mut self) {
        if self.abandoned.load(SeqCst) {
            return;
        }
        self.pool.shelf().closing = true;
        self.pool.work.notify_one();
        if let Some(Err(panic)) = self.keeper.take().map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Lender {
    /// Waits until nobody uses it.
    pub fn wait_for_borrower(&self) {
        self.wait_for_borrower_but(0);
    }

    fn wait_for_borrower_but(&self, own: u32) {
        loop {
            match self.borrower.load(SeqCst) {
                number if number == 0 || number == own => return,
                number => sys::wait_shared(&self.borrower, number, sys::NEVER),
            }
        }
    }
}

/// The keeper's whole life.
fn keep(pool: &Arc<Pool>) {
    // Else a scheduler that is tried may let those wait who fork.
    let _ = sys::set_policy(0, Policy::Fifo(1), 0);
    let mut made: Vec<Thread> = Vec::new();
    loop {
        let idle = |shelf: &mut Shelf| shelf.wanted == 0 && !shelf.closing;
        let mut shelf = pool.work.wait_while(pool.shelf(), idle).unwrap_or_else(PoisonError::into_inner);
        if shelf.closing {
            break;
        }
        shelf.wanted -= 1;
        drop(shelf);
        match Thread::begin(STACK_BYTES + OWN_BYTES, pool.clone()) {
            Ok(lender) => made.push(lender),
            Err(error) => {
                let mut shelf = pool.shelf();
                shelf.wanted = 0;
                shelf.refused = Some(error.raw_os_error().unwrap_or(libc::EAGAIN));
                pool.came.notify_all();
            }
        }
    }
    pool.over.store(1, SeqCst);
    sys::wake(&pool.over, i32::MAX as u32);
    made.into_iter().for_each(Thread::join);
}

/// A thread on a stack of ours, for which the standard library has no words.
struct Thread {
    number: libc::pthread_t,
    stack: Stack,
}

#[allow(unsafe_code)]
impl Thread {
    /// Begins a lender of this pool.
    fn begin(bytes: usize, pool: Arc<Pool>) -> io::Result<Thread> {
        let stack = Stack::map(bytes)?;
        let check = |result: i32| if result == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(result)) };
        let mut attributes = MaybeUninit::uninit();
        let mut number = MaybeUninit::uninit();
        // SAFETY: attributes are initialised before they are used. The stack is ours, and stays until the thread was joined.
        // `pool` is the thread's, if there is one.
        unsafe {
            check(libc::pthread_attr_init(attributes.as_mut_ptr()))?;
            check(libc::pthread_attr_setstack(attributes.as_mut_ptr(), stack.bottom(), stack.bytes()))?;
            let pool = Arc::into_raw(pool);
            let begin = libc::pthread_create(number.as_mut_ptr(), attributes.as_ptr(), lender, pool.cast_mut().cast());
            check(begin).inspect_err(|_| drop(Arc::from_raw(pool)))?;
            Ok(Thread { number: number.assume_init(), stack })
        }
    }

    /// Waits for its end.
    fn join(self) {
        // SAFETY: it was not joined before, since this takes it. Then nobody uses the stack.
        let result = unsafe { libc::pthread_join(self.number, std::ptr::null_mut()) };
        assert_eq!(result, 0, "the thread is there");
        drop(self.stack);
    }
}

#[allow(unsafe_code)]
extern "C" fn lender(pool: *mut c_void) -> *mut c_void {
    // SAFETY: `begin` gave it to this thread.
    let pool = unsafe { Arc::from_raw(pool.cast_const().cast::<Pool>()) };
    lend(&pool);
    std::ptr::null_mut()
}

/// A lender's whole life. What borrowers leave in its storage is put away by its end.
fn lend(pool: &Pool) {
    sys::set_name("weir-lender");
    SigSet::all().thread_block().expect("a valid set of signals");
    let here = 0u8;
    let stack = (&raw const here as usize - OWN_BYTES) & !0xf;
    let lender = Arc::new(Lender {
        borrower: AtomicU32::new(0),
        storage: thread_pointer(),
        stack,
        will: Will::default(),
        label: AtomicU32::new(0),
    });
    pool.all.lock().unwrap_or_else(PoisonError::into_inner).push(lender.clone());
    pool.shelf().free.push_back(lender);
    pool.came.notify_all();
    while pool.over.load(SeqCst) == 0 {
        sys::wait(&pool.over, 0, sys::NEVER);
    }
}

/// Where the processor finds the calling thread's storage: what `CLONE_SETTLS` takes.
#[allow(unsafe_code)]
fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: each of these reads a register, or the word that the ABI puts at the beginning of the storage, which holds
    // its own address; and changes nothing.
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
