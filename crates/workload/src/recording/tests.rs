// SPDX-License-Identifier: GPL-2.0-only
//! Round trips of any recording, and files that lie.

use super::*;
use crate::{BarrierId, ConditionId, MutexId, Op, Reference, SignalId, Sleep, Start, TaskSpec};
use ids::{CpuId, CpuSet, Policy};
use proptest::prelude::*;

fn time() -> impl Strategy<Value = Nanos> {
    prop_oneof![0..200u64, 0..1_000_000_000_000_000u64].prop_map(Nanos)
}

fn cpus() -> impl Strategy<Value = CpuSet> {
    prop::collection::vec(0..4096u32, 1..4).prop_map(|cpus| cpus.into_iter().map(CpuId).collect())
}

fn policy() -> impl Strategy<Value = (Policy, i8)> {
    let policy = prop_oneof![
        Just(Policy::Other),
        Just(Policy::Batch),
        Just(Policy::Idle),
        Just(Policy::Ext),
        (1..100u8).prop_map(Policy::Fifo),
        (1..100u8).prop_map(Policy::RoundRobin),
        (1..9u64, 0..9u64, 0..9u64).prop_map(|(runtime, more, yet)| Policy::Deadline {
            runtime: Nanos(runtime),
            deadline: Nanos(runtime + more),
            period: Nanos(runtime + more + yet),
        }),
    ];
    (policy, -20..20i8)
}

/// Any operation that is valid alone. Post and await are added by [`recording`], loops and locks too.
fn op() -> impl Strategy<Value = Op> {
    let cause = prop_oneof![Just(Sleep::Timer), Just(Sleep::Io), Just(Sleep::External)];
    let reference = prop_oneof![0..3u32, (0..3u32).prop_map(|number| number | Reference::PRIVATE)].prop_map(Reference);
    prop_oneof![
        (time(), time()).prop_map(|(user, system)| Op::Work { user, system }),
        time().prop_map(Op::CpuTime),
        (time(), cause).prop_map(|(time, cause)| Op::Sleep(time, cause)),
        (reference, time(), any::<bool>()).prop_map(|(reference, period, absolute)| Op::Timer {
            reference,
            period,
            absolute
        }),
        Just(Op::Signal(ConditionId(1))),
        Just(Op::Broadcast(ConditionId(0))),
        Just(Op::Barrier(BarrierId(0))),
        Just(Op::Suspend),
        Just(Op::Resume(vec![0, 1])),
        Just(Op::Yield),
        any::<u32>().prop_map(Op::Children),
        (prop::option::of(cpus()), prop::option::of(policy())).prop_map(|(cpus, policy)| Op::Change { cpus, policy }),
        (prop::option::of(cpus()), prop::option::of(policy())).prop_map(|(cpus, policy)| Op::ChangeOf {
            spec: 1,
            cpus,
            policy
        }),
    ]
}

fn recording() -> impl Strategy<Value = Recording> {
    let task = (
        ("\\PC{0,9}", prop::option::of("\\PC{0,9}")),
        policy(),
        prop::option::of(cpus()),
        any::<u64>(),
        prop::collection::vec(op(), 0..12),
    );
    (prop::collection::vec(task, 2..5), prop::option::of(time()), any::<u64>(), "\\PC{0,20}").prop_map(
        |(tasks, duration, number, text)| {
            let last = tasks.len() as u32 - 1;
            let tasks =
                tasks.into_iter().enumerate().map(|(index, ((name, command), (policy, nice), cpus, rss, ops))| {
                    let mut script = vec![Op::Lock(MutexId(1)), Op::Sync(ConditionId(0), MutexId(1))];
                    script.extend([Op::Wait(ConditionId(1), MutexId(1)), Op::Unlock(MutexId(1))]);
                    script.extend(ops);
                    script.push(Op::Repeat { from: 0, times: (index % 2 == 0).then_some(number | 1) });
                    if index == 0 {
                        script.extend([Op::Post(SignalId(0)), Op::Fork(last)]);
                    } else if index as u32 == last {
                        script.push(Op::Await(SignalId(0)));
                    }
                    let start = if index as u32 == last { Start::Forked } else { Start::At(Nanos(index as u64)) };
                    TaskSpec { name, command, start, policy, nice, cpus, peak_rss_bytes: rss, script }
                });
            let meta = RecordingMeta {
                command: text.clone(),
                recorded_at_unix_s: number,
                kernel: "Linux".into(),
                cpu_model: text,
                cpus: 4,
                elapsed: Nanos(number),
                lost_events: number >> 7,
                notes: String::new(),
            };
            let workload = Workload {
                name: "name".into(),
                duration,
                tasks: tasks.collect(),
                mutexes: 2,
                locks: Vec::new(),
                conditions: 2,
                barriers: vec![3],
                signals: 1,
                references: 3,
                parts: Vec::new(),
            };
            Recording { meta, workload }
        },
    )
}

