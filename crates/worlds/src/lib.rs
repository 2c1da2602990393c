// SPDX-License-Identifier: GPL-2.0-only
//! What came of a run in either world, as one report.
//!
//! 1. [`Tags`] say what is run. They are known before it begins: [`simulated::tags`], [`real::tags`].
//! 2. The same tags head the log of the run ([`header`]) and its report.
//! 3. A world gives back how the run ended and what was measured; [`simulated::report`] and [`real::report`] bring
//!    both into the terms of [`report::RunReport`], which does not tell the worlds apart.

mod demands;
#[cfg(feature = "real")]
pub mod real;
pub mod simulated;

pub use demands::demands;
use event_log::{FORMAT, Header, hash_bytes};
use report::Tags;

/// The hash by which an object is known, in hexadecimal.
pub fn object_hash(object: &[u8]) -> String {
    format!("{:032x}", hash_bytes(object))
}

/// What stands before the events of a run; `version` is that of the program that writes them.
pub fn header(tags: &Tags, version: &str) -> Header {
    Header {
        weir_log: FORMAT,
        version: version.to_owned(),
        scheduler: tags.scheduler.clone(),
        object_hash: tags.object_hash.clone().unwrap_or_default(),
        machine: tags.machine.clone(),
        workload: tags.workload.clone(),
        seed: tags.seed.unwrap_or(0),
        kernel: tags.kernel.clone(),
    }
}

#[cfg(all(test, feature = "real"))]
mod tests;
