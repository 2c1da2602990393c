// SPDX-License-Identifier: GPL-2.0-only
//! `weir run` in a kernel with sched_ext: ejections and interrupts while a command runs, and fault plans. Needs root
//! in such a kernel, for example in a virtual machine, and `weir` in the `PATH`. Elsewhere every test prints why it
//! is skipped and passes.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Deserializer, Value};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{env, thread};
use tempfile::TempDir;

const FAULTY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/faulty.bpf.o"));
const SCX: &str = "/sys/kernel/sched_ext";
const CPUS: &str = "/sys/devices/system/cpu";

/// Serializes the tests: only one scheduler can be loaded.
static TURN: Mutex<()> = Mutex::new(());

/// Directory for the output of a test, and the lock on the tests.
struct Here {
    folder: TempDir,
    weir: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

/// `None`, with a message, if the tests cannot run here.
fn here() -> Option<Here> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let path = env::var_os("PATH").unwrap_or_default();
    let weir = env::split_paths(&path).map(|folder| folder.join("weir")).find(|program| program.is_file());
    let rights = File::options().write(true).open(format!("{CPUS}/cpu1/online"));
    let lacks = match (&weir, rights) {
        _ if !Path::new(SCX).exists() => "this kernel has no sched_ext",
        (None, _) => "no weir on the search path",
        (_, Err(_)) => "not root, or one CPU only",
        _ => {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("faulty.bpf.o"), FAULTY).unwrap();
            return Some(Here { folder, weir: weir.clone()?, _turn: turn });
        }
    };
    skip::skip(format_args!("{lacks}"));
    None
}

/// A finished `weir run`.
struct Ended {
    status: Option<i32>,
    out: String,
    err: String,
}

impl Here {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The faulty scheduler with this fault; a task that waits for 1 s is a stall.
    fn fault(&self, number: u32) -> &'static str {
        let profile = format!("[ops]\ntimeout_ms = 1000\n[rodata]\nfault = {number}\n");
        fs::write(self.path("faulty.toml"), profile).unwrap();
        "./faulty.bpf.o"
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null());
        command.stdout(File::create(self.path("out")).unwrap()).stderr(File::create(self.path("err")).unwrap());
        command
    }

    fn start(&self, args: &[&str]) -> Child {
        self.command(self.weir.to_str().unwrap(), args).spawn().unwrap()
    }

    fn end(&self, mut child: Child) -> Ended {
        let status = wait(&mut child, 90);
        let ended = Ended { status: status.code(), out: self.read("out"), err: self.read("err") };
        eprintln!("{:?}\n{}\n{}", ended.status, shorten(&ended.out), shorten(&ended.err));
        assert_eq!(scx("state"), "disabled", "weir has exited");
        ended
    }

    fn run(&self, args: &[&str]) -> Ended {
        self.end(self.start(args))
    }

    /// Waits until a file in the directory contains this word.
    fn await_word(&self, name: &str, word: &str) {
        eventually(60, word, || self.read(name).contains(word));
    }
}

/// A failed test may leave CPUs offline.
impl Drop for Here {
    fn drop(&mut self) {
        for cpu in 1..64 {
            let path = format!("{CPUS}/cpu{cpu}/online");
            if fs::read_to_string(&path).is_ok_and(|online| online.trim() == "0") {
                let _ = fs::write(path, "1");
            }
        }
    }
}

fn set_online(cpu: u32, online: bool) {
    fs::write(format!("{CPUS}/cpu{cpu}/online"), if online { "1" } else { "0" }).unwrap();
}

fn shorten(text: &str) -> String {
    text.lines().take(30).map(|line| line.chars().take(160).collect::<String>() + "\n").collect()
}

