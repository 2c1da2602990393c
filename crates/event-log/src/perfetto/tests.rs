// SPDX-License-Identifier: GPL-2.0-only
//! Traces decoded and printed as one packet per line.

use super::*;
use crate::SwitchReason as Reason;
use expect_test::expect;

fn trace_of(events: &[(u64, u32, TaskId, EventKind)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), "7.2");
    writer.source_file(1, "my.bpf.c");
    for (id, name) in ["make", "a-name-longer-than-15-bytes"].into_iter().enumerate() {
        writer.task(
            Nanos(0),
            &TaskInfo {
                id: TaskId(id as u32),
                pid: [4711, 90][id],
                name: name.to_owned(),
                parent: (id > 0).then_some(TaskId(0)),
                allowed: CpuSet::first_n(4),
                policy: Policy::Ext,
                nice: -3,
                kernel_thread: false,
            },
        );
    }
    for &(time, cpu, task, kind) in events {
        let site = CallbackSite { op: 2, file: 1, line: 31 };
        writer.event(&Event { time: Nanos(time), cpu: CpuId(cpu), task, kind, site });
    }
    let site = CallbackSite { op: 2, file: 1, line: 32 };
    let text = "chose 3".to_owned();
    writer.printk(&Printk { time: Nanos(18), cpu: CpuId(0), task: TaskId(0), site, text });
    writer.finish().unwrap()
}

fn printed(bytes: &[u8]) -> String {
    let trace = Trace::decode(bytes);
    let mut lines = Vec::new();
    for packet in trace.packet {
        assert_eq!(packet.trusted_packet_sequence_id, Some(SEQUENCE));
        if let Some(bundle) = packet.ftrace_events {
            lines.extend(bundle.event.iter().map(|event| format!("cpu {}: {}", bundle.cpu.unwrap(), ftrace(event))));
        } else if let Some(tree) = packet.process_tree {
            lines.push(format!("{:?} {:?}", tree.processes, tree.threads));
        } else if let Some(event) = packet.track_event {
            let at = packet.timestamp.unwrap();
            lines.push(format!(
                "{at} track {:x}: {:?} {:?} {:?}",
                event.track_uuid.unwrap(),
                event.name,
                event.counter_value,
                event.debug_annotations.first().and_then(|note| note.string_value.clone()),
            ));
        } else if let Some(track) = packet.track_descriptor {
            lines.push(format!("track {:x}: {:?}", track.uuid.unwrap(), track.name));
        } else {
            lines.push(format!("{:?}", packet.system_info.unwrap().utsname.unwrap().release));
        }
    }
    lines.join("\n") + "\n"
}

fn ftrace(event: &FtraceEvent) -> String {
    let (at, pid) = (event.timestamp.unwrap(), event.pid.unwrap());
    if let Some(switch) = &event.sched_switch {
        return format!(
            "{at} [{pid}] switch {} {} {:#x} -> {} {} {}",
            switch.prev_comm.as_deref().unwrap(),
            switch.prev_pid.unwrap(),
            switch.prev_state.unwrap(),
            switch.next_comm.as_deref().unwrap(),
            switch.next_pid.unwrap(),
            switch.next_prio.unwrap(),
        );
    }
    let (kind, waking) = match (&event.sched_waking, &event.sched_wakeup_new) {
        (Some(waking), None) => ("waking", waking),
        (None, Some(new)) => ("new", new),
        _ => panic!("one event a message"),
    };
    format!("{at} [{pid}] {kind} {:?} on {:?}, flags {:?}", waking.pid, waking.target_cpu, event.common_flags)
}

