// SPDX-License-Identifier: GPL-2.0-only
//! Journal of mutants: each result is written at once, so that an interrupted command can continue. A result counts
//! as long as the policy and its tests are unchanged ([`Bench::digest`](super::bench::Bench::digest)); later it only
//! tells which test to try first.

use super::bench::Outcome;
use anyhow::{Context, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// A file of lines: digest, result, test, name of the mutant.
pub struct Journal {
    file: File,
    digest: String,
    known: Vec<Line>,
}

struct Line {
    digest: String,
    name: String,
    outcome: Outcome,
}

impl Journal {
    /// Reads the file, or creates it. Malformed lines, such as the last one of a killed command, are skipped.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn open(path: &Path, digest: u64) -> Result<Journal> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            text => text.with_context(|| path.display().to_string())?,
        };
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        if !text.is_empty() && !text.ends_with('\n') {
            writeln!(file)?;
        }
        Ok(Journal { file, digest: format!("{digest:016x}"), known: text.lines().filter_map(read).collect() })
    }

    /// Returns the result of a mutant with the current tests.
    pub fn outcome(&self, name: &str) -> Option<Outcome> {
        let line = self.known.iter().find(|line| line.name == name && line.digest == self.digest);
        line.map(|line| line.outcome.clone())
    }

    /// Returns the test that killed the mutant last.
    pub fn killer(&self, name: &str) -> Option<&str> {
        self.known.iter().rev().filter(|line| line.name == name).find_map(|line| line.outcome.test())
    }

    /// Returns all tests that killed mutants, once for each kill.
    pub fn killers(&self) -> impl Iterator<Item = &str> {
        self.known.iter().filter_map(|line| line.outcome.test())
    }

    /// Appends a result.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&mut self, name: &str, outcome: &Outcome) -> Result<()> {
        let how = match outcome {
            Outcome::Killed(_) => "noticed",
            Outcome::TimedOut(_) => "endless",
            Outcome::Survived => "missed",
            Outcome::Invalid => "refused",
        };
        writeln!(self.file, "{}\t{how}\t{}\t{name}", self.digest, outcome.test().unwrap_or_default())?;
        self.known.push(Line { digest: self.digest.clone(), name: name.to_owned(), outcome: outcome.clone() });
        Ok(())
    }
}

fn read(line: &str) -> Option<Line> {
    let [digest, how, test, name] = line.split('\t').collect::<Vec<_>>()[..] else { return None };
    let outcome = match how {
        "noticed" => Outcome::Killed(test.to_owned()),
        "endless" => Outcome::TimedOut(test.to_owned()),
        "missed" => Outcome::Survived,
        "refused" => Outcome::Invalid,
        _ => return None,
    };
    Some(Line { digest: digest.to_owned(), name: name.to_owned(), outcome })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutation_results_are_reused_until_the_policy_or_its_tests_change() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("judged");
        let outcomes = [
            ("a", Outcome::Killed("x::y".to_owned())),
            ("b", Outcome::Survived),
            ("c", Outcome::TimedOut("x::z".to_owned())),
            ("d", Outcome::Invalid),
        ];
        let mut judged = Journal::open(&path, 1).unwrap();
        for (name, outcome) in &outcomes {
            assert_eq!(judged.outcome(name), None);
            judged.add(name, outcome).unwrap();
            assert_eq!(judged.outcome(name).as_ref(), Some(outcome));
        }
        write!(judged.file, "0000000000000001\tmis").unwrap();
        let mut again = Journal::open(&path, 1).unwrap();
        assert!(outcomes.iter().all(|(name, outcome)| again.outcome(name).as_ref() == Some(outcome)));
        again.add("e", &Outcome::Survived).unwrap();
        let other = Journal::open(&path, 2).unwrap();
        assert!(["a", "b", "c", "d", "e"].iter().all(|name| other.outcome(name).is_none()));
        assert_eq!((other.killer("a"), other.killer("b"), other.killer("c")), (Some("x::y"), None, Some("x::z")));
        assert_eq!(
            (other.killers().count(), Journal::open(&path, 1).unwrap().outcome("e")),
            (2, Some(Outcome::Survived))
        );
    }
}
