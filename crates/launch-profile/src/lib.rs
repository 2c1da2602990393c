// SPDX-License-Identifier: GPL-2.0-only
//! The launch profile: what a scheduler's user space would set before attach, as data. `weir sim` and `weir run` use
//! the same one.

use bpf_object::LinkedObject;
use machine_model::Machine;

/// A parsed `profile.toml`.
#[derive(Clone, Debug, Default)]
pub struct Profile {}

/// Why a profile was refused: file, line, what, near misses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct ProfileError {
    /// File and line, or the command-line argument.
    pub place: String,
    /// What was found and what was expected.
    pub problem: String,
}

impl Profile {
    /// From TOML; `name` stands in errors.
    pub fn from_toml(name: &str, text: &str) -> Result<Profile, ProfileError> {
        todo!("{name} {text}")
    }

    /// Selects `@preset` and sets `key=value` tunables from the command line.
    pub fn select(&mut self, preset: Option<&str>, tunables: &[(String, String)]) -> Result<(), ProfileError> {
        todo!("{preset:?} {tunables:?}")
    }

    /// Puts the profile's values into the initial data of `object` for `machine`: rodata values, ops flags, timeout.
    pub fn apply(&self, object: &mut LinkedObject, machine: &Machine) -> Result<(), ProfileError> {
        todo!("{object:?} {machine:?}")
    }
}
