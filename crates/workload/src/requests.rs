// SPDX-License-Identifier: GPL-2.0-only
//! Sources of requests: arrivals from outside, at a rate that does not depend on how fast they are served.
//!
//! 1. The n-th arrival of a source has a time and a service time that depend only on the source, the seed and n, so
//!    that all schedulers serve the same requests.
//! 2. Requests form one queue in order of arrival. A task that takes a request ([`crate::Op::TakeRequest`]) gets the
//!    first that was not taken, and sleeps until its arrival if that is still to come.
//! 3. A request is complete when its task takes the next one, or exits. Its latency runs from its arrival.

use crate::random::Stream;
use crate::{Op, TaskSpec, Workload};
use ids::Nanos;

/// Index of a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourceId(pub u32);

/// Arrivals of a source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Arrivals {
    /// A Poisson process with this mean time between two arrivals.
    Poisson(Nanos),
    /// An arrival after each such time.
    Periodic(Nanos),
    /// Arrivals at these times, in order; no requests arrive afterwards.
    Times(Vec<Nanos>),
}

/// A source of requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// Name.
    pub name: String,
    /// Arrivals, counted from `start`.
    pub arrivals: Arrivals,
    /// Begin of the first arrival's interval.
    pub start: Nanos,
    /// Mean service time, for [`Op::Serve`].
    pub service: Nanos,
    /// Service times are exponentially distributed; otherwise constant.
    pub exponential: bool,
    /// Time after the start of the run from which requests are measured; earlier ones warm the system up.
    pub measured_from: Nanos,
}

/// Limits of the time between two arrivals: 1 us, and an hour.
pub(crate) const GAPS: std::ops::RangeInclusive<Nanos> = Nanos(1_000)..=Nanos(3_600_000_000_000);

/// Maximum number of arrivals in a list.
const MAX_TIMES: usize = 1 << 24;

impl Source {
    /// Checks the values.
    ///
    /// # Errors
    /// Names the value and what was expected.
    pub(crate) fn check(&self) -> Result<(), String> {
        let problem = |text: String| Err(format!("source {:?}: {text}", self.name));
        match &self.arrivals {
            Arrivals::Poisson(gap) | Arrivals::Periodic(gap) if !GAPS.contains(gap) => {
                problem(format!("{gap} between two arrivals; expected 1 us to 1 h"))
            }
            Arrivals::Times(times) if times.len() > MAX_TIMES => {
                problem(format!("{} arrivals; expected at most {MAX_TIMES}", times.len()))
            }
            Arrivals::Times(times) if !times.is_sorted() => problem("the arrivals are not in order of time".to_owned()),
            _ if self.service > Nanos::from_secs(3600) => {
                problem(format!("a service time of {}; expected at most 1 h", self.service))
            }
            _ => Ok(()),
        }
    }

    /// Mean number of arrivals for each second.
    pub fn rate_per_s(&self) -> f64 {
        match &self.arrivals {
            Arrivals::Poisson(gap) | Arrivals::Periodic(gap) => 1e9 / gap.0.max(1) as f64,
            Arrivals::Times(times) => {
                let span = times.last().map_or(0, |last| last.0);
                times.len() as f64 * 1e9 / span.max(1) as f64
            }
        }
    }

    /// Arrivals with another mean rate; times of a list are stretched or compressed.
    pub fn set_rate(&mut self, rate_per_s: f64) {
        let own = self.rate_per_s();
        match &mut self.arrivals {
            Arrivals::Poisson(gap) | Arrivals::Periodic(gap) => *gap = Nanos((1e9 / rate_per_s).round() as u64),
            Arrivals::Times(times) => {
                times.iter_mut().for_each(|time| time.0 = (time.0 as f64 * (own / rate_per_s)).round() as u64);
            }
        }
    }

    /// Times of the arrivals from the start of the run, and their service times.
    pub fn sampled(&self, number: SourceId, seed: u64) -> impl Iterator<Item = (Nanos, Nanos)> + use<'_> {
        let mut stream = ArrivalStream::new(self, number, seed);
        std::iter::from_fn(move || stream.next(self)).map(|arrival| (arrival.time, arrival.service))
    }

    /// Number of arrivals from a time on and before another one.
    pub fn arrivals_within(&self, number: SourceId, seed: u64, from: Nanos, until: Nanos) -> u64 {
        let before = self.sampled(number, seed).take_while(|(time, _)| *time < until);
        before.filter(|(time, _)| *time >= from).count() as u64
    }
}

/// An arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arrival {
    /// Time from the start of the run.
    pub time: Nanos,
    /// Service time.
    pub service: Nanos,
}

/// The arrivals of a source in order.
#[derive(Debug)]
pub(crate) struct ArrivalStream {
    gaps: Stream,
    services: Stream,
    last: Nanos,
    count: usize,
}

impl ArrivalStream {
    pub fn new(source: &Source, number: SourceId, seed: u64) -> ArrivalStream {
        let stream = |purpose: u64| Stream::new(seed, 2 * u64::from(number.0) + purpose);
        ArrivalStream { gaps: stream(0), services: stream(1), last: source.start, count: 0 }
    }

