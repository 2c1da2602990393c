// SPDX-License-Identifier: GPL-2.0-only
//! Active balancing: a *running* fair task leaves a busy core, LLC or node for an idle CPU.
//!
//! 1. An idle CPU compares the groups of each of its scheduling domains: the CPUs of a core, the cores of an LLC, the
//!    LLCs of a node, the nodes of a machine (`sched_balance_find_src_group`). Only one CPU balances on behalf of its
//!    group: the first idle one, if possible in a fully idle core (`should_we_balance`).
//! 2. A core of which at least two CPUs have fair tasks (`group_smt_balance`) gives one to an idle core. Other groups
//!    even out the number of their tasks, by half the difference; between nodes, a difference of two tasks is
//!    tolerated while few tasks run (`adjust_numa_imbalance`).
//! 3. If nothing waits that could be moved, the pass has failed. After more than `cache_nice_tries + 2` failed passes
//!    in a row, the running task moves (`imbalanced_active_balance`): the balancing CPU wakes the stopper thread of the
//!    busy CPU, which takes the task off (`active_load_balance_cpu_stop`). A task that waits there meanwhile, and may
//!    move, is taken instead.
//! 4. A busy CPU wakes an idle one for that at its tick if at least two CPUs of its LLC are busy
//!    (`nohz_balancer_kick`).
//!
//! Linux 6.18 and 7.2 have the same rules. CPUs of lower capacity pull nothing from a group of faster CPUs in which
//! each CPU has at most one task (`update_sd_pick_busiest`).
//!
//! Not modelled: a pass of idle CPUs that would find no imbalance neither wakes an idle CPU nor delays the next one;
//! groups imbalanced by affinity (`group_imbalanced`), CPU priorities (ASYM_PACKING), tasks too large for their CPU
//! (misfit), capacity lost to interrupts and other classes, active balancing by a CPU that has just become idle, and
//! preferred LLCs (`group_llc_balance`, 7.2). The stopper takes no time. The load of a group is the number of its
//! tasks, whatever part of the time they run.

use super::Core;
use super::balance::{SPANS, nice_tries};
use super::task::Class;
use ids::{CpuId, Locality, Nanos, TaskId, Topology};
use std::cmp::Reverse;

/// `NUMA_IMBALANCE_MIN`: difference in the number of tasks between two nodes that is tolerated.
const NUMA_TOLERATED: u32 = 2;
/// `capacity_greater`: a CPU is faster than another one if its capacity is more than 1078/1024 of the other's.
const FASTER: (u32, u32) = (1078, 1024);

/// When ticks search for imbalances of running tasks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scan {
    /// Jiffy of the last search; there is at most one per jiffy.
    last: Option<Nanos>,
    /// Earliest time at which an idle CPU of the last search balances next.
    next: Nanos,
    /// Another CPU has become idle since the last search, or it found an imbalance.
    pub stale: bool,
}

impl Scan {
    fn is_due(&self, now: Nanos) -> bool {
        self.last != Some(now) && (self.stale || now >= self.next)
    }
}

/// One group of CPUs of a scheduling domain (`struct sg_lb_stats`).
#[derive(Clone, Copy, Debug)]
struct Group {
    /// Number of the CPU, core, LLC or node.
    number: u32,
    /// Number of active CPUs.
    cpus: u32,
    /// Number of cores.
    cores: u32,
    /// Number of idle CPUs.
    idle: u32,
    /// Number of runnable tasks of all classes above ext, and of running ext tasks.
    tasks: u32,
    /// Number of runnable fair tasks.
    fair: u32,
    /// Sum of the weights of the fair tasks.
    load: u64,
    /// Smallest capacity of a CPU.
    capacity: u32,
}

/// `enum group_type`, in ascending order of the need for help.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    HasSpare,
    FullyBusy,
    SmtBalance,
    Overloaded,
}

impl Group {
    fn new(number: u32) -> Group {
        Group { number, cpus: 0, cores: 0, idle: 0, tasks: 0, fair: 0, load: 0, capacity: u32::MAX }
    }

    /// SD_SHARE_CPUCAPACITY: the hardware threads of one core.
    fn is_core(&self) -> bool {
        self.cores == 1 && self.cpus > 1
    }

    /// `group_classify` of the balancing CPU's own group.
    fn kind_of_local(&self) -> Kind {
        match self.tasks {
            tasks if tasks > self.cpus => Kind::Overloaded,
            tasks if tasks == self.cpus => Kind::FullyBusy,
            _ => Kind::HasSpare,
        }
    }

