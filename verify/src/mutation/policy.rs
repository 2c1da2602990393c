// SPDX-License-Identifier: GPL-2.0-only
//! Do the tests of a policy notice small mistakes in its source? Mutants are drawn by a seed: one operator or one constant
//! differs. Each is compiled as the policy is, and the policy's tests run with its object, and with its headers.

use super::bench::{Bench, Outcome};
use super::judged::Judged;
use super::source::{Mutant, Source};
use super::survivors::Survivors;
use anyhow::Result;
use std::time::{Duration, Instant};

pub(super) const HEADERS: &str = "policies/include/weir";

/// `mutants`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  cargo xtask mutants policy bfs                   100 of them, some minutes
  cargo xtask mutants policy cfs --minutes 7       the same command goes on later
  cargo xtask mutants policy bfs --seed 2 --count 20
  cargo xtask mutants policy vrq --matching 'vrq.bpf.c: if (victim_first'
  cargo xtask mutants policy bfs --list            which would be drawn

Mutants that make no difference, and those that nobody notices, are explained in
verify/mutation/policies/POLICY.toml. Exit status: 0 if at least 90 % were noticed and the
others are explained, 1 if not, or if time was up before, 2 if the command
itself cannot work. What was judged stays in target/mutants/POLICY/judged, and
counts until the policy or its tests change.")]
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
    /// Stop after this time, in minutes
    #[arg(long)]
    minutes: Option<u64>,
    /// Name them and do nothing
    #[arg(long)]
    list: bool,
}

/// Runs it. Whether enough are noticed and the others explained.
///
/// # Errors
/// If the policy has no source, its tests do not compile, or they fail without a mutant.
pub fn execute(arguments: &Arguments) -> Result<bool> {
    let root = crate::root();
    let source = Source::read(root, &arguments.policy)?;
    let survivors = Survivors::read(root, &arguments.policy)?;
    let drawn = || source.draw(arguments.seed).filter(|mutant| mutant.name.contains(&arguments.matching));
    if arguments.list {
        drawn().take(arguments.count).for_each(|mutant| println!("{}", mutant.name));
        return Ok(true);
    }
    let mut bench = Bench::new(root, &arguments.policy)?;
    let mut judged = Judged::open(&bench.tree.join("judged"), bench.digest(&source)?)?;
    judged.noticers().for_each(|test| bench.count(test));
    bench.measure(&source)?;
    let end = arguments.minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let (mut outcomes, mut equivalent, mut whole) = (Vec::new(), 0, true);
    for mutant in drawn() {
        if outcomes.len() == arguments.count {
            break;
        }
        if survivors.is_equivalent(&mutant.name) {
            equivalent += 1;
            continue;
        }
        let known = judged.outcome(&mutant.name);
        if known.is_none() && end.is_some_and(|end| Instant::now() > end) {
            whole = false;
            break;
        }
        let outcome = match known {
            Some(outcome) => outcome,
            None => {
                let outcome = bench.judge(&source, &mutant, judged.noticer(&mutant.name))?;
                judged.add(&mutant.name, &outcome)?;
                eprintln!("{:3} {}: {}", outcomes.len() + 1, words(&outcome), mutant.name);
                outcome
            }
        };
        if outcome != Outcome::Refused {
            outcomes.push((mutant, outcome));
        }
    }
    println!("{equivalent} were not tried, as they make no difference");
    if !whole {
        println!("time was up; the same command goes on");
    }
    Ok(report(&outcomes, &survivors) && whole)
}

fn words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Noticed(test) => format!("noticed by {test}"),
        Outcome::Endless(test) => format!("noticed: no end of {test}"),
        Outcome::Missed => "MISSED".to_owned(),
        Outcome::Refused => "no mutant, as clang refuses it".to_owned(),
    }
}

fn report(outcomes: &[(Mutant, Outcome)], survivors: &Survivors) -> bool {
    let missed: Vec<&Mutant> = outcomes.iter().filter(|(_, how)| *how == Outcome::Missed).map(|(one, _)| one).collect();
    let (known, unknown): (Vec<&Mutant>, Vec<&Mutant>) =
        missed.iter().partition(|mutant| survivors.why(&mutant.name).is_some());
    for mutant in &known {
        println!("explained: {}\n           {}", mutant.name, survivors.why(&mutant.name).unwrap_or_default());
    }
    for mutant in &unknown {
        println!("MISSED:    {}", mutant.name);
    }
    for (mutant, outcome) in outcomes.iter().filter(|(_, outcome)| *outcome != Outcome::Missed) {
        if survivors.why(&mutant.name).is_some() {
            println!("explained, but {}: {}", words(outcome), mutant.name);
        }
    }
    let noticed = outcomes.len() - missed.len();
    println!("{noticed} of {} were noticed, {} of the others are explained", outcomes.len(), known.len());
    noticed * 10 >= outcomes.len() * 9 && unknown.is_empty()
}