    /// The next arrival; `None` after the last one.
    pub fn next(&mut self, source: &Source) -> Option<Arrival> {
        let time = match &source.arrivals {
            Arrivals::Poisson(gap) => Nanos(self.last.0.saturating_add(gap.exponential(self.gaps.word()).0)),
            Arrivals::Periodic(gap) => Nanos(self.last.0.saturating_add(gap.0)),
            Arrivals::Times(times) => source.start + *times.get(self.count)?,
        };
        (self.last, self.count) = (time, self.count + 1);
        let word = self.services.word();
        let service = if source.exponential { source.service.exponential(word) } else { source.service };
        Some(Arrival { time, service })
    }
}

impl Workload {
    /// Whether its tasks do nothing but serve one source with Poisson arrivals by CPU time, so that it is an open
    /// station of queueing theory.
    pub fn is_open_station(&self) -> bool {
        let serves = |op: &Op| matches!(op, Op::TakeRequest(_) | Op::Serve(_) | Op::Repeat { .. } | Op::Work { .. });
        matches!(&self.sources[..], [Source { arrivals: Arrivals::Poisson(_), .. }])
            && self.tasks.iter().all(|task| task.script.iter().all(serves))
    }

    /// Number of tasks that take requests.
    pub fn workers(&self) -> usize {
        let takes = |task: &&TaskSpec| task.script.iter().any(|op| matches!(op, Op::TakeRequest(_)));
        self.tasks.iter().filter(takes).count()
    }
}

/// Changes of the sources of a part.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct RequestChanges {
    /// Arrivals for each second, in thousandths.
    pub rate_milli: Option<u64>,
    pub service: Option<Nanos>,
    pub exponential: Option<bool>,
    pub arrivals: Option<ArrivalsChange>,
    pub warmup: Option<Nanos>,
    pub workers: Option<u32>,
}

/// Wanted kind of arrivals.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ArrivalsChange {
    Poisson,
    Periodic,
    /// A file of times, which must be read first ([`crate::PartSpec::set_arrivals`]).
    File(String),
    Times(Vec<Nanos>),
}

/// Maximum number of workers.
const MAX_WORKERS: u32 = 100_000;

impl RequestChanges {
    /// Keys of a part.
    pub const KEYS: [&'static str; 6] = ["rate", "service", "draw", "arrivals", "warmup", "workers"];

    /// Sets a key; an error is what was expected.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let time = |what: &str| value.parse::<Nanos>().map_err(|_| what.to_owned());
        match key {
            "rate" => {
                let rate = value.parse::<f64>().ok().filter(|rate| (0.001..=1e6).contains(rate));
                let rate = rate.ok_or("NUMBER of requests for each second, 0.001 to 1000000")?;
                self.rate_milli = Some((rate * 1000.0).round() as u64);
            }
            "service" => self.service = Some(time("TIME, the mean service time, such as 1ms")?),
            "draw" => {
                self.exponential = Some(match value {
                    "exponential" => true,
                    "constant" | "fixed" => false,
                    _ => return Err("exponential or constant".to_owned()),
                });
            }
            "arrivals" => {
                self.arrivals = Some(match value {
                    "poisson" => ArrivalsChange::Poisson,
                    "periodic" => ArrivalsChange::Periodic,
                    path if path.contains('/') || path.contains('.') => ArrivalsChange::File(path.to_owned()),
                    _ => return Err("poisson, periodic, or FILE of times (with / or . in its name)".to_owned()),
                });
            }
            "warmup" => self.warmup = Some(time("TIME that is not measured, such as 1s")?),
            "workers" => {
                let workers = value.parse().ok().filter(|workers| (1..=MAX_WORKERS).contains(workers));
                self.workers = Some(workers.ok_or_else(|| format!("NUMBER of tasks, 1 to {MAX_WORKERS}"))?);
            }
            _ => unreachable!("only its own keys"),
        }
        Ok(())
    }

    /// Applies the changes to the workload of the part.
    pub fn apply(&self, workload: &mut Workload) -> Result<(), String> {
        if *self == RequestChanges::default() {
            return Ok(());
        }
        let keys = Self::KEYS.join(", ");
        let [source] = &mut workload.sources[..] else {
            let count = workload.sources.len();
            return Err(format!(
                "{keys} belong to workloads with one source of requests, such as requests; this one has {count}"
            ));
        };
        source.service = self.service.unwrap_or(source.service);
        source.exponential = self.exponential.unwrap_or(source.exponential);
        source.measured_from = self.warmup.unwrap_or(source.measured_from);
        let gap = Nanos((1e9 / source.rate_per_s()).round() as u64);
        match &self.arrivals {
            None => {}
            Some(ArrivalsChange::Poisson) => source.arrivals = Arrivals::Poisson(gap),
            Some(ArrivalsChange::Periodic) => source.arrivals = Arrivals::Periodic(gap),
            Some(ArrivalsChange::Times(times)) => source.arrivals = Arrivals::Times(times.clone()),
            Some(ArrivalsChange::File(path)) => return Err(format!("arrivals={path}: the file was not read")),
        }
        if let Some(milli) = self.rate_milli {
            source.set_rate(milli as f64 / 1000.0);
        }
        if let Some(workers) = self.workers {
            let [first, rest @ ..] = &workload.tasks[..] else { return Ok(()) };
            if rest.iter().any(|task| task.script != first.script) {
                return Err("workers: the tasks of this workload differ; expected one kind of workers".to_owned());
            }
            let base = first.name.rsplit_once('-').map_or(first.name.as_str(), |(base, _)| base);
            let worker = |number: u32| TaskSpec { name: format!("{base}-{number}"), ..first.clone() };
            workload.tasks = (0..workers).map(worker).collect();
        }
        Ok(())
    }
}

