// SPDX-License-Identifier: MIT OR Apache-2.0
//! Archive reader: several threads decompress blocks ahead of the one that replays the tokens.

mod archive;
mod blocks;
mod output;
mod replay;

use crate::budget::{Budget, Limit};
use crate::crypto::{KEY_ROUNDS, Part};
use crate::error::{Error, Result, damaged};
use crate::format::{MD5_BYTES, Magic, Minor};
use crate::store::{ReadAt, Store};
use crate::trace::{Stage, Trace};
use std::io::Write;
use std::thread;

pub use archive::{Archive, BlockAt, Chunk};
use blocks::Pool;
use output::Output;
use replay::Replay;

/// Destination of the output.
pub enum Target<'a> {
    /// A file, with holes for zeros.
    Store(&'a dyn Store),
    /// A stream. Output that no longer fits in memory but may be a match source is also written to the store.
    Stream(&'a mut (dyn Write + Send), &'a dyn Store),
    /// No output; the archive is only checked. The store holds match sources that no longer fit in memory.
    Nowhere(&'a dyn Store),
    /// No output; each byte is compared with the original input, whose MD5 is given. Match sources are read from
    /// there as well.
    Compare(&'a dyn ReadAt, [u8; MD5_BYTES]),
}

/// Options of the reader.
pub struct Options<'a> {
    /// Password of an encrypted archive.
    pub password: Option<Vec<u8>>,
    /// Maximum rounds of hashing for the key of an encrypted archive, which the archive chooses.
    pub key_rounds: u64,
    /// Number of decompressing threads; at least 1.
    pub threads: usize,
    /// Memory limit.
    pub memory: Limit,
    /// Maximum output length in bytes.
    pub most: u64,
    /// Callback with the output bytes so far.
    pub progress: Option<&'a (dyn Fn(u64) + Sync)>,
    /// Trace that collects the stages' spans.
    pub trace: Option<&'a Trace>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        let memory = Limit::of_system(None);
        Options {
            password: None,
            key_rounds: KEY_ROUNDS,
            threads: 2,
            memory,
            most: u64::MAX,
            progress: None,
            trace: None,
        }
    }
}

/// Result of unpacking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Length of the output in bytes.
    pub bytes: u64,
    /// MD5 of the output.
    pub md5: [u8; 16],
    /// Checksum that verified the output.
    pub verified: Verified,
    /// Oddities of an archive that unpacked successfully.
    pub warnings: Vec<String>,
}

/// Kind of checksum that verified the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verified {
    /// The MD5 at the end of the archive.
    Md5,
    /// The CRC of each chunk.
    Crc,
    /// None: the archive has no checksum.
    Nothing,
}

/// Unpacks an archive into `target`.
///
/// # Errors
/// Any problem of the archive, see [`Error`]; output written before it must not be used.
pub fn unpack(archive: &dyn ReadAt, target: Target<'_>, options: &Options<'_>) -> Result<Summary> {
    let archive = Archive::open(archive, options.password.as_deref(), options.key_rounds)?;
    if archive.magic().size.is_some_and(|size| size > options.most) {
        return Err(Error::TooLong(options.most));
    }
    // One third of the memory for recent output pieces, half for blocks. If the output is a file, few pieces are
    // kept: rereading from the page cache is cheaper than new memory.
    let most = if matches!(target, Target::Store(_) | Target::Compare(..)) { FILE_PIECES } else { 1 << 16 };
    let pieces = (options.memory.bytes / 3 / crate::window::PIECE as u64).clamp(16, most) as usize;
    let off = Trace::off();
    let trace = options.trace.unwrap_or(&off);
    let budget = Budget::new(options.memory.bytes / 2);
    let pool = Pool::new(&archive, &budget, trace);
    let output = Output::new(target, archive.magic().size, pieces, options.progress, trace);
    thread::scope(|scope| {
        for lane in 0..options.threads.max(1) {
            let pool = &pool;
            let spawned = thread::Builder::new()
                .name(format!("unpack-{lane}"))
                .stack_size(STACK)
                .spawn_scoped(scope, move || pool.work(lane));
            if spawned.is_err() {
                // Continue with fewer threads: the replaying thread decompresses the blocks no worker has.
                break;
            }
        }
        let result = output.run(|sink, behind| {
            let mut replay = Replay::new(sink, behind, pieces, options.most, archive.magic().size);
            let done = replay_all(&archive, &pool, &mut replay, options, trace)?;
            replay.finish()?;
            Ok(done)
        });
        pool.close();
        let ((end, crc_checked), md5) = result?;
        conclude(&archive, end, crc_checked, md5)
    })
}

