// SPDX-License-Identifier: GPL-2.0-only
//! Built-in idle tracking and the default choice of a CPU (contract 1.8).

use super::Core;
use super::task::RunState;
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
pub(crate) const WAKE_SYNC: u64 = 0x10;

/// Which CPUs idle, and the constant groups that the search walks.
#[derive(Debug)]
pub(crate) struct Idle {
    /// Idle CPUs that nobody claimed.
    pub cpus: CpuSet,
    /// All CPUs of fully idle cores.
    pub cores: CpuSet,
    /// CPUs of each core.
    pub core_span: Vec<CpuSet>,
    /// CPUs of each last-level cache.
    pub llc_span: Vec<CpuSet>,
    /// CPUs of each node.
    pub node_span: Vec<CpuSet>,
    /// Some core has more than one CPU.
    pub smt: bool,
    /// The search looks in the LLC first: there is more than one LLC.
    pub use_llc: bool,
    /// The search looks in the node second: nodes are not the same sets as LLCs, and there is more than one.
    pub use_node: bool,
    /// The scheduler keeps the built-in tracking.
    pub enabled: bool,
    /// It asked for masks per node.
    pub per_node: bool,
    /// Cursor of each CPU for "distribute" choices (contract I3).
    cursor: Vec<u32>,
}

impl Idle {
    /// All CPUs of `core`, `llc` and `node` (index = CPU), all idle.
    pub fn new(core: &[u32], llc: &[u32], node: &[u32]) -> Idle {
        let spans = |groups: &[u32]| {
            let mut spans = vec![CpuSet::new(); groups.iter().max().map_or(0, |&last| last as usize + 1)];
            for (cpu, &group) in groups.iter().enumerate() {
                spans[group as usize].insert(CpuId(cpu as u32));
            }
            spans
        };
        let all = CpuSet::first_n(core.len());
        let (core_span, llc_span, node_span) = (spans(core), spans(llc), spans(node));
        Idle {
            cpus: all.clone(),
            cores: all,
            smt: core_span.iter().any(|span| span.len() > 1),
            use_llc: llc_span.len() > 1,
            use_node: node_span.len() > 1 && node_span != llc_span,
            core_span,
            llc_span,
            node_span,
            enabled: true,
            per_node: false,
            cursor: vec![0; core.len()],
        }
    }
}

/// How a search is restricted.
#[derive(Clone, Copy)]
struct Search<'a> {
    /// Allowed CPUs.
    allowed: &'a CpuSet,
    prev: CpuId,
    flags: u64,
}

impl Core {
    /// A CPU went idle or left idle: maintains both masks (contract I1).
    pub fn note_idle(&mut self, cpu: CpuId, idle: bool) {
        let masks = &mut self.idle;
        if !idle {
            masks.cpus.remove(cpu);
        } else {
            masks.cpus.insert(cpu);
        }
        if !masks.smt {
            return;
        }
        let span = &masks.core_span[self.config.topology.core[cpu.index()] as usize];
        if !idle {
            span.iter().for_each(|sibling| {
                masks.cores.remove(sibling);
            });
        } else if span.is_subset(&masks.cpus) {
            span.iter().for_each(|sibling| {
                masks.cores.insert(sibling);
            });
        }
    }

    /// Claims `cpu` if it is idle: its core leaves the mask of idle cores in any case (contract I2).
    pub fn claim_idle(&mut self, cpu: CpuId) -> bool {
        let masks = &mut self.idle;
        if masks.smt {
            let span = &masks.core_span[self.config.topology.core[cpu.index()] as usize];
            span.iter().for_each(|sibling| {
                masks.cores.remove(sibling);
            });
        }
        masks.cpus.remove(cpu)
    }

    /// Next CPU of `mask` behind this CPU's cursor, wrapping; the first choice ever skips CPU 0 (contract I3).
    pub fn distribute(&mut self, mask: impl Fn(CpuId) -> Option<CpuId>) -> Option<CpuId> {
        let cursor = &mut self.idle.cursor[self.this_cpu.index()];
        let found = mask(CpuId(*cursor + 1)).or_else(|| mask(CpuId(0)))?;
        *cursor = found.0;
        Some(found)
    }

