// SPDX-License-Identifier: GPL-2.0-only
//! Converts simulated and real runs to reports of the same form.
//!
//! 1. [`Tags`] describe the inputs of a run. They are known before it begins: [`simulated::tags`], [`real::tags`].
//! 2. The same tags are in the header of the run's log ([`header`]) and in its report.
//! 3. Each world returns how the run ended and what was measured; [`simulated::report`] and [`real::report`] convert
//!    both to a [`report::RunReport`], which is independent of the world.

mod demands;
#[cfg(feature = "real")]
pub mod real;
pub mod simulated;

pub use demands::demands;
use event_log::{FORMAT, Header, hash_bytes};
use report::Tags;

/// Hash that identifies an object, in hexadecimal.
pub fn object_hash(object: &[u8]) -> String {
    format!("{:032x}", hash_bytes(object))
}

/// Header of a run's log; `version` is that of the program that writes it.
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
