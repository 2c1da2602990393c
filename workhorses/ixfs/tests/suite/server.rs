// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server: group commit, failing disks, and room in the store.

use crate::common::{dump, formatted};
use ixfs::server::{Durability, Level, Server};
use ixfs::store::memory::{Event, Failure, MemoryDevice};
use ixfs::store::{Geometry, Store};
use ixfs::tree::names::New;
use ixfs::tree::{Caller, ROOT};
use rustix::io::Errno;
use std::sync::Arc;

fn server(limit: u64, archive: u64, durability: Durability) -> (Arc<MemoryDevice>, Arc<Server>) {
    let geometry = Geometry::for_limit(limit).unwrap().with_archive_space(archive).unwrap();
    let device = Arc::new(MemoryDevice::new(formatted(geometry)));
    let opened = Store::open(device.clone()).unwrap();
    (device, Server::new(opened, durability).unwrap())
}

#[test]
fn writers_that_sync_together_share_flushes_and_lose_nothing() {
    let (device, server) = server(8 << 20, 0, Durability::Always);
    device.record();
    // The disk is slow: while one commit is written, the other writers arrive.
    device.hook(Some(Box::new(|| std::thread::sleep(std::time::Duration::from_millis(2)))));
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let server = &server;
            scope.spawn(move || {
                for number in 0..10 {
                    let name = format!("{writer}-{number}");
                    let caller = Caller::root(1);
                    server.write(|tree| tree.create(&caller, ROOT, name.as_bytes(), &New::file(0o600))).unwrap();
                    assert_eq!(server.sync(), Ok(Level::Logged));
                }
            });
        }
    });
    let flushes = device.events().iter().filter(|event| **event == Event::Flush).count();
    assert!(flushes <= 60, "80 syncs took {flushes} flushes");
    let (_, found, _) = Store::open(Arc::new(MemoryDevice::new(device.image()))).unwrap();
    assert_eq!(dump(&found), server.read(dump));
}

#[test]
fn sync_reports_whether_the_change_is_in_memory_logged_or_in_a_snapshot() {
    let (device, server) = server(1 << 20, 0, Durability::Everysec);
    let before = device.operations();
    server.write(|tree| tree.create(&Caller::root(1), ROOT, b"f", &New::file(0o600))).unwrap();
    assert_eq!(server.sync(), Ok(Level::InMemory));
    assert_eq!(device.operations(), before, "nothing is written before the second is over");
    assert!(server.status().loss_window_ns > 0);
    assert_eq!(server.log_now(), Ok(Level::Logged));
    assert_eq!(server.status().loss_window_ns, 0);
    assert_eq!(server.snapshot_now().unwrap(), Level::Snapshotted);
}

#[test]
fn failed_sync_is_reported_keeps_the_change_and_the_next_one_makes_it_durable() {
    for failure in [Failure::Io, Failure::NoSpace, Failure::Short] {
        let (device, server) = server(1 << 20, 0, Durability::Always);
        server.write(|tree| tree.create(&Caller::root(1), ROOT, b"f", &New::file(0o600))).unwrap();
        device.fail_at(device.operations(), failure);
        let expected = if failure == Failure::NoSpace { Errno::NOSPC } else { Errno::IO };
        assert_eq!(server.sync(), Err(expected));
        let status = server.status();
        assert!(status.last_error.is_some() && status.loss_window_ns > 0);
        assert!(server.read(|tree| tree.resolve("f")).is_ok());
        assert_eq!(server.sync(), Ok(Level::Logged));
        assert!(server.status().last_error.is_none());
        let (_, found, _) = Store::open(Arc::new(MemoryDevice::new(device.image()))).unwrap();
        assert!(found.resolve("f").is_ok());
    }
}

