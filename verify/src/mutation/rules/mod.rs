// SPDX-License-Identifier: GPL-2.0-only
//! Can the tests fail? Rules are broken, one at a time, in a copy of this repository, and the scenarios of
//! `verify/conformance/` and the tests that a break names are run against it. Whoever then fails has noticed.
//!
//! The breaks are data (`verify/mutation/rules/*.toml`). Nothing is noticed without a break (that is tried first),
//! and the canary must be noticed (that comes second): only then do the others mean anything. Each file has a canary,
//! and a page that shows what came of it.

mod data;
mod docs;
mod noticers;
mod tree;

use anyhow::{Context, Result, bail};
use data::Break;
use noticers::Noticed;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tree::Tree;

/// `sabotage`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  cargo xtask mutants rules --list
  cargo xtask mutants rules --only p4-global --only d7-first
  cargo xtask mutants rules --rules invariants  those of verify/mutation/rules/invariants.toml
  cargo xtask mutants rules --docs              all of them; writes the tables of the pages,
                                           and leaves rows of what was not tried

It compiles what is broken anew for each break: half a minute or so for the model
on two cores, some seconds for the judge of runs (`invariants`). Exit status: 0 if
all breaks were noticed by whom the data expects, 1 if not, 2 if the command itself cannot work.")]
pub struct Arguments {
    /// Only this break; may be repeated. The canary comes first in any case
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Only the breaks of this file of verify/mutation/rules
    #[arg(long, value_name = "FILE")]
    rules: Option<String>,
    /// Only this break and those behind it
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
    /// Stop after this time, in minutes, and say where to go on
    #[arg(long)]
    minutes: Option<u64>,
    /// List the breaks and do nothing
    #[arg(long)]
    list: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write the tables of the pages that the files name
    #[arg(long, conflicts_with = "list")]
    docs: bool,
    /// Keep the copy and what was compiled in it, in target/sabotage
    #[arg(long)]
    keep: bool,
}

/// For people or for programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

/// What came of one break.
#[derive(Debug)]
struct Outcome<'a> {
    sabotage: &'a Break,
    noticed: Noticed,
    seconds: u64,
}

impl Outcome<'_> {
    /// Who should have noticed and did not.
    fn missing(&self) -> Vec<&str> {
        let all = || self.noticed.scenarios.iter().chain(&self.noticed.tests);
        let missing = |wanted: &&String| !all().any(|name| name == *wanted);
        self.sabotage.expect.iter().filter(missing).map(String::as_str).collect()
    }

    fn is_fine(&self) -> bool {
        self.noticed.by_anybody() && self.missing().is_empty()
    }
}

/// Runs it. Whether every break was noticed as it should be.
///
/// # Errors
/// If a break does not fit the tree or does not compile, something fails without a break, or nobody notices the canary.
pub fn execute(arguments: &Arguments) -> Result<bool> {
    let all = data::read(crate::root())?;
    let chosen = choose(&all, arguments)?;
    if arguments.list {
        chosen.iter().for_each(|one| println!("{:20} {:15} {}", one.name, one.rule, one.what));
        return Ok(true);
    }
    let tree = Tree::copy(crate::root(), arguments.keep)?;
    let end = arguments.minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let outcomes = run(&tree, &chosen, end)?;
    match arguments.format {
        Format::Text => print!("{}", text(&outcomes)),
        Format::Json => println!("{}", serde_json::to_string_pretty(&to_json(&outcomes))?),
    }
    if arguments.docs {
        docs::write(crate::root(), &all, &outcomes)?;
    }
    if let Some(next) = chosen.get(outcomes.len()) {
        println!("time was up; --from {} goes on", next.name);
    }
    Ok(outcomes.iter().all(Outcome::is_fine) && outcomes.len() == chosen.len())
}

