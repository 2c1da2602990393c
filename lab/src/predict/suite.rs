// SPDX-License-Identifier: GPL-2.0-only
//! Quality of predictions for many kinds of programs and four questions.
//!
//! Each kind of `lab/predict/kinds.toml` is recorded alone, with all CPUs. The recording gives four predictions: the
//! same again, on one CPU, with another nice value, and two copies at once. Each is run for real, alternating with
//! the others.
//!
//! A machine with other load is slower than in another minute, which no recording knows. So besides the error of the
//! makespan, the error is given with the ratio of predicted to real CPU time divided out.
//!
//! The wakeup probes of `weir run` take about 2 us per switch, more than half of the runtime of a program that only
//! switches. So makespans and CPU times come from runs without measurement, and wakeups from other runs.

use super::run::{Plain, Run};
use super::{Host, Weir, host, run_to_end};
use anyhow::{Context, Result, ensure};
use comfy_table::{CellAlignment, Table, presets};
use serde::Deserialize;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Arguments of `predictions`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  cargo xtask predictions                        all kinds, ten rounds: 25 minutes, on a machine that does nothing else
  cargo xtask predictions --kind make --runs 3   a look at one kind")]
pub struct Arguments {
    /// Only these kinds
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,
    /// Number of recordings and of real runs per kind and question
    #[arg(long, value_name = "N", default_value_t = 10)]
    runs: u32,
    /// weir to run; default: a release build
    #[arg(long, value_name = "PROGRAM")]
    weir: Option<PathBuf>,
    /// File for the document; default: standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kinds {
    pub(super) kind: Vec<Kind>,
}

impl Kinds {
    pub(super) fn read() -> Result<Kinds> {
        toml::from_str(include_str!("../../predict/kinds.toml")).context("lab/predict/kinds.toml")
    }
}

/// A kind of program.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kind {
    pub(super) name: String,
    pub(super) what: String,
    /// Whether the makespan should be predicted within 4 % in the median and 10 % at worst.
    #[serde(default)]
    steady: bool,
    /// Bound for this kind, in percent, for every question.
    within_percent: Option<u32>,
    /// Whether the makespan is compared without dividing out CPU times: a timer ends the program, or its CPU time is
    /// the question.
    #[serde(default)]
    plain: bool,
    #[serde(default)]
    prepare: String,
    pub(super) command: String,
}

impl Kind {
    /// Returns a valid shell command in any case.
    pub(super) fn prepare_or_nothing(&self) -> &str {
        if self.prepare.is_empty() { ":" } else { &self.prepare }
    }
}

/// Question to a recording.
#[derive(Clone, Copy)]
enum Question {
    Again,
    OneCpu,
    Nice,
    Beside,
}

const QUESTIONS: [Question; 4] = [Question::Again, Question::OneCpu, Question::Nice, Question::Beside];

impl Question {
    fn name(self) -> &'static str {
        match self {
            Question::Again => "again",
            Question::OneCpu => "one CPU",
            Question::Nice => "nice 10",
            Question::Beside => "two at once",
        }
    }

    /// Suffix of the recording's name.
    fn change(self) -> &'static str {
        match self {
            Question::Again | Question::OneCpu => "",
            Question::Nice => ",nice=10",
            Question::Beside => ",count=2",
        }
    }

    fn machine(self, host: &Host) -> &str {
        if let Question::OneCpu = self { &host.single } else { &host.whole }
    }

    fn shell(self, place: &Place, kind: &Kind) -> String {
        let one = |prefix| format!("cd {}; {prefix} sh -c '{}'", place.copy(0), quoted(&kind.command));
        match self {
            Question::Again => one("COPY=0"),
            Question::OneCpu => one("COPY=0 taskset -c 0"),
            Question::Nice => one("COPY=0 nice -n 10"),
            Question::Beside => {
                let copy =
                    |number| format!("(cd {}; COPY={number} sh -c '{}') &", place.copy(number), quoted(&kind.command));
                format!("{} {} wait", copy(0), copy(1))
            }
        }
    }
}

/// Escapes text for single quotes of a shell.
fn quoted(text: &str) -> String {
    text.replace('\'', r"'\''")
}

/// Directories of the runs.
pub(super) struct Place {
    scratch: PathBuf,
    kinds: PathBuf,
}

