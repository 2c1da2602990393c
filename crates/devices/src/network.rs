// SPDX-License-Identifier: GPL-2.0-only
//! Networks in simulated time: calls over a link to a server, and their answers.
//!
//! 1. A link is full duplex. Each direction transfers one message at a time, in order: bytes / rate; then the message
//!    takes the latency to the other end, while the next one is transferred.
//! 2. The server serves up to `servers` calls at the same time, in order of arrival; its service time has a mean and is
//!    constant or exponentially distributed.
//! 3. A loopback takes CPU time of the task instead of the link: overhead + bytes / rate, for call and answer together.
//!
//! The caller owns the clock and the random numbers.

use ids::{Nanos, TaskId};
use machine_model::{Link, Network, Networks as Description};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A call over a network, for whose answer its task waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// The task.
    pub task: TaskId,
    /// Length of the call in bytes.
    pub bytes: u64,
    /// Length of the answer in bytes.
    pub reply: u64,
}

/// An answered call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answered {
    /// Number of the network.
    pub network: usize,
    /// The call.
    pub call: Call,
    /// Time at which it was submitted.
    pub submitted: Nanos,
    /// Time for which it waited behind others: for both directions of the link, and for the server.
    pub wait: Nanos,
    /// Service time of the server.
    pub service: Nanos,
}

/// Busy time of the parts of a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Busy {
    /// Direction to the server.
    pub out: Nanos,
    /// Direction from it.
    pub back: Nanos,
    /// The server, summed over the calls that it serves at the same time.
    pub server: Nanos,
}