fn wait(child: &mut Child, at_most_s: u64) -> ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if began.elapsed() > Duration::from_secs(at_most_s) {
            child.kill().unwrap();
            panic!("it does not end within {at_most_s} s");
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn eventually(at_most_s: u64, what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(at_most_s), "not within {at_most_s} s: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn scx(file: &str) -> String {
    fs::read_to_string(format!("{SCX}/{file}")).unwrap_or_default().trim().to_owned()
}

fn online() -> String {
    fs::read_to_string(format!("{CPUS}/online")).unwrap().trim().to_owned()
}

/// Parses a text that consists of JSON documents only.
fn documents(text: &str) -> Vec<Value> {
    Deserializer::from_str(text).into_iter().collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}

/// User time of a CPU so far, in ticks.
fn user_ticks(cpu: u32) -> u64 {
    let text = fs::read_to_string("/proc/stat").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("cpu{cpu} "))).unwrap_or("0");
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn hotplug_of_middle_cpus_reloads_schedulers_without_hotplug_ops() {
    let Some(here) = here() else { return };
    let sequence = || scx("enable_seq").parse::<u64>().unwrap();
    // Number of reloads per hotplug event.
    for (scheduler, each) in [("fifo", 1), ("bfs", 0)] {
        let loaded = |expected: u64| {
            eventually(30, "it is loaded again", || sequence() >= expected && scx("state") == "enabled");
            thread::sleep(Duration::from_millis(300));
            assert_eq!(sequence(), expected, "{scheduler}");
        };
        let first = sequence() + 1;
        let child = here.start(&["run", scheduler]);
        loaded(first);
        for (count, (cpu, on)) in (1..).zip([(1, false), (3, false), (1, true), (3, true)]) {
            set_online(cpu, on);
            loaded(first + each * count);
        }
        signal(&child, Signal::SIGTERM);
        assert_eq!(here.end(child).status, Some(0));

        // As after booting with nosmt: the CPU is offline from the start.
        set_online(1, false);
        let busy = "for i in 1 2 3 4 5 6; do seq 30000 | tail -n 1 & done; wait";
        let ended = here.run(&["run", scheduler, "--format", "json", "--", "sh", "-c", busy]);
        let run = &documents(&ended.out)[0]["runs"][0];
        let used = |cpu: u32| {
            let cpus = run["tasks"].as_array().unwrap().iter().map(|task| task["cpus_used"].as_str().unwrap());
            cpus.filter_map(|cpus| cpus.parse::<ids::CpuSet>().ok()).any(|cpus| cpus.contains(ids::CpuId(cpu)))
        };
        assert_eq!((ended.status, [0, 1, 2, 3].map(used)), (Some(0), [true, false, true, true]), "{scheduler}");
        assert_eq!(share(run, "offline"), 0.25, "{scheduler}");

        // The CPU comes online. bfs has a hotplug op, but its tables lack this CPU.
        let first = sequence() + 1;
        let child = here.start(&["run", scheduler]);
        loaded(first);
        set_online(1, true);
        loaded(first + 1);
        let hogs: Vec<Child> =
            (0..6).map(|_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap()).collect();
        let before = user_ticks(1);
        eventually(30, "CPU 1 works", || user_ticks(1) > before + 20);
        for mut hog in hogs {
            hog.kill().unwrap();
            hog.wait().unwrap();
        }
        signal(&child, Signal::SIGTERM);
        assert_eq!(here.end(child).status, Some(0));
    }
}

/// Not a test by itself: the task that triggers the fault.
#[test]
#[ignore = "it is part of another test"]
fn helper_process_that_sleeps_at_nice_17() {
    rustix::process::nice(17).unwrap();
    thread::sleep(Duration::from_millis(20));
}

/// Writes "ready", waits half a second, starts a task of nice 17, and continues for two seconds, logging the state of
/// sched_ext.
const SCRIPT: &str = "echo ready >progress; sleep 0.5; \
                      MARKED --ignored --exact helper_process_that_sleeps_at_nice_17 >marked; \
                      for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do \
                      cat /sys/kernel/sched_ext/state >>progress; sleep 0.1; done; echo end >>progress";

fn script() -> String {
    SCRIPT.replace("MARKED", env::current_exe().unwrap().to_str().unwrap())
}

