// SPDX-License-Identifier: GPL-2.0-only
//! Turns what the recorder's BPF programs send into a workload. Needs no kernel.
//!
//! [`wire`] parses raw events into [`event`]s; [`convert`] makes the scripts of tasks from them, in which each sleep keeps
//! its cause.

pub mod convert;
pub mod event;
pub mod overhead;
pub mod window;
pub mod wire;

mod channels;
mod family;
mod life;
mod split;
mod timing;
mod touched;
