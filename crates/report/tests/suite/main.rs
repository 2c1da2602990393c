// SPDX-License-Identifier: GPL-2.0-only
//! The integration tests of this crate, in one program: linking a program per file takes longer than most tests.

mod common;
mod formats;
mod forms;
mod reports;
