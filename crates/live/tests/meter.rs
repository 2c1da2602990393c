// SPDX-License-Identifier: GPL-2.0-only
//! Holds the meter against witnesses that do not depend on it: what the kernel counts in `/proc` of a task and of the
//! machine. Needs root and a kernel with BTF and SCHED_INFO; says so in one line and passes otherwise.

use event_log::Null;
use ids::Nanos;
use live::LiveError;
use live::meter::{Measured, Meter, Scope, host_machine};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// One at a time: the kernel's switch for run-time statistics is global.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A meter, or `None` where that is not possible.
fn start(scope: Scope) -> Option<Meter<Null>> {
    if fs::metadata("/proc/self/schedstat").is_err() {
        eprintln!("skipped: this kernel has no /proc/self/schedstat (CONFIG_SCHED_INFO)");
        return None;
    }
    match Meter::start(&host_machine().expect("a machine"), scope, Null) {
        Ok(meter) => Some(meter),
        Err(error @ (LiveError::NotRoot { .. } | LiveError::NoBtf { .. } | LiveError::Unsupported { .. })) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Measures a shell script until all of it has ended. What it printed comes back too.
fn measure(script: &str) -> Option<(Measured, String)> {
    let mut meter = start(Scope::Command)?;
    let output = tempfile::NamedTempFile::new().expect("a file");
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdout(Stdio::from(output.reopen().expect("the same file")));
    let mut child = meter.spawn(&mut command).expect("a shell");
    let began = Instant::now();
    while !meter.is_over() {
        meter.receive().expect("events");
        assert!(began.elapsed() < Duration::from_secs(60), "the end of the command was not seen");
    }
    assert!(child.wait().expect("its status").success());
    let (measured, Null) = meter.finish(Nanos::ZERO).expect("a run");
    assert_eq!((measured.cost.lost(), measured.cost.orphans), (0, 0), "{:?}", measured.cost);
    Some((measured, fs::read_to_string(output.path()).expect("what it printed")))
}

fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// The machine may have other work: what holds in one of three tries holds.
fn in_three_tries(test: impl Fn() + std::panic::RefUnwindSafe) {
    let _turn = turn();
    for _ in 0..2 {
        if std::panic::catch_unwind(&test).is_ok() {
            return;
        }
    }
    test();
}

#[track_caller]
fn near(what: &str, measured: u64, witness: u64, percent: u64, slack: u64) {
    let off = measured.abs_diff(witness);
    assert!(off <= witness * percent / 100 + slack, "{what}: measured {measured}, the kernel says {witness}");
}

#[test]
fn a_busy_task_beside_a_spinner_ran_and_waited_as_its_schedstat_says() {
    in_three_tries(beside_a_spinner);
}

fn beside_a_spinner() {
    let mut spinner = Command::new("taskset").args(["-c", "0", "sh", "-c", "while :; do :; done"]).spawn().expect("sh");
    // One task: `read` and `echo` are of the shell itself.
    let script = "exec taskset -c 0 sh -c 'i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done
        read schedstat < /proc/self/schedstat; echo $schedstat
        while read name value rest; do case $name in *_ctxt_switches:) echo $value;; esac; done < /proc/self/status'";
    let run = measure(script);
    spinner.kill().and_then(|()| spinner.wait()).expect("the spinner ends");
    let Some((Measured { measures, .. }, printed)) = run else { return };
    let [cpu, delay, slices, voluntary, involuntary] = numbers(&printed)[..] else { panic!("{printed}") };
    let [task] = &measures.tasks[..] else { panic!("one task: {:?}", measures.tasks) };
    // What it did after it had looked: printing and exiting, a millisecond or two.
    near("CPU time", task.account.run.0, cpu, 3, 3_000_000);
    near("time in runqueues", task.account.runnable.0, delay, 5, 12_000_000);
    assert!(delay > cpu / 4, "the spinner took its share, or this test says nothing: {cpu} {delay}");
    near("switches to it", measures.context_switches, slices, 5, 4);
    near("switches from it", measures.context_switches, voluntary + involuntary, 5, 6);
    assert_eq!((task.name.as_str(), task.cpus_allowed.to_string().as_str()), ("sh", "0"));
}

#[test]
fn each_sleep_of_a_thread_is_one_wakeup() {
    in_three_tries(sleeper);
}

fn sleeper() {
    const SLEEPS: u64 = 150;
    let Some(mut meter) = start(Scope::Children) else { return };
    let own = fs::read_link("/proc/thread-self").expect("proc");
    let own = own.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a thread id");
    meter.follow_children_of(own).expect("settings");
    let sleeper = thread::Builder::new().name("sleeper".to_owned()).spawn(|| {
        let counts = || {
            let status = fs::read_to_string("/proc/thread-self/status").expect("proc");
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            let schedstat = numbers(&fs::read_to_string("/proc/thread-self/schedstat").expect("proc"));
            (line.and_then(|count| count.trim().parse::<u64>().ok()).expect("a count"), schedstat)
        };
        // On one CPU: to the kernel a wakeup begins where the task is queued, after the interrupt to another CPU.
        let mut only = CpuSet::new();
        only.set(0).and_then(|()| sched_setaffinity(Pid::from_raw(0), &only)).expect("CPU 0");
        let before = counts();
        (0..SLEEPS).for_each(|_| thread::sleep(Duration::from_millis(1)));
        let after = counts();
        (after.0 - before.0, after.1)
    });
    let sleeper = sleeper.expect("a thread");
    while !sleeper.is_finished() {
        meter.receive().expect("events");
    }
    let (voluntary, schedstat) = sleeper.join().expect("counts");
    let [cpu, delay, slices] = schedstat[..] else { panic!("{schedstat:?}") };
    let (Measured { measures, cost, .. }, Null) = meter.finish(Nanos::ZERO).expect("a run");
    assert_eq!(cost.lost(), 0, "{cost:?}");
    assert_eq!(measures.tasks.len(), 1, "{:?}", measures.tasks);
    assert!(voluntary >= SLEEPS, "the kernel counted {voluntary} sleeps");
    // One more: it was new. What the kernel keeps from all probes (some hide tasks of their host's) is counted.
    let unseen = cost.unseen;
    near("wakeups", measures.wakeups, voluntary + 1, 0, 5 + 2 * unseen);
    near("switches", measures.context_switches, slices, 0, 5 + 2 * unseen);
    assert!(unseen <= SLEEPS / 5, "{unseen} switches were not seen");
    // For the kernel a task that preempts on its wakeup has not waited; the clock says 10 us and more, in a VM.
    near("time in runqueues", measures.tasks[0].account.runnable.0, delay, 10, slices * 50_000 + unseen * 3_000_000);
    near("CPU time", measures.tasks[0].account.run.0, cpu, 10, 300_000);
    assert_eq!(measures.tasks[0].name, "sleeper");
    let blocked = measures.tasks[0].account.blocked;
    assert!(blocked >= Nanos::from_ms(SLEEPS * 9 / 10) && blocked <= measures.elapsed, "{blocked}");
}

#[test]
fn idle_time_is_that_of_proc_stat() {
    in_three_tries(idle);
}

fn idle() {
    let idle = "while read name user nice system idle iowait rest; do
        case $name in cpu) echo $((idle + iowait));; esac; done < /proc/stat";
    let Some((Measured { measures, .. }, printed)) = measure(&format!("{idle}; sleep 1.5; {idle}")) else { return };
    let [before, after] = numbers(&printed)[..] else { panic!("{printed}") };
    // Ticks of 10 ms, of each CPU.
    let slack = 20_000_000 * measures.cpus.len() as u64 + 30_000_000;
    near("idle time", measures.cpu.idle.0, (after - before) * 10_000_000, 3, slack);
}
