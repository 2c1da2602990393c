// SPDX-License-Identifier: GPL-2.0-only
//! Groups and users of workloads in a real kernel: a scheduler gets the same cgroup callbacks as in the model, and
//! `weir run` leaves no cgroup behind. Needs root in a kernel with sched_ext and cgroup v2, for example in a virtual
//! machine, and `weir` in the `PATH`. Elsewhere every test prints why it is skipped and passes.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{env, thread};
use tempfile::TempDir;

/// Scheduler that prints all cgroup callbacks (`crates/kernel-model/tests/schedulers/groups.bpf.c`).
const LISTENER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/groups.bpf.o"));
const TOP: &str = "/sys/fs/cgroup";
const TRACE: &str = "/sys/kernel/tracing/trace";
const GROUPS: &str = r#"{
  "taskgroups": {"/a": {"weight": 300}, "/a/x": {"weight": 50, "cap_percent": 50, "hard": true, "uid": 1001},
                 "/b": {"weight": 700}},
  "tasks": {
    "p": {"taskgroup": "/a/x", "loop": 5, "run": 1000, "sleep": 1000},
    "q": {"taskgroup": "/a", "loop": 5, "run": 1000, "sleep": 1000},
    "r": {"taskgroup": "/b", "loop": 5, "run": 1000, "sleep": 1000},
    "s": {"loop": 5, "run": 1000, "sleep": 1000}
  }
}"#;

/// Serializes the tests: only one scheduler can be loaded.
static TURN: Mutex<()> = Mutex::new(());

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
    let controllers = fs::read_to_string(format!("{TOP}/cgroup.controllers")).unwrap_or_default();
    let lacks = match &weir {
        _ if !Path::new("/sys/kernel/sched_ext").exists() => "this kernel has no sched_ext",
        None => "no weir on the search path",
        _ if !controllers.contains("cpu") => "no cgroup v2 with the cpu controller",
        _ if File::options().write(true).open(format!("{TOP}/cgroup.procs")).is_err() => "not root",
        Some(weir) => {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("listener.bpf.o"), LISTENER).unwrap();
            fs::write(folder.path().join("g.json"), GROUPS).unwrap();
            let endless = GROUPS.replace(r#""loop": 5"#, r#""loop": -1"#);
            let endless = endless.replacen('{', r#"{"global": {"duration": 60},"#, 1);
            fs::write(folder.path().join("endless.json"), endless).unwrap();
            return Some(Here { weir: weir.clone(), folder, _turn: turn });
        }
    };
    skip::skip(format_args!("{lacks}"));
    None
}

impl Here {
    fn start(&self, args: &[&str]) -> Child {
        let file = |name| File::create(self.folder.path().join(name)).unwrap();
        let mut command = Command::new(&self.weir);
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null());
        command.stdout(file("out")).stderr(file("err")).spawn().unwrap()
    }

    fn run(&self, args: &[&str]) -> (Option<i32>, String) {
        let status = self.start(args).wait().unwrap();
        let read = |name| fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        (status.code(), read("out") + &read("err"))
    }
}

/// Cgroups of any `weir run`.
fn left() -> Vec<String> {
    let names = fs::read_dir(TOP).unwrap().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("weir.")).collect()
}

fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Callbacks for groups in order, and for each task separately. Those of other cgroups and tasks are omitted.
fn heard(printed: &str, around: &str) -> Vec<String> {
    let mut lines: Vec<String> = printed.lines().map(|line| line.replace(around, "weir")).collect();
    let is_ours = |line: &String| {
        let of_group = ["weir,", "a,", "x,", "b,"].iter().any(|name| line.starts_with(&format!("init {name}")));
        let of_task = ["p ", "q ", "r ", "s "].iter().any(|name| line.starts_with(name));
        // A real thread gets its name and user only after its birth.
        of_group || of_task && !line.contains("session") && !line.contains("is born")
    };
    lines.retain(is_ours);
    // Tasks run concurrently, so they are sorted by name.
    lines.sort_by_key(|line| if line.starts_with("init") { String::new() } else { line[..1].to_owned() });
    lines
}

