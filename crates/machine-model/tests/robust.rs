// SPDX-License-Identifier: GPL-2.0-only
//! Runs the body of the fuzz target with damaged files, without a fuzzer.

#[path = "../../../fuzz/src/machine_description.rs"]
mod machine_description;

use machine_model::presets;
use proptest::prelude::*;

/// A file written by lstopo.
const HWLOC: &str = include_str!("hwloc/hybrid-v3.xml");

proptest! {
    #[test]
    fn damaged_files_never_panic(
        file in 0..=presets().len(),
        changes in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..3),
        cut in any::<prop::sample::Index>(),
        whole in any::<bool>(),
    ) {
        let mut bytes = presets().get(file).map_or(HWLOC, |preset| preset.1).as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if !whole {
            bytes.truncate(cut.index(bytes.len()));
        }
        machine_description::run(&bytes);
    }

    #[test]
    fn damaged_synthetic_strings_never_panic(words in prop::collection::vec("(node|l3|core|pu|pack)?:?[0-9]{0,4}[(\\[]?", 0..6)) {
        machine_description::run(words.join(" ").as_bytes());
    }
}
