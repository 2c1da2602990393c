// SPDX-License-Identifier: GPL-2.0-only
//! Each output of each command against everything that can go wrong with a file. Afterwards the target has its old content
//! or the whole new one, and every other file is as it was.

use super::Programs;
use super::mutate::Rng;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where the name of the output stands.
const OUT: &str = "{out}";
/// Name of the output, and of the file that a link points to.
const TARGET: &str = "target";
const VICTIM: &str = "victim";
const OLD: &str = "old content of the target\n";
const PRECIOUS: &str = "content behind a link\n";
/// Size of the small file system: the inputs fit, most outputs do not, and nothing does once it is filled.
const SMALL_DISK: &str = "size=1m,nr_inodes=64";

/// How to see that an output is whole.
#[derive(Clone, Copy)]
enum Whole {
    /// An undisturbed command writes the same bytes.
    Same,
    /// It has times of this host, and is a JSON document.
    Json,
}

/// An output of a command.
struct Output {
    name: &'static str,
    command: &'static [&'static str],
    /// An input of the command, which an output must not replace.
    input: &'static str,
    whole: Whole,
}

const SIM: &str = "load.json";

macro_rules! sim {
    ($option:literal, $name:literal) => {
        Output {
            name: $name,
            command: &["weir", "sim", "fifo", "-m", "laptop-2c4t", "-w", "./load.json", "--for", "50ms", $option, OUT],
            input: SIM,
            whole: Whole::Same,
        }
    };
}

const OUTPUTS: [Output; 12] = [
    sim!("--save", "sim --save"),
    sim!("--report", "sim --report"),
    sim!("--log", "sim --log"),
    sim!("--trace", "sim --trace"),
    sim!("--coverage", "sim --coverage"),
    Output {
        name: "report -o",
        command: &["weir", "report", "run.weirrun", "-o", OUT],
        input: "run.weirrun",
        whole: Whole::Same,
    },
    Output {
        name: "compare --report",
        command: &["weir", "compare", "run.weirrun", "--report", OUT],
        input: "run.weirrun",
        whole: Whole::Same,
    },
    Output {
        name: "scale --report",
        command: &["weir", "scale", "table.csv", "--report", OUT],
        input: "table.csv",
        whole: Whole::Same,
    },
    Output {
        name: "load --report",
        command: &["weir", "load", "fifo", "-m", "pu:1", "--arrivals", "arrivals.txt", "--report", OUT],
        input: "arrivals.txt",
        whole: Whole::Same,
    },
    Output { name: "lrz", command: &["lrz", "-Q", "-f", "-o", OUT, "text"], input: "text", whole: Whole::Same },
    Output {
        name: "lrz -d",
        command: &["lrz", "-Q", "-d", "-f", "-o", OUT, "text.lrz"],
        input: "text.lrz",
        whole: Whole::Same,
    },
    Output {
        name: "lrz --trace",
        command: &["lrz", "-Q", "-f", "-o", "packed", "--trace", OUT, "text"],
        input: "text",
        whole: Whole::Json,
    },
];

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trouble {
    Full,
    ReadOnly,
    Link,
    Existing,
    Input,
    Signal,
    Kill,
}

const TROUBLES: [Trouble; 7] = [
    Trouble::Full,
    Trouble::ReadOnly,
    Trouble::Link,
    Trouble::Existing,
    Trouble::Input,
    Trouble::Signal,
    Trouble::Kill,
];

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Trouble::Full => "full disk",
            Trouble::ReadOnly => "read-only directory",
            Trouble::Link => "link",
            Trouble::Existing => "existing file",
            Trouble::Input => "an input",
            Trouble::Signal => "signal",
            Trouble::Kill => "SIGKILL",
        })
    }
}

/// Number of drawn moments at which a signal arrives.
const MOMENTS: u64 = 4;

/// A file system in memory, unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one, which needs root.
    fn mount(path: &Path) -> Option<SmallDisk> {
        let words = ["-t", "tmpfs", "-o", SMALL_DISK, "tmpfs"];
        let status = Command::new("mount").args(words).arg(path).stderr(Stdio::null()).status().ok()?;
        status.success().then(|| SmallDisk(path.to_owned()))
    }

    /// Fills it.
    fn fill(&self) -> Result<()> {
        // Ends with an error: no space is left.
        let _ = fs::write(self.0.join("filler"), vec![1; 4 << 20]);
        let _ = fs::OpenOptions::new()
            .append(true)
            .open(self.0.join("filler"))
            .map(|mut file| while std::io::Write::write_all(&mut file, &[1; 64]).is_ok() {});
        Ok(())
    }

    fn make_read_only(&self) -> Result<()> {
        let status = Command::new("mount").args(["-o", "remount,ro"]).arg(&self.0).status()?;
        ensure!(status.success(), "cannot make {} read-only", self.0.display());
        Ok(())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Files of a directory: name and content; links by where they point.
type Files = BTreeMap<String, Vec<u8>>;

fn files(directory: &Path) -> Result<Files> {
    let mut files = Files::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let content = match fs::read_link(&path) {
            Ok(to) => format!("link to {}", to.display()).into_bytes(),
            Err(_) => fs::read(&path).with_context(|| path.display().to_string())?,
        };
        files.insert(name, content);
    }
    Ok(files)
}

