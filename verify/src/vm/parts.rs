// SPDX-License-Identifier: GPL-2.0-only
//! Parts of a virtual machine besides its kernel, QEMU and busybox, and where they come from.

use super::apt::{self, Suite};
use super::missing::Missing;
use anyhow::{Context, Result};
use std::env;
use std::path::PathBuf;
use std::process::Command;

/// Oldest QEMU whose `-icount` switches between virtual CPUs fairly (7.2 does not).
const ICOUNT_MAJOR: u32 = 10;
/// Packages of a QEMU without its libraries, which the host's own QEMU brings.
const QEMU_PACKAGES: [&str; 2] = ["qemu-system-x86", "qemu-system-data"];

/// A QEMU and the directories with its firmware; none for the host's own, which knows them.
#[derive(Clone, Debug)]
pub struct Qemu {
    /// The program.
    pub program: PathBuf,
    /// Directories for `-L`.
    pub data: Vec<PathBuf>,
}

/// Returns the directory for state that outlives a run; `cargo clean` removes it.
pub fn state() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| crate::root().join("target"), PathBuf::from).join("vm")
}

/// Returns the host's QEMU, or for `icount` one that is new enough, if necessary from Debian's backports.
pub fn qemu(icount: bool) -> Result<Qemu> {
    let own = Qemu { program: "qemu-system-x86_64".into(), data: Vec::new() };
    let major = version(&own)?;
    if !icount || major >= ICOUNT_MAJOR {
        return Ok(own);
    }
    let directory = state().join("qemu");
    if !directory.exists() {
        let suite = format!("{}-backports", apt::host_codename()?);
        Suite::update(&state().join("apt").join(&suite), &suite)?.unpack(&QEMU_PACKAGES, &directory)?;
    }
    let share = directory.join("usr/share");
    let newer = Qemu {
        program: directory.join("usr/bin/qemu-system-x86_64"),
        data: vec![share.join("qemu"), share.join("seabios"), "/usr/share/seabios".into(), "/usr/share/qemu".into()],
    };
    if version(&newer)? < ICOUNT_MAJOR {
        let what =
            format!("--deterministic needs QEMU {ICOUNT_MAJOR} or newer; the host's and that of backports are older");
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

/// Parses `QEMU emulator version 7.2.22 (Debian …)`.
fn major(text: &str) -> Option<u32> {
    text.split_once("version ")?.1.split('.').next()?.parse().ok()
}

/// Returns the path of a statically linked busybox.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qemu_version_is_parsed() {
        assert_eq!(major("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)\nCopyright"), Some(7));
        assert_eq!(major("QEMU emulator version 10.0.2 (v10)"), Some(10));
        assert_eq!(major("qemu: error"), None);
    }
}
