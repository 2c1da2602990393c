// SPDX-License-Identifier: MIT OR Apache-2.0
//! The integration tests of this crate, in one program: linking a program per file takes longer than most tests.

mod atomic;
mod capi;
mod common;
mod gfs2;
mod gfs2_tools;
mod guard_pages;
mod history;
mod operations;
mod oracle;
mod program;
mod summary;