/// The attack on the outputs.
struct Attack<'a> {
    programs: &'a Programs,
    /// Inputs of all commands.
    inputs: Files,
}

impl Attack<'_> {
    fn command(&self, output: &Output, directory: &Path, target: &str) -> Command {
        let mut command = Command::new(self.programs.path(output.command[0]));
        command.args(output.command[1..].iter().map(|word| if *word == OUT { target } else { word }));
        command.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn place_inputs(&self, directory: &Path) -> Result<()> {
        self.inputs.iter().try_for_each(|(name, content)| fs::write(directory.join(name), content))?;
        Ok(())
    }

    /// Content that an undisturbed command writes, and the time that it takes.
    fn undisturbed(&self, output: &Output) -> Result<(Vec<u8>, Duration)> {
        let directory = tempfile::tempdir()?;
        self.place_inputs(directory.path())?;
        let began = Instant::now();
        let status = self.command(output, directory.path(), TARGET).status()?;
        ensure!(status.success(), "{}: status {:?} without any trouble", output.name, status.code());
        Ok((fs::read(directory.path().join(TARGET))?, began.elapsed()))
    }

    /// What was lost, or `None`; `Ok(Err(reason))` if the trouble cannot be made here.
    fn meet(
        &self,
        output: &Output,
        trouble: Trouble,
        (new, takes): (&[u8], Duration),
        rng: &mut Rng,
    ) -> Result<Result<Option<String>, &'static str>> {
        let directory = tempfile::tempdir()?;
        let path = directory.path();
        let needs_disk = matches!(trouble, Trouble::Full | Trouble::ReadOnly);
        let disk = if needs_disk { SmallDisk::mount(path) } else { None };
        if needs_disk && disk.is_none() {
            return Ok(Err("cannot mount a file system: root is needed"));
        }
        self.place_inputs(path)?;
        let target = if trouble == Trouble::Input { output.input } else { TARGET };
        match trouble {
            Trouble::Input => {}
            Trouble::Link => {
                fs::write(path.join(VICTIM), PRECIOUS)?;
                symlink(VICTIM, path.join(TARGET))?;
            }
            _ => fs::write(path.join(TARGET), OLD)?,
        }
        if let Some(disk) = &disk {
            if trouble == Trouble::Full { disk.fill()? } else { disk.make_read_only()? }
        }
        let before = files(path)?;
        let mut child = self.command(output, path, target).spawn()?;
        if matches!(trouble, Trouble::Signal | Trouble::Kill) {
            disturb(&mut child, trouble, takes, rng)?;
        }
        let code = child.wait()?.code();
        let after = files(path)?;
        Ok(Ok(lost(output, trouble, (target, new), (&before, &after), code)))
    }
}

/// Sends a signal at a drawn moment.
fn disturb(child: &mut Child, trouble: Trouble, takes: Duration, rng: &mut Rng) -> Result<()> {
    let micros = takes.as_micros().max(1) as usize;
    std::thread::sleep(Duration::from_micros(rng.below(micros + micros / 4) as u64));
    let signal = if trouble == Trouble::Kill { "KILL" } else { ["INT", "TERM", "HUP"][rng.below(3)] };
    // The process may have ended; it has not been waited for, so that its number is still its own.
    Command::new("kill").args(["-s", signal, &child.id().to_string()]).stderr(Stdio::null()).status()?;
    Ok(())
}

