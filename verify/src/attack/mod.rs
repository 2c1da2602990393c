// SPDX-License-Identifier: GPL-2.0-only
//! Attacks the programs with hostile inputs, and their output files with everything that can go wrong.
//!
//! - **Mutants.** Valid inputs of each kind ([`kinds`], [`corpus`]) are mutated ([`mutate`]), and each mutant goes to a
//!   command that reads it, within limits of time and memory ([`limits`]). Containers with checksums are also opened,
//!   mutated inside and closed again ([`inside`]). A mutant's number and the seed determine it.
//! - **Outputs** ([`outputs`]). Each output of each command meets a full disk, a directory that cannot be written, a link,
//!   an existing file, itself as an input, signals and SIGKILL: nothing may be lost.
//!
//! The parsers alone run in the fuzz targets (`fuzz/`), which guide their inputs by coverage; this harness takes the way
//! of a user, through the whole program.

mod corpus;
mod inside;
mod kinds;
mod limits;
mod mutate;
mod outputs;

use crate::root;
use anyhow::{Context, Result, ensure};
use corpus::Corpus;
use kinds::{FILE, KINDS, Kind, TEXT};
use limits::{Ended, Failure};
use mutate::{Rng, mutate};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Offset of the superblock in an image of GFS2; what is before it is not read.
const SUPERBLOCK_AT: usize = 65_536;
/// Name of the unmutated object beside mutated profiles.
const OBJECT: &str = "object.bpf.o";
/// Most failing mutants that are written for each command.
const MOST_KEPT: usize = 20;

/// Options of `cargo xtask attack`.
#[derive(clap::Args)]
#[command(after_help = "\
Each failing mutant is written to target/attack/ with the command that repeats
it. The same seed gives the same mutants on every host. Exit status: 0 nothing
failed, 1 something did, 2 the attack could not be made.

Examples:
  cargo xtask attack                        20,000 mutants and all outputs
  cargo xtask attack --kind saved-run --mutants 1000 --seed 7
  cargo xtask attack --kind object --only 4711
  cargo xtask attack --mutants 0            outputs only; as root also full disks")]
pub struct Arguments {
    /// Number of mutants
    #[arg(long, default_value_t = 20_000)]
    pub mutants: u64,
    /// Seed of the mutants
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of commands at the same time [default: one for each CPU]
    #[arg(long)]
    pub jobs: Option<usize>,
    /// Attack only with inputs of this kind
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,
    /// Make only the mutant with this number, and keep it
    #[arg(long, value_name = "NUMBER")]
    pub only: Option<u64>,
    /// Also mutate the files in DIR/KIND/
    #[arg(long, value_name = "DIR")]
    pub corpus: Option<PathBuf>,
    /// Attack the programs in DIR, such as target/release, instead of building them
    #[arg(long, value_name = "DIR")]
    pub programs: Option<PathBuf>,
    /// Do not attack output files
    #[arg(long)]
    pub no_outputs: bool,
}

/// The attacked programs.
pub struct Programs {
    /// `weir`.
    pub weir: PathBuf,
    /// `lrz`.
    pub lrz: PathBuf,
    /// `bitfit`.
    pub bitfit: PathBuf,
}

impl Programs {
    /// Those in the directory of a build, if all of them are there.
    pub fn of_build(directory: &Path) -> Option<Programs> {
        let [weir, lrz, bitfit] = ["weir", "lrz", "bitfit"].map(|name| directory.join(name));
        [&weir, &lrz, &bitfit].iter().all(|path| path.is_file()).then_some(Programs { weir, lrz, bitfit })
    }

    /// Builds them.
    fn build() -> Result<Programs> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let packages = ["build", "--locked", "-q", "-p", "weir", "-p", "lrz", "-p", "bitfit"];
        let status = Command::new(cargo).args(packages).current_dir(root()).status().context("cannot start cargo")?;
        ensure!(status.success(), "the programs do not build");
        let here = std::env::current_exe()?;
        let directory = here.parent().context("a program is in a directory")?;
        Programs::of_build(directory).with_context(|| format!("no weir, lrz and bitfit in {}", directory.display()))
    }

    fn path(&self, name: &str) -> &Path {
        match name {
            "weir" => &self.weir,
            "lrz" => &self.lrz,
            _ => &self.bitfit,
        }
    }
}

