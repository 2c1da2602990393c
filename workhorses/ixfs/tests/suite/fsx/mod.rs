// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random operations on a file, compared with a flat vector, by both interfaces. `IXFS_FSX` is the number of operations
//! and `IXFS_FSX_SEED` the seed of a run; a failure prints both.

mod exercise;
mod local;
mod planted;

use crate::common::client::{Client, f};
use crate::common::program::{Fixture, can_mount};
use crate::common::random;
use exercise::{Counts, Interface, Kind, Operation, Run, exercise};
use local::LocalFile;
use std::cell::RefCell;
use std::io;
use std::os::unix::net::UnixStream;

/// The run that the environment asks for, else a short one with a new seed.
fn run(longest: u64) -> Run {
    let number = |name| {
        let text = std::env::var(name).ok()?;
        Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: expected a number")))
    };
    let run = Run {
        operations: number("IXFS_FSX").unwrap_or(2000),
        seed: number("IXFS_FSX_SEED").unwrap_or_else(|| getrandom::u32().unwrap().into()),
        longest,
    };
    println!("IXFS_FSX={} IXFS_FSX_SEED={}", run.operations, run.seed);
    run
}

fn expect_no_difference(interface: &mut impl Interface, run: &Run) -> Counts {
    let counts = exercise(interface, run).unwrap_or_else(|difference| panic!("{difference}"));
    println!("{counts:?}");
    counts
}

fn over_fuse(options: &[&str], longest: u64) {
    if !can_mount() {
        return;
    }
    let mut fixture = Fixture::with(options);
    fixture.mount("always");
    let path = fixture.mnt().join("file");
    let server = RefCell::new(fixture);
    let restart = |kill| {
        let mut server = server.borrow_mut();
        if kill {
            server.kill();
            server.detach();
        } else {
            server.stop();
        }
        server.mount("always");
        Ok(())
    };
    let mut file = LocalFile::create(path, Some(Box::new(restart))).unwrap();
    assert_eq!(file.kinds().len(), exercise::KINDS, "an operation is refused: {:?}", file.kinds());
    expect_no_difference(&mut file, &run(longest));
    drop(file);
    let mut server = server.into_inner();
    server.stop();
    server.check(0);
}

#[test]
fn file_over_fuse_equals_a_flat_vector() {
    over_fuse(&["--size", "16M"], 512 << 10);
}

#[test]
fn file_larger_than_memory_over_fuse_equals_a_flat_vector() {
    over_fuse(&["--size", "1M", "--big-files", "16M"], 3 << 20);
}

/// A file of a store that is served over 9P. Two connections with an open file each take turns, so that what one has
/// written is read by the other.
struct File9p {
    fixture: Fixture,
    clients: Vec<Client<UnixStream>>,
    turn: usize,
}

/// Bytes of data in one message of 64 KiB, with room for the header.
const CHUNK: usize = 60_000;
/// The opened file.
const FID: u32 = 1;

impl File9p {
    fn create() -> File9p {
        let mut fixture = Fixture::new("16M");
        fixture.serve();
        let mut file = File9p { fixture, clients: Vec::new(), turn: 0 };
        let mut client = file.connect();
        client.walk(0, FID, &[]).unwrap();
        client.call(14, f().u32(FID).string("file").u32(2).u32(0o644).u32(u32::MAX)).unwrap();
        file.open().unwrap();
        file
    }

    fn connect(&self) -> Client<UnixStream> {
        let mut client = Client { stream: UnixStream::connect(self.fixture.socket()).unwrap() };
        client.start(u32::MAX).unwrap();
        client
    }

    fn open(&mut self) -> io::Result<()> {
        self.clients = (0..2).map(|_| self.connect()).collect();
        for client in &mut self.clients {
            client.walk(0, FID, &["file"]).map_err(io::Error::from_raw_os_error)?;
            client.call(12, f().u32(FID).u32(2)).map_err(io::Error::from_raw_os_error)?;
        }
        Ok(())
    }

    fn call(&mut self, kind: u8, fields: crate::common::client::Fields) -> io::Result<Vec<u8>> {
        self.turn += 1;
        let turn = self.turn % self.clients.len();
        self.clients[turn].call(kind, fields).map_err(io::Error::from_raw_os_error)
    }

    fn read(&mut self, at: u64, len: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < len {
            let rest = (len - bytes.len() as u64).min(CHUNK as u64);
            let reply = self.call(116, f().u32(FID).u64(at + bytes.len() as u64).u32(rest as u32))?;
            if reply.len() == 4 {
                break;
            }
            bytes.extend(&reply[4..]);
        }
        Ok(bytes)
    }

    fn write(&mut self, mut at: u64, bytes: &[u8]) -> io::Result<()> {
        for chunk in bytes.chunks(CHUNK) {
            let mut fields = f().u32(FID).u64(at).u32(chunk.len() as u32);
            fields.0.extend(chunk);
            assert_eq!(self.call(118, fields)?, (chunk.len() as u32).to_le_bytes());
            at += chunk.len() as u64;
        }
        Ok(())
    }

    fn restart(&mut self, kill: bool) -> io::Result<()> {
        self.call(50, f().u32(FID).u32(0))?;
        if kill {
            self.fixture.kill()
        } else {
            self.fixture.stop()
        }
        self.fixture.serve();
        self.open()
    }
}

impl Interface for File9p {
    fn kinds(&self) -> Vec<Kind> {
        vec![Kind::Read, Kind::Write, Kind::Truncate, Kind::Sync, Kind::Reopen, Kind::Stop, Kind::Kill]
    }

    fn run(&mut self, operation: &Operation, bytes: &[u8]) -> io::Result<Vec<u8>> {
        match operation.kind {
            Kind::Read => return self.read(operation.at, operation.len),
            Kind::Write => self.write(operation.at, bytes)?,
            Kind::Truncate => {
                let size = f().u32(FID).u32(8).u32(0).u32(0).u32(0).u64(operation.at);
                self.call(26, size.u64(0).u64(0).u64(0).u64(0))?;
            }
            Kind::Sync => drop(self.call(50, f().u32(FID).u32(operation.keep.into()))?),
            Kind::Reopen => self.open()?,
            Kind::Stop => self.restart(false)?,
            Kind::Kill => self.restart(true)?,
            kind => unreachable!("{kind:?} is not offered"),
        }
        Ok(Vec::new())
    }

    fn len(&mut self) -> io::Result<u64> {
        /// Offset of the size in `Rgetattr`: after the mask, the qid, mode, user, group, links and device.
        const SIZE: usize = 8 + 13 + 4 + 4 + 4 + 8 + 8;
        let reply = self.call(24, f().u32(FID).u64(u64::MAX))?;
        Ok(u64::from_le_bytes(reply[SIZE..SIZE + 8].try_into().unwrap()))
    }
}

#[test]
fn file_over_9p_equals_a_flat_vector() {
    let mut file = File9p::create();
    expect_no_difference(&mut file, &run(512 << 10));
    file.fixture.stop();
    file.fixture.check(0);
}
