// SPDX-License-Identifier: GPL-2.0-only
//! The policies of `policies/`, compiled by clang when this crate is built, with their profiles.

/// A policy that ships with Weir.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Its name: the folder below `policies/`.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// The compiled object, the very bytes that the kernel would load.
    pub object: &'static [u8],
    /// Its `profile.toml`.
    pub profile: &'static str,
}

/// All policies in alphabetical order.
pub fn all() -> &'static [Policy] {
    &[]
}

/// The policy with this name.
pub fn find(name: &str) -> Option<&'static Policy> {
    all().iter().find(|policy| policy.name == name)
}
