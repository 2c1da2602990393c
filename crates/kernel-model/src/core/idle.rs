// SPDX-License-Identifier: GPL-2.0-only
//! Built-in idle tracking and the default CPU selection (contract 1.8).

use super::{Core, DirectDispatch};
use crate::guest::IdleMask;
use crate::ops::Op;
use bpf_machine::{GuestAddr, Memory};
use ids::{CpuId, CpuSet, Locality, Place, TaskId, Topology};

/// `-EBUSY`.
const EBUSY: i32 = -16;
/// `-EINVAL`.
const EINVAL: i32 = -22;
/// `-ENOENT`.
const ENOENT: i32 = -2;
/// `-EOPNOTSUPP`.
const EOPNOTSUPP: i32 = -95;
/// NUMA_NO_NODE.
const NO_NODE: i32 = -1;
/// SCX_PICK_IDLE_CORE: only CPUs of fully idle cores.
pub(crate) const PICK_IDLE_CORE: u64 = 1;
/// SCX_PICK_IDLE_IN_NODE: do not leave the node.
pub(crate) const PICK_IDLE_IN_NODE: u64 = 2;
/// SCX_WAKE_SYNC.
const WAKE_SYNC: u64 = 0x10;

/// Groups of CPUs that an idle search walks. A CPU leaves its core when it goes offline, and its scheduling domains
/// already when it becomes inactive (contract H1).
#[derive(Debug)]
pub(crate) struct Spans {
    /// All possible CPUs.
    all: CpuSet,
    /// CPUs of each node, offline ones included.
    node: Vec<CpuSet>,
    /// `cpu_online_mask`.
    online: CpuSet,
    /// Online CPUs of each core.
    core: Vec<CpuSet>,
    /// Active CPUs of each last-level cache and of each node (scheduling domains).
    llc: Vec<CpuSet>,
    domain_node: Vec<CpuSet>,
    /// Active CPUs, those in scheduling domains.
    members: CpuSet,
    /// Core, LLC and node of each CPU.
    topology: Topology,
    /// Whether some core has more than one active CPU.
    smt: bool,
    /// Whether the search tries the LLC first: the first online CPU's LLC does not span all online CPUs.
    use_llc: bool,
    /// Whether the search tries the node next: there are several nodes, and they do not coincide with the LLCs.
    use_node: bool,
    /// For each node, the other nodes by distance, then by number.
    others: Vec<Vec<u32>>,
}

/// The members of each group of one kind (core, LLC or node); `count` is the number of groups.
fn spans(topology: &Topology, count: usize, group: fn(Place) -> u32, members: &CpuSet) -> Vec<CpuSet> {
    let mut spans = vec![CpuSet::new(); count];
    for cpu in members.iter() {
        spans[group(topology.place(cpu)) as usize].insert(cpu);
    }
    spans
}

fn cores(topology: &Topology, members: &CpuSet) -> Vec<CpuSet> {
    spans(topology, topology.cores(), |place| place.core, members)
}

fn llcs(topology: &Topology, members: &CpuSet) -> Vec<CpuSet> {
    spans(topology, topology.llcs(), |place| place.llc, members)
}

fn nodes(topology: &Topology, members: &CpuSet) -> Vec<CpuSet> {
    spans(topology, topology.nodes(), |place| place.node, members)
}

impl Spans {
    fn new(topology: &Topology) -> Spans {
        let all = topology.cpus();
        let count = topology.nodes() as u32;
        let others = |from: u32| {
            let mut others: Vec<u32> = (0..count).filter(|&to| to != from).collect();
            others.sort_by_key(|&to| (topology.distance(from, to), to));
            others
        };
        let mut made = Spans {
            online: CpuSet::new(),
            core: Vec::new(),
            llc: Vec::new(),
            domain_node: Vec::new(),
            members: CpuSet::new(),
            smt: false,
            use_llc: false,
            use_node: false,
            others: (0..count).map(others).collect(),
            all: all.clone(),
            node: nodes(topology, &all),
            topology: topology.clone(),
        };
        made.set_online(&all);
        made.set_members(&all);
        made.tune();
        made
    }

    /// Updates `cpu_online_mask` and the CPUs of each core.
    pub fn set_online(&mut self, online: &CpuSet) {
        self.online = online.clone();
        self.core = cores(&self.topology, online);
    }

    /// Rebuilds the scheduling domains from the active CPUs. SMT is on if some core has two of them.
    pub fn set_members(&mut self, members: &CpuSet) {
        self.llc = llcs(&self.topology, members);
        self.domain_node = nodes(&self.topology, members);
        self.smt = cores(&self.topology, members).iter().any(|span| span.len() > 1);
        self.members = members.clone();
    }

