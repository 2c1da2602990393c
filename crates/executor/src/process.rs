// SPDX-License-Identifier: GPL-2.0-only
//! Processes in the memory of this one, and threads of theirs.
//!
//! 1. `clone(2)` with `CLONE_VM` and without `CLONE_THREAD` gives a process: a number of its own, signal handlers, a session, a
//!    leader. Its memory, files and working directory are ours, so it plays with the same [`workload::Executor`]. The kernel
//!    creates it as a child of the task that forks it, on that one's CPU, as it does everywhere.
//! 2. What a thread has for itself it borrows (`lenders.rs`). Its last act in user mode is to give that back.
//! 3. [`beside`] begins the first process, the stage; that one's [`scope`] is where all others begin and end.
//! 4. All others are children of the stage, whoever forks them (`CLONE_PARENT`), for two reasons. It ignores SIGCHLD, so the
//!    kernel buries each at once, and wakes nobody. And when it dies, they die: each has asked for SIGKILL then
//!    (`PR_SET_PDEATHSIG`). The stage has asked for the same when the thread dies that began it. So nothing survives a kill of
//!    the program, of its group or of the stage, without a guard: also those in sessions of their own.

use super::lenders::{Lender, Lenders, Pool};
use host::sys;
use rustix::process::Signal;
use std::ffi::{c_int, c_void};
use std::io;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// What a new task is to the one that creates it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kinship {
    /// A thread of the same process.
    Thread,
    /// Another process.
    Process,
}

/// Where the tasks of a play begin; it ends after all of them, as [`std::thread::Scope`] does.
pub struct Scope<'scope, 'env: 'scope> {
    lenders: &'env Lenders,
    /// The process that opened it.
    stage: u32,
    /// Tasks that were created and did not end.
    alive: AtomicU32,
    /// Becomes 1 when the last one ends.
    bell: &'env AtomicU32,
    /// Tasks that had to wait for storage.
    waited: AtomicU32,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Opens a scope, and closes it when all tasks have ended. The last one rings `bell`: it becomes 1, and who waits there by
/// [`sys::wait_shared`] is woken.
///
/// # Panics
/// As `body` does; afterwards.
pub fn scope<'env, Result>(
    lenders: &'env Lenders,
    bell: &'env AtomicU32,
    body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result,
) -> Result {
    let scope = Scope {
        lenders,
        stage: sys::process_id(),
        alive: AtomicU32::new(0),
        bell,
        waited: AtomicU32::new(0),
        scope: PhantomData,
        env: PhantomData,
    };
    let result = catch_unwind(AssertUnwindSafe(|| body(&scope)));
    loop {
        bell.store(0, SeqCst);
        if scope.alive() == 0 {
            break;
        }
        sys::wait_shared(bell, 0, sys::NEVER);
    }
    // They have said that they end; now they do.
    lenders.wait_for_borrowers();
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl<'scope> Scope<'scope, '_> {
    /// Creates a task that does this and ends. Its number in the kernel. If it is killed, [`Lenders::killed`] gives its label.
    ///
    /// # Errors
    /// Why there is none.
    #[allow(unsafe_code)]
    pub fn spawn(&'scope self, kinship: Kinship, label: u32, body: impl FnOnce() + Send + 'scope) -> io::Result<u32> {
        let (lender, waited) = self.lenders.borrow()?;
        self.waited.fetch_add(u32::from(waited), SeqCst);
        let birth = match kinship {
            Kinship::Thread => Birth { flags: THREAD, parent: sys::parent_id() },
            Kinship::Process if sys::process_id() == self.stage => Birth { flags: CHILD, parent: self.stage },
            Kinship::Process => Birth { flags: SIBLING, parent: self.stage },
        };
        self.alive.fetch_add(1, SeqCst);
        let own = lender.clone();
        let life = Box::new(move || {
            own.label.store(label, SeqCst);
            own.will.during(self.bell, body);
            if self.alive.fetch_sub(1, SeqCst) == 1 {
                self.bell.store(1, SeqCst);
                sys::wake_shared(self.bell);
            }
        });
        // SAFETY: the scope is not closed before the task has ended, and what the task borrows outlives the scope. If the
        // stage dies before that, its stack stays as it is (`Lenders::abandon`).
        let created = unsafe { clone(lender, self.lenders.pool(), birth, life) };
        if created.is_err() {
            self.alive.fetch_sub(1, SeqCst);
        }
        created
    }

    /// How many tasks there are.
    pub fn alive(&self) -> u32 {
        self.alive.load(SeqCst)
    }

    /// How many times somebody slept for storage.
    pub fn waited(&self) -> u32 {
        self.waited.load(SeqCst)
    }
}

/// A process that goes on beside the thread that began it.
#[derive(Debug)]
pub struct Process {
    lender: Arc<Lender>,
    number: i32,
}

impl Process {
    /// The kernel's number of it.
    pub fn number(&self) -> u32 {
        self.number as u32
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.lender.borrower.load(SeqCst) == 0
    }

