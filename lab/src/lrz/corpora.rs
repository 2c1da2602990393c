// SPDX-License-Identifier: GPL-2.0-only
//! Creates the corpora. All except the disk image, which depends on Debian's point releases, are the same bytes
//! everywhere.

use super::{sha256, shell};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::Path;

/// Names of the corpora, cheapest first.
const NAMES: [&str; 4] = ["rand256.bin", "log256.txt", "kern2.tar", "disk.img"];
/// Size of the noise and of the log in bytes.
const LENGTH: u64 = 256 << 20;
const NOISE_SHA256: &str = "795db51677524a3d66d576203dccfee47fe23789fbe5c98c2b255fbd0910a367";
const LOG_SHA256: &str = "d02084eb58805dd5137d1c2876059fefaa0af5d3bdb466a30922993466a4f929";
/// Script that generates the log, with CPython's random numbers.
const LOG_SCRIPT: &str = include_str!("log.py");
/// Directories of each kernel tree that are packed.
const DIRECTORIES: &str = "arch/x86 arch/arm64 block crypto fs include init ipc kernel lib mm net security tools virt \
                       drivers/net drivers/usb drivers/media Documentation scripts";
/// tar options that make owner, order, modes and times of the members reproducible.
const TAR: &str = "tar c --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=gnu --mode='u=rwX,go=rX'";
/// Packages on the disk image besides the base system.
const PACKAGES: &str = "python3,perl,git,vim-tiny,openssh-client";

/// Creates the corpora that do not exist yet.
pub fn make(directory: &Path, names: &[String], kernels: &[String]) -> Result<()> {
    if let Some(name) = names.iter().find(|name| !NAMES.contains(&name.as_str())) {
        bail!("unknown corpus {name}; expected one of {}", NAMES.join(", "));
    }
    ensure!(kernels.len() == 2, "--kernels takes two versions");
    fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
    for name in NAMES.iter().filter(|name| names.is_empty() || names.iter().any(|wanted| wanted == *name)) {
        let path = directory.join(name);
        if !path.exists() {
            eprintln!("making {name}");
            // A corpus under construction has another name, so that its own name always stands for a complete file.
            let part = directory.join(format!("{name}.part"));
            match *name {
                "rand256.bin" => noise(&part)?,
                "log256.txt" => log(&part)?,
                "kern2.tar" => kernel_trees(directory, &part, kernels)?,
                _ => disks(directory, &part)?,
            }
            fs::rename(&part, &path).with_context(|| format!("naming {}", path.display()))?;
        }
        println!("{}  {name}", sha256(&path)?);
    }
    Ok(())
}

fn noise(to: &Path) -> Result<()> {
    let key = "0".repeat(64);
    let iv = "0".repeat(32);
    shell(&format!("head -c {LENGTH} /dev/zero | openssl enc -aes-256-ctr -K {key} -iv {iv} > '{}'", to.display()))?;
    expect(to, NOISE_SHA256)
}

fn log(to: &Path) -> Result<()> {
    let script = to.with_extension("py");
    fs::write(&script, LOG_SCRIPT).context("writing the script of the log")?;
    shell(&format!("python3 '{}' {LENGTH} > '{}'", script.display(), to.display()))?;
    fs::remove_file(&script).context("removing the script of the log")?;
    expect(to, LOG_SHA256)
}

fn expect(file: &Path, sum: &str) -> Result<()> {
    let found = sha256(file)?;
    ensure!(found == sum, "{} has the SHA-256 {found}, expected {sum}", file.display());
    Ok(())
}

fn kernel_trees(directory: &Path, to: &Path, kernels: &[String]) -> Result<()> {
    fs::write(to, []).context("beginning the archive")?;
    let place = directory.display();
    for (letter, version) in ["a", "b"].iter().zip(kernels) {
        let package = format!("linux-source-6.12_{version}_all.deb");
        if !directory.join(&package).exists() {
            shell(&format!("cd '{place}' && apt-get download -q linux-source-6.12={version}"))
                .context("downloading a kernel: `apt-cache madison linux-source-6.12` lists versions for --kernels")?;
        }
        let (tree, to) = (format!("{place}/tree-{letter}"), to.display());
        shell(&format!(
            "rm -rf '{tree}' && mkdir '{tree}' && \
             dpkg-deb --fsys-tarfile '{place}/{package}' | tar xO ./usr/src/linux-source-6.12.tar.xz | tar xJ -C '{tree}'"
        ))?;
        let transform = format!("--transform s,^,linux-{letter}/,");
        shell(&format!("cd '{tree}/linux-source-6.12' && {TAR} {transform} {DIRECTORIES}> ../part"))?;
        shell(&format!("cat '{tree}/part' >> '{to}' && rm -r '{tree}'"))?;
    }
    Ok(())
}

/// Creates one file system of 1 GiB with three copies of a system, two of which differ slightly from the first.
fn disks(directory: &Path, to: &Path) -> Result<()> {
    let (tree, machines) = (format!("{}/system", directory.display()), format!("{}/machines", directory.display()));
    shell(&format!(
        "rm -rf '{tree}' '{machines}' && debootstrap --variant=minbase --include={PACKAGES} bookworm '{tree}' && \
         rm -rf '{tree}'/var/cache/apt/*.bin '{tree}'/var/cache/apt/archives/*.deb '{tree}'/var/lib/apt/lists/* && \
         mkdir '{machines}'"
    ))
    .context("creating a system: install debootstrap and run as root")?;
    shell(&format!(
        "for n in 1 2 3; do cp -a '{tree}' '{machines}'/vm$n; done; \
         echo other > '{machines}'/vm2/etc/hostname; \
         find '{machines}'/vm3/usr/share/doc -name copyright -type f | sort | head -200 > '{machines}.list'; \
         while read -r file; do echo changed >> \"$file\"; done < '{machines}.list'"
    ))?;
    let fixed = "-U 00000000-0000-4000-8000-000000000001 -E hash_seed=00000000-0000-4000-8000-000000000002";
    shell(&format!("mkfs.ext4 -q {fixed} -d '{machines}' '{}' 1024M", to.display()))?;
    shell(&format!("rm -rf '{tree}' '{machines}' '{machines}.list'"))?;
    Ok(())
}
