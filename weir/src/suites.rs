// SPDX-License-Identifier: GPL-2.0-only
//! Test suites known to scheduler authors, by name: suites that consist of several workloads, and workloads whose
//! results have a customary form.
//!
//! - `sanity{,key=value}`: the recorded build at 50, 100, ... 300 % of the CPUs, in three rounds, printed like the
//!   output of `time`; `load=` chooses one load.
//! - `interactivity`: films of 25 and 60 frames per second beside a build of nice 19 at 300 % of the CPUs.
//! - `manycore`: NIX's three tests, printed like its `output:times`.
//! - `film-25`, `film-60` and `latency`, alone or as a part: the report is followed by the lines of mpv and a table of
//!   late pictures, or by lines in cyclictest's format.

use anyhow::{Result, bail};
use report::{Film, Level, RunReport, Sanity, View};
use std::collections::BTreeSet;
use workload::{Op, PartSpec};

/// Loads of the sanity test, in percent of the CPUs.
const LOADS: [u32; 6] = [50, 100, 150, 200, 250, 300];

/// Default number of rounds.
pub const ROUNDS: u64 = 3;

/// NIX's tests: a build from a remote file server, a copy between two file servers in memory, a build in one.
const MANYCORE: [&str; 3] = ["remote-mk", "ramfs-copy", "ramfs-mk"];

/// Name and description of suites of several workloads.
pub const SUITES: [(&str, &str); 3] = [
    ("interactivity", "film-25 and film-60, each beside build,load=300,nice=19"),
    ("manycore", "remote-mk, ramfs-copy and ramfs-mk, with times as NIX printed them"),
    ("sanity", "build,load=50, 100, 150, 200, 250 and 300 in 3 rounds; keys such as policy=batch go to the build"),
];

/// Workloads of a command line, and how their results are shown.
#[derive(Debug, Default, PartialEq)]
pub struct Suites {
    /// Names of workloads, with suites expanded.
    pub workloads: Vec<String>,
    /// Sanity tests among them.
    sanity: Vec<Sanity>,
    /// Whether NIX's tests are among them.
    manycore: bool,
}

impl Suites {
    /// Expands suites in a list of workload names.
    ///
    /// # Errors
    /// If a suite is given keys or parts that it does not accept.
    pub fn of(names: &[String]) -> Result<Suites> {
        let mut suites = Suites::default();
        for name in names {
            let (head, keys) = name.split_at(name.find([',', '+']).unwrap_or(name.len()));
            match (head, keys) {
                ("sanity", _) => suites.add_sanity(name, keys)?,
                ("interactivity", "") => suites.workloads.extend(interactivity()),
                ("interactivity", _) => {
                    bail!(
                        "{name}: interactivity has no keys; expected one of its workloads, such as film-25+build,load=300,nice=19"
                    )
                }
                ("manycore", "") => {
                    suites.workloads.extend(MANYCORE.map(str::to_owned));
                    suites.manycore = true;
                }
                ("manycore", _) => {
                    bail!("{name}: manycore has no keys; expected one of its workloads, such as {}", MANYCORE[2])
                }
                _ => suites.workloads.push(name.clone()),
            }
        }
        Ok(suites)
    }

    fn add_sanity(&mut self, name: &str, keys: &str) -> Result<()> {
        if keys.contains('+') || keys.contains(",jobs=") {
            bail!(
                "{name}: sanity sets its own numbers of jobs and cannot be combined; expected one of its workloads, such as build,load=300"
            );
        }
        let (load, rest): (Vec<&str>, Vec<&str>) =
            keys.split(',').filter(|key| !key.is_empty()).partition(|key| key.starts_with("load="));
        let loads = match load.as_slice() {
            [] => LOADS.to_vec(),
            [load] => match load["load=".len()..].parse() {
                Ok(percent @ 1..) => vec![percent],
                _ => bail!("{name}: {load}: expected a percentage of the CPUs, such as load=300"),
            },
            _ => bail!("{name}: load is given twice; expected sanity,load=N once for each load"),
        };
        let keys: String = rest.iter().map(|key| format!(",{key}")).collect();
        let level = |percent| Level { percent, workload: format!("build,load={percent}{keys}") };
        let levels: Vec<Level> = loads.into_iter().map(level).collect();
        let named = rest.iter().find_map(|key| key.strip_prefix("policy=")).unwrap_or("normal");
        let named = if named == "other" { "normal" } else { named };
        let policy = named.chars().take(1).flat_map(char::to_uppercase).chain(named.chars().skip(1)).collect();
        self.workloads.extend(levels.iter().map(|level| level.workload.clone()));
        self.sanity.push(Sanity { title: format!("sanity test (the recorded build{keys})"), policy, levels });
        Ok(())
    }

    /// Whether a suite runs in rounds.
    pub fn has_rounds(&self) -> bool {
        !self.sanity.is_empty()
    }

    /// Whether a suite's author ran each test once: the nominal run.
    pub fn is_run_once(&self) -> bool {
        self.manycore
    }

