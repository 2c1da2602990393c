// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block maps with two bits per block, as used by the GFS2 file system, and searches in them.
//!
//! A byte holds four blocks, the first in the two lowest bits. A block is [free](State::Free), [used](State::Used),
//! [unlinked](State::Unlinked) or a [dinode](State::Dinode). The central operation of a block allocator is to find
//! the first block in a given state at or after a goal: [`Bitmap::find`].
//!
//! ```
//! use bitfit::{Bitmap, State};
//!
//! let mut bytes = [0b01_01_01_01_u8; 64]; // 256 blocks, all used
//! let mut map = Bitmap::new(&mut bytes[..]);
//! map.set(200, State::Free)?;
//! assert_eq!(map.find(State::Free, 17), Some(200));
//! assert_eq!(map.find(State::Free, 201), None); // a search does not wrap
//! map.set(200, State::Dinode)?;
//! assert!(map.set(200, State::Used).is_err()); // a block must be free before it is used again
//! # Ok::<(), bitfit::SetError>(())
//! ```
//!
//! The crate has no dependencies, allocates no memory and needs only `core`. The feature `std` (on by default) adds
//! run-time detection of vector instructions and [`gfs2`], which reads file-system images.
#![no_std]

/// Runs the README's example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(any(feature = "std", test))]
extern crate std;

mod arch;
mod atomic;
mod bitmap;
#[cfg(feature = "capi")]
mod capi;
#[cfg(feature = "std")]
pub mod gfs2;
pub mod history;
#[cfg(feature = "std")]
pub mod maps;
mod search;
mod state;
mod summary;
mod word;

pub use arch::{Kernel, count_word_by_word, read};
pub use atomic::{AtomicBitmap, AtomicWord};
pub use bitmap::Bitmap;
pub use state::{Counts, SetError, State};
pub use summary::{CHUNK_BYTES, Indexed, StorageTooSmall};
