// SPDX-License-Identifier: GPL-2.0-only
//! `weir explain`: explains why tasks of a saved run waited, its critical path, and why its scheduler was ejected.

use crate::args::{Explain, Format, Waits};
use crate::output;
use crate::saved::{OneRun, Saved};
use anyhow::{Result, bail};
use explanation::{
    RunContext, Source, blocked_json, blocked_text, chain_json, chain_text, ejection_json, ejection_text, idle_json,
    idle_text, task_name, wait_json, wait_sentence, wait_text, worst_waits,
};
use ids::TaskId;
use report::{Outcome, wrap};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use timeline::{Account, Blocked, Timeline};

/// Number of waits explained if the command line selects nothing.
const SOME_WAITS: u64 = 3;
/// Number of waits for locks explained if the command line selects nothing.
const SOME_BLOCKED: u64 = 2;

/// Selected sections of an explanation.
#[derive(Clone, Copy, Default, Debug)]
struct Parts {
    worst: u64,
    /// Number of waits for other tasks.
    blocked: u64,
    /// Only waits for locks among them.
    locks_only: bool,
    /// Why CPUs were idle while tasks waited.
    idle: bool,
    chain: bool,
    ejection: bool,
}

/// Prints the explanation.
pub fn explain(args: &Explain) -> Result<()> {
    if args.format == Format::Csv {
        bail!("--format csv: explanations have no tabular form; expected text or json");
    }
    let saved = Saved::open(&args.file)?;
    let (number, among) = saved.choose(&args.which)?;
    let run = &saved.runs[number];
    let parts = parts(args, run)?;
    let mut recorder = saved.recorder(number)?;
    let object = saved.tell(number, &mut recorder)?;
    let timeline = run.timeline(recorder);
    let source = object.as_ref().map(Source::of).unwrap_or_default();
    let story = RunContext { timeline: &timeline, source: &source };
    let text = match args.format {
        Format::Json => {
            let mut document = json!({ "weir": 1, "run": run.tags });
            let told = document.as_object_mut().expect("built as an object");
            told.extend(to_json(&story, args, parts, run)?);
            format!("{document:#}\n")
        }
        _ => wrap("", &title(run, among)) + "\n\n" + &to_text(&story, args, parts, run)?,
    };
    output::print(&text)?;
    Ok(())
}

/// Title that identifies the run, and mentions that the file has others.
fn title(run: &OneRun, among: usize) -> String {
    match (among, run.tags.draw) {
        (1, _) => run.name(),
        (_, Some(1..)) => format!("{} (of {among} runs: --seed and --draw pick another)", run.name()),
        _ => format!("{} (of {among}: --seed picks another)", run.name()),
    }
}

/// Sections that the command line selects, or the most important ones.
fn parts(args: &Explain, run: &OneRun) -> Result<Parts> {
    let ejected = run.outcome == Outcome::Ejected;
    if args.ejection && !ejected {
        bail!("--ejection: {}: the scheduler was not ejected", run.name());
    }
    let asked = args.worst.is_some() || args.blocked.is_some() || args.chain || args.ejection || args.task.is_some();
    Ok(match asked {
        true => Parts {
            worst: args.worst.unwrap_or(0),
            blocked: args.blocked.unwrap_or(0),
            chain: args.chain,
            ejection: args.ejection,
            ..Parts::default()
        },
        false if ejected => Parts { ejection: true, ..Parts::default() },
        false => {
            let some = Parts { worst: SOME_WAITS, blocked: SOME_BLOCKED, locks_only: true, ..Parts::default() };
            Parts { idle: true, chain: true, ..some }
        }
    })
}

/// Explanation of an ejection for the HTML page; `None` if the scheduler was not ejected.
pub fn ejection_for_page(story: &RunContext<'_>, run: &OneRun) -> Option<String> {
    (run.outcome == Outcome::Ejected).then(|| ejection_text(story, &run.exit, false))
}

