// SPDX-License-Identifier: GPL-2.0-only
//! Runs a command within limits of time, memory and output, and judges how it ended.

use anyhow::{Context, Result};
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Most CPU time of a command in seconds. CPU time, because other programs slow a busy host down.
pub const SECONDS: u32 = 10;
/// Most address space of a command in KiB: an upper bound of its memory.
const KIB: u64 = 1 << 20;
/// Most output to a file, in blocks of 512 bytes: 128 MiB.
const BLOCKS: u64 = 1 << 18;
/// Longest time that a command may wait without using the CPU.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(1);
/// Status of a Rust program that panicked.
const PANICKED: i32 = 101;
const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;

/// What a command must never do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Failure {
    /// It panicked.
    Panic,
    /// It took more than [`SECONDS`] of CPU time, or waited for something that never came.
    Time,
    /// It requested more than 1 GiB.
    Memory,
    /// A signal ended it, or it had a status that its help does not name.
    Status,
    /// Its output has characters that control a terminal.
    Control,
}

impl Failure {
    /// All failures, in the order of the report.
    pub const ALL: [Failure; 5] = [Failure::Panic, Failure::Time, Failure::Memory, Failure::Status, Failure::Control];

    /// Name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Failure::Panic => "panicked",
            Failure::Time => "over 10 s",
            Failure::Memory => "over 1 GiB",
            Failure::Status => "wrong status",
            Failure::Control => "control characters",
        }
    }
}

/// End of a command.
#[derive(Debug)]
pub struct Ended {
    /// What was wrong.
    pub failure: Option<Failure>,
    /// Its exit status, if it exited.
    pub code: Option<i32>,
    /// CPU time limit aside, the time that it took.
    pub took: Duration,
    /// Its standard error.
    pub errors: String,
}

/// Command line for a shell, which sets the limits and then becomes the command.
fn limited(words: &[String]) -> Command {
    let mut command = Command::new("sh");
    let script = format!("ulimit -c 0; ulimit -t {SECONDS}; ulimit -v {KIB}; ulimit -f {BLOCKS}; exec \"$@\"");
    command.args(["-c", &script, "sh"]).args(words);
    command
}

/// Runs a command in `directory`, with its output in files there.
///
/// # Errors
/// If it cannot be started, or its output cannot be read.
pub fn run(words: &[String], directory: &Path) -> Result<Ended> {
    let (out, err) = (directory.join("stdout"), directory.join("stderr"));
    let began = Instant::now();
    let mut child = limited(words)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(File::create(&out)?)
        .stderr(File::create(&err)?)
        .spawn()
        .context("cannot start sh")?;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break Some(status),
            None if began.elapsed() > PATIENCE => {
                child.kill()?;
                child.wait()?;
                break None;
            }
            None => std::thread::sleep(POLL),
        }
    };
    let took = began.elapsed();
    let (written, errors) = (fs::read(&out)?, fs::read(&err)?);
    let failure = status.map_or(Some(Failure::Time), |status| judge(status, &errors));
    let failure = failure.or_else(|| (has_control(&written) || has_control(&errors)).then_some(Failure::Control));
    let errors = String::from_utf8_lossy(&errors).into_owned();
    Ok(Ended { failure, code: status.and_then(|status| status.code()), took, errors })
}

fn judge(status: ExitStatus, errors: &[u8]) -> Option<Failure> {
    let says = |text: &str| errors.windows(text.len()).any(|part| part == text.as_bytes());
    match (status.code(), status.signal()) {
        (Some(PANICKED), _) => Some(Failure::Panic),
        _ if says("panicked at") => Some(Failure::Panic),
        (_, Some(SIGXCPU | SIGKILL)) => Some(Failure::Time),
        (_, Some(SIGABRT)) if says("memory allocation of") => Some(Failure::Memory),
        (Some(0..=2), _) => None,
        _ => Some(Failure::Status),
    }
}

/// Whether a text has characters that control a terminal, or change the order of the text around them.
pub fn has_control(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    text.chars().any(|c| match c {
        '\n' | '\t' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(script: &str) -> (Option<Failure>, Option<i32>) {
        let directory = tempfile::tempdir().unwrap();
        let words = ["sh", "-c", script].map(str::to_owned);
        let ended = run(&words, directory.path()).unwrap();
        (ended.failure, ended.code)
    }

    #[test]
    fn each_failure_is_noticed() {
        assert_eq!(ended("exit 2"), (None, Some(2)));
        assert_eq!(ended("exit 3"), (Some(Failure::Status), Some(3)));
        assert_eq!(ended("exit 101"), (Some(Failure::Panic), Some(101)));
        assert_eq!(ended("kill -SEGV $$"), (Some(Failure::Status), None));
        assert_eq!(ended("kill -XCPU $$"), (Some(Failure::Time), None));
        assert_eq!(ended("echo memory allocation of 9 bytes failed >&2; kill -ABRT $$"), (Some(Failure::Memory), None));
        assert_eq!(ended("printf 'a\\033[2Jb'"), (Some(Failure::Control), Some(0)));
        assert_eq!(ended("printf 'a\\nb\\tc\\n'"), (None, Some(0)));
        let limit = "a=x; while :; do a=$a$a$a$a$a$a$a$a; done";
        assert!(matches!(ended(limit).0, Some(Failure::Status | Failure::Memory)) || ended(limit).1 == Some(2));
    }

    #[test]
    fn marks_of_text_direction_count_as_control() {
        assert!(has_control("a\u{202e}b".as_bytes()) && has_control(b"\r") && has_control("\u{9b}".as_bytes()));
        assert!(!has_control("a 0,5 ms \u{2192} µ".as_bytes()));
    }
}
