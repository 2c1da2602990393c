// SPDX-License-Identifier: GPL-2.0-only
//! Where mutants are compiled and judged. Each test is a process of its own, as many at a time as there are CPUs, and the first
//! that fails is enough: so those come first that noticed most mutants, and of others the quick ones.

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

/// A test never ends if it took so many times the CPU time that it takes without a mutant, and a second. Time that passes
/// says nothing: a busy host makes any test long.
const LIMIT: u32 = 3;
const LIMIT_AT_LEAST: Duration = Duration::from_secs(1);
/// How often a test that runs is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// Tests that policies have in common.
const IN_COMMON: [(&str, &[&str]); 3] = [
    ("both::", &["bfs", "vrq", "muqss"]),
    ("overdue::", &["currency", "entitlement", "lottery", "stride"]),
    ("sharing::", &["currency", "dwcs", "entitlement", "gang", "lottery", "sets", "stride"]),
];

/// What came of a mutant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// By this test.
    Noticed(String),
    /// This test did not come to its end.
    Endless(String),
    Missed,
    /// clang refuses it: it is no mutant.
    Refused,
}

impl Outcome {
    /// The test that noticed it.
    pub fn test(&self) -> Option<&str> {
        match self {
            Outcome::Noticed(test) | Outcome::Endless(test) => Some(test),
            Outcome::Missed | Outcome::Refused => None,
        }
    }
}

/// Compiles and judges.
pub struct Bench {
    /// A folder like the repository, with `policies/` alone.
    pub tree: PathBuf,
    policy: String,
    /// The program of the policies' tests.
    program: PathBuf,
    /// Where it runs.
    crate_folder: PathBuf,
    tests: Vec<Test>,
}

struct Test {
    name: String,
    /// CPU time without a mutant.
    time: Duration,
    /// So many mutants.
    noticed: usize,
}

/// What came of a test.
#[derive(PartialEq, Eq)]
enum End {
    Passed,
    Failed,
    Endless,
    /// Another one failed.
    Stopped,
}

impl Bench {
    /// With the tests that there are now.
    ///
    /// # Errors
    /// If they do not compile.
    pub fn new(root: &Path, policy: &str) -> Result<Bench> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let tree = target.join("mutants").join(policy);
        // All headers: they have tests of their own.
        let (from, to) = (root.join(HEADERS), tree.join(HEADERS));
        fs::create_dir_all(&to)?;
        for entry in fs::read_dir(&from).with_context(|| from.display().to_string())? {
            let entry = entry?;
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
        // A copy: a build meanwhile replaces the program itself.
        let program = tree.join("tests");
        let _ = fs::remove_file(&program);
        fs::copy(test_program(root)?, &program)?;
        let (policy, crate_folder) = (policy.to_owned(), root.join("crates/policies"));
        let mut bench = Bench { tree, policy, program, crate_folder, tests: Vec::new() };
        bench.tests = bench.list()?;
        Ok(bench)
    }

    /// Those of the policy, of the headers, and those that it has in common with others.
    fn list(&self) -> Result<Vec<Test>> {
        let common = IN_COMMON.iter().filter(|(_, policies)| policies.contains(&self.policy.as_str()));
        let filters = [self.policy.as_str(), "headers::"].into_iter().chain(common.map(|(tests, _)| *tests));
        let output =
            Command::new(&self.program).arg("--list").args(filters).current_dir(&self.crate_folder).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
        Ok(names.map(|name| Test { name: name.to_owned(), time: Duration::ZERO, noticed: 0 }).collect())
    }

    /// What the policy and its tests are: where it differs nothing that was found out before holds.
    ///
    /// # Errors
    /// If the tests cannot be read.
    pub fn digest(&self, source: &Source) -> Result<u64> {
        let mut hasher = DefaultHasher::new();
        hasher.write(&fs::read(&self.program)?);
        source.files(None).for_each(|(_, text)| hasher.write(text.as_bytes()));
        Ok(hasher.finish())
    }

    /// Tells that a test has noticed a mutant.
    pub fn count(&mut self, name: &str) {
        let test = self.tests.iter_mut().find(|test| test.name == name);
        test.into_iter().for_each(|test| test.noticed += 1);
    }

    /// Runs all tests on the policy as it is, to know how long each takes.
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
                times.lock().expect("nobody panics")[test] = time;
            },
        )?;
        if let Some((test, _)) = failed {
            bail!("without a mutant: {} fails", self.tests[test].name);
        }
        self.tests.iter_mut().zip(times.into_inner().expect("nobody panics")).for_each(|(test, time)| test.time = time);
        Ok(())
    }

    /// What the tests say of a mutant; this one first.
    ///
    /// # Errors
    /// If tests cannot be started.
    pub fn judge(&mut self, source: &Source, mutant: &Mutant, first: Option<&str>) -> Result<Outcome> {
        if !source.compile(&self.tree, Some(mutant))? {
            return Ok(Outcome::Refused);
        }
        let mut order: Vec<usize> = (0..self.tests.len()).collect();
        order.sort_by_key(|&at| {
            let test = &self.tests[at];
            (first != Some(test.name.as_str()), Reverse(test.noticed), test.time)
        });
        let limit = |at: usize| self.tests[at].time * LIMIT + LIMIT_AT_LEAST;
        let Some((test, end)) = self.first_to_fail(&order, limit, |_, _| ())? else { return Ok(Outcome::Missed) };
        let name = self.tests[test].name.clone();
        self.count(&name);
        Ok(if end == End::Endless { Outcome::Endless(name) } else { Outcome::Noticed(name) })
    }

    /// Runs tests in this order until one fails, and tells the CPU time of each that passed.
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
                        found.lock().expect("nobody panics").get_or_insert((test, end));
                        return Ok(());
                    }
                }
            }
            Ok(())
        };
        let workers = available_parallelism().map_or(1, usize::from);
        scope(|scope| {
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("nobody panics"))
        })?;
        Ok(found.into_inner().expect("nobody panics"))
    }

    /// Runs a test; how it ended, and the CPU time that it took, to 10 ms.
    fn run(&self, test: usize, limit: Duration, stop: &AtomicBool) -> Result<(End, Duration)> {
        let mut child = Command::new(&self.program)
            .args(["--exact", &self.tests[test].name])
            .current_dir(&self.crate_folder)
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
                return Ok((if stopped { End::Stopped } else { End::Endless }, time));
            }
            sleep(LOOK);
        }
    }
}

/// Compiles the tests of the policies and says where their program is.
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
