// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every search matches a naive one: exhaustively on small maps, at random on larger ones.

use crate::common;

use bitfit::{Bitmap, Counts, Kernel, SetError, State};
use proptest::prelude::*;

fn kernels() -> impl Iterator<Item = Kernel> {
    Kernel::ALL.into_iter().filter(|kernel| kernel.is_available())
}

/// For every block, and beyond the end: the first block in the state at or after it.
fn next_by_goal(bytes: &[u8], wanted: State) -> Vec<Option<usize>> {
    let mut next = vec![None; bytes.len() * 4 + 3];
    for block in (0..bytes.len() * 4).rev() {
        next[block] = if common::state(bytes, block) == wanted { Some(block) } else { next[block + 1] };
    }
    next
}

#[test]
fn find_is_correct_for_every_goal_length_and_base() {
    for length in 0..=200 {
        for base in [0, 1, 3, 7, 8, 31, 33, 63] {
            let rare = [0, 1, 97, length * 2, length * 4 - length.min(1), length * 4 - (5).min(length)];
            for (seed, wanted) in State::ALL.into_iter().enumerate() {
                let other = State::ALL[(seed + 1 + length % 3) % 4];
                for bytes in [common::noise(length as u64, length), common::sparse(length, other, wanted, &rare)] {
                    let buffer = [vec![0xe4; base], bytes.clone(), vec![0xe4; 9]].concat();
                    let map = Bitmap::new(&buffer[base..base + length]);
                    let expected = next_by_goal(&bytes, wanted);
                    for kernel in kernels() {
                        for (goal, expected) in expected.iter().enumerate() {
                            assert_eq!(
                                map.find_with(kernel, wanted, goal),
                                *expected,
                                "{kernel:?} {length} {base} {goal}"
                            );
                        }
                        assert_eq!(map.find_with(kernel, wanted, usize::MAX), None);
                    }
                }
            }
        }
    }
}

#[test]
fn all_searches_are_correct_on_all_small_maps() {
    for content in 0..=u16::MAX {
        let bytes = content.to_le_bytes();
        let map = Bitmap::new(bytes);
        let states = common::states(&bytes);
        assert!(map.iter().eq(states.iter().copied()));
        for wanted in State::ALL {
            for from in 0..=9 {
                assert_eq!(map.find(wanted, from), common::find(&states, wanted, from));
                assert_eq!(map.find_other(wanted, from), common::find_other(&states, wanted, from));
                assert_eq!(map.find_last(wanted, from), common::find_last(&states, wanted, from));
            }
            for length in 0..=9 {
                let expected = common::find_run(&states, wanted, 1, length);
                assert_eq!(map.find_run(wanted, 1, length), expected, "{content:#x} {wanted} {length}");
            }
        }
    }
}

#[test]
fn loops_for_large_maps_stop_at_the_first_line_with_a_wanted_block() {
    let length = 5 << 20;
    for (round, wanted) in State::ALL.into_iter().cycle().take(12).enumerate() {
        let other = State::ALL[(wanted as usize + 1 + round / 4) % 4];
        // Every line of a group, and the lines after the last whole group.
        for block in (0..9).map(|line| 1_000_003 * (round + 1) + line * 256).chain([length * 4 - 1, length * 4 - 300]) {
            let bytes = common::sparse(length, other, wanted, &[block, length * 4 - 1]);
            let map = Bitmap::new(&bytes[round % 3..]);
            let expected = Some(block - round % 3 * 4);
            for kernel in kernels() {
                assert_eq!(map.find_with(kernel, wanted, 7), expected, "{kernel:?} {wanted} in {other}");
            }
            assert_eq!(map.find_other(other, 7), expected, "{other}");
        }
    }
}

#[test]
fn loops_for_large_maps_find_a_block_at_any_position() {
    let length = 2 << 20;
    for (round, wanted) in State::ALL.into_iter().cycle().take(24).enumerate() {
        let other = State::ALL[(round / 4 + wanted as usize + 1) % 4];
        if other == wanted {
            continue;
        }
        let block = (round * 359_003) % (length * 4 - 100);
        let bytes = common::sparse(length, other, wanted, &[block, length * 4 - 1]);
        for base in [0, 1, 65] {
            let map = Bitmap::new(&bytes[base..]);
            for kernel in kernels() {
                let expected = if block >= base * 4 { block } else { length * 4 - 1 };
                assert_eq!(map.find_with(kernel, wanted, 0).map(|found| found + base * 4), Some(expected));
                let last = map.find_with(kernel, wanted, block + 1);
                assert_eq!(last.map(|found| found + base * 4), Some(length * 4 - 1), "{kernel:?} {round}");
            }
            assert_eq!(map.find_other(other, 0), map.find(wanted, 0));
            assert_eq!(map.find_last(other, length * 8), Some(length * 4 - base * 4 - 2));
        }
    }
}

