// SPDX-License-Identifier: GPL-2.0-only
//! Every kind of operation, executed with real threads and compared with the Executor in virtual time.
//!
//! Absolute times are not compared, since the host is busy: only order, counts and lower bounds of times.

mod disks;
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

/// On a separate thread, since calibration changes its affinity.
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

/// Options that enforce the order of wakeups, unless the host stops a thread for 5 s.
fn settled() -> Options {
    Options { settle: Some(Nanos::from_secs(5)), ..options() }
}

fn rt_app(text: &str) -> Workload {
    Workload::from_rt_app("w.json", text).unwrap_or_else(|error| panic!("{error}"))
}

/// Executes with real threads, and checks that no thread is left behind.
fn real(workload: &Workload, options: &Options) -> ExecutionResult {
    let result = execute(workload, options).unwrap_or_else(|error| panic!("{error}"));
    for task in &result.tasks {
        assert!(!is_alive(task.tid), "thread of {} is left behind", task.name);
        assert!(task.ended >= task.started);
        assert!(task.work_done <= task.work_asked);
    }
    result
}

/// A joined thread disappears from /proc only a moment later.
fn is_alive(tid: u32) -> bool {
    remains(|| fs::metadata(format!("/proc/{tid}")).is_ok())
}

/// Whether a condition stays true for 5 s.
fn remains(what: impl Fn() -> bool) -> bool {
    let until = Instant::now() + Duration::from_secs(5);
    let mut found = true;
    while found && Instant::now() < until {
        found = what();
        std::thread::sleep(Duration::from_micros(u64::from(found) * 200));
    }
    found
}

