// SPDX-License-Identifier: GPL-2.0-only
//! What a virtual machine is made of and where it comes from: kernel, QEMU, busybox.

use super::apt::{self, Suite};
use super::missing::Missing;
use anyhow::{Context, Result, bail};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The kernel comes from Debian's newest suite. As of 2026-11 forky and the backports for trixie have cloud kernels with
/// CONFIG_SCHED_CLASS_EXT too; trixie itself has none.
const KERNEL_SUITE: &str = "sid";
/// The oldest QEMU whose `-icount` hands the turn from one virtual CPU to the next fairly (7.2 does not).
const ICOUNT_MAJOR: u32 = 10;
/// Packages that make up a QEMU without its libraries, which the host's own QEMU brings.
const QEMU_PACKAGES: [&str; 2] = ["qemu-system-x86", "qemu-system-data"];

/// A QEMU and the folders with its firmware; none for the host's own, which knows where its firmware is.
#[derive(Clone, Debug)]
pub struct Qemu {
    /// The program.
    pub program: PathBuf,
    /// Folders for `-L`.
    pub data: Vec<PathBuf>,
}

/// State that outlives a run; `cargo clean` removes it.
pub fn state() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| crate::root().join("target"), PathBuf::from).join("vm")
}

/// Sees to it that everything is there; the kernel first, because fetching it tells whether there is a network.
pub fn all(named: Option<&Path>) -> Result<()> {
    kernel(named)?;
    qemu(false)?;
    busybox()?;
    Ok(())
}

/// The kernel image: the named one, that of `WEIR_VM_KERNEL`, the one that was fetched before, or Debian's.
pub fn kernel(named: Option<&Path>) -> Result<PathBuf> {
    let named = named.map(Path::to_owned).or_else(|| env::var_os("WEIR_VM_KERNEL").map(PathBuf::from));
    if let Some(path) = named {
        if !path.is_file() {
            bail!("{}: no such kernel image", path.display());
        }
        return Ok(path);
    }
    let folder = state().join("kernel");
    if !folder.exists() {
        let suite = Suite::update(&state().join("apt").join(KERNEL_SUITE), KERNEL_SUITE)?;
        let names = suite.names("linux-binary-")?;
        let package = newest_cloud(&names).ok_or_else(|| {
            Missing::thing(format!("{KERNEL_SUITE} has no package linux-binary-*-cloud-amd64: use --kernel"))
        })?;
        suite.unpack(&[package], &folder)?;
    }
    find(&folder, &|name| name.starts_with("vmlinuz"))
        .with_context(|| format!("{}: no vmlinuz; remove the folder to fetch it again", folder.display()))
}

/// The newest of the cloud kernels; a signed one before the unsigned one of the same version.
fn newest_cloud(names: &[String]) -> Option<&str> {
    let version = |name: &str| -> Option<(Vec<u32>, bool)> {
        let rest = name.strip_prefix("linux-binary-")?.strip_suffix("-cloud-amd64")?;
        let signed = !rest.starts_with("unsigned-");
        let digits = rest.trim_start_matches("unsigned-").split(|c: char| !c.is_ascii_digit());
        Some((digits.filter_map(|digits| digits.parse().ok()).collect(), signed))
    };
    names.iter().filter_map(|name| Some((version(name)?, name.as_str()))).max().map(|(_, name)| name)
}

/// QEMU from the search path; for `icount` one that is new enough, if need be from Debian's backports.
pub fn qemu(icount: bool) -> Result<Qemu> {
    let own = Qemu { program: "qemu-system-x86_64".into(), data: Vec::new() };
    let major = version(&own)?;
    if !icount || major >= ICOUNT_MAJOR {
        return Ok(own);
    }
    let folder = state().join("qemu");
    if !folder.exists() {
        let suite = format!("{}-backports", apt::host_codename()?);
        Suite::update(&state().join("apt").join(&suite), &suite)?.unpack(&QEMU_PACKAGES, &folder)?;
    }
    let share = folder.join("usr/share");
    let newer = Qemu {
        program: folder.join("usr/bin/qemu-system-x86_64"),
        data: vec![share.join("qemu"), share.join("seabios"), "/usr/share/seabios".into(), "/usr/share/qemu".into()],
    };
    if version(&newer)? < ICOUNT_MAJOR {
        let what = format!("--deterministic needs QEMU {ICOUNT_MAJOR} or newer; here and in backports it is older");
        return Err(Missing::thing(what));
    }
    Ok(newer)
}

fn version(qemu: &Qemu) -> Result<u32> {
    let output = Command::new(&qemu.program)
        .arg("--version")
        .output()
        .map_err(|_| Missing::thing("no qemu-system-x86_64: install qemu-system-x86"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    major(&text).with_context(|| {
        let error = String::from_utf8_lossy(&output.stderr);
        format!("{} --version says {text:?} {error:?}", qemu.program.display())
    })
}

/// From `QEMU emulator version 7.2.22 (Debian …)`.
fn major(text: &str) -> Option<u32> {
    text.split_once("version ")?.1.split('.').next()?.parse().ok()
}

/// A busybox that needs no libraries.
pub fn busybox() -> Result<PathBuf> {
    let places = ["/usr/bin/busybox", "/bin/busybox"].map(PathBuf::from);
    let linked = |path: &PathBuf| {
        let output = Command::new("ldd").arg(path).output();
        output.is_ok_and(|output| output.status.success() && output.stdout.windows(2).any(|two| two == b"=>"))
    };
    places
        .into_iter()
        .find(|path| path.is_file() && !linked(path))
        .ok_or_else(|| Missing::thing("no static busybox: install busybox-static"))
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
    fn the_newest_cloud_kernel_is_taken_and_the_signed_one_first() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let all = names(&[
            "linux-binary-7.2.13+deb14-amd64",
            "linux-binary-7.2.13+deb14-cloud-amd64",
            "linux-binary-7.2.9+deb14-cloud-amd64",
            "linux-binary-unsigned-7.2.13+deb14-cloud-amd64",
        ]);
        assert_eq!(newest_cloud(&all), Some("linux-binary-7.2.13+deb14-cloud-amd64"));
        let unsigned =
            names(&["linux-binary-7.2.9+deb14-cloud-amd64", "linux-binary-unsigned-7.10.1+deb14-cloud-amd64"]);
        assert_eq!(newest_cloud(&unsigned), Some("linux-binary-unsigned-7.10.1+deb14-cloud-amd64"));
        assert_eq!(newest_cloud(&all[..1]), None);
    }

    #[test]
    fn versions_of_qemu() {
        assert_eq!(major("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)\nCopyright"), Some(7));
        assert_eq!(major("QEMU emulator version 10.0.2 (v10)"), Some(10));
        assert_eq!(major("qemu: error"), None);
    }
}
