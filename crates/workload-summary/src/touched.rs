// SPDX-License-Identifier: GPL-2.0-only
//! Resource use of a recording: page faults, I/O bytes, block-device requests, memory footprints.

use ids::Nanos;
use report::{count, counted, escape};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use workload::{Observed, Operation, Recording, Touched as Sums};

/// Number of processes shown.
const SHOWN: usize = 5;

/// Resource use of one recording; older recordings have none.
#[derive(Clone, PartialEq, Debug)]
pub struct Touched {
    sums: Sums,
    /// Number of stretches of work with any resource use.
    stretches: u64,
    devices: Vec<Row>,
    /// Processes, largest private memory first.
    processes: Vec<Process>,
    /// Private memory of all processes, in bytes.
    private: u64,
    /// Shared memory in bytes, summed over executables. Processes of the same executable share it, so the largest
    /// process counts for each.
    shared: u64,
    executables: u64,
    kernel: u64,
}

/// Requests of one kind to one device.
#[derive(Clone, PartialEq, Debug)]
struct Row {
    device: String,
    operation: Operation,
    /// Number of requests; the next field counts those submitted by recorded tasks themselves.
    requests: u64,
    own: u64,
    bytes: u64,
    median: Nanos,
    p99: Nanos,
    /// Largest number of requests to the device that were in progress at the same time, of all kinds.
    at_once: u64,
}

#[derive(Clone, PartialEq, Debug)]
struct Process {
    name: String,
    footprint: workload::Footprint,
}

impl Touched {
    /// Resource use of a recording; `None` if it has none.
    pub fn of(recording: &Recording) -> Option<Touched> {
        let observed = &recording.observed;
        if observed.is_empty() {
            return None;
        }
        let name = |task: u32| recording.workload.tasks[task as usize].name.clone();
        let processes = observed.footprints.iter();
        let mut processes: Vec<Process> =
            processes.map(|(&task, &footprint)| Process { name: name(task), footprint }).collect();
        processes.sort_by_key(|process| std::cmp::Reverse(process.footprint.private));
        let mut shared: BTreeMap<u64, u64> = BTreeMap::new();
        for Process { footprint, .. } in &processes {
            let most = shared.entry(footprint.executable).or_default();
            *most = (*most).max(footprint.shared);
        }
        let sum = |part: fn(&Process) -> u64| processes.iter().map(part).fold(0, u64::saturating_add);
        Some(Touched {
            sums: observed.touched(),
            stretches: observed.stretches.values().map(|all| all.len() as u64).sum(),
            devices: rows(observed),
            private: sum(|process| process.footprint.private),
            shared: shared.values().copied().fold(0, u64::saturating_add),
            executables: shared.len() as u64,
            kernel: sum(|process| process.footprint.kernel),
            processes,
        })
    }

