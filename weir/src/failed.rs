// SPDX-License-Identifier: GPL-2.0-only
//! The error of commands that need the result of each run.

use std::fmt;

/// A run or command that failed, as opposed to bad usage or input: the exit status is 1.
#[derive(Debug)]
pub struct Failed(pub String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}
