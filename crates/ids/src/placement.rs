// SPDX-License-Identifier: GPL-2.0-only
//! Assignment of memory to nodes.

/// Assignment of a task's memory to nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Placement {
    /// On the node on which the task first runs; the kernel's default.
    #[default]
    FirstTouch,
    /// Evenly over all nodes with CPUs.
    Interleave,
    /// First touch; later the memory follows the task to the node on which it runs (`numa_balancing`).
    Balancing,
    /// On this node.
    Node(u32),
}

impl Placement {
    /// Placements without a number, with their names.
    pub const NAMES: [(&'static str, Placement); 3] = [
        ("first-touch", Placement::FirstTouch),
        ("interleave", Placement::Interleave),
        ("balancing", Placement::Balancing),
    ];
    /// Names for error messages.
    pub const EXPECTED: &'static str = "first-touch, interleave, balancing, or node:N such as node:0";

    /// Parses a name, or `node:N`.
    pub fn parse(word: &str) -> Option<Placement> {
        if let Some(number) = word.strip_prefix("node:") {
            return number.parse().ok().map(Placement::Node);
        }
        Placement::NAMES.iter().find(|(name, _)| *name == word).map(|(_, placement)| *placement)
    }
}

impl std::fmt::Display for Placement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Placement::Node(node) => write!(f, "node:{node}"),
            other => {
                let (name, _) = Placement::NAMES.iter().find(|(_, placement)| placement == other).expect("all named");
                f.write_str(name)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placement_names_parse_and_print() {
        for word in ["first-touch", "interleave", "balancing", "node:3"] {
            assert_eq!(Placement::parse(word).unwrap().to_string(), word);
        }
        assert_eq!([Placement::parse("node:x"), Placement::parse("near")], [None, None]);
    }
}
