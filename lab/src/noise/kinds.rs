// SPDX-License-Identifier: GPL-2.0-only
//! The six kinds of workload whose real runs are compared with the model's noise.
//!
//! The noise parameters were fitted on `periodic` and `pool`; that was decided before any run of the other four was
//! evaluated.

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// How a kind is run.
pub enum Play {
    /// A workload file, the same for real and simulated runs.
    File(&'static str),
    /// A shell command; the model simulates a recording of it. `{xtask}` is this program.
    Command(&'static str),
}

/// A kind of workload.
pub struct Kind {
    pub name: &'static str,
    /// Whether the noise is fitted on it.
    pub fitted: bool,
    pub play: Play,
}

/// All kinds.
pub const KINDS: [Kind; 6] = [
    Kind { name: "periodic", fitted: true, play: Play::File(PERIODIC) },
    Kind {
        name: "pool",
        fitted: true,
        play: Play::Command("seq 24 | xargs -P 4 -I{} sh -c 'head -c 1000000 data | gzip -6 >/dev/null'"),
    },
    Kind { name: "hogs", fitted: false, play: Play::File(HOGS) },
    Kind {
        name: "pipes",
        fitted: false,
        play: Play::Command("for i in 1 2 3 4 5 6 7 8; do cat data; done | tr a-m n-z | gzip -1 | wc -c >/dev/null"),
    },
    Kind { name: "build", fitted: false, play: Play::Command("make -s -C build clean && make -s -j3 -C build") },
    Kind { name: "server", fitted: false, play: Play::Command("{xtask} noise serve") },
];

/// Three periodic tasks, 1 ms of work every 10 ms, beside two hogs.
const PERIODIC: &str = r#"{"tasks": {
    "hog": {"instance": 2, "loop": 40, "run": 10000},
    "beat": {"instance": 3, "loop": 50, "run": 1000, "timer": {"ref": "beat", "period": 10000}}}}"#;

/// Hogs of four nice values with short sleeps.
const HOGS: &str = r#"{"tasks": {
    "plain": {"instance": 2, "loop": 25, "run": 10000, "sleep": 500},
    "five": {"priority": 5, "loop": 15, "run": 10000, "sleep": 500},
    "ten": {"priority": 10, "loop": 10, "run": 10000, "sleep": 500},
    "eager": {"priority": -5, "loop": 100, "run": 1000, "sleep": 1500}}}"#;

/// Number of files to compile.
const FILES: u32 = 16;

/// Writes the files of the kinds to `directory`.
pub fn prepare(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory.join("build")).with_context(|| directory.display().to_string())?;
    for kind in &KINDS {
        if let Play::File(text) = kind.play {
            fs::write(directory.join(format!("{}.json", kind.name)), text)?;
        }
    }
    let words: String = (0..180_000u32).map(|n| format!("{:x} ", n.wrapping_mul(2_654_435_761) >> 12)).collect();
    fs::write(directory.join("data"), words)?;
    let mut names = Vec::new();
    for number in 0..FILES {
        fs::write(directory.join(format!("build/f{number}.c")), source(number))?;
        names.push(format!("f{number}.o"));
    }
    let makefile =
        format!("CFLAGS = -O2\nall: {0}\n\tgcc -shared -o all.so {0}\nclean:\n\trm -f *.o all.so\n", names.join(" "));
    fs::write(directory.join("build/Makefile"), makefile.replace("-O2", "-O2 -fPIC"))?;
    Ok(())
}

/// Returns a C file whose length depends on its number.
fn source(number: u32) -> String {
    let function = |index: u32| {
        format!(
            "int f{number}_{index}(int *a, int n) {{ int s = {index}; for (int i = 0; i < n; i++) {{ if (a[i] > s) s += \
             a[i] * {}; else a[i] ^= s; }} return s; }}\n",
            index + 3
        )
    };
    (0..4 + number % 4 * 4).map(function).collect()
}
