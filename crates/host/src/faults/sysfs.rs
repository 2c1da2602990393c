// SPDX-License-Identifier: GPL-2.0-only
//! Kernel files for CPU hotplug and suspend: `Documentation/core-api/cpu_hotplug.rst`,
//! `Documentation/ABI/testing/sysfs-power` and `sysfs-class-rtc` of Linux.

use crate::HostError;
use fault_plan::{Action, Fault, FaultPlan};
use ids::{CpuId, CpuSet, Nanos};
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Alarm of the real-time clock that wakes the machine.
const WAKE_ALARM: &str = "class/rtc/rtc0/wakealarm";
const POWER_STATE: &str = "power/state";

/// Files below `/sys`.
#[derive(Clone, Debug)]
pub(super) struct Sysfs {
    root: PathBuf,
}

fn refused(fault: &Fault, problem: impl Into<String>) -> HostError {
    HostError::Fault { fault: fault.to_string(), problem: problem.into() }
}

impl Sysfs {
    /// Uses the file system mounted at `root`.
    pub fn new(root: &Path) -> Sysfs {
        Sysfs { root: root.to_owned() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn read(&self, name: &str) -> Result<String, HostError> {
        let path = self.path(name);
        fs::read_to_string(&path).map(|text| text.trim().to_owned()).map_err(HostError::file(path.to_string_lossy()))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), HostError> {
        let path = self.path(name);
        fs::write(&path, text).map_err(HostError::file(path.to_string_lossy()))
    }

    fn cpus(&self, name: &str) -> Result<CpuSet, HostError> {
        let text = self.read(name)?;
        let malformed = || HostError::Malformed(format!("{} holds `{text}`, not CPUs", self.path(name).display()));
        if text.is_empty() { Ok(CpuSet::new()) } else { text.parse().map_err(|_| malformed()) }
    }

    /// Whether a CPU is online; it must have an `online` file.
    pub fn is_online(&self, cpu: CpuId) -> Result<bool, HostError> {
        Ok(self.read(&format!("devices/system/cpu/cpu{cpu}/online"))? == "1")
    }

    /// Takes a CPU offline or online, and returns when that is done.
    pub fn set_online(&self, cpu: CpuId, online: bool) -> Result<(), HostError> {
        self.write(&format!("devices/system/cpu/cpu{cpu}/online"), if online { "1" } else { "0" })
    }

    /// Restores CPUs: of `cpus` exactly those in `wanted` shall be online. Returns those that had to be changed.
    pub fn bring_back(&self, cpus: &CpuSet, wanted: &CpuSet) -> Result<CpuSet, HostError> {
        let (mut back, mut failed) = (CpuSet::new(), None);
        for cpu in cpus.iter() {
            let wanted = wanted.contains(cpu);
            match self.is_online(cpu).map(|online| online == wanted) {
                Ok(true) => {}
                Ok(false) => match self.set_online(cpu, wanted) {
                    Ok(()) => drop(back.insert(cpu)),
                    Err(error) => failed = Some(error),
                },
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(back), Err)
    }

    /// Suspends the machine. The alarm is set before the suspend, so the machine sleeps shorter by the time that
    /// suspending takes.
    pub fn suspend(&self, length: Nanos) -> Result<(), HostError> {
        let states = self.read(POWER_STATE)?;
        let state =
            sleep_state(&states).ok_or_else(|| HostError::Malformed(format!("power/state holds `{states}`")))?;
        // Any wakeup event from here on aborts the suspend. Otherwise an alarm that fires too early would leave the
        // machine asleep forever.
        let wakeups = self.read("power/wakeup_count")?;
        self.write(WAKE_ALARM, "0")?;
        self.write(WAKE_ALARM, &format!("+{}", length.0 / 1_000_000_000))?;
        self.write("power/wakeup_count", &wakeups)?;
        self.write(POWER_STATE, state)
    }

    /// Checks that the machine supports the plan. Returns the CPUs that are online.
    pub fn check(&self, plan: &FaultPlan) -> Result<CpuSet, HostError> {
        let (online, present) = (self.cpus("devices/system/cpu/online")?, self.cpus("devices/system/cpu/present")?);
        let offline = present.iter().filter(|cpu| !online.contains(*cpu)).collect();
        plan.check("this machine", &present, &offline)?;
        let mut left = online.clone();
        for fault in plan.faults() {
            match fault.action {
                Action::Offline(cpu) => {
                    self.check_switch(fault, cpu)?;
                    left.remove(cpu);
                    if left.is_empty() {
                        return Err(refused(fault, format!("CPU {cpu} is the only CPU that is still online")));
                    }
                }
                Action::Online(cpu) => {
                    self.check_switch(fault, cpu)?;
                    left.insert(cpu);
                }
                Action::Suspend(length) => self.check_sleep(fault, length)?,
                Action::Clock(..) => return Err(refused(fault, "clocks of a real machine stay right".to_owned())),
            }
        }
        Ok(online)
    }

    fn check_switch(&self, fault: &Fault, cpu: CpuId) -> Result<(), HostError> {
        let name = format!("devices/system/cpu/cpu{cpu}/online");
        self.check_writable(&name).map_err(|error| {
            let path = self.path(&name).display().to_string();
            match error.kind() {
                io::ErrorKind::NotFound => {
                    let why = "this kernel cannot take it away, or was built without CONFIG_HOTPLUG_CPU";
                    refused(fault, format!("CPU {cpu} has no {path}: {why}"))
                }
                _ => refused(fault, format!("{path}: {error}")),
            }
        })
    }

    /// Opens the file for writing without changing it.
    fn check_writable(&self, name: &str) -> io::Result<()> {
        OpenOptions::new().write(true).open(self.path(name)).map(drop)
    }

    fn check_sleep(&self, fault: &Fault, length: Nanos) -> Result<(), HostError> {
        let states = self.read(POWER_STATE).unwrap_or_default();
        if sleep_state(&states).is_none() {
            let found = if states.is_empty() { "nothing".to_owned() } else { format!("`{states}`") };
            let path = self.path(POWER_STATE).display().to_string();
            return Err(refused(fault, format!("this machine cannot sleep: {path} offers {found}, not mem or freeze")));
        }
        for name in [POWER_STATE, "power/wakeup_count", WAKE_ALARM] {
            if let Err(error) = self.check_writable(name) {
                let path = self.path(name).display().to_string();
                return Err(refused(fault, format!("nothing would wake this machine: {path}: {error}")));
            }
        }
        if !length.0.is_multiple_of(1_000_000_000) || length.0 == 0 {
            let problem = "a real machine is woken by its real-time clock: expected a length in whole seconds";
            return Err(refused(fault, problem));
        }
        Ok(())
    }
}

/// Deepest suspend state that keeps memory, among those that the kernel offers.
fn sleep_state(states: &str) -> Option<&'static str> {
    ["mem", "freeze"].into_iter().find(|wanted| states.split_whitespace().any(|state| state == *wanted))
}
