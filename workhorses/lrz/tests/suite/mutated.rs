// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mutated archives give an error or the right output, never a panic, and use bounded memory.

#[path = "../../../../fuzz/src/lrz_archive.rs"]
mod lrz_archive;

use lrz::backend::Packer;
use lrz::budget::Limit;
use lrz::pack::{self, Source};
use lrz::store::Memory;
use lrz_archive::{Outcome, read};

/// Text with copies and zeros.
fn plain() -> Vec<u8> {
    let line = |k: u32| format!("line {} of {}: the value is {}\n", k, k / 7, k.wrapping_mul(2_654_435_761) >> 7);
    let text: String = (0..300).map(line).collect();
    [text.as_bytes(), &[0; 3000], text.as_bytes()].concat()
}

fn archives() -> Vec<(Vec<u8>, Option<&'static [u8]>)> {
    let mut archives = Vec::new();
    for packer in [Packer::None, Packer::Lzo, Packer::Zlib, Packer::Bzip2, Packer::Lzma] {
        for password in [None, Some(&b"pw"[..])] {
            let archive = Memory::default();
            let options = pack::Options {
                packer,
                password: password.map(<[u8]>::to_vec),
                rounds: [3, 1],
                memory: Limit::bytes(32 << 20),
                ..pack::Options::default()
            };
            pack::pack(Source::bytes(&plain()), &archive, &options).expect("packed");
            archives.push((archive.into_bytes(), password));
        }
    }
    // No ZPAQ archive is included here; the fuzz target covers ZPAQ headers.
    archives
}

/// Mutates the bytes by a seed: flips bits, sets bytes, truncates, deletes, duplicates and swaps.
fn mutate(bytes: &mut Vec<u8>, mut seed: u64) {
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below.max(1)
    };
    for _ in 0..=random(3) {
        let length = bytes.len();
        if length == 0 {
            return;
        }
        // Half of the mutations hit the headers.
        let at = if random(2) == 0 { random(length.min(90)) } else { random(length) };
        match random(7) {
            0 | 1 => bytes[at] ^= 1 << random(8),
            2 => bytes[at] = [0, 1, 127, 128, 255][random(5)],
            3 => bytes.truncate(at.max(1)),
            4 => drop(bytes.drain(at..(at + 1 + random(8)).min(length))),
            5 => {
                let copy = bytes[at..(at + 1 + random(16)).min(length)].to_vec();
                bytes.splice(at..at, copy);
            }
            _ => {
                let other = random(length);
                bytes.swap(at, other);
            }
        }
    }
}

/// Tests mutations 0..`samples` on all CPUs.
fn test_mutations(samples: u64) {
    let (archives, plain) = (archives(), plain());
    let shards = std::thread::available_parallelism().map_or(1, |all| all.get() as u64);
    let (right, wrong) = std::thread::scope(|scope| {
        let shards: Vec<_> = (0..shards)
            .map(|shard| {
                let (archives, plain) = (&archives, &plain);
                scope.spawn(move || test_shard((shard..samples).step_by(shards as usize), archives, plain))
            })
            .collect();
        shards.into_iter().map(|shard| shard.join().expect("no panic")).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    });
    assert!(right > samples / 1000 && wrong > samples / 2, "{right} right, {wrong} refused");
}

/// Returns the number of archives that gave the right output and of those refused.
fn test_shard(
    samples: impl Iterator<Item = u64>,
    archives: &[(Vec<u8>, Option<&'static [u8]>)],
    plain: &[u8],
) -> (u64, u64) {
    let (mut right, mut wrong) = (0, 0);
    for sample in samples {
        let (archive, password) = &archives[(sample % archives.len() as u64) as usize];
        let mut bytes = archive.clone();
        mutate(&mut bytes, sample);
        match read(&bytes, *password) {
            Outcome::Verified(output) => {
                assert!(output == plain, "sample {sample}: wrong bytes with a good checksum");
                right += 1;
            }
            // The mutation cleared the flag of the MD5.
            Outcome::Unverified => assert_eq!(bytes[21], 0, "sample {sample}"),
            Outcome::Refused => wrong += 1,
        }
    }
    (right, wrong)
}

#[test]
fn mutated_archives_give_an_error_or_the_right_output() {
    test_mutations(4000);
}

#[test]
#[ignore = "a million archives"]
fn a_million_mutated_archives_give_an_error_or_the_right_output() {
    test_mutations(1_000_000);
}
