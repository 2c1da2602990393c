// SPDX-License-Identifier: GPL-2.0-only
//! The tables `[disks.NAME]`, and the options of `--disk`.

use super::Table;
use super::devices::{self, Devices, Layers, MB_S, SERVERS};
use super::effects::NANOSECONDS;
use crate::disks::{BOTTOM_NS, TOP_NS};
use crate::{Disk, Disks, Machine, MachineError, Order, Routing, Service, disk_presets};
use ids::Topology;
use std::ops::RangeInclusive;

/// Tape drives turn more slowly, drives of 2000 up to 15,000 times a minute.
const RPM: RangeInclusive<u64> = 100..=100_000;
/// Up to an exabyte.
const CAPACITY_GB: RangeInclusive<u64> = 1..=1_000_000_000;
const DEPTH: RangeInclusive<u64> = 1..=65_536;
const SPINDLES: RangeInclusive<u64> = 1..=1024;
const STRIPE_KB: RangeInclusive<u64> = 1..=1 << 20;

const DISKS: Devices = Devices { table: "disks", what: "[disks]", one: "disk", presets: disk_presets(), most: 256 };

/// Reads `[disks]`, a table of tables.
pub(super) fn read(table: &Table<'_, '_>, topology: &Topology) -> Result<Disks, MachineError> {
    let disks = DISKS.read(table, |name, own| disk(name, own, topology))?;
    Ok(Disks { disks, ..Disks::default() })
}

#[derive(Clone, Copy, Default)]
enum Kind {
    #[default]
    Unknown,
    Recorded,
    Ram,
    Flash,
    Spindle,
}

fn disk(name: &str, own: Table<'_, '_>, topology: &Topology) -> Result<Disk, MachineError> {
    DISKS.layers(own, |layers| disk_of(name, layers, topology))
}

fn disk_of(name: &str, layers: &mut Layers<'_, '_, '_>, topology: &Topology) -> Result<Disk, MachineError> {
    let service = service(layers)?;
    let unlimited = if matches!(service, Service::Spindle { .. }) { 1 } else { *DEPTH.end() };
    let servers = layers.integer("servers", SERVERS, 1)? as u32;
    let depth = layers.integer("depth", DEPTH, unlimited)? as u32;
    let order = layers.word("order", &Order::NAMES)?;
    let spindles = layers.integer("spindles", SPINDLES, 1)? as u32;
    let stripe_kb = layers.integer("stripe_kb", STRIPE_KB, 64)? as u32;
    let interrupt_cpus = devices::interrupt_cpus(layers, topology)?;
    let routing = layers.word("interrupts", &Routing::NAMES)?;
    let top_ns = layers.estimate("top_ns", NANOSECONDS)?.unwrap_or(TOP_NS);
    let bottom_ns = layers.estimate("bottom_ns", NANOSECONDS)?.unwrap_or(BOTTOM_NS);
    let name = name.to_owned();
    let depth = depth.max(servers);
    Ok(Disk { name, service, servers, depth, order, spindles, stripe_kb, interrupt_cpus, routing, top_ns, bottom_ns })
}

fn service(layers: &mut Layers<'_, '_, '_>) -> Result<Service, MachineError> {
    let kinds = [("ram", Kind::Ram), ("flash", Kind::Flash), ("spindle", Kind::Spindle), ("recorded", Kind::Recorded)];
    Ok(match layers.word("kind", &kinds)? {
        Kind::Unknown => return Err(layers.own.required("kind").expect_err("the table has no such key")),
        Kind::Recorded => Service::Recorded,
        Kind::Ram => Service::Ram {
            overhead_ns: layers.required("overhead_ns", NANOSECONDS)?,
            mb_s: layers.required("mb_s", MB_S)?,
        },
        Kind::Flash => Service::Flash {
            read_ns: layers.required("read_ns", NANOSECONDS)?,
            write_ns: layers.required("write_ns", NANOSECONDS)?,
            mb_s: layers.required("mb_s", MB_S)?,
            exponential: layers.word("draw", &[("constant", false), ("exponential", true)])?,
        },
        Kind::Spindle => {
            let overhead_ns = layers.required("overhead_ns", NANOSECONDS)?;
            let seek_track_ns = layers.required("seek_track_ns", NANOSECONDS)?;
            let seek_average_ns = layers.required("seek_average_ns", NANOSECONDS)?;
            if seek_average_ns.typical < seek_track_ns.typical {
                let problem = "seek_average_ns is below seek_track_ns; expected at least as much".to_owned();
                return Err(layers.own.source.error(&layers.own.span, problem));
            }
            let rpm = layers.integer("rpm", RPM, 0)?;
            let mb_s = layers.required("mb_s", MB_S)?;
            let capacity_gb = layers.integer("capacity_gb", CAPACITY_GB, 0)?;
            for (key, value) in [("rpm", rpm), ("capacity_gb", capacity_gb)] {
                if value == 0 {
                    layers.own.required(key)?;
                }
            }
            Service::Spindle { overhead_ns, seek_track_ns, seek_average_ns, rpm, mb_s, capacity_gb }
        }
    })
}

