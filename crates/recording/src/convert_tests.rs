// SPDX-License-Identifier: GPL-2.0-only
//! Hand-made recordings whose workload is known.

use super::*;
use crate::event::{Counters, Requested, Scheduled, Ticks};
use ids::{CpuId, Policy};
use proptest::prelude::*;

const PAGE: u64 = 4096;

pub(crate) fn host() -> Host {
    Host {
        cpus: CpuSet::first_n(4),
        page_bytes: PAGE,
        groups: BTreeMap::from([(9, "/build".to_owned())]),
        devices: BTreeMap::new(),
    }
}

pub(crate) fn event(time_us: u64, task: Number, work_us: u64, kind: Kind) -> Event {
    Event { time: Nanos::from_us(time_us), task, work: Nanos::from_us(work_us), kind }
}

pub(crate) fn birth(time_us: u64, task: Number, parent: Option<Number>, parent_work_us: u64) -> Event {
    let kind = Kind::Birth { parent, pid: 100 + task, tgid: 100 + task, cpu: CpuId(0), comm: "parent".to_owned() };
    event(time_us, task, parent_work_us, kind)
}

fn exec(time_us: u64, task: Number, work_us: u64, comm: &str, arguments: &[&str]) -> Event {
    let arguments = arguments.iter().map(|one| (*one).to_owned()).collect();
    let kind = Kind::Exec { ticks: Ticks::default(), comm: comm.to_owned(), arguments, truncated: false };
    event(time_us, task, work_us, kind)
}

pub(crate) fn sleep(time_us: u64, task: Number, work_us: u64, wake_us: u64, waker: Waker) -> Event {
    let slept = Slept {
        wake: Nanos::from_us(wake_us),
        waker,
        io_wait: false,
        uninterruptible: false,
        names_child: false,
        scheduled: Scheduled::default(),
        cpu: CpuId(0),
        expiry: None,
        limit: None,
        counters: Counters::default(),
    };
    event(time_us, task, work_us, Kind::Sleep(slept))
}

pub(crate) fn by(task: Number, work_us: u64) -> Waker {
    Waker::Task(task, Nanos::from_us(work_us))
}

pub(crate) fn exit(time_us: u64, task: Number, work_us: u64, comm: &str, peak_rss_pages: u64) -> Event {
    event(
        time_us,
        task,
        work_us,
        Kind::Exit { ticks: Ticks::default(), peak_rss_pages, comm: comm.to_owned(), signal: 0 },
    )
}

pub(crate) fn end(time_us: u64, task: Number, work_us: u64) -> Event {
    event(time_us, task, work_us, Kind::End(Scheduled::default()))
}

/// Compact form of a script: microseconds of work, and the operations in between.
fn short(script: &[Op]) -> String {
    let us = |time: Nanos| time.0 / 1_000;
    let one = |op: &Op| match op {
        Op::Work { user, system } => us(*user + *system).to_string(),
        Op::Sleep(time, cause) => format!("{cause:?}({})", us(*time)),
        Op::Fork(child) => format!("fork({child})"),
        Op::Post(signal) => format!("post({})", signal.0),
        Op::Await(signal) => format!("await({})", signal.0),
        Op::Submit(request) => format!("submit({})", request.device.0),
        Op::Change { cpus, policy } => {
            format!("change({}, {policy:?})", cpus.as_deref().map_or("-".to_owned(), CpuSet::to_string))
        }
        other => format!("{other:?}"),
    };
    script.iter().map(one).collect::<Vec<_>>().join(" ")
}

pub(crate) fn scripts(events: &[Event]) -> Vec<String> {
    let converted = convert("test", events, &host(), &Overheads::default());
    assert_eq!(converted.orphans, 0);
    converted.workload.tasks.iter().map(|task| short(&task.script)).collect()
}

/// Task 0 runs when the recording begins, 300 us after its last tick: its CPU time is 5,000 us but is reported as
/// 4,700 us. Task 1 sleeps, so its CPU time is exact.
#[test]
fn cpu_time_since_the_last_tick_is_not_recorded_work() {
    let events = [
        birth(1_000, 0, None, 4_700),
        birth(1_000, 1, None, 9_000),
        sleep(1_200, 0, 5_200, 1_500, Waker::HardInterrupt),
        sleep(1_600, 1, 9_050, 1_700, Waker::HardInterrupt),
        end(1_900, 0, 5_600),
        end(1_900, 1, 9_080),
    ];
    assert_eq!(scripts(&events), ["200 Timer(300) 400", "50 Timer(100) 30"]);
}

