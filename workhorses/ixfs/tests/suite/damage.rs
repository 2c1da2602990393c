// SPDX-License-Identifier: MIT OR Apache-2.0
//! Damage is noticed: a flipped bit anywhere, forged batches, malformed records behind right checksums.

use crate::common::{Random, SMALL, dump, formatted};
use ixfs::store::codec::{Reader, Writer, read_attributes, xattrs_from};
use ixfs::store::memory::MemoryDevice;
use ixfs::store::mistake::Mistake;
use ixfs::store::superblock::Superblock;
use ixfs::store::{BLOCK, Store, check, epochs, log};
use ixfs::tree::names::New;
use ixfs::tree::{Caller, ROOT, Tree};
use proptest::prelude::*;
use rustix::io::Errno;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A store with two snapshots and a log: its image and its tree.
fn used() -> (Vec<u8>, Tree) {
    let device = Arc::new(MemoryDevice::new(formatted(SMALL)));
    let (store, mut tree, _) = Store::open(device.clone()).unwrap();
    store.set_inline_pages(1);
    let root = Caller::root(5);
    for (number, len) in [100, 5000, 20_000].into_iter().enumerate() {
        let ino = tree.create(&root, ROOT, format!("f{number}").as_bytes(), &New::file(0o644)).unwrap();
        tree.write(&root, ino, 0, &vec![number as u8 + 1; len]).unwrap();
    }
    store.snapshot(&|| tree.freeze(), 6, Some("2026/1128")).unwrap();
    let ino = tree.resolve("f1").unwrap();
    tree.write(&root, ino, 100, b"second").unwrap();
    store.snapshot(&|| tree.freeze(), 7, None).unwrap();
    tree.write(&root, ino, 4096, &[8; 8192]).unwrap();
    store.commit(&tree).unwrap();
    tree.create(&root, ROOT, b"last", &New::file(0o600)).unwrap();
    store.commit(&tree).unwrap();
    // After the last batch, write one without file changes, as `Server` does at its start.
    tree.next_ino += 1;
    store.commit(&tree).unwrap();
    (device.image(), tree)
}

/// The tree without the next inode number, which no user sees.
fn visible(tree: &Tree) -> String {
    dump(tree)
}

#[test]
fn flipped_bit_never_changes_what_is_read() {
    let (image, tree) = used();
    let expected = visible(&tree);
    let mut random = Random(3);
    let (mut harmless, mut noticed) = (0, 0);
    for byte in 0..image.len() {
        // One byte in 11 of the superblocks, one in 127 of the rest: blocks are protected as a whole.
        if byte % if byte < 2 * BLOCK { 11 } else { 127 } != 0 {
            continue;
        }
        let device = Arc::new(MemoryDevice::new(image.clone()));
        device.flip(byte as u64, random.below(8) as u32);
        match Store::open(device.clone()) {
            Err(_) => noticed += 1,
            Ok((_, found, recovery)) if visible(&found) == expected => {
                let said = recovery.fallback || recovery.unreadable_superblock;
                harmless += u64::from(!said);
                noticed += u64::from(said);
            }
            Ok((_, found, recovery)) => {
                // If something is missing, this must be reported, and reads must fail instead of returning other bytes.
                let said = recovery.damaged_pages > 0 || recovery.fallback || recovery.torn_tail;
                assert!(said, "byte {byte}: {recovery:?}\n{}", visible(&found));
                for (ino, _) in found.inodes.range(0) {
                    compare(&found, &tree, ino, byte);
                }
                noticed += 1;
                let report = check::check(device, false, 0).unwrap();
                assert!(!report.is_sound() || recovery.torn_tail, "byte {byte}: check finds nothing");
            }
        }
    }
    println!("{noticed} noticed, {harmless} in blocks of no use");
    assert!(noticed > 2 * BLOCK as u64 / 11 + 200);
}