impl Machine {
    /// Adds a disk, `[NAME=]PRESET{,key=value}` with the keys of a machine file; it replaces one of the same name.
    /// The default name is `sda`.
    ///
    /// # Errors
    /// Names the option and what was expected.
    pub fn add_disk(&mut self, text: &str) -> Result<(), MachineError> {
        let disk = DISKS.option(text, "sda", |name, own| disk(name, own, &self.topology))?;
        self.effects.disks.disks.retain(|other| other.name != disk.name);
        self.effects.disks.disks.push(disk);
        self.effects.disks.disks.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Effect, Machine, Service};

    const HEAD: &str = "description = \"t\"\nhz = 250\nno_hz_idle = true\n[topology]\nshape = \"core:2 pu:1\"\n";

    fn read(text: &str) -> Result<Machine, String> {
        Machine::from_toml("f.toml", &format!("{HEAD}{text}")).map_err(|error| error.to_string())
    }

    #[test]
    fn disks_are_read_from_keys_and_presets() {
        let machine = read(
            "[disks.b]\nlike = \"hdd-7200\"\nspindles = 4\nmb_s = 50\n[disks.a]\nkind = \"flash\"\nread_ns = 5\n\
             write_ns = [1, 2, 3]\nmb_s = 100\nservers = 3\n",
        )
        .unwrap();
        assert_eq!(machine.effects.modelled().collect::<Vec<_>>(), [Effect::Disks, Effect::Interrupts]);
        let [a, b] = &machine.effects.disks.disks[..] else { panic!("two disks, by name") };
        assert_eq!((a.name.as_str(), a.servers, b.name.as_str(), b.spindles, b.depth), ("a", 3, "b", 4, 1));
        assert!(matches!(&b.service, Service::Spindle { rpm: 7200, mb_s, .. } if mb_s.typical == 50));
        let back = Machine::from_toml("f.toml", &machine.to_toml()).unwrap();
        assert_eq!(back, machine, "{}", machine.to_toml());
    }

    #[test]
    fn invalid_disks_give_errors_with_line() {
        for (text, expected) in [
            ("[disks]\na = 5\n", "f.toml:7: disks is 5; expected tables [disks.NAME]"),
            ("[disks.a]\nmb_s = 5\n", "f.toml:6: [disks] has no key kind"),
            (
                "[disks.a]\nkind = \"tape\"\n",
                "f.toml:7: kind is \"tape\"; expected one of ram, flash, spindle, recorded",
            ),
            ("[disks.a]\nkind = \"ram\"\nmb_s = 5\n", "f.toml:6: [disks] has no key overhead_ns"),
            ("[disks.\"a b\"]\nkind = \"ram\"\n", "f.toml:6: disk \"a b\"; expected a name of letters"),
            ("[disks.a]\nlike = \"nvm\"\n", "f.toml:7: no disk preset \"nvm\" (did you mean nvme?)"),
            ("[disks.a]\nlike = \"nvme\"\nservers = 0\n", "f.toml:8: servers is 0; expected an integer from 1 to 4096"),
            (
                "[disks.a]\nlike = \"nvme\"\ninterrupt_cpus = \"2\"\n",
                "f.toml:8: interrupt_cpus is \"2\"; expected CPUs",
            ),
            (
                "[disks.a]\nlike = \"hdd-7200\"\nseek_average_ns = 5\n",
                "f.toml:6: seek_average_ns is below seek_track_ns",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
