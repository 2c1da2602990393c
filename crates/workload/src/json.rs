// SPDX-License-Identifier: GPL-2.0-only
//! Parser for JSON as written by rt-app's users: with comments, trailing commas and repeated keys; every value has
//! its position.
//!
//! Accepted beyond RFC 8259, because json-c (used by rt-app) or rt-app's `workgen` accepts it: `/* … */` and `// …`
//! comments, a comma after the last element, single-quoted strings, literals in any case, a key `suspend` without a
//! value. Repeated keys are kept in order: a script with two `run` events has two keys `run`, which `workgen` makes
//! unique by numbering.

/// Maximum nesting depth of json-c.
const MAX_DEPTH: usize = 32;

/// A value with its position.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Value {
    /// Byte offset in the text.
    pub at: usize,
    pub kind: Kind,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Kind {
    Null,
    Bool(bool),
    Integer(i64),
    /// A number with a fraction or an exponent, or beyond 64 bits; rt-app uses none.
    OtherNumber,
    String(String),
    Array(Vec<Value>),
    Object(Vec<Member>),
}

/// A key with its value.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Member {
    /// Byte offset of the key.
    pub at: usize,
    pub key: String,
    pub value: Value,
}

impl Kind {
    /// Name in error messages.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Bool(_) => "a boolean",
            Kind::Integer(_) => "an integer",
            Kind::OtherNumber => "a number that is not a 64-bit integer",
            Kind::String(_) => "a string",
            Kind::Array(_) => "an array",
            Kind::Object(_) => "an object",
        }
    }
}

/// Line and column of a byte offset, both counted from 1, columns in characters.
pub(crate) fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..at.min(text.len())];
    let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    // UTF-8 continuation bytes are not counted.
    let column = before[line_start..].iter().filter(|&&byte| byte & 0xC0 != 0x80).count() + 1;
    (line, column)
}

/// Parses the document; an error is the offset and what was expected there.
pub(crate) fn parse(text: &str) -> Result<Value, (usize, String)> {
    let mut reader = Reader { text, bytes: text.as_bytes(), at: 0 };
    let value = reader.value(0)?;
    reader.blank()?;
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(reader.error("the end of the file")),
    }
}

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

