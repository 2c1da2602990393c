// SPDX-License-Identifier: GPL-2.0-only
//! The kernel of a virtual machine: an image that this host has, or a version that Debian has.

use super::apt::Suite;
use super::missing::Missing;
use super::parts::state;
use anyhow::{Context, Result};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Suites whose cloud kernels have CONFIG_SCHED_CLASS_EXT, as of 2026-11. The first has the newest alone; the other has
/// what came since 6.16. trixie itself has none.
const SUITES: [&str; 2] = ["sid", "trixie-backports"];
/// What the kernel model follows.
const FOLLOWED: &str = "7.2";

/// The option `--kernel`.
#[derive(clap::Args, Clone, Debug)]
pub struct KernelArgument {
    /// Version of a cloud kernel of Debian's, such as 6.18 or 7.2.13, or the path of an image
    #[arg(long = "kernel", value_name = "VERSION|PATH", env = "WEIR_VM_KERNEL", default_value = FOLLOWED)]
    pub kernel: Kernel,
}

/// Which kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kernel {
    /// This image.
    Image(PathBuf),
    /// The newest of Debian's whose version begins with these two or three numbers.
    Version(Version),
}

/// Two or three numbers.
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
            Err(()) => Err("no such image, and no version such as 6.18 or 7.2.13".to_owned()),
        }
    }
}

impl Kernel {
    /// The image, which is fetched unless it was fetched before.
    ///
    /// # Errors
    /// [`Missing`] if no suite has that version, this host is no Debian, or there is no network.
    pub fn image(&self) -> Result<PathBuf> {
        let version = match self {
            Kernel::Image(path) => return Ok(path.clone()),
            Kernel::Version(version) => version,
        };
        let folder = state().join("kernels").join(version.to_string());
        if !folder.exists() {
            fetch(version, &folder)?;
        }
        find(&folder, &|name| name.starts_with("vmlinuz"))
            .with_context(|| format!("{}: no vmlinuz; remove the folder to fetch it again", folder.display()))
    }

    /// Its configuration and the place where Debian keeps it, if it came with one: programs ask for it.
    pub fn config(&self) -> Option<(String, PathBuf)> {
        let Kernel::Version(version) = self else { return None };
        let folder = state().join("kernels").join(version.to_string());
        let path = find(&folder, &|name| name == "config" || name.starts_with("config-"))?;
        let place = path.strip_prefix(&folder).ok()?.to_str()?;
        Some((format!("/{place}"), path))
    }
}

/// Unpacks the newest kernel of that version into `folder`, with its configuration, which is in a package of its own since
/// 6.19 or so.
fn fetch(version: &Version, folder: &Path) -> Result<()> {
    let mut known = Vec::new();
    for name in SUITES {
        let suite = Suite::update(&state().join("apt").join(name), name)?;
        let names = [suite.names("linux-binary-")?, suite.names("linux-image-")?].concat();
        if let Some(package) = newest(&names, version) {
            let bases = suite.names("linux-base-")?;
            let base = base(package).filter(|base| bases.contains(base));
            let packages: Vec<&str> = [Some(package), base.as_deref()].into_iter().flatten().collect();
            return suite.unpack(&packages, folder);
        }
        known.extend(names.iter().filter_map(|name| Some(read(name)?.0)));
    }
    known.sort();
    known.dedup();
    let known: Vec<String> = known.into_iter().map(|numbers| Version(numbers).to_string()).collect();
    let known = known.join(", ");
    Err(Missing::thing(format!("Debian has no cloud kernel {version}, but {known}: name an image with --kernel")))
}

/// The newest of the cloud kernels of that version; a signed one before the unsigned one.
fn newest<'a>(names: &'a [String], version: &Version) -> Option<&'a str> {
    let fits = |name: &'a String| Some((read(name)?, name.as_str())).filter(|(read, _)| read.0.starts_with(&version.0));
    names.iter().filter_map(fits).max().map(|(_, name)| name)
}

/// Name of the package with what a kernel's package leaves out: `linux-base-7.2.13+deb14-cloud-amd64`.
fn base(package: &str) -> Option<String> {
    let release = package.strip_prefix("linux-binary-").or_else(|| package.strip_prefix("linux-image-"))?;
    Some(format!("linux-base-{}", release.trim_start_matches("unsigned-")))
}

/// Version of a package with a cloud kernel, whether it is a kernel or may only ask for one (since 6.19), and whether
/// it is signed.
fn read(name: &str) -> Option<(Vec<u32>, bool, bool)> {
    let binary = name.strip_prefix("linux-binary-");
    let rest = binary.or_else(|| name.strip_prefix("linux-image-"))?.strip_suffix("-cloud-amd64")?;
    let signed = rest.strip_prefix("unsigned-");
    let (version, _) = signed.unwrap_or(rest).split_once('+')?;
    Some((version.parse::<Version>().ok()?.0, binary.is_some(), signed.is_none()))
}

/// The first file below `folder`, in alphabetical order, whose name is wanted.
fn find(folder: &Path, wanted: &dyn Fn(&str) -> bool) -> Option<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
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
    fn the_newest_kernel_of_a_version_is_taken_and_the_signed_one_first() {
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
    fn the_configuration_is_in_the_package_of_the_same_release() {
        let expected = Some("linux-base-7.2.13+deb14-cloud-amd64".to_owned());
        assert_eq!(base("linux-binary-7.2.13+deb14-cloud-amd64"), expected);
        assert_eq!(base("linux-binary-unsigned-7.2.13+deb14-cloud-amd64"), expected);
    }

    #[test]
    fn a_kernel_is_a_version_or_a_file() {
        let version = |numbers: &[u32]| Ok(Kernel::Version(Version(numbers.to_vec())));
        assert_eq!("7.2".parse::<Kernel>(), version(&[7, 2]));
        assert_eq!("6.18.15".parse::<Kernel>(), version(&[6, 18, 15]));
        assert_eq!("Cargo.toml".parse::<Kernel>(), Ok(Kernel::Image("Cargo.toml".into())));
        for text in ["7", "7.2.", "7.2.1.1", "7.x", "no/vmlinuz", ""] {
            assert!(text.parse::<Kernel>().is_err(), "{text}");
        }
    }
}