#[test]
fn parent_awaits_its_child_instead_of_sleeping_for_a_time() {
    let events = [
        birth(1_000, 0, None, 0),
        birth(1_100, 1, Some(0), 100),
        // The child starts on another CPU, and its parent waits in wait4().
        sleep(1_150, 0, 150, 1_700, by(1, 480)),
        exit(1_650, 1, 450, "cc", 700),
        end(1_720, 1, 500),
        end(1_800, 0, 210),
    ];
    assert_eq!(scripts(&events), ["100 fork(1) 50 await(0) 60", "480 post(0) 20"]);

    let converted = convert("test", &events, &host(), &Overheads::default());
    assert_eq!((converted.wall, converted.cpu), (Nanos::from_us(800), Nanos::from_us(710)));
    let [parent, child] = &converted.workload.tasks[..] else { panic!("two tasks") };
    assert_eq!((parent.start, child.start), (Start::At(Nanos::ZERO), Start::Forked));
    assert_eq!((converted.workload.signals, converted.unfinished), (1, 0));
    assert_eq!((child.name.as_str(), child.peak_rss_bytes), ("cc", 700 * PAGE));
}

#[test]
fn waker_posts_at_the_wakeup() {
    let events = [
        birth(0, 0, None, 0),
        birth(10, 1, Some(0), 10),
        sleep(100, 0, 100, 500, by(1, 80)),
        sleep(200, 1, 50, 400, Waker::HardInterrupt),
        end(550, 0, 120),
        end(560, 1, 90),
    ];
    assert_eq!(scripts(&events), ["10 fork(1) 90 await(0) 20", "50 Timer(200) 30 post(0) 10"]);
}

#[test]
fn timer_wakeups_are_not_attributed_to_the_interrupted_task() {
    // Task 1 spins; task 0 sleeps 53 times for 10 ms. A text trace would name task 1 as the waker each time, because
    // the timer interrupts it.
    let mut events = vec![birth(0, 0, None, 0), birth(10, 1, Some(0), 10)];
    for round in 0..53 {
        let start = 100 + round * 11_000;
        events.push(sleep(start, 0, 20 + round * 7, start + 10_000, Waker::HardInterrupt));
    }
    events.extend([end(600_000, 0, 400), end(600_010, 1, 590_000)]);
    let converted = convert("test", &events, &host(), &Overheads::default());
    let [sleeper, spinner] = &converted.workload.tasks[..] else { panic!("two tasks") };
    let timers = sleeper.script.iter().filter(|op| **op == Op::Sleep(Nanos::from_us(10_000), Sleep::Timer));
    assert_eq!(timers.count(), 53);
    assert_eq!(short(&spinner.script), "590000");
    assert_eq!(converted.workload.signals, 0);
}

#[test]
fn cause_of_a_sleep_depends_on_waker_context_and_state() {
    use Waker::*;
    let cases = [
        (HardInterrupt, (false, false), Sleep::Timer),
        (HardInterrupt, (true, true), Sleep::Io),
        (HardInterrupt, (false, true), Sleep::Io),
        (SoftInterrupt(1), (false, true), Sleep::Timer),
        (SoftInterrupt(8), (false, false), Sleep::Timer),
        (SoftInterrupt(3), (false, false), Sleep::Io),
        (SoftInterrupt(4), (false, true), Sleep::Io),
        (SoftInterrupt(9), (false, true), Sleep::External),
        (Outside, (true, true), Sleep::Io),
        (Outside, (false, true), Sleep::External),
        (Outside, (false, false), Sleep::External),
        (NonMaskable, (false, false), Sleep::External),
    ];
    for (waker, device, expected) in cases {
        assert_eq!(cause(waker, device), expected, "{waker:?} {device:?}");
    }
}

#[test]
fn steps_are_ordered_by_time_and_cpu_time_never_decreases() {
    let events = [
        birth(0, 0, None, 0),
        birth(100, 1, Some(0), 100),
        birth(100, 2, Some(0), 100),
        // Task 2 wakes task 1 and then sleeps itself at the same instant; the events arrive in reverse order.
        sleep(300, 2, 150, 900, Waker::Outside),
        sleep(150, 1, 40, 300, by(2, 150)),
        // The waker's clock was slightly ahead of its CPU time: 151 is more than it had at its next sleep.
        sleep(950, 1, 60, 990, by(2, 151)),
        sleep(995, 2, 150, 1_000, Waker::HardInterrupt),
        end(1_000, 1, 70),
        end(1_100, 2, 150),
        end(1_200, 0, 120),
    ];
    let expected =
        ["100 fork(1) fork(2) 20", "40 await(0) 20 await(1) 10", "150 post(0) External(600) post(1) Timer(5)"];
    assert_eq!(scripts(&events), expected);
}

