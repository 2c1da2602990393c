// SPDX-License-Identifier: MIT OR Apache-2.0
//! Snapshots hold what the tree held, write only what changed, and free what nothing refers to.

use crate::common::{dump, formatted};
use ixfs::store::memory::MemoryDevice;
use ixfs::store::{Geometry, Store};
use ixfs::tree::attributes::XattrFlags;
use ixfs::tree::names::New;
use ixfs::tree::{Caller, ROOT, Tree};
use std::sync::Arc;

fn store() -> (Arc<MemoryDevice>, Store, Tree) {
    let geometry = Geometry::for_limit(16 << 20).unwrap();
    let device = Arc::new(MemoryDevice::new(formatted(geometry)));
    let (store, tree, _) = Store::open(device.clone()).unwrap();
    (device, store, tree)
}

fn again(device: &Arc<MemoryDevice>) -> Tree {
    Store::open(Arc::new(MemoryDevice::new(device.image()))).unwrap().1
}

#[test]
fn snapshot_holds_files_and_directories_of_all_sizes() {
    let (device, store, mut tree) = store();
    let root = Caller::root(7);
    for pages in [1, 2, 39, 40, 41, 50, 63, 64, 65, 200] {
        let ino = tree.create(&root, ROOT, format!("file{pages}").as_bytes(), &New::file(0o644)).unwrap();
        tree.write(&root, ino, 0, &vec![pages as u8; pages * 4096 - 5]).unwrap();
        let dir = tree.create(&root, ROOT, format!("dir{pages}").as_bytes(), &New::dir(0o755)).unwrap();
        for entry in 0..pages {
            tree.create(&root, dir, format!("entry{entry}").as_bytes(), &New::symlink(b"x")).unwrap();
        }
        let value = vec![1; pages * 100];
        tree.set_xattr(&root, dir, b"user.big", &value, XattrFlags::default()).unwrap();
    }
    let pages: u64 = [1, 2, 39, 40, 41, 50, 63, 64, 65, 200].iter().sum();
    let written = store.snapshot(&|| tree.freeze(), 9, None).unwrap();
    assert!(written.blocks <= pages + 150, "{} blocks for {pages} pages", written.blocks);
    assert_eq!(dump(&again(&device)), dump(&tree));

    let second = store.snapshot(&|| tree.freeze(), 10, None).unwrap();
    assert_eq!(second.blocks, 1, "an unchanged tree takes one root record");
    let ino = tree.resolve("file200").unwrap();
    tree.write(&root, ino, 4096 * 100, b"changed").unwrap();
    let third = store.snapshot(&|| tree.freeze(), 11, None).unwrap();
    assert!(third.blocks <= 8, "one changed page took {} blocks", third.blocks);
    assert_eq!(dump(&again(&device)), dump(&tree));
}

#[test]
fn removed_files_free_their_blocks_after_two_snapshots() {
    let (_, store, mut tree) = store();
    let root = Caller::root(7);
    store.snapshot(&|| tree.freeze(), 1, None).unwrap();
    store.snapshot(&|| tree.freeze(), 1, None).unwrap();
    let before = store.usage().blocks_free;
    for round in 0..5 {
        let ino = tree.create(&root, ROOT, b"big", &New::file(0o644)).unwrap();
        tree.write(&root, ino, 0, &vec![round; 8 << 20]).unwrap();
        store.commit(&tree).unwrap();
        store.snapshot(&|| tree.freeze(), 2, None).unwrap();
        let lost = tree.unlink(&root, ROOT, b"big", false).unwrap();
        tree.release(lost.unwrap());
        for _ in 0..3 {
            store.snapshot(&|| tree.freeze(), 3, None).unwrap();
        }
    }
    assert!(store.usage().blocks_free + 4 >= before, "{} of {before} blocks are free", store.usage().blocks_free);
}

#[test]
fn archived_epoch_keeps_its_content_and_shares_blocks_until_it_is_dropped() {
    let (device, store, mut tree) = store();
    let root = Caller::root(7);
    let ino = tree.create(&root, ROOT, b"file", &New::file(0o644)).unwrap();
    tree.write(&root, ino, 0, &vec![1; 4 << 20]).unwrap();
    let first = dump(&tree);
    store.snapshot(&|| tree.freeze(), 1, Some("2026/1128")).unwrap();
    let after_first = store.usage().blocks_free;
    tree.write(&root, ino, 4096 * 17, &[9; 4096]).unwrap();
    store.snapshot(&|| tree.freeze(), 2, Some("2026/1129")).unwrap();
    let used = after_first - store.usage().blocks_free;
    assert!(used < 20, "a changed page of 1,024 took {used} blocks in the second epoch");
    tree.truncate(&root, ino, 0).unwrap();
    for _ in 0..3 {
        store.snapshot(&|| tree.freeze(), 3, None).unwrap();
    }
    let (opened, live, _) = Store::open(Arc::new(MemoryDevice::new(device.image()))).unwrap();
    assert_eq!(dump(&live), dump(&tree));
    let epochs = opened.epochs();
    assert_eq!(dump(&opened.load_epoch(&epochs[0]).unwrap()), first);
    assert!(store.snapshot(&|| tree.freeze(), 4, Some("2026/1128")).is_err(), "a name is given once");
    assert!(opened.drop_epochs(&|| live.freeze(), 5, &["2026/9999".to_owned()]).is_err());
    let names = epochs.iter().map(|epoch| epoch.name.clone()).collect::<Vec<_>>();
    let before = opened.usage().blocks_free;
    opened.drop_epochs(&|| live.freeze(), 5, &names).unwrap();
    opened.snapshot(&|| live.freeze(), 6, None).unwrap();
    assert!(opened.usage().blocks_free > before + 1000);
}

#[test]
fn large_directory_and_sparse_inode_table_take_few_blocks() {
    let (device, store, mut tree) = store();
    let root = Caller::root(7);
    for number in 0..10_000 {
        tree.create(&root, ROOT, format!("entry{number}").as_bytes(), &New::symlink(b"x")).unwrap();
    }
    let full = store.snapshot(&|| tree.freeze(), 1, None).unwrap().blocks;
    assert!(full < 700, "10,000 entries and inodes take {full} blocks");
    for number in (0..10_000).filter(|number| number % 32 != 0) {
        let lost = tree.unlink(&root, ROOT, format!("entry{number}").as_bytes(), false).unwrap();
        tree.release(lost.unwrap());
    }
    let thin = store.snapshot(&|| tree.freeze(), 2, None).unwrap().blocks;
    assert!(thin < 60, "313 entries and inodes take {thin} blocks");
    assert_eq!(dump(&again(&device)), dump(&tree));
}