fn to_text(story: &RunContext<'_>, args: &Explain, parts: Parts, run: &OneRun) -> Result<String> {
    let mut sections = Vec::new();
    if let Some(task) = &args.task {
        sections.push(match one_wait(story, task, args)? {
            Chosen::ForCpu(account) => wait_text(story, &account, args.at),
            Chosen::ForTask(blocked) => blocked_text(story, &story.timeline.blocked_account(blocked)),
        });
    }
    if parts.ejection {
        sections.push(ejection_text(story, &run.exit, args.ejection));
    }
    if parts.worst > 0 {
        let accounts = worst(story.timeline, parts.worst, args.waits);
        if accounts.is_empty() {
            sections.push("no task of the workload waited for a CPU\n".to_owned());
        } else {
            let mut text = String::new();
            for (number, account) in (1..).zip(&accounts) {
                let _ = writeln!(text, "{}", wrap("", &format!("{number}. {}", wait_sentence(story, account))));
            }
            sections.push(text);
            sections.extend((1..).zip(&accounts).map(|(number, account)| {
                let text = wait_text(story, account, None);
                format!("--- {number} ---\n{text}")
            }));
        }
    }
    if parts.blocked > 0 {
        let waits = story.timeline.longest_blocked(parts.blocked as usize, !parts.locks_only);
        if waits.is_empty() && !parts.locks_only {
            sections.push("no task of the workload waited for another one\n".to_owned());
        }
        sections.extend(waits.into_iter().map(|wait| blocked_text(story, &story.timeline.blocked_account(wait))));
    }
    if parts.idle {
        sections.extend(idle_text(story));
    }
    if parts.chain {
        sections.push(chain_text(story, &story.timeline.chain(None)));
    }
    Ok(sections.join("\n"))
}

fn to_json(story: &RunContext<'_>, args: &Explain, parts: Parts, run: &OneRun) -> Result<Map<String, Value>> {
    let mut told = Map::new();
    if let Some(task) = &args.task {
        let (key, value) = match one_wait(story, task, args)? {
            Chosen::ForCpu(account) => ("wait", wait_json(story, &account, args.at)),
            Chosen::ForTask(blocked) => ("blocked", blocked_json(story, &story.timeline.blocked_account(blocked))),
        };
        told.insert(key.to_owned(), value);
    }
    if parts.ejection {
        told.insert("ejection".to_owned(), ejection_json(story, &run.exit));
    }
    if parts.worst > 0 {
        let accounts = worst(story.timeline, parts.worst, args.waits);
        told.insert("waits".to_owned(), accounts.iter().map(|account| wait_json(story, account, None)).collect());
    }
    if parts.blocked > 0 {
        let waits = story.timeline.longest_blocked(parts.blocked as usize, !parts.locks_only).into_iter();
        let waits = waits.map(|wait| blocked_json(story, &story.timeline.blocked_account(wait)));
        told.insert("blocked".to_owned(), waits.collect());
    }
    if parts.idle {
        told.insert("idle_while_runnable".to_owned(), idle_json(story));
    }
    if parts.chain {
        told.insert("chain".to_owned(), chain_json(story, &story.timeline.chain(None)));
    }
    Ok(told)
}

/// The longest waits of workload tasks.
fn worst(timeline: &Timeline, count: u64, waits: Waits) -> Vec<Account> {
    worst_waits(timeline, count as usize, |wait| match waits {
        Waits::All => true,
        Waits::Wakeup => wait.is_wakeup(),
        Waits::Lost => !wait.is_wakeup(),
    })
}

/// The wait that `--task` and `--at` select.
enum Chosen {
    ForCpu(Account),
    ForTask(Blocked),
}

