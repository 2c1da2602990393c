// SPDX-License-Identifier: GPL-2.0-only
//! Parameters of effects that change CPU speed: SMT, frequency, idle states, power; and of locks. Those of memory are
//! in `memory`.
//!
//! A machine without one of these tables does not have that effect, unless it was completed by
//! [`crate::Machine::with_assumptions`]. The formulas are in `docs/explanation/machine-model.md`; `crates/speed`
//! implements them.

use crate::{Bandwidth, Caches, Disks, Networks, Numa, PageCache, Tlb};
use ids::{Locality, Nanos};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// An uncertain constant; runs use the typical value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Estimate {
    /// Lower limit, from the source given in the machine file.
    pub low: u64,
    /// Value used in runs.
    pub typical: u64,
    /// Upper limit.
    pub high: u64,
}

impl Estimate {
    /// Creates a constant that is known exactly.
    pub const fn exactly(value: u64) -> Estimate {
        Estimate { low: value, typical: value, high: value }
    }
}

/// An effect that can be disabled with `--without`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Effect {
    /// Busy SMT threads of a core share its throughput.
    Smt,
    /// CPUs of lower capacity execute work more slowly.
    Capacity,
    /// CPUs run at the frequency allowed by governor and turbo.
    Frequency,
    /// An idle CPU is in one of several states, each with its own exit latency.
    IdleStates,
    /// A task reloads the part of its working set that its caches have lost.
    Caches,
    /// Memory of other nodes takes longer to access.
    Numa,
    /// Tasks share the bandwidth of memory.
    Bandwidth,
    /// CPUs contend for kernel locks.
    Locks,
    /// Requests to a disk wait for others.
    Disks,
    /// Calls over a network wait for others.
    Network,
    /// Cached requests to disks are served by the page cache; otherwise by the disk.
    PageCache,
    /// A shrinking address space interrupts the CPUs that run its threads.
    Tlb,
    /// Interrupts of disks and networks take CPU time.
    Interrupts,
}

impl Effect {
    /// All effects.
    pub const ALL: [Effect; 13] = [
        Effect::Smt,
        Effect::Capacity,
        Effect::Frequency,
        Effect::IdleStates,
        Effect::Caches,
        Effect::Numa,
        Effect::Bandwidth,
        Effect::Locks,
        Effect::Disks,
        Effect::Network,
        Effect::PageCache,
        Effect::Tlb,
        Effect::Interrupts,
    ];

    /// Effects that act on tasks whose use of memory the workload describes, and on no others.
    pub const OF_MEMORY: [Effect; 3] = [Effect::Caches, Effect::Numa, Effect::Bandwidth];

    /// Name on command lines and in results.
    pub fn name(self) -> &'static str {
        match self {
            Effect::Smt => "smt",
            Effect::Capacity => "capacity",
            Effect::Frequency => "frequency",
            Effect::IdleStates => "idle-states",
            Effect::Caches => "caches",
            Effect::Numa => "numa",
            Effect::Bandwidth => "bandwidth",
            Effect::Locks => "locks",
            Effect::Disks => "disks",
            Effect::Network => "network",
            Effect::PageCache => "page-cache",
            Effect::Tlb => "tlb",
            Effect::Interrupts => "interrupts",
        }
    }
}

/// Evidence for results with an effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Tests that compare it with a closed form.
    pub verified: &'static [&'static str],
    /// Comparison with measurements on our own machines.
    pub validated_here: Option<&'static str>,
    /// Comparison with published measurements.
    pub published: Option<&'static str>,
}

impl Standing {
    /// Returns whether it was compared with any measurement.
    pub fn is_validated(&self) -> bool {
        self.validated_here.is_some() || self.published.is_some()
    }
}

