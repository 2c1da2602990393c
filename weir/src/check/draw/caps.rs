// SPDX-License-Identifier: GPL-2.0-only
//! Groups with caps, for those who promise to keep groups below theirs: hard ones and soft ones, beside each other and one in
//! another, in a half of all cases. The tasks of the others have nothing but their weights.

use super::Dice;

/// In percent of a CPU. Small ones are reached in a run of half a second.
const HARD: [u32; 6] = [2, 5, 20, 50, 80, 150];
const SOFT: [u32; 4] = [0, 5, 30, 60];

/// The caps of one case.
pub(super) struct Caps {
    drawn: bool,
    /// Groups so far: each part has its own, for a group has one cap.
    groups: u32,
}

impl Caps {
    pub fn draw(needed: bool, dice: &mut Dice) -> Caps {
        Caps { drawn: needed && dice.below(2) == 0, groups: 0 }
    }

    /// What is said of the next part.
    pub fn of_part(&mut self, dice: &mut Dice) -> String {
        if !self.drawn || dice.below(5) == 0 {
            return String::new();
        }
        let around = if self.groups > 0 && dice.below(3) == 0 { "/c0" } else { "" };
        let cap = match dice.below(3) {
            0 => format!("cap={}", dice.one_of(&SOFT)),
            _ => format!("hard-cap={}", dice.one_of(&HARD)),
        };
        let group = format!(",group={around}/c{},{cap}", self.groups);
        self.groups += 1;
        group
    }
}