    /// Waits for its end. Its children, if it had any left, have been killed then.
    pub fn wait(&self) {
        self.lender.wait_for_borrower();
        // Only the first call finds something to be buried.
        let number = nix::unistd::Pid::from_raw(self.number);
        while nix::sys::wait::waitpid(number, Some(nix::sys::wait::WaitPidFlag::__WALL)) == Err(nix::Error::EINTR) {}
    }
}

/// Begins a process that does `body`, as the next child of the calling thread, and calls `meanwhile` here. Both have ended
/// when it returns.
///
/// # Errors
/// Why there is no process; nothing was called then.
#[allow(unsafe_code)]
pub fn beside<Result>(
    lenders: &Lenders,
    body: impl FnOnce() + Send,
    meanwhile: impl FnOnce(&Process) -> Result,
) -> io::Result<Result> {
    struct Waits(Process);
    impl Drop for Waits {
        fn drop(&mut self) {
            self.0.wait();
        }
    }
    let (lender, _) = lenders.borrow()?;
    let birth = Birth { flags: STRANGER, parent: sys::process_id() };
    let life = Box::new(move || {
        bury_children();
        body();
    });
    // SAFETY: the process has ended when this function returns or unwinds, since `Waits` is dropped then.
    let number = unsafe { clone(lender.clone(), lenders.pool(), birth, life) }?;
    let process = Waits(Process { lender, number: number as i32 });
    Ok(meanwhile(&process.0))
}

/// Ends the calling thread at once, with nothing dropped or unwound. If it is the stage, its children die.
#[allow(unsafe_code)]
pub fn leave() -> ! {
    loop {
        // SAFETY: the call does not return; what borrows from this stack is dealt with by who calls.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
}

/// From now on the kernel buries the children of the calling process, and tells nobody.
#[allow(unsafe_code)]
fn bury_children() {
    use nix::sys::signal::{SigHandler, Signal, signal};
    // SAFETY: no handler is installed, and the process shares those of no other one.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigIgn) }.expect("SIGCHLD can be ignored");
}

const SHARED: c_int = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SYSVSEM
    | libc::CLONE_SETTLS
    | libc::CLONE_PARENT_SETTID
    | libc::CLONE_CHILD_CLEARTID;
const THREAD: c_int = SHARED | libc::CLONE_THREAD | libc::CLONE_SIGHAND;
/// Of the stage's process, when it creates one itself and when another one does.
const CHILD: c_int = SHARED | libc::SIGCHLD;
const SIBLING: c_int = SHARED | libc::CLONE_PARENT;
/// One that only ends when somebody waits for it by its number.
const STRANGER: c_int = SHARED;

/// How a task is born.
#[derive(Clone, Copy)]
struct Birth {
    flags: c_int,
    /// The process whose child it is.
    parent: u32,
}

/// What a new task is given.
struct Start<'a> {
    life: Box<dyn FnOnce() + Send + 'a>,
    lender: Arc<Lender>,
    pool: Arc<Pool>,
    parent: u32,
}

/// Creates a task that lives `life`. Its number.
///
/// # Safety
/// What `life` borrows must be there until the kernel has cleared the lender's `borrower`.
#[allow(unsafe_code)]
unsafe fn clone<'a>(
    lender: Arc<Lender>,
    pool: &Arc<Pool>,
    birth: Birth,
    life: Box<dyn FnOnce() + Send + 'a>,
) -> io::Result<u32> {
    let borrower = lender.borrower.as_ptr();
    let (stack, storage) = (lender.stack as *mut c_void, lender.storage as *mut c_void);
    let start = Box::into_raw(Box::new(Start { life, lender, pool: pool.clone(), parent: birth.parent }));
    // SAFETY: stack and storage are those of a lender whose thread sleeps and that nobody else uses: it was borrowed, and the
    // kernel had cleared `borrower`. That word stays in place, since lenders end after their borrowers. `start` is the
    // new task's alone. Its lifetime is the caller's care.
    let number = unsafe { libc::clone(enter, stack, birth.flags, start.cast(), borrower, storage, borrower) };
    if number < 0 {
        let error = io::Error::last_os_error();
        // SAFETY: no task was created, so it is still ours.
        let start = unsafe { Box::from_raw(start) };
        start.pool.give_back(start.lender);
        return Err(error);
    }
    Ok(number as u32)
}

/// Where a new task begins. When it returns, libc ends the thread by the bare system call, and nothing else.
#[allow(unsafe_code)]
extern "C" fn enter(start: *mut c_void) -> c_int {
    // SAFETY: `clone` made it of a box, and gave it to this task alone.
    let Start { life, lender, pool, parent } = *unsafe { Box::from_raw(start.cast::<Start<'_>>()) };
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).expect("a signal that exists");
    // Else it died before that call: then nobody is left who could be played for.
    if sys::parent_id() == parent {
        life();
        pool.give_back(lender);
    }
    0
}
