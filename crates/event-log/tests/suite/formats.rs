// SPDX-License-Identifier: GPL-2.0-only
//! The encoding of logs: its exact bytes, round trips, and the rejection of damaged logs.

use event_log::{
    BlockCause, CallbackSite, Event, EventKind, Header, JsonLines, KickFlags, LockKind, LogError, LogHash, LogReader,
    LogWriter, Printk, Record, SwitchReason, TaskInfo, Tee, Waker,
};
use expect_test::expect;
use ids::{CpuId, CpuSet, DsqId, Nanos, Policy, TaskId};
use proptest::prelude::*;

fn header() -> Header {
    Header {
        weir_log: event_log::FORMAT,
        version: "0.1.0".to_owned(),
        scheduler: "bfs".to_owned(),
        object_hash: "00ff".to_owned(),
        machine: "laptop-2c4t".to_owned(),
        workload: "build".to_owned(),
        seed: 1,
        kernel: "7.2".to_owned(),
    }
}

fn event(time: u64, task: u32, kind: EventKind) -> Record {
    let site = CallbackSite { op: 2, file: 1, line: 77 };
    Record::Event(Event { time: Nanos(time), cpu: CpuId(3), task: TaskId(task), kind, site })
}

fn info(id: u32, name: &str) -> TaskInfo {
    TaskInfo {
        // Task 1 has the pid that a simulated task would have.
        pid: if id == 1 { 101 } else { 700 + id },
        id: TaskId(id),
        name: name.to_owned(),
        parent: id.checked_sub(1).map(TaskId),
        allowed: CpuSet::first_n(70),
        policy: Policy::Deadline { runtime: Nanos(1), deadline: Nanos(2), period: Nanos(3) },
        nice: -5,
        kernel_thread: false,
    }
}

/// Records of every kind.
fn all_kinds() -> Vec<Record> {
    let switch = |prev, reason| EventKind::Switch { prev, reason };
    let wait = |lock| EventKind::LockWait { lock, waited: Nanos(90) };
    let kinds = [
        EventKind::Wakeup { waker: Waker::Fork(TaskId(0)), sync: true, target: CpuId(2) },
        EventKind::SelectCpu { prev: CpuId(0), chosen: CpuId(2) },
        EventKind::Insert { dsq: DsqId(9), key: u64::MAX, slice_ns: 20_000_000 },
        EventKind::Dispatch { from: DsqId(9), to: CpuId(2) },
        switch(TaskId::NONE, SwitchReason::Idle),
        EventKind::Tick,
        EventKind::Kick { target: CpuId(1), flags: KickFlags(3) },
        EventKind::Migrate { from: CpuId(2), to: CpuId(1) },
        EventKind::Block { cause: BlockCause::External },
        EventKind::Fork { child: TaskId(1) },
        EventKind::Exit,
        EventKind::Idle { entered: true },
        EventKind::Affinity,
        EventKind::Priority { nice: -20 },
        wait(LockKind::Runqueue(CpuId(7))),
        wait(LockKind::Dsq(DsqId::GLOBAL)),
        wait(LockKind::Bpf(0x1_0000_0000)),
        EventKind::Hotplug { online: false },
        EventKind::Yield,
        EventKind::Attached,
        EventKind::Disabled { kind: 1026 },
        switch(TaskId(0), SwitchReason::Change),
    ];
    let mut records = vec![
        Record::Task(Nanos(0), info(0, "make")),
        Record::Task(Nanos(1), info(1, "cc1é")),
        Record::SourceFile(0, "vmlinux.h".to_owned()),
        Record::SourceFile(1, "my.bpf.c".to_owned()),
    ];
    records.extend(kinds.into_iter().enumerate().map(|(at, kind)| event(10 + at as u64, 1, kind)));
    let site = CallbackSite { op: 2, file: 1, line: 78 };
    let (time, text) = (Nanos(98), "saw é".to_owned());
    records.push(Record::Printk(Printk { time, cpu: CpuId(3), task: TaskId(1), site, text }));
    records.push(Record::Affinity(Nanos(99), TaskId(1), "0,64".parse().unwrap()));
    records
}

fn written(records: &[Record]) -> Vec<u8> {
    let mut writer = LogWriter::new(Vec::new(), &header()).unwrap();
    records.iter().for_each(|record| record.send_to(&mut writer));
    writer.finish().unwrap()
}

fn read(bytes: &[u8]) -> Result<Vec<Record>, LogError> {
    let mut reader = LogReader::new(bytes)?;
    let mut records = Vec::new();
    while let Some(record) = reader.read()? {
        records.push(record);
    }
    Ok(records)
}

fn hash(records: &[Record]) -> u128 {
    let mut hash = LogHash::new();
    records.iter().for_each(|record| record.send_to(&mut hash));
    hash.finish()
}

