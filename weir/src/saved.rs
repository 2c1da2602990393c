// SPDX-License-Identifier: GPL-2.0-only
//! Access to saved runs: a simulated run is reproduced from its inputs and verified by its hash, a real one is read
//! event by event.

use crate::args::{Args, Command, Sim};
use crate::plan::Single;
use crate::suites::Suites;
use crate::{input, save, select, sim};
use anyhow::{Context, Result, anyhow, bail, ensure};
use bpf_object::LinkedObject;
use clap::Parser;
use event_log::{Bounds, LONGEST, LogReader, Sink};
use ids::Nanos;
use machine_model::Machine;
use report::{Called, Exit, Outcome, Tags, World, counted, escape};
use saved_run::SavedRun;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use timeline::{Recorder, Timeline};

/// Selects a run of a file. Options that are not given match every run.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Which {
    /// Run of this scheduler, as named on the command line
    #[arg(long, value_name = "SCHED")]
    pub scheduler: Option<String>,
    /// Run on this machine
    #[arg(long, value_name = "M")]
    pub machine: Option<String>,
    /// Run of this workload
    #[arg(long, value_name = "W")]
    pub workload: Option<String>,
    /// Run with this seed
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Run with this sample (--draws) of the machine's constants
    #[arg(long, value_name = "N")]
    pub draw: Option<u64>,
}

/// A task in the JSON of a run.
#[derive(Clone, Debug, Deserialize)]
pub struct SavedTask {
    /// Name at the end of the run.
    pub name: String,
}

/// A run in the JSON of a file.
#[derive(Clone, Debug, Deserialize)]
pub struct OneRun {
    #[serde(flatten)]
    pub tags: Tags,
    pub outcome: Outcome,
    pub exit: Exit,
    log_hash: String,
    pub elapsed_ns: u64,
    /// Missing in files written before calls existed.
    #[serde(default)]
    calls: Vec<Called>,
    pub tasks: Vec<SavedTask>,
}

impl OneRun {
    /// Name that identifies the run within its file.
    pub fn name(&self) -> String {
        let Tags { scheduler, machine, workload, seed, draw, .. } = &self.tags;
        let seed = seed.map(|seed| format!(", seed {seed}")).unwrap_or_default();
        let draw = draw.filter(|draw| *draw > 0).map(|draw| format!(", draw {draw}")).unwrap_or_default();
        let calls =
            if self.calls.is_empty() { String::new() } else { format!(", calls {}", Called::names(&self.calls)) };
        escape(&format!("{scheduler} on {machine}, workload {workload}{seed}{draw}{calls}")).into_owned()
    }

    /// End time of the run.
    pub fn end(&self) -> Nanos {
        Nanos(self.elapsed_ns)
    }

    /// Timeline of the recorded events. Tasks get their final names, since they are announced under their parents'
    /// names.
    pub fn timeline(&self, recorder: Recorder) -> Timeline {
        let mut timeline = recorder.finish(self.end());
        for (task, saved) in timeline.tasks.iter_mut().zip(&self.tasks) {
            task.info.name.clone_from(&saved.name);
        }
        timeline
    }
}

/// The part of the runs' JSON that is read here.
#[derive(Debug, Deserialize)]
struct Document {
    runs: Vec<OneRun>,
}

#[derive(Debug, Deserialize)]
struct Setup {
    weir: String,
    command_line: String,
    schedulers: Vec<SavedScheduler>,
    machines: Vec<SavedMachine>,
    files: Vec<SavedFile>,
}

#[derive(Debug, Deserialize)]
struct SavedScheduler {
    name: String,
    object: Option<String>,
}

#[derive(Debug, Deserialize)]
struct SavedMachine {
    name: String,
    machine: String,
}

#[derive(Debug, Deserialize)]
struct SavedFile {
    path: String,
    file: String,
}

/// Reads a part of a container that has this form. Other keys cost no memory.
fn json<T: DeserializeOwned>(container: &SavedRun, name: &str) -> Result<T> {
    let Some(text) = container.part(name)? else { bail!("a saved run without {name}") };
    serde_json::from_slice(&text).with_context(|| name.to_owned())
}

/// File of saved runs.
#[derive(Debug)]
pub struct Saved {
    path: PathBuf,
    container: SavedRun,
    setup: Setup,
    pub runs: Vec<OneRun>,
}

impl Saved {
    /// Reads the file.
    ///
    /// # Errors
    /// If it is not a saved run, or is damaged.
    pub fn open(path: &Path) -> Result<Saved> {
        let place = || path.display().to_string();
        let bytes = input::read(path, input::RUNS)?;
        if !SavedRun::is_saved_run(&bytes) && bytes.first() == Some(&b'{') {
            bail!(
                "{}: runs as JSON; expected a file written by weir sim --save or weir run --save, which contains the inputs",
                place()
            );
        }
        Saved::of(path, SavedRun::from_bytes(&bytes).with_context(place)?)
    }

