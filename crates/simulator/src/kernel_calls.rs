// SPDX-License-Identifier: GPL-2.0-only
//! The modelled kernel of a run: the output of its last call, and counts over all calls.

use crate::model::Model;
use kernel_model::Output;

/// The modelled kernel, the output of its last call, and counts over all calls.
#[derive(Debug)]
pub(crate) struct KernelCalls<M> {
    pub model: M,
    /// Output of the last call that was taken; the buffers are kept for reuse.
    pub output: Output,
    /// Number of instructions that the scheduler executed.
    instructions: u64,
    /// Number of forks that the scheduler refused.
    failed_forks: u64,
    /// Number of changes of tasks that the kernel refused.
    refused_changes: u64,
    /// The sinks have been notified of the affinity change in progress.
    pub affinity_reported: bool,
}

impl<M: Model> KernelCalls<M> {
    /// A kernel that was not called yet.
    pub fn new(model: M) -> KernelCalls<M> {
        KernelCalls {
            model,
            output: Output::default(),
            instructions: 0,
            failed_forks: 0,
            refused_changes: 0,
            affinity_reported: false,
        }
    }

    /// Takes the output of the last call.
    #[inline(always)]
    pub fn take_output(&mut self) {
        self.model.take_output(&mut self.output);
        self.instructions += self.output.usage.instructions;
    }

    /// Counts a fork that the scheduler refused.
    pub fn count_failed_fork(&mut self) {
        self.failed_forks += 1;
    }

    /// Counts a change if the kernel refused it.
    pub fn count_if_refused(&mut self, result: Result<(), i32>) {
        self.refused_changes += u64::from(result.is_err());
    }

    /// Number of instructions that the scheduler executed.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Number of forks that the scheduler refused.
    pub fn failed_forks(&self) -> u64 {
        self.failed_forks
    }

    /// Number of changes of tasks that the kernel refused.
    pub fn refused_changes(&self) -> u64 {
        self.refused_changes
    }
}
