// SPDX-License-Identifier: GPL-2.0-only
//! Built-in idle tracking and the default choice of a CPU (contract 1.8).

use super::Core;
use super::task::RunState;
use crate::api::Topology;
use ids::{CpuId, CpuSet, TaskId};

/// `-EBUSY`.
const EBUSY: i32 = -16;
/// `-EINVAL`.
const EINVAL: i32 = -22;
/// SCX_PICK_IDLE_CORE: only CPUs of fully idle cores.
pub(crate) const PICK_IDLE_CORE: u64 = 1;
/// SCX_PICK_IDLE_IN_NODE: do not leave the node.
pub(crate) const PICK_IDLE_IN_NODE: u64 = 2;
/// SCX_WAKE_SYNC.
const WAKE_SYNC: u64 = 0x10;

/// The groups of CPUs that a search walks. They never change.
#[derive(Debug)]
pub(crate) struct Spans {
    /// Every CPU.
    all: CpuSet,
    /// CPUs of each core, last-level cache and node.
    core: Vec<CpuSet>,
    llc: Vec<CpuSet>,
    node: Vec<CpuSet>,
    /// Which of them a CPU belongs to.
    topology: Topology,
    /// Some core has more than one CPU.
    smt: bool,
    /// The search looks in the LLC first: there is more than one LLC.
    use_llc: bool,
    /// The search looks in the node second: nodes are not the same sets as LLCs, and there is more than one.
    use_node: bool,
}

impl Spans {
    fn new(topology: &Topology) -> Spans {
        let spans = |groups: &[u32]| {
            let mut spans = vec![CpuSet::new(); groups.iter().max().map_or(0, |&last| last as usize + 1)];
            for (cpu, &group) in groups.iter().enumerate() {
                spans[group as usize].insert(CpuId(cpu as u32));
            }
            spans
        };
        let (core, llc, node) = (spans(&topology.core), spans(&topology.llc), spans(&topology.node));
        Spans {
            all: CpuSet::first_n(topology.core.len()),
            smt: core.iter().any(|span| span.len() > 1),
            use_llc: llc.len() > 1,
            use_node: node.len() > 1 && node != llc,
            core,
            llc,
            node,
            topology: topology.clone(),
        }
    }

    fn core_of(&self, cpu: CpuId) -> &CpuSet {
        &self.core[self.topology.core[cpu.index()] as usize]
    }

    fn llc_of(&self, cpu: CpuId) -> &CpuSet {
        &self.llc[self.topology.llc[cpu.index()] as usize]
    }

    fn node_of(&self, cpu: CpuId) -> &CpuSet {
        &self.node[self.topology.node[cpu.index()] as usize]
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u32 {
        self.node.len() as u32
    }
}

/// Which CPUs idle and are not claimed.
#[derive(Debug)]
pub(crate) struct Masks {
    /// Idle CPUs.
    pub cpus: CpuSet,
    /// All CPUs of fully idle cores.
    pub cores: CpuSet,
    /// Cursor of each CPU for "distribute" choices (contract I3).
    cursor: Vec<u32>,
}

impl Masks {
    /// A CPU went idle or left idle (contract I1).
    fn note(&mut self, spans: &Spans, cpu: CpuId, idle: bool) {
        if !idle {
            self.claim(spans, cpu);
            return;
        }
        self.cpus.insert(cpu);
        let core = spans.core_of(cpu);
        if spans.smt && core.is_subset(&self.cpus) {
            for sibling in core.iter() {
                self.cores.insert(sibling);
            }
        }
    }

    /// Takes `cpu` if it is idle: its core leaves the mask of idle cores in any case (contract I2).
    fn claim(&mut self, spans: &Spans, cpu: CpuId) -> bool {
        if spans.smt {
            for sibling in spans.core_of(cpu).iter() {
                self.cores.remove(sibling);
            }
        }
        self.cpus.remove(cpu)
    }

    /// An idle CPU that both sets hold, taken; whole cores first (contract I3).
    fn pick(&mut self, spans: &Spans, by: CpuId, allowed: &CpuSet, within: &CpuSet, flags: u64) -> Option<CpuId> {
        let cursor = &mut self.cursor[by.index()];
        let mut found = None;
        if spans.smt {
            found = distribute(cursor, |from| self.cores.next_common3_from(allowed, within, from));
            if found.is_none() && flags & PICK_IDLE_CORE != 0 {
                return None;
            }
        }
        let found = found.or_else(|| distribute(cursor, |from| self.cpus.next_common3_from(allowed, within, from)))?;
        let was_idle = self.claim(spans, found);
        debug_assert!(was_idle, "an idle core consists of idle CPUs");
        Some(found)
    }
}

/// Next CPU behind the cursor, wrapping; the first choice ever skips CPU 0 (contract I3).
fn distribute(cursor: &mut u32, next: impl Fn(CpuId) -> Option<CpuId>) -> Option<CpuId> {
    let found = next(CpuId(*cursor + 1)).or_else(|| next(CpuId(0)))?;
    *cursor = found.0;
    Some(found)
}

/// Built-in idle tracking.
#[derive(Debug)]
pub(crate) struct Idle {
    /// Groups of CPUs.
    pub spans: Spans,
    /// State.
    pub masks: Masks,
    /// The scheduler keeps the built-in tracking.
    pub enabled: bool,
    /// It asked for masks per node.
    pub per_node: bool,
}

impl Idle {
    /// All CPUs idle.
    pub fn new(topology: &Topology) -> Idle {
        let spans = Spans::new(topology);
        let masks = Masks { cpus: spans.all.clone(), cores: spans.all.clone(), cursor: vec![0; topology.core.len()] };
        Idle { spans, masks, enabled: true, per_node: false }
    }

