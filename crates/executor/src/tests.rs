// SPDX-License-Identifier: GPL-2.0-only
//! Every kind of operation, played with real threads and compared with what the Executor does in virtual time.
//!
//! Time is not compared, since the host is busy: order and counts are, and times only from below.

mod processes;
mod random;

use super::*;
use host::sys;
use ids::{CpuId, CpuSet, Policy};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use workload::{Demand, Executor, MutexId, Op, Sleep, Start, TaskSpec};

/// In a thread of its own, since that changes its affinity.
fn calibrate() -> Calibration {
    std::thread::spawn(Calibration::measure).join().unwrap().unwrap()
}

fn calibration() -> Calibration {
    static MEASURED: OnceLock<Calibration> = OnceLock::new();
    *MEASURED.get_or_init(calibrate)
}

fn options() -> Options {
    Options { calibration: Some(calibration()), log: true, ..Options::default() }
}

/// With gates that a loaded host cannot break, unless it stops a thread for 5 seconds.
fn settled() -> Options {
    Options { settle: Some(Nanos::from_secs(5)), ..options() }
}

fn rt_app(text: &str) -> Workload {
    Workload::from_rt_app("w.json", text).unwrap_or_else(|error| panic!("{error}"))
}

/// Plays with real threads. Whatever happens, no thread is left.
fn real(workload: &Workload, options: &Options) -> Played {
    let played = play(workload, options).unwrap_or_else(|error| panic!("{error}"));
    for task in &played.tasks {
        assert!(!is_alive(task.tid), "{} is left behind", task.name);
        assert!(task.ended >= task.started);
        assert!(task.work_done <= task.work_asked);
    }
    played
}

/// The kernel lets somebody join a thread a moment before it is gone.
fn is_alive(tid: u32) -> bool {
    remains(|| fs::metadata(format!("/proc/{tid}")).is_ok())
}

/// Whether something is so for 5 seconds.
fn remains(what: impl Fn() -> bool) -> bool {
    let until = Instant::now() + Duration::from_secs(5);
    let mut found = true;
    while found && Instant::now() < until {
        found = what();
        std::thread::sleep(Duration::from_micros(u64::from(found) * 200));
    }
    found
}

/// What a task did, as both executors count it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Counts {
    spec: u32,
    finished: bool,
    work: Nanos,
    sleeps: u64,
    waits: u64,
    wakes: u64,
    yields: u64,
    forks: u64,
}

impl Counts {
    fn of(task: &TaskPlayed) -> Counts {
        Counts {
            spec: task.spec,
            finished: task.finished,
            work: task.work_done,
            sleeps: task.sleeps,
            waits: task.waits,
            wakes: task.wakes,
            yields: task.yields,
            forks: task.forks,
        }
    }
}

/// The workload in virtual time, with a CPU for each task: what each one did, and the operations of all in order.
fn model(workload: &Workload) -> (Vec<Counts>, Vec<(TaskId, u32)>) {
    let mut player = Executor::new(workload);
    let (mut ready, mut counts, mut log) = (BinaryHeap::new(), Vec::<Counts>::new(), Vec::new());
    let mut starts = Vec::new();
    for (index, spec) in workload.tasks.iter().enumerate() {
        if let Start::At(time) = spec.start {
            starts.push((time, index));
        }
    }
    starts.sort_unstable();
    for (time, index) in starts {
        let task = TaskId(counts.len() as u32);
        player.started(task, index as u32, time);
        counts.push(Counts { spec: index as u32, ..Counts::default() });
        ready.push(Reverse((time, task)));
    }
    let mut woken = Vec::new();
    while let Some(Reverse((now, task))) = ready.pop() {
        loop {
            let operation = player.upcoming(task).map(|(index, _)| index);
            let demand = player.advance(task, now, &mut woken);
            let script = &workload.tasks[player.spec_of(task) as usize].script;
            let exit = (demand == Some(Demand::Exit)).then_some(script.len() as u32);
            log.extend(operation.or(exit).map(|operation| (task, operation)));
            counts[task.index()].wakes += woken.len() as u64;
            ready.extend(woken.drain(..).map(|other| Reverse((now, other))));
            let count = &mut counts[task.index()];
            let over = match demand {
                None | Some(Demand::Change { .. } | Demand::ChangeOf { .. }) => continue,
                Some(Demand::Work { work, .. }) => {
                    count.work += work;
                    Some(now + work)
                }
                Some(Demand::CriticalSections(_)) => unreachable!("no workload here has locks of that kind"),
                Some(Demand::CpuTime(time)) => Some(now + time),
                Some(Demand::Sleep(time, _)) => {
                    count.sleeps += 1;
                    Some(now + time)
                }
                Some(Demand::Wait | Demand::Spin) => {
                    count.waits += 1;
                    None
                }
                Some(Demand::Yield) => {
                    count.yields += 1;
                    Some(now)
                }
                Some(Demand::Fork(spec)) => {
                    count.forks += 1;
                    let child = TaskId(counts.len() as u32);
                    player.forked(child, spec, task, now);
                    counts.push(Counts { spec, ..Counts::default() });
                    ready.push(Reverse((now, child)));
                    continue;
                }
                Some(Demand::Exit) => {
                    count.finished = true;
                    None
                }
            };
            ready.extend(over.map(|over| Reverse((over, task))));
            break;
        }
    }
    (counts, log)
}

