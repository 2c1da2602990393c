// SPDX-License-Identifier: GPL-2.0-only
//! Generated workloads: those whose shape depends on the machine, or with too many steps to write by hand.
//!
//! - `film-25`, `film-60`: a decoder, a queue of decoded pictures, and a display that needs one per period.
//! - `latency`: the threads of cyclictest: one per CPU, each with its own period, that sleep and read the clock.
//! - `noise`: daemons that run briefly at irregular times.
//! - `pages-rcu`, `pages-rwlock`, `pages-spin`, `pages-striped`: lookups in a page cache under these locks ([`pages`]).
//! - `pair`: two CPU-bound tasks.
//! - `ramfs-copy`, `ramfs-mk`, `ramfs-pmk`, `remote-mk`: the workloads NIX was measured with ([`builds`]).
//! - `requests`: workers that serve requests from outside, which arrive at a rate of their own ([`crate::Source`]).
//!
//! Irregular times are pseudo-random, identical in every run and on every host.

mod builds;
mod pages;

use crate::random::next;
use crate::{Arrivals, Op, Reference, SignalId, Sleep, Source, SourceId, Start, TaskSpec, Who, Workload};
use ids::{Nanos, Policy};

/// Name and description of each generated workload.
pub fn generated() -> &'static [(&'static str, &'static str)] {
    &[
        ("film-25", "25 pictures per second for a minute: decoder, queue of 4, display"),
        ("film-60", "60 pictures per second for a minute: decoder, queue of 4, display"),
        ("latency", "cyclictest: a thread per CPU that sleeps for 10, 10.5, 11, ... ms, for 100.0 s"),
        ("noise", "4 daemons that wake at irregular times, 200 times per second in all, for 10.0 s"),
        ("pages-rcu", "a thread per CPU that finds and locks pages of one tree without a lock"),
        ("pages-rwlock", "the same lookups under a reader-writer lock"),
        ("pages-spin", "the same lookups under one spin lock, as AIM7 found in Linux 2.6.11"),
        ("pages-striped", "the same lookups under 64 spin locks"),
        ("pair", "2 CPU-bound tasks of 10 s each"),
        ("ramfs-copy", "copy 400 files between two in-memory file servers through a pipe"),
        ("ramfs-mk", "build of 100 files in an in-memory file server, with dependencies, one job per CPU"),
        ("ramfs-pmk", "only the compilers of ramfs-mk, all at once"),
        ("remote-mk", "the build of ramfs-mk with files on another machine"),
        (
            "requests",
            "workers that serve 500 requests per second of 1 ms each, for 10.0 s (keys rate, service, draw, ...)",
        ),
    ]
}

/// Generates the workload of this name for a machine with `cpus` CPUs.
pub fn generate(name: &str, cpus: u32) -> Option<Workload> {
    let workload = match name {
        "film-25" => FILM_25.workload(),
        "film-60" => FILM_60.workload(),
        "latency" => latency(cpus),
        "noise" => noise(),
        "pair" => pair(),
        "requests" => requests(cpus),
        _ => pages::generate(name, cpus).or_else(|| builds::generate(name, cpus))?,
    };
    Some(Workload { name: name.to_owned(), ..workload })
}

/// A task that starts at time 0 with default attributes.
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
        memory: None,
        lends: None,
        script,
    }
}

fn work(time: Nanos) -> Op {
    Op::Work { user: time, system: Nanos::ZERO }
}

/// A timer reference private to each task.
const OWN: Reference = Reference(Reference::PRIVATE);

/// A film. As in MPEG's usual pattern IBBPBBPBBPBB, each group of 12 pictures has one I, 3 P and 8 B pictures; the
/// work per kind is an assumption.
struct Film {
    period: Nanos,
    pictures: u32,
    /// Decoding time of each kind: I, P, B.
    decode: [Nanos; 3],
    /// Display time of a picture.
    show: Nanos,
}

/// The decoders use 26 % (25 pictures per second) and 32 % (60) of a CPU.
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

/// Capacity of the queue of decoded pictures.
const QUEUE: u32 = 4;
/// Start of the display after the decoder, in periods.
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

