// SPDX-License-Identifier: GPL-2.0-only
//! Renders the table of results, and compares them with the targets.

use super::compare::{CONTESTANTS, Row};
use super::shell;
use anyhow::Result;
use std::fmt::Write as _;

/// The files, in the order of the table.
pub const FILES: [&str; 4] = ["kern2.tar", "log256.txt", "disk.img", "rand256.bin"];

/// Bound of a target.
enum Bound {
    Most(f64),
    Least(f64),
}
use Bound::{Least, Most};

/// A bound on a value of one program, or on the ratio of two programs.
struct Target {
    what: &'static str,
    file: &'static str,
    program: &'static str,
    rival: Option<&'static str>,
    measure: fn(&Row) -> Option<f64>,
    bound: Bound,
}

const fn beside(
    what: &'static str,
    file: &'static str,
    program: &'static str,
    rival: &'static str,
    measure: fn(&Row) -> Option<f64>,
    most: f64,
) -> Target {
    Target { what, file, program, rival: Some(rival), measure, bound: Most(most) }
}

const fn least(
    what: &'static str,
    file: &'static str,
    program: &'static str,
    measure: fn(&Row) -> Option<f64>,
    least: f64,
) -> Target {
    Target { what, file, program, rival: None, measure, bound: Least(least) }
}

fn cpu(row: &Row) -> Option<f64> {
    Some(row.pack.cpu_s())
}

fn cpu_back(row: &Row) -> Option<f64> {
    Some(row.unpack.cpu_s())
}

fn size(row: &Row) -> Option<f64> {
    Some(row.packed as f64)
}

/// Returns the throughput of the search in MB per CPU second.
fn search_rate(row: &Row) -> Option<f64> {
    row.stages.map(|stages| row.bytes as f64 / 1e6 / stages.search_s)
}

fn with_work(row: &Row) -> Option<f64> {
    row.stages.map(|stages| stages.with_work)
}

/// Targets, fixed before the first measurement.
const TARGETS: [Target; 29] = [
    least("search, MB in a CPU second", "kern2.tar", "lrz -l", search_rate, 200.0),
    least("search, MB in a CPU second", "log256.txt", "lrz -l", search_rate, 60.0),
    least("share of time with work for all cores", "kern2.tar", "lrz", with_work, 0.92),
    least("share of time with work for all cores", "log256.txt", "lrz", with_work, 0.92),
    least("share of time with work for all cores", "kern2.tar", "lrz -b", with_work, 0.92),
    beside("CPU to pack", "kern2.tar", "lrz", "lrzip", cpu, 0.97),
    beside("CPU to pack", "log256.txt", "lrz", "lrzip", cpu, 0.9),
    beside("CPU to pack", "kern2.tar", "lrz -l", "lrzip -l", cpu, 0.45),
    beside("CPU to pack", "log256.txt", "lrz -l", "lrzip -l", cpu, 0.45),
    beside("CPU to unpack", "kern2.tar", "lrz", "lrzip", cpu_back, 0.85),
    beside("CPU to unpack", "kern2.tar", "lrz -l", "lrzip -l", cpu_back, 0.85),
    beside("CPU to unpack", "kern2.tar", "lrz -b", "lrzip -b", cpu_back, 0.85),
    beside("CPU to unpack", "log256.txt", "lrz", "lrzip", cpu_back, 0.85),
    beside("CPU to unpack", "log256.txt", "lrz -l", "lrzip -l", cpu_back, 0.85),
    beside("size", "kern2.tar", "lrz", "lrzip", size, 1.01),
    beside("size", "kern2.tar", "lrz -b", "lrzip -b", size, 1.01),
    beside("size", "kern2.tar", "lrz -g", "lrzip -g", size, 1.01),
    beside("size", "kern2.tar", "lrz -l", "lrzip -l", size, 1.01),
    beside("size", "log256.txt", "lrz", "lrzip", size, 1.01),
    beside("size", "log256.txt", "lrz -b", "lrzip -b", size, 1.01),
    beside("size", "log256.txt", "lrz -g", "lrzip -g", size, 1.01),
    beside("size", "log256.txt", "lrz -l", "lrzip -l", size, 1.01),
    beside("size", "disk.img", "lrz -l", "lrzip -l", size, 1.01),
    beside("size beside the back end alone", "log256.txt", "lrz -b", "bzip2 -7", size, 1.0),
    beside("size beside the back end alone", "log256.txt", "lrz -b", "bzip2 -9", size, 1.0),
    beside("size beside the back end alone", "log256.txt", "lrz -b", "lrz -b --no-search", size, 1.0),
    beside("size beside the back end alone", "log256.txt", "lrz -g", "lrz -g --no-search", size, 1.0),
    beside("size beside the back end alone", "log256.txt", "lrz -l", "lrz -l --no-search", size, 1.0),
    beside("size beside the back end alone", "log256.txt", "lrz", "lrz --no-search", size, 1.0),
];

