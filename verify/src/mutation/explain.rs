// SPDX-License-Identifier: GPL-2.0-only
//! Does `weir explain` name the callback that contains a fault? Mutants are sampled from all policies; those that
//! stall, or double the 99th percentile of a wait, are run again, saved and explained.
//!
//! 1. A mutant counts if, in one of [`WORKLOADS`], it stalls where the policy without it does not, or at least
//!    doubles the 99th percentile of the wakeup latency or run-queue latency. The first such workload decides.
//! 2. It is *named* if a suspect for one of the three longest waits (or for the stall) is the line of the mutant, or
//!    an op to which that line belongs ([`Callbacks`]). It is *first* if that is the first suspect of the longest
//!    wait.
//! 3. The run without the mutant is explained in the same way: an answer that would be right there too says little.
//! 4. For each rule of `weir explain`: how often it applies, how often it is right, and what would be named without
//!    it.

use super::callbacks::Callbacks;
use super::source::{Mutant, Source};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Workloads and durations. A stall takes 30 s, which is cheap if no task sleeps.
const WORKLOADS: [(&str, &str); 5] =
    [("hogs", "35s"), ("preempt-mix", "1s"), ("build", "2s"), ("periodic-4", "1s"), ("video", "2s")];
/// Machine of the runs.
const MACHINE: &str = "laptop-2c4t";
/// Number of longest waits to explain.
const WAITS: &str = "3";
/// Time limit of a run; some mutants loop forever.
const LIMIT: Duration = Duration::from_secs(60);
/// SCX_EXIT_ERROR_STALL.
const STALL: u64 = 1026;
/// Percentage of mutants that must be named.
const PERCENT: usize = 80;

/// Arguments of `mutants explained`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  cargo xtask mutants explained                              30 of them, half an hour
  cargo xtask mutants explained bfs --count 10 --seed 2
  cargo xtask mutants explained --write lab/results/explained-mutants.md

It runs target/debug/weir: build that first. Exit status: 0 if at least 80 % are
named, 1 if not, 2 if the command itself fails.")]
pub struct Arguments {
    /// Policies, in turn
    #[arg(default_values_t = ["bfs".to_owned(), "vrq".to_owned(), "fifo".to_owned()])]
    policies: Vec<String>,
    /// Number of mutants that count
    #[arg(long, default_value_t = 30)]
    count: usize,
    /// Seed of the sampling
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Stop after this number of minutes
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Write the result to this document
    #[arg(long)]
    write: Option<PathBuf>,
}

/// Effect of a mutant.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Symptom {
    Stall,
    /// The measure is now this percentage of its value without the mutant.
    Slow {
        measure: &'static str,
        percent: u64,
    },
}

/// Explanation of a mutant's effect.
struct Explained {
    policy: String,
    mutant: Mutant,
    workload: &'static str,
    symptom: Symptom,
    callbacks: BTreeSet<String>,
    /// Answers for the runs with and without the mutant.
    answer: Answer,
    without: Answer,
}

/// Runs the command. Returns whether enough mutants are named.
///
/// # Errors
/// If a policy has no source, or a run without a mutant fails.
pub fn execute(arguments: &Arguments) -> Result<bool> {
    let root = crate::root();
    let began = Instant::now();
    let mut benches = Vec::new();
    for policy in &arguments.policies {
        let source = Source::read(root, policy)?;
        let bench = Bench::new(root, policy)?;
        ensure!(source.compile(&bench.tree, None)?, "{policy} does not compile");
        let plain = bench.simulate(&WORKLOADS)?.context("a run without a mutant does not finish")?;
        benches.push((Callbacks::of(&source), bench, plain, source));
    }
    let mut sampled: Vec<_> = benches.iter().map(|(.., source)| source.draw(arguments.seed)).collect();
    let (mut judged, mut tried): (Vec<Explained>, u64) = (Vec::new(), 0);
    while judged.len() < arguments.count && began.elapsed() < Duration::from_secs(60 * arguments.minutes) {
        let mut all_sampled = true;
        for (draw, (callbacks, bench, plain, source)) in sampled.iter_mut().zip(&benches) {
            let Some(mutant) = draw.next() else { continue };
            all_sampled = false;
            tried += 1;
            let Some(one) = bench.judge(source, callbacks, plain, mutant)? else { continue };
            eprintln!(
                "{:3} of {tried} {}: {}",
                judged.len() + 1,
                if one.answer.names("") { "named" } else { "MISSED" },
                one.mutant.name
            );
            judged.push(one);
            if judged.len() == arguments.count {
                break;
            }
        }
        if all_sampled {
            break;
        }
    }
    if judged.is_empty() {
        bail!("none of {tried} mutants stalls or doubles a percentile");
    }
    let text = document(&judged, tried, arguments);
    match &arguments.write {
        Some(path) => fs::write(path, text).with_context(|| path.display().to_string())?,
        None => print!("{text}"),
    }
    let named = judged.iter().filter(|one| one.answer.names("")).count();
    Ok(named * 100 >= judged.len() * PERCENT)
}

