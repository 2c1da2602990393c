// SPDX-License-Identifier: GPL-2.0-only
//! Compares output with its excerpt in a page. A line `...` stands for any number of lines; every other line must
//! match exactly.

const ELISION: &str = "...";

/// Whether the output matches the excerpt.
pub fn agrees(shown: &[String], output: &[String]) -> bool {
    match shown.split_first() {
        None => output.is_empty(),
        Some((line, rest)) if line == ELISION => (0..=output.len()).any(|skipped| agrees(rest, &output[skipped..])),
        Some((line, rest)) => output.first() == Some(line) && agrees(rest, &output[1..]),
    }
}

/// Shortens new output like the old excerpt: each piece between elisions is replaced by the most similar lines
/// (ignoring numbers) after the previous piece. The first and last piece stay at the ends.
pub fn renewed(shown: &[String], output: &[String]) -> Vec<String> {
    let pieces: Vec<&[String]> = shown.split(|line| line == ELISION).collect();
    if pieces.len() == 1 {
        return output.to_vec();
    }
    let mut lines = Vec::new();
    let mut from = 0;
    for (index, piece) in pieces.iter().enumerate() {
        if index > 0 {
            lines.push(ELISION.to_owned());
        }
        let length = piece.len().min(output.len() - from);
        let last = output.len() - length;
        let at = match index {
            0 => 0,
            _ if index + 1 == pieces.len() => last,
            // Among equally similar positions, take the first.
            _ => (from..=last).rev().max_by_key(|at| likeness(piece, &output[*at..*at + length])).unwrap_or(from),
        };
        lines.extend_from_slice(&output[at..at + length]);
        from = at + length;
    }
    lines
}

/// Number of lines with the same letters.
fn likeness(a: &[String], b: &[String]) -> usize {
    let words = |line: &str| line.chars().filter(|c| c.is_alphabetic()).collect::<String>();
    a.iter().zip(b).filter(|(a, b)| words(a) == words(b)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn elision_matches_any_number_of_lines() {
        for (shown, output, expected) in [
            ("a b", "a b", true),
            ("a b", "a c", false),
            ("a", "a b", false),
            ("a b", "a", false),
            ("", "a", false),
            ("a ...", "a", true),
            ("a ... d", "a b c d", true),
            ("... d", "a d c d", true),
            ("a ... c ...", "a b d", false),
            ("... b", "a b c", false),
        ] {
            assert_eq!(agrees(&lines(shown), &lines(output)), expected, "{shown}: {output}");
        }
    }

    #[test]
    fn updated_excerpt_keeps_its_elisions() {
        for (shown, output, expected) in [
            ("a1 b1", "a2 b2 c2", "a2 b2 c2"),
            ("a1 ... c1", "a2 b2 b3 c2", "a2 ... c2"),
            ("a1 ... c1 ... e1", "a2 b2 c2 d2 e2", "a2 ... c2 ... e2"),
            ("... c1 ...", "a2 b2 c2 d2 c3", "... c2 ..."),
            ("a1 b1 c1 ...", "a2", "a2 ..."),
        ] {
            assert_eq!(renewed(&lines(shown), &lines(output)), lines(expected), "{shown}: {output}");
            assert!(agrees(&lines(expected), &lines(output)));
        }
    }
}
