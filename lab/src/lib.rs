// SPDX-License-Identifier: GPL-2.0-only
//! Measurements of this machine and of the model. Each command writes a table; `lab/results` holds the ones that the
//! manual refers to.

pub mod campaign_cost;
pub mod costs;
pub mod disk_host;
pub mod locks;
pub mod lrz;
pub mod memory;
pub mod memory_cost;
pub mod memory_host;
pub mod meter_check;
pub mod meter_cost;
pub mod nix;
pub mod noise;
pub mod objects;
pub mod predict;
pub mod statistics;
pub mod wall;

use std::path::Path;

/// Root directory of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("lab is a directory of the repository")
}
