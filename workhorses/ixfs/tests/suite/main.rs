// SPDX-License-Identifier: GPL-2.0-only
//! The integration tests of this crate, in one program: linking a program per file takes longer than most tests.

mod common;
mod crash;
mod damage;
mod fuse;
mod ninep;
mod posix;
mod server;
mod snapshot;
