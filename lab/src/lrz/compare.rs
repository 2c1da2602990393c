// SPDX-License-Identifier: GPL-2.0-only
//! Measures compression programs on the corpora. Results are kept beside the corpora, so that an interrupted run
//! continues, and only a new build of lrz is measured again.

use super::stages::{self, Stages};
use super::{sha256, shell, table};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Arguments of `lrz compare`.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Directory of the corpora
    #[arg(long, default_value = "target/lrz-corpora", value_name = "DIR")]
    folder: PathBuf,
    /// lrz to measure [default: target/release/lrz, built now]
    #[arg(long, value_name = "FILE")]
    lrz: Option<PathBuf>,
    /// Only these files
    #[arg(long = "file", value_name = "NAME")]
    files: Vec<String>,
    /// Only these programs, as named in the table
    #[arg(long, value_name = "PROGRAM")]
    only: Vec<String>,
    /// Repeat measurements with known results, so that all rows are equally recent
    #[arg(long)]
    again: bool,
    /// Only write the table of known results
    #[arg(long)]
    table_only: bool,
    /// File for the table
    #[arg(long, default_value = "workhorses/lrz/RESULTS.md", value_name = "FILE")]
    output: PathBuf,
}

/// A program with its options.
pub struct Contestant {
    /// Name in the table.
    pub name: &'static str,
    pack: &'static str,
    unpack: &'static str,
}

/// All programs, cheap ones first: an interrupted run then has most of the rows.
pub const CONTESTANTS: [Contestant; 22] = [
    rival("zstd -3 --long=31", "zstd -q -f -T2 -3 --long=31 IN -o OUT", "zstd -q -f -d --long=31 IN -o OUT"),
    own("lrz -n", "LRZ -q -f -p2 -n --trace TRACE -o OUT IN"),
    rival("lrzip -n", "lrzip -q -f -N0 -n -o OUT IN", UNLRZIP),
    own("lrz -l", "LRZ -q -f -p2 -l --trace TRACE -o OUT IN"),
    own("lrz -l --no-verify", "LRZ -q -f -p2 -l --no-verify --trace TRACE -o OUT IN"),
    rival("lrzip -l", "lrzip -q -f -N0 -l -o OUT IN", UNLRZIP),
    own("lrz -l --no-search", "LRZ -q -f -p2 -l --no-search --trace TRACE -o OUT IN"),
    own("lrz -g", "LRZ -q -f -p2 -g --trace TRACE -o OUT IN"),
    rival("lrzip -g", "lrzip -q -f -N0 -g -o OUT IN", UNLRZIP),
    own("lrz -g --no-search", "LRZ -q -f -p2 -g --no-search --trace TRACE -o OUT IN"),
    own("lrz -b", "LRZ -q -f -p2 -b --trace TRACE -o OUT IN"),
    own("lrz -b --no-verify", "LRZ -q -f -p2 -b --no-verify --trace TRACE -o OUT IN"),
    rival("lrzip -b", "lrzip -q -f -N0 -b -o OUT IN", UNLRZIP),
    own("lrz -b --no-search", "LRZ -q -f -p2 -b --no-search --trace TRACE -o OUT IN"),
    rival("bzip2 -9", "bzip2 -9 -c IN > OUT", "bzip2 -d -c IN > OUT"),
    rival("bzip2 -7", "bzip2 -7 -c IN > OUT", "bzip2 -d -c IN > OUT"),
    own("lrz", "LRZ -q -f -p2 --trace TRACE -o OUT IN"),
    rival("lrzip", "lrzip -q -f -N0 -o OUT IN", UNLRZIP),
    own("lrz --no-search", "LRZ -q -f -p2 --no-search --trace TRACE -o OUT IN"),
    rival("gzip -7", "gzip -7 -c IN > OUT", "gzip -d -c IN > OUT"),
    rival("xz -T2 -6", "xz -T2 -6 -c IN > OUT", "xz -d -c IN > OUT"),
    rival("zstd -19 --long=31", "zstd -q -f -T2 -19 --long=31 IN -o OUT", "zstd -q -f -d --long=31 IN -o OUT"),
];
const UNLRZIP: &str = "lrzip -q -f -d -o OUT IN";

const fn own(name: &'static str, pack: &'static str) -> Contestant {
    Contestant { name, pack, unpack: "LRZ -q -f -d -p2 -o OUT IN" }
}

const fn rival(name: &'static str, pack: &'static str, unpack: &'static str) -> Contestant {
    Contestant { name, pack, unpack }
}

/// Resources that one run took.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Cost {
    pub user_s: f64,
    pub system_s: f64,
    pub peak_kb: u64,
}

impl Cost {
    /// CPU seconds.
    pub fn cpu_s(&self) -> f64 {
        self.user_s + self.system_s
    }
}

/// A row of the table.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    pub file: String,
    pub file_sha256: String,
    pub bytes: u64,
    pub program: String,
    /// Version of the program, or the SHA-256 of lrz.
    pub version: String,
    pub packed: u64,
    pub pack: Cost,
    pub unpack: Cost,
    /// Stages from the trace of packing; only lrz has one.
    #[serde(default)]
    pub stages: Option<Stages>,
}