    /// `scx_idle_update_selcpu_topology`: decides whether the search has LLC and node steps, from the domains of the
    /// first online CPU.
    pub fn tune(&mut self) {
        let online = self.online.len();
        let llc = |cpu: CpuId| self.llc_of(cpu).map_or(0, CpuSet::len);
        let node = |cpu: CpuId| self.node_of(cpu).map_or(0, CpuSet::len);
        let Some(first) = self.online.first() else { return };
        let partial = |size: usize| size > 0 && size < online;
        let mismatch = self.online.iter().any(|cpu| llc(cpu) != node(cpu));
        (self.use_llc, self.use_node) = (partial(llc(first)), partial(node(first)) && mismatch);
    }

    /// Online CPUs of the core of `cpu`.
    pub fn core_of(&self, cpu: CpuId) -> &CpuSet {
        &self.core[self.topology.place(cpu).core as usize]
    }

    /// CPUs that share a group of this width with `cpu`: the online CPUs of its core, or the active ones of its LLC, its
    /// node or the machine.
    pub fn within(&self, cpu: CpuId, reach: Locality) -> &CpuSet {
        let place = self.topology.place(cpu);
        match reach {
            Locality::Same | Locality::Smt => &self.core[place.core as usize],
            Locality::Llc => &self.llc[place.llc as usize],
            Locality::Node => &self.domain_node[place.node as usize],
            Locality::Far => &self.members,
        }
    }

    /// LLC domain of `cpu`, if it has other CPUs.
    fn llc_of(&self, cpu: CpuId) -> Option<&CpuSet> {
        let span = &self.llc[self.topology.place(cpu).llc as usize];
        (self.members.contains(cpu) && span.len() > 1).then_some(span)
    }

    /// Node domain of `cpu`, if other nodes have active CPUs.
    fn node_of(&self, cpu: CpuId) -> Option<&CpuSet> {
        let span = &self.domain_node[self.topology.place(cpu).node as usize];
        (self.members.contains(cpu) && span.len() < self.members.len()).then_some(span)
    }

    /// Number of NUMA nodes.
    pub fn nodes(&self) -> u32 {
        self.node.len() as u32
    }
}

/// The idle masks: CPUs that are idle and not claimed.
#[derive(Debug)]
pub(crate) struct Masks {
    /// Idle CPUs.
    pub cpus: CpuSet,
    /// All CPUs of fully idle cores.
    pub cores: CpuSet,
    /// Last choice of each calling CPU, from which "distribute" choices continue (contract I3).
    cursor: Vec<u32>,
}

impl Masks {
    /// Records that a CPU becomes idle or busy (contract I1).
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

    /// Claims `cpu`; returns whether it was idle. Its core leaves the mask of idle cores in any case (contract I2).
    fn claim(&mut self, spans: &Spans, cpu: CpuId) -> bool {
        if spans.smt {
            for sibling in spans.core_of(cpu).iter() {
                self.cores.remove(sibling);
            }
            // An offline CPU is in no core.
            self.cores.remove(cpu);
        }
        self.cpus.remove(cpu)
    }

    /// Claims an idle CPU that is in both sets, fully idle cores first (contract I3).
    fn pick(&mut self, spans: &Spans, by: CpuId, allowed: &CpuSet, within: &CpuSet, flags: u64) -> Option<CpuId> {
        loop {
            let cursor = &mut self.cursor[by.index()];
            let mut found = None;
            if spans.smt {
                found = distribute(cursor, |from| self.cores.next_common3_from(allowed, within, from));
                if found.is_none() && flags & PICK_IDLE_CORE != 0 {
                    return None;
                }
            }
            let found =
                found.or_else(|| distribute(cursor, |from| self.cpus.next_common3_from(allowed, within, from)))?;
            // If the claim fails, the mask of idle cores is stale: it is not updated while every core has only one
            // active CPU.
            if self.claim(spans, found) {
                return Some(found);
            }
        }
    }
}

/// `scx_pick_idle_cpu`: searches all CPUs with flat masks; with per-node masks the node, then the other nodes by
/// distance unless IN_NODE (contract I4).
fn pick_from(
    masks: &mut Masks,
    spans: &Spans,
    by: CpuId,
    allowed: &CpuSet,
    node: Option<u32>,
    flags: u64,
) -> Option<CpuId> {
    let Some(node) = node else { return masks.pick(spans, by, allowed, &spans.all, flags) };
    let others: &[u32] = if flags & PICK_IDLE_IN_NODE != 0 { &[] } else { &spans.others[node as usize] };
    std::iter::once(&node)
        .chain(others)
        .find_map(|&node| masks.pick(spans, by, allowed, &spans.node[node as usize], flags))
}

