// SPDX-License-Identifier: GPL-2.0-only
//! Converts the events of the recorder's BPF programs to a workload. Needs no kernel.
//!
//! [`wire`] parses raw events into [`event`]s; [`convert`] makes the tasks' scripts from them, in which each sleep
//! has its cause.

pub mod convert;
pub mod event;
pub mod overhead;
mod own_requests;
pub mod window;
pub mod wire;

mod channels;
mod family;
mod life;
mod split;
mod timing;
mod touched;
