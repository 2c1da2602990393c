// SPDX-License-Identifier: GPL-2.0-only
//! The table of results, and what it says of the targets.

use super::compare::{CONTESTANTS, Row};
use super::shell;
use anyhow::Result;
use std::fmt::Write as _;

/// The files, in the order of the table.
pub const FILES: [&str; 4] = ["kern2.tar", "log256.txt", "disk.img", "rand256.bin"];

/// A bound on the quotient of two programs.
struct Target {
    what: &'static str,
    file: &'static str,
    program: &'static str,
    rival: &'static str,
    measure: fn(&Row) -> f64,
    most: f64,
}

const fn target(
    what: &'static str,
    file: &'static str,
    program: &'static str,
    rival: &'static str,
    measure: fn(&Row) -> f64,
    most: f64,
) -> Target {
    Target { what, file, program, rival, measure, most }
}

fn cpu(row: &Row) -> f64 {
    row.pack.cpu_s()
}

fn cpu_back(row: &Row) -> f64 {
    row.unpack.cpu_s()
}

fn size(row: &Row) -> f64 {
    row.packed as f64
}

/// Fixed before anything was measured.
const TARGETS: [Target; 22] = [
    target("CPU to pack", "kern2.tar", "lrz", "lrzip", cpu, 0.97),
    target("CPU to pack", "log256.txt", "lrz", "lrzip", cpu, 0.9),
    target("CPU to pack", "kern2.tar", "lrz -l", "lrzip -l", cpu, 0.45),
    target("CPU to pack", "log256.txt", "lrz -l", "lrzip -l", cpu, 0.45),
    target("CPU to unpack", "kern2.tar", "lrz", "lrzip", cpu_back, 0.85),
    target("CPU to unpack", "kern2.tar", "lrz -l", "lrzip -l", cpu_back, 0.85),
    target("CPU to unpack", "kern2.tar", "lrz -b", "lrzip -b", cpu_back, 0.85),
    target("CPU to unpack", "log256.txt", "lrz", "lrzip", cpu_back, 0.85),
    target("CPU to unpack", "log256.txt", "lrz -l", "lrzip -l", cpu_back, 0.85),
    target("size", "kern2.tar", "lrz", "lrzip", size, 1.01),
    target("size", "kern2.tar", "lrz -b", "lrzip -b", size, 1.01),
    target("size", "kern2.tar", "lrz -g", "lrzip -g", size, 1.01),
    target("size", "kern2.tar", "lrz -l", "lrzip -l", size, 1.01),
    target("size", "log256.txt", "lrz", "lrzip", size, 1.01),
    target("size", "log256.txt", "lrz -b", "lrzip -b", size, 1.01),
    target("size", "log256.txt", "lrz -g", "lrzip -g", size, 1.01),
    target("size", "log256.txt", "lrz -l", "lrzip -l", size, 1.01),
    target("size", "disk.img", "lrz -l", "lrzip -l", size, 1.01),
    target("size beside the back end alone", "log256.txt", "lrz -b", "bzip2 -7", size, 1.0),
    target("size beside the back end alone", "log256.txt", "lrz -g", "lrz -g --no-search", size, 1.0),
    target("size beside the back end alone", "log256.txt", "lrz -l", "lrz -l --no-search", size, 1.0),
    target("size beside the back end alone", "log256.txt", "lrz", "lrz --no-search", size, 1.0),
];

/// `RESULTS.md`.
pub fn render(rows: &[Row]) -> Result<String> {
    let mut text = String::from(
        "# Results of lrz\n\nWritten by `cargo xtask lrz compare`: do not edit. Each row is one run of a program with two \
         threads on a\nshared machine. CPU seconds are user + system; wall-clock times mean nothing beside other work and \
         are left\nout. Each archive was unpacked and compared with the file.\n\n",
    );
    writeln!(
        text,
        "Machine: {}.\n",
        shell("sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | sort | uniq -c | sed 's/^ *//'")?
    )?;
    for file in FILES {
        let of_file: Vec<&Row> = rows.iter().filter(|row| row.file == file).collect();
        let Some(first) = of_file.first() else {
            writeln!(text, "## {file}\n\nNot measured.\n")?;
            continue;
        };
        writeln!(text, "## {file}\n\n{} bytes, SHA-256 `{}`\n", first.bytes, first.file_sha256)?;
        writeln!(text, "| program | packed bytes | ratio | CPU s | peak MB | unpack CPU s | unpack peak MB |")?;
        writeln!(text, "|---|---|---|---|---|---|---|")?;
        for contestant in &CONTESTANTS {
            let Some(row) = of_file.iter().find(|row| row.program == contestant.name) else { continue };
            writeln!(
                text,
                "| {} | {} | {:.3} | {:.2} + {:.2} | {} | {:.2} + {:.2} | {} |",
                row.program,
                row.packed,
                row.bytes as f64 / row.packed as f64,
                row.pack.user_s,
                row.pack.system_s,
                row.pack.peak_kb / 1000,
                row.unpack.user_s,
                row.unpack.system_s,
                row.unpack.peak_kb / 1000,
            )?;
        }
        text.push('\n');
    }
    targets(&mut text, rows)?;
    let mut versions: Vec<&str> =
        rows.iter().map(|row| row.version.as_str()).filter(|name| name.contains(' ')).collect();
    versions.sort_unstable();
    versions.dedup();
    writeln!(text, "Versions: {}; lrz as in this tree.", versions.join(", "))?;
    Ok(text)
}

fn targets(text: &mut String, rows: &[Row]) -> Result<()> {
    writeln!(text, "## Targets\n\n| what | file | quotient | target | measured | met |\n|---|---|---|---|---|---|")?;
    for target in &TARGETS {
        let find = |program: &str| rows.iter().find(|row| row.file == target.file && row.program == program);
        let quotient = find(target.program)
            .zip(find(target.rival))
            .map(|(own, rival)| (target.measure)(own) / (target.measure)(rival));
        let (measured, met) = match quotient {
            Some(quotient) => (format!("{quotient:.4}"), if quotient <= target.most { "yes" } else { "**no**" }),
            None => ("not measured".to_owned(), "unknown"),
        };
        writeln!(
            text,
            "| {} | {} | {} / {} | at most {} | {measured} | {met} |",
            target.what, target.file, target.program, target.rival, target.most
        )?;
    }
    text.push('\n');
    Ok(())
}