/// Workspace in which the mutants of a policy are compiled and run.
pub(super) struct Bench {
    /// A directory like the repository, with `policies/` alone.
    pub(super) tree: PathBuf,
    policy: String,
    weir: PathBuf,
    /// Time limit of a run.
    pub(super) limit: Duration,
}

impl Bench {
    pub(super) fn new(root: &Path, policy: &str) -> Result<Bench> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let (tree, weir) = (target.join("explained-mutants").join(policy), target.join("debug/weir"));
        ensure!(weir.exists(), "{} is missing; build it with cargo build -p weir", weir.display());
        fs::create_dir_all(&tree)?;
        let profile = root.join(format!("policies/{policy}/profile.toml"));
        fs::copy(&profile, tree.join(format!("{policy}.toml"))).with_context(|| profile.display().to_string())?;
        Ok(Bench { tree, policy: policy.to_owned(), weir, limit: LIMIT })
    }

    /// Returns the path of the object relative to the directory.
    pub(super) fn object(&self) -> String {
        format!("./{}.bpf.o", self.policy)
    }

    /// Returns the first run of each workload, saved as `WORKLOAD.weirrun`; `None` if a run does not start or finish.
    fn simulate(&self, workloads: &[(&str, &str)]) -> Result<Option<Vec<Value>>> {
        let mut runs = Vec::new();
        for (workload, duration) in workloads {
            let (object, save) = (self.object(), format!("{workload}.weirrun"));
            let arguments = ["sim", &object, "-m", MACHINE, "-w", workload, "--for", duration, "--seed", "0"];
            let output = self.weir(&[&arguments[..], &["--format", "json", "--save", &save]].concat())?;
            let Some(mut document) = output else { return Ok(None) };
            runs.push(document["runs"][0].take());
        }
        Ok(Some(runs))
    }

    /// Returns the JSON that `weir` prints; `None` if it refuses or does not finish.
    pub(super) fn weir(&self, arguments: &[&str]) -> Result<Option<Value>> {
        let (out, began) = (self.tree.join("out.json"), Instant::now());
        let mut child = Command::new(&self.weir)
            .args(arguments)
            .current_dir(&self.tree)
            .stdout(fs::File::create(&out)?)
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| self.weir.display().to_string())?;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if began.elapsed() > self.limit {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        match status.code() {
            Some(0 | 1) => Ok(Some(serde_json::from_slice(&fs::read(&out)?)?)),
            _ => Ok(None),
        }
    }

    /// Evaluates a mutant; `None` if it does not count.
    fn judge(
        &self,
        source: &Source,
        callbacks: &Callbacks,
        plain: &[Value],
        mutant: Mutant,
    ) -> Result<Option<Explained>> {
        if !source.compile(&self.tree, Some(&mutant))? {
            return Ok(None);
        }
        for (workload, plain) in WORKLOADS.iter().zip(plain) {
            let Some(runs) = self.simulate(&[*workload])? else { return Ok(None) };
            let Some(symptom) = symptom(plain, &runs[0]) else { continue };
            let place = callbacks.at(mutant.file(), mutant.offset());
            let line = mutant.line(source);
            let answer = self.explain(workload.0, &symptom)?;
            ensure!(source.compile(&self.tree, None)?, "{} does not compile", self.policy);
            self.simulate(&[*workload])?;
            let without = match symptom {
                Symptom::Stall => self.explain(workload.0, &Symptom::Slow { measure: "run_delay_ns", percent: 0 })?,
                Symptom::Slow { .. } => self.explain(workload.0, &symptom)?,
            };
            let read = |waits: Vec<Value>| Answer::read(&waits, &place, line.as_ref());
            return Ok(Some(Explained {
                policy: self.policy.clone(),
                workload: workload.0,
                symptom,
                answer: read(answer),
                without: read(without),
                callbacks: place,
                mutant,
            }));
        }
        Ok(None)
    }

    /// Returns the explained waits, the longest first.
    fn explain(&self, workload: &str, symptom: &Symptom) -> Result<Vec<Value>> {
        let file = format!("{workload}.weirrun");
        let what: &[&str] = match symptom {
            Symptom::Stall => &["--ejection"],
            Symptom::Slow { measure: "wakeup_latency_ns", .. } => &["--worst", WAITS, "--waits", "wakeup"],
            Symptom::Slow { .. } => &["--worst", WAITS],
        };
        let arguments = [&["explain", &file], what, &["--format", "json"]].concat();
        let document = self.weir(&arguments)?.with_context(|| format!("{}: no explanation of {file}", self.policy))?;
        Ok(match symptom {
            Symptom::Stall => vec![document["ejection"]["wait"].clone()],
            Symptom::Slow { .. } => document["waits"].as_array().cloned().unwrap_or_default(),
        })
    }
}

