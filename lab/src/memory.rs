// SPDX-License-Identifier: GPL-2.0-only
//! Comparison of the memory model with published measurements: loaded latency of three two-socket Xeons, and a
//! four-socket Opteron whose threads read or write local and remote memory.
//!
//! Each parameter is taken from one measurement, and all others are predicted. A row is a measurement; none is left out.

use anyhow::Result;
use clap::Args;
use ids::{CpuId, Nanos, Place, Placement, TaskId, Topology};
use machine_model::{Bandwidth, Effects, Estimate, Numa, Remote};
use memory::{Memory, ONE, Use};

/// Options of `cargo xtask memory`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo xtask memory > lab/results/memory.md")]
pub struct Arguments {}

const PROSE: &str = "\
# Memory: the model against published measurements

Written by `cargo xtask memory`: do not edit. Errors are those of the prediction, relative to the measurement.
";

/// Largest error of a prediction that counts as agreement, in percent.
const AGREES: f64 = 8.0;

/// A measurement and its prediction.
struct Row {
    what: String,
    measured: f64,
    predicted: f64,
    /// The parameter was taken from this measurement.
    fitted: bool,
}

impl Row {
    fn error(&self) -> f64 {
        100.0 * (self.predicted / self.measured - 1.0)
    }
}

/// Prints the document.
pub fn execute(_: &Arguments) -> Result<()> {
    println!("{PROSE}");
    println!("## Loaded latency\n");
    println!(
        "Intel MLC on three two-socket machines of the Skylake and Cascade Lake class: latency at a share u of the \
         highest read\nbandwidth, relative to the idle one. `knee_permille` is fitted to A at u = 0.59; B and C are \
         predicted.\n"
    );
    print(&loaded_latency());
    println!("\n## AMD 40555, four sockets (K8, 2006)\n");
    println!(
        "Time relative to one reader of local memory (100). Latencies by hops are those at which one reader takes the \
         published\ntimes; the share of a writer's time that waits for memory is fitted to two local writers; a node \
         has the published 4.5\nGB/s, a reader demands 1.64, a writer 2.98. Times of two threads are their mean.\n"
    );
    print(&opteron());
    Ok(())
}

fn print(rows: &[Row]) {
    println!("| measurement | published | model | error | |\n|---|---|---|---|---|");
    for row in rows {
        let note = match row.error().abs() <= AGREES {
            _ if row.fitted => "fitted",
            true => "agrees",
            false => "**does not agree**",
        };
        println!("| {} | {:.2} | {:.2} | {:+.1} % | {note} |", row.what, row.measured, row.predicted, row.error());
    }
    let predicted: Vec<&Row> = rows.iter().filter(|row| !row.fitted).collect();
    let agree = predicted.iter().filter(|row| row.error().abs() <= AGREES).count();
    println!("\n{agree} of {} predictions are within {AGREES} %.", predicted.len());
}

/// Machine, then load and latency relative to the idle one.
const LOADED: [(&str, [(f64, f64); 7]); 3] = [
    ("A", [(0.08, 1.04), (0.19, 1.14), (0.26, 1.19), (0.36, 1.20), (0.45, 1.22), (0.59, 1.28), (0.84, 1.57)]),
    ("B", [(0.08, 1.03), (0.18, 1.09), (0.25, 1.13), (0.35, 1.21), (0.43, 1.25), (0.55, 1.29), (0.75, 1.44)]),
    ("C", [(0.07, 1.12), (0.16, 1.12), (0.23, 1.14), (0.32, 1.16), (0.39, 1.18), (0.52, 1.25), (0.74, 1.51)]),
];

fn loaded_latency() -> Vec<Row> {
    let fitted = LOADED[0].1[5];
    // 1 + 0.3 u + k u / (1 - u) is the measured value.
    let knee = (fitted.1 - 1.0 - 0.3 * fitted.0) * (1.0 - fitted.0) / fitted.0;
    let limits = bandwidth(1, 300, (knee * 1_000.0).round() as u64);
    let row = |machine: &str, (load, measured): (f64, f64)| Row {
        what: format!("{machine}, u = {load:.2}"),
        measured,
        predicted: memory::loaded_latency(&limits, (load * ONE as f64) as u64) as f64 / ONE as f64,
        fitted: (load, measured) == fitted,
    };
    LOADED.iter().flat_map(|(machine, points)| points.iter().map(|&point| row(machine, point))).collect()
}

fn bandwidth(node_mb_s: u64, slope: u64, knee: u64) -> Bandwidth {
    let exactly = Estimate::exactly;
    Bandwidth {
        node_mb_s: exactly(node_mb_s),
        remote_mb_s: exactly(node_mb_s),
        slope_permille: exactly(slope),
        knee_permille: exactly(knee),
    }
}

