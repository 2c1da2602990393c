// SPDX-License-Identifier: GPL-2.0-only
//! Execution rate of each CPU: SMT, frequency, core capacity, idle states.
//!
//! A [`Processor`] is notified when a CPU becomes busy and when it becomes idle, and returns the [`Rate`] at which
//! work executes there. Rates are constant between its events: those notifications, and the times at which it asks to
//! be called itself ([`Processor::next_due`]). [`Processor::take_changed`] lists the CPUs whose rate may have
//! changed.
//!
//! The rate is the product of the following factors, rounded down after each step, in this order:
//! 1. the frequency relative to the highest one of any CPU, applied to the part of the work that waits for the CPU
//!    and not for memory;
//! 2. the capacity of this kind of core;
//! 3. the share of the core that each of its busy SMT threads gets.
//!
//! `docs/explanation/machine-model.md` has the formulas with their sources, and lists what is not modelled.

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
