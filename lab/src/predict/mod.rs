// SPDX-License-Identifier: GPL-2.0-only
//! How well does a simulated run of a recording predict the real one?
//!
//! One command is recorded on this machine with all its CPUs. The recording gives three predictions: the same run
//! again, the run on one CPU, and the run with another number of jobs. Each is run for real under the default
//! scheduler, measured by `weir run`, and compared with the result of `weir sim` for a model of that scheduler and
//! machine (`host`). Recording, prediction and real runs are repeated, so that a difference can be told from the
//! spread of either side.

mod compare;
pub mod cost;
mod host;
mod run;
pub mod suite;

use ::host::cpu_time;
use anyhow::{Context, Result, bail, ensure};
use compare::Comparison;
pub(crate) use host::Host;
use run::{Plain, Run};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Arguments of `predict`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example, with Lua's source unpacked in a directory:
  cargo xtask predict --in lua --prepare 'make clean' --jobs 2 --other-jobs 1 --other-jobs 4 'make -j{jobs}'")]
pub struct Arguments {
    /// Shell command to run; {jobs} stands for the number of jobs
    command: String,
    /// Directory in which to run the command
    #[arg(long = "in", value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// Shell command to run before each run
    #[arg(long, value_name = "COMMAND", default_value = "true")]
    prepare: String,
    /// Number of jobs in the recording
    #[arg(long, value_name = "N", default_value_t = 2)]
    jobs: u32,
    /// Numbers of jobs to predict
    #[arg(long = "other-jobs", value_name = "N")]
    other_jobs: Vec<u32>,
    /// Schedulers that model the default scheduler; kernel is its own model
    #[arg(long = "scheduler", value_name = "SCHED", default_values = [host::KERNEL, "bfs"])]
    schedulers: Vec<String>,
    /// Number of recordings, and of real runs of each case
    #[arg(long, value_name = "N", default_value_t = 5)]
    runs: u32,
}

/// One prediction.
struct Case {
    name: String,
    /// Prefix of the command.
    prefix: &'static str,
    jobs: u32,
    machine: String,
    cpus: u64,
    /// Suffix of the recording's name.
    change: String,
}

impl Arguments {
    fn cases(&self, cpus: u64, host: &Host) -> Vec<Case> {
        let case = |name: &str, prefix, machine: &str, cpus| {
            let change = String::new();
            Case { name: name.into(), prefix, jobs: self.jobs, machine: machine.into(), cpus, change }
        };
        let mut cases =
            vec![case("same again", "", &host.whole, cpus), case("1 CPU", "taskset -c 0 ", &host.single, 1)];
        cases.extend(self.other_jobs.iter().map(|&jobs| Case {
            name: format!("{jobs} jobs"),
            prefix: "",
            jobs,
            machine: host.whole.clone(),
            cpus,
            change: format!(",jobs={jobs}"),
        }));
        cases
    }

    fn shell(&self, case: &Case) -> String {
        format!("{}{}", case.prefix, self.command.replace("{jobs}", &case.jobs.to_string()))
    }
}

/// Runs the experiment and prints a table for each case.
pub fn execute(arguments: &Arguments) -> Result<()> {
    ensure!(arguments.runs > 0, "--runs 0; expected 1 or more");
    ensure!(
        arguments.other_jobs.is_empty() || arguments.command.contains("{jobs}"),
        "--other-jobs needs a command with {{jobs}} in it"
    );
    let weir = Weir::build(&arguments.directory)?;
    let cpus = std::thread::available_parallelism()?.get() as u64;
    let host = Host::measure(&weir)?;
    println!("{}\n", host.note);
    let cases = arguments.cases(cpus, &host);
    let mut real: Vec<Vec<Run>> = cases.iter().map(|_| Vec::new()).collect();
    let mut recordings = Vec::new();
    // The first round fills the page cache and does not count. Kinds of runs alternate, so that other activity on the
    // machine affects all of them.
    for round in 0..=arguments.runs {
        // Other load on the machine makes real runs slower; the predictions do not include it.
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        eprintln!("round {round} of {}, load {}", arguments.runs, load.split(' ').next().unwrap_or("unknown"));
        let file = weir.scratch.join(format!("recording-{round}.weir"));
        weir.prepare(arguments)?;
        weir.record(&file, &arguments.shell(&cases[0]))?;
        for (case, real) in cases.iter().zip(&mut real) {
            weir.prepare(arguments)?;
            let run = weir.measure(&arguments.shell(case))?;
            if round > 0 {
                real.push(run);
            }
        }
        if round > 0 {
            recordings.push(file);
        }
    }
    for (case, real) in cases.iter().zip(&real) {
        for scheduler in &arguments.schedulers {
            let predict = |file: &PathBuf| weir.predict(scheduler, case, file);
            let predicted = recordings.iter().map(predict).collect::<Result<Vec<_>>>()?;
            println!("{}: {}, predicted with {scheduler}\n", case.name, arguments.shell(case));
            println!("{}\n", Comparison::new(real, &predicted, case.cpus).table());
        }
    }
    Ok(())
}

