// SPDX-License-Identifier: MIT OR Apache-2.0
//! The 9P interface, with the client of `common/client.rs`.

use crate::common::client::{Client, f, frame};
use crate::common::{Random, formatted};
use ixfs::ninep::listen;
use ixfs::ninep::message::decode;
use ixfs::server::{Durability, Server};
use ixfs::store::device::Device;
use ixfs::store::memory::MemoryDevice;
use ixfs::store::{Geometry, Store};
use proptest::prelude::*;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

fn server() -> (Arc<MemoryDevice>, Arc<Server>) {
    let geometry = Geometry::for_limit(8 << 20).unwrap();
    let device = Arc::new(MemoryDevice::new(formatted(geometry)));
    let opened = Store::open(device.clone() as Arc<dyn Device>).unwrap();
    (device, Server::new(opened, Durability::Always).unwrap())
}

fn tcp(server: &Arc<Server>) -> (listen::ServedSocket, Client<TcpStream>) {
    let socket = listen::tcp(server.clone(), "127.0.0.1:0".parse().unwrap()).unwrap();
    let stream = TcpStream::connect(socket.address.unwrap()).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    (socket, Client { stream })
}

#[test]
fn files_are_created_written_read_listed_renamed_and_removed() {
    let (_, server) = server();
    let (_socket, mut client) = tcp(&server);
    client.start(0).unwrap();
    client.call(72, f().u32(0).string("dir").u32(0o755).u32(0)).unwrap();
    client.walk(0, 1, &["dir"]).unwrap();
    client.call(14, f().u32(1).string("file").u32(2).u32(0o644).u32(0)).unwrap();
    let mut fields = f().u32(1).u64(5).u32(5);
    fields.0.extend(b"hello");
    assert_eq!(client.call(118, fields).unwrap(), 5_u32.to_le_bytes());
    let read = client.call(116, f().u32(1).u64(0).u32(100)).unwrap();
    assert_eq!(read[4..], *b"\0\0\0\0\0hello");

    client.walk(0, 2, &["dir"]).unwrap();
    client.call(12, f().u32(2).u32(0)).unwrap();
    let mut names = Vec::new();
    let mut offset = 0;
    loop {
        // Room for one entry at a time: a listing must continue from any cookie.
        let list = client.call(40, f().u32(2).u64(offset).u32(40)).unwrap();
        if list.len() == 4 {
            break;
        }
        offset = u64::from_le_bytes(list[17..25].try_into().unwrap());
        let len = usize::from(u16::from_le_bytes(list[26..28].try_into().unwrap()));
        names.push(String::from_utf8(list[28..28 + len].to_vec()).unwrap());
    }
    assert_eq!(names, [".", "..", "file"]);

    client.call(74, f().u32(2).string("file").u32(0).string("moved")).unwrap();
    assert_eq!(client.walk(2, 9, &["file"]), Err(libc::ENOENT));
    assert_eq!(client.walk(0, 9, &["moved", "x"]).unwrap().len(), 2 + 13, "a walk goes as far as it can");
    assert_eq!(client.call(120, f().u32(9)), Err(libc::EBADF), "such a walk makes no fid");
    client.call(76, f().u32(0).string("moved").u32(0)).unwrap();
    // The file is still open.
    let read = client.call(116, f().u32(1).u64(5).u32(100)).unwrap();
    assert_eq!(read[4..], *b"hello");
    client.call(120, f().u32(1)).unwrap();
    assert_eq!(server.read(|tree| tree.count), 2, "the root and dir are left");
    client.call(76, f().u32(0).string("dir").u32(0x200)).unwrap();
}

