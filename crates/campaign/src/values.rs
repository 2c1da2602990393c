// SPDX-License-Identifier: GPL-2.0-only
//! Lists of numbers such as `1-100`, and texts with alternatives in braces, as in a shell.

/// Most values that one text, or a list of texts, may stand for.
pub(crate) const MOST: u64 = 1_000_000;

/// A problem of a value: what was found, and what was expected.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ValueError(pub String);

fn refuse<T>(problem: impl Into<String>) -> Result<T, ValueError> {
    Err(ValueError(problem.into()))
}

/// The numbers of a list such as `1-3,8`.
///
/// # Errors
/// If it is not such a list, a range is descending, or it has more than a million numbers.
pub fn numbers(text: &str) -> Result<Vec<u64>, ValueError> {
    let mut all = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.trim().parse::<u64>(), last.trim().parse::<u64>()) else {
            return refuse(format!("{part:?}: expected a number or a range, such as 7 or 1-100"));
        };
        if last < first {
            return refuse(format!("{part}: expected a range whose second number is not below the first"));
        }
        if last - first >= MOST - all.len() as u64 {
            return refuse(format!("{part}: expected at most {MOST} numbers"));
        }
        all.extend(first..=last);
    }
    Ok(all)
}

/// A text, and the values of its alternatives that belong to a key.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Named {
    /// The text with one of the alternatives in the place of each pair of braces.
    pub text: String,
    /// Key and value of each pair of braces that stands after `KEY=`. The second of equal keys is `KEY.2`.
    pub keys: Vec<(String, String)>,
    /// Where the text stands: file and line; empty if it is a default.
    pub place: String,
}

/// All texts that a text with alternatives stands for: `bfs,rr_ms={1,6}`, `build,jobs={1..8}`, `{fifo,bfs}`. A range may
/// have a step: `{10..50..10}`. Several pairs of braces combine, the last one fastest.
///
/// # Errors
/// If braces are not in pairs, are nested or empty, or stand for more than a million texts.
pub fn expand(text: &str) -> Result<Vec<Named>, ValueError> {
    let mut all = vec![Named::default()];
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        let Some(end) = from.find('}').filter(|end| *end > 0 && !from[1..*end].contains('{')) else {
            return refuse(format!("{text:?}: expected pairs of braces that are not nested, such as {{1,2}}"));
        };
        let values = alternatives(&from[1..end])?;
        if all.len() as u64 * values.len() as u64 > MOST {
            return refuse(format!("{text:?}: expected at most {MOST} alternatives"));
        }
        let with = |named: &Named| {
            let head = format!("{}{before}", named.text);
            let key = key_before(&head).map(|key| numbered(key, &named.keys));
            let one = |value: &String| Named {
                text: format!("{head}{value}"),
                keys: named.keys.iter().cloned().chain(key.clone().map(|key| (key, value.clone()))).collect(),
                place: String::new(),
            };
            values.iter().map(one).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
        rest = &from[end + 1..];
    }
    all.iter_mut().for_each(|named| named.text.push_str(rest));
    Ok(all)
}

/// The key of a text that ends with `KEY=`.
fn key_before(text: &str) -> Option<&str> {
    let key = text.strip_suffix('=')?.rsplit([',', '+', '/', ' ']).next()?;
    Some(key).filter(|key| !key.is_empty())
}

/// The key, with a number if there is one of that name.
fn numbered(key: &str, before: &[(String, String)]) -> String {
    let is_free = |name: &String| before.iter().all(|(other, _)| other != name);
    let names = (2..).map(|number| format!("{key}.{number}"));
    std::iter::once(key.to_owned()).chain(names).find(is_free).expect("there are more numbers than keys")
}

/// The values between a pair of braces: a list, or a range with `..`.
fn alternatives(inside: &str) -> Result<Vec<String>, ValueError> {
    let Some((first, rest)) = inside.split_once("..") else {
        let values: Vec<String> = inside.split(',').map(|value| value.trim().to_owned()).collect();
        return if values.len() > 1 || !values[0].is_empty() {
            Ok(values)
        } else {
            refuse("{}: expected values, such as {1,2} or {1..8}")
        };
    };
    let (last, step) = rest.split_once("..").unwrap_or((rest, "1"));
    match [first, last, step].map(|number| number.trim().parse::<u64>()) {
        [Ok(first), Ok(last), Ok(step)] if first <= last && step > 0 && (last - first) / step < MOST => {
            Ok((first..=last).step_by(step as usize).map(|value| value.to_string()).collect())
        }
        _ => refuse(format!("{{{inside}}}: expected an ascending range, such as {{1..8}} or {{10..50..10}}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_of_numbers_have_ranges() {
        assert_eq!(numbers("1-3, 8,10-10").unwrap(), [1, 2, 3, 8, 10]);
        let errors = [
            ("", "\"\": expected a number or a range, such as 7 or 1-100"),
            ("1-", "\"1-\": expected a number or a range, such as 7 or 1-100"),
            ("-1", "\"-1\": expected a number or a range, such as 7 or 1-100"),
            ("3-1", "3-1: expected a range whose second number is not below the first"),
            ("0-18446744073709551615", "0-18446744073709551615: expected at most 1000000 numbers"),
            ("1-999999,1-2", "1-2: expected at most 1000000 numbers"),
        ];
        for (text, error) in errors {
            assert_eq!(numbers(text).map_err(|error| error.0), Err(error.to_owned()), "{text}");
        }
    }

    #[test]
    fn braces_stand_for_alternatives_and_name_their_keys() {
        let texts = |text: &str| expand(text).unwrap().into_iter().map(|named| named.text).collect::<Vec<_>>();
        assert_eq!(texts("bfs"), ["bfs"]);
        assert_eq!(texts("{fifo,bfs}"), ["fifo", "bfs"]);
        assert_eq!(
            texts("a,x={1,2},y={8..10}"),
            ["a,x=1,y=8", "a,x=1,y=9", "a,x=1,y=10"]
                .into_iter()
                .chain(["a,x=2,y=8", "a,x=2,y=9", "a,x=2,y=10"])
                .collect::<Vec<_>>()
        );
        assert_eq!(texts("build,jobs={10..30..10}"), ["build,jobs=10", "build,jobs=20", "build,jobs=30"]);
        assert_eq!(texts("bfs{,@0.360}"), ["bfs", "bfs@0.360"]);
        let keys = |text: &str| expand(text).unwrap().remove(0).keys;
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(keys("bfs,x={1,2}+video,jobs={3}"), [pair("x", "1"), pair("jobs", "3")]);
        assert_eq!(keys("{fifo,bfs}"), []);
        assert_eq!(keys("a,x={1}+b,x={2}"), [pair("x", "1"), pair("x.2", "2")]);
        for wrong in ["a{", "a}", "{a{b}}", "{}", "{3..1}", "{1..x}", "{1..9..0}", "{0..18446744073709551615}"] {
            assert!(expand(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_expanded_or_refused(text in "[{},.=a-b0-9 ]{0,24}") {
            let _ = (expand(&text), numbers(&text));
        }
    }
}