/// What was lost.
fn lost(
    output: &Output,
    trouble: Trouble,
    (target, new): (&str, &[u8]),
    (before, after): (&Files, &Files),
    code: Option<i32>,
) -> Option<String> {
    for (name, content) in before {
        let now = after.get(name);
        if name != target && now != Some(content) {
            return Some(format!("{name} has changed"));
        }
    }
    let (old, now) = (before.get(target), after.get(target));
    let is_new = now.is_some_and(|now| match output.whole {
        Whole::Same => now == new,
        Whole::Json => serde_json::from_slice::<serde_json::Value>(now).is_ok(),
    });
    let may_replace = !matches!(trouble, Trouble::Link | Trouble::Input | Trouble::ReadOnly);
    if now != old && !(is_new && may_replace) {
        let length =
            |content: Option<&Vec<u8>>| content.map_or("nothing".to_owned(), |it| format!("{} bytes", it.len()));
        return Some(format!("the target had {} and has {} now", length(old), length(now)));
    }
    match (trouble, code) {
        (Trouble::Existing, Some(0)) if !is_new => {
            return Some("status 0, and the target has its old content".to_owned());
        }
        (Trouble::Existing, Some(0)) | (Trouble::Signal | Trouble::Kill, _) => {}
        (Trouble::Full, Some(0)) if is_new => {}
        (Trouble::Existing, code) => return Some(format!("status {code:?}")),
        (_, Some(1 | 2)) => {}
        (_, code) => return Some(format!("status {code:?}, expected 2")),
    }
    // A killed program cannot remove a file that has a name.
    let own = ["packed", "packed.par"];
    let is_extra = |name: &&String| !before.contains_key(*name) && *name != target && !own.contains(&name.as_str());
    let extra = after.keys().find(is_extra).filter(|_| trouble != Trouble::Kill);
    extra.map(|name| format!("{name} was left behind"))
}

/// Attacks all outputs and prints a table. Returns the number of losses.
///
/// # Errors
/// If the attack cannot be made.
pub fn attack(programs: &Programs, seed: u64) -> Result<u64> {
    let attack = Attack { programs, inputs: inputs(programs)? };
    let (mut losses, mut rows) = (Vec::new(), Vec::new());
    let mut skipped: BTreeMap<&str, u64> = BTreeMap::new();
    for (number, output) in OUTPUTS.iter().enumerate() {
        let (new, takes) = attack.undisturbed(output)?;
        let mut row = format!("{:<17}", output.name);
        for trouble in TROUBLES {
            let times = if matches!(trouble, Trouble::Signal | Trouble::Kill) { MOMENTS } else { 1 };
            let mut bad = 0;
            let mut tried = 0;
            for moment in 0..times {
                let mut rng = Rng::of(seed, number as u64 * 1_000 + moment);
                match attack.meet(output, trouble, (&new, takes), &mut rng)? {
                    Ok(lost) => {
                        tried += 1;
                        bad += u64::from(lost.is_some());
                        losses.extend(lost.map(|lost| format!("{}, {trouble}: {lost}", output.name)));
                    }
                    Err(reason) => *skipped.entry(reason).or_default() += 1,
                }
            }
            row += &format!("{:>11}", if tried == 0 { "-".to_owned() } else { format!("{bad} of {tried}") });
        }
        rows.push(row);
    }
    let head = ["full", "read-only", "link", "existing", "input", "signal", "SIGKILL"];
    println!("{:<17}{}", "lost", head.map(|word| format!("{word:>11}")).concat());
    rows.iter().for_each(|row| println!("{row}"));
    losses.iter().for_each(|loss| println!("LOST: {loss}"));
    skipped.iter().for_each(|(reason, count)| println!("{count} cases were left out: {reason}"));
    Ok(losses.len() as u64)
}

/// Inputs of the commands.
fn inputs(programs: &Programs) -> Result<Files> {
    let directory = tempfile::tempdir()?;
    let path = directory.path();
    let load =
        r#"{"global": {"duration": 1}, "tasks": {"a": {"run": 900, "sleep": 300}, "b": {"run": 500, "sleep": 700}}}"#;
    fs::write(path.join(SIM), load)?;
    fs::write(
        path.join("table.csv"),
        "n,throughput\n1,64.9\n18,995.9\n36,1652.4\n72,1853.2\n108,1828.9\n144,1775.0\n",
    )?;
    fs::write(path.join("arrivals.txt"), (1..=50).map(|k| format!("{k}ms\n")).collect::<String>())?;
    let line = |k: u32| format!("line {} of {}: the value is {}\n", k, k / 7, k.wrapping_mul(2_654_435_761) >> 7);
    fs::write(path.join("text"), (0..4_000).map(line).collect::<String>())?;
    let sim = ["sim", "fifo", "-m", "laptop-2c4t", "-w", "./load.json", "--for", "20ms", "--save", "run.weirrun"];
    for (program, words) in [(&programs.weir, &sim[..]), (&programs.lrz, &["-Q", "-o", "text.lrz", "text"][..])] {
        let output = Command::new(program).args(words).current_dir(path).output()?;
        if !output.status.success() {
            bail!("{}: {}", program.display(), String::from_utf8_lossy(&output.stderr));
        }
    }
    files(path)
}
