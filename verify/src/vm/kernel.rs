// SPDX-License-Identifier: GPL-2.0-only
//! The kernel of a virtual machine: an image on this host, or a version packaged by Debian.

use super::apt::Suite;
use super::missing::Missing;
use super::parts::state;
use anyhow::{Context, Result};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Suites whose cloud kernels have CONFIG_SCHED_CLASS_EXT, as of 2026-11. The first has only the newest; the second
/// has versions since 6.16. trixie itself has none.
const SUITES: [&str; 2] = ["sid", "trixie-backports"];
/// Version that the kernel model follows.
const FOLLOWED: &str = "7.2";

/// The option `--kernel`.
#[derive(clap::Args, Clone, Debug)]
pub struct KernelArgument {
    /// Version of a Debian cloud kernel, such as 6.18 or 7.2.13, or the path of an image
    #[arg(long = "kernel", value_name = "VERSION|PATH", env = "WEIR_VM_KERNEL", default_value = FOLLOWED)]
    pub kernel: Kernel,
}

/// A kernel to boot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kernel {
    /// This image.
    Image(PathBuf),
    /// Debian's newest kernel whose version begins with these two or three numbers.
    Version(Version),
}

/// Two or three version numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Version(Vec<u32>);

impl FromStr for Version {
    type Err = ();

    fn from_str(text: &str) -> Result<Version, ()> {
        let numbers: Result<Vec<u32>, _> = text.split('.').map(str::parse).collect();
        numbers.ok().filter(|numbers| (2..=3).contains(&numbers.len())).map(Version).ok_or(())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(u32::to_string).collect();
        f.write_str(&numbers.join("."))
    }
}

impl FromStr for Kernel {
    type Err = String;

    fn from_str(text: &str) -> Result<Kernel, String> {
        match text.parse() {
            Ok(version) => Ok(Kernel::Version(version)),
            Err(()) if Path::new(text).is_file() => Ok(Kernel::Image(text.into())),
            Err(()) => Err("no such image; expected a path or a version such as 6.18 or 7.2.13".to_owned()),
        }
    }
}

impl Kernel {
    /// Returns the path of the image; fetches it on first use.
    ///
    /// # Errors
    /// [`Missing`] if no suite has that version, this host is not Debian, or there is no network.
    pub fn image(&self) -> Result<PathBuf> {
        let version = match self {
            Kernel::Image(path) => return Ok(path.clone()),
            Kernel::Version(version) => version,
        };
        let directory = state().join("kernels").join(version.to_string());
        if !directory.exists() {
            fetch(version, &directory)?;
        }
        find(&directory, &|name| name.starts_with("vmlinuz"))
            .with_context(|| format!("{}: no vmlinuz; remove the directory to fetch it again", directory.display()))
    }

    /// Returns the configuration's place in the guest, where Debian keeps it, and its path on the host, if there is
    /// one.
    pub fn config(&self) -> Option<(String, PathBuf)> {
        let Kernel::Version(version) = self else { return None };
        let directory = state().join("kernels").join(version.to_string());
        let path = find(&directory, &|name| name == "config" || name.starts_with("config-"))?;
        let place = path.strip_prefix(&directory).ok()?.to_str()?;
        Some((format!("/{place}"), path))
    }
}

/// Unpacks the newest kernel of that version into `directory`, with its configuration, which has been in a package of
/// its own since about 6.19.
fn fetch(version: &Version, directory: &Path) -> Result<()> {
    let mut known = Vec::new();
    for name in SUITES {
        let suite = Suite::update(&state().join("apt").join(name), name)?;
        let names = [suite.names("linux-binary-")?, suite.names("linux-image-")?].concat();
        if let Some(package) = newest(&names, version) {
            let bases = suite.names("linux-base-")?;
            let base = base(package).filter(|base| bases.contains(base));
            let packages: Vec<&str> = [Some(package), base.as_deref()].into_iter().flatten().collect();
            return suite.unpack(&packages, directory);
        }
        known.extend(names.iter().filter_map(|name| Some(read(name)?.0)));
    }
    known.sort();
    known.dedup();
    let known: Vec<String> = known.into_iter().map(|numbers| Version(numbers).to_string()).collect();
    let known = known.join(", ");
    Err(Missing::thing(format!(
        "Debian has no cloud kernel {version}; expected one of {known}, or an image with --kernel"
    )))
}