/// Renders `RESULTS.md`; `own` is the version of lrz.
pub fn render(rows: &[Row], own: &str) -> Result<String> {
    let mut text = String::from(
        "# Results of lrz\n\nWritten by `cargo xtask lrz compare`: do not edit. Each row is one run of a program with two \
         threads on a\nshared machine. CPU seconds are user + system; wall-clock times mean nothing beside other work and \
         are left\nout. Each archive was unpacked and compared with the file. The last columns are from the trace of packing: \
         how many\nmegabytes of the file the search takes in a CPU second, and, from the start of the first block to the \
         end of the\nlast one, in which share of the time there were threads with work for both cores. A row with * is \
         of an earlier\nbuild of lrz.\n\n",
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
        writeln!(
            text,
            "| program | packed bytes | ratio | CPU s | peak MB | unpack CPU s | unpack peak MB | search | work |"
        )?;
        writeln!(text, "|---|---|---|---|---|---|---|---|---|")?;
        for contestant in &CONTESTANTS {
            let Some(row) = of_file.iter().find(|row| row.program == contestant.name) else { continue };
            write_row(&mut text, row, own)?;
        }
        text.push('\n');
    }
    targets(&mut text, rows)?;
    let mut versions: Vec<&str> = rows.iter().filter(|row| !row.is_own()).map(|row| row.version.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    let short = &own[..own.len().min(12)];
    writeln!(text, "Versions: {}; lrz: the build whose SHA-256 begins with `{short}`.", versions.join(", "))?;
    Ok(text)
}

fn write_row(text: &mut String, row: &Row, own: &str) -> Result<()> {
    let rate = search_rate(row).filter(|_| !row.program.contains("--no-search"));
    writeln!(
        text,
        "| {}{} | {} | {:.3} | {:.2} + {:.2} | {} | {:.2} + {:.2} | {} | {} | {} |",
        row.program,
        if row.is_own() && row.version != own { "*" } else { "" },
        row.packed,
        row.bytes as f64 / row.packed as f64,
        row.pack.user_s,
        row.pack.system_s,
        row.pack.peak_kb / 1000,
        row.unpack.user_s,
        row.unpack.system_s,
        row.unpack.peak_kb / 1000,
        rate.map_or(String::new(), |rate| format!("{rate:.0}")),
        with_work(row).map_or(String::new(), |share| format!("{share:.3}")),
    )?;
    Ok(())
}

fn targets(text: &mut String, rows: &[Row]) -> Result<()> {
    writeln!(text, "## Targets\n\n| what | file | programs | target | measured | met |\n|---|---|---|---|---|---|")?;
    for Target { what, file, program, rival, measure, bound } in &TARGETS {
        let find = |program: &str| rows.iter().find(|row| row.file == *file && row.program == program);
        let of = |program: &str| find(program).and_then(measure);
        let (programs, number) = match rival {
            Some(rival) => (format!("{program} / {rival}"), of(program).zip(of(rival)).map(|(own, rival)| own / rival)),
            None => ((*program).to_owned(), of(program)),
        };
        let (wanted, is_met) = match bound {
            Most(most) => (format!("at most {most}"), number.map(|number| number <= *most)),
            Least(least) => (format!("at least {least}"), number.map(|number| number >= *least)),
        };
        let measured = number.map_or("not measured".to_owned(), |number| format!("{number:.4}"));
        let met = is_met.map_or("unknown", |is_met| if is_met { "yes" } else { "**no**" });
        writeln!(text, "| {what} | {file} | {programs} | {wanted} | {measured} | {met} |")?;
    }
    text.push('\n');
    Ok(())
}
