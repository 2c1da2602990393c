// SPDX-License-Identifier: GPL-2.0-only
//! Access to XML attributes as numbers and sets, with positions in errors.

use crate::MachineError;
use ids::{CpuId, CpuSet, MAX_CPUS};
use std::ops::RangeInclusive;

/// An element and the name of its file.
#[derive(Clone, Copy)]
pub(super) struct Element<'a, 'i> {
    pub file: &'a str,
    pub node: roxmltree::Node<'a, 'i>,
}

impl<'a, 'i> Element<'a, 'i> {
    /// Direct child elements with this name.
    pub fn children(self, tag: &'static str) -> impl Iterator<Item = Element<'a, 'i>> {
        let elements = self.node.children().filter(move |node| node.is_element() && node.tag_name().name() == tag);
        elements.map(move |node| Element { file: self.file, node })
    }

    /// Creates an error at the element's position.
    pub fn error(self, problem: String) -> MachineError {
        let at = self.node.document().text_pos_at(self.node.range().start);
        MachineError { place: format!("{}:{}:{}", self.file, at.row, at.col), problem }
    }

    /// A required attribute.
    pub fn required(self, key: &str) -> Result<&'a str, MachineError> {
        let tag = self.node.tag_name().name();
        self.node.attribute(key).ok_or_else(|| self.error(format!("<{tag}> has no attribute {key}")))
    }

    /// A required numeric attribute.
    pub fn number(self, key: &str, range: RangeInclusive<u64>) -> Result<u64, MachineError> {
        self.in_range(key, self.required(key)?, range)
    }

    /// Parses a number in this range.
    pub fn in_range(self, key: &str, text: &str, range: RangeInclusive<u64>) -> Result<u64, MachineError> {
        let found = text.trim().parse().ok().filter(|number| range.contains(number));
        let expected = || match *range.end() {
            u64::MAX => "a number".to_owned(),
            end => format!("a number from {} to {end}", range.start()),
        };
        found.ok_or_else(|| self.error(format!("{key} is {:?}; expected {}", shorten(text), expected())))
    }

    /// Value of a nested `<info name="KEY" value="…"/>`.
    pub fn info(self, key: &str) -> Option<&'a str> {
        self.children("info").find(|info| info.node.attribute("name") == Some(key))?.node.attribute("value")
    }

    /// All numbers in child elements of this name: hwloc splits long lists into several elements.
    pub fn numbers(self, tag: &'static str) -> Result<Vec<u64>, MachineError> {
        let mut numbers = Vec::new();
        for part in self.children(tag) {
            for word in part.node.text().unwrap_or_default().split_whitespace() {
                numbers.push(part.in_range(tag, word, 0..=u64::MAX)?);
            }
        }
        Ok(numbers)
    }

    /// Parses a CPU set: comma-separated 32-bit hexadecimal words, highest first. A word may be empty.
    pub fn cpus(self, key: &str) -> Result<Option<CpuSet>, MachineError> {
        let Some(text) = self.node.attribute(key) else { return Ok(None) };
        let wrong = |problem: &str| self.error(format!("{key} is {:?}; {problem}", shorten(text)));
        let mut set = CpuSet::new();
        for (index, word) in text.rsplit(',').enumerate() {
            let digits = word.trim();
            let digits = digits.strip_prefix("0x").unwrap_or(digits);
            let bits = match digits {
                "" => 0,
                _ => u32::from_str_radix(digits, 16)
                    .map_err(|_| wrong("expected words of 32 bits such as 0x0000000f,0xffffffff"))?,
            };
            for bit in (0..32).filter(|bit| bits >> bit & 1 == 1) {
                let cpu = index * 32 + bit;
                if cpu >= MAX_CPUS {
                    return Err(wrong(&format!("expected CPUs below {MAX_CPUS}")));
                }
                set.insert(CpuId(cpu as u32));
            }
        }
        Ok(Some(set))
    }
}

/// Start of a possibly long text.
fn shorten(text: &str) -> String {
    text.chars().take(40).collect()
}
