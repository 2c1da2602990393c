// SPDX-License-Identifier: GPL-2.0-only
//! Networks of a machine: a link, and a server behind it. `crates/devices` implements them;
//! `docs/explanation/devices.md` has the formulas.

use crate::{Estimate, Routing};
use ids::CpuSet;

/// How bytes get to the server and back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Link {
    /// A full-duplex link: each direction transfers one message at a time.
    Wire {
        /// Time of a bit from one end to the other, switches included, in nanoseconds.
        latency_ns: Estimate,
        /// Rate of each direction, in 10^6 bits a second.
        mbit_s: Estimate,
    },
    /// No device, and no server behind it: CPU time of the task for both messages.
    Loopback {
        /// For each call, in nanoseconds.
        overhead_ns: Estimate,
        /// Copying, in 10^6 bytes a second.
        mb_s: Estimate,
    },
}

/// A network interface with a server behind it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Network {
    /// Name, as shown by `ip link`.
    pub name: String,
    /// How bytes get to the server and back.
    pub link: Link,
    /// Mean service time of a call at the server, in nanoseconds.
    pub server_ns: Estimate,
    /// The service time is exponentially distributed; otherwise constant.
    pub exponential: bool,
    /// Number of calls that the server serves at the same time; the others wait in order of arrival.
    pub servers: u32,
    /// CPUs that may handle its interrupts; `None`: all.
    pub interrupt_cpus: Option<CpuSet>,
    /// CPU that handles an interrupt.
    pub routing: Routing,
    /// Top half: interrupt handler, in nanoseconds.
    pub top_ns: Estimate,
    /// Bottom half for each answer: softirq, in nanoseconds.
    pub bottom_ns: Estimate,
}

/// All networks of a machine, and which of their effects are modelled.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Networks {
    /// The networks, in order of their names.
    pub networks: Vec<Network>,
    /// Calls take their times, but never wait for others.
    pub without_queues: bool,
}

impl Networks {
    /// Whether any network is a device.
    pub fn has_devices(&self) -> bool {
        self.networks.iter().any(Network::is_device)
    }
}

/// Presets of networks with their TOML text.
pub const fn network_presets() -> &'static [(&'static str, &'static str)] {
    &[
        ("1gbe", include_str!("../../../machines/networks/1gbe.toml")),
        ("loopback", include_str!("../../../machines/networks/loopback.toml")),
    ]
}

impl Network {
    /// Uncertain constants, with their groups.
    pub(crate) fn estimates(&mut self) -> Vec<(&'static str, &mut Estimate)> {
        let mut all = match &mut self.link {
            Link::Wire { latency_ns, mbit_s } => vec![("network-latency", latency_ns), ("network-rate", mbit_s)],
            Link::Loopback { overhead_ns, mb_s } => vec![("network-latency", overhead_ns), ("network-rate", mb_s)],
        };
        all.extend([("server", &mut self.server_ns), ("irq", &mut self.top_ns), ("irq", &mut self.bottom_ns)]);
        all
    }

    /// Whether answers arrive by interrupts of a device.
    pub fn is_device(&self) -> bool {
        matches!(self.link, Link::Wire { .. })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Effect, Machine};

    #[test]
    fn network_presets_are_complete_and_round_trip() {
        let mut machine = Machine::from_synthetic("core:2 pu:1").unwrap();
        for (name, _) in super::network_presets() {
            machine.add_network(&format!("to-{name}={name}")).unwrap();
        }
        machine.add_network("near=1gbe,server_ns=50000,servers=3,draw=exponential,interrupt_cpus=1").unwrap();
        assert_eq!(machine.effects.modelled().collect::<Vec<_>>(), [Effect::Network, Effect::Interrupts]);
        let back = Machine::from_toml("m", &machine.to_toml()).unwrap();
        assert_eq!(back.effects.networks, machine.effects.networks, "{}", machine.to_toml());
        assert!(machine.is_uncertain());
        machine.effects.switch_off(Effect::Network);
        assert_eq!(machine.effects.modelled().collect::<Vec<_>>(), [Effect::Interrupts]);
    }

    #[test]
    fn wrong_network_options_are_errors() {
        let mut machine = Machine::from_synthetic("core:2 pu:1").unwrap();
        for (text, expected) in [
            ("2gbe", "no network preset \"2gbe\" (did you mean 1gbe?); presets are 1gbe, loopback"),
            ("loopback,server_ns=5", "a loopback has no server behind it (server_ns)"),
            ("1gbe,servers=0", "servers is 0; expected an integer from 1 to 4096"),
            ("1gbe,kind=wire,overhead_ns=5", "[networks] has an unknown key overhead_ns"),
            ("a b=1gbe", "\"a b\"; expected a name of letters, digits, - and _"),
            ("1gbe,interrupt_cpus=9", "interrupt_cpus is \"9\"; expected CPUs of this machine, such as \"0-3\""),
        ] {
            let problem = machine.add_network(text).unwrap_err().to_string();
            assert!(problem.starts_with(&format!("--network {text}: {expected}")), "{problem}");
        }
        assert!(machine.effects.networks.networks.is_empty());
    }
}
