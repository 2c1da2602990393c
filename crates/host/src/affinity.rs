// SPDX-License-Identifier: GPL-2.0-only
//! Keeps the affinity of tasks across CPUs that go and come.
//!
//! When the last CPU goes on which a task may run, the kernel lets it run anywhere from then on, for good. The -gc branch of
//! BFS (May 2015) kept what had been asked for and renewed it at every change of CPUs. A scheduler of sched_ext cannot,
//! but whoever runs it can:
//!
//! 1. While nothing changes, [`Keeper::look`] writes down which tasks may not run everywhere.
//! 2. When a CPU has come, those of them that may now run where they were not allowed before get back what they had: as far
//!    as these CPUs are there.
//! 3. A task that sets its affinity itself meanwhile is believed: only what the kernel widened to all CPUs is renewed.
//! 4. A CPU is online before it takes tasks, and still is when it takes none any more. `sched_getaffinity(2)` leaves out CPUs
//!    that take none, as if somebody had forbidden them; what the kernel keeps is in `/proc`. `sched_setaffinity(2)` refuses
//!    CPUs that take none, so what was refused is tried again.
//!
//! A CPU that goes and comes between two looks is not seen.

use crate::HostError;
use crate::sys;
use ids::{CpuId, CpuSet};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

/// How often tasks are looked at while no CPU comes or goes: all of them, so not too often.
const EVERY: Duration = Duration::from_secs(1);

/// Affinities as tasks are known by: reading and setting them. For tests, another than the kernel's.
pub trait Tasks {
    /// The threads that are there, each with what tells it from a later one of the same number.
    fn all(&self) -> Vec<(u32, u64)>;
    /// Where a thread may run, whether these CPUs are there or not; `None` if it has gone.
    fn allowed(&self, thread: u32) -> Option<CpuSet>;
    /// Lets it run on these CPUs only.
    ///
    /// # Errors
    /// What the kernel answered: it may have gone.
    fn allow(&mut self, thread: u32, cpus: &CpuSet) -> io::Result<()>;
}

/// Those of this machine.
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
            let folder = format!("/proc/{process}/task");
            numbers(PathBuf::from(&folder)).into_iter().map(move |thread| (folder.clone(), thread))
        });
        threads.filter_map(|(folder, thread)| Some((thread, start_time(&format!("{folder}/{thread}/stat"))?))).collect()
    }

    fn allowed(&self, thread: u32) -> Option<CpuSet> {
        allowed_by(&fs::read_to_string(format!("/proc/{thread}/status")).ok()?)
    }

    fn allow(&mut self, thread: u32, cpus: &CpuSet) -> io::Result<()> {
        sys::set_allowed_cpus(thread, cpus)
    }
}