impl Place {
    /// Compiles the programs that the kinds need.
    pub(super) fn new(scratch: &Path) -> Result<Place> {
        let place = Place { scratch: scratch.join("kinds"), kinds: crate::root().join("lab/predict") };
        let bin = place.scratch.join("bin");
        fs::create_dir_all(&bin).with_context(|| bin.display().to_string())?;
        for program in ["threads", "sockets"] {
            let source = place.kinds.join(program).with_extension("c");
            run_to_end(Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(bin.join(program)).arg(source))?;
        }
        Ok(place)
    }

    pub(super) fn copy(&self, number: u32) -> String {
        self.scratch.join(number.to_string()).display().to_string()
    }

    pub(super) fn environment(&self) -> String {
        format!("export KINDS='{}' BIN='{}'; ", self.kinds.display(), self.scratch.join("bin").display())
    }

    /// Prepares both copies.
    fn prepare(&self, kind: &Kind) -> Result<()> {
        for copy in 0..2 {
            let directory = self.copy(copy);
            fs::create_dir_all(&directory).with_context(|| directory.clone())?;
            let shell = format!("{}COPY={copy}; cd {directory}; {}", self.environment(), kind.prepare);
            run_to_end(Command::new("sh").arg("-c").arg(shell))?;
        }
        run_to_end(&mut Command::new("sync")).map(drop)
    }
}

/// Runs everything and writes the document.
pub fn execute(arguments: &Arguments) -> Result<()> {
    ensure!(arguments.runs > 0, "--runs 0; expected 1 or more");
    let kinds = Kinds::read()?;
    for name in &arguments.kinds {
        ensure!(kinds.kind.iter().any(|kind| kind.name == *name), "unknown kind {name}");
    }
    let here = Path::new(".");
    let weir = match &arguments.weir {
        Some(program) => Weir::of(fs::canonicalize(program).context("--weir")?, here)?,
        None => Weir::build(here)?,
    };
    let place = Place::new(&weir.scratch)?;
    let host = Host::measure(&weir)?;
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    let chosen = |kind: &&Kind| arguments.kinds.is_empty() || arguments.kinds.contains(&kind.name);
    for kind in kinds.kind.iter().filter(chosen) {
        match play(&weir, &place, &host, kind, arguments.runs) {
            Ok(more) => rows.extend(more),
            Err(error) => {
                eprintln!("{}: {error:#}", kind.name);
                failed.push(kind.name.clone());
            }
        }
        for copy in 0..2 {
            fs::remove_dir_all(place.copy(copy)).with_context(|| place.copy(copy))?;
        }
        // Written after each kind, so that an interrupted run keeps its results.
        if let Some(path) = &arguments.output {
            fs::write(path, page(&rows, &failed, &host, arguments.runs)).with_context(|| path.display().to_string())?;
        }
    }
    if arguments.output.is_none() {
        print!("{}", page(&rows, &failed, &host, arguments.runs));
    }
    ensure!(failed.is_empty(), "failed kinds: {}", failed.join(", "));
    Ok(())
}

/// Results of one question for one kind: real runs, those measured by `weir run`, and the prediction from the
/// recording of each round.
struct Row {
    kind: String,
    what: String,
    steady: bool,
    within_percent: Option<u32>,
    plain: bool,
    question: &'static str,
    real: Vec<Plain>,
    measured: Vec<Run>,
    predicted: Vec<Run>,
}

/// Runs all rounds of a kind; the first one warms up caches and does not count.
fn play(weir: &Weir<'_>, place: &Place, host: &Host, kind: &Kind, runs: u32) -> Result<Vec<Row>> {
    let row = |question: Question| Row {
        kind: kind.name.clone(),
        what: kind.what.clone(),
        steady: kind.steady,
        within_percent: kind.within_percent,
        plain: kind.plain,
        question: question.name(),
        real: Vec::new(),
        measured: Vec::new(),
        predicted: Vec::new(),
    };
    let mut rows: Vec<Row> = QUESTIONS.map(row).into();
    for round in 0..=runs {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        eprintln!("{}: round {round} of {runs}, load {}", kind.name, load.split(' ').next().unwrap_or("unknown"));
        let file = weir.scratch.join("kind.weir");
        host.price(weir)?;
        place.prepare(kind)?;
        weir.record(&file, &format!("{}{}", place.environment(), Question::Again.shell(place, kind)))?;
        for (question, row) in QUESTIONS.into_iter().zip(&mut rows) {
            let shell = format!("{}{}", place.environment(), question.shell(place, kind));
            place.prepare(kind)?;
            let real = weir.run_plain(&shell)?;
            // Wakeups vary little, so every second round is enough.
            if round % 2 == 1 {
                place.prepare(kind)?;
                row.measured.push(weir.measure(&shell)?);
            }
            let workload = format!("{}{}", file.display(), question.change());
            let machine = question.machine(host);
            let predicted = weir.report(&[
                "sim",
                "--format",
                "json",
                host::KERNEL,
                "--kernel",
                "host",
                "-m",
                machine,
                "-w",
                &workload,
            ])?;
            if round > 0 {
                row.real.push(real);
                row.predicted.push(predicted);
            }
        }
    }
    Ok(rows)
}

