// SPDX-License-Identifier: GPL-2.0-only
//! Checks of the project itself that take longer than tests.
//!
//! - [`vm`] boots a kernel with sched_ext under QEMU and runs schedulers, the recorder and the conformance scenarios in it.
//! - [`attack`] feeds hostile inputs to the programs and lets everything go wrong with their output files.
//! - [`mutation`] breaks rules of the model and lines of policies, one at a time, and reports which tests fail.
//!
//! `verify/conformance` is a crate of its own: it is also a program that runs inside of the virtual machine.

pub mod attack;
pub mod mutation;
pub mod vm;

use std::path::Path;

/// Root directory of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("verify is a directory of the repository")
}
