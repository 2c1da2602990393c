// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the body of the fuzz target for operations without a fuzzer, and checks searches for out-of-bounds reads with
//! valgrind.

#[path = "../../../../fuzz/src/bitfit_operations.rs"]
mod fuzz_bitfit_operations;

use bitfit::{Bitmap, Kernel, State};
use proptest::prelude::*;

proptest! {
    #[test]
    fn all_map_types_match_a_list_of_states(
        head in any::<[u8; 7]>(),
        rest in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        fuzz_bitfit_operations::run(&[&head, &rest[..]].concat());
    }
}

/// Searches maps that end at the end of their allocation, at every offset within a cache line.
#[test]
fn searches_are_correct_at_misaligned_bases() {
    for base in 0..64 {
        for length in (0..=24).chain((0..14).map(|i| i * 37 + 60)) {
            // The box has exactly the needed length, so valgrind reports a read of the byte after it.
            let mut memory = vec![0x55; base + length].into_boxed_slice();
            let look = |bytes: &[u8], expected: Option<usize>, from: usize| {
                let map = Bitmap::new(bytes);
                for kernel in Kernel::ALL {
                    assert_eq!(map.find_with(kernel, State::Dinode, from), expected, "{kernel:?} {base} {length}");
                    assert_eq!(map.count_with(kernel).of(State::Dinode), usize::from(expected.is_some()));
                }
                assert_eq!(map.find_last(State::Dinode, map.len()), expected);
                assert_eq!(map.find_other(State::Used, from), expected);
            };
            look(&memory[base..], None, 0);
            if length > 0 {
                memory[base + length - 1] |= 0xc0;
                look(&memory[base..], Some(length * 4 - 1), length % 7);
            }
        }
    }
}

#[test]
#[ignore = "takes seconds and needs valgrind"]
fn searches_are_correct_at_misaligned_bases_under_valgrind() {
    let this = std::env::current_exe().unwrap();
    let valgrind = std::process::Command::new("valgrind")
        .args(["--quiet", "--error-exitcode=9"])
        .arg(this)
        .args(["--exact", "searches_are_correct_at_misaligned_bases", "--test-threads=1"])
        .output();
    match valgrind {
        Err(error) => skip::skip(format_args!("valgrind: {error}")),
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
    }
}
