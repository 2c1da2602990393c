// SPDX-License-Identifier: GPL-2.0-only
//! Requests and their execution.

use crate::resolve::{self, Files, Loadable};
use crate::{Refusal, catalogue, message};
use bpf_object::LinkedObject;
use event_log::Tee;
use explanation::{RunContext, Source, blocked_text, wait_text};
use fault_plan::FaultPlan;
use ids::{Nanos, TaskId};
use invariants::{Checker, Promises};
use kernel_model::Kernel;
use machine_model::{Effect, Machine};
use measures::Collector;
use page::Track;
use report::{RunReport, Tags};
use serde::Deserialize;
use serde_json::{Value, json};
use simulator::{KernelName, Setup};
use timeline::{Recorder, Timeline};
use workload::Workload;

/// A request. Its files follow it in the message.
#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "lowercase", deny_unknown_fields)]
enum Request {
    /// What can be chosen.
    Catalogue {
        /// Names of schedulers and texts of their profiles.
        profiles: Vec<(String, String)>,
    },
    /// One run.
    Run(RunRequest),
    /// Why a task of the last run waited at a time.
    Explain { task: u32, at_ns: u64 },
    /// The report on these runs, which are elements of `runs` in the JSON of `weir sim`.
    Report { runs: Vec<Value> },
}

/// Inputs of a run, in the grammar of the command line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunRequest {
    scheduler: String,
    machine: String,
    workload: String,
    #[serde(default)]
    seed: u64,
    /// Overrides the duration of the workload.
    #[serde(default, rename = "for")]
    duration: Option<String>,
    #[serde(default)]
    kernel: Option<String>,
    /// Effects of the hardware that are left out.
    #[serde(default)]
    without: Vec<String>,
    /// Names and lengths of the files that follow, in order.
    #[serde(default)]
    files: Vec<(String, usize)>,
    /// The events are wanted as a timeline.
    #[serde(default)]
    timeline: bool,
}

/// The state between two requests: the events of the last run with a timeline.
#[derive(Debug, Default)]
pub struct Session {
    last: Option<Story>,
}

/// A run with the source of its scheduler.
#[derive(Debug)]
struct Story {
    timeline: Timeline,
    source: Source,
}

/// Receives the simulated time and, if it is known, the end of the run.
pub type Progress<'a> = &'a mut dyn FnMut(Nanos, Option<Nanos>);

impl Session {
    /// Answers a request; never fails: an error is an answer with the key `error`.
    pub fn answer(&mut self, request: &[u8], progress: Progress<'_>) -> Vec<u8> {
        let (json, bytes) = self.execute(request, progress).unwrap_or_else(|refusal| {
            let error = report::clean(&refusal.to_string()).into_owned();
            (json!({ "error": error }), Vec::new())
        });
        message::compose(&json.to_string(), &bytes)
    }

    fn execute(&mut self, request: &[u8], progress: Progress<'_>) -> Result<(Value, Vec<u8>), Refusal> {
        let (text, bytes) = message::split(request)?;
        let request = serde_json::from_str(text).map_err(|error| Refusal::new(format_args!("request: {error}")))?;
        match request {
            Request::Catalogue { profiles } => Ok((catalogue::catalogue(&profiles)?, Vec::new())),
            Request::Run(request) => self.run(&request, &request.files(bytes)?, progress),
            Request::Explain { task, at_ns } => Ok((self.explain(TaskId(task), Nanos(at_ns))?, Vec::new())),
            Request::Report { runs } => Ok((report(&runs)?, Vec::new())),
        }
    }

