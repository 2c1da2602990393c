// SPDX-License-Identifier: GPL-2.0-only
//! The program as `make test` calls it.
//!
//! That this program exists has a second use: `cargo test --workspace` builds `xtask` with it, so that `make test` need not
//! compile it and its dependencies once more with other features.

use std::process::{Command, Output};

fn xtask(args: &[&str], ci: bool) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(args).env("CI", if ci { "true" } else { "false" }).output().unwrap()
}

#[test]
fn skipped_tests_are_refused_only_in_ci_and_only_for_lack_of_a_package() {
    let directory = tempfile::tempdir().unwrap();
    let list = directory.path().join("list");
    let path = list.to_str().unwrap();
    for (reason, ci, status) in
        [("lrzip is not installed", true, 2), ("lrzip is not installed", false, 0), ("one CPU only", true, 0)]
    {
        std::fs::write(&list, format!("a_test\t{reason}\n")).unwrap();
        let output = xtask(&["skipped", path], ci);
        assert_eq!(output.status.code(), Some(status), "{reason} {ci}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(&format!("1  {reason} (a_test)")));
    }
}

#[test]
fn unknown_task_is_bad_usage() {
    let output = xtask(&["tydi"], false);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("tydi"), "the error names it");
}
