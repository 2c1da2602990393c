// SPDX-License-Identifier: GPL-2.0-only
//! Behavior that `bfs`, `vrq` and `muqss` have in common: `policies/include/weir/one-queue.bpf.h` and the headers it
//! includes.

mod idle_level;
mod machine;
mod preemption;
mod turns;
