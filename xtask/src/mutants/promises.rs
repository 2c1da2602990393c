// SPDX-License-Identifier: GPL-2.0-only
//! Which promises do small mistakes break? Mutants are drawn as for `cargo xtask mutants`, and `weir check` holds each to what
//! the policy promises and to what every run owes.
//!
//! Most mistakes break no promise: they make a scheduler slower, or another one that is as good. What is counted is which
//! properties speak at all, and that none speaks without a mutant.

use super::explain::Bench;
use super::source::Source;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};

/// `promise-mutants`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  cargo xtask promise-mutants                      20 of each of three policies
  cargo xtask promise-mutants bfs --count 50 --seed 2
  cargo xtask promise-mutants cfs --runs 300

It runs target/debug/weir: build that first. Exit status: 0 if the policies
themselves break nothing, 1 if one does, 2 if the command itself cannot work.")]
pub struct Arguments {
    /// The policies
    #[arg(default_values_t = ["fifo".to_owned(), "bfs".to_owned(), "cfs".to_owned()])]
    policies: Vec<String>,
    /// How many mutants of each
    #[arg(long, default_value_t = 20)]
    count: usize,
    /// Which ones
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// In how many drawn runs each is looked at
    #[arg(long, default_value_t = 100)]
    runs: u64,
}

/// Runs it. Whether the policies themselves break nothing.
///
/// # Errors
/// If a policy has no source, or does not compile without a mutant.
pub fn execute(arguments: &Arguments) -> Result<bool> {
    let root = crate::root();
    let (mut fine, mut by_property) = (true, BTreeMap::<String, Vec<String>>::new());
    for policy in &arguments.policies {
        let (source, bench) = (Source::read(root, policy)?, Bench::new(root, policy)?);
        ensure!(source.compile(&bench.tree, None)?, "{policy} does not compile");
        let plain = broken(&bench, arguments.runs)?.context("runs without a mutant do not end")?;
        println!("{policy} itself: {}", words(&plain));
        fine &= plain.is_empty();
        let mut judged = 0;
        for mutant in source.draw(arguments.seed) {
            if judged == arguments.count {
                break;
            }
            if !source.compile(&bench.tree, Some(&mutant))? {
                continue;
            }
            judged += 1;
            let Some(found) = broken(&bench, arguments.runs)? else {
                println!("no end: {}", mutant.name);
                continue;
            };
            println!("{}: {}", words(&found), mutant.name);
            for property in found.difference(&plain) {
                by_property.entry(property.clone()).or_default().push(mutant.name.clone());
            }
        }
    }
    by_property.iter().for_each(|(property, mutants)| println!("{property}: broken by {}", mutants.len()));
    Ok(fine)
}

fn words(properties: &BTreeSet<String>) -> String {
    match properties.is_empty() {
        true => "nothing".to_owned(),
        false => properties.iter().map(String::as_str).collect::<Vec<_>>().join(", "),
    }
}

/// What is broken in drawn runs; `None` if they do not end.
fn broken(bench: &Bench, runs: u64) -> Result<Option<BTreeSet<String>>> {
    let (object, runs) = (bench.object(), runs.to_string());
    let Some(document) = bench.weir(&["check", &object, "--seeds", &runs, "--format", "json"])? else {
        return Ok(None);
    };
    let properties = document["properties"].as_array().context("weir check names no properties")?;
    let broken = properties.iter().filter(|it| it["broken"].as_u64() > Some(0));
    Ok(Some(broken.filter_map(|it| it["property"].as_str()).map(str::to_owned).collect()))
}
