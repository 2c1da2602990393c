// SPDX-License-Identifier: GPL-2.0-only
//! The tests by which authors of schedulers judge them, by name: those that stand for several workloads, and those whose
//! result people are used to read in a form of its own.
//!
//! - `sanity{,key=value}`: the recorded build at 50, 100, ... 300 % of the CPUs, in three rounds, printed as `time` does.
//! - `interactivity`: films of 25 and 60 pictures a second beside a build of nice 19 at 300 % of the CPUs.
//! - `latency`, alone or as a part: its threads in the lines of cyclictest, after the report.

use anyhow::{Result, bail};
use report::{Level, RunReport, View};
use workload::PartSpec;

/// Loads of the sanity test, in percent of the CPUs.
const LOADS: [u32; 6] = [50, 100, 150, 200, 250, 300];

/// How often each of them runs if nothing else was asked for.
pub const ROUNDS: u64 = 3;

/// Name and description of those that stand for several workloads.
pub const SUITES: [(&str, &str); 2] = [
    ("interactivity", "film-25 and film-60, each beside build,load=300,nice=19"),
    ("sanity", "build,load=50, 100, 150, 200, 250 and 300 in 3 rounds; keys such as policy=batch go to the build"),
];

/// The workloads of a command line, and how what comes of them is shown.
#[derive(Debug, Default, PartialEq)]
pub struct Suites {
    /// Names of workloads, with those that suites stand for in their place.
    pub workloads: Vec<String>,
    /// The sanity tests among them.
    sanity: Vec<Sanity>,
}

#[derive(Debug, PartialEq)]
struct Sanity {
    title: String,
    levels: Vec<Level>,
}

impl Suites {
    /// What these names stand for.
    ///
    /// # Errors
    /// If a suite is asked for in a way that it has not.
    pub fn of(names: &[String]) -> Result<Suites> {
        let mut suites = Suites::default();
        for name in names {
            let (head, keys) = name.split_at(name.find(',').unwrap_or(name.len()));
            match head {
                "sanity" => suites.add_sanity(name, keys)?,
                "interactivity" if keys.is_empty() => suites.workloads.extend(interactivity()),
                "interactivity" => {
                    bail!("{name}: interactivity has no keys; film-25+build,load=300,nice=19 is one of it")
                }
                _ => suites.workloads.push(name.clone()),
            }
        }
        Ok(suites)
    }

    fn add_sanity(&mut self, name: &str, keys: &str) -> Result<()> {
        if keys.contains('+') || keys.contains(",load=") || keys.contains(",jobs=") {
            bail!("{name}: sanity has its own loads and stands alone; build,load=300 is one of it");
        }
        let level = |percent| Level { percent, workload: format!("build,load={percent}{keys}") };
        let levels: Vec<Level> = LOADS.into_iter().map(level).collect();
        self.workloads.extend(levels.iter().map(|level| level.workload.clone()));
        self.sanity.push(Sanity { title: format!("sanity test (the recorded build{keys})"), levels });
        Ok(())
    }

    /// Whether there is a test that is made in rounds.
    pub fn has_rounds(&self) -> bool {
        !self.sanity.is_empty()
    }

    /// The text for these runs: tests in their own form, and reports of everything else.
    pub fn to_text(&self, runs: &[RunReport], view: View) -> String {
        let mut text: String = self.sanity.iter().map(|test| report::sanity(&test.title, &test.levels, runs)).collect();
        let is_tested = |run: &&RunReport| {
            self.sanity.iter().flat_map(|test| &test.levels).any(|level| level.workload == run.tags.workload)
        };
        let others: Vec<RunReport> = runs.iter().filter(|run| !is_tested(run)).cloned().collect();
        if !others.is_empty() {
            text += &report::to_text(&others, view);
        }
        text + &latencies(&others)
    }
}

fn interactivity() -> [String; 2] {
    ["film-25", "film-60"].map(|film| format!("{film}+build,load=300,nice=19"))
}

/// The lines of cyclictest for the first run of each setup that has the part `latency`.
fn latencies(runs: &[RunReport]) -> String {
    let mut shown: Vec<(&str, &str, &str)> = Vec::new();
    let mut text = String::new();
    for run in runs {
        let setup = (run.tags.scheduler.as_str(), run.tags.machine.as_str(), run.tags.workload.as_str());
        let Some(label) = label_of_latency(&run.tags.workload).filter(|_| !shown.contains(&setup)) else { continue };
        shown.push(setup);
        if let Some(lines) = report::cyclictest(run, label.as_deref()) {
            text = text + "\n" + &lines;
        }
    }
    text
}

/// The label of the part `latency` of this workload: none if it is all of it. `None` if there is no such part.
fn label_of_latency(workload: &str) -> Option<Option<String>> {
    let mut parts = PartSpec::parse_all(workload).ok()?;
    let at = parts.iter().position(|part| part.what == "latency")?;
    let alone = parts.len() == 1;
    let label = parts.swap_remove(at).label;
    Some(if alone { label } else { label.or_else(|| Some("latency".to_owned())) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suites(names: &[&str]) -> Result<Suites> {
        Suites::of(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn suites_stand_for_workloads() {
        let all = suites(&["hogs", "sanity,policy=batch", "interactivity"]).unwrap();
        assert_eq!(all.workloads[..3], ["hogs", "build,load=50,policy=batch", "build,load=100,policy=batch"]);
        assert_eq!(all.workloads[6..8], ["build,load=300,policy=batch", "film-25+build,load=300,nice=19"]);
        assert!(all.has_rounds() && !suites(&["hogs+latency"]).unwrap().has_rounds());
        for wrong in ["sanity,load=50", "sanity,jobs=3", "sanity,nice=1+hogs", "interactivity,nice=1"] {
            assert!(suites(&[wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn latency_is_found_among_parts() {
        assert_eq!(label_of_latency("latency"), Some(None));
        assert_eq!(label_of_latency("x=latency,policy=fifo:80"), Some(Some("x".to_owned())));
        assert_eq!(label_of_latency("hogs+latency,nice=3"), Some(Some("latency".to_owned())));
        assert_eq!(label_of_latency("hogs"), None);
    }
}
