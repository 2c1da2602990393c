// SPDX-License-Identifier: GPL-2.0-only
//! Machine files, hwloc XML and synthetic strings: any text gives a result without a panic, and an accepted machine
//! is valid and can be written to an equivalent file.

use machine_model::Machine;

/// Parses the bytes in each of the three formats.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let read = [
        Machine::from_toml("fuzz.toml", &text),
        Machine::from_hwloc_xml("fuzz.xml", &text),
        Machine::from_synthetic(&text),
    ];
    for machine in read.into_iter().flatten() {
        machine.validate().expect("a loader returns valid machines");
        let back = Machine::from_toml("fuzz.toml", &machine.to_toml()).expect("a written file can be read");
        assert_eq!(Machine { name: machine.name.clone(), ..back }, machine);
    }
}
