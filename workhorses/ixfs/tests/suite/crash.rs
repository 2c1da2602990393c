// SPDX-License-Identifier: MIT OR Apache-2.0
//! No acknowledged byte is lost in a crash: every image that a crash can leave of a recording of block writes is
//! recovered and compared with what had been acknowledged.
//!
//! The bounded part runs always. With `IXFS_CRASH=full` all sequences of two operations, every
//! `IXFS_CRASH_STRIDE`-th (default: every) sequence of three, and 10,000 sampled longer ones are run.

use crate::common::{Images, Op, Persist, Random, SMALL, TIGHT, apply, dump, formatted};
use ixfs::store::Store;
use ixfs::store::memory::{Failure, MemoryDevice};
use ixfs::store::mistake::Mistake;
use ixfs::tree::Tree;
use std::sync::{Arc, Mutex, OnceLock};

/// A tree that was or may have become durable.
struct Durable {
    /// Events recorded when the commit or snapshot began.
    began: usize,
    /// Events recorded when it returned.
    acknowledged: usize,
    dump: String,
}

struct Run {
    tight: bool,
    device: Arc<MemoryDevice>,
    states: Vec<Durable>,
}

/// A new store: a small one, or one so small that its blocks are soon used again.
fn base(tight: bool) -> &'static [u8] {
    static BASES: [OnceLock<Vec<u8>>; 2] = [const { OnceLock::new() }; 2];
    BASES[usize::from(tight)].get_or_init(|| formatted(if tight { TIGHT } else { SMALL }))
}

/// Runs a sequence on a new store, with every write recorded.
fn run(steps: &[(Op, Persist)], mistake: Mistake, inline_pages: usize, tight: bool) -> Run {
    let device = Arc::new(MemoryDevice::new(base(tight).to_vec()));
    device.record();
    let (store, mut tree, _) = Store::open_with(device.clone(), mistake).expect("a new store opens");
    store.set_inline_pages(inline_pages);
    let store = Arc::new(store);
    let mut states = vec![Durable { began: 0, acknowledged: 0, dump: dump(&tree) }];
    for (number, (op, persist)) in steps.iter().enumerate() {
        apply(&mut tree, *op, number as i64);
        let began = device.recorded();
        let frozen = tree.freeze();
        let done = match persist {
            Persist::Nothing => continue,
            Persist::Commit => store.make_durable(&frozen, 5),
            Persist::Snapshot => store.snapshot(&|| frozen.freeze(), 5, None).map(drop),
            Persist::Race => {
                race(&store, &device, &mut tree, &mut states, number as i64);
                continue;
            }
        };
        if done.is_ok() {
            states.push(Durable { began, acknowledged: device.recorded(), dump: dump(&tree) });
        }
    }
    Run { tight, device, states }
}

/// Takes a snapshot; before each of its writes, as another user would, changes the tree and commits.
fn race(store: &Arc<Store>, device: &Arc<MemoryDevice>, tree: &mut Tree, states: &mut Vec<Durable>, number: i64) {
    let shared = Arc::new(Mutex::new((tree.freeze(), Vec::new())));
    let (frozen, start) = (tree.freeze(), device.recorded());
    let (weak, hooked, committing) = (Arc::downgrade(device), shared.clone(), store.clone());
    let hook = move || {
        let Some(device) = weak.upgrade() else { return };
        if committing.is_committing() {
            return;
        }
        let (tree, states) = &mut *hooked.lock().unwrap();
        if states.is_empty() {
            // The snapshot's tree was logged before its first block is written.
            let now = device.recorded();
            states.push(Durable { began: start, acknowledged: now, dump: dump(tree) });
        }
        apply(tree, Op::Write(0, states.len() as u64 * 3000, 3000), number + 100 * states.len() as i64);
        apply(tree, Op::Create(1), number);
        let began = device.recorded();
        if committing.commit(tree).is_ok() {
            states.push(Durable { began, acknowledged: device.recorded(), dump: dump(tree) });
        }
    };
    device.hook(Some(Box::new(hook)));
    let done = store.snapshot(&|| frozen.freeze(), 5, None);
    device.hook(None);
    let (after, raced) = &mut *shared.lock().unwrap();
    if raced.is_empty() && done.is_ok() {
        states.push(Durable { began: start, acknowledged: device.recorded(), dump: dump(&frozen) });
    }
    *tree = after.freeze();
    states.append(raced);
}

