// SPDX-License-Identifier: GPL-2.0-only
//! Output: reports in the chosen format, files, standard output.

use crate::args::Format;
use crate::input;
use crate::refusals::Refusals;
use crate::suites::Suites;
use crate::{pages, save};
use anyhow::{Context, Result, bail};
use output_file::{Privacy, Target};
use report::{Record, RunReport, Tags, View};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Minimum and maximum width of text in columns; the minimum is used for pipes.
const COLUMNS: std::ops::RangeInclusive<usize> = 80..=240;

/// Version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Version with the commit it was built from, if known.
pub const FULL_VERSION: &str = env!("WEIR_VERSION");

/// Destination and format of the reports of a command.
pub struct Delivery<'a> {
    /// Format on standard output.
    pub format: Format,
    /// Show all measures, not only the most important.
    pub all: bool,
    /// Compare each pair of setups.
    pub pairs: bool,
    /// Test suites, which have report formats of their own.
    pub suites: &'a Suites,
    /// Saved-run file to write.
    pub save: Option<&'a Target>,
    /// HTML page to write.
    pub report: Option<&'a Target>,
    /// Number of planned runs, if the runs were interrupted.
    pub interrupted: Option<usize>,
}

impl Delivery<'_> {
    /// Saves and prints the reports of simulated or real runs. A failed output does not prevent the others.
    ///
    /// # Errors
    /// The first failure.
    pub fn deliver(&self, runs: &[RunReport], refusals: &Refusals, setup: &save::Setup<'_>) -> Result<()> {
        let saved = self.save.map_or(Ok(()), |target| save::save(target, setup, runs));
        let dumped = dump(runs, self.format);
        let printed = print(&self.reports(runs, refusals));
        if saved.is_ok() {
            self.explain(runs, setup);
        }
        let paged = self.report.map_or(Ok(()), |target| {
            let shown = pages::Runs::of(target.path(), save::container(setup, runs)?)?;
            pages::write(target, &shown, &refusals.to_text().lines().map(str::to_owned).collect::<Vec<_>>())
        });
        saved.and(dumped).and(printed.map(|_| ())).and(paged)
    }

    /// After a report that ends with an ejection, names the command that explains it.
    fn explain(&self, runs: &[RunReport], setup: &save::Setup<'_>) {
        let Some(run) = runs.iter().find(|run| run.ending.ejected.is_some()) else { return };
        let saved = self.save.map_or_else(|| "run.weirrun".to_owned(), |it| quote(&it.path().to_string_lossy()));
        let mut command = format!("weir explain {saved} --ejection");
        if runs.len() > 1 {
            let Tags { scheduler, machine, workload, seed, draw, .. } = &run.tags;
            for (option, value) in [("scheduler", scheduler), ("machine", machine), ("workload", workload)] {
                command += &format!(" --{option} {}", quote(value));
            }
            for (option, value) in [("seed", seed), ("draw", &draw.filter(|&draw| draw > 0))] {
                command += &value.map(|value| format!(" --{option} {value}")).unwrap_or_default();
            }
        }
        if self.save.is_none() {
            command = format!("{} --save {saved}; {command}", setup.command_line);
        }
        say!("weir: what led to the ejection: {}", report::escape(&command));
    }

    /// Reports in the chosen format, with the schedulers that could not be loaded, which CSV omits.
    fn reports(&self, runs: &[RunReport], refusals: &Refusals) -> String {
        match self.format {
            Format::Text => self.suites.to_text(runs, view(self.all, self.pairs)) + &refusals.to_text(),
            Format::Json => report::to_json_with(runs, &refusals.to_json(), self.interrupted),
            Format::Csv => report::to_csv(&runs.iter().map(Record::from).collect::<Vec<_>>()),
        }
    }
}

/// Report width for the current terminal.
pub fn view(all: bool, pairs: bool) -> View {
    let screen = io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
    let columns = screen.map_or(0, |(width, _)| usize::from(width.0));
    View { columns: columns.clamp(*COLUMNS.start(), *COLUMNS.end()), all, pairs }
}

/// Name that identifies a run among several.
pub fn name(run: &RunReport) -> String {
    let Tags { scheduler, machine, workload, seed, .. } = &run.tags;
    let seed = seed.map(|seed| format!(", seed {seed}")).unwrap_or_default();
    report::escape(&format!("{scheduler} on {machine}, workload {workload}{seed}")).into_owned()
}

