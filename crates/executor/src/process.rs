// SPDX-License-Identifier: GPL-2.0-only
//! Processes that share the memory of this one, and their threads.
//!
//! 1. `clone(2)` with `CLONE_VM` and without `CLONE_THREAD` creates a process with its own PID, signal handlers,
//!    session and thread group. Memory, files and working directory are shared, so it uses the same
//!    [`workload::Executor`]. The kernel creates it from the forking task, on its CPU, as for every fork.
//! 2. Thread-local storage and stack come from a donor (`donors.rs`); the last user-mode action of a task is to
//!    return it.
//! 3. [`beside`] starts the first process, the coordinator; all others start and end inside its [`scope`].
//! 4. All others are children of the coordinator, whichever task forks them (`CLONE_PARENT`), for two reasons. The
//!    coordinator ignores SIGCHLD, so the kernel reaps each at once and wakes no task. And when it dies, they die,
//!    since each requested SIGKILL for that case (`PR_SET_PDEATHSIG`). The coordinator requested the same for the
//!    death of the thread that started it. So no process survives a kill of the program, of its process group or of
//!    the coordinator, not even those in their own sessions.

use super::donors::{Donor, DonorPool, Donors};
use host::sys;
use rustix::process::Signal;
use std::ffi::{c_int, c_void};
use std::io;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Relation of a new task to its creator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskKind {
    /// A thread of the same process.
    Thread,
    /// Another process.
    Process,
}

/// Scope of the tasks of an execution, which ends after all of them like [`std::thread::Scope`].
pub struct Scope<'scope, 'env: 'scope> {
    donors: &'env Donors,
    /// PID of the process that opened the scope.
    coordinator: u32,
    /// Number of tasks that were created and have not ended.
    alive: AtomicU32,
    /// Set to 1 when the last task ends.
    futex: &'env AtomicU32,
    /// Number of times a task waited for storage.
    waited: AtomicU32,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Opens a scope and closes it when all tasks have ended. The last one sets `futex` to 1 and wakes the waiter in
/// [`sys::wait_shared`].
///
/// # Panics
/// If `body` panics; after all tasks have ended.
pub fn scope<'env, Result>(
    donors: &'env Donors,
    futex: &'env AtomicU32,
    body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result,
) -> Result {
    let scope = Scope {
        donors,
        coordinator: sys::process_id(),
        alive: AtomicU32::new(0),
        futex,
        waited: AtomicU32::new(0),
        scope: PhantomData,
        env: PhantomData,
    };
    let result = catch_unwind(AssertUnwindSafe(|| body(&scope)));
    loop {
        futex.store(0, SeqCst);
        if scope.alive() == 0 {
            break;
        }
        sys::wait_shared(futex, 0, sys::NEVER);
    }
    // The tasks have announced their end; wait until the kernel has ended them.
    donors.wait_for_recipients();
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl<'scope> Scope<'scope, '_> {
    /// Creates a task that runs `body` and exits. Returns its TID. If it is killed, [`Donors::killed`] returns
    /// `label`.
    ///
    /// # Errors
    /// The kernel's error.
    #[allow(unsafe_code)]
    pub fn spawn(&'scope self, kind: TaskKind, label: u32, body: impl FnOnce() + Send + 'scope) -> io::Result<u32> {
        let (donor, waited) = self.donors.acquire()?;
        self.waited.fetch_add(u32::from(waited), SeqCst);
        let parameters = match kind {
            TaskKind::Thread => CloneParameters { flags: THREAD, parent: sys::parent_id() },
            TaskKind::Process if sys::process_id() == self.coordinator => {
                CloneParameters { flags: CHILD, parent: self.coordinator }
            }
            TaskKind::Process => CloneParameters { flags: SIBLING, parent: self.coordinator },
        };
        self.alive.fetch_add(1, SeqCst);
        let own = donor.clone();
        let run = Box::new(move || {
            own.label.store(label, SeqCst);
            own.tombstone.during(self.futex, body);
            if self.alive.fetch_sub(1, SeqCst) == 1 {
                self.futex.store(1, SeqCst);
                sys::wake_shared(self.futex);
            }
        });
        // SAFETY: the scope is not closed before the task has ended, and data borrowed by the task outlives the
        // scope. If the coordinator dies first, its stack is kept (`Donors::abandon`).
        let created = unsafe { clone(donor, self.donors.pool(), parameters, run) };
        if created.is_err() {
            self.alive.fetch_sub(1, SeqCst);
        }
        created
    }

    /// Number of tasks alive.
    pub fn alive(&self) -> u32 {
        self.alive.load(SeqCst)
    }

    /// Number of times a task slept for storage.
    pub fn waited(&self) -> u32 {
        self.waited.load(SeqCst)
    }
}

