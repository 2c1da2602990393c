// SPDX-License-Identifier: GPL-2.0-only
//! Host files for the guest. A program is copied with its shared libraries and without its debug information, so that
//! the usual debug build serves and no second, static build is needed.

use super::cpio::Archive;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Guest directory for files without a given place; the script starts there, and it is in PATH.
const DEFAULT_DIRECTORY: &str = "/in";

/// A file or directory of the host and its place in the guest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// Path on the host.
    pub host: PathBuf,
    /// Absolute path in the guest.
    pub guest: String,
}

impl Transfer {
    /// Parses `HOST[:GUEST]`.
    pub fn parse(text: &str) -> Result<Transfer, String> {
        let (host, guest) = text.rsplit_once(':').map_or((text, None), |(host, guest)| (host, Some(guest)));
        let host = PathBuf::from(host);
        let guest = match guest {
            Some(guest) if guest.starts_with('/') && guest.len() > 1 && !guest.ends_with('/') => guest.to_owned(),
            Some(guest) => return Err(format!("the place in the guest is {guest:?}; expected an absolute path")),
            None => {
                let name = host.file_name().and_then(|name| name.to_str());
                format!("{DEFAULT_DIRECTORY}/{}", name.ok_or(format!("{text:?} names no file"))?)
            }
        };
        Ok(Transfer { host, guest })
    }
}

/// Adds files, with the libraries of programs.
pub fn add(archive: &mut Archive, transfers: &[Transfer]) -> Result<()> {
    let mut libraries = BTreeMap::new();
    for transfer in transfers {
        add_path(archive, &transfer.host, &transfer.guest, &mut libraries)?;
    }
    for (guest, host) in libraries {
        archive.file(&guest, 0o755, &read(&host)?);
    }
    Ok(())
}

type Libraries = BTreeMap<String, PathBuf>;

fn add_path(archive: &mut Archive, host: &Path, guest: &str, libraries: &mut Libraries) -> Result<()> {
    if host.is_dir() {
        archive.directory(guest);
        let mut names: Vec<_> = fs::read_dir(host)?.flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        for name in names {
            let below = format!("{guest}/{}", name.to_str().context("a file name is not UTF-8")?);
            add_path(archive, &host.join(&name), &below, libraries)?;
        }
        return Ok(());
    }
    let mode = fs::metadata(host).with_context(|| format!("{}", host.display()))?.permissions().mode() & 0o777;
    let content = read(host)?;
    if mode & 0o111 == 0 || !content.starts_with(b"\x7fELF") {
        archive.file(guest, mode, &content);
        return Ok(());
    }
    libraries.extend(linked(host)?);
    archive.file(guest, mode, &stripped(host).unwrap_or(content));
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("{}", path.display()))
}

/// Returns the files the program needs to start, at the paths where its loader looks for them.
fn linked(program: &Path) -> Result<Libraries> {
    let output = Command::new("ldd").arg(program).output().context("cannot start ldd")?;
    libraries_of(&String::from_utf8_lossy(&output.stdout)).with_context(|| format!("{}", program.display()))
}

/// Parses the output of ldd: `NAME => PATH (ADDRESS)` or `PATH (ADDRESS)`. A static program has neither.
fn libraries_of(text: &str) -> Result<Libraries> {
    let mut libraries = Libraries::new();
    for line in text.lines() {
        if line.contains("not found") {
            bail!("a library is missing: {}", line.trim());
        }
        let path = line.split_once("=> ").map_or(line, |(_, path)| path).trim();
        if let Some((path, _)) = path.split_once(" (").filter(|(path, _)| path.starts_with('/')) {
            libraries.insert(path.to_owned(), PathBuf::from(path));
        }
    }
    Ok(libraries)
}

/// Returns the program without debug information; `None` if `strip` is missing or fails.
fn stripped(program: &Path) -> Option<Vec<u8>> {
    let copy = super::parts::state().join(format!("strip-{}", std::process::id()));
    fs::create_dir_all(copy.parent()?).ok()?;
    let status = Command::new("strip").arg("--strip-debug").arg("-o").arg(&copy).arg(program).status().ok()?;
    let content = fs::read(&copy).ok().filter(|_| status.success());
    let _ = fs::remove_file(&copy);
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_transfer_arguments_are_parsed() {
        let parse = |text: &str| Transfer::parse(text).map(|transfer| (transfer.host, transfer.guest));
        assert_eq!(parse("a/weir"), Ok(("a/weir".into(), "/in/weir".to_owned())));
        assert_eq!(parse("a:b:/c"), Ok(("a:b".into(), "/c".to_owned())));
        for (text, error) in [
            ("a:b", "the place in the guest is \"b\"; expected an absolute path"),
            ("a:/", "the place in the guest is \"/\"; expected an absolute path"),
            ("..", "\"..\" names no file"),
        ] {
            assert_eq!(parse(text), Err(error.to_owned()));
        }
    }

    #[test]
    fn libraries_of_a_program_are_listed() {
        let text = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibelf.so.1 => /lib/x86_64-linux-gnu/libelf.so.1 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let paths: Vec<String> = libraries_of(text).unwrap().into_keys().collect();
        assert_eq!(paths, ["/lib/x86_64-linux-gnu/libelf.so.1", "/lib64/ld-linux-x86-64.so.2"]);
        assert!(libraries_of("\tstatically linked\n").unwrap().is_empty());
        assert!(libraries_of("\tlibx.so => not found\n").is_err());
    }
}
