// SPDX-License-Identifier: GPL-2.0-only
//! Machine presets: the files of `machines/`, compiled in.

use crate::{Effects, Machine, MachineError};

/// All presets with their TOML text, ordered by size.
pub fn presets() -> &'static [(&'static str, &'static str)] {
    &[
        ("rx2600", include_str!("../../../machines/rx2600.toml")),
        ("laptop-2c4t", include_str!("../../../machines/laptop-2c4t.toml")),
        ("desktop-4c", include_str!("../../../machines/desktop-4c.toml")),
        ("raspberry-pi-2", include_str!("../../../machines/raspberry-pi-2.toml")),
        ("hybrid-laptop", include_str!("../../../machines/hybrid-laptop.toml")),
        ("itanium-12", include_str!("../../../machines/itanium-12.toml")),
        ("nix-32", include_str!("../../../machines/nix-32.toml")),
        ("cxl-32", include_str!("../../../machines/cxl-32.toml")),
        ("x3d-32", include_str!("../../../machines/x3d-32.toml")),
        ("server-64", include_str!("../../../machines/server-64.toml")),
        ("sapphire-224", include_str!("../../../machines/sapphire-224.toml")),
        ("rome-256", include_str!("../../../machines/rome-256.toml")),
        ("server-512", include_str!("../../../machines/server-512.toml")),
        ("server-1024", include_str!("../../../machines/server-1024.toml")),
    ]
}

/// Preset that supplies HZ, NO_HZ and costs missing in a description. It is complete itself.
const REFERENCE: &str = "server-64";

impl Machine {
    /// Loads a preset; the error suggests similar names and lists all.
    pub fn preset(name: &str) -> Result<Machine, MachineError> {
        let Some((name, text)) = presets().iter().find(|preset| preset.0 == name) else {
            let near = crate::toml_file::near_miss(name, presets().iter().map(|preset| preset.0));
            let names: Vec<&str> = presets().iter().map(|preset| preset.0).collect();
            let problem = format!("no such machine preset{near}; presets are {}", names.join(", "));
            return Err(MachineError { place: name.to_owned(), problem });
        };
        Machine::from_toml(&format!("{name}.toml"), text)
    }

    /// The machine of a name that is no file: an hwloc synthetic string (`node:2 core:8 pu:2`), completed by the effects
    /// that are typical of its class, or a preset.
    ///
    /// # Errors
    /// If the string is invalid, or there is no such preset.
    pub fn named(name: &str) -> Result<Machine, MachineError> {
        if name.contains([':', ' ', '[']) || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(Machine::from_synthetic(name)?.with_assumptions());
        }
        Machine::preset(name)
    }

    /// The reference preset without effects, which are unknown for other machines.
    pub(crate) fn reference() -> Machine {
        let machine = Machine::preset(REFERENCE).expect("shipped presets are valid, which a test checks");
        Machine { effects: Effects::default(), private_kb: 0, llc_kb: 0, caveats: Vec::new(), ..machine }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use ids::{CpuId, Locality};

    #[test]
    fn presets_load_with_the_expected_topology_and_effects() {
        let mut summary = String::new();
        for (name, _) in presets() {
            let machine = Machine::preset(name).unwrap();
            assert_eq!(machine.name, *name);
            assert!(!machine.description.is_empty() && machine.costs.call_ns.iter().all(|&cost| cost > 0));
            let topology = &machine.topology;
            let groups = (topology.cores(), topology.llcs(), topology.nodes());
            let effects: Vec<&str> = machine.effects.modelled().map(crate::Effect::name).collect();
            summary += &format!("{name} {} {groups:?} {} [{}]\n", topology.len(), machine.hz, effects.join(" "));
        }
        expect![[r#"
            rx2600 2 (2, 2, 1) 1024 [caches bandwidth locks]
            laptop-2c4t 4 (2, 1, 1) 1000 [smt frequency idle-states caches bandwidth locks]
            desktop-4c 4 (4, 2, 1) 1000 [frequency idle-states caches bandwidth locks]
            raspberry-pi-2 4 (4, 1, 1) 100 [frequency caches bandwidth locks]
            hybrid-laptop 8 (8, 2, 1) 250 [capacity frequency idle-states caches bandwidth locks]
            itanium-12 12 (12, 12, 4) 1024 [caches numa bandwidth locks]
            nix-32 32 (32, 8, 8) 100 [caches numa bandwidth locks]
            cxl-32 32 (16, 1, 2) 250 [smt caches numa bandwidth locks]
            x3d-32 32 (16, 2, 1) 1000 [smt capacity caches bandwidth locks]
            server-64 64 (32, 2, 2) 250 [smt frequency idle-states caches numa bandwidth locks]
            sapphire-224 224 (112, 2, 2) 250 [smt caches numa bandwidth locks]
            rome-256 256 (128, 32, 2) 250 [smt caches numa bandwidth locks]
            server-512 512 (256, 32, 8) 250 [smt frequency idle-states caches numa bandwidth locks]
            server-1024 1024 (512, 8, 8) 250 [smt frequency idle-states caches numa bandwidth locks]
        "#]]
        .assert_eq(&summary);
    }

    /// "threads 0 and 2 were considered SMT siblings, as were 1 and 3" (BFS 0.360 post, December 2010).
    #[test]
    fn laptop_numbers_its_smt_siblings_as_in_the_bfs_post() {
        let laptop = Machine::preset("laptop-2c4t").unwrap();
        let siblings = |a, b| laptop.topology.locality(CpuId(a), CpuId(b)) == Locality::Smt;
        assert!(siblings(0, 2) && siblings(1, 3) && !siblings(0, 1) && !siblings(2, 3));
    }

    #[test]
    fn unknown_preset_error_suggests_similar_names() {
        let error = Machine::preset("server-46").unwrap_err().to_string();
        assert_eq!(
            error,
            "server-46: no such machine preset (did you mean server-64?); \
             presets are rx2600, laptop-2c4t, desktop-4c, raspberry-pi-2, hybrid-laptop, itanium-12, nix-32, cxl-32, \
             x3d-32, server-64, sapphire-224, rome-256, server-512, server-1024"
        );
    }
}
