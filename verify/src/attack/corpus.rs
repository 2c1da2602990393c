// SPDX-License-Identifier: GPL-2.0-only
//! Valid inputs of each kind, of which mutants are made: files of the repository, files that the programs write, and
//! those of a directory that the user names.

use super::Programs;
use super::kinds::{KINDS, Kind};
use crate::root;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[allow(dead_code)]
#[path = "../../../workhorses/bitfit/tests/suite/common/gfs2_image.rs"]
mod gfs2_image;

/// Longest file that is mutated, in bytes: longer ones make each mutant slow and less likely to be hit where it matters.
const LONGEST: u64 = 256 << 10;

const SYNTHETIC: [&str; 4] = [
    "node:2 core:8 pu:2",
    "package:2 l3:2 core:4 pu:2",
    "core:1 pu:1",
    "numa:2(memory=8GB) l3:1(size=8MB) core:4 pu:2",
];

const FAULTS: [&str; 2] = [
    "[[fault]]\nat = \"2ms\"\noffline = \"3\"\n[[fault]]\nat = \"4ms\"\nonline = \"3\"\n[[fault]]\nat = \"8ms\"\nsuspend = \"500ms\"\n",
    "[[fault]]\nat = \"1ms\"\ncpus = \"0-3\"\nclock = \"+1s\"\n[[fault]]\nat = \"2ms\"\ncpus = \"1\"\ndrift = \"-200ppm\"\n\
     [[fault]]\nat = \"3ms\"\noffline = \"1-2\"\n",
];

const TABLES: [&str; 2] = [
    "n,throughput\n1,64.9\n18,995.9\n36,1652.4\n72,1853.2\n108,1828.9\n144,1775.0\n216,1702.2\n",
    "# measured\nn,throughput\n1,1\n2,1.9\n4,3.6\n8,6.1\n16,9\n32,10.5\n1,1.1\n2,2.0\n",
];

/// Runs that are saved, as arguments of `weir sim`.
const RUNS: [&[&str]; 4] = [
    &["fifo", "-m", "core:2 pu:1", "-w", "pingpong", "--for", "5ms"],
    &["bfs", "kernel", "-m", "core:2 pu:2", "-w", "preempt-mix", "--for", "10ms", "--seeds", "2"],
    &["kernel", "-m", "laptop-2c4t", "-w", "lock", "--for", "5ms", "--faults", "cpu1:offline@1ms,cpu1:online@3ms"],
    &["lottery", "-m", "laptop-2c4t", "-w", "periodic-4+hog,nice=5", "--for", "20ms", "--seed", "3", "--check"],
];

/// Back ends of archives.
const BACKENDS: [&str; 5] = ["--lzma", "-l", "-g", "-b", "-n"];
/// Offset in an archive of the rounds of its key, and few rounds. The key is then wrong, and what it decrypts is random.
const ROUNDS_AT: usize = 6;
const FEW_ROUNDS: [u8; 2] = [3, 1];

/// Name of the objects whose profiles are mutated, in the order of the profiles.
pub const OBJECTS_OF_PROFILES: &str = "objects of profiles";

/// Files by the name of their kind.
pub type Corpus = BTreeMap<&'static str, Vec<Vec<u8>>>;

/// Collects the files, with those in `extra/KIND/`. Programs write theirs to `scratch`.
///
/// # Errors
/// If a file cannot be read, or a program fails.
pub fn collect(programs: &Programs, scratch: &Path, extra: Option<&Path>) -> Result<Corpus> {
    let mut corpus = Corpus::new();
    for Kind { name, suffix, .. } in &KINDS {
        let mut files = match *name {
            "object" => objects(programs, scratch)?,
            "machine" => read(&root().join("machines"), suffix)?,
            "hwloc" => read(&root().join("crates/machine-model/tests/hwloc"), suffix)?,
            "synthetic" => texts(&SYNTHETIC),
            "workload" => read(&root().join("workloads"), suffix)?,
            "recording" => read(&root().join("workloads/recorded"), suffix)?,
            "profile" => {
                let [profiles, objects] = profiles(programs, scratch)?;
                corpus.insert(OBJECTS_OF_PROFILES, objects);
                profiles
            }
            "faults" => texts(&FAULTS),
            "saved-run" => saved_runs(programs, scratch)?,
            "archive" => archives(programs, scratch)?,
            "bitmap" => vec![image()],
            _ => texts(&TABLES),
        };
        if let Some(directory) = extra.map(|extra| extra.join(name)).filter(|directory| directory.is_dir()) {
            files.extend(read(&directory, "")?);
        }
        ensure!(!files.is_empty(), "no input of kind {name}");
        corpus.insert(name, files);
    }
    Ok(corpus)
}

