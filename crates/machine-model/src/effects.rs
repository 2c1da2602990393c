// SPDX-License-Identifier: GPL-2.0-only
//! What makes a CPU slower than the reference, as data: threads that share a core, frequency, idle states, power.
//!
//! A machine without one of these tables does not have that effect: nothing is assumed of unknown hardware. The
//! formulas are in `docs/machine-model.md`; `crates/speed` plays them.

use ids::Locality;
use std::fmt;
use std::str::FromStr;

/// A number that is known within limits: runs use the typical one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Estimate {
    /// No smaller than this, by the source that the machine file names.
    pub low: u64,
    /// What runs use.
    pub typical: u64,
    /// No larger than this.
    pub high: u64,
}

impl Estimate {
    /// A number that is known.
    pub const fn exactly(value: u64) -> Estimate {
        Estimate { low: value, typical: value, high: value }
    }
}

/// An effect that can be switched off, in the words of `--without`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Effect {
    /// Busy threads of a core share its throughput.
    Smt,
    /// CPUs run at the frequency that governor and turbo allow; kinds of cores differ.
    Frequency,
    /// An idle CPU is in one of several states, and the way out takes as long as that state says.
    IdleStates,
    /// CPUs that want one lock of the kernel wait for each other.
    Locks,
}

impl Effect {
    /// All of them.
    pub const ALL: [Effect; 4] = [Effect::Smt, Effect::Frequency, Effect::IdleStates, Effect::Locks];

    /// Its name on command lines and in results.
    pub fn name(self) -> &'static str {
        match self {
            Effect::Smt => "smt",
            Effect::Frequency => "frequency",
            Effect::IdleStates => "idle-states",
            Effect::Locks => "locks",
        }
    }
}

/// How far results with an effect can be believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Tests that compare it with a closed form.
    pub verified: &'static [&'static str],
    /// Where it was compared with a measurement on a machine that we have.
    pub validated_here: Option<&'static str>,
    /// Whose measurement it was compared with.
    pub published: Option<&'static str>,
}

impl Standing {
    /// Whether it was compared with any measurement.
    pub fn is_validated(&self) -> bool {
        self.validated_here.is_some() || self.published.is_some()
    }
}

impl Effect {
    /// How far it can be believed; `docs/machine-model.md` shows this.
    pub fn standing(self) -> Standing {
        let verified: &[&str] = match self {
            Effect::Smt => &[
                "pairs_on_every_core_take_2w_over_y",
                "three_tasks_on_two_cores_without_pull_take_1_6_s",
                "three_tasks_on_two_cores_with_pull_take_1_375_s",
            ],
            Effect::Frequency => &[
                "the_ramp_of_a_hog_is_the_closed_form",
                "the_duty_cycle_table_holds",
                "schedutil_reaches_the_top_after_74_periods",
                "ondemand_takes_one_sample_to_the_top",
                "conservative_climbs_in_steps",
                "turbo_is_for_few",
                "race_to_idle_pays_up_to_where_the_formula_says",
                "energy_grows_by_the_same_with_each_busy_core",
            ],
            Effect::IdleStates => {
                &["the_way_out_of_idle_is_that_of_the_state", "the_state_of_an_idle_cpu_is_a_cost_of_the_wakeup"]
            }
            Effect::Locks => &[
                "a_lock_without_distance_is_the_machine_repairman",
                "a_queued_lock_has_a_plateau",
                "first_come_first_served",
                "a_ticket_lock_collapses_as_its_closed_form_does",
                "two_tasks_and_one_spin_lock",
                "a_mutex_that_is_fought_for_calls_the_kernel_for_nothing",
            ],
        };
        let published = match self {
            Effect::Locks => Some("one queue on 128 CPUs against one for each: `docs/wall.md`"),
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
        found.ok_or_else(|| format!("no such effect: {word:?}; modelled are {names}"))
    }
}

/// CPUs that something is shared by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Group {
    /// The threads of a core.
    #[default]
    Core,
    /// The CPUs below one last-level cache.
    Llc,
    /// Those of one node.
    Node,
    /// All.
    Machine,
}

