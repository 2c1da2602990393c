// SPDX-License-Identifier: MIT OR Apache-2.0
//! Long-range compression with overlapping stages, in the file format of lrzip.
//!
//! A match search over the whole input finds repeats at any distance and splits the input into two streams: tokens
//! (what to copy from where) and literals (bytes that are new). A back end compresses blocks of both streams. All
//! stages run concurrently, also across chunks: see [`pack`].
//!
//! ```
//! use lrz::{pack, store::Memory, unpack};
//!
//! let plain = b"to be, or not to be".repeat(1000);
//! let archive = Memory::default();
//! pack::pack(pack::Source::bytes(&plain), &archive, &pack::Options::default())?;
//!
//! let output = Memory::default();
//! let archive = archive.into_bytes();
//! assert!(archive.len() < 200);
//! unpack::unpack(&archive, unpack::Target::Store(&output), &unpack::Options::default())?;
//! assert_eq!(output.into_bytes(), plain);
//! # Ok::<(), lrz::error::Error>(())
//! ```

pub mod backend;
pub mod budget;
pub mod crypto;
pub mod digest;
pub mod error;
pub mod format;
pub mod output;
pub mod pack;
pub mod parity;
pub mod search;
pub mod store;
pub mod trace;
pub mod unpack;
pub mod window;