impl Row {
    /// Returns the error of the predicted makespan in percent, without and with the ratio of CPU times divided out.
    /// Real and predicted runs are compared round by round, because the machine changes in between.
    fn errors(&self) -> (f64, f64) {
        let rounds = || self.real.iter().zip(&self.predicted);
        let plain = rounds().map(|(real, predicted)| predicted.makespan_ns as f64 / real.makespan_ns as f64);
        let cpu = rounds().map(|(real, predicted)| predicted.counted_ns() as f64 / real.cpu_ns as f64);
        let over_cpu = plain.clone().zip(cpu).map(|(makespan, cpu)| makespan / cpu);
        let percent = |ratios: Vec<f64>| 100.0 * (median(ratios) - 1.0);
        (percent(plain.collect()), percent(over_cpu.collect()))
    }

    /// Returns the error that counts for this kind.
    fn error(&self) -> f64 {
        let (plain, over_cpu) = self.errors();
        if self.plain { plain } else { over_cpu }
    }

    fn cells(&self) -> [String; 8] {
        let spread = sorted(&self.real, |run| run.makespan_ns);
        let makespan = middle(&spread);
        let percent = |value: f64| format!("{:+.0}", 100.0 * (value / makespan - 1.0));
        let (error, over_cpu) = self.errors();
        let wakeups = middle(&sorted(&self.measured, |run| run.wakeups));
        let predicted = middle(&sorted(&self.predicted, |run| run.wakeups));
        let wakeups = if wakeups > 0.0 { format!("{:+.0} %", 100.0 * (predicted / wakeups - 1.0)) } else { "-".into() };
        let latency = |which: usize| {
            let real = sorted(&self.measured, |run| run.latency_ns[which]);
            let predicted = middle(&sorted(&self.predicted, |run| run.latency_ns[which]));
            format!("{} ({}..{}) → {}", us(middle(&real)), us(real[0]), us(real[real.len() - 1]), us(predicted))
        };
        [
            self.question.to_owned(),
            format!("{:.3} s", makespan / 1e9),
            format!("{}..{} %", percent(spread[0]), percent(spread[spread.len() - 1])),
            format!("{error:+.1} %"),
            format!("{over_cpu:+.1} %"),
            wakeups,
            latency(1),
            latency(2),
        ]
    }
}

