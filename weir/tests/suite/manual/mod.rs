// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the manual in `docs/` and the README: commands run and print the output shown, options exist, every page
//! is in the table of contents, links work, and every key has a glossary entry.
//!
//! `UPDATE_EXPECT=1 cargo test -p weir manual` replaces the output in the pages by the current one.

mod glossary;
mod links;
mod page;
mod session;
mod shown;

use page::Page;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::{env, fs, thread};

/// The costs of callbacks depend on the code that clang generates, so outputs are compared only with this version.
const CLANG: &str = "19.1.7";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The README and all pages of the manual; names are relative to the root.
fn pages() -> Vec<Page> {
    let mut names = Vec::new();
    let directories =
        ["docs", "docs/course", "docs/tutorial", "docs/how-to", "docs/reference", "docs/explanation", "lab/results"];
    for directory in directories {
        let entries = fs::read_dir(root().join(directory)).unwrap();
        let inside = entries.map(|entry| format!("{directory}/{}", entry.unwrap().file_name().to_str().unwrap()));
        names.extend(inside.filter(|name| name.ends_with(".md")));
    }
    names.sort();
    names.insert(0, "README.md".to_owned());
    names.into_iter().map(|name| Page::new(&name, &fs::read_to_string(root().join(&name)).unwrap())).collect()
}

/// Pages are independent of each other and run in parallel.
#[test]
fn documented_commands_print_the_output_shown() {
    let pages = pages();
    let renew = env::var_os("UPDATE_EXPECT").is_some();
    let exact = session::clang_version().is_some_and(|version| version == CLANG);
    if !exact {
        eprintln!("clang is not {CLANG}: only the exit status of commands is checked");
        assert!(!renew, "outputs can be updated only with clang {CLANG}");
    }
    let queue = Mutex::new(pages.iter().filter(|page| page.has_sessions()));
    let complaints = Mutex::new(Vec::new());
    let work = || {
        while let Some(page) = { queue.lock().unwrap().next() } {
            let executed = session::execute(page, exact);
            complaints.lock().unwrap().extend(executed.complaints);
            if !renew {
                complaints.lock().unwrap().extend(executed.differences);
            } else if executed.text != page.text {
                fs::write(root().join(&page.name), executed.text).unwrap();
            }
        }
    };
    thread::scope(|scope| (0..4).for_each(|_| _ = scope.spawn(work)));
    let mut complaints = complaints.into_inner().unwrap();
    complaints.sort();
    assert!(complaints.is_empty(), "{}\nUPDATE_EXPECT=1 updates the pages", complaints.join("\n"));
}

/// The README and these pages must keep their commands, which newcomers try first.
#[test]
fn introductory_pages_have_executable_commands() {
    for name in [
        "README.md",
        "docs/tutorial/first-scheduler.md",
        "docs/how-to/choose-a-scheduler.md",
        "docs/how-to/why-a-build-does-not-scale.md",
        "docs/how-to/teach.md",
    ] {
        let pages = pages();
        let page = pages.iter().find(|page| page.name == name).unwrap_or_else(|| panic!("no {name}"));
        assert!(page.has_sessions(), "{name} has no executable command");
    }
}