/// One reader, with memory 0, 1, 1 and 2 hops away.
const READER: [f64; 4] = [100.0, 108.0, 109.0, 130.0];
const WRITER: [f64; 4] = [113.0, 127.0, 129.0, 149.0];
/// Two readers on node 0, the memory of the second one 0, 1, 1 and 2 hops away.
const READERS: [f64; 4] = [102.0, 108.0, 107.0, 118.0];
const WRITERS: [f64; 4] = [145.0, 127.0, 126.0, 136.0];
const NODE_MB_S: u64 = 4_500;
const READER_MB_S: u64 = 1_640;
const WRITER_MB_S: u64 = 2_980;

fn opteron() -> Vec<Row> {
    // 145 / 113 = 1 + d (m - 1), where the multiplier m makes two writers fit: 2 * 2.98 / (1 + d (m - 1)) = 4.5 at
    // full demand. At saturation the time alone is fixed, so d is the share for which it is 145 / 113 at the m of d = 1.
    let full = 2.0 * WRITER_MB_S as f64 / NODE_MB_S as f64;
    let share = ((WRITERS[0] / WRITER[0] - 1.0) / (full - 1.0) * 100.0).round() as u64;
    let reader = Use { stream_mb_s: READER_MB_S, share_percent: 100, ..Use::default() };
    let writer = Use { stream_mb_s: WRITER_MB_S, share_percent: share, ..Use::default() };
    let mut rows = Vec::new();
    let mut add =
        |what: &str, measured: [f64; 4], base: f64, of: &dyn Fn(u32) -> Vec<Use>, fitted: &dyn Fn(u32) -> bool| {
            for hops in 0..4u32 {
                let times = times(&of(hops));
                let mean = times.iter().sum::<f64>() / times.len() as f64;
                rows.push(Row {
                    what: format!("{what}, {} hops", [0, 1, 1, 2][hops as usize]),
                    measured: measured[hops as usize],
                    predicted: base * mean,
                    fitted: fitted(hops),
                });
            }
        };
    let at = |uses: Use, node: u32| Use { placement: Some(Placement::Node(node)), ..uses };
    add("one reader", READER, 100.0, &|hops| vec![at(reader, hops)], &|_| true);
    add("one writer", WRITER, WRITER[0], &|hops| vec![at(writer, hops)], &|hops| hops == 0);
    add("two readers", READERS, 100.0, &|hops| vec![at(reader, 0), at(reader, hops)], &|_| false);
    add("two writers", WRITERS, WRITER[0], &|hops| vec![at(writer, 0), at(writer, hops)], &|hops| hops == 0);
    rows
}

/// Times of tasks on the CPUs of node 0, relative to each alone with local memory.
fn times(uses: &[Use]) -> Vec<f64> {
    let places = (0..8).map(|cpu| Place { core: cpu, llc: cpu, node: cpu / 2 }).collect();
    let distances: [[u32; 4]; 4] = [[10, 20, 21, 30], [20, 10, 30, 21], [21, 30, 10, 20], [30, 21, 20, 10]];
    let topology = Topology::new(places).with_distances(distances.iter().map(|row| row.to_vec()).collect());
    let row = |distance, percent: f64| Remote { distance, latency_ns: Estimate::exactly((percent * 100.0) as u64) };
    let numa = Numa {
        latency_ns: [10, 20, 21, 30].into_iter().zip(READER).map(|(distance, time)| row(distance, time)).collect(),
        placement: Placement::FirstTouch,
        balance_ms: 1_000,
        move_page_ns: Estimate::exactly(0),
    };
    let effects = Effects { numa: Some(numa), bandwidth: Some(bandwidth(NODE_MB_S, 0, 0)), ..Effects::default() };
    let mut memory = Memory::new(&effects, &topology).expect("it models memory");
    for (&uses, index) in uses.iter().zip(0..) {
        memory.add_task(TaskId(index), uses);
        memory.enter(Nanos::ZERO, TaskId(index), CpuId(index));
    }
    memory.solve(Nanos::ZERO, &mut Vec::new());
    (0..uses.len() as u32).map(|cpu| ONE as f64 / f64::from(memory.rate(CpuId(cpu)).bits())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_measurements_are_all_in_the_tables() {
        let (latency, opteron) = (loaded_latency(), opteron());
        assert_eq!((latency.len(), opteron.len()), (21, 16));
        assert_eq!(latency.iter().filter(|row| row.fitted).count(), 1);
        for row in latency.iter().chain(&opteron).filter(|row| row.fitted) {
            assert!(row.error().abs() < 5.0, "{}: fitted, but {:+.1} %", row.what, row.error());
        }
        let agree = latency.iter().filter(|row| row.error().abs() <= AGREES).count();
        assert!(agree >= 18, "{agree} of 21 loaded latencies");
    }
}
