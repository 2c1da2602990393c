// SPDX-License-Identifier: GPL-2.0-only
//! Do the tests of a policy notice small mistakes in its source? Mutants are drawn by a seed: one operator or one constant
//! differs. Each is compiled as the policy is, and the policy's tests run with its object, and with its headers.

mod callbacks;
pub mod explain;
mod explained;
pub mod promises;
mod sites;
mod source;

use crate::cpu_time;
use anyhow::{Context, Result, bail};
use explained::Explained;
use serde_json::Value;
use source::{Mutant, Source};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A mutant never ends if its tests took so many times the CPU time that they take without one. Time that passes says
/// nothing: a busy host makes any test long.
const LIMIT: u32 = 3;

const HEADERS: &str = "policies/include/weir";
/// Tests that policies have in common.
const IN_COMMON: [(&str, &[&str]); 2] =
    [("both::", &["bfs", "vrq", "muqss"]), ("sharing::", &["currency", "entitlement", "gang", "lottery", "stride"])];

/// `mutants`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  cargo xtask mutants bfs                   100 of them, ten minutes or so
  cargo xtask mutants bfs --seed 2 --count 20
  cargo xtask mutants vrq --matching 'vrq.bpf.c: if (victim_first'
  cargo xtask mutants bfs --list            which would be drawn

Mutants that make no difference, and those that nobody notices, are explained in
xtask/mutants/POLICY.toml. Exit status: 0 if at least 90 % were noticed and the
others are explained, 1 if not, 2 if the command itself cannot work.")]
pub struct Arguments {
    /// The policy
    policy: String,
    /// How many to draw
    #[arg(long, default_value_t = 100)]
    count: usize,
    /// Which ones
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only those whose name has this text
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    matching: String,
    /// Name them and do nothing
    #[arg(long)]
    list: bool,
}

/// What came of a mutant.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Outcome {
    /// By the first of these tests.
    Noticed(String),
    /// The tests did not come to their end.
    Endless,
    Missed,
}

/// Runs it. Whether enough are noticed and the others explained.
///
/// # Errors
/// If the policy has no source, its tests do not compile, or they fail without a mutant.
pub fn execute(arguments: &Arguments) -> Result<bool> {
    let root = crate::root();
    let source = Source::read(root, &arguments.policy)?;
    let explained = Explained::read(root, &arguments.policy)?;
    let drawn = || source.draw(arguments.seed).filter(|mutant| mutant.name.contains(&arguments.matching));
    if arguments.list {
        drawn().take(arguments.count).for_each(|mutant| println!("{}", mutant.name));
        return Ok(true);
    }
    let mut bench = Bench::new(root, &arguments.policy)?;
    bench.write(&source, None)?;
    let before = cpu_time::of_children()?;
    if let Some(outcome) = bench.judge()?.filter(|outcome| *outcome != Outcome::Missed) {
        bail!("without a mutant: {outcome:?}");
    }
    bench.limit = cpu_time::of_children()?.saturating_sub(before) * LIMIT;
    let (mut outcomes, mut equivalent) = (Vec::new(), 0);
    for mutant in drawn() {
        if outcomes.len() == arguments.count {
            break;
        }
        if explained.is_equivalent(&mutant.name) {
            equivalent += 1;
            continue;
        }
        bench.write(&source, Some(&mutant))?;
        // What clang refuses is no mutant.
        let Some(outcome) = bench.judge()? else { continue };
        eprintln!("{:3} {}: {}", outcomes.len() + 1, words(&outcome), mutant.name);
        outcomes.push((mutant, outcome));
    }
    println!("{equivalent} were not tried, as they make no difference");
    Ok(report(&outcomes, &explained))
}

fn words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Noticed(test) => format!("noticed by {test}"),
        Outcome::Endless => "noticed: no end".to_owned(),
        Outcome::Missed => "MISSED".to_owned(),
    }
}

