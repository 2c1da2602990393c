// SPDX-License-Identifier: GPL-2.0-only
//! The part of Perfetto's trace format that is used for a schedule. The field numbers are those of Perfetto's public
//! `.proto` files (trace_packet, ftrace_event, sched, process_tree, system_info, track_descriptor, track_event).

use super::wire::{self, messages};

messages! {
    Trace {
        1 packet: Vec<TracePacket>,
    }

    TracePacket {
        1 ftrace_events: Option<FtraceEventBundle>,
        2 process_tree: Option<ProcessTree>,
        8 timestamp: Option<u64>,
        10 trusted_packet_sequence_id: Option<u32>,
        11 track_event: Option<TrackEvent>,
        13 sequence_flags: Option<u32>,
        45 system_info: Option<SystemInfo>,
        60 track_descriptor: Option<TrackDescriptor>,
    }

    FtraceEventBundle {
        1 cpu: Option<u32>,
        2 event: Vec<FtraceEvent>,
    }

    FtraceEvent {
        1 timestamp: Option<u64>,
        2 pid: Option<u32>,
        4 sched_switch: Option<SchedSwitch>,
        5 common_flags: Option<u32>,
        20 sched_waking: Option<SchedWaking>,
        114 sched_wakeup_new: Option<SchedWaking>,
    }

    SchedSwitch {
        1 prev_comm: Option<String>,
        2 prev_pid: Option<i32>,
        3 prev_prio: Option<i32>,
        4 prev_state: Option<i64>,
        5 next_comm: Option<String>,
        6 next_pid: Option<i32>,
        7 next_prio: Option<i32>,
    }

    /// `sched_waking` and `sched_wakeup_new` have the same fields.
    SchedWaking {
        1 comm: Option<String>,
        2 pid: Option<i32>,
        3 prio: Option<i32>,
        4 success: Option<i32>,
        5 target_cpu: Option<i32>,
    }

    ProcessTree {
        1 processes: Vec<Process>,
        2 threads: Vec<Thread>,
    }

    Process {
        1 pid: Option<i32>,
        2 ppid: Option<i32>,
        3 cmdline: Vec<String>,
    }

    Thread {
        1 tid: Option<i32>,
        2 name: Option<String>,
        3 tgid: Option<i32>,
    }

    SystemInfo {
        1 utsname: Option<Utsname>,
    }

    Utsname {
        1 sysname: Option<String>,
        3 release: Option<String>,
    }

    TrackDescriptor {
        1 uuid: Option<u64>,
        2 name: Option<String>,
        8 counter: Option<CounterDescriptor>,
    }

    CounterDescriptor {
        /// Unit of the counter; 2 is a plain count.
        3 unit: Option<i32>,
    }

    TrackEvent {
        4 debug_annotations: Vec<DebugAnnotation>,
        /// Type of the event: 3 is an instant, 4 a counter.
        9 kind: Option<i32>,
        11 track_uuid: Option<u64>,
        23 name: Option<String>,
        30 counter_value: Option<i64>,
    }

    DebugAnnotation {
        6 string_value: Option<String>,
        10 name: Option<String>,
    }
}
