// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads of the pipeline and the queues between them.

use super::block::{BlockPacker, Packed};
use super::input::Input;
use super::weave::{Weaver, Woven};
use super::write::Writer;
use super::{Options, Plan, Summary};
use crate::crypto::Cipher;
use crate::error::{Context, Error, Result};
use crate::search::{Found, Judge, Match, Sample, Table, choose, scan};
use crate::store::{ReadAt, Store};
use crate::trace::{Stage, Trace};
use crate::unpack::STACK;
use crate::window::{PIECE, Piece, View, Window};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use md5::{Digest, Md5};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, Scope, ScopedJoinHandle};

/// A piece of input with its position.
#[derive(Clone)]
struct Part {
    piece: Piece,
    start: u64,
    chunk: usize,
    chunk_start: u64,
    ends_chunk: bool,
    last: bool,
    window: Window,
}

/// Work item of the searching threads.
enum Task {
    Scan(Piece, usize, Sender<Vec<Sample>>),
    Match(Part, Vec<Found>, Sender<Result<Chosen>>),
}

/// Matches of a piece.
struct Chosen {
    matches: Vec<Match>,
    /// Minimum match length that pays, until a `verdict` is available.
    untried: u64,
    /// Minimum match length that pays in this and the following pieces; measured only in some pieces.
    verdict: Option<u64>,
}

/// The minimum match length is measured in every 32nd piece, and more often at the start: a short file has no later
/// pieces.
const TRIED: u64 = 32;

/// Returns whether the minimum match length is measured in the piece at `start`.
fn is_tried(start: u64) -> bool {
    let index = start / PIECE as u64;
    [1, 4, 16].contains(&index) || index.is_multiple_of(TRIED)
}

/// A block to be compressed and the channel for the result.
struct Job {
    plain: Vec<u8>,
    chunk: usize,
    done: Sender<Packed>,
}

/// Input of the writer, in archive order. The writer waits for each block's compression in turn.
enum Item {
    Begin { width: u8 },
    Block { stream: usize, plain: u64, used: u64, packed: Receiver<Packed> },
    End { size: u64, last: bool },
}

/// Number of chunks written; without overlap, reading a chunk waits for it.
#[derive(Default)]
struct Written {
    chunks: Mutex<usize>,
    changed: Condvar,
}

impl Written {
    fn one_more(&self) {
        *self.chunks.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }

    /// Waits until `chunks` chunks are written, or until the writer has stopped (count `usize::MAX`).
    fn wait(&self, chunks: usize) {
        let mut written = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        while *written < chunks {
            written = self.changed.wait(written).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn gone(&self) {
        *self.chunks.lock().unwrap_or_else(PoisonError::into_inner) = usize::MAX;
        self.changed.notify_all();
    }
}

/// State shared by all stages.
struct Shared<'a> {
    options: &'a Options<'a>,
    plan: &'a Plan,
    trace: &'a Trace,
    behind: Option<&'a dyn ReadAt>,
    written: Written,
}

/// A piece and the channel of its pending result.
type Awaited<T> = (Part, Receiver<T>);

/// Both ends of a queue.
type Queue<T> = (Sender<T>, Receiver<T>);

/// The queues between the stages.
struct Queues {
    tasks: Queue<Task>,
    scanned: Queue<Awaited<Vec<Sample>>>,
    matched: Queue<Awaited<Result<Chosen>>>,
    hashed: Queue<Piece>,
    jobs: Queue<Job>,
    items: Queue<Item>,
}

impl Queues {
    fn new(threads: usize, packers: usize) -> Queues {
        let ahead = 2 * threads + 2;
        Queues {
            // Unbounded, because `scanned` and `matched` bound the number of outstanding tasks.
            tasks: unbounded(),
            scanned: bounded(ahead),
            matched: bounded(ahead),
            hashed: bounded(ahead),
            jobs: bounded(packers.div_ceil(2)),
            // Blocks stay in this queue while compressed: capacity for those being compressed and those waiting.
            items: bounded(4 * packers + 4),
        }
    }
}

/// Runs all stages to completion.
pub fn run(
    input: Input<'_>,
    archive: &dyn Store,
    options: &Options<'_>,
    plan: &Plan,
    trace: &Trace,
) -> Result<Summary> {
    let (cipher, encryption) = Cipher::for_writing(options.password.as_deref(), options.rounds)?;
    let table = table(options, plan)?;
    let shared = Shared { options, plan, trace, behind: input.behind, written: Written::default() };
    let shared = &shared;
    let length = input.length;
    let threads = options.threads.max(1);
    let queues = Queues::new(threads, plan.packers);
    let packer = BlockPacker::new(options, plan);
    let mut writer = Writer::new(archive, &cipher, encryption)?;
    thread::scope(|scope| {
        let Queues { tasks, scanned, matched, hashed, jobs, items } = queues;
        let packer = &packer;
        let mut running = Vec::new();
        several(threads, options, |lane| {
            let tasks = tasks.1.clone();
            running.push(spawn(scope, &format!("search-{lane}"), move || search(shared, lane, &tasks))?);
            Ok(())
        })?;
        several(plan.packers, options, |lane| {
            let jobs = jobs.1.clone();
            running.push(spawn(scope, &format!("pack-{lane}"), move || pack_blocks(shared, lane, packer, &jobs))?);
            Ok(())
        })?;
        drop((tasks.1, jobs.1));
        let (tasks, more) = (tasks.0.clone(), tasks.0);
        running.push(spawn(scope, "read", move || read(shared, input, &tasks, &scanned.0, &hashed.0))?);
        running.push(spawn(scope, "look", move || look(shared, table, &scanned.1, &more, &matched.0))?);
        let hasher = spawn(scope, "hash", move || hash(shared, &hashed.1))?;
        let weaver = spawn(scope, "weave", move || weave(shared, length, &matched.1, &jobs.0, &items.0))?;
        let wrote = write(shared, &mut writer, items.1);
        shared.written.gone();
        let woven = join(weaver);
        let others: Vec<Result<()>> = running.into_iter().map(join).collect();
        let md5 = join(hasher)?;
        let ((bytes, chunks), (literals, tokens)) = match (wrote, woven, others) {
            (Ok(wrote), Ok(woven), _) => (wrote, woven),
            (wrote, woven, others) => {
                let errors =
                    wrote.err().into_iter().chain(woven.err()).chain(others.into_iter().filter_map(Result::err));
                return Err(cause(errors));
            }
        };
        let packed = writer.finish(bytes, md5, plan.dictionary)?;
        Ok(Summary { bytes, packed, md5, chunks, literals, tokens })
    })
}

/// Returns the first error that is not merely the consequence of another stage's failure.
fn cause(errors: impl Iterator<Item = Error>) -> Error {
    let mut first = Error::Stopped;
    for error in errors {
        if matches!(first, Error::Stopped) {
            first = error;
        }
    }
    first
}

/// Starts up to `most` threads; only a failure to start the first one is an error.
fn several(most: usize, options: &Options<'_>, mut start: impl FnMut(usize) -> Result<()>) -> Result<()> {
    for lane in 0..most {
        match start(lane) {
            Err(error) if lane > 0 => {
                log(options, &format!("{lane} threads instead of {most}: {error}"));
                return Ok(());
            }
            started => started?,
        }
    }
    Ok(())
}

fn log(options: &Options<'_>, what: &str) {
    if let Some(log) = options.log {
        log(what);
    }
}

/// Allocates the sample table, at the planned size or as large as memory allows.
fn table(options: &Options<'_>, plan: &Plan) -> Result<Table> {
    let mut bytes = plan.table;
    loop {
        match Table::new(bytes) {
            Err(_) if bytes > 1 << 16 => {
                bytes /= 2;
                log(options, &format!("not enough memory for the planned table of samples: trying {bytes} bytes"));
            }
            made => return made,
        }
    }
}

fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    thread::Builder::new()
        .name(name.to_owned())
        .stack_size(STACK)
        .spawn_scoped(scope, work)
        .context(|| "starting a thread".to_owned())
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Error for a queue whose other end is closed, because that stage failed or saw another one fail.
fn gone<E>(_: E) -> Error {
    Error::Stopped
}

fn read(
    shared: &Shared<'_>,
    mut input: Input<'_>,
    tasks: &Sender<Task>,
    scanned: &Sender<Awaited<Vec<Sample>>>,
    hashed: &Sender<Piece>,
) -> Result<()> {
    let (mut start, mut chunk, mut chunk_start) = (0, 0, 0);
    let mut window = Window::default();
    let mut next = input.piece(0)?;
    loop {
        let piece = next;
        let end = start + piece.len() as u64;
        // Read one piece ahead, to know whether this is the last one.
        let whole = piece.len() == PIECE && input.length.is_none_or(|length| end < length);
        let bytes = piece.len() as u64;
        next = match whole {
            true => shared.trace.span(Stage::Read, 0, chunk, bytes, || input.piece(end))?,
            false => Piece::default(),
        };
        let last = next.is_empty();
        let ends_chunk = last || end - chunk_start >= shared.plan.chunk;
        window.push(piece.clone(), shared.plan.pieces);
        let part = Part { piece, start, chunk, chunk_start, ends_chunk, last, window: window.clone() };
        let (done, samples) = bounded(1);
        hashed.send(part.piece.clone()).map_err(gone)?;
        tasks.send(Task::Scan(part.piece.clone(), chunk, done)).map_err(gone)?;
        scanned.send((part, samples)).map_err(gone)?;
        if last {
            return Ok(());
        }
        if ends_chunk {
            chunk += 1;
            chunk_start = end;
            if !shared.options.overlap {
                shared.trace.span(Stage::Barrier, 0, chunk, 0, || shared.written.wait(chunk));
            }
        }
        start = end;
    }
}

fn search(shared: &Shared<'_>, lane: usize, tasks: &Receiver<Task>) -> Result<()> {
    for task in tasks {
        match task {
            Task::Scan(piece, chunk, done) => {
                let samples = shared.trace.span(Stage::Scan, lane, chunk, piece.len() as u64, || {
                    if shared.options.search { scan(&piece, shared.plan.sparsity) } else { Vec::new() }
                });
                // The receiver is gone if a later stage has failed.
                let _ = done.send(samples);
            }
            Task::Match(part, found, done) => {
                let bytes = part.piece.len() as u64;
                let chosen =
                    shared.trace.span(Stage::Match, lane, part.chunk, bytes, || find_matches(shared, part, &found));
                let _ = done.send(chosen);
            }
        }
    }
    Ok(())
}

fn find_matches(shared: &Shared<'_>, part: Part, found: &[Found]) -> Result<Chosen> {
    let Options { packer, level, .. } = *shared.options;
    let judge = Judge::new(packer, &part.piece);
    let mut view = View::new(part.window, shared.behind);
    let matches = choose(&part.piece, found, part.start, part.chunk_start, &judge, &mut view)
        .context(|| "reading the input again".to_owned())?;
    let verdict =
        is_tried(part.start).then(|| judge.verdict(level, shared.plan.dictionary, &part.piece, &matches)).flatten();
    Ok(Chosen { matches, untried: judge.untried(), verdict })
}

fn look(
    shared: &Shared<'_>,
    mut table: Table,
    scanned: &Receiver<Awaited<Vec<Sample>>>,
    tasks: &Sender<Task>,
    matched: &Sender<Awaited<Result<Chosen>>>,
) -> Result<()> {
    for (part, samples) in scanned {
        let samples = samples.recv().map_err(gone)?;
        let found = shared.trace.span(Stage::Look, 0, part.chunk, part.piece.len() as u64, || {
            table.look(&samples, part.start, part.chunk_start)
        });
        let (done, matches) = bounded(1);
        tasks.send(Task::Match(part.clone(), found, done)).map_err(gone)?;
        matched.send((part, matches)).map_err(gone)?;
    }
    Ok(())
}

fn hash(shared: &Shared<'_>, pieces: &Receiver<Piece>) -> Result<[u8; 16]> {
    let mut md5 = Md5::new();
    for piece in pieces {
        shared.trace.span(Stage::Hash, 0, 0, piece.len() as u64, || md5.update(&piece[..]));
    }
    Ok(md5.finalize().into())
}

/// Weaving stage; returns the bytes of literals and of tokens.
fn weave(
    shared: &Shared<'_>,
    length: Option<u64>,
    matched: &Receiver<Awaited<Result<Chosen>>>,
    jobs: &Sender<Job>,
    items: &Sender<Item>,
) -> Result<(u64, u64)> {
    let mut weaver = Weaver::new(shared.plan, length);
    let mut tried = None;
    for (part, chosen) in matched {
        let Chosen { mut matches, untried, verdict } = chosen.recv().map_err(gone)??;
        tried = verdict.or(tried);
        let least = tried.unwrap_or(untried);
        matches.retain(|found| u64::from(found.length) >= least);
        let mut out = Vec::new();
        shared.trace.span(Stage::Weave, 0, part.chunk, part.piece.len() as u64, || {
            weaver.piece(&part.piece, &matches, part.ends_chunk, part.last, &mut |woven| {
                out.push(woven);
                Ok(())
            })
        })?;
        for woven in out {
            enqueue(woven, part.chunk, jobs, items)?;
        }
    }
    Ok((weaver.all_literals, weaver.all_tokens))
}

fn enqueue(woven: Woven, chunk: usize, jobs: &Sender<Job>, items: &Sender<Item>) -> Result<()> {
    let item = match woven {
        Woven::Begin { width } => Item::Begin { width },
        Woven::End { size, last } => Item::End { size, last },
        Woven::Block { stream, plain, used } => {
            let (done, packed) = bounded(1);
            let length = plain.len() as u64;
            jobs.send(Job { plain, chunk, done }).map_err(gone)?;
            Item::Block { stream, plain: length, used, packed }
        }
    };
    items.send(item).map_err(gone)
}

fn pack_blocks(shared: &Shared<'_>, lane: usize, packer: &BlockPacker<'_>, jobs: &Receiver<Job>) -> Result<()> {
    for Job { plain, chunk, done } in jobs {
        let bytes = plain.len() as u64;
        let packed = shared.trace.span(Stage::Pack, lane, chunk, bytes, || packer.pack(plain));
        let _ = done.send(packed);
    }
    Ok(())
}

/// Writing stage; returns the bytes of input and the number of chunks written.
fn write(shared: &Shared<'_>, writer: &mut Writer<'_>, items: Receiver<Item>) -> Result<(u64, usize)> {
    let (mut bytes, mut chunks, mut complete) = (0, 0, false);
    for item in items {
        match item {
            Item::Begin { width } => writer.begin(width)?,
            Item::Block { stream, plain, used, packed } => {
                let packed = packed.recv().map_err(gone)?;
                let length = packed.bytes.len() as u64;
                shared.trace.span(Stage::Write, 0, chunks, length, || writer.block(stream, plain, packed))?;
                if let Some(progress) = shared.options.progress {
                    progress(used, writer.length());
                }
            }
            Item::End { size, last } => {
                writer.end(size, last)?;
                bytes += size;
                chunks += 1;
                complete = last;
                shared.written.one_more();
            }
        }
    }
    if complete { Ok((bytes, chunks)) } else { Err(Error::Stopped) }
}