/// The program and its working directories.
pub(crate) struct Weir<'a> {
    program: PathBuf,
    scratch: PathBuf,
    directory: &'a Path,
    /// Held as long as this value lives: no other measurement uses the directory.
    _lock: File,
}

impl<'a> Weir<'a> {
    pub(crate) fn build(directory: &'a Path) -> Result<Weir<'a>> {
        let root = crate::root();
        run_to_end(
            Command::new("cargo").args(["build", "--release", "--locked", "-q", "-p", "weir"]).current_dir(root),
        )?;
        Weir::of(root.join("target/release/weir"), directory)
    }

    /// Uses an existing program.
    pub(crate) fn of(program: PathBuf, directory: &'a Path) -> Result<Weir<'a>> {
        let scratch = crate::root().join("target/predict");
        std::fs::create_dir_all(&scratch).with_context(|| scratch.display().to_string())?;
        let lock = File::create(scratch.join("lock")).with_context(|| scratch.display().to_string())?;
        lock.try_lock().with_context(|| format!("{}: another measurement runs there", scratch.display()))?;
        Ok(Weir { program, scratch, directory, _lock: lock })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(self.directory);
        command
    }

    fn prepare(&self, arguments: &Arguments) -> Result<()> {
        run_to_end(Command::new("sh").args(["-c", &arguments.prepare]).current_dir(self.directory))?;
        run_to_end(&mut Command::new("sync")).map(drop)
    }

    /// Records a command and returns the messages of `weir record`.
    fn record(&self, file: &Path, shell: &str) -> Result<String> {
        run_to_end(self.command().arg("record").arg("-o").arg(file).args(["--", "sh", "-c", shell]))
    }

    /// Runs a command without any measurement except the clock.
    fn run_plain(&self, shell: &str) -> Result<Plain> {
        let (start, before) = (Instant::now(), cpu_time::of_children()?);
        run_to_end(Command::new("sh").args(["-c", shell]).current_dir(self.directory))?;
        let (makespan, cpu) = (start.elapsed(), cpu_time::of_children()? - before);
        Ok(Plain { makespan_ns: makespan.as_nanos() as u64, cpu_ns: cpu.as_nanos() as u64 })
    }

    fn measure(&self, shell: &str) -> Result<Run> {
        // The command's output must not mix with the report.
        let shell = format!("{{ {shell}; }} >/dev/null 2>&1");
        self.report(&["run", "--format", "json", "--", "sh", "-c", &shell])
    }

    fn predict(&self, scheduler: &str, case: &Case, file: &Path) -> Result<Run> {
        let workload = format!("{}{}", file.display(), case.change);
        let kernel = if scheduler == host::KERNEL { "host" } else { "7.2" };
        self.report(&["sim", "--format", "json", scheduler, "--kernel", kernel, "-m", &case.machine, "-w", &workload])
    }

    fn report(&self, arguments: &[&str]) -> Result<Run> {
        Run::from_json(&self.output(arguments)?).with_context(|| format!("weir {arguments:?}"))
    }

    pub(crate) fn document(&self, arguments: &[&str]) -> Result<serde_json::Value> {
        serde_json::from_slice(&self.output(arguments)?).with_context(|| format!("weir {arguments:?}"))
    }

    pub(crate) fn output(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        let output = self.command().args(arguments).stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            bail!("weir {arguments:?}: {}", output.status);
        }
        Ok(output.stdout)
    }
}

/// Runs a command and returns its standard error.
fn run_to_end(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}
