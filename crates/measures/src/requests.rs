// SPDX-License-Identifier: GPL-2.0-only
//! Requests that arrive from outside: how many, and how long each takes from its arrival to its completion.

use crate::{Histogram, LatencySummary};
use ids::Nanos;

/// Requests of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestMeasures {
    /// Name of the source.
    pub source: String,
    /// Time that is measured: from the end of the warm-up to the end of the run.
    pub measured: Nanos,
    /// Number of requests that arrived within that time.
    pub arrivals: u64,
    /// Number of all requests completed in the run, those of the warm-up included.
    pub served: u64,
    /// Time from arrival to completion of each request that was completed within the measured time.
    pub latencies: Histogram<6>,
}

impl RequestMeasures {
    /// Records a completed request; `measured`: after the warm-up.
    pub fn complete(&mut self, latency: Nanos, measured: bool) {
        self.served += 1;
        if measured {
            self.latencies.record(latency);
        }
    }

    /// Adds the requests of another source, or of another run of the same one.
    pub fn add(&mut self, other: &RequestMeasures) {
        self.measured += other.measured;
        self.arrivals += other.arrivals;
        self.served += other.served;
        self.latencies.add(&other.latencies);
    }

    /// Number of requests completed within the measured time.
    pub fn completed(&self) -> u64 {
        self.latencies.count()
    }

    /// Summary of `latencies`.
    pub fn latency(&self) -> LatencySummary {
        self.latencies.summary()
    }
}

/// Latency of the requests of all sources; `None` if there is no source.
pub(crate) fn latency(all: &[RequestMeasures]) -> Option<LatencySummary> {
    let mut sum = all.first()?.clone();
    all[1..].iter().for_each(|other| sum.add(other));
    Some(sum.latency())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_the_warm_up_are_served_but_not_measured() {
        let mut requests = RequestMeasures::default();
        requests.complete(Nanos(100), false);
        requests.complete(Nanos(200), true);
        let mut other = RequestMeasures::default();
        other.complete(Nanos(300), true);
        assert_eq!(latency(&[]), None);
        let both = latency(&[requests.clone(), other.clone()]).unwrap();
        assert_eq!((both.count, both.mean, both.max), (2, Nanos(250), Nanos(300)));
        requests.add(&other);
        assert_eq!((requests.served, requests.completed()), (3, 2));
    }
}
