// SPDX-License-Identifier: GPL-2.0-only
//! Synthetic long recordings: what is written during the recording, and how much stays in memory.

use super::*;
use crate::convert::tests::{birth, by, end, event, host, sleep};
use crate::event::{Amount, Event, Expiry, Kind, Number, Passed, Waker};
use crate::overhead::Overheads;
use std::io::Cursor;
use workload::{Op, Recording, RecordingMeta};

/// Size of a window, and of a batch of events.
const SMALL: usize = 3_000;
const BATCH: usize = 250;

fn pass(time: u64, task: Number, work: u64, channel: u64, written: bool) -> Event {
    event(time, task, work, Kind::Pass(Passed { channel, written, amount: Amount::Bytes(3) }))
}

/// A sleep of a task with a period of 1 ms.
fn periodic(number: u64) -> Event {
    let mut slept = sleep(1_000 * number + 500, 2, 100 * number, 1_000 * (number + 1), Waker::HardInterrupt);
    if let Kind::Sleep(slept) = &mut slept.kind {
        slept.expiry = Some(Expiry { timer: 5, own: true, due: Nanos(1_000_000 * (number + 1) + 17) });
    }
    slept
}

/// Two tasks wake each other `rounds` times and communicate through a pipe; a third is periodic, and now and then a
/// short-lived task appears.
fn events(rounds: u64) -> Vec<Event> {
    let mut all = vec![birth(0, 0, None, 0), birth(10, 1, Some(0), 10), birth(11, 2, Some(0), 11)];
    for round in 0..rounds {
        let (time, work) = (1_000 + 20 * round, 100 + 10 * round);
        // This write has no recorded reader.
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

/// A task that writes after each sleep, and a reader that never sleeps itself.
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

/// The recording, the maximum number of steps and transfers in memory, and the number of tasks in memory, if the
/// conversion writes incrementally.
fn converted(events: &[Event], window: usize) -> (Recording, usize, usize) {
    let mut conversion = Conversion::new(&host(), Overheads { wake_ns: 300, ..Overheads::default() }, usize::MAX);
    let mut earlier = Earlier::new(Cursor::new(Vec::new()));
    let (mut most, mut lives) = (0, 0);
    for batch in events.chunks(BATCH) {
        conversion.add_all(batch);
        most = most.max(conversion.waiting());
        conversion.write(&mut earlier, window).expect("writing to memory succeeds");
        let kept = |life: &life::Life| life.steps.len() + life.readings.len() + life.passes.len() + life.arrivals.len();
        most = most.max(conversion.lives.iter().map(kept).sum::<usize>() / 2);
        lives = conversion.lives.iter().filter(|life| !life.is_written).count();
    }
    let (converted, cut) = conversion.finish("test", &host());
    assert!(!cut);
    let recording =
        Recording { meta: RecordingMeta::default(), workload: converted.workload, observed: converted.observed };
    let mut bytes = Vec::new();
    recording.write_after(earlier, &mut bytes).expect("writing to memory succeeds");
    let read = Recording::from_bytes("test", &bytes).expect("an incrementally written recording is valid");
    (read, most, lives)
}

/// Windows end between any two events of a round.
#[test]
fn incremental_conversion_gives_the_same_recording() {
    let events = events(5_000);
    let (whole, all, _) = converted(&events, usize::MAX);
    for window in SMALL..SMALL + 8 {
        let (pieces, most, lives) = converted(&events, window);
        assert!(all > 15_000 && most < 5_000, "{all} steps and transfers in total, {most} in memory");
        assert!(lives < 20, "{lives} of 103 tasks are in memory at the end");
        for (index, (piece, whole)) in pieces.workload.tasks.iter().zip(&whole.workload.tasks).enumerate() {
            assert!(piece.script == whole.script, "window {window}, task {index}");
        }
        assert!(pieces == whole, "window {window}, resource use");
        let script = &pieces.workload.tasks[2].script;
        assert_eq!(script.iter().filter(|op| matches!(op, Op::Anchor(_))).count(), 1, "a single periodic sequence");
    }
}

/// Most reads are evaluated only with the next window. If a window boundary separates a read from its write, the
/// writer's post is placed after the written part: it may be late by one step, but it exists.
#[test]
fn reads_evaluated_in_the_next_window_keep_their_writes() {
    let events = events_of_a_busy_reader(5_000);
    let (whole, ..) = converted(&events, usize::MAX);
    let (pieces, most, _) = converted(&events, SMALL);
    assert!(most < 5_000, "{most} steps and transfers in memory");
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
fn memory_use_does_not_grow_with_the_length_of_the_recording() {
    let (_, some, _) = converted(&events(3_000), SMALL);
    let (ten_times, most, _) = converted(&events(30_000), SMALL);
    assert!(most <= some + some / 10, "{some} steps and transfers in memory, then {most}");
    let operations: usize = ten_times.workload.tasks.iter().map(|task| task.script.len()).sum();
    assert!(operations > 120_000, "{operations}");
}
