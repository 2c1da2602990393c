// SPDX-License-Identifier: GPL-2.0-only
//! Tables of `weir meter` against workloads whose counts are known, and against counters of the kernel. Needs root and a
//! kernel with BTF; otherwise the tests are skipped.
//!
//! The measured program is this test program itself, started again for one of the tests named `child_*` with
//! [`CHILD`] set.

use ids::Nanos;
use kernel_link::LinkError;
use kernel_link::tables::{LockFunctions, Reading, Scope, Tables, What};
use meters::{Microstates, State};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs;
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const CHILD: &str = "WEIR_TEST_CHILD";

/// Serializes the tests, which all need quiet CPUs.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a meter; `None` if this kernel or user does not permit one.
fn start(what: What, scope: Scope, holds: &[LockFunctions]) -> Option<Tables> {
    match Tables::start(what, scope, holds) {
        Ok(tables) => Some(tables),
        Err(error @ (LinkError::Host(_) | LinkError::NoBtf { .. } | LinkError::Unsupported { .. })) => {
            skip::skip(format_args!("{error}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Measures a command until it exits; returns its output as well.
fn measure(what: What, command: &mut Command) -> Option<(Reading, Output)> {
    measure_holds(what, command, &[])
}

fn measure_holds(what: What, command: &mut Command, holds: &[LockFunctions]) -> Option<(Reading, Output)> {
    let mut tables = start(what, Scope::Command, holds)?;
    let mut child: Child = tables.spawn(command.stdout(Stdio::piped()).stderr(Stdio::null())).unwrap();
    while child.try_wait().unwrap().is_none() {
        tables.receive(Duration::from_millis(20)).unwrap();
    }
    // A thread leaves its CPU for the last time shortly after its process was waited for.
    tables.receive(Duration::from_millis(100)).unwrap();
    let output = child.wait_with_output().unwrap();
    Some((tables.read().unwrap(), output))
}

/// This program, to run only this test, as a child.
fn child(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    command
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

fn named<T: Send + 'static>(name: &str, run: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
    thread::Builder::new().name(name.to_owned()).spawn(run).unwrap()
}

/// How often the thread of this number has gone to sleep. Its state would not tell: a thread that is preempted on its way
/// to sleep has the state of a sleeping one, and a wakeup then finds it runnable.
fn sleeps_of(thread: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap_or_default();
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// Waits until the thread has gone to sleep more often than this, and returns how often.
fn wait_until_asleep(thread: u32, before: u64) -> u64 {
    loop {
        match sleeps_of(thread) {
            now if now > before => return now,
            _ => thread::yield_now(),
        }
    }
}

fn thread_number() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// Number of contentions: a prime.
const CONTENTIONS: u32 = 23;

/// The function that the lock table must name.
#[inline(never)]
fn take_the_lock(lock: &Mutex<u64>) {
    *std::hint::black_box(lock).lock().unwrap() += 1;
}

#[test]
fn child_contends_for_a_lock() {
    if !is_child() {
        return;
    }
    let shared = Arc::new((Mutex::new(0u64), AtomicU32::new(0), AtomicU32::new(0)));
    let other = Arc::clone(&shared);
    let waiter = named("waiter", move || {
        let (lock, round, thread) = &*other;
        thread.store(thread_number(), SeqCst);
        for number in 1..=CONTENTIONS {
            while round.load(SeqCst) != 2 * number - 1 {
                thread::yield_now();
            }
            take_the_lock(lock);
            round.store(2 * number, SeqCst);
        }
    });
    let (lock, round, thread) = &*shared;
    while thread.load(SeqCst) == 0 {
        thread::yield_now();
    }
    for number in 1..=CONTENTIONS {
        let guard = lock.lock().unwrap();
        let before = sleeps_of(thread.load(SeqCst));
        round.store(2 * number - 1, SeqCst);
        wait_until_asleep(thread.load(SeqCst), before);
        drop(guard);
        while round.load(SeqCst) != 2 * number {
            thread::yield_now();
        }
    }
    println!("lock {:p}", lock);
    waiter.join().unwrap();
}

#[test]
fn contended_lock_is_counted_exactly_and_named_by_its_function() {
    let _turn = turn();
    if is_child() {
        return;
    }
    let Some((Reading::Locks(locks), output)) = measure(What::Locks, &mut child("child_contends_for_a_lock")) else {
        return;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let address = text.lines().find_map(|line| line.split("lock 0x").nth(1)).expect("the child prints it").trim();
    let address = u64::from_str_radix(address, 16).unwrap();
    // The futex word is one of the first words of a std Mutex.
    let of_lock = |row: &&meters::Lock| {
        let word = row.lock.rsplit_once(":0x").and_then(|(_, word)| u64::from_str_radix(word, 16).ok());
        row.kind == "futex" && word.is_some_and(|word| (address..address + 16).contains(&word))
    };
    let rows: Vec<&meters::Lock> = locks.rows.iter().filter(of_lock).collect();
    assert_eq!(rows.iter().map(|row| row.contended).sum::<u64>(), u64::from(CONTENTIONS), "{:#?}", locks.rows);
    assert!(rows.iter().any(|row| row.caller.contains("take_the_lock")), "{rows:#?}");
    assert!(rows.iter().all(|row| row.wait_total > Nanos::ZERO && row.wait_max <= row.wait_total));
    assert_eq!(locks.trust.lost, 0);
    assert!(locks.checks().iter().all(|check| check.holds), "{:#?}", locks.checks());
}

/// A lock with functions that can be probed.
#[inline(never)]
fn take_probed_lock(lock: &AtomicBool) {
    while std::hint::black_box(lock).swap(true, SeqCst) {
        thread::yield_now();
    }
}

#[inline(never)]
fn release_probed_lock(lock: &AtomicBool) {
    std::hint::black_box(lock).store(false, SeqCst);
}

/// The function that the lock table must name.
#[inline(never)]
fn hold_the_lock(lock: &AtomicBool, time: Duration) -> Duration {
    let before = Instant::now();
    take_probed_lock(lock);
    let end = Instant::now() + time;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
    release_probed_lock(lock);
    before.elapsed()
}

#[test]
fn child_holds_a_probed_lock() {
    if !is_child() {
        return;
    }
    let lock = AtomicBool::new(false);
    let time: Duration = (0..CONTENTIONS).map(|_| hold_the_lock(&lock, Duration::from_millis(1))).sum();
    println!("held {}", time.as_nanos());
}

/// Name of the function of this program whose mangled name contains `part`.
fn symbol(part: &str) -> String {
    use object::{Object, ObjectSymbol};
    let bytes = fs::read(std::env::current_exe().unwrap()).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let name = file.symbols().filter_map(|symbol| symbol.name().ok()).find(|name| name.contains(part));
    name.expect("this program has the function").to_owned()
}

#[test]
fn holds_of_probed_functions_are_counted_exactly_and_named_by_their_caller() {
    let _turn = turn();
    if is_child() {
        return;
    }
    let program = std::env::current_exe().unwrap();
    let [take, release] = ["16take_probed_lock", "19release_probed_lock"].map(symbol);
    let functions: LockFunctions = format!("{}:{take}/{release}", program.display()).parse().unwrap();
    let command = &mut child("child_holds_a_probed_lock");
    let Some((Reading::Locks(locks), output)) = measure_holds(What::Locks, command, &[functions]) else { return };
    let text = String::from_utf8(output.stdout).unwrap();
    let most: u64 = text.lines().find_map(|line| line.split("held ").nth(1)).unwrap().trim().parse().unwrap();
    let rows: Vec<&meters::Lock> = locks.rows.iter().filter(|row| row.hold_total.is_some()).collect();
    let [row] = rows[..] else { panic!("{:#?}", locks.rows) };
    assert_eq!((row.count, row.contended), (Some(u64::from(CONTENTIONS)), 0));
    assert!(row.caller.contains("hold_the_lock"), "{row:#?}");
    let (total, max) = (row.hold_total.unwrap(), row.hold_max.unwrap());
    assert!((Nanos::from_ms(u64::from(CONTENTIONS))..Nanos(most)).contains(&total), "{total} of {most} ns");
    assert!(Nanos::from_ms(1) <= max && max <= total);
    assert_eq!(locks.trust.lost, 0);
}

#[test]
fn a_function_that_a_file_lacks_is_an_error_with_both_names() {
    let _turn = turn();
    let program = std::env::current_exe().unwrap();
    let functions: LockFunctions = format!("{}:no_such_function/main", program.display()).parse().unwrap();
    match Tables::start(What::Locks, Scope::Command, &[functions]) {
        Err(LinkError::Host(_) | LinkError::NoBtf { .. } | LinkError::Unsupported { .. }) => {}
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("no_such_function") && text.contains(&program.display().to_string()), "{text}");
        }
        Ok(_) => panic!("the function does not exist"),
    }
}

/// Number of sleeps of each kind: a prime.
const SLEEPS: u64 = 7;

#[test]
fn child_sleeps_in_several_ways() {
    if !is_child() {
        return;
    }
    named("sleeper", || {
        let wait = Duration::from_millis(2);
        let (socket, mutex, condition) = (UdpSocket::bind("127.0.0.1:0").unwrap(), Mutex::new(()), Condvar::new());
        let (silent, _other) = UnixStream::pair().unwrap();
        socket.set_read_timeout(Some(wait)).unwrap();
        for _ in 0..SLEEPS {
            thread::sleep(wait);
            let _ = condition.wait_timeout(mutex.lock().unwrap(), wait).unwrap();
            let limit = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
            poll(&mut [PollFd::new(&silent, PollFlags::IN)], Some(&limit)).unwrap();
            let _ = socket.recv(&mut [0; 8]);
        }
    })
    .join()
    .unwrap();
}

fn microstates(command: &mut Command) -> Option<(Microstates, Output)> {
    match measure(What::Microstates, command)? {
        (Reading::Microstates(states), output) => Some((states, output)),
        (other, _) => panic!("{other:?}"),
    }
}

#[test]
fn sleeps_of_each_kind_are_counted_exactly() {
    let _turn = turn();
    if is_child() {
        return;
    }
    let Some((states, _)) = microstates(&mut child("child_sleeps_in_several_ways")) else { return };
    let sleeper = states.tasks.iter().find(|task| task.name == "sleeper").expect("it is a task");
    for state in [State::Timer, State::Futex, State::Poll, State::Interruptible] {
        assert_eq!(sleeper.counts[&state], SLEEPS, "{state:?} {sleeper:#?}");
        let time = sleeper.states[&state];
        assert!((Nanos::from_ms(2 * SLEEPS)..Nanos::from_ms(40 * SLEEPS)).contains(&time), "{state:?} {time}");
    }
    assert!(states.unbalanced().is_empty());
}

/// Number of wakeups: a prime.
const WAKEUPS: u32 = 1009;

#[test]
fn child_wakes_a_thread() {
    if !is_child() {
        return;
    }
    let (number, done) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let before = Arc::new(AtomicU64::new(0));
    let (own, own_sleeps, waker_gone) = (Arc::clone(&number), Arc::clone(&before), Arc::clone(&done));
    // Threads that start or end take the lock of the address space and may wake each other through it. So the waker lives
    // only while the other thread touches no memory that it has not touched before.
    let woken = named("woken", move || {
        thread::park_timeout(Duration::from_nanos(1));
        own_sleeps.store(sleeps_of(thread_number()), SeqCst);
        own.store(thread_number(), SeqCst);
        (0..WAKEUPS).for_each(|_| thread::park());
        while !waker_gone.load(SeqCst) {
            thread::yield_now();
        }
    });
    while number.load(SeqCst) == 0 {
        thread::yield_now();
    }
    let target = woken.thread().clone();
    let waker = named("waker", move || {
        let mut sleeps = before.load(SeqCst);
        for _ in 0..WAKEUPS {
            sleeps = wait_until_asleep(number.load(SeqCst), sleeps);
            target.unpark();
            thread::sleep(Duration::from_micros(50));
        }
    });
    waker.join().unwrap();
    done.store(true, SeqCst);
    woken.join().unwrap();
}

#[test]
fn wakeups_are_counted_exactly_by_waker_and_woken_task() {
    let _turn = turn();
    if is_child() {
        return;
    }
    let Some((Reading::Wakeups(wakeups), _)) = measure(What::Wakeups, &mut child("child_wakes_a_thread")) else {
        return;
    };
    let by = |waker: &str| wakeups.pairs.iter().find(|pair| pair.waker == waker && pair.task == "woken");
    let pair = by("waker").unwrap_or_else(|| panic!("{:#?}", wakeups.pairs));
    // A wakeup whose waking was hidden from all probes is counted with an unknown waker.
    let hidden = by("(unseen)").map_or(0, |pair| pair.count);
    // The start of the task, which another one causes, may be among those with an unknown waker.
    let starts = (pair.count + hidden).saturating_sub(u64::from(WAKEUPS));
    assert_eq!(pair.count + hidden - starts, u64::from(WAKEUPS), "{:#?}", wakeups.pairs);
    assert!(starts <= hidden.min(1), "{:#?}", wakeups.pairs);
    assert!(hidden <= 20, "{hidden}");
    assert_eq!(pair.measured, pair.count);
    assert!(pair.max <= pair.total && pair.total > Nanos::ZERO);
}

#[test]
fn states_of_a_thousand_short_tasks_add_up_to_their_lives() {
    let _turn = turn();
    if is_child() {
        return;
    }
    let mut script = Command::new("sh");
    script.args(["-c", "i=0; while [ $i -lt 1000 ]; do /bin/true; i=$((i+1)); done"]);
    let Some((states, _)) = microstates(&mut script) else { return };
    assert_eq!(states.trust.lost, 0);
    assert_eq!(states.tasks.iter().filter(|task| task.name == "true").count(), 1000);
    assert!(states.unbalanced().is_empty(), "{:#?}", states.unbalanced());
    assert!(states.tasks.iter().all(|task| task.life > Nanos::ZERO && task.life <= states.trust.elapsed));
}

#[test]
fn child_burns_and_reads_its_counters() {
    if !is_child() {
        return;
    }
    let burner = named("burner", || {
        let end = Instant::now() + Duration::from_millis(200);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        thread::sleep(Duration::from_millis(1));
        let read = Instant::now();
        println!("schedstat {}", fs::read_to_string("/proc/thread-self/schedstat").unwrap());
        read
    });
    println!("after {}", burner.join().unwrap().elapsed().as_nanos());
}

/// The kernel reads its clock at other places than the meter. Its counters are read before the thread exits, and only the
/// meter counts the time from then to the exit.
#[test]
fn run_and_queue_time_agree_with_schedstat() {
    let _turn = turn();
    if is_child() {
        return;
    }
    let Some((states, output)) = microstates(&mut child("child_burns_and_reads_its_counters")) else { return };
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|line| line.split("schedstat ").nth(1)).expect("the child prints it");
    let numbers: Vec<u64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let burner = states.tasks.iter().find(|task| task.name == "burner").expect("it is a task");
    let of = |state| burner.states.get(&state).map_or(0, |time| time.0);
    let run = of(State::User) + of(State::System);
    let after: u64 = text.lines().find_map(|line| line.split("after ").nth(1)).unwrap().trim().parse().unwrap();
    let near = |own: u64, kernel: u64| own + 5_000_000 > kernel && own < kernel + after + 5_000_000;
    assert!(near(run, numbers[0]), "run {run}, schedstat {line}");
    assert!(near(of(State::RunQueue), numbers[1]), "run queue {}, schedstat {line}", of(State::RunQueue));
}

fn local_timer_interrupts() -> u64 {
    let text = fs::read_to_string("/proc/interrupts").unwrap();
    let line = text.lines().find(|line| line.trim_start().starts_with("LOC:")).expect("x86 has it");
    line.split_whitespace().filter_map(|word| word.parse::<u64>().ok()).sum()
}

/// Interrupts during tasks that the host hides from probes are missing, which may be many in one of five intervals.
/// Interrupts between the readings are in one of the counts only.
#[test]
fn local_timer_interrupts_agree_with_proc_interrupts() {
    let _turn = turn();
    if is_child() || !cfg!(target_arch = "x86_64") {
        return;
    }
    let Some(mut tables) = start(What::Interrupts, Scope::Machine, &[]) else { return };
    let mut counts = || {
        let _ = tables.read().unwrap();
        let before = local_timer_interrupts();
        thread::sleep(Duration::from_millis(700));
        let kernel = local_timer_interrupts() - before;
        let Reading::Interrupts(table) = tables.read().unwrap() else { panic!("another table") };
        assert!(table.rows.iter().all(|row| row.max <= row.total));
        let own: u64 = table.rows.iter().filter(|row| row.source == "local timer").map(|row| row.count).sum();
        assert!(own <= kernel + kernel / 10 + 10, "{own}, /proc/interrupts: {kernel}");
        (own, kernel)
    };
    let agree = |&(own, kernel): &(u64, u64)| own * 10 >= kernel * 8;
    let mut intervals = Vec::new();
    while !intervals.iter().any(agree) {
        assert!(intervals.len() < 5, "own counts and those of /proc/interrupts: {intervals:?}");
        intervals.push(counts());
    }
}

/// Two readings are two intervals: what is in the first is not in the second.
#[test]
fn second_reading_contains_only_what_happened_since() {
    let _turn = turn();
    if is_child() {
        return;
    }
    let Some(mut tables) = start(What::Microstates, Scope::Process(std::process::id()), &[]) else { return };
    thread::sleep(Duration::from_millis(60));
    let Reading::Microstates(first) = tables.read().unwrap() else { panic!("another table") };
    thread::sleep(Duration::from_millis(30));
    let Reading::Microstates(second) = tables.read().unwrap() else { panic!("another table") };
    let life = |states: &Microstates| states.tasks.iter().map(|task| task.life).max().unwrap();
    assert!(life(&first) >= Nanos::from_ms(60) && life(&second) >= Nanos::from_ms(30));
    assert!(life(&second) <= second.trust.elapsed + Nanos::from_ms(20), "{} {}", life(&second), second.trust.elapsed);
    assert!(first.unbalanced().is_empty() && second.unbalanced().is_empty());
}

#[test]
fn process_that_does_not_exist_is_refused() {
    let _turn = turn();
    let Some(_) = start(What::Locks, Scope::Machine, &[]) else { return };
    let error = Tables::start(What::Locks, Scope::Process(u32::MAX >> 2), &[]).err().expect("it does not exist");
    assert!(matches!(error, LinkError::NoProcess { .. }), "{error}");
}
