// SPDX-License-Identifier: GPL-2.0-only

use super::*;
use proptest::prelude::*;

fn span(tasks: &str) -> Span {
    let text = format!(r#"{{"tasks": {{{tasks}}}}}"#);
    Workload::from_rt_app("w.json", &text).expect("a workload").span(None, 4).expect("a span")
}

fn us(time: Nanos) -> u64 {
    time.0 / 1_000
}

fn chain(span: &Span) -> Vec<(&str, u64, u64)> {
    span.chain.iter().map(|link| (link.task.as_str(), us(link.work), us(link.sleep))).collect()
}

#[test]
fn span_of_independent_tasks_is_that_of_the_longest_task() {
    let found = span(r#""a": {"loop": 1, "run": 300}, "b": {"loop": 1, "run": 200, "sleep": 200}"#);
    assert_eq!((us(found.work), us(found.span), found.tasks, found.is_complete), (500, 400, 2, true));
    assert_eq!(chain(&found), [("b", 200, 200)]);
    let levels: Vec<(u32, u64)> = found.levels.iter().map(|(level, time)| (*level, us(*time))).collect();
    assert_eq!(levels, [(0, 100), (1, 100), (2, 200)]);
    assert_eq!(found.timeline, [2000, 2000, 1000, 0]);
    assert_eq!(found.sleeps[0], (1, Nanos::from_us(200)));
}

#[test]
fn chain_follows_wakers_and_parents() {
    // b waits for a's 500 us, c waits for b; d is long, but no task waits for it.
    let found = span(
        r#""a": {"loop": 1, "run": 500, "resume": "b"},
           "b": {"loop": 1, "run": 100, "suspend": "b", "run1": 50, "sleep": 30, "resume": "c"},
           "c": {"loop": 1, "suspend": "c", "run": 40},
           "d": {"loop": 1, "run": 600}"#,
    );
    assert_eq!((us(found.span), found.waits), (620, 2));
    assert_eq!(chain(&found), [("a", 500, 0), ("b", 50, 30), ("c", 40, 0)]);
    assert_eq!(us(found.chain_work()), 590);
    let forks = span(
        r#""a": {"loop": 1, "run": 10, "fork": "child", "run1": 20},
           "child": {"instance": 0, "loop": 1, "run": 70}"#,
    );
    assert_eq!(chain(&forks), [("a", 10, 0), ("child", 70, 0)]);
}

#[test]
fn makespan_bounds_are_those_of_graham_and_brent() {
    let found = span(r#""a": {"instance": 4, "loop": 1, "run": 300}"#);
    let bounds = |cpus| {
        let (least, most) = found.bounds(cpus);
        (us(least), us(most))
    };
    assert_eq!([1, 2, 4, 8].map(bounds), [(1200, 1200), (600, 750), (300, 525), (300, 412)]);
}

#[test]
fn endless_workload_needs_a_time_limit_for_its_span() {
    let text = r#"{"tasks": {"a": {"loop": -1, "run": 100, "sleep": 100}}}"#;
    let workload = Workload::from_rt_app("w.json", text).unwrap();
    let refused = workload.span(None, 4).unwrap_err().to_string();
    assert_eq!(refused, "w: the workload has endless tasks and no duration; set a duration");
    let found = workload.span(Some(Nanos::from_us(1_050)), 4).unwrap();
    assert_eq!((us(found.span), found.is_complete), (1_050, false));
    let stuck = Workload::from_rt_app("w.json", r#"{"tasks": {"a": {"loop": 1, "run": 5, "suspend": "a"}}}"#).unwrap();
    let found = stuck.span(None, 4).unwrap();
    assert_eq!((us(found.span), found.is_complete), (5, false));
}

proptest! {
    /// For random scripts, the chain is as long as the span, and the levels sum up to the span.
    #[test]
    fn chain_length_and_levels_equal_the_span(works in prop::collection::vec((1..1000u64, 0..500u64, 1..4u32), 1..20)) {
        let tasks: Vec<String> = works.iter().enumerate().map(|(index, (run, sleep, times))| {
            let first = if index > 0 { format!(r#""w": {{"loop": 1, "suspend": "t{index}"}}, "#) } else { String::new() };
            let work = format!(r#""p": {{"loop": {times}, "run": {run}, "sleep": {sleep}}}"#);
            let last = match index + 1 < works.len() {
                true => format!(r#", "z": {{"loop": 1, "resume": "t{}"}}"#, index + 1),
                false => String::new(),
            };
            format!(r#""t{index}": {{"loop": 1, "phases": {{{first}{work}{last}}}}}"#)
        }).collect();
        let found = span(&tasks.join(","));
        let length: u64 = found.chain.iter().map(|link| link.work.0 + link.sleep.0).sum();
        prop_assert_eq!(length, found.span.0);
        prop_assert_eq!(found.levels.values().map(|time| time.0).sum::<u64>(), found.span.0);
        let work: u64 = found.levels.iter().map(|(level, time)| u64::from(*level) * time.0).sum();
        prop_assert_eq!(work, found.work.0);
    }
}
