// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps that keep two bits for each block, as the file system GFS2 does, and the search in them.
//!
//! Four blocks share a byte, the first in the two lowest bits. A block is [free](State::Free), [used](State::Used),
//! [unlinked](State::Unlinked) or a [dinode](State::Dinode). The search for the first block in a wanted state at or
//! after a goal is what an allocator does all day: [`Bitmap::find`].
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
//! The crate allocates nothing, has no dependencies, and needs only `core`; with the feature `std` (the default) it
//! asks the processor which vector instructions it may use, and has [`gfs2`], which reads images of that file system.
#![no_std]

/// Runs the example of the README.
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
mod search;
mod state;
mod summary;
mod word;

pub use arch::{Kernel, count_word_by_word, read};
pub use atomic::{AtomicBitmap, AtomicWord};
pub use bitmap::Bitmap;
pub use state::{Counts, SetError, State};
pub use summary::{CHUNK_BYTES, Indexed, StorageTooSmall};
