// SPDX-License-Identifier: GPL-2.0-only
//! Suggests existing names similar to an unknown name.

/// Maximum number of suggestions.
const MOST: usize = 3;

/// Maximum number of names that are listed if none is similar.
const MOST_LISTED: usize = 12;

/// "unknown preset `0.36`: did you mean `0.360`?", or the list of known names if none is similar.
pub(crate) fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let mut known: Vec<(usize, &str)> = known.map(|other| (distance(name, other), other)).collect();
    known.sort();
    // At most a third of the letters, but always two, may differ.
    let limit = (name.chars().count() / 3).max(2);
    let near: Vec<&str> =
        known.iter().take_while(|(distance, _)| *distance <= limit).map(|(_, other)| *other).take(MOST).collect();
    if !near.is_empty() {
        return format!("unknown {what} `{name}`: did you mean {}?", quoted(&near, " or "));
    }
    let mut all: Vec<&str> = known.iter().map(|(_, other)| *other).collect();
    all.sort_unstable();
    match all.len() {
        0 => format!("unknown {what} `{name}`: none exists"),
        count if count <= MOST_LISTED => format!("unknown {what} `{name}`: expected {}", quoted(&all, ", ")),
        _ => format!("unknown {what} `{name}`: no similar name exists"),
    }
}

/// Edit distance: wrong, missing, additional and swapped letters; case and hyphen versus underscore do not count.
fn distance(a: &str, b: &str) -> usize {
    let plain = |text: &str| text.to_lowercase().replace('-', "_");
    strsim::damerau_levenshtein(&plain(a), &plain(b))
}

fn quoted(names: &[&str], separator: &str) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(separator)
}
