// SPDX-License-Identifier: GPL-2.0-only
//! Hand-made recordings with transfers through channels.

use crate::convert::convert;
use crate::convert::tests::{birth, by, completes, end, event, host, scripts, sleep};
use crate::event::{Amount, Event, Kind, Number, Passed, Waker};
use crate::overhead::Overheads;
use ids::Nanos;
use proptest::prelude::*;

const PIPE: u64 = 77;

const PACKETS: Waker = Waker::SoftInterrupt(3);

fn pass(time_us: u64, task: Number, work_us: u64, channel: u64, written: bool, amount: Amount) -> Event {
    event(time_us, task, work_us, Kind::Pass(Passed { channel, written, amount }))
}

fn write(time_us: u64, task: Number, work_us: u64, bytes: u64) -> Event {
    pass(time_us, task, work_us, PIPE, true, Amount::Bytes(bytes))
}

fn read(time_us: u64, task: Number, work_us: u64, bytes: u64) -> Event {
    pass(time_us, task, work_us, PIPE, false, Amount::Bytes(bytes))
}

/// Task 0 forks task 1 and both work in parallel; both end at 1 ms, with these microseconds of CPU time.
fn both(events: &[Event], work_us: [u64; 2]) -> Vec<String> {
    let born = [birth(0, 0, None, 0), birth(10, 1, Some(0), 10)];
    let ends = [end(1_000, 0, work_us[0]), end(1_000, 1, work_us[1])];
    scripts(&[&born, events, &ends].concat())
}

#[test]
fn read_awaits_the_first_write_that_covers_it() {
    // Three writes: the first read takes one and a half, the second the rest.
    let writes = [write(100, 0, 100, 10), write(200, 0, 200, 10), write(300, 0, 300, 10)];
    let reads = [read(400, 1, 50, 15), read(500, 1, 60, 15)];
    let expected = ["10 fork(1) 190 post(0) 100 post(1) 200", "50 await(0) 10 await(1) 40"];
    assert_eq!(both(&[&writes[..], &reads].concat(), [500, 100]), expected);
}

#[test]
fn read_does_not_await_a_write_implied_by_a_wakeup() {
    // The reader sleeps and is woken by a write; then it finds a second write made meanwhile.
    let events = [
        sleep(50, 1, 20, 195, by(0, 195)),
        write(200, 0, 200, 10),
        read(210, 1, 25, 10),
        write(220, 0, 220, 10),
        read(300, 1, 80, 10),
    ];
    let expected = ["10 fork(1) 185 post(0) 25 post(1) 280", "20 await(0) 60 await(1) 20"];
    assert_eq!(both(&events, [500, 100]), expected);
    // A wakeup before the write does not imply the write.
    let earlier = [sleep(50, 1, 20, 90, by(0, 90)), write(95, 0, 95, 1), write(200, 0, 200, 10), read(300, 1, 80, 11)];
    let expected = ["10 fork(1) 80 post(0) 110 post(1) 300", "20 await(0) 60 await(1) 20"];
    assert_eq!(both(&earlier, [500, 100]), expected);
}

#[test]
fn sleep_ended_by_a_recorded_packet_becomes_a_wait_for_the_sending_task() {
    let tcp = |time, task, work, written, position| pass(time, task, work, 5, written, Amount::Position(position));
    // Sequence numbers wrap.
    let events = [
        tcp(90, 0, 90, true, u32::MAX - 50),
        tcp(95, 1, 15, false, u32::MAX - 50),
        sleep(100, 1, 20, 298, PACKETS),
        tcp(300, 0, 300, true, 49),
        tcp(310, 1, 30, false, 49),
    ];
    let expected = ["10 fork(1) 80 post(0) 210 post(1) 200", "15 await(0) 5 await(1) 80"];
    assert_eq!(both(&events, [500, 100]), expected);
    // A write before the sleep did not end it.
    let before = [tcp(90, 0, 90, true, 9), sleep(100, 1, 20, 298, PACKETS), tcp(310, 1, 30, false, 9)];
    let expected = ["10 fork(1) 80 post(0) 410", "20 Io(198) 10 await(0) 70"];
    assert_eq!(both(&before, [500, 100]), expected);
}

#[test]
fn channels_read_by_their_writer_or_without_a_known_writer_create_no_dependencies() {
    let nothing = ["10 fork(1) 490", "100"];
    let pool = [write(100, 0, 100, 2), read(150, 0, 150, 1), read(200, 1, 50, 1)];
    assert_eq!(both(&pool, [500, 100]), nothing);
    assert_eq!(both(&[write(100, 0, 100, 5), read(200, 1, 50, 6)], [500, 100]), nothing);
    assert_eq!(both(&[write(100, 0, 100, 5), read(300, 0, 250, 5)], [500, 100]), nothing);
}

#[test]
fn cost_of_recording_transfers_is_subtracted() {
    let events = [birth(0, 0, None, 0), write(100, 0, 100, 5), write(110, 0, 110, 5), end(1_000, 0, 500)];
    let overheads = Overheads { pass_ns: 3_000, ..Overheads::default() };
    assert_eq!(convert("test", &events, &host(), &overheads).scheduling, Nanos::from_us(6));
}

proptest! {
    /// Arbitrary transfers, including impossible ones.
    #[test]
    fn transfers_create_no_circular_wait(
        passes in prop::collection::vec((0u32..4, 0u64..3, any::<bool>(), 1u64..5, 1u64..50), 0..80),
        sleeps in prop::collection::vec((0u32..4, 1u64..2_000, 0u64..300), 0..20),
    ) {
        let births = (0..4).map(|task| birth(task.into(), task, (task > 0).then_some(0), task.into()));
        let mut time = 0;
        let passes = passes.into_iter().map(|(task, channel, written, bytes, later)| {
            time += later;
            let amount = if channel == 0 { Amount::Position(time as u32) } else { Amount::Bytes(bytes) };
            pass(time, task, time / 2, channel, written, amount)
        });
        let sleeps = sleeps.into_iter().map(|(task, begin, length)| sleep(begin, task, begin / 2, begin + length, PACKETS));
        let events: Vec<Event> = births.chain(passes).chain(sleeps).collect();
        prop_assert!(completes(&convert("test", &events, &host(), &Overheads::default()).workload));
    }
}
