// SPDX-License-Identifier: GPL-2.0-only
//! Makes text from files harmless: no name of a task, queue, group or file may control the terminal, a spreadsheet or the
//! order of the text around it.
//!
//! [`escape`] is for single names, before their width is computed. [`clean`] is for whole outputs, as the last step: what
//! a caller of [`escape`] forgot is escaped there. [`cell`] is for cells of CSV.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character controls a terminal, or the direction or line of the text around it.
fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A name with harmful characters escaped as in Rust: `\u{1b}`, `\n`.
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    text.chars().map(|c| if is_harmful(c) { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// A whole output with harmful characters escaped as in JSON, `\u001b`, so that JSON stays valid. Line ends and tabs
/// remain.
pub fn clean(text: &str) -> Cow<'_, str> {
    let is_left = |c: char| is_harmful(c) && c != '\n' && c != '\t';
    if !text.contains(is_left) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_left(c) {
            // All of them are in the basic multilingual plane.
            true => write!(cleaned, "\\u{:04x}", u32::from(c)).expect("memory takes it"),
            false => cleaned.push(c),
        }
    }
    Cow::Owned(cleaned)
}

/// A text cell of CSV that controls neither a terminal nor a spreadsheet, which takes `=`, `+`, `-` and `@` as the start
/// of a formula. The writer still has to quote it: [`cell`] does both.
pub(crate) fn plain_cell(text: &str) -> Cow<'_, str> {
    let text = escape(text);
    match text.starts_with(['=', '+', '-', '@']) && text.parse::<f64>().is_err() {
        true => Cow::Owned(format!("'{text}")),
        false => text,
    }
}

/// A text cell of CSV: harmless, and quoted where necessary.
pub fn cell(text: &str) -> String {
    let text = plain_cell(text);
    match text.contains([',', '"']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "=cmd\u{1b}[2J\r\u{9b}\u{202e}\u{61c}\u{2028}é→";

    #[test]
    fn escaped_names_have_no_control_characters() {
        assert_eq!(escape(NAME), r"=cmd\u{1b}[2J\r\u{9b}\u{202e}\u{61c}\u{2028}é→");
        assert_eq!(escape("a\nb\t"), r"a\nb\t");
    }

    #[test]
    fn cleaned_outputs_keep_lines_and_stay_json() {
        assert_eq!(clean("a\n\tb é→"), "a\n\tb é→");
        let json = format!("{{\"a\": \"{}\"}}\n", NAME.replace(['\u{1b}', '\r'], ""));
        let cleaned = clean(&json);
        assert_ne!(cleaned, json);
        let [before, after]: [serde_json::Value; 2] =
            [&json, &*cleaned].map(|text| serde_json::from_str(text).unwrap());
        assert_eq!(before, after);
    }

    #[test]
    fn text_cells_are_no_formulas_and_have_no_control_characters() {
        assert_eq!(cell("=cmd|calc\u{1b}[2J"), "'=cmd|calc\\u{1b}[2J");
        assert_eq!((cell("@a"), cell("bfs@0.357"), cell("-1")), ("'@a".into(), "bfs@0.357".into(), "-1".into()));
        assert_eq!(cell("=\"a\",b\n"), "\"'=\"\"a\"\",b\\n\"");
    }
}
