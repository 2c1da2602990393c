// SPDX-License-Identifier: GPL-2.0-only
//! The reference page of the headers, generated from their comments.

use std::fmt::Write;

/// Width of the page in columns.
const COLUMNS: usize = 116;

const HEAD: &str = "\
# Headers for schedulers

The headers with which Weir's own policies are written, for any scheduler in BPF C: `#include <weir/scx.bpf.h>` has the
ops, constants and kfuncs of sched_ext, the others what several policies share. `weir sim FILE.bpf.c` finds them by
itself; `weir generate headers DIRECTORY` writes them for other compilers. A header says in its first comment what a
scheduler may define before it includes the header. This page is generated from the comments:
`UPDATE_EXPECT=1 cargo test -p policies headers_page`.

A source that is written for libbpf and the scx repository is compiled with their headers instead. `BPF_CFLAGS` has the
options for clang: here for a clone of the repository on Debian with `libbpf-dev`. A scheduler of several files is
joined by `bpftool gen object` first, and the object is given to `weir`.

```sh
export BPF_CFLAGS=\"-I scx/scheds/include -I scx/scheds/include/bpf-compat -I scx/lib -I scx/scheds/vmlinux/arch/x86 \\
    -I /usr/include/x86_64-linux-gnu -D__TARGET_ARCH_x86\"
weir inspect scx/scheds/rust/scx_flash/src/bpf/main.bpf.c
```
";

/// The text of a comment without its marks, as one paragraph.
fn text(comment: &str) -> String {
    let lines = comment.trim().trim_start_matches("/*").trim_end_matches("*/").lines();
    lines.map(|line| line.trim().trim_start_matches('*').trim()).collect::<Vec<_>>().join(" ").trim().to_owned()
}

/// The first sentence of a text.
fn sentence(text: &str) -> &str {
    text.find(". ").map_or(text, |end| &text[..=end])
}

/// A name of the page: a macro, or a function with its parameters.
fn item(line: &str) -> Option<String> {
    let name_of = |rest: &str| {
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_')?;
        let arguments = rest[end..].strip_prefix('(').and_then(|rest| rest.split_once(')'));
        Some(match arguments {
            Some((arguments, _)) => format!("{}({arguments})", &rest[..end]),
            None => rest[..end].to_owned(),
        })
    };
    if let Some(rest) = line.strip_prefix("#define ") {
        return name_of(&format!("{rest} ")).filter(|name| !name.ends_with("_H") && !name.starts_with("__"));
    }
    if let Some((_, rest)) = line.strip_prefix("static ").and_then(|rest| rest.split_once("(*const ")) {
        return name_of(&rest.replacen(")(", "(", 1));
    }
    let is_function = line.starts_with("static ") && line.contains('(') && !line.contains('=');
    let is_kfunc = line.starts_with("extern ") && line.contains('(') && line.contains("__ksym");
    if !is_function && !is_kfunc {
        return None;
    }
    let before = &line[..line.find('(')?];
    name_of(&line[before.rfind([' ', '*'])? + 1..])
}

/// Breaks a paragraph into lines, with an indent from the second line on.
fn wrapped(page: &mut String, paragraph: &str, indent: &str) {
    let mut length = 0;
    for word in paragraph.replace('<', "\\<").split_whitespace() {
        if length > 0 && length + 1 + word.len() > COLUMNS {
            let _ = write!(page, "\n{indent}{word}");
            length = indent.len() + word.len();
        } else {
            let blank = if length > 0 { " " } else { "" };
            let _ = write!(page, "{blank}{word}");
            length += blank.len() + word.len();
        }
    }
    page.push('\n');
}

/// The section of one header: what it is for, and its macros and functions with their comments.
fn section(page: &mut String, name: &str, source: &str) {
    let mut rest = source.split_once("*/").expect("the licence comes first").1;
    let (theory, after) = rest.split_once("*/").expect("a comment says what the header is for");
    let _ = write!(page, "\n## `<{name}>`\n\n");
    wrapped(page, sentence(&text(theory)), "");
    page.push('\n');
    rest = after;
    let mut comment = String::new();
    let mut lines = rest.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("/*") {
            comment = line.to_owned();
            while !comment.contains("*/") {
                comment = format!("{comment}\n{}", lines.next().expect("comments end"));
            }
            comment = text(&comment);
        } else if line.is_empty() {
            comment.clear();
        } else if let Some(mut name) = item(line) {
            // Parameters may continue on the next line.
            if line.ends_with(',') && !name.contains('(') {
                let more = lines.peek().map_or("", |next| next.trim());
                name = item(&format!("{line} {more}")).unwrap_or(name);
            }
            let own = line.split_once("/*").map(|(_, own)| text(own)).unwrap_or_default();
            let said = if own.is_empty() { std::mem::take(&mut comment) } else { own };
            let colon = if said.is_empty() { "" } else { ": " };
            wrapped(page, &format!("- `{name}`{colon}{said}"), "  ");
        }
    }
}

#[test]
fn headers_page_lists_macros_and_functions_with_their_comments() {
    let mut page = HEAD.to_owned();
    for (name, source) in policies::HEADERS {
        // Kernel types, and what the unit tests of the headers use.
        if !["weir/kernel.bpf.h", "weir/host.h"].contains(name) {
            section(&mut page, name, source);
        }
    }
    expect_test::expect_file!["../../../../docs/reference/headers.md"].assert_eq(&page);
}
