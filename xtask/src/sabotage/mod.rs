// SPDX-License-Identifier: GPL-2.0-only
//! Can the tests fail? Rules are broken, one at a time, in a copy of this repository, and the scenarios of `conformance/` and
//! the tests that a break names are run against it. Whoever then fails has noticed.
//!
//! The breaks are data (`xtask/sabotage/*.toml`). Nothing is noticed without a break (that is tried first), and the canary
//! must be noticed (that comes second): only then do the others mean anything.

mod data;
mod docs;
mod noticers;
mod tree;

use anyhow::{Context, Result, bail};
use data::Break;
use noticers::Noticed;
use serde_json::json;
use std::time::Instant;
use tree::Tree;

/// `sabotage`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  cargo xtask sabotage --list
  cargo xtask sabotage --only p4-global --only d7-first
  cargo xtask sabotage --docs              all of them; writes the table of docs/fidelity.md

It compiles the model anew for each break: half a minute or so on two cores. Exit
status: 0 if all breaks were noticed by whom the data expects, 1 if not, 2 if the
command itself cannot work.")]
pub struct Arguments {
    /// Only this break; may be repeated. The canary comes first in any case
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// List the breaks and do nothing
    #[arg(long)]
    list: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write the table of docs/fidelity.md
    #[arg(long, conflicts_with_all = ["only", "list"])]
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
    let chosen = choose(&all, &arguments.only)?;
    if arguments.list {
        chosen.iter().for_each(|one| println!("{:20} {:5} {}", one.name, one.rule, one.what));
        return Ok(true);
    }
    let tree = Tree::copy(crate::root(), arguments.keep)?;
    let outcomes = run(&tree, &chosen)?;
    match arguments.format {
        Format::Text => print!("{}", text(&outcomes)),
        Format::Json => println!("{}", serde_json::to_string_pretty(&to_json(&outcomes))?),
    }
    if arguments.docs {
        docs::write(crate::root(), &outcomes)?;
    }
    Ok(outcomes.iter().all(Outcome::is_fine))
}

/// The canary, and then the breaks that were asked for, or all.
fn choose<'a>(all: &'a [Break], only: &[String]) -> Result<Vec<&'a Break>> {
    if let Some(unknown) = only.iter().find(|name| !all.iter().any(|one| one.name == **name)) {
        let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        bail!("no break {unknown:?} (there are: {})", names.join(", "));
    }
    let wanted = |one: &&Break| one.canary || only.is_empty() || only.contains(&one.name);
    let mut chosen: Vec<&Break> = all.iter().filter(wanted).collect();
    chosen.sort_by_key(|one| !one.canary);
    if !chosen.first().is_some_and(|first| first.canary) {
        bail!("no break is the canary: nothing would tell that this command works");
    }
    Ok(chosen)
}

fn run<'a>(tree: &Tree, chosen: &[&'a Break]) -> Result<Vec<Outcome<'a>>> {
    eprintln!("sabotage: first without a break, in {}", tree.root().display());
    let mut calls: Vec<&[String]> = chosen.iter().map(|one| &one.tests[..]).collect();
    calls.sort();
    calls.dedup();
    let calm = noticers::ask(tree, true, &calls).context("without a break")?;
    if calm.by_anybody() {
        bail!("something fails without a break already: {}", calm.in_words(&[]));
    }
    let mut outcomes = Vec::new();
    for (number, sabotage) in chosen.iter().enumerate() {
        let began = Instant::now();
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
        text.push_str(&format!("{rule:6} {name}: {what}\n       {}\n", outcome.noticed.in_words(expect)));
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