    /// Paragraphs and tables as text.
    pub fn lines(&self) -> Vec<String> {
        let Sums { minor_faults, major_faults, read, written, device_read, device_written, beside_ns } = self.sums;
        let mut lines = vec![format!(
            "{} and {} major ones; system calls read {} and wrote {}; {} were read from devices, and {} were queued for \
             writing to devices",
            counted(minor_faults, "minor page fault"),
            count(major_faults),
            bytes(read),
            bytes(written),
            bytes(device_read),
            bytes(device_written),
        )];
        if beside_ns > 0 {
            lines.push(format!("tasks ran for {} while the SMT sibling of their CPU was busy", Nanos(beside_ns)));
        }
        if !self.processes.is_empty() {
            lines.push(format!(
                "memory at the exit of {}: {} private, {} shared within an executable ({}), {} in the kernel",
                if self.processes.len() == 1 {
                    "one process".to_owned()
                } else {
                    format!("{} processes", self.processes.len())
                },
                bytes(self.private),
                bytes(self.shared),
                counted(self.executables, "executable"),
                bytes(self.kernel),
            ));
            let mut table =
                format!("\n{:<20} {:>10} {:>10} {:>10}", "largest processes", "private", "shared", "kernel");
            for Process { name, footprint } in self.processes.iter().take(SHOWN) {
                let [private, shared, kernel] = [footprint.private, footprint.shared, footprint.kernel].map(bytes);
                let _ = write!(table, "\n{:<20} {private:>10} {shared:>10} {kernel:>10}", escape(name).to_string());
            }
            lines.push(table);
        }
        if !self.devices.is_empty() {
            let mut table = format!(
                "\n{:<12} {:<8} {:>9} {:>9} {:>10} {:>9} {:>9} {:>7}",
                "device", "", "requests", "of tasks", "bytes", "median", "p99", "at once"
            );
            for row in &self.devices {
                let _ = write!(
                    table,
                    "\n{:<12} {:<8} {:>9} {:>9} {:>10} {:>9} {:>9} {:>7}",
                    escape(&row.device).to_string(),
                    row.operation.name(),
                    count(row.requests),
                    count(row.own),
                    bytes(row.bytes),
                    row.median.to_string(),
                    row.p99.to_string(),
                    row.at_once,
                );
            }
            lines.push(table);
        }
        lines
    }

    /// The resource use of the workload as JSON.
    pub fn to_json(&self) -> Value {
        let Sums { minor_faults, major_faults, read, written, device_read, device_written, beside_ns } = self.sums;
        let devices = self.devices.iter().map(|row| {
            json!({
                "device": row.device, "operation": row.operation.name(), "requests": row.requests,
                "of_tasks": row.own, "bytes": row.bytes, "median_ns": row.median.0, "p99_ns": row.p99.0,
                "at_once": row.at_once,
            })
        });
        let processes = self.processes.iter().map(|Process { name, footprint }| {
            json!({
                "name": name, "private_bytes": footprint.private, "shared_bytes": footprint.shared,
                "kernel_bytes": footprint.kernel, "executable": footprint.executable,
            })
        });
        json!({
            "stretches": self.stretches, "minor_faults": minor_faults, "major_faults": major_faults,
            "read_bytes": read, "written_bytes": written, "device_read_bytes": device_read,
            "device_written_bytes": device_written, "beside_busy_thread_ns": beside_ns, "devices": devices.collect::<Vec<_>>(),
            "footprint": {
                "private_bytes": self.private, "shared_bytes": self.shared, "kernel_bytes": self.kernel,
                "executables": self.executables, "processes": processes.collect::<Vec<_>>(),
            },
        })
    }
}

/// One row for each device and operation.
fn rows(observed: &Observed) -> Vec<Row> {
    let mut kinds: BTreeMap<(&str, usize), (Vec<Nanos>, u64, u64)> = BTreeMap::new();
    for request in &observed.requests {
        let device = observed.devices[request.device as usize].name.as_str();
        let (services, own, bytes) = kinds.entry((device, request.operation as usize)).or_default();
        services.push(request.service);
        *own += u64::from(request.task.is_some());
        *bytes = bytes.saturating_add(request.bytes);
    }
    let row = |((device, operation), (mut services, own, bytes)): ((&str, usize), (Vec<Nanos>, u64, u64))| {
        services.sort_unstable();
        // Nearest-rank quantile.
        let rank = |permille: usize| services[(services.len() * permille).div_ceil(1_000) - 1];
        Row {
            device: device.to_owned(),
            operation: Operation::ALL[operation],
            requests: services.len() as u64,
            own,
            bytes,
            median: rank(500),
            p99: rank(990),
            at_once: at_once(observed, device),
        }
    };
    kinds.into_iter().map(row).collect()
}

/// Largest number of requests to a device that were in progress at the same time.
fn at_once(observed: &Observed, device: &str) -> u64 {
    let own = observed.requests.iter().filter(|request| observed.devices[request.device as usize].name == device);
    // At the same instant, ends precede beginnings.
    let mut changes: Vec<(u64, i64)> =
        own.flat_map(|request| [(request.time.0, 1), (request.time.0.saturating_add(request.service.0), -1)]).collect();
    changes.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, change) in changes {
        now += change;
        most = most.max(now);
    }
    most as u64
}