/// Suspects of each wait, in order.
struct Answer(Vec<Vec<Suspect>>);

/// One suspect that `weir explain` names.
struct Suspect {
    /// Rule, as named in the JSON.
    reason: String,
    sentence: String,
    /// The suspect is the mutant's line or a callback to which it belongs.
    right: bool,
}

impl Answer {
    fn read(waits: &[Value], callbacks: &BTreeSet<String>, line: Option<&(String, u64)>) -> Answer {
        let read = |suspect: &Value| {
            let text = |key: &str| suspect[key].as_str().unwrap_or_default().to_owned();
            let place = suspect["file"].as_str().map(str::to_owned).zip(suspect["line"].as_u64());
            let right = callbacks.contains(&text("op")) || place.is_some() && place.as_ref() == line;
            Suspect { reason: text("reason"), sentence: text("sentence"), right }
        };
        let of_wait = |wait: &Value| wait["suspects"].as_array().into_iter().flatten().map(read).collect();
        Answer(waits.iter().map(of_wait).collect())
    }

    /// Returns the suspects of each wait that the text would show without this rule.
    fn shown(&self, left_out: &str) -> impl Iterator<Item = &Suspect> {
        // Number of suspects that the text shows for each wait.
        const SHOWN: usize = 5;
        self.0.iter().flat_map(move |wait| wait.iter().filter(move |suspect| suspect.reason != left_out).take(SHOWN))
    }

    fn names(&self, left_out: &str) -> bool {
        self.shown(left_out).any(|suspect| suspect.right)
    }

    fn names_first(&self) -> bool {
        self.shown("").next().is_some_and(|suspect| suspect.right)
    }

    /// Returns whether this rule names a suspect, and whether any suspect that it names is right.
    fn applies(&self, reason: &str) -> (bool, bool) {
        let mut own = self.shown("").filter(|suspect| suspect.reason == reason).map(|suspect| suspect.right);
        own.next().map_or((false, false), |first| (true, first || own.any(|right| right)))
    }
}

/// Returns the effect visible in the run with the mutant, compared with the plain run.
fn symptom(plain: &Value, run: &Value) -> Option<Symptom> {
    let stalls = |run: &Value| run["exit"]["kind"] == STALL;
    if stalls(run) && !stalls(plain) {
        return Some(Symptom::Stall);
    }
    if run["outcome"] == "ejected" {
        return None;
    }
    ["wakeup_latency_ns", "run_delay_ns"].into_iter().find_map(|measure| {
        let p99 = |run: &Value| run[measure]["p99"].as_u64().filter(|&p99| p99 > 0);
        let (before, now) = (p99(plain)?, p99(run)?);
        (now >= 2 * before).then_some(Symptom::Slow { measure, percent: now * 100 / before })
    })
}