fn report(outcomes: &[(Mutant, Outcome)], explained: &Explained) -> bool {
    let missed: Vec<&Mutant> = outcomes.iter().filter(|(_, how)| *how == Outcome::Missed).map(|(one, _)| one).collect();
    let (known, unknown): (Vec<&Mutant>, Vec<&Mutant>) =
        missed.iter().partition(|mutant| explained.why(&mutant.name).is_some());
    for mutant in &known {
        println!("explained: {}\n           {}", mutant.name, explained.why(&mutant.name).unwrap_or_default());
    }
    for mutant in &unknown {
        println!("MISSED:    {}", mutant.name);
    }
    for (mutant, outcome) in outcomes.iter().filter(|(_, outcome)| *outcome != Outcome::Missed) {
        if explained.why(&mutant.name).is_some() {
            println!("explained, but {}: {}", words(outcome), mutant.name);
        }
    }
    let noticed = outcomes.len() - missed.len();
    println!("{noticed} of {} were noticed, {} of the others are explained", outcomes.len(), known.len());
    noticed * 10 >= outcomes.len() * 9 && unknown.is_empty()
}

/// Where mutants are compiled and judged.
struct Bench {
    /// A folder like the repository, with `policies/` alone.
    tree: PathBuf,
    policy: String,
    /// The program of the policies' tests.
    tests: PathBuf,
    /// Where it runs.
    crate_folder: PathBuf,
    /// CPU time that it may take.
    limit: Duration,
}

impl Bench {
    fn new(root: &Path, policy: &str) -> Result<Bench> {
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
        let tests = tree.join("tests");
        let _ = fs::remove_file(&tests);
        fs::copy(test_program(root)?, &tests)?;
        Ok(Bench {
            tree,
            policy: policy.to_owned(),
            tests,
            crate_folder: root.join("crates/policies"),
            limit: Duration::MAX,
        })
    }

    fn write(&self, source: &Source, mutant: Option<&Mutant>) -> Result<()> {
        for (path, text) in source.files(mutant) {
            let to = self.tree.join(path);
            fs::create_dir_all(to.parent().context("a file of a folder")?)?;
            fs::write(&to, text).with_context(|| to.display().to_string())?;
        }
        Ok(())
    }

    /// What the tests say of what was written; nothing if it does not compile.
    fn judge(&self) -> Result<Option<Outcome>> {
        let source = self.tree.join(format!("policies/{0}/{0}.bpf.c", self.policy));
        let object = self.tree.join(format!("{}.bpf.o", self.policy));
        if bpf_clang::compile_in(&self.tree, &source, &object, &["-Wno-error"]).is_err() {
            return Ok(None);
        }
        // The quick ones first: most mutants do not live to see the others.
        let mut quick = vec![format!("{}_turns", self.policy), format!("{}_cpus", self.policy)];
        let mut all = vec![self.policy.clone(), "headers::".to_owned()];
        for (tests, policies) in IN_COMMON {
            if policies.contains(&self.policy.as_str()) {
                quick.push(format!("{tests}turns"));
                all.push(tests.to_owned());
            }
        }
        for filters in [quick, all] {
            let outcome = self.test(&filters)?;
            if outcome != Outcome::Missed {
                return Ok(Some(outcome));
            }
        }
        Ok(Some(Outcome::Missed))
    }

    fn test(&self, filters: &[String]) -> Result<Outcome> {
        let log = self.tree.join("tests.log");
        let mut child = Command::new(&self.tests)
            .args(filters)
            .current_dir(&self.crate_folder)
            .env("WEIR_POLICY_OBJECTS", &self.tree)
            .env("WEIR_POLICY_HEADERS", self.tree.join("policies/include"))
            .env("PROPTEST_CASES", "60")
            .stdout(fs::File::create(&log)?)
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| self.tests.display().to_string())?;
        let status = loop {
            let status = child.try_wait()?;
            let log = fs::read(&log)?;
            // The first one is enough.
            if let Some(test) = failed(&String::from_utf8_lossy(&log)) {
                child.kill()?;
                child.wait()?;
                return Ok(Outcome::Noticed(test));
            }
            if let Some(status) = status {
                break status;
            }
            if cpu_time::of(child.id()).is_some_and(|time| time > self.limit) {
                child.kill()?;
                child.wait()?;
                return Ok(Outcome::Endless);
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        Ok(if status.success() { Outcome::Missed } else { Outcome::Noticed("a crash".to_owned()) })
    }
}

/// The first test that failed, by what a program of tests prints.
fn failed(log: &str) -> Option<String> {
    log.lines().find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED")).map(str::to_owned)
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