/// Plays a workload whose order is caused and demands that both executors did the same, in the same order.
fn same(text: &str) -> Played {
    let workload = rt_app(text);
    let played = real(&workload, &settled());
    let (counts, log) = model(&workload);
    assert_eq!(played.tasks.iter().map(Counts::of).collect::<Vec<_>>(), counts, "{text}");
    for task in (0..played.tasks.len() as u32).map(TaskId) {
        let real = played.log.iter().filter(|step| step.task == task).map(|step| step.operation);
        let modelled = log.iter().filter(|step| step.0 == task).map(|step| step.1);
        assert!(real.eq(modelled), "operations of task {task} in {text}");
    }
    assert_eq!(played.tasks.iter().map(|task| task.unsettled).sum::<u64>(), 0);
    assert_eq!((played.failed_forks, played.refused_changes), (0, 0));
    played
}

/// Names of tasks in the order in which they did this operation of their scripts, each time.
fn order(played: &Played, operation: u32) -> Vec<&str> {
    let steps = played.log.iter().filter(|step| step.operation == operation);
    steps.map(|step| played.tasks[step.task.index()].name.as_str()).collect()
}

#[test]
fn work_is_all_done_and_takes_cpu_time() {
    let played = same(r#"{"tasks": {"a": {"instance": 3, "loop": 10, "run": 1000}, "b": {"loop": 1, "run": 5000}}}"#);
    assert_eq!(played.end, End::Finished);
    let mut fastest = calibration();
    let least =
        |task: &TaskPlayed, fastest: Calibration| fastest.work_of(calibration().rounds_of(task.work_done)).0 * 98 / 100;
    // The tries before the play were slow if the host was busier then: more of them find the fastest ones.
    let until = Instant::now() + Duration::from_secs(5);
    while played.tasks.iter().any(|task| task.cpu.0 < least(task, fastest)) && Instant::now() < until {
        fastest = [fastest, calibrate()].into_iter().min_by_key(|tries| tries.work_of(1 << 32)).unwrap();
    }
    for task in &played.tasks {
        assert!(task.cpu.0 >= least(task, fastest), "{task:?}: no round is faster than those of {fastest:?}");
        assert!(task.cpu.0 < task.work_done.0 * 5, "{task:?}");
    }
    assert_eq!(played.tasks.iter().map(|task| task.work_done.0).sum::<u64>(), 35_000_000);
}

#[test]
fn cpu_time_is_measured_by_the_threads_clock() {
    let played = same(r#"{"tasks": {"a": {"instance": 3, "loop": 4, "runtime": 2500}}}"#);
    for task in &played.tasks {
        // How much more is up to the machine: what an interrupt, or the host of a virtual machine, takes in the last
        // step is on the thread's clock too. work.rs tests that there is one such step.
        assert!(task.cpu >= Nanos::from_ms(10), "{task:?}");
        assert_eq!(task.work_done, Nanos::ZERO);
    }
}

#[test]
fn sleeps_and_timers_last_at_least_as_long_as_they_say() {
    let played = same(
        r#"{"tasks": {"s": {"loop": 3, "sleep": 4000}, "t": {"loop": 3, "timer": {"ref": "unique", "period": 100000}}}}"#,
    );
    let (s, t) = (&played.tasks[0], &played.tasks[1]);
    assert!(s.ended >= s.started + Nanos::from_ms(12));
    // So long a period that no other load makes the thread late for the next one: it would not sleep then.
    assert!(t.ended >= Nanos::from_ms(300));
    assert!(t.voluntary_switches >= 3 && s.voluntary_switches >= 3);
    // A grid of 5 ms that is 100 ms late: absolute timers do not sleep until they have caught up.
    let late = r#"{"tasks": {"t": {"loop": 1, "phases": {"p": {"sleep": 100000},
        "q": {"loop": 10, "timer": {"ref": "unique", "period": 5000, "mode": "absolute"}}}}}}"#;
    assert_eq!(same(late).tasks[0].late_timers, 10);
}