impl Row {
    /// Returns whether the program is lrz.
    pub fn is_own(&self) -> bool {
        !self.version.contains(' ')
    }
}

/// Measures and writes the table.
pub fn execute(arguments: &Arguments) -> Result<()> {
    let lrz = match &arguments.lrz {
        Some(path) => path.clone(),
        None => {
            shell("cargo build --release --locked -q -p lrz")?;
            PathBuf::from("target/release/lrz")
        }
    };
    let results = arguments.folder.join("results.json");
    let mut rows: Vec<Row> = match fs::read_to_string(&results) {
        Ok(text) => serde_json::from_str(&text).with_context(|| format!("reading {}", results.display()))?,
        Err(_) => Vec::new(),
    };
    if !arguments.table_only {
        measure(arguments, &lrz, &results, &mut rows)?;
    }
    fs::write(&arguments.output, table::render(&rows, &sha256(&lrz)?)?)
        .with_context(|| format!("writing {}", arguments.output.display()))
}

fn measure(arguments: &Arguments, lrz: &Path, results: &Path, rows: &mut Vec<Row>) -> Result<()> {
    let own_version = sha256(lrz)?;
    for contestant in &CONTESTANTS {
        if !arguments.only.is_empty() && !arguments.only.iter().any(|name| name == contestant.name) {
            continue;
        }
        let version = if contestant.pack.starts_with("LRZ") { own_version.clone() } else { version(contestant)? };
        for name in table::FILES {
            let path = arguments.folder.join(name);
            if !path.exists() || !arguments.files.is_empty() && !arguments.files.iter().any(|file| file == name) {
                continue;
            }
            let file_sha256 = sha256(&path)?;
            let same = |row: &Row| row.file_sha256 == file_sha256 && row.program == contestant.name;
            if !arguments.again && rows.iter().any(|row| same(row) && row.version == version) {
                continue;
            }
            eprintln!("{name}: {}", contestant.name);
            let row = one(contestant, lrz, &path, name, file_sha256.clone(), version.clone())?;
            rows.retain(|row| !same(row));
            rows.push(row);
            let text = serde_json::to_string_pretty(rows).context("writing the results")?;
            fs::write(results, text).with_context(|| format!("writing {}", results.display()))?;
        }
    }
    Ok(())
}

fn version(contestant: &Contestant) -> Result<String> {
    let program = contestant.pack.split(' ').next().unwrap_or_default();
    // gzip and others print several lines, lrzip and bzip2 on standard error.
    let text = shell(&format!("{program} --version 2>&1 < /dev/null | grep -a -m1 -o '[0-9]\\+[.][0-9.]\\+' || true"))?;
    Ok(format!("{program} {text}"))
}

fn one(
    contestant: &Contestant,
    lrz: &Path,
    path: &Path,
    name: &str,
    file_sha256: String,
    version: String,
) -> Result<Row> {
    let [packed, back, trace] = ["packed", "back", "trace"].map(|extension| path.with_extension(extension));
    let pack = timed(contestant.pack, lrz, path, &packed)?;
    let stages = if contestant.pack.contains("TRACE") {
        Some(stages::read(&fs::read_to_string(&trace).context("reading the trace")?)?)
    } else {
        None
    };
    let unpack = timed(contestant.unpack, lrz, &packed, &back)?;
    let same = Command::new("cmp").args(["-s"]).args([path, &back]).status().context("running cmp")?;
    ensure!(same.success(), "{name}: {} does not give the file back", contestant.name);
    let length = |file: &Path| fs::metadata(file).map(|found| found.len()).context("a file that was just written");
    let row = Row {
        file: name.to_owned(),
        file_sha256,
        bytes: length(path)?,
        program: contestant.name.to_owned(),
        version,
        packed: length(&packed)?,
        pack,
        unpack,
        stages,
    };
    for file in [packed, back, trace].iter().filter(|file| file.exists()) {
        fs::remove_file(file).context("removing what was written")?;
    }
    Ok(row)
}

/// Runs a command under GNU time.
fn timed(command: &str, lrz: &Path, from: &Path, to: &Path) -> Result<Cost> {
    let quoted = |path: &Path| format!("'{}'", path.display());
    let words = command.split(' ').map(|word| match word {
        "LRZ" => quoted(lrz),
        "IN" => quoted(from),
        "OUT" => quoted(to),
        "TRACE" => quoted(&to.with_extension("trace")),
        _ => word.to_owned(),
    });
    let line = words.collect::<Vec<_>>().join(" ");
    // lrzip reads a configuration of the user unless told not to.
    let output = Command::new("/usr/bin/time")
        .args(["-f", "cost %U %S %M", "bash", "-c", &line])
        .env("LRZIP", "NOCONFIG")
        .stdout(Stdio::null())
        .output()
        .context("running /usr/bin/time (package time)")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{line}: {}", error.trim());
    let cost = error.lines().rev().find_map(|line| line.strip_prefix("cost ")).context("no cost from GNU time")?;
    let fields: Vec<f64> = cost.split(' ').filter_map(|field| field.parse().ok()).collect();
    ensure!(fields.len() == 3, "GNU time printed {cost:?}");
    Ok(Cost { user_s: fields[0], system_s: fields[1], peak_kb: fields[2] as u64 })
}
