// SPDX-License-Identifier: GPL-2.0-only
//! What tasks do: rt-app JSON, recordings and generators come in, one form of script goes out, and a player says for
//! each task what it wants next. Time and CPUs belong to whoever drives the player: the simulator, or real threads.

mod check;
mod composition;
mod generated;
mod groups;
mod jobs;
mod json;
mod lending;
mod locks;
mod player;
mod recording;
mod rt_app;
mod script;
mod shipped;
mod span;
mod window;

pub use check::MAX_OPS;
pub use composition::{Part, PartSpec};
pub use generated::{generate, generated};
pub use groups::{DEFAULT_WEIGHT, Reserved, TaskGroup};
pub use lending::Lending;
pub use locks::{CriticalSections, LockId, LockKind, SharedLock};
pub use player::{Demand, Outcome, Period, Player};
pub use recording::{
    Cost, Costs, Device, Earlier, Footprint, MAX_REQUESTS, Observed, Operation, Recording, RecordingMeta, Request,
    Stretch, Touched,
};
pub use script::{
    BarrierId, ConditionId, MutexId, Op, Reference, SignalId, Sleep, Start, TaskSpec, Who, Workload, WorkloadError,
};
pub use shipped::shipped;
pub use span::{Link, Span};
pub use window::{Window, kept_of_name};
