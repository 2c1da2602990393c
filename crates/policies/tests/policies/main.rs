// SPDX-License-Identifier: GPL-2.0-only
//! The policies on the kernel model.

mod all;
mod bfs;
mod fifo;
mod world;
