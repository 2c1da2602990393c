// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fuzz targets of `/fuzz`, with inputs of the right kind and with mutated ones. With `IXFS_CORPUS=DIRECTORY` the
//! inputs are also written there, as the corpus to start from.

#[path = "../../../../fuzz/src/ixfs_messages.rs"]
mod ixfs_messages;
#[path = "../../../../fuzz/src/ixfs_store.rs"]
mod ixfs_store;
#[path = "../../../../fuzz/src/ixfs_stream.rs"]
mod ixfs_stream;

use crate::common::Random;

/// Changes, removes or repeats a few bytes.
fn mutated(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(out.len() as u64) as usize;
        match random.below(4) {
            0 => out[at] ^= 1 << random.below(8),
            1 => out[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5) as usize],
            2 if out.len() > 2 => drop(out.remove(at)),
            _ => out.insert(at, random.below(256) as u8),
        }
    }
    out
}

fn fuzz(target: &str, inputs: &[Vec<u8>], run: fn(&[u8])) {
    if let Some(corpus) = std::env::var_os("IXFS_CORPUS") {
        let directory = std::path::Path::new(&corpus).join(target);
        std::fs::create_dir_all(&directory).unwrap();
        for (number, input) in inputs.iter().enumerate() {
            std::fs::write(directory.join(number.to_string()), input).unwrap();
        }
    }
    let mut random = Random(9);
    for input in inputs {
        run(input);
        for _ in 0..150 {
            run(&mutated(input, &mut random));
        }
    }
}

#[test]
fn mutated_messages_end_the_connection_at_most() {
    let seed = ixfs_messages::seed();
    assert_eq!(ixfs_messages::connection(&seed), 28, "all messages of the seed are well-formed");
    fuzz("ixfs_messages", &[seed], ixfs_messages::run);
}

#[test]
fn mutated_records_batches_and_superblocks_give_errors_at_most() {
    fuzz("ixfs_store", &ixfs_store::seeds(), ixfs_store::run);
}

#[test]
fn mutated_streams_give_errors_at_most() {
    fuzz("ixfs_stream", &ixfs_stream::seeds(), ixfs_stream::run);
}
