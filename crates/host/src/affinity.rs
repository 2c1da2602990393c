// SPDX-License-Identifier: GPL-2.0-only
//! Preserves task affinities across CPU hotplug.
//!
//! When the last CPU of a task's affinity goes offline, the kernel permanently widens the affinity to all CPUs. The
//! -gc branch of BFS (May 2015) remembered the requested affinity and restored it at every hotplug event. A sched_ext
//! scheduler cannot do that, but the program that loads it can:
//!
//! 1. While nothing changes, [`Keeper::look`] notes the tasks that may not run everywhere.
//! 2. When a CPU comes online, noted tasks whose affinity has been widened get their old one back, restricted to the
//!    CPUs that are online.
//! 3. A task that changes its affinity itself keeps it: only affinities that the kernel widened to all CPUs are
//!    restored.
//! 4. A CPU is online before it accepts tasks, and is still online when it no longer does. `sched_getaffinity(2)`
//!    omits CPUs that do not accept tasks; the affinity that the kernel keeps is in `/proc`. `sched_setaffinity(2)`
//!    rejects CPUs that do not accept tasks, so rejected changes are retried.
//!
//! A CPU that goes offline and online between two calls is not noticed.

use crate::HostError;
use crate::sys;
use ids::{CpuId, CpuSet};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

/// Interval at which all tasks are examined while no hotplug happens.
const EVERY: Duration = Duration::from_secs(1);

/// Longest time for which [`Keeper::restore`] tries, and its interval.
const PATIENCE: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(50);

/// Access to task affinities, replaceable in tests.
pub trait Tasks {
    /// All threads: TID, and start time to tell it from a later thread with the same TID.
    fn all(&self) -> Vec<(u32, u64)>;
    /// Affinity of a thread, offline CPUs included; `None` if the thread has exited.
    fn allowed(&self, thread: u32) -> Option<CpuSet>;
    /// Sets the affinity of a thread.
    ///
    /// # Errors
    /// The kernel's error, also if the thread has exited.
    fn allow(&mut self, thread: u32, cpus: &CpuSet) -> io::Result<()>;
}

/// The tasks of this machine.
#[derive(Debug, Default)]
pub struct OfKernel;

impl Tasks for OfKernel {
    fn all(&self) -> Vec<(u32, u64)> {
        let numbers = |path: PathBuf| {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).collect::<Vec<_>>()
        };
        let processes = numbers(PathBuf::from("/proc"));
        let threads = processes.into_iter().flat_map(|process| {
            let directory = format!("/proc/{process}/task");
            numbers(PathBuf::from(&directory)).into_iter().map(move |thread| (directory.clone(), thread))
        });
        threads
            .filter_map(|(directory, thread)| Some((thread, start_time(&format!("{directory}/{thread}/stat"))?)))
            .collect()
    }

    fn allowed(&self, thread: u32) -> Option<CpuSet> {
        allowed_by(&fs::read_to_string(format!("/proc/{thread}/status")).ok()?)
    }

    fn allow(&mut self, thread: u32, cpus: &CpuSet) -> io::Result<()> {
        sys::set_allowed_cpus(thread, cpus)
    }
}

