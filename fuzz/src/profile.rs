// SPDX-License-Identifier: GPL-2.0-only
//! Launch profiles: whatever the text is, there is a result and no panic. The first line is taken as a tunable
//! `key=value` of the command line as well.

use launch_profile::Profile;

/// Reads the bytes as a profile.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(mut profile) = Profile::from_toml("fuzz", &text) else { return };
    let first = text.lines().next().unwrap_or_default();
    let tunables: Vec<_> = first.split_once('=').map(|(key, value)| (key.into(), value.into())).into_iter().collect();
    let _ = profile.select(Some(first), &[]);
    let _ = profile.select(None, &tunables);
}
