// SPDX-License-Identifier: GPL-2.0-only
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    weir_fuzz::campaign::run(bytes);
});