#[test]
fn every_kind_of_record_is_read_back() {
    let records = all_kinds();
    assert_eq!(read(&written(&records)).unwrap(), records);
    assert_eq!(LogReader::new(&written(&records)[..]).unwrap().header(), &header());
}

/// If this changes, the format has changed: logs of earlier versions become unreadable and hashes can no longer be
/// compared.
#[test]
fn encoding_and_hash_are_those_of_format_2() {
    let mut bytes = Vec::new();
    all_kinds()[6].encode(&mut bytes);
    let hex: Vec<String> =
        bytes.chunks(4).map(|four| four.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
    expect![
        "02020300 00000100 00000100 4d000000 0c000000 00000000 09000000 00000000 ffffffff ffffffff 002d3101 00000000"
    ]
    .assert_eq(&hex.join(" "));
    expect!["382eac8007d08cf02b7893a59899c9ac"].assert_eq(&format!("{:032x}", hash(&all_kinds())));
}

#[test]
fn hash_depends_on_every_record_and_their_order() {
    let records = all_kinds();
    let whole = hash(&records);
    for index in 0..records.len() {
        let mut without = records.clone();
        without.remove(index);
        assert_ne!(hash(&without), whole, "without {:?}", records[index]);
    }
    let mut swapped = records.clone();
    swapped.swap(5, 6);
    assert_ne!(hash(&swapped), whole);
    // The records fill more than one buffer, whose boundaries fall at arbitrary positions.
    let many: Vec<Record> = records.iter().cycle().take(5000).cloned().collect();
    assert_eq!(hash(&many), hash(&many));
    let mut bytes = Vec::new();
    many.iter().for_each(|record| record.encode(&mut bytes));
    assert_eq!(hash(&many), event_log::hash_bytes(&bytes));
}

#[test]
fn truncated_log_is_rejected_at_every_length() {
    let bytes = written(&all_kinds());
    for end in 0..bytes.len() {
        assert!(read(&bytes[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn log_with_a_flipped_bit_is_rejected() {
    let bytes = written(&all_kinds());
    let body = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    for bit in body * 8..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&bad).is_err(), "bit {bit}");
    }
}

#[test]
fn record_with_missing_or_extra_bytes_is_rejected() {
    for record in all_kinds() {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        assert!((0..bytes.len()).all(|end| Record::decode(&bytes[..end]).is_err()), "{record:?}, truncated");
        bytes.push(0);
        assert!(Record::decode(&bytes).is_err(), "{record:?} with an extra byte");
    }
}

#[test]
fn log_errors_name_the_record_and_the_problem() {
    let bytes = written(&all_kinds());
    let body = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let error_after = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bad = bytes.clone();
        change(&mut bad);
        read(&bad).unwrap_err().to_string()
    };
    let texts = [
        error_after(&|bad| bad.clear()),
        error_after(&|bad| bad[12] = b'3'),
        error_after(&|bad| bad[body + 4] = 99),
        error_after(&|bad| bad[body..body + 4].fill(0xff)),
        error_after(&|bad| bad.truncate(body + 9)),
        error_after(&|bad| *bad.last_mut().unwrap() ^= 1),
    ];
    expect![[r#"
        the first line is not the header of a log of format 2: EOF while parsing a value at line 1 column 0
        the first line is not the header of a log of format 2: the log has format 3
        record 0: event kind 99 is unknown
        record 0 claims 4294967295 bytes; at most 1048576 are allowed
        record 0: the log is truncated
        the trailer does not match: the log is damaged"#]]
    .assert_eq(&texts.join("\n"));
}

#[test]
fn json_lines_contain_every_field_of_every_record() {
    let mut lines = JsonLines::new(Vec::new());
    let mut both = Tee(&mut lines, LogHash::new());
    all_kinds().iter().for_each(|record| record.send_to(&mut both));
    expect![[r#"
        {"time_ns":0,"kind":"task","task":0,"pid":700,"name":"make","parent":null,"parent_pid":null,"allowed":"0-69","policy":"deadline 1/2/3 ns","nice":-5,"kernel_thread":false}
        {"time_ns":1,"kind":"task","task":1,"pid":101,"name":"cc1é","parent":0,"parent_pid":700,"allowed":"0-69","policy":"deadline 1/2/3 ns","nice":-5,"kernel_thread":false}
        {"time_ns":10,"kind":"wakeup","cpu":3,"task":1,"pid":101,"op":"enqueue","file":"my.bpf.c","line":77,"cause":"fork","waker":0,"waker_pid":700,"sync":true,"target":2}
        {"time_ns":11,"kind":"select_cpu","cpu":3,"task":1,"pid":101,"op":"enqueue","file":"my.bpf.c","line":77,"prev":0,"chosen":2}
        {"time_ns":12,"kind":"insert","cpu":3,"task":1,"pid":101,"op":"enqueue","file":"my.bpf.c","line":77,"dsq":"0x9","key":18446744073709551615,"slice_ns":20000000}
        {"time_ns":13,"kind":"dispatch","cpu":3,"task":1,"pid":101,"op":"enqueue","file":"my.bpf.c","line":77,"from":"0x9","to":2}
        {"time_ns":14,"kind":"switch","cpu":3,"task":1,"pid":101,"op":"enqueue","file":"my.bpf.c","line":77,"prev":null,"prev_pid":null,"reason":"idle"}
        {"time_ns":15,"kind":"tick","cpu":3,"task":1,"pid":101,"op":"enqueue","file":"my.bpf.c","line":77}
        {"time_ns":16,"kind":"kick","cpu":3,"task":1,"pid":101,"op":"enqueue","file":"my.bpf.c","line":77,"target":1,"flags":3}
        {"time_ns":17,"kind":"migrate","cpu":3,"task":1,"pid":101,"op":"enqueue","file":"my.bpf.c","line":77,"from":2,"to":1}
        {"time_ns":18,"kind":"block","cpu":3,"task":1,"pid":101,"op":"enqueue","file":"my.bpf.c","line":77,"cause":"external"}
        {"time_ns":19,"kind":"fork","cpu":3,"task":1,"pid":101,"op":"enqueue","file":"my.bpf.c","line":77,"child":1,"child_pid":101}
        {"time_ns":20,"kind":"exit","cpu":3,"task":1,"pid":101,"op":"enqueue","file":"my.bpf.c","line":77}
        {"time_ns":21,"kind":"idle","cpu":3,"task":1,"pid":101,"op":"enqueue","file":"my.bpf.c","line":77,"entered":true}
        {"time_ns":22,"kind":"affinity","cpu":3,"task":1,"pid":101,"op":"enqueue","file":"my.bpf.c","line":77}
        {"time_ns":23,"kind":"priority","cpu":3,"task":1,"pid":101,"op":"enqueue","file":"my.bpf.c","line":77,"nice":-20}
        {"time_ns":24,"kind":"lock_wait","cpu":3,"task":1,"pid":101,"op":"enqueue","file":"my.bpf.c","line":77,"lock":"runqueue 7","waited_ns":90}
        {"time_ns":25,"kind":"lock_wait","cpu":3,"task":1,"pid":101,"op":"enqueue","file":"my.bpf.c","line":77,"lock":"dsq global","waited_ns":90}
        {"time_ns":26,"kind":"lock_wait","cpu":3,"task":1,"pid":101,"op":"enqueue","file":"my.bpf.c","line":77,"lock":"bpf 0x100000000","waited_ns":90}
        {"time_ns":27,"kind":"hotplug","cpu":3,"task":1,"pid":101,"op":"enqueue","file":"my.bpf.c","line":77,"online":false}
        {"time_ns":28,"kind":"yield","cpu":3,"task":1,"pid":101,"op":"enqueue","file":"my.bpf.c","line":77}
        {"time_ns":29,"kind":"attached","cpu":3,"task":1,"pid":101,"op":"enqueue","file":"my.bpf.c","line":77}
        {"time_ns":30,"kind":"disabled","cpu":3,"task":1,"pid":101,"op":"enqueue","file":"my.bpf.c","line":77,"exit_kind":1026}
        {"time_ns":31,"kind":"switch","cpu":3,"task":1,"pid":101,"op":"enqueue","file":"my.bpf.c","line":77,"prev":0,"prev_pid":700,"reason":"change"}
        {"time_ns":98,"kind":"printk","cpu":3,"task":1,"pid":101,"op":"enqueue","file":"my.bpf.c","line":78,"text":"saw é"}
        {"time_ns":99,"kind":"mask","task":1,"pid":101,"allowed":"0,64"}
    "#]].assert_eq(&String::from_utf8(lines.finish().unwrap()).unwrap());
}

proptest! {
    #[test]
    fn log_reader_does_not_panic_on_random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Record::decode(&bytes);
        let mut log = written(&[]);
        log.truncate(log.len() - 28);
        log.extend(bytes);
        let _ = read(&log);
    }

    #[test]
    fn random_names_and_masks_are_read_back(
        name in ".*",
        cpus in prop::collection::btree_set(0u32..4096, 0..20),
        time in any::<u64>(),
    ) {
        let allowed: CpuSet = cpus.into_iter().map(CpuId).collect();
        let records = [Record::Task(Nanos(time), TaskInfo { allowed, ..info(0, &name) })];
        prop_assert_eq!(read(&written(&records)).unwrap(), records);
    }
}

#[test]
fn write_errors_are_reported_at_the_end() {
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut writer = LogWriter::new(Full(300), &header()).unwrap();
    all_kinds().iter().for_each(|record| record.send_to(&mut writer));
    assert_eq!(writer.finish().err().unwrap().kind(), std::io::ErrorKind::StorageFull);
}
