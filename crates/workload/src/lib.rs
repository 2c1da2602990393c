// SPDX-License-Identifier: GPL-2.0-only
//! Workloads: what tasks do. rt-app JSON, recordings and generators are converted to scripts, and an executor returns
//! each task's next demand. Time and CPUs are managed by the executor's user: the simulator, or real threads.

mod check;
mod composition;
mod executor;
mod generated;
mod groups;
mod io;
mod jobs;
mod json;
mod lending;
mod locks;
mod memory;
mod random;
mod recording;
mod requests;
mod rt_app;
mod script;
mod shipped;
mod span;
mod window;

pub use check::MAX_OPS;
pub use composition::{Part, PartSpec};
pub use executor::{Completed, Demand, Executor, Outcome, Period, WaitsFor};
pub use generated::{generate, generated};
pub use groups::{DEFAULT_WEIGHT, Reserved, TaskGroup};
pub use io::{DeviceId, DiskId, Io, IoPlace, NetworkCall, NetworkId, Submission};
pub use lending::Lending;
pub use locks::{CriticalSections, LockId, LockKind, SharedLock};
pub use memory::{Limits, MEMORY_CLASSES, MemoryClass, MemoryUse, Quantity};
pub use recording::{
    Cost, Costs, Device, Earlier, Footprint, MAX_REQUESTS, Observed, Operation, Recording, RecordingMeta, Request,
    Stretch, Touched,
};
pub use requests::{Arrivals, Source, SourceId, read_arrivals};
pub use script::{
    BarrierId, ConditionId, MutexId, MutexSpec, Op, Reference, SignalId, Sleep, Start, TaskSpec, Who, Workload,
    WorkloadError,
};
pub use shipped::shipped;
pub use span::{Link, Span};
pub use window::{Window, kept_of_name};
