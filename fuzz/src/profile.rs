// SPDX-License-Identifier: GPL-2.0-only
//! Launch profiles: any text gives a result without a panic. The first line is also used as a tunable `key=value` of
//! the command line.

use launch_profile::Profile;

/// Parses the bytes as a profile.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(mut profile) = Profile::from_toml("fuzz", &text) else { return };
    let first = text.lines().next().unwrap_or_default();
    let tunables: Vec<_> = first.split_once('=').map(|(key, value)| (key.into(), value.into())).into_iter().collect();
    let _ = profile.select(Some(first), &[]);
    let _ = profile.select(None, &tunables);
}