/// Bytes in binary units.
fn bytes(bytes: u64) -> String {
    let (mut number, mut unit) = (bytes as f64, "B");
    for next in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
        if number < 1024.0 {
            break;
        }
        (number, unit) = (number / 1024.0, next);
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{number:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::{Device, Footprint, Request, TaskSpec, Workload};

    fn recording() -> Recording {
        let task = |name: &str| {
            let rt_app = format!(r#"{{"tasks": {{"{name}": {{"loop": 1, "run": 10}}}}}}"#);
            Workload::from_rt_app("w", &rt_app).expect("a workload").tasks.remove(0)
        };
        let tasks: Vec<TaskSpec> = ["sh", "cc1", "cc1"].map(task).to_vec();
        let footprint = |private, shared, executable| Footprint { private, shared, kernel: 100, executable };
        let touched = Sums { minor_faults: 1_500, read: 3 << 20, device_written: 512, ..Sums::default() };
        let request = |time, device, service| Request {
            time: Nanos(time),
            task: (time % 2 == 0).then_some(1),
            device,
            operation: if device == 0 { Operation::Write } else { Operation::Read },
            bytes: 4_096,
            service: Nanos::from_us(service),
        };
        let mut requests: Vec<Request> = (1..=200).map(|number| request(number, 0, number)).collect();
        requests.push(request(300, 1, 7));
        let device = |number, name: &str| Device { number, name: name.to_owned() };
        let observed = Observed {
            footprints: [(0, footprint(10, 700, 1)), (1, footprint(2 << 20, 800, 2)), (2, footprint(1 << 20, 900, 2))]
                .into(),
            stretches: [(1, vec![workload::Stretch { until: 0, cpu: ids::CpuId(0), touched }])].into(),
            devices: vec![device(5, "vda"), device(6, "sr0")],
            requests,
        };
        Recording { meta: Default::default(), workload: Workload { tasks, ..Workload::default() }, observed }
    }

    #[test]
    fn shared_memory_counts_once_per_executable_and_requests_have_quantiles() {
        let touched = Touched::of(&recording()).expect("something");
        let json = touched.to_json();
        assert_eq!(json["footprint"]["shared_bytes"], 700 + 900);
        assert_eq!(json["footprint"]["private_bytes"], (3 << 20) + 10);
        assert_eq!((&json["footprint"]["kernel_bytes"], &json["minor_faults"]), (&json!(300), &json!(1_500)));
        let [reads, writes] = &json["devices"].as_array().expect("rows")[..] else { panic!("{json}") };
        let expected = json!({"device": "vda", "operation": "write", "requests": 200, "of_tasks": 100,
            "bytes": 819_200, "median_ns": 100_000, "p99_ns": 198_000, "at_once": 200});
        assert_eq!(writes, &expected);
        assert_eq!((&reads["median_ns"], &reads["p99_ns"]), (&json!(7_000), &json!(7_000)));
        let lines = touched.lines();
        assert!(
            lines[0].starts_with("1,500 minor page faults and 0 major ones; system calls read 3.0 MiB"),
            "{lines:?}"
        );
        let first = lines[2].lines().nth(2).expect("the largest process");
        assert!(first.starts_with("cc1 ") && first.contains("2.0 MiB"), "{lines:?}");
        assert!(lines.iter().flat_map(|line| line.lines().skip(1)).all(|line| line.chars().count() <= 80), "{lines:?}");
    }

    #[test]
    fn recording_without_resource_use_has_no_summary() {
        assert_eq!(Touched::of(&Recording { observed: Observed::default(), ..recording() }), None);
        assert_eq!([0, 1_023, 1_024, 5 << 40].map(bytes), ["0 B", "1023 B", "1.0 KiB", "5.0 TiB"]);
    }
}