#[test]
fn mutexes_go_to_who_waits_longest() {
    // All three want the mutex while the holder works; they come in the order of their sleeps.
    let text = r#"{"tasks": {
        "holder": {"loop": 1, "lock": "m", "run": 1, "sleep": 600000, "unlock": "m"},
        "c": {"loop": 1, "sleep": 450000, "lock": "m", "run": 10, "unlock": "m"},
        "a": {"loop": 1, "sleep": 150000, "lock": "m", "run": 10, "unlock": "m"},
        "b": {"loop": 1, "sleep": 300000, "lock": "m", "run": 10, "unlock": "m"}}}"#;
    let played = same(text);
    assert_eq!(order(&played, 3), ["holder", "a", "b", "c"], "who unlocks when");
    assert_eq!(played.tasks.iter().map(|task| task.waits).collect::<Vec<_>>(), [0, 1, 1, 1]);
}

#[test]
fn signals_wake_one_and_broadcasts_all_in_order() {
    let text = r#"{"tasks": {
        "a": {"loop": 1, "lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m"},
        "b": {"loop": 1, "sleep": 150000, "lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m"},
        "c": {"loop": 1, "sleep": 300000, "lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m"},
        "s": {"loop": 1, "sleep": 450000, "signal": "c", "sleep1": 150000, "broad": "c"}}}"#;
    let played = same(text);
    assert_eq!(played.tasks.iter().map(|task| task.wakes).collect::<Vec<_>>(), [0, 0, 0, 3]);
    let ends: Vec<Nanos> = played.tasks.iter().map(|task| task.ended).collect();
    let second = played.log.iter().find(|step| step.task == TaskId(3) && step.operation == 3).unwrap().time;
    assert!(ends[0] < second && second <= ends[1] && second <= ends[2], "{ends:?}, broadcast at {second}");
}

/// Without settling, a signal to nobody is lost, and the play says who waits for what.
#[test]
fn a_lost_signal_leaves_its_waiter_stuck() {
    let text = r#"{"tasks": {
        "late": {"loop": 1, "sleep": 100000, "lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m"},
        "other": {"loop": 1, "suspend": "other"},
        "third": {"loop": 1, "sleep": 250000, "lock": "n", "barrier": "x", "unlock": "n"},
        "fourth": {"loop": 1, "sleep": 400000, "lock": "n", "barrier": "x", "unlock": "n"},
        "early": {"loop": 1, "signal": "c"}}}"#;
    let played = real(&rt_app(text), &options());
    let End::Stuck(stuck) = &played.end else { panic!("{:?}", played.end) };
    let stuck: Vec<String> = stuck.iter().map(Stuck::to_string).collect();
    assert_eq!(
        stuck,
        [
            "task 0 (late) waits for condition 0",
            "task 1 (other) waits for a resume",
            "task 2 (third) waits for barrier 0, which 1 more tasks must reach",
            "task 3 (fourth) waits for mutex 1, which task 2 holds",
        ]
    );
    assert_eq!(played.tasks.iter().map(|task| task.finished).collect::<Vec<_>>(), [false, false, false, false, true]);
}

