// SPDX-License-Identifier: GPL-2.0-only
//! Capped groups, for schedulers that promise to enforce caps: hard and soft caps, side by side and nested, in half
//! of all cases. Tasks in the other cases have only weights.

use super::Rng;

/// Caps in percent of a CPU. Small ones are reached within a run of half a second.
const HARD: [u32; 6] = [2, 5, 20, 50, 80, 150];
const SOFT: [u32; 4] = [0, 5, 30, 60];

/// Cap generator of one case.
pub(super) struct Caps {
    generated: bool,
    /// Number of groups so far. Each part gets a group of its own, since a group has one cap.
    groups: u32,
}

impl Caps {
    pub fn generate(needed: bool, rng: &mut Rng) -> Caps {
        Caps { generated: needed && rng.below(2) == 0, groups: 0 }
    }

    /// The `group=` and cap keys of the next workload part; empty for an uncapped part.
    pub fn of_part(&mut self, rng: &mut Rng) -> String {
        if !self.generated || rng.below(5) == 0 {
            return String::new();
        }
        let around = if self.groups > 0 && rng.below(3) == 0 { "/c0" } else { "" };
        let cap = match rng.below(3) {
            0 => format!("cap={}", rng.one_of(&SOFT)),
            _ => format!("hard-cap={}", rng.one_of(&HARD)),
        };
        let group = format!(",group={around}/c{},{cap}", self.groups);
        self.groups += 1;
        group
    }
}