    /// Opens a container that was read from, or will be written to, `path`.
    ///
    /// # Errors
    /// As [`Saved::open`].
    pub fn of(path: &Path, container: SavedRun) -> Result<Saved> {
        let place = || path.display().to_string();
        let setup: Setup = json(&container, save::SETUP).with_context(place)?;
        let Document { runs } = json(&container, save::RUNS).with_context(place)?;
        if let Some((index, run)) = runs.iter().enumerate().find(|(_, run)| run.end() > LONGEST) {
            bail!(
                "{}: {}: runs[{index}].elapsed_ns: {}; at most a year is expected",
                place(),
                save::RUNS,
                run.elapsed_ns
            );
        }
        Ok(Saved { path: path.to_owned(), container, setup, runs })
    }

    /// Command line that made the runs, with all defaults filled in.
    pub fn command_line(&self) -> &str {
        &self.setup.command_line
    }

    /// Returns the index of the selected run and the number of matching runs. Of runs that differ only in seed and
    /// sample, it selects the first.
    ///
    /// # Errors
    /// If no run matches, or several that differ in more than that.
    pub fn choose(&self, which: &Which) -> Result<(usize, usize)> {
        let is = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
        let fits = |run: &OneRun| {
            let Tags { scheduler, machine, workload, seed, draw, .. } = &run.tags;
            is(&which.scheduler, scheduler)
                && is(&which.machine, machine)
                && is(&which.workload, workload)
                && (which.seed.is_none() || which.seed == *seed)
                && (which.draw.is_none() || which.draw == *draw)
        };
        let found: Vec<usize> = (0..self.runs.len()).filter(|&run| fits(&self.runs[run])).collect();
        let place = self.path.display();
        let some = |runs: &[usize]| {
            const SHOWN: usize = 4;
            let more = if runs.len() > SHOWN { "; …" } else { "" };
            let names: Vec<String> = runs.iter().take(SHOWN).map(|&run| self.runs[run].name()).collect();
            names.join("; ") + more
        };
        match found.as_slice() {
            [first, others @ ..] if others.iter().all(|&other| self.is_repetition(*first, other)) => {
                let order = |&&run: &&usize| (self.runs[run].tags.draw, self.runs[run].tags.seed);
                Ok((*found.iter().min_by_key(order).expect("it has a first"), found.len()))
            }
            [] => {
                let all: Vec<usize> = (0..self.runs.len()).collect();
                bail!("{place}: no matching run; it contains {}", some(&all))
            }
            several => {
                let count = counted(several.len() as u64, "run");
                let expected = "expected --scheduler, --machine or --workload to select one";
                bail!("{place}: {count} match: {}; {expected}", some(several))
            }
        }
    }

    /// Whether two runs differ only in seed and sample.
    fn is_repetition(&self, one: usize, other: usize) -> bool {
        let what = |run: usize| {
            let Tags { scheduler, machine, workload, .. } = &self.runs[run].tags;
            (scheduler, machine, workload)
        };
        what(one) == what(other)
    }

    /// Passes the events of a run to `sink`. Returns the scheduler's object if the run was simulated and had one.
    ///
    /// # Errors
    /// If a simulated run cannot be reproduced exactly, or the events of a real one are damaged.
    pub fn tell(&self, run: usize, sink: &mut dyn Sink) -> Result<Option<LinkedObject>> {
        let place = || self.path.display().to_string();
        match self.runs[run].tags.world {
            World::Real => self.read_events(run, sink).with_context(place).map(|()| None),
            World::Sim => self.reproduce(run, sink).with_context(place),
        }
    }

    /// Recorder for the events that [`Saved::tell`] passes.
    ///
    /// # Errors
    /// If the part that describes the machine is damaged.
    pub fn recorder(&self, run: usize) -> Result<Recorder> {
        let cpus = self.cpus(run)?;
        Ok(match self.runs[run].tags.world {
            World::Real => Recorder::of_real_run(cpus),
            World::Sim => Recorder::new(cpus),
        })
    }

    /// Number of CPUs of the machine.
    ///
    /// # Errors
    /// If the part that describes the machine is missing or damaged.
    pub fn cpus(&self, run: usize) -> Result<usize> {
        Ok(self.machine(run)?.topology.len())
    }

    /// Tasks, locks and CPUs in the JSON of a run.
    ///
    /// # Errors
    /// If that part is damaged.
    pub fn details(&self, run: usize) -> Result<report::Details> {
        let mut all = report::read_details(&self.part(save::RUNS)?).with_context(|| self.path.display().to_string())?;
        Ok(all.swap_remove(run))
    }

    /// A value in the JSON of a run, by its dotted key; `None` if it is null or missing.
    ///
    /// # Errors
    /// If that part is damaged.
    pub fn measure(&self, run: usize, key: &str) -> Result<Option<u64>> {
        let document: serde_json::Value = serde_json::from_slice(&self.part(save::RUNS)?)?;
        let found = key.split('.').try_fold(&document["runs"][run], |value, part| value.get(part));
        Ok(found.and_then(serde_json::Value::as_u64))
    }

