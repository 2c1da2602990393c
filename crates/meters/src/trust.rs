// SPDX-License-Identifier: GPL-2.0-only
//! What limits the trust in a measurement.

use ids::Nanos;
use serde_json::{Value, json};

/// Where the numbers come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum World {
    /// A simulated run.
    Simulated,
    /// A real kernel.
    Real,
}

/// Circumstances of a measurement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trust {
    /// Where the numbers come from.
    pub world: World,
    /// Measured time.
    pub elapsed: Nanos,
    /// Number of online CPUs.
    pub cpus: u32,
    /// Number of events that were lost: counts are too low by at most this number.
    pub lost: u64,
    /// CPU time that a hypervisor stole from all CPUs; `None` if unknown.
    pub steal: Option<Nanos>,
    /// CPU time of tasks that do not belong to the measured command; `None` if there is no command, or unknown.
    pub foreign: Option<Nanos>,
    /// Number of switches and wakeups that the kernel hid from the meter and that are inferred from later events; `None`
    /// in a table of interrupts. The kernel of some virtual machines silences tracepoints while certain tasks run. Counts
    /// include hidden events, but their wakers are unknown, and run-queue latency before them is counted as sleep.
    pub unseen: Option<u64>,
}

impl Trust {
    /// Time of all CPUs together.
    pub fn cpu_time(&self) -> Nanos {
        Nanos(self.elapsed.0.saturating_mul(u64::from(self.cpus)))
    }

    /// One line for each circumstance that a reader must know.
    pub(crate) fn to_text(&self) -> String {
        let world = match self.world {
            World::Simulated => "simulated",
            World::Real => "real",
        };
        let mut text = format!("{world}, {} on {} CPUs\n", self.elapsed, self.cpus);
        let part = |time: Nanos| crate::columns::percent(time.0, self.cpu_time().0);
        if self.lost > 0 {
            text += &format!("WARNING: {} events were lost: counts and times are too low\n", self.lost);
        }
        if let Some(steal) = self.steal.filter(|steal| *steal > Nanos::ZERO) {
            text += &format!("stolen by the hypervisor: {steal}, {} of all CPU time\n", part(steal));
        }
        if let Some(foreign) = self.foreign.filter(|foreign| *foreign > Nanos::ZERO) {
            text += &format!("other tasks of the machine used {foreign}, {} of all CPU time\n", part(foreign));
        }
        if let Some(unseen) = self.unseen.filter(|unseen| *unseen > 0) {
            text += &format!("switches and wakeups that the kernel hid and that are inferred: {unseen}\n");
        }
        text
    }

    /// The keys that all meters have.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "weir": 1,
            "world": match self.world { World::Simulated => "sim", World::Real => "real" },
            "elapsed_ns": self.elapsed.0,
            "cpus": self.cpus,
            "lost": self.lost,
            "steal_ns": self.steal.map(|time| time.0),
            "foreign_ns": self.foreign.map(|time| time.0),
            "unseen": self.unseen,
        })
    }
}