impl Effect {
    /// Tests that compare an effect of devices with a closed form.
    fn verified_of_devices(self) -> &'static [&'static str] {
        match self {
            Effect::Disks => &[
                "disk_with_exponential_service_matches_the_closed_network",
                "random_reads_of_a_spindle_take_seek_turn_and_transfer",
                "striped_spindles_multiply_the_throughput_of_random_reads",
            ],
            Effect::Network => &[
                "call_takes_both_transfers_both_latencies_and_the_server",
                "server_behind_a_network_matches_the_closed_network",
            ],
            Effect::PageCache => &[
                "cached_read_waits_for_the_disk_once_and_then_is_cpu_work",
                "missing_pages_are_read_once_and_evicted_by_last_use",
            ],
            Effect::Tlb => &["shootdown_interrupts_the_cpus_that_run_threads_of_the_process"],
            Effect::Interrupts => &["spinner_loses_exactly_the_time_of_the_interrupts_on_its_cpu"],
            _ => &[],
        }
    }

    /// Evidence for the effect, as shown in `docs/explanation/machine-model.md`.
    pub fn standing(self) -> Standing {
        let verified: &[&str] = match self {
            Effect::Smt => &[
                "makespan_of_two_smt_tasks_is_twice_the_work_over_the_combined_throughput",
                "three_tasks_on_two_cores_without_migration_take_1_6_s",
                "three_tasks_on_two_cores_with_migration_take_1_375_s",
            ],
            Effect::Capacity => &["makespans_are_inverse_to_capacities_without_frequencies"],
            Effect::Frequency => &[
                "utilization_of_an_always_busy_cpu_follows_the_closed_form",
                "utilization_of_a_periodic_task_stays_within_the_closed_form",
                "schedutil_reaches_the_highest_frequency_after_74_periods",
                "ondemand_reaches_the_highest_frequency_after_one_sample",
                "conservative_rises_5_percent_per_sample",
                "turbo_frequency_depends_on_active_cores",
                "energy_per_work_is_minimal_at_the_predicted_frequency",
                "energy_is_linear_in_the_number_of_busy_cores",
            ],
            Effect::IdleStates => {
                &["exit_latency_is_that_of_the_predicted_idle_state", "idle_exit_latency_delays_wakeups"]
            }
            Effect::Caches => &[
                "lost_lines_match_the_binomial_model_of_thiebaut_and_stone",
                "stamps_match_a_naive_lru_cache_on_random_schedules",
                "read_only_working_set_stays_warm_in_two_private_caches",
                "task_that_moves_loses_the_time_of_its_reload",
                "work_that_ends_before_its_reload_advances_at_the_pace_of_misses",
            ],
            Effect::Numa => &[
                "rate_of_a_task_with_remote_memory_matches_the_closed_form",
                "core_choice_never_moves_memory_by_itself",
            ],
            Effect::Bandwidth => &[
                "n_equal_streamers_share_the_bandwidth_of_a_node",
                "compute_task_is_unaffected_by_streamers",
                "loaded_latency_follows_the_measured_curve_below_saturation",
            ],
            Effect::Disks | Effect::Network | Effect::PageCache | Effect::Tlb | Effect::Interrupts => {
                self.verified_of_devices()
            }
            Effect::Locks => &[
                "lock_without_transfer_cost_matches_the_machine_repairman_model",
                "queued_lock_throughput_has_a_plateau",
                "lock_is_granted_first_come_first_served",
                "ticket_lock_throughput_matches_its_closed_form",
                "second_task_waits_for_release_and_handoff_of_a_spin_lock",
                "contended_mutex_makes_useless_futex_calls",
            ],
        };
        let published = match self {
            Effect::Numa => Some("four-socket Opteron: `lab/results/memory.md`"),
            Effect::Bandwidth => {
                Some("loaded latency of three Xeons, and a four-socket Opteron: `lab/results/memory.md`")
            }
            Effect::Locks => Some("one queue on 128 CPUs against one for each: `lab/results/wall.md`"),
            _ => None,
        };
        let validated_here = match self {
            Effect::Locks => Some("two threads at one lock: agrees in 51 of 108 comparisons, see above"),
            _ => None,
        };
        Standing { verified, validated_here, published }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Effect {
    type Err = String;

    fn from_str(word: &str) -> Result<Effect, String> {
        let found = Effect::ALL.into_iter().find(|effect| effect.name() == word);
        let names = Effect::ALL.map(Effect::name).join(", ");
        found.ok_or_else(|| format!("unknown effect {word:?}; expected one of {names}"))
    }
}

/// A group of CPUs that share something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Group {
    /// SMT threads of a core.
    #[default]
    Core,
    /// CPUs below a last-level cache.
    Llc,
    /// CPUs of a node.
    Node,
    /// All CPUs.
    Machine,
}

