// SPDX-License-Identifier: GPL-2.0-only
//! Which tasks are processes, threads and session leaders in the kernel; and that no task survives a kill.

use super::*;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use workload::Who;

/// Kernel attributes of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Kin {
    tid: u32,
    tgid: u32,
    parent: u32,
    session: u32,
}

/// All tasks of the child processes of `process`, by name.
fn kin(process: u32) -> BTreeMap<String, Kin> {
    let mut kin = BTreeMap::new();
    for path in tasks_of_children(process) {
        let number = |path: &Path| path.file_name().and_then(|name| name.to_str()?.parse().ok());
        let (Ok(comm), Some(fields)) = (fs::read_to_string(path.join("comm")), stat(&path)) else { continue };
        let (Some(tid), Some(tgid)) = (number(&path), path.ancestors().nth(2).and_then(number)) else { continue };
        let field = |index: usize| fields[index].parse().unwrap();
        kin.insert(comm.trim().to_owned(), Kin { tid, tgid, parent: field(1), session: field(3) });
    }
    kin
}

/// Executes until all tasks with these names exist, and passes their kernel attributes to `check`.
fn look(workload: &Workload, names: &[&str], check: impl FnOnce(u32, &BTreeMap<String, Kin>)) -> ExecutionResult {
    let options = Options { duration: Some(Nanos::from_secs(60)), ..options() };
    let prepared = PreparedWorkload::prepare(workload, &options).unwrap();
    prepared.begin(|running| {
        wait_until(|| names.iter().all(|name| kin(running.coordinator()).contains_key(*name)));
        check(running.coordinator(), &kin(running.coordinator()));
        running.stopper().stop();
        let result = running.join().unwrap();
        assert!(result.tasks.iter().all(|task| !is_alive(task.tid)));
        result
    })
}

/// A kernel session belongs to the process that created it, so all IDs of a recording can be distinguished.
#[test]
fn tasks_are_processes_threads_and_session_leaders_as_in_the_workload() {
    let own = |name: &str, who: (u32, u32), script: Vec<Op>| {
        let who = Who { tgid: Some(who.0), session: Some(who.1), ..Who::default() };
        TaskSpec { start: Start::Forked, who, ..spec(name, script) }
    };
    let long = || nap(60_000);
    let root =
        TaskSpec { start: Start::At(Nanos::ZERO), ..own("root", (10, 5), vec![Op::Fork(1), Op::Fork(2), long()]) };
    let mut workload = workload(vec![
        root,
        own("thread", (10, 5), vec![Op::Fork(3), Op::Fork(4), long()]),
        own("child", (11, 5), vec![Op::Fork(5), long()]),
        own("second", (10, 5), vec![long()]),
        own("leader", (12, 6), vec![Op::Fork(6), Op::Fork(7), long()]),
        // Forked by a process other than the one of the same ID.
        own("stray", (10, 5), vec![long()]),
        own("led", (13, 6), vec![long()]),
        own("fellow", (12, 6), vec![long()]),
    ]);
    workload.tasks.push(spec("unknown", vec![long()]));
    let names: Vec<&str> = workload.tasks.iter().map(|task| task.name.as_str()).collect();
    let parents = [None, Some(0), Some(0), Some(1), Some(1), Some(2), Some(4), Some(4), None];
    look(&workload, &names, |coordinator, kin| {
        let own_session = stat(Path::new("/proc/self")).unwrap()[3].parse::<u32>().unwrap();
        let mut executor = Executor::new(&workload);
        for (index, parent) in (0..).zip(parents) {
            // All tasks execute the same script; only their processes and sessions matter.
            match parent {
                None if index == 0 || index == 8 => executor.started(TaskId(index), index, Nanos::ZERO),
                parent => executor.forked(TaskId(index), index, TaskId(parent.unwrap_or_default()), Nanos::ZERO),
            }
        }
        for (index, parent) in (0..).zip(parents) {
            let (name, parent) = (names[index as usize], parent.map(TaskId));
            let (own, family) = (kin[name], parent.map(|parent| kin[names[parent.index()]]));
            let is_thread = parent.is_some_and(|parent| executor.is_thread(index, parent));
            let process = family.filter(|_| is_thread).map_or(own.tid, |parent| parent.tgid);
            assert_eq!((own.tgid, own.parent), (process, coordinator), "{name}");
            let inherited = family.map_or(own_session, |parent| parent.session);
            let begins = !is_thread && executor.begins_session(index, parent);
            assert_eq!(own.session, if begins { own.tid } else { inherited }, "session of {name}");
        }
        // All of these processes really existed.
        let shape: BTreeSet<u32> = kin.values().map(|own| own.tgid).collect();
        assert_eq!(shape.len(), 6, "{kin:?}");
        assert_eq!([kin["root"].session, kin["leader"].session], [kin["root"].tid, kin["leader"].tid]);
        assert_eq!(
            [kin["thread"].tgid, kin["second"].tgid, kin["fellow"].tgid],
            [kin["root"].tid, kin["root"].tid, kin["leader"].tid]
        );
    });
}

