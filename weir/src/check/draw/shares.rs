// SPDX-License-Identifier: GPL-2.0-only
//! Tasks that never sleep and share some CPUs by unequal weights, while the others have other things to do: what
//! `weighted-share-percent` is judged by. All of them use the same CPUs, as the property wants it, and a run is as long as that
//! takes to be judged once after the last of them came: so it is seen as well how a newcomer is treated.

use super::{ABSENT_MS, Dice, Play, on};
use ids::CpuId;
use invariants::{WeightedShare, Weights};

/// What other CPUs are busy with.
const BESIDE: [&str; 5] = ["hogs", "periodic-4", "pingpong", "noise", "preempt-mix"];
/// The most tasks that share, and the most parts that they are of.
const MOST: u64 = 6;
const PARTS: u64 = 4;
/// Groups that tasks are in, if these have the weights.
const GROUPS: u64 = 4;
/// Rounds of all tasks for which shares are looked at, as the checker has it, and the shortest time.
const ROUNDS: u64 = 20;
const SHORTEST_MS: u64 = 500;

pub(super) fn draw(dice: &mut Dice, online: &[CpuId], share: WeightedShare) -> Play {
    let width = match share.whole {
        true => online.len(),
        false => 1 + dice.below(u64::from(share.cpus).min(online.len() as u64)) as usize,
    };
    let first = dice.below((online.len() - width + 1) as u64) as usize;
    let (ours, rest) = (&online[first..first + width], [&online[..first], &online[first + width..]].concat());
    let (mut workload, tasks) = sharers(dice, &if rest.is_empty() { String::new() } else { on(ours) }, share.by);
    let [turn, settles] = [share.turn, share.settles].map(|time| time.0 / 1_000_000);
    let window = SHORTEST_MS.max(turn * ROUNDS * tasks.div_ceil(width as u64));
    let mut duration_ms = settles + window + window / 4;
    if dice.below(2) == 0 {
        let late = dice.below(window);
        *workload.last_mut().expect("two parts at least") += &format!(",start={late}ms");
        duration_ms += late;
    }
    if !rest.is_empty() && dice.below(3) > 0 {
        workload.push((*dice.one_of(&BESIDE)).to_owned() + &on(&rest));
    }
    // The first CPU stays, and so do those that are shared: a task whose CPUs are all gone may use any.
    let movable: Vec<CpuId> = rest.into_iter().filter(|cpu| *cpu != online[0]).collect();
    let faults = (!movable.is_empty() && dice.below(8) == 0).then(|| dice.absence(&movable));
    duration_ms += if faults.is_some() { ABSENT_MS } else { 0 };
    // Guests that stay for long end a window, and threads of the kernel do where turns are long.
    Play { workload, duration_ms, faults, undisturbed: dice.below(8) > 0 }
}

/// Two parts or more, and how many tasks they are.
fn sharers(dice: &mut Dice, cpus: &str, by: Weights) -> (Vec<String>, u64) {
    let weights: Vec<u64> = (0..GROUPS).map(|_| (1 + dice.below(10)) * dice.one_of(&[1, 10, 100])).collect();
    let (mut parts, mut tasks) = (Vec::new(), 0);
    for _ in 0..2 + dice.below(PARTS - 1) {
        let count = (1 + dice.below(3)).min(MOST - tasks);
        if count == 0 {
            break;
        }
        tasks += count;
        let weight = match by {
            Weights::Groups if dice.below(6) == 0 => String::new(),
            Weights::Groups => {
                let group = dice.below(GROUPS);
                format!(",group=/g{group},weight={}", weights[group as usize])
            }
            _ => format!(",nice={}", dice.below(30) as i64 - 10),
        };
        parts.push(format!("hog{cpus},count={count}{weight}"));
    }
    (parts, tasks)
}