/// Counters that both executors maintain.
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
    fn of(task: &TaskResult) -> Counts {
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

/// Executes the workload in virtual time, with a CPU for each task: counters of each task, and all operations in
/// order.
fn model(workload: &Workload) -> (Vec<Counts>, Vec<(TaskId, u32)>) {
    let mut executor = Executor::new(workload);
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
        executor.started(task, index as u32, time);
        counts.push(Counts { spec: index as u32, ..Counts::default() });
        ready.push(Reverse((time, task)));
    }
    let mut woken = Vec::new();
    while let Some(Reverse((now, task))) = ready.pop() {
        loop {
            let operation = executor.upcoming(task).map(|(index, _)| index);
            let demand = executor.advance(task, now, &mut woken);
            let script = &workload.tasks[executor.spec_of(task) as usize].script;
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
                Some(
                    Demand::Io(_)
                    | Demand::Unmap(_)
                    | Demand::Fsync(_)
                    | Demand::Call(_)
                    | Demand::Submit(_)
                    | Demand::AwaitRequests { .. },
                ) => {
                    unreachable!("no workload here uses disks")
                }
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
                    executor.forked(child, spec, task, now);
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

/// Executes a workload whose order is determined by causes, and checks that both executors did the same in the same
/// order.
fn same(text: &str) -> ExecutionResult {
    let workload = rt_app(text);
    let result = real(&workload, &settled());
    let (counts, log) = model(&workload);
    assert_eq!(result.tasks.iter().map(Counts::of).collect::<Vec<_>>(), counts, "{text}");
    for task in (0..result.tasks.len() as u32).map(TaskId) {
        let real = result.log.iter().filter(|step| step.task == task).map(|step| step.operation);
        let modelled = log.iter().filter(|step| step.0 == task).map(|step| step.1);
        assert!(real.eq(modelled), "operations of task {task} in {text}");
    }
    assert_eq!(result.tasks.iter().map(|task| task.unsettled).sum::<u64>(), 0);
    assert_eq!((result.failed_forks, result.refused_changes), (0, 0));
    result
}

/// Names of tasks in the order in which they executed this operation of their scripts.
fn order(result: &ExecutionResult, operation: u32) -> Vec<&str> {
    let steps = result.log.iter().filter(|step| step.operation == operation);
    steps.map(|step| result.tasks[step.task.index()].name.as_str()).collect()
}

#[test]
fn work_is_done_completely_and_takes_cpu_time() {
    let result = same(r#"{"tasks": {"a": {"instance": 3, "loop": 10, "run": 1000}, "b": {"loop": 1, "run": 5000}}}"#);
    assert_eq!(result.end, End::Finished);
    let mut fastest = calibration();
    let least =
        |task: &TaskResult, fastest: Calibration| fastest.work_of(calibration().rounds_of(task.work_done)).0 * 98 / 100;
    // Calibration may have been too slow on a busy host: repeat it until the fastest rounds are found.
    let until = Instant::now() + Duration::from_secs(5);
    while result.tasks.iter().any(|task| task.cpu.0 < least(task, fastest)) && Instant::now() < until {
        fastest = [fastest, calibrate()].into_iter().min_by_key(|tries| tries.work_of(1 << 32)).unwrap();
    }
    for task in &result.tasks {
        assert!(task.cpu.0 >= least(task, fastest), "{task:?}: no round is faster than those of {fastest:?}");
        assert!(task.cpu.0 < task.work_done.0 * 5, "{task:?}");
    }
    assert_eq!(result.tasks.iter().map(|task| task.work_done.0).sum::<u64>(), 35_000_000);
}

#[test]
fn runtime_operation_ends_by_the_thread_cpu_clock() {
    let result = same(r#"{"tasks": {"a": {"instance": 3, "loop": 4, "runtime": 2500}}}"#);
    for task in &result.tasks {
        // There is no upper bound: interrupts and VM steal during the last step count as CPU time. work.rs tests that
        // there is only one such step.
        assert!(task.cpu >= Nanos::from_ms(10), "{task:?}");
        assert_eq!(task.work_done, Nanos::ZERO);
    }
}

#[test]
fn sleeps_and_timers_never_end_early() {
    let result = same(
        r#"{"tasks": {"s": {"loop": 3, "sleep": 4000}, "t": {"loop": 3, "timer": {"ref": "unique", "period": 100000}}}}"#,
    );
    let (s, t) = (&result.tasks[0], &result.tasks[1]);
    assert!(s.ended >= s.started + Nanos::from_ms(12));
    // The period is so long that other load cannot make the thread late for the next one, in which case it would not
    // sleep.
    assert!(t.ended >= Nanos::from_ms(300));
    assert!(t.voluntary_switches >= 3 && s.voluntary_switches >= 3);
    // Absolute timers with a period of 5 ms that start 100 ms late do not sleep until they have caught up.
    let late = r#"{"tasks": {"t": {"loop": 1, "phases": {"p": {"sleep": 100000},
        "q": {"loop": 10, "timer": {"ref": "unique", "period": 5000, "mode": "absolute"}}}}}}"#;
    assert_eq!(same(late).tasks[0].late_timers, 10);
}

#[test]
fn mutex_is_handed_to_the_longest_waiter() {
    // All three request the mutex while the holder works, in the order of their sleeps.
    let text = r#"{"tasks": {
        "holder": {"loop": 1, "lock": "m", "run": 1, "sleep": 600000, "unlock": "m"},
        "c": {"loop": 1, "sleep": 450000, "lock": "m", "run": 10, "unlock": "m"},
        "a": {"loop": 1, "sleep": 150000, "lock": "m", "run": 10, "unlock": "m"},
        "b": {"loop": 1, "sleep": 300000, "lock": "m", "run": 10, "unlock": "m"}}}"#;
    let result = same(text);
    assert_eq!(order(&result, 3), ["holder", "a", "b", "c"], "order of unlocking");
    assert_eq!(result.tasks.iter().map(|task| task.waits).collect::<Vec<_>>(), [0, 1, 1, 1]);
}

