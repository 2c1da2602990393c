// SPDX-License-Identifier: GPL-2.0-only
//! Checks of a recording against facts about the recorded run.

use ids::Nanos;
use report::counted;
use workload::{RecordingMeta, Workload};

/// Beginning of a line of a recording's notes about a check that the recorder made and that failed.
pub const SELF_CHECK: &str = "self-check: ";

/// Deviation in percent up to which a time counts as that of the recorded run. Positions of actions are exact to a
/// tick, and costs that are subtracted are typical values.
const TOLERANCE_PERCENT: u64 = 2;

/// Failed checks of a recording, a sentence each, with the size of the deviation: events lost, dependencies that the
/// recorded run cannot have had, and what the recorder noted.
pub fn flaws(meta: &RecordingMeta, workload: &Workload) -> Vec<String> {
    let mut flaws = Vec::new();
    if meta.lost_events > 0 {
        let lost = counted(meta.lost_events, "event");
        flaws.push(format!("{lost} lost during recording: durations and wakers may be wrong"));
    }
    let noted = meta.notes.lines().filter_map(|line| line.strip_prefix(SELF_CHECK));
    flaws.extend(noted.map(str::to_owned));
    if meta.elapsed > Nanos::ZERO
        && let Ok(span) = workload.span(None, 1)
        && exceeds(span.span, meta.elapsed)
    {
        flaws.push(format!(
            "it takes {} on unlimited CPUs, but the recorded run took {} ({}): it contains waits that the run did not \
             have",
            span.span,
            meta.elapsed,
            deviation(span.span, meta.elapsed)
        ));
    }
    flaws
}

/// Compares a replay on the recorded machine with the recorded run; returns a sentence if they differ by more than
/// `percent`.
pub fn replay_flaw(replayed: Nanos, recorded: Nanos, percent: u64) -> Option<String> {
    let difference = replayed.0.abs_diff(recorded.0);
    (u128::from(difference) * 100 > u128::from(recorded.0) * u128::from(percent)).then(|| {
        format!(
            "a simulated replay on the recorded machine takes {replayed}, the recorded run took {recorded} ({}): other \
             programs used its CPUs, or the recording lacks a cause",
            deviation(replayed, recorded)
        )
    })
}

fn exceeds(time: Nanos, limit: Nanos) -> bool {
    u128::from(time.0) * 100 > u128::from(limit.0) * u128::from(100 + TOLERANCE_PERCENT)
}

/// Deviation of a time from a reference, such as `+34.7 %`.
fn deviation(time: Nanos, reference: Nanos) -> String {
    let permille = i128::from(time.0) * 1000 / i128::from(reference.0.max(1)) - 1000;
    let sign = if permille < 0 { '-' } else { '+' };
    format!("{sign}{}.{} %", permille.abs() / 10, permille.abs() % 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::{Op, SignalId, Sleep, Start, TaskSpec};

    fn task(script: Vec<Op>) -> TaskSpec {
        TaskSpec {
            name: "t".into(),
            command: None,
            start: Start::At(Nanos::ZERO),
            policy: ids::Policy::Other,
            nice: 0,
            cpus: None,
            peak_rss_bytes: 0,
            who: workload::Who::default(),
            window: None,
            lends: None,
            memory: None,
            script,
        }
    }

    /// Two tasks of 30 ms that ran side by side in 40 ms; a dependency between them makes them take 60 ms.
    #[test]
    fn span_longer_than_the_recorded_run_is_reported_with_its_deviation() {
        let work = Op::Work { user: Nanos::from_ms(30), system: Nanos::ZERO };
        let meta = RecordingMeta { elapsed: Nanos::from_ms(40), ..RecordingMeta::default() };
        let free = Workload { tasks: vec![task(vec![work.clone()]), task(vec![work.clone()])], ..Workload::default() };
        assert_eq!(flaws(&meta, &free), [""; 0]);
        let (posts, awaits) = (vec![work.clone(), Op::Post(SignalId(0))], vec![Op::Await(SignalId(0)), work]);
        let bound = Workload { tasks: vec![task(posts), task(awaits)], signals: 1, ..Workload::default() };
        let told = flaws(&meta, &bound);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("takes 60.0 ms") && told[0].contains("(+50.0 %)"), "{told:?}");
    }

    #[test]
    fn lost_events_and_failed_self_checks_are_reported() {
        let notes = "made by hand\nself-check: a replay takes long".to_owned();
        let meta = RecordingMeta { lost_events: 3, notes, ..RecordingMeta::default() };
        let sleeps = Op::Sleep(Nanos::from_ms(1), Sleep::Timer);
        let told = flaws(&meta, &Workload { tasks: vec![task(vec![sleeps])], ..Workload::default() });
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("3 events lost") && told[1] == "a replay takes long", "{told:?}");
    }

    /// The elapsed time of a file may be any number.
    #[test]
    fn huge_elapsed_time_is_no_overflow() {
        assert!(!exceeds(Nanos::from_ms(1), Nanos::MAX));
        assert!(replay_flaw(Nanos::ZERO, Nanos::MAX, 15).is_some());
    }

    #[test]
    fn replay_deviation_is_reported_beyond_the_tolerance() {
        let ms = Nanos::from_ms;
        assert_eq!(replay_flaw(ms(110), ms(100), 10), None);
        let told = replay_flaw(ms(80), ms(100), 10).unwrap();
        assert!(told.contains("(-20.0 %)"), "{told}");
    }
}
