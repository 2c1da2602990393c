// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file server whose master copy is memory. The disk is there for survival.
//!
//! - [`tree`]: the files, in memory. Freezing a tree takes constant time; a frozen tree never changes.
//! - [`store`]: the same tree on disk: a log of changes and snapshots, made from frozen trees.
//! - [`server`]: the live tree with its store, group commit, and the thread that bounds the loss window.
//! - [`fuse`] and [`ninep`]: the interfaces to clients, FUSE for programs on the same machine and 9P for others.
//! - [`archive`] and [`stream`]: epochs that are kept, seen as directories and sent elsewhere.
pub mod archive;
pub mod control;
#[cfg(feature = "fuse")]
pub mod fuse;
mod group;
mod held;
pub mod ninep;
pub mod server;
pub mod status;
pub mod store;
pub mod stream;
pub mod tree;