/// Recovers every crash image of a run and returns how many there were, or what is wrong with one of them.
fn verify(run: &Run, mistake: Mistake, most: usize) -> Result<u64, String> {
    let events = run.device.events();
    let images = Images { base: base(run.tight), events: &events };
    let mut points: Vec<usize> = events
        .iter()
        .enumerate()
        .filter(|(_, event)| matches!(event, ixfs::store::memory::Event::Flush))
        .map(|(at, _)| at)
        .collect();
    points.push(events.len());
    points.extend(run.states.iter().map(|state| state.acknowledged));
    points.sort_unstable();
    points.dedup();
    let (mut count, mut wrong) = (0, None);
    for point in points {
        let least = run.states.iter().rposition(|state| state.acknowledged <= point).unwrap_or(0);
        let possible = run.states.iter().rposition(|state| state.began <= point).unwrap_or(0);
        images.visit(point, most, &mut |image| {
            count += 1;
            if wrong.is_none()
                && let Err(what) = recovers(image, &run.states[least..=possible], mistake)
            {
                wrong = Some(format!("crash after {point} of {} events: {what}", events.len()));
            }
        });
    }
    wrong.map_or(Ok(count), Err)
}

/// Recovers one image. It must hold one of `allowed`, and keep working.
fn recovers(image: Vec<u8>, allowed: &[Durable], mistake: Mistake) -> Result<(), String> {
    let device = Arc::new(MemoryDevice::new(image));
    let (store, mut tree, recovery) =
        Store::open_with(device.clone(), mistake).map_err(|error| format!("it does not open: {error}"))?;
    if recovery.fallback || recovery.damaged_pages > 0 {
        // Falling back to the older superblock is for damaged disks; the state after a crash must not look damaged.
        return Err(format!("it looks damaged: {recovery:?}"));
    }
    let found = dump(&tree);
    if !allowed.iter().any(|state| state.dump == found) {
        let wanted: Vec<&String> = allowed.iter().map(|state| &state.dump).collect();
        return Err(format!("recovered\n{found}expected one of\n{wanted:#?}\n{recovery:?}"));
    }
    apply(&mut tree, Op::Write(0, 0, 5000), 77);
    apply(&mut tree, Op::Create(1), 78);
    store.make_durable(&tree, 6).map_err(|error| format!("no commit after recovery: {error}"))?;
    let (_, again, _) =
        Store::open_with(device, mistake).map_err(|error| format!("it does not open again: {error}"))?;
    if dump(&again) != dump(&tree) {
        return Err("a commit after recovery was lost".to_owned());
    }
    Ok(())
}

/// The operations of the exhaustive part.
const OPS: [Op; 18] = [
    Op::Create(0),
    Op::Create(2),
    Op::Mkdir(4),
    Op::Symlink(1),
    Op::Write(0, 0, 100),
    Op::Write(0, 4000, 5000),
    Op::Write(0, 30_000, 10),
    Op::Truncate(0, 50),
    Op::Truncate(0, 20_000),
    Op::Punch(0, 0, 8192),
    Op::Rename(0, 1),
    Op::Rename(0, 3),
    Op::Exchange(0, 4),
    Op::Link(0, 1),
    Op::Unlink(0),
    Op::Rmdir(4),
    Op::Xattr(0),
    Op::Evict(0),
];

/// Content of the store before a sequence of the exhaustive part.
const SETUP: [(Op, Persist); 3] =
    [(Op::Create(0), Persist::Nothing), (Op::Mkdir(4), Persist::Nothing), (Op::Write(0, 0, 9000), Persist::Commit)];

