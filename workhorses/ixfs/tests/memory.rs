// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that files take beside their data. In a process of its own: it reads the size of the whole process.

use ixfs::server::{Durability, Server};
use ixfs::store::device::FileDevice;
use ixfs::store::{Geometry, Store};
use ixfs::tree::names::New;
use ixfs::tree::{Caller, ROOT};
use std::sync::Arc;

/// Files, enough for the map of inodes and the directory to have several levels.
const FILES: u64 = 200_000;
/// Length of the data file in bytes.
const LEN: u64 = 128 << 20;

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
fn empty_file_takes_300_bytes_and_data_15_percent_more_than_its_size() {
    let dir = tempfile::tempdir().unwrap();
    let geometry = Geometry::for_limit(512 << 20).unwrap();
    let device = FileDevice::create(&dir.path().join("store"), geometry.len()).unwrap();
    Store::format(&device, geometry, [1; 16], [1, 2], 0).unwrap();
    let server = Server::new(Store::open(Arc::new(device)).unwrap(), Durability::Always).unwrap();
    let caller = Caller::root(1);
    // The first files also pay for what does not grow with their number, such as the buffers of a commit.
    let (mut before, first) = (0, 40_000);
    for number in 0..first + FILES {
        if number == first {
            server.log_now().unwrap();
            before = resident_bytes();
        }
        let name = format!("file{number:08}");
        let ino = server.write(|tree| tree.create(&caller, ROOT, name.as_bytes(), &New::file(0o600))).unwrap();
        server.hold(ino, 1);
        // A commit in between makes later changes copy nodes.
        if number % 20_000 == 0 {
            server.log_now().unwrap();
        }
    }
    server.log_now().unwrap();
    let each = (resident_bytes() - before) / FILES;
    println!("{each} bytes for an empty file");
    assert!(each <= 300, "{each} bytes for an empty file with its directory entry and a client's reference");

    let ino = server.read(|tree| tree.resolve("file00000007")).unwrap();
    let before = resident_bytes();
    for part in 0..LEN >> 16 {
        server.write(|tree| tree.write(&caller, ino, part << 16, &[part as u8 | 1; 1 << 16])).unwrap();
    }
    server.log_now().unwrap();
    let percent = (resident_bytes() - before) * 100 / LEN;
    println!("{percent} % of the size of a file of data");
    assert!(percent <= 115, "{percent} % of the size of a file of data");
}