fn small() -> Recording {
    let work = Op::Work { user: Nanos(5), system: Nanos(1) };
    let task = TaskSpec {
        name: "make".into(),
        command: Some("make -j4".into()),
        start: Start::At(Nanos::ZERO),
        policy: Policy::Other,
        nice: 0,
        cpus: None,
        peak_rss_bytes: 1,
        script: vec![work, Op::Sleep(Nanos(300), Sleep::Io)],
    };
    let workload = Workload {
        name: "build".into(),
        duration: None,
        tasks: vec![task],
        mutexes: 0,
        locks: Vec::new(),
        conditions: 0,
        barriers: vec![],
        signals: 0,
        references: 0,
        parts: Vec::new(),
    };
    Recording { meta: RecordingMeta { command: "make".into(), cpus: 4, ..RecordingMeta::default() }, workload }
}

/// A file around any payload, with a matching length and checksum.
fn file(payload: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((payload.len() as u64).to_le_bytes());
    bytes.extend(xxhash_rust::xxh3::xxh3_64(payload).to_le_bytes());
    bytes.extend(zstd::bulk::compress(payload, 1).unwrap());
    bytes
}

/// The very bytes of a payload: they change only together with [`VERSION`].
#[test]
fn the_payload_is_what_the_document_says() {
    let expected: &[u8] = &[
        4, b'm', b'a', b'k', b'e', // command
        0,    // recorded at
        0, 0, // kernel, CPU model
        4, // CPUs
        0, 0, 0, // elapsed, lost events, notes
        0, // no duration
        0, 0, 0, 0, // mutexes, conditions, signals, references
        0, // barriers
        1, // tasks
        4, b'm', b'a', b'k', b'e', // name
        1, 8, b'm', b'a', b'k', b'e', b' ', b'-', b'j', b'4', // command
        1, 0, // starts at 0
        0, 20, // policy, nice + 20
        0,  // no CPUs
        1,  // peak RSS
        2,  // operations
        0, 5, 1, // work
        2, 1, 0xAC, 2, // sleep for I/O of 300 ns
    ];
    assert_eq!(encode::payload(&small()), expected);
    assert_eq!(decode::recording("build", expected).unwrap(), small());
}

#[test]
fn a_file_is_told_from_json() {
    let bytes = small().to_bytes().unwrap();
    assert_eq!(Workload::from_bytes("dir/build.rec", &bytes).unwrap(), small().workload);
    let error = Workload::from_bytes("x", b"{\"tasks\": \xff}").unwrap_err().to_string();
    assert_eq!(
        error,
        "x: byte 10: neither UTF-8 nor the first bytes of a recording; expected rt-app JSON or a recording"
    );
    assert!(Workload::from_bytes("x", b"{").unwrap_err().to_string().starts_with("x:1:2"));
}

