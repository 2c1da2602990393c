// SPDX-License-Identifier: GPL-2.0-only
//! Current time, uptime and the clocks of the CPUs.

use super::clocks::Clocks;
use ids::{CpuId, Nanos};

/// Time of a kernel.
#[derive(Debug, Default)]
pub(crate) struct Time {
    now: Nanos,
    /// Uptime of the machine at time 0, added to the clocks that programs read.
    uptime: Nanos,
    /// Per-CPU clock errors.
    clocks: Clocks,
}

impl Time {
    /// Current time.
    #[inline(always)]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Sets the current time.
    ///
    /// # Panics
    /// If time goes back.
    pub fn set_now(&mut self, now: Nanos) {
        assert!(now >= self.now, "time does not go back");
        self.now = now;
    }

    /// Time since boot.
    pub fn since_boot(&self) -> Nanos {
        self.now + self.uptime
    }

    /// Uptime of the machine at time 0.
    pub fn uptime(&self) -> Nanos {
        self.uptime
    }

    /// Sets the uptime of the machine at time 0.
    pub fn set_uptime(&mut self, uptime: Nanos) {
        self.uptime = uptime;
    }

    /// Clock of `cpu`, with its error.
    pub fn of_cpu(&self, cpu: CpuId) -> Nanos {
        self.clocks.read(cpu, self.now)
    }

    /// Clock of `cpu` at another time, with its error.
    pub fn of_cpu_at(&self, cpu: CpuId, time: Nanos) -> Nanos {
        self.clocks.read(cpu, time)
    }

    /// Steps the clock of `cpu` by `step` nanoseconds, and changes its drift if `drift_ppm` is given.
    pub fn disturb(&mut self, cpu: CpuId, step: i64, drift_ppm: Option<i32>) {
        self.clocks.disturb(cpu, self.now, step, drift_ppm);
    }
}