type Failure = (usize, String);

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn error(&self, expected: &str) -> Failure {
        let found = match self.text[self.at..].chars().next() {
            None => "the file ends".to_owned(),
            Some(found) => format!("found {found:?}"),
        };
        (self.at, format!("{found}; expected {expected}"))
    }

    /// Skips white space and comments.
    fn blank(&mut self) -> Result<(), Failure> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\r' | b'\n') => self.at += 1,
                Some(b'/') => {
                    let rest = &self.text[self.at..];
                    let length = match self.bytes.get(self.at + 1) {
                        Some(b'/') => rest.find('\n').unwrap_or(rest.len()),
                        Some(b'*') => rest[2..]
                            .find("*/")
                            .map(|end| end + 4)
                            .ok_or_else(|| (self.at, "unterminated comment; expected */".to_owned()))?,
                        _ => return Err(self.error("a comment (// or /*)")),
                    };
                    self.at += length;
                }
                _ => return Ok(()),
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, Failure> {
        self.blank()?;
        if depth > MAX_DEPTH {
            return Err((self.at, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let at = self.at;
        let kind = match self.peek() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.array(depth)?,
            Some(b'"' | b'\'') => Kind::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b'a'..=b'z' | b'A'..=b'Z') => self.literal()?,
            _ => return Err(self.error("a value")),
        };
        Ok(Value { at, kind })
    }

    fn object(&mut self, depth: usize) -> Result<Kind, Failure> {
        let mut members = Vec::new();
        self.elements(b'}', "',' or '}'", |reader| {
            let at = reader.at;
            let key = match reader.peek() {
                Some(b'"' | b'\'') => reader.string()?,
                _ => return Err(reader.error("a key in quotes or '}'")),
            };
            reader.blank()?;
            let value = match reader.peek() {
                Some(b':') => {
                    reader.at += 1;
                    reader.value(depth + 1)?
                }
                Some(b',' | b'}') if key.starts_with("suspend") => Value { at, kind: Kind::Null },
                _ => return Err(reader.error("':'")),
            };
            members.push(Member { at, key, value });
            Ok(())
        })?;
        Ok(Kind::Object(members))
    }

    fn array(&mut self, depth: usize) -> Result<Kind, Failure> {
        let mut items = Vec::new();
        self.elements(b']', "',' or ']'", |reader| {
            items.push(reader.value(depth + 1)?);
            Ok(())
        })?;
        Ok(Kind::Array(items))
    }

    /// Parses comma-separated elements from the opening byte at the current position to the closing one; a trailing
    /// comma is allowed.
    fn elements(
        &mut self,
        close: u8,
        expected: &str,
        mut element: impl FnMut(&mut Self) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.at += 1;
        loop {
            self.blank()?;
            if self.peek() == Some(close) {
                break;
            }
            element(self)?;
            self.blank()?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(byte) if byte == close => break,
                _ => return Err(self.error(expected)),
            }
        }
        self.at += 1;
        Ok(())
    }

    fn string(&mut self) -> Result<String, Failure> {
        let (start, quote) = (self.at, self.bytes[self.at]);
        self.at += 1;
        let mut content = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(character) = rest.chars().next() else {
                return Err((start, "unterminated string".into()));
            };
            match character {
                '\\' => content.push(self.escape()?),
                '\n' | '\r' => return Err((start, "string is not terminated on its line".into())),
                _ => {
                    self.at += character.len_utf8();
                    if character == char::from(quote) {
                        return Ok(content);
                    }
                    content.push(character);
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, Failure> {
        let start = self.at;
        self.at += 1;
        let simple = match self.peek() {
            Some(byte @ (b'"' | b'\'' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(start),
            _ => return Err((start, "unknown escape; expected one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u".into())),
        };
        self.at += 1;
        Ok(simple)
    }

    /// Parses `\uHHHH`, or a surrogate pair of two.
    fn unicode(&mut self, start: usize) -> Result<char, Failure> {
        let unit = |at: usize| {
            let digits = self.text.get(at..at + 4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
            digits.and_then(|digits| u16::from_str_radix(digits, 16).ok())
        };
        let bad = || (start, "bad \\u escape; expected four hexadecimal digits of a valid character".to_owned());
        let first = unit(start + 2).ok_or_else(bad)?;
        self.at = start + 6;
        let mut units = vec![first];
        if (0xD800..0xDC00).contains(&first) && self.text[self.at..].starts_with("\\u") {
            units.push(unit(self.at + 2).ok_or_else(bad)?);
            self.at += 6;
        }
        char::decode_utf16(units).next().and_then(Result::ok).ok_or_else(bad)
    }

    fn number(&mut self) -> Result<Kind, Failure> {
        let start = self.at;
        while matches!(self.peek(), Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')) {
            self.at += 1;
        }
        let text = &self.text[start..self.at];
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.is_empty() {
            return Ok(text.parse().map_or(Kind::OtherNumber, Kind::Integer));
        }
        match text.parse::<f64>() {
            Ok(_) => Ok(Kind::OtherNumber),
            Err(_) => Err((start, format!("{text:?} is not a number"))),
        }
    }

    fn literal(&mut self) -> Result<Kind, Failure> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            self.at += 1;
        }
        match self.text[start..self.at].to_ascii_lowercase().as_str() {
            "null" => Ok(Kind::Null),
            "true" => Ok(Kind::Bool(true)),
            "false" => Ok(Kind::Bool(false)),
            word => Err((start, format!("found {word:?}; expected a value (strings need quotes)"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn show(value: &Value) -> String {
        match &value.kind {
            Kind::Array(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(",")),
            Kind::Object(members) => {
                let members =
                    members.iter().map(|member| format!("{}@{}:{}", member.key, member.at, show(&member.value)));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            }
            Kind::String(text) => format!("{text:?}"),
            Kind::Integer(number) => number.to_string(),
            Kind::Bool(value) => value.to_string(),
            other => other.name().to_owned(),
        }
    }

    #[test]
    fn relaxed_json_is_parsed_with_positions() {
        let cases = [
            ("{\"run\": 1, \"run\": 2, /* c */ \"sleep\": 3,}", "{run@1:1,run@11:2,sleep@29:3}"),
            ("// a\n[1, -2,\n 3 // b\n]", "[1,-2,3]"),
            ("[True, NULL, 'x\"y', \"\\u00e9\\ud83d\\ude00\\n\"]", "[true,null,\"x\\\"y\",\"é😀\\n\"]"),
            (
                "[1.5, 1e3, 99999999999999999999]",
                "[a number that is not a 64-bit integer,a number that is not a 64-bit integer,a number that is not a 64-bit integer]",
            ),
            ("[]", "[]"),
            (" {} ", "{}"),
            ("{\"suspend\", \"suspend2\"}", "{suspend@1:null,suspend2@12:null}"),
            ("/**/1", "1"),
        ];
        for (text, expected) in cases {
            assert_eq!(show(&parse(text).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn syntax_errors_have_positions() {
        let deep = "[".repeat(40);
        let cases = [
            ("", 0, "the file ends; expected a value"),
            ("{\"a\", 1}", 4, "found ','; expected ':'"),
            ("{\"a\" 1}", 5, "found '1'; expected ':'"),
            ("{a: 1}", 1, "found 'a'; expected a key in quotes or '}'"),
            ("{\"a\": 1 \"b\": 2}", 8, "found '\"'; expected ',' or '}'"),
            ("[1 2]", 3, "found '2'; expected ',' or ']'"),
            ("[1,,2]", 3, "found ','; expected a value"),
            ("[1", 2, "the file ends; expected ',' or ']'"),
            ("\"abc", 0, "unterminated string"),
            ("\"ab\nc\"", 0, "string is not terminated on its line"),
            ("\"\\x\"", 1, "unknown escape; expected one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u"),
            ("\"\\ud800x\"", 1, "bad \\u escape; expected four hexadecimal digits of a valid character"),
            ("\"\\u12\"", 1, "bad \\u escape; expected four hexadecimal digits of a valid character"),
            ("/* x", 0, "unterminated comment; expected */"),
            ("/x", 0, "found '/'; expected a comment (// or /*)"),
            ("1-2", 0, "\"1-2\" is not a number"),
            ("yes", 0, "found \"yes\"; expected a value (strings need quotes)"),
            ("1 x", 2, "found 'x'; expected the end of the file"),
            (&deep, 33, "nested deeper than 32 levels"),
        ];
        for (text, at, expected) in cases {
            assert_eq!(parse(text), Err((at, expected.to_owned())), "{text}");
        }
        assert_eq!(line_and_column("ab\né é\n", 7), (2, 4));
        assert_eq!(line_and_column("ab\n", 99), (2, 1));
    }

    proptest! {
        #[test]
        fn error_positions_are_within_the_text(text in "[\\[\\]{}:,\"'\\\\/*ué0-9a-f \n.-]{0,40}") {
            if let Err((at, _)) = parse(&text) {
                prop_assert!(at <= text.len());
            }
        }
    }
}