#[test]
fn command_continues_under_the_default_scheduler_after_an_ejection() {
    let Some(here) = here() else { return };
    let cases = [
        (9, 1025, "scx_bpf_error", "asked to fail by a task of nice 17"),
        (8, 1026, "runnable task stall", "failed to run for"),
        (0, 67, "disabled by sysrq-S", ""),
    ];
    for (fault, kind, reason, message) in cases {
        let scheduler = here.fault(fault);
        let _ = fs::remove_file(here.path("progress"));
        let child = here.start(&["run", scheduler, "--format", "json", "--stats", "1", "--", "sh", "-c", &script()]);
        if fault == 0 {
            here.await_word("progress", "enabled");
            fs::write("/proc/sysrq-trigger", "S").unwrap();
        }
        let Ended { status, out, err } = here.end(child);
        assert_eq!(status, Some(1), "{reason}");
        let progress = here.read("progress");
        assert!(progress.ends_with("disabled\nend\n"), "{reason}: continues under the default scheduler: {progress}");
        let documents = documents(&out);
        let run = &documents.last().unwrap()["runs"][0];
        assert!(documents.iter().rev().skip(1).all(|line| line["interval_ns"].is_u64()), "{out}");
        assert_eq!(run["outcome"], "ejected");
        assert_eq!((&run["exit"]["kind"], &run["exit"]["reason"]), (&kind.into(), &reason.into()));
        assert!(run["exit"]["message"].as_str().unwrap().contains(message), "{run:#}");
        let dump = run["exit"]["dump"].as_str().unwrap();
        assert_eq!(dump.contains("triggered exit kind"), kind >= 1024, "{dump}");
        assert_eq!(run["meter"]["failure"], Value::Null, "the command itself is fine");
        // Measured until the ejection: after the command began and before it ended.
        let elapsed_ms = run["elapsed_ns"].as_u64().unwrap() / 1_000_000;
        assert!((300..60_000).contains(&elapsed_ms), "{elapsed_ms}");
        assert!(!err.contains("EJECTED"), "JSON contains the exit: {err}");
    }
}

#[test]
fn text_report_shows_time_reason_and_dump_of_an_ejection() {
    let Some(here) = here() else { return };
    let scheduler = here.fault(9);
    let Ended { status, out, err } = here.run(&["run", scheduler, "--", "sh", "-c", &(script() + "; exit 5")]);
    assert_eq!(status, Some(1));
    let lines: Vec<&str> = out.lines().collect();
    let ejected = lines.iter().position(|line| line.starts_with("EJECTED after ")).unwrap_or_else(|| panic!("{out}"));
    assert_eq!(lines[ejected + 1..][..2], ["  scx_bpf_error", "  asked to fail by a task of nice 17"], "{out}");
    assert!(
        out.contains("WARNING: the command failed: exit status: 5"),
        "the exit status of the command is reported: {out}"
    );
    assert!(err.contains("triggered exit kind 1025"), "{err}");
}

#[test]
fn watching_ends_when_the_scheduler_is_ejected() {
    let Some(here) = here() else { return };
    let scheduler = here.fault(0);
    let child = here.start(&["run", scheduler, "--format", "json"]);
    here.await_word("out", "interval_ns");
    fs::write("/proc/sysrq-trigger", "S").unwrap();
    let Ended { status, out, .. } = here.end(child);
    let documents = documents(&out);
    let last = documents.last().unwrap();
    assert_eq!((status, &last["outcome"], &last["exit"]["kind"]), (Some(1), &"ejected".into(), &67.into()));
    assert_eq!(out.lines().count(), documents.len(), "one document per line: {out}");
}

/// Logs each signal and exits after the first one; otherwise exits by itself after 2 s.
const TRAPS: &str = "echo $$ >pid; trap 'echo INT >>got; sleep 0.3; exit 7' INT; trap 'echo TERM >>got; exit 8' TERM; \
                     echo ready >progress; while :; do sleep 0.1; done";
const DEAF: &str = "trap '' INT; echo $$ >pid; echo ready >progress; sleep 2";

/// Starts weir as the foreground process of a terminal of its own; writing to the file types into it.
fn start_on_terminal(here: &Here, args: &[&str]) -> (Child, File) {
    let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&keyboard).unwrap();
    unlockpt(&keyboard).unwrap();
    let name = ptsname(&keyboard, Vec::new()).unwrap().into_string().unwrap();
    let terminal = OpenOptions::new().read(true).write(true).open(name).unwrap();
    let mut words = vec!["-c", here.weir.to_str().unwrap()];
    words.extend(args);
    let child = here.command("setsid", &words).stdin(terminal).spawn().unwrap();
    (child, File::from(keyboard))
}

