// SPDX-License-Identifier: GPL-2.0-only
//! Why a virtual machine cannot be had here. That is no failure of Weir: it has an exit status of its own.

/// Something of the surroundings is missing.
#[derive(Debug, thiserror::Error)]
pub enum Missing {
    /// A program, package or file: what, and how to get it.
    #[error("{0}")]
    Thing(String),
    /// apt reached no server: this host is offline.
    #[error("apt reaches no server: {0}")]
    Network(String),
}

impl Missing {
    /// Shorthand for an error that says what is missing.
    pub fn thing(what: impl Into<String>) -> anyhow::Error {
        Missing::Thing(what.into()).into()
    }
}
