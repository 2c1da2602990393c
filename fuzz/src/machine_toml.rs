// SPDX-License-Identifier: GPL-2.0-only
//! Machine files and synthetic strings: whatever the text is, there is a result and no panic, and what is accepted
//! holds together.

use ids::{CpuId, Locality};
use machine_model::Machine;

/// Reads the bytes as a machine file and as a synthetic string.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for machine in [Machine::from_toml("fuzz.toml", &text), Machine::from_synthetic(&text)].into_iter().flatten() {
        machine.validate().expect("a loader returns valid machines");
        let last = CpuId(machine.topology.len() as u32 - 1);
        assert_eq!(machine.topology.locality(CpuId(0), last), machine.topology.locality(last, CpuId(0)));
        assert_eq!(machine.topology.locality(last, last), Locality::Same);
    }
}
