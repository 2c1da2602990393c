// SPDX-License-Identifier: GPL-2.0-only
//! Does `weir explain` name the callback in which a mistake was made? Mutants are drawn from all policies; those that stall,
//! or double the 99th percentile of a wait, are run again, saved and explained.
//!
//! 1. A mutant counts if a run that does not stall without it does with it, or if the 99th percentile of its wakeup latency or
//!    of its waits is at least twice that without it, in one of [`WORKLOADS`]. The first of these decides.
//! 2. It is *named* if a suspect of one of the three longest waits (or of the stall) has the line of the mutant, or is an op to
//!    which that line belongs ([`Callbacks`]). It is *first* if that is the first suspect of the longest wait.
//! 3. The same question is asked of the run without the mutant: an answer that would be right there too says little.
//! 4. What each rule contributes: how often it speaks, how often it is right, and what would be named without it.

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

/// What is run: workload and duration. A stall takes 30 s, and costs little where nobody sleeps.
const WORKLOADS: [(&str, &str); 5] =
    [("hogs", "35s"), ("preempt-mix", "1s"), ("build", "2s"), ("periodic-4", "1s"), ("video", "2s")];
/// Where.
const MACHINE: &str = "laptop-2c4t";
/// So many of the longest waits are asked about.
const WAITS: &str = "3";
/// Some runs that take longer never end.
const LIMIT: Duration = Duration::from_secs(60);
/// SCX_EXIT_ERROR_STALL.
const STALL: u64 = 1026;
/// What has to be named.
const PERCENT: usize = 80;

/// `explained-mutants`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  cargo xtask mutants explained                              30 of them, half an hour
  cargo xtask mutants explained bfs --count 10 --seed 2
  cargo xtask mutants explained --write lab/results/explained-mutants.md

It runs target/debug/weir: build that first. Exit status: 0 if at least 80 % are
named, 1 if not, 2 if the command itself cannot work.")]
pub struct Arguments {
    /// The policies, in turn
    #[arg(default_values_t = ["bfs".to_owned(), "vrq".to_owned(), "fifo".to_owned()])]
    policies: Vec<String>,
    /// How many that count
    #[arg(long, default_value_t = 30)]
    count: usize,
    /// Which ones
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Stop after this time, in minutes
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Write what came of it to this document
    #[arg(long)]
    write: Option<PathBuf>,
}

/// How a mutant shows.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Symptom {
    Stall,
    /// This measure is so much larger, in percent.
    Slow {
        measure: &'static str,
        percent: u64,
    },
}

/// What was said of a mutant.
struct Judged {
    policy: String,
    mutant: Mutant,
    workload: &'static str,
    symptom: Symptom,
    callbacks: BTreeSet<String>,
    /// What was said, and of the run without the mutant.
    said: Answer,
    without: Answer,
}

/// Runs it. Whether enough are named.
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
        let plain = bench.simulate(&WORKLOADS)?.context("a run without a mutant does not end")?;
        benches.push((Callbacks::of(&source), bench, plain, source));
    }
    let mut drawn: Vec<_> = benches.iter().map(|(.., source)| source.draw(arguments.seed)).collect();
    let (mut judged, mut tried): (Vec<Judged>, u64) = (Vec::new(), 0);
    while judged.len() < arguments.count && began.elapsed() < Duration::from_secs(60 * arguments.minutes) {
        let mut all_drawn = true;
        for (draw, (callbacks, bench, plain, source)) in drawn.iter_mut().zip(&benches) {
            let Some(mutant) = draw.next() else { continue };
            all_drawn = false;
            tried += 1;
            let Some(one) = bench.judge(source, callbacks, plain, mutant)? else { continue };
            eprintln!(
                "{:3} of {tried} {}: {}",
                judged.len() + 1,
                if one.said.names("") { "named" } else { "MISSED" },
                one.mutant.name
            );
            judged.push(one);
            if judged.len() == arguments.count {
                break;
            }
        }
        if all_drawn {
            break;
        }
    }
    if judged.is_empty() {
        bail!("of {tried} mutants none stalls or doubles a percentile");
    }
    let text = document(&judged, tried, arguments);
    match &arguments.write {
        Some(path) => fs::write(path, text).with_context(|| path.display().to_string())?,
        None => print!("{text}"),
    }
    let named = judged.iter().filter(|one| one.said.names("")).count();
    Ok(named * 100 >= judged.len() * PERCENT)
}

