// SPDX-License-Identifier: GPL-2.0-only
//! Workloads of several parts: the parts that a run waits for, and independence of a part from the others.

use crate::common::{Played, Scheduler, free_machine, rt_app};
use ids::Nanos;
use workload::{PartSpec, Workload};

const HOG: &str = r#"{"tasks": {"hog": {"loop": -1, "run": 700}}}"#;
const WORK: &str = r#"{"tasks": {"work": {"loop": 3, "run": 1000, "sleep": 1000}}}"#;
const STUCK: &str = r#"{"tasks": {"waits": {"loop": 1, "run": 1000, "suspend": "waits"}}}"#;
/// Its first timer is due one millisecond after the part begins.
const FORKS: &str = r#"{"tasks": {
    "parent": {"loop": 1, "fork": "child", "run": 100},
    "child": {"instance": 0, "loop": 2, "timer": {"ref": "t", "period": 1000}, "run": 100}}}"#;

fn compose(text: &str) -> Workload {
    let load = |part: PartSpec| {
        let text = match part.what.as_str() {
            "hog" => HOG,
            "work" => WORK,
            "stuck" => STUCK,
            "forks" => FORKS,
            other => panic!("{other}"),
        };
        (part, rt_app(text))
    };
    Workload::compose(PartSpec::parse_all(text).unwrap().into_iter().map(load).collect()).expect("a composition")
}

fn play(cpus: u32, text: &str) -> Played {
    let workload = compose(text);
    let mut played = Scheduler::kernel().play(&free_machine(&format!("core:{cpus} pu:1")), &workload);
    played.outcome.measures.divide(workload.labels());
    played
}

#[test]
fn run_ends_with_the_last_finite_part() {
    let alone = play(2, "work").outcome.measures;
    for text in ["x=hog+y=work", "y=work+x=hog"] {
        let measures = play(2, text).outcome.measures;
        assert_eq!((measures.makespan, measures.elapsed), (alone.makespan, alone.elapsed), "{text}");
        let part = |label: &str| measures.parts.iter().find(|part| part.label == label).unwrap();
        assert_eq!((part("y").makespan, part("x").makespan), (alone.makespan, None));
        assert_eq!(part("y").account.run, Nanos::from_us(3_000));
        assert_eq!(part("x").account.run, alone.elapsed, "it has a CPU of its own");
        assert_eq!((part("y").tasks, part("y").wakeup_latency.count), (1, 4), "its start, and three sleeps");
    }
    // On one CPU the parts share it.
    let shared = play(1, "x=hog+y=work").outcome.measures;
    assert!(shared.makespan > alone.makespan, "{:?}", shared.makespan);
}

#[test]
fn run_with_a_part_that_waits_forever_ends_without_a_makespan() {
    let measures = play(2, "hog+stuck").outcome.measures;
    assert_eq!(measures.makespan, None);
    assert_eq!(measures.elapsed, Nanos::from_us(1_000));
}

#[test]
fn delayed_part_is_only_shifted_in_time() {
    let [now, later] = ["forks", "forks,start=50ms"].map(|text| play(2, text).outcome.measures.makespan.unwrap());
    assert_eq!(later, now + Nanos::from_ms(50));
    assert_eq!(now, Nanos::from_us(2_100));
}
