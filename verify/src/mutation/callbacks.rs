// SPDX-License-Identifier: GPL-2.0-only
//! Finds the callbacks of a policy to which a place in its source belongs: those that contain the place, or that use
//! the definition containing it by name, directly or indirectly.

use super::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// A definition: a function, a macro, a variable or a type.
#[derive(Debug)]
struct Item {
    file: usize,
    /// Byte range of its text.
    from: usize,
    to: usize,
    name: String,
    /// All names that occur in it.
    names: BTreeSet<String>,
}

/// The definitions of a policy and its headers.
#[derive(Debug)]
pub struct Callbacks {
    items: Vec<Item>,
    /// Function of each op.
    ops: BTreeMap<String, String>,
}

impl Callbacks {
    /// Collects the definitions of the policy without a mutant.
    pub fn of(source: &Source) -> Callbacks {
        let mut callbacks = Callbacks { items: Vec::new(), ops: BTreeMap::new() };
        for (file, (_, text)) in source.files(None).enumerate() {
            let text = without_comments(&text);
            for (from, to) in definitions(&text) {
                let body = &text[from..to];
                let names = words(body).map(str::to_owned).collect();
                if body.contains("SCHEDULER(") && !body.starts_with('#') {
                    callbacks.ops.extend(members(body));
                } else if let Some(name) = name_of(body) {
                    callbacks.items.push(Item { file, from, to, name, names });
                }
            }
        }
        callbacks
    }

    /// Returns the ops to which the text at this offset of this file belongs.
    pub fn at(&self, file: usize, offset: usize) -> BTreeSet<String> {
        let here = self.items.iter().find(|item| item.file == file && (item.from..item.to).contains(&offset));
        let mut reached: BTreeSet<&str> = here.iter().map(|item| item.name.as_str()).collect();
        loop {
            let uses = |item: &&Item| item.names.iter().any(|name| reached.contains(name.as_str()));
            let more: Vec<&str> = self.items.iter().filter(uses).map(|item| item.name.as_str()).collect();
            let before = reached.len();
            reached.extend(more);
            if reached.len() == before {
                break;
            }
        }
        let has = |(_, function): &(&String, &String)| reached.contains(function.as_str());
        self.ops.iter().filter(has).map(|(op, _)| op.clone()).collect()
    }
}

/// Returns the text with comments replaced by blanks.
fn without_comments(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut at = 0;
    while let Some(begin) = text[at..].find("/*").map(|found| at + found) {
        let end = text[begin..].find("*/").map_or(text.len(), |found| begin + found + 2);
        bytes[begin..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        at = end;
    }
    String::from_utf8(bytes).expect("whole comments were replaced")
}

/// Returns the byte range of each definition.
fn definitions(text: &str) -> Vec<(usize, usize)> {
    let (mut found, mut from, mut depth, mut at) = (Vec::new(), 0, 0, 0);
    let bytes = text.as_bytes();
    while at < bytes.len() {
        if depth == 0 && bytes[at] == b'#' && text[from..at].trim().is_empty() {
            let mut end = at;
            while end < bytes.len() && (bytes[end] != b'\n' || bytes[end - 1] == b'\\') {
                end += 1;
            }
            found.push((at, end));
            (from, at) = (end, end);
            continue;
        }
        match bytes[at] {
            b'{' | b'(' => depth += 1,
            b'}' | b')' => depth -= 1,
            _ => {}
        }
        // A function ends with its body; other definitions with braces end with a semicolon.
        let rest = text[at + 1..].trim_start();
        let ends = match bytes[at] {
            b';' => true,
            b'}' => depth == 0 && text[from..at].contains('(') && !rest.starts_with(';') && !rest.starts_with("SEC("),
            _ => false,
        };
        if depth == 0 && ends {
            found.push((from + (text[from..].len() - text[from..].trim_start().len()), at + 1));
            from = at + 1;
        }
        at += 1;
    }
    found
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_word(c)).filter(|word| !word.is_empty() && !word.starts_with(|c: char| c.is_ascii_digit()))
}

/// Returns the name that a definition defines.
fn name_of(body: &str) -> Option<String> {
    if let Some(rest) = body.strip_prefix("#define ") {
        return words(rest).next().map(str::to_owned);
    }
    if body.starts_with('#') {
        return None;
    }
    // OP2(void, NAME, …) and similar macros.
    let head = body.split(['{', '=', ';']).next().unwrap_or(body);
    if let Some((before, arguments)) = head.split_once('(')
        && before.trim_end().trim_start_matches("SLEEPABLE_").starts_with("OP")
    {
        return words(arguments.split_once(',')?.1).next().map(str::to_owned);
    }
    let head = head.split("SEC(").next().unwrap_or(head);
    match head.find('(') {
        Some(open) => words(&head[..open]).last().map(str::to_owned),
        None => words(head.split('[').next()?).last().map(str::to_owned),
    }
}

/// Returns op and function of each member of the ops table.
fn members(body: &str) -> impl Iterator<Item = (String, String)> {
    body.split('.').filter_map(|member| {
        let (op, value) = member.split_once('=')?;
        let function = value.split("(void *)").nth(1)?;
        Some((op.trim().to_owned(), words(function).next()?.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(policy: &str, text: &str) -> Vec<String> {
        let source = Source::read(crate::root(), policy).unwrap();
        let callbacks = Callbacks::of(&source);
        let found = source.files(None).enumerate().find_map(|(file, (_, all))| Some((file, all.find(text)?)));
        let (file, offset) = found.unwrap_or_else(|| panic!("{policy} has no {text:?}"));
        callbacks.at(file, offset).into_iter().collect()
    }

    #[test]
    fn mutation_site_belongs_to_the_callbacks_that_use_it() {
        assert_eq!(at("fifo", "SHARED_DSQ, SCX_SLICE_DFL"), ["enqueue"]);
        assert_eq!(at("fifo", "SCX_DSQ_LOCAL, SCX_SLICE_DFL"), ["select_cpu"]);
        assert_eq!(at("fifo", "SHARED_DSQ 0"), ["dispatch", "enqueue", "init"]);
        assert_eq!(at("fifo", "return cpu;"), ["select_cpu"]);
    }

    #[test]
    fn nearly_every_mutation_site_has_a_callback() {
        for policy in ["bfs", "vrq", "fifo"] {
            let source = Source::read(crate::root(), policy).unwrap();
            let callbacks = Callbacks::of(&source);
            let mutants: Vec<_> = source.draw(1).collect();
            let found = mutants.iter().filter(|one| !callbacks.at(one.file(), one.offset()).is_empty()).count();
            assert!(found * 10 >= mutants.len() * 9, "{policy}: {found} of {}", mutants.len());
        }
    }
}
