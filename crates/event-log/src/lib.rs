// SPDX-License-Identifier: GPL-2.0-only
//! The record of a run: the events that the simulator, the recorder, the measures, the invariants and the report
//! share.
//!
//! Producers pass [`Event`]s to a [`Sink`]; every consumer of a run is a sink. Only sinks store events, so the memory
//! of a run does not grow with its length.

mod bounds;
mod codec;
mod detail;
mod event;
mod hash;
mod json_lines;
mod log;
pub mod perfetto;
mod sinks;

pub use bounds::{Bounds, LONGEST, OutOfBounds};
pub use codec::{CodecError, Record};
pub use detail::{Detail, DetailKind, FairDecision, FairRule};
pub use event::{
    BlockCause, CallbackSite, Event, EventKind, KickFlags, LockKind, Printk, Sink, SwitchReason, TaskInfo, Waker,
    modelled_pid, op_name,
};
pub use hash::{LogHash, hash_bytes};
pub use json_lines::JsonLines;
pub use log::{FORMAT, Header, LogError, LogReader, LogWriter};
pub use sinks::{Null, Tee};