    /// Text for these runs: suites in their own form, reports for all others.
    pub fn to_text(&self, runs: &[RunReport], view: View) -> String {
        let mut forms: Vec<String> = self.sanity.iter().map(|test| report::sanity(test, runs)).collect();
        forms.extend(self.manycore.then(|| report::manycore(&MANYCORE.map(str::to_owned), runs)));
        let is_tested = |run: &&RunReport| {
            let workload = &run.tags.workload;
            self.sanity.iter().flat_map(|test| &test.levels).any(|level| level.workload == *workload)
                || self.manycore && MANYCORE.contains(&workload.as_str())
        };
        let others: Vec<RunReport> = runs.iter().filter(|run| !is_tested(run)).cloned().collect();
        forms.extend((!others.is_empty()).then(|| report::to_text(&others, view)));
        forms.extend([report::films(&films(&others), &others), report::affinities(&others)]);
        forms.retain(|form| !form.is_empty());
        forms.join("\n") + &latencies(&others)
    }
}

fn interactivity() -> [String; 2] {
    ["film-25", "film-60"].map(|film| format!("{film}+build,load=300,nice=19"))
}

/// Films in these runs, each once for each workload.
fn films(runs: &[RunReport]) -> Vec<Film> {
    let workloads: BTreeSet<&str> = runs.iter().map(|run| run.tags.workload.as_str()).collect();
    let of_workload = |workload: &str| {
        let parts = parts(workload, |what| what.starts_with("film-")).into_iter();
        let film = |(what, label): (String, Option<String>)| {
            let pictures = workload::generate(&what, 1)?;
            let shown = pictures.tasks.iter().flat_map(|task| &task.script);
            let pictures = shown.filter(|op| matches!(op, Op::Timer { .. })).count() as u64;
            Some(Film { workload: workload.to_owned(), label, name: what, pictures })
        };
        parts.filter_map(film).collect::<Vec<_>>()
    };
    workloads.into_iter().flat_map(of_workload).collect()
}

/// cyclictest-style lines for the first run of each setup that has a `latency` part.
fn latencies(runs: &[RunReport]) -> String {
    let mut shown: Vec<(&str, &str, &str)> = Vec::new();
    let mut text = String::new();
    for run in runs {
        let setup = (run.tags.scheduler.as_str(), run.tags.machine.as_str(), run.tags.workload.as_str());
        if shown.contains(&setup) {
            continue;
        }
        for (_, label) in parts(&run.tags.workload, |what| what == "latency") {
            shown.push(setup);
            if let Some(lines) = report::cyclictest(run, label.as_deref()) {
                text = text + "\n" + &lines;
            }
        }
    }
    text
}

/// Workloads and labels of those parts of a composed workload whose workload `is_wanted`. A part that is the whole
/// workload may have no label.
fn parts(workload: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<(String, Option<String>)> {
    let Ok(parts) = PartSpec::parse_all(workload) else { return Vec::new() };
    let alone = parts.len() == 1;
    let label = |part: PartSpec| {
        let label = if alone { part.label } else { part.label.or_else(|| Some(part.what.clone())) };
        (part.what, label)
    };
    parts.into_iter().filter(|part| is_wanted(&part.what)).map(label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suites(names: &[&str]) -> Result<Suites> {
        Suites::of(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn suites_expand_to_workloads() {
        let all = suites(&["hogs", "sanity,policy=batch", "interactivity"]).unwrap();
        assert_eq!(all.workloads[..3], ["hogs", "build,load=50,policy=batch", "build,load=100,policy=batch"]);
        assert_eq!(all.workloads[6..8], ["build,load=300,policy=batch", "film-25+build,load=300,nice=19"]);
        assert!(all.has_rounds() && !suites(&["hogs+latency"]).unwrap().has_rounds());
        assert_eq!(suites(&["sanity,load=300,policy=idle"]).unwrap().workloads, ["build,load=300,policy=idle"]);
        let nix = suites(&["manycore"]).unwrap();
        assert_eq!(nix.workloads, ["remote-mk", "ramfs-copy", "ramfs-mk"]);
        assert!(nix.is_run_once() && !all.is_run_once());
        for wrong in [
            "sanity,load=0",
            "sanity,load=many",
            "sanity,load=50,load=60",
            "sanity,jobs=3",
            "sanity,nice=1+hogs",
            "sanity+hogs",
            "interactivity,nice=1",
            "interactivity+hogs",
            "manycore,nice=1",
        ] {
            assert!(suites(&[wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn parts_with_a_form_of_their_own_are_found_in_a_composed_workload() {
        let labels =
            |workload| parts(workload, |what| what == "latency").into_iter().map(|part| part.1).collect::<Vec<_>>();
        assert_eq!(labels("latency"), [None]);
        assert_eq!(labels("x=latency,policy=fifo:80"), [Some("x".to_owned())]);
        assert_eq!(labels("hogs+latency,nice=3"), [Some("latency".to_owned())]);
        assert_eq!(labels("hogs"), []);
    }
}
