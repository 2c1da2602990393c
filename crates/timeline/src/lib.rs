// SPDX-License-Identifier: GPL-2.0-only
//! The timeline of a run: what each task and each CPU did when, and why. A [`Recorder`] is a sink that collects it
//! from a simulated or real run. All later analyses (explanations, pages) are derived from it.
//!
//! 1. The life of a task is a sequence of [`Phase`]s without gaps: it sleeps, waits for a CPU, or runs.
//! 2. While it waits, it is in queues: [`QueueStay`]s, each with the callback and line that inserted it.
//! 3. The time of a CPU is a sequence of [`RunInterval`]s of tasks; between them the CPU is idle.
//! 4. [`Timeline::account`] tells for a wait which tasks ran instead and which callbacks caused it.
//!    [`Timeline::chain`] tells what the run waited for from its beginning to its end.
//! 5. A task that sleeps until another one wakes it or releases a lock waits for that task:
//!    [`Timeline::blocked_account`] tells what the other task did meanwhile.
//!
//! A simulated run passes positions in queues as details (`event_log::Detail`). A real kernel shows neither queues
//! nor source lines: unknown facts are `None` or empty, never guessed.

mod blame;
mod blocked;
mod chain;
mod fair;
mod idle;
mod queue;
mod recorder;
mod task;
mod wait;

pub use blame::{Reason, Suspect};
pub use blocked::{Blocked, BlockedAccount};
pub use chain::{Chain, Kind, Link};
pub use fair::{FairAccount, PassedOver, RuleKind};
pub use idle::{IdleCause, IdleCauses};
pub use queue::{Change, Queue, Takers};
pub use recorder::{MAX_LAST_EVENTS, Recorder, TaskEvent, Timeline};
pub use task::{
    Activity, Choice, Cpu, Departure, Dispatched, Kick, Phase, QueueStay, RunInterval, Task, TaskWait, WaitReason,
};
pub use wait::{Account, Order, Runner, Wait};
