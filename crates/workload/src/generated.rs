// SPDX-License-Identifier: GPL-2.0-only
//! Workloads that are made, not read: their shape depends on the machine, or they have more steps than anybody writes.
//!
//! - `film-25`, `film-60`: a decoder, a queue of decoded pictures, and a display that wants one at each period.
//! - `latency`: the threads of cyclictest: one for each CPU, each with a period of its own, that sleep and look at the clock.
//! - `noise`: daemons that wake at irregular times for a moment.
//! - `pair`: two tasks that work.
//! - `ramfs-copy`, `ramfs-mk`, `ramfs-pmk`, `remote-mk`: what NIX was measured with ([`builds`]).
//!
//! What is irregular in them is the same in every run and on every host.

mod builds;

use crate::{Op, Reference, SignalId, Sleep, Start, TaskSpec, Who, Workload};
use ids::{Nanos, Policy};

/// Name and description of each.
pub fn generated() -> &'static [(&'static str, &'static str)] {
    &[
        ("film-25", "25 pictures a second for a minute: decoder, queue of 4, display"),
        ("film-60", "60 pictures a second for a minute: decoder, queue of 4, display"),
        ("latency", "cyclictest: for each CPU a thread that sleeps for 10, 10.5, 11, ... ms, for 100.0 s"),
        ("noise", "4 daemons that wake at irregular times, 200 times a second in all, for 10.0 s"),
        ("pair", "2 tasks that work for 10 s each"),
        ("ramfs-copy", "400 files from one file server in memory to another, through a pipe"),
        ("ramfs-mk", "a build of 100 files in a file server in memory, with dependencies, as many jobs as CPUs"),
        ("ramfs-pmk", "the compilers of that build alone, all at once"),
        ("remote-mk", "the build of ramfs-mk with its files on another machine"),
    ]
}

/// The workload of this name, for a machine of so many CPUs.
pub fn generate(name: &str, cpus: u32) -> Option<Workload> {
    let workload = match name {
        "film-25" => FILM_25.workload(),
        "film-60" => FILM_60.workload(),
        "latency" => latency(cpus),
        "noise" => noise(),
        "pair" => pair(),
        _ => builds::generate(name, cpus)?,
    };
    Some(Workload { name: name.to_owned(), ..workload })
}

/// A task that begins at 0 and has no wishes.
fn task(name: String, script: Vec<Op>) -> TaskSpec {
    TaskSpec {
        name,
        command: None,
        start: Start::At(Nanos::ZERO),
        policy: Policy::Other,
        nice: 0,
        cpus: None,
        peak_rss_bytes: 0,
        who: Who::default(),
        window: None,
        lends: None,
        script,
    }
}

fn work(time: Nanos) -> Op {
    Op::Work { user: time, system: Nanos::ZERO }
}

/// A reference that each task has for itself.
const OWN: Reference = Reference(Reference::PRIVATE);

/// A film. A group of 12 pictures has one that stands for itself, 3 that refer to earlier ones, and 8 that refer to both
/// sides, as MPEG's customary pattern IBBPBBPBBPBB has; the work for each kind is a choice.
struct Film {
    period: Nanos,
    pictures: u32,
    /// To decode each kind: I, P, B.
    decode: [Nanos; 3],
    /// To show one.
    show: Nanos,
}

/// On one CPU the decoder of the one takes 26 % of the time, that of the other 32 %.
const FILM_25: Film = Film {
    period: Nanos(40_000_000),
    pictures: 25 * 60,
    decode: [Nanos(22_000_000), Nanos(14_000_000), Nanos(8_000_000)],
    show: Nanos(2_000_000),
};
const FILM_60: Film = Film {
    period: Nanos(16_666_667),
    pictures: 60 * 60,
    decode: [Nanos(11_000_000), Nanos(7_000_000), Nanos(4_000_000)],
    show: Nanos(1_000_000),
};

/// Decoded pictures that may wait to be shown.
const QUEUE: u32 = 4;
/// The display begins so many periods after the decoder.
const BUFFERED: u64 = 3;

impl Film {
    fn workload(&self) -> Workload {
        let ready = SignalId;
        let taken = |picture: u32| SignalId(self.pictures + picture);
        let mut decoder = Vec::new();
        for picture in 0..self.pictures {
            decoder.extend(picture.checked_sub(QUEUE).map(|before| Op::Await(taken(before))));
            let kind = match picture % 12 {
                0 => 0,
                place if place % 3 == 0 => 1,
                _ => 2,
            };
            decoder.extend([work(self.decode[kind]), Op::Post(ready(picture))]);
        }
        let mut display = vec![Op::Sleep(Nanos(self.period.0 * BUFFERED), Sleep::Timer), Op::Anchor(OWN)];
        for picture in 0..self.pictures {
            let timer = Op::Timer { reference: OWN, period: self.period, absolute: true };
            display.extend([Op::Await(ready(picture)), work(self.show), Op::Post(taken(picture)), timer]);
        }
        let tasks = vec![task("decoder".to_owned(), decoder), task("display".to_owned(), display)];
        Workload { tasks, signals: 2 * self.pictures, ..Workload::default() }
    }
}

