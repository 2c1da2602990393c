// SPDX-License-Identifier: GPL-2.0-only
//! Long recordings, made up: what is written while they go on, and how much is in memory.

use super::*;
use crate::convert::tests::{birth, by, end, event, host, sleep};
use crate::event::{Amount, Event, Expiry, Kind, Number, Passed, Waker};
use crate::overhead::Overheads;
use std::io::Cursor;
use workload::{Op, Recording, RecordingMeta};

/// Things that happened in memory, and events of a batch.
const SMALL: usize = 3_000;
const BATCH: usize = 250;

fn pass(time: u64, task: Number, work: u64, channel: u64, written: bool) -> Event {
    event(time, task, work, Kind::Pass(Passed { channel, written, amount: Amount::Bytes(3) }))
}

/// A sleep of a task that has a period of 1 ms.
fn periodic(number: u64) -> Event {
    let mut slept = sleep(1_000 * number + 500, 2, 100 * number, 1_000 * (number + 1), Waker::HardInterrupt);
    if let Kind::Sleep(slept) = &mut slept.kind {
        slept.expiry = Some(Expiry { timer: 5, own: true, due: Nanos(1_000_000 * (number + 1) + 17) });
    }
    slept
}

/// Two tasks hand over to each other so often, through a pipe; a third one has a period, and now and then one lives and ends.
fn events(rounds: u64) -> Vec<Event> {
    let mut all = vec![birth(0, 0, None, 0), birth(10, 1, Some(0), 10), birth(11, 2, Some(0), 11)];
    for round in 0..rounds {
        let (time, work) = (1_000 + 20 * round, 100 + 10 * round);
        // Nobody recorded reads this one.
        all.push(pass(time + 8, 1, work + 8, 9, true));
        all.push(pass(time + 9, 1, work + 9, 7, true));
        all.push(sleep(time, 0, work, time + 10, by(1, work + 10)));
        all.push(pass(time + 12, 0, work + 2, 7, false));
        all.push(sleep(time + 10, 1, work + 10, time + 20, by(0, work + 10)));
        if round % 50 == 0 {
            all.push(periodic(round / 50));
            let child = 3 + (round / 50) as Number;
            all.push(birth(time + 3, child, Some(1), work + 3));
            all.push(end(time + 9, child, 5));
        }
    }
    let last = 2_000 + 20 * rounds;
    all.extend((0..3).map(|task| end(last, task, 200 + 10 * rounds)));
    all
}

/// A task that writes after each sleep, for one that reads and never sleeps itself.
fn events_of_a_busy_reader(rounds: u64) -> Vec<Event> {
    let mut all = vec![birth(0, 0, None, 0), birth(10, 1, Some(0), 10)];
    for round in 0..rounds {
        let (time, work) = (1_000 + 20 * round, 100 + 10 * round);
        all.push(pass(time + 9, 0, work + 9, 8, true));
        all.push(sleep(time + 10, 0, work + 10, time + 20, Waker::HardInterrupt));
        all.push(pass(time + 15, 1, time, 8, false));
    }
    let last = 2_000 + 20 * rounds;
    all.extend([end(last, 0, 200 + 10 * rounds), end(last, 1, last)]);
    all
}

/// The recording, and the most things that were in memory at a time, if the conversion writes in between.
fn converted(events: &[Event], window: usize) -> (Recording, usize, usize) {
    let mut conversion = Conversion::new(&host(), Overheads { wake_ns: 300, ..Overheads::default() }, usize::MAX);
    let mut earlier = Earlier::new(Cursor::new(Vec::new()));
    let (mut most, mut lives) = (0, 0);
    for batch in events.chunks(BATCH) {
        conversion.add_all(batch);
        most = most.max(conversion.waiting());
        conversion.write(&mut earlier, window).expect("memory takes it");
        let kept = |life: &life::Life| life.steps.len() + life.readings.len() + life.passes.len() + life.arrivals.len();
        most = most.max(conversion.lives.iter().map(kept).sum::<usize>() / 2);
        lives = conversion.lives.iter().filter(|life| !life.is_written).count();
    }
    let (converted, cut) = conversion.finish("test", &host());
    assert!(!cut);
    let recording =
        Recording { meta: RecordingMeta::default(), workload: converted.workload, observed: converted.observed };
    let mut bytes = Vec::new();
    recording.write_after(earlier, &mut bytes).expect("memory takes it");
    let read = Recording::from_bytes("test", &bytes).expect("what is written piece by piece is a recording");
    (read, most, lives)
}

/// Windows end between any two things that happen in a round.
#[test]
fn what_is_written_in_between_is_what_would_be_written_at_the_end() {
    let events = events(5_000);
    let (whole, all, _) = converted(&events, usize::MAX);
    for window in SMALL..SMALL + 8 {
        let (pieces, most, lives) = converted(&events, window);
        assert!(all > 15_000 && most < 5_000, "{all} things in memory, and {most}");
        assert!(lives < 20, "{lives} of 103 tasks are in memory at the end");
        for (index, (piece, whole)) in pieces.workload.tasks.iter().zip(&whole.workload.tasks).enumerate() {
            assert!(piece.script == whole.script, "window {window}, task {index}");
        }
        assert!(pieces == whole, "window {window}, what was observed");
        let script = &pieces.workload.tasks[2].script;
        assert_eq!(script.iter().filter(|op| matches!(op, Op::Anchor(_))).count(), 1, "one grid from end to end");
    }
}

/// Most reads wait for the next window, and what they read is forgotten only then. Where the end of a window parts a read
/// from its write, the writer's post stands behind what is written: it may be late by a step, but it is there.
#[test]
fn reads_that_wait_for_the_next_window_find_what_was_written_before() {
    let events = events_of_a_busy_reader(5_000);
    let (whole, ..) = converted(&events, usize::MAX);
    let (pieces, most, _) = converted(&events, SMALL);
    assert!(most < 5_000, "{most} things in memory");
    let script = |recording: &Recording, task: usize| recording.workload.tasks[task].script.clone();
    let awaited = script(&whole, 1).iter().filter(|op| matches!(op, Op::Await(_))).count();
    assert_eq!(awaited, 5_000);
    assert!(script(&pieces, 1) == script(&whole, 1));
    let (late, never) = (script(&pieces, 0), script(&whole, 0));
    let posts = |script: &[Op]| script.iter().filter(|op| matches!(op, Op::Post(_))).cloned().collect::<Vec<Op>>();
    assert_eq!(posts(&late), posts(&never));
    assert!(late.len().abs_diff(never.len()) < 20, "{} and {} operations", late.len(), never.len());
}

#[test]
fn ten_times_as_much_takes_no_more_memory() {
    let (_, some, _) = converted(&events(3_000), SMALL);
    let (ten_times, most, _) = converted(&events(30_000), SMALL);
    assert!(most <= some + some / 10, "{some} things in memory, then {most}");
    let operations: usize = ten_times.workload.tasks.iter().map(|task| task.script.len()).sum();
    assert!(operations > 120_000, "{operations}");
}
