// SPDX-License-Identifier: GPL-2.0-only
//! A page and its fenced blocks. The words behind the fence say what a block is:
//!
//! - `console`: commands behind `$ `, each with what it prints. The commands of a page run one after another in one folder.
//! - `c file=NAME`, `json file=NAME`, …: the reader saves this as NAME, and so does the test.
//! - `diff file=NAME`: the reader changes NAME so; the lines of context and those with `-` stand in it once.
//!
//! All other blocks are only looked at.

/// A block between two fences.
#[derive(Debug)]
pub struct Block {
    /// What stands behind the fence.
    pub words: Vec<String>,
    /// Index of its first line below the fence.
    pub first: usize,
    /// Its lines.
    pub lines: Vec<String>,
}

impl Block {
    pub fn kind(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// The file that it is, or changes.
    pub fn file(&self) -> Option<&str> {
        self.words.iter().find_map(|word| word.strip_prefix("file="))
    }

    pub fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

/// A page of Markdown.
pub struct Page {
    /// Its path from the root of the repository.
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
fn blocks_are_found_with_their_words() {
    let page = Page::new("a.md", "# A\n\n```c file=a.bpf.c\nint a;\n```\ntext\n```\n$ no\n```\n");
    let seen: Vec<_> =
        page.blocks.iter().map(|block| (block.kind(), block.file(), block.first, block.text())).collect();
    assert_eq!(seen, [("c", Some("a.bpf.c"), 3, "int a;\n".to_owned()), ("", None, 7, "$ no\n".to_owned())]);
    assert!(!page.has_sessions());
}