#[test]
fn damaged_files_are_refused_with_the_byte() {
    let good = small().to_bytes().unwrap();
    let change = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let payload = encode::payload(&small());
    let patch = |at: usize, byte: u8| {
        let mut payload = payload.clone();
        payload[at] = byte;
        file(&payload)
    };
    let operation = payload.len() - 7;
    let cases = [
        (vec![], "f: byte 0: not a recording; expected the bytes \"WEIRREC\\n\""),
        (good[..20].to_vec(), "f: byte 20: the file ends in its header; expected at least 28 bytes"),
        (change(8, 2), "f: byte 8: version 2 of the format; this program reads version 1"),
        (change(16, 1), "f: byte 12: claims 4294967344 bytes of payload; expected at most 1073741824"),
        (change(12, 47), "f: byte 28: payload of 48 bytes or more; the header claims 47"),
        (change(20, !good[20]), "f: byte 20: the checksum does not match: the file is damaged"),
        (
            file(&[&payload[..], &[0]].concat()),
            "f: byte 48 of the payload: 1 bytes follow the last task; expected the end",
        ),
        (file(&payload[..43]), "f: byte 43 of the payload: the payload ends in: system work"),
        (patch(0, 100), "f: byte 0 of the payload: command: 100 elements in 47 bytes"),
        (patch(1, 0xFF), "f: byte 1 of the payload: command: not UTF-8"),
        (patch(operation, 21), "f: byte 41 of the payload: operation 21; expected at most 20"),
        (patch(operation + 4, 3), "f: byte 45 of the payload: cause of a sleep: 3; expected at most 2"),
        (file(&[0xFF; 40]), "f: byte 0 of the payload: command: a number of more than 64 bits"),
    ];
    for (bytes, expected) in cases {
        assert_eq!(Recording::from_bytes("f", &bytes).unwrap_err().to_string(), expected);
    }
}

/// A few KB that unpack to far more than they should: refused, without taking the memory.
#[test]
fn bombs_are_refused() {
    let claim = |length: u64| {
        let mut bytes = file(&vec![0; 60 << 20]);
        bytes[12..20].copy_from_slice(&length.to_le_bytes());
        Recording::from_bytes("f", &bytes).unwrap_err().to_string()
    };
    assert_eq!(claim(100), "f: byte 28: payload of 101 bytes or more; the header claims 100");
    // Many yields are many operations: 12 empty fields, duration, counts, barriers, one task and its 9 fields.
    let mut payload = vec![0; 14];
    payload.extend([1, 0, 0, 0, 0, 20, 0, 0]);
    payload.extend([0xFF, 0xFF, 0xFF, 0x1D]);
    payload.resize((60 << 20) + payload.len(), 15);
    let error = Recording::from_bytes("f", &file(&payload)).unwrap_err().to_string();
    assert_eq!(error, "f: byte 22 of the payload: script: 62914559; expected at most 33554432");
    // More than a small payload takes a file that is not small.
    assert_eq!(
        claim(1 << 29).split_once(" in a file of ").map(|(claim, _)| claim.to_owned()).as_deref(),
        Some("f: byte 12: claims 536870912 bytes of payload")
    );
}

proptest! {
    #[test]
    fn every_recording_survives_its_file(recording in recording()) {
        let bytes = recording.to_bytes().unwrap();
        prop_assert_eq!(Recording::from_bytes("name.rec", &bytes).unwrap(), recording);
    }

    #[test]
    fn damage_never_panics(
        recording in recording(),
        at in any::<prop::sample::Index>(),
        bit in 0..8,
        cut in any::<prop::sample::Index>(),
    ) {
        // Below the checksum: in the payload itself, where damage is not caught by it.
        let mut payload = encode::payload(&recording);
        let at = at.index(payload.len());
        payload[at] ^= 1u8 << bit;
        payload.truncate(cut.index(payload.len()) + 1);
        let _ = Recording::from_bytes("f", &file(&payload));
        // And above it.
        let mut bytes = recording.to_bytes().unwrap();
        let at = at % bytes.len();
        bytes[at] ^= 1u8 << bit;
        // A few bits of a zstd frame mean nothing; then the whole recording comes back.
        let read = Recording::from_bytes("name", &bytes);
        prop_assert!(read.is_err() || read == Ok(recording));
    }
}
