// SPDX-License-Identifier: GPL-2.0-only
//! A load curve: what a system does at several rates of arrivals, and what follows from it.

use crate::{md1, mmc, processor_sharing};
use serde_json::{Value, json};

/// Share of its time for which a resource must be busy to count as saturated, in parts per million.
const SATURATED_PPM: u64 = 950_000;

/// Throughput below this share of the arrivals shows that a queue grows without bound.
const KEEPS_UP: f64 = 0.97;

/// Use of a resource at one rate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resource {
    /// `cpus`, or `disk:` and the name of a disk.
    pub name: String,
    /// Busy share of its servers' time, in parts per million.
    pub utilization_ppm: u64,
}

/// Results at one rate of arrivals.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// Requested arrivals for each second.
    pub rate_per_s: f64,
    /// Number of requests that arrived within the measured time.
    pub arrivals: u64,
    /// Number of requests that were completed within the measured time.
    pub completed: u64,
    /// Completed requests for each second.
    pub throughput_per_s: f64,
    /// Time from arrival to completion in nanoseconds: mean, median, 99th percentile; `None` if none was completed.
    pub latency_ns: Option<[u64; 3]>,
    /// Lower and upper end of the 95 % interval of the mean, from the means of several seeds.
    pub mean_interval_ns: Option<[u64; 2]>,
    /// Mean time for which a request occupied a CPU, scheduler and interrupts included, in nanoseconds.
    pub service_ns: Option<u64>,
    /// Use of each resource, the CPUs first.
    pub resources: Vec<Resource>,
}

/// A load curve.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    /// Scheduler.
    pub scheduler: String,
    /// Machine.
    pub machine: String,
    /// Workload.
    pub workload: String,
    /// Number of servers: CPUs that may execute requests.
    pub servers: u32,
    /// Requests use nothing but CPUs, and arrive by a Poisson process, so that the closed forms apply.
    pub is_open_station: bool,
    /// Number of seeds for each rate.
    pub seeds: u64,
    /// Points in order of rates.
    pub points: Vec<Point>,
}

impl Point {
    /// Throughput divided by mean latency.
    fn power(&self) -> Option<f64> {
        let [mean, ..] = self.latency_ns?;
        (mean > 0).then(|| self.throughput_per_s / mean as f64)
    }

    /// Whether requests were completed as fast as they arrived.
    fn keeps_up(&self) -> bool {
        self.completed as f64 >= KEEPS_UP * self.arrivals as f64
    }
}

impl Curve {
    /// Name in titles.
    pub fn name(&self) -> String {
        format!("{} on {}, workload {}", self.scheduler, self.machine, self.workload)
    }

    /// Rate of the point with the greatest power; `None` if that is the first or the last one, so that the knee may be
    /// outside of the measured rates.
    pub fn knee_per_s(&self) -> Option<f64> {
        let powers: Vec<f64> = self.points.iter().map(|point| point.power().unwrap_or(0.0)).collect();
        let best = (0..powers.len()).max_by(|&a, &b| powers[a].total_cmp(&powers[b]).then(b.cmp(&a)))?;
        (best > 0 && best + 1 < powers.len()).then(|| self.points[best].rate_per_s)
    }

    /// Name of what limits the throughput at the highest rate that does not keep up: the busiest resource if it is
    /// saturated, else `workers`. `None` if all rates keep up.
    pub fn saturated(&self) -> Option<&str> {
        let last = self.points.iter().rfind(|point| !point.keeps_up())?;
        let busiest = last.resources.iter().rev().max_by_key(|resource| resource.utilization_ppm);
        match busiest {
            Some(resource) if resource.utilization_ppm >= SATURATED_PPM => Some(&resource.name),
            _ => Some("workers"),
        }
    }

    /// Mean latency in nanoseconds by M/M/c, by M/D/1, and by processor sharing (the latter two for one CPU only), for
    /// the service time that was measured at this point.
    pub fn forms(&self, point: &Point) -> [Option<f64>; 3] {
        let Some(service) = point.service_ns.filter(|_| self.is_open_station) else { return [None; 3] };
        let (rate, service) = (point.rate_per_s / 1e9, service as f64);
        let one = |value: Option<f64>| value.filter(|_| self.servers == 1);
        [mmc(self.servers, rate, service), one(md1(rate, service)), one(processor_sharing(rate, service))]
    }

