// SPDX-License-Identifier: GPL-2.0-only
//! How fast each CPU runs: what changes its rate, and when.
//!
//! A [`Processor`] is told when a CPU begins to execute anything and when it idles again, and says at which [`Rate`] a
//! task's work gets done there. Rates are constant between its events: those calls, and the times at which it wants to
//! be called itself ([`Processor::next_due`]). [`Processor::take_changed`] names the CPUs whose rate may be another.
//!
//! The rate is the product of the following, rounded down after each step, in this order:
//! 1. the frequency against the highest one that any CPU reaches, as far as work waits for the CPU and not for memory;
//! 2. the capacity of this kind of core;
//! 3. the share that each busy thread of a core gets.
//!
//! `docs/machine-model.md` has the formulas with their sources, and what is not modelled.

mod decay;
mod energy;
mod frequency;
mod governor;
mod idle;
mod processor;
mod rate;
#[cfg(test)]
mod tests;

pub use decay::{HALF_LIFE, Utilization};
pub use governor::{Ladder, conservative, ondemand, schedutil};
pub use processor::{Processor, Signal};
pub use rate::{Part, Rate};