/// Field 22 of `proc_pid_stat(5)`, after the name, which may contain blanks and parentheses.
fn start_time(path: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// The line `Cpus_allowed_list` of `/proc/PID/status`.
fn allowed_by(status: &str) -> Option<CpuSet> {
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim().parse().ok()
}

/// Remembers affinities and restores them.
#[derive(Debug)]
pub struct Keeper<T = OfKernel> {
    tasks: T,
    online_file: PathBuf,
    online: CpuSet,
    /// Last known affinity of each thread that may not run everywhere.
    wanted: BTreeMap<(u32, u64), CpuSet>,
    looked: Instant,
    /// CPUs that came online and that the kernel rejected for some thread.
    refused: Option<CpuSet>,
}

impl Keeper {
    /// Starts with the current affinities of all tasks of this machine.
    ///
    /// # Errors
    /// If the kernel does not report the online CPUs.
    pub fn start() -> Result<Keeper, HostError> {
        Keeper::start_with(OfKernel, Path::new("/sys/devices/system/cpu/online"))
    }
}

impl<T: Tasks> Keeper<T> {
    fn start_with(tasks: T, online_file: &Path) -> Result<Keeper<T>, HostError> {
        let mut keeper = Keeper {
            tasks,
            online_file: online_file.to_owned(),
            online: CpuSet::new(),
            wanted: BTreeMap::new(),
            looked: Instant::now(),
            refused: None,
        };
        keeper.online = keeper.read_online()?;
        keeper.note();
        Ok(keeper)
    }

    fn read_online(&self) -> Result<CpuSet, HostError> {
        let name = self.online_file.to_string_lossy();
        let text = fs::read_to_string(&self.online_file).map_err(HostError::file(name.clone()))?;
        text.trim().parse().map_err(|_| HostError::Malformed(format!("{name} holds `{}`, not CPUs", text.trim())))
    }

    /// Restores affinities if CPUs have come online; returns these CPUs and the number of tasks. Must be called
    /// often.
    ///
    /// # Errors
    /// If the kernel does not report the online CPUs.
    pub fn look(&mut self) -> Result<Option<(CpuSet, usize)>, HostError> {
        let online = self.read_online()?;
        if online == self.online {
            return Ok(if self.looked.elapsed() >= EVERY { self.look_again() } else { None });
        }
        let came: CpuSet = online.iter().filter(|cpu| !self.online.contains(*cpu)).collect();
        self.online = online;
        if came.is_empty() {
            return Ok(None);
        }
        let renewed = self.renew(&came);
        Ok(Some((came, renewed)))
    }

    /// Notes affinities without restoring any, for a caller that restores them only in the end.
    ///
    /// # Errors
    /// If the kernel does not report the online CPUs.
    pub fn remember(&mut self) -> Result<(), HostError> {
        self.online = self.read_online()?;
        self.note();
        Ok(())
    }

    /// Restores affinities after the CPUs `came` have come online, and tries again for a while where the kernel rejects
    /// them. Returns the number of tasks.
    ///
    /// # Errors
    /// If the kernel does not report the online CPUs.
    pub fn restore(&mut self, came: &CpuSet) -> Result<usize, HostError> {
        self.online = self.read_online()?;
        let (began, mut renewed) = (Instant::now(), self.renew(came));
        while self.refused.take().is_some() && began.elapsed() < PATIENCE {
            std::thread::sleep(RETRY);
            renewed += self.renew(came);
        }
        Ok(renewed)
    }

    /// Periodic part (see [`EVERY`]) without hotplug: step 1, and step 4 if a change was rejected.
    fn look_again(&mut self) -> Option<(CpuSet, usize)> {
        let came = self.refused.take();
        let renewed = came.as_ref().map_or(0, |came| self.renew(came));
        self.note();
        came.filter(|_| renewed > 0).map(|came| (came, renewed))
    }

    /// Step 1: notes new tasks and changed affinities. A task that may run on all online CPUs is noted only if it was
    /// restricted before, since the kernel may have widened its affinity.
    fn note(&mut self) {
        self.looked = Instant::now();
        let before = std::mem::take(&mut self.wanted);
        for key in self.tasks.all() {
            let Some(allowed) = self.tasks.allowed(key.0) else { continue };
            match before.get(&key) {
                Some(wanted) if self.is_free(&allowed) => drop(self.wanted.insert(key, wanted.clone())),
                _ if !self.is_free(&allowed) => drop(self.wanted.insert(key, allowed)),
                _ => {}
            }
        }
    }

    /// Whether the affinity contains every online CPU.
    fn is_free(&self, allowed: &CpuSet) -> bool {
        self.online.iter().all(|cpu| allowed.contains(cpu))
    }

    /// Steps 2 and 3 after the CPUs `came` have come online.
    fn renew(&mut self, came: &CpuSet) -> usize {
        let mut renewed = 0;
        let there: Vec<(u32, u64)> = self.tasks.all();
        for key in there {
            let Some(wanted) = self.wanted.get(&key) else { continue };
            let has_one = wanted.iter().any(|cpu: CpuId| self.online.contains(cpu));
            let Some(allowed) = self.tasks.allowed(key.0) else { continue };
            if has_one && allowed != *wanted && self.is_free(&allowed) {
                match self.tasks.allow(key.0, wanted) {
                    Ok(()) => renewed += 1,
                    Err(_) => self.refused = Some(came.clone()),
                }
            }
        }
        renewed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads by TID with their affinities.
    #[derive(Default)]
    struct Known(BTreeMap<u32, (u64, CpuSet)>, /* takes no task yet */ Option<CpuId>);

    impl Tasks for Known {
        fn all(&self) -> Vec<(u32, u64)> {
            self.0.iter().map(|(thread, (start, _))| (*thread, *start)).collect()
        }

        fn allowed(&self, thread: u32) -> Option<CpuSet> {
            self.0.get(&thread).map(|(_, cpus)| cpus.clone())
        }

        fn allow(&mut self, thread: u32, cpus: &CpuSet) -> io::Result<()> {
            if cpus.iter().all(|cpu| Some(cpu) == self.1) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            self.0.get_mut(&thread).ok_or(io::ErrorKind::NotFound)?.1 = cpus.clone();
            Ok(())
        }
    }

    fn cpus(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    struct Machine {
        keeper: Keeper<Known>,
        directory: tempfile::TempDir,
    }

    impl Machine {
        /// Four CPUs, and threads with these affinities.
        fn new(threads: &[(u32, &str)]) -> Machine {
            let directory = tempfile::tempdir().unwrap();
            fs::write(directory.path().join("online"), "0-3\n").unwrap();
            let tasks = Known(threads.iter().map(|(thread, allowed)| (*thread, (7, cpus(allowed)))).collect(), None);
            let keeper = Keeper::start_with(tasks, &directory.path().join("online")).unwrap();
            Machine { keeper, directory }
        }

        fn set(&mut self, thread: u32, start: u64, allowed: &str) {
            self.keeper.tasks.0.insert(thread, (start, cpus(allowed)));
        }

        /// Sets the online CPUs and returns what was restored.
        fn online(&mut self, online: &str) -> Option<(CpuSet, usize)> {
            fs::write(self.directory.path().join("online"), online).unwrap();
            self.keeper.look().unwrap()
        }

        fn allowed(&self, thread: u32) -> String {
            self.keeper.tasks.allowed(thread).unwrap().to_string()
        }
    }

    /// The example of the BFS post: a task pinned to CPU 1, which goes offline and comes back.
    #[test]
    fn widened_affinity_is_restored_when_the_cpu_is_back() {
        let mut machine = Machine::new(&[(10, "1"), (11, "0-3"), (12, "1-2")]);
        machine.set(10, 7, "0-3");
        assert_eq!(machine.online("0,2-3"), None, "offlining a CPU restores nothing");
        machine.keeper.note();
        assert_eq!(machine.online("0-3"), Some((cpus("1"), 1)));
        assert_eq!([10, 11, 12].map(|thread| machine.allowed(thread)), ["1", "0-3", "1-2"]);
    }

    #[test]
    fn affinity_changed_by_the_task_itself_is_kept() {
        let mut machine = Machine::new(&[(10, "1"), (11, "1")]);
        machine.set(10, 7, "2");
        // A new thread reuses the TID of an exited one.
        machine.set(11, 8, "0-3");
        machine.online("0,2-3");
        machine.keeper.note();
        assert_eq!(machine.online("0-3"), Some((cpus("1"), 0)));
        assert_eq!([10, 11].map(|thread| machine.allowed(thread)), ["2", "0-3"]);
    }

    #[test]
    fn affinity_is_not_restored_before_one_of_its_cpus_is_back() {
        let mut machine = Machine::new(&[(10, "1-2")]);
        machine.set(10, 7, "0-3");
        machine.online("0");
        assert_eq!(machine.online("0,3"), Some((cpus("3"), 0)));
        assert_eq!(machine.online("0,2-3"), Some((cpus("2"), 1)));
        assert_eq!(machine.allowed(10), "1-2");
    }

    #[test]
    fn rejected_affinity_is_retried() {
        let mut machine = Machine::new(&[(10, "3"), (11, "2-3")]);
        machine.set(10, 7, "0-3");
        machine.set(11, 7, "0-3");
        machine.online("0-1");
        machine.keeper.tasks.1 = Some(CpuId(3));
        assert_eq!(machine.online("0-3"), Some((cpus("2-3"), 1)), "CPU 3 is online but does not accept tasks yet");
        machine.keeper.tasks.1 = None;
        assert_eq!(machine.online("0-3"), None, "not retried immediately");
        assert_eq!(machine.keeper.look_again(), Some((cpus("2-3"), 1)));
        assert_eq!([10, 11].map(|thread| machine.allowed(thread)), ["3", "2-3"]);
        assert_eq!(machine.keeper.look_again(), None);
    }

    #[test]
    fn remembered_affinities_are_restored_only_on_request() {
        let mut machine = Machine::new(&[(10, "1"), (11, "2")]);
        machine.set(10, 7, "0-3");
        fs::write(machine.directory.path().join("online"), "0,2-3").unwrap();
        machine.keeper.remember().unwrap();
        fs::write(machine.directory.path().join("online"), "0-3").unwrap();
        machine.keeper.remember().unwrap();
        assert_eq!([10, 11].map(|thread| machine.allowed(thread)), ["0-3", "2"]);
        assert_eq!(machine.keeper.restore(&cpus("1")).unwrap(), 1);
        assert_eq!([10, 11].map(|thread| machine.allowed(thread)), ["1", "2"]);
    }

    #[test]
    fn affinity_lists_are_parsed_completely() {
        assert_eq!(allowed_by("Name:\tit\nCpus_allowed:\tf\nCpus_allowed_list:\t0-2,7\n"), Some(cpus("0-2,7")));
        assert_eq!(allowed_by("Name:\tit\n"), None);
    }

    #[test]
    fn affinity_of_this_process_is_read() {
        let own = (std::process::id(), start_time("/proc/self/stat").unwrap());
        assert!(OfKernel.all().contains(&own));
        assert!(OfKernel.allowed(own.0).is_some_and(|cpus| !cpus.is_empty()));
    }
}