#[test]
fn fsync_makes_a_file_and_its_path_durable() {
    for datasync in [Some(0), Some(1), None] {
        let (device, server) = server();
        let (_socket, mut client) = tcp(&server);
        client.start(0).unwrap();
        client.call(72, f().u32(0).string("dir").u32(0o755).u32(0)).unwrap();
        client.walk(0, 1, &["dir"]).unwrap();
        client.call(14, f().u32(1).string("file").u32(2).u32(0o644).u32(0)).unwrap();
        let mut fields = f().u32(1).u64(0).u32(5);
        fields.0.extend(b"hello");
        client.call(118, fields).unwrap();
        let before = Store::open(Arc::new(MemoryDevice::new(device.image()))).unwrap().1;
        assert!(before.resolve("dir").is_err(), "nothing is durable before fsync");
        let fields = datasync.iter().fold(f().u32(1), |fields, word| fields.u32(*word));
        client.call(50, fields).unwrap();
        let after = Store::open(Arc::new(MemoryDevice::new(device.image()))).unwrap().1;
        let ino = after.resolve("dir/file").unwrap();
        let mut out = [0; 9];
        assert_eq!(after.read(ino, 0, &mut out), Ok(5));
    }
}

#[test]
fn file_content_equals_a_flat_vector_over_9p() {
    let (device, server) = server();
    let (_socket, mut client) = tcp(&server);
    client.start(0).unwrap();
    client.walk(0, 1, &[]).unwrap();
    client.call(14, f().u32(1).string("file").u32(2).u32(0o644).u32(0)).unwrap();
    let mut random = Random(17);
    let mut flat: Vec<u8> = Vec::new();
    for number in 0..4000_u32 {
        let (at, len) = (random.below(60_000), 1 + random.below(9000));
        match random.below(5) {
            0 | 1 => {
                let bytes = vec![number as u8 | 1; len as usize];
                let mut fields = f().u32(1).u64(at).u32(len as u32);
                fields.0.extend(&bytes);
                client.call(118, fields).unwrap();
                flat.resize(flat.len().max((at + len) as usize), 0);
                flat[at as usize..(at + len) as usize].copy_from_slice(&bytes);
            }
            2 => {
                let set = f().u32(1).u32(8).u32(0).u32(0).u32(0).u64(at).u64(0).u64(0).u64(0).u64(0);
                client.call(26, set).unwrap();
                flat.resize(at as usize, 0);
            }
            _ => {
                let read = client.call(116, f().u32(1).u64(at).u32(len as u32)).unwrap();
                let end = flat.len().min((at + len) as usize);
                assert!(read[4..] == flat[end.min(at as usize)..end], "operation {number}");
            }
        }
    }
    client.call(50, f().u32(1).u32(1)).unwrap();
    let found = Store::open(Arc::new(MemoryDevice::new(device.image()))).unwrap().1;
    let mut out = vec![1; flat.len()];
    assert_eq!(found.read(found.resolve("file").unwrap(), 0, &mut out), Ok(flat.len()));
    assert!(out == flat);
}

#[test]
fn qid_paths_are_not_used_twice_even_after_a_restart() {
    let (device, server) = server();
    let (_socket, mut client) = tcp(&server);
    client.start(0).unwrap();
    client.walk(0, 1, &[]).unwrap();
    let lost = client.call(14, f().u32(1).string("lost").u32(2).u32(0o644).u32(0)).unwrap();
    let restarted =
        Server::new(Store::open(Arc::new(MemoryDevice::new(device.image()))).unwrap(), Durability::Always).unwrap();
    let (_socket, mut client) = tcp(&restarted);
    client.start(0).unwrap();
    client.walk(0, 1, &[]).unwrap();
    let other = client.call(14, f().u32(1).string("other").u32(2).u32(0o644).u32(0)).unwrap();
    assert_ne!(lost[5..13], other[5..13]);
}

#[test]
fn unix_socket_takes_the_user_from_the_peer_and_permissions_apply() {
    let (_, server) = server();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let _socket = listen::unix(server.clone(), &path).unwrap();
    let connect = || Client { stream: UnixStream::connect(&path).unwrap() };
    let me = rustix::process::geteuid().as_raw();
    let mut client = connect();
    client.start(u32::MAX).unwrap();
    assert!(client.call(72, f().u32(0).string("mine").u32(0o700).u32(u32::MAX)).is_ok() || me != 0);
    let mut stranger = connect();
    let attached = stranger.start(4321);
    if me == 0 {
        attached.unwrap();
        assert_eq!(stranger.call(72, f().u32(0).string("theirs").u32(0o755).u32(u32::MAX)), Err(libc::EACCES));
        assert_eq!(stranger.walk(0, 1, &["mine", "x"]).unwrap().len(), 15, "mine can be seen, not entered");
    } else {
        assert_eq!(attached, Err(libc::EPERM));
    }
}

