// SPDX-License-Identifier: GPL-2.0-only
//! Executes the commands of a page as a reader would: one after another in an initially empty directory, in a shell,
//! with the built `weir` in the `PATH`. Standard output and standard error are merged.

use super::page::{Block, Page};
use super::shown;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};

/// Path of the program in a built source tree; pages may also use the installed name.
const BUILT: &str = "target/release/weir";

/// A command of a block and its position.
struct Step {
    /// Index of its line in the page.
    line: usize,
    command: String,
    /// Range of page lines with the output shown below it.
    shown: Range<usize>,
}

/// Result of executing a page.
pub struct Executed {
    /// Errors in the page that do not depend on the output of its commands.
    pub complaints: Vec<String>,
    /// Commands whose output differs from the page.
    pub differences: Vec<String>,
    /// The page with updated output.
    pub text: String,
}

/// Executes all commands of a page; `exact` compares their output.
pub fn execute(page: &Page, exact: bool) -> Executed {
    let directory = tempfile::tempdir().unwrap();
    let (mut complaints, mut differences) = (Vec::new(), Vec::new());
    let lines: Vec<String> = page.text.lines().map(str::to_owned).collect();
    let mut right: Vec<String> = Vec::new();
    let mut done = 0;
    for block in &page.blocks {
        if let Some(Err(error)) = block.file().map(|name| save(directory.path(), name, block)) {
            complaints.push(format!("{}:{}: {error}", page.name, block.first));
        }
        let mut status = 0;
        for step in steps(block) {
            let asked = step.command == "echo $?";
            if status != 0 && !asked {
                complaints.push(format!(
                    "{}:{}: the one before ended with {status}: no `$ echo $?`",
                    page.name,
                    step.line + 1
                ));
            }
            let (output, ended) = run(directory.path(), &step.command, status);
            status = ended;
            let wanted = &lines[step.shown.clone()];
            right.extend_from_slice(&lines[done..step.shown.start]);
            done = step.shown.end;
            if !exact || shown::agrees(wanted, &output) {
                right.extend_from_slice(wanted);
            } else {
                differences.push(difference(page, &step, wanted, &output));
                right.extend(shown::renewed(wanted, &output));
            }
        }
        if status != 0 {
            complaints.push(format!("{}:{}: its last command ended with {status}", page.name, block.first));
        }
    }
    right.extend_from_slice(&lines[done..]);
    Executed { complaints, differences, text: right.iter().map(|line| format!("{line}\n")).collect() }
}

/// Commands of a console block.
fn steps(block: &Block) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    if block.kind() != "console" {
        return steps;
    }
    for (index, line) in block.lines.iter().enumerate() {
        let at = block.first + index;
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { line: at, command: command.to_owned(), shown: at + 1..at + 1 });
            continue;
        }
        let step = steps.last_mut().expect("a session begins with a command");
        if step.command.ends_with('\\') && step.shown.is_empty() {
            step.command.truncate(step.command.len() - 1);
            step.command.push_str(line.trim_start());
            step.shown = at + 1..at + 1;
        } else {
            step.shown.end = at + 1;
        }
    }
    steps
}

