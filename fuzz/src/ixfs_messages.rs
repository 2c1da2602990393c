// SPDX-License-Identifier: GPL-2.0-only
//! Messages of 9P2000.L to `ixfs`.

use ixfs::ninep::locks::Locks;
use ixfs::ninep::message::{self, Message};
use ixfs::ninep::session::{Answer, Peer, Session};
use ixfs::server::{Durability, Server};
use ixfs::store::memory::MemoryDevice;
use ixfs::store::{Geometry, Store};
use std::sync::{Arc, Mutex, OnceLock};

/// An empty store.
fn image() -> &'static [u8] {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let geometry = Geometry::for_limit(1 << 20).expect("a possible size");
        let device = MemoryDevice::new(vec![0; geometry.len() as usize]);
        Store::format(&device, geometry, [7; 16], [42, 43], 1_000).expect("the device is large enough");
        device.image()
    })
}

fn answer(session: &mut Session, server: &Arc<Server>, bytes: &[u8]) -> bool {
    let Ok((tag, request)) = message::decode(bytes) else { return false };
    match session.handle(tag, request) {
        Answer::Reply(reply) | Answer::Flush(_, reply) => {
            assert!(reply.finish().len() <= session.msize() as usize, "a reply is longer than agreed");
        }
        Answer::Sync(..) => {
            let _ = server.sync();
        }
    }
    true
}

/// Fuzz target: a connection of user 0 that has attached. The input is a sequence of messages, each behind its length
/// in two bytes; a malformed one ends the connection. Afterwards the counters of the tree must be right, and the store
/// must give the same tree again.
#[allow(dead_code, reason = "the tests run inputs one by one")]
pub fn run(bytes: &[u8]) {
    connection(bytes);
}

/// Returns the number of messages that were executed.
pub fn connection(mut bytes: &[u8]) -> usize {
    let device = Arc::new(MemoryDevice::new(image().to_vec()));
    let server =
        Server::new(Store::open(device.clone()).expect("a new store"), Durability::Always).expect("no failure");
    let mut session = Session::new(server.clone(), Arc::new(Mutex::new(Locks::default())), Peer::Known(0, 0), 1);
    for message in opening() {
        assert!(answer(&mut session, &server, &message), "the opening messages are well-formed");
    }
    let mut count = 0;
    while let [a, b, rest @ ..] = bytes {
        let len = usize::from(u16::from_le_bytes([*a, *b])).min(rest.len());
        if !answer(&mut session, &server, &rest[..len]) {
            break;
        }
        bytes = &rest[len..];
        count += 1;
    }
    session.clunk_all();
    // A full store may refuse; what it acknowledges must be there.
    if server.log_now().is_ok() {
        let (_, again, _) = Store::open(Arc::new(MemoryDevice::new(device.image()))).expect("the store opens again");
        server.read(|tree| {
            let mut counted = tree.freeze();
            counted.recount();
            assert_eq!((counted.used, counted.count, counted.disk), (tree.used, tree.count, tree.disk));
            assert_eq!((again.used, again.count, again.disk), (tree.used, tree.count, tree.disk));
        });
    }
    count
}

/// A message without its length, as `decode` takes it.
fn plain(message: Message) -> Vec<u8> {
    message.finish()[4..].to_vec()
}

fn opening() -> [Vec<u8>; 2] {
    let attach = Message::new(104, 1).u32(0).u32(u32::MAX).string(b"root").string(b"").u32(0);
    [plain(Message::new(100, u16::MAX).u32(65_536).string(b"9P2000.L")), plain(attach)]
}

/// Messages that use most of the protocol, as an input of [`run`].
#[allow(dead_code, reason = "for the corpus and the tests")]
pub fn seed() -> Vec<u8> {
    let walk = |from: u32, to: u32, names: &[&[u8]]| {
        names.iter().fold(Message::new(110, 1).u32(from).u32(to).u16(names.len() as u16), |m, name| m.string(name))
    };
    let lock = |kind: u8| Message::new(kind, 1).u32(1).u8(1);
    let messages = [
        Message::new(72, 1).u32(0).string(b"d").u32(0o755).u32(0),
        walk(0, 1, &[b"d"]),
        Message::new(14, 1).u32(1).string(b"f").u32(2).u32(0o644).u32(0),
        Message::new(118, 1).u32(1).u64(4000).u32(200).data_bytes(200),
        Message::new(116, 1).u32(1).u64(0).u32(8192),
        Message::new(50, 1).u32(1).u32(1),
        lock(52).u32(0).u64(0).u64(0).u32(7).string(b"host"),
        lock(54).u64(0).u64(0).u32(8).string(b"host"),
        Message::new(26, 1).u32(1).u32(8).u32(0).u32(0).u32(0).u64(100).u64(0).u64(0).u64(0).u64(0),
        walk(0, 2, &[b"d", b"f"]),
        Message::new(32, 1).u32(2).string(b"user.a").u64(3).u32(0),
        Message::new(118, 1).u32(2).u64(0).u32(3).u8(1).u8(2).u8(3),
        Message::new(120, 1).u32(2),
        walk(0, 2, &[b"d"]),
        Message::new(30, 1).u32(2).u32(3).string(b"user.a"),
        Message::new(12, 1).u32(2).u32(0),
        Message::new(40, 1).u32(2).u64(0).u32(4096),
        walk(0, 4, &[b"d", b"f"]),
        Message::new(70, 1).u32(0).u32(4).string(b"second"),
        Message::new(16, 1).u32(0).string(b"link").string(b"d/f").u32(0),
        Message::new(18, 1).u32(0).string(b"fifo").u32(0o010_644).u32(0).u32(0).u32(0),
        Message::new(74, 1).u32(0).string(b"second").u32(0).string(b"third"),
        Message::new(20, 1).u32(4).u32(0).string(b"moved"),
        Message::new(24, 1).u32(4).u64(u64::MAX),
        Message::new(8, 1).u32(0),
        Message::new(76, 1).u32(0).string(b"third").u32(0),
        Message::new(122, 1).u32(4),
        Message::new(108, 1).u16(9),
    ];
    let mut out = Vec::new();
    for message in messages.map(plain) {
        out.extend((message.len() as u16).to_le_bytes());
        out.extend(message);
    }
    out
}

/// Adds what [`Message`] has for replies only.
trait Payload {
    fn data_bytes(self, len: usize) -> Self;
}

impl Payload for Message {
    fn data_bytes(self, len: usize) -> Message {
        (0..len).fold(self, |message, at| message.u8(at as u8))
    }
}