fn document(judged: &[Explained], tried: u64, arguments: &Arguments) -> String {
    let count = |counts: &dyn Fn(&Explained) -> bool| judged.iter().filter(|one| counts(one)).count();
    let percent = |part: usize| part * 100 / judged.len();
    let mut text = String::new();
    let (all, named, first) =
        (judged.len(), count(&|one| one.answer.names("")), count(&|one| one.answer.names_first()));
    let (named_without, first_without) = (count(&|one| one.without.names("")), count(&|one| one.without.names_first()));
    let policies = arguments.policies.join(" ");
    let made = format!(
        "Made by `cargo xtask mutants explained {policies} --count {} --seed {}`. Of {tried} mutants of \
         policies, {all} stall a run, or double the 99th percentile of a wait, in one of five workloads on \
         `{MACHINE}`. A mutant is *named* if a suspect for one of the three longest waits, or for the stall, is a \
         callback to which its line belongs, or that line; *first* if the first suspect of the longest wait is. The \
         run without the mutant, explained in the same way, shows how much is chance.",
        arguments.count, arguments.seed,
    );
    let _ = writeln!(text, "# How well `weir explain` names mutants\n");
    made.split(". ").for_each(|sentence| {
        let _ = writeln!(
            text,
            "{}",
            report::wrap("", &format!("{}.", sentence.trim_end_matches('.'))).replace("\n  ", "\n")
        );
    });
    let _ = writeln!(text, "\n| | of {all} | | without the mutant |\n|---|---|---|---|");
    let _ = writeln!(text, "| named | {named} | {} % | {} % |", percent(named), percent(named_without));
    let _ = writeln!(text, "| named first | {first} | {} % | {} % |\n", percent(first), percent(first_without));
    text.push_str(&rules(judged));
    for (title, wanted) in [("Missed", false), ("Named", true)] {
        let _ = writeln!(text, "## {title}\n");
        for one in judged.iter().filter(|one| one.answer.names("") == wanted) {
            let how = match &one.symptom {
                Symptom::Stall => "stalls".to_owned(),
                Symptom::Slow { measure, percent } => {
                    format!("`{measure}.p99` {}.{:02}-fold", percent / 100, percent % 100)
                }
            };
            let callbacks: Vec<&str> = one.callbacks.iter().map(String::as_str).collect();
            let of = if callbacks.is_empty() { "data".to_owned() } else { callbacks.join(", ") };
            let first = if one.answer.names_first() { "; named first" } else { "" };
            let item = format!(
                "{}, `{}` (of {of}){first}: {how} in {}: {}.",
                one.policy,
                one.mutant.name,
                one.workload,
                one.answer.shown("").next().map_or("nothing", |suspect| &suspect.sentence)
            );
            let _ = writeln!(text, "{}", report::wrap("", &format!("- {item}")));
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// Returns the table of each rule's contribution.
fn rules(judged: &[Explained]) -> String {
    let answers = || judged.iter().flat_map(|one| [&one.answer, &one.without]);
    let reasons: BTreeSet<&str> =
        answers().flat_map(|answer| answer.shown("")).map(|suspect| &*suspect.reason).collect();
    let count = |counts: &dyn Fn(&Explained) -> bool| judged.iter().filter(|one| counts(one)).count();
    let mut text = "Contribution of each rule, by its name in the JSON: mutants for which it applies,\n\
         and for which it is right; mutants that would be named without that rule,\n\
         and those that would be named by chance.\n\n\
         | rule | applies | right | named without it | by chance |\n|---|---|---|---|---|\n"
        .to_owned();
    for reason in reasons {
        let [applies, right] = [count(&|one| one.answer.applies(reason).0), count(&|one| one.answer.applies(reason).1)];
        let [named, chance] = [count(&|one| one.answer.names(reason)), count(&|one| one.without.names(reason))];
        let _ = writeln!(text, "| `{reason}` | {applies} | {right} | {named} | {chance} |");
    }
    text.push('\n');
    text
}
