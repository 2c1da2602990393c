// SPDX-License-Identifier: GPL-2.0-only
//! The same scenario in a real kernel and in the model, and a comparison of what the scheduler saw.
//!
//! A [`Scenario`] is data: a workload, the settings of the tracing scheduler (`trace.bpf.c`), and what happens to the
//! machine besides. [`model::play`] plays it in the simulator, [`kernel::play`] in the running kernel. Both give a
//! [`Record`]: the log that the tracing scheduler kept. [`compare`] holds one against the other, task by task.

pub mod classes;
pub mod compare;
pub mod deadline;
pub mod disturbance;
pub mod fair;
pub mod kernel;
pub mod log;
pub mod model;
pub mod muqss;
pub mod oracle;
pub mod order;
pub mod placement;
pub mod process;
pub mod record;
pub mod recorded;
pub mod scenario;
pub mod settings;
pub mod shares;
pub mod successor;
pub mod table;

pub use record::{Call, Exit, Record, Run};
pub use scenario::Scenario;