    /// The search of contract I4 without its SYNC step: near before far, whole cores before threads.
    fn search(&mut self, by: CpuId, allowed: &CpuSet, prev: CpuId, flags: u64) -> Option<CpuId> {
        let Idle { spans, masks, .. } = self;
        let in_node = flags & PICK_IDLE_IN_NODE != 0;
        let llc = spans.use_llc.then(|| spans.llc_of(prev));
        let node = (spans.use_node || in_node).then(|| spans.node_of(prev));
        let anywhere = (!in_node).then_some(&spans.all);
        let prev_allowed = allowed.contains(prev);
        let widening = || [llc, node, anywhere].into_iter().flatten();
        if spans.smt {
            if prev_allowed && masks.cores.contains(prev) && masks.claim(spans, prev) {
                return Some(prev);
            }
            let core = widening().find_map(|within| masks.pick(spans, by, allowed, within, PICK_IDLE_CORE));
            if core.is_some() || flags & PICK_IDLE_CORE != 0 {
                return core;
            }
        }
        if prev_allowed && masks.claim(spans, prev) {
            return Some(prev);
        }
        let sibling = spans.smt.then(|| spans.core_of(prev));
        sibling.into_iter().chain(widening()).find_map(|within| masks.pick(spans, by, allowed, within, 0))
    }
}

impl Core {
    /// A CPU went idle or left idle: maintains both masks.
    pub fn note_idle(&mut self, cpu: CpuId, idle: bool) {
        self.idle.masks.note(&self.idle.spans, cpu, idle);
    }

    /// Takes `cpu` if it is idle.
    pub fn claim_idle(&mut self, cpu: CpuId) -> bool {
        self.idle.masks.claim(&self.idle.spans, cpu)
    }

    /// The default search (contract I4) over the task's CPUs and `and`. The CPU is claimed. -EBUSY if there is none.
    pub fn search_idle(&mut self, task: TaskId, prev: CpuId, wake_flags: u64, and: Option<&CpuSet>, flags: u64) -> i32 {
        let narrowed = and.map(|and| self.tasks[task.index()].allowed.intersection(and));
        let allowed = narrowed.as_ref().unwrap_or(&self.tasks[task.index()].allowed);
        if wake_flags & WAKE_SYNC != 0
            && let Some(cpu) = self.sync_choice(allowed, prev)
        {
            if cpu == prev {
                self.idle.masks.claim(&self.idle.spans, cpu);
            }
            return cpu.0 as i32;
        }
        let found = self.idle.search(self.this_cpu, allowed, prev, flags);
        found.map_or(EBUSY, |cpu| cpu.0 as i32)
    }

    /// A synchronous wakeup: the previous CPU if it is idle and shares a cache with the waker's; else the waker's own,
    /// which the waker is about to leave.
    fn sync_choice(&self, allowed: &CpuSet, prev: CpuId) -> Option<CpuId> {
        let waker_cpu = self.this_cpu;
        let llc = &self.config.topology.llc;
        let near = llc[prev.index()] == llc[waker_cpu.index()];
        if near && allowed.contains(prev) && self.idle.masks.cpus.contains(prev) {
            return Some(prev);
        }
        let waker = self.current(waker_cpu);
        let waker_lives = waker.some().is_some_and(|waker| !self.tasks[waker.index()].exiting);
        let alone = self.cpus[waker_cpu.index()].local.is_empty();
        let some_idle = !self.idle.masks.cpus.is_empty();
        (waker_lives && alone && some_idle && allowed.contains(waker_cpu)).then_some(waker_cpu)
    }

    /// Whether the idle kfuncs may be used; reports the kernel's error if not (contract I5).
    fn check_builtin_idle(&mut self) -> bool {
        if !self.idle.enabled {
            self.fail("built-in idle tracking is disabled".into());
        }
        self.idle.enabled
    }

    /// The CPUs that the flat (`None`) or per-node form of a kfunc looks at, if the form fits the scheduler's flags
    /// (contract I3).
    fn span_for(&mut self, node: Option<i32>) -> Option<CpuSet> {
        let problem = match node {
            None if self.idle.per_node => "per-node idle tracking is enabled, use the _node form".to_owned(),
            None => return Some(self.idle.spans.all.clone()),
            Some(_) if !self.idle.per_node => "per-node idle tracking is disabled".to_owned(),
            Some(node) => match self.idle.spans.node.get(node as usize) {
                Some(span) => return Some(span.clone()),
                None => format!("invalid node {node}"),
            },
        };
        self.fail(problem);
        None
    }

