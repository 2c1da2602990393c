// SPDX-License-Identifier: GPL-2.0-only
//! System calls of the executor, in the project's types.

use ids::{CpuId, CpuSet, Nanos, Policy};
use rustix::thread::Pid;
use rustix::thread::futex::{self, Flags};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::ffi::CString;
use std::io;
use std::num::NonZeroU64;
use std::sync::atomic::AtomicU32;

/// Infinite time for [`now`]-based timeouts.
pub const NEVER: Nanos = Nanos::MAX;

fn nanos(time: Timespec) -> Nanos {
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// `CLOCK_MONOTONIC`.
pub fn now() -> Nanos {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// CPU time of the calling thread.
pub fn cpu_time() -> Nanos {
    nanos(clock_gettime(ClockId::ThreadCPUTime))
}

/// TID of the calling thread.
pub fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// CPU of the calling thread.
pub fn current_cpu() -> CpuId {
    CpuId(rustix::thread::sched_getcpu() as u32)
}

/// Sleeps while `word` holds `value`, until it is woken or until time `until`; may return early.
///
/// The kernel timer for `until` is that of `clock_nanosleep(2)` (an hrtimer sleeper): for a scheduler both are the
/// same sleep. This one can be ended by another thread.
pub fn wait(word: &AtomicU32, value: u32, until: Nanos) {
    wait_as(Flags::PRIVATE, word, value, until);
}

/// As [`wait`], for a futex that the kernel also wakes when a task dies. Such waiters are woken by [`wake_shared`]
/// only.
pub fn wait_shared(word: &AtomicU32, value: u32, until: Nanos) {
    wait_as(Flags::empty(), word, value, until);
}

fn wait_as(flags: Flags, word: &AtomicU32, value: u32, until: Nanos) {
    let time = Timespec { tv_sec: (until.0 / 1_000_000_000) as i64, tv_nsec: (until.0 % 1_000_000_000) as _ };
    let until = (until != NEVER).then_some(time);
    // Woken, value changed (EAGAIN), timed out, or interrupted: the caller rechecks its condition in all cases.
    let _ = futex::wait_bitset(word, flags, value, until.as_ref(), std::num::NonZeroU32::MAX);
}

/// Wakes up to `count` threads that wait for `word`, in FIFO order.
pub fn wake(word: &AtomicU32, count: u32) {
    futex::wake(word, Flags::PRIVATE, count).expect("waking threads at an address of this process");
}

/// Wakes all threads in [`wait_shared`].
pub fn wake_shared(word: &AtomicU32) {
    futex::wake(word, Flags::empty(), i32::MAX as u32).expect("waking threads at an address of this process");
}

/// Sets the name of the calling thread, of which the kernel keeps 15 bytes.
pub fn set_name(name: &str) {
    let name = CString::new(name.replace('\0', "?")).expect("zero bytes are replaced");
    rustix::thread::set_name(&name).expect("the kernel accepts any name");
}

/// PID of the calling process.
pub fn process_id() -> u32 {
    std::process::id()
}

/// PID of the parent process; 0 if it is in another namespace.
pub fn parent_id() -> u32 {
    rustix::process::getppid().map_or(0, |parent| parent.as_raw_nonzero().get() as u32)
}

/// Creates a session with the calling process as leader.
///
/// # Errors
/// The kernel's error: a process group leader cannot.
pub fn begin_session() -> io::Result<()> {
    Ok(rustix::process::setsid().map(|_| ())?)
}

/// Disables timer slack (50 us) for the calling thread.
///
/// # Errors
/// The kernel's error.
pub fn exact_timers() -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?)
}

/// Affinity of the calling thread.
///
/// # Errors
/// The kernel's error: on machines of more than 1024 CPUs the set is too small.
pub fn allowed_cpus() -> io::Result<CpuSet> {
    let set = rustix::thread::sched_getaffinity(None)?;
    let all = 0..rustix::thread::CpuSet::MAX_CPU;
    Ok(all.filter(|&cpu| set.is_set(cpu)).map(|cpu| CpuId(cpu as u32)).collect())
}