#[test]
fn signal_wakes_one_waiter_and_broadcast_wakes_all_in_order() {
    let text = r#"{"tasks": {
        "a": {"loop": 1, "lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m"},
        "b": {"loop": 1, "sleep": 150000, "lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m"},
        "c": {"loop": 1, "sleep": 300000, "lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m"},
        "s": {"loop": 1, "sleep": 450000, "signal": "c", "sleep1": 150000, "broad": "c"}}}"#;
    let result = same(text);
    assert_eq!(result.tasks.iter().map(|task| task.wakes).collect::<Vec<_>>(), [0, 0, 0, 3]);
    let ends: Vec<Nanos> = result.tasks.iter().map(|task| task.ended).collect();
    let second = result.log.iter().find(|step| step.task == TaskId(3) && step.operation == 3).unwrap().time;
    assert!(ends[0] < second && second <= ends[1] && second <= ends[2], "{ends:?}, broadcast at {second}");
}

/// Without `settle`, a signal without waiter is lost, and the result names the waiting task.
#[test]
fn lost_signal_deadlocks_its_waiter() {
    let text = r#"{"tasks": {
        "late": {"loop": 1, "sleep": 100000, "lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m"},
        "other": {"loop": 1, "suspend": "other"},
        "third": {"loop": 1, "sleep": 250000, "lock": "n", "barrier": "x", "unlock": "n"},
        "fourth": {"loop": 1, "sleep": 400000, "lock": "n", "barrier": "x", "unlock": "n"},
        "early": {"loop": 1, "signal": "c"}}}"#;
    let result = real(&rt_app(text), &options());
    let End::Stuck(stuck) = &result.end else { panic!("{:?}", result.end) };
    let stuck: Vec<String> = stuck.iter().map(Stuck::to_string).collect();
    assert_eq!(
        stuck,
        [
            "task 0 (late) waits for condition 0",
            "task 1 (other) waits for a resume",
            "task 2 (third) waits for barrier 0, which 1 more tasks must reach",
            "task 3 (fourth) waits for mutex n, which task 2 holds",
        ]
    );
    assert_eq!(result.tasks.iter().map(|task| task.finished).collect::<Vec<_>>(), [false, false, false, false, true]);
}

/// With `settle`, a waker that arrives first waits for its wakee, and no signal is lost.
#[test]
fn settled_waker_waits_for_its_wakee() {
    for (waits, wakes) in [
        (r#""lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m""#, r#""signal": "c""#),
        (r#""lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m""#, r#""broad": "c""#),
        (r#""suspend": """#, r#""resume": "waiter""#),
    ] {
        let text = format!(
            r#"{{"tasks": {{"waiter": {{"loop": 20, "run": 300, {waits}}}, "waker": {{"loop": 20, {wakes}, "yield": ""}}}}}}"#
        );
        let result = real(&rt_app(&text), &settled());
        assert_eq!(result.end, End::Finished, "{text}");
        assert_eq!((result.tasks[0].waits, result.tasks[1].wakes, result.tasks[1].unsettled), (20, 20, 0), "{text}");
        // Each wakeup ended a sleep: the waiter had left its CPU every time.
        assert!(result.tasks[0].voluntary_switches >= 20, "{text}: {:?}", result.tasks[0]);
    }
}

/// If no waiter comes, a settled waker proceeds after its time limit, which is counted.
#[test]
fn settled_waker_gives_up_after_the_time_limit() {
    let options = Options { settle: Some(Nanos::from_ms(30)), ..options() };
    let result = real(&rt_app(r#"{"tasks": {"a": {"loop": 2, "signal": "c", "run": 1}}}"#), &options);
    assert_eq!((result.end, result.tasks[0].unsettled), (End::Finished, 2));
    assert!(result.elapsed >= Nanos::from_ms(60));
}

#[test]
fn sync_operations_alternate_between_two_tasks() {
    let text = r#"{"tasks": {
        "ping": {"loop": 50, "sync": {"ref": "c", "mutex": "m"}},
        "pong": {"loop": 1, "phases": {"first": {"sleep": 150000}, "rest": {"loop": 50, "sync": {"ref": "c", "mutex": "m"}}}}}}"#;
    let workload = rt_app(text);
    let result = real(&workload, &settled());
    // The last sync of pong finds that ping has exited; pong waits forever.
    assert!(matches!(&result.end, End::Stuck(stuck) if stuck.len() == 1 && stuck[0].name == "pong"), "{result:?}");
    let (counts, _) = model(&workload);
    assert_eq!(result.tasks.iter().map(Counts::of).collect::<Vec<_>>(), counts);
    assert!(result.tasks[0].waits >= 50 && result.tasks[1].waits >= 50);
}

#[test]
fn barrier_blocks_until_the_last_task_arrives() {
    let text = r#"{"tasks": {
        "fast": {"instance": 3, "loop": 5, "run": 100, "barrier": "b"},
        "slow": {"loop": 5, "sleep": 20000, "barrier": "b"}}}"#;
    let result = real(&rt_app(text), &settled());
    assert_eq!(result.end, End::Finished);
    assert_eq!(result.tasks.iter().map(|task| task.waits + task.wakes).sum::<u64>(), 5 * (3 + 3));
    // In each round every task arrives once before any task arrives again.
    let arrivals = order(&result, 1);
    for round in arrivals.chunks(4) {
        let mut names = round.to_vec();
        names.sort_unstable();
        assert_eq!(names, ["fast-0", "fast-1", "fast-2", "slow"]);
    }
}

#[test]
fn spinning_at_a_barrier_uses_cpu_until_the_last_task_arrives() {
    let text = r#"{"tasks": {"early": {"loop": 1, "spin_barrier": "b"},
                             "late": {"loop": 1, "sleep": 40000, "spin_barrier": "b"}}}"#;
    let result = real(&rt_app(text), &options());
    assert_eq!(result.end, End::Finished);
    let [early, late] = &result.tasks[..] else { panic!("two tasks") };
    assert!(early.ended >= Nanos::from_ms(40) && late.cpu < Nanos::from_ms(20));
    // Other load of this machine may have shared its CPU.
    assert!(early.cpu >= Nanos::from_ms(4), "it does not sleep: {}", early.cpu);
    assert_eq!((early.waits, early.sleeps), (1, 0));
}

