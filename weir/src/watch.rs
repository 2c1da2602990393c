// SPDX-License-Identifier: GPL-2.0-only
//! `weir sim --watch`: repeats the simulation whenever a file changes that the command line names or a source
//! includes.

use crate::args::Sim;
use crate::{compile, select};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Polling interval. Polling is cheap, works on every file system, and keeps track of files that an editor replaces.
const LOOK: Duration = Duration::from_millis(200);

/// Modification time and size; `None` if the file does not exist.
type Stamp = Option<(SystemTime, u64)>;

/// Calls `run`, and again after each change, until the process is interrupted.
pub fn watch(args: &Sim, mut run: impl FnMut()) -> ! {
    let mut files = BTreeSet::new();
    loop {
        // Files of earlier iterations are kept, since the includes of a source that does not compile are unknown.
        files.extend(depends_on(args));
        // Taken before the run, so that changes during the run are noticed.
        let before = stamps(&files);
        run();
        say!("weir: waiting for one of {} files to change; stop with Ctrl-C", files.len());
        await_change(&files, before);
    }
}

/// Returns when the files differ from `before` and have not changed for one polling interval.
fn await_change(files: &BTreeSet<PathBuf>, before: Vec<Stamp>) {
    let mut last = before.clone();
    loop {
        std::thread::sleep(LOOK);
        let now = stamps(files);
        if now != before && now == last {
            return;
        }
        last = now;
    }
}

fn stamps(files: &BTreeSet<PathBuf>) -> Vec<Stamp> {
    let stamp = |file: &PathBuf| fs::metadata(file).ok().and_then(|data| Some((data.modified().ok()?, data.len())));
    files.iter().map(stamp).collect()
}

/// All files that the run depends on, including profiles that do not exist yet.
fn depends_on(args: &Sim) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in args.schedulers.iter().filter_map(|name| select::path_of(name)) {
        files.push(path.to_owned());
        files.push(select::profile_beside(path));
        if compile::is_source(&path.to_string_lossy()) {
            files.extend(compile::sources(path));
        }
    }
    files.extend(args.profile.clone());
    // A workload name may be followed by keys.
    let named = args.machines.iter().chain(&args.workloads).chain(&args.faults);
    let heads = named.map(|name| name.split(',').next().unwrap_or(name));
    files.extend(heads.map(Path::new).filter(|path| path.is_file()).map(Path::to_owned));
    files
}