/// Sets the affinity of a thread, 0 for the calling one.
///
/// # Errors
/// The kernel's error.
pub fn set_allowed_cpus(thread: u32, cpus: &CpuSet) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(cpu.index()));
    Ok(rustix::thread::sched_setaffinity(Pid::from_raw(thread as i32), &set)?)
}

/// Sets the real UID of the calling thread, unless it already has it.
///
/// # Errors
/// The kernel's error.
pub fn set_user(uid: u32) -> io::Result<()> {
    let uid = rustix::process::Uid::from_raw(uid);
    if rustix::process::getuid() == uid {
        return Ok(());
    }
    Ok(rustix::thread::set_thread_res_uid(uid, None, None)?)
}

/// `struct sched_attr` of `include/uapi/linux/sched/types.h` in its first version.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    sched_policy: u32,
    sched_flags: u64,
    sched_nice: i32,
    sched_priority: u32,
    sched_runtime: u64,
    sched_deadline: u64,
    sched_period: u64,
}

impl SchedAttr {
    fn of(policy: Policy, nice: i8) -> SchedAttr {
        let size = size_of::<SchedAttr>() as u32;
        let plain = |number| SchedAttr { size, sched_policy: number, sched_nice: nice.into(), ..SchedAttr::default() };
        // Numbers of include/uapi/linux/sched.h.
        match policy {
            Policy::Other => plain(0),
            Policy::Batch => plain(3),
            Policy::Idle => plain(5),
            Policy::Ext => plain(7),
            Policy::Fifo(priority) => SchedAttr { sched_priority: priority.into(), ..plain(1) },
            Policy::RoundRobin(priority) => SchedAttr { sched_priority: priority.into(), ..plain(2) },
            Policy::Deadline { runtime, deadline, period } => {
                SchedAttr { sched_runtime: runtime.0, sched_deadline: deadline.0, sched_period: period.0, ..plain(6) }
            }
        }
    }
}

/// Sets policy and nice value of a thread, 0 for the calling one.
///
/// # Errors
/// The kernel's error.
pub fn set_policy(thread: u32, policy: Policy, nice: i8) -> io::Result<()> {
    set_attributes(thread, &SchedAttr::of(policy, nice))
}

/// Sets a policy for the calling thread that its children do not inherit.
///
/// # Errors
/// The kernel's error.
pub fn set_own_policy_alone(policy: Policy) -> io::Result<()> {
    /// `SCHED_FLAG_RESET_ON_FORK`.
    const RESET_ON_FORK: u64 = 1;
    set_attributes(0, &SchedAttr { sched_flags: RESET_ON_FORK, ..SchedAttr::of(policy, 0) })
}

#[allow(unsafe_code)]
fn set_attributes(thread: u32, attr: &SchedAttr) -> io::Result<()> {
    // SAFETY: the kernel reads `attr.size` bytes at the address, which are those of `attr`, and writes none. No crate
    // in use has this call.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const *attr, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// State of a thread in `/proc`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// The thread sleeps, or is about to (state S).
    pub sleeps: bool,
    /// Number of voluntary context switches, counted when the thread is switched out.
    pub voluntary: u64,
    /// Number of involuntary context switches.
    pub involuntary: u64,
}

/// [`Status`] of a thread; `None` if it has exited.
pub fn status(thread: u32) -> Option<Status> {
    parse(&std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?)
}

/// [`Status`] of the calling thread.
pub fn own_status() -> Status {
    status(thread_id()).expect("/proc has the calling thread")
}

fn parse(text: &str) -> Option<Status> {
    let field = |name: &str| Some(text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?.trim());
    Some(Status {
        sleeps: field("State")?.starts_with('S'),
        voluntary: field("voluntary_ctxt_switches")?.parse().ok()?,
        involuntary: field("nonvoluntary_ctxt_switches")?.parse().ok()?,
    })
}
