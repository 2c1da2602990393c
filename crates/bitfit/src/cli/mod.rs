// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands of the program.

pub mod bench;
mod maps;
mod stopwatch;