    /// Rows of `load` in the JSON.
    pub fn rows(&self) -> Vec<Value> {
        let row = |point: &Point| {
            let [mmc, md1, sharing] = self.forms(point).map(|value| value.map(|ns| ns.round() as u64));
            let latency = point.latency_ns.map(|[mean, p50, p99]| json!({ "mean": mean, "p50": p50, "p99": p99 }));
            json!({
                "scheduler": self.scheduler,
                "machine": self.machine,
                "rate_per_s": point.rate_per_s,
                "arrivals": point.arrivals,
                "completed": point.completed,
                "throughput_per_s": point.throughput_per_s,
                "latency_ns": latency,
                "latency_mean_interval_ns": point.mean_interval_ns,
                "utilization_ppm": point.resources.first().map(|cpus| cpus.utilization_ppm),
                "resources": point.resources.iter().map(|resource| {
                    json!({ "name": resource.name, "utilization_ppm": resource.utilization_ppm })
                }).collect::<Vec<_>>(),
                "service_ns": point.service_ns,
                "mmc_ns": mmc,
                "md1_ns": md1,
                "processor_sharing_ns": sharing,
            })
        };
        self.points.iter().map(row).collect()
    }

    /// What follows from the curve, for the JSON.
    pub fn summary(&self) -> Value {
        json!({
            "scheduler": self.scheduler,
            "machine": self.machine,
            "workload": self.workload,
            "cpus": self.servers,
            "seeds": self.seeds,
            "knee_per_s": self.knee_per_s(),
            "saturated": self.saturated(),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// M/M/1 with a service time of 1 ms at these rates; beyond saturation, latencies of 1 s.
    pub(crate) fn ideal(rates: &[f64]) -> Curve {
        let point = |&rate: &f64| {
            let mean = mmc(1, rate / 1e9, 1e6).unwrap_or(1e9);
            let completed = rate.min(1000.0);
            Point {
                rate_per_s: rate,
                arrivals: rate as u64 * 10,
                completed: completed as u64 * 10,
                throughput_per_s: completed,
                latency_ns: Some([mean as u64, (mean * f64::ln(2.0)) as u64, (mean * f64::ln(100.0)) as u64]),
                mean_interval_ns: None,
                service_ns: Some(1_000_000),
                resources: vec![Resource { name: "cpus".to_owned(), utilization_ppm: (completed * 1000.0) as u64 }],
            }
        };
        Curve {
            scheduler: "fifo".to_owned(),
            machine: "pu:1".to_owned(),
            workload: "requests".to_owned(),
            servers: 1,
            is_open_station: true,
            seeds: 1,
            points: rates.iter().map(point).collect(),
        }
    }

    /// Power of M/M/1 is rate (1 - rho) / S, whose maximum is at rho = 1/2.
    #[test]
    fn knee_of_a_single_server_is_at_half_its_capacity() {
        let rates: Vec<f64> = (1..=12).map(|step| 100.0 * f64::from(step)).collect();
        assert_eq!(ideal(&rates).knee_per_s(), Some(500.0));
        assert_eq!(ideal(&rates).saturated(), Some("cpus"));
        assert_eq!((ideal(&rates[..3]).knee_per_s(), ideal(&rates[..3]).saturated()), (None, None), "not reached");
        assert_eq!(ideal(&rates[8..]).knee_per_s(), None, "already passed");
        assert_eq!(ideal(&[]).knee_per_s(), None);
    }

    #[test]
    fn busiest_saturated_resource_is_named() {
        let mut curve = ideal(&[500.0, 2000.0]);
        let disk = Resource { name: "disk:sda".to_owned(), utilization_ppm: 999_000 };
        curve.points[1].resources[0].utilization_ppm = 400_000;
        assert_eq!(curve.saturated(), Some("workers"), "requests wait although no resource is busy");
        curve.points[1].resources.push(disk);
        assert_eq!(curve.saturated(), Some("disk:sda"));
    }

    #[test]
    fn closed_forms_need_an_open_station() {
        let mut curve = ideal(&[800.0]);
        assert_eq!(
            curve.forms(&curve.points[0]).map(|ns| ns.map(|ns| ns.round())),
            [Some(5_000_000.0), Some(3_000_000.0), Some(5_000_000.0)]
        );
        curve.servers = 2;
        assert!(matches!(curve.forms(&curve.points[0]), [Some(_), None, None]));
        curve.is_open_station = false;
        assert_eq!(curve.forms(&curve.points[0]), [None; 3]);
    }
}
