// SPDX-License-Identifier: GPL-2.0-only
//! Damaged objects must not cause a panic. The tests run the same function as the fuzzer, for a shorter time.

#[path = "../../../../fuzz/src/object.rs"]
mod fuzz_object;

use crate::common::{bpftool_link, compile};
use object::{Object as _, ObjectSection as _};
use proptest::prelude::*;
use std::sync::OnceLock;

/// A valid object with the offsets at which to damage it.
struct Seed {
    bytes: Vec<u8>,
    /// Offsets of all bytes outside debug information.
    offsets: Vec<usize>,
}

fn seeds() -> &'static [Seed] {
    static SEEDS: OnceLock<Vec<Seed>> = OnceLock::new();
    SEEDS.get_or_init(|| {
        let mut files: Vec<Vec<u8>> = ["sched", "core", "part_b"].map(compile).into();
        files.extend(bpftool_link(&[files[0].clone()]));
        files.into_iter().map(seed).collect()
    })
}

fn seed(bytes: Vec<u8>) -> Seed {
    let mut debug = vec![false; bytes.len()];
    let file = object::File::parse(&*bytes).expect("an ELF file");
    for section in file.sections().filter(|section| section.name().is_ok_and(|name| name.contains(".debug"))) {
        if let Some((start, size)) = section.file_range() {
            debug[start as usize..(start + size) as usize].fill(true);
        }
    }
    let offsets = (0..debug.len()).filter(|at| !debug[*at]).collect();
    Seed { bytes, offsets }
}

/// A change of a few bytes.
#[derive(Clone, Debug)]
enum Damage {
    Flip(u8),
    Byte(u8),
    Word(u32),
}

fn damage() -> impl Strategy<Value = Damage> {
    let words = [0, 1, 2, 7, 8, 0x7f, 0xffff, 0x10000, 0x7fff_ffff, 0x8000_0000, 0xffff_fff8, 0xffff_ffff];
    prop_oneof![
        (0..8u8).prop_map(Damage::Flip),
        any::<u8>().prop_map(Damage::Byte),
        prop::sample::select(words.to_vec()).prop_map(Damage::Word),
        any::<u32>().prop_map(Damage::Word),
    ]
}

fn apply(bytes: &mut [u8], at: usize, damage: &Damage) {
    match damage {
        Damage::Flip(bit) => bytes[at] ^= 1 << bit,
        Damage::Byte(byte) => bytes[at] = *byte,
        Damage::Word(word) => {
            // Fields of ELF and BTF are aligned to 4 bytes.
            let start = at & !3;
            let len = (bytes.len() - start).min(4);
            bytes[start..start + len].copy_from_slice(&word.to_le_bytes()[..len]);
        }
    }
}

#[test]
fn valid_seed_objects_link() {
    for seed in seeds() {
        assert!(fuzz_object::run(&seed.bytes));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1500) })]

    #[test]
    fn damaged_objects_do_not_panic(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), damage()), 1..5),
    ) {
        let seed = &seeds()[which.index(seeds().len())];
        let mut bytes = seed.bytes.clone();
        for (position, damage) in &changes {
            apply(&mut bytes, seed.offsets[position.index(seed.offsets.len())], damage);
        }
        fuzz_object::run(&bytes);
    }

    #[test]
    fn truncated_objects_do_not_panic(which in any::<prop::sample::Index>(), len in any::<prop::sample::Index>()) {
        let seed = &seeds()[which.index(seeds().len())];
        prop_assert!(!fuzz_object::run(&seed.bytes[..len.index(seed.bytes.len())]));
    }

    #[test]
    fn random_bytes_as_btf_do_not_panic(
        head in any::<bool>(),
        mut noise in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        if head && noise.len() >= 24 {
            noise[..8].copy_from_slice(&[0x9f, 0xeb, 1, 0, 24, 0, 0, 0]);
            let half = (noise.len() as u32 - 24) / 2;
            for (at, word) in [(8, 0), (12, half), (16, half), (20, half)] {
                noise[at..at + 4].copy_from_slice(&u32::to_le_bytes(word));
            }
        }
        fuzz_object::run(&noise);
    }
}
