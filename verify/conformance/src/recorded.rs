// SPDX-License-Identifier: GPL-2.0-only
//! Records as text, one call per line: the form kept in the repository, and readable.

use crate::record::{Call, Exit, Record, Run};
use anyhow::{Context, Result, anyhow};
use std::fmt::Write as _;

/// Columns of a call.
const COLUMNS: &str = "op cpu task a b task_cpu result verdict flags slice time_ns";

/// Formats a record as text.
pub fn write(record: &Record) -> String {
    let mut text = format!("scenario {}\nworld {}\nkernel {}\n", record.scenario, record.world, record.kernel);
    let mut line = |what: std::fmt::Arguments<'_>| {
        text.write_fmt(what).expect("a string takes all");
        text.push('\n');
    };
    for run in &record.runs {
        line(format_args!("play: {COLUMNS}"));
        for call in &run.calls {
            let Call { op, cpu, task, a, b, task_cpu, result, verdict, flags, slice, time_ns } = call;
            let (task, slice) = (if task.is_empty() { "-" } else { task }, u8::from(*slice));
            let arguments = format_args!("{a:x} {b:x} {task_cpu} {result} {verdict:x} {flags:x} {slice}");
            line(format_args!("{op} {cpu} {task} {arguments} {time_ns}"));
        }
        run.disturbed.iter().for_each(|what| line(format_args!("disturbed {what}")));
        if let Some(refused) = &run.refused {
            line(format_args!("refused {refused}"));
        }
        if let Some(Exit { kind, code, reason, message }) = &run.exit {
            line(format_args!("ended {kind} {code} {reason}: {message}"));
        }
    }
    text
}

/// Parses the text of [`write`].
pub fn read(text: &str) -> Result<Record> {
    let mut record = Record { scenario: String::new(), world: String::new(), kernel: String::new(), runs: Vec::new() };
    for (line, number) in text.lines().zip(1..) {
        let at = || format!("line {number}: {line:?}");
        let (word, rest) = line.split_once(' ').ok_or_else(|| anyhow!("{}: expected two words", at()))?;
        match word {
            "scenario" => record.scenario = rest.to_owned(),
            "world" => record.world = rest.to_owned(),
            "kernel" => record.kernel = rest.to_owned(),
            "play:" => record.runs.push(Run::default()),
            _ => read_line(record.runs.last_mut().with_context(at)?, word, rest).with_context(at)?,
        }
    }
    Ok(record)
}

fn read_line(run: &mut Run, word: &str, rest: &str) -> Result<()> {
    match word {
        "disturbed" => run.disturbed.push(rest.to_owned()),
        "refused" => run.refused = Some(rest.to_owned()),
        "ended" => run.exit = Some(exit(rest).context("expected kind, code, reason: message")?),
        op => run.calls.push(call(op, rest).context("expected the columns of a call")?),
    }
    Ok(())
}

fn exit(text: &str) -> Option<Exit> {
    let (numbers, message) = text.split_once(": ").or_else(|| Some((text.strip_suffix(':')?, "")))?;
    let mut words = numbers.splitn(3, ' ');
    Some(Exit {
        kind: words.next()?.parse().ok()?,
        code: words.next()?.parse().ok()?,
        reason: words.next()?.to_owned(),
        message: message.to_owned(),
    })
}

fn call(op: &str, text: &str) -> Option<Call> {
    let mut words = text.split(' ');
    let mut word = || words.next();
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(Call {
        op: op.to_owned(),
        cpu: word()?.parse().ok()?,
        task: Some(word()?).filter(|name| *name != "-").unwrap_or_default().to_owned(),
        a: hex(word()?)?,
        b: hex(word()?)?,
        task_cpu: word()?.parse().ok()?,
        result: word()?.parse().ok()?,
        verdict: hex(word()?)?,
        flags: hex(word()?)? as u32,
        slice: word()? == "1",
        time_ns: word()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_scenario_round_trips() {
        let call = Call {
            op: "select_cpu".into(),
            cpu: 1,
            task: "w_a".into(),
            a: u64::MAX,
            b: 8,
            task_cpu: -1,
            result: -3,
            verdict: 1 << 63,
            flags: 0x401,
            slice: true,
            time_ns: 1_000_000_007,
        };
        let exit = Exit { kind: 1024, code: -5, reason: "runtime error".into(), message: "a: b".into() };
        let silent = Exit { message: String::new(), ..exit.clone() };
        let run = Run {
            exit: Some(exit),
            calls: vec![call, Call { op: "init".into(), ..Call::default() }],
            ..Run::default()
        };
        let refused = Run { refused: Some("no".into()), exit: Some(silent), ..Run::default() };
        let disturbed = vec!["a thread came".to_owned()];
        let disturbed = Run { disturbed, ..Run::default() };
        let record = Record {
            scenario: "s".into(),
            world: "kernel".into(),
            kernel: "7.2".into(),
            runs: vec![run, refused, disturbed],
        };
        assert_eq!(read(&write(&record)).unwrap(), record);
    }

    #[test]
    fn malformed_text_is_refused_with_its_line() {
        for text in ["scenario", "tick 1", "play: x\ntick 1 w", "play: x\nexit 1"] {
            assert!(read(text).unwrap_err().to_string().contains("line"), "{text}");
        }
    }
}
