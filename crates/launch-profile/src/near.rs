// SPDX-License-Identifier: GPL-2.0-only
//! What someone may have meant who wrote a name that does not exist.

/// How many near misses are named.
const MOST: usize = 3;

/// How many names are listed when nothing is near.
const MOST_LISTED: usize = 12;

/// "unknown preset `0.36`: did you mean `0.360`?", or what there is if nothing is near.
pub(crate) fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let mut known: Vec<(usize, &str)> = known.map(|other| (distance(name, other), other)).collect();
    known.sort();
    // A third of the letters, and always two, may be wrong: more than that is another word.
    let limit = (name.chars().count() / 3).max(2);
    let near: Vec<&str> =
        known.iter().take_while(|(distance, _)| *distance <= limit).map(|(_, other)| *other).take(MOST).collect();
    if !near.is_empty() {
        return format!("unknown {what} `{name}`: did you mean {}?", quoted(&near, " or "));
    }
    let mut all: Vec<&str> = known.iter().map(|(_, other)| *other).collect();
    all.sort_unstable();
    match all.len() {
        0 => format!("unknown {what} `{name}`: there is none"),
        count if count <= MOST_LISTED => format!("unknown {what} `{name}`: expected {}", quoted(&all, ", ")),
        _ => format!("unknown {what} `{name}`: no other is like it"),
    }
}

/// Wrong, missing, surplus and swapped letters; upper and lower case, hyphen and underscore are the same.
fn distance(a: &str, b: &str) -> usize {
    let plain = |text: &str| text.to_lowercase().replace('-', "_");
    strsim::damerau_levenshtein(&plain(a), &plain(b))
}

fn quoted(names: &[&str], separator: &str) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(separator)
}
