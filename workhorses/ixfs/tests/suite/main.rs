// SPDX-License-Identifier: MIT OR Apache-2.0
//! The integration tests of this crate, in one program: linking a program per file takes longer than most tests.

mod common;
mod crash;
mod damage;
mod fsx;
mod fuse;
mod fuzzed;
mod ninep;
mod posix;
mod server;
mod snapshot;
