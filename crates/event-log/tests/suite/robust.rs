// SPDX-License-Identifier: GPL-2.0-only
//! Passes damaged logs to the body of the fuzz target, so that it also runs without a fuzzer.

#[path = "../../../../fuzz/src/log.rs"]
mod fuzz_log;

use event_log::{BlockCause, CallbackSite, Event, EventKind, FORMAT, Header, LogWriter, Sink, SwitchReason};
use ids::{CpuId, Nanos, TaskId};
use proptest::prelude::*;

/// A log with two events.
fn log() -> Vec<u8> {
    let text = || String::from("t");
    let header = Header {
        weir_log: FORMAT,
        version: text(),
        scheduler: text(),
        object_hash: text(),
        machine: text(),
        workload: text(),
        seed: 1,
        kernel: text(),
    };
    let mut writer = LogWriter::new(Vec::new(), &header).expect("memory takes it");
    let kinds = [
        EventKind::Block { cause: BlockCause::Timer },
        EventKind::Switch { prev: TaskId(3), reason: SwitchReason::Block },
    ];
    for kind in kinds {
        let site = CallbackSite::default();
        writer.event(&Event { time: Nanos(5), cpu: CpuId(1), task: TaskId(3), kind, site });
    }
    writer.finish().expect("memory takes it")
}

proptest! {
    #[test]
    fn damaged_logs_never_panic(
        changes in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..4),
        begin in any::<prop::sample::Index>(),
        whole in any::<bool>(),
    ) {
        let mut bytes = log();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        fuzz_log::run(if whole { &bytes } else { &bytes[begin.index(bytes.len())..] });
    }

    #[test]
    fn random_bytes_are_rejected_or_reencode_to_themselves(
        kind in any::<u8>(),
        rest in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let mut bytes = vec![kind];
        bytes.extend(rest);
        fuzz_log::run(&bytes);
    }
}
