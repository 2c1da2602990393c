// SPDX-License-Identifier: GPL-2.0-only
//! Skipped tests. A test that lacks something of its machine (a kernel, a tool, a right) passes, and Rust's test runner
//! hides what it prints. [`skip`] therefore also appends a line to the file that [`LIST`] names, so that `make test`
//! can count the skipped tests, and CI can refuse a skip of something that it has.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;

/// Environment variable with the path of the list. Without it nothing is written.
pub const LIST: &str = "WEIR_SKIPPED_TESTS";

/// Says that the calling test is skipped for this reason, in one line.
///
/// # Panics
/// If the list cannot be written.
pub fn skip(reason: impl Display) {
    eprintln!("skipped: {reason}");
    let Some(path) = std::env::var_os(LIST) else { return };
    // The test runner names each thread by its test.
    let thread = std::thread::current();
    let line = format!("{}\t{reason}\n", thread.name().unwrap_or("a test"));
    let list = OpenOptions::new().append(true).create(true).open(&path);
    // One write call: tests of several programs append at the same time.
    let written = list.and_then(|mut list| list.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Runs itself again with the variable set, which must not change in a running process.
    #[test]
    fn skipped_test_is_listed_with_its_name_and_reason() {
        const NAME: &str = "tests::skipped_test_is_listed_with_its_name_and_reason";
        if std::env::var_os("WEIR_SKIP_INNER").is_some() {
            return skip(format_args!("no {}", "kernel"));
        }
        let path = std::env::temp_dir().join(format!("weir-skip-{}", std::process::id()));
        let status = Command::new(std::env::current_exe().unwrap())
            .args([NAME, "--exact"])
            .env(LIST, &path)
            .env("WEIR_SKIP_INNER", "1")
            .status()
            .unwrap();
        let list = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(status.success());
        assert_eq!(list, format!("{NAME}\tno kernel\n"));
    }
}