#[test]
fn spinning_at_an_incomplete_barrier_is_a_deadlock() {
    let text = r#"{"tasks": {"a": {"loop": 2, "spin_barrier": "b"}, "b": {"loop": 1, "spin_barrier": "b"}}}"#;
    let result = real(&rt_app(text), &options());
    let End::Stuck(stuck) = &result.end else { panic!("{:?}", result.end) };
    assert_eq!(stuck[0].to_string(), "task 0 (a) waits for barrier 0, which 1 more tasks must reach");
}

#[test]
fn suspended_tasks_resume_in_order() {
    let text = r#"{"tasks": {
        "a": {"instance": 2, "loop": 3, "suspend": "a"},
        "r": {"loop": 3, "sleep": 150000, "resume": "a"}}}"#;
    let result = same(text);
    assert_eq!(result.tasks.iter().map(|task| (task.waits, task.wakes)).collect::<Vec<_>>(), [(3, 0), (3, 0), (0, 6)]);
}

#[test]
fn yield_and_fork_match_the_simulated_executor_and_use_real_threads() {
    let text = r#"{"tasks": {
        "parent": {"loop": 3, "yield": "", "fork": "child", "suspend": ""},
        "child": {"instance": 0, "loop": 1, "run": 500, "fork": "grandchild"},
        "grandchild": {"instance": 0, "loop": 1, "run": 200, "resume": "parent"}}}"#;
    let result = same(text);
    assert_eq!(result.tasks.len(), 7);
    let mut tids: Vec<u32> = result.tasks.iter().map(|task| task.tid).collect();
    tids.sort_unstable();
    tids.dedup();
    assert_eq!(tids.len(), 7);
    let tasks = &result.tasks;
    assert!(tasks[3].started >= tasks[2].started, "a child starts after its parent");
}

#[test]
fn start_delay_postpones_a_task() {
    let result = same(r#"{"tasks": {"a": {"delay": 30000, "loop": 1, "run": 10}, "b": {"loop": 1, "run": 10}}}"#);
    let starts: Vec<(&str, bool)> =
        result.tasks.iter().map(|task| (task.name.as_str(), task.started >= Nanos::from_ms(30))).collect();
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
        memory: None,
        lends: None,
        script,
    }
}