impl Group {
    /// All groups with their names.
    pub const NAMES: [(&'static str, Group); 4] =
        [("core", Group::Core), ("llc", Group::Llc), ("node", Group::Node), ("machine", Group::Machine)];
}

/// CPU frequency governor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Governor {
    /// Always requests the highest frequency.
    #[default]
    Performance,
    /// Requests the highest frequency after a busy sample, else one proportional to the load.
    Ondemand,
    /// Requests a small step up or down after each sample.
    Conservative,
    /// Requests 1.25 times the utilization reported by the scheduler.
    Schedutil,
}

impl Governor {
    /// All governors with their names.
    pub const NAMES: [(&'static str, Governor); 4] = [
        ("performance", Governor::Performance),
        ("ondemand", Governor::Ondemand),
        ("conservative", Governor::Conservative),
        ("schedutil", Governor::Schedutil),
    ];
}

/// SMT: threads share a core.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Smt {
    /// Combined throughput of 2, 3, … busy threads of a core in percent of one thread alone; at least 100 and
    /// nondecreasing.
    pub throughput_percent: Vec<Estimate>,
}

/// Frequencies and their selection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frequency {
    /// Selectable frequencies without turbo, ascending.
    pub mhz: Vec<u32>,
    /// Turbo frequency with 1, 2, … active cores in the group, for a CPU that requests more than the highest of
    /// `mhz`; the last value applies to more cores. Empty: no turbo.
    pub turbo_mhz: Vec<Estimate>,
    /// CPUs with a common frequency.
    pub domain: Group,
    /// CPUs with a common turbo limit.
    pub turbo_domain: Group,
    /// Interval at which the hardware counts active cores, in microseconds.
    pub turbo_us: u64,
    /// Frequency governor.
    pub governor: Governor,
    /// Minimum time between two frequency changes, in microseconds: the sampling time of `ondemand` and
    /// `conservative`, the rate limit of `schedutil`.
    pub sampling_us: u64,
    /// Time from a frequency request to the change, in microseconds.
    pub transition_us: u64,
    /// Share of a task's time at the highest frequency that is spent waiting for memory, in percent; it does not
    /// depend on the frequency.
    pub memory_bound_percent: Estimate,
}

/// An idle state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdleState {
    /// Name in the processor's manual.
    pub name: String,
    /// Exit latency: from the interrupt to the first instruction, in nanoseconds.
    pub exit_ns: Estimate,
    /// Target residency: minimum idle time that makes the state worthwhile, in nanoseconds.
    pub residency_ns: u64,
    /// Whether the core no longer counts as active for turbo.
    pub deep: bool,
    /// Power of the core in this state, in percent of its power when busy at the highest non-turbo frequency.
    pub power_percent: Estimate,
}