fn texts(all: &[&str]) -> Vec<Vec<u8>> {
    all.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Files of a directory with this suffix, in the order of their names, without very long ones.
fn read(directory: &Path, suffix: &str) -> Result<Vec<Vec<u8>>> {
    let place = || directory.display().to_string();
    let entries = fs::read_dir(directory).with_context(place)?.collect::<Result<Vec<_>, _>>()?;
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.retain(|path| {
        let fits = path.to_str().is_some_and(|path| path.ends_with(suffix));
        fits && path.metadata().is_ok_and(|data| data.is_file() && data.len() <= LONGEST)
    });
    paths.sort();
    paths.iter().map(|path| fs::read(path).with_context(|| path.display().to_string())).collect()
}

fn execute(program: &Path, arguments: &[&str], directory: &Path) -> Result<()> {
    let output = Command::new(program).args(arguments).current_dir(directory).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(matches!(output.status.code(), Some(0 | 1)), "{}: {arguments:?}: {errors}", program.display());
    Ok(())
}

fn objects(programs: &Programs, scratch: &Path) -> Result<Vec<Vec<u8>>> {
    execute(&programs.weir, &["generate", "objects", "objects"], scratch)?;
    read(&scratch.join("objects"), ".bpf.o")
}

/// Profiles of the policies, and the object of each.
fn profiles(programs: &Programs, scratch: &Path) -> Result<[Vec<Vec<u8>>; 2]> {
    execute(&programs.weir, &["generate", "objects", "objects"], scratch)?;
    let mut names: Vec<PathBuf> = fs::read_dir(scratch.join("objects"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .filter(|path| path.as_ref().map_or(true, |path| path.extension().is_some_and(|it| it == "toml")))
        .collect::<Result<_, _>>()?;
    names.retain(|profile| profile.with_extension("bpf.o").is_file());
    names.sort();
    let read = |path: PathBuf| fs::read(&path).with_context(|| path.display().to_string());
    let profiles = names.iter().map(|path| read(path.clone())).collect::<Result<_>>()?;
    let objects = names.iter().map(|path| read(path.with_extension("bpf.o"))).collect::<Result<_>>()?;
    Ok([profiles, objects])
}

fn saved_runs(programs: &Programs, scratch: &Path) -> Result<Vec<Vec<u8>>> {
    let mut files = Vec::new();
    for arguments in RUNS {
        execute(&programs.weir, &[&["sim"], arguments, &["--save", "run.weirrun"]].concat(), scratch)?;
        files.push(fs::read(scratch.join("run.weirrun"))?);
    }
    Ok(files)
}

/// Archives of all back ends, plain and encrypted.
fn archives(programs: &Programs, scratch: &Path) -> Result<Vec<Vec<u8>>> {
    let line = |k: u32| format!("line {} of {}: the value is {}\n", k, k / 7, k.wrapping_mul(2_654_435_761) >> 7);
    let text: String = (0..300).map(line).collect();
    fs::write(scratch.join("text"), format!("{text}{}{text}", "\0".repeat(3_000)))?;
    let mut files = Vec::new();
    for backend in BACKENDS {
        execute(&programs.lrz, &["-Q", "-f", backend, "-o", "text.lrz", "text"], scratch)?;
        files.push(fs::read(scratch.join("text.lrz"))?);
    }
    execute(&programs.lrz, &["-Q", "-f", "-e=pw", "-o", "text.lrz", "text"], scratch)?;
    let mut encrypted = fs::read(scratch.join("text.lrz"))?;
    encrypted[ROUNDS_AT..ROUNDS_AT + 2].copy_from_slice(&FEW_ROUNDS);
    files.push(encrypted);
    Ok(files)
}

/// An image of GFS2 with two groups.
fn image() -> Vec<u8> {
    let mut first = vec![0x55; 8];
    first.extend([0x54, 0x50, 0, 0]);
    let mut second = vec![0; 40];
    second[20] = 0x0f;
    gfs2_image::Image::new(&gfs2_image::Plan { block_bytes: 512, maps: vec![first, second], hashed: true }).bytes
}
