// SPDX-License-Identifier: GPL-2.0-only
//! Busy and idle CPUs of a machine, and the rate at which work executes on each.

use crate::decay::Utilization;
use crate::energy::PowerModel;
use crate::frequency::{Domain, Frequencies, Package, Timer};
use crate::idle::{History, choose};
use crate::rate::Rate;
use ids::{CpuId, Nanos, Place, Topology};
use machine_model::{Effect, Effects, Group, IdleState};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Input of the `schedutil` governor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Signal {
    /// Targets that a sched_ext scheduler sets with `scx_bpf_cpuperf_set`; 1024 until set. All tasks belong to that
    /// scheduler, so the kernel ignores utilization.
    #[default]
    Targets,
    /// Utilization of each CPU, as with the default scheduler.
    Utilization,
}

/// State of a CPU.
#[derive(Clone, Debug)]
pub(crate) struct Cpu {
    pub core: u32,
    pub domain: u32,
    /// The CPU executes something.
    pub busy: bool,
    /// Time up to which `busy_time` and `utilization` are accounted.
    pub accrued: Nanos,
    pub busy_time: Nanos,
    pub utilization: Utilization,
    /// Performance target set by the scheduler, from 0 to 1024.
    pub target: u32,
    /// The CPU became idle since the governor's last choice.
    pub idled: bool,
    /// Capacity relative to the fastest kind of core.
    pub capacity: Rate,
    history: History,
    idle_since: Nanos,
    /// Idle state that the CPU requested.
    idle_state: u8,
}

/// State of a core.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    pub cpus: Vec<u32>,
    pub package: u32,
    pub busy: u16,
    idle_since: Nanos,
    /// Lightest idle state requested by the core's threads.
    idle_state: u8,
    /// The core has been in a deep idle state since this was last asked for.
    emptied: bool,
    energy: u128,
    settled: Nanos,
}

/// CPUs of a machine with their rates, frequencies and idle states.
#[derive(Clone, Debug)]
pub struct Processor {
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) cores: Vec<Core>,
    pub(crate) domains: Vec<Domain>,
    pub(crate) packages: Vec<Package>,
    pub(crate) frequencies: Option<Frequencies>,
    pub(crate) timers: BinaryHeap<Reverse<(Nanos, Timer)>>,
    pub(crate) changed: Vec<CpuId>,
    /// Element t - 1 is the share of a core that each of t busy threads gets; empty if SMT is not modelled (share 1).
    shares: Vec<Rate>,
    pub(crate) idle_states: Vec<IdleState>,
    power: Option<PowerModel>,
    pub(crate) tick: Nanos,
    pub(crate) signal: Signal,
}

fn group_of(place: Place, group: Group) -> u32 {
    match group {
        Group::Core => place.core,
        Group::Llc => place.llc,
        Group::Node => place.node,
        Group::Machine => 0,
    }
}

impl Processor {
    /// Creates a processor whose CPUs are all idle at time 0; `tick` is the tick period. `None` if the machine models
    /// no effect on rates or idle states: then every rate is 1.
    pub fn new(effects: &Effects, topology: &Topology, tick: Nanos, signal: Signal) -> Option<Processor> {
        effects.modelled().find(|&effect| effect != Effect::Locks && !Effect::OF_MEMORY.contains(&effect))?;
        let places = &topology.places;
        let frequencies = effects.frequency.as_ref().map(Frequencies::new);
        let (domain, package) = effects.frequency.as_ref().map(|f| (f.domain, f.turbo_domain)).unwrap_or_default();
        let count =
            |group| places.iter().map(|&place| group_of(place, group)).max().map_or(0, |last| last as usize + 1);
        let cpu = |(index, &place): (usize, &Place)| Cpu {
            core: place.core,
            domain: group_of(place, domain),
            busy: false,
            accrued: Nanos::ZERO,
            busy_time: Nanos::ZERO,
            utilization: Utilization::default(),
            target: 1024,
            idled: false,
            capacity: match effects.capacity {
                true => Rate::ratio(topology.capacities[index].into(), Topology::FULL_CAPACITY.into()),
                false => Rate::ONE,
            },
            history: History::EMPTY,
            idle_since: Nanos::ZERO,
            idle_state: deepest(&effects.idle_states),
        };
        let cpus = places.iter().enumerate().map(cpu).collect();
        let mut cores = vec![Core::new(deepest(&effects.idle_states)); count(Group::Core)];
        let mut domains = vec![Domain::default(); count(domain)];
        for (index, &place) in places.iter().enumerate() {
            let core = &mut cores[place.core as usize];
            core.cpus.push(index as u32);
            core.package = group_of(place, package);
            domains[group_of(place, domain) as usize].cpus.push(index as u32);
        }
        let mut packages = vec![Package::default(); count(package)];
        for (index, core) in cores.iter().enumerate() {
            packages[core.package as usize].cores.push(index as u32);
        }
        let base = effects.frequency.as_ref().and_then(|f| f.mhz.last().copied());
        let mut processor = Processor {
            cpus,
            cores,
            domains,
            packages,
            frequencies,
            timers: BinaryHeap::new(),
            changed: Vec::new(),
            shares: effects.smt.as_ref().map_or_else(Vec::new, shares),
            idle_states: effects.idle_states.clone(),
            power: effects.power.as_ref().zip(base).map(|(power, base)| PowerModel::new(power, base)),
            tick,
            signal,
        };
        processor.choose_first();
        Some(processor)
    }

