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

/// The inputs: folders are replaced by the files in them that can be packed, or that are archives if these are wanted.
/// What a link leads to is not followed.
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

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => walk(&entry.path(), found)?,
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    Ok(())
}

/// The parity of an archive.
pub fn parity(archive: &Path) -> PathBuf {
    let mut name = archive.as_os_str().to_owned();
    name.push(".par");
    name.into()
}
