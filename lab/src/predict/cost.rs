// SPDX-License-Identifier: GPL-2.0-only
//! Overhead of recording.
//!
//! The same command runs with and without a recording, in pairs. The shell reads `/proc/stat` just before and after
//! it, so that all busy time of the CPUs counts, including the event reader and softirqs. The order within a pair
//! alternates. The median of the ratios is shown, and the upper end of its 95 % confidence interval (sign test) as
//! the bound.
//!
//! In addition, the time that the recorder's programs and its reader measure themselves, as printed by `weir record`.
//! It excludes cache effects on other tasks and the conversion, but is insensitive to neighbors of this virtual
//! machine.

use super::suite::{Kinds, Place};
use super::{Weir, run_to_end};
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Arguments of `recording-cost`.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Pairs of runs of each command; 15 or more for a meaningful bound
    #[arg(long, value_name = "N", default_value_t = 15)]
    pairs: u32,
    /// weir to run; default: a release build
    #[arg(long, value_name = "PROGRAM")]
    weir: Option<PathBuf>,
    /// File for the document; default: standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Kinds of `kinds.toml` that are builds and servers, whose overhead should be under 2 %.
const WANTED: [&str; 6] = ["make", "xargs", "forks", "tcp", "unix", "web"];

/// Nanoseconds of work between handoffs of two processes on one CPU: from many to few switches.
const STEPS: [u32; 5] = [0, 1_000, 4_000, 20_000, 100_000];

/// Activity of the machine while a command ran.
#[derive(Clone, Copy)]
struct Spent {
    busy_s: f64,
    elapsed_s: f64,
    switches: f64,
    /// Part of `busy_s` that the recorder attributes to itself.
    recorder_s: f64,
}

/// Pairs of one command: without and with a recording.
struct Row {
    what: String,
    wanted: bool,
    pairs: Vec<[Spent; 2]>,
}

/// Runs everything and writes the document.
pub fn execute(arguments: &Arguments) -> Result<()> {
    ensure!(arguments.pairs >= 6, "{} pairs give no bound; expected 6 or more", arguments.pairs);
    let here = Path::new(".");
    let weir = match &arguments.weir {
        Some(program) => Weir::of(fs::canonicalize(program).context("--weir")?, here)?,
        None => Weir::build(here)?,
    };
    let place = Place::new(&weir.scratch)?;
    let kinds = Kinds::read()?;
    let mut rows = Vec::new();
    for name in WANTED {
        let kind = kinds.kind.iter().find(|kind| kind.name == name).expect("kinds.toml has it");
        // Repeated, to be long enough for counters of 10 ms.
        let command = format!("for again in 1 2 3; do {}; {}; done", kind.prepare_or_nothing(), kind.command);
        rows.push(measure(&weir, &place, &kind.what, true, &command, arguments.pairs)?);
    }
    for steps in STEPS {
        let what = format!("handoffs on one CPU, {steps} ns of work between");
        let command = format!("for again in 1 2 3; do taskset -c 0 $BIN/sockets ping-pong {steps}; done");
        rows.push(measure(&weir, &place, &what, false, &command, arguments.pairs)?);
    }
    let page = page(&rows, arguments.pairs);
    match &arguments.output {
        Some(path) => fs::write(path, page).with_context(|| path.display().to_string()),
        None => {
            print!("{page}");
            Ok(())
        }
    }
}

fn measure(weir: &Weir<'_>, place: &Place, what: &str, wanted: bool, command: &str, pairs: u32) -> Result<Row> {
    let (before, after) = (weir.scratch.join("before"), weir.scratch.join("after"));
    let shell = format!(
        "{}export COPY=0; cd {}; cp /proc/stat {before}; cp /proc/uptime {before}.up; {command}; \
         cp /proc/uptime {after}.up; cp /proc/stat {after}",
        place.environment(),
        place.copy(0),
        before = before.display(),
        after = after.display(),
    );
    let run = |recorded: bool| -> Result<Spent> {
        fs::create_dir_all(place.copy(0))?;
        let said = match recorded {
            true => weir.record(&weir.scratch.join("cost.weir"), &shell)?,
            false => run_to_end(Command::new("sh").arg("-c").arg(&shell).stderr(Stdio::null()))?,
        };
        let mut spent = Spent::between(&before, &after)?;
        if recorded {
            let cpus = std::thread::available_parallelism()?.get() as f64;
            spent.recorder_s = recorder_percent(&said)? / 100.0 * cpus * spent.elapsed_s;
        }
        Ok(spent)
    };
    let mut row = Row { what: what.to_owned(), wanted, pairs: Vec::new() };
    for pair in 0..=pairs {
        eprintln!("{what}: pair {pair} of {pairs}");
        let first = run(pair % 2 == 1)?;
        let second = run(pair % 2 == 0)?;
        let both = if pair % 2 == 1 { [second, first] } else { [first, second] };
        // The first pair warms up the caches.
        if pair > 0 {
            row.pairs.push(both);
        }
    }
    fs::remove_dir_all(place.copy(0)).with_context(|| place.copy(0))?;
    Ok(row)
}