/// Field 22 of `proc_pid_stat(5)`, behind the name, which may have blanks and brackets.
fn start_time(path: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// The line `Cpus_allowed_list` of `/proc/PID/status`.
fn allowed_by(status: &str) -> Option<CpuSet> {
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim().parse().ok()
}

/// Remembers affinities, and renews them.
#[derive(Debug)]
pub struct Keeper<T = OfKernel> {
    tasks: T,
    online_file: PathBuf,
    online: CpuSet,
    /// What each thread that may not run everywhere had when it was last looked at.
    wanted: BTreeMap<(u32, u64), CpuSet>,
    looked: Instant,
    /// CPUs that came, while the kernel has refused them to somebody.
    refused: Option<CpuSet>,
}

impl Keeper {
    /// Begins with the affinities of all tasks of this machine as they are.
    ///
    /// # Errors
    /// If the kernel does not tell which CPUs are online.
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

    /// Renews affinities if CPUs came: which, and of how many tasks. To be called often.
    ///
    /// # Errors
    /// If the kernel does not tell which CPUs are online.
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

    /// What is due each [`EVERY`] while no CPU comes or goes: 1, and 4 if something was refused.
    fn look_again(&mut self) -> Option<(CpuSet, usize)> {
        let came = self.refused.take();
        let renewed = came.as_ref().map_or(0, |came| self.renew(came));
        self.note();
        came.filter(|_| renewed > 0).map(|came| (came, renewed))
    }

    /// 1: tasks that are new, or were given another affinity by somebody. One that may run on all CPUs that are there is
    /// remembered only if it was bound before, as it may have been the kernel who set it free.
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

    /// Whether somebody may run on every CPU that is online.
    fn is_free(&self, allowed: &CpuSet) -> bool {
        self.online.iter().all(|cpu| allowed.contains(cpu))
    }

    /// 2 and 3, since `came` came.
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

    /// Threads by number, and where they may run.
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
        folder: tempfile::TempDir,
    }

    impl Machine {
        /// Four CPUs, and threads with these affinities.
        fn new(threads: &[(u32, &str)]) -> Machine {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("online"), "0-3\n").unwrap();
            let tasks = Known(threads.iter().map(|(thread, allowed)| (*thread, (7, cpus(allowed)))).collect(), None);
            let keeper = Keeper::start_with(tasks, &folder.path().join("online")).unwrap();
            Machine { keeper, folder }
        }

        fn set(&mut self, thread: u32, start: u64, allowed: &str) {
            self.keeper.tasks.0.insert(thread, (start, cpus(allowed)));
        }

        /// These CPUs are online; what was renewed then.
        fn online(&mut self, online: &str) -> Option<(CpuSet, usize)> {
            fs::write(self.folder.path().join("online"), online).unwrap();
            self.keeper.look().unwrap()
        }

        fn allowed(&self, thread: u32) -> String {
            self.keeper.tasks.allowed(thread).unwrap().to_string()
        }
    }

    /// The example of the post: a task that is bound to CPU 1, which goes and comes.
    #[test]
    fn what_the_kernel_widened_is_renewed() {
        let mut machine = Machine::new(&[(10, "1"), (11, "0-3"), (12, "1-2")]);
        machine.set(10, 7, "0-3");
        assert_eq!(machine.online("0,2-3"), None, "CPUs that go change nothing");
        machine.keeper.note();
        assert_eq!(machine.online("0-3"), Some((cpus("1"), 1)));
        assert_eq!([10, 11, 12].map(|thread| machine.allowed(thread)), ["1", "0-3", "1-2"]);
    }

    #[test]
    fn who_chose_otherwise_meanwhile_is_believed() {
        let mut machine = Machine::new(&[(10, "1"), (11, "1")]);
        machine.set(10, 7, "2");
        // Another thread with the number of one that has gone.
        machine.set(11, 8, "0-3");
        machine.online("0,2-3");
        machine.keeper.note();
        assert_eq!(machine.online("0-3"), Some((cpus("1"), 0)));
        assert_eq!([10, 11].map(|thread| machine.allowed(thread)), ["2", "0-3"]);
    }

    #[test]
    fn nothing_is_renewed_before_a_cpu_of_its_own_is_back() {
        let mut machine = Machine::new(&[(10, "1-2")]);
        machine.set(10, 7, "0-3");
        machine.online("0");
        assert_eq!(machine.online("0,3"), Some((cpus("3"), 0)));
        assert_eq!(machine.online("0,2-3"), Some((cpus("2"), 1)));
        assert_eq!(machine.allowed(10), "1-2");
    }

    #[test]
    fn what_is_refused_is_tried_again() {
        let mut machine = Machine::new(&[(10, "3"), (11, "2-3")]);
        machine.set(10, 7, "0-3");
        machine.set(11, 7, "0-3");
        machine.online("0-1");
        machine.keeper.tasks.1 = Some(CpuId(3));
        assert_eq!(machine.online("0-3"), Some((cpus("2-3"), 1)), "CPU 3 is there and takes no task yet");
        machine.keeper.tasks.1 = None;
        assert_eq!(machine.online("0-3"), None, "not at once");
        assert_eq!(machine.keeper.look_again(), Some((cpus("2-3"), 1)));
        assert_eq!([10, 11].map(|thread| machine.allowed(thread)), ["3", "2-3"]);
        assert_eq!(machine.keeper.look_again(), None);
    }

    #[test]
    fn affinities_are_read_whole() {
        assert_eq!(allowed_by("Name:\tit\nCpus_allowed:\tf\nCpus_allowed_list:\t0-2,7\n"), Some(cpus("0-2,7")));
        assert_eq!(allowed_by("Name:\tit\n"), None);
    }

    #[test]
    fn this_process_is_found() {
        let own = (std::process::id(), start_time("/proc/self/stat").unwrap());
        assert!(OfKernel.all().contains(&own));
        assert!(OfKernel.allowed(own.0).is_some_and(|cpus| !cpus.is_empty()));
    }
}
