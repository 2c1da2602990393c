// SPDX-License-Identifier: GPL-2.0-only
//! Passes random events to the body of the fuzz target, so that it also runs without a fuzzer.

#[path = "../../../../fuzz/src/events.rs"]
mod fuzz_events;

use crate::common;
use proptest::prelude::*;
use report::{read_details, read_json};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn records_within_bounds_never_make_a_consumer_panic(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        let json = report::to_json(&[common::run("fifo", 1000, 5)]);
        let (records, details) = (read_json(json.as_bytes()).unwrap(), read_details(json.as_bytes()).unwrap());
        fuzz_events::run(&bytes, records.into_iter().next(), details.into_iter().next());
    }
}