/// cyclictest's defaults for `-t`: 10 ms, each thread 0.5 ms longer than the one before; a thread that wakes reads the
/// clock and does its statistics.
const INTERVAL: Nanos = Nanos(10_000_000);
const DISTANCE: Nanos = Nanos(500_000);
const READING: Nanos = Nanos(2_000);
/// 10,000 rounds of the first thread.
const LATENCY_FOR: Nanos = Nanos::from_secs(100);

fn latency(cpus: u32) -> Workload {
    let thread = |number: u32| {
        let period = INTERVAL + Nanos(DISTANCE.0 * u64::from(number));
        let timer = Op::Timer { reference: OWN, period, absolute: true };
        task(format!("T{number}"), vec![Op::Anchor(OWN), timer, work(READING), Op::Repeat { from: 1, times: None }])
    };
    Workload { tasks: (0..cpus).map(thread).collect(), duration: Some(LATENCY_FOR), ..Workload::default() }
}

const DAEMONS: u64 = 4;
/// On average.
const GAP: Nanos = Nanos(20_000_000);
const BURST: Nanos = Nanos(200_000);
/// After so many wakeups a daemon begins anew: 10 s or so.
const WAKEUPS: usize = 512;

fn noise() -> Workload {
    let daemon = |number: u64| {
        let mut state = number;
        let mut script = Vec::with_capacity(2 * WAKEUPS + 1);
        for _ in 0..WAKEUPS {
            script.extend([Op::Sleep(uneven(&mut state, GAP), Sleep::Timer), work(uneven(&mut state, BURST))]);
        }
        script.push(Op::Repeat { from: 0, times: None });
        task(format!("daemon-{number}"), script)
    };
    let tasks = (0..DAEMONS).map(daemon).collect();
    Workload { tasks, duration: Some(Nanos::from_secs(10)), ..Workload::default() }
}

/// A time with this mean, mostly shorter and sometimes up to three times as long: three times the mean and the square of
/// a number between 0 and 1 that is equally likely anywhere.
fn uneven(state: &mut u64, mean: Nanos) -> Nanos {
    let fraction = u128::from(next(state) >> 32);
    Nanos(((3 * u128::from(mean.0) * fraction * fraction) >> 64) as u64 + 1)
}

/// SplitMix64 (Steele, Lea, Flood 2014).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

fn pair() -> Workload {
    let one = |number: u32| task(format!("worker-{number}"), vec![work(Nanos::from_secs(10))]);
    Workload { tasks: (0..2).map(one).collect(), ..Workload::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_valid_and_what_their_names_say() {
        for cpus in [1, 4, 4096] {
            for (name, _) in generated() {
                let workload = generate(name, cpus).unwrap();
                workload.validate().unwrap();
                assert_eq!((workload.name.as_str(), workload.clone()), (*name, generate(name, cpus).unwrap()));
                assert_eq!(workload.is_finite(), workload.duration.is_none(), "{name}");
                assert_eq!(
                    workload.tasks.len() as u32 == cpus,
                    *name == "latency" || cpus == 4 && ["noise", "ramfs-copy"].contains(name)
                );
            }
        }
        assert!(generated().is_sorted() && generate("film", 1).is_none());
    }

    fn total(script: &[Op]) -> u64 {
        script.iter().map(|op| if let Op::Work { user, .. } = op { user.0 } else { 0 }).sum()
    }

    #[test]
    fn films_have_a_minute_of_pictures() {
        for (name, percent) in [("film-25", 26), ("film-60", 32)] {
            let workload = generate(name, 1).unwrap();
            let [decoder, display] = [&workload.tasks[0].script, &workload.tasks[1].script];
            assert_eq!(total(decoder) / 600_000_000, percent, "of a minute");
            let periods: u64 = display.iter().map(Op::period).map(|period| period.0).sum();
            assert_eq!(periods / 1_000_000, 60_000);
            let posts = |script: &[Op]| script.iter().filter(|op| matches!(op, Op::Post(_))).count();
            assert_eq!(
                (posts(decoder), posts(display)),
                (workload.signals as usize / 2, workload.signals as usize / 2)
            );
        }
    }

    #[test]
    fn noise_is_irregular_and_has_its_means() {
        let workload = generate("noise", 1).unwrap();
        let sleeps = |task: usize| {
            let script = workload.tasks[task].script.iter();
            script.filter_map(|op| if let Op::Sleep(time, _) = op { Some(time.0) } else { None }).collect::<Vec<_>>()
        };
        for task in 0..4 {
            let gaps = sleeps(task);
            let mean = gaps.iter().sum::<u64>() / gaps.len() as u64;
            assert!((18_000_000..22_000_000).contains(&mean), "{mean}");
            let long = gaps.iter().filter(|gap| **gap > 40_000_000).count();
            // A square is above 2/3 in 18 % of all cases.
            assert!((60..130).contains(&long), "{long}");
            let busy = total(&workload.tasks[task].script) / gaps.len() as u64;
            assert!((180_000..220_000).contains(&busy), "{busy}");
            assert_ne!(gaps, sleeps((task + 1) % 4));
        }
    }

    #[test]
    fn the_threads_of_latency_differ_in_their_periods() {
        let workload = generate("latency", 4).unwrap();
        let periods: Vec<u64> = workload.tasks.iter().map(|task| task.script[1].period().0 / 1_000).collect();
        assert_eq!(periods, [10_000, 10_500, 11_000, 11_500]);
    }
}
