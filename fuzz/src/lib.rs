// SPDX-License-Identifier: GPL-2.0-only
//! What each fuzz target does with its input. The tests of the crates include these modules by path and drive them
//! with mutated files, so that they are exercised without a fuzzer, too.

pub mod bitfit_operations;
pub mod gfs2_image;
pub mod log;
pub mod lrz_archive;
pub mod machine;
pub mod machine_description;
pub mod object;
pub mod profile;
pub mod recording;
pub mod rt_app;
pub mod saved_run;