/// Next CPU after the cursor, wrapping around; the very first choice skips CPU 0 (contract I3).
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
    /// Idle masks.
    pub masks: Masks,
    /// Whether the attached scheduler uses built-in idle tracking.
    pub enabled: bool,
    /// Whether the masks are kept per node (SCX_OPS_BUILTIN_IDLE_PER_NODE).
    pub per_node: bool,
}

impl Idle {
    /// The words of a mask; its node must exist.
    fn words(&self, IdleMask { node, smt }: IdleMask) -> impl Iterator<Item = u64> {
        let within = node.map_or(&self.spans.all, |node| &self.spans.node[node as usize]);
        let mask = if smt && self.spans.smt { &self.masks.cores } else { &self.masks.cpus };
        mask.common_words(within)
    }

    /// `reset_idle_masks`: marks every online CPU idle in both masks.
    pub fn reset(&mut self) {
        (self.masks.cpus, self.masks.cores) = (self.spans.online.clone(), self.spans.online.clone());
    }

    /// Idle tracking with all CPUs idle.
    pub fn new(topology: &Topology) -> Idle {
        let spans = Spans::new(topology);
        let masks = Masks { cpus: spans.all.clone(), cores: spans.all.clone(), cursor: vec![0; topology.len()] };
        Idle { spans, masks, enabled: true, per_node: false }
    }

    /// Node of a CPU if the masks are kept per node.
    fn node_if_used(&self, cpu: CpuId) -> Option<u32> {
        self.per_node.then(|| self.spans.topology.place(cpu).node)
    }

    /// The search of contract I4 without its SYNC step: near before far, fully idle cores before single CPUs. IN_NODE
    /// has an effect only with per-node masks.
    fn search(&mut self, by: CpuId, allowed: &CpuSet, prev: CpuId, flags: u64) -> Option<CpuId> {
        let home = self.node_if_used(prev);
        let Idle { spans, masks, .. } = self;
        let llc = spans.llc_of(prev).filter(|_| spans.use_llc);
        let node = spans.node_of(prev).filter(|_| spans.use_node && home.is_none());
        let near = || llc.into_iter().chain(node);
        let prev_allowed = allowed.contains(prev);
        if spans.smt {
            if prev_allowed && masks.cores.contains(prev) && masks.claim(spans, prev) {
                return Some(prev);
            }
            let core = near()
                .find_map(|within| masks.pick(spans, by, allowed, within, PICK_IDLE_CORE))
                .or_else(|| pick_from(masks, spans, by, allowed, home, flags | PICK_IDLE_CORE));
            if core.is_some() || flags & PICK_IDLE_CORE != 0 {
                return core;
            }
        }
        if prev_allowed && masks.claim(spans, prev) {
            return Some(prev);
        }
        if spans.smt {
            let mut siblings = spans.core_of(prev).iter().filter(|&cpu| cpu != prev && allowed.contains(cpu));
            if let Some(sibling) = siblings.find(|&cpu| masks.claim(spans, cpu)) {
                return Some(sibling);
            }
        }
        near()
            .find_map(|within| masks.pick(spans, by, allowed, within, 0))
            .or_else(|| pick_from(masks, spans, by, allowed, home, flags))
    }

    /// Step 1 of contract I4, for a synchronous wakeup. Claims the previous CPU if it is idle and shares a cache with
    /// the waker's CPU. Otherwise claims the waker's CPU if the waker is about to sleep, its local queue is empty and
    /// some CPU is idle. `waker_stays` is true for a waker that exits or whose local queue is not empty.
    fn search_sync(
        &mut self,
        waker: CpuId,
        waker_stays: bool,
        allowed: &CpuSet,
        prev: CpuId,
        flags: u64,
    ) -> Option<CpuId> {
        let (waker_node, home) = (self.node_if_used(waker), self.node_if_used(prev));
        let Idle { spans, masks, .. } = self;
        let near = spans.topology.locality(prev, waker) <= Locality::Llc;
        if allowed.contains(prev) && near && masks.claim(spans, prev) {
            return Some(prev);
        }
        let within = waker_node.map_or(&spans.all, |node| &spans.node[node as usize]);
        let reachable = flags & PICK_IDLE_IN_NODE == 0 || waker_node == home;
        if waker_stays || !reachable || !masks.cpus.intersects(within) || !allowed.contains(waker) {
            return None;
        }
        masks.claim(spans, waker);
        Some(waker)
    }
}