    /// Rate at which work executes on a busy CPU.
    pub fn rate(&self, cpu: CpuId) -> Rate {
        let entry = &self.cpus[cpu.index()];
        let busy = self.cores[entry.core as usize].busy.max(1);
        let rate = match &self.frequencies {
            Some(frequencies) => frequencies.rate(self.mhz(cpu.0)).times(entry.capacity),
            None => entry.capacity,
        };
        match self.shares.get(busy as usize - 1) {
            Some(&share) => rate.times(share),
            None => rate,
        }
    }

    /// Current performance of the CPU, from 0 to 1024 for the highest frequency of the fastest kind of core. SMT is
    /// not included.
    pub fn performance(&self, cpu: CpuId) -> u32 {
        let Some(frequencies) = &self.frequencies else { return 1024 };
        let highest = u64::from(frequencies.ladder.highest());
        (u64::from(self.mhz(cpu.0)) * 1024 / highest) as u32
    }

    /// Makes an idle CPU busy at the arrival of an interrupt, and returns the exit latency of its idle state. `own`:
    /// the interrupt is the CPU's own timer. `None`: the machine has no idle states.
    pub fn begin(&mut self, now: Nanos, cpu: CpuId, own: bool) -> Option<Nanos> {
        self.accrue(now, cpu.0);
        let entry = &mut self.cpus[cpu.index()];
        debug_assert!(!entry.busy, "CPU {cpu} is busy already");
        entry.busy = true;
        let idled = now.since(entry.idle_since);
        let expected = if own { entry.history.expect().min(idled) } else { entry.history.expect() };
        entry.history.record(idled);
        let (core, domain) = (entry.core, entry.domain);
        let state = self.state_at_exit(core, expected, idled, own);
        self.cores[core as usize].emptied |= state.is_some_and(|state| self.idle_states[state].deep);
        let exit = state.map(|state| Nanos(self.idle_states[state].exit_ns.typical));
        if self.cores[core as usize].busy == 0 {
            self.settle_energy(now, core);
            self.look_at_turbo(now, self.cores[core as usize].package);
        }
        self.cores[core as usize].busy += 1;
        self.siblings_change(core);
        self.changed.push(cpu);
        self.domain_event(now, domain);
        exit
    }

    /// Whether the core of `cpu` has been in a deep idle state, which empties its caches, since the last call.
    pub fn take_emptied(&mut self, cpu: CpuId) -> bool {
        let core = self.cpus[cpu.index()].core;
        std::mem::take(&mut self.cores[core as usize].emptied)
    }

    /// Idle state that the core leaves; the lightest while another thread of the core is busy.
    fn state_at_exit(&self, core: u32, expected: Nanos, idled: Nanos, own: bool) -> Option<usize> {
        let states = &self.idle_states;
        let core = &self.cores[core as usize];
        if states.is_empty() {
            return None;
        }
        let first = choose(states, expected);
        Some(match idled > self.tick {
            _ if core.busy > 0 => 0,
            true if own => first.max(choose(states, idled - self.tick)),
            true => states.len() - 1,
            false => first,
        })
    }

    /// Makes a busy CPU idle.
    pub fn end(&mut self, now: Nanos, cpu: CpuId) {
        self.accrue(now, cpu.0);
        let state = match self.idle_states.is_empty() {
            true => 0,
            false => choose(&self.idle_states, self.cpus[cpu.index()].history.expect()) as u8,
        };
        let entry = &mut self.cpus[cpu.index()];
        debug_assert!(entry.busy, "CPU {cpu} is idle already");
        (entry.busy, entry.idle_since, entry.idle_state) = (false, now, state);
        let (core, domain) = (entry.core, entry.domain);
        if self.cores[core as usize].busy == 1 {
            self.settle_energy(now, core);
            let lightest = self.cores[core as usize].cpus.iter().map(|&cpu| self.cpus[cpu as usize].idle_state).min();
            let entry = &mut self.cores[core as usize];
            (entry.idle_since, entry.idle_state) = (now, lightest.expect("a core has CPUs"));
            self.look_at_turbo(now, self.cores[core as usize].package);
        }
        self.cores[core as usize].busy -= 1;
        self.siblings_change(core);
        self.domain_event(now, domain);
        self.cpus[cpu.index()].idled = true;
    }

