// SPDX-License-Identifier: GPL-2.0-only
//! Words that the project no longer uses, each with the word of the field that takes its place. CONTRIBUTING.md has the
//! rules of the language.

/// Old words in lower case, and their replacements. A word is matched whole and in any case; `_`, `-` and digits are
/// parts of words.
pub const WORDS: [(&str, &str); 24] = [
    ("queue_wait", "run_delay"),
    ("queue_wait_ns", "run_delay_ns"),
    ("queue wait", "run-queue latency"),
    ("line_ns", "line_transfer_ns"),
    ("passage", "critical section, acquisition"),
    ("passage_ns", "acquire_ns"),
    ("storm_percent", "spinner_slowdown_percent"),
    ("stint", "run interval"),
    ("stints", "run intervals"),
    ("moves in core", "SMT migrations"),
    ("moves in cache", "LLC migrations"),
    ("moves in node", "node migrations"),
    ("thread of the kernel", "kthread"),
    ("threads of the kernel", "kthreads"),
    ("the kernel's own scheduler", "the default scheduler (EEVDF)"),
    ("what every run owes", "invariant"),
    ("mourner", "tombstone"),
    ("fought for", "contended"),
    ("hand-over", "handoff"),
    ("hand-overs", "handoffs"),
    ("heirs", "successors"),
    ("whoever", "the task, CPU or caller that"),
    ("made anew", "regenerated"),
    ("reckoned", "computed"),
];

/// Returns the words of [`WORDS`] in `line`, with their replacements.
pub fn found(line: &str) -> Vec<(&'static str, &'static str)> {
    let lower = line.to_lowercase();
    WORDS.into_iter().filter(|(old, _)| contains_whole(&lower, old)).collect()
}

fn contains_whole(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_match_whole_and_in_any_case() {
        let old = |line| found(line).into_iter().map(|(old, _)| old).collect::<Vec<_>>();
        assert_eq!(old("A Stint, then a passage"), ["passage", "stint"]);
        assert_eq!(old("stint_ticks, stint-ticks, constraint, passages_1"), Vec::<&str>::new());
    }
}
