// SPDX-License-Identifier: MIT OR Apache-2.0
//! File attributes: mode, owner, extended attributes and times.

use std::fs::{File, FileTimes};
use std::os::unix::fs::MetadataExt;
use xattr::FileExt;

/// Copies mode, owner, `user.*` extended attributes and times from `from` to `to` as far as permissions allow;
/// returns a warning per failure.
pub fn copy(from: &File, to: &File) -> Vec<String> {
    let mut failed = Vec::new();
    let Ok(metadata) = from.metadata() else { return vec!["cannot read the input's attributes".to_owned()] };
    if rustix::process::geteuid().is_root() {
        let (user, group) = (rustix::fs::Uid::from_raw(metadata.uid()), rustix::fs::Gid::from_raw(metadata.gid()));
        if let Err(error) = rustix::fs::fchown(to, Some(user), Some(group)) {
            failed.push(format!("cannot set the owner: {error}"));
        }
    }
    if let Err(error) = to.set_permissions(metadata.permissions()) {
        failed.push(format!("cannot set the mode: {error}"));
    }
    for name in from.list_xattr().into_iter().flatten() {
        // Other namespaces (security, system, trusted) are set by the system.
        if !name.to_string_lossy().starts_with("user.") {
            continue;
        }
        if let Ok(Some(value)) = from.get_xattr(&name)
            && let Err(error) = to.set_xattr(&name, &value)
        {
            failed.push(format!("cannot set the extended attribute {}: {error}", name.to_string_lossy()));
        }
    }
    let mut times = FileTimes::new();
    if let Ok(modified) = metadata.modified() {
        times = times.set_modified(modified);
    }
    if let Ok(accessed) = metadata.accessed() {
        times = times.set_accessed(accessed);
    }
    if let Err(error) = to.set_times(times) {
        failed.push(format!("cannot set the times: {error}"));
    }
    failed
}
