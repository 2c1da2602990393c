// SPDX-License-Identifier: MIT OR Apache-2.0
//! No block is allocated twice and none is lost: exhaustive interleavings of a small case, and a stress test.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bitfit::{AtomicBitmap, AtomicWord, SetError, State};

/// Atomic word of the model checker.
struct Modelled(loom::sync::atomic::AtomicU64);

impl AtomicWord for Modelled {
    fn load(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    fn replace(&self, current: u64, new: u64) -> Result<(), u64> {
        self.0.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire).map(drop)
    }
}

/// Creates a map of one word with `blocks` free blocks, shared by the threads of an interleaving.
fn modelled(blocks: usize) -> loom::sync::Arc<(Vec<Modelled>, usize)> {
    loom::sync::Arc::new((vec![Modelled(loom::sync::atomic::AtomicU64::new(0))], blocks))
}

#[test]
fn no_interleaving_allocates_a_block_twice() {
    loom::model(|| {
        let shared = modelled(2);
        let threads: Vec<_> = [0, 1]
            .map(|goal| {
                let shared = shared.clone();
                loom::thread::spawn(move || AtomicBitmap::new(&shared.0, shared.1).allocate(State::Used, goal))
            })
            .into();
        let mine = AtomicBitmap::new(&shared.0, shared.1).allocate(State::Dinode, 0);
        let mut got: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).chain([mine]).collect();
        got.sort();
        assert_eq!(got, [None, Some(0), Some(1)]);
    });
}

#[test]
fn no_interleaving_loses_a_freed_block() {
    loom::model(|| {
        let shared = modelled(3);
        let map = AtomicBitmap::new(&shared.0, shared.1);
        map.set(1, State::Used).unwrap();
        let other = shared.clone();
        let thread = loom::thread::spawn(move || AtomicBitmap::new(&other.0, other.1).set(1, State::Free));
        let mine = map.allocate(State::Used, 2);
        let freed_twice = map.set(1, State::Free);
        let theirs = thread.join().unwrap();
        assert_eq!(mine, Some(2));
        assert!(theirs.is_ok() ^ freed_twice.is_ok(), "{theirs:?} {freed_twice:?}");
        assert_eq!(map.get(0), Some(State::Free));
        assert_eq!(map.get(1), Some(State::Free));
    });
}

#[test]
fn single_thread_allocates_all_blocks_in_order() {
    let words: Vec<AtomicU64> = (0..3).map(|_| AtomicU64::new(0)).collect();
    let map = AtomicBitmap::new(&words, 70);
    let got: Vec<_> = std::iter::from_fn(|| map.allocate(State::Used, 33)).collect();
    assert!(got.iter().copied().eq((33..70).chain(0..33)));
    assert_eq!(map.get(69), Some(State::Used));
    assert_eq!(map.get(70), None);
    assert_eq!(map.set(70, State::Used), Err(SetError::OutOfRange { block: 70, blocks: 70 }));
    assert_eq!(map.allocate(State::Unlinked, 0), None);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
    assert_eq!(bitfit::Bitmap::new(bytes).find(State::Free, 0), Some(70), "the memory is that of a bare map");
}

/// Stress test: four threads allocate and free blocks of a nearly full map.
fn stress(time: Duration) {
    const BLOCKS: usize = 1000;
    let words: Vec<AtomicU64> = (0..32).map(|_| AtomicU64::new(0)).collect();
    let taken: Vec<AtomicBool> = (0..BLOCKS).map(|_| AtomicBool::new(false)).collect();
    let end = Instant::now() + time;
    thread::scope(|scope| {
        for seed in 1..=4 {
            let (map, taken) = (AtomicBitmap::new(&words, BLOCKS), &taken);
            scope.spawn(move || {
                let mut mine = Vec::new();
                let mut x = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed);
                while Instant::now() < end {
                    x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let goal = (x >> 33) as usize % BLOCKS;
                    if x >> 62 != 0
                        && let Some(block) = map.allocate(State::Used, goal)
                    {
                        assert!(!taken[block].swap(true, Ordering::Relaxed), "block {block} was handed out twice");
                        mine.push(block);
                        continue;
                    }
                    for block in mine.drain(mine.len() / 2..) {
                        taken[block].store(false, Ordering::Relaxed);
                        map.set(block, State::Free).unwrap();
                    }
                }
                // Another thread may still be allocating.
                for block in mine {
                    taken[block].store(false, Ordering::Relaxed);
                    map.set(block, State::Free).unwrap();
                }
            });
        }
    });
    assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0), "a block was lost");
}

#[test]
fn threads_allocate_and_free_consistently() {
    stress(Duration::from_millis(300));
}

#[test]
#[ignore = "takes a minute"]
fn threads_allocate_and_free_consistently_for_one_minute() {
    stress(Duration::from_secs(60));
}
