// SPDX-License-Identifier: GPL-2.0-only
//! One life of a virtual machine: from a script and files to what came of them.

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
/// Memory besides what the files take, which are in memory twice while the kernel unpacks them.
const MEMORY_MB: u64 = 512;
/// Tells the kernel what it cannot measure under emulation (without `lpj` each CPU costs half a second of failing to),
/// ends the machine at the first oops, and is patient where a busy host steals time from the guest.
const KERNEL_WORDS: &str = "console=ttyS0 loglevel=5 panic=-1 oops=panic log_buf_len=4M tsc=reliable no_timer_check \
                            watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=120";
/// Everything that would differ from one run to the next: addresses, random numbers, the date.
const DETERMINISTIC_WORDS: &str = "lpj=4000000 nokaslr norandmaps";
const POLL: Duration = Duration::from_millis(20);

/// What to run.
pub struct Job {
    /// Text of the shell script.
    pub script: String,
    /// More texts for it: place in the guest, content.
    pub texts: Vec<(String, String)>,
    /// Files for it.
    pub files: Vec<Transfer>,
    /// CPUs.
    pub topology: Topology,
    /// Memory in MB; `None`: what the kernel, the files and some work need.
    pub memory_mb: Option<u64>,
    /// Its kernel.
    pub kernel: Kernel,
    /// Host time after which QEMU is killed.
    pub timeout: Duration,
    /// One instruction is one nanosecond, and nothing is random.
    pub deterministic: bool,
    /// Seed of what the guest takes for random.
    pub seed: u64,
    /// More words for the kernel's command line.
    pub append: String,
    /// Show the script's output while it runs.
    pub show: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// The script's exit status; none if it did not end.
    pub status: Option<u8>,
    /// What is wrong: time-out, a machine that died, an alarm of the kernel. None if nothing is.
    pub problem: Option<String>,
    /// QEMU was killed because time was up.
    pub timed_out: bool,
    /// Release of the kernel that ran, empty if unknown.
    pub kernel: String,
    /// Seconds of guest time from power-on to the script, empty if unknown.
    pub booted_s: String,
    /// Host time from QEMU's start to its end.
    pub wall: Duration,
    /// CPU time of QEMU.
    pub cpu: Duration,
    /// Folder with `console.log`, `output`, `qemu.log`, and `result/` with `out/` and `dmesg`. The caller removes it.
    pub folder: PathBuf,
    /// The command line, for people.
    pub command_line: String,
}

impl Outcome {
    /// What the script left in `/out`.
    pub fn out(&self) -> PathBuf {
        self.folder.join("result/out")
    }

    /// The script ended well, and so did everything else.
    pub fn success(&self) -> bool {
        self.problem.is_none() && self.status == Some(0)
    }

    /// For people who need to know why it failed.
    pub fn explain(&self) {
        let tail = |name: &str, most: usize| {
            let bytes = fs::read(self.folder.join(name)).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            // The Intel model has features that software does not emulate; QEMU lists them at every start.
            let lines: Vec<&str> = text.lines().filter(|line| !line.contains("TCG doesn't support")).collect();
            lines[lines.len().saturating_sub(most)..].iter().map(|line| format!("\n  {line}")).collect::<String>()
        };
        eprintln!("vm: end of the console:{}", tail("console.log", 60));
        eprintln!("vm: QEMU said:{}", tail("qemu.log", 10));
        eprintln!("vm: command line: {}", self.command_line);
        eprintln!("vm: everything is in {}", self.folder.display());
        if let Some(problem) = &self.problem {
            eprintln!("vm: {problem}");
        }
    }
}

/// Sees to it that everything is there; the kernel first, because fetching it tells whether there is a network.
pub fn provide(kernel: &Kernel) -> Result<()> {
    kernel.image()?;
    parts::qemu(false)?;
    parts::busybox()?;
    Ok(())
}

/// Boots, runs, powers off.
///
/// # Errors
/// [`super::missing::Missing`] if this host has no QEMU, kernel or busybox; others if a file cannot be read or written.
/// What goes wrong in the machine is in the [`Outcome`].
pub fn run(job: &Job) -> Result<Outcome> {
    let kernel = job.kernel.image()?;
    let qemu = parts::qemu(job.deterministic)?;
    let busybox = parts::busybox()?;
    let folder = new_folder()?;
    let mut archive = Archive::default();
    archive.device("/dev/console", (5, 1));
    archive.file("/bin/busybox", 0o755, &fs::read(&busybox)?);
    archive.file("/init", 0o755, INIT.as_bytes());
    archive.file("/script", 0o755, job.script.as_bytes());
    archive.folder("/in");
    if let Some((place, config)) = job.kernel.config() {
        archive.file(&place, 0o644, &fs::read(config)?);
    }
    for (path, text) in &job.texts {
        archive.file(path, 0o755, text.as_bytes());
    }
    files::add(&mut archive, &job.files)?;
    let initrd = archive.finish();
    fs::write(folder.join("initrd"), &initrd)?;
    let memory_mb = job.memory_mb.unwrap_or(MEMORY_MB + 3 * (initrd.len() as u64 >> 20));
    drop(initrd);

    let arguments = arguments(job, &qemu, &kernel, &folder, memory_mb);
    let words: Vec<String> = arguments.iter().map(|word| quoted(word)).collect();
    let command_line = format!("{} {}", qemu.program.display(), words.join(" "));
    let begin = Instant::now();
    let cpu_before = cpu_time::of_children()?;
    // Should this process be killed, `timeout` still ends QEMU.
    let child = Command::new("timeout")
        .args(["--foreground", "-s", "KILL"])
        .arg((job.timeout.as_secs() + 5).to_string())
        .arg(&qemu.program)
        .args(&arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(folder.join("qemu.log"))?)
        .spawn()
        .context("timeout does not start")?;
    let ended = wait(child, job, &folder.join("output"))?;
    let (wall, cpu) = (begin.elapsed(), cpu_time::of_children()?.saturating_sub(cpu_before));
    fs::remove_file(folder.join("initrd"))?;
    let mut outcome = Outcome {
        status: None,
        problem: None,
        timed_out: !ended,
        kernel: String::new(),
        booted_s: String::new(),
        wall,
        cpu,
        folder,
        command_line,
    };
    judge(&mut outcome, job.timeout)?;
    Ok(outcome)
}