/// Settled, the one who wakes comes first by time and waits for his waiter all the same: nothing is lost.
#[test]
fn settled_wakers_wait_for_their_waiters() {
    for (waits, wakes) in [
        (r#""lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m""#, r#""signal": "c""#),
        (r#""lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m""#, r#""broad": "c""#),
        (r#""suspend": """#, r#""resume": "waiter""#),
    ] {
        let text = format!(
            r#"{{"tasks": {{"waiter": {{"loop": 20, "run": 300, {waits}}}, "waker": {{"loop": 20, {wakes}, "yield": ""}}}}}}"#
        );
        let played = real(&rt_app(&text), &settled());
        assert_eq!(played.end, End::Finished, "{text}");
        assert_eq!((played.tasks[0].waits, played.tasks[1].wakes, played.tasks[1].unsettled), (20, 20, 0), "{text}");
        // Each wakeup ended a sleep: the waiter had left its CPU every time.
        assert!(played.tasks[0].voluntary_switches >= 20, "{text}: {:?}", played.tasks[0]);
    }
}

/// When nobody comes to wait, a settled waker goes on after its time, and that is counted.
#[test]
fn settling_gives_up_after_its_time() {
    let options = Options { settle: Some(Nanos::from_ms(30)), ..options() };
    let played = real(&rt_app(r#"{"tasks": {"a": {"loop": 2, "signal": "c", "run": 1}}}"#), &options);
    assert_eq!((played.end, played.tasks[0].unsettled), (End::Finished, 2));
    assert!(played.elapsed >= Nanos::from_ms(60));
}

#[test]
fn sync_alternates() {
    let text = r#"{"tasks": {
        "ping": {"loop": 50, "sync": {"ref": "c", "mutex": "m"}},
        "pong": {"loop": 1, "phases": {"first": {"sleep": 150000}, "rest": {"loop": 50, "sync": {"ref": "c", "mutex": "m"}}}}}}"#;
    let workload = rt_app(text);
    let played = real(&workload, &settled());
    // Pong's last sync finds ping ended; it waits for ever.
    assert!(matches!(&played.end, End::Stuck(stuck) if stuck.len() == 1 && stuck[0].name == "pong"), "{played:?}");
    let (counts, _) = model(&workload);
    assert_eq!(played.tasks.iter().map(Counts::of).collect::<Vec<_>>(), counts);
    assert!(played.tasks[0].waits >= 50 && played.tasks[1].waits >= 50);
}

#[test]
fn barriers_hold_until_the_last_one_comes() {
    let text = r#"{"tasks": {
        "fast": {"instance": 3, "loop": 5, "run": 100, "barrier": "b"},
        "slow": {"loop": 5, "sleep": 20000, "barrier": "b"}}}"#;
    let played = real(&rt_app(text), &settled());
    assert_eq!(played.end, End::Finished);
    assert_eq!(played.tasks.iter().map(|task| task.waits + task.wakes).sum::<u64>(), 5 * (3 + 3));
    // Each round: everybody arrives once before anybody arrives again.
    let arrivals = order(&played, 1);
    for round in arrivals.chunks(4) {
        let mut names = round.to_vec();
        names.sort_unstable();
        assert_eq!(names, ["fast-0", "fast-1", "fast-2", "slow"]);
    }
}

#[test]
fn who_spins_at_a_barrier_uses_its_cpu_until_the_last_one_comes() {
    let text = r#"{"tasks": {"early": {"loop": 1, "spin_barrier": "b"},
                             "late": {"loop": 1, "sleep": 40000, "spin_barrier": "b"}}}"#;
    let played = real(&rt_app(text), &options());
    assert_eq!(played.end, End::Finished);
    let [early, late] = &played.tasks[..] else { panic!("two tasks") };
    assert!(early.ended >= Nanos::from_ms(40) && late.cpu < Nanos::from_ms(20));
    // It may have shared its CPU with others of this machine.
    assert!(early.cpu >= Nanos::from_ms(4), "it does not sleep: {}", early.cpu);
    assert_eq!((early.waits, early.sleeps), (1, 0));
}

#[test]
fn spinning_for_who_will_not_come_is_noticed() {
    let text = r#"{"tasks": {"a": {"loop": 2, "spin_barrier": "b"}, "b": {"loop": 1, "spin_barrier": "b"}}}"#;
    let played = real(&rt_app(text), &options());
    let End::Stuck(stuck) = &played.end else { panic!("{:?}", played.end) };
    assert_eq!(stuck[0].to_string(), "task 0 (a) waits for barrier 0, which 1 more tasks must reach");
}

#[test]
fn suspended_tasks_are_resumed_in_order() {
    let text = r#"{"tasks": {
        "a": {"instance": 2, "loop": 3, "suspend": "a"},
        "r": {"loop": 3, "sleep": 150000, "resume": "a"}}}"#;
    let played = same(text);
    assert_eq!(played.tasks.iter().map(|task| (task.waits, task.wakes)).collect::<Vec<_>>(), [(3, 0), (3, 0), (0, 6)]);
}

#[test]
fn yields_and_forks_are_real() {
    let text = r#"{"tasks": {
        "parent": {"loop": 3, "yield": "", "fork": "child", "suspend": ""},
        "child": {"instance": 0, "loop": 1, "run": 500, "fork": "grandchild"},
        "grandchild": {"instance": 0, "loop": 1, "run": 200, "resume": "parent"}}}"#;
    let played = same(text);
    assert_eq!(played.tasks.len(), 7);
    let mut tids: Vec<u32> = played.tasks.iter().map(|task| task.tid).collect();
    tids.sort_unstable();
    tids.dedup();
    assert_eq!(tids.len(), 7);
    let tasks = &played.tasks;
    assert!(tasks[3].started >= tasks[2].started, "forked when its parent came to it");
}

