// SPDX-License-Identifier: GPL-2.0-only
//! The system calls that a playing thread needs, in the project's types.

use ids::{CpuId, CpuSet, Nanos, Policy};
use rustix::thread::Pid;
use rustix::thread::futex::{self, Flags};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::ffi::CString;
use std::io;
use std::num::NonZeroU64;
use std::sync::atomic::AtomicU32;

/// Never, as a time of [`now`].
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

/// The calling thread's number in the kernel.
pub fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// Where the calling thread runs.
pub fn current_cpu() -> CpuId {
    CpuId(rustix::thread::sched_getcpu() as u32)
}

/// Sleeps while `word` holds `value`, until somebody wakes it, at most until `until`; may return earlier.
///
/// The kernel's timer behind `until` is the one of `clock_nanosleep(2)` (an hrtimer sleeper): for the scheduler, both
/// are the same sleep. This one can be ended by another thread.
pub fn wait(word: &AtomicU32, value: u32, until: Nanos) {
    wait_as(Flags::PRIVATE, word, value, until);
}

/// The same for a word for which the kernel wakes too, when a task ends. Only [`wake_shared`] wakes who waits so.
pub fn wait_shared(word: &AtomicU32, value: u32, until: Nanos) {
    wait_as(Flags::empty(), word, value, until);
}

fn wait_as(flags: Flags, word: &AtomicU32, value: u32, until: Nanos) {
    let time = Timespec { tv_sec: (until.0 / 1_000_000_000) as i64, tv_nsec: (until.0 % 1_000_000_000) as _ };
    let until = (until != NEVER).then_some(time);
    // Woken, too late to wait (EAGAIN), timed out, interrupted: the caller looks anew in all cases.
    let _ = futex::wait_bitset(word, flags, value, until.as_ref(), std::num::NonZeroU32::MAX);
}

/// Wakes up to `count` threads that wait for `word`, first come first.
pub fn wake(word: &AtomicU32, count: u32) {
    futex::wake(word, Flags::PRIVATE, count).expect("waking threads at an address of this process");
}

/// Wakes whoever waits by [`wait_shared`].
pub fn wake_shared(word: &AtomicU32) {
    futex::wake(word, Flags::empty(), i32::MAX as u32).expect("waking threads at an address of this process");
}

/// Gives the calling thread a name, of which the kernel keeps 15 bytes.
pub fn set_name(name: &str) {
    let name = CString::new(name.replace('\0', "?")).expect("no zero is left");
    rustix::thread::set_name(&name).expect("the kernel takes any name");
}

/// The number of the calling thread's process.
pub fn process_id() -> u32 {
    std::process::id()
}

/// The number of the process whose child the calling thread's is; 0 if that is of another namespace.
pub fn parent_id() -> u32 {
    rustix::process::getppid().map_or(0, |parent| parent.as_raw_nonzero().get() as u32)
}

/// Puts the calling process into a session of its own, which it leads.
///
/// # Errors
/// What the kernel answered: a process that leads a group already cannot.
pub fn begin_session() -> io::Result<()> {
    Ok(rustix::process::setsid().map(|_| ())?)
}

/// Timers of the calling thread fire when they are due, instead of up to 50 us later.
///
/// # Errors
/// What the kernel answered.
pub fn exact_timers() -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?)
}

/// The CPUs on which the calling thread may run.
///
/// # Errors
/// What the kernel answered: on machines of more than 1024 CPUs the set is too small.
pub fn allowed_cpus() -> io::Result<CpuSet> {
    let set = rustix::thread::sched_getaffinity(None)?;
    let all = 0..rustix::thread::CpuSet::MAX_CPU;
    Ok(all.filter(|&cpu| set.is_set(cpu)).map(|cpu| CpuId(cpu as u32)).collect())
}

/// Lets a thread, 0 for the calling one, run on these CPUs only.
///
/// # Errors
/// What the kernel answered.
pub fn set_allowed_cpus(thread: u32, cpus: &CpuSet) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(cpu.index()));
    Ok(rustix::thread::sched_setaffinity(Pid::from_raw(thread as i32), &set)?)
}

/// Makes the calling thread one of this user, by its real user number. Nothing is done if it is that already.
///
/// # Errors
/// What the kernel answered.
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
        // Numbers: include/uapi/linux/sched.h.
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

/// Gives a thread, 0 for the calling one, this policy and nice value.
///
/// # Errors
/// What the kernel answered.
pub fn set_policy(thread: u32, policy: Policy, nice: i8) -> io::Result<()> {
    set_attributes(thread, &SchedAttr::of(policy, nice))
}

/// Gives the calling thread a policy that what it starts does not inherit.
///
/// # Errors
/// What the kernel answered.
pub fn set_own_policy_alone(policy: Policy) -> io::Result<()> {
    /// `SCHED_FLAG_RESET_ON_FORK`.
    const RESET_ON_FORK: u64 = 1;
    set_attributes(0, &SchedAttr { sched_flags: RESET_ON_FORK, ..SchedAttr::of(policy, 0) })
}

#[allow(unsafe_code)]
fn set_attributes(thread: u32, attr: &SchedAttr) -> io::Result<()> {
    // SAFETY: the kernel reads `attr.size` bytes at the address, which are those of `attr`, and writes none. No crate in
    // use has this call.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const *attr, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What `/proc` says of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// It sleeps, or is about to (state S).
    pub sleeps: bool,
    /// How often it gave its CPU up by itself, to sleep. Counted when it leaves the CPU.
    pub voluntary: u64,
    /// How often it lost its CPU to another.
    pub involuntary: u64,
}

/// [`Status`] of a thread; `None` when it is gone.
pub fn status(thread: u32) -> Option<Status> {
    parse(&std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?)
}

/// [`Status`] of the calling thread.
pub fn own_status() -> Status {
    status(thread_id()).expect("/proc knows the calling thread")
}

fn parse(text: &str) -> Option<Status> {
    let field = |name: &str| Some(text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?.trim());
    Some(Status {
        sleeps: field("State")?.starts_with('S'),
        voluntary: field("voluntary_ctxt_switches")?.parse().ok()?,
        involuntary: field("nonvoluntary_ctxt_switches")?.parse().ok()?,
    })
}