/// Costs of locks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Locks {
    /// Transfer latency of a cache line last written by another CPU, in nanoseconds: within a core, below a
    /// last-level cache, within a node, between nodes.
    pub line_transfer_ns: [Estimate; 4],
    /// Part of the wakeup path that holds the target CPU's runqueue lock, in nanoseconds.
    pub wakeup_hold_ns: Estimate,
    /// Uncontended critical section of a user-space lock, without the work in it, in nanoseconds, by [`AcquireCost`].
    pub acquire_ns: [Estimate; 6],
    /// Increase of a test-and-set lock's handoff time per additional spinning CPU, in percent of a line transfer.
    pub spinner_slowdown_percent: Estimate,
    /// A `futex(2)` call without effect, in nanoseconds: a wakeup without sleepers, or a wait refused because the
    /// word has changed. A contended mutex makes many.
    pub futex_ns: Estimate,
}

/// Index into [`Locks::acquire_ns`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AcquireCost {
    /// An atomic operation.
    Atomic,
    /// A reader of a seqlock.
    Sequence,
    /// A test-and-set or ticket lock.
    Spin,
    /// A queued lock, such as MCS.
    Queued,
    /// A reader-writer lock.
    ReadWrite,
    /// A mutex.
    Mutex,
}

impl Locks {
    /// Transfer latency of a cache line between two CPUs at this distance, in nanoseconds.
    pub fn line(&self, locality: Locality) -> u64 {
        match locality {
            Locality::Same => 0,
            Locality::Smt => self.line_transfer_ns[0].typical,
            Locality::Llc => self.line_transfer_ns[1].typical,
            Locality::Node => self.line_transfer_ns[2].typical,
            Locality::Far => self.line_transfer_ns[3].typical,
        }
    }
}

/// Power consumption of the machine. All values are relative: only ratios are reported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Power {
    /// Power with all cores asleep, in percent of the power with all cores busy at the highest non-turbo frequency.
    pub idle_percent: Estimate,
    /// Share of the voltage at the highest non-turbo frequency that scales with the frequency, in percent.
    pub voltage_slope_percent: Estimate,
}

/// All effects of a machine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Effects {
    /// SMT.
    pub smt: Option<Smt>,
    /// Whether work executes at a rate proportional to the CPU's capacity ([`ids::Topology::capacities`]). False if
    /// all capacities are equal.
    pub capacity: bool,
    /// Frequencies.
    pub frequency: Option<Frequency>,
    /// Idle states from shallow to deep; if empty, leaving idle takes [`crate::Costs::idle_exit_ns`].
    pub idle_states: Vec<IdleState>,
    /// Power.
    pub power: Option<Power>,
    /// Caches.
    pub caches: Option<Caches>,
    /// Memory of several nodes.
    pub numa: Option<Numa>,
    /// Memory bandwidth.
    pub bandwidth: Option<Bandwidth>,
    /// Locks.
    pub locks: Option<Locks>,
    /// Disks.
    pub disks: Disks,
    /// Networks.
    pub networks: Networks,
    /// Page cache; `None`: cached requests to disks are direct ones.
    pub page_cache: Option<PageCache>,
    /// TLB shootdowns.
    pub tlb: Option<Tlb>,
    /// Number of this sample of the uncertain constants, from 1, and of all samples, if this is one. Uncertain
    /// quantities of a workload are sampled with the same numbers.
    pub sample: Option<(u64, u64)>,
    /// Effects whose constants are typical of a class of machines, not known for this one.
    pub assumed: BTreeSet<Effect>,
}

