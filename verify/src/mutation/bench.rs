// SPDX-License-Identifier: GPL-2.0-only
//! Compiles and judges mutants. Each test runs as a process, as many at a time as there are CPUs, and the first
//! failure is enough. Tests that have killed the most mutants run first; among equals, the fastest.

use super::policy::HEADERS;
use super::source::{Mutant, Source};
use anyhow::{Context, Result, bail, ensure};
use host::cpu_time;
use serde_json::Value;
use std::cmp::Reverse;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{available_parallelism, scope, sleep};
use std::time::Duration;

/// A test times out after this multiple of its CPU time without a mutant, plus a second. Wall time is not used: a
/// busy host prolongs any test.
const LIMIT: u32 = 3;
const LIMIT_AT_LEAST: Duration = Duration::from_secs(1);
/// Polling interval of running tests.
const LOOK: Duration = Duration::from_millis(5);
/// Tests that several policies share.
const IN_COMMON: [(&str, &[&str]); 3] = [
    ("both::", &["bfs", "vrq", "muqss"]),
    ("overdue::", &["currency", "entitlement", "lottery", "stride"]),
    ("sharing::", &["currency", "dwcs", "entitlement", "gang", "lottery", "sets", "stride"]),
];

/// Result of a mutant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Killed by this test.
    Killed(String),
    /// Killed, because this test did not finish.
    TimedOut(String),
    Survived,
    /// clang rejects the source: not a mutant.
    Invalid,
}

impl Outcome {
    /// Returns the test that killed the mutant.
    pub fn test(&self) -> Option<&str> {
        match self {
            Outcome::Killed(test) | Outcome::TimedOut(test) => Some(test),
            Outcome::Survived | Outcome::Invalid => None,
        }
    }
}

/// Workspace for compiling and judging.
pub struct Bench {
    /// A directory like the repository, with `policies/` alone.
    pub tree: PathBuf,
    policy: String,
    /// Test program of the policies.
    program: PathBuf,
    /// Directory in which it runs.
    crate_directory: PathBuf,
    tests: Vec<Test>,
}

struct Test {
    name: String,
    /// CPU time without a mutant.
    time: Duration,
    /// Number of mutants killed.
    killed: usize,
}

/// Result of a test.
#[derive(PartialEq, Eq)]
enum End {
    Passed,
    Failed,
    TimedOut,
    /// Stopped, because another test failed.
    Stopped,
}

impl Bench {
    /// Builds the workspace with the current tests.
    ///
    /// # Errors
    /// If they do not compile.
    pub fn new(root: &Path, policy: &str) -> Result<Bench> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let tree = target.join("mutants").join(policy);
        // Copies all headers: they have tests of their own.
        let (from, to) = (root.join(HEADERS), tree.join(HEADERS));
        fs::create_dir_all(&to)?;
        for entry in fs::read_dir(&from).with_context(|| from.display().to_string())? {
            let entry = entry?;
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
        // A copy, because a concurrent build replaces the program.
        let program = tree.join("tests");
        let _ = fs::remove_file(&program);
        fs::copy(test_program(root)?, &program)?;
        let (policy, crate_directory) = (policy.to_owned(), root.join("crates/policies"));
        let mut bench = Bench { tree, policy, program, crate_directory, tests: Vec::new() };
        bench.tests = bench.list()?;
        Ok(bench)
    }

    /// Returns the tests of the policy, of the headers, and those the policy shares with others.
    fn list(&self) -> Result<Vec<Test>> {
        let common = IN_COMMON.iter().filter(|(_, policies)| policies.contains(&self.policy.as_str()));
        let filters = [self.policy.as_str(), "headers::"].into_iter().chain(common.map(|(tests, _)| *tests));
        let output =
            Command::new(&self.program).arg("--list").args(filters).current_dir(&self.crate_directory).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
        Ok(names.map(|name| Test { name: name.to_owned(), time: Duration::ZERO, killed: 0 }).collect())
    }

    /// Returns a digest of the policy and its tests; earlier results count only if it is unchanged.
    ///
    /// # Errors
    /// If the tests cannot be read.
    pub fn digest(&self, source: &Source) -> Result<u64> {
        let mut hasher = DefaultHasher::new();
        hasher.write(&fs::read(&self.program)?);
        source.files(None).for_each(|(_, text)| hasher.write(text.as_bytes()));
        Ok(hasher.finish())
    }

