// SPDX-License-Identifier: GPL-2.0-only
//! House rules that rustfmt and clippy do not check. The test below enforces them, and `cargo run -p xtask -- tidy`
//! lists violations. CONTRIBUTING.md gives the reasons.

use crate::{architecture, licences, words};
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum line length in columns; a tab counts as 8. rustfmt limits code to 120; prose may be slightly longer.
const MOST_COLUMNS: usize = 128;
/// Maximum length of a source file in lines.
const MOST_LINES: usize = 800;
/// Maximum length of a policy source or shared header in lines: each should read like a paper.
const MOST_POLICY_LINES: usize = 600;
/// Maximum length of a Rust function in lines: one screen.
const MOST_FUNCTION_LINES: usize = 70;
/// Exempt functions, with the reason.
const LONG_FUNCTIONS: [(&str, &str); 1] =
    [("crates/bpf-machine/src/interpreter/straight.rs", "one match over all instructions")];
/// Directories and files of tests, whose tables of cases make functions and lines long.
const TESTS: [&str; 3] = ["/tests/", "tests.rs", "/benches/"];
/// Number of leading lines that must contain the license; a script begins with `#!`.
const LICENCE_LINES: usize = 3;

/// Markers of unfinished work, in two parts so that this file does not contain them.
const UNFINISHED: [(&str, &str); 5] =
    [("todo", "!("), ("unimplemented", "!("), ("dbg", "!("), ("TO", "DO"), ("FIX", "ME")];

/// Machine-specific paths and package registries, which readers of the repository may not have.
const LOCAL: [(&str, &str); 8] = [
    ("/ro", "ot/"),
    ("/wo", "rk/"),
    ("/ho", "me/"),
    ("crates", ".io"),
    ("py", "pi.org"),
    ("deb.", "debian.org"),
    ("registry.", "npmjs"),
    ("static.", "rust-lang.org"),
];

/// APIs that depend on host or time; only some crates may use them, so that results are the same everywhere.
const AMBIENT: [&str; 7] =
    ["std::fs", "std::env", "std::net", "std::process", "std::thread", "Instant::now", "SystemTime"];
/// Macros that print text as it is: names in it could control the terminal.
const RAW_OUTPUT: [&str; 4] = ["print!(", "println!(", "eprint!(", "eprintln!("];
/// Types with random iteration order.
const UNORDERED: [&str; 2] = ["HashMap", "HashSet"];
/// Crates that may use host and time: programs, kernel access, and helpers of build scripts and tests.
const WORLDLY: [&str; 11] = [
    "crates/campaign/src/store.rs",
    "crates/executor/",
    "crates/host/",
    "crates/kernel-link/",
    "crates/output-file/",
    "crates/playground-page/",
    "crates/skip/",
    "crates/bpf-clang/",
    "workhorses/bitfit/src/cli/",
    "workhorses/ixfs/",
    "workhorses/lrz/",
];

/// Files that name old words on purpose.
const NAMES_OLD_WORDS: [&str; 3] = ["CHANGELOG.md", "CONTRIBUTING.md", "xtask/src/words.rs"];
/// Single lines with an old word that must stay, as file and a part of the line: a name that selects a random stream.
const KEPT_OLD_WORDS: [(&str, &str); 2] =
    [("crates/machine-model/src/draws.rs", "locks.acquire_ns.iter_mut()"), ("docs/claims.md", "nix-amp-speeds-up")];

/// A file of the repository.
struct File {
    /// Path relative to the root, with slashes.
    path: String,
    text: String,
}

/// Returns all violations as `path:line: message`.
pub fn complaints(root: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    list(root, &mut paths);
    paths.sort();
    let mut complaints = Vec::new();
    for path in paths {
        // Binary files such as recordings have no rules.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let path = path.strip_prefix(root).expect("found below root").to_string_lossy().into_owned();
        check(&File { path, text }, &mut complaints);
    }
    complaints.extend(architecture::complaints(root));
    complaints.extend(licences::complaints(root));
    complaints
}

fn list(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if name == "target" || name == ".git" {
            continue;
        }
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => list(&path, paths),
            Ok(kind) if kind.is_file() => paths.push(path),
            _ => {}
        }
    }
}

fn check(file: &File, complaints: &mut Vec<String>) {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    let kind = name.rsplit_once('.').map_or(name, |(_, end)| end);
    let code = matches!(kind, "rs" | "c" | "h" | "sh" | "js" | "css" | "Makefile" | "run");
    if !code && !matches!(kind, "toml" | "md") {
        return;
    }
    let mut complain = |line: usize, what: String| complaints.push(format!("{}:{line}: {what}", file.path));
    if kind != "md" {
        check_licence(file, &mut complain);
    } else {
        check_title(file, &mut complain);
    }
    let most = if file.path.starts_with("policies/") { MOST_POLICY_LINES } else { MOST_LINES };
    if code && file.text.lines().count() > most {
        complain(most + 1, format!("file longer than {most} lines"));
    }
    if kind == "rs" {
        let test = TESTS.iter().any(|part| file.path.contains(part));
        if !test && !LONG_FUNCTIONS.iter().any(|(path, _)| *path == file.path) {
            check_functions(file, &mut complain);
        }
        check_ambient(file, &mut complain);
        check_output(file, &mut complain);
    }
    check_lines(file, kind, &mut complain);
}