impl Spent {
    /// Returns the differences between copies of `/proc/stat`, and of `/proc/uptime` beside them.
    fn between(before: &Path, after: &Path) -> Result<Spent> {
        let read = |path: &Path| fs::read_to_string(path).with_context(|| path.display().to_string());
        let uptime = |path: &Path| -> Result<f64> {
            let text = read(&path.with_extension("up"))?;
            text.split_whitespace().next().and_then(|first| first.parse().ok()).context("/proc/uptime has no number")
        };
        let (one, other) = (counters(&read(before)?)?, counters(&read(after)?)?);
        let elapsed_s = uptime(after)? - uptime(before)?;
        Ok(Spent { busy_s: other.0 - one.0, elapsed_s, switches: other.1 - one.1, recorder_s: 0.0 })
    }
}

/// Parses the share of all CPU time that `weir record` reports for its programs and their reader.
fn recorder_percent(said: &str) -> Result<f64> {
    let number = |before: &str| {
        let (_, rest) = said.split_once(before)?;
        rest.split_once(" %")?.0.parse::<f64>().ok()
    };
    let both = number("probes took ").zip(number("their reader "));
    both.map(|(probes, reader)| probes + reader)
        .with_context(|| format!("no cost in the output of weir record: {said}"))
}

/// Returns the busy seconds of all CPUs and the context switches, both since boot.
fn counters(stat: &str) -> Result<(f64, f64)> {
    // USER_HZ is 100 on every relevant architecture. Columns: user, nice, system, idle, iowait, irq, softirq, steal.
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu ")).context("/proc/stat has no line cpu")?;
    let ticks: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let busy = |(place, ticks): (usize, &f64)| (!matches!(place, 3 | 4)).then_some(*ticks);
    let switches = stat.lines().find_map(|line| line.strip_prefix("ctxt ")?.trim().parse().ok());
    Ok((
        ticks.iter().take(8).enumerate().filter_map(busy).sum::<f64>() / 100.0,
        switches.context("/proc/stat has no line ctxt")?,
    ))
}

impl Row {
    /// Returns the additional CPU time with a recording, in percent: median of the pairs and upper bound.
    fn cost(&self) -> (f64, f64) {
        let ratios: Vec<u64> =
            self.pairs.iter().map(|[plain, recorded]| (1e6 * recorded.busy_s / plain.busy_s).round() as u64).collect();
        let percent = |millionths: u64| (millionths as f64 - 1e6) / 1e4;
        let bound = statistics::median_interval(&ratios).map_or(f64::NAN, |(_, high)| percent(high));
        (percent(statistics::median(&ratios)), bound)
    }

    /// Returns the median of the recorder's own time, in percent.
    fn known(&self) -> f64 {
        let added = |spent: &Spent| 1e6 * spent.recorder_s / (spent.busy_s - spent.recorder_s);
        let all: Vec<u64> = self.pairs.iter().map(|[_, recorded]| added(recorded).round() as u64).collect();
        statistics::median(&all) as f64 / 1e4
    }

    /// Returns the known cost in microseconds per context switch.
    fn known_us(&self) -> f64 {
        let each = |spent: &Spent| (1e9 * spent.recorder_s / spent.switches.max(1.0)).round() as u64;
        let all: Vec<u64> = self.pairs.iter().map(|[_, recorded]| each(recorded)).collect();
        statistics::median(&all) as f64 / 1e3
    }

