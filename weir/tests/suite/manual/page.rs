// SPDX-License-Identifier: GPL-2.0-only
//! A page of the manual and its fenced blocks. The info string after the fence says what a block is:
//!
//! - `console`: commands after `$ `, each followed by its output. The commands of a page run one after another in one
//!   directory.
//! - `c file=NAME`, `json file=NAME`, …: the reader saves this as NAME, and so does the test.
//! - `diff file=NAME`: the reader applies this change to NAME; the context and `-` lines must occur exactly once in
//!   it.
//!
//! All other blocks are not executed.

/// Fenced block.
#[derive(Debug)]
pub struct Block {
    /// Words of the info string.
    pub words: Vec<String>,
    /// Index of its first line after the fence.
    pub first: usize,
    /// Lines of the block.
    pub lines: Vec<String>,
}

impl Block {
    pub fn kind(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// Name of the file that the block creates or changes.
    pub fn file(&self) -> Option<&str> {
        self.words.iter().find_map(|word| word.strip_prefix("file="))
    }

    pub fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

/// Markdown page.
pub struct Page {
    /// Path relative to the root of the repository.
    pub name: String,
    pub text: String,
    pub blocks: Vec<Block>,
}

impl Page {
    pub fn new(name: &str, text: &str) -> Self {
        let mut blocks: Vec<Block> = Vec::new();
        let mut open = false;
        for (index, line) in text.lines().enumerate() {
            if let Some(info) = line.strip_prefix("```") {
                open = !open;
                if open {
                    let words = info.split_whitespace().map(str::to_owned).collect();
                    blocks.push(Block { words, first: index + 1, lines: Vec::new() });
                }
            } else if open {
                blocks.last_mut().expect("one is open").lines.push(line.to_owned());
            }
        }
        assert!(!open, "{name}: a fence is not closed");
        Self { name: name.to_owned(), text: text.to_owned(), blocks }
    }

    pub fn has_sessions(&self) -> bool {
        self.blocks.iter().any(|block| block.kind() == "console")
    }
}

#[test]
fn fenced_blocks_are_parsed_with_their_info_strings() {
    let page = Page::new("a.md", "# A\n\n```c file=a.bpf.c\nint a;\n```\ntext\n```\n$ no\n```\n");
    let seen: Vec<_> =
        page.blocks.iter().map(|block| (block.kind(), block.file(), block.first, block.text())).collect();
    assert_eq!(seen, [("c", Some("a.bpf.c"), 3, "int a;\n".to_owned()), ("", None, 7, "$ no\n".to_owned())]);
    assert!(!page.has_sessions());
}