fn check_licence(file: &File, complain: &mut dyn FnMut(usize, String)) {
    // The workhorses have their own license, for use elsewhere.
    let licence = if file.path.starts_with("workhorses/") {
        "SPDX-License-Identifier: MIT OR Apache-2.0"
    } else {
        "SPDX-License-Identifier: GPL-2.0-only"
    };
    if !file.text.lines().take(LICENCE_LINES).any(|line| line.contains(licence)) {
        complain(1, "no SPDX line".to_owned());
    }
}

fn check_title(file: &File, complain: &mut dyn FnMut(usize, String)) {
    let mut fenced = false;
    // The table of contents has a title for each part of the book.
    let numbered = numbered(&file.text).filter(|_| !file.path.ends_with("SUMMARY.md"));
    for (line, text) in numbered {
        fenced ^= text.starts_with("```");
        let title = text.starts_with("# ") && !fenced;
        if title != (line == 1) {
            complain(line, "expected one title, in the first line of the document".to_owned());
        }
    }
}

/// Checks function lengths; after rustfmt a function ends with a brace in the column of its first letter.
fn check_functions(file: &File, complain: &mut dyn FnMut(usize, String)) {
    let mut open: Option<(usize, &str)> = None;
    for (line, text) in numbered(&file.text) {
        let indent = &text[..text.len() - text.trim_start().len()];
        match open {
            Some((begin, of)) if indent == of && text.trim_start() == "}" => {
                if line + 1 - begin > MOST_FUNCTION_LINES {
                    complain(
                        begin,
                        format!("function of {} lines; at most {MOST_FUNCTION_LINES} are allowed", line + 1 - begin),
                    );
                }
                open = None;
            }
            None if is_function(text.trim_start()) && !text.ends_with('}') && !text.ends_with(';') => {
                open = Some((line, indent));
            }
            _ => {}
        }
    }
}

fn is_function(text: &str) -> bool {
    let words = ["pub", "pub(crate)", "pub(super)", "const", "unsafe", "extern", "\"C\"", "async"];
    text.split(' ').find(|word| !words.contains(word)) == Some("fn")
}

/// In the program, all text goes through `weir/src/output.rs`, which escapes control characters.
fn check_output(file: &File, complain: &mut dyn FnMut(usize, String)) {
    if !file.path.starts_with("weir/src/") || file.path == "weir/src/output.rs" {
        return;
    }
    for (line, text) in numbered(&file.text) {
        let is_word = |at: usize| !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        if RAW_OUTPUT.iter().any(|name| text.find(name).is_some_and(is_word)) {
            complain(line, "prints text as it is; expected output::print, output::tell or say!".to_owned());
        }
    }
}

fn check_ambient(file: &File, complain: &mut dyn FnMut(usize, String)) {
    // Build scripts, tests and benches run on the developer's machine, not in a simulation.
    if !["crates/", "workhorses/"].iter().any(|folder| file.path.starts_with(folder))
        || WORLDLY.iter().any(|worldly| file.path.starts_with(worldly))
        || TESTS.iter().any(|part| file.path.contains(part))
        || file.path.ends_with("build.rs")
    {
        return;
    }
    for (line, text) in numbered(&file.text).take_while(|(_, text)| !text.starts_with("#[cfg(test)]")) {
        if text.trim_start().starts_with("//") {
            continue;
        }
        for word in AMBIENT.iter().chain(&UNORDERED).filter(|word| text.contains(**word)) {
            complain(line, format!("{word}: results must be the same on every host"));
        }
    }
}