/// Each page reads as the original or not at all.
fn compare(found: &Tree, original: &Tree, ino: u64, byte: usize) {
    let Ok(attr) = found.attr(ino) else { return };
    for page in 0..attr.size.div_ceil(BLOCK as u64) {
        let (mut a, mut b) = (vec![0; BLOCK], vec![0; BLOCK]);
        let got = found.read(ino, page * BLOCK as u64, &mut a);
        let wanted = original.read(ino, page * BLOCK as u64, &mut b);
        assert!(got == Err(Errno::IO) || got == wanted && a == b, "byte {byte}: page {page} of inode {ino} is wrong");
    }
}

#[test]
fn damaged_page_gives_eio_with_its_name_and_overwriting_heals_it() {
    let (image, tree) = used();
    let needle = vec![3; 4000];
    let at = image.windows(needle.len()).position(|window| window == needle).unwrap();
    let device = Arc::new(MemoryDevice::new(image));
    device.flip(at as u64, 0);
    let (store, mut found, recovery) = Store::open(device.clone()).unwrap();
    assert_eq!(recovery.damaged_files, ["/f2"]);
    let ino = tree.resolve("f2").unwrap();
    let mut out = vec![0; 20_000];
    assert_eq!(found.read(ino, 0, &mut out), Err(Errno::IO));
    let report = check::check(device.clone(), false, 0).unwrap();
    assert!(report.problems.iter().any(|problem| problem.contains("/f2")), "{report:?}");
    assert!(report.problems.iter().any(|problem| problem.contains("archive/2026/1128/f2")), "{report:?}");
    found.write(&Caller::root(9), ino, 0, &vec![4; 20_000]).unwrap();
    store.make_durable(&found, 9).unwrap();
    let (_, again, recovery) = Store::open(device).unwrap();
    assert_eq!((dump(&again), recovery.damaged_pages), (dump(&found), 1), "only the snapshot's page is damaged still");
}

#[test]
fn damaged_newest_superblock_loses_nothing() {
    let (image, tree) = used();
    for slot in 0..2 {
        let device = Arc::new(MemoryDevice::new(image.clone()));
        device.flip(slot * BLOCK as u64 + 30, 3);
        let (store, found, _) = Store::open(device.clone()).unwrap();
        assert_eq!(visible(&found), visible(&tree), "slot {slot}");
        let report = check::check(device.clone(), true, 9).unwrap();
        assert!(!report.is_sound() && !report.repairs.is_empty());
        drop(store);
        assert!(check::check(device.clone(), false, 9).unwrap().is_sound());
        assert_eq!(visible(&Store::open(device).unwrap().1), visible(&tree));
    }
}

#[test]
fn check_mends_names_and_link_counts() {
    let device = Arc::new(MemoryDevice::new(formatted(SMALL)));
    let (store, mut tree, _) = Store::open(device.clone()).unwrap();
    let root = Caller::root(5);
    let ino = tree.create(&root, ROOT, b"f", &New::file(0o644)).unwrap();
    tree.create(&root, ROOT, b"gone", &New::file(0o644)).unwrap();
    Arc::make_mut(tree.inodes.get_mut(ino).unwrap()).nlink = 7;
    let gone = tree.resolve("gone").unwrap();
    tree.inodes.remove(gone);
    store.snapshot(&|| tree.freeze(), 6, None).unwrap();
    let report = check::check(device.clone(), true, 9).unwrap();
    assert_eq!(report.problems.len(), 2, "{report:?}");
    let report = check::check(device.clone(), false, 9).unwrap();
    assert!(report.is_sound(), "{report:?}");
    let (_, found, _) = Store::open(device).unwrap();
    assert_eq!(found.attr(ino).unwrap().nlink, 1);
    assert!(found.resolve("gone").is_err());
}