    /// `group_classify` of another group.
    fn kind(&self) -> Kind {
        match self.kind_of_local() {
            kind if kind < Kind::Overloaded && self.is_core() && self.fair > 1 => Kind::SmtBalance,
            kind => kind,
        }
    }

    /// `update_sd_pick_busiest`: whether this group needs help more than `other`, which was found before it.
    fn is_busier_than(&self, other: &Group) -> bool {
        let has_less_room = || (other.idle, self.tasks) > (self.idle, other.tasks);
        if self.kind() != other.kind() {
            return self.kind() > other.kind();
        }
        match self.kind() {
            Kind::Overloaded => self.load * u64::from(other.cpus) > other.load * u64::from(self.cpus),
            Kind::SmtBalance if self.idle + other.idle > 0 => has_less_room(),
            Kind::SmtBalance | Kind::FullyBusy => !other.is_core(),
            Kind::HasSpare if self.is_core() != other.is_core() => !self.is_core() || self.fair > 1,
            Kind::HasSpare => has_less_room(),
        }
    }
}

/// `sibling_imbalance`: difference in the number of tasks, in proportion to the number of cores.
fn difference(local: &Group, busiest: &Group) -> u32 {
    if local.cores == busiest.cores {
        return busiest.tasks.saturating_sub(local.tasks);
    }
    let cores = local.cores + busiest.cores;
    let scaled = (local.cores * busiest.tasks).saturating_sub(busiest.cores * local.tasks);
    let rounded = (2 * scaled + cores) / cores;
    if rounded <= 1 && local.tasks == 0 && busiest.tasks > 1 { 2 } else { rounded }
}

/// `sched_balance_find_src_group` and `calculate_imbalance` for an idle CPU: number of tasks by which `busiest` exceeds
/// what it should have, 0 if the groups are balanced or if load rather than a number of tasks is to be moved.
/// `tolerant_up_to` is `imb_numa_nr`.
fn excess(span: Locality, local: &Group, busiest: &Group, tolerant_up_to: u32) -> u32 {
    let (own, kind) = (local.kind_of_local(), busiest.kind());
    let (between_cpus, difference) = (busiest.cpus == 1, difference(local, busiest));
    if own > kind {
        return 0;
    }
    // SD_PREFER_SIBLING: all domains within a node spread tasks over their groups.
    let spreads = !between_cpus && own == Kind::HasSpare && difference > 1;
    let relieves_core = kind == Kind::SmtBalance && local.is_core() != busiest.is_core();
    if kind != Kind::Overloaded && !spreads && !relieves_core {
        let even = !between_cpus && local.idle <= busiest.idle + 1;
        if even || busiest.fair == 1 {
            return 0;
        }
    }
    match kind {
        Kind::SmtBalance => 1,
        // The kernel moves load (migrate_load) or utilization (migrate_util), never by active balancing.
        _ if own != Kind::HasSpare || kind == Kind::Overloaded && span > Locality::Llc => 0,
        _ if span == Locality::Far && local.tasks < tolerant_up_to && difference <= NUMA_TOLERATED => 0,
        _ => difference / 2,
    }
}

/// Whether CPUs of capacity `a` are faster than those of capacity `b`.
fn is_faster(a: u32, b: u32) -> bool {
    u64::from(a) * u64::from(FASTER.1) > u64::from(b) * u64::from(FASTER.0)
}

/// Number of CPUs of each scheduling domain of each CPU; 0 if the domain has no more CPUs than the next smaller one.
pub(super) fn domain_widths(topology: &Topology) -> Vec<[u64; SPANS.len()]> {
    let mut counts = [vec![0u64; topology.cores()], vec![0; topology.llcs()], vec![0; topology.nodes()]];
    let numbers = |cpu: CpuId| {
        let place = topology.place(cpu);
        [place.core, place.llc, place.node].map(|number| number as usize)
    };
    for cpu in topology.cpus().iter() {
        counts.iter_mut().zip(numbers(cpu)).for_each(|(counts, number)| counts[number] += 1);
    }
    let widths = |cpu: CpuId| {
        let [core, llc, node] = numbers(cpu);
        let all = [1, counts[0][core], counts[1][llc], counts[2][node], topology.len() as u64];
        std::array::from_fn(|index| if all[index + 1] > all[index] { all[index + 1] } else { 0 })
    };
    topology.cpus().iter().map(widths).collect()
}

