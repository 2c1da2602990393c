// SPDX-License-Identifier: GPL-2.0-only
//! Round trips of random recordings, and invalid files.

use super::blocks::{BlockReader, BlockWriter, FULL_BLOCK, Next, SKIPPABLE, kind};
use super::encode::Writer;
use super::*;
use crate::{
    BarrierId, ConditionId, DeviceId, MutexId, MutexSpec, Op, Reference, SignalId, Sleep, Start, Submission, TaskSpec,
    Who,
};
use ids::{CpuId, CpuSet, Policy};
use proptest::prelude::*;
use std::collections::BTreeMap;

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

/// Any operation that is valid on its own. [`recording`] adds post and await, loops and locks.
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
        (any::<bool>(), time()).prop_map(|(until, time)| {
            let reference = Reference(Reference::PRIVATE | 1);
            match until {
                true => Op::WorkUntil { reference, after: time },
                false => Op::Interval { reference, period: time },
            }
        }),
        Just(Op::Anchor(Reference(2))),
        time().prop_map(Op::Timeout),
        (0..2u32, any::<bool>(), 1..=1u64 << 30, time()).prop_map(|(device, write, bytes, service)| {
            Op::Submit(Box::new(Submission { device: DeviceId(device), write, bytes, service }))
        }),
        (0..2u32, any::<u32>(), time()).prop_map(|(device, most, slept)| Op::AwaitRequests {
            device: DeviceId(device),
            most,
            slept
        }),
        Just(Op::Signal(ConditionId(1))),
        Just(Op::Broadcast(ConditionId(0))),
        Just(Op::Barrier(BarrierId(0))),
        Just(Op::Suspend),
        Just(Op::Resume([0, 1].into())),
        Just(Op::Yield),
        any::<u32>().prop_map(Op::Children),
        (prop::option::of(cpus()), prop::option::of(policy()))
            .prop_map(|(cpus, policy)| Op::Change { cpus: cpus.map(Box::new), policy: policy.map(Box::new) }),
        (prop::option::of(cpus()), prop::option::of(policy())).prop_map(|(cpus, policy)| Op::ChangeOf {
            spec: 1,
            cpus: cpus.map(Box::new),
            policy: policy.map(Box::new),
        }),
    ]
}

fn who() -> impl Strategy<Value = Who> {
    let number = || prop::option::of(any::<u32>());
    (number(), number(), number(), prop::option::of("\\PC{0,9}")).prop_map(|(tgid, session, uid, group)| Who {
        tgid,
        session,
        uid,
        group,
        process: None,
    })
}

fn touched() -> impl Strategy<Value = Touched> {
    let number = || prop_oneof![Just(0), 0..300u64, any::<u64>()];
    (number(), number(), number(), number(), number(), number(), number()).prop_map(|numbers| Touched {
        minor_faults: numbers.0,
        major_faults: numbers.1,
        read: numbers.2,
        written: numbers.3,
        device_read: numbers.4,
        device_written: numbers.5,
        beside_ns: numbers.6,
    })
}

/// For at least two tasks whose scripts have at least five operations.
fn observed() -> impl Strategy<Value = Observed> {
    let footprint = any::<(u64, u64, u64, u64)>().prop_map(|(private, shared, kernel, executable)| Footprint {
        private,
        shared,
        kernel,
        executable,
    });
    let stretches = prop::collection::btree_map(0..6u32, (0..4096u32, touched()), 1..6).prop_map(|stretches| {
        let stretch = |(until, (cpu, touched))| Stretch { until, cpu: CpuId(cpu), touched };
        stretches.into_iter().map(stretch).collect::<Vec<_>>()
    });
    let request = (
        any::<u64>(),
        prop::option::of(0..2u32),
        0..2u32,
        prop::sample::select(&Operation::ALL[..]),
        (any::<u64>(), time()),
    )
        .prop_map(|(at, task, device, operation, (bytes, service))| Request {
            time: Nanos(at),
            task,
            device,
            operation,
            bytes,
            service,
        });
    (
        prop::collection::btree_map(0..2u32, footprint, 0..3),
        prop::collection::btree_map(0..2u32, stretches, 0..3),
        prop::collection::vec(request, 0..5),
        "\\PC{0,9}",
    )
        .prop_map(|(footprints, stretches, mut requests, name)| {
            requests.sort_by_key(|request| request.time);
            let device = |number| Device { number, name: name.clone() };
            let devices = if requests.is_empty() { Vec::new() } else { vec![device(254 << 20), device(7)] };
            Observed { footprints, stretches, devices, requests }
        })
}