/// A batch without changes that claims a sequence number and a chain, with a checksum of this key.
fn forged(sequence: u64, chain: u64, key: u64) -> Vec<u8> {
    let mut payload = Writer::default();
    payload.u64(999_999);
    let mut out = Writer::default();
    for value in [0x6b6f_6f62_676f_6c78, sequence, chain, payload.0.len() as u64] {
        out.u64(value);
    }
    let sum = xxh3_64_with_seed(&payload.0, ixfs::store::checksum(&out.0) ^ key);
    out.u64(sum);
    out.0.extend_from_slice(&payload.0);
    out.0.resize(BLOCK, 0);
    out.0
}

#[test]
fn forged_batch_in_a_page_is_not_replayed() {
    // A crash tore the last batch. The rest of its space holds a user's bytes that form a batch with the right sequence
    // number.
    let device = MemoryDevice::new(formatted(SMALL));
    let superblock = Superblock::decode(&device.image()[BLOCK..2 * BLOCK], u64::MAX).unwrap();
    let mut image = device.image();
    let place = 2 * BLOCK;
    image[place..place + BLOCK].copy_from_slice(&forged(superblock.log_sequence, 12345, superblock.log_key));
    let open = |mistake| Store::open_with(Arc::new(MemoryDevice::new(image.clone())), mistake).unwrap().2.batches;
    assert_eq!(open(Mistake::None), 0);
    assert_eq!(open(Mistake::ChainUnverified), 1, "the test forges a batch that only the chain gives away");
    let [key, chain] = [superblock.log_key, superblock.log_chain];
    image[place..place + BLOCK].copy_from_slice(&forged(superblock.log_sequence, chain, key));
    let open = |mistake| Store::open_with(Arc::new(MemoryDevice::new(image.clone())), mistake).unwrap().2.batches;
    assert_eq!(open(Mistake::None), 1, "with the right chain it is a batch");
}

#[test]
fn batch_forged_by_a_user_does_not_make_the_store_look_damaged() {
    // Users know the format but not the key. Without it, such a block in the log would prove that batches are missing.
    let image = formatted(SMALL);
    let superblock = Superblock::decode(&image[BLOCK..2 * BLOCK], u64::MAX).unwrap();
    let open = |key: u64| {
        let mut image = image.clone();
        image[4 * BLOCK..5 * BLOCK].copy_from_slice(&forged(superblock.log_sequence + 7, 12345, key));
        Store::open(Arc::new(MemoryDevice::new(image)))
    };
    assert!(open(superblock.log_key ^ 1).is_ok());
    assert!(open(superblock.log_key).is_err(), "with the key it is a later batch");
}

/// A store with files `a`, `b` and `c`, each created in a batch of its own, the second of which is damaged.
fn with_gap() -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::new(formatted(SMALL)));
    let (store, mut tree, _) = Store::open(device.clone()).unwrap();
    let root = Caller::root(5);
    for name in [b"a", b"b", b"c"] {
        tree.create(&root, ROOT, name, &New::file(0o644)).unwrap();
        store.commit(&tree).unwrap();
    }
    device.flip(3 * BLOCK as u64 + 50, 1);
    device
}

#[test]
fn damaged_batch_before_a_complete_one_is_reported_and_repaired_on_request_only() {
    let device = with_gap();
    let error = Store::open(device.clone()).err().unwrap().to_string();
    assert!(error.contains("log batch 2 is damaged") && error.contains("--repair"), "{error}");
    let before = device.image();
    let report = check::check(device.clone(), false, 9).unwrap();
    assert!(report.problems[0].contains("acknowledged changes in it and in those behind it, up to 3, are lost"));
    // Batch 3 changed the root directory and created inode 4, which has no name before the gap.
    assert_eq!(report.recovery.gap.as_ref().unwrap().files, ["/", "inode 4"], "{report:?}");
    assert!(device.image() == before, "a check without --repair wrote to the store");
    let report = check::check(device.clone(), true, 9).unwrap();
    assert!(report.repairs[0].contains("before log batch 2"), "{report:?}");
    assert!(check::check(device.clone(), false, 9).unwrap().is_sound());
    let (store, mut found, recovery) = Store::open(device.clone()).unwrap();
    assert!(recovery.gap.is_none() && found.resolve("a").is_ok() && found.resolve("b").is_err());
    // The batches that were given up stay in the ring for a while. They must not come back or look like a gap again.
    for number in 0..40 {
        found.create(&Caller::root(9), ROOT, format!("n{number}").as_bytes(), &New::file(0o600)).unwrap();
        store.make_durable(&found, 9).unwrap();
        let (_, again, _) = Store::open(Arc::new(MemoryDevice::new(device.image()))).unwrap();
        assert_eq!(dump(&again), dump(&found));
    }
}

