// SPDX-License-Identifier: GPL-2.0-only
//! Disks of a machine. `crates/devices` implements them; `docs/explanation/devices.md` has the formulas.

use crate::Estimate;
use ids::CpuSet;

/// Order in which a disk begins requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// First come, first served.
    #[default]
    Fifo,
    /// Upwards by position from the head to the last one, then again from the lowest (one-way elevator, C-LOOK).
    Elevator,
}

impl Order {
    /// All orders with their names.
    pub const NAMES: [(&'static str, Order); 2] = [("fifo", Order::Fifo), ("elevator", Order::Elevator)];
}

/// CPU that handles a disk's interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Routing {
    /// The first CPU of the set.
    #[default]
    One,
    /// The CPUs of the set in turn.
    RoundRobin,
    /// The CPU that issued the request, if it is in the set (a queue for each CPU); otherwise the first.
    Issuer,
}

impl Routing {
    /// All routings with their names.
    pub const NAMES: [(&'static str, Routing); 3] =
        [("one", Routing::One), ("round-robin", Routing::RoundRobin), ("issuer", Routing::Issuer)];
}

/// How long a request takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Service {
    /// As long as in the recording that contains the request.
    Recorded,
    /// No device: CPU time of the task.
    Ram {
        /// For each request, in nanoseconds.
        overhead_ns: Estimate,
        /// Copying, in 10^6 bytes a second.
        mb_s: Estimate,
    },
    /// A mean time that does not depend on the position, and the transfer.
    Flash {
        /// Mean time of a read without the transfer, in nanoseconds.
        read_ns: Estimate,
        /// Mean time of a write without the transfer, in nanoseconds.
        write_ns: Estimate,
        /// Transfer, in 10^6 bytes a second.
        mb_s: Estimate,
        /// The time without the transfer is exponentially distributed; otherwise constant.
        exponential: bool,
    },
    /// A spindle: overhead, seek, rotation, transfer.
    Spindle {
        /// Of controller and command, in nanoseconds.
        overhead_ns: Estimate,
        /// Seek to the next track, in nanoseconds.
        seek_track_ns: Estimate,
        /// Mean seek between two random positions, in nanoseconds.
        seek_average_ns: Estimate,
        /// Revolutions a minute.
        rpm: u64,
        /// Transfer, in 10^6 bytes a second.
        mb_s: Estimate,
        /// Capacity in 10^9 bytes.
        capacity_gb: u64,
    },
}

/// A disk, or several equal ones that are used as one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Disk {
    /// Name, as in `/dev`.
    pub name: String,
    /// How long a request takes.
    pub service: Service,
    /// Number of requests that a member serves at the same time.
    pub servers: u32,
    /// Number of requests that a member holds; the kernel keeps the others and chooses the next by `order`.
    pub depth: u32,
    /// Order of the requests that the kernel keeps.
    pub order: Order,
    /// Number of equal members over which addresses are striped (RAID 0); a spindle each.
    pub spindles: u32,
    /// Length of a stripe of one member, in KiB.
    pub stripe_kb: u32,
    /// CPUs that may handle its interrupts; `None`: all.
    pub interrupt_cpus: Option<CpuSet>,
    /// CPU that handles an interrupt.
    pub routing: Routing,
    /// Top half: interrupt handler, in nanoseconds.
    pub top_ns: Estimate,
    /// Bottom half for each completed request: softirq, in nanoseconds.
    pub bottom_ns: Estimate,
}

/// All disks of a machine, and which of their effects are modelled.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Disks {
    /// The disks, in order of their names.
    pub disks: Vec<Disk>,
    /// Requests take their service times, but never wait for others.
    pub without_queues: bool,
    /// Interrupts of disks and networks take no time, and arrive at the CPU that issued the request.
    pub without_interrupts: bool,
}

impl Disks {
    /// Whether any disk is a device.
    pub fn has_devices(&self) -> bool {
        self.disks.iter().any(Disk::is_device)
    }
}

/// Top and bottom half of a disk interrupt, in nanoseconds: guesses for current machines, as wide as they are vague.
/// Measured: all of it together took 2.5 us for each request of a virtio disk (docs/explanation/devices.md).
pub(crate) const TOP_NS: Estimate = Estimate { low: 500, typical: 1_000, high: 2_000 };
pub(crate) const BOTTOM_NS: Estimate = Estimate { low: 500, typical: 1_500, high: 5_000 };

