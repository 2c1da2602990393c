// SPDX-License-Identifier: GPL-2.0-only
//! Stores of `ixfs` whose checksums are right: what recovery, the tree and `ixfs check` do with them.

use ixfs::store::check::check;
use ixfs::store::log::{Position, seal};
use ixfs::store::memory::MemoryDevice;
use ixfs::store::superblock::Superblock;
use ixfs::store::{BLOCK, Geometry, Ptr, Store, checksum};
use ixfs::tree::names::New;
use ixfs::tree::{Caller, ROOT, Tree};
use std::sync::{Arc, OnceLock};

/// Blocks that the input may fill.
const MOST: usize = 8;

/// A store with a small tree: its image, its newest superblock, and the block where the input goes.
struct Base {
    image: Vec<u8>,
    superblock: Superblock,
    room: u32,
}

fn base() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| {
        let geometry = Geometry { blocks: 160, log_blocks: 24, limit: 200 << 10 };
        let device = Arc::new(MemoryDevice::new(vec![0; geometry.len() as usize]));
        Store::format(&*device, geometry, [7; 16], [42, 43], 1_000).expect("the device is large enough");
        let (store, mut tree, _) = Store::open(device.clone()).expect("a new store opens");
        fill(&mut tree);
        store.snapshot(&|| tree.freeze(), 6, None).expect("the store has room");
        let image = device.image();
        let slots = [0, 1].map(|slot| Superblock::decode(&image[slot * BLOCK..(slot + 1) * BLOCK], u64::MAX).ok());
        let superblock = slots.into_iter().flatten().max_by_key(|superblock| superblock.generation);
        Base { image, superblock: superblock.expect("a superblock"), room: 140 }
    })
}

fn fill(tree: &mut Tree) {
    let root = Caller::root(5);
    let mut make = || {
        let dir = tree.create(&root, ROOT, b"d", &New::dir(0o755))?;
        tree.create(&root, dir, b"s", &New::symlink(b"to"))?;
        let file = tree.create(&root, dir, b"f", &New::file(0o644))?;
        tree.write(&root, file, 0, &[1; 9000])?;
        tree.set_xattr(&root, file, b"user.a", b"value", Default::default())
    };
    make().expect("an empty tree has room");
}

/// Fuzz target. The first byte tells which part of a store the rest replaces: the root record with all that is in it, a
/// log batch, fields of the superblocks, the list of epochs, or a block anywhere.
pub fn run(bytes: &[u8]) {
    let Some((part, rest)) = bytes.split_first() else { return };
    let Base { image, superblock, room } = base();
    let (mut image, mut superblock) = (image.clone(), superblock.clone());
    let rest = &rest[..rest.len().min(MOST * BLOCK)];
    let place = *room as usize * BLOCK;
    let ptr = Ptr { block: *room, len: rest.len() as u32, sum: checksum(rest) };
    match part % 5 {
        0 | 3 => {
            image[place..place + rest.len()].copy_from_slice(rest);
            if part % 5 == 0 { superblock.root = ptr } else { superblock.archive = ptr }
        }
        1 => {
            let head = Position {
                at: u64::from(superblock.log_at),
                sequence: superblock.log_sequence,
                chain: superblock.log_chain,
            };
            let batch = seal(&rest[..rest.len().min(4 * BLOCK)], head, superblock.log_key);
            let at = (2 + head.at as usize) * BLOCK;
            image[at..at + batch.len()].copy_from_slice(&batch);
        }
        2 => {
            for slot in 0..2 {
                let block = &mut image[slot * BLOCK..(slot + 1) * BLOCK];
                // The first bytes identify the store, which a mutation should not spoil.
                rest.iter().take(180).zip(&mut block[12..]).for_each(|(change, byte)| *byte ^= change);
                let sum = checksum(&block[..BLOCK - 8]);
                block[BLOCK - 8..].copy_from_slice(&sum.to_le_bytes());
            }
        }
        _ => {
            let [a, b, rest @ ..] = rest else { return };
            let at = usize::from(u16::from_le_bytes([*a, *b])) * 16 % (image.len() - MOST * BLOCK);
            image[at..at + rest.len()].copy_from_slice(rest);
        }
    }
    if part % 5 < 4 && part % 5 != 2 {
        let slot = (superblock.generation % 2) as usize;
        image[slot * BLOCK..(slot + 1) * BLOCK].copy_from_slice(&superblock.encode());
    }
    use_store(image);
}