/// A process that runs beside the thread that started it.
#[derive(Debug)]
pub struct Process {
    donor: Arc<Donor>,
    number: i32,
}

impl Process {
    /// PID of the process.
    pub fn number(&self) -> u32 {
        self.number as u32
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.donor.recipient.load(SeqCst) == 0
    }

    /// Waits for its end. Its remaining children, if any, have been killed then.
    pub fn wait(&self) {
        self.donor.wait_for_recipient();
        // Only the first call reaps it.
        let number = nix::unistd::Pid::from_raw(self.number);
        while nix::sys::wait::waitpid(number, Some(nix::sys::wait::WaitPidFlag::__WALL)) == Err(nix::Error::EINTR) {}
    }
}

/// Starts a process that runs `body`, as the next child of the calling thread, and calls `meanwhile` here. Both have
/// ended on return.
///
/// # Errors
/// The kernel's error; nothing was called then.
#[allow(unsafe_code)]
pub fn beside<Result>(
    donors: &Donors,
    body: impl FnOnce() + Send,
    meanwhile: impl FnOnce(&Process) -> Result,
) -> io::Result<Result> {
    struct Waits(Process);
    impl Drop for Waits {
        fn drop(&mut self) {
            self.0.wait();
        }
    }
    let (donor, _) = donors.acquire()?;
    let parameters = CloneParameters { flags: COORDINATOR, parent: sys::process_id() };
    let run = Box::new(move || {
        auto_reap_children();
        body();
    });
    // SAFETY: the process has ended when this function returns or unwinds, since `Waits` is dropped then.
    let number = unsafe { clone(donor.clone(), donors.pool(), parameters, run) }?;
    let process = Waits(Process { donor, number: number as i32 });
    Ok(meanwhile(&process.0))
}

/// Ends the calling thread at once, without dropping or unwinding. If it is the coordinator, its children are killed.
#[allow(unsafe_code)]
pub fn leave() -> ! {
    loop {
        // SAFETY: the call does not return; the caller is responsible for borrows from this stack.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
}

/// Makes the kernel reap the children of the calling process without a notification.
#[allow(unsafe_code)]
fn auto_reap_children() {
    use nix::sys::signal::{SigHandler, Signal, signal};
    // SAFETY: no handler is installed, and the process shares its signal dispositions with no other.
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
/// A process of the execution: created by the coordinator itself, or by another task.
const CHILD: c_int = SHARED | libc::SIGCHLD;
const SIBLING: c_int = SHARED | libc::CLONE_PARENT;
/// The coordinator: no exit signal, reaped only by its PID.
const COORDINATOR: c_int = SHARED;

/// Parameters of a new task.
#[derive(Clone, Copy)]
struct CloneParameters {
    flags: c_int,
    /// PID of its parent.
    parent: u32,
}

/// Data passed to a new task.
struct Start<'a> {
    run: Box<dyn FnOnce() + Send + 'a>,
    donor: Arc<Donor>,
    pool: Arc<DonorPool>,
    parent: u32,
}

/// Creates a task that runs `run`. Returns its TID.
///
/// # Safety
/// Data borrowed by `run` must stay valid until the kernel has cleared the donor's `recipient`.
#[allow(unsafe_code)]
unsafe fn clone<'a>(
    donor: Arc<Donor>,
    pool: &Arc<DonorPool>,
    parameters: CloneParameters,
    run: Box<dyn FnOnce() + Send + 'a>,
) -> io::Result<u32> {
    let recipient = donor.recipient.as_ptr();
    let (stack, storage) = (donor.stack as *mut c_void, donor.storage as *mut c_void);
    let start = Box::into_raw(Box::new(Start { run, donor, pool: pool.clone(), parent: parameters.parent }));
    // SAFETY: stack and storage belong to a donor that sleeps and that no other task uses: it was acquired, and the
    // kernel had cleared `recipient`. That word stays in place, since donors end after their recipients. `start`
    // belongs to the new task. The caller guarantees its lifetime.
    let number = unsafe { libc::clone(enter, stack, parameters.flags, start.cast(), recipient, storage, recipient) };
    if number < 0 {
        let error = io::Error::last_os_error();
        // SAFETY: no task was created, so it is still owned here.
        let start = unsafe { Box::from_raw(start) };
        start.pool.release(start.donor);
        return Err(error);
    }
    Ok(number as u32)
}

/// Entry point of a new task. When it returns, libc only makes the exit system call.
#[allow(unsafe_code)]
extern "C" fn enter(start: *mut c_void) -> c_int {
    // SAFETY: `clone` passed the box to this task alone.
    let Start { run, donor, pool, parent } = *unsafe { Box::from_raw(start.cast::<Start<'_>>()) };
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).expect("a signal that exists");
    // If the parent died before this call, the execution is over and the task does not run.
    if sys::parent_id() == parent {
        run();
        pool.release(donor);
    }
    0
}