fn costs(number: u64) -> Costs {
    let cost = |low: u64| Some(Cost { low: Nanos(low), typical: Nanos(low + 7), high: Nanos(number) });
    match number % 3 {
        0 => Costs::default(),
        1 => Costs { switch: cost(number), probe: cost(1), ..Costs::default() },
        _ => {
            let (interrupt, interrupt_to_halted) = (cost(4), cost(8));
            let (ticks, probe, pass) = (cost(5), cost(6), cost(7));
            Costs { switch: cost(2), wake: cost(3), interrupt, interrupt_to_halted, ticks, probe, pass }
        }
    }
}

fn recording() -> impl Strategy<Value = Recording> {
    let task = (
        ("\\PC{0,9}", prop::option::of("\\PC{0,9}")),
        policy(),
        prop::option::of(cpus()),
        (any::<u64>(), who()),
        prop::collection::vec(op(), 0..12),
    );
    (prop::collection::vec(task, 2..5), prop::option::of(time()), any::<u64>(), ("\\PC{0,20}", observed())).prop_map(
        |(tasks, duration, number, (text, observed))| {
            let last = tasks.len() as u32 - 1;
            let tasks = tasks.into_iter().enumerate().map(
                |(index, ((name, command), (policy, nice), cpus, (rss, who), ops))| {
                    let mut script = vec![Op::Lock(MutexId(1)), Op::Sync(ConditionId(0), MutexId(1))];
                    script.extend([Op::Wait(ConditionId(1), MutexId(1)), Op::Unlock(MutexId(1))]);
                    script.extend(ops);
                    script.push(Op::Repeat { from: 0, times: (index % 2 == 0).then_some(number | 1) });
                    if index == 0 {
                        script.extend([Op::Post(SignalId(0)), Op::Fork(last)]);
                    } else if index as u32 == last {
                        let signal = SignalId(0);
                        script.push(if number % 2 == 0 { Op::Await(signal) } else { Op::WorkUntilPosted(signal) });
                    }
                    let start = if index as u32 == last { Start::Forked } else { Start::At(Nanos(index as u64)) };
                    TaskSpec {
                        name,
                        command,
                        start,
                        policy,
                        nice,
                        cpus,
                        peak_rss_bytes: rss,
                        who,
                        window: None,
                        memory: None,
                        lends: None,
                        script,
                    }
                },
            );
            let meta = RecordingMeta {
                command: text.clone(),
                recorded_at_unix_s: number,
                kernel: "Linux".into(),
                cpu_model: text,
                cpus: 4,
                elapsed: Nanos(number),
                lost_events: number >> 7,
                notes: String::new(),
                costs: costs(number / 2),
                scheduling: Nanos(number / 3),
            };
            let workload = Workload {
                name: "name".into(),
                duration,
                tasks: tasks.collect(),
                mutexes: MutexSpec::unnamed(2),
                locks: Vec::new(),
                conditions: 2,
                barriers: vec![3],
                signals: 1,
                references: 3,
                idle_exit_limit: None,
                groups: Vec::new(),
                is_grouped: false,
                caveats: Vec::new(),
                sources: Vec::new(),
                disks: Vec::new(),
                networks: Vec::new(),
                devices: vec!["vda".to_owned(), "sr0".to_owned()],
                parts: Vec::new(),
            };
            Recording { meta, workload, observed }
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
        who: Who::default(),
        window: None,
        memory: None,
        lends: None,
        script: vec![work, Op::Sleep(Nanos(300), Sleep::Io)],
    };
    let workload = Workload { name: "build".into(), tasks: vec![task], ..Workload::default() };
    let meta = RecordingMeta { command: "make".into(), cpus: 4, ..RecordingMeta::default() };
    Recording { meta, workload, observed: Observed::default() }
}

/// [`small`] with the fields missing in version 1.
fn small_2() -> Recording {
    let mut recording = small();
    let who = Who { tgid: Some(300), session: Some(2), uid: Some(0), group: Some("/a".into()), process: None };
    recording.workload.tasks[0].who = who;
    let cost = Cost { low: Nanos(3), typical: Nanos(4), high: Nanos(5) };
    recording.meta.costs = Costs { wake: Some(cost), ..Costs::default() };
    let footprint = Footprint { private: 7, shared: 6, kernel: 5, executable: 4 };
    let touched = Touched { minor_faults: 9, device_written: 512, ..Touched::default() };
    let stretch = |until, touched| Stretch { until, cpu: CpuId(3), touched };
    let request = |time, task, operation, bytes| Request {
        time: Nanos(time),
        task,
        device: 0,
        operation,
        bytes,
        service: Nanos(2),
    };
    recording.observed = Observed {
        footprints: [(0, footprint)].into(),
        stretches: [(0, vec![stretch(1, touched), stretch(2, Touched { read: 1, ..Touched::default() })])].into(),
        devices: vec![Device { number: 254, name: "vda".into() }],
        requests: vec![request(6, Some(0), Operation::Read, 8), request(9, None, Operation::Flush, 0)],
    };
    recording
}

/// The blocks of [`small_2`] as described in `docs/reference/recording-format.md`.
const DOCUMENTED: [(u16, u16, &[u8]); 8] = [
    (
        1,
        0,
        &[
            9, // values
            7, b'c', b'o', b'm', b'm', b'a', b'n', b'd', 1, 4, b'm', b'a', b'k', b'e', // a text
            18, b'r', b'e', b'c', b'o', b'r', b'd', b'e', b'd', b'_', b'a', b't', b'_', b'u', b'n', b'i', b'x', b'_',
            b's', 0, 0, // a number
            6, b'k', b'e', b'r', b'n', b'e', b'l', 1, 0, //
            9, b'c', b'p', b'u', b'_', b'm', b'o', b'd', b'e', b'l', 1, 0, //
            4, b'c', b'p', b'u', b's', 0, 4, //
            10, b'e', b'l', b'a', b'p', b's', b'e', b'd', b'_', b'n', b's', 0, 0, //
            13, b's', b'c', b'h', b'e', b'd', b'u', b'l', b'i', b'n', b'g', b'_', b'n', b's', 0, 0, //
            11, b'l', b'o', b's', b't', b'_', b'e', b'v', b'e', b'n', b't', b's', 0, 0, //
            5, b'n', b'o', b't', b'e', b's', 1, 0, //
        ],
    ),
    (2, 1, &[1, 4, b'w', b'a', b'k', b'e', 3, 4, 5]),
    (
        3,
        0,
        &[
            0, // no duration
            0, 0, 0, 0, // mutexes, conditions, signals, references
            0, // barriers
        ],
    ),
    (
        4,
        0,
        &[
            37, // bytes of the task
            4, b'm', b'a', b'k', b'e', // name
            1, 8, b'm', b'a', b'k', b'e', b' ', b'-', b'j', b'4', // command
            1, 0, // starts at 0
            0, 20, // policy, nice + 20
            0,  // no CPUs
            1,  // peak RSS
            1, 0xAC, 2, // process
            1, 2, // session
            1, 0, // user
            1, 2, b'/', b'a', // control group
            1, 7, 6, 5, 4, // footprint
        ],
    ),
    (
        5,
        0,
        &[
            0, 2, // two operations of task 0
            0, 5, 1, // work
            2, 1, 0xAC, 2, // sleep for I/O of 300 ns
        ],
    ),
    (
        6,
        1,
        &[
            0, 2, // two stretches of task 0
            1, 3, 0b10_0001, 9, 0x80, 4, // before operation 1, CPU 3, minor faults and bytes written to devices
            1, 3, 0b00_0100, 1, // before operation 2, CPU 3, bytes read
        ],
    ),
    (
        7,
        1,
        &[
            1, 0xFE, 1, 3, b'v', b'd', b'a', // one device
            2,    // requests
            6, 1, 0, 0, 8, 2, // after 6 ns, task 0, the first device, a read of 8 bytes in 2 ns
            3, 0, 0, 2, 0, 2, // 3 ns later, no task, a flush
        ],
    ),
    (255, 0, &[7, 1, 2]),
];

/// A file of these blocks, with correct lengths and checksums.
fn file(blocks: &[(u16, u16, &[u8])]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    let mut writer = BlockWriter::new(&mut bytes, VERSION_HEADER, 1);
    blocks.iter().for_each(|(kind, flags, content)| writer.write(*kind, *flags, content).unwrap());
    bytes
}

/// The documented file with the block at `index` replaced.
fn with(index: usize, block: (u16, u16, &[u8])) -> Vec<u8> {
    let mut blocks = DOCUMENTED.to_vec();
    blocks[index] = block;
    file(&blocks)
}

fn error(bytes: &[u8]) -> String {
    Recording::from_bytes("f", bytes).unwrap_err().to_string()
}

/// The exact bytes of the blocks: they change only together with [`VERSION`].
#[test]
fn block_bytes_match_the_documentation() {
    let written = small_2().to_bytes().unwrap();
    assert_eq!(written, file(&DOCUMENTED));
    assert_eq!(Recording::from_bytes("build", &written).unwrap(), small_2());
    let (head, stored) = (&written[VERSION_HEADER..VERSION_HEADER + 12], DOCUMENTED[0].2);
    assert_eq!(head, [1, 0, 0, 0, 115, 0, 0, 0, 115, 0, 0, 0]);
    let checksum = xxhash_rust::xxh3::xxh3_64(&[head, stored].concat()).to_le_bytes();
    assert_eq!(written[VERSION_HEADER + 12..][..8], checksum);
}

#[test]
fn recording_is_distinguished_from_json() {
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
fn unknown_blocks_are_skipped_or_refused_by_name() {
    let add = |kind, flags| {
        let mut blocks = DOCUMENTED.to_vec();
        blocks.insert(2, (kind, flags, b"anything"));
        blocks[8] = (255, 0, &[8, 1, 2]);
        Recording::from_bytes("build", &file(&blocks)).map_err(|error| error.to_string())
    };
    assert_eq!(add(99, SKIPPABLE), Ok(small_2()));
    assert_eq!(add(16, SKIPPABLE), Ok(small_2()));
    let refused = |kind, name| Err(format!("build: byte 176: a block of type {kind} ({name}), which is not supported"));
    assert_eq!(add(99, 0), refused(99, "unknown"));
    assert_eq!(add(16, 0), refused(16, "channels"));
    assert_eq!(add(18, 0), refused(18, "locks"));
    // Known blocks with data that later versions may add: another metadata value, another cost, more task fields.
    let more_values = [&[10u8][..], &DOCUMENTED[0].2[1..], b"\x04host\x01\x01x"].concat();
    assert_eq!(Recording::from_bytes("build", &with(0, (1, 0, &more_values))), Ok(small_2()));
    let more_costs = [&[2u8][..], &DOCUMENTED[1].2[1..], b"\x04page\x01\x02\x03"].concat();
    assert_eq!(Recording::from_bytes("build", &with(1, (2, 1, &more_costs))), Ok(small_2()));
    let more_task = [&[40u8][..], &DOCUMENTED[3].2[1..], b"new"].concat();
    assert_eq!(Recording::from_bytes("build", &with(3, (4, 0, &more_task))), Ok(small_2()));
}

#[test]
fn truncated_file_reports_its_complete_blocks() {
    let whole = small_2().to_bytes().unwrap();
    let end = whole.len() - 23;
    for length in VERSION_HEADER..whole.len() {
        let error = error(&whole[..length]);
        assert!(error.contains("the file is truncated here; ") && error.ends_with("expected an end block"), "{error}");
    }
    for length in 0..VERSION_HEADER {
        assert!(!error(&whole[..length]).contains("truncated"));
    }
    let expected = "the file is truncated here; it contains 7 complete blocks with 1 tasks and 2 operations; \
                    expected an end block";
    assert_eq!(error(&whole[..end]), format!("f: byte {end}: {expected}"));
    assert_eq!(error(&whole[..end + 7]), format!("f: byte {end}: {expected}"));
}

#[test]
fn damaged_files_are_refused_with_the_offset() {
    let good = small_2().to_bytes().unwrap();
    let change = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let operations = |bytes: &[u8]| with(4, (5, 0, bytes));
    let cases = [
        (vec![], "byte 0: not a recording; expected the bytes \"WEIRREC\\n\""),
        (good[..10].to_vec(), "byte 10: the file ends within its header; expected a version"),
        (change(8, 3), "byte 8: format version 3 is not supported; expected 1 or 2"),
        (change(14, 9), "byte 14: flags 0x9 of a block; expected at most 0x3"),
        (change(19, 1), "byte 16: a block of 16777331 bytes; expected at most 16777216"),
        (change(24, !good[24]), "byte 12: the checksum of a block does not match: the file is damaged"),
        (change(40, !good[40]), "byte 12: the checksum of a block does not match: the file is damaged"),
        ([&good[..], &[0]].concat(), "byte 384: data after the end block; expected the end of the file"),
        (with(0, (4, 0, &[])), "byte 246: no metadata block; expected one"),
        (with(2, (1, 0, &[0])), "byte 176: block of metadata, byte 0: duplicate block of this type"),
        (
            with(0, (1, 0, &[1, 4, b'c', b'p', b'u', b's', 1, 0])),
            "byte 12: block of metadata, byte 6: cpus: a text; expected a number",
        ),
        (with(3, (4, 0, &[40, 0])), "byte 202: block of tasks, byte 0: task: 40 elements in 1 bytes"),
        (with(3, (4, 0, &[3, 1, b'a', 0])), "byte 202: block of tasks, byte 4: the task ends within: task's start"),
        (
            operations(&[7, 1, 15]),
            "byte 260: block of operations, byte 0: operations of task 7, but only 1 tasks precede this block",
        ),
        (operations(&[0, 2, 0, 5]), "byte 260: block of operations, byte 4: the block ends within: system work"),
        (operations(&[0, 1, 28]), "byte 260: block of operations, byte 2: operation 28; expected at most 27"),
        (
            operations(&[0, 1, 2, 3, 0]),
            "byte 260: block of operations, byte 3: cause of a sleep: 3; expected at most 2",
        ),
        (operations(&[0xFF; 40]), "byte 260: block of operations, byte 0: task: number exceeds 64 bits"),
        (
            with(2, (3, 0, &[0, 0, 0, 0, 0, 0, 9])),
            "byte 176: block of resources, byte 6: 1 bytes follow the last value; expected the end",
        ),
        (with(7, (255, 0, &[7, 1, 3])), "byte 361: block of end, byte 2: found 2 operations, the end block says 3"),
        (with(7, (255, 0, &[6, 1, 2])), "byte 361: block of end, byte 0: found 7 blocks, the end block says 6"),
    ];
    for (bytes, expected) in cases {
        assert_eq!(error(&bytes), format!("f: {expected}"));
    }
}

#[test]
fn invalid_observations_are_refused_with_the_offset() {
    let stretches = |bytes: &[u8]| with(5, (6, 1, bytes));
    let requests = |bytes: &[u8]| with(6, (7, 1, bytes));
    let device = |rest: &[u8]| requests(&[&[1, 7, 1, b'a'][..], rest].concat());
    let (of_stretches, of_requests) = ("byte 289: block of pieces of work", "byte 321: block of block requests");
    let cases = [
        (
            stretches(&[1, 1, 1, 0, 0]),
            "byte 289",
            "byte 0: pieces of work of task 1, but only 1 tasks precede this block",
        ),
        (stretches(&[0, 9, 1, 0, 0]), of_stretches, "byte 1: pieces of work: 9 elements in 3 bytes"),
        (
            stretches(&[0, 1, 1, 0x80, 0x20, 0]),
            of_stretches,
            "byte 3: CPU of a piece of work: 4096; expected at most 4095",
        ),
        (
            stretches(&[0, 1, 1, 0, 1, 0]),
            of_stretches,
            "byte 5: counter 0 of a piece of work is present but 0; expected more than 0",
        ),
        (stretches(&[0, 1, 1, 0, 2]), of_stretches, "byte 5: the block ends within: what was touched"),
        (stretches(&[0, 2, 1, 0, 0, 0, 0, 0]), of_stretches, "byte 0: two pieces of work of task 0 end at operation 1"),
        (
            stretches(&[0, 2, 1, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0, 0]),
            of_stretches,
            "byte 5: a piece of work of 4294967295 operations ends beyond operation 2^32 - 1",
        ),
        (device(&[1, 0, 0, 1, 0, 0, 0]), of_requests, "byte 7: device 1, but this block lists 1 devices"),
        (device(&[1, 0, 0, 0, 5, 0, 0]), of_requests, "byte 8: operation of a device: 5; expected at most 4"),
        (device(&[9, 0, 0]), of_requests, "byte 4: requests: 9 elements in 2 bytes"),
        // These checks need the whole file.
        (stretches(&[0, 1, 3, 0, 0]), "byte", "a piece of work of task 0 ends at operation 3, but there are 2"),
        (device(&[1, 0, 2, 0, 0, 0, 0]), "byte", "observations of task 1, but there are 1 tasks"),
    ];
    for (bytes, place, problem) in cases {
        let error = error(&bytes);
        assert!(error.starts_with(&format!("f: {place}")) && error.ends_with(problem), "{error}: {problem}");
    }
    // Additional counters of later writers are skipped.
    let more = stretches(&[0, 2, 1, 3, 0xA1, 2, 9, 0x80, 4, 7, 1, 3, 0b00_0100, 1]);
    assert_eq!(Recording::from_bytes("build", &more).map_err(|error| error.to_string()), Ok(small_2()));
    // The blocks are optional and may precede the scripts.
    let mut blocks = DOCUMENTED.to_vec();
    blocks.swap(4, 5);
    assert_eq!(Recording::from_bytes("build", &file(&blocks)), Ok(small_2()));
    blocks.drain(5..7);
    blocks[5] = (255, 0, &[5, 1, 0]);
    assert!(Recording::from_bytes("build", &file(&blocks)).unwrap_err().to_string().contains("there are 0"));
}

/// A few KB that decompress to too much are refused without allocating the memory.
#[test]
fn decompression_bombs_are_refused() {
    // A yield takes one byte; 20 blocks decompress to 30 million operations.
    let yields = [&[0u8, 0x80, 0x80, 0x60][..], &vec![15; 3 << 19]].concat();
    let blocks = |count: usize| {
        let mut blocks = DOCUMENTED[..4].to_vec();
        blocks.extend(vec![(5, 0, &yields[..]); count]);
        file(&blocks)
    };
    let few = error(&blocks(20));
    assert!(few.contains("20 operations") || few.contains("31457280 operations"), "{few}");
    let many = error(&blocks(23));
    assert!(many.ends_with("more than 33554432 operations, the maximum for a workload in memory"), "{many}");
    // Skipped blocks count as well.
    let zeros = vec![0; 16 << 20];
    let junk = error(&file(&[(77, SKIPPABLE, &zeros[..]); 5]));
    assert!(
        junk.contains("decompresses to 83886080 bytes after ") && junk.ends_with("expected at most 67108864"),
        "{junk}"
    );
}

/// A long script spans several blocks, none much longer than a full block.
#[test]
fn long_recording_is_split_into_blocks() {
    let mut recording = small_2();
    let op = |number: u64| Op::Work { user: Nanos(number * number), system: Nanos(number) };
    recording.workload.tasks = vec![recording.workload.tasks[0].clone(); 3];
    recording.workload.tasks[1].script = (0..400_000).map(op).collect();
    let bytes = recording.to_bytes().unwrap();
    assert_eq!(Recording::from_bytes("build", &bytes).unwrap(), recording);
    let (mut at, mut lengths) = (VERSION_HEADER, Vec::new());
    while at < bytes.len() {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        lengths.push(word(at + 8));
        at += 20 + word(at + 4);
    }
    assert!(lengths.len() >= 8 && lengths.iter().all(|&length| length < FULL_BLOCK + 1000), "{lengths:?}");
}

/// A hand-made version 1 file, according to its documentation.
#[test]
fn version_1_can_be_read() {
    let payload: &[u8] = &[
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
    assert_eq!(Recording::from_bytes("build", &version_1(payload)), Ok(small()));
    let cases: [(&[u8], &str); 3] = [
        (&[payload, &[0]].concat(), "byte 48 of the payload: 1 bytes follow the last task; expected the end"),
        (&payload[..43], "byte 43 of the payload: the payload ends within: system work"),
        (&[100], "byte 0 of the payload: command: 100 elements in 0 bytes"),
    ];
    for (payload, expected) in cases {
        assert_eq!(error(&version_1(payload)), format!("f: {expected}"));
    }
    let mut longer = version_1(payload);
    longer[12] += 1;
    assert_eq!(error(&longer), "f: byte 28: the payload decompresses to at least 48 bytes; the header says 49");
    longer[16] = 1;
    assert_eq!(error(&longer), "f: byte 12: payload length 4294967345; expected at most 1073741824");
}

/// A version 1 file around any payload, with correct length and checksum.
fn version_1(payload: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(1u32.to_le_bytes());
    bytes.extend((payload.len() as u64).to_le_bytes());
    bytes.extend(xxhash_rust::xxh3::xxh3_64(payload).to_le_bytes());
    bytes.extend(zstd::bulk::compress(payload, 1).unwrap());
    bytes
}

/// All blocks of a recording, decompressed.
fn contents(recording: &Recording) -> Vec<(u16, u16, Vec<u8>)> {
    let (mut tasks, mut operations) = (Writer::default(), Writer::default());
    for (index, task) in recording.workload.tasks.iter().enumerate() {
        tasks.task(task, recording.observed.footprints.get(&(index as u32)));
        operations.number(index as u64);
        operations.list(&task.script, Writer::op);
    }
    let mut blocks = vec![
        (kind::METADATA, 0, write::metadata(&recording.meta)),
        (kind::RESOURCES, 0, write::resources(&recording.workload)),
        (kind::TASKS, 0, tasks.0),
        (kind::OPERATIONS, 0, operations.0),
    ];
    // Blocks that are optional.
    let mut more = Vec::new();
    let mut writer = BlockWriter::new(&mut more, 0, 1);
    write::stretches(&mut writer, &recording.observed.stretches, &mut BTreeMap::new()).unwrap();
    write::requests(&mut writer, &recording.observed.devices, &recording.observed.requests).unwrap();
    let mut reader = BlockReader::new(&more[..], 0);
    while let Next::Block { kind, .. } = reader.next().unwrap_or_else(|(_, problem)| panic!("{problem}")) {
        blocks.push((kind, SKIPPABLE, reader.content().to_vec()));
    }
    blocks
}

proptest! {
    #[test]
    fn recordings_round_trip(recording in recording()) {
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
        // Damage block contents and recompute the checksums.
        let mut blocks = contents(&recording);
        let at_block = at.index(blocks.len());
        let content = &mut blocks[at_block].2;
        let at = at.index(content.len());
        content[at] ^= 1u8 << bit;
        if bit > 3 {
            content.truncate(cut.index(content.len()) + 1);
        }
        let blocks: Vec<_> = blocks.iter().map(|(kind, flags, content)| (*kind, *flags, &content[..])).collect();
        let tasks = &recording.workload.tasks;
        let counts = [blocks.len(), tasks.len(), tasks.iter().map(|task| task.script.len()).sum()];
        let end = counts.map(|count| count as u8);
        let _ = Recording::from_bytes("f", &file(&[&blocks[..], &[(kind::END, 0, &end)]].concat()));
        // Flip a bit anywhere in the file, checksums included, without recomputing them.
        let mut bytes = recording.to_bytes().unwrap();
        let at = at % bytes.len();
        bytes[at] ^= 1u8 << bit;
        // Some bits of a zstd frame are unused; then the recording is read unchanged.
        let read = Recording::from_bytes("name", &bytes);
        prop_assert!(read.is_err() || read == Ok(recording));
    }
}
