// SPDX-License-Identifier: GPL-2.0-only
//! Compares the meter with independent kernel counters in `/proc` of a task and of the machine. Needs root and a
//! kernel with BTF and SCHED_INFO; otherwise the tests print a line and pass.

use event_log::Null;
use ids::Nanos;
use kernel_link::LinkError;
use kernel_link::meter::{Measured, Meter, Scope, host_machine};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::fs;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Serializes the tests: the kernel's switch for run-time statistics is global.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a meter; returns `None` if this kernel or user does not permit one.
fn start(scope: Scope) -> Option<Meter<Null>> {
    if fs::metadata("/proc/self/schedstat").is_err() {
        skip::skip("this kernel has no /proc/self/schedstat (CONFIG_SCHED_INFO)");
        return None;
    }
    match Meter::start(&host_machine().expect("a machine"), scope, Null) {
        Ok(meter) => Some(meter),
        Err(error @ (LinkError::Host(_) | LinkError::NoBtf { .. } | LinkError::Unsupported { .. })) => {
            skip::skip(format_args!("{error}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// Kernel counters of a task that does not run and cannot until it is released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Witness {
    cpu: Nanos,
    delay: Nanos,
    /// Number of times it was switched in.
    slices: u64,
    /// Number of voluntary and of involuntary switches.
    voluntary: u64,
    involuntary: u64,
}

impl Witness {
    /// Reads the counters of the task with this directory in `/proc`.
    fn of(task: &str) -> Witness {
        let read = |name| fs::read_to_string(format!("{task}/{name}")).expect("proc");
        let [cpu, delay, slices] = numbers(&read("schedstat"))[..] else { panic!("{}", read("schedstat")) };
        let status = read("status");
        let count = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|count| count.trim().parse().ok()).expect("a count")
        };
        let (voluntary, involuntary) = (count("voluntary_ctxt_switches"), count("nonvoluntary_ctxt_switches"));
        Witness { cpu: Nanos(cpu), delay: Nanos(delay), slices, voluntary, involuntary }
    }

    /// Counts and CPU time must equal the kernel's exactly, whatever else the machine does. Waits differ in their
    /// bounds: the kernel's start and end when it reads the runqueue clock, the meter's at the tracepoints, and in
    /// between the host may deschedule the CPU.
    fn confirms(&self, measured: &Measured, stolen: Nanos) {
        let [task] = &measured.measures.tasks[..] else { panic!("one task: {:?}", measured.measures.tasks) };
        assert_eq!((measured.cost.late, measured.cost.orphans, measured.cost.lost()), (0, 0, 0), "{:?}", measured.cost);
        assert_eq!(measured.measures.context_switches, self.slices, "switches to it: {self:?} {:?}", measured.cost);
        assert_eq!(self.voluntary + self.involuntary, self.slices, "it has left its CPU as often: {self:?}");
        // Each sleep ends with a wakeup except possibly the last one, and the first wakeup is the birth.
        assert_eq!(measured.measures.wakeups, self.voluntary, "{self:?} {:?}", measured.cost);
        assert_eq!(task.account.run, self.cpu, "CPU time");
        // 2 to 4 us per wait were observed in a virtual machine; `/proc/stat` has a resolution of 10 ms.
        let slack = Nanos(self.slices * 20_000) + stolen + Nanos::from_ms(20);
        let off = Nanos(task.account.runnable.0.abs_diff(self.delay.0));
        assert!(off <= slack, "waited {}, the kernel says {}; stolen {stolen}", task.account.runnable, self.delay);
    }
}

/// Idle time and steal time of all CPUs since boot, to 10 ms.
fn proc_stat() -> (Nanos, Nanos) {
    let text = fs::read_to_string("/proc/stat").expect("proc");
    let line = text.lines().next().expect("the line of all CPUs");
    // user nice system idle iowait irq softirq steal
    let [_, _, _, idle, iowait, _, _, steal, ..] = numbers(line)[..] else { panic!("{line}") };
    (Nanos::from_ms(10 * (idle + iowait)), Nanos::from_ms(10 * steal))
}

/// Measures a shell script until all its processes have exited, and reads the kernel's counters of the shell before
/// it is reaped.
fn measure(script: &str) -> Option<(Measured, Witness)> {
    let mut meter = start(Scope::Command)?;
    let mut child = meter.spawn(Command::new("sh").args(["-c", script])).expect("a shell");
    let began = Instant::now();
    while !meter.is_over() {
        meter.receive().expect("events");
        assert!(began.elapsed() < Duration::from_secs(60), "the end of the command was not seen");
    }
    let witness = Witness::of(&format!("/proc/{}", child.id()));
    assert!(child.wait().expect("its status").success());
    let (measured, Null) = meter.finish(Nanos::ZERO).expect("a run");
    Some((measured, witness))
}

fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn run_and_wait_time_beside_a_spinner_match_the_kernel() {
    let _turn = turn();
    let mut spinner = Command::new("taskset").args(["-c", "0", "sh", "-c", "while :; do :; done"]).spawn().expect("sh");
    let (_, stolen) = proc_stat();
    let run = measure("exec taskset -c 0 sh -c 'i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done'");
    spinner.kill().and_then(|()| spinner.wait()).expect("the spinner ends");
    let Some((measured, witness)) = run else { return };
    witness.confirms(&measured, proc_stat().1 - stolen);
    assert!(witness.delay.0 > witness.cpu.0 / 4, "the spinner took its share, or this test says nothing: {witness:?}");
    let task = &measured.measures.tasks[0];
    assert_eq!((task.name.as_str(), task.cpus_allowed.to_string().as_str()), ("sh", "0"));
}

#[test]
fn every_sleep_of_a_thread_is_one_wakeup() {
    const SLEEPS: u64 = 150;
    let _turn = turn();
    let Some(mut meter) = start(Scope::Children) else { return };
    let (_, stolen) = proc_stat();
    meter.follow_children_of(thread_id()).expect("settings");
    let (report, reports) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let sleeper = thread::Builder::new().name("sleeper".to_owned()).spawn(move || {
        // On one CPU: for the kernel a wakeup begins when the task is queued, after the IPI to another CPU.
        let mut only = CpuSet::new();
        only.set(0).and_then(|()| sched_setaffinity(Pid::from_raw(0), &only)).expect("CPU 0");
        (0..SLEEPS).for_each(|_| thread::sleep(Duration::from_millis(1)));
        report.send(thread_id()).expect("the receiver exists");
        released.recv().expect_err("nothing is ever sent");
    });
    let sleeper = sleeper.expect("a thread");
    let thread = loop {
        meter.receive().expect("events");
        if let Ok(thread) = reports.try_recv() {
            break format!("/proc/self/task/{thread}");
        }
    };
    // The file says `running` until the thread has left its CPU.
    while fs::read_to_string(format!("{thread}/syscall")).expect("proc").starts_with("running") {
        meter.receive().expect("events");
    }
    let (measured, Null) = meter.finish(Nanos::ZERO).expect("a run");
    let witness = Witness::of(&thread);
    drop(release);
    sleeper.join().expect("it ends");
    witness.confirms(&measured, proc_stat().1 - stolen);
    assert!(witness.voluntary > SLEEPS, "{witness:?}");
    let task = &measured.measures.tasks[0];
    assert_eq!(task.name, "sleeper");
    let blocked = task.account.blocked;
    assert!(blocked >= Nanos::from_ms(SLEEPS * 9 / 10) && blocked <= measured.measures.elapsed, "{blocked}");
}

#[test]
fn idle_time_matches_proc_stat() {
    let _turn = turn();
    let (before, began) = (proc_stat(), Instant::now());
    let Some((Measured { measures, cost, .. }, _)) = measure("sleep 1.5") else { return };
    let (after, window) = (proc_stat(), Nanos(began.elapsed().as_nanos() as u64));
    let cpus = measures.cpus.len() as u64;
    // Before and after the run the CPUs may have idled or not. The kernel's idle and iowait times are in whole ticks, so
    // each may be off by a tick at both ends.
    let (outside, ticks) = (Nanos((window - measures.elapsed).0 * cpus), Nanos::from_ms(20));
    let (kernel, idle) = (after.0 - before.0, measures.cpu.idle);
    assert!(
        kernel <= idle + outside + ticks,
        "{kernel} in the kernel, {idle} of the run and at most {outside} beside it: {:?} {cost:?}",
        measures.cpus
    );
    // The kernel does not count interrupts during idle as idle time.
    assert!(idle <= kernel + ticks + Nanos(idle.0 / 25), "{idle} of the run, {kernel} in the kernel");
}
