// SPDX-License-Identifier: GPL-2.0-only
//! Settings of the experiment, and their runs.

use anyhow::{Result, ensure};
use report::Record;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One policy on one machine with one workload.
pub struct Setting {
    pub policy: &'static str,
    pub machine: &'static str,
    pub workload: &'static str,
    /// Whether the workload ends by itself; otherwise a run is ended after [`FOR`].
    pub is_finite: bool,
}

/// Duration of runs of endless work.
const FOR: &str = "1s";

const fn finite(policy: &'static str, machine: &'static str, workload: &'static str) -> Setting {
    Setting { policy, machine, workload, is_finite: true }
}

const fn endless(policy: &'static str, machine: &'static str, workload: &'static str) -> Setting {
    Setting { policy, machine, workload, is_finite: false }
}

/// Settings, chosen before the first run: several kinds of work, machine sizes, and both policies.
pub const SETTINGS: [Setting; 7] = [
    finite("fifo", "laptop-2c4t", "bursts"),
    finite("bfs", "desktop-4c", "mix"),
    finite("fifo", "server-64", "crowd"),
    finite("bfs", "laptop-2c4t", "build"),
    endless("fifo", "laptop-2c4t", "preempt-mix"),
    endless("bfs", "desktop-4c", "periodic-4"),
    endless("bfs", "laptop-2c4t", "lock"),
];

/// Workloads that end, unlike those shipped with weir.
const WORKLOADS: [(&str, &str); 3] = [
    ("bursts", r#"{"tasks": {"burst": {"instance": 12, "loop": 150, "run": 400, "sleep": 700}}}"#),
    (
        "mix",
        r#"{"tasks": {"long": {"instance": 6, "loop": 6, "run": 30000, "sleep": 2000},
            "short": {"instance": 8, "loop": 120, "run": 250, "sleep": 1500},
            "low": {"instance": 2, "priority": 10, "loop": 20, "run": 5000, "sleep": 500}}}"#,
    ),
    ("crowd", r#"{"tasks": {"one": {"instance": 160, "loop": 12, "run": 2000, "sleep": 900}}}"#),
];

/// Program and directory of the experiment.
pub struct Place {
    weir: PathBuf,
    pub folder: PathBuf,
}

impl Place {
    /// Uses this `weir`, or builds one.
    pub fn new(weir: Option<&Path>) -> Result<Place> {
        let root = crate::root();
        let weir = match weir {
            Some(weir) => std::path::absolute(weir)?,
            None => {
                let build = ["build", "--release", "--locked", "-q", "-p", "weir"];
                let built = Command::new("cargo").args(build).current_dir(root).status()?;
                ensure!(built.success(), "weir cannot be built");
                root.join("target/release/weir")
            }
        };
        let folder = root.join("target/statistics");
        std::fs::create_dir_all(&folder)?;
        for (name, text) in WORKLOADS {
            std::fs::write(folder.join(format!("{name}.json")), text)?;
        }
        Ok(Place { weir, folder })
    }

    /// Returns the runs of seeds 1 to `seeds`, in order.
    pub fn simulate(&self, scheduler: &str, setting: &Setting, seeds: u64) -> Result<Vec<Record>> {
        let own = WORKLOADS.iter().any(|(name, _)| *name == setting.workload);
        let workload = self.folder.join(format!("{}.json", setting.workload));
        let workload = if own { workload.display().to_string() } else { setting.workload.to_owned() };
        let length: &[&str] = if setting.is_finite { &[] } else { &["--for", FOR] };
        let output = Command::new(&self.weir)
            .args(["sim", scheduler, "-m", setting.machine, "-w", &workload, "--format", "json"])
            .args(["--seeds", &seeds.to_string()])
            .args(length)
            .stderr(Stdio::inherit())
            .output()?;
        ensure!(output.status.success(), "weir sim {scheduler} failed");
        Ok(report::read_json(&output.stdout)?)
    }
}
