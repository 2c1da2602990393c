// SPDX-License-Identifier: MIT OR Apache-2.0
//! The four states of a block, the changes allowed between them, and the errors of a change.

use core::fmt;

/// The state of one block. The number is what GFS2 stores on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum State {
    /// Nobody owns the block.
    Free = 0,
    /// The block holds data, or metadata that is no inode.
    Used = 1,
    /// An inode without a name: it waits to be freed.
    Unlinked = 2,
    /// An inode.
    Dinode = 3,
}

impl State {
    /// All states in the order of their numbers.
    pub const ALL: [State; 4] = [State::Free, State::Used, State::Unlinked, State::Dinode];

    /// The state that the two low bits of `bits` stand for; higher bits are ignored.
    #[inline]
    pub const fn from_bits(bits: u8) -> State {
        Self::ALL[(bits & 3) as usize]
    }

    /// The two bits stored in the map.
    #[inline]
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Whether a block in this state may change to `next`.
    ///
    /// A block is taken from the free ones, as data or as an inode; an inode may lose its name; and everything that is
    /// not free may be freed. Every other change means that the map is damaged or the caller is wrong.
    #[inline]
    pub const fn may_become(self, next: State) -> bool {
        match next {
            State::Free => !matches!(self, State::Free),
            State::Used | State::Dinode => matches!(self, State::Free),
            State::Unlinked => matches!(self, State::Dinode),
        }
    }

    /// The lower-case name, for output.
    pub const fn name(self) -> &'static str {
        match self {
            State::Free => "free",
            State::Used => "used",
            State::Unlinked => "unlinked",
            State::Dinode => "dinode",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why a block did not change its state. The map is then as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetError {
    /// The map has no such block.
    OutOfRange {
        /// The block asked for.
        block: usize,
        /// How many blocks the map has.
        blocks: usize,
    },
    /// The change is not one of those that [`State::may_become`] allows.
    Illegal {
        /// The block asked for.
        block: usize,
        /// Its state in the map.
        from: State,
        /// The state it should have got.
        to: State,
    },
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetError::OutOfRange { block, blocks } => {
                write!(f, "block {block} is outside the map: expected a block below {blocks}")
            }
            SetError::Illegal { block, from, to } => write!(f, "block {block} is {from} and must not become {to}"),
        }
    }
}

impl core::error::Error for SetError {}

/// How many blocks are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    blocks: [usize; 4],
}

impl Counts {
    /// Counts given in the order of [`State::ALL`].
    pub const fn new(blocks: [usize; 4]) -> Counts {
        Counts { blocks }
    }

    /// The number of blocks in `state`.
    pub const fn of(&self, state: State) -> usize {
        self.blocks[state as usize]
    }

    /// The number of blocks in all states together.
    pub fn total(&self) -> usize {
        self.blocks.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allows_exactly_the_six_changes_of_gfs2() {
        use State::*;
        let allowed =
            [(Used, Free), (Unlinked, Free), (Dinode, Free), (Free, Used), (Dinode, Unlinked), (Free, Dinode)];
        for from in State::ALL {
            for to in State::ALL {
                assert_eq!(from.may_become(to), allowed.contains(&(from, to)), "{from} -> {to}");
            }
        }
    }

    #[test]
    fn bits_go_there_and_back() {
        for bits in 0..=255 {
            assert_eq!(State::from_bits(bits).bits(), bits & 3);
        }
    }
}