#[test]
fn delays_begin_then() {
    let played = same(r#"{"tasks": {"a": {"delay": 30000, "loop": 1, "run": 10}, "b": {"loop": 1, "run": 10}}}"#);
    let starts: Vec<(&str, bool)> =
        played.tasks.iter().map(|task| (task.name.as_str(), task.started >= Nanos::from_ms(30))).collect();
    assert_eq!(starts, [("b", false), ("a", true)]);
}

fn spec(name: &str, script: Vec<Op>) -> TaskSpec {
    TaskSpec {
        name: name.into(),
        command: None,
        start: Start::At(Nanos::ZERO),
        policy: Policy::Other,
        nice: 0,
        cpus: None,
        peak_rss_bytes: 0,
        who: workload::Who::default(),
        window: None,
        lends: None,
        script,
    }
}

fn workload(tasks: Vec<TaskSpec>) -> Workload {
    Workload {
        name: "w".into(),
        duration: None,
        tasks,
        mutexes: 2,
        locks: Vec::new(),
        conditions: 0,
        barriers: vec![],
        signals: 8,
        references: 0,
        groups: Vec::new(),
        is_grouped: false,
        parts: Vec::new(),
    }
}

fn work(us: u64) -> Op {
    Op::Work { user: Nanos::from_us(us), system: Nanos::ZERO }
}

fn nap(ms: u64) -> Op {
    Op::Sleep(Nanos::from_ms(ms), Sleep::Io)
}

/// A part that goes on for ever plays as long as another one takes, whatever waits in it.
#[test]
fn a_play_lasts_as_long_as_the_part_that_ends() {
    let load = |name: &str| match name {
        "ends" => r#"{"tasks": {"work": {"loop": 1, "sleep": 40000, "run": 100}}}"#,
        _ => {
            r#"{"tasks": {"spin": {"loop": -1, "run": 100, "sleep": 1000}, "waits": {"loop": 1, "suspend": "waits"}}}"#
        }
    };
    let part = |part: workload::PartSpec| {
        let workload = Workload::from_rt_app(&part.what, load(&part.what)).expect("a workload");
        (part, workload)
    };
    let parts = workload::PartSpec::parse_all("goes-on+ends").expect("parts");
    let workload = Workload::compose(parts.into_iter().map(part).collect()).expect("a workload");
    let played = real(&workload, &options());
    assert_eq!(played.end, End::Finished);
    let tasks: Vec<_> = played.tasks.iter().map(|task| (task.name.as_str(), task.is_beside, task.finished)).collect();
    assert_eq!(tasks, [("goes-on/spin", true, false), ("goes-on/waits", true, false), ("ends/work", false, true)]);
    assert!(played.tasks[0].ended >= Nanos::from_ms(40), "{}", played.tasks[0].ended);
}

/// The operations of recordings: a signal stays posted, a parent waits for its children.
#[test]
fn posts_are_kept_and_children_waited_for() {
    use workload::SignalId;
    let poster = spec("poster", vec![Op::Post(SignalId(0)), nap(60), Op::Post(SignalId(1))]);
    let waiter = spec("waiter", vec![nap(30), Op::Await(SignalId(0)), Op::Await(SignalId(1))]);
    let parent = spec("parent", vec![Op::Fork(3), Op::Fork(3), Op::Children(1), Op::Children(0)]);
    let child = TaskSpec { start: Start::Forked, ..spec("child", vec![nap(40), work(100)]) };
    let workload = workload(vec![poster, waiter, parent, child]);
    let played = real(&workload, &options());
    assert_eq!(played.end, End::Finished);
    assert_eq!((played.tasks[1].waits, played.tasks[0].wakes), (1, 1), "only the second one is waited for");
    assert!(played.tasks[2].ended >= played.tasks[3].started + Nanos::from_ms(40));
    let wakes = |task: usize| played.tasks[task].wakes;
    assert_eq!(played.tasks[2].waits, wakes(3) + wakes(4));
}

/// Folders in `/proc` of the threads of this process's children.
fn tasks_of_children(process: u32) -> Vec<PathBuf> {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let is_child = |path: &PathBuf| stat(path).is_some_and(|fields| fields[1] == process.to_string());
    let children = entries(Path::new("/proc")).filter(is_child);
    children.flat_map(|child| entries(&child.join("task")).collect::<Vec<_>>()).collect()
}

/// Those of them that have this name.
fn called(process: u32, name: &str) -> Vec<PathBuf> {
    let is_called = |path: &PathBuf| fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name);
    tasks_of_children(process).into_iter().filter(is_called).collect()
}

