// SPDX-License-Identifier: GPL-2.0-only
//! Placement of woken tasks: `muqss` in the model compared with MuQSS 0.31, and with `muqss` in Linux 7.2
//! (`verify/conformance/placement`).

use conformance::placement;

/// Number of the 96 cases per machine in which the model chooses a kind of CPU that each of the two chose.
/// `placement` describes what is known of the others.
#[test]
fn muqss_placement_matches_the_recorded_number_of_cases() {
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