/// Presets of disks with their TOML text.
pub const fn disk_presets() -> &'static [(&'static str, &'static str)] {
    &[
        ("hdd-7200", include_str!("../../../machines/disks/hdd-7200.toml")),
        ("ssd-sata", include_str!("../../../machines/disks/ssd-sata.toml")),
        ("nvme", include_str!("../../../machines/disks/nvme.toml")),
        ("ram", include_str!("../../../machines/disks/ram.toml")),
        ("recorded", include_str!("../../../machines/disks/recorded.toml")),
    ]
}

impl Disk {
    /// Uncertain constants, with their groups.
    pub(crate) fn estimates(&mut self) -> Vec<(&'static str, &mut Estimate)> {
        let mut all = match &mut self.service {
            Service::Recorded => Vec::new(),
            Service::Ram { overhead_ns, mb_s } => vec![("disk-latency", overhead_ns), ("disk-rate", mb_s)],
            Service::Flash { read_ns, write_ns, mb_s, exponential: _ } => {
                vec![("disk-latency", read_ns), ("disk-latency", write_ns), ("disk-rate", mb_s)]
            }
            Service::Spindle { overhead_ns, seek_track_ns, seek_average_ns, rpm: _, mb_s, capacity_gb: _ } => vec![
                ("disk-latency", overhead_ns),
                ("disk-latency", seek_track_ns),
                ("disk-latency", seek_average_ns),
                ("disk-rate", mb_s),
            ],
        };
        all.extend([("irq", &mut self.top_ns), ("irq", &mut self.bottom_ns)]);
        all
    }

    /// Capacity of all members in bytes; that of a disk whose positions do not matter is 2^50.
    pub fn capacity(&self) -> u64 {
        let member = match self.service {
            Service::Spindle { capacity_gb, .. } => capacity_gb * 1_000_000_000,
            Service::Recorded | Service::Ram { .. } | Service::Flash { .. } => 1 << 50,
        };
        member.saturating_mul(u64::from(self.spindles))
    }

    /// Whether requests are served by a device rather than by the task's CPU.
    pub fn is_device(&self) -> bool {
        !matches!(self.service, Service::Ram { .. })
    }
}

#[cfg(test)]
mod tests {
    use crate::Machine;

    #[test]
    fn disk_presets_are_complete_and_round_trip() {
        let mut machine = Machine::from_synthetic("core:2 pu:1").unwrap();
        for (name, _) in super::disk_presets() {
            machine.add_disk(&format!("{name}-disk={name}")).unwrap();
        }
        let back = Machine::from_toml("m", &machine.to_toml()).unwrap();
        assert_eq!(back.effects.disks, machine.effects.disks, "{}", machine.to_toml());
        assert!(machine.is_uncertain());
    }

    #[test]
    fn disk_options_change_a_preset() {
        let mut machine = Machine::from_synthetic("core:4 pu:1").unwrap();
        machine.add_disk("sda=hdd-7200,spindles=8,order=fifo,interrupts=round-robin,interrupt_cpus=1-2").unwrap();
        machine.add_disk("hdd-7200").unwrap();
        let names: Vec<&str> = machine.effects.disks.disks.iter().map(|disk| disk.name.as_str()).collect();
        assert_eq!(names, ["sda"], "a disk of the same name is replaced");
        machine.add_disk("sda=hdd-7200,spindles=8,order=fifo,interrupts=round-robin,interrupt_cpus=1-2").unwrap();
        let sda = &machine.effects.disks.disks[0];
        assert_eq!((sda.spindles, sda.order, sda.routing), (8, super::Order::Fifo, super::Routing::RoundRobin));
        assert_eq!(sda.interrupt_cpus.as_ref().unwrap().to_string(), "1-2");
        let problem = |text: &str| machine.clone().add_disk(text).unwrap_err().to_string();
        for (text, expected) in [
            ("floppy", "no disk preset \"floppy\"; presets are hdd-7200, ssd-sata, nvme, ram, recorded"),
            ("hdd-720", "no disk preset \"hdd-720\" (did you mean hdd-7200?)"),
            ("hdd-7200,spindles=0", "spindles is 0; expected an integer from 1 to 1024"),
            ("hdd-7200,colour=red", "[disks] has an unknown key colour; known are like, kind, overhead_ns"),
            ("hdd-7200,order", "\"order\"; expected key=value"),
            ("a/b=nvme", "\"a/b\"; expected a name of letters, digits, - and _"),
            ("nvme,interrupt_cpus=9", "interrupt_cpus is \"9\"; expected CPUs of this machine, such as \"0-3\""),
        ] {
            let problem = problem(text);
            assert!(problem.starts_with(&format!("--disk {text}: {expected}")), "{problem}");
        }
    }
}
