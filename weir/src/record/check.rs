// SPDX-License-Identifier: GPL-2.0-only
//! Checks a new recording against the recorded run, and stores failed checks in its notes.

use crate::select;
use anyhow::{Context, Result};
use event_log::Null;
use fault_plan::FaultPlan;
use ids::Nanos;
use output_file::Target;
use simulator::{KernelName, Scheduler, Setup};
use std::fs;
use workload::{Recording, RecordingMeta};
use workload_summary::{SELF_CHECK, flaws, replay_flaw};

/// Deviation of a replay from the recorded run above which a warning is printed, in percent. The worst of 18 programs
/// with faithful recordings was 10.4 % of the CPU time away.
const REPLAY_PERCENT: u64 = 15;

/// Prints failed checks of the recording, and notes the deviation of a replay in the file.
pub fn check(target: &Target) -> Result<()> {
    let path = target.path();
    let place = || format!("cannot check {}", path.display());
    let bytes = fs::read(path).with_context(place)?;
    let mut recording = Recording::from_bytes(&path.display().to_string(), &bytes)?;
    let replay = replay(&recording).and_then(|took| replay_flaw(took, recording.meta.elapsed, REPLAY_PERCENT));
    if let Some(flaw) = replay {
        let RecordingMeta { notes, .. } = &mut recording.meta;
        if !notes.is_empty() {
            notes.push('\n');
        }
        notes.push_str(&format!("{SELF_CHECK}{flaw}"));
        target.write(&recording.to_bytes()?).with_context(place)?;
    }
    for flaw in flaws(&recording.meta, &recording.workload) {
        say!("weir: warning: {flaw}");
    }
    Ok(())
}

/// Time of a replay on this machine under the default scheduler; `None` if it cannot be simulated to its end.
fn replay(recording: &Recording) -> Option<Nanos> {
    let machine = select::machine("host").ok()?;
    let release = recording.meta.kernel.rsplit(' ').next().unwrap_or_default();
    let kernel = KernelName::nearest(release);
    let faults = FaultPlan::default();
    let setup = Setup {
        machine: &machine,
        workload: &recording.workload,
        scheduler: Scheduler::Kernel,
        seed: 0,
        duration: None,
        faults: &faults,
        kernel,
        types: None,
        map_bytes: simulator::MAP_BYTES,
    };
    let outcome = simulator::run(&setup, &mut Null, &mut |_| ()).ok()?;
    outcome.measures.makespan
}