fn workload(tasks: Vec<TaskSpec>) -> Workload {
    Workload {
        name: "w".into(),
        duration: None,
        tasks,
        mutexes: workload::MutexSpec::unnamed(2),
        locks: Vec::new(),
        conditions: 0,
        barriers: vec![],
        signals: 8,
        references: 0,
        idle_exit_limit: None,
        groups: Vec::new(),
        is_grouped: false,
        caveats: Vec::new(),
        sources: Vec::new(),
        disks: Vec::new(),
        devices: Vec::new(),
        networks: Vec::new(),
        parts: Vec::new(),
    }
}

fn work(us: u64) -> Op {
    Op::Work { user: Nanos::from_us(us), system: Nanos::ZERO }
}

fn nap(ms: u64) -> Op {
    Op::Sleep(Nanos::from_ms(ms), Sleep::Io)
}

/// A background part without end runs as long as the other part, whichever operation it waits in.
#[test]
fn execution_lasts_as_long_as_the_finite_part() {
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
    let result = real(&workload, &options());
    assert_eq!(result.end, End::Finished);
    let tasks: Vec<_> = result.tasks.iter().map(|task| (task.name.as_str(), task.is_beside, task.finished)).collect();
    assert_eq!(tasks, [("goes-on/spin", true, false), ("goes-on/waits", true, false), ("ends/work", false, true)]);
    assert!(result.tasks[0].ended >= Nanos::from_ms(40), "{}", result.tasks[0].ended);
}

/// Operations of recordings: a posted signal persists, and a parent waits for its children.
#[test]
fn posted_signals_persist_and_parents_wait_for_children() {
    use workload::SignalId;
    let poster = spec("poster", vec![Op::Post(SignalId(0)), nap(60), Op::Post(SignalId(1))]);
    let waiter = spec("waiter", vec![nap(30), Op::Await(SignalId(0)), Op::Await(SignalId(1))]);
    let parent = spec("parent", vec![Op::Fork(3), Op::Fork(3), Op::Children(1), Op::Children(0)]);
    let child = TaskSpec { start: Start::Forked, ..spec("child", vec![nap(40), work(100)]) };
    let workload = workload(vec![poster, waiter, parent, child]);
    let result = real(&workload, &options());
    assert_eq!(result.end, End::Finished);
    assert_eq!((result.tasks[1].waits, result.tasks[0].wakes), (1, 1), "only the second child has to be waited for");
    assert!(result.tasks[2].ended >= result.tasks[3].started + Nanos::from_ms(40));
    let wakes = |task: usize| result.tasks[task].wakes;
    assert_eq!(result.tasks[2].waits, wakes(3) + wakes(4));
}

/// `/proc` directories of the threads of this process's children.
fn tasks_of_children(process: u32) -> Vec<PathBuf> {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let is_child = |path: &PathBuf| stat(path).is_some_and(|fields| fields[1] == process.to_string());
    let children = entries(Path::new("/proc")).filter(is_child);
    children.flat_map(|child| entries(&child.join("task")).collect::<Vec<_>>()).collect()
}

/// Paths of the threads with this name, below the children of a process.
fn called(process: u32, name: &str) -> Vec<PathBuf> {
    let is_called = |path: &PathBuf| fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name);
    tasks_of_children(process).into_iter().filter(is_called).collect()
}

/// Fields of /proc/PID/stat from `state` (field 3), which is index 0 here.
fn stat(task: &Path) -> Option<Vec<String>> {
    let text = fs::read_to_string(task.join("stat")).ok()?;
    Some(text.rsplit_once(") ")?.1.split_whitespace().map(str::to_owned).collect())
}

/// Reads scheduling attributes of a sleeping task from the kernel.
fn attributes(running: &Running<'_>, name: &str) -> String {
    assert!(!running.is_finished());
    let Some(task) = called(running.coordinator(), name).pop() else { return "not named yet".to_owned() };
    // Fields of proc_pid_stat(5): nice 19, rt_priority 40, policy 41.
    let fields = stat(&task).unwrap();
    let status = fs::read_to_string(task.join("status")).unwrap();
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    format!("policy {} nice {} priority {} on {cpus}", fields[38], fields[16], fields[37])
}

