// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of output files.

use super::arguments::Arguments;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// A usage error with its message.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Returns whether a name stands for standard input and output.
pub fn is_standard(file: &Path) -> bool {
    file == Path::new("-")
}

/// Output file for an input; `None` is standard output.
pub fn output(arguments: &Arguments, input: &Path) -> Result<Option<PathBuf>> {
    if let Some(name) = &arguments.outfile {
        return Ok((!is_standard(name)).then(|| name.clone()));
    }
    if is_standard(input) {
        return Ok(None);
    }
    let name = input.file_name().ok_or_else(|| Usage("not a file name".to_owned()))?.to_string_lossy();
    let suffix = &arguments.suffix;
    let output = if arguments.decompress {
        match name.strip_suffix(suffix.as_str()).filter(|rest| !rest.is_empty()) {
            Some(rest) => rest.to_owned(),
            None => return Err(Usage(format!("the name does not end with {suffix}; name the output with -o")).into()),
        }
    } else {
        if name.ends_with(suffix.as_str()) {
            return Err(Usage(format!("the name already ends with {suffix}; name the output with -o")).into());
        }
        format!("{name}{suffix}")
    };
    let directory = arguments.outdir.as_deref().or(input.parent()).unwrap_or(Path::new(""));
    Ok(Some(directory.join(output)))
}

/// Input files. Directories are replaced by the files in them: archives for options that read archives, else all
/// other files. Symbolic links are not followed.
pub fn inputs(arguments: &Arguments) -> std::io::Result<Vec<PathBuf>> {
    if arguments.files.is_empty() {
        return Ok(vec![PathBuf::from("-")]);
    }
    let archives = arguments.decompress || arguments.test || arguments.info || arguments.repair;
    let mut inputs = Vec::new();
    for file in &arguments.files {
        if !arguments.recursive || !file.is_dir() {
            inputs.push(file.clone());
            continue;
        }
        let mut found = Vec::new();
        walk(file, &mut found)?;
        found.retain(|path| path.to_string_lossy().ends_with(&arguments.suffix) == archives);
        found.sort();
        inputs.extend(found);
    }
    Ok(inputs)
}

fn walk(directory: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => walk(&entry.path(), found)?,
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    Ok(())
}

/// Name of an archive's parity file.
pub fn parity(archive: &Path) -> PathBuf {
    let mut name = archive.as_os_str().to_owned();
    name.push(".par");
    name.into()
}