#[test]
fn sleep_of_length_zero_is_dropped() {
    // The wakeup came before the sleeper was switched out. If the waker is recorded, the order still matters.
    let events = [
        birth(0, 0, None, 0),
        birth(10, 1, Some(0), 10),
        sleep(100, 0, 50, 99, Waker::HardInterrupt),
        sleep(200, 0, 80, 199, by(1, 120)),
        end(300, 1, 130),
        end(400, 0, 90),
    ];
    assert_eq!(scripts(&events), ["10 fork(1) 70 await(0) 10", "120 post(0) 10"]);
}

#[test]
fn attributes_are_inherited_and_changes_are_steps() {
    let set = |text: &str| text.parse::<CpuSet>().expect("a CPU list");
    let attributes = |time, task, work, nice, cpus: &str| {
        event(time, task, work, Kind::Attributes { policy: Policy::Other, nice, cpus: set(cpus) })
    };
    let events = [
        birth(0, 0, None, 0),
        attributes(0, 0, 0, 0, "0-63"),
        attributes(50, 0, 50, 0, "1-2"),
        birth(100, 1, Some(0), 100),
        birth(110, 2, Some(0), 110),
        attributes(110, 2, 0, 0, "0-3"),
        attributes(150, 1, 20, 10, "1-2"),
        attributes(160, 1, 30, 10, "0-3"),
        end(200, 0, 120),
        end(200, 1, 60),
        end(200, 2, 60),
    ];
    let converted = convert("test", &events, &host(), &Overheads::default());
    let seen: Vec<_> = converted.workload.tasks.iter().map(|task| (task.nice, task.cpus.clone())).collect();
    assert_eq!(seen, [(0, None), (0, Some(set("1-2"))), (0, None)]);
    let expected = [
        "50 change(1-2, None) 50 fork(1) 10 fork(2) 10",
        "20 change(-, Some((Other, 10))) 10 change(0-3, None) 30",
        "60",
    ];
    assert_eq!(scripts(&events), expected);
}

#[test]
fn peak_rss_is_attributed_to_the_process_leader() {
    let thread = Kind::Birth { parent: Some(0), pid: 101, tgid: 100, cpu: CpuId(0), comm: "parent".to_owned() };
    let events = [
        birth(0, 0, None, 0),
        event(10, 1, 10, thread),
        exit(20, 0, 10, "main", 30),
        end(30, 0, 20),
        exit(40, 1, 10, "worker", 50),
        end(50, 1, 20),
    ];
    let converted = convert("test", &events, &host(), &Overheads::default());
    let peaks: Vec<_> = converted.workload.tasks.iter().map(|task| (task.name.as_str(), task.peak_rss_bytes)).collect();
    assert_eq!(peaks, [("main", 50 * PAGE), ("worker", 0)]);
}

