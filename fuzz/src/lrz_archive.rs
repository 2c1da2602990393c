// SPDX-License-Identifier: GPL-2.0-only
//! Archives of lrzip.

use lrz::budget::Limit;
use lrz::store::Memory;
use lrz::unpack::{Options, Target, Verified, unpack};

/// Bytes that are taken out of an archive at most: a mutated length may ask for any number.
const MOST: u64 = 16 << 20;

/// What became of an archive.
pub enum Outcome {
    /// These bytes, borne out by a checksum.
    Verified(Vec<u8>),
    /// Some bytes; the archive has no checksum.
    Unverified,
    /// An error.
    Refused,
}

/// Reads an archive with little memory.
pub fn read(archive: &[u8], password: Option<&[u8]>) -> Outcome {
    // A damaged salt may ask for minutes of key derivation, which is a wish and no harm.
    if archive.len() > 22 && archive[22] == 1 && u32::from(archive[7]) << archive[6].min(20) > 1 << 12 {
        return Outcome::Refused;
    }
    if archive.len() > 30 && archive[22] == 3 && u32::from_le_bytes(archive[26..30].try_into().expect("four")) > 100 {
        return Outcome::Refused;
    }
    let output = Memory::default();
    let options = Options {
        password: password.map(<[u8]>::to_vec),
        threads: 1,
        // Defaults ask the system for its memory, which takes longer than most archives.
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

/// For the fuzzer: plain archives and encrypted ones.
#[allow(dead_code, reason = "the tests call `read`")]
pub fn run(bytes: &[u8]) {
    read(bytes, Some(b"pw"));
}
