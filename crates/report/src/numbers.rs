// SPDX-License-Identifier: GPL-2.0-only
//! Formatting of numbers and names for people. Integer arithmetic throughout: the same text on every host.

use ids::Nanos;
use measures::catalogue::{Measure, Unit};

/// Width of running text, independent of the terminal's width.
pub(crate) const COLUMNS: usize = 80;

/// `1234567` as `1,234,567`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 task`, `2,000 tasks`; the plural of `noun` is formed with s.
pub fn counted(value: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(value), if value == 1 { "" } else { "s" })
}

/// `1,200 of 2,000 tasks`; the plural of `noun` is formed with s.
pub fn fraction(part: u64, whole: u64, noun: &str) -> String {
    format!("{} of {}", count(part), counted(whole, noun))
}

/// `part` of `whole` in tenths of a percent, rounded; 0 if `whole` is 0.
pub(crate) fn permille(part: u64, whole: u64) -> u64 {
    if whole == 0 { 0 } else { ((u128::from(part) * 2000 + u128::from(whole)) / (2 * u128::from(whole))) as u64 }
}

/// Tenths of a percent as `12.3 %`.
pub(crate) fn percent(permille: u64) -> String {
    format!("{}.{} %", permille / 10, permille % 10)
}

/// Difference of `value` from `base`, in tenths of a percent of `base`; `None` if `base` is 0.
pub(crate) fn change(base: u64, value: u64) -> Option<i64> {
    let distance = permille(value.abs_diff(base), base) as i64;
    (base > 0).then_some(if value < base { -distance } else { distance })
}

/// `value` relative to `base`: `-3.1 %`, or a factor or fraction where a percentage would be hard to read; `=` if
/// they agree to a tenth of a percent, `None` if `base` is 0.
pub(crate) fn versus(base: u64, value: u64) -> Option<String> {
    let change = change(base, value)?;
    Some(match change {
        0 => "=".to_owned(),
        1000.. => times(change as u64 + 1000) + "x",
        1.. => format!("+{}", percent(change as u64)),
        ..-950 if value > 0 => format!("1/{}", count(base / value)),
        -1000 => "-100 %".to_owned(),
        _ => format!("-{}", percent(change.unsigned_abs())),
    })
}

/// A difference in parts per million as text, as in [`versus`].
pub(crate) fn ppm(difference: i64) -> String {
    let (base, value) = (1_000_000, (1_000_000 + difference).max(0));
    versus(base, value as u64).unwrap_or_default()
}

/// Whether a difference in parts per million reads better as a ratio: twice or more, or a twentieth or less.
pub(crate) fn is_ratio(difference: i64) -> bool {
    difference >= 1_000_000 || difference <= -950_000
}

/// A difference in parts per million as a ratio: `4.6x`, `1/4.6`.
pub(crate) fn ratio(difference: i64) -> String {
    let ratio_ppm = (1_000_000 + difference).max(0) as u64;
    match ratio_ppm {
        0 => "0x".to_owned(),
        1..1_000_000 => format!("1/{}", times(permille(1_000_000, ratio_ppm)).trim_end_matches(".0")),
        _ => format!("{}x", times(permille(ratio_ppm, 1_000_000))),
    }
}

/// Two differences in parts per million on one scale: `-3.5 to -2.7 %`, `1/22 to 1/1.6`.
pub(crate) fn range(low: i64, high: i64) -> String {
    if is_ratio(low) || is_ratio(high) {
        return format!("{} to {}", ratio(low), ratio(high));
    }
    let text = |difference: i64| match ppm(difference).as_str() {
        "=" => "0.0 %".to_owned(),
        text => text.to_owned(),
    };
    let (low, high) = (text(low), text(high));
    match (low.strip_suffix(" %"), high.ends_with(" %")) {
        (Some(low), true) => format!("{low} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

/// Value of a measure with its unit; `-` if unknown.
pub(crate) fn value_text(measure: &Measure, value: Option<u64>) -> String {
    match (value, measure.unit) {
        (None, _) => "-".to_owned(),
        (Some(value), Unit::Nanoseconds) => Nanos(value).to_string(),
        (Some(value), Unit::Count) => count(value),
    }
}

/// A ratio in thousandths with a suitable number of digits: `4.6`, `4,664`.
pub(crate) fn times(permille: u64) -> String {
    let tenths = (permille + 50) / 100;
    if permille < 100_000 { format!("{}.{}", tenths / 10, tenths % 10) } else { count(permille / 1000) }
}

/// Rate per second.
pub(crate) fn per_second(value: u64, elapsed_ns: u64) -> u64 {
    if elapsed_ns == 0 { 0 } else { (u128::from(value) * 1_000_000_000 / u128::from(elapsed_ns)) as u64 }
}

/// Shortens a name to `width` characters, replacing its middle by an ellipsis.
pub(crate) fn shorten(name: &str, width: usize) -> String {
    let characters: Vec<char> = name.chars().collect();
    if characters.len() <= width {
        return name.to_owned();
    }
    let head = (width - 1) / 2;
    let tail = width - 1 - head;
    let mut text: String = characters[..head].iter().collect();
    text.push('…');
    text.extend(&characters[characters.len() - tail..]);
    text
}

/// Stands for a space at which a line must not be broken.
pub(crate) const GLUE: char = '\u{a0}';

/// Breaks text at spaces so that no line is wider than a page. The first line begins with `first`, later ones are
/// indented by two more blanks; [`GLUE`] becomes a space.
pub fn wrap(first: &str, text: &str) -> String {
    let mut lines = first.to_owned();
    let (mut width, mut begun) = (first.len(), false);
    for word in text.split(' ') {
        let length = word.chars().count();
        if begun && width + 1 + length > COLUMNS {
            lines.push('\n');
            lines.push_str(first);
            lines.push_str("  ");
            width = first.len() + 2;
        } else if begun {
            lines.push(' ');
            width += 1;
        }
        lines.push_str(word);
        width += length;
        begun = true;
    }
    lines.replace(GLUE, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_ratios_and_ranges_are_formatted_with_separators_and_units() {
        assert_eq!(["7", "1,000", "12,345,678"].map(str::to_owned), [count(7), count(1000), count(12_345_678)]);
        assert_eq!([0, 1, 1000].map(|number| counted(number, "task")), ["0 tasks", "1 task", "1,000 tasks"]);
        assert_eq!(percent(permille(1, 3)), "33.3 %");
        assert_eq!(percent(permille(2, 3)), "66.7 %");
        assert_eq!(change(0, 5), None);
        let cases = [(1000, 969), (10, 15), (10, 255), (1, 5000), (5000, 1), (5, 5), (5, 0), (0, 5)];
        let texts = cases.map(|(base, value)| versus(base, value).unwrap_or_default());
        assert_eq!(texts, ["-3.1 %", "+50.0 %", "25.5x", "5,000x", "1/5,000", "=", "-100 %", ""]);
        assert_eq!(per_second(10, 500_000_000), 20);
        let ends = [(-35_000, -27_000), (-955_000, -393_000), (-200_000, 3_640_000), (-1_000_000, 0)];
        let ranges = ends.map(|(low, high)| range(low, high));
        assert_eq!(ranges, ["-3.5 to -2.7 %", "1/22.2 to 1/1.6", "1/1.3 to 4.6x", "0x to 1.0x"]);
        assert_eq!(shorten("abcdefghij", 5), "ab…ij");
        let lines: Vec<usize> = wrap(" ", &["word"; 20].join(" ")).lines().map(str::len).collect();
        assert_eq!(lines, [80, 22]);
    }
}