#[test]
fn crash_during_the_repair_of_a_gap_leaves_the_old_store_or_the_repaired_one() {
    let device = with_gap();
    let base = device.image();
    device.record();
    check::check(device.clone(), true, 9).unwrap();
    let repaired = dump(&Store::open(device.clone()).unwrap().1);
    let events = device.events();
    let images = crate::common::Images { base: &base, events: &events };
    let (mut old, mut new) = (0, 0);
    for point in 0..=events.len() {
        images.visit(point, 4, &mut |image| match Store::open(Arc::new(MemoryDevice::new(image))) {
            Err(ixfs::store::StoreError::Gap(_)) => old += 1,
            Err(error) => panic!("after {point} events: {error}"),
            Ok((_, found, _)) => {
                assert_eq!(dump(&found), repaired, "after {point} events");
                new += 1;
            }
        });
    }
    assert!(old > 3 && new > 3, "{old} {new}");
}

#[test]
fn damaged_last_batch_is_dropped_and_once_it_is_confirmed_it_is_reported() {
    for confirmed in [false, true] {
        let device = Arc::new(MemoryDevice::new(formatted(SMALL)));
        let (store, mut tree, _) = Store::open(device.clone()).unwrap();
        tree.create(&Caller::root(5), ROOT, b"a", &New::file(0o644)).unwrap();
        store.commit(&tree).unwrap();
        let operations = device.operations();
        if confirmed {
            store.confirm().unwrap();
            let after = device.operations();
            assert!(after > operations);
            store.confirm().unwrap();
            assert_eq!(device.operations(), after, "one confirmation is enough");
        }
        device.flip(2 * BLOCK as u64 + 50, 1);
        match Store::open(device) {
            Ok((_, found, recovery)) => {
                assert!(!confirmed && recovery.torn_tail && found.resolve("a").is_err());
            }
            Err(error) => assert!(confirmed, "{error}"),
        }
    }
}

/// Changes a few bytes of an image and makes the checksums of superblocks right again, so that parsers see the change.
fn mutate(image: &mut [u8], edits: &[(usize, u8)]) {
    for (at, value) in edits {
        image[at % (2 * BLOCK)] = *value;
    }
    for slot in 0..2 {
        let block = &mut image[slot * BLOCK..(slot + 1) * BLOCK];
        let sum = ixfs::store::checksum(&block[..BLOCK - 8]);
        block[BLOCK - 8..].copy_from_slice(&sum.to_le_bytes());
    }
}

