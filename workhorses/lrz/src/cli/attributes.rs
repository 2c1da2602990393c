// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a file has beside its bytes.

use std::fs::{File, FileTimes};
use std::os::unix::fs::MetadataExt;
use xattr::FileExt;

/// Gives `to` the mode, owner, extended attributes and times of `from`, as far as the user may; says what did not work.
pub fn copy(from: &File, to: &File) -> Vec<String> {
    let mut failed = Vec::new();
    let Ok(metadata) = from.metadata() else { return vec!["its attributes could not be read".to_owned()] };
    if rustix::process::geteuid().is_root() {
        let (user, group) = (rustix::fs::Uid::from_raw(metadata.uid()), rustix::fs::Gid::from_raw(metadata.gid()));
        if let Err(error) = rustix::fs::fchown(to, Some(user), Some(group)) {
            failed.push(format!("its owner was not kept: {error}"));
        }
    }
    if let Err(error) = to.set_permissions(metadata.permissions()) {
        failed.push(format!("its mode was not kept: {error}"));
    }
    for name in from.list_xattr().into_iter().flatten() {
        // Labels of the system are set by the system.
        if !name.to_string_lossy().starts_with("user.") {
            continue;
        }
        if let Ok(Some(value)) = from.get_xattr(&name)
            && let Err(error) = to.set_xattr(&name, &value)
        {
            failed.push(format!("its attribute {} was not kept: {error}", name.to_string_lossy()));
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
        failed.push(format!("its times were not kept: {error}"));
    }
    failed
}
