// SPDX-License-Identifier: MIT OR Apache-2.0
//! Round trips and properties of the pipeline.

use super::weave::{Weaver, Woven};
use super::*;
use crate::error::Error;
use crate::search::Match;
use crate::store::Memory;
use crate::trace::Stage;
use crate::unpack::{self, Target, Verified};
use crate::window::PIECE;
use std::sync::Mutex;

/// Generates lines of repeated words, with occasional copies of up to 3000 earlier bytes.
fn text(seed: u64, length: usize) -> Vec<u8> {
    const WORDS: [&str; 12] =
        ["static", "int", "return", "struct", "void", "if", "error", "buffer", "size", "offset", "unlock", "page"];
    let mut state = seed | 1;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut bytes: Vec<u8> = Vec::with_capacity(length + 200);
    while bytes.len() < length {
        if bytes.len() > 5000 && random(200) == 0 {
            let from = random(bytes.len() - 3000);
            bytes.extend_from_within(from..from + random(3000));
        }
        for _ in 0..random(9) {
            bytes.extend_from_slice(WORDS[random(12)].as_bytes());
            bytes.push(b' ');
        }
        bytes.extend_from_slice(format!("{}\n", random(1 << 20)).as_bytes());
    }
    bytes.truncate(length);
    bytes
}

fn packed(plain: &[u8], options: &Options<'_>) -> (Vec<u8>, Summary) {
    let archive = Memory::default();
    let summary = pack(Source::bytes(plain), &archive, options).expect("packed");
    let bytes = archive.into_bytes();
    assert_eq!(bytes.len() as u64, summary.packed);
    (bytes, summary)
}

fn unpacked(archive: &[u8], options: &unpack::Options<'_>) -> Vec<u8> {
    let output = Memory::default();
    let summary = unpack::unpack(&archive.to_vec(), Target::Store(&output), options).expect("unpacked");
    assert_eq!(summary.verified, Verified::Md5);
    assert_eq!(summary.warnings, [""; 0]);
    output.into_bytes()
}

fn small(packer: Packer) -> Options<'static> {
    Options { packer, memory: Limit::bytes(64 << 20), rounds: [3, 1], ..Options::default() }
}

fn reader() -> unpack::Options<'static> {
    unpack::Options { memory: Limit::bytes(64 << 20), ..unpack::Options::default() }
}

const ALL: [Packer; 5] = [Packer::None, Packer::Lzo, Packer::Zlib, Packer::Bzip2, Packer::Lzma];

#[test]
fn round_trip_with_every_back_end_and_length() {
    let plain = text(1, 3 * PIECE + 4321);
    for packer in ALL {
        for length in [0, 1, 5, 63, 64, 300, 4096, 70_000, plain.len()] {
            let (archive, summary) = packed(&plain[..length], &small(packer));
            assert_eq!(summary.bytes, length as u64);
            assert_eq!(unpacked(&archive, &reader()), &plain[..length], "{packer:?} {length}");
        }
    }
}

#[test]
fn lzma_dictionary_size_0_means_the_block_length() {
    // lrzip 0.651 writes this magic when it packs a stream at level 1. The copy is more distant than any default
    // dictionary, and the match search is off.
    let copy = text(8, 70_000);
    let plain = [&copy[..], &text(9, 100_000), &copy].concat();
    let (mut archive, _) = packed(&plain, &Options { level: 1, search: false, ..small(Packer::Lzma) });
    assert!(archive[17..21] != [0; 4]);
    archive[17..21].fill(0);
    assert!(unpacked(&archive, &reader()) == plain);
}

#[test]
fn round_trip_with_chunks_streams_passwords_and_no_overlap() {
    let plain = text(2, 5 * PIECE + 99);
    for packer in [Packer::None, Packer::Lzo, Packer::Lzma] {
        for (window, overlap, password) in [(1, true, None), (2, false, None), (2, true, Some(b"pw".to_vec()))] {
            let window = Some(window * PIECE as u64);
            let level = 1;
            let options = Options { window, overlap, level, password: password.clone(), ..small(packer) };
            let (archive, summary) = packed(&plain, &options);
            assert!(summary.chunks >= 3);
            let options = unpack::Options { password: password.clone(), ..reader() };
            assert_eq!(unpacked(&archive, &options), plain);
            let stream = Memory::default();
            let mut rest = &plain[..];
            pack(Source::Stream(&mut rest), &stream, &Options { window, level, ..small(packer) }).expect("packed");
            assert_eq!(unpacked(&stream.into_bytes(), &reader()), plain);
        }
    }
}

#[test]
fn output_is_independent_of_thread_timing() {
    let plain = text(3, 6 * PIECE);
    let options = Options { threads: 4, window: Some(2 << 20), ..small(Packer::Lzo) };
    let (first, _) = packed(&plain, &options);
    for _ in 0..5 {
        assert!(packed(&plain, &options).0 == first);
    }
}

