// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parity file `FILE.lrz.par`, which repairs damage anywhere in an archive.
//!
//! The archive is divided into at most 32768 shards, and Reed-Solomon coding adds parity shards: N intact shards of
//! either type suffice to restore an archive of N shards. Checksums identify the damaged shards. The header and the
//! checksum list are stored both at the start and at the end, so that damage to one copy is harmless:
//!
//! ```text
//! header | checksums | parity shards | checksums | header
//! ```
//!
//! Parity of N % repairs damage that touches at most N % of the shards. A damaged run touches the shards it covers,
//! including up to two partially; a single byte touches one. So 10 % of parity repairs runs that cover 5 % of the
//! archive, but scattered single bytes only in as many places as there are parity shards: 3279 in an archive of 16
//! MiB or more.

use crate::error::{Context, Error, Result};
use crate::output::Output;
use crate::store::ReadAt;
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8; 8] = b"LRZPAR01";
const HEAD_BYTES: usize = 48;
/// Maximum number of shards in an archive. With more, a small archive's checksums would be longer than its parity.
const MOST_SHARDS: u64 = 32768;
/// Minimum shard length in bytes. Shard lengths are multiples of 64, as the coder requires.
const LEAST_SHARD: u64 = 512;
/// Bytes of each shard coded at a time: the coder's memory is this times the number of shards.
const SLICE: u64 = 2048;

/// Sizes stored in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    /// Length of the archive in bytes.
    length: u64,
    /// Length of a shard in bytes.
    shard: u64,
    /// Number of archive shards and of parity shards.
    shards: u64,
    parity: u64,
}

impl Layout {
    fn new(length: u64, share: f64) -> Layout {
        let shard = length.div_ceil(MOST_SHARDS).max(LEAST_SHARD).next_multiple_of(64);
        let shards = length.div_ceil(shard).max(1);
        // A damaged run may begin and end within shards, which adds two.
        let parity = ((shards as f64 * share).ceil() as u64 + 2).min(MOST_SHARDS);
        Layout { length, shard, shards, parity }
    }

    fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        for (k, value) in [self.length, self.shard, self.shards, self.parity].iter().enumerate() {
            bytes[8 + 8 * k..16 + 8 * k].copy_from_slice(&value.to_le_bytes());
        }
        let sum = xxh3_64(&bytes[..HEAD_BYTES - 8]);
        bytes[HEAD_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn parse(bytes: &[u8; HEAD_BYTES]) -> Option<Layout> {
        let word = |k: usize| u64::from_le_bytes(bytes[8 * k..8 * k + 8].try_into().expect("eight bytes"));
        if &bytes[..8] != MAGIC || word(5) != xxh3_64(&bytes[..HEAD_BYTES - 8]) {
            return None;
        }
        let layout = Layout { length: word(1), shard: word(2), shards: word(3), parity: word(4) };
        let sound = layout.shard >= 64
            && layout.shard.is_multiple_of(64)
            && (1..=MOST_SHARDS).contains(&layout.shards)
            && (1..=MOST_SHARDS).contains(&layout.parity)
            && layout.shards == layout.length.div_ceil(layout.shard).max(1);
        sound.then_some(layout)
    }

    /// Length in bytes of the checksum list, its own checksum included.
    fn sums_bytes(self) -> usize {
        8 * (self.shards + self.parity) as usize + 8
    }

    fn first_parity(self) -> u64 {
        (HEAD_BYTES + self.sums_bytes()) as u64
    }
}

/// Writes parity for about `share` of the archive; the returned file must still be finished.
///
/// # Errors
/// [`Error::Io`] for either file.
pub fn create(archive: &File, path: &Path, share: f64, replace: bool) -> Result<Output> {
    let length = archive.length().context(|| "reading the archive".to_owned())?;
    let layout = Layout::new(length, share);
    let output = Output::create(path, replace)?;
    let first = layout.first_parity();
    let mut at = 0;
    while at < layout.shard {
        let slice = SLICE.min(layout.shard - at);
        let mut coder = ReedSolomonEncoder::new(layout.shards as usize, layout.parity as usize, slice as usize)
            .map_err(|error| coding(&error))?;
        let mut buffer = vec![0; slice as usize];
        for shard in 0..layout.shards {
            read_padded(archive, &mut buffer, shard * layout.shard + at)?;
            coder.add_original_shard(&buffer).map_err(|error| coding(&error))?;
        }
        let coded = coder.encode().map_err(|error| coding(&error))?;
        for (index, bytes) in coded.recovery_iter().enumerate() {
            write(output.file(), bytes, first + index as u64 * layout.shard + at)?;
        }
        at += slice;
    }
    let mut sums = Vec::new();
    let mut buffer = vec![0; layout.shard as usize];
    for shard in 0..layout.shards {
        read_padded(archive, &mut buffer, shard * layout.shard)?;
        sums.extend_from_slice(&xxh3_64(&buffer).to_le_bytes());
    }
    for shard in 0..layout.parity {
        read_padded(output.file(), &mut buffer, first + shard * layout.shard)?;
        sums.extend_from_slice(&xxh3_64(&buffer).to_le_bytes());
    }
    sums.extend_from_slice(&xxh3_64(&sums).to_le_bytes());
    let head = layout.to_bytes();
    let end = first + layout.parity * layout.shard;
    write(output.file(), &[&head[..], &sums].concat(), 0)?;
    write(output.file(), &[&sums[..], &head].concat(), end)?;
    Ok(output)
}

/// Repairs an archive: writes a repaired copy and replaces the damaged file once all shards are verified. Returns a
/// message about the result.
///
/// # Errors
/// [`Error::Foreign`] if `path` is no parity file, [`Error::Checksum`] if the damage exceeds the parity.
pub fn repair(archive: &Path, path: &Path) -> Result<String> {
    let damaged = File::open(archive).context(|| format!("opening {}", archive.display()))?;
    let parity = File::open(path).context(|| format!("opening {}", path.display()))?;
    let (layout, sums) = read_head(&parity)?;
    let sound = |file: &File, at: u64, index: u64| -> Result<bool> {
        let mut buffer = vec![0; layout.shard as usize];
        read_padded(file, &mut buffer, at)?;
        Ok(xxh3_64(&buffer).to_le_bytes() == sums[8 * index as usize..8 * index as usize + 8])
    };
    let mut good = Vec::new();
    for shard in 0..layout.shards {
        good.push(sound(&damaged, shard * layout.shard, shard)?);
    }
    let bad = good.iter().filter(|good| !**good).count();
    let length = damaged.length().context(|| format!("reading {}", archive.display()))?;
    if bad == 0 && length == layout.length {
        return Ok("no damage found".to_owned());
    }
    let mut helpers = Vec::new();
    for shard in 0..layout.parity {
        if helpers.len() < bad && sound(&parity, layout.first_parity() + shard * layout.shard, layout.shards + shard)? {
            helpers.push(shard);
        }
    }
    if helpers.len() < bad {
        return Err(Error::Checksum("damaged shards (more than the parity can repair)"));
    }
    let output = Output::create(archive, true)?;
    restore(&damaged, &parity, layout, &good, &helpers, output.file())?;
    output.file().set_len(layout.length).context(|| "writing the archive".to_owned())?;
    for shard in 0..layout.shards {
        if !sound(output.file(), shard * layout.shard, shard)? {
            return Err(Error::Checksum("repaired archive"));
        }
    }
    let metadata = damaged.metadata().context(|| format!("reading {}", archive.display()))?;
    // Keep the damaged file's mode as far as permissions allow.
    let _ = output.file().set_permissions(metadata.permissions());
    output.finish()?;
    Ok(format!("repaired {bad} of {} shards of {} bytes", layout.shards, layout.shard))
}

/// Returns whether `path` is the parity of an archive: its recorded length and first checksum match.
pub fn is_of(path: &Path, archive: &File) -> bool {
    let Ok((layout, sums)) = File::open(path).map_err(|_| ()).and_then(|parity| read_head(&parity).map_err(|_| ()))
    else {
        return false;
    };
    // Compare the length first: another archive's header could request much memory.
    archive.length().is_ok_and(|length| length == layout.length) && {
        let mut beginning = vec![0; layout.shard as usize];
        read_padded(archive, &mut beginning, 0).is_ok() && xxh3_64(&beginning).to_le_bytes() == sums[..8]
    }
}

fn restore(damaged: &File, parity: &File, layout: Layout, good: &[bool], helpers: &[u64], output: &File) -> Result<()> {
    let mut at = 0;
    while at < layout.shard {
        let slice = SLICE.min(layout.shard - at);
        let mut buffer = vec![0; slice as usize];
        let mut coder = ReedSolomonDecoder::new(layout.shards as usize, layout.parity as usize, slice as usize)
            .map_err(|error| coding(&error))?;
        for (shard, _) in good.iter().enumerate().filter(|(_, good)| **good) {
            let place = shard as u64 * layout.shard + at;
            read_padded(damaged, &mut buffer, place)?;
            write(output, &buffer, place)?;
            coder.add_original_shard(shard, &buffer).map_err(|error| coding(&error))?;
        }
        for helper in helpers {
            read_padded(parity, &mut buffer, layout.first_parity() + helper * layout.shard + at)?;
            coder.add_recovery_shard(*helper as usize, &buffer).map_err(|error| coding(&error))?;
        }
        for (shard, bytes) in coder.decode().map_err(|error| coding(&error))?.restored_original_iter() {
            write(output, bytes, shard as u64 * layout.shard + at)?;
        }
        at += slice;
    }
    Ok(())
}

/// Reads the header and the checksums from the start or, if damaged, from the end.
fn read_head(parity: &File) -> Result<(Layout, Vec<u8>)> {
    let length = parity.length().context(|| "reading the parity".to_owned())?;
    let mut head = [0; HEAD_BYTES];
    let mut known = false;
    for at in [0, length.saturating_sub(HEAD_BYTES as u64)] {
        read_padded(parity, &mut head, at)?;
        let Some(layout) = Layout::parse(&head) else { continue };
        known = true;
        let mut sums = vec![0; layout.sums_bytes()];
        for at in [HEAD_BYTES as u64, layout.first_parity() + layout.parity * layout.shard] {
            read_padded(parity, &mut sums, at)?;
            let (list, own) = sums.split_at(sums.len() - 8);
            if xxh3_64(list).to_le_bytes() == own {
                return Ok((layout, sums));
            }
        }
    }
    Err(match known {
        true => Error::Checksum("checksum list at both ends of the parity file"),
        false => Error::Foreign("the .par file is not an lrz parity file".to_owned()),
    })
}

/// Fills the buffer, with zeros beyond the end of the file.
fn read_padded(file: &File, buffer: &mut [u8], at: u64) -> Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        match FileExt::read_at(file, &mut buffer[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context(|| "reading for parity".to_owned()),
        }
    }
    buffer[filled..].fill(0);
    Ok(())
}