#[test]
fn byte_range_locks_exclude_other_connections() {
    let (_, server) = server();
    let (socket, mut one) = tcp(&server);
    let mut two = Client { stream: TcpStream::connect(socket.address.unwrap()).unwrap() };
    one.start(0).unwrap();
    two.start(0).unwrap();
    one.walk(0, 1, &[]).unwrap();
    one.call(14, f().u32(1).string("file").u32(2).u32(0o644).u32(0)).unwrap();
    two.walk(0, 1, &["file"]).unwrap();
    let lock = |kind: u8, start| {
        let mut fields = f().u32(1);
        fields.0.push(kind);
        fields.u32(0).u64(start).u64(10).u32(77).string("host")
    };
    assert_eq!(one.call(52, lock(1, 0)).unwrap(), [0]);
    assert_eq!(two.call(52, lock(0, 5)).unwrap(), [1]);
    assert_eq!(two.call(52, lock(0, 10)).unwrap(), [0]);
    drop(one);
    // The server notices the end of a connection on its own thread.
    let granted = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        two.call(52, lock(0, 5)).unwrap() == [0]
    });
    assert!(granted);
}

#[test]
fn malformed_message_ends_its_connection_and_no_other() {
    let (_, server) = server();
    let (socket, mut good) = tcp(&server);
    good.start(0).unwrap();
    let bad: [&[u8]; 6] = [
        &[3, 0, 0, 0],
        &[255, 255, 255, 255],
        &frame(110, 1, &f().u32(0).u32(1).u16(17).0),
        &frame(110, 1, &f().u32(0).u32(1).u16(1).u16(9999).0),
        &frame(118, 1, &f().u32(0).u64(0).u32(u32::MAX).0),
        &frame(120, 1, &f().u32(0).u32(0).0),
    ];
    for bytes in bad {
        let mut client = Client { stream: TcpStream::connect(socket.address.unwrap()).unwrap() };
        client.stream.write_all(bytes).unwrap();
        assert!(client.receive().is_none(), "{bytes:?}");
        good.walk(0, 1, &[]).unwrap();
        good.call(120, f().u32(1)).unwrap();
    }
    assert_eq!(good.call(200, f()), Err(libc::EOPNOTSUPP), "an unknown type is answered");
}

#[test]
fn random_conversations_neither_panic_nor_hang_the_server() {
    let (_, server) = server();
    let (socket, mut good) = tcp(&server);
    good.start(0).unwrap();
    let kinds = [
        8, 12, 14, 16, 18, 20, 22, 24, 26, 30, 32, 40, 50, 52, 54, 70, 72, 74, 76, 100, 102, 104, 108, 110, 116, 118,
        120, 122,
    ];
    static PANICKED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICKED.store(true, std::sync::atomic::Ordering::Relaxed);
        print(info);
    }));
    let mut random = Random(9);
    for _ in 0..60 {
        let mut client = Client { stream: TcpStream::connect(socket.address.unwrap()).unwrap() };
        client.stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        client.start(0).unwrap();
        for _ in 0..40 {
            let kind = kinds[random.below(kinds.len() as u64) as usize];
            let mut fields = f().u32(random.below(4) as u32);
            for _ in 0..random.below(5) {
                fields = match random.below(5) {
                    0 => fields.u32(random.below(4) as u32),
                    1 => fields.u64(random.next()),
                    2 => fields.u32(random.next() as u32),
                    3 => fields.string(["a", "b", "..", ""][random.below(4) as usize]),
                    _ => fields.u16(random.below(3) as u16),
                };
            }
            if client.stream.write_all(&frame(kind, 1, &fields.0)).is_err() || client.receive().is_none() {
                break;
            }
        }
    }
    good.walk(0, 1, &[]).unwrap();
    server.log_now().unwrap();
    assert!(!PANICKED.load(std::sync::atomic::Ordering::Relaxed), "a thread of the server panicked");
}

proptest! {
    #[test]
    fn decoding_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..130_u8) {
        let mut bytes = bytes;
        if !bytes.is_empty() {
            bytes[0] = kind;
        }
        let _ = decode(&bytes);
    }
}