impl Core {
    /// Number of runnable fair tasks of a CPU (`h_nr_runnable`).
    fn fair_runnable(&self, cpu: CpuId) -> u32 {
        self.fair_waiting(cpu).count() as u32 + u32::from(self.fair_running(cpu).is_some())
    }

    /// Active CPUs of one of the scheduling domains of `cpu`, in the order in which the kernel walks its groups: from
    /// `cpu` on, and around.
    fn fair_domain(&self, cpu: CpuId, index: usize) -> impl Iterator<Item = CpuId> {
        let span = self.idle.spans.within(cpu, SPANS[index]);
        let (after, before) = (span.iter().filter(move |&at| at >= cpu), span.iter().filter(move |&at| at < cpu));
        after.chain(before).filter(|at| self.cpus[at.index()].active)
    }

    /// Number of the group of `cpu` in a domain: its node, LLC or core, or the CPU itself.
    fn sched_group_of(&self, cpu: CpuId, index: usize) -> u32 {
        let place = self.config.topology.place(cpu);
        [cpu.0, place.core, place.llc, place.node][index]
    }

    /// `update_sg_lb_stats` of all groups of a domain of `cpu`; its own group comes first.
    fn fair_groups(&self, cpu: CpuId, index: usize) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for cpu in self.fair_domain(cpu, index) {
            let number = self.sched_group_of(cpu, index);
            let at = groups.iter().rposition(|group| group.number == number).unwrap_or_else(|| {
                groups.push(Group::new(number));
                groups.len() - 1
            });
            let rq = &self.cpus[cpu.index()];
            let is_active = |&sibling: &CpuId| self.cpus[sibling.index()].active;
            let first = self.idle.spans.core_of(cpu).iter().find(is_active) == Some(cpu);
            let group = &mut groups[at];
            group.cpus += 1;
            group.cores += u32::from(first);
            group.idle += u32::from(self.fair_idle(cpu));
            group.tasks += u32::from(rq.current != TaskId::NONE || rq.occupied) + rq.higher.len() as u32;
            group.fair += self.fair_runnable(cpu);
            group.load += self.fair_load(cpu);
            group.capacity = group.capacity.min(self.config.topology.capacities[cpu.index()]);
        }
        groups
    }

    /// `should_we_balance`: whether this idle CPU is the one that balances on behalf of its group.
    fn fair_acts_for_group(&self, cpu: CpuId, index: usize) -> bool {
        if index == 0 {
            return true;
        }
        let group = self.sched_group_of(cpu, index);
        let is_idle =
            |&at: &CpuId| self.sched_group_of(at, index) == group && self.cpus[at.index()].active && self.fair_idle(at);
        let idle = || self.idle.spans.within(cpu, SPANS[index]).iter().filter(is_idle);
        let whole = |&at: &CpuId| self.idle.spans.core_of(at).iter().all(|sibling| self.fair_idle(sibling));
        idle().find(whole).or(idle().next()) == Some(cpu)
    }

    /// The CPU whose running task idle `to` should get, over one of its domains; `None` if the domain is balanced.
    pub(super) fn fair_push_source(&self, to: CpuId, index: usize) -> Option<CpuId> {
        if !self.fair_acts_for_group(to, index) {
            return None;
        }
        let capacity = self.config.topology.capacities[to.index()];
        let groups = self.fair_groups(to, index);
        let (local, others) = groups.split_first()?;
        let helpable = |group: &&Group| {
            group.fair > 0 && !(group.kind() <= Kind::FullyBusy && is_faster(group.capacity, capacity))
        };
        let busiest =
            others.iter().filter(helpable).reduce(|most, next| if next.is_busier_than(most) { next } else { most })?;
        if excess(SPANS[index], local, busiest, self.numa_tolerance(to)) == 0 {
            return None;
        }
        // `sched_balance_find_src_rq`: the first CPU with the most fair tasks. A CPU with several tasks is left out if
        // all are pinned; a single pinned task is noticed only later.
        let members = self.idle.spans.within(to, SPANS[index]).iter();
        let members = members.filter(|&cpu| self.sched_group_of(cpu, index) == busiest.number);
        let counted = members.filter(|cpu| self.cpus[cpu.index()].active).map(|cpu| (self.fair_runnable(cpu), cpu));
        let usable = counted.filter(|&(tasks, cpu)| tasks == 1 || tasks > 1 && !self.fair_all_pinned(cpu, to));
        usable.max_by_key(|&(tasks, cpu)| (tasks, Reverse(cpu))).map(|(_, cpu)| cpu)
    }

    /// `imb_numa_nr`: number of tasks on a node up to which an imbalance of two tasks is tolerated: the number of its
    /// LLCs, or an eighth of its CPUs if it has only one.
    fn numa_tolerance(&self, cpu: CpuId) -> u32 {
        let spans = &self.idle.spans;
        let [llc, node] = [Locality::Llc, Locality::Node].map(|reach| spans.within(cpu, reach).len() as u32);
        let tolerated = if node == llc { node / 8 } else { node / llc };
        tolerated.max(1)
    }

    /// Asks the stopper thread of `from` to move a task to `to`, unless it has been asked before or the running task is
    /// pinned elsewhere.
    pub(super) fn fair_ask_to_push(&mut self, from: CpuId, to: CpuId) {
        let Some(running) = self.current(from).some() else { return };
        if self.task(running).allowed.contains(to) && self.cpus[from.index()].fair.push_to.is_none() {
            self.cpus[from.index()].fair.push_to = Some(to);
            self.note_class(from, Class::Stop);
            self.resched(from);
        }
    }

    /// `active_load_balance_cpu_stop` on `from`: the task to move, and the CPU to which. `running` is the task that
    /// still runs there, if it is runnable; a waiting task has precedence.
    pub fn fair_take_push(&mut self, from: CpuId, running: Option<TaskId>) -> Option<(TaskId, CpuId)> {
        let to = self.cpus[from.index()].fair.push_to.take()?;
        if !self.cpus[from.index()].active || !self.cpus[to.index()].active {
            return None;
        }
        let may = |&task: &TaskId| self.task(task).class == Class::Fair && self.task(task).allowed.contains(to);
        let task = self.fair_movable(from, to, true).first().copied().or(running.filter(may))?;
        let distance = self.config.topology.locality(from, to);
        let index = SPANS.iter().position(|&span| distance <= span).expect("a domain spans both CPUs");
        self.cpus[to.index()].fair.balances[index].failed = 0;
        Some((task, to))
    }

    /// Whether an idle CPU would find an imbalance of running tasks now, so that a tick of `cpu` must wake one. The
    /// passes that find none take place here.
    pub(super) fn fair_push_is_due(&mut self, cpu: CpuId, now: Nanos) -> bool {
        if self.current_class(cpu) != Class::Fair || !self.balancing.scan.is_due(now) {
            return false;
        }
        // `nr_busy_cpus` of the LLC.
        let busy = |at: &CpuId| !self.cpus[at.index()].fair.tickless;
        if self.idle.spans.within(cpu, Locality::Llc).iter().filter(busy).nth(1).is_none() {
            return false;
        }
        self.balancing.scan = Scan { last: Some(now), next: Nanos::MAX, stale: false };
        for to in (0..self.cpus()).map(CpuId) {
            if self.cpus[to.index()].active && self.fair_idle(to) {
                for index in 0..SPANS.len() {
                    if self.fair_scan(to, index, now) {
                        self.balancing.scan.stale = true;
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Whether a pass of idle `to` over one of its domains is due and would find an imbalance.
    fn fair_scan(&mut self, to: CpuId, index: usize, now: Nanos) -> bool {
        let none_waits = self.tasks.higher_waiting == 0;
        if index == 0 && none_waits {
            // Each CPU has at most one task.
            self.cpus[to.index()].fair.balances[index].failed = 0;
            return false;
        }
        let last = self.cpus[to.index()].fair.balances[index].scanned;
        let Some(mut next) = self.fair_next_after(to, index, last) else { return false };
        if next <= now {
            if self.fair_push_source(to, index).is_some() {
                return true;
            }
            let balance = &mut self.cpus[to.index()].fair.balances[index];
            balance.scanned = now;
            if none_waits {
                (balance.failed, balance.hurries) = (0, false);
            }
            next = self.fair_next_after(to, index, now).expect("the domain exists");
        }
        self.balancing.scan.next = self.balancing.scan.next.min(next);
        false
    }

    /// Ends a pass over a domain of idle `to` that moved no task: the running task of `source` moves after enough
    /// failures.
    pub(super) fn fair_push_after(&mut self, failed: u32, source: CpuId, to: CpuId, index: usize) {
        if failed > nice_tries(index) + 2 {
            self.fair_ask_to_push(source, to);
        }
    }
}