#[test]
fn interrupt_reaches_the_command_once_and_weir_exits_after_it() {
    let Some(here) = here() else { return };
    // From the terminal, which sends SIGINT to both; or to weir alone, which forwards it.
    let cases = [
        ("typed", TRAPS, Some(1), "INT\n", "exit status: 7"),
        ("INT", TRAPS, Some(1), "INT\n", "exit status: 7"),
        ("TERM", TRAPS, Some(1), "TERM\n", "exit status: 8"),
        ("typed", DEAF, Some(0), "", ""),
    ];
    for (how, script, expected, got, failure) in cases {
        for name in ["got", "progress", "pid"] {
            let _ = fs::remove_file(here.path(name));
        }
        let args = ["run", "fifo", "--format", "json", "--", "sh", "-c", script];
        let (child, mut keyboard) = match how {
            "typed" => {
                let (child, keyboard) = start_on_terminal(&here, &args);
                (child, Some(keyboard))
            }
            _ => (here.start(&args), None),
        };
        here.await_word("progress", "ready");
        assert_eq!(scx("state"), "enabled");
        thread::sleep(Duration::from_millis(300));
        match (how, &mut keyboard) {
            (_, Some(keyboard)) => keyboard.write_all(b"\x03").unwrap(),
            ("INT", _) => signal(&child, Signal::SIGINT),
            _ => signal(&child, Signal::SIGTERM),
        }
        let Ended { status, out, .. } = here.end(child);
        assert_eq!((status, here.read("got").as_str()), (expected, got), "{how}");
        let run = &documents(&out)[0]["runs"][0];
        let said = run["meter"]["failure"].as_str().unwrap_or_default();
        assert!(said.ends_with(failure) && said.is_empty() == failure.is_empty(), "{how}: {said}");
        assert_eq!(run["outcome"], "completed", "{how}");
        let pid = here.read("pid");
        assert!(!Path::new(&format!("/proc/{}", pid.trim())).exists(), "{how}: the command is reaped");
    }
}

fn ns(value: &Value) -> f64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}")) as f64
}

/// Share in total CPU time, offline time included.
fn share(run: &Value, owner: &str) -> f64 {
    let all: f64 = run["cpu_ns"].as_object().unwrap().values().map(ns).sum();
    ns(&run["cpu_ns"][owner]) / all
}

#[test]
fn fault_plan_has_the_same_effect_as_in_the_simulator() {
    let Some(here) = here() else { return };
    let before = online();
    let plan = "cpu1:offline@1s,cpu2:offline@4s,cpu2:online@7s,cpu1:online@10s";
    // On few emulated CPUs reloading takes longer than the interval of the faults, so fifo gets lighter work.
    let light = r#"{"tasks": {"light": {"instance": 4, "loop": -1, "run": 1000, "sleep": 19000}}}"#;
    fs::write(here.path("light.json"), light).unwrap();
    for (scheduler, workload, tasks, restarts) in [("fifo", "./light.json", 4, 4), ("bfs", "hogs", 8, 0)] {
        let common = [scheduler, "-w", workload, "--for", "12s", "--faults", plan, "--format", "json"];
        let real = here.run(&[&["run"], &common[..]].concat());
        let simulated = here.run(&[&["sim"], &common[..]].concat());
        assert_eq!((real.status, simulated.status), (Some(0), Some(0)));
        assert_eq!(online(), before);
        let (real, simulated) = (documents(&real.out).remove(0), documents(&simulated.out).remove(0));
        let (real, simulated) = (&real["runs"][0], &simulated["runs"][0]);
        for run in [real, simulated] {
            assert_eq!(run["restarts"], restarts, "{scheduler}");
            // Simulated runs also list kthreads.
            let own = run["tasks"].as_array().unwrap().iter().filter(|task| task["kernel_thread"] != true);
            assert_eq!(own.count(), tasks, "{scheduler}: {run:#}");
        }
        let cpus = before.parse::<ids::CpuSet>().unwrap().len() as f64;
        // CPUs 1 and 2 are offline for 9 s and 3 s of 12 s.
        let expected = 1.0 / cpus;
        for owner in ["offline", "run", "idle"] {
            let (here, there) = (share(real, owner), share(simulated, owner));
            eprintln!("{scheduler}: {owner} {here:.3} real, {there:.3} simulated");
            // Other activity of the real machine, such as loading a scheduler four times, counts too.
            let fits = (here - there).abs() < 0.1 || workload != "hogs" && owner != "offline";
            assert!(fits, "{scheduler}: {owner} {here:.3} real, {there:.3} simulated");
        }
        let work = |run: &Value| run["tasks"].as_array().unwrap().iter().map(|task| ns(&task["work_ns"])).sum::<f64>();
        let (done, foretold) = (work(real), work(simulated));
        // Informational: the speed of an emulated CPU depends on the load of its host.
        eprintln!("{scheduler}: work {:.0} ms real, {:.0} ms simulated", done / 1e6, foretold / 1e6);
        assert!((share(real, "offline") - expected).abs() < 0.05, "{scheduler}");
        assert!((share(simulated, "offline") - expected).abs() < 0.02, "{scheduler}");
    }
}