#[test]
fn tasks_of_a_named_process_are_its_threads() {
    let text = r#"{"tasks": {
        "first": {"process": "p", "loop": 1, "phases": {"a": {"fork": "forked", "sleep": 60000000}}},
        "second": {"process": "p", "instance": 2, "loop": 1, "sleep": 60000000},
        "alone": {"loop": 1, "sleep": 60000000},
        "other": {"process": "q", "loop": 1, "phases": {"a": {"sleep": 1000, "fork": "own", "sleep": 60000000}}},
        "forked": {"process": "p", "instance": 0, "loop": 1, "sleep": 60000000},
        "own": {"instance": 0, "loop": 1, "sleep": 60000000}}}"#;
    let names = ["first", "second-0", "second-1", "forked", "alone", "other", "own"];
    look(&rt_app(text), &names, |coordinator, kin| {
        assert_eq!(kin.len(), names.len(), "no other task exists: {kin:?}");
        assert!(kin.values().all(|own| own.parent == coordinator));
        for name in names {
            let p = ["first", "second-0", "second-1", "forked"].contains(&name);
            assert_eq!(kin[name].tgid, kin[if p { "first" } else { name }].tid, "{name}");
        }
    });
}

/// Members that start later or are forked by other processes are created by a helper thread, which exits with the
/// last member.
#[test]
fn late_member_of_a_named_process_is_its_thread() {
    let text = r#"{"tasks": {
        "first": {"process": "p", "loop": 1, "sleep": 400000},
        "late": {"process": "p", "delay": 50000, "loop": 1, "sleep": 60000000},
        "forked": {"process": "p", "instance": 0, "loop": 1, "sleep": 60000000},
        "forker": {"loop": 1, "phases": {"a": {"sleep": 50000}, "b": {"fork": "forked", "sleep": 60000000}}}}}"#;
    look(&rt_app(text), &["first", "late", "forked", "forker", "weir-helper"], |_, kin| {
        let p = kin["first"].tid;
        for (name, tgid) in [("late", p), ("forked", p), ("weir-helper", p), ("forker", kin["forker"].tid)] {
            assert_eq!(kin[name].tgid, tgid, "{name}");
        }
    });
    // The process ends with its members, and the next task of its name starts a new one.
    let text = r#"{"tasks": {
        "first": {"process": "p", "loop": 1, "sleep": 10000},
        "late": {"process": "p", "delay": 300000, "loop": 1, "sleep": 60000000}}}"#;
    look(&rt_app(text), &["late", "weir-helper"], |_, kin| {
        assert_eq!((kin.len(), kin["late"].tgid, kin["weir-helper"].tgid), (2, kin["late"].tid, kin["late"].tid));
    });
    // Without a stop, all of them exit by themselves.
    let text = r#"{"tasks": {
        "first": {"process": "p", "loop": 1, "sleep": 30000},
        "late": {"process": "p", "delay": 10000, "loop": 1, "sleep": 1000}}}"#;
    let result = real(&rt_app(text), &options());
    assert_eq!((result.end, result.tasks.len()), (End::Finished, 2));
}