/// A store whose tree is in the root record, and its superblock.
fn whole_tree_in_one_record() -> (Vec<u8>, Superblock) {
    let device = Arc::new(MemoryDevice::new(formatted(SMALL)));
    let (store, mut tree, _) = Store::open(device.clone()).unwrap();
    let root = Caller::root(5);
    let dir = tree.create(&root, ROOT, b"d", &New::dir(0o755)).unwrap();
    tree.create(&root, dir, b"s", &New::symlink(b"to")).unwrap();
    let file = tree.create(&root, dir, b"f", &New::file(0o644)).unwrap();
    tree.write(&root, file, 0, &[1; 9000]).unwrap();
    tree.set_xattr(&root, file, b"user.a", b"value", Default::default()).unwrap();
    store.snapshot(&|| tree.freeze(), 6, None).unwrap();
    let image = device.image();
    let slots = [0, 1].map(|slot| Superblock::decode(&image[slot * BLOCK..(slot + 1) * BLOCK], u64::MAX).ok());
    let superblock = slots.into_iter().flatten().max_by_key(|superblock| superblock.generation).unwrap();
    assert!(superblock.root.len > 400, "the tree is in the root record");
    (image, superblock)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn mutated_superblocks_neither_panic_nor_allocate_unboundedly(
        edits in prop::collection::vec((0..200_usize, any::<u8>()), 1..4)
    ) {
        let mut image = formatted(SMALL);
        let edits: Vec<(usize, u8)> = edits.into_iter().flat_map(|(at, value)| [(at, value), (at + BLOCK, value)]).collect();
        mutate(&mut image, &edits);
        let _ = Store::open(Arc::new(MemoryDevice::new(image)));
    }

    #[test]
    fn mutated_tree_with_right_checksums_neither_panics_nor_loops(
        edits in prop::collection::vec((0..1000_usize, any::<u8>()), 1..6)
    ) {
        let (mut image, mut superblock) = whole_tree_in_one_record();
        let (at, len) = (superblock.root.block as usize * BLOCK, superblock.root.len as usize);
        for (place, value) in edits {
            image[at + place % len] = value;
        }
        superblock.root.sum = ixfs::store::checksum(&image[at..at + len]);
        let slot = (superblock.generation % 2) as usize;
        image[slot * BLOCK..(slot + 1) * BLOCK].copy_from_slice(&superblock.encode());
        let device = Arc::new(MemoryDevice::new(image));
        if let Ok((store, mut tree, _)) = Store::open(device.clone()) {
            let root = Caller::root(9);
            let _ = tree.path_of(77);
            let _ = tree.rename(&root, (ROOT, b"d"), (ROOT, b"e"), ixfs::tree::RenameFlags::default());
            let _ = tree.create(&root, ROOT, b"new", &New::file(0o644));
            let _ = store.make_durable(&tree, 9);
            let _ = check::check(device, true, 9);
        }
    }

    #[test]
    fn parsers_of_stored_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 0..9_u8) {
        let mut bytes = bytes;
        if bytes.len() > 8 {
            bytes[8] = kind;
        }
        let _ = log::parse(&bytes);
        let _ = epochs::decode(&bytes);
        let _ = xattrs_from(&bytes);
        let _ = read_attributes(&mut Reader(&bytes));
        let _ = Superblock::decode(&bytes, 1 << 40);
    }
}

#[test]
fn damaged_newest_snapshot_loses_nothing_although_blocks_were_reused_since() {
    let device = Arc::new(MemoryDevice::new(formatted(SMALL)));
    let (store, mut tree, _) = Store::open(device.clone()).unwrap();
    store.set_inline_pages(1);
    let root = Caller::root(5);
    let [f, g] = [b"f", b"g"].map(|name| tree.create(&root, ROOT, name, &New::file(0o644)).unwrap());
    for round in 0..12_u8 {
        for (part, file) in [(0, f), (1, g), (2, f)] {
            tree.write(&root, file, 0, &vec![round * 3 + part + 1; 3 * BLOCK]).unwrap();
            store.commit(&tree).unwrap();
            if part == 1 {
                store.snapshot(&|| tree.freeze(), 6, None).unwrap();
            }
        }
        let image = device.image();
        let slots = [0, 1].map(|slot| Superblock::decode(&image[slot * BLOCK..(slot + 1) * BLOCK], u64::MAX).ok());
        let newest = slots.into_iter().flatten().max_by_key(|superblock| superblock.generation).unwrap();
        let damaged = Arc::new(MemoryDevice::new(image));
        damaged.flip(u64::from(newest.root.block) * BLOCK as u64, 0);
        let (_, found, recovery) = Store::open(damaged).unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert!(recovery.fallback && recovery.damaged_pages == 0, "round {round}: {recovery:?}");
        assert_eq!(visible(&found), visible(&tree), "round {round}");
    }
}
