// SPDX-License-Identifier: GPL-2.0-only
//! Requests that arrive from outside, against exact recursions for the same samples, and those against closed forms.
//!
//! 1. A simulated run and the recursion of its queue (Lindley 1952; Kiefer and Wolfowitz 1955) serve the same arrivals,
//!    so their means differ by no sampling error: a tight tolerance holds for short runs.
//! 2. The recursion alone is fast enough for millions of requests, whose sampling error is below the tolerance of the
//!    closed form. With n requests, the standard error of the mean wait of M/M/1, in service times, is
//!    sqrt(r (2 + 5 r - 4 r^2 + r^3) / (1 - r)^4 / n) (Daley, 1968): 0.031 for r = 0.8 and n = 2 million, 0.63 % of the
//!    mean latency of 5, a third of the tolerance of 2 %; at r = 0.5 and n = 400,000 it is 0.43 %.

use crate::common::{Played, Scheduler, free_machine};
use ids::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use workload::{PartSpec, Source, SourceId, Workload};

/// The workload `requests` with these keys, for so many CPUs, ending after about `count` requests.
fn requests(keys: &str, cpus: u32, count: u64) -> Workload {
    let part = PartSpec::parse_all(&format!("requests,{keys}")).unwrap().remove(0);
    let mut workload = Workload::compose(vec![(part, workload::generate("requests", cpus).unwrap())]).unwrap();
    workload.duration = Some(Nanos((count as f64 * 1e9 / workload.sources[0].rate_per_s()) as u64));
    workload
}

/// Latencies of the first requests at `servers` servers with one queue.
fn recursion(source: &Source, seed: u64, servers: usize) -> impl Iterator<Item = (Nanos, Nanos)> {
    let mut free: BinaryHeap<Reverse<u64>> = (0..servers).map(|_| Reverse(0)).collect();
    source.sampled(SourceId(0), seed).map(move |(time, service)| {
        let Reverse(earliest) = free.pop().expect("a server");
        let end = earliest.max(time.0) + service.0;
        free.push(Reverse(end));
        (Nanos(end), Nanos(end - time.0))
    })
}

/// Latencies of the first `count` requests at one server that all present requests share equally.
fn shared(source: &Source, seed: u64, count: usize) -> Vec<f64> {
    let mut present: Vec<(f64, f64)> = Vec::new();
    let (mut now, mut latencies) = (0.0, Vec::new());
    for (time, service) in source.sampled(SourceId(0), seed).take(count) {
        let time = time.0 as f64;
        while let Some(least) = present.iter().map(|(left, _)| *left).reduce(f64::min) {
            let end = now + least * present.len() as f64;
            let until = end.min(time);
            let done = (until - now) / present.len() as f64;
            present.iter_mut().for_each(|(left, _)| *left -= done);
            now = until;
            present.retain(|(left, since)| {
                // Times of up to 1e12 ns are exact to 1e-4 ns.
                let is_done = *left <= 0.05;
                if is_done {
                    latencies.push(now - since);
                }
                !is_done
            });
            if end > time {
                break;
            }
        }
        now = time;
        present.push((service.0 as f64, time));
    }
    latencies
}

fn mean_latency(played: &Played) -> (u64, f64) {
    let latency = played.outcome.measures.request_latency().unwrap();
    (latency.count, latency.mean.0 as f64)
}

fn near(found: f64, expected: f64, tolerance: f64) -> bool {
    (found / expected - 1.0).abs() < tolerance
}

#[test]
fn first_come_first_served_latencies_match_the_exact_recursion() {
    for (cpus, rate, draw) in
        [(1, 500, "exponential"), (1, 800, "exponential"), (1, 800, "constant"), (4, 3200, "exponential")]
    {
        let workload = requests(&format!("rate={rate},draw={draw}"), cpus, 20_000);
        let machine = free_machine(&format!("core:{cpus} pu:1"));
        let played = Scheduler::shipped("fifo").play_with(&machine, &workload, 0).completed();
        let (count, mean) = mean_latency(&played);
        let end = workload.duration.unwrap();
        let exact: Vec<f64> = recursion(&workload.sources[0], 0, cpus as usize)
            .take_while(|(done, latency)| *done - *latency < end)
            .filter(|(done, _)| *done < end)
            .map(|(_, latency)| latency.0 as f64)
            .collect();
        let expected = exact.iter().sum::<f64>() / exact.len() as f64;
        assert!(count.abs_diff(exact.len() as u64) <= 1, "{count} requests, {} by the recursion", exact.len());
        assert!(near(mean, expected, 0.000_5), "{cpus} CPUs, {rate}, {draw}: {mean}, exactly {expected}");
    }
}

