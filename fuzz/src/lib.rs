// SPDX-License-Identifier: GPL-2.0-only
//! Bodies of the fuzz targets. The tests of the crates include these modules by path and run them with mutated files,
//! so they are exercised without a fuzzer too.

pub mod bitfit_operations;
pub mod campaign;
pub mod events;
pub mod gfs2_image;
pub mod ixfs_messages;
pub mod ixfs_store;
pub mod ixfs_stream;
pub mod log;
pub mod lrz_archive;
pub mod machine;
pub mod machine_description;
pub mod object;
pub mod profile;
pub mod recording;
pub mod rt_app;
pub mod saved_run;