/// Runs a command with 80 columns; `before` is the previous exit status, for `$?`.
fn run(directory: &Path, command: &str, before: i32) -> (Vec<String>, i32) {
    let program = Path::new(env!("CARGO_BIN_EXE_weir"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", program.parent().expect("it is inside a directory").display());
    let command = command.replace(BUILT, "weir");
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1; (exit {before}); {command}")])
        .current_dir(directory)
        .env("PATH", path)
        .env("COLUMNS", "80")
        .env_remove("BPF_CFLAGS")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (text.lines().map(|line| line.trim_end().to_owned()).collect(), output.status.code().unwrap_or(-1))
}

/// Writes or patches a file of a page.
fn save(directory: &Path, name: &str, block: &Block) -> Result<(), String> {
    let path = directory.join(name);
    if block.kind() != "diff" {
        return fs::write(&path, block.text()).map_err(|error| format!("{name}: {error}"));
    }
    let text = fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
    let changed = changed(&text, &block.lines).ok_or_else(|| format!("the change does not fit {name} in one place"))?;
    fs::write(&path, changed).map_err(|error| format!("{name}: {error}"))
}

/// Applies a change. Hunks are separated by `@@` lines.
fn changed(text: &str, lines: &[String]) -> Option<String> {
    let mut text = text.to_owned();
    for hunk in lines.split(|line| line.starts_with("@@")).filter(|hunk| !hunk.is_empty()) {
        let side = |sign: char| -> String {
            let of = |line: &&String| line.is_empty() || line.starts_with([' ', sign]);
            hunk.iter().filter(of).map(|line| format!("{}\n", line.get(1..).unwrap_or(""))).collect()
        };
        let (old, new) = (side('-'), side('+'));
        if text.matches(&old).count() != 1 {
            return None;
        }
        text = text.replacen(&old, &new, 1);
    }
    Some(text)
}

fn difference(page: &Page, step: &Step, shown: &[String], output: &[String]) -> String {
    let text = |lines: &[String]| lines.iter().map(|line| format!("  | {line}\n")).collect::<String>();
    let Step { line, command, .. } = step;
    format!("{}:{}: $ {command}\n shown:\n{} it prints:\n{}", page.name, line + 1, text(shown), text(output))
}

/// Version of the clang that compiles policies.
pub fn clang_version() -> Option<String> {
    let output = Command::new(bpf_clang::find().ok()?).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let version = text.split_once("clang version ")?.1;
    Some(version.split(|c: char| c != '.' && !c.is_ascii_digit()).next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executed(text: &str) -> Executed {
        execute(&Page::new("a.md", text), true)
    }

    fn complaints(text: &str) -> Vec<String> {
        let executed = executed(text);
        [executed.complaints, executed.differences].concat()
    }

    #[test]
    fn output_differences_and_failed_commands_are_reported() {
        let fine = "```c file=a.c\nint a;\nint b;\n```\n```diff file=a.c\n-int a;\n+int c;\n int b;\n```\n\
                    ```console\n$ cat a.c\nint c;\nint b;\n$ false\n$ echo $?\n1\n$ echo a \\\n  b; echo c\na b\nc\n```\n";
        assert_eq!(complaints(fine), Vec::<String>::new());
        for (from, to, expected) in [
            ("\nint c;\nint b;\n$", "\nint a;\nint b;\n$", "a.md:11: $ cat a.c\n shown:\n  | int a;"),
            ("$ echo $?\n1\n", "", "a.md:15: the one before ended with 1"),
            ("$ echo a", "$ false\n$ echo a", "the one before ended with 1"),
            ("\na b\nc\n", "\na b\n", "it prints:\n  | a b\n  | c\n"),
            ("-int a;", "-int d;", "a.md:5: the change does not fit a.c in one place"),
        ] {
            let broken = fine.replacen(from, to, 1);
            assert_ne!(broken, fine);
            let found = complaints(&broken).join("\n");
            assert!(found.contains(expected), "{expected}: {found}");
        }
    }

    #[test]
    fn updated_page_passes_the_comparison() {
        let old = "# A\n\n```console\n$ printf 'a 2\\nb\\nc\\n'\na 1\n...\nd\n$ weir --version\n```\ntext\n";
        let Executed { complaints, differences, text } = executed(old);
        assert_eq!((complaints, differences.len()), (Vec::new(), 2));
        let version = format!("weir {}", env!("CARGO_PKG_VERSION"));
        assert!(
            text.contains("a 2\n...\nc\n$ weir") && text.contains(&version) && text.ends_with("```\ntext\n"),
            "{text}"
        );
        let again = executed(&text);
        assert_eq!((again.differences, &again.text), (Vec::new(), &text));
    }
}
