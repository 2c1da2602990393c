// SPDX-License-Identifier: GPL-2.0-only
//! What came of mutants is written down at once, so that a command that was cut short goes on where it was. It counts for as
//! long as the policy and its tests are the same ([`Bench::digest`](super::bench::Bench::digest)); after that it only tells
//! which test to try first.

use super::bench::Outcome;
use anyhow::{Context, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// A file of lines: digest, outcome, test, name of the mutant.
pub struct Judged {
    file: File,
    digest: String,
    known: Vec<Line>,
}

struct Line {
    digest: String,
    name: String,
    outcome: Outcome,
}

impl Judged {
    /// Reads the file, or begins one. Lines that say nothing, as the last one of a command that was killed, are passed over.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn open(path: &Path, digest: u64) -> Result<Judged> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            text => text.with_context(|| path.display().to_string())?,
        };
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        if !text.is_empty() && !text.ends_with('\n') {
            writeln!(file)?;
        }
        Ok(Judged { file, digest: format!("{digest:016x}"), known: text.lines().filter_map(read).collect() })
    }

    /// What came of it, by the tests of now.
    pub fn outcome(&self, name: &str) -> Option<Outcome> {
        let line = self.known.iter().find(|line| line.name == name && line.digest == self.digest);
        line.map(|line| line.outcome.clone())
    }

    /// The test that noticed it last.
    pub fn noticer(&self, name: &str) -> Option<&str> {
        self.known.iter().rev().filter(|line| line.name == name).find_map(|line| line.outcome.test())
    }

    /// All tests that noticed something, once for each time.
    pub fn noticers(&self) -> impl Iterator<Item = &str> {
        self.known.iter().filter_map(|line| line.outcome.test())
    }

    /// Writes one down.
    ///
    /// # Errors
    /// If the file takes no more.
    pub fn add(&mut self, name: &str, outcome: &Outcome) -> Result<()> {
        let how = match outcome {
            Outcome::Noticed(_) => "noticed",
            Outcome::Endless(_) => "endless",
            Outcome::Missed => "missed",
            Outcome::Refused => "refused",
        };
        writeln!(self.file, "{}\t{how}\t{}\t{name}", self.digest, outcome.test().unwrap_or_default())?;
        self.known.push(Line { digest: self.digest.clone(), name: name.to_owned(), outcome: outcome.clone() });
        Ok(())
    }
}

fn read(line: &str) -> Option<Line> {
    let [digest, how, test, name] = line.split('\t').collect::<Vec<_>>()[..] else { return None };
    let outcome = match how {
        "noticed" => Outcome::Noticed(test.to_owned()),
        "endless" => Outcome::Endless(test.to_owned()),
        "missed" => Outcome::Missed,
        "refused" => Outcome::Refused,
        _ => return None,
    };
    Some(Line { digest: digest.to_owned(), name: name.to_owned(), outcome })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_judged_counts_until_something_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("judged");
        let outcomes = [
            ("a", Outcome::Noticed("x::y".to_owned())),
            ("b", Outcome::Missed),
            ("c", Outcome::Endless("x::z".to_owned())),
            ("d", Outcome::Refused),
        ];
        let mut judged = Judged::open(&path, 1).unwrap();
        for (name, outcome) in &outcomes {
            assert_eq!(judged.outcome(name), None);
            judged.add(name, outcome).unwrap();
            assert_eq!(judged.outcome(name).as_ref(), Some(outcome));
        }
        write!(judged.file, "0000000000000001\tmis").unwrap();
        let mut again = Judged::open(&path, 1).unwrap();
        assert!(outcomes.iter().all(|(name, outcome)| again.outcome(name).as_ref() == Some(outcome)));
        again.add("e", &Outcome::Missed).unwrap();
        let other = Judged::open(&path, 2).unwrap();
        assert!(["a", "b", "c", "d", "e"].iter().all(|name| other.outcome(name).is_none()));
        assert_eq!((other.noticer("a"), other.noticer("b"), other.noticer("c")), (Some("x::y"), None, Some("x::z")));
        assert_eq!(
            (other.noticers().count(), Judged::open(&path, 1).unwrap().outcome("e")),
            (2, Some(Outcome::Missed))
        );
    }
}
