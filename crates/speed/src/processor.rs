// SPDX-License-Identifier: GPL-2.0-only
//! The CPUs of a machine: who is busy, and at which rate work gets done there.

use crate::decay::Utilization;
use crate::energy::PowerModel;
use crate::frequency::{Domain, Frequencies, Package, Timer};
use crate::idle::{History, choose};
use crate::rate::Rate;
use ids::{CpuId, Nanos, Place, Topology};
use machine_model::{Effect, Effects, Group, IdleState};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What `schedutil` goes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Signal {
    /// The targets that a sched_ext scheduler sets with `scx_bpf_cpuperf_set`; 1024 until then. All tasks are its own,
    /// so the kernel does not look at utilization.
    #[default]
    Targets,
    /// The utilization of each CPU, as with the kernel's own scheduler.
    Utilization,
}

/// What is known of a CPU.
#[derive(Clone, Debug)]
pub(crate) struct Cpu {
    pub core: u32,
    pub domain: u32,
    /// Executes something.
    pub busy: bool,
    /// `busy_time` and `utilization` hold all up to here.
    pub accrued: Nanos,
    pub busy_time: Nanos,
    pub utilization: Utilization,
    /// What the scheduler set, of 1024.
    pub target: u32,
    /// Went idle since the governor last chose.
    pub idled: bool,
    /// Of the fastest kind of core.
    pub capacity: Rate,
    history: History,
    idle_since: Nanos,
    /// Idle state that it asked for.
    idle_state: u8,
}

/// What is known of a core.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    pub cpus: Vec<u32>,
    pub package: u32,
    pub busy: u8,
    idle_since: Nanos,
    /// Lightest state that its threads asked for.
    idle_state: u8,
    energy: u128,
    settled: Nanos,
}

/// The CPUs of a machine.
#[derive(Clone, Debug)]
pub struct Processor {
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) cores: Vec<Core>,
    pub(crate) domains: Vec<Domain>,
    pub(crate) packages: Vec<Package>,
    pub(crate) frequencies: Option<Frequencies>,
    pub(crate) timers: BinaryHeap<Reverse<(Nanos, Timer)>>,
    pub(crate) changed: Vec<CpuId>,
    /// What each of 1, 2, … busy threads of a core gets; empty: all.
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
    /// All idle at time 0. `tick` is the time between two ticks.
    /// `None` if the machine has no effect that changes a rate or a state: then every rate is 1.
    pub fn new(effects: &Effects, topology: &Topology, tick: Nanos, signal: Signal) -> Option<Processor> {
        effects.modelled().find(|&effect| effect != Effect::Locks)?;
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
            capacity: Rate::ratio(topology.capacities[index].into(), Topology::FULL_CAPACITY.into()),
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

    /// At which rate work gets done on a busy CPU.
    pub fn rate(&self, cpu: CpuId) -> Rate {
        let entry = &self.cpus[cpu.index()];
        let busy = self.cores[entry.core as usize].busy.max(1);
        let rate = match &self.frequencies {
            Some(frequencies) => frequencies.rate(self.mhz(cpu.0)).times(entry.capacity),
            None => Rate::ONE,
        };
        match self.shares.get(busy as usize - 1) {
            Some(&share) => rate.times(share),
            None => rate,
        }
    }

    /// How fast the CPU is now, of 1024 for the highest frequency of the fastest CPU. SMT does not count.
    pub fn performance(&self, cpu: CpuId) -> u32 {
        let Some(frequencies) = &self.frequencies else { return 1024 };
        let highest = u64::from(frequencies.ladder.highest());
        (u64::from(self.mhz(cpu.0)) * 1024 / highest) as u32
    }

    /// An interrupt reaches an idle CPU, which is busy from now on: how long it takes to leave its idle state. `own` says
    /// that it was this CPU's timer. `None`: this machine has no idle states.
    pub fn begin(&mut self, now: Nanos, cpu: CpuId, own: bool) -> Option<Nanos> {
        self.accrue(now, cpu.0);
        let entry = &mut self.cpus[cpu.index()];
        debug_assert!(!entry.busy, "CPU {cpu} is busy already");
        entry.busy = true;
        let idled = now.since(entry.idle_since);
        let expected = if own { entry.history.expect().min(idled) } else { entry.history.expect() };
        entry.history.record(idled);
        let (core, domain) = (entry.core, entry.domain);
        let exit = self.exit(core, expected, idled, own);
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

    /// How long it takes to leave the idle state. While another thread of the core is busy, the core is in none.
    fn exit(&self, core: u32, expected: Nanos, idled: Nanos, own: bool) -> Option<Nanos> {
        let states = &self.idle_states;
        let core = &self.cores[core as usize];
        if states.is_empty() {
            return None;
        }
        let first = choose(states, expected);
        let state = match idled > self.tick {
            _ if core.busy > 0 => 0,
            true if own => first.max(choose(states, idled - self.tick)),
            true => states.len() - 1,
            false => first,
        };
        Some(Nanos(states[state].exit_ns.typical))
    }

    /// A CPU has nothing more to do.
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

    /// CPUs whose rate may have changed since this was last asked; a CPU may stand there twice.
    pub fn take_changed(&mut self, into: &mut Vec<CpuId>) {
        into.append(&mut self.changed);
    }

    /// Whether [`Processor::take_changed`] has anything.
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// What the machine took up to `now`, in parts per million of what it takes with all cores busy at the last frequency
    /// without turbo.
    pub fn energy_ratio_ppm(&mut self, now: Nanos) -> Option<u64> {
        (0..self.cores.len() as u32).for_each(|core| self.settle_energy(now, core));
        let took = self.cores.iter().map(|core| core.energy).sum();
        self.power.as_ref()?.ratio_ppm(took, self.cores.len(), now)
    }

    /// A thread of the core began or ended.
    fn siblings_change(&mut self, core: u32) {
        if !self.shares.is_empty() {
            let (cpus, changed) = (&self.cpus, &mut self.changed);
            let busy = self.cores[core as usize].cpus.iter().filter(|&&cpu| cpus[cpu as usize].busy);
            changed.extend(busy.map(|&cpu| CpuId(cpu)));
        }
    }

    /// Brings what a CPU used up to now, at the frequency that it has.
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

    /// Whether the core counts as active for the turbo, and if that ends by itself, when.
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

    /// Brings the energy of a core up to now.
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
        Core { cpus: Vec::new(), package: 0, busy: 0, idle_since: nothing, idle_state, energy: 0, settled: nothing }
    }
}

fn deepest(states: &[IdleState]) -> u8 {
    states.len().saturating_sub(1) as u8
}

/// Of t busy threads each gets y_t / t.
fn shares(smt: &machine_model::Smt) -> Vec<Rate> {
    let of = |(threads, throughput): (u64, &machine_model::Estimate)| Rate::ratio(throughput.typical, 100 * threads);
    std::iter::once(Rate::ONE).chain((2..).zip(&smt.throughput_percent).map(of)).collect()
}