/// Writes the kernel's debug dump of a single run to a new file, so that the report stands last on the terminal. JSON
/// contains the dump itself.
fn dump(runs: &[RunReport], format: Format) -> Result<()> {
    let dumps = runs.iter().filter_map(|run| Some((run, run.ending.ejected.as_ref()?)));
    let dumps: Vec<_> = dumps.filter(|(_, exit)| !exit.dump.is_empty()).collect();
    match (dumps.as_slice(), runs.len(), format) {
        ([], ..) | (_, _, Format::Json) => {}
        ([(_, exit)], 1, _) => {
            let path = dump_file(&exit.dump)?;
            say!("weir: the kernel's debug dump is in {}", report::escape(&path.to_string_lossy()));
        }
        ([(first, _), ..], ..) => {
            say!("weir: the kernel's dumps are in --format json (exit.dump); the first is of {}", name(first));
        }
    }
    Ok(())
}

/// Writes a debug dump to a new file in the directory for temporary files.
pub fn dump_file(dump: &str) -> Result<PathBuf> {
    let lines: Vec<_> = dump.trim_end().lines().map(report::escape).collect();
    let mut file = tempfile::Builder::new().prefix("weir-dump-").suffix(".txt").tempfile()?;
    writeln!(file, "{}", lines.join("\n"))?;
    let (_, path) = file.keep().context("cannot keep the kernel's debug dump")?;
    Ok(path)
}

/// Prints to standard error. Control characters of names are escaped.
pub fn tell(text: &str) {
    let _ = io::stderr().lock().write_all(report::clean(text).as_bytes());
}

/// Writes a page with the control characters of names escaped, and prints its path.
pub fn write_page(target: &Target, page: &str) -> Result<()> {
    target.write(report::clean(page).as_bytes())?;
    say!("weir: the report is {}", report::escape(&target.path().display().to_string()));
    Ok(())
}

/// Prints to standard output. Control characters of names are escaped. Returns false if the reader has closed the pipe
/// (`weir … | head`), which is not an error.
pub fn print(text: &str) -> Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(report::clean(text).as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write to standard output"),
    }
}

/// Checks the output files of a command before its work begins.
///
/// # Errors
/// If two options name the same file, one is `-`, because standard output carries the report, or one cannot be written.
pub fn check<const N: usize>(files: [(&str, Option<&Path>); N]) -> Result<[Option<Target>; N]> {
    check_distinct(&files)?;
    let mut targets = [const { None }; N];
    for (target, (option, path)) in targets.iter_mut().zip(files) {
        let checked = path.map(|path| Target::check(path, Privacy::Public)).transpose();
        *target = checked.with_context(|| option.to_owned())?;
    }
    Ok(targets)
}

/// Rejects outputs that are files which this command has read.
///
/// # Errors
/// Names the file.
pub fn refuse_inputs<'a>(targets: impl IntoIterator<Item = &'a Option<Target>>) -> Result<()> {
    match targets.into_iter().flatten().find(|target| target.existing().is_some_and(input::was_read)) {
        Some(target) => bail!("{}: an input of this command; expected another output file", target.path().display()),
        None => Ok(()),
    }
}

/// Rejects file options that name the same file, and `-`, because standard output carries the report.
fn check_distinct(files: &[(&str, Option<&Path>)]) -> Result<()> {
    let files: Vec<(&str, &Path)> = files.iter().filter_map(|(option, path)| Some((*option, (*path)?))).collect();
    for (index, (option, path)) in files.iter().enumerate() {
        if *path == Path::new("-") {
            bail!("{option} -: expected a file name, because the report goes to standard output");
        }
        if let Some((other, _)) = files[..index].iter().find(|(_, before)| is_same(before, path)) {
            bail!("{other} and {option} are the same file, {}", path.display());
        }
    }
    Ok(())
}

/// Whether two paths name the same regular file, existing or to be created. Devices such as /dev/null may be named
/// twice.
fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| {
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = path.file_name()?;
        path.canonicalize().or_else(|_| Ok::<_, io::Error>(directory.canonicalize()?.join(name))).ok()
    };
    let is_device = |path: &Path| path.metadata().is_ok_and(|data| !data.is_file());
    match (real(one), real(other)) {
        (Some(one), Some(other)) => one == other && !is_device(&one),
        _ => one == other,
    }
}

/// Quotes a word for a shell.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./@,=:+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
