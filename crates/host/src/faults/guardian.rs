// SPDX-License-Identifier: GPL-2.0-only
//! A process of its own that brings CPUs back when the one that took them away cannot: after SIGKILL, or out of memory.
//!
//! It holds the reading end of a pipe whose writing end is the other's alone. However that one ends, the kernel closes the
//! pipe, and the guardian looks after the CPUs. It is in a process group of its own and has the caller's signals blocked,
//! so that Ctrl-C does not reach it.

use super::Faults;
use super::sysfs::Sysfs;
use crate::{HostError, proc};
use ids::CpuSet;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A guardian that watches. Dropping it, after [`Faults::end`], lets it go and waits for its end.
#[derive(Debug)]
pub struct Guardian(Child);

impl Guardian {
    /// Starts `command`, which must call [`guard`] with the two words that are added to it: the CPUs of the plan that are
    /// online now, and those that are not.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(mut command: Command, faults: &Faults) -> Result<Guardian, HostError> {
        let offline: CpuSet = faults.cpus.iter().filter(|cpu| !faults.online.contains(*cpu)).collect();
        let name = command.get_program().to_string_lossy().into_owned();
        command.arg(faults.cpus.intersection(&faults.online).to_string()).arg(offline.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        let child = command.spawn().map_err(|source| HostError::Spawn { command: name, source })?;
        Ok(Guardian(child))
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // A guardian that was killed has nothing to do any more.
        let _ = self.0.wait();
    }
}

/// Waits until standard input ends and puts the CPUs back as they were. Which ones had to be.
///
/// # Errors
/// If this process is not root, or names the CPU that could not be put back.
pub fn guard(online: &CpuSet, offline: &CpuSet) -> Result<CpuSet, HostError> {
    proc::check_root()?;
    guard_in(Path::new("/sys"), io::stdin(), online, offline)
}

fn guard_in(root: &Path, mut input: impl Read, online: &CpuSet, offline: &CpuSet) -> Result<CpuSet, HostError> {
    // Nothing is written to it. An error is as good as its end.
    let _ = io::copy(&mut input, &mut io::sink());
    let all = online.iter().chain(offline.iter()).collect();
    Sysfs::new(root).bring_back(&all, online)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::tests::{machine, online, plan};
    use std::fs;

    #[test]
    fn when_the_pipe_closes_cpus_are_put_back() {
        let root = machine();
        let (up, down) = ("1-2".parse().unwrap(), "3".parse().unwrap());
        assert!(guard_in(root.path(), io::empty(), &up, &down).unwrap().is_empty(), "all was as it should be");
        for (cpu, state) in [(1, "0"), (3, "1")] {
            fs::write(root.path().join(format!("devices/system/cpu/cpu{cpu}/online")), state).unwrap();
        }
        assert_eq!(guard_in(root.path(), io::empty(), &up, &down).unwrap().to_string(), "1,3");
        assert_eq!(online(&root), "110");
    }

    /// The words that it gets, and that it goes when it is let go and not before.
    #[test]
    fn it_is_told_the_cpus_and_ends_with_its_pipe() {
        let root = machine();
        let told = root.path().join("told");
        let faults = Faults::prepare_in(root.path(), &plan("cpu1:offline@1h,cpu3:online@1h")).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "cat; echo $1 $2 >\"$0\""]).arg(&told);
        let guardian = Guardian::start(command, &faults).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert!(!told.exists());
        drop(guardian);
        assert_eq!(fs::read_to_string(told).unwrap(), "1 3\n");
    }
}