#[test]
fn three_thousand_tasks_are_forked_and_reaped() {
    let text = r#"{"tasks": {"p": {"loop": 3000, "fork": "c"}, "c": {"instance": 0, "loop": 1, "sleep": 3000}}}"#;
    let result = real(&rt_app(text), &Options { log: false, ..options() });
    assert_eq!((result.end, result.tasks.len(), result.failed_forks), (End::Finished, 3001, 0));
    assert!(result.tasks.iter().all(|task| task.finished));
}

#[test]
fn thousands_of_tasks_end_with_the_duration() {
    let text = r#"{"tasks": {"s": {"instance": 1000, "sleep": 60000000}, "w": {"instance": 1000, "suspend": ""},
        "h": {"instance": 20, "run": 1000}}}"#;
    let duration = Some(Nanos::from_ms(500));
    let result = real(&rt_app(text), &Options { duration, log: false, ..options() });
    assert_eq!((result.end, result.tasks.len()), (End::Duration, 2020));
}

/// Workload with tasks in all states and in a session of their own. The last task is the hog.
fn mixed() -> Workload {
    let text = r#"{"tasks": {
        "sleeper": {"sleep": 60000000}, "waiter": {"suspend": ""}, "named": {"process": "p", "instance": 3, "sleep": 60000000},
        "forker": {"loop": 1, "phases": {"a": {"fork": "forked", "fork1": "forked", "sleep": 60000000}}},
        "short": {"loop": 1, "phases": {"a": {"fork": "orphan", "sleep": 1000}}},
        "orphan": {"instance": 0, "loop": 1, "sleep": 60000000},
        "forked": {"instance": 0, "loop": 1, "run": 1000000000}, "hog": {"run": 1000}}}"#;
    let mut workload = rt_app(text);
    for (index, task) in workload.tasks.iter_mut().enumerate() {
        if ["waiter", "forked", "orphan"].contains(&task.name.as_str()) {
            task.who.session = Some(index as u32);
        }
    }
    workload
}

/// Names of all tasks of [`mixed`] once they have started.
const MIXED: [&str; 9] = ["sleeper", "waiter", "named-0", "named-1", "named-2", "forker", "forked", "orphan", "hog"];

/// Environment variable that marks the child program to be killed.
const VICTIM: &str = "WEIR_TEST_VICTIM";

/// Not a test, but the body of the child program until it is killed.
#[test]
fn victim() {
    if std::env::var_os(VICTIM).is_some() {
        heed_ctrl_c();
        let _ = execute(&mixed(), &Options { duration: Some(Nanos::from_secs(60)), ..options() });
    }
}

/// Shells ignore SIGINT for background commands, and these tests may run in one.
#[allow(unsafe_code)]
fn heed_ctrl_c() {
    // SAFETY: no handler is installed.
    unsafe { nix::sys::signal::signal(Signal::SIGINT, nix::sys::signal::SigHandler::SigDfl) }.unwrap();
}

/// Starts that program in its own process group, and waits until its coordinator and all tasks exist.
fn start_victim() -> (Child, u32, BTreeMap<String, Kin>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "tests::processes::victim"]).env(VICTIM, "1");
    let victim = command.process_group(0).stdout(Stdio::null()).spawn().unwrap();
    let coordinator = || kin(victim.id()).get("weir-coord").map(|coordinator| coordinator.tid);
    let tasks = || coordinator().map(kin).unwrap_or_default();
    wait_until(|| MIXED.iter().all(|name| tasks().contains_key(*name)) && !tasks().contains_key("short"));
    let (coordinator, tasks) = (coordinator().unwrap(), tasks());
    (victim, coordinator, tasks)
}

/// Whether a task exists and can still run. Orphans are reaped by init, which in some containers polls only every few
/// seconds.
fn goes_on(task: u32) -> bool {
    stat(&PathBuf::from(format!("/proc/{task}"))).is_some_and(|fields| !["Z", "X"].contains(&fields[0].as_str()))
}

