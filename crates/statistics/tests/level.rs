// SPDX-License-Identifier: GPL-2.0-only
//! Checks the significance level: if two setups do not differ, the runs of each pair are exchangeable, so at most 5 %
//! of all exchanges may give a significant row, whatever the values. All exchanges are enumerated, not sampled.

use proptest::prelude::*;
use statistics::{Direction, Family, Row, Verdict, compare};

/// Exchanges the two runs of each pair in all possible combinations. Returns the number of combinations with a
/// significant row, and the number of all combinations.
fn significant(rows: &[Row]) -> (usize, usize) {
    let all = 1usize << rows[0].a.len();
    let changed = |row: &Row, places: usize| {
        let mut row = row.clone();
        for pair in (0..row.a.len()).filter(|pair| places >> pair & 1 == 1) {
            std::mem::swap(&mut row.a[pair], &mut row.b[pair]);
        }
        row
    };
    let is_significant = |places: &usize| {
        let rows: Vec<Row> = rows.iter().map(|row| changed(row, *places)).collect();
        let judged = compare(&rows, Family { paired: true, comparisons: 1 });
        judged.iter().any(|row| matches!(row.verdict, Verdict::Better | Verdict::Worse))
    };
    ((0..all).filter(is_significant).count(), all)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Few distinct values give ties and zero differences; powers give skew and outliers; rows are correlated or
    /// independent.
    #[test]
    fn at_most_5_percent_of_exchanges_are_significant(
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
        let direction = Direction::LowerIsBetter;
        let rows: Vec<Row> = (0..6).map(|row| Row { a: side(row, 0), b: side(row, 1), direction }).collect();
        let (significant, all) = significant(&rows);
        prop_assert!(significant * 20 <= all, "{significant} of {all}");
    }
}

/// The level is used up: without ties, the fraction of significant exchanges is nearly 5 %.
#[test]
fn without_ties_nearly_5_percent_of_label_permutations_are_significant() {
    let a: Vec<u64> = (0..10).map(|pair| 1_000_000 + pair * 37).collect();
    let b: Vec<u64> = (0..10u64).map(|pair| 1_000_000 + pair * 37 + (1 << pair) * 3000).collect();
    let (significant, all) = significant(&[Row { a, b, direction: Direction::LowerIsBetter }]);
    assert!(significant * 20 <= all && significant * 25 >= all, "{significant} of {all}");
}
