// SPDX-License-Identifier: GPL-2.0-only
//! The bounds on the makespan of any run: the work and the longest chain of its workload (Graham, Brent).

use crate::common::{Scheduler, free_machine, rt_app};
use ids::Nanos;
use workload::Workload;

fn makespan(scheduler: &Scheduler, cpus: u32, workload: &Workload) -> Nanos {
    let played = scheduler.play(&free_machine(&format!("core:{cpus} pu:1")), workload).completed();
    played.outcome.measures.makespan.expect("a finite workload")
}

fn workloads() -> Vec<Workload> {
    let independent: Vec<String> = (1..=9)
        .map(|task| format!(r#""t{task}": {{"loop": {task}, "run": {}, "sleep": {}}}"#, 7_000 - 600 * task, 400 * task))
        .collect();
    // A tree of tasks, whose heaviest branch starts last.
    let forks: Vec<String> = (0..12)
        .map(|task| {
            let children: Vec<String> = [3 * task + 1, 3 * task + 2, 3 * task + 3]
                .iter()
                .filter(|child| **child < 12)
                .enumerate()
                .map(|(place, child)| format!(r#""f{place}": {{"loop": 1, "run": 900, "fork": "t{child}"}}, "#))
                .collect();
            let first = if task == 0 { "" } else { r#""instance": 0, "# };
            let run = 3_000 + 900 * task;
            format!(
                r#""t{task}": {{{first}"loop": 1, "phases": {{{}"w": {{"loop": 1, "run": {run}}}}}}}"#,
                children.concat()
            )
        })
        .collect();
    [independent, forks].map(|tasks| rt_app(&format!(r#"{{"tasks": {{{}}}}}"#, tasks.join(",")))).into()
}

#[test]
fn makespan_respects_the_lower_bound_and_a_shared_queue_the_upper_bound() {
    for workload in workloads() {
        let span = workload.span(None, 1).expect("a span");
        let chain: u64 = span.chain.iter().map(|link| link.work.0 + link.sleep.0).sum();
        assert_eq!((chain, span.is_complete), (span.span.0, true));
        for cpus in [1, 2, 3, 5, 64] {
            let (least, most) = span.bounds(u64::from(cpus));
            for name in ["kernel", "fifo", "bfs"] {
                let scheduler = if name == "kernel" { Scheduler::kernel() } else { Scheduler::shipped(name) };
                let makespan = makespan(&scheduler, cpus, &workload);
                // Policy code takes a moment even where only its instructions cost time.
                let slack = Nanos::from_us(50);
                assert!(least <= makespan, "{name}, {cpus} CPUs: {makespan}, lower bound {least}");
                let greedy = name == "fifo";
                assert!(!greedy || makespan <= most + slack, "{name}, {cpus} CPUs: {makespan}, upper bound {most}");
                if cpus == 64 {
                    assert!(makespan <= span.span + slack, "{name}: {makespan}, the chain alone is {}", span.span);
                }
            }
        }
    }
}
