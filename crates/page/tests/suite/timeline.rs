// SPDX-License-Identifier: GPL-2.0-only
//! Tests that the timeline in a page contains the run's events.

#[allow(dead_code)]
use crate::common;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use event_log::{BlockCause, CallbackSite, Event, EventKind, LockKind, Sink, SwitchReason, TaskInfo, Waker};
use ids::{CpuId, CpuSet, DsqId, Nanos, Policy, TaskId};
use page::{Report, Track, page};
use proptest::prelude::*;
use report::{read_details, read_json};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use timeline::Recorder;

/// The element of a page that contains the timeline.
fn element(tracks: &[(usize, Result<Track, String>)]) -> (String, Option<Vec<u8>>) {
    let json = report::to_json(&[common::run("fifo", 1000, 5)]);
    let (records, details) = (read_json(json.as_bytes()).unwrap(), read_details(json.as_bytes()).unwrap());
    let html = page(&Report { version: "0", records: &records, details: &details, tracks, ..Report::default() });
    let begin = html.find("id=\"timeline-data-0\" type=\"text/plain\">").map(|at| &html[at..]);
    let packed = begin.map(|rest| BASE64.decode(&rest[rest.find('>').unwrap() + 1..rest.find("</").unwrap()]).unwrap());
    let bytes = packed.map(|packed| {
        let mut bytes = Vec::new();
        flate2::read::DeflateDecoder::new(&*packed).read_to_end(&mut bytes).unwrap();
        bytes
    });
    (html, bytes)
}

/// Header and columns, as decoded by the script.
fn unpack(bytes: &[u8]) -> (Value, BTreeMap<String, Vec<u64>>) {
    let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
    let head: Value = serde_json::from_slice(&bytes[4..4 + length]).unwrap();
    let mut rest = bytes[4 + length..].iter();
    let mut number = || {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte = *rest.next().unwrap();
            value |= u64::from(byte & 127) << shift;
            shift += 7;
            if byte < 128 {
                return value;
            }
        }
    };
    let lengths = head["columns"].as_object().unwrap();
    let columns =
        lengths.iter().map(|(name, length)| (name.clone(), (0..length.as_u64().unwrap()).map(|_| number()).collect()));
    let columns = columns.collect();
    assert_eq!(rest.count(), 0, "bytes after the last column");
    (head, columns)
}

struct Story {
    recorder: Recorder,
    now: u64,
}

impl Story {
    fn new(cpus: usize, tasks: u32) -> Story {
        let mut recorder = Recorder::new(cpus);
        for id in 0..tasks {
            let info = TaskInfo {
                id: TaskId(id),
                pid: 100 + id,
                name: format!("</script>{id}"),
                parent: None,
                allowed: CpuSet::first_n(cpus),
                policy: Policy::default(),
                nice: 0,
                kernel_thread: id == 2,
            };
            recorder.task(Nanos::ZERO, &info);
        }
        Story { recorder, now: 0 }
    }

    fn tell(&mut self, cpu: u32, task: TaskId, kind: EventKind) {
        let event = Event { time: Nanos(self.now), cpu: CpuId(cpu), task, kind, site: CallbackSite::default() };
        self.recorder.event(&event);
    }

    fn wake(&mut self, task: u32) {
        self.tell(0, TaskId(task), EventKind::Wakeup { waker: Waker::Timer, sync: false, target: CpuId(0) });
    }

    fn switch(&mut self, cpu: u32, prev: Option<u32>, next: Option<u32>, reason: SwitchReason) {
        let id = |task: Option<u32>| task.map_or(TaskId::NONE, TaskId);
        if reason == SwitchReason::Block {
            self.tell(cpu, id(prev), EventKind::Block { cause: BlockCause::Timer });
        }
        self.tell(cpu, id(next), EventKind::Switch { prev: id(prev), reason });
    }

    fn end(self, at: u64) -> Track {
        Track {
            ejection: Some("stalled: <b>".to_owned()),
            explanations: vec![("Why", "a </pre><script>\nb \u{1b}[1m".to_owned())],
            timeline: self.recorder.finish(Nanos(at)),
            idle_gaps: vec![(Nanos(5), Nanos(9)), (Nanos(300), Nanos(301))],
        }
    }
}

/// Two CPUs: task 0 runs on CPU 0 until it is preempted by task 1, and continues on CPU 1; task 2 is woken and never
/// runs.
fn two_cpus() -> Track {
    let mut story = Story::new(2, 3);
    story.wake(0);
    story.now = 10;
    story.switch(0, None, Some(0), SwitchReason::Idle);
    story.now = 100;
    story.wake(1);
    story.now = 130;
    story.switch(0, Some(0), Some(1), SwitchReason::Preempt);
    story.now = 150;
    story.wake(2);
    story.now = 200;
    story.switch(1, None, Some(0), SwitchReason::Idle);
    story.now = 1000;
    story.switch(0, Some(1), None, SwitchReason::Block);
    let wait = EventKind::LockWait { lock: LockKind::Dsq(DsqId(1)), waited: Nanos(7) };
    story.tell(0, TaskId::NONE, wait);
    story.end(2000)
}

