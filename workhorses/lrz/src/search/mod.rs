// SPDX-License-Identifier: MIT OR Apache-2.0
//! Search for matches at any distance, in three steps. The first and the last process pieces in any order and on any
//! thread.
//!
//! 1. [`scan`] samples positions. The sampled bytes themselves decide which positions are sampled, so equal bytes
//!    have equal samples.
//! 2. [`Table`] looks each sample up among all earlier ones, in file order; this step is cheap.
//! 3. [`choose`] verifies the candidates against the bytes, extends them both ways, and keeps those that pay.

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