/// The wait selected by `--task` and `--at`: for a CPU or, if the task has a longer one, for a lock.
fn one_wait(story: &RunContext<'_>, wanted: &str, args: &Explain) -> Result<Chosen> {
    let timeline = story.timeline;
    let task = find_task(story, wanted)?;
    let name = task_name(story, task);
    let Some(at) = args.at else {
        let longest = timeline.waits_of(task).max_by_key(|wait| (wait.length(), std::cmp::Reverse(wait.from)));
        let locks = timeline.blocked_of(task).filter(|wait| wait.lock);
        let blocked = locks.max_by_key(|wait| (wait.length(), std::cmp::Reverse(wait.from)));
        return match (longest, blocked) {
            (Some(longest), Some(blocked)) if blocked.length() > longest.length() => Ok(Chosen::ForTask(blocked)),
            (Some(longest), _) => Ok(Chosen::ForCpu(timeline.account(longest))),
            (None, Some(blocked)) => Ok(Chosen::ForTask(blocked)),
            (None, None) => bail!("--task {wanted}: {name} never waited for a CPU or a lock"),
        };
    };
    let life = timeline.task(task);
    let Some(phase) = life.phase_at(at).filter(|_| at <= timeline.end) else {
        let ended = life.ended.map_or(timeline.end, |ended| ended);
        bail!("--at {}: {name} lived from {} to {}", at.exact(), life.created.exact(), ended.exact());
    };
    let Some(wait) = timeline.wait(task, phase) else {
        if let Some(blocked) = timeline.blocked_of(task).find(|wait| wait.from <= at && at <= wait.to) {
            return Ok(Chosen::ForTask(blocked));
        }
        let phase = life.phases[phase];
        let did = match phase.activity {
            timeline::Activity::Runs { cpu } => format!("ran on CPU {cpu}"),
            _ => "slept".to_owned(),
        };
        let before = timeline.waits_of(task).take_while(|wait| wait.from <= at).last();
        let after = timeline.waits_of(task).find(|wait| wait.from > at);
        let near = before.into_iter().chain(after).map(|wait| format!("{} to {}", wait.from.exact(), wait.to.exact()));
        let near = near.collect::<Vec<_>>().join(" and ");
        let near =
            if near.is_empty() { "it never waited for a CPU".to_owned() } else { format!("it waited from {near}") };
        bail!("--at {}: {name} {did} from {} to {}; {near}", at.exact(), phase.from.exact(), phase.to.exact());
    };
    Ok(Chosen::ForCpu(timeline.account(wait)))
}

/// Finds a task by PID or name.
fn find_task(story: &RunContext<'_>, wanted: &str) -> Result<TaskId> {
    let tasks = || (0..).map(TaskId).zip(&story.timeline.tasks);
    let named: Vec<TaskId> = match wanted.parse::<u32>() {
        Ok(pid) => tasks().filter(|(_, task)| task.info.pid == pid).map(|(id, _)| id).collect(),
        Err(_) => tasks()
            .filter(|(id, task)| task.info.name == wanted || task_name(story, *id) == wanted)
            .map(|(id, _)| id)
            .collect(),
    };
    const SHOWN: usize = 6;
    let list = |ids: &mut dyn Iterator<Item = TaskId>| {
        ids.take(SHOWN).map(|id| task_name(story, id)).collect::<Vec<_>>().join(", ")
    };
    match named.as_slice() {
        [one] => Ok(*one),
        [] => {
            let mut all: Vec<(usize, TaskId)> =
                tasks().map(|(id, task)| (strsim::damerau_levenshtein(wanted, &task.info.name), id)).collect();
            all.sort_unstable();
            bail!(
                "--task: no task named {wanted:?}; the closest names are {}, …",
                list(&mut all.into_iter().map(|(_, id)| id))
            )
        }
        several => {
            let more = if several.len() > SHOWN { ", …" } else { "" };
            bail!(
                "--task {wanted}: {} tasks have this name: {}{more}; expected the PID of one",
                several.len(),
                list(&mut several.iter().copied())
            )
        }
    }
}
