// SPDX-License-Identifier: GPL-2.0-only
//! Compressed sizes of files of many kinds, with lrz, its back ends alone, and lrzip: `workhorses/lrz/KINDS.md`.

use super::shell;
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

/// Script that creates most of the files, with CPython's random numbers.
const SCRIPT: &str = include_str!("kinds.py");
/// Parts of the corpora, if these exist: name, corpus, first byte, number of bytes (0: the common length).
const PARTS: [(&str, &str, u64, u64); 6] = [
    ("sources", "kern2.tar", 100_000_000, 0),
    ("log", "log256.txt", 100_000_000, 0),
    ("disk image", "disk.img", 30_000_000, 0),
    ("a few kB", "kern2.tar", 300_000_000, 5000),
    ("a few bytes", "kern2.tar", 300_000_000, 300),
    ("one byte", "kern2.tar", 300_000_000, 1),
];
/// Smaller files, in bytes, are dominated by headers and not counted.
const COUNTED: u64 = 100_000;
/// Back ends: lrz's option, and the command of the back end alone, as a filter.
const BACKENDS: [(&str, &str); 4] =
    [("-l", ""), ("-g", "gzip -7"), ("-b", "bzip2 -9"), ("--lzma", "xz -T1 -6 --format=lzma")];

/// Arguments of `lrz kinds`.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Directory of the corpora from which some files are taken
    #[arg(long, default_value = "target/lrz-corpora", value_name = "DIR")]
    directory: PathBuf,
    /// lrz to measure
    #[arg(long, default_value = "target/release/lrz", value_name = "FILE")]
    lrz: PathBuf,
    /// Size of each file in bytes
    #[arg(long, default_value_t = 8_000_000, value_name = "N")]
    length: u64,
    /// File for the table
    #[arg(long, default_value = "workhorses/lrz/KINDS.md", value_name = "FILE")]
    output: PathBuf,
}

/// Sizes of one file with one back end; 0 for a missing variant.
struct Sizes {
    lrz: u64,
    rivals: [u64; 3],
}

/// Measures and writes the table.
pub fn execute(arguments: &Arguments) -> Result<()> {
    let directory = tempfile::tempdir().context("a temporary directory")?;
    let place = directory.path().display().to_string();
    let names = make(arguments, &place)?;
    let mut text = format!(
        "# Sizes of lrz for files of many kinds\n\nWritten by `cargo xtask lrz kinds`: do not edit. Files of {} bytes but \
         for the smallest: how many bytes lrz makes of\nthem, the same without a search, the program of the back end \
         alone (`gzip -7`, `bzip2 -9`, `xz -6 --format=lzma`), and\nlrzip; then lrz as a share of each. LZO has no \
         program here.\n\n| file | option | lrz | no search | alone | lrzip | of no search | of alone | of lrzip |\n\
         |---|---|---|---|---|---|---|---|---|\n",
        arguments.length
    );
    let mut worst = [(0.0f64, String::new()), (0.0, String::new()), (0.0, String::new())];
    for name in &names {
        let length = fs::metadata(directory.path().join(name)).context("a file that was just made")?.len();
        for (option, alone) in BACKENDS {
            let sizes = measure(arguments, &format!("{place}/{name}"), option, alone)?;
            let shares = sizes.rivals.map(|rival| (rival > 0).then(|| sizes.lrz as f64 / rival as f64));
            let show = |size: u64| if size > 0 { size.to_string() } else { String::new() };
            let [bare, own, lrzip] = sizes.rivals.map(show);
            let [a, b, c] = shares.map(|share| share.map_or(String::new(), |share| format!("{share:.4}")));
            writeln!(text, "| {name} | {option} | {} | {bare} | {own} | {lrzip} | {a} | {b} | {c} |", sizes.lrz)?;
            for (share, worst) in shares.into_iter().zip(&mut worst) {
                if let Some(share) = share.filter(|share| length >= COUNTED && *share > worst.0) {
                    *worst = (share, format!("{name} {option}"));
                }
            }
        }
    }
    let [bare, own, lrzip] = worst.map(|(share, what)| format!("{share:.4} ({what})"));
    writeln!(
        text,
        "\nOf files of at least {COUNTED} bytes, at most {bare} of no search, {own} of alone, {lrzip} of lrzip."
    )?;
    fs::write(&arguments.output, text).with_context(|| format!("writing {}", arguments.output.display()))
}

/// Creates the files and returns their names.
fn make(arguments: &Arguments, place: &str) -> Result<Vec<String>> {
    let script = format!("{place}.py");
    fs::write(&script, SCRIPT).context("writing the script")?;
    shell(&format!("python3 '{script}' '{place}' {}; rm '{script}'", arguments.length))?;
    for (name, corpus, first, bytes) in PARTS {
        let corpus = arguments.directory.join(corpus);
        let bytes = if bytes == 0 { arguments.length } else { bytes };
        if corpus.exists() {
            shell(&format!(
                "tail -c +{first} '{}' | (head -c {bytes}; cat > /dev/null) > '{place}/{name}'",
                corpus.display()
            ))?;
        }
    }
    // Programs of this machine, and compressed files.
    let length = arguments.length;
    shell(&format!(
        "(cat /usr/bin/* 2> /dev/null || true) | (head -c {length}; cat > /dev/null) > '{place}/programs'"
    ))?;
    shell(&format!("gzip -9 < '{place}/programs' > '{place}/packed already'"))?;
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(place).context("the files")? {
        names.push(entry.context("the files")?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn measure(arguments: &Arguments, file: &str, option: &str, alone: &str) -> Result<Sizes> {
    let lrz = arguments.lrz.display();
    let size = |line: &str| -> Result<u64> {
        shell(line)?.parse().with_context(|| format!("the output of {line} is not a size"))
    };
    let packed = |line: String| {
        size(&format!("{line} -o '{file}.packed' '{file}' && stat -c %s '{file}.packed' && rm '{file}.packed'"))
    };
    let own = packed(format!("'{lrz}' -q -f -p2 {option}"))?;
    let bare = packed(format!("'{lrz}' -q -f -p2 --no-search {option}"))?;
    let lzma = if option == "--lzma" { "" } else { option };
    let lrzip = packed(format!("LRZIP=NOCONFIG lrzip -q -f -N0 {lzma} > /dev/null 2>&1"))?;
    let alone = if alone.is_empty() { 0 } else { size(&format!("{alone} -c < '{file}' | wc -c"))? };
    Ok(Sizes { lrz: own, rivals: [bare, alone, lrzip] })
}
