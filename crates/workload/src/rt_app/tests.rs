// SPDX-License-Identifier: GPL-2.0-only
//! rt-app files and the resulting workloads or errors.

use crate::{Op, Workload};
use expect_test::{Expect, expect};
use ids::Nanos;
use proptest::prelude::*;
use std::fmt::Write;

fn show(text: &str) -> String {
    let workload = match Workload::from_rt_app("dir/w.json", text) {
        Ok(workload) => workload,
        Err(error) => return error.to_string(),
    };
    let mut shown = String::new();
    for task in &workload.tasks {
        let cpus = task.cpus.as_ref().map_or("all".into(), |cpus| cpus.to_string());
        writeln!(shown, "{} {:?} {:?} {} on {cpus}", task.name, task.start, task.policy, task.nice).unwrap();
        for (index, op) in task.script.iter().enumerate() {
            writeln!(shown, "  {index} {op:?}").unwrap();
        }
    }
    let Workload { duration, mutexes, conditions, barriers, references, .. } = &workload;
    let mutexes = mutexes.len();
    write!(shown, "{duration:?} mutexes {mutexes} conditions {conditions} barriers {barriers:?} timers {references}")
        .unwrap();
    shown
}

#[test]
fn tasks_inherit_cpus_and_user_of_their_groups() {
    let text = r#"{
      "taskgroups": {"/a/x": {"weight": 300, "cap_percent": 50, "hard": true, "job": true, "uid": 7, "cpus": "1-5"},
                     "/a": {"uid": 5, "cpus": "0-3"}},
      "tasks": {"x": {"instance": 2, "taskgroup": "/a/x", "run": 1},
                "y": {"taskgroup": "/a/y", "cpus": [2, 6], "loop": 1, "run": 1, "change": {"task": "z", "cpus": [1, 9]}},
                "z": {"taskgroup": "/a/x", "phases": {"p": {"cpus": [9], "run": 1}, "q": {"run": 1}}},
                "top": {"taskgroup": "", "run": 1, "fork": "free"}, "free": {"instance": 0, "run": 1},
                "w": {"taskgroup": "/a", "run": 1, "fork": "child"}, "child": {"instance": 0, "run": 1, "fork": "own"},
                "own": {"instance": 0, "taskgroup": "/a/y", "run": 1}}
    }"#;
    let workload = Workload::from_rt_app("w.json", text).unwrap();
    let mut shown = String::new();
    for (spec, task) in (0..).zip(&workload.tasks) {
        let cpus = task.cpus.as_ref().map_or("all".into(), |cpus| cpus.to_string());
        write!(shown, "{} in {:?} of {:?} on {cpus}", task.name, workload.group_of(spec), task.who.uid).unwrap();
        for op in &task.script {
            if let Op::Change { cpus: Some(cpus), .. } | Op::ChangeOf { cpus: Some(cpus), .. } = op {
                write!(shown, ", then {cpus}").unwrap();
            }
        }
        shown.push('\n');
    }
    expect![[r#"
        x-0 in Some("/a/x") of Some(7) on 1-3
        x-1 in Some("/a/x") of Some(7) on 1-3
        y in Some("/a/y") of Some(5) on 2, then 1
        z in Some("/a/x") of Some(7) on 1-3, then 1-3, then 1-3
        top in None of None on all
        free in None of None on all
        w in Some("/a") of Some(5) on 0-3
        child in Some("/a") of Some(5) on 0-3
        own in Some("/a/y") of Some(5) on 0-3
    "#]]
    .assert_eq(&shown);
    let groups: Vec<_> = workload.all_groups();
    let shown: Vec<_> = groups.iter().map(|group| (&*group.path, group.weight, group.cap_percent, group.job)).collect();
    assert_eq!(shown, [("/a", 100, None, false), ("/a/x", 300, Some(50), true), ("/a/y", 100, None, false)]);
}

/// A file with these tasks.
fn tasks(tasks: &str) -> String {
    format!("{{\"tasks\": {{{tasks}}}}}")
}

fn check(text: &str, expected: Expect) {
    expected.assert_eq(&show(text));
}

#[test]
fn repeated_events_keep_their_order() {
    check(
        &tasks(r#""a": {"run": 1, "sleep": 2, "run": 3, "runtime1": 4, "yield": "", "run_b": 0}"#),
        expect![[r#"
        a At(Nanos(0)) Other 0 on all
          0 Work { user: Nanos(1000), system: Nanos(0) }
          1 Sleep(Nanos(2000), Timer)
          2 Work { user: Nanos(3000), system: Nanos(0) }
          3 CpuTime(Nanos(4000))
          4 Yield
          5 Work { user: Nanos(0), system: Nanos(0) }
          6 Repeat { from: 0, times: None }
        None mutexes 0 conditions 0 barriers [] timers 0"#]],
    );
}

#[test]
fn phases_loops_instances_and_parameters_are_read() {
    let text = r#"{
      // Comments and a trailing comma.
      "tasks": {
        "a": {
          "instance": 2, "delay": 5, "loop": 3, "cpus": [4], "policy": "SCHED_BATCH", "priority": -5,
          "phases": {
            "one": {"loop": 2, "cpus": [0, 1], "run": 1},
            "two": {"run": 2, "policy": "SCHED_FIFO"},
            "three": {"run": 3, "priority": 20},
            "four": {"run": 3, "priority": 3, "policy": "SCHED_OTHER", "loop": -1},
          },
        },
        "b": {"run": 1, "policy": "SCHED_DEADLINE", "dl-runtime": 1, "dl-period": 10},
        "c": {"run": 1, "policy": "SCHED_IDLE", "loop": 1},
      },
      "global": {"duration": 7, "default_policy": "SCHED_RR", "calibration": "CPU0", "ftrace": "none", "logdir": "./"},
    }"#;
    check(
        text,
        expect![[r#"
        a-0 At(Nanos(5000)) Batch -5 on 0-1
          0 Change { cpus: Some({0-1}), policy: None }
          1 Work { user: Nanos(1000), system: Nanos(0) }
          2 Repeat { from: 1, times: Some(2) }
          3 Change { cpus: Some({4}), policy: Some((Fifo(10), 0)) }
          4 Work { user: Nanos(2000), system: Nanos(0) }
          5 Change { cpus: Some({4}), policy: Some((Fifo(20), 0)) }
          6 Work { user: Nanos(3000), system: Nanos(0) }
          7 Change { cpus: Some({4}), policy: Some((Other, 3)) }
          8 Work { user: Nanos(3000), system: Nanos(0) }
          9 Repeat { from: 8, times: None }
          10 Repeat { from: 0, times: Some(3) }
        a-1 At(Nanos(5000)) Batch -5 on 0-1
          0 Change { cpus: Some({0-1}), policy: None }
          1 Work { user: Nanos(1000), system: Nanos(0) }
          2 Repeat { from: 1, times: Some(2) }
          3 Change { cpus: Some({4}), policy: Some((Fifo(10), 0)) }
          4 Work { user: Nanos(2000), system: Nanos(0) }
          5 Change { cpus: Some({4}), policy: Some((Fifo(20), 0)) }
          6 Work { user: Nanos(3000), system: Nanos(0) }
          7 Change { cpus: Some({4}), policy: Some((Other, 3)) }
          8 Work { user: Nanos(3000), system: Nanos(0) }
          9 Repeat { from: 8, times: None }
          10 Repeat { from: 0, times: Some(3) }
        b At(Nanos(0)) Deadline { runtime: Nanos(1000), deadline: Nanos(10000), period: Nanos(10000) } 0 on all
          0 Work { user: Nanos(1000), system: Nanos(0) }
          1 Repeat { from: 0, times: None }
        c At(Nanos(0)) Idle 0 on all
          0 Work { user: Nanos(1000), system: Nanos(0) }
        Some(Nanos(7000000000)) mutexes 0 conditions 0 barriers [] timers 0"#]],
    );
}

#[test]
fn affinity_of_a_phase_ends_with_the_phase() {
    check(
        &tasks(r#""a": {"loop": 1, "phases": {"x": {"cpus": [1], "run": 1}, "y": {"run": 1}}}"#),
        expect![[r#"
        a At(Nanos(0)) Other 0 on 1
          0 Change { cpus: Some({1}), policy: None }
          1 Work { user: Nanos(1000), system: Nanos(0) }
          2 Change { cpus: Some({0-4095}), policy: None }
          3 Work { user: Nanos(1000), system: Nanos(0) }
        None mutexes 0 conditions 0 barriers [] timers 0"#]],
    );
}

/// As in rt-app, a name of `suspend` and `resume` is that of a condition variable: tasks of other names may use it.
#[test]
fn tasks_suspend_and_resume_under_any_name() {
    let text = r#"{
      "tasks": {
        "sub": {"instance": 2, "loop": -1, "suspend": "render", "run": 1},
        "main": {"loop": 2, "phases": {"p": {"resume": "nobody", "run": 5, "resume": "render", "suspend": ""}}},
        "waker": {"loop": 1, "resume": "main"},
      }
    }"#;
    check(
        text,
        expect![[r#"
        sub-0 At(Nanos(0)) Other 0 on all
          0 Lock(MutexId(0))
          1 Wait(ConditionId(0), MutexId(0))
          2 Unlock(MutexId(0))
          3 Work { user: Nanos(1000), system: Nanos(0) }
          4 Repeat { from: 0, times: None }
        sub-1 At(Nanos(0)) Other 0 on all
          0 Lock(MutexId(0))
          1 Wait(ConditionId(0), MutexId(0))
          2 Unlock(MutexId(0))
          3 Work { user: Nanos(1000), system: Nanos(0) }
          4 Repeat { from: 0, times: None }
        main At(Nanos(0)) Other 0 on all
          0 Work { user: Nanos(5000), system: Nanos(0) }
          1 Broadcast(ConditionId(0))
          2 Suspend
          3 Repeat { from: 0, times: Some(2) }
        waker At(Nanos(0)) Other 0 on all
          0 Resume([2])
        None mutexes 1 conditions 1 barriers [] timers 0"#]],
    );
}

#[test]
fn synchronization_events_become_operations() {
    let text = r#"{
      "resources": {"m": {"type": "mutex"}, "c": {"type": "wait"}},
      "tasks": {
        "a": {"lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m", "barrier": "b", "suspend": "a", "fork": "d"},
        "b": {"instance": 2, "signal": "c", "broad": "c2", "sync": {"ref": "c", "mutex": "m"}, "barrier0": "b", "resume": "a"},
        "c": {"lock": "n", "sync": {"ref": "c", "mutex": "n"}, "unlock": "n", "resume": "b"},
        "d": {"instance": 0, "run": 1, "loop": 1},
      }
    }"#;
    check(
        text,
        expect![[r#"
        a At(Nanos(0)) Other 0 on all
          0 Lock(MutexId(0))
          1 Wait(ConditionId(0), MutexId(0))
          2 Unlock(MutexId(0))
          3 Barrier(BarrierId(0))
          4 Suspend
          5 Fork(4)
          6 Repeat { from: 0, times: None }
        b-0 At(Nanos(0)) Other 0 on all
          0 Signal(ConditionId(0))
          1 Broadcast(ConditionId(1))
          2 Lock(MutexId(0))
          3 Sync(ConditionId(0), MutexId(0))
          4 Unlock(MutexId(0))
          5 Barrier(BarrierId(0))
          6 Resume([0])
          7 Repeat { from: 0, times: None }
        b-1 At(Nanos(0)) Other 0 on all
          0 Signal(ConditionId(0))
          1 Broadcast(ConditionId(1))
          2 Lock(MutexId(0))
          3 Sync(ConditionId(0), MutexId(0))
          4 Unlock(MutexId(0))
          5 Barrier(BarrierId(0))
          6 Resume([0])
          7 Repeat { from: 0, times: None }
        c At(Nanos(0)) Other 0 on all
          0 Lock(MutexId(1))
          1 Sync(ConditionId(0), MutexId(1))
          2 Unlock(MutexId(1))
          3 Resume([1, 2])
          4 Repeat { from: 0, times: None }
        d Forked Other 0 on all
          0 Work { user: Nanos(1000), system: Nanos(0) }
        None mutexes 2 conditions 2 barriers [3] timers 0"#]],
    );
}

#[test]
fn timers_are_shared_or_unique_and_absolute_for_all_users() {
    let text = tasks(
        r#""a": {"timer": {"ref": "t", "period": 1}, "timer": {"ref": "uniqueA", "period": 2}, "timer": {"period": 5}},
           "b": {"timer": {"ref": "t", "period": 3, "mode": "absolute"}, "timer": {"ref": "uniqueA", "period": 4, "mode": "relative"},
                 "timer": {"ref": "uniqueB", "period": 6}, "timer": {"ref": "uniqueB", "period": 7, "mode": "absolute"}}"#,
    );
    check(
        &text,
        expect![[r#"
            a At(Nanos(0)) Other 0 on all
              0 Timer { reference: Reference(0), period: Nanos(1000), absolute: true }
              1 Timer { reference: Reference(2147483648), period: Nanos(2000), absolute: false }
              2 Timer { reference: Reference(1), period: Nanos(5000), absolute: false }
              3 Repeat { from: 0, times: None }
            b At(Nanos(0)) Other 0 on all
              0 Timer { reference: Reference(0), period: Nanos(3000), absolute: true }
              1 Timer { reference: Reference(2147483648), period: Nanos(4000), absolute: false }
              2 Timer { reference: Reference(2147483649), period: Nanos(6000), absolute: true }
              3 Timer { reference: Reference(2147483649), period: Nanos(7000), absolute: true }
              4 Repeat { from: 0, times: None }
            None mutexes 0 conditions 0 barriers [] timers 2"#]],
    );
}

#[test]
fn change_event_modifies_another_task() {
    let text = tasks(
        r#""a": {"change0": {"task": "b", "cpus": [1, 2]}, "change1": {"task": "b", "policy": "SCHED_FIFO", "priority": 5},
                 "change2": {"task": "b", "priority": -3}, "run": 1},
           "b": {"run": 1}"#,
    );
    check(
        &text,
        expect![[r#"
        a At(Nanos(0)) Other 0 on all
          0 ChangeOf { spec: 1, cpus: Some({1-2}), policy: None }
          1 ChangeOf { spec: 1, cpus: None, policy: Some((Fifo(5), 0)) }
          2 ChangeOf { spec: 1, cpus: None, policy: Some((Other, -3)) }
          3 Work { user: Nanos(1000), system: Nanos(0) }
          4 Repeat { from: 0, times: None }
        b At(Nanos(0)) Other 0 on all
          0 Work { user: Nanos(1000), system: Nanos(0) }
          1 Repeat { from: 0, times: None }
        None mutexes 0 conditions 0 barriers [] timers 0"#]],
    );
}

#[test]
fn windows_are_listed_by_truncated_name() {
    let text = r#"{"tasks": {"a-name-of-17-byte": {"instance": 2, "run": 1, "window": [1, 2], "request-us": 5},
                             "b": {"run": 1, "window": [0, 0], "request-us": 1000}, "c": {"run": 1}},
                   "taskgroups": {"/a/x": {"reserve": {"cpus": 2, "ms": 5}}, "/b": {"reserve": {"cpus": 1, "from-ms": 7}}}}"#;
    let workload = Workload::from_rt_app("w.json", text).unwrap();
    let window = |late, of, us| crate::Window { late, of, request: ids::Nanos::from_us(us) };
    assert_eq!(workload.windows(), [("a-name-of-17-by", window(1, 2, 5)), ("b", window(0, 0, 1000))]);
    let reserved: Vec<_> = workload.groups.iter().filter_map(|group| group.reserve).collect();
    let expected = [(2, 0, Some(5)), (1, 7, None)].map(|(cpus, from_ms, ms)| crate::Reserved { cpus, from_ms, ms });
    assert_eq!(reserved, expected);
}

#[test]
fn lending_is_listed_by_truncated_name() {
    let text = r#"{"tasks": {"z": {"run": 1}, "a-name-of-17-byte": {"instance": 2, "run": 1, "lends": "b"},
                             "b": {"run": 1, "lends": "z"}, "c": {"run": 1}}}"#;
    let workload = Workload::from_rt_app("w.json", text).unwrap();
    let lending = |task, lends_to, lent_as| crate::Lending { task, lends_to, lent_as };
    let expected = [lending("a-name-of-17-by", 1, 0), lending("b", 2, 1), lending("z", 0, 2)];
    assert_eq!(workload.lending(), expected);
}

#[test]
fn unsupported_features_give_errors_with_position() {
    let files = [
        r#"{"tasks": {"a": {"run": 1, "change": {"task": "b", "cpus": [1]}}}}"#,
        r#"{"tasks": {"a": {"run": 1, "change": {"cpus": [1]}}}}"#,
        r#"{"tasks": {"a": {"run": 1, "change": {"task": "b", "priority": 1}}, "b": {"instance": 2, "run": 1}}}"#,
        r#"{"tasks": {"a": {"run": 1, "change": {"task": "a", "prio": 1}}}}"#,
        r#"{"tasks": {"a": {"run": 1, "mem": 5}}}"#,
        r#"{"tasks": {"a": {"sem_wait": "x"}}}"#,
        r#"{"locks": {"l": {"kind": "tickt"}}, "tasks": {"a": {"run": 1}}}"#,
        r#"{"locks": {"l": {"kind": "rwlock", "stripes": 0}}, "tasks": {"a": {"run": 1}}}"#,
        r#"{"locks": {"l": {"kind": "mutex"}}, "tasks": {"a": {"critical_sections": {"lock": "m", "hold_ns": 5}}}}"#,
        r#"{"locks": {"l": {"kind": "mutex"}}, "tasks": {"a": {"critical_sections": {"lock": "l", "mode": "read"}}}}"#,
        r#"{"locks": {"l": {"kind": "mutex"}}, "tasks": {"a": {"critical_sections": {"lock": "l", "hold": 5}}}}"#,
        r#"{"locks": {"l": {"kind": "mutex"}}, "tasks": {"a": {"critical_sections": {"lock": "l", "draw": "normal"}}}}"#,
        r#"{"tasks": {"a": {"run": 1, "util_min": 5}}}"#,
        r#"{"tasks": {"a": {"run": 1, "taskgroup": "x"}}}"#,
        r#"{"tasks": {"a": {"phases": {"p": {"run": 1, "taskgroup": "/x"}}}}}"#,
        r#"{"taskgroups": {"/a/../b": {}}, "tasks": {"a": {"run": 1}}}"#,
        r#"{"taskgroups": {"/a": {}, "/a": {}}, "tasks": {"a": {"run": 1}}}"#,
        r#"{"taskgroups": {"/a": {"wieght": 5}}, "tasks": {"a": {"run": 1}}}"#,
        r#"{"taskgroups": {"/a": {"weight": 0}}, "tasks": {"a": {"run": 1}}}"#,
        r#"{"taskgroups": {"/a": {"hard": true}}, "tasks": {"a": {"run": 1}}}"#,
        r#"{"taskgroups": {"/a": {"cap_percent": 0, "hard": true}}, "tasks": {"a": {"run": 1}}}"#,
        r#"{"taskgroups": {"/a/x": {"cap_percent": 0}, "/b/x": {"cap_percent": 5}}, "tasks": {"a": {"run": 1}}}"#,
        r#"{"taskgroups": {"/a": {"cpus": [0, 1]}}, "tasks": {"a": {"run": 1}}}"#,
        r#"{"taskgroups": {"/a": {"uid": -1}}, "tasks": {"a": {"run": 1}}}"#,
        r#"{"taskgroups": {"/a/x": {"cpus": "4"}, "/a": {"cpus": "0-3"}}, "tasks": {"a": {"run": 1}}}"#,
        r#"{"taskgroups": {"/a": {"reserve": {"ms": 5}}}, "tasks": {"a": {"run": 1}}}"#,
        r#"{"taskgroups": {"/a": {"reserve": {"cpus": 0}}}, "tasks": {"a": {"run": 1}}}"#,
        r#"{"taskgroups": {"/a/x": {"reserve": {"cpus": 1}}, "/b/x": {"reserve": {"cpus": 1}}}, "tasks": {"a": {"run": 1}}}"#,
        r#"{"tasks": {"a": {"run": 1, "window": [1, 2]}}}"#,
        r#"{"tasks": {"a": {"run": 1, "request-us": 5}}}"#,
        r#"{"tasks": {"a": {"run": 1, "window": [2, 1], "request-us": 5}}}"#,
        r#"{"tasks": {"a": {"run": 1, "window": [1], "request-us": 5}}}"#,
        r#"{"tasks": {"a": {"run": 1, "window": 5, "request-us": 5}}}"#,
        r#"{"tasks": {"a": {"run": 1, "window": [1, 2], "request-us": 0}}}"#,
        r#"{"tasks": {"a": {"phases": {"p": {"run": 1, "window": [1, 2]}}}}}"#,
        r#"{"tasks": {"fifteen-bytes-01": {"run": 1, "window": [1, 2], "request-us": 5}, "fifteen-bytes-02": {"run": 1}}}"#,
        r#"{"tasks": {"a": {"run": 1, "lends": "bb"}, "b": {"run": 1}}}"#,
        r#"{"tasks": {"a": {"run": 1, "lends": "a"}}}"#,
        r#"{"tasks": {"a": {"run": 1, "lends": "b"}, "b": {"instance": 2, "run": 1}}}"#,
        r#"{"tasks": {"a": {"run": 1, "lends": "fifteen-bytes-01"}, "fifteen-bytes-01": {"run": 1}, "fifteen-bytes-02": {"run": 1}}}"#,
        r#"{"tasks": {"fifteen-bytes-01": {"run": 1, "lends": "b"}, "fifteen-bytes-02": {"run": 1}, "b": {"run": 1}}}"#,
        r#"{"tasks": {"a": {"phases": {"p": {"run": 1, "nodes_membind": [0]}}}}}"#,
        r#"{"tasks": {"a": {"run": 1, "prioritty": 5}}}"#,
        r#"{"tasks": {"a": {"run": 1, "dl-runtime": 5}}}"#,
        r#"{"tasks": {"a": {"run": 1, "policy": "SCHED_DEADLINE"}}}"#,
        r#"{"tasks": {"a": {"run": 1, "policy": "SCHED_FIF0"}}}"#,
        r#"{"tasks": {"a": {"run": 1, "policy": "SCHED_FIFO", "priority": 0}}}"#,
        r#"{"tasks": {"a": {"run": 1, "priority": 20}}}"#,
        r#"{"tasks": {"a": {"run": 1, "policy": "SCHED_RR", "priority": -3}}}"#,
        r#"{"tasks": {"a": {"run": 1, "period": 20}}}"#,
        r#"{"tasks": {"a": {"run": 1.5}}}"#,
        r#"{"tasks": {"a": {"run": -1}}}"#,
        r#"{"tasks": {"a": {"run": "1"}}}"#,
        r#"{"tasks": {"a": {"loop": 0, "run": 1}}}"#,
        r#"{"tasks": {"a": {"loop": 2, "run": 1, "loop": 3}}}"#,
        r#"{"tasks": {"a": {}}}"#,
        r#"{"tasks": {"a": {"phases": {}}}}"#,
        r#"{"tasks": {"a": {"phases": {"p": {"loop": 1}}}}}"#,
        r#"{"tasks": {"a": {"run": 1, "phases": {"p": {"run": 1}}}}}"#,
        r#"{"tasks": {"a": {"run": 1, "cpus": []}}}"#,
        r#"{"tasks": {"a": {"run": 1, "cpus": [4096]}}}"#,
        r#"{"tasks": {"a": {"run": 1}, "a": {"run": 1}}}"#,
        r#"{"tasks": {"alpha": {"run": 1, "fork": "alhpa"}}}"#,
        r#"{"tasks": {"a": {"unlock": "m", "run": 1}}}"#,
        r#"{"tasks": {"a": {"lock": "m", "run": 1}}}"#,
        r#"{"tasks": {"a": {"wait": {"ref": "c", "mutex": "m"}}}}"#,
        r#"{"tasks": {"a": {"wait": {"ref": "c", "mutx": "m"}}}}"#,
        r#"{"tasks": {"a": {"timer": {"ref": "c", "period": 1, "mode": "x"}}}}"#,
        r#"{"tasks": {"a": {"barrier": "b", "run": 1, "barrier": "b"}}}"#,
        r#"{"tasks": {"a": {"fork": "b", "run": 1}, "b": {"barrier": "x", "run": 1}}}"#,
        r#"{"tasks": {"a": {"fork": "b", "run": 1}, "b": {"delay": 1, "run": 1}}}"#,
        r#"{"tasks": {"a": {"fork": "a", "run": 1}}}"#,
        r#"{"tasks": {"a": {"instance": 0, "run": 1}}}"#,
        r#"{"tasks": {"a": {"instance": 60000, "run": 1}, "b": {"instance": 60000, "run": 1}}}"#,
        "{\"tasks\": {\"a\": {\n  \"lock\": \"m\",\n  \"unlock\": \"m\"}}}",
        r#"{"tasks": {"a": {"run": 1}}, "globl": {}}"#,
        r#"{"tasks": {"a": {"policy": "SCHED_DEADLINE", "dl-runtime": 1, "dl-period": 9, "run": 1}},
            "global": {"pi_enabled": true}}"#,
        r#"{"tasks": {"a": {"run": 1}}, "global": {"duration": 1.5}}"#,
        r#"{"tasks": {"a": {"run": 1}}, "resources": {"m": {"type": "mutx"}}}"#,
        r#"{"tasks": {}}"#,
        r#"{"global": {}}"#,
        r#"{"tasks": [1]}"#,
        "[]",
        "{\n\"tasks\": x}",
    ];
    let errors: Vec<String> = files.iter().map(|text| show(text)).collect();
    expect![[r#"
        dir/w.json:1:47: no task is named "b"
        dir/w.json:1:28: task "a", "change" has no "task"
        dir/w.json:1:47: change of "b", which has several instances; expected a task with one instance
        dir/w.json:1:52: task "a", "change" has an unknown key "prio"; known are task, cpus, policy, priority, dl-runtime, dl-period, dl-deadline
        dir/w.json:1:28: task "a" has the event "mem": memory and device accesses are not supported; supported are runtime, run, sleep, iorun, lock, unlock, signal, broad, wait, sync, barrier, timer, resume, suspend, yield, fork, change, spin_barrier, critical_sections, read, write, fsync, unmap, call, take_request, serve
        dir/w.json:1:18: task "a" has the event "sem_wait": semaphores are not supported; supported are runtime, run, sleep, iorun, lock, unlock, signal, broad, wait, sync, barrier, timer, resume, suspend, yield, fork, change, spin_barrier, critical_sections, read, write, fsync, unmap, call, take_request, serve
        dir/w.json:1:26: kind is "tickt"; expected one of test-and-set, ticket, queued, rwlock, seqlock, rcu, mutex, atomic
        dir/w.json:1:47: stripes is 0; expected an integer from 1 to 1048576
        dir/w.json:1:83: no lock is named "m" in the section "locks"
        dir/w.json:1:53: task "a": lock "l" has no readers; expected mode "write"
        dir/w.json:1:88: task "a", "critical_sections" has an unknown key "hold" (did you mean "hold_ns"?); known are lock, mode, draw, hold_ns, between_ns, times
        dir/w.json:1:96: draw is "normal"; expected "fixed" or "exponential"
        dir/w.json:1:28: task "a" has "util_min": utilization clamps are not supported
        dir/w.json:1:41: task "a": group "x"; expected a path such as /a/x
        dir/w.json:1:45: task "a", phase "p" has a taskgroup; supported only for a whole task
        dir/w.json:1:17: group "/a/../b"; expected a path such as /a/x, with names of at most 255 bytes other than . and ..
        dir/w.json:1:27: duplicate group "/a"
        dir/w.json:1:24: group "/a" has an unknown key "wieght" (did you mean "weight"?); known are weight, cap_percent, hard, cpus, uid, job, reserve
        dir/w.json:1:34: weight is 0; expected an integer from 1 to 10000
        dir/w.json:1:32: group "/a" is hard, but has no cap_percent
        dir/w.json:1:50: group "/a" has a hard cap_percent of 0; expected at least 1, or a cap that is not hard
        dir/w.json:1:74: groups "/b/x" and "/a/x" have different caps; expected different names or equal caps
        dir/w.json:1:32: cpus is an array; expected a list of CPUs such as "0-3,6"
        dir/w.json:1:31: uid is -1; expected an integer from 0 to 4294967294
        dir/w.json:1:64: group "/a/x" has CPUs 4, but the enclosing groups have 0-3
        dir/w.json:1:24: reserve has no "cpus"
        dir/w.json:1:44: cpus is 0; expected an integer from 1 to 4096
        dir/w.json:1:86: groups "/b/x" and "/a/x" both reserve CPUs; expected different names
        dir/w.json:1:28: task "a" has a window, but no request-us: the time that a request may take
        dir/w.json:1:28: task "a" has request-us, but no window: how many requests may be late
        dir/w.json:1:38: window is an array; expected [x, y]: x of y requests may be late, from 0 to 255, x not above y
        dir/w.json:1:38: window is an array; expected [x, y]: x of y requests may be late, from 0 to 255, x not above y
        dir/w.json:1:38: window is 5; expected [x, y]: x of y requests may be late, from 0 to 255, x not above y
        dir/w.json:1:60: request-us is 0; expected an integer from 1 to 1000000000
        dir/w.json:1:45: task "a", phase "p" has an unknown key "window"; known are loop, cpus, policy, priority, dl-runtime, dl-period, dl-deadline, taskgroup
        dir/w.json:1:12: task "fifteen-bytes-01": "fifteen-bytes-01" and "fifteen-bytes-02" have the same name "fifteen-bytes-0" in the kernel, but differ in window or request-us
        dir/w.json:1:37: no task is named "bb"
        dir/w.json:1:37: task "a" lends to "a"; expected another task with one instance
        dir/w.json:1:37: task "a" lends to "b"; expected another task with one instance
        dir/w.json:1:12: task "a": it lends to "fifteen-bytes-0", but in the kernel several tasks have that name
        dir/w.json:1:12: task "fifteen-bytes-01": "fifteen-bytes-01" and "fifteen-bytes-02" have the same name in the kernel, but do not lend to the same task
        dir/w.json:1:45: task "a", phase "p" has "nodes_membind": bindings to memory nodes are not supported
        dir/w.json:1:28: task "a" has an unknown key "prioritty" (did you mean "priority"?); known are instance, delay, loop, cpus, policy, priority, dl-runtime, dl-period, dl-deadline, taskgroup, process, window, request-us, memory, footprint, dirty, stream, memory-share, region, placement, lends, phases
        dir/w.json:1:12: task "a" has dl-… parameters; supported only with SCHED_DEADLINE
        dir/w.json:1:12: task "a": SCHED_DEADLINE needs dl-runtime
        dir/w.json:1:38: unknown policy "SCHED_FIF0" (did you mean "SCHED_FIFO"?); known are SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_FIFO, SCHED_RR, SCHED_DEADLINE
        dir/w.json:1:12: task "a": real-time priority 0; expected 1 to 99
        dir/w.json:1:12: task "a": nice value 20; expected -20 to 19
        dir/w.json:1:12: task "a": real-time priority -3; expected 1 to 99
        dir/w.json:1:28: task "a" has "period": the old names of dl-period and the like are not supported
        dir/w.json:1:25: run is a number that is not a 64-bit integer; expected an integer from 0 to 2147483647
        dir/w.json:1:25: run is -1; expected an integer from 0 to 2147483647
        dir/w.json:1:25: run is "1"; expected an integer from 0 to 2147483647
        dir/w.json:1:26: loop is 0; expected -1 (endless) or a number from 1
        dir/w.json:1:39: task "a" has loop twice
        dir/w.json:1:12: task "a" has no event
        dir/w.json:1:18: task "a" has no phase
        dir/w.json:1:29: task "a", phase "p" has no event
        dir/w.json:1:18: task "a" has phases and also the event "run"; expected one of both
        dir/w.json:1:36: cpus is empty; expected at least one CPU number
        dir/w.json:1:37: cpus is 4096; expected an integer from 0 to 4095
        dir/w.json:1:29: duplicate task "a"
        dir/w.json:1:40: no task is named "alhpa" (did you mean "alpha"?)
        dir/w.json:1:18: task "a": unlocks a mutex that it does not hold
        dir/w.json:1:12: task "a": the loop does not hold the same mutexes at its end as at its start
        dir/w.json:1:18: task "a": waits with a mutex that it does not hold; expected a lock operation before
        dir/w.json:1:39: task "a", "wait" has an unknown key "mutx" (did you mean "mutex"?); known are ref, mutex
        dir/w.json:1:61: mode is "x"; expected "relative" or "absolute"
        dir/w.json:1:55: barrier "b" is used twice in this task; each place needs its own name
        dir/w.json:1:42: a forked task uses a barrier; the number of participants would be unknown
        dir/w.json:1:42: a forked task has a delay, which is not supported; start its script with a sleep
        dir/w.json:1:18: task "a": forks itself, directly or through other tasks: unbounded number of tasks
        dir/w.json:1:2: every task is forked; at least one must start by itself
        dir/w.json:1:48: more than 100000 instances in all
        dir/w.json:1:12: task "a": loop without run, sleep or wait: no time would pass
        dir/w.json:1:30: the file has an unknown key "globl" (did you mean "global"?); known are global, resources, locks, sources, taskgroups, tasks
        dir/w.json:2:38: pi_enabled: deadline tasks pass on no deadline here; expected false or no SCHED_DEADLINE task
        dir/w.json:1:53: duration is a number that is not a 64-bit integer; expected an integer from -1 to 2147483647
        dir/w.json:1:58: resource of type "mutx"; expected one of mutex, wait, signal, broadcast, sync, timer, barrier, sleep, run
        dir/w.json:1:2: every task is forked; at least one must start by itself
        dir/w.json:1:1: the file has no "tasks"
        dir/w.json:1:11: "tasks" is an array; expected an object
        dir/w.json:1:1: the file contains an array; expected an object
        dir/w.json:2:10: found "x"; expected a value (strings need quotes)"#]].assert_eq(&errors.join("\n"));
}

/// Minimal versions of files that the peer simulator handles wrongly; durations are unchanged.
#[test]
fn rt_app_files_that_another_simulator_mishandles_are_read_correctly() {
    let global = r#""global": {"duration": 10, "default_policy": "SCHED_OTHER", "calibration": "CPU0"}"#;
    for instances in [8, 256, 2048] {
        let task = format!(r#""periodic": {{"instance": {instances}, "loop": -1, "run": 10000, "sleep": 10000}}"#);
        let workload = Workload::from_rt_app("a", &format!("{{{global}, \"tasks\": {{{task}}}}}")).unwrap();
        assert_eq!((workload.tasks.len(), workload.duration), (instances, Some(ids::Nanos::from_secs(10))));
        assert!(workload.tasks.iter().all(|task| task.script == workload.tasks[0].script));
        assert!(matches!(
            workload.tasks[0].script[..],
            [Op::Work { .. }, Op::Sleep(..), Op::Repeat { from: 0, times: None }]
        ));
    }
}

const WORD: &str =
    "[\"{}:,\\[\\]]|\"(run|sleep|loop|phases|tasks|global|lock|unlock|timer|ref|m|instance)\"|-?[0-9]{1,3}| ";

proptest! {
    #[test]
    fn any_document_is_parsed_or_refused(words in prop::collection::vec(WORD, 0..30)) {
        let _ = Workload::from_rt_app("w", &words.concat());
    }

    #[test]
    fn damaged_files_never_panic(
        file in 0..crate::shipped().len(),
        at in any::<prop::sample::Index>(),
        bit in 0..7,
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = crate::shipped()[file].1.as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= 1u8 << bit;
        bytes.truncate(cut.index(bytes.len()) + 1);
        if let Ok(workload) = Workload::from_bytes("w", &bytes) {
            prop_assert!(workload.validate().is_ok());
        }
    }
}

#[test]
fn sources_are_read_and_their_errors_have_positions() {
    let text = r#"{"sources": {"web": {"rate_per_s": 400, "service_us": 800, "draw": "exponential", "warmup_us": 5},
                              "log": {"arrivals_us": [1, 5, 5]}},
                  "tasks": {"w": {"instance": 2, "take_request": "web", "run": 5, "serve": "web"}}}"#;
    let workload = Workload::from_rt_app("w.json", text).unwrap();
    assert_eq!(workload.sources[0].arrivals, crate::Arrivals::Poisson(Nanos(2_500_000)));
    assert_eq!((workload.sources[0].service, workload.sources[0].exponential), (Nanos(800_000), true));
    assert_eq!(workload.sources[1].arrivals, crate::Arrivals::Times([1, 5, 5].map(Nanos::from_us).to_vec()));
    let web = crate::SourceId(0);
    let run = Op::Work { user: Nanos(5_000), system: Nanos::ZERO };
    assert_eq!(workload.tasks[1].script[..3], [Op::TakeRequest(web), run, Op::Serve(web)]);
    let tasks = r#""tasks": {"w": {"take_request": "web"}}"#;
    for (sources, expected) in [
        ("{}", "no source is named \"web\""),
        (r#"{"web": {}}"#, "needs rate_per_s, or arrivals_us"),
        (r#"{"web": {"rate_per_s": 0}}"#, "rate_per_s is 0; expected an integer from 1"),
        (r#"{"web": {"rate_per_s": 5, "arrivals": "soon"}}"#, "expected \"poisson\" or \"periodic\""),
        (r#"{"web": {"arrivals_us": [5, 4]}}"#, "not in order of time"),
        (r#"{"web": {"rate_per_s": 5, "draw": "x"}}"#, "expected \"constant\" or \"exponential\""),
        (r#"{"web": {"rate_per_s": 5}, "web": {"rate_per_s": 5}}"#, "duplicate source"),
    ] {
        let problem = Workload::from_rt_app("w.json", &format!("{{\"sources\": {sources}, {tasks}}}")).unwrap_err();
        assert!(problem.place.starts_with("w.json:1:") && problem.problem.contains(expected), "{problem}");
    }
}

#[test]
fn cached_requests_and_fsync_are_read() {
    let text = r#"{"tasks": {"t": {"read": {"bytes": 512, "cached": true, "within": 4096}, "fsync": "sda",
        "write": {"disk": "sda", "bytes": 1, "cached": false}}}}"#;
    let workload = Workload::from_rt_app("w.json", text).unwrap();
    assert_eq!((&workload.disks[..], workload.uses_page_cache()), (&["".to_owned(), "sda".to_owned()][..], true));
    let [Op::Io(read), Op::Fsync(disk), Op::Io(write), ..] = &workload.tasks[0].script[..] else { panic!("three") };
    assert_eq!((read.cached, read.within, write.cached, disk.0), (true, 4_096, false, 1));
    for (event, problem) in [
        (r#""read": {"bytes": 5, "cached": 1}"#, "cached is 1; expected true or false"),
        (r#""read": {"bytes": 500, "within": 400}"#, "within is 400; expected an integer from 500 to"),
        (r#""fsync": 5"#, "fsync is 5; expected a string"),
    ] {
        let error = Workload::from_rt_app("w.json", &format!("{{\"tasks\": {{\"t\": {{{event}}}}}}}")).unwrap_err();
        assert!(error.problem.contains(problem), "{error}");
    }
}

#[test]
fn region_is_refused_unless_positions_are_random() {
    let read = |event: &str| Workload::from_rt_app("w.json", &format!(r#"{{"tasks": {{"t": {{"read": {event}}}}}}}"#));
    for event in [r#"{"bytes": 5, "within": 9, "at": 0}"#, r#"{"bytes": 5, "at": "sequential", "within": 9}"#] {
        let error = read(event).unwrap_err();
        let place = 26 + event.find("\"within").unwrap();
        assert_eq!(error.place, format!("w.json:1:{place}"));
        let expected = r#"has "within", which limits random positions only; expected "at": "random", or no "within""#;
        assert_eq!(error.problem, format!(r#"task "t", "read" {expected}"#));
    }
    assert!(read(r#"{"bytes": 5, "at": "random", "within": 9}"#).is_ok());
}

#[test]
fn calls_over_networks_are_read_and_their_errors_have_positions() {
    let text = r#"{"tasks": {"t": {
        "call": 100, "call1": {"bytes": 200, "reply": 4096, "network": "eth1"}, "call2": {"bytes": 7}}}}"#;
    let workload = Workload::from_rt_app("w.json", text).unwrap();
    assert_eq!(workload.networks, ["", "eth1"]);
    let call = |network, bytes, reply| {
        Op::Call(Box::new(crate::NetworkCall { network: crate::NetworkId(network), bytes, reply }))
    };
    assert_eq!(workload.tasks[0].script[..3], [call(0, 100, 100), call(1, 200, 4_096), call(0, 7, 7)]);
    for (event, problem) in [
        (r#""call": 0"#, "call is 0; expected an integer from 1 to 1073741824"),
        (r#""call": {"reply": 5}"#, "has no \"bytes\""),
        (r#""call": {"bytes": 1, "reply": 0}"#, "reply is 0; expected an integer from 1"),
        (r#""call": {"bytes": 1, "to": 5}"#, "unknown key \"to\""),
    ] {
        let error = Workload::from_rt_app("w.json", &format!("{{\"tasks\": {{\"t\": {{{event}}}}}}}")).unwrap_err();
        assert!(error.place.starts_with("w.json:1:") && error.problem.contains(problem), "{error}");
    }
}

#[test]
fn requests_to_disks_are_read_and_their_errors_have_positions() {
    let text = r#"{"global": {"io_device": "/dev/sdb"}, "tasks": {"t": {
        "read": 4096, "read1": {"bytes": 512, "disk": "sda", "at": "sequential"}, "write": {"bytes": 1, "at": 5},
        "iorun": 100}}}"#;
    let workload = Workload::from_rt_app("w.json", text).unwrap();
    assert_eq!(workload.disks, ["", "sda", "sdb"]);
    let io = |disk, write, bytes, place| {
        Op::Io(Box::new(crate::Io { disk: crate::DiskId(disk), write, bytes, place, cached: false, within: 0 }))
    };
    use crate::IoPlace::{At, Random, Sequential};
    let expected = [
        io(0, false, 4096, Random),
        io(1, false, 512, Sequential),
        io(0, true, 1, At(5)),
        io(2, true, 100, Sequential),
    ];
    assert_eq!(workload.tasks[0].script[..4], expected);
    for (event, problem) in [
        (r#""read": 0"#, "read is 0; expected an integer from 1 to 1073741824"),
        (r#""read": {"disk": "sda"}"#, "has no \"bytes\""),
        (r#""read": {"bytes": 1, "at": "end"}"#, "at is \"end\"; expected \"random\""),
        (r#""write": {"byte": 1}"#, "has no \"bytes\""),
        (r#""iorun": 100"#, "iorun needs \"io_device\""),
    ] {
        let error = Workload::from_rt_app("w.json", &format!("{{\"tasks\": {{\"t\": {{{event}}}}}}}")).unwrap_err();
        assert!(error.place.starts_with("w.json:1:") && error.problem.contains(problem), "{error}");
    }
}
