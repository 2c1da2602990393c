// SPDX-License-Identifier: GPL-2.0-only
//! Mutations inside of containers: checksums and compression would stop nearly all others at the door.

use super::mutate::{Rng, mutate};
use saved_run::SavedRun;

#[allow(dead_code)]
#[path = "../../../fuzz/src/recording.rs"]
mod recordings;

/// Mutates one part of a saved run. A file that cannot be read, such as one of a user's own corpus, is mutated as it is.
pub fn saved_run(rng: &mut Rng, file: &[u8], other: &[u8]) -> Vec<u8> {
    let Ok(saved) = SavedRun::from_bytes(file) else { return mutate(rng, file, other) };
    let names: Vec<String> = saved.names().map(str::to_owned).collect();
    if names.is_empty() {
        return mutate(rng, file, other);
    }
    let chosen = rng.below(names.len());
    let mut mutant = SavedRun::new();
    for (index, name) in names.iter().enumerate() {
        let content = saved.part(name).ok().flatten().unwrap_or_default();
        let content = if index == chosen && !content.is_empty() { mutate(rng, &content, &content) } else { content };
        // Names are unique, as they were in the file.
        let _ = mutant.add(name, &content);
    }
    mutant.to_bytes()
}

/// Magic and version of recordings, and the length of the rest of the head of a version 1 file: length and checksum.
const VERSIONS: [&[u8]; 2] = [b"WEIRREC\n\x01\0\0\0", b"WEIRREC\n\x02\0\0\0"];
const HEAD: usize = 16;
/// Most bytes of the content of a version 1 file.
const MOST: usize = 16 << 20;

/// Mutates the content of a recording.
pub fn recording(rng: &mut Rng, file: &[u8]) -> Vec<u8> {
    let [first, second] = VERSIONS;
    let packed = file.strip_prefix(first).and_then(|rest| rest.get(HEAD..));
    if let Some(content) = packed.and_then(|packed| zstd::bulk::decompress(packed, MOST).ok()) {
        let content = mutate(rng, &content, &content);
        let mut mutant = first.to_vec();
        mutant.extend((content.len() as u64).to_le_bytes());
        mutant.extend(xxhash_rust::xxh3::xxh3_64(&content).to_le_bytes());
        mutant.extend(zstd::bulk::compress(&content, 1).expect("compression into memory succeeds"));
        return mutant;
    }
    if !file.starts_with(second) {
        return mutate(rng, file, file);
    }
    let content = recordings::unpack(file);
    recordings::pack(&mutate(rng, &content, &content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutants_of_saved_runs_differ_and_can_be_opened() {
        let mut saved = SavedRun::new();
        saved.add("setup.json", b"{\"weir\": \"0\", \"schedulers\": []}").unwrap();
        saved.add("runs.json", b"{\"weir\": 1, \"runs\": []}").unwrap();
        let file = saved.to_bytes();
        let opened = |number| SavedRun::from_bytes(&saved_run(&mut Rng::of(1, number), &file, &file)).is_ok();
        assert_eq!((0..100).filter(|number| opened(*number)).count(), 100);
        assert!((0..100).all(|number| saved_run(&mut Rng::of(1, number), &file, &file) != file));
    }
}