#[test]
fn trace_contains_switches_wakeups_queue_depths_kicks_and_printk() {
    let (a, b, none) = (TaskId(0), TaskId(1), TaskId::NONE);
    let wake = |waker| EventKind::Wakeup { waker, sync: false, target: CpuId(1) };
    let switch = |prev, reason| EventKind::Switch { prev, reason };
    let bytes = trace_of(&[
        (10, 0, a, wake(Waker::External)),
        (11, 0, a, EventKind::Insert { dsq: DsqId(5), key: 1, slice_ns: 1 }),
        (12, 0, none, EventKind::Kick { target: CpuId(1), flags: KickFlags(3) }),
        (13, 1, a, EventKind::Dispatch { from: DsqId(5), to: CpuId(1) }),
        (14, 1, a, switch(none, Reason::Idle)),
        (15, 1, b, wake(Waker::Fork(a))),
        (16, 1, b, EventKind::Insert { dsq: DsqId(5), key: 1, slice_ns: 1 }),
        (17, 1, b, switch(a, Reason::Preempt)),
        (18, 1, b, EventKind::Block { cause: BlockCause::Io }),
        (19, 1, a, switch(b, Reason::Block)),
        (20, 1, b, wake(Waker::Task(a))),
        (21, 1, a, EventKind::Priority { nice: 4 }),
        (22, 1, b, wake(Waker::Timer)),
        (23, 1, none, switch(a, Reason::Yield)),
        (24, 1, b, EventKind::Insert { dsq: DsqId::local_on(CpuId(1)), key: 0, slice_ns: 1 }),
        (25, 1, a, switch(none, Reason::Idle)),
        (26, 1, a, EventKind::Block { cause: BlockCause::Timer }),
        (27, 1, b, switch(a, Reason::Block)),
        (28, 1, none, switch(b, Reason::Exit)),
    ]);
    expect![[r#"
        Some("7.2.0-weir")
        [Process { pid: Some(4711), ppid: None, cmdline: ["make"] }] [Thread { tid: Some(4711), name: Some("make"), tgid: Some(4711) }]
        [Process { pid: Some(90), ppid: Some(4711), cmdline: ["a-name-longer-than-15-bytes"] }] [Thread { tid: Some(90), name: Some("a-name-longer-than-15-bytes"), tgid: Some(90) }]
        track 100000000: Some("DSQ 0x5 depth")
        11 track 100000000: None Some(1) None
        track 200000000: Some("CPU 0 kicks, preemptions, printk")
        12 track 200000000: Some("kick CPU 1 idle preempt") None Some("enqueue, my.bpf.c:31")
        13 track 100000000: None Some(0) None
        16 track 100000000: None Some(1) None
        17 track 100000000: None Some(0) None
        track 200000001: Some("CPU 1 kicks, preemptions, printk")
        17 track 200000001: Some("preempt 4711") None Some("enqueue, my.bpf.c:31")
        18 track 200000000: Some("chose 3") None Some("enqueue, my.bpf.c:32")
        cpu 0: 10 [0] waking Some(4711) on Some(1), flags Some(8)
        cpu 1: 14 [0] switch swapper/1 0 0x0 -> make 4711 117
        cpu 1: 15 [4711] new Some(90) on Some(1), flags None
        cpu 1: 17 [4711] switch make 4711 0x100 -> a-name-longer-t 90 117
        cpu 1: 19 [90] switch a-name-longer-t 90 0x2 -> make 4711 117
        cpu 1: 20 [4711] waking Some(90) on Some(1), flags None
        cpu 1: 22 [4711] waking Some(90) on Some(1), flags Some(8)
        cpu 1: 23 [4711] switch make 4711 0x0 -> swapper/1 0 120
        cpu 1: 25 [0] switch swapper/1 0 0x0 -> make 4711 124
        cpu 1: 27 [4711] switch make 4711 0x1 -> a-name-longer-t 90 117
        cpu 1: 28 [90] switch a-name-longer-t 90 0x20 -> swapper/1 0 120
    "#]].assert_eq(&printed(&bytes));
}

#[test]
fn buffered_events_are_bounded_by_the_bundle_size() {
    let tick = |time: u64| {
        let (prev, next) = if time.is_multiple_of(2) { (TaskId::NONE, TaskId(0)) } else { (TaskId(0), TaskId::NONE) };
        (time, 0, next, EventKind::Switch { prev, reason: Reason::Yield })
    };
    let trace = Trace::decode(&trace_of(&(0..1000).map(tick).collect::<Vec<_>>())[..]);
    let sizes: Vec<usize> =
        trace.packet.iter().filter_map(|p| p.ftrace_events.as_ref()).map(|b| b.event.len()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 1000);
    assert!(sizes.iter().all(|&size| size <= BUNDLE));
}

#[test]
fn names_are_truncated_at_character_boundaries() {
    assert_eq!(comm("fourteen-bytesé"), "fourteen-bytes");
    assert_eq!(comm("exactly-15-byte"), "exactly-15-byte");
    assert_eq!(comm(""), "");
}

#[test]
fn priorities_follow_the_kernels_scale() {
    assert_eq!(prio(Policy::Other, -20), 100);
    assert_eq!(prio(Policy::Ext, 19), 139);
    assert_eq!(prio(Policy::Fifo(1), 0), 98);
    assert_eq!(prio(Policy::RoundRobin(99), 0), 0);
}

#[test]
fn requests_in_progress_at_a_device_are_a_counter_track() {
    let mut writer = Writer::new(Vec::new(), "7.2");
    for (time, name, requests) in [(5, "disk:sda", 1), (6, "network:eth0", 1), (9, "disk:sda", 0)] {
        let kind = DetailKind::Device { name: name.to_owned(), requests };
        let (cpu, task, site) = (CpuId(0), TaskId::NONE, CallbackSite::default());
        writer.detail(&Detail { time: Nanos(time), cpu, task, kind, site });
    }
    let expected = "track 300000000: Some(\"disk:sda requests\")\n5 track 300000000: None Some(1) None\n\
                    track 300000001: Some(\"network:eth0 requests\")\n6 track 300000001: None Some(1) None\n\
                    9 track 300000000: None Some(0) None\n";
    let found = printed(&writer.finish().unwrap());
    assert!(found.ends_with(expected), "{found}");
}
