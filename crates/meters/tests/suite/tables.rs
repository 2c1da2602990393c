// SPDX-License-Identifier: GPL-2.0-only
//! Text, JSON and CSV of each meter.

use expect_test::expect;
use ids::{CpuId, Nanos};
use meters::{Interrupt, Interrupts, Lock, Locks, Microstates, Pair, Reason, State, Task, Trust, Wakeups, World};

fn trust() -> Trust {
    let (steal, foreign) = (Some(Nanos::from_ms(30)), Some(Nanos::from_ms(200)));
    Trust { world: World::Real, elapsed: Nanos::from_ms(1_000), cpus: 2, lost: 3, steal, foreign, unseen: Some(5) }
}

fn task(pid: u32, process: u32, states: &[(State, u64)]) -> Task {
    let states: std::collections::BTreeMap<State, Nanos> =
        states.iter().map(|&(state, ms)| (state, Nanos::from_ms(ms))).collect();
    let life = Nanos(states.values().map(|time| time.0).sum());
    let reason = Reason { state: State::Futex, what: "pool_take".to_owned(), count: 7, time: Nanos::from_ms(310) };
    Task {
        pid,
        process,
        name: "pool".to_owned(),
        cgroup: Some(format!("/pool/{process}")),
        life,
        states,
        counts: [(State::Futex, 7)].into(),
        reasons: vec![reason],
    }
}

fn states() -> Microstates {
    let first = task(8, 8, &[(State::User, 500), (State::Futex, 310), (State::RunQueue, 190)]);
    let second = task(9, 8, &[(State::User, 100), (State::Futex, 400), (State::Disk, 500)]);
    Microstates { trust: trust(), tasks: vec![first, second] }
}

#[test]
fn microstates_of_a_cgroup_are_the_sums_of_its_tasks() {
    let mut states = states();
    states.tasks.push(task(20, 20, &[(State::User, 7)]));
    let merged = states.by_cgroup();
    let rows: Vec<_> = merged.tasks.iter().map(|task| (&*task.name, task.life)).collect();
    assert_eq!(rows, [("/pool/20", Nanos::from_ms(7)), ("/pool/8", Nanos::from_ms(2_000))]);
    assert!(merged.unbalanced().is_empty());
    let long = "/user.slice/user-1000.slice/session-3.scope";
    let mut task = task(30, 30, &[(State::User, 7)]);
    task.cgroup = Some(long.to_owned());
    let text = Microstates { trust: trust(), tasks: vec![task] }.by_cgroup().to_text(false);
    assert!(text.contains("\n…-1000.slice/session-3.scope") && !text.contains("[30]"), "{text}");
}

