// SPDX-License-Identifier: MIT OR Apache-2.0
//! The index never changes a search result.

use crate::common;

use bitfit::{Bitmap, Indexed, State};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Action {
    Set(prop::sample::Index, u8),
    Find(prop::sample::Index, u8),
    FindFromStart(u8),
}

fn action() -> impl Strategy<Value = Action> {
    use prop::sample::Index;
    prop_oneof![
        (any::<Index>(), 0u8..4).prop_map(|(block, state)| Action::Set(block, state)),
        (any::<Index>(), 0u8..4).prop_map(|(goal, state)| Action::Find(goal, state)),
        (0u8..4).prop_map(Action::FindFromStart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn indexed_map_matches_the_bare_map(length in 1usize..300_000, common in 0u8..4, chosen in 0u8..16,
                                    actions in prop::collection::vec(action(), 0..200)) {
        let mut bytes = vec![common * 0x55; length];
        let mut bare = bytes.clone();
        let mut bare = Bitmap::new(&mut bare[..]);
        let states: Vec<State> = State::ALL.into_iter().filter(|state| chosen >> state.bits() & 1 != 0).collect();
        let mut storage = vec![u64::MAX; Indexed::words_per_state(length) * states.len()];
        let mut map = Indexed::new(&mut bytes, &states, &mut storage).unwrap();
        for action in actions {
            match action {
                Action::Set(block, state) => {
                    let (block, state) = (block.index(length * 4 + 2), State::from_bits(state));
                    prop_assert_eq!(map.set(block, state), bare.set(block, state));
                }
                Action::Find(goal, state) => {
                    let (goal, state) = (goal.index(length * 4 + 5000), State::from_bits(state));
                    prop_assert_eq!(map.find(state, goal), bare.find(state, goal));
                }
                Action::FindFromStart(state) => {
                    let state = State::from_bits(state);
                    prop_assert_eq!(map.find(state, 0), bare.find(state, 0));
                }
            }
        }
        prop_assert_eq!(map.map().into_inner(), bare.as_bytes());
    }
}

#[test]
fn indexed_map_with_three_levels_finds_each_block() {
    let length = 5 << 20;
    let free: Vec<usize> = (0..200).map(|i| i * i * 523 % (length * 4)).collect();
    let mut bytes = common::sparse(length, State::Used, State::Free, &free);
    let expected: Vec<usize> = Bitmap::new(&bytes[..]).blocks(State::Free).collect();
    let mut storage = vec![0; Indexed::words_per_state(length)];
    let mut map = Indexed::new(&mut bytes, &[State::Free], &mut storage).unwrap();
    let mut found = Vec::new();
    while let Some(block) = map.find(State::Free, 0) {
        map.set(block, State::Used).unwrap();
        found.push(block);
    }
    assert_eq!(found, expected);
}
