// SPDX-License-Identifier: GPL-2.0-only
//! Grammar of synthetic strings: converts text to items with positions.

use ids::MAX_CPUS;

/// Level of the tree, in hwloc's usual order from the outermost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Level {
    /// Machine, group, cluster: structure without meaning here.
    Group,
    Package,
    Die,
    Node,
    /// Data or unified cache of this level.
    Cache(u8),
    /// Instruction cache, which is never the last level.
    InstructionCache,
    Core,
    Pu,
}

/// An item of the string. `at` is the character position from 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Item<'a> {
    pub at: usize,
    pub text: &'a str,
    pub kind: Kind,
    /// Value of `indexes=`.
    pub indexes: Option<&'a str>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Kind {
    /// `core:8`: a level with this number of objects per object of the preceding level.
    Level(Level, usize),
    /// `[NUMANode]`: one memory node per object of the preceding level.
    Memory,
}

/// An error at a position of the string.
pub(super) fn error<T>(at: usize, problem: impl std::fmt::Display) -> Result<T, String> {
    Err(format!("character {at}: {problem}"))
}

/// Maximum number of items, more than any machine has levels.
const MAX_ITEMS: usize = 64;

/// Parses the items, with types for all levels; the last level is `pu`.
pub(super) fn items(text: &str) -> Result<Vec<Item<'_>>, String> {
    let words = words(text)?;
    if words.len() > MAX_ITEMS {
        return error(words[MAX_ITEMS].0, format!("more than {MAX_ITEMS} levels"));
    }
    let is_bare = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let bare = words.iter().filter(|(_, word)| is_bare(word)).count();
    let mut items = Vec::new();
    let mut number = 0;
    for (index, &(at, word)) in words.iter().enumerate() {
        let (head, attributes) = split_attributes(at, word)?;
        let (kind, indexes) = if index == 0 && head.is_empty() {
            // Attributes of the whole machine.
            read_attributes(at, attributes)?;
            continue;
        } else if let Some(inner) = word.strip_prefix('[') {
            memory(at, inner)?
        } else {
            let level = if is_bare(head) {
                if bare != words.len() {
                    let expected = "expected either \"2 8 2\" or \"node:2 core:8 pu:2\"";
                    return error(at, format!("bare numbers and typed levels mixed; {expected}"));
                }
                number += 1;
                Kind::Level(default_level(bare, number - 1), count(at, head, head)?)
            } else {
                let (name, number) = head.split_once(':').unwrap_or((head, ""));
                Kind::Level(level(at, name)?, count(at, word, number)?)
            };
            (level, read_attributes(at, attributes)?)
        };
        items.push(Item { at, text: word, kind, indexes });
    }
    check(text, &items)?;
    Ok(items)
}

/// Splits into words with positions, at white space outside of parentheses and brackets.
fn words(text: &str) -> Result<Vec<(usize, &str)>, String> {
    let mut words = Vec::new();
    let mut open: Vec<(char, usize)> = Vec::new();
    let mut begin: Option<(usize, usize)> = None;
    for (at, (index, c)) in (1..).zip(text.char_indices()) {
        if c.is_whitespace() && open.is_empty() {
            words.extend(begin.take().map(|(at, from)| (at, &text[from..index])));
            continue;
        }
        begin = begin.or(Some((at, index)));
        match c {
            '(' | '[' => open.push((if c == '(' { ')' } else { ']' }, at)),
            ')' | ']' if open.pop().map(|(wanted, _)| wanted) != Some(c) => {
                return error(at, format!("unmatched {c:?}"));
            }
            _ => {}
        }
    }
    if let Some((wanted, at)) = open.pop() {
        return error(at, format!("unclosed; expected {wanted:?}"));
    }
    words.extend(begin.map(|(at, from)| (at, &text[from..])));
    Ok(words)
}

/// Splits `core:8(…)` into `core:8` and the text in parentheses.
fn split_attributes(at: usize, word: &str) -> Result<(&str, Option<&str>), String> {
    if word.starts_with('[') {
        return Ok((word, None));
    }
    let Some((head, rest)) = word.split_once('(') else { return Ok((word, None)) };
    match rest.split_once(')') {
        Some((inside, "")) => Ok((head, Some(inside))),
        Some((_, more)) => error(at, format!("{more:?} after the parentheses of {word:?}; expected a space")),
        None => error(at, format!("the parentheses of {word:?} are nested")),
    }
}

/// Parses the text inside `[NUMANode(…)]`.
fn memory(at: usize, inner: &str) -> Result<(Kind, Option<&str>), String> {
    let Some(inner) = inner.strip_suffix(']') else {
        return error(at, format!("{inner:?} does not end with a bracket; expected a space after the bracket"));
    };
    let (name, attributes) = split_attributes(at, inner.trim())?;
    match level(at, name) {
        Ok(Level::Node) => Ok((Kind::Memory, read_attributes(at, attributes)?)),
        _ => error(at, format!("{name:?} in brackets; expected [NUMANode]")),
    }
}

/// Checks `key=value` pairs and returns the value of `indexes`. Sizes are checked but ignored.
fn read_attributes(at: usize, attributes: Option<&str>) -> Result<Option<&str>, String> {
    let mut indexes = None;
    for attribute in attributes.unwrap_or_default().split_whitespace() {
        match attribute.split_once('=') {
            Some(("indexes", value)) => indexes = Some(value),
            Some(("memory" | "size" | "memorysidecachesize", value)) if is_size(value) => {}
            Some((key @ ("memory" | "size" | "memorysidecachesize"), value)) => {
                return error(at, format!("{key} is {value:?}; expected a size such as 16GB, 512kB or bytes"));
            }
            _ => {
                let known = "memory=SIZE, size=SIZE, memorysidecachesize=SIZE and indexes=NUMBERS";
                return error(at, format!("unknown attribute {attribute:?}; known are {known}"));
            }
        }
    }
    Ok(indexes)
}