/// Counts of one kind.
#[derive(Clone, Default)]
struct Tally {
    mutants: u64,
    /// Mutants that their command accepted.
    accepted: u64,
    slowest: Duration,
    failures: BTreeMap<Failure, u64>,
}

/// An attack with mutants.
pub struct Attack<'a> {
    programs: &'a Programs,
    corpus: Corpus,
    seed: u64,
    kinds: Vec<&'static Kind>,
    /// Where failing mutants are written.
    kept: PathBuf,
    tallies: Mutex<BTreeMap<&'static str, Tally>>,
}

/// A mutant and its command.
struct Mutant {
    kind: &'static Kind,
    bytes: Vec<u8>,
    command: &'static [&'static str],
    /// The object of a profile.
    object: Option<Vec<u8>>,
}

/// Whether a program accepted its input. Status 1 of `weir` is a finding about a valid input; that of the others a
/// damaged input.
fn is_accepted(program: &str, code: Option<i32>) -> bool {
    code == Some(0) || program == "weir" && code == Some(1)
}

impl<'a> Attack<'a> {
    /// Prepares an attack of these kinds of input; `None`: all.
    ///
    /// # Errors
    /// If there is no such kind, or its valid inputs cannot be collected.
    pub fn new(
        programs: &'a Programs,
        (seed, kind): (u64, Option<&str>),
        extra: Option<&Path>,
        kept: PathBuf,
    ) -> Result<Attack<'a>> {
        let kinds: Vec<&Kind> = KINDS.iter().filter(|it| kind.is_none_or(|kind| it.name == kind)).collect();
        let names = || KINDS.map(|kind| kind.name).join(", ");
        ensure!(!kinds.is_empty(), "--kind: expected one of {}", names());
        let scratch = tempfile::tempdir()?;
        let corpus = corpus::collect(programs, scratch.path(), extra)?;
        Ok(Attack { programs, corpus, seed, kinds, kept, tallies: Mutex::default() })
    }

    fn mutant(&self, number: u64) -> Mutant {
        let mut rng = Rng::of(self.seed, number);
        let weights: usize = self.kinds.iter().map(|kind| kind.weight).sum();
        let mut at = rng.below(weights);
        let kind = self.kinds.iter().find(|kind| {
            let is_it = at < kind.weight;
            at = at.wrapping_sub(kind.weight);
            is_it
        });
        let kind = kind.expect("the weights add up");
        let files = &self.corpus[kind.name];
        let chosen = rng.below(files.len());
        let (one, other) = (&files[chosen], &files[rng.below(files.len())]);
        let bytes = match kind.name {
            "bitmap" => {
                let (before, rest) = one.split_at(SUPERBLOCK_AT.min(one.len()));
                [before, &mutate(&mut rng, rest, rest)].concat()
            }
            "saved-run" if rng.below(2) == 0 => inside::saved_run(&mut rng, one, other),
            "recording" if rng.below(2) == 0 => inside::recording(&mut rng, one),
            _ => mutate(&mut rng, one, other),
        };
        let command = kind.commands[rng.below(kind.commands.len())];
        Mutant { kind, bytes, command, object: self.object_of(kind, chosen) }
    }

    /// The object that the profile with this index belongs to.
    fn object_of(&self, kind: &Kind, index: usize) -> Option<Vec<u8>> {
        let objects = &self.corpus[corpus::OBJECTS_OF_PROFILES];
        (kind.name == "profile").then(|| objects[index.min(objects.len() - 1)].clone())
    }

    /// Writes a mutant into `directory` and returns the words of its command there.
    fn arm(&self, mutant: &Mutant, directory: &Path) -> Result<Vec<String>> {
        let name = format!("m{}", mutant.kind.suffix);
        fs::write(directory.join(&name), &mutant.bytes)?;
        if let Some(object) = &mutant.object {
            fs::write(directory.join(OBJECT), object)?;
        }
        // A word of a command line has no NUL, and is not taken for an option.
        let text = String::from_utf8_lossy(&mutant.bytes).replace('\0', "").trim_start_matches('-').to_owned();
        let path = self.programs.path(mutant.command[0]).to_string_lossy().into_owned();
        let words = mutant.command[1..].iter().map(|word| match *word {
            FILE => format!("./{name}"),
            TEXT => text.clone(),
            word => word.to_owned(),
        });
        Ok([path].into_iter().chain(words).collect())
    }

    /// Gives the valid inputs to all of their commands: a mutant of an input that is refused for another reason shows
    /// nothing.
    ///
    /// # Errors
    /// If a command cannot be started. Inputs that none of their commands accepts are printed.
    pub fn check_corpus(&self) -> Result<()> {
        for kind in &self.kinds {
            for (index, bytes) in self.corpus[kind.name].iter().enumerate() {
                let mut errors = String::new();
                let mut accepts = |command: &&'static [&'static str]| -> Result<bool> {
                    let directory = tempfile::tempdir()?;
                    let object = self.object_of(kind, index);
                    let mutant = Mutant { kind, bytes: bytes.clone(), command, object };
                    let ended = limits::run(&self.arm(&mutant, directory.path())?, directory.path())?;
                    errors += &ended.errors;
                    Ok(is_accepted(command[0], ended.code))
                };
                let accepted = kind.commands.iter().map(&mut accepts).collect::<Result<Vec<bool>>>()?;
                if !accepted.contains(&true) {
                    println!(
                        "no command accepts input {index} of kind {}: {}",
                        kind.name,
                        report::clean(errors.trim())
                    );
                }
            }
        }
        Ok(())
    }

    /// Makes mutant `number` and gives it to its command in an empty directory.
    ///
    /// # Errors
    /// If it cannot be written, or the command cannot be started.
    fn attempt(&self, number: u64, keeps: bool) -> Result<()> {
        let directory = tempfile::tempdir()?;
        let mutant = self.mutant(number);
        let words = self.arm(&mutant, directory.path())?;
        let ended = limits::run(&words, directory.path())?;
        let mut tallies = self.tallies.lock().expect("no thread panics while holding it");
        let tally = tallies.entry(mutant.kind.name).or_default();
        tally.mutants += 1;
        tally.accepted += u64::from(is_accepted(mutant.command[0], ended.code));
        tally.slowest = tally.slowest.max(ended.took);
        if let Some(failure) = ended.failure {
            *tally.failures.entry(failure).or_default() += 1;
        }
        drop(tallies);
        if keeps || ended.failure.is_some() {
            self.keep(number, &mutant, &words, &ended)?;
        }
        Ok(())
    }

    /// Writes a mutant to `kept`, with the commands that repeat it.
    fn keep(&self, number: u64, mutant: &Mutant, words: &[String], ended: &Ended) -> Result<()> {
        let name = format!("{}-{}-{number}", mutant.kind.name, self.seed);
        let directory = self.kept.join(&name);
        if fs::read_dir(&self.kept).is_ok_and(|there| there.count() >= MOST_KEPT * KINDS.len()) {
            return Ok(());
        }
        fs::create_dir_all(&directory)?;
        self.arm(mutant, &directory)?;
        let quoted: Vec<String> = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
        let what = ended.failure.map_or("nothing failed", Failure::name);
        let again = format!("cargo xtask attack --seed {} --only {number} --no-outputs", self.seed);
        let again = if self.kinds.len() == 1 { format!("{again} --kind {}", mutant.kind.name) } else { again };
        let errors = report::clean(&ended.errors);
        let text = format!("{what}; status {:?}\n{again}\n{}\n\n{errors}", ended.code, quoted.join(" "));
        fs::write(directory.join("command"), report::clean(&text).as_bytes())?;
        let first = errors.lines().find(|line| line.contains("panicked")).or(errors.lines().last()).unwrap_or_default();
        println!("{what}: {}: {first}", directory.display());
        Ok(())
    }

    /// Makes the mutants with these numbers, in `jobs` threads.
    ///
    /// # Errors
    /// If one of them cannot be written, or a command cannot be started.
    pub fn run(&self, numbers: std::ops::Range<u64>, jobs: usize, keeps: bool) -> Result<()> {
        let next = AtomicU64::new(numbers.start);
        let work = || -> Result<()> {
            loop {
                match next.fetch_add(1, Ordering::Relaxed) {
                    number if number < numbers.end => self.attempt(number, keeps)?,
                    _ => return Ok(()),
                }
            }
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("an attempt does not panic"))
        })
    }

    /// Number of mutants that failed.
    pub fn failed(&self) -> u64 {
        let tallies = self.tallies.lock().expect("no thread panics while holding it");
        tallies.values().flat_map(|tally| tally.failures.values()).sum()
    }

    /// The counts as a table.
    pub fn table(&self) -> String {
        let tallies = self.tallies.lock().expect("no thread panics while holding it").clone();
        let mut text = format!("{:<11}{:>9}{:>10}{:>9}", "input", "mutants", "accepted", "slowest");
        Failure::ALL.iter().for_each(|failure| text += &format!("  {}", failure.name()));
        let mut all = Tally::default();
        let mut row = |name: &str, tally: &Tally| {
            let slowest = format!("{:.1} s", tally.slowest.as_secs_f64());
            text += &format!("\n{name:<11}{:>9}{:>10}{slowest:>9}", tally.mutants, tally.accepted);
            for failure in Failure::ALL {
                let width = failure.name().len() + 2;
                text += &format!("{:>width$}", tally.failures.get(&failure).copied().unwrap_or(0));
            }
        };
        for (name, tally) in &tallies {
            row(name, tally);
            all.mutants += tally.mutants;
            all.accepted += tally.accepted;
            all.slowest = all.slowest.max(tally.slowest);
            tally.failures.iter().for_each(|(failure, count)| *all.failures.entry(*failure).or_default() += count);
        }
        row("all", &all);
        text + "\n"
    }
}

