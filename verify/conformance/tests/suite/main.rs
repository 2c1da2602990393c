// SPDX-License-Identifier: GPL-2.0-only
//! The integration tests of this crate, in one program: linking a program per file takes longer than most tests.

mod fair;
mod groups;
mod muqss;
mod placement;
mod recorded;
mod successor;