impl Core {
    /// Records in both masks that a CPU becomes idle or busy.
    pub fn note_idle(&mut self, cpu: CpuId, idle: bool) {
        self.idle.masks.note(&self.idle.spans, cpu, idle);
        self.fair_note_idle(cpu, idle);
    }

    /// Claims `cpu`; returns whether it was idle.
    pub fn claim_idle(&mut self, cpu: CpuId) -> bool {
        self.idle.masks.claim(&self.idle.spans, cpu)
    }

    /// The default search (contract I4) over the CPUs allowed by both the task and `and`. Returns the claimed CPU, or
    /// -EBUSY.
    pub fn search_idle(&mut self, task: TaskId, prev: CpuId, wake_flags: u64, and: Option<&CpuSet>, flags: u64) -> i32 {
        let narrowed = and.map(|and| self.tasks[task].allowed.intersection(and));
        let allowed = narrowed.as_ref().unwrap_or(&self.tasks[task].allowed);
        if wake_flags & WAKE_SYNC != 0 {
            let waker = self.current(self.context.cpu).some();
            let exiting = waker.is_some_and(|waker| self.tasks[waker].exiting);
            let stays = exiting || !self.cpus[self.context.cpu.index()].local.is_empty();
            if let Some(cpu) = self.idle.search_sync(self.context.cpu, stays, allowed, prev, flags) {
                return cpu.0 as i32;
            }
        }
        let found = self.idle.search(self.context.cpu, allowed, prev, flags);
        found.map_or(EBUSY, |cpu| cpu.0 as i32)
    }

    /// Whether the idle kfuncs may be used; reports the kernel's error if not (contract I5).
    fn check_builtin_idle(&mut self) -> bool {
        if !self.idle.enabled {
            self.fail("built-in idle tracking is disabled".into());
        }
        self.idle.enabled
    }

    /// Checks the node argument of a per-node kfunc; returns a negative errno if it is invalid (contract I3).
    /// NUMA_NO_NODE is not reported as an error.
    fn check_node(&mut self, node: i32) -> Result<u32, i32> {
        if !self.idle.per_node {
            self.fail("per-node idle tracking is disabled".into());
            return Err(EOPNOTSUPP);
        }
        if node == NO_NODE {
            return Err(ENOENT);
        }
        if node < 0 || node >= self.nodes() as i32 {
            self.fail(format!("invalid node {node}"));
            return Err(EINVAL);
        }
        if !self.config.topology.has_node(node as u32) {
            self.fail(format!("unavailable node {node}"));
            return Err(EINVAL);
        }
        Ok(node as u32)
    }

    /// Whether a kfunc on flat masks may be used; reports `error` if the masks are kept per node.
    fn check_flat(&mut self, error: &str) -> bool {
        if self.idle.per_node {
            self.fail(error.into());
        }
        !self.idle.per_node
    }

    /// `scx_bpf_select_cpu_dfl`: returns a CPU, and whether it was idle and is now claimed.
    pub fn select_cpu_dfl(&mut self, task: TaskId, prev_cpu: i32, wake_flags: u64) -> (i32, bool) {
        let Some(prev) = self.check_cpu(prev_cpu) else { return (prev_cpu, false) };
        if !self.check_builtin_idle() {
            return (prev_cpu, false);
        }
        let cpu = self.select_for(task, prev, wake_flags, None, 0);
        if cpu >= 0 { (cpu, true) } else { (prev_cpu, false) }
    }

    /// `scx_bpf_select_cpu_and`: returns a claimed CPU or a negative errno.
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

    /// `select_cpu_from_kfunc`: the callback must hold the locks of the task (contract C2). For a task with one
    /// allowed CPU only `prev` is tested (contract I4).
    fn select_for(&mut self, task: TaskId, prev: CpuId, wake_flags: u64, and: Option<&CpuSet>, flags: u64) -> i32 {
        if let Some(error) = self.not_locked(task) {
            self.fail(error);
            return EINVAL;
        }
        let only = &self.tasks[task];
        if only.allowed_count == 1 {
            let fits = and.unwrap_or(&only.allowed).contains(prev);
            return if fits && self.claim_idle(prev) { prev.0 as i32 } else { EBUSY };
        }
        self.search_idle(task, prev, wake_flags, and, flags)
    }