    /// Records that a test has killed a mutant.
    pub fn count(&mut self, name: &str) {
        let test = self.tests.iter_mut().find(|test| test.name == name);
        test.into_iter().for_each(|test| test.killed += 1);
    }

    /// Runs all tests on the unchanged policy and records their CPU times.
    ///
    /// # Errors
    /// If one fails.
    pub fn measure(&mut self, source: &Source) -> Result<()> {
        ensure!(source.compile(&self.tree, None)?, "without a mutant: {} does not compile", self.policy);
        let order: Vec<usize> = (0..self.tests.len()).collect();
        let times = Mutex::new(vec![Duration::ZERO; order.len()]);
        let failed = self.first_to_fail(
            &order,
            |_| Duration::MAX,
            |test, time| {
                times.lock().expect("no worker panics")[test] = time;
            },
        )?;
        if let Some((test, _)) = failed {
            bail!("without a mutant: {} fails", self.tests[test].name);
        }
        self.tests
            .iter_mut()
            .zip(times.into_inner().expect("no worker panics"))
            .for_each(|(test, time)| test.time = time);
        Ok(())
    }

    /// Runs the tests on a mutant, `first` before the others.
    ///
    /// # Errors
    /// If tests cannot be started.
    pub fn judge(&mut self, source: &Source, mutant: &Mutant, first: Option<&str>) -> Result<Outcome> {
        if !source.compile(&self.tree, Some(mutant))? {
            return Ok(Outcome::Invalid);
        }
        let mut order: Vec<usize> = (0..self.tests.len()).collect();
        order.sort_by_key(|&at| {
            let test = &self.tests[at];
            (first != Some(test.name.as_str()), Reverse(test.killed), test.time)
        });
        let limit = |at: usize| self.tests[at].time * LIMIT + LIMIT_AT_LEAST;
        let Some((test, end)) = self.first_to_fail(&order, limit, |_, _| ())? else { return Ok(Outcome::Survived) };
        let name = self.tests[test].name.clone();
        self.count(&name);
        Ok(if end == End::TimedOut { Outcome::TimedOut(name) } else { Outcome::Killed(name) })
    }

    /// Runs tests in this order until one fails, and reports the CPU time of each that passed.
    fn first_to_fail(
        &self,
        order: &[usize],
        limit: impl Fn(usize) -> Duration + Sync,
        passed: impl Fn(usize, Duration) + Sync,
    ) -> Result<Option<(usize, End)>> {
        let (next, failed, found) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(None));
        let work = || -> Result<()> {
            while let Some(&test) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                match self.run(test, limit(test), &failed)? {
                    (End::Passed, time) => passed(test, time),
                    (End::Stopped, _) => return Ok(()),
                    (end, _) => {
                        failed.store(true, Ordering::Relaxed);
                        found.lock().expect("no worker panics").get_or_insert((test, end));
                        return Ok(());
                    }
                }
            }
            Ok(())
        };
        let workers = available_parallelism().map_or(1, usize::from);
        scope(|scope| {
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("no worker panics"))
        })?;
        Ok(found.into_inner().expect("no worker panics"))
    }

    /// Runs a test. Returns its result and its CPU time, to 10 ms.
    fn run(&self, test: usize, limit: Duration, stop: &AtomicBool) -> Result<(End, Duration)> {
        let mut child = Command::new(&self.program)
            .args(["--exact", &self.tests[test].name])
            .current_dir(&self.crate_directory)
            .env("WEIR_POLICY_OBJECTS", &self.tree)
            .env("WEIR_POLICY_HEADERS", self.tree.join("policies/include"))
            .env("PROPTEST_CASES", "60")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| self.program.display().to_string())?;
        let mut time = Duration::ZERO;
        loop {
            time = cpu_time::of(child.id()).unwrap_or(time);
            if let Some(status) = child.try_wait()? {
                return Ok((if status.success() { End::Passed } else { End::Failed }, time));
            }
            let stopped = stop.load(Ordering::Relaxed);
            if stopped || time > limit {
                child.kill()?;
                child.wait()?;
                return Ok((if stopped { End::Stopped } else { End::TimedOut }, time));
            }
            sleep(LOOK);
        }
    }
}

/// Compiles the tests of the policies and returns the path of their program.
fn test_program(root: &Path) -> Result<PathBuf> {
    let output = Command::new("cargo")
        .args(["test", "--locked", "-p", "policies", "--test", "policies", "--no-run", "--message-format=json"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("cargo does not start")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut programs = text.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    });
    programs.next_back().context("the tests of the policies do not compile")
}
