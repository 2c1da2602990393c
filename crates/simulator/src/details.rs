// SPDX-License-Identifier: GPL-2.0-only
//! Details on waits between tasks and on reloads of caches, which the simulator reports for explanations of a run.

use crate::model::Model;
use crate::run::Run;
use event_log::{CallbackSite, Detail, DetailKind};
use ids::{CpuId, Nanos, TaskId};
use memory::{Reload, Source};
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

    /// `id`, which is current on `cpu`, is about to wait for a disk, with this number of requests before its own.
    pub fn report_disk_wait(&mut self, cpu: CpuId, id: TaskId, disk: usize, ahead: u32) {
        if self.sinks.wants_details {
            let name = &self.machine.effects.disks.disks[disk].name;
            let what = match ahead {
                0 => format!("disk {name}, no request before"),
                1 => format!("disk {name}, 1 request before"),
                ahead => format!("disk {name}, {ahead} requests before"),
            };
            self.tell_own_detail(cpu, id, DetailKind::Waits { what, holder: None, lock: false, spins: false });
        }
    }

    /// `id`, which is current on `cpu`, is about to wait because too many pages are dirty.
    pub fn report_throttle(&mut self, cpu: CpuId, id: TaskId) {
        if self.sinks.wants_details {
            let what = "the page cache, too many dirty pages".to_owned();
            self.tell_own_detail(cpu, id, DetailKind::Waits { what, holder: None, lock: false, spins: false });
        }
    }

    /// `id`, which is current on `cpu`, is about to wait for an answer, with this number of calls in progress.
    pub fn report_network_wait(&mut self, cpu: CpuId, id: TaskId, network: usize, ahead: u32) {
        if self.sinks.wants_details {
            let name = &self.machine.effects.networks.networks[network].name;
            let what = match ahead {
                0 => format!("network {name}, no call before"),
                1 => format!("network {name}, 1 call before"),
                ahead => format!("network {name}, {ahead} calls before"),
            };
            self.tell_own_detail(cpu, id, DetailKind::Waits { what, holder: None, lock: false, spins: false });
        }
    }

    /// `id` has acquired the lock that it polled.
    pub fn report_acquired(&mut self, id: TaskId) {
        if self.sinks.wants_details {
            self.tell_own_detail(CpuId(0), id, DetailKind::Passed);
        }
    }

    /// `id` gets `cpu` and reloads what its caches have lost.
    pub fn report_reload(&mut self, cpu: CpuId, id: TaskId, reload: &Reload) {
        if self.sinks.wants_details {
            let what = description(reload);
            self.tell_own_detail(cpu, id, DetailKind::Reloads { time: reload.time, what });
        }
    }

    /// Passes a detail that concerns no callback.
    pub fn tell_own_detail(&mut self, cpu: CpuId, task: TaskId, kind: DetailKind) {
        self.sinks.detail(&Detail { time: self.clock.now(), cpu, task, kind, site: CallbackSite::default() });
    }
}

/// What a task reloads, such as `640 KB, last ran on CPU 3, other LLC`.
fn description(reload: &Reload) -> String {
    let source = match reload.source {
        Source::SameCore => "same core",
        Source::SameLlc => "same LLC",
        Source::OtherLlc => "other LLC",
        Source::OtherNode => "other node",
    };
    let mut text = format!("{} KB, last ran on CPU {}, {source}", reload.bytes.div_ceil(1_024), reload.last);
    if reload.from_memory > 0 {
        text += &format!(", {} KB from memory", reload.from_memory.div_ceil(1_024));
    }
    if reload.moving > Nanos::ZERO {
        text += &format!(", {} to move its memory to this node", reload.moving);
    }
    text
}