impl Effects {
    /// Effects the machine has.
    pub fn modelled(&self) -> impl Iterator<Item = Effect> + '_ {
        Effect::ALL.into_iter().filter(|effect| match effect {
            Effect::Smt => self.smt.is_some(),
            Effect::Capacity => self.capacity,
            Effect::Frequency => self.frequency.is_some(),
            Effect::IdleStates => !self.idle_states.is_empty(),
            Effect::Caches => self.caches.is_some(),
            Effect::Numa => self.numa.is_some(),
            Effect::Bandwidth => self.bandwidth.is_some(),
            Effect::Locks => self.locks.is_some(),
            Effect::Disks => self.disks.has_devices() && !self.disks.without_queues,
            Effect::Network => self.networks.has_devices() && !self.networks.without_queues,
            Effect::PageCache => self.page_cache.is_some(),
            Effect::Tlb => self.tlb.is_some(),
            Effect::Interrupts => self.has_devices() && !self.disks.without_interrupts,
        })
    }

    /// Whether any disk or network is a device.
    pub fn has_devices(&self) -> bool {
        self.disks.has_devices() || self.networks.has_devices()
    }

    /// Keeps only idle states whose exit latency is at most `limit`, like a request through `/dev/cpu_dma_latency`. If
    /// there are none, idle CPUs poll: they leave idle at once, and take the power of a busy CPU. A machine without
    /// idle states stays as it is ([`crate::Costs::idle_exit_within`]).
    pub fn limit_idle_exit(&mut self, limit: Nanos) {
        let had_states = !self.idle_states.is_empty();
        self.idle_states.retain(|state| state.exit_ns.typical <= limit.0);
        if had_states && self.idle_states.is_empty() {
            self.idle_states.push(IdleState {
                name: "POLL".to_owned(),
                exit_ns: Estimate::exactly(0),
                residency_ns: 0,
                deep: false,
                power_percent: Estimate::exactly(100),
            });
        }
    }

    /// Disables an effect. Without frequencies, energy is not modelled either.
    pub fn switch_off(&mut self, effect: Effect) {
        self.assumed.remove(&effect);
        match effect {
            Effect::Smt => self.smt = None,
            Effect::Capacity => self.capacity = false,
            Effect::Frequency => (self.frequency, self.power) = (None, None),
            Effect::IdleStates => self.idle_states.clear(),
            Effect::Caches => self.caches = None,
            Effect::Numa => self.numa = None,
            Effect::Bandwidth => self.bandwidth = None,
            Effect::Locks => self.locks = None,
            Effect::Disks => self.disks.without_queues = true,
            Effect::Network => self.networks.without_queues = true,
            Effect::PageCache => self.page_cache = None,
            Effect::Tlb => self.tlb = None,
            Effect::Interrupts => self.disks.without_interrupts = true,
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn idle_states_above_the_latency_limit_are_removed_and_polling_remains() {
        let state = |name: &str, exit_ns| IdleState {
            name: name.to_owned(),
            exit_ns: Estimate::exactly(exit_ns),
            residency_ns: 3 * exit_ns,
            deep: exit_ns > 10_000,
            power_percent: Estimate::exactly(20),
        };
        let machine = Effects { idle_states: vec![state("C1", 1_000), state("C6", 90_000)], ..Effects::default() };
        let names = |limit_ns| {
            let mut effects = machine.clone();
            effects.limit_idle_exit(Nanos(limit_ns));
            effects.idle_states.into_iter().map(|state| (state.name, state.exit_ns.typical)).collect::<Vec<_>>()
        };
        assert_eq!(names(90_000), [("C1".to_owned(), 1_000), ("C6".to_owned(), 90_000)]);
        assert_eq!(names(89_999), [("C1".to_owned(), 1_000)]);
        assert_eq!(names(0), [("POLL".to_owned(), 0)]);
        let mut without = Effects::default();
        without.limit_idle_exit(Nanos::ZERO);
        assert_eq!(without.idle_states, []);
    }

    use super::*;

    #[test]
    fn effects_are_parsed_by_name_and_can_be_disabled() {
        let mut effects = Effects { smt: Some(Smt { throughput_percent: Vec::new() }), ..Effects::default() };
        assert_eq!(effects.modelled().collect::<Vec<_>>(), [Effect::Smt]);
        effects.switch_off("smt".parse().unwrap());
        assert_eq!(effects.modelled().count(), 0);
        assert_eq!(
            "cache".parse::<Effect>().unwrap_err(),
            "unknown effect \"cache\"; expected one of smt, capacity, frequency, idle-states, caches, numa, bandwidth, \
             locks, disks, network, page-cache, tlb, interrupts"
        );
    }
}
