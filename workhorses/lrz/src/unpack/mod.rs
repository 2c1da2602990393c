// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading an archive: blocks are unpacked by several threads ahead of the one that replays the tokens.

mod archive;
mod blocks;
mod output;
mod replay;

use crate::budget::{Budget, Limit};
use crate::crypto::Part;
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

/// Where the bytes go.
pub enum Target<'a> {
    /// Into a file, with holes for zeros.
    Store(&'a dyn Store),
    /// Into a stream. What no longer fits into memory and may still be repeated goes to the store beside it.
    Stream(&'a mut (dyn Write + Send), &'a dyn Store),
    /// Nowhere: only whether all is well is of interest.
    Nowhere(&'a dyn Store),
    /// Nowhere: each byte is held against what was packed, whose MD5 is known. What is repeated is read there as well.
    Compare(&'a dyn ReadAt, [u8; MD5_BYTES]),
}

/// How to read.
pub struct Options<'a> {
    /// For encrypted archives.
    pub password: Option<Vec<u8>>,
    /// Threads that unpack blocks; at least 1.
    pub threads: usize,
    /// Memory that may be used.
    pub memory: Limit,
    /// Most bytes that are taken out of an archive.
    pub most: u64,
    /// Told of the bytes that came out so far.
    pub progress: Option<&'a (dyn Fn(u64) + Sync)>,
    /// Collects who did what.
    pub trace: Option<&'a Trace>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        let memory = Limit::of_system(None);
        Options { password: None, threads: 2, memory, most: u64::MAX, progress: None, trace: None }
    }
}

/// What came out of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Bytes.
    pub bytes: u64,
    /// Their MD5.
    pub md5: [u8; 16],
    /// What bears them out.
    pub verified: Verified,
    /// What is odd about the archive although all came out.
    pub warnings: Vec<String>,
}

/// What bears out that the right bytes came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verified {
    /// The MD5 at the end of the archive.
    Md5,
    /// The CRC of each chunk.
    Crc,
    /// Nothing: the archive says that it has no checksum.
    Nothing,
}

/// Reads an archive into `target`.
///
/// # Errors
/// Whatever is wrong with the archive, see [`Error`]; what came out until then must not be used.
pub fn unpack(archive: &dyn ReadAt, target: Target<'_>, options: &Options<'_>) -> Result<Summary> {
    let archive = Archive::open(archive, options.password.as_deref())?;
    if archive.magic().size.is_some_and(|size| size > options.most) {
        return Err(Error::TooLong(options.most));
    }
    // A third for the pieces that may be repeated, half for blocks. What was written to a file is read again from the
    // system's cache: that is cheaper than new memory for all of it.
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
                // The thread that replays unpacks what nobody else did.
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

/// Stack of a thread, in bytes: address space may be scarce.
pub(crate) const STACK: usize = 512 << 10;

/// Pieces that are kept in memory where all of them are in a file.
const FILE_PIECES: u64 = 64;

/// Where the last chunk ended and how many bytes came out; and whether all CRCs were checked.
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
        // The next chunk's blocks are unpacked while this one's tokens are replayed. What is wrong with it matters only
        // when this one was not the last.
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

/// Reads the heads of the next chunk and hands its blocks to the pool.
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
        return Err(damaged(end, format!("it holds {bytes} bytes, and its magic says {size}")));
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
        warnings.push("the archive has no MD5: only a CRC of each chunk bears out what came out".to_owned());
        Verified::Crc
    } else {
        warnings.push("the archive has no checksum: nothing bears out what came out".to_owned());
        Verified::Nothing
    };
    let length = archive.length();
    if rest < length {
        warnings.push(format!("{} bytes after the end of the archive were ignored", length - rest));
    }
    Ok(Summary { bytes, md5, verified, warnings })
}

impl Archive<'_> {
    /// The MD5 at the end, without unpacking anything; `None` where the archive has none.
    ///
    /// # Errors
    /// What is wrong with the heads on the way.
    pub fn recorded_md5(&self, end: u64) -> Result<Option<Vec<u8>>> {
        if !self.magic().md5 {
            return Ok(None);
        }
        let sealed = self.read(end, self.cipher().sealed_md5_length() as u64)?;
        Ok(Some(self.cipher().open_md5(sealed)?))
    }

    /// Opens the bytes of a block as they were packed.
    pub(crate) fn open_block(&self, block: &BlockAt) -> Result<Vec<u8>> {
        let sealed = self.read(block.at, self.cipher().sealed_length(block.packed))?;
        self.cipher().open(Part::Block, sealed, block.packed as usize)
    }
}

#[cfg(test)]
mod tests;
