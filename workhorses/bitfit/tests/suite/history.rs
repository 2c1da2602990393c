// SPDX-License-Identifier: MIT OR Apache-2.0
//! The historical searches give the same results as a naive search.

use crate::common;

use bitfit::State;
use bitfit::history::ALGORITHMS;

#[test]
fn historical_searches_match_the_naive_search() {
    for length in (0..=40).chain([4095, 4096, 4101, 9000]) {
        for base in [0, 1, 5] {
            for (i, wanted) in State::ALL.into_iter().enumerate() {
                let other = State::ALL[(i + 1 + length % 3) % 4];
                let rare = [length, length * 3 + 1, (length * 4).saturating_sub(1)];
                for bytes in [common::noise(length as u64 + 77, length), common::sparse(length, other, wanted, &rare)] {
                    let buffer = [vec![0; base], bytes.clone(), vec![0; 8]].concat();
                    let states = common::states(&bytes);
                    let goals: Vec<usize> = if length <= 40 {
                        (0..=length * 4 + 33).collect()
                    } else {
                        vec![0, 1, 33, length, length * 3 + 2, length * 4 - 1, length * 4, length * 5]
                    };
                    for goal in goals {
                        let expected = common::find(&states, wanted, goal);
                        for algorithm in ALGORITHMS {
                            let found = (algorithm.find)(&buffer[base..base + length], wanted, goal);
                            assert_eq!(found, expected, "{} {length} {base} {goal} {wanted}", algorithm.name);
                        }
                    }
                }
            }
        }
    }
}
