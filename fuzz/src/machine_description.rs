// SPDX-License-Identifier: GPL-2.0-only
//! Machine files, hwloc XML and synthetic strings: whatever the text is, there is a result and no panic, and what is
//! accepted holds together and can be written as a file that says the same.

use machine_model::Machine;

/// Reads the bytes in each of the three ways.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let read = [
        Machine::from_toml("fuzz.toml", &text),
        Machine::from_hwloc_xml("fuzz.xml", &text),
        Machine::from_synthetic(&text),
    ];
    for machine in read.into_iter().flatten() {
        machine.validate().expect("a loader returns valid machines");
        let back = Machine::from_toml("fuzz.toml", &machine.to_toml()).expect("what is written can be read");
        assert_eq!(Machine { name: machine.name.clone(), ..back }, machine);
    }
}