    /// `scx_pick_idle_cpu`: claims an idle CPU of `allowed` (and `within`), whole cores first (contract I3).
    fn pick_and_claim(&mut self, allowed: &CpuSet, within: Option<&CpuSet>, flags: u64) -> Option<CpuId> {
        loop {
            let narrowed = within.map(|within| allowed.intersection(within));
            let candidates = narrowed.as_ref().unwrap_or(allowed);
            let mut found = None;
            if self.idle.smt {
                let cores = std::mem::take(&mut self.idle.cores);
                found = self.distribute(|from| cores.next_common_from(candidates, from));
                self.idle.cores = cores;
                if found.is_none() && flags & PICK_IDLE_CORE != 0 {
                    return None;
                }
            }
            if found.is_none() {
                let cpus = std::mem::take(&mut self.idle.cpus);
                found = self.distribute(|from| cpus.next_common_from(candidates, from));
                self.idle.cpus = cpus;
            }
            let cpu = found?;
            if self.claim_idle(cpu) {
                return Some(cpu);
            }
        }
    }

    /// The default search (contract I4) over the task's CPUs and `allowed`. The CPU is claimed. Negative errno if
    /// there is none.
    pub fn search_idle(&mut self, task: TaskId, prev: CpuId, wake_flags: u64, and: Option<&CpuSet>, flags: u64) -> i32 {
        let own = self.tasks[task.index()].allowed.clone();
        let allowed = match and {
            Some(and) => own.intersection(and),
            None => own,
        };
        if allowed.is_empty() {
            return EBUSY;
        }
        let search = Search { allowed: &allowed, prev, flags };
        if wake_flags & WAKE_SYNC != 0
            && let Some(cpu) = self.search_sync(search)
        {
            return cpu.0 as i32;
        }
        self.search_near(search).map_or(EBUSY, |cpu| cpu.0 as i32)
    }

    /// A synchronous wakeup: the previous CPU if it shares a cache with the waker's, else the waker's own.
    fn search_sync(&mut self, search: Search<'_>) -> Option<CpuId> {
        let waker_cpu = self.this_cpu;
        let llc = &self.config.topology.llc;
        let near = llc[search.prev.index()] == llc[waker_cpu.index()];
        if near && search.allowed.contains(search.prev) && self.claim_idle(search.prev) {
            return Some(search.prev);
        }
        let waker = self.cpus[waker_cpu.index()].current;
        let waker_stays = waker.some().is_some_and(|waker| !self.tasks[waker.index()].exiting);
        let alone = self.cpus[waker_cpu.index()].local.is_empty();
        let some_idle = !self.idle.cpus.is_empty();
        (waker_stays && alone && some_idle && search.allowed.contains(waker_cpu)).then_some(waker_cpu)
    }

    fn search_near(&mut self, search: Search<'_>) -> Option<CpuId> {
        let Search { allowed, prev, flags } = search;
        let topology = &self.config.topology;
        let llc = self.idle.use_llc.then(|| self.idle.llc_span[topology.llc[prev.index()] as usize].clone());
        let node = (self.idle.use_node || flags & PICK_IDLE_IN_NODE != 0)
            .then(|| self.idle.node_span[topology.node[prev.index()] as usize].clone());
        let prev_allowed = allowed.contains(prev);
        if self.idle.smt {
            if prev_allowed && self.idle.cores.contains(prev) && self.claim_idle(prev) {
                return Some(prev);
            }
            for within in [&llc, &node].into_iter().flatten() {
                if let Some(cpu) = self.pick_and_claim(allowed, Some(within), PICK_IDLE_CORE) {
                    return Some(cpu);
                }
            }
            if flags & PICK_IDLE_IN_NODE == 0
                && let Some(cpu) = self.pick_and_claim(allowed, None, PICK_IDLE_CORE)
            {
                return Some(cpu);
            }
            if flags & PICK_IDLE_CORE != 0 {
                return None;
            }
        }
        if prev_allowed && self.claim_idle(prev) {
            return Some(prev);
        }
        if self.idle.smt {
            let siblings = self.idle.core_span[self.config.topology.core[prev.index()] as usize].clone();
            if let Some(cpu) = self.pick_and_claim(allowed, Some(&siblings), 0) {
                return Some(cpu);
            }
        }
        for within in [&llc, &node].into_iter().flatten() {
            if let Some(cpu) = self.pick_and_claim(allowed, Some(within), 0) {
                return Some(cpu);
            }
        }
        if flags & PICK_IDLE_IN_NODE != 0 { None } else { self.pick_and_claim(allowed, None, 0) }
    }

