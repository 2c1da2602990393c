// SPDX-License-Identifier: GPL-2.0-only
//! A working set, of a task or of a region that tasks share.

use crate::nodes::Home;
use ids::CpuId;

/// A working set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkingSet {
    /// Size in bytes.
    pub footprint: u64,
    /// Home of its memory; `None` before its first use.
    pub home: Option<Home>,
    /// CPU on which it was used last; `None` before its first use.
    pub last: Option<CpuId>,
}

impl WorkingSet {
    /// A working set that was not used yet.
    pub fn new(footprint: u64) -> WorkingSet {
        WorkingSet { footprint, home: None, last: None }
    }
}