    /// Number of events of a real run that were lost; 0 for a simulated one.
    ///
    /// # Errors
    /// If the JSON is damaged.
    pub fn lost_events(&self, run: usize) -> Result<u64> {
        Ok(self.measure(run, "meter.lost_events")?.unwrap_or(0))
    }

    /// Number of switches and wakeups of a real run that the kernel hid; 0 for a simulated one.
    ///
    /// # Errors
    /// If the JSON is damaged.
    pub fn unseen_events(&self, run: usize) -> Result<u64> {
        let counts = ["meter.unseen_switches", "meter.unseen_wakeups"].map(|key| self.measure(run, key));
        counts.into_iter().try_fold(0, |sum, count| Ok(sum + count?.unwrap_or(0)))
    }

    fn machine(&self, run: usize) -> Result<Machine> {
        let name = &self.runs[run].tags.machine;
        let Some(saved) = self.setup.machines.iter().find(|machine| machine.name == *name) else {
            bail!("{}: the part {} contains no machine {name:?}", self.path.display(), save::SETUP);
        };
        let text = String::from_utf8(self.part(&saved.machine)?).context("a machine is text")?;
        let machine = Machine::from_toml(&saved.machine, &text)?;
        Ok(Machine { name: name.clone(), ..machine })
    }

    fn part(&self, name: &str) -> Result<Vec<u8>> {
        let place = || self.path.display().to_string();
        self.container.part(name).with_context(place)?.ok_or_else(|| anyhow!("{}: the part {name} is missing", place()))
    }

    fn read_events(&self, run: usize, sink: &mut dyn Sink) -> Result<()> {
        // Only real runs have an events part, so the parts are numbered among these.
        let number = self.runs[..run].iter().filter(|run| run.tags.world == World::Real).count();
        let part = format!("events/{number}");
        let bytes = self.part(&part)?;
        let mut log = LogReader::new(&*bytes).with_context(|| part.clone())?;
        let mut bounds = Bounds::new(self.cpus(run)?, self.runs[run].end());
        for number in 0u64.. {
            let Some(record) = log.read().with_context(|| part.clone())? else { break };
            bounds.check(&record).with_context(|| format!("{part}, record {number}"))?;
            record.send_to(sink);
        }
        Ok(())
    }

    fn reproduce(&self, run: usize, sink: &mut dyn Sink) -> Result<Option<LinkedObject>> {
        let wanted = &self.runs[run];
        let args = self.arguments()?;
        let files = self.setup.files.iter().map(|saved| Ok((saved.path.clone(), self.part(&saved.file)?)));
        let _provided = input::provide(files.collect::<Result<_>>()?);
        let Some(saved) = self.setup.schedulers.iter().find(|saved| saved.name == wanted.tags.scheduler) else {
            bail!("{} names no scheduler {:?}", save::SETUP, wanted.tags.scheduler);
        };
        let object = saved.object.as_ref().map(|part| self.part(part)).transpose()?;
        let mut scheduler = select::saved_scheduler(&saved.name, object, args.profile.as_deref())?;
        select::plan(std::slice::from_mut(&mut scheduler), &args.calls)?;
        let machine = self.machine(run)?;
        let cpus = machine.online_cpus().len() as u32;
        let names = Suites::of(&args.workloads)?.workloads;
        let workloads = names.iter().map(|name| select::workload(name, cpus)).collect::<Result<Vec<_>>>()?;
        let Some(workload) = workloads.into_iter().find(|workload| workload.name == wanted.tags.workload) else {
            bail!("{}: its command line names no workload {:?}", save::SETUP, wanted.tags.workload);
        };
        let single = Single::tagged(&args, &machine, workload, &wanted.tags)?;
        let (hash, object) = sim::reproduce(single.run(&scheduler), sink)?;
        ensure!(
            format!("{hash:032x}") == wanted.log_hash,
            "{}: cannot be reproduced (its events have a different hash): this is weir {}, the file was written by weir {}",
            wanted.name(),
            crate::output::FULL_VERSION,
            self.setup.weir
        );
        Ok(object)
    }

    /// Parsed command line that made the file.
    fn arguments(&self) -> Result<Sim> {
        let line = &self.setup.command_line;
        let words = shlex::split(line).ok_or_else(|| anyhow!("{}: {line:?} is not a command line", save::SETUP))?;
        let parsed =
            Args::try_parse_from(words).map_err(|error| anyhow!("{}: {line:?}: {}", save::SETUP, error.kind()))?;
        match parsed.command {
            Command::Sim(args) => Ok(args),
            _ => bail!("{}: {line:?} is not a weir sim command", save::SETUP),
        }
    }
}