fn is_size(value: &str) -> bool {
    let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let unit = value[end..].to_ascii_lowercase();
    let known = ["", "b", "kb", "kib", "mb", "mib", "gb", "gib", "tb", "tib"];
    value[..end].parse::<u64>().is_ok() && known.contains(&unit.as_str())
}

fn count(at: usize, word: &str, number: &str) -> Result<usize, String> {
    let count = number.parse().ok().filter(|count| (1..=MAX_CPUS).contains(count));
    let problem = || format!("character {at}: {word:?}: expected a count from 1 to {MAX_CPUS}");
    count.ok_or_else(problem)
}

/// hwloc's level type for bare number `index` of `count`.
fn default_level(count: usize, index: usize) -> Level {
    const ALL: [Level; 7] =
        [Level::Package, Level::Node, Level::Cache(3), Level::Cache(2), Level::Cache(1), Level::Core, Level::Pu];
    let of = |chosen: &[usize]| ALL[chosen[index]];
    match count {
        1 => Level::Pu,
        2 => of(&[1, 6]),
        3 => of(&[0, 1, 6]),
        4 => of(&[0, 1, 5, 6]),
        5 => of(&[0, 1, 3, 5, 6]),
        6 => of(&[0, 1, 3, 4, 5, 6]),
        _ => (index + ALL.len()).checked_sub(count).map_or(Level::Group, |index| ALL[index]),
    }
}

/// Parses a level name, which may be shortened to two letters as in hwloc. `llc` is an extension for the last cache
/// level, whatever its number.
pub(super) fn level(at: usize, name: &str) -> Result<Level, String> {
    const NAMES: [(&str, Level); 14] = [
        ("machine", Level::Group),
        ("group", Level::Group),
        ("group0", Level::Group),
        ("cluster", Level::Group),
        ("tile", Level::Group),
        ("module", Level::Group),
        ("package", Level::Package),
        ("socket", Level::Package),
        ("die", Level::Die),
        ("node", Level::Node),
        ("numanode", Level::Node),
        ("core", Level::Core),
        ("pu", Level::Pu),
        ("llc", Level::Cache(u8::MAX)),
    ];
    let lower = name.to_ascii_lowercase();
    let starts = |full: &str| lower.len() >= 2 && full.starts_with(&lower);
    let found = NAMES.iter().find(|(full, _)| starts(full)).map(|&(_, level)| level);
    match found.or_else(|| cache(&lower)) {
        Some(level) => Ok(level),
        None => {
            error(at, format!("unknown level {name:?}; expected group, package, die, node, l5 to l1, llc, core or pu"))
        }
    }
}

/// Parses `cache`, `l3`, `l3u`, `l3d`, `l3cache`, `l3ucache` or `l1i`.
fn cache(name: &str) -> Option<Level> {
    if name == "cache" {
        return Some(Level::Cache(2));
    }
    let rest = name.strip_prefix('l')?;
    let number = rest.chars().next()?.to_digit(10).filter(|number| (1..=5).contains(number))?;
    match rest[1..].trim_end_matches("cache") {
        "" | "u" | "d" => Some(Level::Cache(number as u8)),
        "i" => Some(Level::InstructionCache),
        _ => None,
    }
}

/// Checks the types and order of the levels.
fn check(text: &str, items: &[Item<'_>]) -> Result<(), String> {
    let levels: Vec<(usize, &str, Level)> = items
        .iter()
        .filter_map(|item| if let Kind::Level(level, _) = item.kind { Some((item.at, item.text, level)) } else { None })
        .collect();
    let Some(&(_, _, last)) = levels.last() else {
        return error(1, "no level; expected levels such as node:2 core:8 pu:2");
    };
    if last != Level::Pu {
        let end = text.trim_end().chars().count() + 1;
        return error(end, "the last level is not pu; add pu:1, or pu:2 for two threads per core");
    }
    for (index, &(at, word, level)) in levels.iter().enumerate() {
        let outer = &levels[..index];
        let repeated = !matches!(level, Level::Group | Level::InstructionCache);
        if repeated && outer.iter().any(|&(_, _, earlier)| earlier == level) {
            return error(at, format!("{word:?}: this level occurs twice"));
        }
        let in_core = outer.iter().any(|&(_, _, earlier)| earlier == Level::Core);
        if in_core && matches!(level, Level::Package | Level::Die | Level::Node) {
            return error(at, format!("{word:?} inside a core; expected outer levels first"));
        }
        let rank = |level| if let Level::Cache(number) = level { Some(number) } else { None };
        if rank(level).is_some_and(|inner| outer.iter().filter_map(|&(_, _, l)| rank(l)).any(|outer| outer < inner)) {
            return error(at, format!("{word:?}: caches out of order; expected l3 before l2 before l1"));
        }
    }
    let memory = items.iter().find(|item| item.kind == Kind::Memory);
    match memory.filter(|_| levels.iter().any(|&(_, _, level)| level == Level::Node)) {
        Some(item) => error(item.at, format!("{:?} in addition to a node level; expected one or the other", item.text)),
        None => Ok(()),
    }
}
