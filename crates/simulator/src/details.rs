// SPDX-License-Identifier: GPL-2.0-only
//! Details on waits between tasks, which the simulator reports for explanations of a run.

use crate::model::Model;
use crate::run::Run;
use event_log::{CallbackSite, Detail, DetailKind};
use ids::{CpuId, TaskId};
use workload::WaitsFor;

impl<M: Model> Run<'_, M> {
    /// `id`, which is current on `cpu`, is about to wait for what its script names.
    pub fn report_wait(&mut self, cpu: CpuId, id: TaskId) {
        if self.sinks.wants_details
            && let Some(waits) = self.demands.waits_for(id)
        {
            let WaitsFor { object: what, holder, is_mutex: lock } = waits;
            self.tell_own_detail(cpu, id, DetailKind::Waits { what, holder, lock, spins: false });
        }
    }

    /// `id`, which is current on `cpu`, begins to wait for a lock of its workload, by polling or sleeping.
    pub fn report_lock_wait(&mut self, cpu: CpuId, id: TaskId, spins: bool) {
        if self.sinks.wants_details {
            let locks = self.shared_locks.as_ref().expect("the workload has locks");
            let (what, holder) = (locks.name(id), locks.writer(id));
            self.tell_own_detail(cpu, id, DetailKind::Waits { what, holder, lock: true, spins });
        }
    }

    /// `id` has acquired the lock that it polled.
    pub fn report_acquired(&mut self, id: TaskId) {
        if self.sinks.wants_details {
            self.tell_own_detail(CpuId(0), id, DetailKind::Passed);
        }
    }

    fn tell_own_detail(&mut self, cpu: CpuId, task: TaskId, kind: DetailKind) {
        self.sinks.detail(&Detail { time: self.clock.now(), cpu, task, kind, site: CallbackSite::default() });
    }
}