#[test]
fn command_lines_are_quoted_for_a_shell() {
    let events = [
        birth(0, 0, None, 0),
        exec(10, 0, 10, "sh", &["sh", "-c", "echo 'a b'; exit", ""]),
        exec(20, 0, 20, "cc", &["cc", "-DX=\"y\"", "-o", "a.o", "a.c"]),
        end(30, 0, 30),
    ];
    let converted = convert("test", &events, &host(), &Overheads::default());
    let task = &converted.workload.tasks[0];
    assert_eq!(task.command.as_deref(), Some(r#"cc '-DX="y"' -o a.o a.c"#));
    assert_eq!(task.name, "cc");
    assert_eq!(command_line(["sh", "-c", "echo 'a b'", ""]), r"sh -c 'echo '\''a b'\''' ''");
}

#[test]
fn events_without_a_birth_are_counted_as_orphans() {
    let events = [
        birth(0, 0, None, 0),
        // The birth of task 1 was lost.
        birth(70, 2, Some(1), 30),
        sleep(80, 0, 50, 90, by(1, 40)),
        end(90, 1, 50),
        end(95, 2, 10),
    ];
    let converted = convert("test", &events, &host(), &Overheads::default());
    assert_eq!((converted.orphans, converted.unfinished), (1, 1));
    let tasks = &converted.workload.tasks;
    assert_eq!(short(&tasks[0].script), "50 External(10)");
    assert_eq!((tasks[1].start, short(&tasks[1].script)), (Start::At(Nanos::from_us(70)), "10".to_owned()));
}

/// Two tasks that wake each other many times, and a child born late: truncation keeps a prefix, which is a valid
/// workload.
#[test]
fn recording_with_too_many_operations_is_truncated_to_a_valid_workload() {
    let mut events = vec![birth(0, 0, None, 0), birth(1, 1, Some(0), 1), birth(4_000, 2, Some(1), 800)];
    for round in 1..=500u64 {
        let (task, time) = ((round % 2) as Number, 10 * round);
        events.push(sleep(time, task, 2 * round, time + 9, by(1 - task, 2 * round)));
    }
    events.extend([
        exit(6_000, 1, 1_200, "b", 1),
        end(6_000, 1, 1_200),
        exit(6_001, 0, 1_200, "a", 1),
        end(6_001, 0, 1_200),
        end(6_002, 2, 5),
    ]);
    let convert = |events: &[Event], most| convert_up_to("x", events, &host(), &Overheads::default(), most);
    let (whole, cut) = convert(&events, usize::MAX);
    assert!(!cut && whole.unfinished == 0);
    let operations = |workload: &Workload| workload.tasks.iter().map(|task| task.script.len()).sum::<usize>();
    let most = operations(&whole.workload) / 3;
    // Events arrive in arbitrary order.
    events.reverse();
    let (part, cut) = convert(&events, most);
    assert!(cut && part.unfinished == 2 && part.workload.tasks.len() == 2, "{part:?}");
    assert!((most / 2..=most).contains(&operations(&part.workload)), "{} of {most}", operations(&part.workload));
    assert!(part.wall < whole.wall && part.workload.signals < whole.workload.signals);
    part.workload.validate().unwrap();
    let (late, cut) = convert(&events, operations(&whole.workload) * 9 / 10);
    assert!(cut && late.workload.tasks.len() == 3, "{late:?}");
    late.workload.validate().unwrap();
}

fn signal(time_us: u64, task: Number, number: u32, sender: Waker) -> Event {
    event(time_us, task, 0, Kind::Signal { number, sender })
}

fn killed(time_us: u64, task: Number, work_us: u64, signal: u32) -> Event {
    let kind = Kind::Exit { ticks: Ticks::default(), peak_rss_pages: 1, comm: "x".to_owned(), signal };
    event(time_us, task, work_us, kind)
}

#[test]
fn work_ended_by_a_recorded_signal_lasts_until_the_signal() {
    // `timeout 2 sh -c 'while :; do :; done'`; 15 is SIGTERM.
    let family = |last: &[Event]| {
        let mut events = vec![
            birth(0, 0, None, 0),
            birth(1_000, 1, Some(0), 900),
            sleep(1_100, 0, 1_000, 2_000_000, Waker::HardInterrupt),
        ];
        events.extend_from_slice(last);
        events.extend([end(2_000_300, 1, 1_999_000), end(2_000_500, 0, 1_200)]);
        scripts(&events)
    };
    let kill = |sender| [signal(2_000_010, 1, 15, sender), killed(2_000_100, 1, 1_998_900, 15)];
    let expected = ["900 fork(1) 100 Timer(1998900) 10 post(0) 190", "WorkUntilPosted(SignalId(0)) 100"];
    assert_eq!(family(&kill(by(0, 1_010))), expected);
    // If the signal came from outside the recording, was another one, or ended a sleep, work stays a fixed amount.
    let plain = ["900 fork(1) 100 Timer(1998900) 200", "1999000"];
    assert_eq!(family(&kill(Waker::Outside)), plain);
    assert_eq!(family(&[signal(2_000_010, 1, 1, by(0, 1_010)), killed(2_000_100, 1, 1_998_900, 15)]), plain);
    let asleep = [sleep(1_500, 1, 1_998_000, 2_000_010, by(0, 1_010))];
    let expected = ["900 fork(1) 100 Timer(1998900) 10 post(0) post(1) 190", "1998000 await(1) 1000"];
    assert_eq!(family(&[&asleep[..], &kill(by(0, 1_010))].concat()), expected);
}

#[test]
fn work_ended_by_an_alarm_lasts_until_the_alarm() {
    let alarm = |interval| {
        let (after, interval) = (Nanos::from_us(3_000), Nanos::from_us(interval));
        scripts(&[
            birth(0, 0, None, 0),
            event(100, 0, 90, Kind::SetAlarm { after, interval }),
            event(3_110, 0, 3_090, Kind::Alarm),
            event(3_200, 0, 3_190, Kind::Alarm),
            end(3_300, 0, 3_290),
        ])
    };
    let until = "WorkUntil { reference: Reference(2147483648), after: Nanos(3000000) }";
    assert_eq!(alarm(0), [format!("90 Anchor(Reference(2147483648)) {until} 200")]);
    // A repeated alarm does not limit the work.
    assert_eq!(alarm(3_000), ["90 Anchor(Reference(2147483648)) 3200".to_owned()]);
}

#[test]
fn waits_keep_timeouts_and_tasks_keep_their_owners() {
    let mut wait = sleep(50, 0, 40, 90, Waker::Outside);
    if let Kind::Sleep(slept) = &mut wait.kind {
        slept.limit = Some(Nanos::from_us(500));
    }
    let who = |task, uid, group| event(1, task, 0, Kind::Who { group, session: 7, uid, ticks: Ticks::default() });
    let events =
        [birth(0, 0, None, 0), who(0, 1000, 9), wait, birth(60, 1, Some(0), 45), end(200, 0, 90), end(200, 1, 5)];
    let converted = convert("test", &events, &host(), &Overheads::default());
    let expected = "40 Timeout(Nanos(500000)) External(40) 5 fork(1) 45";
    assert_eq!(short(&converted.workload.tasks[0].script), expected);
    let whose =
        |tgid| Who { tgid: Some(tgid), session: Some(7), uid: Some(1000), group: Some("/build".into()), process: None };
    let seen: Vec<_> = converted.workload.tasks.iter().map(|task| task.who.clone()).collect();
    assert_eq!(seen, [whose(100), whose(101)]);
}

/// 10 us for a switch, 3 us for a wakeup, 7 us for an IPI, 30 us for an IPI to a halted CPU, and 1 ms of ticks per
/// second.
const OVERHEADS: Overheads = Overheads {
    switch_ns: 10_000,
    wake_ns: 3_000,
    interrupt_ns: 7_000,
    interrupt_to_halted_ns: 30_000,
    pass_ns: 0,
    tick_ns_in_s: 1_000_000,
};

fn slept(mut event: Event, switches: u32, interrupts: u32) -> Event {
    let Kind::Sleep(slept) = &mut event.kind else { panic!("a sleep") };
    slept.scheduled = Scheduled { switches, interrupts, interrupts_to_halted: 0 };
    event
}

fn ended(time_us: u64, task: Number, work_us: u64, switches: u32, interrupts: u32) -> Event {
    event(time_us, task, work_us, Kind::End(Scheduled { switches, interrupts, interrupts_to_halted: 0 }))
}

#[test]
fn scheduling_overhead_is_subtracted_from_work() {
    let events = [
        birth(0, 0, None, 0),
        birth(1_000, 1, Some(0), 1_000),
        // The parent was switched in once and sent one reschedule IPI for the child.
        slept(sleep(2_000, 0, 2_000, 5_000, by(1, 3_000)), 1, 1),
        // The child was preempted four times, and sent an IPI to a halted CPU.
        event(6_000, 1, 4_000, Kind::End(Scheduled { switches: 5, interrupts: 1, interrupts_to_halted: 1 })),
        ended(6_500, 0, 3_000, 2, 1),
    ];
    let converted = convert("test", &events, &host(), &OVERHEADS);
    let [parent, child] = &converted.workload.tasks[..] else { panic!("two tasks") };
    // Until the fork 3 us for the wakeup and 1 us of ticks; until the sleep the first switch, the IPI and 1 us of
    // ticks; then a switch and 1 us.
    assert_eq!(short(&parent.script), "996 fork(1) 982 await(0) 989");
    // Until it wakes its parent 3 us for the wakeup and 3 us of ticks; then switches and an IPI that are only known
    // at its end.
    assert_eq!(short(&child.script), "2994 post(0) 919");
    let taken = 4 + 18 + 11 + 6 + 81;
    assert_eq!((converted.cpu, converted.scheduling), (Nanos::from_us(7_000), Nanos::from_us(taken)));
}

#[test]
fn overhead_exceeding_a_stretch_is_subtracted_from_the_next() {
    let naps = [(5, 1), (10, 2), (60, 3)]
        .map(|(work, switches)| slept(sleep(100 * work, 0, work, 100 * work + 10, Waker::HardInterrupt), switches, 0));
    let events: Vec<Event> =
        [birth(0, 0, None, 0)].into_iter().chain(naps).chain([ended(9_000, 0, 61, 4, 0)]).collect();
    let only_switches = Overheads { switch_ns: 10_000, ..Overheads::default() };
    let converted = convert("test", &events, &host(), &only_switches);
    // Two stretches of 5 us each pay for part of a switch and leave 10 us to the third, which has 50 us and a switch
    // of its own. The last has 1 us, so 9 us remain unpaid.
    assert_eq!(short(&converted.workload.tasks[0].script), "Timer(10) Timer(10) 30 Timer(10)");
    assert_eq!(converted.scheduling, Nanos::from_us(31));
}

/// A task had 5 ms of CPU time when the recording began, sleeps, and works when it ends; another task sleeps all the
/// time.
#[test]
fn task_older_than_the_recording_starts_at_zero() {
    let last = |task, work_us| {
        event(900, task, work_us, Kind::Last { scheduled: Scheduled::default(), ticks: Ticks::default() })
    };
    let there = |time_us, task, work_us| birth(time_us, task, None, work_us);
    let events = [
        there(0, 0, 5_000),
        there(1, 1, 70),
        sleep(100, 0, 5_080, 300, Waker::HardInterrupt),
        birth(350, 2, Some(0), 5_100),
        end(380, 2, 20),
        last(0, 5_600),
        last(1, 70),
    ];
    assert_eq!(scripts(&events), ["80 Timer(200) 20 fork(2) 500", "", "20"]);
    let converted = convert("test", &events, &host(), &Overheads::default());
    assert_eq!((converted.unfinished, converted.cpu), (2, Nanos::from_us(620)));
    let starts: Vec<Start> = converted.workload.tasks.iter().map(|task| task.start).collect();
    assert_eq!(starts, [Start::At(Nanos::ZERO), Start::At(Nanos::from_us(1)), Start::Forked]);
}

fn after_touching(mut event: Event, counters: Counters, cpu: u32) -> Event {
    let Kind::Sleep(slept) = &mut event.kind else { panic!("a sleep") };
    (slept.counters, slept.cpu) = (counters, CpuId(cpu));
    event
}

fn touched(time_us: u64, task: Number, counters: Counters) -> Event {
    event(time_us, task, 0, Kind::Touched { counters, cpu: CpuId(1) })
}

fn counters(minor_faults: u32, written: u64) -> Counters {
    Counters { minor_faults, written, device_written: written as u32 / 512, ..Counters::default() }
}

/// A child within the recording, and a process that existed before; each stretch has the index of the operation after
/// it.
#[test]
fn resource_use_is_recorded_per_stretch_of_work() {
    let footprint = |pages| crate::event::Footprint {
        private_pages: pages,
        shared_pages: 20,
        table_bytes: 8_192,
        stack_pages: 4,
        executable: 5,
    };
    let request = |time_us, task| {
        let (device, operation) = (254 << 20, workload::Operation::Write);
        let requested = Requested { task, service: Nanos(7), device, operation, bytes: 4_096 };
        event(time_us, u32::MAX, 0, Kind::Request(requested))
    };
    let events = [
        birth(100, 0, None, 0),
        touched(100, 0, counters(1_000, 51_200)),
        birth(110, 1, Some(0), 10),
        request(50, None),
        request(160, Some(1)),
        request(150, None),
        // The child waits for a timer, for its parent, and for a timer; in its first wait it had no new resource use.
        after_touching(sleep(700, 1, 60, 800, Waker::HardInterrupt), counters(7, 1_024), 0),
        after_touching(sleep(200, 1, 20, 300, Waker::HardInterrupt), counters(5, 0), 2),
        after_touching(sleep(400, 1, 40, 500, by(0, 90)), counters(5, 0), 3),
        after_touching(sleep(600, 0, 95, 650, Waker::HardInterrupt), counters(1_001, 51_200), 1),
        touched(900, 1, counters(7, 2_048)),
        event(890, 1, 70, Kind::Footprint(footprint(30))),
        end(900, 1, 70),
        touched(950, 0, counters(1_001, 51_200)),
    ];
    let converted = convert("test", &events, &host(), &Overheads::default());
    assert_eq!(converted.orphans, 0, "requests are not orphans");
    assert_eq!(short(&converted.workload.tasks[1].script), "20 submit(0) Timer(100) 20 await(0) 20 Timer(100) 10");
    let seen = |task: u32| -> Vec<(u32, u32, u64, u64, u64)> {
        let of = |one: &workload::Stretch| {
            let touched = one.touched;
            (one.until, one.cpu.0, touched.minor_faults, touched.written, touched.device_written)
        };
        converted.observed.stretches[&task].iter().map(of).collect()
    };
    assert_eq!(seen(1), [(2, 2, 5, 0, 0), (6, 0, 2, 1_024, 1_024), (8, 1, 0, 1_024, 1_024)]);
    assert_eq!(seen(0), [(5, 1, 1, 0, 0)], "earlier resource use is excluded");
    let expected =
        workload::Footprint { private: 30 * PAGE, shared: 20 * PAGE, kernel: 8_192 + 4 * PAGE, executable: 5 };
    assert_eq!(converted.observed.footprints, BTreeMap::from([(1, expected)]));
    let requests: Vec<_> = converted.observed.requests.iter().map(|one| (one.time.0 / 1_000, one.task)).collect();
    assert_eq!(requests, [(50, None), (60, Some(1))], "none from before the recording");
    assert_eq!(converted.observed.devices[0].name, "254:0");

    // Only the first half: the parent's fork, its post, and the child's first wait remain.
    let (part, cut) = convert_up_to("test", &events, &host(), &Overheads::default(), 8);
    assert!(cut, "{part:?}");
    let all: Vec<_> = part.observed.stretches.iter().map(|(task, all)| (*task, all.len())).collect();
    assert_eq!(all, [(1, 1)], "{:?}", part.workload.tasks);
    assert!(part.observed.footprints.is_empty() && part.observed.requests.len() == 2);
    let meta = workload::RecordingMeta::default();
    let recording = workload::Recording { meta, workload: part.workload, observed: part.observed };
    assert!(recording.to_bytes().is_ok());
}

/// Whether all tasks complete, each running as far as it can.
pub(crate) fn completes(workload: &Workload) -> bool {
    let mut posted = vec![false; workload.signals as usize];
    let mut rest: Vec<&[Op]> = workload.tasks.iter().map(|task| &task.script[..]).collect();
    loop {
        let before: usize = rest.iter().map(|script| script.len()).sum();
        for script in &mut rest {
            while let Some((op, later)) = script.split_first() {
                match op {
                    Op::Await(signal) if !posted[signal.0 as usize] => break,
                    Op::Post(signal) => posted[signal.0 as usize] = true,
                    _ => {}
                }
                *script = later;
            }
        }
        match rest.iter().map(|script| script.len()).sum() {
            0 => return true,
            after if after == before => return false,
            _ => {}
        }
    }
}

#[test]
fn hidden_wakeups_are_counted_and_their_sleeps_are_external() {
    let events = [
        birth(0, 0, None, 0),
        sleep(50, 0, 20, 900, Waker::Unseen),
        sleep(920, 0, 30, 940, Waker::Unseen),
        sleep(950, 0, 40, 990, Waker::HardInterrupt),
        end(1_000, 0, 50),
    ];
    let converted = convert("test", &events, &host(), &Overheads::default());
    assert_eq!(converted.unseen_wakeups, 2);
    let causes = converted.workload.tasks[0].script.iter().filter_map(|op| match op {
        Op::Sleep(_, cause) => Some(*cause),
        _ => None,
    });
    assert_eq!(causes.collect::<Vec<_>>(), [Sleep::External, Sleep::External, Sleep::Timer]);
}

/// The kernel hid the run interval in which task 1 woke task 0, so that two of its sleeps look like one.
#[test]
fn hidden_run_interval_creates_no_circular_wait() {
    let events = [
        birth(0, 0, None, 0),
        birth(10, 1, Some(0), 10),
        sleep(50, 1, 20, 900, by(0, 400)),
        sleep(300, 0, 200, 600, by(1, 100)),
        end(1_000, 1, 150),
        end(1_100, 0, 500),
    ];
    assert_eq!(scripts(&events), ["10 fork(1) 190 await(1) 200 post(0) 100", "100 post(1) await(0) 50"]);
    assert!(completes(&convert("test", &events, &host(), &Overheads::default()).workload));
}

proptest! {
    /// Arbitrary sleeps, including impossible ones.
    #[test]
    fn sleeps_create_no_circular_wait(
        sleeps in prop::collection::vec((0u32..4, 0u32..4, 10u64..1_000, 0u64..300, 0u64..100), 0..60),
    ) {
        let births = (0..4).map(|task| birth(task.into(), task, (task > 0).then_some(0), task.into()));
        let sleeps = sleeps.into_iter().map(|(who, waker, begin, length, work)| {
            sleep(begin, who, work, begin + length, by(waker, work))
        });
        let events: Vec<Event> = births.chain(sleeps).collect();
        prop_assert!(completes(&convert("test", &events, &host(), &Overheads::default()).workload));
    }
}

/// A yield separates two stretches of work and is kept; its position is the CPU time at which it was made.
#[test]
fn yield_is_kept_between_the_work_before_and_after_it() {
    let scheduled = Scheduled { switches: 2, interrupts: 0, interrupts_to_halted: 0 };
    let events = [
        birth(0, 0, None, 0),
        event(3_000, 0, 3_000, Kind::Yield(scheduled)),
        event(9_000, 0, 5_000, Kind::Yield(scheduled)),
        end(12_000, 0, 8_000),
    ];
    let workload = convert("w", &events, &host(), &Overheads::default()).workload;
    assert_eq!(
        workload.tasks[0].script.iter().map(|op| short(std::slice::from_ref(op))).collect::<Vec<_>>(),
        ["3000", "Yield", "2000", "Yield", "3000"]
    );
}

/// A completed request of this task to device 254:0.
fn own_request(time_us: u64, task: Number, service_us: u64) -> Event {
    let (device, operation) = (254 << 20, workload::Operation::Read);
    let requested =
        Requested { task: Some(task), service: Nanos::from_us(service_us), device, operation, bytes: 4_096 };
    event(time_us, u32::MAX, 0, Kind::Request(requested))
}

const BLOCK_SOFTIRQ: Waker = Waker::SoftInterrupt(4);

/// Compact form of a script with requests.
fn with_requests(events: &[Event]) -> (Vec<String>, Vec<String>) {
    let converted = convert("test", events, &host(), &Overheads::default());
    let one = |op: &Op| match op {
        Op::Submit(request) => format!("read({},{})", request.device.0, request.service.0 / 1_000),
        Op::AwaitRequests { device, most, slept } => format!("requests({},{most},{})", device.0, slept.0 / 1_000),
        other => short(std::slice::from_ref(other)),
    };
    let text = |task: &TaskSpec| task.script.iter().map(one).collect::<Vec<_>>().join(" ");
    (converted.workload.tasks.iter().map(text).collect(), converted.workload.devices)
}

#[test]
fn sleep_that_a_request_of_the_task_ends_is_a_wait_for_it() {
    let events = [
        birth(0, 0, None, 0),
        own_request(95, 0, 50),
        sleep(100, 0, 100, 147, BLOCK_SOFTIRQ),
        // Nothing of its own is complete within 100 us before the end of this sleep.
        own_request(190, 0, 10),
        sleep(200, 0, 153, 400, BLOCK_SOFTIRQ),
        end(500, 0, 253),
    ];
    let expected = "95 read(0,50) 5 requests(0,0,47) 43 read(0,10) 10 Io(200) 100";
    assert_eq!(with_requests(&events), (vec![expected.to_owned()], vec!["254:0".to_owned()]));
}

#[test]
fn requests_read_ahead_are_still_in_progress_after_the_wait() {
    let events = [
        birth(0, 0, None, 0),
        own_request(95, 0, 50),
        own_request(97, 0, 150),
        sleep(100, 0, 100, 147, BLOCK_SOFTIRQ),
        // An I/O scheduler passes a request on while its task already sleeps.
        own_request(230, 0, 60),
        sleep(220, 0, 173, 295, BLOCK_SOFTIRQ),
        end(300, 0, 178),
    ];
    let expected = "95 read(0,50) 2 read(0,150) 3 requests(0,1,47) 73 read(0,60) requests(0,0,75) 5";
    assert_eq!(with_requests(&events).0, [expected]);
}

#[test]
fn requests_of_other_tasks_do_not_end_a_sleep() {
    let events = [
        birth(0, 0, None, 0),
        birth(10, 1, Some(0), 10),
        own_request(95, 1, 50),
        sleep(100, 0, 100, 147, BLOCK_SOFTIRQ),
        end(200, 0, 153),
        end(210, 1, 100),
    ];
    let scripts = with_requests(&events).0;
    assert_eq!(scripts[0], "10 fork(1) 90 Io(47) 53");
    assert_eq!(scripts[1], "85 read(0,50) 15");
}
