// SPDX-License-Identifier: GPL-2.0-only
//! Mutation testing of a policy: mutants with one changed operator or constant are sampled by a seed. Each is
//! compiled like the policy, and the policy's tests run with its object and headers.

use super::bench::{Bench, Outcome};
use super::journal::Journal;
use super::source::{Mutant, Source};
use super::survivors::Survivors;
use anyhow::Result;
use std::time::{Duration, Instant};

pub(super) const HEADERS: &str = "policies/include/weir";

/// Arguments of `mutants policy`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  cargo xtask mutants policy bfs                   100 of them, some minutes
  cargo xtask mutants policy cfs --minutes 7       run it again to continue
  cargo xtask mutants policy bfs --seed 2 --count 20
  cargo xtask mutants policy vrq --matching 'vrq.bpf.c: if (victim_first'
  cargo xtask mutants policy bfs --list            the mutants it would sample

Equivalent mutants and survivors are explained in
verify/mutation/policies/POLICY.toml. Exit status: 0 if at least 90 % were killed
and the survivors are explained, 1 if not, or at the time limit, 2 if the command
itself fails. Results are kept in target/mutants/POLICY/judged, and count until
the policy or its tests change.")]
pub struct Arguments {
    /// Policy to mutate
    policy: String,
    /// Number of mutants to sample
    #[arg(long, default_value_t = 100)]
    count: usize,
    /// Seed of the sampling
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only mutants whose name contains this text
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    matching: String,
    /// Stop after this number of minutes
    #[arg(long)]
    minutes: Option<u64>,
    /// Print the names of the mutants and exit
    #[arg(long)]
    list: bool,
}

/// Runs the command. Returns whether enough mutants are killed and the survivors explained.
///
/// # Errors
/// If the policy has no source, its tests do not compile, or they fail without a mutant.
pub fn execute(arguments: &Arguments) -> Result<bool> {
    let root = crate::root();
    let source = Source::read(root, &arguments.policy)?;
    let survivors = Survivors::read(root, &arguments.policy)?;
    let sampled = || source.draw(arguments.seed).filter(|mutant| mutant.name.contains(&arguments.matching));
    if arguments.list {
        sampled().take(arguments.count).for_each(|mutant| println!("{}", mutant.name));
        return Ok(true);
    }
    let mut bench = Bench::new(root, &arguments.policy)?;
    let mut journal = Journal::open(&bench.tree.join("judged"), bench.digest(&source)?)?;
    journal.killers().for_each(|test| bench.count(test));
    bench.measure(&source)?;
    let end = arguments.minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let (mut outcomes, mut equivalent, mut whole) = (Vec::new(), 0, true);
    for mutant in sampled() {
        if outcomes.len() == arguments.count {
            break;
        }
        if survivors.is_equivalent(&mutant.name) {
            equivalent += 1;
            continue;
        }
        let known = journal.outcome(&mutant.name);
        if known.is_none() && end.is_some_and(|end| Instant::now() > end) {
            whole = false;
            break;
        }
        let outcome = match known {
            Some(outcome) => outcome,
            None => {
                let outcome = bench.judge(&source, &mutant, journal.killer(&mutant.name))?;
                journal.add(&mutant.name, &outcome)?;
                eprintln!("{:3} {}: {}", outcomes.len() + 1, words(&outcome), mutant.name);
                outcome
            }
        };
        if outcome != Outcome::Invalid {
            outcomes.push((mutant, outcome));
        }
    }
    println!("{equivalent} equivalent mutants were not tried");
    if !whole {
        println!("time limit reached; run the same command to continue");
    }
    Ok(report(&outcomes, &survivors) && whole)
}

fn words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Killed(test) => format!("killed by {test}"),
        Outcome::TimedOut(test) => format!("killed: {test} does not finish"),
        Outcome::Survived => "SURVIVED".to_owned(),
        Outcome::Invalid => "no mutant: clang rejects it".to_owned(),
    }
}

fn report(outcomes: &[(Mutant, Outcome)], survivors: &Survivors) -> bool {
    let survived: Vec<&Mutant> =
        outcomes.iter().filter(|(_, how)| *how == Outcome::Survived).map(|(one, _)| one).collect();
    let (known, unknown): (Vec<&Mutant>, Vec<&Mutant>) =
        survived.iter().partition(|mutant| survivors.why(&mutant.name).is_some());
    for mutant in &known {
        println!("explained: {}\n           {}", mutant.name, survivors.why(&mutant.name).unwrap_or_default());
    }
    for mutant in &unknown {
        println!("SURVIVED:  {}", mutant.name);
    }
    for (mutant, outcome) in outcomes.iter().filter(|(_, outcome)| *outcome != Outcome::Survived) {
        if survivors.why(&mutant.name).is_some() {
            println!("explained, but {}: {}", words(outcome), mutant.name);
        }
    }
    let killed = outcomes.len() - survived.len();
    println!("{killed} of {} were killed, {} of the others are explained", outcomes.len(), known.len());
    killed * 10 >= outcomes.len() * 9 && unknown.is_empty()
}
