// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file server whose master copy is memory. The disk is there for survival.
//!
//! - [`tree`]: the files, in memory. Freezing a tree takes constant time; a frozen tree never changes.
//! - [`store`]: the same tree on disk: a log of changes and snapshots, made from frozen trees.
pub mod store;
pub mod tree;