fn check_lines(file: &File, kind: &str, complain: &mut dyn FnMut(usize, String)) {
    let find = |text: &str, (a, b): &(&str, &str)| text.contains(&format!("{a}{b}"));
    let mut session = false;
    for (line, text) in numbered(&file.text) {
        if kind == "md" && text.starts_with("```") {
            session = text.starts_with("```console");
        }
        let columns: usize = text.chars().map(|c| if c == '\t' { 8 } else { 1 }).sum();
        // Markdown tables and command output cannot be wrapped, and rustfmt wraps neither strings nor macro
        // arguments.
        let unbreakable = match kind {
            "md" => text.starts_with('|') || session,
            "rs" => text.contains('"') || text.trim_start().starts_with("fn "),
            _ => false,
        };
        if columns > MOST_COLUMNS && !unbreakable {
            complain(line, format!("{columns} columns; at most {MOST_COLUMNS} are allowed"));
        }
        let kept = KEPT_OLD_WORDS.iter().any(|&(path, part)| file.path == path && text.contains(part));
        if !kept && !NAMES_OLD_WORDS.contains(&file.path.as_str()) {
            let old = words::found(text).into_iter();
            old.for_each(|(old, new)| complain(line, format!("\"{old}\": write \"{new}\"")));
        }
        if text.ends_with([' ', '\t']) {
            complain(line, "trailing blanks".to_owned());
        }
        if UNFINISHED.iter().any(|word| find(text, word)) {
            complain(line, "unfinished".to_owned());
        }
        if LOCAL.iter().any(|word| find(text, word)) {
            complain(line, "path or registry of one machine".to_owned());
        }
    }
    if !file.text.ends_with('\n') || file.text.ends_with("\n\n") {
        complain(file.text.lines().count(), "expected exactly one newline at the end of the file".to_owned());
    }
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let complaints = complaints(crate::root());
        assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
    }

    fn of(path: &str, text: &str) -> Vec<String> {
        let mut complaints = Vec::new();
        check(&File { path: path.to_owned(), text: text.to_owned() }, &mut complaints);
        complaints
    }

    const SPDX: &str = "// SPDX-License-Identifier: GPL-2.0-only\n";

    #[test]
    fn every_rule_can_be_broken() {
        let long = "x".repeat(MOST_COLUMNS + 1);
        let function = format!("fn f() {{\n{}}}\n", "    g();\n".repeat(MOST_FUNCTION_LINES - 1));
        let lines = "//\n".repeat(MOST_LINES);
        let unfinished = format!("{}{}\n", UNFINISHED[0].0, UNFINISHED[0].1);
        let local = format!("// {}{}\n", LOCAL[0].0, LOCAL[0].1);
        for (path, text, expected) in [
            ("a.rs", "fn f() {}\n", "a.rs:1: no SPDX line"),
            ("a.rs", &format!("{SPDX}// {long}\n"), "a.rs:2: 132 columns; at most 128 are allowed"),
            ("a.c", &format!("{SPDX}{}\n", "\t".repeat(17)), "a.c:2: 136 columns; at most 128 are allowed"),
            ("a.rs", &format!("{SPDX}{function}"), "a.rs:2: function of 71 lines; at most 70 are allowed"),
            ("a.rs", &format!("{SPDX}{lines}"), "a.rs:801: file longer than 800 lines"),
            ("policies/a/a.bpf.c", &format!("{SPDX}{lines}"), "policies/a/a.bpf.c:601: file longer than 600 lines"),
            ("a.rs", &format!("{SPDX}{unfinished}"), "a.rs:2: unfinished"),
            ("a.rs", &format!("{SPDX}{local}"), "a.rs:2: path or registry of one machine"),
            ("a.rs", &format!("{SPDX}fn f() {{}} \n"), "a.rs:2: trailing blanks"),
            ("a.rs", SPDX.trim_end(), "a.rs:1: expected exactly one newline at the end of the file"),
            (
                "crates/ids/src/a.rs",
                &format!("{SPDX}use std::fs;\n"),
                "crates/ids/src/a.rs:2: std::fs: results must be the same on every host",
            ),
            (
                "weir/src/a.rs",
                &format!("{SPDX}    eprintln!(\"a\");\n"),
                "weir/src/a.rs:2: prints text as it is; expected output::print, output::tell or say!",
            ),
            ("a.md", "text\n", "a.md:1: expected one title, in the first line of the document"),
            ("a.md", "# a\n# b\n", "a.md:2: expected one title, in the first line of the document"),
            ("a.md", &format!("# a\n```console\n```\n{long}\n"), "a.md:4: 129 columns; at most 128 are allowed"),
        ] {
            assert!(of(path, text).contains(&expected.to_owned()), "{path}: {expected}: {:?}", of(path, text));
        }
    }

    #[test]
    fn tidy_accepts_allowed_constructs() {
        let function = format!("{SPDX}fn f() {{\n{}}}\n", "    g();\n".repeat(MOST_FUNCTION_LINES - 2));
        let table = format!("# a\n\n```\n# no title\n```\n| {} |\n", "x".repeat(MOST_COLUMNS));
        for (path, text) in [
            ("a.rs", &*function),
            ("a.md", &table),
            ("a.md", &format!("# a\n```console\n$ a\n{}\n```\n", "x".repeat(MOST_COLUMNS + 1))),
            ("a.bin", "todo"),
            ("crates/kernel-link/src/a.rs", &format!("{SPDX}use std::fs;\n")),
            ("crates/ids/src/a.rs", &format!("{SPDX}#[cfg(test)]\nmod tests {{\n    use std::fs;\n}}\n")),
        ] {
            assert_eq!(of(path, text), Vec::<String>::new(), "{path}");
        }
    }
}
