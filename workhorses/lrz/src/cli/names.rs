// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of outputs.

use super::arguments::Arguments;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// A wish that cannot be fulfilled, in words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Whether a name stands for standard input and output.
pub fn is_standard(file: &Path) -> bool {
    file == Path::new("-")
}

/// The output for an input; `None` is standard output.
pub fn output(arguments: &Arguments, input: &Path) -> Result<Option<PathBuf>> {
    if let Some(name) = &arguments.outfile {
        return Ok((!is_standard(name)).then(|| name.clone()));
    }
    if is_standard(input) {
        return Ok(None);
    }
    let name = input.file_name().ok_or_else(|| Usage("it is no file".to_owned()))?.to_string_lossy();
    let suffix = &arguments.suffix;
    let output = if arguments.decompress {
        match name.strip_suffix(suffix.as_str()).filter(|rest| !rest.is_empty()) {
            Some(rest) => rest.to_owned(),
            None => return Err(Usage(format!("its name does not end with {suffix}: -o names the output")).into()),
        }
    } else {
        if name.ends_with(suffix.as_str()) {
            return Err(Usage(format!("its name ends with {suffix} already: -o names the output")).into());
        }
        format!("{name}{suffix}")
    };
    let folder = arguments.outdir.as_deref().or(input.parent()).unwrap_or(Path::new(""));
    Ok(Some(folder.join(output)))
}

/// The parity of an archive.
pub fn parity(archive: &Path) -> PathBuf {
    let mut name = archive.as_os_str().to_owned();
    name.push(".par");
    name.into()
}
