// SPDX-License-Identifier: GPL-2.0-only
//! Cases for `gang-corun-percent`: jobs that never sleep, each with at most as many tasks as there are CPUs. Tasks
//! outside any job, some of them pinned, may compete, so that the rows of the gang matrix are full, partly full, or
//! hard to fill.

use super::{ABSENT_MS, Jobs, Rng, Scenario, on};
use ids::CpuId;
use invariants::GangsBy;

const MOST_JOBS: u64 = 4;
const MOST_TASKS: u64 = 8;
/// Latest start of a job. The checker then lets it settle and evaluates the half second after that.
const LATEST_MS: u64 = 500;
const SHORTEST_MS: u64 = 500;

/// Generates a scenario for two or more online CPUs.
pub(super) fn generate(rng: &mut Rng, online: &[CpuId], jobs: Jobs) -> Scenario {
    let most = MOST_TASKS.min(online.len() as u64);
    let mut workload = Vec::new();
    for job in 0..=rng.below(MOST_JOBS) {
        let count = 2 + rng.below(most - 1);
        let mut part = match jobs.by {
            GangsBy::Groups => format!("hog,count={count},group=/g{job}"),
            GangsBy::Processes => format!("hog,count={count},process=g{job}"),
        };
        if rng.below(3) == 0 {
            part += &format!(",nice={}", rng.below(30) as i64 - 10);
        }
        if rng.below(3) == 0 {
            part += &format!(",start={}ms", rng.below(LATEST_MS));
        }
        workload.push(part);
    }
    match rng.below(6) {
        0 => workload.push(format!("hog,count={}", 1 + rng.below(3))),
        1 => {
            let cpu = *rng.one_of(online);
            workload.push(format!("hog{}", on(&[cpu])));
        }
        2 => workload.push("noise".to_owned()),
        3 => workload.push("pingpong,group=/pingpong".to_owned()),
        _ => {}
    }
    let faults = (rng.below(6) == 0).then(|| rng.absence(&online[1..]));
    let duration_ms = LATEST_MS + ABSENT_MS + jobs.settles.0 / 1_000_000 + SHORTEST_MS + 100 * rng.below(15);
    Scenario { workload, duration_ms, faults, undisturbed: false }
}