fn full() -> bool {
    std::env::var("IXFS_CRASH").is_ok_and(|value| value == "full")
}

/// All sequences of `len` operations with every kind of persistence between them; every `stride`-th one is run.
fn exhaustive(len: usize, stride: usize, mistake: Mistake) -> Result<u64, String> {
    const PERSIST: [Persist; 4] = [Persist::Nothing, Persist::Commit, Persist::Snapshot, Persist::Race];
    let choices = OPS.len() * PERSIST.len();
    let mut images = 0;
    for number in (0..choices.pow(len as u32)).step_by(stride) {
        let mut steps = SETUP.to_vec();
        let mut rest = number;
        for _ in 0..len {
            steps.push((OPS[rest % OPS.len()], PERSIST[rest / OPS.len() % PERSIST.len()]));
            rest /= choices;
        }
        if let Some(last) = steps.last_mut()
            && last.1 == Persist::Nothing
        {
            last.1 = Persist::Commit;
        }
        let inline_pages = if number % 2 == 0 { 0 } else { 256 };
        let run = run(&steps, mistake, inline_pages, number % 3 == 0);
        images += verify(&run, mistake, 4).map_err(|what| format!("{steps:?}: {what}"))?;
    }
    Ok(images)
}

#[test]
fn acknowledged_bytes_survive_all_sequences_of_one_operation() {
    let images = exhaustive(1, 1, Mistake::None).unwrap();
    println!("{images} images");
    assert!(images > 500);
}

#[test]
fn acknowledged_bytes_survive_sequences_of_two_operations() {
    let images = exhaustive(2, if full() { 1 } else { 29 }, Mistake::None).unwrap();
    println!("{images} images");
}

#[test]
fn acknowledged_bytes_survive_sequences_of_three_operations() {
    let asked = std::env::var("IXFS_CRASH_STRIDE").ok().and_then(|text| text.parse().ok());
    let stride = if full() { asked.unwrap_or(1) } else { 2003 };
    let images = exhaustive(3, stride, Mistake::None).unwrap();
    println!("{images} images");
}

fn sample(random: &mut Random, len: usize) -> Vec<(Op, Persist)> {
    let mut below = |n: u64| random.below(n);
    (0..len)
        .map(|_| {
            let (a, b) = (below(5) as u8, below(5) as u8);
            let (offset, size) = (below(24) * 1111, 1 + below(9) * 1400);
            let op = match below(17) {
                0 | 1 => Op::Create(a),
                2 => Op::Mkdir(4),
                3..=6 => Op::Write(a, offset, size),
                7 => Op::Truncate(a, offset),
                8 => Op::Punch(a, offset, size),
                9 => Op::Rename(a, b),
                10 => Op::Exchange(a, b),
                11 => Op::Link(a, b),
                12 => Op::Unlink(a),
                13 => [Op::Rmdir(a), Op::Symlink(a)][below(2) as usize],
                14 | 15 => Op::Evict(a),
                _ => [Op::Xattr(a), Op::Unxattr(a), Op::Chmod(a)][below(3) as usize],
            };
            let persist = [Persist::Nothing, Persist::Commit, Persist::Commit, Persist::Snapshot, Persist::Race]
                [below(5) as usize];
            (op, persist)
        })
        .collect()
}

fn sampled(seed: u8, mistake: Mistake) -> (Vec<(Op, Persist)>, Result<u64, String>) {
    let mut random = Random(seed.into());
    sampled_from(&mut random, mistake)
}

fn sampled_from(random: &mut Random, mistake: Mistake) -> (Vec<(Op, Persist)>, Result<u64, String>) {
    let len = 4 + random.below(16) as usize;
    let inline_pages = [0, 2, 256][random.below(3) as usize];
    let steps = sample(random, len);
    let run = run(&steps, mistake, inline_pages, random.below(3) > 0);
    let verdict = verify(&run, mistake, 3);
    (steps, verdict)
}

