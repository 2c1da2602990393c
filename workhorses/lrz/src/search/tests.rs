// SPDX-License-Identifier: MIT OR Apache-2.0
//! The search against what it must be: bytes that repeat, none of them twice.

use super::table::PLACES;
use super::*;
use crate::backend::Packer;
use crate::window::{Buffer, PIECE, Spares, View, Window};
use proptest::prelude::*;
use std::sync::Arc;

/// Random bytes that no two calls with different seeds share.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

/// All repeats in a file, by absolute start.
#[allow(clippy::ptr_arg, reason = "it is a file for the view")]
fn search(file: &Vec<u8>, judge: Option<Judge>, keep: usize, sparsity: u32) -> Vec<(u64, u64, u64)> {
    let mut table = Table::new(1 << 20).expect("a megabyte");
    let mut window = Window::default();
    let mut all = Vec::new();
    for (index, piece) in file.chunks(PIECE).enumerate() {
        let start = (index * PIECE) as u64;
        window.push(Arc::new(Buffer::new(piece.to_vec(), &Spares::default())), keep);
        let found = table.look(&scan(piece, sparsity), start, 0);
        let judge = judge.unwrap_or_else(|| Judge::new(Packer::None, 0, piece));
        let mut view = View::new(window.clone(), Some(file));
        for found in choose(piece, &found, start, 0, &judge, &mut view).expect("all is in memory") {
            all.push((start + u64::from(found.start), u64::from(found.length), found.distance));
        }
    }
    all
}

fn check(file: &[u8], matches: &[(u64, u64, u64)]) {
    let mut covered = 0;
    for (start, length, distance) in matches {
        assert!(*start >= covered && distance <= start && *distance > 0 && *length > 0);
        covered = start + length;
        for at in *start..covered {
            assert_eq!(file[at as usize], file[(at - distance) as usize]);
        }
    }
    assert!(covered <= file.len() as u64);
}

#[test]
fn a_copy_is_found_whole_at_any_distance_and_offset() {
    for (gap, keep) in [(0, 9), (1000, 9), (PIECE + 77, 9), (3 * PIECE + 5, 1)] {
        let copied = noise(1, 300_000);
        let file = [&noise(2, 123)[..], &copied, &noise(3, gap), &copied, &noise(4, 99)].concat();
        let matches = search(&file, None, keep, 5);
        check(&file, &matches);
        let repeated: u64 = matches.iter().map(|(_, length, _)| length).sum();
        // A copy that crosses pieces is found in parts; the first bytes of a piece may have no sample.
        assert!(repeated >= 299_000, "{gap}: {repeated}");
        assert!(matches.iter().all(|(_, _, distance)| *distance == (300_000 + gap) as u64));
    }
}

#[test]
fn runs_of_one_value_are_few_samples_and_one_repeat() {
    for value in 0..=255 {
        let file = vec![value; PIECE];
        assert!(scan(&file, 4).len() <= (PIECE >> 8) + 1, "{value}");
        let matches = search(&file, None, 4, 4);
        check(&file, &matches);
        let repeated: u64 = matches.iter().map(|(_, length, _)| length).sum();
        assert!(repeated > PIECE as u64 - 2000, "{value}: {repeated}");
    }
}

#[test]
fn samples_are_as_many_as_asked_for_and_follow_the_bytes() {
    let file = noise(5, PIECE);
    for sparsity in 3..9 {
        let many = scan(&file, sparsity).len() as f64 / (PIECE >> sparsity) as f64;
        assert!((0.9..1.1).contains(&many), "{sparsity}: {many}");
    }
    let shifted = scan(&file[12_345..], 5);
    let samples = scan(&file, 5);
    let same = |sample: &&Sample| samples.iter().any(|s| s.key == sample.key && s.end == sample.end + 12_345);
    assert!(shifted.iter().filter(same).count() >= shifted.len() - 1);
}

#[test]
fn what_the_back_end_sees_by_itself_is_left_to_it() {
    let copied = noise(6, 200);
    let near = [&copied[..], &noise(7, 5000), &copied].concat();
    let far = [&copied[..], &noise(8, 50_000), &copied].concat();
    let judge = Judge { reach: 10_000, near: 512, far: 64, bits: 2.0, sees_parts: false };
    assert!(search(&near, Some(judge), 9, 3).is_empty());
    let matches = search(&far, Some(judge), 9, 3);
    assert_eq!(matches.len(), 1);
    // What a back end packs well has to be longer to pay.
    let text = "all work and no play makes jack a dull boy; ".repeat(3000);
    let bits = |piece: &[u8]| Judge::new(Packer::Lzma, 1 << 24, piece).far;
    assert!(bits(text.as_bytes()) > bits(&noise(9, 100_000)));
}

#[test]
fn a_table_that_is_too_small_forgets_the_oldest() {
    let mut table = Table::new(0).expect("a bucket");
    let sample = |key: u64| [Sample { end: 32, key }];
    for key in 0..9 {
        assert_eq!(table.look(&sample(key), key * 100, 0), []);
    }
    assert_eq!(table.look(&sample(0), 2000, 0), [], "it was the oldest of nine");
    let mut places = vec![832];
    for start in [3000, 4000, 5000, 6000, 7000] {
        let found = table.look(&sample(8), start, 0);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].places(), places, "{start}");
        places.insert(0, start + 32);
        places.truncate(PLACES);
    }
    // Nothing before the chunk is found.
    assert_eq!(table.look(&sample(8), 8000, 7500), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_is_found_is_a_repeat(
        parts in proptest::collection::vec((0u64..4, 1usize..70_000, any::<bool>()), 1..20), keep in 1usize..4
    ) {
        let mut file = Vec::new();
        for (seed, length, fresh) in parts {
            match fresh {
                true => file.extend(noise(seed + length as u64, length)),
                false => file.extend(noise(seed, length)),
            }
        }
        check(&file, &search(&file, None, keep, 4));
    }
}