/// Reads times of arrivals: one time with a unit for each line (`1.5ms`), or a plain number of seconds; empty lines and
/// lines that begin with `#` are skipped.
///
/// # Errors
/// Names the line and what was expected.
pub fn read_arrivals(text: &str) -> Result<Vec<Nanos>, String> {
    let mut times: Vec<Nanos> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let seconds = line.parse::<f64>().ok().filter(|seconds| (0.0..1e6).contains(seconds));
        let time = match seconds {
            Some(seconds) => Nanos((seconds * 1e9).round() as u64),
            None => {
                line.parse().map_err(|_| format!("line {number}: {line:?}; expected a time such as 1.5ms or 0.0015"))?
            }
        };
        if times.last().is_some_and(|last| *last > time) {
            return Err(format!("line {number}: {line} is before the line above; expected times in order"));
        }
        times.push(time);
    }
    if times.is_empty() { Err("no times; expected one on each line, such as 1.5ms".to_owned()) } else { Ok(times) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(arrivals: Arrivals) -> Source {
        let (start, measured_from) = (Nanos(0), Nanos(0));
        Source { name: "s".to_owned(), arrivals, start, service: Nanos(1000), exponential: true, measured_from }
    }

    /// Mean and squared coefficient of variation.
    fn moments(values: &[f64]) -> (f64, f64) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
        (mean, variance / mean / mean)
    }

    #[test]
    fn poisson_arrivals_have_exponential_gaps_independent_of_services() {
        let source = source(Arrivals::Poisson(Nanos(1_000_000)));
        let mut stream = ArrivalStream::new(&source, SourceId(0), 7);
        let arrivals: Vec<Arrival> = std::iter::from_fn(|| stream.next(&source)).take(200_000).collect();
        let gaps: Vec<f64> = arrivals.windows(2).map(|pair| (pair[1].time - pair[0].time).0 as f64).collect();
        let services: Vec<f64> = arrivals.iter().map(|arrival| arrival.service.0 as f64).collect();
        for (values, expected) in [(&gaps, 1e6), (&services, 1e3)] {
            let (mean, variation) = moments(values);
            assert!((mean / expected - 1.0).abs() < 0.01 && (variation - 1.0).abs() < 0.03, "{mean}, {variation}");
        }
        let product: f64 =
            gaps.iter().zip(&services).map(|(gap, service)| (gap / 1e6 - 1.0) * (service / 1e3 - 1.0)).sum();
        assert!((product / gaps.len() as f64).abs() < 0.01, "{product}");
        let again: Vec<Nanos> = {
            let mut stream = ArrivalStream::new(&source, SourceId(0), 8);
            std::iter::from_fn(|| stream.next(&source)).take(10).map(|arrival| arrival.time).collect()
        };
        assert!(again.iter().zip(&arrivals).all(|(other, first)| *other != first.time), "seeds differ");
    }

    #[test]
    fn arrivals_are_counted_within_a_window() {
        let source = source(Arrivals::Periodic(Nanos(1_000)));
        let count = |from, until| source.arrivals_within(SourceId(0), 1, Nanos(from), Nanos(until));
        assert_eq!((count(0, 10_000), count(5_000, 10_000), count(5_001, 10_001)), (9, 5, 5));
    }

    #[test]
    fn listed_times_are_stretched_to_a_rate() {
        let mut source = source(Arrivals::Times(vec![Nanos(100_000_000), Nanos(400_000_000)]));
        assert_eq!(source.rate_per_s(), 5.0);
        source.set_rate(10.0);
        assert_eq!(source.arrivals, Arrivals::Times(vec![Nanos(50_000_000), Nanos(200_000_000)]));
    }

    #[test]
    fn arrival_file_is_read_with_lines_in_errors() {
        assert_eq!(read_arrivals("# times\n1ms\n\n0.25\n"), Ok(vec![Nanos(1_000_000), Nanos(250_000_000)]));
        let problem = |text: &str| read_arrivals(text).unwrap_err();
        assert_eq!(problem("1ms\nsoon"), "line 2: \"soon\"; expected a time such as 1.5ms or 0.0015");
        assert_eq!(problem("2ms\n1ms"), "line 2: 1ms is before the line above; expected times in order");
        assert_eq!(problem("#"), "no times; expected one on each line, such as 1.5ms");
        assert!(problem("-1").contains("line 1"));
    }
}
