// SPDX-License-Identifier: MIT OR Apache-2.0
//! A C program compiled with the header and linked with the static library uses every function.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;

fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}:\n{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn c_program_uses_every_function() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capi");
    let features = ["--no-default-features", "--features", "capi", "--crate-type", "staticlib"];
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(here).args(["rustc", "--quiet", "--locked", "--lib", "--target-dir"]).arg(&target);
    succeed(cargo.args(features));
    let program = target.join("use");
    let warnings = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"];
    let mut cc = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()));
    cc.args(warnings).arg("-I").arg(here.join("include")).arg(here.join("tests/c/use.c"));
    // Libraries that Rust's standard library needs, as listed by `--print native-static-libs`.
    cc.arg(target.join("debug/libbitfit.a")).args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program);
    succeed(&mut cc);
    assert_eq!(succeed(&mut Command::new(program)), "fine\n");
}