/// Hotplug by another process.
#[test]
fn offline_time_of_an_externally_offlined_cpu_is_exact() {
    let Some(here) = here() else { return };
    for words in [&["run"][..], &["run", "bfs"]] {
        let _ = fs::remove_file(here.path("progress"));
        let script = "echo ready >progress; sleep 4";
        let child = here.start(&[words, &["--stats", "1", "--format", "json", "--", "sh", "-c", script]].concat());
        here.await_word("progress", "ready");
        // The offline time is at least the time between the ends of these calls, and at most that between their
        // starts.
        let before = Instant::now();
        set_online(1, false);
        let away = Instant::now();
        thread::sleep(Duration::from_millis(1_200));
        let back = Instant::now();
        set_online(1, true);
        let (least, most) = ((back - away).as_nanos() as f64, before.elapsed().as_nanos() as f64);
        let Ended { status, out, err } = here.end(child);
        assert_eq!(status, Some(0));
        let run = &documents(&out)[0]["runs"][0];
        let lines = documents(&err);
        let offline = ns(&run["cpu_ns"]["offline"]);
        assert!((least..most).contains(&offline), "{words:?}: {offline} of {least} to {most}");
        let all: f64 = run["cpu_ns"].as_object().unwrap().values().map(ns).sum();
        let cpus = online().parse::<ids::CpuSet>().unwrap().len() as f64;
        assert_eq!(all, cpus * ns(&run["elapsed_ns"]), "every nanosecond has one owner");
        // The live lines before and after cover all of it too.
        let watched: f64 = lines.iter().map(|line| ns(&line["cpu_ns"]["offline"])).sum();
        assert!((least..most).contains(&watched), "{words:?}: {watched} of {least} to {most}");
        for line in &lines {
            let all: f64 = line["cpu_ns"].as_object().unwrap().values().map(ns).sum();
            assert_eq!(all, cpus * ns(&line["interval_ns"]), "{line}");
        }
    }
}

#[test]
fn cpus_are_restored_however_the_run_ends() {
    let Some(here) = here() else { return };
    let before = online();
    let away = || {
        eventually(30, "CPU 1 is away", || !online().starts_with("0-"));
    };
    let plan = ["--faults", "cpu1:offline@200ms"];
    // CPUs are restored at the end of the command, after signals, after an ejection, and without a scheduler.
    let sleep = |seconds: &'static str| ["--", "sleep", seconds];
    let ended = here.run(&[&["run", "bfs"], &plan[..], &sleep("1")].concat());
    assert_eq!((ended.status, online()), (Some(0), before.clone()), "{}", ended.err);
    assert!(ended.err.contains("weir: CPUs restored: 1"), "{}", ended.err);
    for stop in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        for words in [&["run", "bfs"][..], &["run"]] {
            let child = here.start(&[words, &plan[..]].concat());
            away();
            signal(&child, stop);
            assert_eq!((here.end(child).status, online()), (Some(0), before.clone()), "{stop} {words:?}");
        }
    }
    let child = here.start(&[&["run", "bfs"], &plan[..], &sleep("60")].concat());
    away();
    signal(&child, Signal::SIGHUP);
    assert_eq!((here.end(child).status, online()), (Some(1), before.clone()));
    let child = here.start(&[&["run", "bfs"], &plan[..], &sleep("3")].concat());
    away();
    fs::write("/proc/sysrq-trigger", "S").unwrap();
    assert_eq!((here.end(child).status, online()), (Some(1), before.clone()));
    let ended = here.run(&[&["run", "bfs"], &plan[..], &["--", "/does/not/exist"]].concat());
    assert_eq!((ended.status, online()), (Some(2), before));
}

