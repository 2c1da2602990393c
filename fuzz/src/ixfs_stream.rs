// SPDX-License-Identifier: GPL-2.0-only
//! Streams of archived epochs of `ixfs`.

use ixfs::store::checksum;
use ixfs::stream::{Header, import, read_header, write_stream};
use ixfs::tree::names::New;
use ixfs::tree::{Caller, ROOT, Tree};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Fuzz target. If the first byte is odd, the rest is a stream; otherwise its frames are made from it, each behind its
/// length in two bytes, with right checksums.
pub fn run(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let stream = if kind % 2 == 1 { rest.to_vec() } else { framed(rest) };
    let mut input = &stream[..];
    let Ok((_, chain)) = read_header(&mut input) else { return };
    let mut tree = Tree::new(42, 1 << 20, 0);
    if import(&mut tree, &mut input, chain).is_err() {
        return;
    }
    let root = Caller::root(9);
    let mut out = vec![0; 8192];
    let inodes: Vec<u64> = tree.inodes.range(0).map(|(ino, _)| ino).take(64).collect();
    for ino in inodes {
        let _ = (tree.read(ino, 0, &mut out), tree.list(ino, 0).map(Iterator::count));
        let _ = tree.write(&root, ino, 100, &[5; 5000]);
    }
    let _ = tree.path_of(77);
    let (used, count) = (tree.used, tree.count);
    tree.recount();
    assert_eq!((tree.used, tree.count), (used, count));
}

fn framed(mut bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut chain = None;
    let mut put = |frame: &[u8]| {
        let sum = chain.map_or_else(|| checksum(frame), |chain| xxh3_64_with_seed(frame, chain));
        chain = Some(sum);
        out.extend((frame.len() as u64).to_le_bytes());
        out.extend(frame);
        out.extend(sum.to_le_bytes());
    };
    while let [a, b, rest @ ..] = bytes {
        let len = usize::from(u16::from_le_bytes([*a, *b])).min(rest.len());
        put(&rest[..len]);
        bytes = &rest[len..];
    }
    put(&[]);
    out
}

/// Inputs of [`run`]: a stream as the program writes it, and its frames.
#[allow(dead_code, reason = "for the corpus and the tests")]
pub fn seeds() -> Vec<Vec<u8>> {
    let old = Tree::new(42, 1 << 20, 0);
    let mut new = old.freeze();
    let root = Caller::root(5);
    let mut fill = || {
        let dir = new.create(&root, ROOT, b"d", &New::dir(0o755))?;
        new.create(&root, dir, b"s", &New::symlink(b"to"))?;
        let file = new.create(&root, dir, b"f", &New::file(0o644))?;
        new.write(&root, file, 5000, &[1; 300])?;
        new.set_xattr(&root, file, b"user.a", b"value", Default::default())
    };
    fill().expect("an empty tree has room");
    let header = Header { name: "2026/1128".to_owned(), time: 6, base: String::new() };
    let mut stream = Vec::new();
    write_stream(&old, &new, &header, &mut stream).expect("memory does not fail");
    let mut frames = vec![0];
    let mut rest = &stream[..];
    while let Some((len, more)) = rest.split_first_chunk::<8>() {
        let len = u64::from_le_bytes(*len) as usize;
        frames.extend((len as u16).to_le_bytes());
        frames.extend(&more[..len]);
        rest = &more[len + 8..];
    }
    vec![[&[1], &stream[..]].concat(), frames]
}
