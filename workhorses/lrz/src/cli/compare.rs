// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--compare-overlap`: how much overlapping stages gain, as the post on lrzip 0.551 printed it.

use super::arguments::Arguments;
use super::work;
use anyhow::Result;
use lrz::pack::{self, Source};
use lrz::store::ReadAt;
use lrz::trace::Trace;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Packs a file without and with overlapping stages into files that are discarded, and prints both times.
///
/// # Errors
/// If the input cannot be read, or packing fails.
pub fn compare(arguments: &Arguments, input: &Path) -> Result<()> {
    let source = work::open(input)?;
    // Both times are those of a file in the page cache, if it fits there.
    io::copy(&mut &source, &mut io::sink())?;
    let serial = pack(arguments, &source, false)?;
    let overlapped = pack(arguments, &source, true)?;
    let name = named(std::env::args().skip(1), input);
    writeln!(io::stdout().lock(), "{name} {} -> {}", time(serial), time(overlapped))?;
    Ok(())
}

fn pack(arguments: &Arguments, source: &File, overlap: bool) -> Result<Duration> {
    let (spool, trace) = (work::spool()?, Trace::off());
    let options = pack::Options { overlap, ..work::packing(arguments, &trace) };
    let begin = Instant::now();
    pack::pack(Source::File(source, source.length()?), &spool, &options)?;
    Ok(begin.elapsed())
}

/// The command with those options that change how it packs: `lrz -b -w1`.
fn named(words: impl Iterator<Item = String>, input: &Path) -> String {
    let kept = words.filter(|word| word != "--compare-overlap" && Path::new(word) != input);
    ["lrz".to_owned()].into_iter().chain(kept).collect::<Vec<_>>().join(" ")
}

/// `15m45s`; below ten minutes with milliseconds: `0m01.250s`.
fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds >= 600.0 {
        true => format!("{}m{:02}s", (seconds.round() as u64) / 60, (seconds.round() as u64) % 60),
        false => {
            let ms = (seconds * 1_000.0).round() as u64;
            format!("{}m{:02}.{:03}s", ms / 60_000, ms / 1_000 % 60, ms % 1_000)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_as_in_the_post() {
        for (ms, text) in [(945_000, "15m45s"), (663_400, "11m03s"), (599_999, "9m59.999s"), (1_250, "0m01.250s")] {
            assert_eq!(time(Duration::from_millis(ms)), text);
        }
    }

    #[test]
    fn name_has_the_options_that_change_packing() {
        let words = ["-b", "--compare-overlap", "dir/a.tar", "-w1"].map(str::to_owned);
        assert_eq!(named(words.into_iter(), Path::new("dir/a.tar")), "lrz -b -w1");
    }
}
