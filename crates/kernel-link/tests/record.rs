// SPDX-License-Identifier: GPL-2.0-only
//! Records small commands of known behavior. Needs root and a kernel with BTF; otherwise the tests print a line and
//! pass.

use host::signals::Signals;
use ids::{CpuSet, Nanos};
use kernel_link::{LinkError, RecordOptions, RecordScope, Recorded, record};
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use workload::{Op, Sleep, Start, TaskSpec};

/// Serializes the tests: the kernel's switch for run-time statistics is global.
static TURN: Mutex<()> = Mutex::new(());

const WHOLE: RecordOptions<'static> = RecordOptions { directory: None, command_lines: true, limit: None };

/// Maximum number of recordings until one has no hidden wakeup. The last one is judged with hidden wakeups.
const ATTEMPTS: usize = 5;

/// Records a shell script; `None` if that is not possible here.
fn record_script(script: &str) -> Option<Recorded> {
    record_as(WHOLE, script)
}

fn record_as(options: RecordOptions<'_>, script: &str) -> Option<Recorded> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let signals = Signals::block().expect("signals");
    let command = ["sh", "-c", script].map(OsString::from);
    let mut attempts = 0;
    loop {
        attempts += 1;
        match record("test", RecordScope::Command(&command), options, &signals) {
            Ok(recorded) => {
                assert_eq!(recorded.summary.lost(), 0, "{:?}", recorded.summary);
                // The waker of a hidden wakeup is unknown.
                if recorded.summary.unseen_wakeups == 0 || attempts == ATTEMPTS {
                    return Some(recorded);
                }
            }
            Err(error @ (LinkError::Host(_) | LinkError::NoBtf { .. } | LinkError::Unsupported { .. })) => {
                skip::skip(format_args!("{error}"));
                return None;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn commands<'a>(recorded: &'a Recorded, prefix: &str) -> Vec<&'a TaskSpec> {
    let wanted = |task: &&TaskSpec| task.command.as_deref().is_some_and(|line| line.starts_with(prefix));
    recorded.recording.workload.tasks.iter().filter(wanted).collect()
}

fn work(task: &TaskSpec) -> Nanos {
    let one = |op: &Op| match op {
        Op::Work { user, system } => user.0 + system.0,
        _ => 0,
    };
    Nanos(task.script.iter().map(one).sum())
}

#[test]
fn timer_wakeups_are_not_attributed_to_an_interrupted_spinner() {
    // All on one CPU: the timers interrupt the spinner, or the shell while it forks.
    let witness = tempfile::NamedTempFile::new().expect("a file");
    let script = format!(
        "taskset -pc 0 $$ >/dev/null
        sh -c 'while :; do :; done' spinner & spinner=$!
        i=0; while [ $i -lt 53 ]; do sleep 0.011; i=$((i + 1)); done
        read schedstat < /proc/$spinner/schedstat; echo $schedstat > {}
        kill $spinner; wait",
        witness.path().display()
    );
    let Some(recorded) = record_script(&script) else { return };
    let sleepers = commands(&recorded, "sleep 0.011");
    assert_eq!(sleepers.len(), 53);
    let timers = |task: &&TaskSpec| task.script.iter().filter(|op| matches!(op, Op::Sleep(_, Sleep::Timer))).count();
    // A task that is preempted between starting its timer and sleeping sleeps less, or not at all.
    let with_timer = sleepers.iter().filter(|task| timers(task) == 1).count();
    assert!(with_timer >= 50, "{with_timer} of 53");
    let [spinner] = commands(&recorded, "sh -c 'while")[..] else { panic!("one spinner") };
    let posts = spinner.script.iter().filter(|op| matches!(op, Op::Post(_))).count();
    // The spinner ends its parent's waits for its exec and for its exit, and no other wait.
    assert!(posts <= 2, "{:?}", spinner.script);
    let witness = fs::read_to_string(witness.path()).expect("what the kernel says of the spinner");
    let counted = Nanos(witness.split(' ').next().and_then(|cpu| cpu.parse().ok()).expect("CPU time"));
    // The spinner ran until it was killed and was charged for that time; in a replay it works until the same moment.
    assert!(recorded.summary.cpu > counted, "{} of {counted}", recorded.summary.cpu);
    assert!(spinner.script.iter().any(|op| matches!(op, Op::WorkUntilPosted(_))), "{:?}", spinner.script);
    assert!(counted > Nanos::from_ms(20), "it had the CPU while the others slept: {counted}");
    assert_eq!(spinner.cpus, Some("0".parse::<CpuSet>().expect("a CPU list")), "inherited from the shell");
}

#[test]
fn wakeup_causes_are_recorded_across_pipes_and_processes() {
    // The reader waits for the writer, whatever the writer waits for.
    let script = "(sleep 0.05; echo line) | { read line; nice -n 7 sh -c 'exit 3'; }";
    let Some(recorded) = record_script(script) else { return };
    assert_eq!(recorded.summary.status.code(), Some(3));
    assert_eq!((recorded.summary.unfinished, recorded.recording.workload.tasks[0].start), (0, Start::At(Nanos::ZERO)));
    let total: u64 = recorded.recording.workload.tasks.iter().map(|task| work(task).0).sum();
    assert_eq!(Nanos(total) + recorded.summary.scheduling, recorded.summary.cpu);
    let (scheduling, costs) = (recorded.summary.scheduling, recorded.recording.meta.costs);
    assert!(scheduling > Nanos::ZERO && scheduling < Nanos(total), "{scheduling}: {costs:?}");
    assert_eq!(scheduling, recorded.recording.meta.scheduling);
    let some =
        |cost: Option<workload::Cost>| cost.is_some_and(|cost| cost.low <= cost.typical && cost.typical <= cost.high);
    assert!(some(costs.switch) && some(costs.wake) && some(costs.ticks) && some(costs.probe), "{costs:?}");
    let (timers, awaits) =
        recorded.recording.workload.tasks.iter().flat_map(|task| &task.script).fold((0, 0), |sum, op| match op {
            Op::Sleep(_, Sleep::Timer) => (sum.0 + 1, sum.1),
            Op::Await(_) => (sum.0, sum.1 + 1),
            _ => sum,
        });
    assert_eq!(timers, 1, "only `sleep` waits for time");
    assert!(awaits >= 4, "for the pipe and for children: {awaits}");
    let [niced] = commands(&recorded, "sh -c 'exit 3'")[..] else { panic!("one niced shell") };
    // Relative to the nice value of this test; 19 is the maximum.
    let before = rustix::process::getpriority_process(None).expect("a nice value");
    let after = (before + 7).min(19);
    let change = |op: &Op| matches!(op, Op::Change { policy: Some(new), cpus: None } if i32::from(new.1) == after);
    assert!(before == after || niced.script.iter().any(change), "{before} to {after}: {:?}", niced.script);
    assert!(niced.peak_rss_bytes > 100 << 10 && niced.peak_rss_bytes < 16 << 20, "{}", niced.peak_rss_bytes);
}

/// Which child exits first depends on the scheduler, unless the parent waits for a specific one.
#[test]
fn wait_for_any_child_and_for_a_specific_child_are_distinguished() {
    let any = "exec perl -e 'for $s (.1, .05, .15) { fork or select(undef, undef, undef, $s), exit } 1 while wait > 0'";
    let named = "exec perl -e 'for $s (.1, .05, .15) { push @p, $p = fork; $p or select(undef, undef, undef, $s), exit } \
                 waitpid $_, 0 for @p'";
    let waits = |script| {
        let recorded = record_script(script)?;
        let parent = commands(&recorded, "perl")[0];
        let last_fork = parent.script.iter().rposition(|op| matches!(op, Op::Fork(_)))?;
        let waits = parent.script[last_fork..].iter().filter(|op| matches!(op, Op::Children(_) | Op::Await(_)));
        Some(waits.map(|op| if let Op::Children(most) = op { Some(*most) } else { None }).collect::<Vec<_>>())
    };
    let Some(found) = waits(any) else { return };
    assert_eq!(found, [Some(2), Some(1), None]);
    // The second child has exited before the parent waits for it.
    assert_eq!(waits(named).expect("as before"), [None, None]);
}

fn awaits(task: &TaskSpec) -> usize {
    task.script.iter().filter(|op| matches!(op, Op::Await(_))).count()
}

/// The reader starts 200 ms after the line was written, so no wakeup is involved.
#[test]
fn reader_that_does_not_block_still_awaits_the_writer() {
    let Some(recorded) = record_script("(echo line; exec true writer) | (sleep 0.2; read line; exec true reader)")
    else {
        return;
    };
    let [writer] = commands(&recorded, "true writer")[..] else { panic!("one writer: {recorded:?}") };
    let [reader] = commands(&recorded, "true reader")[..] else { panic!("one reader: {recorded:?}") };
    let posted: Vec<&Op> = writer.script.iter().filter(|op| matches!(op, Op::Post(_))).collect();
    let from_writer = reader.script.iter().filter(|op| match op {
        Op::Await(signal) => posted.contains(&&Op::Post(*signal)),
        _ => false,
    });
    // One for the first byte: a shell reads byte by byte, and the line was written at once.
    assert_eq!(from_writer.count(), 1, "{:?}\n{:?}", writer.script, reader.script);
}

const MESSAGES: usize = 50;

/// Not a test by itself, but the program that the next test records.
#[test]
#[ignore = "is run by another test"]
fn helper_process_whose_threads_exchange_messages_over_tcp() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let answer = move || {
        let (mut stream, _) = listener.accept().expect("a client");
        for _ in 0..MESSAGES {
            stream.read_exact(&mut [0]).expect("a question");
            stream.write_all(&[0]).expect("sent");
        }
    };
    let server = thread::Builder::new().name("server".into()).spawn(answer).expect("a thread");
    let mut stream = std::net::TcpStream::connect(address).expect("a server");
    for _ in 0..MESSAGES {
        stream.write_all(&[0]).expect("sent");
        stream.read_exact(&mut [0]).expect("an answer");
    }
    server.join().expect("it ends");
}

/// The kernel delivers the bytes in softirqs, whose wakeups have no waker.
#[test]
fn receiver_of_loopback_packets_awaits_their_sender() {
    let program = std::env::current_exe().expect("this program");
    let script =
        format!("exec {} --ignored --exact helper_process_whose_threads_exchange_messages_over_tcp", program.display());
    let Some(recorded) = record_script(&script) else { return };
    let tasks = &recorded.recording.workload.tasks;
    let server = tasks.iter().find(|task| task.name == "server").expect("the server's thread");
    let client = tasks.iter().max_by_key(|task| awaits(task)).expect("there are tasks");
    for task in [server, client] {
        let others = task.script.iter().filter(|op| matches!(op, Op::Sleep(..))).count();
        assert!(awaits(task) > MESSAGES * 8 / 10 && others < MESSAGES / 10, "{}: {:?}", task.name, task.script);
    }
}

#[test]
fn probe_cost_is_reported_and_the_bpf_stats_sysctl_is_unchanged() {
    let switch = || fs::read_to_string("/proc/sys/kernel/bpf_stats_enabled").ok();
    let before = switch();
    let Some(Recorded { summary, .. }) = record_script("i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done") else {
        return;
    };
    assert!(summary.probe_runs > 10 && summary.probes > Nanos::ZERO && summary.consumer > Nanos::ZERO, "{summary:?}");
    // No processor calls a program in less, and longer runs are ignored (own_time.bpf.h).
    let mean = summary.probes.0 / summary.probe_runs;
    assert!((10..20_000).contains(&mean), "{summary:?}");
    assert!(summary.wall >= summary.cpu, "one task");
    assert_eq!(switch(), before);
}

#[test]
fn recording_a_command_that_cannot_start_is_an_error() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let signals = Signals::block().expect("signals");
    let error = record("test", RecordScope::Command(&[]), WHOLE, &signals).unwrap_err().to_string();
    assert_eq!(error, "no command: give a program and its arguments");
    match record("test", RecordScope::Command(&[OsString::from("/does/not/exist")]), WHOLE, &signals) {
        Err(error @ LinkError::Spawn { .. }) => {
            assert_eq!(error.to_string(), "cannot start `/does/not/exist`: No such file or directory (os error 2)");
        }
        Err(LinkError::Host(_) | LinkError::NoBtf { .. } | LinkError::Unsupported { .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn command_lines_are_omitted_on_request() {
    let script = "seq 3 > /dev/null; : secret-token";
    let Some(whole) = record_script(script) else { return };
    let bytes = |recorded: &Recorded| format!("{:?}", recorded.recording);
    assert!(bytes(&whole).contains("secret-token") && commands(&whole, "seq 3").len() == 1);
    let Some(bare) = record_as(RecordOptions { command_lines: false, ..WHOLE }, script) else { return };
    assert!(!bytes(&bare).contains("secret-token"), "{}", bytes(&bare));
    assert_eq!(bare.recording.meta.command, "sh");
    let tasks = &bare.recording.workload.tasks;
    assert!(tasks.iter().any(|task| task.name == "seq") && tasks.iter().all(|task| task.command.is_none()));
}

#[test]
fn endless_command_is_ended_by_the_time_limit() {
    let limit = Duration::from_millis(300);
    let script = "while :; do sleep 0.02; done";
    let Some(recorded) = record_as(RecordOptions { limit: Some(limit), ..WHOLE }, script) else { return };
    assert!(recorded.summary.was_ended, "{:?}", recorded.summary);
    assert!(recorded.summary.wall >= Nanos::from_ms(300), "{}", recorded.summary.wall);
    // On a busy machine SIGTERM is sent late.
    let (sleepers, wall) = (commands(&recorded, "sleep 0.02").len() as u64, recorded.summary.wall);
    assert!((1..=wall.0 / 20_000_000 + 1).contains(&sleepers), "{sleepers} in {wall}");
    recorded.recording.workload.validate().expect("a workload");

    // If the command exits before the limit, it gets no signal.
    let Some(brief) = record_as(RecordOptions { limit: Some(limit), ..WHOLE }, "exit 3") else { return };
    assert_eq!((brief.summary.was_ended, brief.summary.status.code()), (false, Some(3)));
}

#[test]
fn processes_sessions_and_users_are_recorded() {
    let Some(recorded) = record_script("seq 2 > /dev/null; setsid seq 3 > /dev/null; :") else { return };
    let tasks = &recorded.recording.workload.tasks;
    let who = |command: &str| commands(&recorded, command)[0].who.clone();
    let (shell, child, leader) = (tasks[0].who.clone(), who("seq 2"), who("seq 3"));
    assert!(shell.tgid != child.tgid && child.tgid != leader.tgid, "processes of their own: {shell:?} {child:?}");
    assert!(shell.session.is_some() && child.session == shell.session, "{shell:?} {child:?}");
    assert!(leader.session != shell.session, "{leader:?}");
    assert!(tasks.iter().all(|task| task.who.uid == Some(rustix::process::getuid().as_raw())), "{shell:?}");
}

/// Total resource use of these tasks.
fn touched(recorded: &Recorded, prefix: &str) -> workload::Touched {
    let wanted = |task: &u32| {
        let command = recorded.recording.workload.tasks[*task as usize].command.as_deref();
        command.is_some_and(|line| line.starts_with(prefix))
    };
    let mut sum = workload::Touched::default();
    let stretches = recorded.recording.observed.stretches.iter().filter(|(task, _)| wanted(task));
    stretches.flat_map(|(_, stretches)| stretches).for_each(|stretch| sum.add(&stretch.touched));
    sum
}

/// 8 MiB with fsync(2), then through the page cache into a pipe that only `cat` reads.
#[test]
fn bytes_faults_and_memory_of_tasks_are_recorded() {
    const MIB: u64 = 1 << 20;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("data").display().to_string();
    let script = format!(
        "dd if=/dev/zero of={file} bs=1M count=8 conv=fsync 2>/dev/null; cat {file} | wc -c > /dev/null
        dd if=/dev/zero of=/dev/null bs=64M count=1 2>/dev/null"
    );
    let Some(recorded) = record_script(&script) else { return };
    let (writer, reader) = (touched(&recorded, &format!("dd if=/dev/zero of={file}")), touched(&recorded, "cat"));
    let large = touched(&recorded, "dd if=/dev/zero of=/dev/null");
    let near = |bytes: u64, expected: u64| (expected..expected + MIB).contains(&bytes);
    if reader.read == 0 {
        skip::skip("this kernel does not count bytes");
    } else {
        assert!(near(writer.read, 8 * MIB) && near(writer.written, 8 * MIB), "{writer:?}");
        assert!(near(reader.read, 8 * MIB) && near(reader.written, 8 * MIB), "{reader:?}");
        assert!(reader.device_written < MIB, "a pipe is no device: {reader:?}");
        assert!(near(large.read, 64 * MIB), "{large:?}");
    }
    // One fault per 4 KiB page, or per 2 MiB page.
    assert!(large.minor_faults > 32, "{large:?}");
    let observed = &recorded.recording.observed;
    let requests = observed.requests.iter().filter(|one| one.operation == workload::Operation::Write);
    let written: u64 = requests.map(|one| one.bytes).sum();
    if writer.device_written < 8 * MIB || observed.devices.is_empty() {
        skip::skip("the files of this test are on no block device");
    } else {
        assert!(written >= 8 * MIB, "{written} of {writer:?}: {:?}", observed.devices);
        let elapsed = recorded.recording.meta.elapsed + Nanos::from_secs(1);
        assert!(observed.requests.iter().all(|one| one.service > Nanos::ZERO && one.time <= elapsed));
    }
    for (task, footprint) in &observed.footprints {
        let peak = recorded.recording.workload.tasks[*task as usize].peak_rss_bytes;
        let now = footprint.private + footprint.shared;
        // Each counter is accurate to some dozens of pages per CPU.
        assert!(now <= peak + 4 * MIB && footprint.kernel < 4 * MIB, "task {task}: {footprint:?}, peak {peak}");
    }
    let shells = observed.footprints.values().filter(|footprint| footprint.shared > 0 && footprint.kernel > 0).count();
    assert!(observed.footprints.is_empty() || shells > 0, "{:?}", observed.footprints);
}

/// The shell works until `timeout` ends it, whatever amount that is on the replaying machine.
#[test]
fn work_ended_by_a_signal_is_recorded_as_such() {
    let Some(recorded) = record_script("timeout 0.3 sh -c 'while :; do :; done' spinner; :") else { return };
    let [spinner] = commands(&recorded, "sh -c 'while")[..] else { panic!("one spinner") };
    let until = |op: &Op| matches!(op, Op::WorkUntilPosted(_));
    let [guard] = commands(&recorded, "timeout 0.3")[..] else { panic!("one timeout") };
    let until = spinner.script.iter().find(|op| until(op));
    let Some(Op::WorkUntilPosted(signal)) = until else { panic!("{:?}", spinner.script) };
    assert!(guard.script.contains(&Op::Post(*signal)), "{:?}", guard.script);
    assert!(guard.script.iter().any(|op| matches!(op, Op::Sleep(_, Sleep::Timer))), "{:?}", guard.script);
    assert!(work(spinner) < Nanos::from_ms(100), "its start and its end: {}", work(spinner));
}

/// A spinning and a sleeping process exist before the recording begins and continue after it ends.
#[test]
fn running_processes_are_recorded_from_their_current_state() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // `spawn` returns when the descriptors are closed. The kernel writes the arguments of the new program after that.
    let start = |script: &str| {
        let shell = Command::new("sh").args(["-c", script]).spawn().expect("a shell");
        while fs::read(format!("/proc/{}/cmdline", shell.id())).expect("it lives").is_empty() {
            thread::yield_now();
        }
        shell
    };
    let mut spinner = start("while :; do :; done");
    let mut sleeper = start("while :; do sleep 0.02; done");
    let mut stranger = start("exec sleep 60");
    let processes = [spinner.id(), sleeper.id()];
    let options = RecordOptions { limit: Some(Duration::from_millis(500)), ..WHOLE };
    let signals = Signals::block().expect("signals");
    let recorded = record("test", RecordScope::Processes(&processes), options, &signals);
    for child in [&mut spinner, &mut sleeper, &mut stranger] {
        child.kill().and_then(|()| child.wait()).expect("it lives");
    }
    let recorded = match recorded {
        Err(LinkError::Host(_) | LinkError::NoBtf { .. } | LinkError::Unsupported { .. }) => return,
        other => other.expect("a recording"),
    };
    assert_eq!(recorded.summary.lost(), 0, "{:?}", recorded.summary);
    let tasks = &recorded.recording.workload.tasks;
    let of = |process: u32| {
        let mut found = tasks.iter().filter(|task| task.who.tgid == Some(process));
        found.next().unwrap_or_else(|| panic!("{process} is not in {tasks:?}"))
    };
    let TaskSpec { start, command, .. } = of(spinner.id());
    assert!(
        matches!(start, Start::At(_)),
        "the busy shell was running when the recording began, not forked: {start:?}"
    );
    assert!(command.is_some(), "the recorder read the command line of the busy shell from /proc");
    let spun = work(of(spinner.id()));
    assert!(spun > Nanos::from_ms(20) && spun <= recorded.summary.wall, "only what it did meanwhile: {spun}");
    let forks = of(sleeper.id()).script.iter().filter(|op| matches!(op, Op::Fork(_))).count();
    assert!((2..=25).contains(&forks), "{forks} in half a second");
    assert!(tasks.iter().all(|task| task.who.tgid != Some(stranger.id())), "it was not asked for");
    // The two processes, and usually a `sleep` that one of them started.
    assert!((2..=3).contains(&recorded.summary.unfinished), "{:?}", recorded.summary);
    recorded.recording.workload.validate().expect("a workload");

    let error = record("test", RecordScope::Processes(&[u32::MAX]), options, &signals).unwrap_err();
    assert_eq!(error.to_string(), "there is no process 4294967295");
}