    /// Whether the idle kfuncs may be used; reports the kernel's error if not (contract I5).
    fn check_builtin_idle(&mut self) -> bool {
        if !self.idle.enabled {
            self.fail("built-in idle tracking is disabled".into());
        }
        self.idle.enabled
    }

    /// Whether the flat (or per-node) form of a kfunc fits the scheduler's flags (contract I3).
    fn check_node(&mut self, node: Option<i32>) -> Option<Option<CpuSet>> {
        match node {
            None if self.idle.per_node => {
                self.fail("per-node idle tracking is enabled, use the _node form".into());
                None
            }
            None => Some(None),
            Some(_) if !self.idle.per_node => {
                self.fail("per-node idle tracking is disabled".into());
                None
            }
            Some(node) => match self.idle.node_span.get(node as usize) {
                Some(span) => Some(Some(span.clone())),
                None => {
                    self.fail(format!("invalid node {node}"));
                    None
                }
            },
        }
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

    /// `scx_bpf_pick_idle_cpu(_node)`: a claimed CPU or -EBUSY.
    pub fn pick_idle_cpu(&mut self, allowed: &CpuSet, node: Option<i32>, flags: u64) -> i32 {
        if !self.check_builtin_idle() {
            return EBUSY;
        }
        let Some(within) = self.check_node(node) else { return EBUSY };
        self.pick_idle_by_distance(allowed, within, flags)
    }

    /// With a node: that node first, then the others in order of distance unless IN_NODE.
    fn pick_idle_by_distance(&mut self, allowed: &CpuSet, within: Option<CpuSet>, flags: u64) -> i32 {
        let found = self.pick_and_claim(allowed, within.as_ref(), flags);
        let found = match within {
            Some(_) if found.is_none() && flags & PICK_IDLE_IN_NODE == 0 => self.pick_and_claim(allowed, None, flags),
            _ => found,
        };
        found.map_or(EBUSY, |cpu| cpu.0 as i32)
    }

    /// `scx_bpf_pick_any_cpu(_node)`: an idle one, else any of the mask; -EBUSY if the mask is empty.
    pub fn pick_any_cpu(&mut self, allowed: &CpuSet, node: Option<i32>, flags: u64) -> i32 {
        let Some(within) = self.check_node(node) else { return EBUSY };
        if self.idle.enabled {
            let cpu = self.pick_idle_by_distance(allowed, within, flags);
            if cpu >= 0 {
                return cpu;
            }
        }
        self.distribute(|from| allowed.next_from(from)).map_or(EBUSY, |cpu| cpu.0 as i32)
    }

    /// `scx_bpf_test_and_clear_cpu_idle`.
    pub fn test_and_clear_cpu_idle(&mut self, cpu: i32) -> bool {
        if !self.check_builtin_idle() {
            return false;
        }
        self.check_cpu(cpu).is_some_and(|cpu| self.claim_idle(cpu))
    }

    /// The mask of idle CPUs, or of idle cores (`smt`), flat or of a node. Misuse is reported; the mask is empty then.
    pub fn idle_mask(&mut self, node: Option<i32>, smt: bool) -> CpuSet {
        if !self.check_builtin_idle() {
            return CpuSet::new();
        }
        let Some(within) = self.check_node(node) else { return CpuSet::new() };
        let mask = if smt && self.idle.smt { &self.idle.cores } else { &self.idle.cpus };
        within.map_or_else(|| mask.clone(), |within| mask.intersection(&within))
    }

    /// The shared "distribute" choice of the cpumask kfuncs: a CPU of the mask, or the number of CPUs if it is empty.
    pub fn any_distribute(&mut self, mask: &CpuSet) -> u32 {
        let none = self.cpus();
        self.distribute(|from| mask.next_from(from)).map_or(none, |cpu| cpu.0)
    }
}