/// Returns a value of all runs, in ascending order.
fn sorted<T>(runs: &[T], value: impl Fn(&T) -> u64) -> Vec<f64> {
    let mut values: Vec<f64> = runs.iter().map(|run| value(run) as f64).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the median of ratios.
fn median(mut ratios: Vec<f64>) -> f64 {
    ratios.sort_by(f64::total_cmp);
    middle(&ratios)
}

/// Returns the median of sorted values.
fn middle(values: &[f64]) -> f64 {
    (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
}

/// Formats nanoseconds as microseconds.
fn us(ns: f64) -> String {
    match ns / 1e3 {
        us if us < 10.0 => format!("{us:.1}"),
        us => format!("{us:.0}"),
    }
}

fn page(rows: &[Row], failed: &[String], host: &Host, runs: u32) -> String {
    let mut text = format!(
        "# What recordings predict\n\n\
        Written by `cargo xtask predictions`: do not edit. Each kind of program was recorded on this machine with all its\n\
        CPUs, {runs} times, and the model of the kernel's scheduler played it again, on one CPU, with another nice value,\n\
        and two of it at once; each time in turn with real runs. Numbers are medians; the spread is of the real runs\n\
        alone, from the least to the most. The error of the makespan, round by round, stands there plain, and with the\n\
        ratio of the CPU times (predicted to real) divided out, since a machine is not always equally fast. Makespans\n\
        are of runs that nobody looked at, wakeups of {} others under `weir run`, which slows down what switches much.\n\
        Latencies in microseconds: real (least..most) → predicted.\n\n{}.\n",
        runs.div_ceil(2),
        host.note
    );
    for group in rows.chunk_by(|a, b| a.kind == b.kind) {
        let _ = writeln!(text, "\n## {}: {}\n", group[0].kind, group[0].what);
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header(["", "makespan", "spread", "error", "over CPU", "wakeups", "p50", "p99"]);
        table.add_rows(group.iter().map(Row::cells));
        table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        let _ = writeln!(text, "{table}");
    }
    for kind in failed {
        let _ = writeln!(text, "\n## {kind}\n\nNo answer: recording or playing it failed.");
    }
    text.push_str(&verdict(rows));
    text
}

/// Renders the comparison with the targets: builds, pools, compressors, periodic tasks and timeouts within 4 % in the
/// median, 10 % at worst.
fn verdict(rows: &[Row]) -> String {
    let mut errors: Vec<(f64, &Row)> =
        rows.iter().filter(|row| row.steady).map(|row| (row.error().abs(), row)).collect();
    errors.sort_by(|a, b| a.0.total_cmp(&b.0));
    let met = |is: bool| if is { "met" } else { "**not met**" };
    let mut text = "\n## Targets\n\n".to_owned();
    if let Some((worst, row)) = errors.last() {
        let median = errors[errors.len() / 2].0;
        let _ = writeln!(
            text,
            "Builds, pools, compressors, periodic tasks and timeouts, {} questions, error over CPU time (of a timeout \
             plain): median\n{median:.1} % (asked: 4, {}), worst {worst:.1} % ({}, {}; asked: 10, {}).",
            errors.len(),
            met(median < 4.0),
            row.kind,
            row.question,
            met(*worst < 10.0),
        );
    }
    for row in rows {
        if let Some(within) = row.within_percent {
            let (error, within) = (row.error(), f64::from(within));
            let met = met(error.abs() <= within);
            let _ = writeln!(text, "- {}, {}: {error:+.1} % (asked: {within}, {met})", row.kind, row.question);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(makespan_ms: u64, cpu_ms: u64) -> Plain {
        Plain { makespan_ns: makespan_ms * 1_000_000, cpu_ns: cpu_ms * 1_000_000 }
    }

    fn run(makespan_ms: u64, cpu_ms: u64) -> Run {
        Run {
            makespan_ns: makespan_ms * 1_000_000,
            cpu_ns: [("a".to_owned(), vec![cpu_ms * 1_000_000])].into(),
            wakeups: 10,
            latency_ns: [1_000, 2_500, 90_000],
            ..Run::default()
        }
    }

    #[test]
    fn prediction_error_is_corrected_by_the_ratio_of_cpu_times() {
        let row = Row {
            kind: "k".into(),
            what: "w".into(),
            steady: true,
            within_percent: Some(9),
            plain: false,
            question: "again",
            real: vec![plain(100, 100), plain(90, 100), plain(110, 100)],
            measured: vec![run(300, 400), run(200, 500)],
            predicted: vec![run(120, 110); 3],
        };
        let (plain, over_cpu) = row.errors();
        assert!((plain - 20.0).abs() < 1e-9 && (over_cpu - 100.0 * (1.2 / 1.1 - 1.0)).abs() < 1e-9);
        let [_, makespan, spread, error, _, wakeups, p50, p99] = row.cells();
        assert_eq!([makespan, spread, error, wakeups], ["0.100 s", "-10..+10 %", "+20.0 %", "+0 %"].map(String::from));
        assert_eq!([p50, p99], ["2.5 (2.5..2.5) → 2.5", "90 (90..90) → 90"].map(String::from));
        let verdict = verdict(&[row]);
        assert!(
            verdict.contains("median\n9.1 % (asked: 4, **not met**), worst 9.1 % (k, again; asked: 10, met)"),
            "{verdict}"
        );
        assert!(verdict.contains("\n- k, again: +9.1 % (asked: 9, **not met**)\n"), "{verdict}");
    }

    #[test]
    fn each_real_run_is_compared_with_the_prediction_of_its_round() {
        let row = Row {
            kind: "k".into(),
            what: "w".into(),
            steady: false,
            within_percent: None,
            plain: true,
            question: "again",
            real: vec![plain(100, 1), plain(200, 1), plain(300, 1)],
            measured: vec![],
            predicted: vec![run(300, 1), run(100, 1), run(150, 1)],
        };
        // The predictions are 3, 0.5 and 0.5 times the real runs, so the median is 0.5. The medians of the predictions
        // and of the real runs, 150 and 200, would give 0.75.
        assert!((row.error() + 50.0).abs() < 1e-9, "{}", row.error());
    }

    #[test]
    fn table_of_workload_kinds_is_parsed() {
        let kinds = Kinds::read().unwrap();
        assert!(kinds.kind.len() >= 18 && kinds.kind.iter().any(|kind| kind.steady));
    }
}