#[test]
fn acknowledged_bytes_survive_sampled_longer_sequences() {
    let mut random = Random(1);
    let mut images = 0;
    for _ in 0..if full() { 10_000 } else { 40 } {
        let (steps, verdict) = sampled_from(&mut random, Mistake::None);
        images += verdict.unwrap_or_else(|what| panic!("{steps:?}: {what}"));
    }
    println!("{images} images");
}

/// Whether the suite notices a mistake in crash images or after failed writes.
fn notices(mistake: Mistake) -> bool {
    let fails =
        |suite: &(dyn Fn() -> bool + std::panic::RefUnwindSafe)| std::panic::catch_unwind(suite).unwrap_or(true);
    fails(&|| exhaustive(1, 1, mistake).is_err())
        || (0..60).any(|seed| {
            fails(&|| sampled(seed, mistake).1.is_err()) || fails(&|| failing(seed, mistake, &FAILURES[..3]).is_err())
        })
}

/// How a write or flush fails, and whether all later ones do too.
const FAILURES: [(Failure, bool); 4] =
    [(Failure::Io, false), (Failure::NoSpace, false), (Failure::Short, false), (Failure::Short, true)];

/// Runs a sampled sequence for each write and flush and each way to fail, with that one failing. Nothing that was
/// acknowledged before or after the failure may be lost.
fn failing(seed: u8, mistake: Mistake, ways: &[(Failure, bool)]) -> Result<u64, String> {
    let tight = seed % 2 == 1;
    let mut random = Random(seed.into());
    let steps = sample(&mut random, if tight { 20 } else { 8 });
    let mut runs = 0;
    for (number, (failure, for_good)) in (0..).flat_map(|number| ways.iter().map(move |way| (number, way))) {
        let device = Arc::new(MemoryDevice::new(base(tight).to_vec()));
        let (store, mut tree, _) = Store::open_with(device.clone(), mistake).map_err(|error| error.to_string())?;
        store.set_inline_pages(2);
        if *for_good {
            device.fail_from(number, *failure)
        } else {
            device.fail_at(number, *failure)
        }
        let mut acknowledged = dump(&tree);
        let mut attempted = vec![acknowledged.clone()];
        for (at, (op, persist)) in steps.iter().enumerate() {
            apply(&mut tree, *op, at as i64);
            let frozen = tree.freeze();
            let done = match persist {
                Persist::Nothing => continue,
                Persist::Commit => store.make_durable(&frozen, 5),
                Persist::Snapshot | Persist::Race => store.snapshot(&|| frozen.freeze(), 5, None).map(drop),
            };
            attempted.push(dump(&tree));
            if done.is_ok() {
                acknowledged = dump(&tree);
                attempted = vec![acknowledged.clone()];
            }
            let (_, found, _) = Store::open_with(Arc::new(MemoryDevice::new(device.image())), mistake)
                .map_err(|error| format!("operation {number} failed with {failure:?}: it does not open: {error}"))?;
            if !attempted.contains(&dump(&found)) {
                return Err(format!("operation {number} failed with {failure:?}: an acknowledged change is lost"));
            }
        }
        runs += 1;
        if number >= device.operations() {
            return Ok(runs);
        }
    }
    Ok(runs)
}

#[test]
fn acknowledged_bytes_survive_the_failure_of_every_single_write() {
    let mut runs = 0;
    for seed in 0..if full() { 200 } else { 8 } {
        runs += failing(seed, Mistake::None, &FAILURES).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
    println!("{runs} failures");
}

#[test]
fn crash_tests_detect_each_planted_mistake_in_the_order_of_writes() {
    // `ChainUnverified` needs a forged batch; `forged_batch_in_a_page_is_not_replayed` tests it.
    let elsewhere = [Mistake::ChainUnverified];
    std::panic::set_hook(Box::new(|_| {}));
    let missed: Vec<Mistake> =
        Mistake::ALL.into_iter().filter(|mistake| !elsewhere.contains(mistake) && !notices(*mistake)).collect();
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}