#[test]
fn missing_and_wrong_passwords_give_different_errors() {
    let options = Options { password: Some(b"right".to_vec()), ..small(Packer::Lzo) };
    let (archive, _) = packed(&text(4, 20_000), &options);
    let try_with = |password: Option<&[u8]>| {
        let options = unpack::Options { password: password.map(<[u8]>::to_vec), ..reader() };
        unpack::unpack(&archive, Target::Nowhere(&Memory::default()), &options)
    };
    assert!(matches!(try_with(None), Err(crate::error::Error::NeedsPassword)));
    assert!(try_with(Some(b"wrong")).is_err());
    assert!(try_with(Some(b"right")).is_ok());
}

#[test]
fn minimal_memory_suffices_and_reductions_are_logged() {
    let plain = text(5, 40 * PIECE);
    for packer in ALL {
        let said = Mutex::new(Vec::new());
        let log = |what: &str| said.lock().expect("no panic").push(what.to_owned());
        let options = Options {
            memory: Limit::bytes(0),
            level: 1,
            unlimited: true,
            log: Some(&log),
            packer,
            ..Options::default()
        };
        let (archive, summary) = packed(&plain, &options);
        assert_eq!(summary.chunks, 1);
        let options = unpack::Options { memory: Limit::bytes(0), ..reader() };
        assert!(unpacked(&archive, &options) == plain);
        assert!(!said.lock().expect("no panic").is_empty());
    }
}

/// Total time in nanoseconds that compressing threads were idle before continuing with a later chunk.
fn idle_between_chunks(spans: &[crate::trace::Span]) -> u64 {
    let lanes = 1 + spans.iter().map(|span| span.lane).max().unwrap_or(0);
    let of_lane = |lane: usize| spans.iter().filter(move |span| span.stage == Stage::Pack && span.lane == lane);
    let gaps = (0..lanes).flat_map(|lane| of_lane(lane).zip(of_lane(lane).skip(1)));
    gaps.filter(|(before, after)| after.chunk > before.chunk)
        .map(|(before, after)| after.start_ns - before.end_ns)
        .sum()
}

#[test]
fn compressing_threads_are_not_idle_between_chunks() {
    let plain = text(6, 24 * PIECE);
    let with = |overlap| {
        let trace = Trace::on();
        let window = Some(4 * PIECE as u64);
        let memory = Limit::bytes(1 << 30);
        let options =
            Options { window, overlap, memory, trace: Some(&trace), packer: Packer::Bzip2, ..Options::default() };
        let (_, summary) = packed(&plain, &options);
        assert_eq!(summary.chunks, 6);
        trace.spans()
    };
    // Without overlap a thread is idle at least while a chunk is searched; with overlap its next block is already
    // queued. The tolerance allows for preemption by other programs, and so do further attempts.
    let mut idle = Vec::new();
    let (on, off) = loop {
        let (on, off) = (with(true), with(false));
        idle.push((idle_between_chunks(&on), idle_between_chunks(&off)));
        match idle.last() {
            Some((on_ns, off_ns)) if *on_ns < off_ns / 3 => break (on, off),
            _ => assert!(idle.len() < 5, "idle for these ns with overlap, and without: {idle:?}"),
        }
    };
    // With overlap, every chunk but the first was searched before its predecessor was compressed; without overlap,
    // none.
    let found_early = |spans: &[crate::trace::Span], chunk: usize| {
        let of = |stage, chunk| spans.iter().filter(move |span| span.stage == stage && span.chunk == chunk);
        let found = of(Stage::Match, chunk).map(|span| span.end_ns).max().expect("searched");
        found < of(Stage::Pack, chunk - 1).map(|span| span.end_ns).max().expect("packed")
    };
    let early = |spans: &[crate::trace::Span]| (1..6).filter(|chunk| found_early(spans, *chunk)).count();
    assert!(early(&on) >= 4, "{}", early(&on));
    assert_eq!(early(&off), 0);
}

#[test]
fn input_error_is_reported() {
    struct Failing(usize);
    impl Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or_else(|| std::io::Error::other("the tape tore"))?;
            buffer.fill(7);
            Ok(buffer.len())
        }
    }
    for pieces in 0..9 {
        let error = pack(Source::Stream(&mut Failing(pieces)), &Memory::default(), &small(Packer::Lzo)).unwrap_err();
        assert!(error.to_string().contains("the tape tore"), "{error}");
    }
}

#[test]
fn output_error_is_reported() {
    struct Full(Memory, u64);
    impl ReadAt for Full {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
            self.0.read_at(buffer, offset)
        }
        fn length(&self) -> std::io::Result<u64> {
            self.0.length()
        }
    }
    impl Store for Full {
        fn write_all_at(&self, bytes: &[u8], offset: u64) -> std::io::Result<()> {
            if offset + bytes.len() as u64 > self.1 {
                return Err(std::io::Error::other("the disk is full"));
            }
            self.0.write_all_at(bytes, offset)
        }
        fn set_length(&self, length: u64) -> std::io::Result<()> {
            self.0.set_length(length)
        }
    }
    let plain = text(7, 8 * PIECE);
    let (archive, _) = packed(&plain, &small(Packer::Lzo));
    for room in [0, 10, 100, 300_000, archive.len() as u64 - 1] {
        let error = pack(Source::bytes(&plain), &Full(Memory::default(), room), &small(Packer::Lzo)).unwrap_err();
        assert!(error.to_string().contains("the disk is full"), "{error}");
        let full = Full(Memory::default(), room);
        let error = unpack::unpack(&archive, Target::Store(&full), &reader()).unwrap_err();
        assert!(error.to_string().contains("the disk is full"), "{error}");
    }
}

