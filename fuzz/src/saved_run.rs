// SPDX-License-Identifier: GPL-2.0-only
//! Saved runs: any bytes give a result without a panic, and accepted files survive a round trip.

use saved_run::SavedRun;

/// Reads the bytes as a file, and all of its parts.
pub fn run(bytes: &[u8]) {
    let Ok(saved) = SavedRun::from_bytes(bytes) else { return };
    let again = SavedRun::from_bytes(&saved.to_bytes()).expect("an accepted file can be read again");
    assert!(again.names().eq(saved.names()));
    for name in saved.names() {
        assert_eq!(saved.part(name).ok(), again.part(name).ok());
    }
}
