// SPDX-License-Identifier: GPL-2.0-only
//! Test suites known to scheduler authors, by name: suites that consist of several workloads, and workloads whose
//! results have a customary form.
//!
//! - `sanity{,key=value}`: the recorded build at 50, 100, ... 300 % of the CPUs, in three rounds, printed like the
//!   output of `time`.
//! - `interactivity`: films of 25 and 60 frames per second beside a build of nice 19 at 300 % of the CPUs.
//! - `latency`, alone or as a part: the report is followed by lines in cyclictest's format.

use anyhow::{Result, bail};
use report::{Level, RunReport, View};
use workload::PartSpec;

/// Loads of the sanity test, in percent of the CPUs.
const LOADS: [u32; 6] = [50, 100, 150, 200, 250, 300];

/// Default number of rounds.
pub const ROUNDS: u64 = 3;

/// Name and description of suites of several workloads.
pub const SUITES: [(&str, &str); 2] = [
    ("interactivity", "film-25 and film-60, each beside build,load=300,nice=19"),
    ("sanity", "build,load=50, 100, 150, 200, 250 and 300 in 3 rounds; keys such as policy=batch go to the build"),
];

/// Workloads of a command line, and how their results are shown.
#[derive(Debug, Default, PartialEq)]
pub struct Suites {
    /// Names of workloads, with suites expanded.
    pub workloads: Vec<String>,
    /// Sanity tests among them.
    sanity: Vec<Sanity>,
}

#[derive(Debug, PartialEq)]
struct Sanity {
    title: String,
    levels: Vec<Level>,
}

impl Suites {
    /// Expands suites in a list of workload names.
    ///
    /// # Errors
    /// If a suite is given keys or parts that it does not accept.
    pub fn of(names: &[String]) -> Result<Suites> {
        let mut suites = Suites::default();
        for name in names {
            let (head, keys) = name.split_at(name.find(',').unwrap_or(name.len()));
            match head {
                "sanity" => suites.add_sanity(name, keys)?,
                "interactivity" if keys.is_empty() => suites.workloads.extend(interactivity()),
                "interactivity" => {
                    bail!(
                        "{name}: interactivity has no keys; expected one of its workloads, such as film-25+build,load=300,nice=19"
                    )
                }
                _ => suites.workloads.push(name.clone()),
            }
        }
        Ok(suites)
    }

    fn add_sanity(&mut self, name: &str, keys: &str) -> Result<()> {
        if keys.contains('+') || keys.contains(",load=") || keys.contains(",jobs=") {
            bail!(
                "{name}: sanity sets its own loads and cannot be combined; expected one of its workloads, such as build,load=300"
            );
        }
        let level = |percent| Level { percent, workload: format!("build,load={percent}{keys}") };
        let levels: Vec<Level> = LOADS.into_iter().map(level).collect();
        self.workloads.extend(levels.iter().map(|level| level.workload.clone()));
        self.sanity.push(Sanity { title: format!("sanity test (the recorded build{keys})"), levels });
        Ok(())
    }

    /// Whether a suite runs in rounds.
    pub fn has_rounds(&self) -> bool {
        !self.sanity.is_empty()
    }

    /// Text for these runs: suites in their own form, reports for all others.
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

/// cyclictest-style lines for the first run of each setup that has a `latency` part.
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

/// Label of the `latency` part of this workload. The outer `None` means that there is no such part; the inner one
/// that the part has no label.
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
    fn suites_expand_to_workloads() {
        let all = suites(&["hogs", "sanity,policy=batch", "interactivity"]).unwrap();
        assert_eq!(all.workloads[..3], ["hogs", "build,load=50,policy=batch", "build,load=100,policy=batch"]);
        assert_eq!(all.workloads[6..8], ["build,load=300,policy=batch", "film-25+build,load=300,nice=19"]);
        assert!(all.has_rounds() && !suites(&["hogs+latency"]).unwrap().has_rounds());
        for wrong in ["sanity,load=50", "sanity,jobs=3", "sanity,nice=1+hogs", "interactivity,nice=1"] {
            assert!(suites(&[wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn latency_part_is_found_in_a_composed_workload() {
        assert_eq!(label_of_latency("latency"), Some(None));
        assert_eq!(label_of_latency("x=latency,policy=fifo:80"), Some(Some("x".to_owned())));
        assert_eq!(label_of_latency("hogs+latency,nice=3"), Some(Some("latency".to_owned())));
        assert_eq!(label_of_latency("hogs"), None);
    }
}
