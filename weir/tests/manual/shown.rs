// SPDX-License-Identifier: GPL-2.0-only
//! What a page shows of an output. A line `...` stands for any number of lines; every other line is that of the output.

const ELISION: &str = "...";

/// Whether an output is as shown.
pub fn agrees(shown: &[String], output: &[String]) -> bool {
    match shown.split_first() {
        None => output.is_empty(),
        Some((line, rest)) if line == ELISION => (0..=output.len()).any(|skipped| agrees(rest, &output[skipped..])),
        Some((line, rest)) => output.first() == Some(line) && agrees(rest, &output[1..]),
    }
}

/// The output shortened as a page shortened an earlier one: each piece between elisions becomes the lines that look most
/// like it, numbers aside, behind those of the piece before. The first and the last piece keep to their ends.
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
            // Of two places that are as like, the first.
            _ => (from..=last).rev().max_by_key(|at| likeness(piece, &output[*at..*at + length])).unwrap_or(from),
        };
        lines.extend_from_slice(&output[at..at + length]);
        from = at + length;
    }
    lines
}

/// How many lines have the same words.
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
    fn an_elision_stands_for_any_number_of_lines_and_nothing_else_does() {
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
    fn what_was_shortened_stays_so() {
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
