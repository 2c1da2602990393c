// SPDX-License-Identifier: GPL-2.0-only
//! Calls of tasks over networks. Their interrupts are those of [`crate::disks`].

use crate::model::Model;
use crate::run::Run;
use devices::Call;
use ids::{CpuId, Nanos, TaskId};
use workload::NetworkCall;

impl<M: Model> Run<'_, M> {
    /// `id`, which is current on `cpu`, calls a server over a network and waits for the answer. A loopback takes CPU time of
    /// the task instead.
    pub fn begin_call(&mut self, cpu: CpuId, id: TaskId, call: &NetworkCall) {
        let now = self.clock.now();
        let disks = &mut **self.disks.as_mut().expect("the workload uses networks");
        let network = disks.of_network[call.network.0 as usize];
        let call = Call { task: id, bytes: call.bytes, reply: call.reply };
        if let Some(time) = disks.networks.cpu_time(network, &call) {
            disks.network_measures[network].count(call.bytes, call.reply, [Nanos::ZERO, Nanos::ZERO, time]);
            return self.begin_kernel_work(id, time);
        }
        let draws = &mut disks.network_draws;
        let ahead = disks.networks.submit(now, network, call, &mut |network| draws[network].bits());
        let source = disks.network_source(network);
        self.issued(cpu, id, source);
        self.report_network_wait(cpu, id, network, ahead);
        self.block_on_device(cpu, id);
    }
}
