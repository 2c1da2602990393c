// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the match search: matches are correct, do not overlap, and are found.

use super::table::PLACES;
use super::*;
use crate::backend::Packer;
use crate::window::{Buffer, PIECE, Spares, View, Window};
use proptest::prelude::*;
use std::sync::Arc;

/// Pseudo-random bytes, different for each seed.
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

/// Returns all matches in a file as (absolute start, length, distance).
#[allow(clippy::ptr_arg, reason = "it is a file for the view")]
fn search(file: &Vec<u8>, packer: Packer, keep: usize, sparsity: u32) -> Vec<(u64, u64, u64)> {
    let mut table = Table::new(1 << 20).expect("a megabyte");
    let mut window = Window::default();
    let mut all = Vec::new();
    for (index, piece) in file.chunks(PIECE).enumerate() {
        let start = (index * PIECE) as u64;
        window.push(Arc::new(Buffer::new(piece.to_vec(), &Spares::default())), keep);
        let found = table.look(&scan(piece, sparsity), start, 0);
        let judge = Judge::new(packer, piece);
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
fn long_copy_is_found_at_any_distance_and_offset() {
    for (gap, keep) in [(0, 9), (1000, 9), (PIECE + 77, 9), (3 * PIECE + 5, 1)] {
        let copied = noise(1, 300_000);
        let file = [&noise(2, 123)[..], &copied, &noise(3, gap), &copied, &noise(4, 99)].concat();
        let matches = search(&file, Packer::None, keep, 5);
        check(&file, &matches);
        let repeated: u64 = matches.iter().map(|(_, length, _)| length).sum();
        // A copy that crosses pieces is found in parts; the first bytes of a piece may contain no sample.
        assert!(repeated >= 299_000, "{gap}: {repeated}");
        assert!(matches.iter().all(|(_, _, distance)| *distance == (300_000 + gap) as u64));
    }
}

#[test]
fn run_of_one_value_gives_few_samples_and_is_matched() {
    for value in 0..=255 {
        let file = vec![value; PIECE];
        assert!(scan(&file, 4).len() <= (PIECE >> 8) + 1, "{value}");
        let matches = search(&file, Packer::None, 4, 4);
        check(&file, &matches);
        let repeated: u64 = matches.iter().map(|(_, length, _)| length).sum();
        assert!(repeated > PIECE as u64 - 2000, "{value}: {repeated}");
    }
}

#[test]
fn sampling_has_the_requested_density_and_depends_on_content() {
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
fn match_of_100_bytes_is_used_for_lzo_and_deflate_only() {
    let copied = noise(6, 100);
    let file = [&copied[..], &noise(7, 50_000), &copied].concat();
    for (packer, taken) in [(Packer::Lzo, true), (Packer::Zlib, true), (Packer::Bzip2, false), (Packer::Lzma, false)] {
        let [(_, length, _)] = search(&file, packer, 9, 3)[..] else { panic!("{packer:?}") };
        assert_eq!(length >= Judge::new(packer, &file).untried(), taken, "{packer:?}");
    }
}

#[test]
fn short_distant_matches_are_found() {
    // 32-digit hexadecimal numbers between random bytes; each number occurs twice.
    let digits =
        |k: u64| -> Vec<u8> { noise(k, 16).iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect() };
    let line = |k: u64, seed: u64| [&noise(seed + 10_000 + k, 24)[..], b"'", &digits(k), b"',"].concat();
    let lines = |seed: u64| (0..5000).flat_map(move |k| line(k * 7 % 5000, seed)).collect::<Vec<u8>>();
    let file = [lines(100_000), lines(200_000)].concat();
    let matches = search(&file, Packer::Lzo, 9, 2);
    check(&file, &matches);
    let found = matches.iter().filter(|(start, length, _)| *length >= 32 && *start > file.len() as u64 / 2).count();
    assert!(found > 4500, "{found} of 5000");
}

#[test]
fn longer_match_displaces_an_overlapping_shorter_one() {
    // The file contains `a b`, then `b c`, then `a b c`: the longer of the two matches keeps `b`.
    let [a, b, c] = [noise(10, 300), noise(11, 200), noise(12, 700)];
    for (first, second) in [(&a, &c), (&c, &a)] {
        let file = [&first[..], &b, &noise(13, 9000), &b, second, &noise(14, 7000), first, &b, second].concat();
        let matches = search(&file, Packer::None, 9, 3);
        check(&file, &matches);
        let [.., left, right] = matches[..] else { panic!("{matches:?}") };
        // The matches cover the whole repetition, and the longer one includes `b`.
        assert_eq!(left.0 + left.1, right.0, "{matches:?}");
        assert!(left.1 + right.1 >= 1200 - SAMPLED as u64, "{matches:?}");
        assert_eq!(right.1.max(left.1), 900, "{matches:?}");
    }
}

#[test]
fn trial_chooses_the_match_length_that_minimizes_the_output() {
    // Earlier lines of hexadecimal digits, each preceded by fresh digits. A back end with a small window gains from
    // each match; one with a large window would find the lines itself and gains nothing.
    let digits =
        |seed, length| noise(seed, length).iter().map(|byte| b"0123456789abcdef"[usize::from(byte % 16)]).collect();
    let lines: Vec<Vec<u8>> = (0..500).map(|seed| digits(seed + 1, 120)).collect();
    let before: Vec<u8> = lines.concat();
    let mut piece = Vec::new();
    let mut matches = Vec::new();
    for (k, line) in noise(3, 4000).iter().zip(0..).map(|(byte, k)| (k, usize::from(*byte) % 500)) {
        let fresh: Vec<u8> = digits(1000 + k, 30);
        piece.extend_from_slice(&fresh);
        let distance = (before.len() + piece.len() - 120 * line) as u64;
        matches.push(Match { start: piece.len() as u32, length: 120, distance });
        piece.extend_from_slice(&lines[line]);
    }
    let verdict = |packer: Packer| Judge::new(packer, &piece).verdict(7, 1 << 20, &piece, &matches);
    assert_eq!(verdict(Packer::Lzo), Some(96));
    assert_eq!(verdict(Packer::Zlib), Some(96));
    // In a text of two alternating letters, matches only split the literals.
    let piece = b"ab".repeat(200_000);
    let matches: Vec<Match> =
        (0..3000).map(|k| Match { start: 100 * k + 50, length: 60, distance: u64::from(k) * 7919 + 100 }).collect();
    let verdict = |packer: Packer| Judge::new(packer, &piece).verdict(7, 1 << 20, &piece, &matches);
    for packer in [Packer::Lzo, Packer::Zlib, Packer::Bzip2, Packer::Lzma] {
        let least = verdict(packer).unwrap_or(u64::MAX);
        assert!(least > 60, "{packer:?}: {least}");
    }
    assert_eq!(Judge::new(Packer::None, &piece).verdict(7, 1 << 20, &piece, &matches), None);
}

#[test]
fn full_bucket_drops_its_oldest_entry() {
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
    // Positions before the chunk are not returned.
    assert_eq!(table.look(&sample(8), 8000, 7500), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn all_matches_are_correct(
        parts in proptest::collection::vec((0u64..4, 1usize..70_000, any::<bool>()), 1..20), keep in 1usize..4
    ) {
        let mut file = Vec::new();
        for (seed, length, fresh) in parts {
            match fresh {
                true => file.extend(noise(seed + length as u64, length)),
                false => file.extend(noise(seed, length)),
            }
        }
        check(&file, &search(&file, Packer::None, keep, 4));
    }
}