#[test]
fn unsupported_fault_plan_is_rejected_before_loading() {
    let Some(here) = here() else { return };
    let sequence = scx("enable_seq");
    let refused = [
        ("cpu99:offline@1s", "weir: error: --faults: cpu99:offline@1s: this machine has CPUs 0-"),
        ("cpu1:online@1s", "weir: error: --faults: cpu1:online@1s: CPU 1 of this machine is online from"),
        ("cpu0:offline@1s", "weir: error: --faults: \"cpu0:offline@1s\": CPU 0 cannot go offline"),
        ("suspend@1s+500ms", "weir: error: --faults: suspend@1s+500ms: "),
    ];
    for (plan, expected) in refused {
        let Ended { status, out, err } = here.run(&["run", "fifo", "--faults", plan, "--", "true"]);
        assert_eq!((status, out.as_str(), err.lines().count()), (Some(2), "", 1), "{plan}");
        assert!(err.starts_with(expected), "{plan}: {err}");
    }
    assert_eq!(scx("enable_seq"), sequence);
}

/// Programs of the scheduler are called on time, not earlier, and their return values are reported.
#[test]
fn planned_calls_are_made_on_time() {
    let Some(here) = here() else { return };
    let calls = ["--call", "switch_groups:steal=0@300ms", "--call", "switch_groups:steal=1,donate=1@900ms"];
    let late = ["--call", "switch_groups@10min"];
    let ended =
        here.run(&[&["run", "nix@groups", "--format", "json"], &calls[..], &late, &["--", "sleep", "2"]].concat());
    let made = documents(&ended.out)[0]["runs"][0]["calls"].clone();
    let at = |index: usize| made[index]["made_ns"].as_u64().unwrap() / 1_000_000;
    assert!((300..900).contains(&at(0)) && (900..2_000).contains(&at(1)), "{made}");
    assert_eq!((&made[0]["returned"], &made[1]["returned"], &made[2]["made_ns"]), (&0.into(), &0.into(), &Value::Null));
    assert_eq!(ended.status, Some(0));

    // No job has this name.
    let call = ["--call", "assign:group=db,cpus=1@100ms"];
    let ended = here.run(&[&["run", "sets"], &call[..], &["--", "sleep", "1"]].concat());
    assert_eq!(ended.status, Some(1));
    assert!(ended.out.contains("CALL FAILED: assign:group=db,cpus=1@100ms returned -2"), "{}", ended.out);

    // Without a command, calls are reported as they are made.
    let child = here.start(&["run", "nix@groups", "--call", "switch_groups:steal=1@100ms"]);
    here.await_word("err", "switch_groups:steal=1@100ms: called after");
    signal(&child, Signal::SIGTERM);
    let ended = here.end(child);
    assert!(ended.err.contains("returned 0") && ended.status == Some(0), "{}", ended.err);

    let ended = here.run(&["run", "fifo", "--call", "switch_groups@1s", "--", "true"]);
    assert!(ended.err.contains("unknown program of the object in section `syscall`"), "{}", ended.err);
    assert_eq!((ended.status, scx("state").as_str()), (Some(2), "disabled"));
}

/// A job has one of four CPUs and later three: as in the model, `db` gets half of the CPU time.
#[test]
fn assign_call_moves_cpus_between_jobs() {
    let Some(here) = here() else { return };
    if online() != "0-3" {
        skip::skip("this test needs four CPUs");
        return;
    }
    let jobs = r#"{"global": {"duration": 6},
        "taskgroups": {"/db": {"reserve": {"cpus": 1}}, "/rest": {}},
        "tasks": {"db": {"instance": 4, "taskgroup": "/db", "loop": -1, "run": 10000},
                  "rest": {"instance": 4, "taskgroup": "/rest", "loop": -1, "run": 10000}}}"#;
    fs::write(here.path("jobs.json"), jobs).unwrap();
    let percent = |more: &[&str]| {
        let ended = here.run(&[&["run", "sets", "-w", "./jobs.json", "--format", "json"], more].concat());
        assert_eq!(ended.status, Some(0));
        let run = documents(&ended.out)[0]["runs"][0].clone();
        let ran = |index: usize| run["groups"][index]["cpu_ns"].as_u64().unwrap();
        ran(0) * 100 / (ran(0) + ran(1))
    };
    let (still, moved) = (percent(&[]), percent(&["--call", "assign:group=db,cpus=3@3s"]));
    assert!((20..=30).contains(&still) && (44..=56).contains(&moved), "{still} %, {moved} %");
}
