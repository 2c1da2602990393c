// SPDX-License-Identifier: GPL-2.0-only
//! Runs the body of the fuzz target on damaged profiles, so that it is tested without a fuzzer, too.

#[path = "../../../../fuzz/src/profile.rs"]
mod fuzz_profile;

use proptest::prelude::*;

/// Contains every section that a profile can have.
const PROFILE: &str = r#"level=3
summary = "a test"
flags = ["ENQ_LAST"]
timeout_ms = 5000

[rodata]
nr_cpus = { machine = "cpus" }
slice_ns = 1000

[[call]]
program = "start"
context = { cpu = { machine = "cpus-by-place" }, level = 2 }

[tunables.level]
range = [1, 9]
doc = "how much"

[presets."level=3"]
level = 3

[claims]
work-conserving = true
"#;

proptest! {
    #[test]
    fn damaged_profiles_never_panic(
        changes in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..3),
        first in 0usize..2,
        cut in any::<prop::sample::Index>(),
        whole in any::<bool>(),
    ) {
        let mut bytes = PROFILE.lines().skip(first).collect::<Vec<_>>().join("\n").into_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if !whole {
            bytes.truncate(cut.index(bytes.len()));
        }
        fuzz_profile::run(&bytes);
    }
}
