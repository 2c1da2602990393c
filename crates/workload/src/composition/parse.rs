// SPDX-License-Identifier: GPL-2.0-only
//! Parser of `[LABEL=]WHAT{,key=value}`, joined by `+`. A literal `+`, `,` or `=` is escaped by a backslash.

use super::{Changes, MAX_COUNT};
use crate::WorkloadError;
use crate::groups::{MOST_CAP_PERCENT, MOST_WEIGHT, check_path};
use crate::memory::MemoryUse;
use crate::requests::{ArrivalsChange, RequestChanges};
use ids::{Nanos, Policy};

/// Specification of a part.
#[derive(Clone, PartialEq, Debug)]
pub struct PartSpec {
    /// Original text.
    pub text: String,
    /// Explicit label, if any.
    pub label: Option<String>,
    /// Name or path of a workload.
    pub what: String,
    pub(crate) changes: Changes,
    /// Original text of the keys.
    keys: String,
}

const KEYS: &str = "jobs=N, load=PERCENT, nice=N, policy=P, cpus=LIST, uid=N, group=PATH, weight=N, cap=PERCENT, \
                    hard-cap=PERCENT, process=NAME, \
                    memory=CLASS, footprint=SIZE, dirty=PERCENT, stream=MB/S, memory-share=PERCENT, region=NAME, \
                    placement=WHERE, rate=N, service=TIME, draw=HOW, arrivals=HOW, \
                    warmup=TIME, workers=N, start=TIME, count=N or slow=TASK:FACTOR";

/// Maximum value of `load`.
const MAX_LOAD: u32 = 100_000;

impl PartSpec {
    /// Parses `PART{+PART}`.
    ///
    /// # Errors
    /// Names the part and what was expected.
    pub fn parse_all(text: &str) -> Result<Vec<PartSpec>, WorkloadError> {
        let parse = |part: &str| {
            PartSpec::parse(part).map_err(|problem| WorkloadError { place: format!("workload {part:?}"), problem })
        };
        split(text, '+').into_iter().map(parse).collect()
    }

    fn parse(text: &str) -> Result<PartSpec, String> {
        let mut pieces = split(text, ',').into_iter();
        let head = pieces.next().unwrap_or_default();
        let (label, what) = match &split(head, '=')[..] {
            [what] => (None, unescape(what)),
            [label, what] => (Some(unescape(label)), unescape(what)),
            _ => return Err(r"more than one =; expected [LABEL=]NAME (write \= for a literal =)".into()),
        };
        if what.is_empty() || label.as_ref().is_some_and(|label| label.is_empty() || label.contains('/')) {
            return Err("expected [LABEL=]NAME or [LABEL=]FILE, and no / in a label".into());
        }
        let mut changes = Changes::default();
        let keys = text[head.len()..].to_owned();
        for piece in pieces {
            let [key, value] = split(piece, '=')[..] else { return Err(format!("{piece:?}; expected {KEYS}")) };
            changes.set(key, &unescape(value))?;
        }
        if changes.jobs.is_some() && changes.load.is_some() {
            return Err("jobs and load exclude each other; expected one of them".into());
        }
        if changes.cap.is_some() && changes.group.is_none() {
            return Err("a cap needs group=PATH, the group to be limited".into());
        }
        if changes.weight.is_some() && changes.group.is_none() {
            return Err("weight needs group=PATH, the group of this weight".into());
        }
        Ok(PartSpec { text: text.to_owned(), label, what, changes, keys })
    }

    /// Sets the number of CPUs, of which `load` is a percentage; gives at least one job.
    pub fn set_cpus(&mut self, cpus: u32) {
        if let Some(percent) = self.changes.load {
            let jobs = (u64::from(percent) * u64::from(cpus)).div_ceil(100).max(1);
            self.changes.jobs = Some(jobs as u32);
        }
    }

    /// Path of the file with the times of arrivals, if one is to be read ([`PartSpec::set_arrivals`]).
    pub fn arrivals_file(&self) -> Option<&str> {
        match &self.changes.requests.arrivals {
            Some(ArrivalsChange::File(path)) => Some(path),
            _ => None,
        }
    }

    /// Sets the times of arrivals, which were read from the file.
    pub fn set_arrivals(&mut self, times: Vec<Nanos>) {
        self.changes.requests.arrivals = Some(ArrivalsChange::Times(times));
    }

    /// Name of the part in titles, given the name of its workload.
    pub(crate) fn name_of(&self, workload: &str) -> String {
        let label = self.label.as_ref().map_or(String::new(), |label| format!("{label}="));
        format!("{label}{workload}{}", self.keys)
    }
}

