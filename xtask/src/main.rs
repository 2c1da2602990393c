// SPDX-License-Identifier: GPL-2.0-only
//! Developer automation.
fn main() {}
