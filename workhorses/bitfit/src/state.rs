// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block states, allowed state changes, and errors of changes.

use core::fmt;

/// State of a block; the discriminant is the value stored on disk by GFS2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum State {
    /// Not allocated.
    Free = 0,
    /// Data, or metadata other than an inode.
    Used = 1,
    /// An inode without a directory entry, to be freed.
    Unlinked = 2,
    /// An inode.
    Dinode = 3,
}

impl State {
    /// All states by discriminant.
    pub const ALL: [State; 4] = [State::Free, State::Used, State::Unlinked, State::Dinode];

    /// State encoded by the two low bits of `bits`; higher bits are ignored.
    #[inline]
    pub const fn from_bits(bits: u8) -> State {
        Self::ALL[(bits & 3) as usize]
    }

    /// The two bits stored in the map.
    #[inline]
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Returns whether a block in this state may change to `next`.
    ///
    /// A free block may become used or an inode, an inode may become unlinked, and any other block may be freed. Any
    /// other change indicates a damaged map or a bug in the caller.
    #[inline]
    pub const fn may_become(self, next: State) -> bool {
        match next {
            State::Free => !matches!(self, State::Free),
            State::Used | State::Dinode => matches!(self, State::Free),
            State::Unlinked => matches!(self, State::Dinode),
        }
    }

    /// Lower-case name for output.
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

/// Error of a state change; the map is then unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetError {
    /// The block is outside the map.
    OutOfRange {
        /// Requested block.
        block: usize,
        /// Number of blocks in the map.
        blocks: usize,
    },
    /// The change is not allowed by [`State::may_become`].
    Illegal {
        /// Requested block.
        block: usize,
        /// State that the block is in.
        from: State,
        /// Requested state.
        to: State,
    },
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetError::OutOfRange { block, blocks } => {
                write!(f, "block {block} is outside the map: expected a block below {blocks}")
            }
            SetError::Illegal { block, from, to } => write!(f, "block {block} cannot change from {from} to {to}"),
        }
    }
}

impl core::error::Error for SetError {}

/// Number of blocks in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    blocks: [usize; 4],
}

impl Counts {
    /// Creates counts in the order of [`State::ALL`].
    pub const fn new(blocks: [usize; 4]) -> Counts {
        Counts { blocks }
    }

    /// Number of blocks in `state`.
    pub const fn of(&self, state: State) -> usize {
        self.blocks[state as usize]
    }

    /// Number of blocks in all states together.
    pub fn total(&self) -> usize {
        self.blocks.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_six_state_changes_of_gfs2_are_allowed() {
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
    fn state_round_trips_through_its_two_bits() {
        for bits in 0..=255 {
            assert_eq!(State::from_bits(bits).bits(), bits & 3);
        }
    }
}
