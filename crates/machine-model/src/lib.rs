// SPDX-License-Identifier: GPL-2.0-only
//! Machine description: CPUs, cores, caches, nodes, HZ and costs. Data and arithmetic only: no clock, no files, no scheduling.
//!
//! A [`Machine`] comes from a preset ([`Machine::preset`]), a TOML file ([`Machine::from_toml`]), an hwloc synthetic string
//! ([`Machine::from_synthetic`]), hwloc XML ([`Machine::from_hwloc_xml`]) or the sysfs of a running kernel
//! ([`Machine::from_sysfs`]). All of them end in the same checks, so every machine has dense group numbers, nested groups
//! and valid distances.
//!
//! A complete machine file; costs not given in `[costs]` are those of `server-64`:
//!
//! ```toml
//! description = "two sockets, two cores each, two threads a core"
//! hz = 250                  # 24 to 10000
//! no_hz_idle = true         # an idle CPU stops its tick
//! autogroup = true          # the fair class groups tasks by session; default: it does not
//! newidle_ratio = 512       # initial newidle balance probability, in 1/1024; default: always
//! private_kb = 256          # size of a core's own cache; 0 (the default): unknown
//! llc_kb = 4096             # size of a CPU's last-level cache; 0 (the default): unknown
//!
//! [topology]
//! shape = "node:2 core:2 pu:2"            # an hwloc synthetic string
//! numbering = "threads-last"              # or "threads-together" (the default), or the list of the CPU numbers
//! distances = [[10, 21], [21, 10]]        # SLIT; default: 10 local, 20 remote, as in Linux
//! capacity = { "6-7" = 512 }              # capacity of slower CPUs; default 1024
//! offline = "7"                           # CPUs initially offline
//!
//! [costs]
//! context_switch_ns = 800
//!
//! [noise]                   # random variation by seed; default: as in server-64
//! off = ["threads"]         # disabled noise sources
//! # Minimum, quantiles at 1, 5, 10, 25, 50, 75, 90, 95 and 99 %, maximum; absent: no variation.
//! timer_ns = [0, 0, 0, 0, 0, 100, 200, 400, 800, 2000, 9000]
//!
//! [[noise.threads]]
//! name = "kworker"
//! each_cpu = true           # one per CPU, pinned to it
//! nice = 0
//! sleep_us = [1000, 1000, 1000, 1000, 1000, 2000, 3000, 4000, 5000, 6000, 7000]
//! work_ns = [100, 100, 100, 100, 100, 200, 300, 400, 500, 600, 700]
//!
//! # Effects: without its table, an effect is not modelled. An uncertain number is written as the list
//! # of its lowest, typical and highest value.
//! [smt]
//! throughput_percent = [115, 125, 135]    # two busy threads of a core; for more threads a list of such lists
//!
//! [frequency]
//! mhz = [1200, 1800, 2600]                # selectable frequencies, without turbo
//! turbo_mhz = [3700, 3700, 3500]          # with 1, 2, 3 and more active cores; default: no turbo
//! domain = "core"                         # CPUs with a common frequency: core (the default), llc, node or machine
//! turbo_domain = "node"                   # CPUs with a common turbo limit
//! turbo_us = 1000                         # how often the hardware counts active cores
//! governor = "schedutil"                  # or performance (the default), ondemand, conservative
//! sampling_us = 10000
//! transition_us = 10
//! memory_bound_percent = [5, 20, 50]      # share of a task's time independent of frequency
//!
//! [[idle]]                                # from shallow to deep; default: costs.idle_exit_ns applies
//! name = "C1"
//! exit_ns = 2000
//! residency_ns = 2000
//! deep = false                            # whether a core in this state is inactive for turbo
//! power_percent = [20, 40, 60]
//!
//! [halt]                                  # virtual machines: idle vCPUs are descheduled; default: they are not
//! after_ns = 200000                       # after being idle for this long
//! send_ns = 11000                         # sending an IPI to such a CPU, instead of costs.ipi_send_ns
//! exit_ns = 25000                         # waking such a CPU, instead of costs.idle_exit_ns
//!
//! [caches]                                # sizes default to those above
//! private_kb = 1024                       # cache of a core, shared by its threads
//! llc_kb = 22528                          # last-level cache; or a list with a size for each of them
//! line_bytes = 64                         # the default
//! private_ns = [4, 5, 6]                  # load latencies
//! llc_ns = [18, 20, 26]
//! memory_ns = [75, 85, 95]
//! dirty_ns = [[40, 48, 60], [40, 48, 60], [110, 136, 160]]  # modified line: same LLC, same node, other node
//! overlap = [1, 4, 10]                    # misses in flight during a reload
//!
//! [numa]
//! latency_ns = [[10, 75, 85, 95], [21, 130, 140, 150]]      # SLIT distance; lowest, typical, highest latency
//! placement = "first-touch"               # the default; or interleave, balancing, node:N
//! balance_ms = 1000                       # time on another node after which balanced memory follows; the default
//! move_page_ns = [1000, 2000, 4000]       # per page moved; 0 by default
//!
//! [bandwidth]
//! node_mb_s = [90000, 105000, 128000]     # of a node's memory
//! remote_mb_s = [40000, 50000, 60000]     # of it, to other nodes together
//! slope_permille = 300                    # latency is 1 + slope u + knee u / (1 - u) at load u
//! knee_permille = [75, 95, 135]
//!
//! [disks.sda]                             # no disk by default
//! like = "hdd-7200"                       # a preset; every key of a disk overrides it
//! spindles = 8
//!
//! [tlb]
//! wait_ns = [500, 1000, 3000]             # of the initiator, for the first target
//! target_ns = [100, 300, 500]             # for each further one
//! handler_ns = [300, 700, 1500]           # interrupt of a target
//!
//! [networks.eth0]                         # no network by default
//! like = "1gbe"
//! server_ns = 200000                      # of the server behind it
//!
//! [power]                                 # ratios: 100 is all cores busy at the highest non-turbo frequency
//! idle_percent = [20, 35, 60]
//! voltage_slope_percent = [30, 50, 70]
//! ```
//!
//! `nodes` replaces `shape` and `numbering` and can describe any machine: a node is a list of last-level caches, a cache a
//! list of cores, a core a set of CPUs. CPU numbers in no core do not exist; a node without caches has memory only:
//!
//! ```toml
//! [topology]
//! nodes = [
//!   [["0,4", "1,5"], [8, 9, 10, 11]], # CPUs 0 and 4 share a core; CPUs 8 to 11 are cores of one thread
//!   [],
//! ]
//! ```

mod assumptions;
mod changes;
mod cost;
mod disks;
mod draws;
mod effects;
mod hwloc_xml;
mod machine;
mod memory;
mod networks;
mod noise;
mod page_cache;
mod presets;
mod synthetic;
mod sysfs;
mod tlb;
mod to_toml;
mod toml_file;

pub use changes::{Changes, split_changes};
pub use cost::{Costs, Halt, Nature};
pub use disks::{Disk, Disks, Order, Routing, Service, disk_presets};
pub use draws::sample;
pub use effects::{
    AcquireCost, Effect, Effects, Estimate, Frequency, Governor, Group, IdleState, Locks, Power, Smt, Standing,
};
pub use machine::{Machine, MachineError};
pub use memory::{Bandwidth, Caches, Numa, Remote};
pub use networks::{Link, Network, Networks, network_presets};
pub use noise::{BackgroundThread, Noise, NoiseSource, PROBABILITIES_PPM, Spread};
pub use page_cache::PageCache;
pub use presets::presets;
pub use tlb::Tlb;
