// SPDX-License-Identifier: MIT OR Apache-2.0
//! Result tables: one per race in the format of the bug, and those of the README.

use std::io::{self, Write};

use super::races::{BY_FRAGMENTATION, BY_SIZE, Comparison, OTHER_STATES, Race};

/// Prints a race as a table in the format of the bug: times, and speedup over the first row.
pub fn text(out: &mut impl Write, race: &Race) -> io::Result<()> {
    writeln!(out, "{}, map of {} KiB, {} wanted", race.what, race.map_bytes >> 10, race.state)?;
    writeln!(out, "trandfactor = {}", race.trandfactor)?;
    writeln!(out, "{:>14} {:>13} {:>13} {:>8} {:>7}", "", "best us", "median us", "x first", "GB/s")?;
    let first_ns = race.results.first().map_or(f64::NAN, |first| first.ns);
    for time in &race.results {
        let times = first_ns / time.ns;
        write!(out, "{:>14} {:>13.3} {:>13.3} {times:>8.2}", time.name, time.ns / 1e3, time.median_ns / 1e3)?;
        // Throughput is meaningful only for searches that read the whole range.
        if race.searched_bytes > 0 && time.name != "summary" {
            write!(out, " {:>7.2}", time.gb_per_s)?;
        }
        writeln!(out)?;
    }
    for Comparison { contender, rival, ratio, wanted } in &race.comparisons {
        write!(out, "  {contender} is {:.3} times as fast as {rival}", ratio.median)?;
        match wanted {
            Some(wanted) => writeln!(out, ", wanted: {wanted:.3}")?,
            None => writeln!(out)?,
        }
        writeln!(out, "    ({:.3} to {:.3}, {} rounds of pairs)", ratio.low, ratio.high, ratio.rounds)?;
    }
    writeln!(out)
}

/// Prints the README's tables.
pub fn markdown(out: &mut impl Write, races: &[Race]) -> io::Result<()> {
    fragmentation(out, races)?;
    sizes(out, races)?;
    others(out, races)
}

/// Search columns of both large tables.
const SEARCHES: [(&str, &str); 4] =
    [("2009", "2009"), ("portable", "portable"), ("AVX2", "avx2"), ("AVX-512", "avx512")];

fn fragmentation(out: &mut impl Write, races: &[Race]) -> io::Result<()> {
    let columns = [[("#1", "#1"), ("#5", "#5")].as_slice(), &SEARCHES, &[("index", "summary")]].concat();
    head(out, &["wanted", "trandfactor"], &columns, "`find` of read limit")?;
    for race in races.iter().filter(|race| [BY_FRAGMENTATION, OTHER_STATES].contains(&race.what)) {
        let factor = if race.trandfactor == 0 { "none".into() } else { race.trandfactor.to_string() };
        write!(out, "| {} | {factor} |", race.state)?;
        for (_, name) in &columns {
            match race.time(name) {
                Some(time) if time.ns < 1000.0 => write!(out, " {:.2} |", time.ns / 1e3)?,
                Some(time) => write!(out, " {:.0} |", time.ns / 1e3)?,
                None => write!(out, " - |")?,
            }
        }
        writeln!(out, " {} |", race.of_read_limit().map_or("-".into(), percent))?;
    }
    writeln!(out)
}

fn sizes(out: &mut impl Write, races: &[Race]) -> io::Result<()> {
    head(out, &["map"], &[&SEARCHES[..], &[("plain read", "")]].concat(), "`find` of read limit")?;
    for race in races.iter().filter(|race| race.what == BY_SIZE) {
        write!(out, "| {} |", size(race.map_bytes))?;
        let limit = race.of_read_limit().and_then(|comparison| race.time(&comparison.rival));
        for time in SEARCHES.iter().map(|(_, name)| race.time(name)).chain([limit]) {
            match time {
                Some(time) => write!(out, " {:.1} |", time.gb_per_s)?,
                None => write!(out, " - |")?,
            }
        }
        writeln!(out, " {} |", race.of_read_limit().map_or("-".into(), percent))?;
    }
    writeln!(out)
}

/// Prints all other comparisons.
fn others(out: &mut impl Write, races: &[Race]) -> io::Result<()> {
    writeln!(out, "| race | map | faster | than | times | 95 % interval | wanted |\n|---|---|---|---|---|---|---|")?;
    for race in races.iter().filter(|race| ![BY_FRAGMENTATION, OTHER_STATES].contains(&race.what)) {
        for Comparison { contender, rival, ratio, wanted } in &race.comparisons {
            if rival.starts_with("read ") {
                continue;
            }
            let wanted = wanted.map_or("-".into(), |wanted| format!("{wanted:.2}"));
            write!(out, "| {} | {} | {contender} | {rival} |", race.what, size(race.map_bytes))?;
            writeln!(out, " {:.2} | {:.2} to {:.2} | {wanted} |", ratio.median, ratio.low, ratio.high)?;
        }
    }
    Ok(())
}

fn head(out: &mut impl Write, first: &[&str], columns: &[(&str, &str)], last: &str) -> io::Result<()> {
    let titles: Vec<_> = first.iter().copied().chain(columns.iter().map(|(title, _)| *title)).chain([last]).collect();
    writeln!(out, "| {} |\n|{}", titles.join(" | "), "---|".repeat(titles.len()))
}

/// A ratio and its interval, in percent.
fn percent(Comparison { ratio, .. }: &Comparison) -> String {
    format!("{:.0} % ({:.0} to {:.0})", ratio.median * 100.0, ratio.low * 100.0, ratio.high * 100.0)
}

/// Formats a size in the largest unit that gives a whole number.
fn size(bytes: usize) -> String {
    match bytes.trailing_zeros() {
        30.. => format!("{} GiB", bytes >> 30),
        20.. => format!("{} MiB", bytes >> 20),
        _ => format!("{} KiB", bytes >> 10),
    }
}