#[test]
fn recursions_match_the_closed_forms_of_queueing_theory() {
    for (servers, load, draw) in [
        (1, 0.5, "exponential"),
        (1, 0.8, "exponential"),
        (1, 0.5, "constant"),
        (1, 0.8, "constant"),
        (4, 0.5, "exponential"),
        (4, 0.8, "exponential"),
        (32, 0.8, "exponential"),
    ] {
        let rate = load * 1000.0 * f64::from(servers);
        let workload = requests(&format!("rate={rate},draw={draw}"), servers, 1);
        let count = if load < 0.8 { 400_000 } else { 2_000_000 };
        let latencies = recursion(&workload.sources[0], 1, servers as usize).take(count);
        let mean = latencies.map(|(_, latency)| latency.0 as f64).sum::<f64>() / count as f64;
        let per_ns = rate / 1e9;
        let expected = match draw {
            "constant" => queueing::md1(per_ns, 1e6),
            _ => queueing::mmc(servers, per_ns, 1e6),
        };
        let expected = expected.unwrap();
        assert!(near(mean, expected, 0.02), "{servers} servers, load {load}, {draw}: {mean}, exactly {expected}");
    }
}

/// Requests of 20 ms are long against the slices of EEVDF (0.7 ms on one CPU), so that it shares the CPU nearly evenly.
#[test]
fn default_scheduler_approximates_processor_sharing() {
    let workload = requests("rate=40,service=20ms,draw=constant", 1, 1_000);
    let played = Scheduler::kernel().play_with(&free_machine("core:1 pu:1"), &workload, 0).completed();
    let (count, mean) = mean_latency(&played);
    let exact = shared(&workload.sources[0], 0, count as usize);
    let expected = exact.iter().sum::<f64>() / exact.len() as f64;
    assert!(near(mean, expected, 0.02), "{mean}, shared exactly {expected}");
    let in_order = recursion(&workload.sources[0], 0, 1).take(count as usize);
    let in_order = in_order.map(|(_, latency)| latency.0 as f64).sum::<f64>() / count as f64;
    assert!(mean > 1.3 * in_order, "{mean} is far above that of first come, first served, {in_order}");
}

/// The mean of processor sharing does not depend on the distribution of service times.
#[test]
fn shared_server_matches_the_closed_form_of_processor_sharing() {
    for (load, draw) in [(0.5, "exponential"), (0.8, "exponential"), (0.8, "constant")] {
        let workload = requests(&format!("rate={},draw={draw}", load * 1000.0), 1, 1);
        let latencies = shared(&workload.sources[0], 1, 1_000_000);
        let mean = latencies.iter().sum::<f64>() / latencies.len() as f64;
        let expected = queueing::processor_sharing(load / 1e6, 1e6).unwrap();
        assert!(near(mean, expected, 0.02), "load {load}, {draw}: {mean}, exactly {expected}");
    }
}

#[test]
fn periodic_requests_below_saturation_do_not_wait() {
    let workload = requests("rate=800,draw=constant,arrivals=periodic", 1, 1_000);
    let played = Scheduler::kernel().play_with(&free_machine("core:1 pu:1"), &workload, 0).completed();
    let latency = played.outcome.measures.request_latency().unwrap();
    assert_eq!((latency.mean, latency.max), (Nanos::from_ms(1), Nanos::from_ms(1)));
}

/// At twice the capacity, half of the requests are served.
#[test]
fn saturated_cpu_serves_its_capacity() {
    let workload = requests("rate=2000,draw=constant,warmup=1s", 1, 8_000);
    let played = Scheduler::shipped("fifo").play_with(&free_machine("core:1 pu:1"), &workload, 0).completed();
    let requests = &played.outcome.measures.requests[0];
    assert_eq!(requests.measured, Nanos::from_secs(3));
    assert!((2_990..=3_010).contains(&requests.completed()), "{}", requests.completed());
    assert!((5_700..=6_300).contains(&requests.arrivals), "{}", requests.arrivals);
    assert!(requests.latency().max > Nanos::from_ms(1_900), "the last of 4 s waited for half of them");
}