    /// `scx_bpf_select_cpu_dfl`: CPU, and whether it was idle (and is now claimed).
    pub fn select_cpu_dfl(&mut self, task: TaskId, prev_cpu: i32, wake_flags: u64) -> (i32, bool) {
        let Some(prev) = self.check_cpu(prev_cpu) else { return (prev_cpu, false) };
        if !self.check_builtin_idle() {
            return (prev_cpu, false);
        }
        let cpu = self.select_for(task, prev, wake_flags, None, 0);
        if cpu >= 0 { (cpu, true) } else { (prev_cpu, false) }
    }

    /// `scx_bpf_select_cpu_and`: CPU or negative errno.
    pub fn select_cpu_and(
        &mut self,
        task: TaskId,
        prev_cpu: i32,
        wake_flags: u64,
        allowed: &CpuSet,
        flags: u64,
    ) -> i32 {
        let Some(prev) = self.check_cpu(prev_cpu) else { return EINVAL };
        if !self.check_builtin_idle() {
            return EBUSY;
        }
        self.select_for(task, prev, wake_flags, Some(allowed), flags)
    }

    /// A task with one CPU gets only that one tested, unless it is being woken (then select_cpu is not called at all).
    fn select_for(&mut self, task: TaskId, prev: CpuId, wake_flags: u64, and: Option<&CpuSet>, flags: u64) -> i32 {
        let only = &self.tasks[task.index()];
        if only.allowed_count == 1 && only.run_state != RunState::New {
            let cpu = only.allowed.first().expect("an affinity is never empty");
            let fits = and.is_none_or(|and| and.contains(cpu));
            return if fits && self.claim_idle(cpu) { cpu.0 as i32 } else { EBUSY };
        }
        self.search_idle(task, prev, wake_flags, and, flags)
    }

    /// `scx_bpf_pick_idle_cpu(_node)`: a claimed CPU or -EBUSY. With a node: that one first, then the others unless
    /// IN_NODE.
    pub fn pick_idle_cpu(&mut self, allowed: &CpuSet, node: Option<i32>, flags: u64) -> i32 {
        if !self.check_builtin_idle() {
            return EBUSY;
        }
        let Some(within) = self.span_for(node) else { return EBUSY };
        let Idle { spans, masks, .. } = &mut self.idle;
        let mut found = masks.pick(spans, self.this_cpu, allowed, &within, flags);
        if found.is_none() && node.is_some() && flags & PICK_IDLE_IN_NODE == 0 {
            found = masks.pick(spans, self.this_cpu, allowed, &spans.all, flags);
        }
        found.map_or(EBUSY, |cpu| cpu.0 as i32)
    }

    /// `scx_bpf_pick_any_cpu(_node)`: an idle one, else any of the mask; -EBUSY if the mask is empty.
    pub fn pick_any_cpu(&mut self, allowed: &CpuSet, node: Option<i32>, flags: u64) -> i32 {
        if self.span_for(node).is_none() {
            return EBUSY;
        }
        if self.idle.enabled {
            let cpu = self.pick_idle_cpu(allowed, node, flags);
            if cpu >= 0 {
                return cpu;
            }
        }
        let cursor = &mut self.idle.masks.cursor[self.this_cpu.index()];
        distribute(cursor, |from| allowed.next_from(from)).map_or(EBUSY, |cpu| cpu.0 as i32)
    }

    /// `scx_bpf_test_and_clear_cpu_idle`.
    pub fn test_and_clear_cpu_idle(&mut self, cpu: i32) -> bool {
        self.check_builtin_idle() && self.check_cpu(cpu).is_some_and(|cpu| self.claim_idle(cpu))
    }

    /// The mask of idle CPUs, or of idle cores (`smt`), flat or of a node. Misuse is reported; the mask is empty then.
    pub fn idle_mask(&mut self, node: Option<i32>, smt: bool) -> CpuSet {
        if !self.check_builtin_idle() {
            return CpuSet::new();
        }
        let Some(within) = self.span_for(node) else { return CpuSet::new() };
        let masks = &self.idle.masks;
        let mask = if smt && self.idle.spans.smt { &masks.cores } else { &masks.cpus };
        mask.intersection(&within)
    }

    /// The shared "distribute" choice of the cpumask kfuncs: a CPU of the mask, or the number of CPUs if it is empty.
    pub fn any_distribute(&mut self, mask: &CpuSet) -> u32 {
        let none = self.cpus();
        let cursor = &mut self.idle.masks.cursor[self.this_cpu.index()];
        distribute(cursor, |from| mask.next_from(from)).map_or(none, |cpu| cpu.0)
    }
}