#[test]
fn cgroup_callbacks_are_the_same_as_in_the_simulator() {
    let Some(here) = here() else { return };
    let (status, simulated) = here.run(&["sim", "./listener.bpf.o", "-m", "pu:4", "-w", "./g.json"]);
    assert_eq!(status, Some(0), "{simulated}");
    // A line is `0.1 ms CPU 0 init: text`; the text follows the last colon and blank.
    let simulated: String = simulated.lines().map(text_of).collect::<Vec<_>>().join("\n");
    fs::write(TRACE, "").unwrap();
    let child = here.start(&["run", "./listener.bpf.o", "-w", "./g.json"]);
    let around = format!("weir.{}", child.id());
    let status = { child }.wait().unwrap();
    let trace = fs::read_to_string(TRACE).unwrap();
    let real: String = trace.lines().map(text_of).collect::<Vec<_>>().join("\n");
    let said = fs::read_to_string(here.folder.path().join("err")).unwrap_or_default();
    assert_eq!(status.code(), Some(0), "{said}\n{real}");
    let (simulated, real) = (heard(&simulated, "weir"), heard(&real, &around));
    assert_eq!(simulated, real);
    assert_eq!(
        simulated[..3],
        ["init weir, weight 100, quota -1", "init a, weight 300, quota -1", "init x, weight 50, quota 50000"]
    );
    for line in ["p goes from weir to x", "p ends, of user 1001", "q ends, of user 0"] {
        assert!(simulated.iter().any(|heard| heard == line), "{line}: {simulated:?}");
    }
    assert_eq!(left(), Vec::<String>::new());
}

/// Text printed by the scheduler, from a line of the kernel's trace or of a simulation.
fn text_of(line: &str) -> &str {
    let words = ["init ", "exit ", "p ", "q ", "r ", "s "];
    let begins = |at: &usize| words.iter().any(|word| line[*at..].starts_with(word));
    let after = line.match_indices(": ").map(|(at, _)| at + 2).find(begins);
    after.map_or(line, |at| &line[at..])
}

#[test]
fn threads_are_in_their_cgroups_which_are_removed_after_an_interrupt() {
    let Some(here) = here() else { return };
    let before = fs::read_to_string(format!("{TOP}/cgroup.subtree_control")).unwrap();
    let mut child = here.start(&["run", "kernel", "-w", "./endless.json"]);
    let around = format!("{TOP}/weir.{}", child.id());
    let read = |file: &str| fs::read_to_string(format!("{around}/{file}")).unwrap_or_default().trim().to_owned();
    let groups = ["a/x", "a", "b"];
    eventually("a thread in each group", || {
        groups.iter().all(|group| !read(&format!("{group}/cgroup.threads")).is_empty())
    });
    let weights = groups.map(|group| read(&format!("{group}/cpu.weight")));
    assert_eq!(weights, ["50", "300", "700"]);
    assert_eq!(read("a/x/cpu.max"), "50000 100000");
    let thread = read("a/x/cgroup.threads");
    let status = || fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    // The real UID is that of the group; the others stay.
    eventually("a thread of user 1001", || status().contains("Uid:\t1001\t0\t0\t0"));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    child.wait().unwrap();
    assert_eq!(left(), Vec::<String>::new());
    assert_eq!(fs::read_to_string(format!("{TOP}/cgroup.subtree_control")).unwrap(), before);
}

#[test]
fn cgroups_left_by_a_killed_run_are_removed_by_the_next() {
    let Some(here) = here() else { return };
    let mut child = here.start(&["run", "kernel", "-w", "./endless.json"]);
    let name = format!("weir.{}", child.id());
    eventually("its groups", || Path::new(&format!("{TOP}/{name}/b/cgroup.threads")).exists());
    let mut other = here.start(&["run", "kernel", "-w", "./endless.json"]);
    let alive = format!("weir.{}", other.id());
    eventually("groups of another", || Path::new(&format!("{TOP}/{alive}/b/cgroup.threads")).exists());
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the cgroup is empty", || {
        fs::read_to_string(format!("{TOP}/{name}/cgroup.events")).unwrap_or_default().contains("populated 0")
    });
    let (status, said) = here.run(&["run", "kernel", "--", "true"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains(&format!("removed cgroup {name}")), "{said}");
    assert_eq!(left(), [alive], "cgroups in use are kept");
    kill(Pid::from_raw(other.id() as i32), Signal::SIGTERM).unwrap();
    other.wait().unwrap();
    assert_eq!(left(), Vec::<String>::new());
}