    /// Moves to `into` the CPUs whose rate may have changed since the last call; a CPU may occur twice.
    pub fn take_changed(&mut self, into: &mut Vec<CpuId>) {
        into.append(&mut self.changed);
    }

    /// Whether [`Processor::take_changed`] would return a CPU.
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Energy consumed up to `now`, in parts per million of that of a machine whose cores are all busy at the highest
    /// non-turbo frequency.
    pub fn energy_ratio_ppm(&mut self, now: Nanos) -> Option<u64> {
        (0..self.cores.len() as u32).for_each(|core| self.settle_energy(now, core));
        let took = self.cores.iter().map(|core| core.energy).sum();
        self.power.as_ref()?.ratio_ppm(took, self.cores.len(), now)
    }

    /// Reports a change of rate for all threads of the core after one became busy or idle.
    fn siblings_change(&mut self, core: u32) {
        if !self.shares.is_empty() {
            let (cpus, changed) = (&self.cpus, &mut self.changed);
            let busy = self.cores[core as usize].cpus.iter().filter(|&&cpu| cpus[cpu as usize].busy);
            changed.extend(busy.map(|&cpu| CpuId(cpu)));
        }
    }

    /// Accounts a CPU's busy time and utilization up to `now`, at its current frequency.
    pub(crate) fn accrue(&mut self, now: Nanos, cpu: u32) {
        let mhz = self.frequencies.as_ref().map(|f| (self.mhz(cpu), f.ladder.highest()));
        let entry = &mut self.cpus[cpu as usize];
        let time = now - std::mem::replace(&mut entry.accrued, now);
        if entry.busy {
            entry.busy_time += time;
        }
        if self.signal == Signal::Utilization
            && let Some((mhz, highest)) = mhz
        {
            match entry.busy {
                true => entry.utilization.busy(time, mhz, highest),
                false => entry.utilization.idle(time),
            }
        }
    }

    /// Whether the core counts as active for the turbo budget, and the time at which that ends by itself, if it does.
    pub(crate) fn is_active(&self, now: Nanos, core: u32) -> (bool, Option<Nanos>) {
        let core = &self.cores[core as usize];
        let deep = |state: usize| self.idle_states.get(state).is_none_or(|state| state.deep);
        let looks_again = core.idle_since + self.tick;
        if core.busy > 0 {
            (true, None)
        } else if deep(core.idle_state.into()) {
            (false, None)
        } else if now >= looks_again {
            (!deep(self.idle_states.len() - 1), None)
        } else {
            (true, Some(looks_again))
        }
    }

    /// Accounts a core's energy up to `now`.
    pub(crate) fn settle_energy(&mut self, now: Nanos, core: u32) {
        let Some(power) = &self.power else { return };
        let mhz = self.mhz(self.cores[core as usize].cpus[0]);
        let states = &self.idle_states;
        let entry = &mut self.cores[core as usize];
        let from = std::mem::replace(&mut entry.settled, now);
        let takes = |state: usize| power.idle(states.get(state).map_or(0, |state| state.power_percent.typical));
        let cost = |time: Nanos, power: u64| u128::from(time.0) * u128::from(power);
        if entry.busy > 0 {
            entry.energy += cost(now - from, power.busy(mhz));
        } else {
            let deeper = (entry.idle_since + self.tick).max(from).min(now);
            entry.energy += cost(deeper - from, takes(entry.idle_state.into()));
            entry.energy += cost(now - deeper, takes(states.len().saturating_sub(1)));
        }
    }
}

impl Core {
    fn new(idle_state: u8) -> Core {
        let nothing = Nanos::ZERO;
        Core {
            cpus: Vec::new(),
            package: 0,
            busy: 0,
            idle_since: nothing,
            idle_state,
            emptied: false,
            energy: 0,
            settled: nothing,
        }
    }
}

fn deepest(states: &[IdleState]) -> u8 {
    states.len().saturating_sub(1) as u8
}

/// With t busy threads and a core throughput of y_t, each gets y_t / t.
fn shares(smt: &machine_model::Smt) -> Vec<Rate> {
    let of = |(threads, throughput): (u64, &machine_model::Estimate)| Rate::ratio(throughput.typical, 100 * threads);
    std::iter::once(Rate::ONE).chain((2..).zip(&smt.throughput_percent).map(of)).collect()
}
