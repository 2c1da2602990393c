// SPDX-License-Identifier: GPL-2.0-only
//! The commands of a page, run as its reader would: one after another in one empty folder, by a shell, with the `weir` that
//! was built in the `PATH`. What a terminal would show is one text, of both outputs.

use crate::page::{Block, Page};
use crate::shown;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};

/// The program under its name in a tree that was built; elsewhere it is installed.
const BUILT: &str = "target/release/weir";

/// One command of a block, and where it stands.
struct Step {
    /// Index of its line in the page.
    line: usize,
    command: String,
    /// What the page shows below it, as lines of the page.
    shown: Range<usize>,
}

/// What came of the commands of a page.
pub struct Played {
    /// What is wrong with the page, whatever its commands print.
    pub complaints: Vec<String>,
    /// Where a command prints something else than the page shows.
    pub differences: Vec<String>,
    /// The page with what they print.
    pub text: String,
}

/// Runs all commands of a page; `exact`: compares what they print.
pub fn play(page: &Page, exact: bool) -> Played {
    let folder = tempfile::tempdir().unwrap();
    let (mut complaints, mut differences) = (Vec::new(), Vec::new());
    let lines: Vec<String> = page.text.lines().map(str::to_owned).collect();
    let mut right: Vec<String> = Vec::new();
    let mut done = 0;
    for block in &page.blocks {
        if let Some(Err(error)) = block.file().map(|name| save(folder.path(), name, block)) {
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
            let (output, ended) = run(folder.path(), &step.command, status);
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
    Played { complaints, differences, text: right.iter().map(|line| format!("{line}\n")).collect() }
}

/// The commands of a block that is a session.
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

/// A reader's terminal has 80 columns; `$?` is the status of the command before.
fn run(folder: &Path, command: &str, before: i32) -> (Vec<String>, i32) {
    let program = Path::new(env!("CARGO_BIN_EXE_weir"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", program.parent().expect("it lies in a folder").display());
    let command = command.replace(BUILT, "weir");
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1; (exit {before}); {command}")])
        .current_dir(folder)
        .env("PATH", path)
        .env("COLUMNS", "80")
        .env_remove("BPF_CFLAGS")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (text.lines().map(|line| line.trim_end().to_owned()).collect(), output.status.code().unwrap_or(-1))
}

/// Writes a file, or changes it.
fn save(folder: &Path, name: &str, block: &Block) -> Result<(), String> {
    let path = folder.join(name);
    if block.kind() != "diff" {
        return fs::write(&path, block.text()).map_err(|error| format!("{name}: {error}"));
    }
    let text = fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
    let changed = changed(&text, &block.lines).ok_or_else(|| format!("the change does not fit {name} in one place"))?;
    fs::write(&path, changed).map_err(|error| format!("{name}: {error}"))
}

/// A text with changes. Each hunk ends with a line `@@`, or with the block.
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

/// What the clang that compiles policies says of itself.
pub fn clang_version() -> Option<String> {
    let output = Command::new(bpf_clang::find().ok()?).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let version = text.split_once("clang version ")?.1;
    Some(version.split(|c: char| c != '.' && !c.is_ascii_digit()).next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played(text: &str) -> Played {
        play(&Page::new("a.md", text), true)
    }

    fn complaints(text: &str) -> Vec<String> {
        let played = played(text);
        [played.complaints, played.differences].concat()
    }

    #[test]
    fn what_a_page_shows_is_compared() {
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
    fn what_is_renewed_is_right() {
        let old = "# A\n\n```console\n$ printf 'a 2\\nb\\nc\\n'\na 1\n...\nd\n$ weir --version\n```\ntext\n";
        let Played { complaints, differences, text } = played(old);
        assert_eq!((complaints, differences.len()), (Vec::new(), 2));
        let version = format!("weir {}", env!("CARGO_PKG_VERSION"));
        assert!(
            text.contains("a 2\n...\nc\n$ weir") && text.contains(&version) && text.ends_with("```\ntext\n"),
            "{text}"
        );
        let again = played(&text);
        assert_eq!((again.differences, &again.text), (Vec::new(), &text));
    }
}