    /// Returns the context switches per second without a recording, of the median pair.
    fn rate(&self) -> u64 {
        let rates: Vec<u64> = self.pairs.iter().map(|[plain, _]| (plain.switches / plain.elapsed_s) as u64).collect();
        statistics::median(&rates)
    }
}

fn page(rows: &[Row], pairs: u32) -> String {
    let mut text = format!(
        "# What recording costs\n\n\
        Written by `cargo xtask recording-cost`: do not edit. CPU time of the whole machine while a command ran, with a\n\
        recording beside without, in {pairs} pairs: the median, and the bound under which the true median lies (95 %, sign\n\
        test). Softirqs and the program that receives the events are in it; what happens before and after the command, as\n\
        the calibration and the conversion, is not. Known is what the programs and their reader found themselves to take,\n\
        without what they do to the caches of others, and without the conversion, with which recordings of many events\n\
        begin beside the command; how fast the host was does not matter for that. Beside it stands the same for each switch,\n\
        whatever else was recorded between.\n\n\
        | what | switches a second | more CPU time | bound | known | us a switch | |\n|---|---|---|---|---|---|---|\n"
    );
    for row in rows {
        let (cost, bound) = row.cost();
        let verdict = match (row.wanted, bound < 2.0) {
            (false, _) => "",
            (true, true) => "under 2 %",
            (true, false) => "**not under 2 %**",
        };
        let (rate, known, each) = (row.rate(), row.known(), row.known_us());
        let _ = writeln!(
            text,
            "| {} | {rate} | {cost:+.1} % | {bound:+.1} % | {known:+.1} % | {each:.2} | {verdict} |",
            row.what
        );
    }
    // Other programs do more than handoffs: recording a new program costs as much as several switches.
    let each: Vec<f64> = rows.iter().filter(|row| !row.wanted).map(Row::known_us).collect();
    let (least, most) = (each.iter().copied().fold(f64::INFINITY, f64::min), each.iter().copied().fold(0.0, f64::max));
    if most > 0.0 {
        let _ = writeln!(
            text,
            "\nRecording a handoff takes {least:.2} to {most:.2} us per switch. For a program that keeps one CPU\n\
            busy, 2 % are {},000 to {},000 switches a second.",
            thousands_within(most),
            thousands_within(least),
        );
    }
    text
}

/// Returns the thousands of switches per second that take 2 % of a CPU at this cost each.
fn thousands_within(us: f64) -> u64 {
    (0.02 * 1e6 / us / 1e3).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_excludes_idle_time() {
        let stat = "cpu  100 20 300 9000 800 40 50 60 7 7\ncpu0 1 1 1 1\nctxt 1234\n";
        assert_eq!(counters(stat).unwrap(), (5.7, 1234.0));
        assert!(counters("cpu  1 2\n").is_err() && counters("ctxt 3\n").is_err());
    }

    #[test]
    fn upper_bound_of_the_recording_cost_is_the_end_of_the_medians_confidence_interval() {
        let spent = |busy_s: f64| Spent { busy_s, elapsed_s: 2.0, switches: 4000.0, recorder_s: 0.02 };
        let pairs = (0..15).map(|number| [spent(1.0), spent(1.0 + f64::from(number) / 1000.0)]).collect();
        let mut row = Row { what: "x".into(), wanted: true, pairs };
        // For 15 values the interval is from the 4th to the 12th.
        let (cost, bound) = row.cost();
        assert!((cost - 0.7).abs() < 1e-9 && (bound - 1.1).abs() < 1e-9, "{cost} {bound}");
        let text = page(std::slice::from_ref(&row), 15);
        assert!(text.contains("| x | 2000 | +0.7 % | +1.1 % | +2.0 % | 5.00 | under 2 % |"), "{text}");
        assert!(!text.contains("handoff"), "{text}");
        row.wanted = false;
        let text = page(&[row], 15);
        assert!(
            text.contains("takes 5.00 to 5.00 us per switch") && text.contains("2 % are 4,000 to 4,000 switches"),
            "{text}"
        );
    }

    #[test]
    fn recorders_own_time_is_parsed() {
        let said = "weir: wrote x\nweir: probes took 2.44 % of all CPU time, their reader 0.51 %; 9 events, 0 lost\n";
        assert!((recorder_percent(said).unwrap() - 2.95).abs() < 1e-9);
        assert!(recorder_percent("weir: probes took a lot").is_err());
    }
}