/// The canaries, and then the breaks that were asked for, or all.
fn choose<'a>(all: &'a [Break], arguments: &Arguments) -> Result<Vec<&'a Break>> {
    let Arguments { only, from, rules, .. } = arguments;
    if let Some(unknown) = only.iter().chain(from).find(|name| !all.iter().any(|one| one.name == **name)) {
        let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        bail!("no break {unknown:?} (there are: {})", names.join(", "));
    }
    let of_file = |one: &&Break| rules.as_ref().is_none_or(|rules| one.rules == *rules);
    let is_first = |one: &Break| of_file(&one) && from.as_ref().is_none_or(|from| one.name == *from);
    let first = all.iter().position(is_first).context("no such file of breaks, or that one is not in it")?;
    let asked = |one: &&Break| of_file(one) && (only.is_empty() || only.contains(&one.name));
    let asked: Vec<&Break> = all[first..].iter().filter(asked).collect();
    // Each file's canary tells whether its breaks can be noticed.
    let files: BTreeSet<&str> = asked.iter().map(|one| one.rules.as_str()).collect();
    let canaries = all.iter().filter(|one| one.canary && files.contains(one.rules.as_str()));
    let chosen: Vec<&Break> = canaries.chain(asked.iter().copied().filter(|one| !one.canary)).collect();
    if chosen.iter().filter(|one| one.canary).count() < files.len() || chosen.is_empty() {
        bail!("a file has no canary: nothing would tell that this command works");
    }
    Ok(chosen)
}

/// Until then, if there is an end. The outcomes of the first ones.
fn run<'a>(tree: &Tree, chosen: &[&'a Break], end: Option<Instant>) -> Result<Vec<Outcome<'a>>> {
    eprintln!("sabotage: first without a break, in {}", tree.root().display());
    let mut calls: Vec<&[String]> = chosen.iter().map(|one| &one.tests[..]).collect();
    calls.sort();
    calls.dedup();
    let calm = noticers::ask(tree, chosen.iter().any(|one| one.scenarios), &calls).context("without a break")?;
    if calm.by_anybody() {
        bail!("something fails without a break already: {}", calm.in_words(&[]));
    }
    let mut outcomes = Vec::new();
    for (number, sabotage) in chosen.iter().enumerate() {
        let began = Instant::now();
        if end.is_some_and(|end| began > end) {
            break;
        }
        let noticed = tree.with(sabotage, || noticers::ask(tree, sabotage.scenarios, &[&sabotage.tests]));
        let noticed = noticed.with_context(|| format!("break {}", sabotage.name))?;
        let seconds = began.elapsed().as_secs();
        let words = noticed.in_words(&sabotage.expect);
        eprintln!("sabotage: {} of {}: {}: {words} ({seconds} s)", number + 1, chosen.len(), sabotage.name);
        if sabotage.canary && !noticed.by_anybody() {
            bail!("nobody notices the canary ({}): this command cannot tell anything", sabotage.what);
        }
        outcomes.push(Outcome { sabotage, noticed, seconds });
    }
    Ok(outcomes)
}

fn text(outcomes: &[Outcome<'_>]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        let Break { name, rule, what, expect, .. } = outcome.sabotage;
        text.push_str(&format!("{rule}: {name}: {what}\n       {}\n", outcome.noticed.in_words(expect)));
        let missing = outcome.missing();
        if !missing.is_empty() {
            text.push_str(&format!("       EXPECTED AS WELL: {}\n", missing.join(", ")));
        }
    }
    let noticed = outcomes.iter().filter(|outcome| outcome.noticed.by_anybody()).count();
    text.push_str(&format!("{noticed} of {} breaks were noticed\n", outcomes.len()));
    text
}

fn to_json(outcomes: &[Outcome<'_>]) -> serde_json::Value {
    let one = |outcome: &Outcome<'_>| {
        let Break { name, rule, what, file, .. } = outcome.sabotage;
        let Noticed { scenarios, tests, trouble } = &outcome.noticed;
        json!({ "name": name, "rule": rule, "what": what, "file": file, "noticed": outcome.noticed.by_anybody(),
            "scenarios": scenarios, "tests": tests, "trouble": trouble, "missing": outcome.missing(),
            "seconds": outcome.seconds })
    };
    json!({ "weir_sabotage": 1, "breaks": outcomes.iter().map(one).collect::<Vec<_>>() })
}