fn new_folder() -> Result<PathBuf> {
    let runs = parts::state().join("runs");
    fs::create_dir_all(&runs)?;
    let pid = std::process::id();
    for number in 0.. {
        let folder = runs.join(format!("{pid}-{number}"));
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| format!("{}", folder.display())),
        }
    }
    unreachable!("numbers do not end")
}

fn arguments(job: &Job, qemu: &parts::Qemu, kernel: &Path, folder: &Path, memory_mb: u64) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut add = |text: &str| words.extend(text.split(' ').map(str::to_owned));
    let file = |name: &str| folder.join(name).display().to_string();
    add("-nodefaults -no-user-config -display none -no-reboot -machine q35 -accel tcg,thread=single");
    // Intel: QEMU gives AMD models caches that no two CPUs share. Without ioeventfd a write to a port is done when
    // the guest goes on, so that no thread of the host can make a difference.
    add("-device virtio-serial-pci,ioeventfd=off -device virtserialport,chardev=result,nr=1");
    add("-device virtserialport,chardev=output,nr=2 -serial chardev:console");
    if job.deterministic {
        add("-cpu Skylake-Server,-rdrand,-rdseed -icount shift=0,sleep=off,align=off -rtc base=2026-01-01,clock=vm");
    } else {
        add("-cpu Skylake-Server");
    }
    add(&format!("-seed {}", job.seed));
    words.extend(job.topology.arguments(memory_mb));
    for (id, name) in [("console", "console.log"), ("result", "result.tar"), ("output", "output")] {
        words.extend(["-chardev".to_owned(), format!("file,id={id},path={}", file(name))]);
    }
    for folder in &qemu.data {
        words.extend(["-L".to_owned(), folder.display().to_string()]);
    }
    let own = match clock::tsc_khz() {
        _ if job.deterministic => DETERMINISTIC_WORDS.to_owned(),
        Some(khz) => format!("lpj=4200000 tsc_early_khz={khz}"),
        None => "lpj=4200000".to_owned(),
    };
    let append = format!("{KERNEL_WORDS} {own} {}", job.append);
    for (option, value) in
        [("-kernel", kernel.display().to_string()), ("-initrd", file("initrd")), ("-append", append.trim().to_owned())]
    {
        words.extend([option.to_owned(), value]);
    }
    words
}

/// For a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,/:+@".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{word}'") }
}

/// Waits for the end and shows the script's output meanwhile. False if time was up and QEMU was killed.
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

/// Ends QEMU: `timeout` hands the signal on to it.
fn kill(child: &mut Child) -> Result<()> {
    Command::new("kill").arg(child.id().to_string()).status()?;
    let begin = Instant::now();
    while child.try_wait()?.is_none() {
        if begin.elapsed() > Duration::from_secs(4) {
            // QEMU does not listen; `timeout` will use SIGKILL within its 5 seconds.
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

/// Reads what the machine left and decides whether it went well.
fn judge(outcome: &mut Outcome, timeout: Duration) -> Result<()> {
    let result = outcome.folder.join("result");
    fs::create_dir_all(result.join("out"))?;
    let tar = outcome.folder.join("result.tar");
    let complete = !outcome.timed_out && tar.metadata().is_ok_and(|tar| tar.len() > 0);
    if complete {
        let status =
            Command::new("tar").arg("-xf").arg(&tar).arg("-C").arg(&result).args(["--no-same-owner"]).status()?;
        if !status.success() {
            bail!("{}: tar cannot read it", tar.display());
        }
        fs::remove_file(&tar)?;
    }
    let text = |path: PathBuf| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).trim().to_owned();
    outcome.status = text(result.join("status")).parse().ok();
    outcome.kernel = text(result.join("kernel"));
    outcome.booted_s = text(result.join("booted_s"));
    let logs = [text(outcome.folder.join("console.log")), text(result.join("dmesg"))];
    let alarm = logs.iter().find_map(|log| console::alarm(log)).map(|line| format!("the kernel complains: {line}"));
    outcome.problem = if alarm.is_some() {
        alarm
    } else if outcome.timed_out {
        Some(format!("no end after {} s", timeout.as_secs()))
    } else if outcome.status.is_none() {
        Some("the machine ended before its script did".to_owned())
    } else {
        None
    };
    Ok(())
}