impl Group {
    /// All of them, by name.
    pub const NAMES: [(&'static str, Group); 4] =
        [("core", Group::Core), ("llc", Group::Llc), ("node", Group::Node), ("machine", Group::Machine)];
}

/// Who asks for a frequency.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Governor {
    /// Always for the highest.
    #[default]
    Performance,
    /// For the highest as soon as a sample was busy, else for what carries the load.
    Ondemand,
    /// For a little more or less after each sample.
    Conservative,
    /// For 1.25 times what the scheduler says is used.
    Schedutil,
}

impl Governor {
    /// All of them, by name.
    pub const NAMES: [(&'static str, Governor); 4] = [
        ("performance", Governor::Performance),
        ("ondemand", Governor::Ondemand),
        ("conservative", Governor::Conservative),
        ("schedutil", Governor::Schedutil),
    ];
}

/// Threads of a core share it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Smt {
    /// What 2, 3, … busy threads of a core do together, in percent of what one does alone; 100 or more, not falling.
    pub throughput_percent: Vec<Estimate>,
}

/// Frequencies and who chooses them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frequency {
    /// Frequencies that can be asked for, ascending, without turbo.
    pub mhz: Vec<u32>,
    /// What a CPU that asks for more than the last of them gets while 1, 2, … cores of its group are active; the last
    /// number holds for more. Empty: there is no turbo.
    pub turbo_mhz: Vec<Estimate>,
    /// CPUs that always have one frequency.
    pub domain: Group,
    /// CPUs that share a turbo.
    pub turbo_domain: Group,
    /// How often the hardware looks how many cores are active, in microseconds.
    pub turbo_us: u64,
    /// Who chooses.
    pub governor: Governor,
    /// Least time between two choices, in microseconds: the sampling time of `ondemand` and `conservative`, the rate
    /// limit of `schedutil`.
    pub sampling_us: u64,
    /// From a choice to the new frequency, in microseconds.
    pub transition_us: u64,
    /// Share of a task's time at the highest frequency that waits for memory, which no frequency shortens, in percent.
    pub memory_bound_percent: Estimate,
}

/// A state of an idle CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdleState {
    /// What the processor's manual calls it.
    pub name: String,
    /// From the interrupt to the first instruction, in nanoseconds.
    pub exit_ns: Estimate,
    /// How long it must last to be worth it, in nanoseconds.
    pub residency_ns: u64,
    /// The core no longer counts as active for the turbo.
    pub deep: bool,
    /// What the core takes in it, in percent of what it takes busy at the last frequency without turbo.
    pub power_percent: Estimate,
}

/// What passing on a lock takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Locks {
    /// One way of a cache line that another CPU wrote last, in nanoseconds: within a core, below one last-level cache,
    /// within a node, between nodes.
    pub line_transfer_ns: [Estimate; 4],
    /// Part of the wakeup path in which the lock of the runqueue is held where the task goes, in nanoseconds.
    pub wakeup_hold_ns: Estimate,
    /// A passage through a lock of a program that nobody else wants, in nanoseconds, by [`AcquireCost`].
    pub acquire_ns: [Estimate; 6],
    /// By so much of a way each further CPU that polls a test-and-set lock makes its passing on longer, in percent.
    pub spinner_slowdown_percent: Estimate,
    /// A call of `futex(2)` for nothing, in nanoseconds: a wakeup when nobody sleeps, a sleep that is refused as the word has
    /// changed. A mutex that is fought for makes many.
    pub futex_ns: Estimate,
}

/// Places in [`Locks::acquire_ns`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AcquireCost {
    /// An atomic operation.
    Atomic,
    /// A reader of a sequence lock.
    Sequence,
    /// A test-and-set or ticket lock.
    Spin,
    /// A queued lock, such as MCS.
    Queued,
    /// A readers-writer lock.
    ReadWrite,
    /// A mutex.
    Mutex,
}

impl Locks {
    /// One way of a cache line between two CPUs at this distance, in nanoseconds.
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

/// What the machine takes, all relative: only ratios are reported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Power {
    /// What it takes with all cores asleep, in percent of what it takes with all busy at the last frequency without
    /// turbo.
    pub idle_percent: Estimate,
    /// Share of the voltage at that frequency that falls and rises with the frequency, in percent.
    pub voltage_slope_percent: Estimate,
}

/// All tables of effects that a machine has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Effects {
    /// Threads share cores.
    pub smt: Option<Smt>,
    /// Frequencies.
    pub frequency: Option<Frequency>,
    /// Idle states from light to deep; none: leaving idle takes [`crate::Costs::idle_exit_ns`].
    pub idle_states: Vec<IdleState>,
    /// Power.
    pub power: Option<Power>,
    /// Locks.
    pub locks: Option<Locks>,
}

impl Effects {
    /// Those that the machine has.
    pub fn modelled(&self) -> impl Iterator<Item = Effect> + '_ {
        Effect::ALL.into_iter().filter(|effect| match effect {
            Effect::Smt => self.smt.is_some(),
            Effect::Frequency => self.frequency.is_some(),
            Effect::IdleStates => !self.idle_states.is_empty(),
            Effect::Locks => self.locks.is_some(),
        })
    }

    /// Switches one off. Without frequencies there is no energy either.
    pub fn switch_off(&mut self, effect: Effect) {
        match effect {
            Effect::Smt => self.smt = None,
            Effect::Frequency => (self.frequency, self.power) = (None, None),
            Effect::IdleStates => self.idle_states.clear(),
            Effect::Locks => self.locks = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_have_names_and_can_be_switched_off() {
        let mut effects = Effects { smt: Some(Smt { throughput_percent: Vec::new() }), ..Effects::default() };
        assert_eq!(effects.modelled().collect::<Vec<_>>(), [Effect::Smt]);
        effects.switch_off("smt".parse().unwrap());
        assert_eq!(effects.modelled().count(), 0);
        assert_eq!(
            "caches".parse::<Effect>().unwrap_err(),
            "no such effect: \"caches\"; modelled are smt, frequency, idle-states, locks"
        );
    }
}