/// Lengths of the literal blocks, in order, of an input with one piece per entry of `shares`, which gives the piece's
/// fraction of literals.
fn blocks(plan: &Plan, shares: &[f64], known: bool) -> Vec<u64> {
    const BYTES: usize = 50_000;
    let mut weaver = Weaver::new(plan, known.then_some((shares.len() * BYTES) as u64));
    let (piece, mut blocks) = (vec![0; BYTES], Vec::new());
    for (k, share) in shares.iter().enumerate() {
        let repeated = BYTES - (BYTES as f64 * share) as usize;
        let repeat = Match { start: (BYTES - repeated) as u32, length: repeated as u32, distance: 1 };
        let matches = if repeated > 0 { vec![repeat] } else { Vec::new() };
        let last = k + 1 == shares.len();
        let mut keep = |woven| {
            if let Woven::Block { stream: 1, plain, .. } = woven {
                blocks.push(plain.len() as u64);
            }
            Ok(())
        };
        weaver.piece(&piece, &matches, last, last, &mut keep).expect("memory");
    }
    blocks
}

#[test]
fn threads_finish_together_for_any_distribution_of_literals() {
    let halves = |first: f64, second: f64| [vec![first; 400], vec![second; 400]].concat();
    let inputs = [halves(0.7, 0.02), halves(0.02, 0.7), halves(1.0, 1.0), halves(1.0, 0.0)];
    let thirds = [vec![0.8; 300], vec![0.0; 600]].concat();
    for (shares, known) in inputs.iter().chain([&thirds]).flat_map(|shares| [(shares, true), (shares, false)]) {
        for packers in [1, 2, 4, 16] {
            let (longest, shortest) = (4_000_000, 300_000);
            let mut plan = Plan::new(&small(Packer::Lzma), None);
            (plan.packers, plan.block) = (packers, (longest, shortest));
            let blocks = blocks(&plan, shares, known);
            assert!(blocks.iter().all(|block| *block <= longest), "{blocks:?}");
            assert!(blocks.iter().all(|block| *block >= shortest / 2), "{blocks:?}");
            // Each thread takes the next block as soon as it is idle.
            let mut ends = vec![0; packers];
            for block in &blocks {
                *ends.iter_mut().min().expect("a thread") += block;
            }
            let idle = ends.iter().max().zip(ends.iter().min()).map(|(last, first)| last - first);
            assert!(idle <= Some(shortest + shortest / 2), "{packers} {known}: {blocks:?}");
        }
    }
}

#[test]
fn sampling_is_denser_for_smaller_chunks() {
    let sparsity = |packer, length| {
        let options = Options { packer, memory: Limit::bytes(16 << 30), ..Options::default() };
        Plan::new(&options, Some(length)).sparsity
    };
    let lengths = [1_000, 16_000_000, 40_000_000, 268_000_000, 1_100_000_000];
    assert_eq!(lengths.map(|length| sparsity(Packer::Lzo, length)), [2, 2, 3, 4, 5]);
    assert_eq!(lengths.map(|length| sparsity(Packer::Zlib, length)), [2, 2, 3, 3, 5]);
}

#[test]
fn verification_detects_differences_between_archive_and_input() {
    let first = text(12, 20 * PIECE);
    let plain = [&first[..], &first].concat();
    let (archive, summary) = packed(&plain, &small(Packer::Lzo));
    let compare = |archive: &Vec<u8>, original: &[u8], md5| {
        unpack::unpack(archive, Target::Compare(&input::Slice(original), md5), &reader())
    };
    let same = compare(&archive, &plain, summary.md5).expect("the same");
    assert_eq!((same.bytes, same.md5, same.verified), (summary.bytes, summary.md5, Verified::Md5));
    for at in [0, 70_000, first.len() + 9, plain.len() - 1] {
        let mut other = plain.clone();
        other[at] ^= 1;
        let error = compare(&archive, &other, summary.md5).unwrap_err();
        assert!(matches!(error, Error::Differs(from) if (from..from + (64 << 10)).contains(&(at as u64))), "{error}");
    }
    assert!(matches!(compare(&archive, &plain[..plain.len() - 1], summary.md5), Err(Error::Io(..))));
    assert!(matches!(compare(&archive, &plain, [0; 16]), Err(Error::Checksum(_))));
    // A damaged block header fails the comparison.
    let mut wrong = archive.clone();
    wrong[24 + 40] ^= 4;
    assert!(compare(&wrong, &plain, summary.md5).is_err());
}
