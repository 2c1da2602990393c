// SPDX-License-Identifier: GPL-2.0-only
//! A separate process that brings CPUs back online if the process that took them offline cannot: after SIGKILL, or
//! when out of memory. It also gives tasks the affinities back that the kernel widened because those CPUs were offline.
//!
//! It holds the read end of a pipe whose only write end is in the other process. However that process ends, the
//! kernel closes the pipe, and the guardian restores the CPUs. It is in its own process group and inherits blocked
//! signals, so Ctrl-C does not reach it.

use super::Faults;
use super::sysfs::Sysfs;
use crate::affinity::Keeper;
use crate::{HostError, proc};
use ids::CpuSet;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Interval at which the guardian notes the affinities of all tasks.
const EVERY: Duration = Duration::from_secs(1);

/// A running guardian. Dropping it, after [`Faults::end`], closes its pipe and waits for its exit.
#[derive(Debug)]
pub struct Guardian(Child);

impl Guardian {
    /// Starts `command`, which must call [`guard`] with the two arguments appended to it: the CPUs of the plan that
    /// are online now, and those that are offline. Returns when it has noted the affinities of all tasks.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(mut command: Command, faults: &Faults) -> Result<Guardian, HostError> {
        let offline: CpuSet = faults.cpus.iter().filter(|cpu| !faults.online.contains(*cpu)).collect();
        let name = command.get_program().to_string_lossy().into_owned();
        command.arg(faults.cpus.intersection(&faults.online).to_string()).arg(offline.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|source| HostError::Spawn { command: name, source })?;
        // One byte, or the end of a guardian that failed: the plan goes on without it.
        let _ = child.stdout.take().map(|mut out| out.read(&mut [0]));
        Ok(Guardian(child))
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // A guardian that was killed needs no cleanup.
        let _ = self.0.wait();
    }
}

/// What a guardian had to restore.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Restored {
    /// CPUs.
    pub cpus: CpuSet,
    /// Number of tasks whose affinity the kernel had widened.
    pub tasks: usize,
}

/// Waits until standard input is closed and restores the CPUs, and then affinities. Writes a line to standard output when
/// it has noted the affinities.
///
/// # Errors
/// If this process is not root, or a CPU could not be restored.
pub fn guard(online: &CpuSet, offline: &CpuSet) -> Result<Restored, HostError> {
    proc::check_root()?;
    // Affinities that cannot be noted must not keep CPUs offline: the error is returned after the CPUs are restored.
    let mut keeper = Keeper::start();
    // The other process waits for this line, or for the end of this process.
    let _ = io::stdout().lock().write_all(b"\n").and_then(|()| io::stdout().flush());
    let (closed, is_closed) = mpsc::channel();
    std::thread::spawn(move || {
        wait_for_end(io::stdin());
        closed.send(())
    });
    while let Err(RecvTimeoutError::Timeout) = is_closed.recv_timeout(EVERY) {
        // What cannot be read now is read in the next round.
        let _ = keeper.as_mut().map(Keeper::remember);
    }
    let cpus = restore_in(Path::new("/sys"), online, offline)?;
    let tasks = if cpus.is_empty() { 0 } else { keeper?.restore(&cpus)? };
    Ok(Restored { cpus, tasks })
}

fn wait_for_end(mut input: impl Read) {
    // Nothing is written to the pipe; an error is treated like its end.
    let _ = io::copy(&mut input, &mut io::sink());
}

fn restore_in(root: &Path, online: &CpuSet, offline: &CpuSet) -> Result<CpuSet, HostError> {
    let all = online.iter().chain(offline.iter()).collect();
    Sysfs::new(root).bring_back(&all, online)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::tests::{machine, online, plan};
    use std::fs;

    #[test]
    fn guardian_restores_cpus() {
        let root = machine();
        let (up, down) = ("1-2".parse().unwrap(), "3".parse().unwrap());
        assert!(restore_in(root.path(), &up, &down).unwrap().is_empty(), "no CPU had to be restored");
        for (cpu, state) in [(1, "0"), (3, "1")] {
            fs::write(root.path().join(format!("devices/system/cpu/cpu{cpu}/online")), state).unwrap();
        }
        assert_eq!(restore_in(root.path(), &up, &down).unwrap().to_string(), "1,3");
        assert_eq!(online(&root), "110");
    }

    /// Checks its arguments, and that it exits when its pipe is closed and not before.
    #[test]
    fn guardian_process_gets_the_cpus_to_restore_and_waits_for_its_pipe_to_close() {
        let root = machine();
        let told = root.path().join("told");
        let faults = Faults::prepare_in(root.path(), &plan("cpu1:offline@1h,cpu3:online@1h")).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo; cat; echo $1 $2 >\"$0\""]).arg(&told);
        let guardian = Guardian::start(command, &faults).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert!(!told.exists());
        drop(guardian);
        assert_eq!(fs::read_to_string(told).unwrap(), "1 3\n");
    }
}
