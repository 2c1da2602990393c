// SPDX-License-Identifier: MIT OR Apache-2.0
//! The integration tests of this crate, in one program: linking a program per file takes longer than most tests.

mod common;
mod interoperability;
mod mutated;
mod program;
