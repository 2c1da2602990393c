// SPDX-License-Identifier: GPL-2.0-only
//! Measures in; JSON and text at 80 columns out. Nothing here runs or re-runs anything.
//!
//! One run gives a summary ([`summary`]), several give what differs and by how much ([`comparison`]), never two tables
//! beside each other. [`to_json`] is the contract that other programs read; its field names live in `json.rs` alone.

mod comparison;
mod json;
mod numbers;
mod run;
mod summary;

pub use comparison::comparison;
pub use json::to_json;
pub use numbers::{count, counted};
pub use run::{Exit, Meter, RunReport};
pub use summary::summary;

/// The text for these runs: a summary of one, a comparison of several.
pub fn to_text(runs: &[RunReport]) -> String {
    match runs {
        [run] => summary(run),
        runs => comparison(runs),
    }
}