#[test]
fn no_task_survives_a_killed_program() {
    let one = |victim: &Child, _: u32| kill(Pid::from_raw(victim.id() as i32), Signal::SIGKILL);
    let group = |victim: &Child, _: u32| killpg(Pid::from_raw(victim.id() as i32), Signal::SIGKILL);
    let ask = |victim: &Child, _: u32| kill(Pid::from_raw(victim.id() as i32), Signal::SIGTERM);
    let keys = |victim: &Child, _: u32| killpg(Pid::from_raw(victim.id() as i32), Signal::SIGINT);
    let coordinator = |_: &Child, coordinator: u32| kill(Pid::from_raw(coordinator as i32), Signal::SIGKILL);
    type Blow = dyn Fn(&Child, u32) -> nix::Result<()>;
    let blows: [(&str, &Blow); 5] =
        [("program", &one), ("group", &group), ("SIGTERM", &ask), ("Ctrl-C", &keys), ("coordinator", &coordinator)];
    for (name, blow) in blows {
        let (mut victim, coordinator, tasks) = start_victim();
        let sessions: BTreeSet<u32> = tasks.values().map(|task| task.session).collect();
        assert!(sessions.len() >= 4 && tasks.len() >= MIXED.len(), "{tasks:?}");
        blow(&victim, coordinator).unwrap();
        victim.wait().unwrap();
        let all: Vec<u32> = tasks.values().map(|task| task.tid).chain([coordinator]).collect();
        let begun = Instant::now();
        while all.iter().any(|&task| goes_on(task)) {
            assert!(begun.elapsed() < Duration::from_secs(20), "{name}: left {tasks:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn killed_task_ends_the_execution_with_an_error() {
    let workload = mixed();
    let options = Options { duration: Some(Nanos::from_secs(60)), ..options() };
    let error = |victim: &str| {
        let prepared = PreparedWorkload::prepare(&workload, &options).unwrap();
        let begun = Instant::now();
        let error = prepared.begin(|running| {
            let tasks = || kin(running.coordinator());
            wait_until(|| MIXED.iter().all(|name| tasks().contains_key(*name)));
            let all = tasks();
            let victim = if victim == "coordinator" { running.coordinator() } else { all[victim].tid };
            kill(Pid::from_raw(victim as i32), Signal::SIGKILL).unwrap();
            let error = running.join().unwrap_err();
            assert!(!remains(|| all.values().any(|task| goes_on(task.tid))), "{victim}: {all:?}");
            error
        });
        assert!(begun.elapsed() < Duration::from_secs(20));
        error.to_string()
    };
    for (index, name) in [(0, "sleeper"), (1, "waiter"), (5, "forker"), (7, "orphan"), (8, "forked"), (9, "hog")] {
        assert_eq!(error(name), format!("task {index} ({name}) was killed, which ended the execution"));
    }
    // A killed thread kills its whole process; any of its tasks may be named.
    let named = error("named-1");
    assert!(
        (2..5)
            .any(|index| named == format!("task {index} (named-{}) was killed, which ended the execution", index - 2))
    );
    assert_eq!(error("coordinator"), "the coordinator was killed, which ended the execution");
}

/// The kernel wakes the coordinator when a task is killed; a coordinator that is stopped at that time misses the
/// wakeup and would sleep again.
#[test]
fn task_killed_while_the_coordinator_is_stopped_is_detected() {
    let workload = mixed();
    let options = Options { duration: Some(Nanos::from_secs(60)), ..options() };
    let prepared = PreparedWorkload::prepare(&workload, &options).unwrap();
    let begun = Instant::now();
    let error = prepared.begin(|running| {
        let tasks = || kin(running.coordinator());
        wait_until(|| MIXED.iter().all(|name| tasks().contains_key(*name)));
        let (victim, coordinator) = (tasks()["hog"].tid, running.coordinator());
        let send = |to: u32, signal| kill(Pid::from_raw(to as i32), signal).unwrap();
        send(coordinator, Signal::SIGSTOP);
        wait_until(|| stat(&PathBuf::from(format!("/proc/{coordinator}"))).is_some_and(|fields| fields[0] == "T"));
        send(victim, Signal::SIGKILL);
        wait_until(|| !goes_on(victim));
        send(coordinator, Signal::SIGCONT);
        running.join().unwrap_err()
    });
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(error.to_string(), "task 9 (hog) was killed, which ended the execution");
}