/// Returns the newest cloud kernel of that version, a signed one in preference to an unsigned one.
fn newest<'a>(names: &'a [String], version: &Version) -> Option<&'a str> {
    let fits = |name: &'a String| Some((read(name)?, name.as_str())).filter(|(read, _)| read.0.starts_with(&version.0));
    names.iter().filter_map(fits).max().map(|(_, name)| name)
}

/// Returns the name of the package with the configuration: `linux-base-7.2.13+deb14-cloud-amd64`.
fn base(package: &str) -> Option<String> {
    let release = package.strip_prefix("linux-binary-").or_else(|| package.strip_prefix("linux-image-"))?;
    Some(format!("linux-base-{}", release.trim_start_matches("unsigned-")))
}

/// Parses the name of a cloud kernel package: version, whether it contains a kernel rather than only depending on one
/// (since 6.19), and whether it is signed.
fn read(name: &str) -> Option<(Vec<u32>, bool, bool)> {
    let binary = name.strip_prefix("linux-binary-");
    let rest = binary.or_else(|| name.strip_prefix("linux-image-"))?.strip_suffix("-cloud-amd64")?;
    let signed = rest.strip_prefix("unsigned-");
    let (version, _) = signed.unwrap_or(rest).split_once('+')?;
    Some((version.parse::<Version>().ok()?.0, binary.is_some(), signed.is_none()))
}

/// Returns the first file below `directory`, in alphabetical order, whose name is wanted.
fn find(directory: &Path, wanted: &dyn Fn(&str) -> bool) -> Option<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries.into_iter().find_map(|path| match path.symlink_metadata().ok()?.file_type() {
        kind if kind.is_dir() => find(&path, wanted),
        kind if kind.is_file() && wanted(path.file_name()?.to_str()?) => Some(path),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_kernel_of_a_version_is_chosen_signed_first() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let all = names(&[
            "linux-binary-7.2.13+deb14-amd64",
            "linux-binary-7.2.13+deb14-cloud-amd64",
            "linux-image-7.2.13+deb14-cloud-amd64",
            "linux-binary-7.2.9+deb14-cloud-amd64",
            "linux-binary-unsigned-7.2.13+deb14-cloud-amd64",
            "linux-binary-unsigned-7.20.1+deb14-cloud-amd64",
            "linux-image-6.18.15+deb13-cloud-amd64",
            "linux-image-6.18.15+deb13-cloud-amd64-dbg",
            "linux-image-cloud-amd64",
        ]);
        let newest = |version: &str| newest(&all, &version.parse().unwrap());
        assert_eq!(newest("7.2"), Some("linux-binary-7.2.13+deb14-cloud-amd64"));
        assert_eq!(newest("7.2.9"), Some("linux-binary-7.2.9+deb14-cloud-amd64"));
        assert_eq!(newest("7.20"), Some("linux-binary-unsigned-7.20.1+deb14-cloud-amd64"));
        assert_eq!(newest("6.18"), Some("linux-image-6.18.15+deb13-cloud-amd64"));
        assert_eq!(newest("6.1"), None);
    }

    #[test]
    fn configuration_package_has_the_same_release() {
        let expected = Some("linux-base-7.2.13+deb14-cloud-amd64".to_owned());
        assert_eq!(base("linux-binary-7.2.13+deb14-cloud-amd64"), expected);
        assert_eq!(base("linux-binary-unsigned-7.2.13+deb14-cloud-amd64"), expected);
    }

    #[test]
    fn kernel_option_is_a_version_or_a_file() {
        let version = |numbers: &[u32]| Ok(Kernel::Version(Version(numbers.to_vec())));
        assert_eq!("7.2".parse::<Kernel>(), version(&[7, 2]));
        assert_eq!("6.18.15".parse::<Kernel>(), version(&[6, 18, 15]));
        assert_eq!("Cargo.toml".parse::<Kernel>(), Ok(Kernel::Image("Cargo.toml".into())));
        for text in ["7", "7.2.", "7.2.1.1", "7.x", "no/vmlinuz", ""] {
            assert!(text.parse::<Kernel>().is_err(), "{text}");
        }
    }
}
