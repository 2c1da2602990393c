// SPDX-License-Identifier: GPL-2.0-only
//! Tables of `weir meter`: which locks were waited for, in which states tasks spent their lives, which task woke which,
//! and which interrupts came. They have the same words and keys for simulated and real runs.
//!
//! 1. A meter is data ([`Locks`], [`Microstates`], [`Wakeups`], [`Interrupts`]) with a text, JSON and CSV form. The
//!    producers of the data are elsewhere: saved runs in `weir`, the running kernel in `kernel-link`.
//! 2. A value that was not measured is `None`, null in JSON and `-` in text, never 0.
//! 3. A number stands beside its denominator, and what limits the trust in it ([`Trust`]) is printed with it.

mod columns;
mod interrupts;
mod lockmeter;
mod locks;
mod microstates;
mod trust;
mod wakeups;

pub use interrupts::{Interrupt, Interrupts};
pub use lockmeter::lockmeter;
pub use locks::{Check, Lock, Locks, Sort};
pub use microstates::{Microstates, Reason, State, Task};
pub use trust::{Trust, World};
pub use wakeups::{Pair, Wakeups};

/// Number of rows that a text shows unless all are requested.
pub const ROWS: usize = 20;
