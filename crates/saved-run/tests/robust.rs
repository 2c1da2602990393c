// SPDX-License-Identifier: GPL-2.0-only
//! Saved runs round-trip, and damaged files give an error that names the place.

#[path = "../../../fuzz/src/saved_run.rs"]
mod fuzz_saved_run;

use proptest::prelude::*;
use saved_run::SavedRun;

fn example() -> SavedRun {
    let mut saved = SavedRun::new();
    saved.add("runs.json", b"{\"weir\": 1}").unwrap();
    saved.add("events/0", &[7; 10_000]).unwrap();
    saved.add("empty", b"").unwrap();
    saved
}

#[test]
fn parts_of_a_saved_run_are_read_back_unchanged() {
    let read = SavedRun::from_bytes(&example().to_bytes()).unwrap();
    assert!(read.names().eq(["runs.json", "events/0", "empty"]));
    assert_eq!(read.part("runs.json").unwrap().unwrap(), b"{\"weir\": 1}");
    assert_eq!(read.part("events/0").unwrap().unwrap(), [7; 10_000]);
    assert_eq!(read.part("empty").unwrap().unwrap(), b"");
    assert_eq!(read.part("other").unwrap(), None);
    assert!(example().to_bytes().len() < 300, "parts are compressed");
}

/// A modification of the bytes, and the expected error text.
type Damage<'a> = (&'a dyn Fn(&mut Vec<u8>), &'a str);

#[test]
fn each_kind_of_damage_to_a_saved_run_has_its_own_error() {
    let good = example().to_bytes();
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        let read = SavedRun::from_bytes(&bytes);
        read.and_then(|saved| saved.part("runs.json").map(|_| ())).unwrap_err().to_string()
    };
    let at = 12 + 1 + "runs.json".len();
    let cases: [Damage<'_>; 9] = [
        (&|bytes| bytes[0] = 0, "byte 0: not a saved run"),
        (&|bytes| bytes.truncate(10), "byte 10: the file ends within its header"),
        (&|bytes| bytes[8] = 2, "byte 8: format version 2"),
        (&|bytes| bytes.truncate(20), "byte 12: the file ends within the header of a part"),
        (&|bytes| bytes[13] = 0, "invalid part name"),
        (&|bytes| bytes[at + 7] = 1, "exceeds the maximum"),
        (&|bytes| bytes[at + 15] = 1, "exceeds the remaining"),
        (&|bytes| bytes[at] += 1, "the header says 12"),
        (&|bytes| bytes[at + 16] ^= 1, "the checksum does not match"),
    ];
    for (change, expected) in cases {
        let error = refused(change);
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let twice = [&good[..], &good[12..]].concat();
    assert!(SavedRun::from_bytes(&twice).unwrap_err().problem.contains("duplicate part"));
}

/// A part with a small declared length and much content is not fully decompressed: 1 GiB of zeros compresses to some
/// 30 KB.
#[test]
fn decompression_bomb_is_refused_without_allocating() {
    let mut saved = SavedRun::new();
    saved.add("bomb", &vec![0; 64 << 20]).unwrap();
    let mut bytes = saved.to_bytes();
    bytes[17..25].copy_from_slice(&10u64.to_le_bytes());
    let error = SavedRun::from_bytes(&bytes).unwrap().part("bomb").unwrap_err();
    assert!(error.problem.contains("decompresses to at least 11 bytes, the header says 10"), "{error}");
}

/// Compressed parts may expand to 4 MiB, and beyond that to 50 times their length. A part that compresses better is
/// padded by the writer.
#[test]
fn parts_of_extreme_compression_are_padded_when_written_and_refused_when_not() {
    let mut saved = SavedRun::new();
    let zeros = vec![0; 64 << 20];
    saved.add("runs.json", &zeros).unwrap();
    let bytes = saved.to_bytes();
    assert!(((60 << 20) / 50..(64 << 20) / 50).contains(&bytes.len()), "{}", bytes.len());
    assert!(SavedRun::from_bytes(&bytes).unwrap().part("runs.json").unwrap().unwrap() == zeros);
    let mut bomb = bytes[..9000].to_vec();
    let at = 12 + 1 + "runs.json".len();
    let compressed = (bomb.len() - at - 24) as u64;
    bomb[at + 8..at + 16].copy_from_slice(&compressed.to_le_bytes());
    let error = SavedRun::from_bytes(&bomb).unwrap_err();
    assert!(error.problem.contains("is more than 50 times the compressed length 8954"), "{error}");
}

proptest! {
    #[test]
    fn damaged_files_never_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), cut in 0usize..200) {
        let mut bytes = example().to_bytes();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        fuzz_saved_run::run(&bytes);
        bytes.truncate(cut);
        fuzz_saved_run::run(&bytes);
    }
}
