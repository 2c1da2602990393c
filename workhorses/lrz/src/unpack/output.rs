// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output threads: one writes finished pieces to the target, one computes their MD5. When output is compared with the
//! original input, no MD5 is computed.

use super::{STACK, Target};
use crate::error::{Context, Error, Result};
use crate::store::{ReadAt, Store};
use crate::trace::{Stage, Trace};
use crate::window::{PIECE, Piece};
use crossbeam_channel::{Receiver, Sender, bounded};
use md5::{Digest, Md5};
use std::io::Write;
use std::thread::{self, Scope};

/// Queue capacity in pieces. Less than the window holds, so that evicted pieces have been written.
const QUEUE: usize = 6;
/// Bytes compared at a time; they fit in the L1 or L2 cache.
const COMPARED: usize = 64 << 10;
/// Zeroed pages of this length become holes.
const PAGE: usize = 4096;

/// The target with progress and trace callbacks.
pub struct Output<'t, 'a> {
    target: Target<'t>,
    keeps_all: bool,
    progress: Option<&'a (dyn Fn(u64) + Sync)>,
    trace: &'a Trace,
}

impl<'t, 'a> Output<'t, 'a> {
    /// Creates the output of `size` bytes, if known, of which the last `pieces` pieces stay in memory.
    pub fn new(
        target: Target<'t>,
        size: Option<u64>,
        pieces: usize,
        progress: Option<&'a (dyn Fn(u64) + Sync)>,
        trace: &'a Trace,
    ) -> Output<'t, 'a> {
        let keeps_all = size.is_some_and(|size| size <= (pieces as u64 - 1) * PIECE as u64);
        Output { target, keeps_all, progress, trace }
    }

    /// Runs `make`, which produces the pieces, and returns its result and the MD5.
    pub fn run<T>(
        self,
        make: impl FnOnce(&mut dyn FnMut(Piece) -> Result<()>, Option<&dyn ReadAt>) -> Result<T>,
    ) -> Result<(T, [u8; 16])> {
        let (write, writing) = bounded::<Piece>(QUEUE);
        let (hash, hashing) = bounded::<Piece>(QUEUE);
        let (progress, trace) = (self.progress, self.trace);
        let (store, stream): (Option<&dyn Store>, Option<&mut (dyn Write + Send)>) = match self.target {
            Target::Store(store) => (Some(store), None),
            Target::Stream(stream, spool) => ((!self.keeps_all).then_some(spool), Some(stream)),
            Target::Nowhere(spool) => ((!self.keeps_all).then_some(spool), None),
            Target::Compare(original, md5) => {
                return thread::scope(|scope| {
                    let comparer = spawn(scope, "compare", move || compare_all(&writing, original, progress, trace))?;
                    let mut sink = |piece| write.send(piece).map_err(|_| Error::Stopped);
                    let made = make(&mut sink, Some(original));
                    drop(write);
                    join(comparer)?;
                    Ok((made?, md5))
                });
            }
        };
        thread::scope(|scope| {
            let writer = spawn(scope, "write", move || write_all(&writing, store, stream, progress, trace))?;
            let hasher = spawn(scope, "hash", move || hash_all(&hashing, trace))?;
            let made = send_all(make, store, write, hash);
            // If the writer failed, `make` stopped as a consequence: report the writer's error.
            join(writer)?;
            let md5 = join(hasher)?;
            Ok((made?, md5))
        })
    }
}

fn send_all<T>(
    make: impl FnOnce(&mut dyn FnMut(Piece) -> Result<()>, Option<&dyn ReadAt>) -> Result<T>,
    store: Option<&dyn Store>,
    write: Sender<Piece>,
    hash: Sender<Piece>,
) -> Result<T> {
    let mut sink = |piece: Piece| {
        hash.send(piece.clone()).map_err(|_| Error::Stopped)?;
        write.send(piece).map_err(|_| Error::Stopped)
    };
    make(&mut sink, store.map(|store| store as &dyn ReadAt))
}

fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> Result<T> + Send + 'scope,
) -> Result<thread::ScopedJoinHandle<'scope, Result<T>>> {
    thread::Builder::new()
        .name(name.to_owned())
        .stack_size(STACK)
        .spawn_scoped(scope, work)
        .context(|| "starting a thread".to_owned())
}

fn join<T>(thread: thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn write_all(
    pieces: &Receiver<Piece>,
    store: Option<&dyn Store>,
    mut stream: Option<&mut (dyn Write + Send)>,
    progress: Option<&(dyn Fn(u64) + Sync)>,
    trace: &Trace,
) -> Result<()> {
    let mut at = 0;
    for piece in pieces {
        trace.span(Stage::Write, 0, 0, piece.len() as u64, || {
            if let Some(store) = store {
                write_with_holes(store, &piece, at).context(|| "writing the output".to_owned())?;
            }
            if let Some(stream) = &mut stream {
                stream.write_all(&piece).context(|| "writing the output".to_owned())?;
            }
            Ok(())
        })?;
        at += piece.len() as u64;
        if let Some(progress) = progress {
            progress(at);
        }
    }
    if let Some(store) = store {
        store.set_length(at).context(|| "writing the output".to_owned())?;
    }
    match stream {
        Some(stream) => stream.flush().context(|| "writing the output".to_owned()),
        None => Ok(()),
    }
}

/// Compares the pieces with the original input.
fn compare_all(
    pieces: &Receiver<Piece>,
    original: &dyn ReadAt,
    progress: Option<&(dyn Fn(u64) + Sync)>,
    trace: &Trace,
) -> Result<()> {
    let mut at = 0;
    let mut buffer = vec![0; COMPARED];
    for piece in pieces {
        trace.span(Stage::Compare, 0, 0, piece.len() as u64, || {
            for (index, part) in piece.chunks(COMPARED).enumerate() {
                let (start, same) = (at + (index * COMPARED) as u64, &mut buffer[..part.len()]);
                original.read_exact_at(same, start).context(|| "reading the input again".to_owned())?;
                if part != same {
                    return Err(Error::Differs(start));
                }
            }
            Ok(())
        })?;
        at += piece.len() as u64;
        if let Some(progress) = progress {
            progress(at);
        }
    }
    Ok(())
}

/// Writes all pages except zeroed ones, which setting the file length creates as holes.
fn write_with_holes(store: &dyn Store, piece: &[u8], at: u64) -> std::io::Result<()> {
    let mut from = 0;
    for (index, page) in piece.chunks(PAGE).enumerate() {
        if page.len() == PAGE && page.iter().all(|byte| *byte == 0) {
            let hole = index * PAGE;
            if from < hole {
                store.write_all_at(&piece[from..hole], at + from as u64)?;
            }
            from = hole + PAGE;
        }
    }
    if from < piece.len() { store.write_all_at(&piece[from..], at + from as u64) } else { Ok(()) }
}

fn hash_all(pieces: &Receiver<Piece>, trace: &Trace) -> Result<[u8; 16]> {
    let mut md5 = Md5::new();
    for piece in pieces {
        trace.span(Stage::Hash, 0, 0, piece.len() as u64, || md5.update(&piece[..]));
    }
    Ok(md5.finalize().into())
}