/// cyclictest writes 0 us to `/dev/cpu_dma_latency`, so that idle CPUs poll. Its defaults for `-t`: an interval of 10 ms,
/// 0.5 ms more per thread; after each wakeup a thread reads the clock and updates its statistics.
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
    Workload {
        tasks: (0..cpus).map(thread).collect(),
        duration: Some(LATENCY_FOR),
        idle_exit_limit: Some(Nanos::ZERO),
        ..Workload::default()
    }
}

const DAEMONS: u64 = 4;
/// Mean of the gaps.
const GAP: Nanos = Nanos(20_000_000);
const BURST: Nanos = Nanos(200_000);
/// Number of wakeups after which a daemon repeats its sequence: about 10 s.
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

/// Samples a skewed time with this mean: three times the mean multiplied by the square of a uniform random number in
/// [0, 1).
fn uneven(state: &mut u64, mean: Nanos) -> Nanos {
    let fraction = u128::from(next(state) >> 32);
    Nanos(((3 * u128::from(mean.0) * fraction * fraction) >> 64) as u64 + 1)
}

/// Requests for each second, and mean service time: half the capacity of one CPU.
const BETWEEN_REQUESTS: Nanos = Nanos(2_000_000);
const SERVICE: Nanos = Nanos(1_000_000);

/// Enough workers that requests wait for CPUs rather than for workers: at one CPU with a load of 80 %, more than 64
/// requests are in the system with a probability of 5e-7.
fn requests(cpus: u32) -> Workload {
    let source = SourceId(0);
    let script = vec![Op::TakeRequest(source), Op::Serve(source), Op::Repeat { from: 0, times: None }];
    let worker = |number: u32| task(format!("worker-{number}"), script.clone());
    let source = Source {
        name: "requests".to_owned(),
        arrivals: Arrivals::Poisson(BETWEEN_REQUESTS),
        start: Nanos::ZERO,
        service: SERVICE,
        exponential: true,
        measured_from: Nanos::ZERO,
    };
    let tasks = (0..60 + 4 * cpus).map(worker).collect();
    Workload { tasks, sources: vec![source], duration: Some(Nanos::from_secs(10)), ..Workload::default() }
}

fn pair() -> Workload {
    let one = |number: u32| task(format!("worker-{number}"), vec![work(Nanos::from_secs(10))]);
    Workload { tasks: (0..2).map(one).collect(), ..Workload::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_workloads_are_valid_and_reproducible() {
        for cpus in [1, 4, 4096] {
            for (name, _) in generated() {
                let workload = generate(name, cpus).unwrap();
                workload.validate().unwrap();
                assert_eq!((workload.name.as_str(), workload.clone()), (*name, generate(name, cpus).unwrap()));
                assert_eq!(workload.is_finite(), workload.duration.is_none(), "{name}");
                assert_eq!(
                    workload.tasks.len() as u32 == cpus,
                    *name == "latency"
                        || name.starts_with("pages-")
                        || cpus == 4 && ["noise", "ramfs-copy"].contains(name)
                );
            }
        }
        assert!(generated().is_sorted() && generate("film", 1).is_none());
    }

    fn total(script: &[Op]) -> u64 {
        script.iter().map(|op| if let Op::Work { user, .. } = op { user.0 } else { 0 }).sum()
    }

    #[test]
    fn film_workloads_have_a_minute_of_pictures() {
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
    fn noise_workload_has_irregular_gaps_with_the_given_mean() {
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
            // Gaps above twice the mean require a square above 2/3, which has a probability of 18 %.
            assert!((60..130).contains(&long), "{long}");
            let busy = total(&workload.tasks[task].script) / gaps.len() as u64;
            assert!((180_000..220_000).contains(&busy), "{busy}");
            assert_ne!(gaps, sleeps((task + 1) % 4));
        }
    }

    #[test]
    fn latency_workload_threads_have_different_periods() {
        let workload = generate("latency", 4).unwrap();
        let periods: Vec<u64> = workload.tasks.iter().map(|task| task.script[1].period().0 / 1_000).collect();
        assert_eq!(periods, [10_000, 10_500, 11_000, 11_500]);
    }
}
