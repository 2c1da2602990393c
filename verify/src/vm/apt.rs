// SPDX-License-Identifier: GPL-2.0-only
//! Packages of Debian suites that this host does not use: a kernel with sched_ext, a newer QEMU. apt downloads them
//! from the host's own mirror into a directory below `target/vm` and verifies them as usual; they are unpacked, never
//! installed.

use super::missing::Missing;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's public keys; without a key in its sources, a host trusts these anyway.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A suite of the host's mirror, with its package lists in a private directory.
pub struct Suite {
    directory: PathBuf,
    name: String,
}

impl Suite {
    /// Downloads the package lists of `suite` into `directory`.
    ///
    /// # Errors
    /// [`Missing`] if this host is not Debian, its sources name no mirror, or the mirror cannot be reached.
    pub fn update(directory: &Path, suite: &str) -> Result<Suite> {
        let mirror = mirror(&host_codename()?)?;
        fs::create_dir_all(directory.join("lists/partial"))?;
        fs::create_dir_all(directory.join("cache/archives/partial"))?;
        let key = if Path::new(KEYRING).exists() { format!("[signed-by={KEYRING}] ") } else { String::new() };
        fs::write(directory.join("sources.list"), format!("deb {key}{mirror} {suite} main\n"))?;
        let this = Suite { directory: directory.to_owned(), name: suite.to_owned() };
        eprintln!("vm: getting the package lists of {suite}");
        let output = this.apt("apt-get").args(["-q", "update"]).output().context("cannot start apt-get")?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).replace('\n', " ");
            if text.contains("NO_PUBKEY") || text.contains("not signed") || text.contains("GPG error") {
                bail!("apt does not trust {suite}: {text}");
            }
            return Err(Missing::Network(text).into());
        }
        Ok(this)
    }

    /// Returns the names of all packages that begin with `prefix`, sorted.
    pub fn names(&self, prefix: &str) -> Result<Vec<String>> {
        let output = self.apt("apt-cache").args(["pkgnames", prefix]).output()?;
        let mut names: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
        names.sort();
        Ok(names)
    }

    /// Downloads and unpacks packages into `directory`, which appears only when all of them are in it.
    pub fn unpack(&self, packages: &[&str], directory: &Path) -> Result<()> {
        eprintln!("vm: getting {} from {}", packages.join(", "), self.name);
        let partial = directory.with_extension(format!("partial-{}", std::process::id()));
        let unpacked = partial.join("unpacked");
        fs::create_dir_all(&unpacked)?;
        let wanted = packages.iter().map(|package| format!("{package}/{}", self.name));
        let status = self.apt("apt-get").args(["-q", "download"]).args(wanted).current_dir(&partial).output()?;
        if !status.status.success() {
            let text = String::from_utf8_lossy(&status.stderr).replace('\n', " ");
            return Err(Missing::Network(text).into());
        }
        for entry in fs::read_dir(&partial)?.flatten().filter(|entry| entry.path().extension() == Some("deb".as_ref()))
        {
            let status = Command::new("dpkg").arg("-x").arg(entry.path()).arg(&unpacked).status()?;
            if !status.success() {
                bail!("dpkg cannot unpack {}", entry.path().display());
            }
        }
        match fs::rename(&unpacked, directory) {
            // A concurrent process has created the directory in the meantime.
            Err(_) if directory.exists() => {}
            other => other?,
        }
        fs::remove_dir_all(&partial)?;
        Ok(())
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for (key, value) in [
            ("Dir::Etc::sourcelist", self.directory.join("sources.list").as_path()),
            ("Dir::State::lists", &self.directory.join("lists")),
            ("Dir::Cache", &self.directory.join("cache")),
            ("Dir::Etc::sourceparts", Path::new("-")),
            ("Dir::Etc::preferencesparts", Path::new("-")),
        ] {
            command.arg("-o").arg(format!("{key}={}", value.display()));
        }
        for option in [
            "Acquire::Languages=none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
            "Acquire::PDiffs=false",
            "Acquire::Retries=2",
            "APT::Update::Error-Mode=any",
            // The directory need not be readable by the user to which apt would switch.
            "APT::Sandbox::User=",
        ] {
            command.args(["-o", option]);
        }
        command.env("LC_ALL", "C");
        command
    }
}

/// Returns the code name of this host's Debian release.
pub fn host_codename() -> Result<String> {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let value = |key: &str| text.lines().find_map(|line| Some(line.strip_prefix(key)?.trim_matches('"').to_owned()));
    match (value("ID="), value("VERSION_CODENAME=")) {
        (Some(id), Some(codename)) if id == "debian" => Ok(codename),
        _ => {
            Err(Missing::thing("this host is not Debian: name a kernel with sched_ext with --kernel or WEIR_VM_KERNEL"))
        }
    }
}

/// Returns the mirror from which this host gets `codename`.
fn mirror(codename: &str) -> Result<String> {
    let output = Command::new("apt-get")
        .args(["indextargets", "--format", "$(RELEASE) $(REPO_URI)", "Created-By: Packages"])
        .output()
        .map_err(|_| Missing::thing("no apt-get: name a kernel with sched_ext with --kernel or WEIR_VM_KERNEL"))?;
    mirror_of(&String::from_utf8_lossy(&output.stdout), codename)
        .ok_or_else(|| Missing::thing(format!("apt's sources name no mirror for {codename}")))
}

fn mirror_of(targets: &str, codename: &str) -> Option<String> {
    targets.lines().find_map(|line| Some(line.strip_prefix(codename)?.strip_prefix(' ')?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_mirror_is_that_of_the_release_not_of_its_security_updates() {
        let targets =
            "bookworm-security http://a.example/s/\nbookworm http://b.example/d/\nbookworm http://c.example/\n";
        assert_eq!(mirror_of(targets, "bookworm").as_deref(), Some("http://b.example/d/"));
        assert_eq!(mirror_of(targets, "book"), None);
    }
}
