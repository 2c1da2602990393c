// SPDX-License-Identifier: GPL-2.0-only
//! Finds the places where C code can be mutated: operators and constants.

/// One change of one token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Site {
    /// Byte offset of the token in the text.
    pub at: usize,
    /// Original token.
    pub old: String,
    /// Replacement token.
    pub new: String,
}

/// Operators and their replacements. Longer ones precede their own prefixes.
const SWAPS: [(&str, &str); 29] = [
    ("<<=", "<<="),
    (">>=", ">>="),
    ("->", "->"),
    ("++", "++"),
    ("--", "--"),
    ("<<", ">>"),
    (">>", "<<"),
    ("<=", "<"),
    (">=", ">"),
    ("==", "!="),
    ("!=", "=="),
    ("&&", "||"),
    ("||", "&&"),
    ("+=", "-="),
    ("-=", "+="),
    ("/=", "*="),
    ("*=", "/="),
    ("&=", "|="),
    ("|=", "&="),
    ("<", "<="),
    (">", ">="),
    ("+", "-"),
    ("-", "+"),
    ("/", "*"),
    ("*", "/"),
    ("%", "/"),
    ("&", "|"),
    ("|", "&"),
    ("!", ""),
];

/// Operators with another meaning if no operand precedes them.
const UNARY_TOO: [&str; 4] = ["+", "-", "*", "&"];

/// Returns all mutations of a C source, in order. Comments, strings and directives other than `#define` have none.
pub fn sites(text: &str) -> Vec<Site> {
    let mut lexer = Lexer { text, at: 0, operand: false, sites: Vec::new() };
    while lexer.at < text.len() {
        lexer.step();
    }
    lexer.sites
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    /// The last token ended an operand: a name, a number or a closing bracket.
    operand: bool,
    sites: Vec<Site>,
}

impl Lexer<'_> {
    fn step(&mut self) {
        let rest = &self.text[self.at..];
        let first = rest.chars().next().expect("not at the end");
        if rest.starts_with("/*") {
            self.at += rest.find("*/").map_or(rest.len(), |end| end + 2);
        } else if first == '"' || first == '\'' {
            self.quoted(first);
        } else if first == '#' {
            self.directive();
        } else if first.is_ascii_alphabetic() || first == '_' {
            self.word();
        } else if first.is_ascii_digit() {
            self.number();
        } else if first.is_whitespace() {
            self.at += first.len_utf8();
        } else {
            self.operator(first);
        }
    }

    fn quoted(&mut self, quote: char) {
        let mut escaped = false;
        let rest = &self.text[self.at + 1..];
        let end = rest.find(|c| {
            let ends = c == quote && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        self.at += end.map_or(rest.len(), |end| end + 1) + 1;
        self.operand = true;
    }

    /// In a definition only the value is code, not the name and the parameter list directly behind it.
    fn directive(&mut self) {
        let line = self.text[self.at..].lines().next().unwrap_or_default();
        let Some(definition) = line.strip_prefix("#define ") else {
            self.at += line.len();
            return;
        };
        let name = definition.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(definition.len());
        let parameters = match definition[name..].starts_with('(') {
            true => definition[name..].find(')').map_or(0, |end| end + 1),
            false => 0,
        };
        self.at += "#define ".len() + name + parameters;
        self.operand = false;
    }

    fn length(&self) -> usize {
        let rest = &self.text[self.at..];
        rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len())
    }

    fn word(&mut self) {
        let word = &self.text[self.at..self.at + self.length()];
        match word {
            "true" => self.change(word, "false"),
            "false" => self.change(word, "true"),
            _ => {}
        }
        self.at += word.len();
        // In `return -1` and `return *p` no operand precedes the operator, nor in types followed by a star.
        self.operand = !matches!(word, "return" | "case" | "struct" | "const" | "void" | "char" | "int" | "bool");
    }

    fn number(&mut self) {
        let number = &self.text[self.at..self.at + self.length()];
        let digits = number.trim_end_matches(['U', 'L', 'u', 'l']);
        let suffix = &number[digits.len()..];
        let value = match digits.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => digits.parse(),
        };
        if let Ok(value) = value {
            self.change(number, &format!("{}{suffix}", value.wrapping_add(1)));
            if value > 0 {
                self.change(number, &format!("{}{suffix}", value - 1));
            }
        }
        self.at += number.len();
        self.operand = true;
    }

    fn operator(&mut self, first: char) {
        let rest = &self.text[self.at..];
        let Some((old, new)) = SWAPS.iter().find(|(old, _)| rest.starts_with(old)) else {
            self.operand = matches!(first, ')' | ']');
            self.at += first.len_utf8();
            return;
        };
        let declares = *old == "*" && self.declares();
        if old != new && !declares && (self.operand || !UNARY_TOO.contains(old)) {
            self.change(old, new);
        }
        self.at += old.len();
        self.operand = matches!(*old, "++" | "--");
    }

    /// Returns whether a star belongs to a declaration or a cast: `struct task *t`, `(void *)`. Multiplications here
    /// have blanks around the star.
    fn declares(&self) -> bool {
        !self.text[self.at + 1..].starts_with(' ')
    }

    fn change(&mut self, old: &str, new: &str) {
        self.sites.push(Site { at: self.at, old: old.to_owned(), new: new.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(text: &str) -> Vec<String> {
        let change = |site: &Site| format!("{}{}{}", &text[..site.at], site.new, &text[site.at + site.old.len()..]);
        sites(text).iter().map(change).collect()
    }

    #[test]
    fn operators_and_constants_are_mutated() {
        assert_eq!(changes("a <= b"), ["a < b"]);
        assert_eq!(changes("if (!a && b)"), ["if (a && b)", "if (!a || b)"]);
        assert_eq!(changes("x = 100ULL;"), ["x = 101ULL;", "x = 99ULL;"]);
        assert_eq!(changes("0x10"), ["17", "15"]);
        assert_eq!(changes("0"), ["1"]);
        assert_eq!(changes("a << b - c"), ["a >> b - c", "a << b + c"]);
        assert_eq!(changes("x = true"), ["x = false"]);
        assert_eq!(changes("(a) * b"), ["(a) / b"]);
    }

    #[test]
    fn declarations_strings_and_comments_are_not_mutated() {
        for text in [
            "struct task *t;",
            "(void *)x",
            "return -x",
            "f(&a, -b)",
            "p->x",
            "i++",
            "/* a + 1 */",
            "\"a + 1\"",
            "'+'",
            "#include <a+1.h>",
            "#ifdef X1",
            "a1 = b;",
        ] {
            assert_eq!(changes(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn macro_values_are_mutated() {
        assert_eq!(changes("#define LESS(a1, b) ((a1) < (b))"), ["#define LESS(a1, b) ((a1) <= (b))"]);
        assert_eq!(changes("#define N2 (3 * x)"), ["#define N2 (4 * x)", "#define N2 (2 * x)", "#define N2 (3 / x)"]);
    }
}
