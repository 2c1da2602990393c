// SPDX-License-Identifier: GPL-2.0-only
//! How often does a table have a mark in which nothing differs? If nothing does, the two runs of each pair may change
//! places: of all such changes at most 5 % may have a mark, whatever the values are. That is counted, not sampled.

use proptest::prelude::*;
use statistics::{Family, Row, Verdict, Direction, compare};

/// Of all changes of places, how many have a mark, and how many there are.
fn marked(rows: &[Row]) -> (usize, usize) {
    let all = 1usize << rows[0].a.len();
    let changed = |row: &Row, places: usize| {
        let mut row = row.clone();
        for pair in (0..row.a.len()).filter(|pair| places >> pair & 1 == 1) {
            std::mem::swap(&mut row.a[pair], &mut row.b[pair]);
        }
        row
    };
    let has_mark = |places: &usize| {
        let rows: Vec<Row> = rows.iter().map(|row| changed(row, *places)).collect();
        let judged = compare(&rows, Family { paired: true, comparisons: 1 });
        judged.iter().any(|row| matches!(row.verdict, Verdict::Better | Verdict::Worse))
    };
    ((0..all).filter(has_mark).count(), all)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Few values make ties and differences of 0; powers make skew and wild runs; rows hang together or not.
    #[test]
    fn at_most_one_change_of_places_in_twenty_has_a_mark(
        pairs in 6usize..9,
        values in prop::collection::vec(1u64..1000, 96),
        few in 1u64..1000,
        power in 1u32..5,
        together in any::<bool>(),
    ) {
        let value = |row: usize, side: usize, pair: usize| {
            let own = values[(row * 2 + side) * 8 + pair] % few + 1;
            let first = values[side * 8 + pair] % few + 1;
            (if together { first * 7 + own } else { own }).pow(power)
        };
        let side = |row: usize, side: usize| (0..pairs).map(|pair| value(row, side, pair)).collect::<Vec<u64>>();
        let rows: Vec<Row> = (0..6).map(|row| Row { a: side(row, 0), b: side(row, 1), direction: Direction::LowerIsBetter }).collect();
        let (marked, all) = marked(&rows);
        prop_assert!(marked * 20 <= all, "{marked} of {all}");
    }
}

/// The level is used: without ties, nearly as many have a mark as may have.
#[test]
fn nearly_one_in_twenty_has_one_where_nothing_is_equal() {
    let a: Vec<u64> = (0..10).map(|pair| 1_000_000 + pair * 37).collect();
    let b: Vec<u64> = (0..10u64).map(|pair| 1_000_000 + pair * 37 + (1 << pair) * 3000).collect();
    let (marked, all) = marked(&[Row { a, b, direction: Direction::LowerIsBetter }]);
    assert!(marked * 20 <= all && marked * 25 >= all, "{marked} of {all}");
}