#[test]
fn epochs_never_take_the_room_that_the_live_tree_needs() {
    let (device, server) = server(4 << 20, 2 << 20, Durability::Always);
    let root = Caller::root(1);
    let ino = server.write(|tree| tree.create(&root, ROOT, b"f", &New::file(0o600))).unwrap();
    let mut archived = 0;
    for round in 0..6_u8 {
        server.write(|tree| tree.write(&root, ino, 0, &vec![round; 3 << 20])).unwrap();
        archived += u64::from(server.archive(&format!("2026/1128.{round}")).is_ok());
        // Whatever is archived, the quota can be filled, overwritten, and synced.
        let (used, limit) = server.read(|tree| (tree.stored(), tree.disk_limit.min(tree.limit)));
        assert!(used <= limit);
        for filler in [1, 2] {
            let room =
                server.read(|tree| (tree.disk_limit - tree.stored()).min(tree.limit - tree.used)) as usize / 4096;
            let more = server.write(|tree| tree.write(&root, ino, 3 << 20, &vec![filler; room * 4096]));
            assert_eq!(more, Ok(()));
            assert_eq!(server.sync(), Ok(Level::Logged), "round {round}");
            server.snapshot_now().unwrap();
        }
        server.write(|tree| tree.truncate(&root, ino, 3 << 20)).unwrap();
    }
    assert!((1..6).contains(&archived), "{archived} epochs fit");
    let names: Vec<String> = server.store().epochs().into_iter().map(|epoch| epoch.name).collect();
    server.drop_epochs(&names).unwrap();
    assert_eq!(server.read(|tree| tree.limit), 4 << 20);
    assert!(server.read(|tree| tree.disk_limit) >= 4 << 20);
    let (_, found, _) = Store::open(Arc::new(MemoryDevice::new(device.image()))).unwrap();
    assert_eq!(dump(&found), server.read(dump));
}

#[test]
fn file_larger_than_memory_is_written_read_and_recovered() {
    let geometry = Geometry::for_limit(4 << 20).unwrap().with_big_files(24 << 20).unwrap();
    let device = Arc::new(MemoryDevice::new(formatted(geometry)));
    let server = Server::new(Store::open(device.clone()).unwrap(), Durability::Always).unwrap();
    let root = Caller::root(1);
    let ino = server.write(|tree| tree.create(&root, ROOT, b"big", &New::file(0o600))).unwrap();
    let small = server.write(|tree| tree.create(&root, ROOT, b"small", &New::file(0o600))).unwrap();
    server.change(|tree| tree.write(&root, small, 0, &[9; 5000])).unwrap();
    let part = |number: u64| vec![(number % 250) as u8 + 1; 100_000];
    for number in 0..200 {
        server.change(|tree| tree.write(&root, ino, number * 100_000, &part(number))).unwrap();
        assert!(server.read(|tree| tree.used <= tree.limit));
    }
    let verify = |server: &Server| {
        for number in (0..200).rev() {
            let mut out = vec![0; 100_000];
            assert_eq!(server.read(|tree| tree.read(ino, number * 100_000, &mut out)), Ok(100_000));
            assert!(out == part(number), "part {number} is wrong");
        }
        server.read(|tree| {
            let mut counted = tree.freeze();
            counted.recount();
            assert_eq!((counted.used, counted.disk, counted.resident), (tree.used, tree.disk, tree.resident));
        });
    };
    verify(&server);
    assert!(server.status().disk_only_bytes > 15 << 20);
    let evicted = |server: &Server, ino| {
        server.read(|tree| tree.inode(ino).unwrap().disk() - tree.inode(ino).unwrap().resident())
    };
    assert_eq!(evicted(&server, small), 0, "small files stay in memory");
    // An overwritten page in the middle returns to memory; its neighbors stay on disk.
    server.change(|tree| tree.write(&root, ino, 1_000_010, &[77; 10])).unwrap();
    server.change(|tree| tree.write(&root, ino, 1_000_010, &part(10)[..10])).unwrap();
    server.sync().unwrap();
    let restarted =
        Server::new(Store::open(Arc::new(MemoryDevice::new(device.image()))).unwrap(), Durability::Always).unwrap();
    verify(&restarted);
    assert!(restarted.read(|tree| tree.used <= tree.limit));
    let refused = (200..400)
        .find_map(|number| server.change(|tree| tree.write(&root, ino, number * 100_000, &part(number))).err());
    assert_eq!(refused, Some(Errno::NOSPC), "the store's room ends too");
    assert_eq!(server.sync(), Ok(Level::Logged));
    server.change(|tree| tree.truncate(&root, ino, 20_000_000)).unwrap();
    verify(&server);
}

#[test]
fn clean_stop_leaves_an_empty_log() {
    let (device, server) = server(1 << 20, 0, Durability::Snapshot);
    server.write(|tree| tree.create(&Caller::root(1), ROOT, b"f", &New::file(0o600))).unwrap();
    server.stop().unwrap();
    let (_, found, recovery) = Store::open(Arc::new(MemoryDevice::new(device.image()))).unwrap();
    assert!(found.resolve("f").is_ok());
    assert_eq!(recovery.batches, 0);
}
