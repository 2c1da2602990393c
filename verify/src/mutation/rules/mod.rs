// SPDX-License-Identifier: GPL-2.0-only
//! Mutation testing of the model's rules: rules are broken, one at a time, in a copy of this repository, and the
//! scenarios of `verify/conformance/` and the tests that a mutant names run against it. Each one that fails kills the
//! mutant.
//!
//! The mutants are data (`verify/mutation/rules/*.toml`). First everything must pass without a mutant, and then the
//! canary of each file must be killed; otherwise the other results mean nothing. Each file names a document page that
//! shows the results.

mod data;
mod docs;
mod killers;
mod tree;

use anyhow::{Context, Result, bail};
use data::RuleMutant;
use killers::Killers;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tree::Tree;

/// Arguments of `mutants rules`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  cargo xtask mutants rules --list
  cargo xtask mutants rules --only p4-global --only d7-first
  cargo xtask mutants rules --rules invariants  those of verify/mutation/rules/invariants.toml
  cargo xtask mutants rules --docs              all of them; writes the tables of the documents,
                                                which keep the rows of mutants not tried

Each mutant is compiled: about half a minute for the model on two cores, some
seconds for the invariant checker (`invariants`). Exit status: 0 if all mutants
were killed by the expected tests, 1 if not, 2 if the command itself fails.")]
pub struct Arguments {
    /// Only this mutant; may be repeated. The canary runs first in any case
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Only the mutants of this file of verify/mutation/rules
    #[arg(long, value_name = "FILE")]
    rules: Option<String>,
    /// Only this mutant and those after it
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
    /// Stop after this number of minutes and print how to continue
    #[arg(long)]
    minutes: Option<u64>,
    /// List the mutants and exit
    #[arg(long)]
    list: bool,
    /// Output format of the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write the result tables of the documents that the files name
    #[arg(long, conflicts_with = "list")]
    docs: bool,
    /// Keep the copy and its build results in target/sabotage
    #[arg(long)]
    keep: bool,
}

/// Output format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Result of one mutant.
#[derive(Debug)]
struct Outcome<'a> {
    mutant: &'a RuleMutant,
    killers: Killers,
    seconds: u64,
}

impl Outcome<'_> {
    /// Returns the expected killers that did not kill the mutant.
    fn missing(&self) -> Vec<&str> {
        let all = || self.killers.scenarios.iter().chain(&self.killers.tests);
        let missing = |wanted: &&String| !all().any(|name| name == *wanted);
        self.mutant.expect.iter().filter(missing).map(String::as_str).collect()
    }

    fn is_fine(&self) -> bool {
        self.killers.is_killed() && self.missing().is_empty()
    }
}

/// Runs the command. Returns whether every mutant was killed as expected.
///
/// # Errors
/// If a mutant does not fit the tree or does not compile, a test fails without a mutant, or the canary
/// survives.
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
        println!("time limit reached; continue with --from {}", next.name);
    }
    Ok(outcomes.iter().all(Outcome::is_fine) && outcomes.len() == chosen.len())
}

/// Returns the canaries, and then the requested mutants, or all.
fn choose<'a>(all: &'a [RuleMutant], arguments: &Arguments) -> Result<Vec<&'a RuleMutant>> {
    let Arguments { only, from, rules, .. } = arguments;
    if let Some(unknown) = only.iter().chain(from).find(|name| !all.iter().any(|one| one.name == **name)) {
        let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        bail!("no mutant {unknown:?}; expected one of {}", names.join(", "));
    }
    let of_file = |one: &&RuleMutant| rules.as_ref().is_none_or(|rules| one.rules == *rules);
    let is_first = |one: &RuleMutant| of_file(&one) && from.as_ref().is_none_or(|from| one.name == *from);
    let first =
        all.iter().position(is_first).context("no such file of mutants, or the mutant of --from is not in it")?;
    let asked = |one: &&RuleMutant| of_file(one) && (only.is_empty() || only.contains(&one.name));
    let asked: Vec<&RuleMutant> = all[first..].iter().filter(asked).collect();
    // The canary of each file shows whether its mutants can be killed.
    let files: BTreeSet<&str> = asked.iter().map(|one| one.rules.as_str()).collect();
    let canaries = all.iter().filter(|one| one.canary && files.contains(one.rules.as_str()));
    let chosen: Vec<&RuleMutant> = canaries.chain(asked.iter().copied().filter(|one| !one.canary)).collect();
    if chosen.iter().filter(|one| one.canary).count() < files.len() || chosen.is_empty() {
        bail!("a file has no canary; add one, so that the results can be trusted");
    }
    Ok(chosen)
}

/// Tries the mutants until `end`, if given. Returns the results so far.
fn run<'a>(tree: &Tree, chosen: &[&'a RuleMutant], end: Option<Instant>) -> Result<Vec<Outcome<'a>>> {
    eprintln!("mutants: first without a mutant, in {}", tree.root().display());
    let mut calls: Vec<&[String]> = chosen.iter().map(|one| &one.tests[..]).collect();
    calls.sort();
    calls.dedup();
    let calm = killers::ask(tree, chosen.iter().any(|one| one.scenarios), &calls).context("without a mutant")?;
    if calm.is_killed() {
        bail!("tests fail without a mutant: {}", calm.describe(&[]));
    }
    let mut outcomes = Vec::new();
    for (number, mutant) in chosen.iter().enumerate() {
        let began = Instant::now();
        if end.is_some_and(|end| began > end) {
            break;
        }
        let killers = tree.with(mutant, || killers::ask(tree, mutant.scenarios, &[&mutant.tests]));
        let killers = killers.with_context(|| format!("mutant {}", mutant.name))?;
        let seconds = began.elapsed().as_secs();
        let words = killers.describe(&mutant.expect);
        eprintln!("mutants: {} of {}: {}: {words} ({seconds} s)", number + 1, chosen.len(), mutant.name);
        if mutant.canary && !killers.is_killed() {
            bail!("the canary survives ({}), so no result can be trusted", mutant.what);
        }
        outcomes.push(Outcome { mutant, killers, seconds });
    }
    Ok(outcomes)
}

fn text(outcomes: &[Outcome<'_>]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        let RuleMutant { name, rule, what, expect, .. } = outcome.mutant;
        text.push_str(&format!("{rule}: {name}: {what}\n       {}\n", outcome.killers.describe(expect)));
        let missing = outcome.missing();
        if !missing.is_empty() {
            text.push_str(&format!("       NOT KILLED BY: {}\n", missing.join(", ")));
        }
    }
    let killed = outcomes.iter().filter(|outcome| outcome.killers.is_killed()).count();
    text.push_str(&format!("{killed} of {} mutants were killed\n", outcomes.len()));
    text
}

fn to_json(outcomes: &[Outcome<'_>]) -> serde_json::Value {
    let one = |outcome: &Outcome<'_>| {
        let RuleMutant { name, rule, what, file, .. } = outcome.mutant;
        let Killers { scenarios, tests, trouble } = &outcome.killers;
        json!({ "name": name, "rule": rule, "what": what, "file": file, "noticed": outcome.killers.is_killed(),
            "scenarios": scenarios, "tests": tests, "trouble": trouble, "missing": outcome.missing(),
            "seconds": outcome.seconds })
    };
    json!({ "weir_sabotage": 1, "breaks": outcomes.iter().map(one).collect::<Vec<_>>() })
}