/// What the kernel says of a task, from the state on: field 3 of proc_pid_stat(5) stands first here.
fn stat(task: &Path) -> Option<Vec<String>> {
    let text = fs::read_to_string(task.join("stat")).ok()?;
    Some(text.rsplit_once(") ")?.1.split_whitespace().map(str::to_owned).collect())
}

/// Reads a task's attributes in the kernel while it sleeps.
fn attributes(running: &Running<'_>, name: &str) -> String {
    assert!(!running.is_finished());
    let Some(task) = called(running.stage(), name).pop() else { return "not called so yet".to_owned() };
    // Nice is number 19, rt_priority 40, policy 41.
    let fields = stat(&task).unwrap();
    let status = fs::read_to_string(task.join("status")).unwrap();
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    format!("policy {} nice {} priority {} on {cpus}", fields[38], fields[16], fields[37])
}

fn wait_until(what: impl Fn() -> bool) {
    let begin = Instant::now();
    while !what() {
        assert!(begin.elapsed() < Duration::from_secs(20), "it does not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn affinity_policy_and_nice_value_are_the_kernels_and_change_with_the_phases() {
    let cpus = sys::allowed_cpus().unwrap();
    let (one, all) = (cpus.first().unwrap(), cpus.to_string());
    let text = format!(
        r#"{{"tasks": {{"a-name-of-20-chars": {{"policy": "SCHED_BATCH", "priority": 5, "cpus": [{one}, 4000], "loop": 1,
            "phases": {{
                "x": {{"suspend": ""}},
                "y": {{"cpus": [{one}], "policy": "SCHED_FIFO", "priority": 3, "suspend": ""}},
                "z": {{"policy": "SCHED_OTHER", "priority": -4, "suspend": ""}}}}}},
           "b": {{"loop": 1, "phases": {{"x": {{"cpus": [{one}], "suspend": ""}}, "y": {{"suspend": ""}}}}}},
           "r": {{"instance": 0, "loop": 1, "resume": "a-name-of-20-chars", "resume1": "b"}}}}}}"#
    );
    let mut workload = rt_app(&text);
    // A resume wakes nobody who is not suspended yet, as he may not be after less time on a host that is busy.
    let resumes = [nap(1_500), Op::Fork(2)].into_iter().cycle().take(6).collect();
    workload.tasks.push(spec("driver", resumes));
    let options = options();
    let stage = Stage::prepare(&workload, &options).unwrap();
    let expected = [
        ("a-name-of-20-ch", format!("policy 3 nice 5 priority 0 on {one}")),
        ("b", format!("policy 0 nice 0 priority 0 on {one}")),
        ("a-name-of-20-ch", format!("policy 1 nice 5 priority 3 on {one}")),
        ("b", format!("policy 0 nice 0 priority 0 on {all}")),
        ("a-name-of-20-ch", format!("policy 0 nice -4 priority 0 on {one}")),
    ];
    let played = stage.begin(|running| {
        for (task, state) in &expected {
            wait_until(|| attributes(&running, task) == *state);
        }
        running.join().unwrap()
    });
    assert_eq!((played.end, played.refused_changes), (End::Finished, 0));
}

#[test]
fn a_task_changes_another_that_sleeps() {
    let cpus = sys::allowed_cpus().unwrap();
    let one = cpus.first().unwrap();
    let on = Some(std::iter::once(one).collect());
    let change = Op::ChangeOf { spec: 1, cpus: on.map(Box::new), policy: Some(Box::new((Policy::Batch, 3))) };
    let workload = workload(vec![spec("a", vec![change, nap(60_000)]), spec("b", vec![nap(60_000)])]);
    let options = options();
    let stage = Stage::prepare(&workload, &options).unwrap();
    let changed = format!("policy 3 nice 3 priority 0 on {one}");
    let played = stage.begin(|running| {
        wait_until(|| attributes(&running, "b") == changed);
        assert_eq!(attributes(&running, "a"), format!("policy 0 nice 0 priority 0 on {cpus}"));
        running.stopper().stop();
        running.join().unwrap()
    });
    assert_eq!(played.refused_changes, 0);
}