impl Changes {
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let expected = |what: &str| format!("{key}={value}; expected {key}={what}");
        let number = |most: u32| value.parse().ok().filter(|number| (1..=most).contains(number));
        match key {
            "jobs" => self.jobs = Some(number(u32::MAX).ok_or_else(|| expected("NUMBER, 1 or more"))?),
            "load" => {
                let percent = number(MAX_LOAD).ok_or_else(|| expected("PERCENT of the machine's CPUs, such as 150"))?;
                self.load = Some(percent);
            }
            "nice" => {
                let nice = value.parse().ok().filter(|nice| (-39..=39).contains(nice));
                self.nice = nice.ok_or_else(|| expected("NUMBER, added to the nice value of its tasks"))?;
            }
            "policy" => {
                let policy = policy(value).ok_or_else(|| expected("other, batch, idle, fifo:1..99 or rr:1..99"))?;
                self.policy = Some(policy);
            }
            "cpus" => {
                let cpus = value.parse().map_err(|_| expected(r"LIST, such as 0-3 or 0\,2"))?;
                self.cpus = Some(cpus);
            }
            "start" => self.start = value.parse().map_err(|_| expected("TIME, such as 2s"))?,
            "count" => {
                let count = number(MAX_COUNT).ok_or_else(|| expected(&format!("NUMBER, 1 to {MAX_COUNT}")))?;
                self.count = Some(count);
            }
            "slow" => {
                let slow = value.rsplit_once(':').and_then(|(task, factor)| Some((task, thousandths(factor)?)));
                let (task, factor) = slow.ok_or_else(|| expected("TASK:FACTOR, such as cc1:1.5"))?;
                self.slow.push((task.to_owned(), factor));
            }
            "uid" => {
                let uid = value.parse().ok().filter(|uid| *uid < u32::MAX);
                self.uid = Some(uid.ok_or_else(|| expected("UID, the number of a user"))?);
            }
            "group" => {
                check_path(value).map_err(|_| expected("PATH, such as /a or /a/x"))?;
                self.group = Some(value.to_owned());
            }
            "process" if value.is_empty() => return Err(expected("NAME of a process")),
            "process" => self.process = Some(value.to_owned()),
            "cap" | "hard-cap" if self.cap.is_some() => {
                return Err("cap and hard-cap given, or one of them twice; expected one".into());
            }
            "cap" | "hard-cap" => {
                self.cap_is_hard = key == "hard-cap";
                let percent = value.parse().ok().filter(|percent| *percent <= MOST_CAP_PERCENT);
                let percent = percent.filter(|percent| *percent > 0 || !self.cap_is_hard);
                self.cap = Some(percent.ok_or_else(|| expected("PERCENT of one CPU, such as 50"))?);
            }
            "weight" => {
                let weight = number(MOST_WEIGHT).ok_or_else(|| expected(&format!("NUMBER, 1 to {MOST_WEIGHT}")))?;
                self.weight = Some(weight);
            }
            key if MemoryUse::KEYS.contains(&key) => {
                let memory = self.memory.get_or_insert_default();
                memory.set(key, value).map_err(|what| expected(&what))?;
            }
            key if RequestChanges::KEYS.contains(&key) => {
                self.requests.set(key, value).map_err(|what| expected(&what))?;
            }
            _ => return Err(format!("unknown key {key:?}; expected {KEYS}")),
        }
        Ok(())
    }
}

fn policy(text: &str) -> Option<Policy> {
    let priority = |text: &str| text.parse().ok().filter(|priority| (1..=99).contains(priority));
    Some(match text.split_once(':') {
        None if text == "other" => Policy::Other,
        None if text == "batch" => Policy::Batch,
        None if text == "idle" => Policy::Idle,
        Some(("fifo", text)) => Policy::Fifo(priority(text)?),
        Some(("rr", text)) => Policy::RoundRobin(priority(text)?),
        _ => return None,
    })
}

/// Parses a factor from 0.001 to 1000 with at most three decimals, in thousandths.
fn thousandths(text: &str) -> Option<u64> {
    let (whole, places) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || places.len() > 3 || !is_number(whole) || !is_number(places) {
        return None;
    }
    let factor = format!("{whole}{places:0<3}").parse().ok()?;
    (1..=1_000_000).contains(&factor).then_some(factor)
}

/// Splits at separators that are not escaped.
fn split(text: &str, separator: char) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut begin, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        if c == separator && !escaped {
            pieces.push(&text[begin..at]);
            begin = at + c.len_utf8();
        }
        escaped = c == '\\' && !escaped;
    }
    pieces.push(&text[begin..]);
    pieces
}

/// Removes escaping backslashes.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match rest.peek() {
            Some('+' | ',' | '=' | '\\') if c == '\\' => plain.extend(rest.next()),
            _ => plain.push(c),
        }
    }
    plain
}
