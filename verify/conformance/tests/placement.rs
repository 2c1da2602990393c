// SPDX-License-Identifier: GPL-2.0-only
//! Where tasks go that wake: `muqss` in the model beside MuQSS 0.31, and beside `muqss` in Linux 7.2
//! (`verify/conformance/placement`).

use conformance::placement;

/// On each machine, in how many of 96 cases the model chooses a CPU of a kind that each of the two chose. `placement`
/// says what is known of the others.
#[test]
fn tasks_go_where_they_do_under_muqss() {
    for (machine, expected) in [("threads", [73, 87]), ("nodes", [62, 86])] {
        let model = placement::model(machine).unwrap();
        let records = placement::recorded(machine).unwrap();
        assert_eq!(records.keys().copied().collect::<Vec<_>>(), ["MuQSS", "muqss"], "{machine}");
        for ((who, records), expected) in records.into_iter().zip(expected) {
            let (text, alike) = placement::compare(machine, who, &records, &model).unwrap();
            assert_eq!(alike, expected, "{text}");
        }
    }
}
