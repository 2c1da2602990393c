// SPDX-License-Identifier: GPL-2.0-only
//! One boot of a virtual machine: from a script and files to its results.

use super::cpio::Archive;
use super::files::{self, Transfer};
use super::kernel::Kernel;
use super::topology::Topology;
use super::{clock, console, parts};
use anyhow::{Context, Result, bail};
use host::cpu_time;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const INIT: &str = include_str!("../../guest/init.sh");
/// Memory in MB besides the files, which are in memory twice while the kernel unpacks them.
const MEMORY_MB: u64 = 512;
/// Kernel command line: values the kernel cannot measure under emulation (without `lpj` each CPU loses half a
/// second), panic at the first oops, and long timeouts for a busy host that steals time from the guest.
const KERNEL_WORDS: &str = "console=ttyS0 loglevel=5 panic=-1 oops=panic log_buf_len=4M tsc=reliable no_timer_check \
                            watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=120";
/// Kernel command line of boots in real time. Mitigations of processor bugs are off: with page-table isolation each system
/// call flushes QEMU's TLB, and `weir record` of a short command took 28 s instead of 13.
const REAL_TIME_WORDS: &str = "lpj=4200000 mitigations=off";
/// Disables what would differ between runs: addresses, random numbers, the date.
const DETERMINISTIC_WORDS: &str = "lpj=4000000 nokaslr norandmaps";
const POLL: Duration = Duration::from_millis(20);

/// A boot to run.
pub struct Job {
    /// Text of the shell script.
    pub script: String,
    /// Further files of text: path in the guest, contents.
    pub texts: Vec<(String, String)>,
    /// Files to copy.
    pub files: Vec<Transfer>,
    /// CPU topology.
    pub topology: Topology,
    /// Memory in MB; by default as much as the kernel, the files and some work need.
    pub memory_mb: Option<u64>,
    /// Kernel to boot.
    pub kernel: Kernel,
    /// Host time after which QEMU is killed.
    pub timeout: Duration,
    /// Deterministic: one instruction takes one nanosecond, and nothing is random.
    pub deterministic: bool,
    /// Seed of the guest's random numbers.
    pub seed: u64,
    /// Further words for the kernel command line.
    pub append: String,
    /// Shows the script's output while it runs.
    pub show: bool,
}

/// Result of a boot.
#[derive(Debug)]
pub struct Outcome {
    /// Exit status of the script; `None` if it did not finish.
    pub status: Option<u8>,
    /// Problem of the machine: timeout, premature end, kernel warning; `None` if there is none.
    pub problem: Option<String>,
    /// QEMU was killed after the timeout.
    pub timed_out: bool,
    /// Release of the kernel; empty if unknown.
    pub kernel: String,
    /// Guest time from power-on to the script in seconds; empty if unknown.
    pub booted_s: String,
    /// Wall time of QEMU.
    pub wall: Duration,
    /// CPU time of QEMU.
    pub cpu: Duration,
    /// Directory with `console.log`, `output`, `qemu.log`, and `result/` with `out/` and `dmesg`. The caller removes
    /// it.
    pub directory: PathBuf,
    /// QEMU's command line, for display.
    pub command_line: String,
}

impl Outcome {
    /// Files that the script left in `/out`.
    pub fn out(&self) -> PathBuf {
        self.directory.join("result/out")
    }

    /// Returns whether the script succeeded without any problem of the machine.
    pub fn success(&self) -> bool {
        self.problem.is_none() && self.status == Some(0)
    }

    /// Prints what is needed to find out why a boot failed.
    pub fn explain(&self) {
        let tail = |name: &str, most: usize| {
            let bytes = fs::read(self.directory.join(name)).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            // The Intel CPU model has features that TCG does not emulate; QEMU lists them at every start.
            let lines: Vec<&str> = text.lines().filter(|line| !line.contains("TCG doesn't support")).collect();
            lines[lines.len().saturating_sub(most)..].iter().map(|line| format!("\n  {line}")).collect::<String>()
        };
        eprintln!("vm: end of the console:{}", tail("console.log", 60));
        eprintln!("vm: messages of QEMU:{}", tail("qemu.log", 10));
        eprintln!("vm: command line: {}", self.command_line);
        eprintln!("vm: all files are in {}", self.directory.display());
        if let Some(problem) = &self.problem {
            eprintln!("vm: {problem}");
        }
    }
}

