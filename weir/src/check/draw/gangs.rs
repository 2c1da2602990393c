// SPDX-License-Identifier: GPL-2.0-only
//! Jobs, each of no more tasks than there are CPUs, which never sleep: what `gang-corun-percent` is judged by. Beside them may
//! be tasks of no job, some of them bound to CPUs, so that rows are full or not, and hard to fill.

use super::{ABSENT_MS, Dice, Jobs, Play, on};
use ids::CpuId;
use invariants::GangsBy;

const MOST_JOBS: u64 = 4;
const MOST_TASKS: u64 = 8;
/// When the last job has begun at the latest. The checker lets it settle, and looks at half a second after that.
const LATEST_MS: u64 = 500;
const SHORTEST_MS: u64 = 500;

/// On two CPUs or more.
pub(super) fn draw(dice: &mut Dice, online: &[CpuId], jobs: Jobs) -> Play {
    let most = MOST_TASKS.min(online.len() as u64);
    let mut workload = Vec::new();
    for job in 0..=dice.below(MOST_JOBS) {
        let count = 2 + dice.below(most - 1);
        let mut part = match jobs.by {
            GangsBy::Groups => format!("hog,count={count},group=/g{job}"),
            GangsBy::Processes => format!("hog,count={count},process=g{job}"),
        };
        if dice.below(3) == 0 {
            part += &format!(",nice={}", dice.below(30) as i64 - 10);
        }
        if dice.below(3) == 0 {
            part += &format!(",start={}ms", dice.below(LATEST_MS));
        }
        workload.push(part);
    }
    match dice.below(6) {
        0 => workload.push(format!("hog,count={}", 1 + dice.below(3))),
        1 => {
            let cpu = *dice.one_of(online);
            workload.push(format!("hog{}", on(&[cpu])));
        }
        2 => workload.push("noise".to_owned()),
        3 => workload.push("pingpong,group=/pingpong".to_owned()),
        _ => {}
    }
    let faults = (dice.below(6) == 0).then(|| dice.absence(&online[1..]));
    let duration_ms = LATEST_MS + ABSENT_MS + jobs.settles.0 / 1_000_000 + SHORTEST_MS + 100 * dice.below(15);
    Play { workload, duration_ms, faults, undisturbed: false }
}
