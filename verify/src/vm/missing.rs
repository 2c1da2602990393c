// SPDX-License-Identifier: GPL-2.0-only
//! Reasons why this host cannot run a virtual machine. That is no failure of Weir and has its own exit status.

/// A missing prerequisite of the host.
#[derive(Debug, thiserror::Error)]
pub enum Missing {
    /// A program, package or file, and how to get it.
    #[error("{0}")]
    Thing(String),
    /// apt reached no server: the host is offline.
    #[error("apt cannot reach a server: {0}")]
    Network(String),
}

impl Missing {
    /// Returns an error for a missing thing.
    pub fn thing(what: impl Into<String>) -> anyhow::Error {
        Missing::Thing(what.into()).into()
    }
}
