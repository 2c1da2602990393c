// SPDX-License-Identifier: GPL-2.0-only
//! Does the missing runs of a campaign by job arrays of Slurm. Each job of an array is `weir sweep --shard`, in the same
//! directory, which the nodes must share. Partition, account and limits are those of sbatch's environment variables
//! (`SBATCH_PARTITION`, `SBATCH_TIMELIMIT`, …).

use super::args::Sweep;
use super::execute::{Done, open_directory, tasks_store};
use super::planned::{Planned, distinct};
use super::results;
use crate::failed::Failed;
use crate::output::quote;
use anyhow::{Context, Result, bail};
use campaign::Store;
use host::signals::Signals;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Most jobs of an array, by default.
const PARTS: usize = 16;
/// Times that an array is submitted, the first included: a node may be lost, or a time limit be reached.
const ATTEMPTS: u32 = 3;
/// Interval at which the queue and signals are polled.
const POLL: Duration = Duration::from_millis(500);
/// Interval of lines of progress.
const REPORT_INTERVAL: Duration = Duration::from_secs(30);
/// Base of the exit status of a process that a signal ended.
const SIGNALLED: i32 = crate::parallel::SIGNALLED;

/// Submits the missing runs and waits for them, and then calls `finish`. After a signal the jobs are cancelled, and the
/// process ends with its status when `finish` returns.
///
/// # Errors
/// [`Failed`] if runs are missing after the last attempt; others if Slurm cannot be asked, and those of `finish`.
pub fn execute<R>(args: &Sweep, all: &[Planned<'_>], finish: impl FnOnce(Done) -> Result<R>) -> Result<R> {
    open_directory(args, all)?;
    let before = missing(args, all)?;
    let signals = Signals::block()?;
    for attempt in 1..=ATTEMPTS {
        let missing = missing(args, all)?;
        if missing == 0 {
            break;
        }
        let parts = parts(args.parts.map_or(PARTS, usize::from).min(before), attempt);
        let job = submit(args, parts)?;
        say!(
            "weir: job {job}: {} for {}",
            report::counted(parts as u64, "part"),
            report::counted(missing as u64, "run")
        );
        let waited = wait(args, all, &job, &signals);
        if !matches!(waited, Ok(None)) {
            let _ = slurm("scancel", &[&job]);
        }
        if let Some(signal) = waited? {
            let count = before - self::missing(args, all)?;
            if let Err(error) = finish(Done { count, is_interrupted: true }) {
                say!("weir: error: {}", report::escape(&crate::describe(&error)));
            }
            std::process::exit(SIGNALLED + signal);
        }
        let left = self::missing(args, all)?;
        let logs = logs(&args.out).display().to_string();
        match left {
            0 => {}
            _ if attempt < ATTEMPTS => {
                let left = report::counted(left as u64, "run");
                say!("weir: job {job} left {left} unfinished, which are submitted again; its logs are in {logs}");
            }
            _ => {
                let left = report::counted(left as u64, "run");
                bail!(Failed(format!("{left} unfinished after {ATTEMPTS} jobs; the logs of the jobs are in {logs}")));
            }
        }
    }
    drop(signals);
    finish(Done { count: before - missing(args, all)?, is_interrupted: false })
}

/// Number of parts of an attempt, the first of which has this number. Missing runs of one part have places that differ by
/// a multiple of the number of parts: another number spreads them. Fewer, if possible, as Slurm limits the size of an
/// array.
fn parts(first: usize, attempt: u32) -> usize {
    let change = attempt as usize - 1;
    if first > 2 * ATTEMPTS as usize - 2 { first - change } else { first + change }
}

/// Number of runs that are not finished.
fn missing(args: &Sweep, all: &[Planned<'_>]) -> Result<usize> {
    let store = Store::open(&[&args.out], &results::keys())?;
    let tasks = tasks_store(args)?;
    let has = |planned: &Planned<'_>| store.has(planned.id) && tasks.as_ref().is_none_or(|tasks| tasks.has(planned.id));
    Ok(distinct(all).into_iter().filter(|planned| !has(planned)).count())
}

/// Directory of the jobs' logs.
fn logs(out: &Path) -> std::path::PathBuf {
    out.join("slurm")
}

/// Submits a job array. Returns its number.
fn submit(args: &Sweep, parts: usize) -> Result<String> {
    let logs = logs(&args.out);
    fs::create_dir_all(&logs).with_context(|| logs.display().to_string())?;
    let program = std::env::current_exe().context("the path of this program")?;
    let [program, file, out] = [&program, &args.file, &args.out].map(|path| quote(&path.to_string_lossy()));
    let script = format!(
        "exec {program} sweep {file} --out {out} --shard $SLURM_ARRAY_TASK_ID/{parts} --jobs ${{SLURM_CPUS_PER_TASK:-1}}{}",
        if args.tasks { " --tasks" } else { "" }
    );
    let mut words = vec!["--parsable".to_owned(), "--job-name=weir-sweep".to_owned(), format!("--array=1-{parts}")];
    words.extend(args.jobs.map(|jobs| format!("--cpus-per-task={jobs}")));
    words.push(format!("--output={}", logs.join("%A_%a.log").display()));
    words.extend(["--wrap".to_owned(), script]);
    let answer = slurm("sbatch", &words.iter().map(String::as_str).collect::<Vec<_>>())?;
    // A federation appends the name of the cluster.
    let job = answer.trim().split(';').next().unwrap_or_default().to_owned();
    if job.is_empty() || !job.bytes().all(|byte| byte.is_ascii_digit()) {
        bail!("sbatch: {:?}; expected the number of a job", answer.trim());
    }
    Ok(job)
}

/// Waits until the job has left the queue. Returns a signal that ended the wait.
fn wait(args: &Sweep, all: &[Planned<'_>], job: &str, signals: &Signals) -> Result<Option<i32>> {
    let mut last_report = Instant::now();
    let mut is_answering = true;
    loop {
        if let Some(signal) = signals.take() {
            return Ok(Some(signal.signal));
        }
        // The controller forgets a job some minutes after its end.
        match slurm("squeue", &["--noheader", "--jobs", job, "--format=%i"]) {
            Ok(lines) if lines.trim().is_empty() => return Ok(None),
            Err(error) if format!("{error:#}").contains("Invalid job id") => return Ok(None),
            Ok(_) => {}
            // A controller that is restarted answers again later.
            Err(error) if is_answering => {
                is_answering = false;
                say!("weir: {}; polled again until it answers", report::escape(&format!("{error:#}")));
            }
            Err(_) => {}
        }
        if last_report.elapsed() >= REPORT_INTERVAL {
            last_report = Instant::now();
            let runs = distinct(all).len();
            let finished = runs - missing(args, all)?;
            say!("weir: {} finished", report::fraction(finished as u64, runs as u64, "run"));
        }
        std::thread::sleep(POLL);
    }
}

/// Runs a command of Slurm. Returns what it printed.
fn slurm(program: &str, words: &[&str]) -> Result<String> {
    let output = Command::new(program).args(words).output();
    let output = output.with_context(|| format!("{program}: expected Slurm's commands in the PATH"))?;
    if !output.status.success() {
        bail!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
