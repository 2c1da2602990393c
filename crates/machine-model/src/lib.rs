// SPDX-License-Identifier: GPL-2.0-only
//! CPUs, cores, caches, nodes, HZ, and what things cost. Data and arithmetic only: no clock, no files, no scheduling.
//!
//! A [`Machine`] comes from a preset ([`Machine::preset`]), a TOML file ([`Machine::from_toml`]), an hwloc synthetic
//! string ([`Machine::from_synthetic`]), hwloc XML ([`Machine::from_hwloc_xml`]) or the sysfs of a running kernel
//! ([`Machine::from_sysfs`]). All of them end in
//! the same checks, so that whoever holds a machine may rely on dense group numbers, nested groups and sane distances.
//!
//! A machine file in full; where `[costs]` or one of its keys is absent, the cost of `server-64` holds:
//!
//! ```toml
//! description = "two sockets, two cores each, two threads a core"
//! hz = 250                  # 24 to 10000
//! no_hz_idle = true         # an idle CPU stops its tick
//! newidle_ratio = 512       # so often of 1024 times a CPU that begins to idle looks for tasks at first; default: each time
//! llc_kb = 4096             # size of the last-level cache of a CPU; 0 (the default): not known
//!
//! [topology]
//! shape = "node:2 core:2 pu:2"            # an hwloc synthetic string
//! numbering = "threads-last"              # or "threads-together" (the default), or the list of the CPU numbers
//! distances = [[10, 21], [21, 10]]        # SLIT; default: 10 at home, 20 elsewhere, as in Linux
//! capacity = { "6-7" = 512 }              # what weak CPUs get done; 1024 is the default
//! offline = "7"                           # CPUs that are not online at the start
//!
//! [costs]
//! context_switch_ns = 800
//!
//! [noise]                   # what a seed draws; absent: as in server-64
//! off = ["threads"]         # sources that draw nothing
//! # The least value, the quantiles at 1, 5, 10, 25, 50, 75, 90, 95 and 99 %, and the greatest; absent: nothing.
//! timer_ns = [0, 0, 0, 0, 0, 100, 200, 400, 800, 2000, 9000]
//!
//! [[noise.threads]]
//! name = "kworker"
//! each_cpu = true           # one on each CPU, which never leaves it
//! nice = 0
//! sleep_us = [1000, 1000, 1000, 1000, 1000, 2000, 3000, 4000, 5000, 6000, 7000]
//! work_ns = [100, 100, 100, 100, 100, 200, 300, 400, 500, 600, 700]
//!
//! # Effects: without the table the machine does not have the effect. A number that is not known is written as the list
//! # of its lowest, typical and highest value.
//! [smt]
//! throughput_percent = [115, 125, 135]    # of two threads; for more threads a list of such lists
//!
//! [frequency]
//! mhz = [1200, 1800, 2600]                # what can be asked for, without turbo
//! turbo_mhz = [3700, 3700, 3500]          # with 1, 2, 3 and more active cores; default: none
//! domain = "core"                         # CPUs of one frequency: core (the default), llc, node or machine
//! turbo_domain = "node"                   # cores that share a turbo
//! turbo_us = 1000                         # how often the hardware counts them
//! governor = "schedutil"                  # or performance (the default), ondemand, conservative
//! sampling_us = 10000
//! transition_us = 10
//! memory_bound_percent = [5, 20, 50]      # of a task's time, which no frequency shortens
//!
//! [[idle]]                                # from light to deep; default: costs.idle_exit_ns holds
//! name = "C1"
//! exit_ns = 2000
//! residency_ns = 2000
//! deep = false                            # a core in a deep state is not active for the turbo
//! power_percent = [20, 40, 60]
//!
//! [halt]                                  # of a virtual machine: idle CPUs are given away; default: they are not
//! after_ns = 200000                       # once they have idled for so long
//! send_ns = 11000                         # for an interrupt to such a CPU, in place of costs.ipi_send_ns
//! exit_ns = 25000                         # until it is awake, in place of costs.idle_exit_ns
//!
//! [power]                                 # ratios: 100 is all cores busy at the last frequency without turbo
//! idle_percent = [20, 35, 60]
//! voltage_slope_percent = [30, 50, 70]
//! ```
//!
//! `nodes` may stand for `shape` and `numbering`, and describes any machine: a node is a list of last-level caches, a cache
//! a list of cores, a core its CPUs. Numbers that no core has are CPUs that do not exist; a node without caches has memory
//! only:
//!
//! ```toml
//! [topology]
//! nodes = [
//!   [["0,4", "1,5"], [8, 9, 10, 11]], # CPUs 0 and 4 share a core; CPUs 8 to 11 are cores of one thread
//!   [],
//! ]
//! ```

mod cost;
mod draws;
mod effects;
mod hwloc_xml;
mod machine;
mod noise;
mod presets;
mod synthetic;
mod sysfs;
mod to_toml;
mod toml_file;

pub use cost::{Costs, Halt, Nature};
pub use effects::{
    AcquireCost, Effect, Effects, Estimate, Frequency, Governor, Group, IdleState, Locks, Power, Smt, Standing,
};
pub use machine::{Machine, MachineError};
pub use noise::{BackgroundThread, Noise, NoiseSource, PROBABILITIES_PPM, Spread};
pub use presets::presets;