    fn run(
        &mut self,
        request: &RunRequest,
        files: &Files<'_>,
        progress: Progress<'_>,
    ) -> Result<(Value, Vec<u8>), Refusal> {
        let loadable = resolve::scheduler(&request.scheduler, files)?;
        let mut machine = resolve::machine(&request.machine, files)?;
        for name in &request.without {
            let effect: Effect = name.parse().map_err(|error| Refusal::new(format_args!("without: {error}")))?;
            machine.effects.switch_off(effect);
        }
        let workload = resolve::workload(&request.workload, machine.online_cpus().len() as u32, files)?;
        let inputs = Inputs { request, loadable: loadable.as_ref(), machine: &machine, workload: &workload };
        let (report, story, track) = inputs.simulate(progress)?;
        let document: Value = serde_json::from_str(&report::to_json(std::slice::from_ref(&report))).expect("JSON");
        let mut answer = json!({ "run": document["runs"][0], "fine": report.is_fine() });
        if !request.timeline {
            return Ok((answer, Vec::new()));
        }
        let name = format!("{} on {}", request.scheduler, request.machine);
        let (frame, bytes) = page::timeline(&track, &name);
        answer["frame"] = json!(frame);
        answer["explanations"] = json!(track.explanations);
        answer["ejection"] = json!(track.ejection);
        self.last = Some(story);
        Ok((answer, bytes))
    }

    /// Why a task waited for a CPU or for another task at a time.
    fn explain(&self, task: TaskId, at: Nanos) -> Result<Value, Refusal> {
        let Some(Story { timeline, source }) = &self.last else {
            return Err(Refusal::new("explain: there was no run with a timeline"));
        };
        let life = timeline.tasks.get(task.index());
        let life = life.ok_or_else(|| Refusal::new(format_args!("explain: no task {}", task.0)))?;
        let context = RunContext { timeline, source };
        let name = explanation::task_name(&context, task);
        let wait = life.phase_at(at).and_then(|phase| timeline.wait(task, phase));
        let text = match wait {
            Some(wait) => wait_text(&context, &timeline.account(wait), None),
            None => match timeline.blocked_of(task).find(|wait| wait.from <= at && at <= wait.to) {
                Some(blocked) => blocked_text(&context, &timeline.blocked_account(blocked)),
                None => format!("{name} did not wait at {}.\n", at.exact()),
            },
        };
        Ok(json!({ "task": name, "text": text }))
    }
}

impl RunRequest {
    /// The files of the message.
    fn files<'a>(&'a self, mut bytes: &'a [u8]) -> Result<Files<'a>, Refusal> {
        let mut files = Vec::new();
        for (name, length) in &self.files {
            let Some((file, rest)) = bytes.split_at_checked(*length) else {
                return Err(Refusal::new(format_args!("{name}: {length} bytes, of which {} came", bytes.len())));
            };
            files.push((name.as_str(), file));
            bytes = rest;
        }
        Ok(Files(files))
    }

    fn kernel(&self) -> Result<KernelName, Refusal> {
        let newest = || Ok(KernelName::from((7, 2)));
        self.kernel.as_deref().map_or_else(newest, |name| name.parse().map_err(Refusal::new))
    }

    fn duration(&self) -> Result<Option<Nanos>, Refusal> {
        let Some(text) = &self.duration else { return Ok(None) };
        let time: Nanos = text.parse().map_err(|error| Refusal::new(format_args!("for: {error}")))?;
        let fine = time > Nanos::ZERO;
        if fine { Ok(Some(time)) } else { Err(Refusal::new(format_args!("for: {text}; expected a time above 0"))) }
    }
}

/// Resolved inputs of a run.
struct Inputs<'a> {
    request: &'a RunRequest,
    loadable: Option<&'a Loadable<'a>>,
    machine: &'a Machine,
    workload: &'a Workload,
}