#[test]
fn timeline_columns_contain_run_intervals_waits_and_marks() {
    let (head, columns) = unpack(&element(&[(0, Ok(two_cpus()))]).1.unwrap());
    assert_eq!((head["end"].as_u64(), head["unit"].as_u64(), &head["cut"]), (Some(2000), Some(1), &Value::Null));
    assert_eq!(head["names"][2], serde_json::json!([102, "[</script>2]"]));
    let is = |name: &str, wanted: &[u64]| assert_eq!(columns[name], wanted, "{name}");
    is("intervals", &[2, 1]);
    is("gap", &[10, 0, 200]);
    is("length", &[120, 870, 1800]);
    is("task", &[0, 1, 0]);
    is("wait", &[10, 30, 70]);
    // Preempted after a wakeup, blocked after a wakeup, still running after it had lost a CPU.
    is("reason", &[6 * 2 + 1, 2 * 2 + 1, 0]);
    is("lost_from", &[150]);
    is("lost_length", &[1850]);
    is("lost_task", &[2]);
    is("bad_gap", &[5, 291]);
    is("bad_length", &[4, 1]);
    is("locks", &[1, 0]);
    is("lock_gap", &[1000]);
    is("lock_length", &[7]);
    let chain: u64 = columns["chain_gap"].iter().chain(&columns["chain_length"]).sum();
    assert!(chain <= 2000 && !columns["chain_task"].is_empty());
}

#[test]
fn names_cannot_end_the_data_element_and_a_missing_timeline_is_explained() {
    let (with, _) = element(&[(0, Ok(two_cpus()))]);
    let (without, data) = element(&[(0, Err("it is <gone>".to_owned()))]);
    assert!(with.contains("<pre>a &lt;/pre&gt;&lt;script&gt;\nb \\u{1b}[1m</pre>"), "explanations are text");
    assert!(with.contains("<summary>fifo on laptop-2c4t, seed 1: Why</summary>"), "explanations name their run");
    assert_eq!(with.matches("</script").count(), without.matches("</script").count() + 1, "one element of data");
    assert_eq!(data, None);
    assert!(without.contains("There is no timeline: it is &lt;gone&gt;"));
}

/// A run that switches between two tasks `count` times, 150 ns each.
fn many(count: u64) -> Track {
    let mut story = Story::new(1, 3);
    // The third task never runs: its wait lasts to the end.
    (0..3).for_each(|task| story.wake(task));
    story.switch(0, None, Some(0), SwitchReason::Idle);
    for index in 1..count {
        story.now = index * 150;
        let prev = (index - 1) % 2;
        story.switch(0, Some(prev as u32), Some(1 - prev as u32), SwitchReason::SliceEnd);
    }
    story.end(count * 150)
}

#[test]
fn very_long_timelines_are_coarse_and_cut_with_a_note() {
    let (head, columns) = unpack(&element(&[(0, Ok(many(250_000)))]).1.unwrap());
    assert_eq!((head["unit"].as_u64(), &head["cut"]), (Some(100), &Value::Null));
    assert_eq!(columns["gap"].iter().chain(&columns["length"]).sum::<u64>(), 250_000 * 150 / 100);
    let (html, data) = element(&[(0, Ok(many(1_000_100)))]);
    let (head, columns) = unpack(&data.unwrap());
    assert_eq!(head["cut"].as_u64(), Some(150_000_000));
    assert_eq!(columns["task"].len(), 1_000_000);
    assert_eq!((columns["lost_from"].last(), columns["lost_length"].last()), (Some(&0), Some(&1_500_000)));
    assert!(html.contains("Shown are the first 150 ms"), "the page states that the timeline is cut");
}

proptest! {
    #[test]
    fn timeline_intervals_round_trip(turns in prop::collection::vec((0u32..3, 0u64..5000), 0..60)) {
        let mut story = Story::new(1, 3);
        let (mut running, mut wanted) = (None, Vec::<(u64, u64, u32)>::new());
        let mut since = 0;
        for (task, length) in turns {
            story.now += length;
            // Task 2 stands for idle time.
            let next = Some(task).filter(|&task| task < 2);
            if next == running {
                continue;
            }
            wanted.extend(running.map(|task| (since, story.now, task)));
            next.into_iter().for_each(|task| story.wake(task));
            story.switch(0, running, next, SwitchReason::Block);
            (running, since) = (next, story.now);
        }
        let end = story.now + 10;
        wanted.extend(running.map(|task| (since, end, task)));
        let (_, columns) = unpack(&element(&[(0, Ok(story.end(end)))]).1.unwrap());
        let mut now = 0;
        let mut got = Vec::new();
        for ((gap, length), task) in columns["gap"].iter().zip(&columns["length"]).zip(&columns["task"]) {
            got.push((now + gap, now + gap + length, *task as u32));
            now += gap + length;
        }
        prop_assert_eq!(got, wanted);
    }
}

#[test]
fn reason_of_an_ejection_is_expanded_and_comes_first() {
    let (html, _) = element(&[(0, Ok(two_cpus()))]);
    let why = html.find("<details open><summary>Why the scheduler was ejected</summary><pre>stalled: &lt;b&gt;</pre>");
    assert!(why.is_some_and(|why| why < html.find("Time of each CPU").unwrap()), "{why:?}");
}
