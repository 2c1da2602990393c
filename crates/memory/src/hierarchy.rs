// SPDX-License-Identifier: GPL-2.0-only
//! The caches, the nodes and the bandwidth of a machine, and the tasks that use them.

use crate::bandwidth::{Demand, Load, rate};
use crate::cache::{Cache, SetId};
use crate::loss::{lost, part, useful};
use crate::nodes::{Home, Moved, Nodes};
use crate::working_set::WorkingSet;
use crate::{ONE, Use};
use ids::{CpuId, Locality, Nanos, Place, Placement, TaskId, Topology};
use machine_model::{Caches, Effects};
use speed::Rate;

/// Size of a page that balancing moves, in bytes.
const PAGE: u64 = 4_096;

/// Number of working sets that a private cache keeps, including those in use, which are never dropped.
const SETS_OF_A_CORE: usize = 16;
/// The same for each CPU below a last-level cache, and at least.
const SETS_OF_A_CPU: usize = 4;
const SETS_OF_AN_LLC: usize = 32;
/// Distinguishes numbers of regions from those of tasks.
const REGION: u32 = 1 << 31;

/// Number of working sets that a last-level cache of this machine keeps.
fn sets_of_llc(topology: &Topology) -> usize {
    (SETS_OF_A_CPU * topology.len() / topology.llcs().max(1)).clamp(SETS_OF_AN_LLC, 256)
}

/// Origin of the lines that a task reloads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// It used this core last; others have displaced them.
    SameCore,
    /// It used another core below the same last-level cache last.
    SameLlc,
    /// It used a core below another last-level cache of the node last.
    OtherLlc,
    /// It used another node last.
    OtherNode,
}

/// What a task reloads when it gets a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reload {
    /// Time that the task loses to it.
    pub time: Nanos,
    /// Time that the same accesses take if they hit the private cache: this is work, which is done meanwhile.
    pub beside: Nanos,
    /// Bytes that its private cache has lost.
    pub bytes: u64,
    /// Bytes of these that come from memory.
    pub from_memory: u64,
    /// CPU on which its working set was used last.
    pub last: CpuId,
    /// Distance from that CPU.
    pub source: Source,
    /// Part of `time` in which the kernel moved its memory to this node.
    pub moving: Nanos,
}

/// Times of a line in picoseconds, beyond the private cache in excess of the previous level.
#[derive(Clone, Copy, Debug)]
struct LineTimes {
    /// A hit in the private cache.
    private: u64,
    llc: u64,
    /// Latency of the last-level cache in nanoseconds.
    llc_ns: u64,
    dirty: [u64; 3],
    overlap: u64,
    line: u64,
}

impl LineTimes {
    fn new(caches: &Caches) -> LineTimes {
        let (private, llc, overlap) = (caches.private_ns.typical, caches.llc_ns.typical, caches.overlap.typical.max(1));
        let more = |latency: u64, than: u64| latency.saturating_sub(than) * 1_000 / overlap;
        LineTimes {
            private: more(private, 0),
            llc: more(llc, private),
            llc_ns: llc,
            dirty: caches.dirty_ns.map(|dirty| more(dirty.typical, llc)),
            overlap,
            line: caches.line_bytes.max(1),
        }
    }

    /// Time for these bytes at this many picoseconds a line.
    fn time(&self, bytes: u64, ps: u64) -> u64 {
        (u128::from(bytes) * u128::from(ps) / u128::from(1_000 * self.line)) as u64
    }
}

/// A task.
#[derive(Clone, Debug)]
struct Task {
    uses: Use,
    /// Its own working set; regions have theirs.
    set: WorkingSet,
    /// Reload time that it began its time on the CPU with, and the bytes that its private cache and its last-level
    /// cache had lost.
    reload: [u64; 3],
    /// Run time on another node than its memory's.
    away: Nanos,
    /// Time that the move of its memory to another node takes, to be paid when it runs next.
    moving: Nanos,
}

/// Task on a CPU.
#[derive(Clone, Copy, Debug)]
struct Running {
    task: TaskId,
    since: Nanos,
    /// Its stream now, in MB/s.
    stream: u64,
    rate: u64,
    /// Home of its memory when it got the CPU. That of a region may change meanwhile.
    home: Home,
}