#[test]
fn what_cannot_be_done_here_is_said_before_anything_starts() {
    let absent = CpuId(4000);
    let on = |cpu: CpuId| Some(std::iter::once(cpu).collect::<CpuSet>());
    let error = |workload: &Workload| play(workload, &options()).unwrap_err().to_string();
    let has = sys::allowed_cpus().unwrap();
    let nowhere = workload(vec![spec("a", vec![]), TaskSpec { cpus: on(absent), ..spec("b", vec![]) }]);
    assert_eq!(error(&nowhere), format!("w: task 1 (b) may only run on CPUs 4000, but this process has CPUs {has}"));
    let later = workload(vec![spec("a", vec![nap(1), Op::Change { cpus: on(absent).map(Box::new), policy: None }])]);
    assert!(error(&later).starts_with("w: task 0 (a) may only run on CPUs 4000"), "{}", error(&later));
    let endless = workload(vec![spec("a", vec![work(1), Op::Repeat { from: 0, times: None }])]);
    assert_eq!(error(&endless), "w: the workload has endless tasks and no duration; set a duration");
    let broken = workload(vec![spec("a", vec![Op::Unlock(MutexId(0))])]);
    assert_eq!(error(&broken), "w, task \"a\", operation 0: unlocks a mutex that it does not hold");
    // A period of 100 ns is below the kernel's least.
    let short = Policy::Deadline { runtime: Nanos(50), deadline: Nanos(100), period: Nanos(100) };
    let deadline = workload(vec![TaskSpec { policy: short, ..spec("a", vec![]) }]);
    assert_eq!(
        error(&deadline),
        "w: task 0 (a) wants SCHED_DEADLINE with 50 ns of 100 ns within 100 ns: Invalid argument (os error 22)"
    );
    let later = Op::Change { cpus: None, policy: Some(Box::new((short, 0))) };
    let later = workload(vec![spec("a", vec![]), spec("b", vec![nap(1), later])]);
    assert!(error(&later).starts_with("w: task 1 (b) wants SCHED_DEADLINE with 50 ns"), "{}", error(&later));
}

/// What the kernel answers to a user without rights, in words.
#[test]
fn missing_rights_are_named() {
    let text = |policy, nice, errno| {
        let source = std::io::Error::from_raw_os_error(errno);
        PlayError::Policy { workload: "w".into(), task: "task 3 (x)".into(), policy, nice, source }.to_string()
    };
    assert_eq!(
        text(Policy::Fifo(7), 0, libc::EPERM),
        "w: task 3 (x) wants SCHED_FIFO with priority 7: Operation not permitted (os error 1); \
         needs root (CAP_SYS_NICE), or a limit of that priority at least (ulimit -r)"
    );
    assert_eq!(
        text(Policy::Other, -5, libc::EPERM),
        "w: task 3 (x) wants nice value -5: Operation not permitted (os error 1); \
         needs root (CAP_SYS_NICE), or a limit that allows it (ulimit -e)"
    );
    assert_eq!(
        text(Policy::Ext, 0, libc::EINVAL),
        "w: task 3 (x) wants SCHED_EXT with nice value 0: Invalid argument (os error 22); \
         needs Linux 6.12 or later with CONFIG_SCHED_CLASS_EXT"
    );
}

/// Tasks in every state at the end of the duration: working, sleeping, waiting, not yet begun, real-time.
#[test]
fn the_end_of_the_duration_ends_everything() {
    let text = r#"{"global": {"duration": 100}, "tasks": {
        "hog": {"run": 1000000}, "burner": {"runtime": 100000000}, "sleeper": {"sleep": 100000000},
        "rt": {"policy": "SCHED_FIFO", "priority": 1, "run": 1000, "sleep": 1000},
        "waiter": {"instance": 20, "suspend": ""}, "late": {"delay": 90000000, "run": 1}}}"#;
    let begin = Instant::now();
    let played = real(&rt_app(text), &Options { duration: Some(Nanos::from_ms(200)), ..options() });
    assert_eq!(played.end, End::Duration);
    assert!(played.elapsed >= Nanos::from_ms(200));
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert_eq!(played.tasks.len(), 24, "the late one never came to be");
    let hog = &played.tasks[0];
    assert!(hog.work_done < hog.work_asked && hog.work_done > Nanos::ZERO && !hog.finished);
}

