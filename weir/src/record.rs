// SPDX-License-Identifier: GPL-2.0-only
//! `weir record`: runs a command on this machine and writes what its tasks did to a workload file.

use crate::args::Record;
use anyhow::{Context, Result, anyhow};
use live::RecordSummary;
use std::fs;
use std::path::{Path, PathBuf};

/// Records and writes. False if the command failed or events were lost.
pub fn record(args: &Record) -> Result<bool> {
    let program = Path::new(&args.command[0]);
    let name = program.file_name().ok_or_else(|| anyhow!("{} is not a program", program.display()))?;
    let output = args.output.clone().unwrap_or_else(|| PathBuf::from(name).with_extension("weir"));
    let stem = output.file_stem().unwrap_or(name).to_string_lossy().into_owned();
    let unfinished = Unfinished::new(&output)?;
    let live::Recorded { recording, summary } = live::record(&stem, &args.command)?;
    let bytes = recording.to_bytes()?;
    unfinished.finish(&bytes)?;
    eprint!("{}", report(&summary, &output, bytes.len()));
    Ok(summary.status.success() && summary.lost() == 0)
}

/// What recording was like, for people.
fn report(summary: &RecordSummary, output: &Path, bytes: usize) -> String {
    let mut text = format!(
        "weir: wrote {} ({} KB): {} tasks, {} of CPU time in {}\n\
         weir: probes took {:.2} % of that CPU time, their reader {:.2} %; {} events, {} lost\n",
        output.display(),
        bytes.div_ceil(1000),
        summary.tasks,
        summary.cpu,
        summary.wall,
        summary.probe_percent(),
        summary.consumer_percent(),
        summary.events,
        summary.lost(),
    );
    if summary.lost() > 0 {
        text.push_str("weir: warning: the recording is incomplete: times and causes of sleeps may be wrong\n");
    }
    if summary.unfinished > 0 {
        text.push_str(&format!("weir: {} tasks had not ended and are cut off there\n", summary.unfinished));
    }
    if !summary.status.success() {
        text.push_str(&format!("weir: warning: the command failed: {}\n", summary.status));
    }
    text
}

/// The recording while it is being made: found unwritable before the command runs, and never left half written.
struct Unfinished<'a> {
    output: &'a Path,
    part: PathBuf,
}

impl<'a> Unfinished<'a> {
    fn new(output: &'a Path) -> Result<Unfinished<'a>> {
        let part = output.with_extension("part");
        fs::write(&part, b"").with_context(|| format!("cannot write {}", output.display()))?;
        Ok(Unfinished { output, part })
    }

    fn finish(&self, bytes: &[u8]) -> Result<()> {
        fs::write(&self.part, bytes)
            .and_then(|()| fs::rename(&self.part, self.output))
            .with_context(|| format!("cannot write {}", self.output.display()))
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        // Gone already if the recording was finished.
        let _ = fs::remove_file(&self.part);
    }
}