/// Memory of a machine.
#[derive(Clone, Debug)]
pub struct Memory {
    places: Vec<Place>,
    topology: Topology,
    times: Option<LineTimes>,
    private: Vec<Cache>,
    llc: Vec<Cache>,
    nodes: Nodes,
    load: Load,
    has_nodes: bool,
    placement: Placement,
    balance: Nanos,
    move_page: u64,
    tasks: Vec<Option<Box<Task>>>,
    regions: Vec<Option<WorkingSet>>,
    running: Vec<Option<Running>>,
    /// CPUs of each core.
    siblings: Vec<Vec<CpuId>>,
    /// CPUs with tasks that wait for memory.
    active: Vec<CpuId>,
    /// The demand has changed since rates were last computed.
    stale: bool,
    /// Reload times owed by tasks on SMT siblings whose lines were displaced, and the work done meanwhile.
    of_siblings: Vec<(CpuId, Nanos, Nanos)>,
}

impl Memory {
    /// Creates the memory of a machine; `None` if it models no effect of memory.
    pub fn new(effects: &Effects, topology: &Topology) -> Option<Memory> {
        if effects.caches.is_none() && effects.numa.is_none() && effects.bandwidth.is_none() {
            return None;
        }
        let bytes = |kib: &dyn Fn(&Caches) -> u64| effects.caches.as_ref().map_or(0, |caches| 1_024 * kib(caches));
        let most = sets_of_llc(topology);
        let llc = |llc: usize| Cache::new(bytes(&|caches| caches.llc_kb(llc)), most);
        let nodes = Nodes::new(effects, topology);
        let numa = effects.numa.as_ref();
        let mut siblings = vec![Vec::new(); topology.cores()];
        topology.cpus().iter().for_each(|cpu| siblings[topology.place(cpu).core as usize].push(cpu));
        Some(Memory {
            places: topology.places.clone(),
            topology: topology.clone(),
            times: effects.caches.as_ref().map(LineTimes::new),
            private: vec![Cache::new(bytes(&|caches| caches.private_kb), SETS_OF_A_CORE); topology.cores()],
            llc: (0..topology.llcs()).map(llc).collect(),
            load: Load::new(effects.bandwidth.as_ref(), nodes.len()),
            nodes,
            has_nodes: numa.is_some(),
            placement: numa.map(|numa| numa.placement).unwrap_or_default(),
            balance: Nanos(numa.map_or(u64::MAX, |numa| numa.balance_ms.saturating_mul(1_000_000))),
            move_page: numa.map_or(0, |numa| numa.move_page_ns.typical),
            tasks: Vec::new(),
            regions: Vec::new(),
            running: vec![None; topology.len()],
            siblings,
            active: Vec::new(),
            stale: false,
            of_siblings: Vec::new(),
        })
    }