/// Where mutants of a policy are compiled and run.
pub(super) struct Bench {
    /// A folder like the repository, with `policies/` alone.
    pub(super) tree: PathBuf,
    policy: String,
    weir: PathBuf,
    /// What takes longer never ends.
    pub(super) limit: Duration,
}

impl Bench {
    pub(super) fn new(root: &Path, policy: &str) -> Result<Bench> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let (tree, weir) = (target.join("explained-mutants").join(policy), target.join("debug/weir"));
        ensure!(weir.exists(), "{} is missing; cargo build -p weir makes it", weir.display());
        fs::create_dir_all(&tree)?;
        let profile = root.join(format!("policies/{policy}/profile.toml"));
        fs::copy(&profile, tree.join(format!("{policy}.toml"))).with_context(|| profile.display().to_string())?;
        Ok(Bench { tree, policy: policy.to_owned(), weir, limit: LIMIT })
    }

    /// Its object, as its folder knows it.
    pub(super) fn object(&self) -> String {
        format!("./{}.bpf.o", self.policy)
    }

    /// The first run of each; `None`: they do not begin, or do not end. Saved as `WORKLOAD.weirrun`.
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

    /// What `weir` prints as JSON; `None` if it refuses, or does not end.
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

    /// What comes of a mutant; `None`: it does not count.
    fn judge(&self, source: &Source, callbacks: &Callbacks, plain: &[Value], mutant: Mutant) -> Result<Option<Judged>> {
        if !source.compile(&self.tree, Some(&mutant))? {
            return Ok(None);
        }
        for (workload, plain) in WORKLOADS.iter().zip(plain) {
            let Some(runs) = self.simulate(&[*workload])? else { return Ok(None) };
            let Some(symptom) = symptom(plain, &runs[0]) else { continue };
            let place = callbacks.at(mutant.file(), mutant.offset());
            let line = mutant.line(source);
            let said = self.explain(workload.0, &symptom)?;
            ensure!(source.compile(&self.tree, None)?, "{} does not compile", self.policy);
            self.simulate(&[*workload])?;
            let without = match symptom {
                Symptom::Stall => self.explain(workload.0, &Symptom::Slow { measure: "run_delay_ns", percent: 0 })?,
                Symptom::Slow { .. } => self.explain(workload.0, &symptom)?,
            };
            let read = |waits: Vec<Value>| Answer::read(&waits, &place, line.as_ref());
            return Ok(Some(Judged {
                policy: self.policy.clone(),
                workload: workload.0,
                symptom,
                said: read(said),
                without: read(without),
                callbacks: place,
                mutant,
            }));
        }
        Ok(None)
    }

    /// The waits that were asked about, the longest first.
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

/// The suspects of each wait, the first one first.
struct Answer(Vec<Vec<Suspect>>);

/// One that `weir explain` names.
struct Suspect {
    /// The rule, as the JSON calls it.
    reason: String,
    sentence: String,
    /// It is a callback to which the mutant belongs, or its line.
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

    /// Those of each wait that the text would show if this rule were not there.
    fn shown(&self, left_out: &str) -> impl Iterator<Item = &Suspect> {
        // As many as the text shows of each.
        const SHOWN: usize = 5;
        self.0.iter().flat_map(move |wait| wait.iter().filter(move |suspect| suspect.reason != left_out).take(SHOWN))
    }

    fn names(&self, left_out: &str) -> bool {
        self.shown(left_out).any(|suspect| suspect.right)
    }

    fn names_first(&self) -> bool {
        self.shown("").next().is_some_and(|suspect| suspect.right)
    }

    /// Whether this rule speaks; and whether it is right somewhere.
    fn says(&self, reason: &str) -> (bool, bool) {
        let mut own = self.shown("").filter(|suspect| suspect.reason == reason).map(|suspect| suspect.right);
        own.next().map_or((false, false), |first| (true, first || own.any(|right| right)))
    }
}

