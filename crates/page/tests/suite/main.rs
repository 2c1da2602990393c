// SPDX-License-Identifier: GPL-2.0-only
//! The integration tests of this crate, in one program: linking a program per file takes longer than most tests.

#[expect(dead_code, reason = "the tests of `report` use the rest")]
#[path = "../../../report/tests/suite/common/mod.rs"]
mod common;
mod hostile;
mod page;
mod timeline;