/// Runs the attack. Returns whether nothing failed.
///
/// # Errors
/// If the attack cannot be made.
pub fn execute(arguments: &Arguments) -> Result<bool> {
    let programs = match &arguments.programs {
        None => Programs::build()?,
        Some(directory) => Programs::of_build(&directory.canonicalize()?)
            .with_context(|| format!("--programs {}: expected weir, lrz and bitfit there", directory.display()))?,
    };
    let jobs = arguments.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let kept = root().join("target/attack");
    let (began, mut is_fine) = (Instant::now(), true);
    if arguments.mutants > 0 || arguments.only.is_some() {
        let aim = (arguments.seed, arguments.kind.as_deref());
        let attack = Attack::new(&programs, aim, arguments.corpus.as_deref(), kept)?;
        if arguments.only.is_none() {
            attack.check_corpus()?;
        }
        let numbers = arguments.only.map_or(0..arguments.mutants, |number| number..number + 1);
        attack.run(numbers, jobs, arguments.only.is_some())?;
        println!("{}", attack.table());
        println!("seed {}, {} s, {jobs} commands at a time", arguments.seed, began.elapsed().as_secs());
        is_fine = attack.failed() == 0;
    }
    if !arguments.no_outputs && arguments.only.is_none() {
        let lost = outputs::attack(&programs, arguments.seed)?;
        is_fine &= lost == 0;
    }
    Ok(is_fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some hundred mutants of all kinds, and the outputs. `cargo xtask attack` makes more.
    #[test]
    fn programs_survive_hostile_inputs_and_lose_no_output() {
        let here = std::env::current_exe().unwrap();
        let built = here.ancestors().nth(2).and_then(Programs::of_build);
        let Some(programs) = built else {
            return skip::skip("weir, lrz and bitfit are not built");
        };
        let kept = tempfile::tempdir().unwrap();
        let attack = Attack::new(&programs, (45, None), None, kept.path().to_owned()).unwrap();
        attack.run(0..300, 2, false).unwrap();
        assert_eq!(attack.failed(), 0, "{}", attack.table());
        let table = attack.table();
        assert!(KINDS.iter().all(|kind| table.contains(kind.name)), "{table}");
        assert_eq!(outputs::attack(&programs, 45).unwrap(), 0);
    }
}