impl Inputs<'_> {
    fn simulate(&self, progress: Progress<'_>) -> Result<(RunReport, Story, Track), Refusal> {
        let Inputs { request, loadable, machine, workload } = *self;
        let (kernel, duration) = (request.kernel()?, request.duration()?);
        let scheduler = match loadable {
            None => simulator::Scheduler::Kernel,
            Some(Loadable { object, profile, .. }) => simulator::Scheduler::Object { object, profile },
        };
        let (seed, map_bytes) = (request.seed, simulator::MAP_BYTES);
        let faults = &FaultPlan::default();
        let setup = Setup { machine, workload, scheduler, seed, duration, faults, kernel, types: None, map_bytes };
        let end = duration.or(workload.duration);
        // Without a timeline the events are only checked: a recorder takes 60 bytes for each.
        let watch = || (Recorder::new(machine.topology.len()), Collector::with_idle_gaps(&machine.topology));
        let (recorder, collector) = request.timeline.then(watch).unzip();
        let mut sinks = Tee(self.checker(), Tee(recorder, collector));
        let mut object = None;
        let mut keep = |_: &mut Kernel, linked: &LinkedObject| object = Some(linked.clone());
        let outcome = simulator::run_then(&setup, &mut sinks, &mut |now| progress(now, end), &mut keep);
        let at = |error| Refusal::new(format_args!("{} on {}: {error}", request.scheduler, machine.name));
        let outcome = outcome.map_err(at)?;
        let Tee(checker, Tee(recorder, collector)) = sinks;
        let findings = checker.finish(outcome.measures.elapsed);
        let mut report = worlds::simulated::report(self.tags(kernel), outcome, end, Some(findings));
        report.measures.divide(workload.labels());
        let mut timeline = recorder.map(|recorder| recorder.finish(report.measures.elapsed)).unwrap_or_default();
        // Tasks are announced under the names of their parents.
        for (task, measured) in timeline.tasks.iter_mut().zip(&report.measures.tasks) {
            task.info.name.clone_from(&measured.name);
        }
        let source = object.as_ref().map(Source::of).unwrap_or_default();
        let context = RunContext { timeline: &timeline, source: &source };
        let ejected = report.ending.ejected.as_ref();
        let track = Track {
            idle_gaps: collector.map(|all| all.idle_gaps(report.measures.elapsed)).unwrap_or_default(),
            ejection: ejected.map(|exit| explanation::ejection_text(&context, exit, false)),
            explanations: explanation::overview(&context),
            timeline: timeline.clone(),
        };
        Ok((report, Story { timeline, source }, track))
    }

    fn checker(&self) -> Checker {
        let known = worlds::simulated::conditions(self.machine, self.loadable.is_some(), self.request.seed > 0);
        let cpus = self.machine.topology.len();
        let demands = worlds::demands(self.workload);
        Checker::new(cpus, &self.machine.online_cpus(), Promises::default(), known, demands)
    }

    fn tags(&self, kernel: KernelName) -> Tags {
        let Inputs { request, loadable, machine, workload } = *self;
        let setup = worlds::simulated::Setup {
            scheduler: &request.scheduler,
            object: loadable.map(|loadable| loadable.bytes),
            workload: &workload.name,
            uses: simulator::Uses::of(workload, machine),
            seed: request.seed,
            draw: 0,
            kernel,
        };
        let cpu_dma_latency_us = workload.idle_exit_limit.map(|limit| limit.0 / 1_000);
        Tags {
            workload_caveats: workload.caveats.clone(),
            cpu_dma_latency_us,
            ..worlds::simulated::tags(&setup, machine)
        }
    }
}

