// SPDX-License-Identifier: GPL-2.0-only
//! What `bfs`, `vrq` and `muqss` have in common: `policies/include/weir/one-queue.bpf.h` and the headers below it.

mod idle_level;
mod machine;
mod preemption;
mod turns;