#[test]
fn a_play_can_be_stopped_from_outside() {
    let workload = rt_app(r#"{"tasks": {"a": {"run": 1000, "sleep": 100}, "b": {"sleep": 100000000}}}"#);
    let options = Options { duration: Some(Nanos::from_secs(1000)), ..options() };
    let stage = Stage::prepare(&workload, &options).unwrap();
    let played = stage.begin(|running| {
        let stopper = running.stopper();
        std::thread::sleep(Duration::from_millis(100));
        assert!(!running.is_finished());
        stopper.stop();
        running.join().unwrap()
    });
    assert_eq!(played.end, End::Stopped);
    assert!(played.tasks.iter().all(|task| !is_alive(task.tid)));
    // Before it began: nobody does anything.
    let played = stage.begin(|running| {
        running.stopper().stop();
        running.join().unwrap()
    });
    assert_eq!(played.end, End::Stopped);
}

/// All tasks descend from the calling thread's one child.
#[test]
fn the_stage_is_the_one_child_of_the_caller() {
    let workload = rt_app(r#"{"tasks": {"a": {"instance": 2, "loop": 1, "sleep": 300000}}}"#);
    let options = options();
    let stage = Stage::prepare(&workload, &options).unwrap();
    let children = || -> Vec<u32> {
        let numbers = fs::read_to_string("/proc/thread-self/children").expect("a kernel with CONFIG_PROC_CHILDREN");
        numbers.split_whitespace().map(|number| number.parse().unwrap()).collect()
    };
    assert!(children().is_empty());
    stage.begin(|running| {
        wait_until(|| called(running.stage(), "a-0").len() == 1);
        assert_eq!(children(), [running.stage()]);
        let stage = PathBuf::from(format!("/proc/{}", running.stage()));
        assert_eq!(fs::read_to_string(stage.join("comm")).unwrap().trim(), "weir-stage");
        assert_eq!(fs::read_dir(stage.join("task")).unwrap().count(), 1);
        running.join().unwrap();
    });
    assert!(children().is_empty());
}

/// Without a gate as well: each begins when it is there.
#[test]
fn the_gate_may_be_left_out() {
    let workload = rt_app(r#"{"tasks": {"a": {"instance": 4, "loop": 2, "run": 100, "sleep": 1000}}}"#);
    let played = real(&workload, &Options { gate: false, ..options() });
    assert_eq!(played.end, End::Finished);
    assert_eq!(played.tasks.iter().map(Counts::of).collect::<Vec<_>>(), model(&workload).0);
}

/// A waiter that has left its CPU is seen to sleep; one that spins is not.
#[test]
fn a_sleeper_is_told_from_a_spinner() {
    let seat = std::sync::Arc::new(shared::Seat::default());
    let other = seat.clone();
    use std::sync::atomic::Ordering::SeqCst;
    let thread = std::thread::spawn(move || {
        other.thread.store(sys::thread_id(), SeqCst);
        other.asleep_from.store(sys::own_status().voluntary + 1, SeqCst);
        while other.word.load(SeqCst) != 2 {
            work::spin(1000);
        }
        while other.word.load(SeqCst) != 1 {
            sys::wait(&other.word, 2, sys::NEVER);
        }
    });
    wait_until(|| seat.asleep_from.load(SeqCst) != 0);
    for _ in 0..50 {
        assert!(!seat.is_asleep());
    }
    seat.word.store(2, SeqCst);
    wait_until(|| seat.is_asleep());
    seat.ring();
    thread.join().unwrap();
}

/// The shipped recording, 200 times faster: 2833 threads that fork and wait for each other.
#[test]
fn a_recorded_build_is_built() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/recorded/build.weir");
    let mut workload = Workload::from_bytes("build.weir", &fs::read(path).unwrap()).unwrap();
    for op in workload.tasks.iter_mut().flat_map(|task| &mut task.script) {
        match op {
            Op::Work { user, system } => (user.0, system.0) = (user.0 / 200, system.0 / 200),
            Op::Sleep(time, _) => time.0 /= 200,
            _ => {}
        }
    }
    let played = real(&workload, &Options { log: false, ..options() });
    let outcome = (&played.end, played.tasks.len(), played.failed_forks, played.refused_changes);
    assert_eq!(outcome, (&End::Finished, workload.tasks.len(), 0, 0));
    let sum = |count: fn(&TaskPlayed) -> u64| played.tasks.iter().map(count).sum::<u64>();
    assert_eq!(sum(|task| task.work_done.0), model(&workload).0.iter().map(|counts| counts.work.0).sum::<u64>());
    assert_eq!(sum(|task| task.waits), sum(|task| task.wakes));
    assert_eq!(sum(|task| task.forks) + 1, workload.tasks.len() as u64);
}
