// SPDX-License-Identifier: GPL-2.0-only
//! Kernel events through tracefs, as text: switches, wakeups, timers.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

const TRACEFS: &str = "/sys/kernel/tracing";

/// Trace clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// CLOCK_MONOTONIC, to a microsecond.
    Monotonic,
    /// TSC; cycles are printed as seconds.
    Processor,
}

/// Buffer size per CPU in KiB.
const BUFFER_KIB: &str = "65536";

/// One event.
#[derive(Clone, PartialEq, Debug)]
pub struct Line<'a> {
    pub cpu: usize,
    /// Microseconds of the trace clock; for the TSC, a million times the cycles.
    pub time_us: f64,
    pub event: &'a str,
    /// Details after the event name: `key=value` words.
    pub details: &'a str,
}

impl<'a> Line<'a> {
    /// Parses a line; `None` for a comment.
    pub fn parse(text: &'a str) -> Option<Line<'a>> {
        // `comm-pid [cpu] flags seconds.micros: event: details`, where a comm may contain anything but "] ".
        let (before, rest) = text.split_once("] ").filter(|_| !text.starts_with('#'))?;
        let cpu = before.rsplit('[').next()?.parse().ok()?;
        let mut words = rest.splitn(2, ": ");
        let (head, tail) = (words.next()?, words.next()?);
        let time: f64 = head.split_whitespace().last()?.parse().ok()?;
        let (event, details) = tail.split_once(':')?;
        Some(Line { cpu, time_us: time * 1e6, event, details: details.trim() })
    }

    /// Returns the value of a key. Values with spaces, such as task names, end before the next key.
    pub fn value(&self, key: &str) -> Option<&'a str> {
        let begin = format!("{key}=");
        let at = if self.details.starts_with(&begin) { 0 } else { self.details.find(&format!(" {begin}"))? + 1 };
        let rest = &self.details[at + begin.len()..];
        let end = rest.find('=').map_or(rest.len(), |next| rest[..next].rfind(' ').unwrap_or(next));
        Some(rest[..end].trim().trim_end_matches(" ==>"))
    }

    /// Returns the value as a number.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.value(key)?.parse().ok()
    }
}

/// Traces these events while `what` runs. Returns the text; lost events are an error.
pub fn during<T>(events: &[&str], clock: Clock, what: impl FnOnce() -> Result<T>) -> Result<(String, T)> {
    if !Path::new(TRACEFS).join("tracing_on").exists() {
        let status = Command::new("mount").args(["-t", "tracefs", "nodev", TRACEFS]).status()?;
        ensure!(status.success(), "cannot mount tracefs");
    }
    let set = |file: &str, value: &str| -> Result<()> {
        fs::write(Path::new(TRACEFS).join(file), value).with_context(|| format!("{TRACEFS}/{file}"))
    };
    set("tracing_on", "0")?;
    set("trace", "")?;
    set("trace_clock", if clock == Clock::Monotonic { "mono" } else { "x86-tsc" })?;
    set("buffer_size_kb", BUFFER_KIB)?;
    events.iter().try_for_each(|event| set(&format!("events/{event}/enable"), "1"))?;
    set("tracing_on", "1")?;
    let result = what();
    set("tracing_on", "0")?;
    set("events/enable", "0")?;
    let text = fs::read_to_string(Path::new(TRACEFS).join("trace"))?;
    set("trace", "")?;
    set("buffer_size_kb", "1408")?;
    let counts = text.lines().find_map(|line| line.strip_prefix("# entries-in-buffer/entries-written: "));
    let (kept, written) =
        counts.and_then(|counts| counts.split_whitespace().next()?.split_once('/')).unwrap_or_default();
    ensure!(kept == written && !kept.is_empty(), "events were lost: {kept} of {written} are left");
    Ok((text, result?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_lines_are_parsed() {
        let text = "    memfd:se ld-9 [001] d..2.  2112.947338: sched_switch: prev_comm=a b prev_pid=18 prev_prio=0 \
                    prev_state=R+ ==> next_comm=swapper/0 next_pid=0 next_prio=120";
        let line = Line::parse(text).unwrap();
        assert_eq!((line.cpu, line.event), (1, "sched_switch"));
        assert!((line.time_us - 2_112_947_338.0).abs() < 0.5);
        assert_eq!((line.value("prev_comm"), line.number("prev_pid")), (Some("a b"), Some(18)));
        assert_eq!((line.value("prev_state"), line.value("next_comm")), (Some("R+"), Some("swapper/0")));
        assert_eq!((line.number("next_prio"), line.value("x")), (Some(120), None));
        assert_eq!(Line::parse("# tracer: nop"), None);
    }
}
