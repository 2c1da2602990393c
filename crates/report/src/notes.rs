// SPDX-License-Identifier: GPL-2.0-only
//! Notes in addition to the numbers: runs that ended abnormally, did different work, or were measured inaccurately.

use crate::numbers::{count, counted, percent, permille, wrap};
use crate::setups::Setup;
use crate::{Called, Ending, Exit, Meter, Record, Violation, Violations};
use ids::Nanos;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Share of a run with idle CPUs while tasks wait from which a warning is given: 10 %. All shipped policies stay
/// below 1 % on their workloads.
const IDLE_PERMILLE: u64 = 100;

/// Note that the work will never be done.
pub(crate) fn deadlock(elapsed: Nanos) -> String {
    format!("DEADLOCK after {elapsed}: the remaining tasks wait for each other forever")
}

/// Outcome of a run, in one line.
pub(crate) fn outcome(run: &Record) -> String {
    let elapsed = Nanos(run.value("elapsed_ns").unwrap_or(0));
    match (run.value("makespan_ns"), &run.ending.ejected) {
        (_, Some(_)) => format!("EJECTED after {elapsed}"),
        (Some(makespan), None) => format!("completed: all work done after {}", Nanos(makespan)),
        (None, None) if run.ending.deadlocked => deadlock(elapsed),
        (None, None) => format!("completed: ran for {elapsed}"),
    }
}

/// The kernel's messages on the exit of the scheduler.
pub(crate) fn ejection(exit: &Exit) -> Vec<String> {
    // The message usually quotes the fault.
    let fault = exit.fault.as_ref().filter(|fault| !exit.message.contains(*fault));
    let lines = [Some(&exit.reason), Some(&exit.message), fault].into_iter().flatten().flat_map(|part| part.lines());
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    let place = exit.place();
    if let Some(last) = lines.last_mut().filter(|_| !place.is_empty()) {
        let _ = write!(last, " (in {place})");
    }
    lines
}

/// These messages, indented below a line that names the scheduler.
pub(crate) fn indented(lines: &[String]) -> String {
    lines.iter().map(|line| wrap("  ", line) + "\n").collect()
}

/// Violated properties, and the worst violation of each.
fn broken(found: &Violations) -> Vec<String> {
    let properties: BTreeSet<&str> = found.first.iter().map(|violation| violation.property.as_str()).collect();
    let note = |property: &str| {
        let all: Vec<&Violation> = found.first.iter().filter(|violation| violation.property == property).collect();
        let worst = all.iter().max_by_key(|violation| violation.to_ns - violation.from_ns)?;
        let names = worst.names.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if worst.names.len() > 3 { ", …" } else { "" };
        let (from, lasted) = (Nanos(worst.from_ns), Nanos(worst.to_ns - worst.from_ns));
        let times = if all.len() == 1 { "once".to_owned() } else { format!("{} times", count(all.len() as u64)) };
        let how_long =
            if lasted == Nanos::ZERO { format!("at {from}") } else { format!("for {lasted} from {from} on") };
        Some(format!("BROKEN: {property}, {times}; at worst {how_long}: {names}{more}"))
    };
    properties.into_iter().filter_map(note).collect()
}

/// All notes on one run.
pub(crate) fn of_run(run: &Record) -> Vec<String> {
    let mut notes = refusals(&run.ending);
    notes.extend(run.ending.violations.iter().flat_map(broken));
    let not_seen = run.ending.violations.iter().flat_map(|found| &found.not_seen).map(String::as_str);
    let not_seen = not_seen.collect::<Vec<_>>().join(", ");
    if !not_seen.is_empty() {
        notes.push(format!("NOT SEEN: {not_seen}: this run had no situation in which it could be violated"));
    }
    let elapsed = run.value("elapsed_ns").unwrap_or(0);
    let idle = permille(run.value("idle_while_runnable_ns").unwrap_or(0), elapsed);
    if idle > IDLE_PERMILLE {
        notes.push(format!(
            "WARNING: for {} of the time some CPU idled while a task that was allowed there waited",
            percent(idle)
        ));
    }
    let mut reasons: Vec<&str> = run.doubtful.iter().map(|doubt| doubt.reason.as_str()).collect();
    reasons.dedup();
    notes.extend(reasons.into_iter().map(|reason| format!("WARNING: {reason}")));
    if let Some(meter) = &run.meter {
        notes.extend(measuring(meter, run.value("context_switches").unwrap_or(0)));
    }
    notes
}