/// Fetches all parts that are missing; the kernel first, because that shows whether there is a network.
pub fn provide(kernel: &Kernel) -> Result<()> {
    kernel.image()?;
    parts::qemu(false)?;
    parts::busybox()?;
    Ok(())
}

/// Boots, runs the script and powers off.
///
/// # Errors
/// [`super::missing::Missing`] if this host has no QEMU, kernel or busybox; others if a file cannot be read
/// or written. Problems of the machine are in the [`Outcome`].
pub fn run(job: &Job) -> Result<Outcome> {
    let kernel = job.kernel.image()?;
    let qemu = parts::qemu(job.deterministic)?;
    let busybox = parts::busybox()?;
    let directory = new_directory()?;
    let mut archive = Archive::default();
    archive.device("/dev/console", (5, 1));
    archive.file("/bin/busybox", 0o755, &fs::read(&busybox)?);
    archive.file("/init", 0o755, INIT.as_bytes());
    archive.file("/script", 0o755, job.script.as_bytes());
    archive.directory("/in");
    if let Some((place, config)) = job.kernel.config() {
        archive.file(&place, 0o644, &fs::read(config)?);
    }
    for (path, text) in &job.texts {
        archive.file(path, 0o755, text.as_bytes());
    }
    files::add(&mut archive, &job.files)?;
    let initrd = archive.finish();
    fs::write(directory.join("initrd"), &initrd)?;
    let memory_mb = job.memory_mb.unwrap_or(MEMORY_MB + 3 * (initrd.len() as u64 >> 20));
    drop(initrd);

    let arguments = arguments(job, &qemu, &kernel, &directory, memory_mb);
    let words: Vec<String> = arguments.iter().map(|word| quoted(word)).collect();
    let command_line = format!("{} {}", qemu.program.display(), words.join(" "));
    let begin = Instant::now();
    let cpu_before = cpu_time::of_children()?;
    // If this process is killed, `timeout` still ends QEMU.
    let child = Command::new("timeout")
        .args(["--foreground", "-s", "KILL"])
        .arg((job.timeout.as_secs() + 5).to_string())
        .arg(&qemu.program)
        .args(&arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(directory.join("qemu.log"))?)
        .spawn()
        .context("cannot start timeout")?;
    let ended = wait(child, job, &directory.join("output"))?;
    let (wall, cpu) = (begin.elapsed(), cpu_time::of_children()?.saturating_sub(cpu_before));
    fs::remove_file(directory.join("initrd"))?;
    let mut outcome = Outcome {
        status: None,
        problem: None,
        timed_out: !ended,
        kernel: String::new(),
        booted_s: String::new(),
        wall,
        cpu,
        directory,
        command_line,
    };
    judge(&mut outcome, job.timeout)?;
    Ok(outcome)
}

fn new_directory() -> Result<PathBuf> {
    let runs = parts::state().join("runs");
    fs::create_dir_all(&runs)?;
    let pid = std::process::id();
    for number in 0.. {
        let directory = runs.join(format!("{pid}-{number}"));
        match fs::create_dir(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| format!("{}", directory.display())),
        }
    }
    unreachable!("numbers do not end")
}

