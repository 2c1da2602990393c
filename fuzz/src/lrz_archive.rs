// SPDX-License-Identifier: GPL-2.0-only
//! Archives of lrzip.

use lrz::budget::Limit;
use lrz::store::Memory;
use lrz::unpack::{Options, Target, Verified, unpack};

/// Maximum number of bytes extracted from an archive, since a mutated length may be arbitrary.
const MOST: u64 = 16 << 20;

/// Result of reading an archive.
pub enum Outcome {
    /// Contents, verified by a checksum.
    Verified(Vec<u8>),
    /// Some contents; the archive has no checksum.
    Unverified,
    /// An error.
    Refused,
}

/// Reads an archive with little memory.
pub fn read(archive: &[u8], password: Option<&[u8]>) -> Outcome {
    let output = Memory::default();
    let options = Options {
        password: password.map(<[u8]>::to_vec),
        // A damaged salt may request more, up to the default limit of seconds.
        key_rounds: 1 << 12,
        threads: 1,
        // The default queries the system's memory size, which takes longer than most archives.
        memory: Limit::bytes(0),
        most: MOST,
        progress: None,
        trace: None,
    };
    match unpack(&archive.to_vec(), Target::Store(&output), &options) {
        Ok(summary) if summary.verified == Verified::Nothing => Outcome::Unverified,
        Ok(_) => Outcome::Verified(output.into_bytes()),
        Err(_) => Outcome::Refused,
    }
}

/// Fuzz target: plain and encrypted archives.
#[allow(dead_code, reason = "the tests call `read`")]
pub fn run(bytes: &[u8]) {
    read(bytes, Some(b"pw"));
}
