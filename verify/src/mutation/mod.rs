// SPDX-License-Identifier: GPL-2.0-only
//! Mutation testing: can the tests fail? A mutant is a copy of a source file with one deliberate fault; it is killed if a
//! test fails with it.
//!
//! - [`rules`]: faults written by hand in the kernel model and in the invariants (`verify/mutation/rules/*.toml`).
//! - [`policy`]: random faults in a policy's source, judged by the policy's tests.
//! - [`promises`]: the same faults, judged by what the policy promises (`weir check`).
//! - [`explain`]: the same faults; does `weir explain` name the faulty callback?

mod bench;
mod callbacks;
pub mod explain;
mod journal;
mod policy;
pub mod promises;
mod rules;
mod sites;
pub mod source;
mod survivors;

/// Subcommands of `cargo xtask mutants`.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Break rules of the model, one at a time, and report which tests fail
    Rules(rules::Arguments),
    /// Mutate a policy's source at random, and report which mutants its tests kill
    Policy(policy::Arguments),
    /// Mutate policies' sources at random, and report which promises the mutants break
    Promises(promises::Arguments),
    /// Report whether weir explain names the mutated callback
    Explained(explain::Arguments),
}

/// Runs one of the commands. Returns whether the result is as required.
///
/// # Errors
/// If the command cannot do its work: a source does not compile without a mutant, or tests fail without one.
pub fn execute(command: &Command) -> anyhow::Result<bool> {
    match command {
        Command::Rules(arguments) => rules::execute(arguments),
        Command::Policy(arguments) => policy::execute(arguments),
        Command::Promises(arguments) => promises::execute(arguments),
        Command::Explained(arguments) => explain::execute(arguments),
    }
}