/// Opens a store and, if that works, uses it: nothing may panic, what is made durable must come back, and after a repair
/// there is nothing to repair.
fn use_store(image: Vec<u8>) {
    let device = Arc::new(MemoryDevice::new(image.clone()));
    let Ok((store, mut tree, recovery)) = Store::open(device.clone()) else {
        let _ = check(Arc::new(MemoryDevice::new(image)), true, 9);
        return;
    };
    let root = Caller::root(9);
    let mut out = vec![0; 3 * BLOCK];
    let inodes: Vec<u64> = tree.inodes.range(0).map(|(ino, _)| ino).take(64).collect();
    for ino in &inodes {
        let size = tree.attr(*ino).map_or(0, |attr| attr.size);
        let _ = (tree.read(*ino, 0, &mut out), tree.read(*ino, size.saturating_sub(5000), &mut out));
        let _ = (tree.seek(*ino, 0, true), tree.seek(*ino, 0, false), tree.readlink(*ino), tree.xattr_names(*ino));
        let _ = tree.list(*ino, 0).map(Iterator::count);
    }
    let _ = tree.path_of(77);
    let _ = tree.rename(&root, (ROOT, b"d"), (ROOT, b"e"), Default::default());
    let _ = tree.create(&root, ROOT, b"new", &New::file(0o644));
    for ino in inodes {
        let _ = tree.write(&root, ino, 100, &[5; 5000]);
        let _ = tree.truncate(&root, ino, 4000);
    }
    if recovery.damaged_pages == 0 && store.make_durable(&tree, 9).is_ok() {
        let (_, again, _) = Store::open(device.clone()).expect("a store that was written opens again");
        assert_eq!(again.next_ino, tree.next_ino, "a commit was lost");
    }
    drop(store);
    let repaired = check(device.clone(), true, 9).is_ok_and(|report| !report.repairs.is_empty());
    if repaired && recovery.damaged_pages == 0 {
        let report = check(device, false, 9).expect("a repaired store can be checked");
        let archived = |problem: &String| problem.starts_with("archive/");
        assert!(report.problems.iter().all(archived), "after a repair: {:?}", report.problems);
    }
}

/// Inputs of [`run`] that are a root record, a log batch and a list of epochs as the program writes them.
#[allow(dead_code, reason = "for the corpus and the tests")]
pub fn seeds() -> Vec<Vec<u8>> {
    let Base { image, superblock, .. } = base();
    let at = superblock.root.block as usize * BLOCK;
    let record = &image[at..at + superblock.root.len as usize];
    let device = Arc::new(MemoryDevice::new(image.clone()));
    let (store, mut tree, _) = Store::open(device.clone()).expect("a whole store opens");
    let root = Caller::root(7);
    let mut change = || {
        let file = tree.resolve("d/f")?;
        tree.truncate(&root, file, 5000)?;
        tree.write(&root, file, 100, b"second")?;
        tree.punch(&root, file, 0, 4096, false)?;
        tree.unlink(&root, tree.resolve("d")?, b"s", false)?;
        tree.create(&root, ROOT, b"new", &New::dir(0o700))
    };
    change().expect("the tree has room");
    store.commit(&tree).expect("the log has room");
    let image = device.image();
    let batch = (2 + superblock.log_at as usize) * BLOCK;
    let len = u64::from_le_bytes(image[batch + 24..batch + 32].try_into().expect("eight bytes")) as usize;
    let epochs = ixfs::store::epochs::encode(&[ixfs::store::epochs::Epoch {
        name: "2026/1128".to_owned(),
        time: 6,
        generation: superblock.generation,
        root: superblock.root,
    }]);
    let input = |part: u8, bytes: &[u8]| [&[part], bytes].concat();
    vec![input(0, record), input(1, &image[batch + 40..batch + 40 + len]), input(2, &[0; 8]), input(3, &epochs)]
}