    /// The kernel's error if a callback asks for a task that its locks do not cover.
    fn not_locked(&self, task: TaskId) -> Option<String> {
        if self.context.running.op == Some(Op::SelectCpu) {
            let (DirectDispatch::Task(subject) | DirectDispatch::Done(subject)) = self.context.running.direct else {
                return None;
            };
            return (subject != task).then(|| "called on a task not being operated on".to_owned());
        }
        let elsewhere = self.context.running.locked.is_some_and(|locked| locked != self.task_cpu(task));
        elsewhere.then(|| format!("select_cpu kfunc called cross-task on {}", self.name_of(task)))
    }

    /// `scx_bpf_pick_idle_cpu(_node)`: returns a claimed CPU or a negative errno. The `_node` form searches that node
    /// first, then the others by distance unless IN_NODE.
    pub fn pick_idle_cpu(&mut self, allowed: &CpuSet, node: Option<i32>, flags: u64) -> i32 {
        let node = match node.map(|node| self.check_node(node)) {
            Some(Err(errno)) => return errno,
            Some(Ok(node)) => Some(node),
            None if !self.check_flat("per-node idle tracking is enabled") => return EBUSY,
            None => None,
        };
        if !self.check_builtin_idle() {
            return EBUSY;
        }
        let Idle { spans, masks, .. } = &mut self.idle;
        let found = pick_from(masks, spans, self.context.cpu, allowed, node, flags);
        found.map_or(EBUSY, |cpu| cpu.0 as i32)
    }

    /// `scx_bpf_pick_any_cpu(_node)`: returns an idle CPU, which is claimed, or any CPU of the mask (with IN_NODE: of
    /// the node), or -EBUSY.
    pub fn pick_any_cpu(&mut self, allowed: &CpuSet, node: Option<i32>, flags: u64) -> i32 {
        let node = match node.map(|node| self.check_node(node)) {
            Some(Err(errno)) => return errno,
            Some(Ok(node)) => Some(node),
            None if !self.check_flat("per-node idle tracking is enabled") => return EBUSY,
            None => None,
        };
        let Idle { spans, masks, enabled, .. } = &mut self.idle;
        if *enabled && let Some(cpu) = pick_from(masks, spans, self.context.cpu, allowed, node, flags) {
            return cpu.0 as i32;
        }
        let within = match node {
            Some(node) if flags & PICK_IDLE_IN_NODE != 0 => &spans.node[node as usize],
            _ => &spans.all,
        };
        let cursor = &mut masks.cursor[self.context.cpu.index()];
        distribute(cursor, |from| allowed.next_common_from(within, from)).map_or(EBUSY, |cpu| cpu.0 as i32)
    }

    /// `scx_bpf_test_and_clear_cpu_idle`.
    pub fn test_and_clear_cpu_idle(&mut self, cpu: i32) -> bool {
        self.check_builtin_idle() && self.check_cpu(cpu).is_some_and(|cpu| self.claim_idle(cpu))
    }

    /// Gives the program a copy of the mask of idle CPUs or idle cores, flat or of a node. Misuse is reported and
    /// yields an empty mask.
    pub fn hand_out_idle_mask(&mut self, memory: &mut Memory, mask: IdleMask) -> GuestAddr {
        match self.may_see(mask) {
            true => self.objects.idle_masks.get(memory, mask, self.idle.words(mask)),
            false => self.objects.idle_masks.get(memory, mask, std::iter::empty()),
        }
    }

    /// Updates the mask copies that the program holds: the kernel hands out its live masks, where a claim shows at
    /// once.
    pub fn refresh_idle_masks(&mut self, memory: &mut Memory) {
        let mut from = 0;
        while let Some((slot, held)) = self.objects.idle_masks.next_held(from) {
            match self.may_see(held) {
                true => self.objects.idle_masks.update(memory, slot, self.idle.words(held)),
                false => self.objects.idle_masks.update(memory, slot, std::iter::empty()),
            }
            from = slot + 1;
        }
    }

    /// Whether the program may use a mask; reports the kernel's error if not.
    pub fn may_see(&mut self, mask: IdleMask) -> bool {
        let exists = match mask.node {
            Some(node) => self.check_node(node).is_ok(),
            None => self.check_flat("SCX_OPS_BUILTIN_IDLE_PER_NODE enabled"),
        };
        exists && self.check_builtin_idle()
    }

    /// The "distribute" choice of the cpumask kfuncs: returns a CPU of the mask, or the number of CPUs if the mask is
    /// empty.
    pub fn any_distribute(&mut self, mask: &CpuSet) -> u32 {
        let none = self.cpus();
        let cursor = &mut self.idle.masks.cursor[self.context.cpu.index()];
        distribute(cursor, |from| mask.next_from(from)).map_or(none, |cpu| cpu.0)
    }
}