fn arguments(job: &Job, qemu: &parts::Qemu, kernel: &Path, directory: &Path, memory_mb: u64) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut add = |text: &str| words.extend(text.split(' ').map(str::to_owned));
    let file = |name: &str| directory.join(name).display().to_string();
    add("-nodefaults -no-user-config -display none -no-reboot -accel tcg,thread=single");
    // Intel, because QEMU gives AMD models caches that no two CPUs share. Without ioeventfd a write to a port
    // completes before the guest continues, so that no host thread affects the order.
    add("-device virtio-serial-pci,ioeventfd=off -device virtserialport,chardev=result,nr=1");
    add("-device virtserialport,chardev=output,nr=2 -serial chardev:console");
    if job.deterministic {
        add("-machine q35 -cpu Skylake-Server,-rdrand,-rdseed");
        add("-icount shift=0,sleep=off,align=off -rtc base=2026-01-01,clock=vm");
    } else {
        // Where there is an HPET, Linux derives the interrupts of the real-time clock from it, and loops when a slow
        // machine loses some ("hpet: Lost 9 RTC interrupts"), which it does around a suspend.
        add("-machine q35,hpet=off -cpu Skylake-Server");
    }
    add(&format!("-seed {}", job.seed));
    words.extend(job.topology.arguments(memory_mb));
    for (id, name) in [("console", "console.log"), ("result", "result.tar"), ("output", "output")] {
        words.extend(["-chardev".to_owned(), format!("file,id={id},path={}", file(name))]);
    }
    for directory in &qemu.data {
        words.extend(["-L".to_owned(), directory.display().to_string()]);
    }
    let own = match clock::tsc_khz() {
        _ if job.deterministic => DETERMINISTIC_WORDS.to_owned(),
        Some(khz) => format!("{REAL_TIME_WORDS} tsc_early_khz={khz}"),
        None => REAL_TIME_WORDS.to_owned(),
    };
    let append = format!("{KERNEL_WORDS} {own} {}", job.append);
    for (option, value) in
        [("-kernel", kernel.display().to_string()), ("-initrd", file("initrd")), ("-append", append.trim().to_owned())]
    {
        words.extend([option.to_owned(), value]);
    }
    words
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,/:+@".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{word}'") }
}

/// Waits for the end and shows the script's output meanwhile. Returns false if QEMU was killed after the timeout.
fn wait(mut child: Child, job: &Job, output: &Path) -> Result<bool> {
    let begin = Instant::now();
    let mut shown = None;
    loop {
        let ended = child.try_wait()?.is_some();
        if job.show {
            show(&mut shown, output)?;
        }
        if ended {
            return Ok(true);
        }
        if begin.elapsed() > job.timeout {
            kill(&mut child)?;
            return Ok(false);
        }
        std::thread::sleep(POLL);
    }
}

/// Ends QEMU: `timeout` passes the signal on.
fn kill(child: &mut Child) -> Result<()> {
    Command::new("kill").arg(child.id().to_string()).status()?;
    let begin = Instant::now();
    while child.try_wait()?.is_none() {
        if begin.elapsed() > Duration::from_secs(4) {
            // QEMU ignores the signal; `timeout` sends SIGKILL within 5 seconds.
            child.wait()?;
            break;
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

fn show(shown: &mut Option<File>, path: &Path) -> Result<()> {
    if shown.is_none() {
        *shown = File::open(path).ok();
    }
    let Some(file) = shown else { return Ok(()) };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&bytes)?;
    stdout.flush()?;
    Ok(())
}

/// Reads the results and decides whether the boot succeeded.
fn judge(outcome: &mut Outcome, timeout: Duration) -> Result<()> {
    let result = outcome.directory.join("result");
    fs::create_dir_all(result.join("out"))?;
    let tar = outcome.directory.join("result.tar");
    let complete = !outcome.timed_out && tar.metadata().is_ok_and(|tar| tar.len() > 0);
    if complete {
        let status =
            Command::new("tar").arg("-xf").arg(&tar).arg("-C").arg(&result).args(["--no-same-owner"]).status()?;
        if !status.success() {
            bail!("tar cannot read {}", tar.display());
        }
        fs::remove_file(&tar)?;
    }
    let text = |path: PathBuf| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).trim().to_owned();
    outcome.status = text(result.join("status")).parse().ok();
    outcome.kernel = text(result.join("kernel"));
    outcome.booted_s = text(result.join("booted_s"));
    let logs = [text(outcome.directory.join("console.log")), text(result.join("dmesg"))];
    let alarm = logs.iter().find_map(|log| console::alarm(log)).map(|line| format!("kernel warning: {line}"));
    outcome.problem = if alarm.is_some() {
        alarm
    } else if outcome.timed_out {
        Some(format!("timeout after {} s", timeout.as_secs()))
    } else if outcome.status.is_none() {
        Some("the machine ended before its script did".to_owned())
    } else {
        None
    };
    Ok(())
}
