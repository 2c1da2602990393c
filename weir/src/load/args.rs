// SPDX-License-Identifier: GPL-2.0-only
//! Arguments of `weir load`.

use crate::args::Format;
use clap::Args;
use ids::Nanos;
use machine_model::{Effect, NoiseSource};
use simulator::KernelName;
use std::path::PathBuf;

/// `weir load`.
#[derive(Args, Debug)]
#[command(
    max_term_width = 80,
    after_help = "\
Requests arrive from outside, however fast they are served; each rate is a run.
The result is throughput and latency by rate, the knee (where throughput divided
by mean latency is greatest), and what is saturated at the highest rate. If
requests need nothing but CPUs and arrive by a Poisson process, the mean latency
of M/M/c stands beside it, and for one CPU that of M/D/1 and of processor
sharing (PS), for the service time that was found.

W is requests, with any of ,service=TIME ,draw=exponential|constant
,workers=N, or an rt-app file with a section \"sources\"
(docs/reference/workloads.md). It has one source of requests.

FILE of --arrivals has a time on each line, such as 1.5ms, in order; --rates
stretches or compresses it.

Examples:
  weir load fifo -m pu:1 -w requests,service=1ms --rates 500,800
  weir load kernel fifo nix@amp -m nix-32 --rates 4000,8000,16000,24000,30000
  weir load fifo -m pu:1 -w requests,draw=constant --rates 500,800
  weir load fifo -m pu:1 --arrivals trace.txt --rates 200,400,800 --for 20s
  weir load bfs -m laptop-2c4t --rates 500,1000,1500 --seeds 5 --report l.html
  weir load fifo -m pu:2 -w ./reads.json --disk nvme --rates 5000,20000
  weir load fifo -m pu:1 --rates 500,900 --format json | jq .knee_per_s

Exit status: 0 fine, 1 a run failed, 2 bad usage or input."
)]
pub struct Load {
    /// Measure these schedulers, as for weir sim
    #[arg(value_name = "SCHED", required = true)]
    pub schedulers: Vec<String>,
    /// Arrivals for each second; each is a point of the curve
    ///
    /// Not needed with a FILE of arrivals, which has its own rate.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = rate)]
    pub rates: Vec<f64>,
    /// Simulate this machine, as for weir sim
    #[arg(short, long, value_name = "M", default_value = "host")]
    pub machine: String,
    /// Serve these requests, as for weir sim
    #[arg(short, long, value_name = "W", default_value = "requests")]
    pub workload: String,
    /// How requests arrive: poisson, periodic, or FILE of times
    ///
    /// [default: as the workload says]
    #[arg(long, value_name = "HOW")]
    pub arrivals: Option<String>,
    /// Requests of each run, which determine its length
    #[arg(long, value_name = "N", default_value_t = 20_000, conflicts_with = "duration",
          value_parser = clap::value_parser!(u64).range(10..=1_000_000_000))]
    pub requests: u64,
    /// Length of each run instead
    #[arg(long = "for", value_name = "TIME", value_parser = crate::args::duration)]
    pub duration: Option<Nanos>,
    /// Time at the start that is not measured [default: a tenth]
    #[arg(long, value_name = "TIME", value_parser = crate::args::duration)]
    pub warmup: Option<Nanos>,
    /// Run with this random seed, as for weir sim
    ///
    /// Arrivals and service times are sampled with any seed, 0 included.
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "seeds")]
    pub seed: u64,
    /// Run seeds 1 to N at each rate, with an interval of the mean
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=1000))]
    pub seeds: Option<u64>,
    /// Model this kernel version, as for weir sim
    #[arg(long, value_name = "VERSION", default_value = "7.2", value_parser = crate::args::kernel_name)]
    pub kernel: KernelName,
    /// Leave out effects, as for weir sim
    #[arg(long, value_name = "EFFECT", value_delimiter = ',')]
    pub without: Vec<Effect>,
    /// Give the machine a disk, as for weir sim
    #[arg(long = "disk", value_name = "DISK")]
    pub disks: Vec<String>,
    /// Give the machine a network, as for weir sim
    #[arg(long = "network", value_name = "NETWORK")]
    pub networks: Vec<String>,
    /// Give the machine a page cache, as for weir sim
    #[arg(long, value_name = "CACHE")]
    pub page_cache: Option<String>,
    /// Turn off sources of noise, as for weir sim
    #[arg(long, value_name = "SOURCE", value_delimiter = ',')]
    pub noise_off: Vec<NoiseSource>,
    /// Bring only the first N CPUs of the machine online
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub cpus: Option<u32>,
    /// Use this launch profile for schedulers given as paths
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Write the curves as a self-contained HTML page
    #[arg(long, value_name = "OUT.html")]
    pub report: Option<PathBuf>,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| (0.001..=1e6).contains(rate));
    rate.ok_or_else(|| "expected requests for each second, 0.001 to 1000000, separated by commas".to_owned())
}