/// Operations of the workload that failed: the run did different work.
fn refusals(ending: &Ending) -> Vec<String> {
    let all = [
        (ending.failed_forks, "fork", "failed: the scheduler refused new tasks"),
        (ending.refused_changes, "change", "of affinity, policy or nice value refused"),
        (ending.restarts, "restart", "of the scheduler: it exited and was attached again"),
    ];
    let happened = all.into_iter().filter(|(number, ..)| *number > 0);
    let mut notes: Vec<String> =
        happened.map(|(number, noun, what)| format!("{} {what}", counted(number, noun))).collect();
    notes.extend(ending.calls.iter().filter_map(uncalled));
    notes
}

/// Note on a planned call that was not made, or failed.
fn uncalled(Called { call, made_ns, returned }: &Called) -> Option<String> {
    match (made_ns, returned) {
        (Some(_), Some(0)) => None,
        (Some(made), Some(returned)) => Some(format!("CALL FAILED: {call} returned {returned} after {}", Nanos(*made))),
        _ => Some(format!("WARNING: {call} was not called: the run ended before")),
    }
}

/// Possible inaccuracies of a measured run.
fn measuring(meter: &Meter, switches: u64) -> Vec<String> {
    let mut notes = Vec::new();
    if meter.lost_events > 0 {
        let lost = counted(meter.lost_events, "event");
        let places = meter.lost_where.join("; ");
        let places = if places.is_empty() { places } else { format!(" ({places})") };
        notes
            .push(format!("{lost} lost{places}: counts are too low, and times may be accounted to the wrong category"));
    }
    // Up to one unseen event in a thousand switches changes the measures by less than two runs differ.
    if meter.unseen_switches.max(meter.unseen_wakeups) * 1000 > switches {
        let (hidden, wakeups) = (count(meter.unseen_switches), counted(meter.unseen_wakeups, "wakeup"));
        notes.push(format!(
            "the kernel did not report {hidden} switches and {wakeups}, of tasks that it hides from all probes: \
             they are inferred and counted, but these wakeups are missing from the latencies"
        ));
    }
    notes.extend(meter.failure.clone());
    if meter.unfinished_tasks > 0 {
        notes.push(format!("{} had not ended when the run was over", counted(meter.unfinished_tasks.into(), "task")));
    }
    notes.into_iter().map(|note| format!("WARNING: {note}")).collect()
}

/// A note on a setup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// A sentence.
    pub text: String,
    /// The kernel's messages, if any.
    pub quote: Vec<String>,
}

/// Notes on all runs of a setup: each kind of note once, with the first run that has it. Notes on the whole workload
/// are not repeated for its parts.
pub(crate) fn of_setup(setup: &Setup<'_>) -> Vec<Note> {
    if setup.is_part() {
        return Vec::new();
    }
    let mut notes = Vec::new();
    let who = &setup.name;
    let runs = setup.runs.len();
    // The runs that a note applies to, if there are several runs.
    let among = |some: &[&Record]| match (runs, some[0].tags.seed) {
        (1, _) => String::new(),
        _ if some.len() == runs => format!("in all {runs} runs "),
        (_, Some(seed)) => format!("in {} of {runs} runs, such as seed {seed}, ", some.len()),
        (_, None) => format!("in {} of {runs} runs ", some.len()),
    };
    let ejected: Vec<&Record> = setup.runs.iter().copied().filter(|run| run.ending.ejected.is_some()).collect();
    if let [first, ..] = ejected.as_slice() {
        let exit = first.ending.ejected.as_ref().expect("these runs were ejected");
        let elapsed = Nanos(first.value("elapsed_ns").unwrap_or(0));
        let text = format!("{who} was {}ejected after {elapsed}:", among(&ejected));
        notes.push(Note { text, quote: ejection(exit) });
    }
    let mut say = |text: String| notes.push(Note { text, quote: Vec::new() });
    let stuck: Vec<&Record> = setup.runs.iter().copied().filter(|run| run.ending.deadlocked).collect();
    if let [first, ..] = stuck.as_slice() {
        let elapsed = Nanos(first.value("elapsed_ns").unwrap_or(0));
        say(format!("{who}: {}{}", among(&stuck), deadlock(elapsed)));
    }
    // Notes that differ only in their numbers are of one kind.
    let kind = |note: &str| note.chars().filter(|c| !c.is_ascii_digit() && !",.".contains(*c)).collect::<String>();
    let mut kinds: Vec<(String, String, Vec<&Record>)> = Vec::new();
    for run in &setup.runs {
        for note in of_run(run) {
            match kinds.iter_mut().find(|(known, ..)| *known == kind(&note)) {
                Some((.., some)) => some.push(run),
                None => kinds.push((kind(&note), note, vec![run])),
            }
        }
    }
    kinds.into_iter().for_each(|(_, note, some)| say(format!("{who}: {}{note}", among(&some))));
    notes
}

/// The notes as text.
pub(crate) fn to_text(notes: &[Note]) -> String {
    notes.iter().map(|note| wrap("", &note.text) + "\n" + &indented(&note.quote)).collect()
}
