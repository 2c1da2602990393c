// SPDX-License-Identifier: GPL-2.0-only
//! The manual in `docs/` and the README hold what they show: their commands run, print what stands below them, and name
//! options that exist; every page is in the table of contents, links lead somewhere, and every key has a glossary entry.
//!
//! `UPDATE_EXPECT=1 cargo test -p weir --test manual` writes what the commands print now into the pages.

mod glossary;
mod links;
mod page;
mod session;
mod shown;

use page::Page;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::{env, fs, thread};

/// What clang makes of a source decides what its callbacks cost, so outputs are compared where it is this one.
const CLANG: &str = "19.1.7";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The README and each page of the manual, by name, relative to the root.
fn pages() -> Vec<Page> {
    let mut names = Vec::new();
    for directory in ["docs", "docs/tutorial", "docs/how-to", "docs/reference", "docs/explanation", "lab/results"] {
        let entries = fs::read_dir(root().join(directory)).unwrap();
        let inside = entries.map(|entry| format!("{directory}/{}", entry.unwrap().file_name().to_str().unwrap()));
        names.extend(inside.filter(|name| name.ends_with(".md")));
    }
    names.sort();
    names.insert(0, "README.md".to_owned());
    names.into_iter().map(|name| Page::new(&name, &fs::read_to_string(root().join(&name)).unwrap())).collect()
}

/// Pages are independent of each other, so they run side by side.
#[test]
fn commands_print_what_the_pages_show() {
    let pages = pages();
    let renew = env::var_os("UPDATE_EXPECT").is_some();
    let exact = session::clang_version().is_some_and(|version| version == CLANG);
    if !exact {
        eprintln!("clang is not {CLANG}: of commands only the exit status is compared");
        assert!(!renew, "outputs are those of clang {CLANG}");
    }
    let queue = Mutex::new(pages.iter().filter(|page| page.has_sessions()));
    let complaints = Mutex::new(Vec::new());
    let work = || {
        while let Some(page) = { queue.lock().unwrap().next() } {
            let played = session::play(page, exact);
            complaints.lock().unwrap().extend(played.complaints);
            if !renew {
                complaints.lock().unwrap().extend(played.differences);
            } else if played.text != page.text {
                fs::write(root().join(&page.name), played.text).unwrap();
            }
        }
    };
    thread::scope(|scope| (0..4).for_each(|_| _ = scope.spawn(work)));
    let mut complaints = complaints.into_inner().unwrap();
    complaints.sort();
    assert!(complaints.is_empty(), "{}\nUPDATE_EXPECT=1 renews what is shown", complaints.join("\n"));
}

/// The tutorial and the README are what a newcomer reads first: they cannot lose their commands unnoticed.
#[test]
fn pages_that_teach_have_commands() {
    for name in [
        "README.md",
        "docs/tutorial/first-scheduler.md",
        "docs/how-to/choose-a-scheduler.md",
        "docs/how-to/why-a-build-does-not-scale.md",
        "docs/how-to/teach.md",
    ] {
        let pages = pages();
        let page = pages.iter().find(|page| page.name == name).unwrap_or_else(|| panic!("no {name}"));
        assert!(page.has_sessions(), "{name} shows no command that is run");
    }
}