/// Constants and state of a network.
#[derive(Debug)]
struct State {
    /// Rate in 10^6 bits a second, and latency; `None`: a loopback.
    wire: Option<(u64, Nanos)>,
    /// Overhead and rate of a loopback, in 10^6 bytes a second.
    copies: (u64, u64),
    service: Nanos,
    exponential: bool,
    queues: bool,
    /// Times at which the directions are free, and each server.
    out_free: Nanos,
    back_free: Nanos,
    servers: Vec<Nanos>,
    busy: Busy,
    /// Number of calls in progress.
    in_progress: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Stage {
    /// The server has served the call, which it began at this time.
    Served(Nanos),
    /// The answer has arrived.
    Arrived,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Step {
    time: Nanos,
    /// Orders steps at the same time.
    number: u64,
    stage: Stage,
    answer: Answered,
}

impl Ord for Step {
    fn cmp(&self, other: &Step) -> std::cmp::Ordering {
        (self.time, self.number).cmp(&(other.time, other.number))
    }
}

impl PartialOrd for Step {
    fn partial_cmp(&self, other: &Step) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// All networks of a machine.
#[derive(Debug)]
pub struct Networks {
    states: Vec<State>,
    steps: BinaryHeap<Reverse<Step>>,
    submitted: u64,
}

impl Networks {
    /// Creates idle networks.
    pub fn new(description: &Description) -> Networks {
        let state = |network: &Network| {
            let (wire, copies) = match &network.link {
                Link::Wire { latency_ns, mbit_s } => (Some((mbit_s.typical, Nanos(latency_ns.typical))), (0, 1)),
                Link::Loopback { overhead_ns, mb_s } => (None, (overhead_ns.typical, mb_s.typical)),
            };
            State {
                wire,
                copies,
                service: Nanos(network.server_ns.typical),
                exponential: network.exponential,
                queues: !description.without_queues,
                out_free: Nanos::ZERO,
                back_free: Nanos::ZERO,
                servers: vec![Nanos::ZERO; network.servers as usize],
                busy: Busy::default(),
                in_progress: 0,
            }
        };
        Networks { states: description.networks.iter().map(state).collect(), steps: BinaryHeap::new(), submitted: 0 }
    }

    /// CPU time of a call and its answer; `None` if the network has a device.
    pub fn cpu_time(&self, network: usize, call: &Call) -> Option<Nanos> {
        let State { wire: None, copies: (overhead, mb_s), .. } = &self.states[network] else { return None };
        let bytes = u128::from(call.bytes) + u128::from(call.reply);
        Some(Nanos((overhead + (bytes * 1_000 / u128::from((*mb_s).max(1))) as u64).max(1)))
    }

    /// Submits a call. Returns the number of calls that are in progress. `random` gives 64 bits for a network.
    pub fn submit(&mut self, now: Nanos, network: usize, call: Call, random: crate::Random<'_>) -> u32 {
        let state = &mut self.states[network];
        let sent = state.transfer(now, call.bytes, false);
        let arrived = sent + state.latency();
        let service = match state.exponential {
            true => state.service.exponential((random(network) >> 32) as u32),
            false => state.service,
        };
        let mut begin = arrived;
        if state.queues {
            // Calls arrive in the order of their submission, since they share the link.
            let free = state.servers.iter_mut().min().expect("a server");
            begin = begin.max(*free);
            *free = begin + service;
        }
        state.busy.server += service;
        let ahead = state.in_progress;
        state.in_progress += 1;
        let wait = (sent - now) - state.time_of(call.bytes) + (begin - arrived);
        let answer = Answered { network, call, submitted: now, wait, service };
        self.push(begin + service, Stage::Served(begin), answer);
        ahead
    }

    fn push(&mut self, time: Nanos, stage: Stage, answer: Answered) {
        self.submitted += 1;
        self.steps.push(Reverse(Step { time, number: self.submitted, stage, answer }));
    }

    /// Time of the next step of any call.
    pub fn due(&self) -> Option<Nanos> {
        self.steps.peek().map(|Reverse(step)| step.time)
    }

    /// Takes a call whose answer has arrived at `now`; `None` if no further one has.
    pub fn answered(&mut self, now: Nanos) -> Option<Answered> {
        while self.due().is_some_and(|due| due <= now) {
            let Reverse(Step { time, stage, mut answer, .. }) = self.steps.pop()?;
            let state = &mut self.states[answer.network];
            match stage {
                Stage::Served(_) => {
                    let reply = answer.call.reply;
                    let sent = state.transfer(time, reply, true);
                    answer.wait += (sent - time) - state.time_of(reply);
                    let arrives = sent + state.latency();
                    self.push(arrives, Stage::Arrived, answer);
                }
                Stage::Arrived => {
                    state.in_progress -= 1;
                    return Some(answer);
                }
            }
        }
        None
    }

    /// The machine was suspended for this time: everything happens later.
    pub fn postpone(&mut self, by: Nanos) {
        let later = |Reverse(step): Reverse<Step>| {
            let stage = if let Stage::Served(begin) = step.stage { Stage::Served(begin + by) } else { step.stage };
            Reverse(Step { time: step.time + by, stage, ..step })
        };
        self.steps = std::mem::take(&mut self.steps).into_iter().map(later).collect();
        for state in &mut self.states {
            let times = [&mut state.out_free, &mut state.back_free].into_iter().chain(&mut state.servers);
            times.for_each(|time| *time += by);
        }
    }

    /// Busy time of the parts of a network until `now`. Parts without queues are busy several times at once.
    pub fn busy(&self, network: usize, now: Nanos) -> Busy {
        let state = &self.states[network];
        let mut busy = state.busy;
        if state.queues {
            busy.out = busy.out.since(state.out_free.since(now));
            busy.back = busy.back.since(state.back_free.since(now));
        }
        for Reverse(step) in self.steps.iter().filter(|Reverse(step)| step.answer.network == network) {
            if let Stage::Served(begin) = step.stage {
                busy.server = busy.server.since(step.time.since(begin.max(now)));
            }
        }
        busy
    }
}

impl State {
    fn latency(&self) -> Nanos {
        self.wire.map_or(Nanos::ZERO, |(_, latency)| latency)
    }

    /// Time to transfer so many bytes.
    fn time_of(&self, bytes: u64) -> Nanos {
        self.wire
            .map_or(Nanos::ZERO, |(mbit_s, _)| Nanos((u128::from(bytes) * 8_000 / u128::from(mbit_s.max(1))) as u64))
    }

    /// Transfers a message that is ready at `from`, back from the server or to it. Returns the end.
    fn transfer(&mut self, from: Nanos, bytes: u64, back: bool) -> Nanos {
        let time = self.time_of(bytes);
        let (free, busy) = match back {
            true => (&mut self.back_free, &mut self.busy.back),
            false => (&mut self.out_free, &mut self.busy.out),
        };
        *busy += time;
        let begin = if self.queues { from.max(*free) } else { from };
        *free = begin + time;
        begin + time
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine_model::{Estimate, Routing};

    fn network(servers: u32, server_ns: u64) -> Network {
        let exactly = Estimate::exactly;
        Network {
            name: "eth0".to_owned(),
            link: Link::Wire { latency_ns: exactly(1_000), mbit_s: exactly(8_000) },
            server_ns: exactly(server_ns),
            exponential: false,
            servers,
            interrupt_cpus: None,
            routing: Routing::One,
            top_ns: exactly(0),
            bottom_ns: exactly(0),
        }
    }

    fn networks(network: Network, without_queues: bool) -> Networks {
        Networks::new(&Description { networks: vec![network], without_queues })
    }

    /// Submits these calls; returns time of the answer, task, wait and service of each.
    fn answers(networks: &mut Networks, calls: &[(u64, u64, u64)]) -> Vec<(u64, u32, u64, u64)> {
        for (task, &(time, bytes, reply)) in (0..).zip(calls) {
            let call = Call { task: TaskId(task), bytes, reply };
            assert_eq!(networks.submit(Nanos(time), 0, call, &mut |_| unreachable!()), task);
        }
        let mut all = Vec::new();
        while let Some(now) = networks.due() {
            while let Some(Answered { call, wait, service, .. }) = networks.answered(now) {
                all.push((now.0, call.task.0, wait.0, service.0));
            }
        }
        all
    }

    /// 8000 Mbit/s are a byte per nanosecond.
    #[test]
    fn call_takes_both_transfers_both_latencies_and_the_server() {
        let mut alone = networks(network(1, 500), false);
        assert_eq!(answers(&mut alone, &[(10, 100, 40)]), [(10 + 100 + 1_000 + 500 + 40 + 1_000, 0, 0, 500)]);
        assert_eq!(alone.busy(0, Nanos(10_000)), Busy { out: Nanos(100), back: Nanos(40), server: Nanos(500) });
    }

    #[test]
    fn calls_wait_for_link_server_and_the_way_back() {
        // The second waits 100 for the link and 400 for the server, then its answer finds the link free.
        let mut queue = networks(network(1, 500), false);
        assert_eq!(answers(&mut queue, &[(0, 100, 40), (0, 100, 40)]), [(2_640, 0, 0, 500), (3_140, 1, 500, 500)]);
        // With two servers it waits 100 for the link; its answer is ready 100 after the first and waits 200.
        let mut back = networks(network(2, 500), false);
        assert_eq!(answers(&mut back, &[(0, 100, 300), (0, 100, 300)]), [(2_900, 0, 0, 500), (3_200, 1, 300, 500)]);
        let mut without = networks(network(1, 500), true);
        assert_eq!(answers(&mut without, &[(0, 100, 40), (0, 100, 40)]), [(2_640, 0, 0, 500), (2_640, 1, 0, 500)]);
    }

    #[test]
    fn busy_time_of_a_network_ends_at_the_time_of_the_question() {
        let mut networks = networks(network(1, 500), false);
        networks.submit(Nanos(0), 0, Call { task: TaskId(0), bytes: 100, reply: 40 }, &mut |_| 0);
        let at = |time| networks.busy(0, Nanos(time));
        assert_eq!(at(30), Busy { out: Nanos(30), ..Busy::default() });
        assert_eq!(at(1_300), Busy { out: Nanos(100), server: Nanos(200), ..Busy::default() });
    }

    #[test]
    fn loopback_takes_cpu_time_and_a_suspend_postpones_calls() {
        let exactly = Estimate::exactly;
        let link = Link::Loopback { overhead_ns: exactly(50), mb_s: exactly(1_000) };
        let mut local = networks(Network { link, ..network(1, 500) }, false);
        let call = Call { task: TaskId(0), bytes: 10, reply: 20 };
        assert_eq!(local.cpu_time(0, &call), Some(Nanos(80)));
        local.submit(Nanos(0), 0, call, &mut |_| 0);
        local.postpone(Nanos(1_000));
        assert_eq!(local.due(), Some(Nanos(1_500)), "the server only: there is no link");
    }
}
