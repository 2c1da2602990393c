// SPDX-License-Identifier: GPL-2.0-only
//! Queues: the closed forms of queueing theory, and curves of throughput and latency against load beside them.
//!
//! 1. A *station* has some identical servers with one queue. Requests arrive at a rate and need a service time; the
//!    offered load rho is the rate times the mean service time, divided by the number of servers.
//! 2. M/M/c (Erlang, 1917): Poisson arrivals, exponential service times, first come first served. M/D/1 and M/G/1
//!    (Pollaczek, 1930; Khinchin, 1932): other service times at one server. Processor sharing at one server has the
//!    mean of M/M/1 for every distribution of service times (Kleinrock, 1976).
//! 3. A closed station (machine repairman) has N customers, each of which thinks and then asks for service.
//! 4. A load curve has a knee where throughput divided by mean latency, Kleinrock's power, is greatest.
//!
//! The forms describe an ideal station. What they lack (switches, ticks, several queues, preemption) is what a
//! simulated curve beside them shows.

mod curve;
mod forms;
mod interval;
mod text;

pub use curve::{Curve, Point, Resource};
pub use forms::{closed, md1, mg1, mmc, probability_of_wait, processor_sharing};
pub use interval::interval_of_mean;
pub use text::{plot, to_text};