#[test]
fn microstates_name_the_reason_beside_the_time() {
    expect![[r#"
        real, 1.00 s on 2 CPUs
        WARNING: 3 events were lost: counts and times are too low
        stolen by the hypervisor: 30.0 ms, 1.5 % of all CPU time
        other tasks of the machine used 200 ms, 10.0 % of all CPU time
        switches and wakeups that the kernel hid and that are inferred: 5

        task       life    user  run queue   futex    disk
        all 2    2.00 s  30.0 %      9.5 %  35.5 %  25.0 %
        pool[8]  1.00 s  50.0 %     19.0 %  31.0 %       -
        pool[9]  1.00 s  10.0 %          -  40.0 %  50.0 %

        pool[8]: blocked 31.0 %: futex 31.0 % in pool_take
        pool[9]: blocked 90.0 %: futex 31.0 % in pool_take

        check: the states of each of 2 tasks add up to its life
    "#]]
    .assert_eq(&states().to_text(false));
}

#[test]
fn microstates_of_a_process_are_the_sums_of_its_threads() {
    let merged = states().merge(|task| task.process);
    assert_eq!(merged.tasks.len(), 1);
    assert_eq!(merged.tasks[0].life, Nanos::from_ms(2_000));
    assert_eq!(merged.tasks[0].states[&State::Futex], Nanos::from_ms(710));
    assert_eq!((merged.tasks[0].reasons[0].count, merged.tasks[0].counts[&State::Futex]), (14, 14));
    assert!(merged.unbalanced().is_empty());
}

#[test]
fn states_that_do_not_add_up_are_named() {
    let mut wrong = states();
    wrong.tasks[1].life += Nanos(1);
    assert_eq!(wrong.unbalanced().len(), 1);
    assert!(wrong.to_text(false).contains("FAILED check: the states of 1 tasks"));
    assert_eq!(wrong.to_json()["unbalanced"], 1);
}

#[test]
fn unmeasured_states_are_null_in_json_and_empty_in_csv() {
    let json = states().to_json();
    let of = |task: usize, key: &str| json["tasks"][task]["states"][key].clone();
    assert_eq!((of(0, "futex"), of(0, "system"), of(1, "disk")), (310_000_000.into(), ().into(), 500_000_000.into()));
    assert!(states().to_csv().lines().nth(1).unwrap().starts_with("8,8,pool,1000000000,500000000,,"));
}

#[test]
fn lock_table_shows_the_share_of_all_waiting() {
    let lock = |kind: &str, caller: &str, contended, total| Lock {
        kind: kind.to_owned(),
        lock: "0xffff8881".to_owned(),
        caller: caller.to_owned(),
        contended,
        wait_total: Nanos(total),
        wait_max: Nanos(total / 2),
        ..Lock::default()
    };
    let rows = vec![lock("futex", "pool_take", 23, 75_000_000), lock("spin", "futex_wake+0x9c", 2, 25_000_000)];
    let table = Locks { followed: trust().elapsed, trust: trust(), rows, microstates: None };
    expect![[r#"
        real, 1.00 s on 2 CPUs
        WARNING: 3 events were lost: counts and times are too low
        stolen by the hypervisor: 30.0 ms, 1.5 % of all CPU time
        other tasks of the machine used 200 ms, 10.0 % of all CPU time
        switches and wakeups that the kernel hid and that are inferred: 5

        type   lock        caller           waited  wait max     mean    total   share
        futex  0xffff8881  pool_take            23   37.5 ms  3.26 ms  75.0 ms  75.0 %
        spin   0xffff8881  futex_wake+0x9c       2   12.5 ms  12.5 ms  25.0 ms  25.0 %

        all waits: 100 ms, 5.0 % of all CPU time (2 CPUs x 1.00 s)
        check: no wait is longer than the measured time: 1.00 s and 37.5 ms
    "#]]
    .assert_eq(&table.to_text(false));
}

#[test]
fn wakeups_and_interrupts_have_denominators() {
    let pair = Pair {
        waker: "(timer)".into(),
        task: "pool".into(),
        count: 1009,
        measured: 1009,
        total: Nanos(1_009_000),
        max: Nanos(9_000),
    };
    let wakeups = Wakeups { trust: trust(), pairs: vec![pair], idle_while_runnable: Some(Nanos::from_ms(4)) };
    let row = Interrupt {
        source: "local timer".into(),
        cpu: CpuId(1),
        count: 250,
        total: Some(Nanos(500_000)),
        max: Some(Nanos(9_000)),
    };
    let interrupts = Interrupts { trust: trust(), rows: vec![row], stolen: vec![] };
    expect![[r#"
        real, 1.00 s on 2 CPUs
        WARNING: 3 events were lost: counts and times are too low
        stolen by the hypervisor: 30.0 ms, 1.5 % of all CPU time
        other tasks of the machine used 200 ms, 10.0 % of all CPU time
        switches and wakeups that the kernel hid and that are inferred: 5

        waker    woken  wakeups     mean      max    total    share
        (timer)  pool     1,009  1.00 us  9.00 us  1.00 ms  100.0 %

        1,009 wakeups, latency 1.00 ms in total, 9.00 us at most
        a CPU idled while a task waited for 4.00 ms, 0.4 % of the measured time

        real, 1.00 s on 2 CPUs
        WARNING: 3 events were lost: counts and times are too low
        stolen by the hypervisor: 30.0 ms, 1.5 % of all CPU time
        other tasks of the machine used 200 ms, 10.0 % of all CPU time
        switches and wakeups that the kernel hid and that are inferred: 5

        source       CPU  count   rate     mean      max   total  of the CPU
        local timer    1    250  250/s  2.00 us  9.00 us  500 us       0.1 %
    "#]]
    .assert_eq(&(wakeups.to_text(false) + "\n" + &interrupts.to_text(false)));
}
