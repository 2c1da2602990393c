// SPDX-License-Identifier: GPL-2.0-only
//! The groups of a workload as cgroups (cgroup v2), created before the execution and removed after it.
//!
//! 1. All groups are below `weir.PID` at the root of the hierarchy: only there can the cpu controller be enabled
//!    regardless of other tasks. This process moves there during the execution, and with it all tasks without a
//!    group.
//! 2. The cgroups below are *threaded*, since threads of one process can be in different cgroups only there.
//! 3. If a process is killed, its empty cgroups stay behind; a later run removes them.

use super::ExecuteError;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use workload::{TaskGroup, Workload};

/// Prefix of the common cgroup; the PID follows.
const AROUND: &str = "weir.";
/// The kernel's default bandwidth period, in microseconds.
const PERIOD_US: u64 = 100_000;
/// How long to wait for exited threads to leave their cgroup.
const PATIENCE: Duration = Duration::from_secs(2);

/// Cgroups of an execution. Dropping this removes them and moves this process back.
#[derive(Debug)]
pub struct Cgroups {
    around: PathBuf,
    /// Original cgroup of this process.
    home: PathBuf,
    /// `cgroup.subtree_control` of the root, if the cpu controller was enabled there for this execution.
    enabled: Option<PathBuf>,
}

/// Failed operation on a cgroup file, and the kernel's error.
#[derive(Debug, thiserror::Error)]
#[error("groups: cannot {action} {}: {source}{}", .path.display(), hint(.source))]
pub struct CgroupError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "; needs root, and cgroup v2 mounted for writing"
        }
        _ => "",
    }
}

impl Cgroups {
    /// Creates the groups of a workload with weights and caps; `None` if it has none.
    ///
    /// # Errors
    /// The missing requirement; everything created so far is removed.
    pub fn make(workload: &Workload) -> Result<Option<Cgroups>, ExecuteError> {
        let groups = workload.all_groups();
        if groups.is_empty() {
            return Ok(None);
        }
        let top = hierarchy().ok_or_else(|| ExecuteError::NoCgroups {
            workload: workload.name.clone(),
            missing: "cgroup v2 is not mounted",
        })?;
        let controllers = fs::read_to_string(top.join("cgroup.controllers")).unwrap_or_default();
        if !controllers.split_whitespace().any(|name| name == "cpu") {
            let missing = "cgroup v2 has no cpu controller (cgroup v1 may have taken it)";
            return Err(ExecuteError::NoCgroups { workload: workload.name.clone(), missing });
        }
        let around = top.join(format!("{AROUND}{}", std::process::id()));
        let home = own_cgroup(&top);
        let mut cgroups = Cgroups { around, home, enabled: None };
        cgroups.fill(&top, &groups)?;
        Ok(Some(cgroups))
    }

    fn fill(&mut self, top: &Path, groups: &[TaskGroup]) -> Result<(), CgroupError> {
        let subtree = top.join("cgroup.subtree_control");
        let given = fs::read_to_string(&subtree).unwrap_or_default();
        if !given.split_whitespace().any(|name| name == "cpu") {
            write(&subtree, "+cpu")?;
            self.enabled = Some(subtree);
        }
        make(&self.around)?;
        write(&self.around.join("cgroup.subtree_control"), "+cpu")?;
        for group in groups {
            let own = self.directory(&group.path);
            make(&own)?;
            write(&own.join("cgroup.type"), "threaded")?;
            write(&own.join("cpu.weight"), &group.weight.to_string())?;
            if let Some(percent) = group.cap_percent.filter(|_| group.hard) {
                let quota_us = u64::from(percent) * PERIOD_US / 100;
                write(&own.join("cpu.max"), &format!("{quota_us} {PERIOD_US}"))?;
            }
            if groups.iter().any(|other| other.parent() == Some(&group.path)) {
                write(&own.join("cgroup.subtree_control"), "+cpu")?;
            }
        }
        write(&self.around.join("cgroup.procs"), "0")
    }

    fn directory(&self, path: &str) -> PathBuf {
        self.around.join(path.trim_start_matches('/'))
    }

    /// Moves the calling thread to the group of this path.
    ///
    /// # Errors
    /// The error of the kernel or of the scheduler.
    pub fn join(&self, path: &str) -> Result<(), CgroupError> {
        write(&self.directory(path).join("cgroup.threads"), "0")
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        let went = write(&self.home.join("cgroup.procs"), "0");
        let until = Instant::now() + PATIENCE;
        let mut removed = remove(&self.around);
        while removed.is_err() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
            removed = remove(&self.around);
        }
        if let Some(subtree) = &self.enabled {
            // Fails if other cgroups use the controller by now; then it stays enabled.
            let _ = fs::write(subtree, "-cpu");
        }
        if let Err(error) = went.and(removed) {
            eprintln!("weir: {error}");
        }
    }
}

/// Removes empty cgroups of weir processes that no longer exist, and returns their names.
pub fn remove_stale_cgroups() -> Vec<String> {
    let Some(entries) = hierarchy().and_then(|top| fs::read_dir(top).ok()) else { return Vec::new() };
    let mut removed = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(AROUND).and_then(|number| number.parse::<u32>().ok());
        let is_gone = process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists());
        // The process may exist in another PID namespace.
        let events = fs::read_to_string(entry.path().join("cgroup.events")).unwrap_or_default();
        if is_gone && events.lines().any(|line| line == "populated 0") && remove(&entry.path()).is_ok() {
            removed.push(name);
        }
    }
    removed.sort();
    removed
}

/// Mount point of cgroup v2.
fn hierarchy() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    // `36 35 0:30 / /sys/fs/cgroup rw,… shared:9 - cgroup2 cgroup2 rw,…`
    let mount = mounts
        .lines()
        .find(|line| line.split_once(" - ").is_some_and(|(_, rest)| rest.split(' ').next() == Some("cgroup2")))?;
    mount.split(' ').nth(4).map(PathBuf::from)
}

/// Directory of this process's cgroup.
fn own_cgroup(top: &Path) -> PathBuf {
    let all = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = all.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    top.join(path)
}

fn make(path: &Path) -> Result<(), CgroupError> {
    fs::create_dir(path).map_err(|source| CgroupError { action: "make", path: path.to_owned(), source })
}

fn write(path: &Path, text: &str) -> Result<(), CgroupError> {
    fs::write(path, text).map_err(|source| CgroupError { action: "write to", path: path.to_owned(), source })
}

/// Removes a cgroup and its descendants, children first. A missing directory is not an error.
fn remove(path: &Path) -> Result<(), CgroupError> {
    let failed = |source| CgroupError { action: "remove", path: path.to_owned(), source };
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        // The files of a cgroup are not directories and cannot be removed.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path())?;
        }
    }
    match fs::remove_dir(path) {
        Err(source) if source.kind() != ErrorKind::NotFound => Err(failed(source)),
        _ => Ok(()),
    }
}
