// SPDX-License-Identifier: GPL-2.0-only
//! Which promises do mutants violate? Mutants are sampled as for `cargo xtask mutants policy`, and `weir check` tests
//! each against the policy's promises and the built-in invariants.
//!
//! Most mutants violate no promise: they make a scheduler slower, or a different one that is as good. The command
//! counts which properties detect a mutant at all, and checks that none is violated without one.

use super::explain::Bench;
use super::source::Source;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Arguments of `mutants promises`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  cargo xtask mutants promises                      20 of each of three policies
  cargo xtask mutants promises bfs --count 50 --seed 2
  cargo xtask mutants promises nix@groups --runs 300

It runs target/debug/weir: build that first. Exit status: 0 if the policies
themselves violate nothing, 1 if one does, 2 if the command itself fails.")]
pub struct Arguments {
    /// Policies, each as POLICY or POLICY@PRESET
    #[arg(default_values_t = ["fifo".to_owned(), "bfs".to_owned(), "cfs".to_owned()])]
    policies: Vec<String>,
    /// Number of mutants per policy
    #[arg(long, default_value_t = 20)]
    count: usize,
    /// Seed of the sampling
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of sampled runs per mutant
    #[arg(long, default_value_t = 100)]
    runs: u64,
}

/// Runs the command. Returns whether the unmutated policies violate nothing.
///
/// # Errors
/// If a policy has no source, or does not compile without a mutant.
pub fn execute(arguments: &Arguments) -> Result<bool> {
    let (mut fine, mut by_property) = (true, BTreeMap::new());
    for policy in &arguments.policies {
        fine &= check(policy, arguments, &mut by_property)?;
    }
    by_property.iter().for_each(|(property, mutants)| println!("{property}: violated by {mutants}"));
    Ok(fine)
}

/// Checks the mutants of one policy. Returns whether the policy itself violates nothing.
fn check(policy: &str, arguments: &Arguments, by_property: &mut BTreeMap<String, usize>) -> Result<bool> {
    let (name, preset) = policy.split_once('@').map_or((policy, None), |(name, preset)| (name, Some(preset)));
    let (source, mut bench) = (Source::read(crate::root(), name)?, Bench::new(crate::root(), name)?);
    // A hundred runs get the time limit of one explained mutant.
    bench.limit = bench.limit.mul_f64((arguments.runs as f64 / 100.0).max(1.0));
    if let Some(preset) = preset {
        let path = bench.tree.join(format!("{name}.toml"));
        let profile = with_preset(&fs::read_to_string(&path)?, preset).with_context(|| policy.to_owned())?;
        fs::write(path, profile)?;
    }
    ensure!(source.compile(&bench.tree, None)?, "{policy} does not compile");
    let plain = violated(&bench, arguments.runs)?.context("runs without a mutant do not finish")?;
    println!("{policy} itself: {}", words(&plain));
    let (mut judged, mut violating) = (0, 0);
    for mutant in source.draw(arguments.seed) {
        if judged == arguments.count {
            break;
        }
        if !source.compile(&bench.tree, Some(&mutant))? {
            continue;
        }
        judged += 1;
        let Some(found) = violated(&bench, arguments.runs)? else {
            println!("does not finish: {}", mutant.name);
            continue;
        };
        println!("{}: {}", words(&found), mutant.name);
        let mut new = found.difference(&plain).peekable();
        violating += usize::from(new.peek().is_some());
        new.for_each(|property| *by_property.entry(property.clone()).or_default() += 1);
    }
    println!("{policy}: {violating} of {judged} violate something\n");
    Ok(plain.is_empty())
}

/// Returns a profile that behaves without a preset as the given one does with it, because an object named by its path
/// has no presets.
fn with_preset(profile: &str, preset: &str) -> Result<String> {
    let mut profile: toml::Table = toml::from_str(profile)?;
    let chosen = profile.get("presets").and_then(|all| all.get(preset)).and_then(toml::Value::as_table).cloned();
    for (key, value) in chosen.with_context(|| format!("no preset {preset}"))? {
        let mut put = |table: &str, key: String, value: toml::Value| -> Result<()> {
            let table = profile.entry(table).or_insert_with(|| toml::Table::new().into());
            table.as_table_mut().context("not a table")?.insert(key, value);
            Ok(())
        };
        match (key.as_str(), value) {
            ("doc", _) => {}
            ("promises", toml::Value::Table(promises)) => {
                promises.into_iter().try_for_each(|(key, value)| put("promises", key, value))?;
            }
            (_, value) => put("rodata", key, value)?,
        }
    }
    Ok(toml::to_string(&profile)?)
}

fn words(properties: &BTreeSet<String>) -> String {
    match properties.is_empty() {
        true => "nothing".to_owned(),
        false => properties.iter().map(String::as_str).collect::<Vec<_>>().join(", "),
    }
}

/// Returns the properties violated in sampled runs; `None` if the runs do not finish.
fn violated(bench: &Bench, runs: u64) -> Result<Option<BTreeSet<String>>> {
    let (object, runs) = (bench.object(), runs.to_string());
    let Some(document) = bench.weir(&["check", &object, "--seeds", &runs, "--format", "json"])? else {
        return Ok(None);
    };
    let properties = document["properties"].as_array().context("weir check names no properties")?;
    let broken = properties.iter().filter(|it| it["broken"].as_u64() > Some(0));
    Ok(Some(broken.filter_map(|it| it["property"].as_str()).map(str::to_owned).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preset_overrides_constants_and_promises_of_the_profile() {
        let profile = "[rodata]\na = 1\nb = 2\n[promises]\nx = true\ny = 3\n\
                       [presets.p]\ndoc = 'd'\nb = 5\n[presets.p.promises]\nx = false\n";
        let profile: toml::Table = toml::from_str(&with_preset(profile, "p").unwrap()).unwrap();
        assert_eq!(profile["rodata"], toml::from_str::<toml::Value>("a = 1\nb = 5").unwrap());
        assert_eq!(profile["promises"], toml::from_str::<toml::Value>("x = false\ny = 3").unwrap());
        assert!(with_preset("[presets.p]", "q").is_err());
    }
}
