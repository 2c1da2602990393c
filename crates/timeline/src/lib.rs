// SPDX-License-Identifier: GPL-2.0-only
//! What each task and each CPU of a run did when, and why. A [`Recorder`] is a sink that keeps this of a run of either
//! world; whatever tells of a run afterwards (an explanation, a page) derives it here and nowhere else.
//!
//! 1. A task's life is a row of [`Phase`]s without gaps: it sleeps, waits for a CPU, or has one.
//! 2. While it waits, it stands in queues: [`Stand`]s, each with the callback and line that put it there.
//! 3. A CPU's time is a row of [`Stint`]s of tasks; between two of them it idles.
//! 4. [`Timeline::account`] says of one wait who ran instead and what is to blame; [`Timeline::chain`] says what the
//!    run waited for from its beginning to its end.
//!
//! A simulated run tells the places in queues as details (`event_log::Detail`). A real kernel tells neither queues nor
//! lines: what is not known is `None` or empty, never a guess.

mod blame;
mod chain;
mod queue;
mod recorder;
mod task;
mod wait;

pub use blame::{Reason, Suspect};
pub use chain::{Chain, Kind, Link};
pub use queue::{Change, Queue};
pub use recorder::{Happening, LAST, Recorder, Timeline};
pub use task::{Choice, Cpu, Departure, Dispatched, Kick, Phase, Stand, Stint, Task, What, Why, Words};
pub use wait::{Account, Order, Runner, Wait};
