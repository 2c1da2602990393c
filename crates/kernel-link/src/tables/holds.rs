// SPDX-License-Identifier: GPL-2.0-only
//! Probes at functions that take and release a user lock, so that the lock table knows how long it is held.

use crate::LinkError;
use libbpf_rs::{Link, Object, UprobeOpts};
use std::path::PathBuf;
use std::str::FromStr;

/// A function that takes the lock in its first argument, and the one that releases it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockFunctions {
    /// Program or library that contains both. A name without a slash is looked for in the library path.
    file: PathBuf,
    take: String,
    release: String,
}

/// Cookie of `holds.bpf.h`: a call that returns anything but 0 has not taken the lock.
const RETURNS_ERROR: u64 = 1;

impl FromStr for LockFunctions {
    type Err = String;

    fn from_str(text: &str) -> Result<LockFunctions, String> {
        let expected = || {
            format!("{text:?}: expected FILE:TAKE/RELEASE, such as libc.so.6:pthread_mutex_lock/pthread_mutex_unlock")
        };
        let (file, functions) = text.rsplit_once(':').ok_or_else(expected)?;
        let (take, release) = functions.split_once('/').ok_or_else(expected)?;
        if [file, take, release].iter().any(|part| part.is_empty() || part.contains('\0')) {
            return Err(expected());
        }
        Ok(LockFunctions { file: file.into(), take: take.to_owned(), release: release.to_owned() })
    }
}

impl LockFunctions {
    /// Attaches the probes to all processes; the programs themselves select the tasks.
    pub(super) fn attach(&self, object: &Object) -> Result<[Link; 3], LinkError> {
        let cookie = if self.take.starts_with("pthread_") { RETURNS_ERROR } else { 0 };
        let attach = |program: &str, function: &str, retprobe: bool| {
            let found = object.progs_mut().find(|found| found.name() == program);
            let options =
                UprobeOpts { cookie, retprobe, func_name: Some(function.to_owned()), ..UprobeOpts::default() };
            let link = found.expect("the object has this program").attach_uprobe_with_opts(-1, &self.file, 0, options);
            link.map_err(|source| LinkError::LockFunction {
                file: self.file.clone(),
                function: function.to_owned(),
                source,
            })
        };
        Ok([
            attach("on_release", &self.release, false)?,
            attach("on_taken", &self.take, true)?,
            attach("on_take", &self.take, false)?,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_functions_are_a_file_and_two_names() {
        let functions: LockFunctions = "./a:b/server:take/drop".parse().unwrap();
        assert_eq!(
            (functions.file.to_str(), &*functions.take, &*functions.release),
            (Some("./a:b/server"), "take", "drop")
        );
        for wrong in ["", "take/drop", "x:take", "x:/drop", ":take/drop", "x:take/"] {
            let error = wrong.parse::<LockFunctions>().unwrap_err();
            assert!(error.contains("expected FILE:TAKE/RELEASE"), "{error}");
        }
    }
}