/// How a run shows that something is wrong which was not before.
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

fn document(judged: &[Judged], tried: u64, arguments: &Arguments) -> String {
    let count = |counts: &dyn Fn(&Judged) -> bool| judged.iter().filter(|one| counts(one)).count();
    let percent = |part: usize| part * 100 / judged.len();
    let mut text = String::new();
    let (all, named, first) = (judged.len(), count(&|one| one.said.names("")), count(&|one| one.said.names_first()));
    let (named_without, first_without) = (count(&|one| one.without.names("")), count(&|one| one.without.names_first()));
    let policies = arguments.policies.join(" ");
    let made = format!(
        "Made by `cargo xtask mutants explained {policies} --count {} --seed {}`. Of {tried} small mistakes in the \
         sources of policies, {all} stall a run, or double the 99th percentile of a wait, in one of five workloads on \
         `{MACHINE}`. A mistake is *named* if a suspect of one of the three longest waits, or of the stall, is a \
         callback to which its line belongs, or that line; *first* if the first suspect of the longest wait is. The \
         same question asked of the run without the mistake shows how much is chance.",
        arguments.count, arguments.seed,
    );
    let _ = writeln!(text, "# What `weir explain` says of mutants\n");
    made.split(". ").for_each(|sentence| {
        let _ = writeln!(
            text,
            "{}",
            report::wrap("", &format!("{}.", sentence.trim_end_matches('.'))).replace("\n  ", "\n")
        );
    });
    let _ = writeln!(text, "\n| | of {all} | | without the mistake |\n|---|---|---|---|");
    let _ = writeln!(text, "| named | {named} | {} % | {} % |", percent(named), percent(named_without));
    let _ = writeln!(text, "| named first | {first} | {} % | {} % |\n", percent(first), percent(first_without));
    text.push_str(&rules(judged));
    for (title, wanted) in [("Missed", false), ("Named", true)] {
        let _ = writeln!(text, "## {title}\n");
        for one in judged.iter().filter(|one| one.said.names("") == wanted) {
            let how = match &one.symptom {
                Symptom::Stall => "stalls".to_owned(),
                Symptom::Slow { measure, percent } => {
                    format!("`{measure}.p99` {}.{:02}-fold", percent / 100, percent % 100)
                }
            };
            let callbacks: Vec<&str> = one.callbacks.iter().map(String::as_str).collect();
            let of = if callbacks.is_empty() { "data".to_owned() } else { callbacks.join(", ") };
            let first = if one.said.names_first() { "; named first" } else { "" };
            let item = format!(
                "{}, `{}` (of {of}){first}: {how} in {}: {}.",
                one.policy,
                one.mutant.name,
                one.workload,
                one.said.shown("").next().map_or("nothing", |suspect| &suspect.sentence)
            );
            let _ = writeln!(text, "{}", report::wrap("", &format!("- {item}")));
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// A table of what each rule contributes.
fn rules(judged: &[Judged]) -> String {
    let answers = || judged.iter().flat_map(|one| [&one.said, &one.without]);
    let reasons: BTreeSet<&str> =
        answers().flat_map(|answer| answer.shown("")).map(|suspect| &*suspect.reason).collect();
    let count = |counts: &dyn Fn(&Judged) -> bool| judged.iter().filter(|one| counts(one)).count();
    let mut text = "What each rule contributes, by its word in the JSON: of how many mistakes it says\n\
         something, and where it is right; and how many would be named without that rule,\n\
         with the mistake and by chance.\n\n\
         | rule | says | right | named without it | and by chance |\n|---|---|---|---|---|\n"
        .to_owned();
    for reason in reasons {
        let [says, right] = [count(&|one| one.said.says(reason).0), count(&|one| one.said.says(reason).1)];
        let [named, chance] = [count(&|one| one.said.names(reason)), count(&|one| one.without.names(reason))];
        let _ = writeln!(text, "| `{reason}` | {says} | {right} | {named} | {chance} |");
    }
    text.push('\n');
    text
}