#[test]
fn single_block_is_found_at_every_position() {
    let length = 1500;
    for (i, wanted) in State::ALL.into_iter().enumerate() {
        for block in 0..length * 4 {
            let bytes = common::sparse(length, State::ALL[(i + 1 + block % 3) % 4], wanted, &[block]);
            let map = Bitmap::new(&bytes[block % 3..]);
            let expected = block.checked_sub(block % 3 * 4);
            for kernel in kernels() {
                assert_eq!(map.find_with(kernel, wanted, 0), expected, "{kernel:?} {wanted}");
            }
        }
    }
}

#[test]
fn best_kernel_is_the_widest_available() {
    #[cfg(target_arch = "x86_64")]
    let expected = if std::is_x86_feature_detected!("avx512vpopcntdq") {
        Kernel::Avx512
    } else if std::is_x86_feature_detected!("avx2") {
        Kernel::Avx2
    } else {
        Kernel::Portable
    };
    #[cfg(target_arch = "aarch64")]
    let expected = Kernel::Neon;
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    assert_eq!(Kernel::best(), expected);
    assert_eq!(kernels().last(), Some(Kernel::best()));
}

#[test]
fn read_kernel_reads_every_whole_cache_line() {
    let mut buffer = vec![0; 40 * 64];
    let base = buffer.as_ptr().align_offset(64);
    for kernel in kernels() {
        for (start, first_whole) in [(base, 0), (base + 1, 1)] {
            for lines in [1, 3, 4, 5, 37] {
                let end = base + lines * 64;
                assert!(!bitfit::read(kernel, &buffer[start..end]));
                for line in first_whole..lines {
                    let at = base + line * 64 + line;
                    buffer[at] = 0xff;
                    assert!(bitfit::read(kernel, &buffer[start..end]), "{kernel:?} {start} {line} of {lines}");
                    buffer[at] = 0;
                }
            }
        }
    }
}

fn maps() -> impl Strategy<Value = (Vec<u8>, usize)> {
    let mostly = (0u8..4, prop::collection::vec((any::<prop::sample::Index>(), 0u8..4), 0..12), 0usize..=4096)
        .prop_map(|(common, rare, length)| {
            let mut bytes = vec![common * 0x55; length];
            for (index, state) in rare.iter().filter(|_| length > 0) {
                let block = index.index(length * 4);
                bytes[block / 4] = bytes[block / 4] & !(3 << (block % 4 * 2)) | state << (block % 4 * 2);
            }
            bytes
        });
    (prop_oneof![prop::collection::vec(any::<u8>(), 0..=4096), mostly], 0usize..64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn all_operations_match_the_naive_ones_on_random_maps((bytes, base) in maps(), goal in any::<prop::sample::Index>(), past in 0usize..9,
                                      length in 0usize..200, wanted in 0u8..4) {
        let wanted = State::from_bits(wanted);
        let goal = goal.index(bytes.len() * 4 + 1) + past;
        let buffer = [vec![0xe4; base], bytes.clone()].concat();
        let map = Bitmap::new(&buffer[base..]);
        let states = common::states(&bytes);
        let count = Counts::new(State::ALL.map(|state| states.iter().filter(|&&s| s == state).count()));
        for kernel in kernels() {
            prop_assert_eq!(map.find_with(kernel, wanted, goal), common::find(&states, wanted, goal));
            prop_assert_eq!(map.count_with(kernel), count, "{:?}", kernel);
        }
        prop_assert_eq!(bitfit::count_word_by_word(map.as_bytes()), count);
        prop_assert_eq!(count.total(), map.len());
        prop_assert_eq!(map.find_other(wanted, goal), common::find_other(&states, wanted, goal));
        prop_assert_eq!(map.find_last(wanted, goal), common::find_last(&states, wanted, goal));
        prop_assert_eq!(map.find_run(wanted, goal, length), common::find_run(&states, wanted, goal, length));
        prop_assert!(map.blocks(wanted).eq((0..states.len()).filter(|&block| states[block] == wanted)));
        prop_assert!(map.iter().eq(states.iter().copied()));
    }

    #[test]
    fn set_changes_exactly_one_block_or_none(mut bytes in prop::collection::vec(any::<u8>(), 0..64),
                                        changes in prop::collection::vec((0usize..270, 0u8..4), 0..64)) {
        let mut states = common::states(&bytes);
        let mut map = Bitmap::new(&mut bytes[..]);
        for (block, next) in changes {
            let next = State::from_bits(next);
            let expected = match states.get(block) {
                None => Err(SetError::OutOfRange { block, blocks: states.len() }),
                Some(&from) if !from.may_become(next) => Err(SetError::Illegal { block, from, to: next }),
                Some(&from) => Ok(from),
            };
            prop_assert_eq!(map.set(block, next), expected);
            if expected.is_ok() {
                states[block] = next;
            }
            prop_assert_eq!(map.get(block), states.get(block).copied());
        }
        prop_assert!(map.iter().eq(states.iter().copied()));
    }
}