fn wait_until(what: impl Fn() -> bool) {
    let begin = Instant::now();
    while !what() {
        assert!(begin.elapsed() < Duration::from_secs(20), "timed out");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn affinity_policy_and_nice_value_are_set_in_the_kernel_and_change_with_phases() {
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
    // A resume has no effect on a task that is not suspended yet; on a busy host suspending takes time.
    let resumes = [nap(1_500), Op::Fork(2)].into_iter().cycle().take(6).collect();
    workload.tasks.push(spec("driver", resumes));
    let options = options();
    let prepared = PreparedWorkload::prepare(&workload, &options).unwrap();
    let expected = [
        ("a-name-of-20-ch", format!("policy 3 nice 5 priority 0 on {one}")),
        ("b", format!("policy 0 nice 0 priority 0 on {one}")),
        ("a-name-of-20-ch", format!("policy 1 nice 5 priority 3 on {one}")),
        ("b", format!("policy 0 nice 0 priority 0 on {all}")),
        ("a-name-of-20-ch", format!("policy 0 nice -4 priority 0 on {one}")),
    ];
    let result = prepared.begin(|running| {
        for (task, state) in &expected {
            wait_until(|| attributes(&running, task) == *state);
        }
        running.join().unwrap()
    });
    assert_eq!((result.end, result.refused_changes), (End::Finished, 0));
}

#[test]
fn task_changes_attributes_of_a_sleeping_task() {
    let cpus = sys::allowed_cpus().unwrap();
    let one = cpus.first().unwrap();
    let on = Some(std::iter::once(one).collect());
    let change = Op::ChangeOf { spec: 1, cpus: on.map(Box::new), policy: Some(Box::new((Policy::Batch, 3))) };
    let workload = workload(vec![spec("a", vec![change, nap(60_000)]), spec("b", vec![nap(60_000)])]);
    let options = options();
    let prepared = PreparedWorkload::prepare(&workload, &options).unwrap();
    let changed = format!("policy 3 nice 3 priority 0 on {one}");
    let result = prepared.begin(|running| {
        wait_until(|| attributes(&running, "b") == changed);
        assert_eq!(attributes(&running, "a"), format!("policy 0 nice 0 priority 0 on {cpus}"));
        running.stopper().stop();
        running.join().unwrap()
    });
    assert_eq!(result.refused_changes, 0);
}

#[test]
fn unsupported_workload_is_rejected_before_it_starts() {
    let absent = CpuId(4000);
    let on = |cpu: CpuId| Some(std::iter::once(cpu).collect::<CpuSet>());
    let error = |workload: &Workload| execute(workload, &options()).unwrap_err().to_string();
    let has = sys::allowed_cpus().unwrap();
    let nowhere = workload(vec![spec("a", vec![]), TaskSpec { cpus: on(absent), ..spec("b", vec![]) }]);
    assert_eq!(error(&nowhere), format!("w: task 1 (b) may only run on CPUs 4000, but this process has CPUs {has}"));
    let later = workload(vec![spec("a", vec![nap(1), Op::Change { cpus: on(absent).map(Box::new), policy: None }])]);
    assert!(error(&later).starts_with("w: task 0 (a) may only run on CPUs 4000"), "{}", error(&later));
    let endless = workload(vec![spec("a", vec![work(1), Op::Repeat { from: 0, times: None }])]);
    assert_eq!(error(&endless), "w: the workload has endless tasks and no duration; set a duration");
    let broken = workload(vec![spec("a", vec![Op::Unlock(MutexId(0))])]);
    assert_eq!(error(&broken), "w, task \"a\", operation 0: unlocks a mutex that it does not hold");
    // A period of 100 ns is below the kernel's minimum.
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

/// Errors name the permission that is missing.
#[test]
fn error_names_the_missing_permission() {
    let text = |policy, nice, errno| {
        let source = std::io::Error::from_raw_os_error(errno);
        ExecuteError::Policy { workload: "w".into(), task: "task 3 (x)".into(), policy, nice, source }.to_string()
    };
    assert_eq!(
        text(Policy::Fifo(7), 0, libc::EPERM),
        "w: task 3 (x) wants SCHED_FIFO with priority 7: Operation not permitted (os error 1); \
         needs root (CAP_SYS_NICE), or an RLIMIT_RTPRIO of at least that priority (ulimit -r)"
    );
    assert_eq!(
        text(Policy::Other, -5, libc::EPERM),
        "w: task 3 (x) wants nice value -5: Operation not permitted (os error 1); \
         needs root (CAP_SYS_NICE), or a sufficient RLIMIT_NICE (ulimit -e)"
    );
    assert_eq!(
        text(Policy::Ext, 0, libc::EINVAL),
        "w: task 3 (x) wants SCHED_EXT with nice value 0: Invalid argument (os error 22); \
         needs Linux 6.12 or later with CONFIG_SCHED_CLASS_EXT"
    );
}

/// Tasks in every state at the end of the duration: working, sleeping, waiting, not started, real-time.
#[test]
fn end_of_the_duration_ends_tasks_in_every_state() {
    let text = r#"{"global": {"duration": 100}, "tasks": {
        "hog": {"run": 1000000}, "burner": {"runtime": 100000000}, "sleeper": {"sleep": 100000000},
        "rt": {"policy": "SCHED_FIFO", "priority": 1, "run": 1000, "sleep": 1000},
        "waiter": {"instance": 20, "suspend": ""}, "late": {"delay": 90000000, "run": 1}}}"#;
    let begin = Instant::now();
    let result = real(&rt_app(text), &Options { duration: Some(Nanos::from_ms(200)), ..options() });
    assert_eq!(result.end, End::Duration);
    assert!(result.elapsed >= Nanos::from_ms(200));
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert_eq!(result.tasks.len(), 24, "the late task was never created");
    let hog = &result.tasks[0];
    assert!(hog.work_done < hog.work_asked && hog.work_done > Nanos::ZERO && !hog.finished);
}

#[test]
fn execution_can_be_stopped_by_another_thread() {
    let workload = rt_app(r#"{"tasks": {"a": {"run": 1000, "sleep": 100}, "b": {"sleep": 100000000}}}"#);
    let options = Options { duration: Some(Nanos::from_secs(1000)), ..options() };
    let prepared = PreparedWorkload::prepare(&workload, &options).unwrap();
    let result = prepared.begin(|running| {
        let stopper = running.stopper();
        std::thread::sleep(Duration::from_millis(100));
        assert!(!running.is_finished());
        stopper.stop();
        running.join().unwrap()
    });
    assert_eq!(result.end, End::Stopped);
    assert!(result.tasks.iter().all(|task| !is_alive(task.tid)));
    // Stopped before it started: no task does anything.
    let result = prepared.begin(|running| {
        running.stopper().stop();
        running.join().unwrap()
    });
    assert_eq!(result.end, End::Stopped);
}

/// All tasks descend from the calling thread's only child.
#[test]
fn coordinator_is_the_only_child_of_the_caller() {
    let workload = rt_app(r#"{"tasks": {"a": {"instance": 2, "loop": 1, "sleep": 300000}}}"#);
    let options = options();
    let prepared = PreparedWorkload::prepare(&workload, &options).unwrap();
    let children = || -> Vec<u32> {
        let numbers = fs::read_to_string("/proc/thread-self/children").expect("a kernel with CONFIG_PROC_CHILDREN");
        numbers.split_whitespace().map(|number| number.parse().unwrap()).collect()
    };
    assert!(children().is_empty());
    prepared.begin(|running| {
        wait_until(|| called(running.coordinator(), "a-0").len() == 1);
        assert_eq!(children(), [running.coordinator()]);
        let coordinator = PathBuf::from(format!("/proc/{}", running.coordinator()));
        assert_eq!(fs::read_to_string(coordinator.join("comm")).unwrap().trim(), "weir-coord");
        assert_eq!(fs::read_dir(coordinator.join("task")).unwrap().count(), 1);
        running.join().unwrap();
    });
    assert!(children().is_empty());
}

/// Without a gate each task starts as soon as it exists.
#[test]
fn tasks_start_immediately_without_a_gate() {
    let workload = rt_app(r#"{"tasks": {"a": {"instance": 4, "loop": 2, "run": 100, "sleep": 1000}}}"#);
    let result = real(&workload, &Options { gate: false, ..options() });
    assert_eq!(result.end, End::Finished);
    assert_eq!(result.tasks.iter().map(Counts::of).collect::<Vec<_>>(), model(&workload).0);
}

/// The memory is read eight times to measure a visit. With 64 MiB that takes more than 50 ms on any machine, so one early
/// start shows that time began after it. A stall of the host can delay the other starts.
#[test]
fn memory_of_tasks_is_made_before_time_starts() {
    let workload = rt_app(r#"{"tasks": {"a": {"loop": 1, "run": 100, "footprint": "64M", "stream": 10}}}"#);
    let start = || real(&workload, &Options { gate: false, ..options() }).tasks[0].started;
    let mut starts = Vec::new();
    while !starts.iter().any(|started| *started < Nanos::from_ms(50)) {
        assert!(starts.len() < 4, "started after {starts:?}");
        starts.push(start());
    }
}

/// A waiter that has left its CPU is recognized as sleeping; a spinning task is not.
#[test]
fn sleeping_waiter_is_distinguished_from_a_spinning_one() {
    let handle = std::sync::Arc::new(shared::TaskHandle::default());
    let other = handle.clone();
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
    wait_until(|| handle.asleep_from.load(SeqCst) != 0);
    for _ in 0..50 {
        assert!(!handle.is_asleep());
    }
    handle.word.store(2, SeqCst);
    wait_until(|| handle.is_asleep());
    handle.wake();
    thread.join().unwrap();
}

/// The shipped recording, 200 times faster: 2833 threads that fork and wait for each other.
#[test]
fn recorded_build_is_executed_completely() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/recorded/build.weir");
    let mut workload = Workload::from_bytes("build.weir", &fs::read(path).unwrap()).unwrap();
    for op in workload.tasks.iter_mut().flat_map(|task| &mut task.script) {
        match op {
            Op::Work { user, system } => (user.0, system.0) = (user.0 / 200, system.0 / 200),
            Op::Sleep(time, _) => time.0 /= 200,
            _ => {}
        }
    }
    let result = real(&workload, &Options { log: false, ..options() });
    let outcome = (&result.end, result.tasks.len(), result.failed_forks, result.refused_changes);
    assert_eq!(outcome, (&End::Finished, workload.tasks.len(), 0, 0));
    let sum = |count: fn(&TaskResult) -> u64| result.tasks.iter().map(count).sum::<u64>();
    assert_eq!(sum(|task| task.work_done.0), model(&workload).0.iter().map(|counts| counts.work.0).sum::<u64>());
    assert_eq!(sum(|task| task.waits), sum(|task| task.wakes));
    assert_eq!(sum(|task| task.forks) + 1, workload.tasks.len() as u64);
}

/// Requests arrive at their own times, whatever the workers do; every one is measured from its arrival.
#[test]
fn requests_are_measured_from_their_arrival() {
    let text = r#"{"sources": {"s": {"arrivals_us": [1000, 2000, 2000, 9000]}},
        "tasks": {"w": {"instance": 2, "take_request": "s", "run": 200}}}"#;
    let result = real(&rt_app(text), &Options { duration: Some(Nanos::from_secs(10)), ..options() });
    let requests = &result.requests[0];
    assert_eq!((requests.source.as_str(), requests.served, requests.completed()), ("s", 4, 4));
    assert_eq!(requests.arrivals, 4);
    assert!(requests.latencies.min() > Nanos::ZERO && result.elapsed >= Nanos::from_us(9_000));
}