    /// Describes a new task; tasks without a description cost nothing.
    pub fn add_task(&mut self, task: TaskId, uses: Use) {
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, None);
        }
        if uses == Use::default() {
            return;
        }
        if let Some(region) = uses.region {
            let number = region as usize;
            if self.regions.len() <= number {
                self.regions.resize(number + 1, None);
            }
            let set = self.regions[number].get_or_insert(WorkingSet::new(0));
            set.footprint = set.footprint.max(uses.footprint);
        }
        let set = WorkingSet::new(uses.footprint);
        self.tasks[task.index()] =
            Some(Box::new(Task { uses, set, reload: [0; 3], away: Nanos::ZERO, moving: Nanos::ZERO }));
    }

    /// `task` gets `cpu`. Returns what it reloads; `None` if nothing, or if its use of memory is unknown. Its first
    /// time on a CPU reloads nothing: what it then loads is part of its work on any machine.
    pub fn enter(&mut self, now: Nanos, task: TaskId, cpu: CpuId) -> Option<Reload> {
        let mut entry = self.tasks.get_mut(task.index())?.take()?;
        let place = self.places[cpu.index()];
        let (id, mut set) = self.set_of(task, &entry);
        let placement = entry.uses.placement.unwrap_or(self.placement);
        let home = *set.home.get_or_insert(match placement {
            Placement::Interleave => Home::All,
            Placement::Node(node) if (node as usize) < self.nodes.len() => Home::Node(node),
            _ => Home::Node(place.node),
        });
        let (reload, lost) = match self.times {
            Some(times) if set.footprint > 0 => self.load_set(now, (id, &set), cpu, times, entry.uses.dirty_percent),
            _ => (None, [0; 2]),
        };
        set.last = Some(cpu);
        let moving = std::mem::take(&mut entry.moving);
        entry.reload = [reload.map_or(0, |reload| reload.time.0), lost[0], lost[1]];
        self.put_set(&mut entry, set);
        self.running[cpu.index()] = Some(Running { task, since: now, stream: 0, rate: ONE, home });
        if entry.uses.share_percent > 0 {
            self.active.push(cpu);
            self.stale |= self.load.is_limited();
        }
        let rate = self.rate_of(&entry.uses, home, place.node);
        self.tasks[task.index()] = Some(entry);
        self.set_rate(now, cpu, rate);
        match moving {
            Nanos::ZERO => reload,
            moving => {
                let none = Reload {
                    time: Nanos::ZERO,
                    beside: Nanos::ZERO,
                    bytes: 0,
                    from_memory: 0,
                    last: cpu,
                    source: Source::SameCore,
                    moving: Nanos::ZERO,
                };
                let reload = reload.unwrap_or(none);
                Some(Reload { time: reload.time + moving, moving, ..reload })
            }
        }
    }

    /// Computes what is lost of a working set that is used on `cpu` now, and loads it. Also returns the bytes lost by
    /// the private and by the last-level cache.
    fn load_set(
        &mut self,
        now: Nanos,
        (id, set): (SetId, &WorkingSet),
        cpu: CpuId,
        times: LineTimes,
        dirty_percent: u64,
    ) -> (Option<Reload>, [u64; 2]) {
        let place = self.places[cpu.index()];
        let (core, llc) = (place.core as usize, place.llc as usize);
        for place in [place, self.places[set.last.unwrap_or(cpu).index()]] {
            self.private[place.core as usize].advance(now);
            self.llc[place.llc as usize].advance(now);
        }
        let (private, shared) = (&self.private[core], &self.llc[llc]);
        let near = useful(set.footprint, private.capacity());
        let far = useful(set.footprint, shared.capacity());
        let Some(last) = set.last else {
            self.private[core].enter(id, near);
            self.llc[llc].enter(id, far);
            return (None, [0; 2]);
        };
        let source = match self.topology.locality(last, cpu) {
            Locality::Same | Locality::Smt => Source::SameCore,
            Locality::Llc => Source::SameLlc,
            Locality::Node => Source::OtherLlc,
            Locality::Far => Source::OtherNode,
        };
        // Written lines are only in the cache of the core, or of the group of cores, that used them last.
        let elsewhere = self.places[last.index()];
        let written = |size: u64, is_elsewhere: bool| if is_elsewhere { size * dirty_percent / 100 } else { 0 };
        let near_dirty = written(near, source != Source::SameCore);
        let far_dirty = written(far, elsewhere.llc != place.llc);
        let near_lost = near_dirty + private.lost(id, near - near_dirty);
        let far_lost = far_dirty + shared.lost(id, far - far_dirty);
        // What the other cache has lost of the written lines meanwhile is in the level behind it.
        let (from_caches, distance) = match source {
            Source::SameCore => (0, 0),
            Source::SameLlc => (near_dirty - self.private[elsewhere.core as usize].lost(id, near_dirty), 0),
            Source::OtherLlc => (far_dirty - self.llc[elsewhere.llc as usize].lost(id, far_dirty), 1),
            Source::OtherNode => (far_dirty - self.llc[elsewhere.llc as usize].lost(id, far_dirty), 2),
        };
        let from_memory = if source == Source::SameLlc { far_lost } else { far_lost.saturating_sub(from_caches) };
        let home = set.home.expect("it is placed before");
        let memory = self.nodes.latency(place.node, home).saturating_sub(times.llc_ns) * 1_000 / times.overlap;
        let time = times.time(near_lost, times.llc)
            + times.time(from_memory, memory)
            + times.time(from_caches, times.dirty[distance]);
        self.private[core].enter(id, near);
        self.llc[llc].enter(id, far);
        self.nodes.load(place.node, home, from_memory);
        if near_lost > 0 && self.siblings[core].len() > 1 {
            self.displace_siblings(cpu, near_lost, times);
        }
        let bytes = near_lost.max(from_memory);
        let beside = Nanos(times.time(bytes, times.private));
        let reload = Reload { time: Nanos(time), beside, bytes, from_memory, last, source, moving: Nanos::ZERO };
        ((bytes > 0).then_some(reload), [near_lost, far_lost])
    }

    /// A task on `cpu` loaded these bytes into the cache that it shares with the tasks on its siblings.
    fn displace_siblings(&mut self, cpu: CpuId, loaded: u64, times: LineTimes) {
        let core = self.places[cpu.index()].core as usize;
        let capacity = self.private[core].capacity();
        for &sibling in &self.siblings[core] {
            let running = self.running[sibling.index()].filter(|_| sibling != cpu);
            let Some(entry) = running.and_then(|running| self.tasks[running.task.index()].as_ref()) else { continue };
            let near = useful(entry.uses.footprint, capacity);
            let bytes = part(near, lost(near, loaded, capacity));
            if bytes > 0 {
                let [time, beside] = [times.llc, times.private].map(|ps| Nanos(times.time(bytes, ps)));
                self.of_siblings.push((sibling, time, beside));
            }
        }
    }

    /// `task` leaves `cpu`, where it still had to reload for the time `unpaid`.
    pub fn leave(&mut self, now: Nanos, task: TaskId, cpu: CpuId, unpaid: Nanos) {
        let Some(running) = self.running[cpu.index()].take() else { return };
        debug_assert_eq!(running.task, task, "the task on CPU {cpu}");
        let Some(mut entry) = self.tasks[task.index()].take() else { return };
        let place = self.places[cpu.index()];
        let (id, mut set) = self.set_of(task, &entry);
        let home = set.home.expect("it is placed when it gets a CPU");
        self.change_stream(now, cpu, running.home, running.stream, 0);
        if self.times.is_some() && set.footprint > 0 {
            let [owed, near, far] = entry.reload;
            let missing = |lost: u64| (lost * unpaid.0.min(owed)).checked_div(owed).unwrap_or(0);
            let (private, llc) = (&mut self.private[place.core as usize], &mut self.llc[place.llc as usize]);
            private.advance(now);
            llc.advance(now);
            private.leave(id, missing(near));
            llc.leave(id, missing(far));
        }
        if entry.uses.placement.unwrap_or(self.placement) == Placement::Balancing && home != Home::Node(place.node) {
            entry.away += now - running.since;
            if entry.away >= self.balance {
                set.home = Some(Home::Node(place.node));
                entry.moving = Nanos(set.footprint.div_ceil(PAGE) * self.move_page);
                entry.away = Nanos::ZERO;
            }
        } else {
            entry.away = Nanos::ZERO;
        }
        self.put_set(&mut entry, set);
        if entry.uses.share_percent > 0 {
            let at = self.active.iter().position(|&active| active == cpu).expect("it was active");
            self.active.swap_remove(at);
            self.stale |= self.load.is_limited();
        }
        self.tasks[task.index()] = Some(entry);
    }

    /// The private cache of the core of `cpu` is emptied by a deep idle state.
    pub fn flush(&mut self, cpu: CpuId) {
        self.private[self.places[cpu.index()].core as usize].flush();
    }

    /// Rate at which memory lets the task on `cpu` work.
    pub fn rate(&self, cpu: CpuId) -> Rate {
        match self.running[cpu.index()] {
            Some(running) => Rate::ratio(running.rate, ONE),
            None => Rate::ONE,
        }
    }

    /// Whether the demand for bandwidth has changed since [`Memory::solve`].
    pub fn is_stale(&self) -> bool {
        self.stale
    }

    /// Computes all rates for the demand of now; adds to `changed` the CPUs whose rates have changed.
    pub fn solve(&mut self, now: Nanos, changed: &mut Vec<CpuId>) {
        self.stale = false;
        let mut demands: Vec<Demand> = Vec::new();
        for &cpu in &self.active {
            let (uses, home) = self.on(cpu);
            let node = self.places[cpu.index()].node;
            let Use { share_percent, stream_mb_s, .. } = uses;
            let one = Demand { node, home, share_percent, stream_mb_s, count: 1 };
            match demands.iter_mut().find(|other| Demand { count: 1, ..**other } == one) {
                Some(like) => like.count += 1,
                None => demands.push(one),
            }
        }
        self.load.solve(&self.nodes, &demands);
        for index in 0..self.active.len() {
            let cpu = self.active[index];
            let (uses, home) = self.on(cpu);
            let rate = self.rate_of(&uses, home, self.places[cpu.index()].node);
            if self.running[cpu.index()].is_some_and(|running| running.rate != rate) {
                self.set_rate(now, cpu, rate);
                changed.push(cpu);
            }
        }
    }

    /// Takes the reloads of tasks whose caches were displaced by tasks on siblings: [`Reload::time`] and
    /// [`Reload::beside`] of each.
    pub fn take_of_siblings(&mut self, into: &mut Vec<(CpuId, Nanos, Nanos)>) {
        into.append(&mut self.of_siblings);
    }

    /// Bytes loaded from the memory of each node up to `now`.
    pub fn moved(&mut self, now: Nanos) -> Vec<Moved> {
        self.nodes.moved(now)
    }

    /// Home of the memory of a task; `None` before its first use, or if it is unknown.
    pub fn home(&self, task: TaskId) -> Option<Home> {
        let entry = self.tasks.get(task.index())?.as_ref()?;
        match entry.uses.region {
            Some(region) => self.regions[region as usize].as_ref()?.home,
            None => entry.set.home,
        }
    }

    /// Working set of a task: its own, or its region's.
    fn set_of(&self, task: TaskId, entry: &Task) -> (SetId, WorkingSet) {
        match entry.uses.region {
            Some(region) => (SetId(region | REGION), self.regions[region as usize].expect("it was described")),
            None => (SetId(task.0), entry.set),
        }
    }

    fn put_set(&mut self, entry: &mut Task, set: WorkingSet) {
        match entry.uses.region {
            Some(region) => self.regions[region as usize] = Some(set),
            None => entry.set = set,
        }
    }

    /// Use and home of the task on `cpu`.
    fn on(&self, cpu: CpuId) -> (Use, Home) {
        let Running { task, home, .. } = self.running[cpu.index()].expect("a task runs there");
        let uses = self.tasks[task.index()].as_ref().expect("its use is known").uses;
        (uses, home)
    }

    fn rate_of(&self, uses: &Use, home: Home, node: u32) -> u64 {
        if uses.share_percent == 0 || !(self.has_nodes || self.load.is_limited()) {
            return ONE;
        }
        rate(uses.share_percent, self.load.longer(&self.nodes, node, home))
    }

    /// The task on `cpu` works at this rate from now on, so its stream has this rate as well.
    fn set_rate(&mut self, now: Nanos, cpu: CpuId, rate: u64) {
        let (uses, home) = self.on(cpu);
        let stream = part(uses.stream_mb_s, rate);
        let running = self.running[cpu.index()].as_mut().expect("a task runs there");
        let old = std::mem::replace(&mut running.stream, stream);
        running.rate = rate;
        self.change_stream(now, cpu, home, old, stream);
    }

    fn change_stream(&mut self, now: Nanos, cpu: CpuId, home: Home, old: u64, new: u64) {
        if old == new {
            return;
        }
        let place = self.places[cpu.index()];
        self.private[place.core as usize].change_stream(now, old, new);
        self.llc[place.llc as usize].change_stream(now, old, new);
        self.nodes.change_stream(now, place.node, home, old, new);
    }
}
