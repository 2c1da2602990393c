// SPDX-License-Identifier: MIT OR Apache-2.0
//! The search for repeats at any distance.
//!
//! Three steps, of which the first and the last take pieces of the file in any order and on any thread:
//!
//! 1. [`scan`] takes samples: places that the bytes before them choose, so that equal bytes have equal samples.
//! 2. [`Table`] looks each sample up among all before it, in order; that is little work.
//! 3. [`choose`] holds what was found against the bytes, extends it both ways, and keeps what pays.

mod choose;
mod judge;
mod scan;
mod table;

pub use choose::{Match, choose};
pub use judge::Judge;
pub use scan::{SAMPLED, Sample, scan};
pub use table::{Found, Table};

#[cfg(test)]
mod tests;