/// The sections of the report on these runs.
fn report(runs: &[Value]) -> Result<Value, Refusal> {
    let text = json!({ "weir": 1, "runs": runs }).to_string();
    let records = report::read_json(text.as_bytes()).map_err(Refusal::new)?;
    let details = report::read_details(text.as_bytes()).map_err(Refusal::new)?;
    let report = page::Report { records: &records, details: &details, ..page::Report::default() };
    let verdict = page::verdict(&report);
    Ok(json!({ "html": page::sections(&report), "verdict": verdict }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: &[u8] = br#"{ "global": { "duration": 1 }, "tasks": {
        "a": { "loop": -1, "run": 1000, "sleep": 500 }, "b": { "loop": -1, "lock": "m", "run": 3000, "unlock": "m" },
        "c": { "loop": -1, "lock": "m", "run": 200, "unlock": "m", "sleep": 100 } } }"#;

    fn ask(session: &mut Session, request: &Value, bytes: &[u8]) -> (Value, Vec<u8>) {
        let answer = session.answer(&message::compose(&request.to_string(), bytes), &mut |_, _| ());
        let (text, bytes) = message::split(&answer).unwrap();
        (serde_json::from_str(text).unwrap(), bytes.to_vec())
    }

    fn run(timeline: bool) -> Value {
        json!({
            "op": "run", "scheduler": "kernel", "machine": "pu:1", "workload": "./a.json", "seed": 1, "for": "100ms",
            "files": [["./a.json", LOAD.len()]], "timeline": timeline,
        })
    }

    #[test]
    fn wait_of_the_last_run_is_explained_without_another_simulation() {
        let mut session = Session::default();
        let (answer, timeline) = ask(&mut session, &run(true), LOAD);
        assert_eq!(answer["run"]["outcome"], "completed", "{answer}");
        assert!(answer["frame"].as_str().unwrap().contains("<canvas") && timeline.len() > 100);
        let tasks = answer["run"]["tasks"].as_array().unwrap();
        let id = tasks.iter().find(|task| task["name"] == "a").unwrap()["id"].clone();
        let explain = |session: &mut Session, at: u64| {
            let (answer, _) = ask(session, &json!({ "op": "explain", "task": id, "at_ns": at }), &[]);
            answer["text"].as_str().unwrap().to_owned()
        };
        let texts: Vec<String> = (0..100).map(|ms| explain(&mut session, ms * 1_000_000 + 500_000)).collect();
        assert!(texts.iter().any(|text| text.contains("waited") && text.contains("for a CPU")), "{texts:?}");
        assert!(texts.iter().any(|text| text.contains("did not wait")), "{texts:?}");
    }

    #[test]
    fn run_is_the_same_with_and_without_a_timeline_and_in_any_session() {
        let mut session = Session::default();
        let first = ask(&mut session, &run(true), LOAD).0["run"].clone();
        assert_eq!(ask(&mut session, &run(false), LOAD), (json!({ "run": first, "fine": true }), Vec::new()));
        assert_eq!(ask(&mut Session::default(), &run(false), LOAD).0["run"], first);
    }

    #[test]
    fn progress_reaches_the_end_of_the_run() {
        let (mut last, request) = (Nanos::ZERO, message::compose(&run(false).to_string(), LOAD));
        Session::default().answer(&request, &mut |now, end| {
            assert_eq!(end, Some(Nanos::from_ms(100)));
            last = now;
        });
        assert!(last > Nanos::from_ms(50), "{last}");
    }

    #[test]
    fn report_has_a_verdict_and_the_sections_of_a_page() {
        let run = ask(&mut Session::default(), &run(false), LOAD).0["run"].clone();
        let (answer, _) = ask(&mut Session::default(), &json!({ "op": "report", "runs": [run] }), &[]);
        assert!(answer["verdict"].as_str().unwrap().starts_with("kernel: CPUs ran tasks "), "{answer}");
        assert!(answer["html"].as_str().unwrap().contains("data-key=\"wakeup_latency_ns.p99\""));
    }

    #[test]
    fn bad_requests_are_answered_with_an_error_that_names_the_place() {
        let mut changed = run(false);
        changed["machine"] = json!("laptop");
        let mut short = run(false);
        short["for"] = json!("0s");
        let mut policy = run(false);
        policy["scheduler"] = json!("bfs");
        let mut without = run(false);
        without["without"] = json!(["heat"]);
        for (request, bytes, expected) in [
            (json!({ "op": "fly" }), &b""[..], "request: unknown variant `fly`"),
            (json!({ "op": "explain", "task": 0, "at_ns": 5 }), b"", "explain: there was no run with a timeline"),
            (json!({ "op": "report", "runs": [] }), b"", "runs: expected at least one run"),
            (changed, LOAD, "laptop: no such machine preset"),
            (short, LOAD, "for: 0s; expected a time above 0"),
            (policy, LOAD, "no scheduler \"bfs\": there is no bfs.bpf.o"),
            (without, LOAD, "without: unknown effect \"heat\""),
            (run(false), b"{", "./a.json: "),
        ] {
            let (answer, _) = ask(&mut Session::default(), &request, bytes);
            let error = answer["error"].as_str().unwrap_or_default();
            assert!(error.starts_with(expected), "{expected}: {answer}");
        }
    }
}