fn write(file: &File, bytes: &[u8], at: u64) -> Result<()> {
    file.write_all_at(bytes, at).context(|| "writing with parity".to_owned())
}

fn coding(error: &reed_solomon_simd::Error) -> Error {
    Error::Unsupported(format!("Reed-Solomon coder: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::Rng;
    use proptest::test_runner::{RngAlgorithm, TestRng};
    use std::fs;

    /// Creates an archive of 200,123 bytes with 10 % of parity.
    fn prepared(directory: &Path) -> (std::path::PathBuf, std::path::PathBuf, Vec<u8>) {
        let (archive, parity) = (directory.join("a.lrz"), directory.join("a.lrz.par"));
        let bytes: Vec<u8> = (0..200_123u32).map(|k| (k.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        fs::write(&archive, &bytes).expect("written");
        create(&File::open(&archive).expect("there"), &parity, 0.1, false).expect("coded").finish().expect("named");
        (archive, parity, bytes)
    }

    /// Damages 5 % of the archive: several runs are overwritten or zeroed, or the end is cut off.
    fn damage(bytes: &mut Vec<u8>, random: &mut TestRng) {
        let all = bytes.len() / 20;
        if random.next_u32().is_multiple_of(5) {
            return bytes.truncate(bytes.len() - all);
        }
        let runs = 1 + random.next_u32() as usize % 9;
        for _ in 0..runs {
            let from = random.next_u32() as usize % (bytes.len() - all / runs);
            let fill = random.next_u32();
            for byte in &mut bytes[from..from + all / runs] {
                *byte = if fill.is_multiple_of(2) { 0 } else { *byte ^ (fill >> 8) as u8 | 1 };
            }
        }
    }

    fn repairs(samples: u32) {
        let directory = tempfile::tempdir().expect("a directory");
        let (archive, parity, good) = prepared(directory.path());
        let whole = fs::read(&parity).expect("there");
        let mut random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        for sample in 0..samples {
            let mut bytes = good.clone();
            damage(&mut bytes, &mut random);
            fs::write(&archive, &bytes).expect("written");
            // Damage 1000 bytes of the parity file as well.
            let mut own = whole.clone();
            let from = random.next_u32() as usize % (own.len() - 1000);
            own[from..from + 1000].fill(0x55);
            fs::write(&parity, &own).expect("written");
            repair(&archive, &parity).unwrap_or_else(|error| panic!("sample {sample}: {error}"));
            assert!(fs::read(&archive).expect("there") == good, "sample {sample}");
        }
    }

    #[test]
    fn damage_to_5_percent_of_the_archive_is_repaired() {
        repairs(20);
    }

    #[test]
    #[ignore = "a minute"]
    fn damage_to_5_percent_of_the_archive_is_repaired_in_1000_samples() {
        repairs(1000);
    }

    #[test]
    fn single_byte_damage_is_repaired_up_to_the_number_of_parity_shards() {
        let directory = tempfile::tempdir().expect("a directory");
        let (archive, parity, good) = prepared(directory.path());
        let layout = Layout::new(good.len() as u64, 0.1);
        assert_eq!((layout.shard, layout.shards, layout.parity), (512, 391, 42));
        // A different shard for each place: 9 and 391 are coprime.
        let damage = |places: u64| {
            let mut bytes = good.clone();
            for place in 0..places {
                bytes[(place * 9 % layout.shards * layout.shard + place % 100) as usize] ^= 0x10;
            }
            fs::write(&archive, &bytes).expect("written");
            bytes
        };
        damage(layout.parity);
        assert_eq!(repair(&archive, &parity).expect("enough"), "repaired 42 of 391 shards of 512 bytes");
        assert!(fs::read(&archive).expect("there") == good);
        let bytes = damage(layout.parity + 1);
        assert!(matches!(repair(&archive, &parity), Err(Error::Checksum(_))));
        assert!(fs::read(&archive).expect("there") == bytes);
    }

    #[test]
    fn excessive_damage_is_an_error_and_changes_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let (archive, parity, good) = prepared(directory.path());
        assert_eq!(repair(&archive, &parity).expect("fine"), "no damage found");
        let mut bytes = good.clone();
        bytes[1000..40_000].fill(1);
        fs::write(&archive, &bytes).expect("written");
        assert!(matches!(repair(&archive, &parity), Err(Error::Checksum(_))));
        assert!(fs::read(&archive).expect("there") == bytes);
        fs::write(&parity, b"something else").expect("written");
        assert!(matches!(repair(&archive, &parity), Err(Error::Foreign(_))));
    }
}