/// Thread stack size in bytes, small because address space may be limited.
pub(crate) const STACK: usize = 512 << 10;

/// Pieces kept in memory if all output is in a file.
const FILE_PIECES: u64 = 64;

/// End offset of the last chunk and the output length; whether all CRCs were checked.
type Replayed = ((u64, u64), bool);

fn replay_all<'a>(
    archive: &'a Archive<'a>,
    pool: &Pool<'a>,
    replay: &mut Replay<'_>,
    options: &Options<'_>,
    trace: &Trace,
) -> Result<Replayed> {
    let check = archive.magic().minor == Minor::Six && !archive.magic().md5;
    let mut next = Some(archive.first_chunk());
    let mut number = 0;
    let mut chunk = plan(archive, pool, &mut next, number)?;
    loop {
        let (end, last) = (chunk.end, chunk.last);
        // The next chunk's blocks are decompressed while this chunk is replayed. An error in its headers is reported
        // only if this chunk proves not to be the last.
        number += 1;
        let complete = |replay: &Replay<'_>| archive.magic().size.is_some_and(|size| replay.position() >= size);
        let following = (!last).then(|| plan(archive, pool, &mut next, number));
        trace.span(Stage::Replay, 0, number - 1, 0, || {
            replay.chunk(pool, number - 1, chunk, check, options.memory.bytes / 3)
        })?;
        match following {
            None => return Ok(((end, replay.position()), check)),
            Some(_) if complete(replay) => return Ok(((end, replay.position()), check)),
            Some(following) => chunk = following?,
        }
    }
}

/// Reads the headers of the next chunk and adds its blocks to the pool.
fn plan<'a>(
    archive: &'a Archive<'a>,
    pool: &Pool<'a>,
    next: &mut Option<archive::Start>,
    number: usize,
) -> Result<Chunk> {
    let chunk = archive.chunk(next.take().expect("the chunk before was not the last"))?;
    *next = chunk.next;
    pool.add(number, &chunk);
    Ok(chunk)
}

fn conclude(archive: &Archive<'_>, (end, bytes): (u64, u64), crc: bool, md5: [u8; 16]) -> Result<Summary> {
    let magic: &Magic = archive.magic();
    if let Some(size) = magic.size.filter(|size| *size != bytes) {
        return Err(damaged(end, format!("the archive unpacks to {bytes} bytes, its magic says {size}")));
    }
    let mut warnings = Vec::new();
    let mut rest = end;
    let verified = if magic.md5 {
        let sealed = archive.read(end, archive.cipher().sealed_md5_length() as u64)?;
        rest += sealed.len() as u64;
        if archive.cipher().open_md5(sealed)?[..MD5_BYTES] != md5 {
            return Err(Error::Checksum("MD5"));
        }
        Verified::Md5
    } else if crc {
        warnings.push("the archive has no MD5: the output was verified by CRC only".to_owned());
        Verified::Crc
    } else {
        warnings.push("the archive has no checksum: the output could not be verified".to_owned());
        Verified::Nothing
    };
    let length = archive.length();
    if rest < length {
        warnings.push(format!("{} bytes after the end of the archive were ignored", length - rest));
    }
    Ok(Summary { bytes, md5, verified, warnings })
}

impl Archive<'_> {
    /// Reads the MD5 at the end, `end`; `None` if the archive has none.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the archive ends before, [`Error::Password`] if decryption fails.
    pub fn recorded_md5(&self, end: u64) -> Result<Option<Vec<u8>>> {
        if !self.magic().md5 {
            return Ok(None);
        }
        let sealed = self.read(end, self.cipher().sealed_md5_length() as u64)?;
        Ok(Some(self.cipher().open_md5(sealed)?))
    }

    /// Reads and decrypts the compressed bytes of a block.
    pub(crate) fn open_block(&self, block: &BlockAt) -> Result<Vec<u8>> {
        let sealed = self.read(block.at, self.cipher().sealed_length(block.packed))?;
        self.cipher().open(Part::Block, sealed, block.packed as usize)
    }
}

#[cfg(test)]
mod tests;
