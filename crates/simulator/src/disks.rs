// SPDX-License-Identifier: GPL-2.0-only
//! Disks and networks in a run: requests of tasks, and the interrupts of their completions.
//!
//! 1. A task that uses a disk sleeps uninterruptibly until its request is complete. A RAM disk takes CPU time of the
//!    task instead.
//! 2. A completion is an interrupt on the CPU that the disk's routing chooses. Its top half, and a bottom half for each
//!    request, take the time of the task that is current there; then the waiting task is woken.
//! 3. A CPU that has executed bottom halves for too long leaves further ones to its ksoftirqd ([`crate::softirqs`]).
//! 4. A recorded task submits requests and waits for them in operations of their own. Machines without the device have none
//!    of these requests: the task then sleeps as long as in the recording.
//! 5. A call over a network is a request to its interface ([`crate::networks`]); a loopback takes CPU time of the task.
//! 6. Requests that are complete at the same instant and whose interrupt goes to the same CPU share one top half.

use crate::alarms::Alarm;
use crate::cpu::Charge;
use crate::interrupt::Interrupt;
use crate::model::Model;
use crate::noise::draw::Draw;
use crate::run::{BOOT_CPU, Run};
use crate::softirqs::{Deferred, Softirqs};
use crate::sources::{Source, find, find_network, sources};
use crate::tasks::{Role, State};
use devices::{Answered, Completed, Devices, Networks, Place, Request};
use event_log::{BlockCause, DetailKind, Waker};
use ids::{CpuId, CpuSet, Nanos, Policy, TaskId};
use kernel_model::{Identity, Leave, Operation, TaskAttributes};
use machine_model::{Disk, Machine, Network, Routing};
use measures::{DeviceTotals, DiskMeasures, InterruptUse, NetworkMeasures};
use std::collections::BTreeMap;
use workload::{DeviceId, DiskId, Io, IoPlace, Submission, Workload};

/// Interrupts of a source on a CPU.
#[derive(Debug)]
struct Row {
    source: usize,
    cpu: CpuId,
    count: u64,
    deferred: u64,
    total: Nanos,
    max: Nanos,
}

/// Recorded requests of a task to a disk that are in progress.
#[derive(Clone, Copy, Debug, Default)]
struct InProgress {
    count: u32,
    /// Number of requests before the last one.
    ahead: u32,
}

/// A task waits until at most `most` of its requests to a disk are in progress.
#[derive(Clone, Copy, Debug)]
struct Wait {
    disk: usize,
    most: u32,
    since: Nanos,
}

/// Disks and networks of the machine, and what tasks did with them.
#[derive(Debug)]
pub(crate) struct TaskDisks {
    pub devices: Devices,
    pub networks: Networks,
    sources: Vec<Source>,
    without_interrupts: bool,
    /// Number of the disk on the machine, by its number in the workload.
    of_workload: Vec<usize>,
    /// Number of the disk on the machine, if it has it, by the number of the recorded device in the workload.
    of_device: Vec<Option<usize>>,
    /// Number of the network on the machine, by its number in the workload.
    pub of_network: Vec<usize>,
    /// Recorded requests of each task to each disk that are in progress.
    in_progress: BTreeMap<(TaskId, usize), InProgress>,
    /// Waits for such requests.
    awaits: BTreeMap<TaskId, Wait>,
    /// Random numbers of each disk, and of each network.
    draws: Vec<Draw>,
    pub network_draws: Vec<Draw>,
    /// CPU on which each task issued its request.
    issuers: Vec<CpuId>,
    measures: Vec<DiskMeasures>,
    pub network_measures: Vec<NetworkMeasures>,
    interrupts: Vec<Row>,
    softirqs: Softirqs,
    /// Time for which each task waited for disks, and for answers over networks.
    waited: Vec<Nanos>,
    network_waited: Vec<Nanos>,
}

impl TaskDisks {
    /// Creates disks and networks; `None` if the workload uses none. The workload must have been checked against the machine.
    pub fn new(machine: &Machine, workload: &Workload, seed: u64) -> Option<Box<TaskDisks>> {
        let of_device: Vec<Option<usize>> = workload.devices.iter().map(|name| find(machine, name)).collect();
        if workload.disks.is_empty() && workload.networks.is_empty() && of_device.iter().all(Option::is_none) {
            return None;
        }
        let (disks, networks) = (&machine.effects.disks, &machine.effects.networks);
        let of_workload = workload.disks.iter().map(|name| find(machine, name).expect("the workload was checked"));
        let of_network = workload.networks.iter().map(|name| find_network(machine, name).expect("as above"));
        let measured = |disk: &Disk| DiskMeasures {
            name: disk.name.clone(),
            servers: u64::from(disk.servers) * u64::from(disk.spindles),
            ..DiskMeasures::default()
        };
        let network_measured = |network: &Network| NetworkMeasures {
            name: network.name.clone(),
            servers: u64::from(network.servers),
            ..NetworkMeasures::default()
        };
        let draw = |disk: &Disk| Draw::new(seed, &format!("disk {}", disk.name));
        let network_draw = |network: &Network| Draw::new(seed, &format!("network {}", network.name));
        Some(Box::new(TaskDisks {
            devices: Devices::new(disks),
            networks: Networks::new(networks),
            without_interrupts: disks.without_interrupts,
            of_workload: of_workload.collect(),
            of_device,
            of_network: of_network.collect(),
            in_progress: BTreeMap::new(),
            awaits: BTreeMap::new(),
            draws: disks.disks.iter().map(draw).collect(),
            network_draws: networks.networks.iter().map(network_draw).collect(),
            issuers: Vec::new(),
            measures: disks.disks.iter().map(measured).collect(),
            network_measures: networks.networks.iter().map(network_measured).collect(),
            interrupts: Vec::new(),
            softirqs: Softirqs::default(),
            waited: Vec::new(),
            network_waited: Vec::new(),
            sources: sources(machine),
        }))
    }

    /// Number of a network as a source of interrupts.
    pub fn network_source(&self, network: usize) -> usize {
        self.draws.len() + network
    }

    /// Number on the machine of a disk of the workload.
    pub fn disk(&self, disk: DiskId) -> usize {
        self.of_workload[disk.0 as usize]
    }

    /// A random position for a request: a multiple of its length, within its region or else below `capacity`.
    pub fn random_place(&mut self, disk: usize, io: &Io, capacity: u64) -> u64 {
        let region = if io.within > 0 { io.within.min(capacity) } else { capacity };
        let places = (region / io.bytes).max(1);
        ((u128::from(self.draws[disk].bits()) * u128::from(places)) >> 64) as u64 * io.bytes
    }

    /// CPU that handles the next interrupt of a source, for a request that was issued on `issuer`; `online` tells whether a
    /// CPU can.
    fn route(&mut self, source: usize, issuer: CpuId, online: impl Fn(CpuId) -> bool) -> CpuId {
        let Source { allowed, turn, routing, is_device, .. } = &mut self.sources[source];
        if (self.without_interrupts || !*is_device) && online(issuer) {
            return issuer;
        }
        match routing {
            Routing::Issuer if allowed.contains(&issuer) && online(issuer) => return issuer,
            Routing::RoundRobin => {
                let next =
                    (0..allowed.len()).map(|step| (*turn + step) % allowed.len()).find(|at| online(allowed[*at]));
                if let Some(at) = next {
                    *turn = at + 1;
                    return allowed[at];
                }
            }
            Routing::One | Routing::Issuer => {}
        }
        allowed.iter().copied().find(|cpu| online(*cpu)).unwrap_or(BOOT_CPU)
    }

    /// Times of top and bottom half of an interrupt; `shares`: another one has the top half.
    fn halves(&self, source: usize, shares: bool) -> [Nanos; 2] {
        let Source { top, bottom, is_device, .. } = self.sources[source];
        match (self.without_interrupts || !is_device, shares) {
            (true, _) => [Nanos::ZERO; 2],
            (false, true) => [Nanos::ZERO, bottom],
            (false, false) => [top, bottom],
        }
    }

    /// CPUs to which interrupts of the disks and networks that the workload uses are routed.
    fn interrupt_cpus(&self) -> CpuSet {
        let of_source = |source: usize| {
            let Source { routing, is_device, allowed, .. } = &self.sources[source];
            let routed = match routing {
                Routing::One => 1,
                Routing::RoundRobin | Routing::Issuer => usize::MAX,
            };
            allowed.iter().copied().take(if *is_device { routed } else { 0 })
        };
        let disks = self.of_workload.iter().chain(self.of_device.iter().flatten()).copied();
        let networks = self.of_network.iter().map(|network| self.network_source(*network));
        disks.chain(networks).flat_map(of_source).collect()
    }

    /// Takes a request to a disk, or a call over a network, that is complete at `now`; `None` if no further one is. Returns
    /// the source of its interrupt and its task.
    fn next_completed(&mut self, now: Nanos) -> Option<(usize, TaskId)> {
        let TaskDisks { devices, draws, .. } = self;
        if let Some(done) = devices.complete(now, &mut |disk| draws[disk].bits()) {
            self.count(now, &done);
            return Some((done.disk, done.request.task));
        }
        let answered = self.networks.answered(now)?;
        self.count_call(now, &answered);
        Some((self.network_source(answered.network), answered.call.task))
    }

    /// The answer of a call arrived at `now`.
    fn count_call(&mut self, now: Nanos, answered: &Answered) {
        let Answered { network, call, submitted, wait, service } = *answered;
        self.network_measures[network].count(call.bytes, call.reply, [wait, service, now - submitted]);
        if self.network_waited.len() <= call.task.index() {
            self.network_waited.resize(call.task.index() + 1, Nanos::ZERO);
        }
        self.network_waited[call.task.index()] += now - submitted;
    }

    /// Time of the next completion.
    fn due(&self) -> Option<Nanos> {
        self.devices.due().into_iter().chain(self.networks.due()).min()
    }

    /// Counts an interrupt of a source; `deferred`: ksoftirqd executes its bottom half.
    fn count_interrupt(&mut self, source: usize, cpu: CpuId, time: Nanos, deferred: bool) {
        let rows = &mut self.interrupts;
        let at = rows.iter().position(|row| row.cpu == cpu && row.source == source).unwrap_or_else(|| {
            rows.push(Row { source, cpu, count: 0, deferred: 0, total: Nanos::ZERO, max: Nanos::ZERO });
            rows.len() - 1
        });
        let row = &mut rows[at];
        row.deferred += u64::from(deferred);
        (row.count, row.total, row.max) = (row.count + 1, row.total + time, row.max.max(time));
    }

    /// A request of `task` is complete at `now`.
    fn count(&mut self, now: Nanos, done: &Completed) {
        let Request { task, write, bytes, .. } = done.request;
        self.count_request(done.disk, task, write, bytes, [done.wait, done.service]);
        if !self.in_progress.contains_key(&(task, done.disk)) {
            self.waited[task.index()] += now - done.submitted;
        }
    }

    /// The bottom half of a request is executed at `now`. Returns whether it wakes the task.
    fn completes(&mut self, now: Nanos, disk: usize, task: TaskId) -> bool {
        // The task of any other request waits for it.
        let Some(own) = self.in_progress.get_mut(&(task, disk)) else { return true };
        own.count -= 1;
        let left = own.count;
        if left == 0 {
            self.in_progress.remove(&(task, disk));
        }
        let Some(wait) = self.awaits.get(&task).filter(|wait| wait.disk == disk && left <= wait.most) else {
            return false;
        };
        self.waited[task.index()] += now - wait.since;
        self.awaits.remove(&task);
        true
    }

    fn count_request(&mut self, disk: usize, task: TaskId, write: bool, bytes: u64, [wait, service]: [Nanos; 2]) {
        let measures = &mut self.measures[disk];
        let (count, sum) = match write {
            true => (&mut measures.writes, &mut measures.written_bytes),
            false => (&mut measures.reads, &mut measures.read_bytes),
        };
        (*count, *sum) = (*count + 1, *sum + bytes);
        measures.waits.record(wait);
        measures.services.record(service);
        measures.latencies.record(wait + service);
        if self.waited.len() <= task.index() {
            self.waited.resize(task.index() + 1, Nanos::ZERO);
        }
    }

    /// The machine was suspended for this time.
    pub fn postpone(&mut self, by: Nanos) {
        self.devices.postpone(by);
        self.networks.postpone(by);
    }

    /// Use of disks and networks until `now`, and interrupts.
    pub fn finish(mut self, now: Nanos) -> DeviceTotals {
        for (disk, measures) in self.measures.iter_mut().enumerate() {
            measures.busy = self.devices.busy(disk, now);
        }
        for (network, measures) in self.network_measures.iter_mut().enumerate() {
            let devices::Busy { out, back, server } = self.networks.busy(network, now);
            measures.busy = [out, back, server];
        }
        self.interrupts.sort_by_key(|row| (row.source, row.cpu));
        let of_row = |row: &Row| InterruptUse {
            source: self.sources[row.source].name.clone(),
            cpu: row.cpu,
            count: row.count,
            deferred: row.deferred,
            total: row.total,
            max: row.max,
        };
        let interrupts = self.interrupts.iter().map(of_row).collect();
        let uses_disks = !self.of_workload.is_empty() || self.of_device.iter().any(Option::is_some);
        DeviceTotals {
            page_cache: None,
            disks: uses_disks.then_some(self.measures),
            disk_waits: self.waited,
            networks: (!self.of_network.is_empty()).then_some(self.network_measures),
            network_waits: self.network_waited,
            interrupts,
        }
    }
}

impl<M: Model> Run<'_, M> {
    /// `id`, which is current on `cpu`, reads or writes.
    pub fn begin_io(&mut self, cpu: CpuId, id: TaskId, io: Io) {
        let disks = self.disks.as_mut().expect("the workload uses disks");
        let disk = disks.disk(io.disk);
        if io.cached && self.cache.is_some() {
            return self.begin_cached(id, disk, &io);
        }
        let place = match io.place {
            IoPlace::Random if io.within > 0 => Place::At(disks.random_place(disk, &io, io.within)),
            IoPlace::Random => Place::Random,
            IoPlace::Sequential => Place::Sequential,
            IoPlace::At(byte) => Place::At(byte),
        };
        let request = Request { task: id, write: io.write, bytes: io.bytes, place, recorded: Nanos::ZERO };
        self.request_and_wait(cpu, disk, request);
    }

    /// Passes a request to a disk, for which its task, which is current on `cpu`, waits.
    pub fn request_and_wait(&mut self, cpu: CpuId, disk: usize, request: Request) {
        let disks = self.disks.as_mut().expect("the workload uses disks");
        if let Some(time) = disks.devices.cpu_time(disk, request.bytes) {
            return self.use_ram_disk(disk, &request, time);
        }
        let ahead = self.pass_to_disk(cpu, disk, request);
        self.block_on_disk(cpu, request.task, disk, ahead);
    }

    /// A request to a RAM disk takes CPU time of its task.
    fn use_ram_disk(&mut self, disk: usize, request: &Request, time: Nanos) {
        let disks = self.disks.as_mut().expect("the workload uses disks");
        disks.count_request(disk, request.task, request.write, request.bytes, [Nanos::ZERO, time]);
        self.begin_kernel_work(request.task, time);
    }

    /// `id`, which is current, works in the kernel for this time. It counts as work of the workload only if the task is
    /// part of the workload: kthreads for write-back copy pages, too.
    pub fn begin_kernel_work(&mut self, id: TaskId, time: Nanos) {
        if self.tasks[id].role == Role::Workload {
            self.demands.count_system_work(time);
        }
        self.tasks[id].begin_work(time);
    }

    /// Passes a request to a disk; its task runs on `cpu`. Returns the number of requests before it.
    fn pass_to_disk(&mut self, cpu: CpuId, disk: usize, request: Request) -> u32 {
        let now = self.clock.now();
        let disks = self.disks.as_mut().expect("the workload uses disks");
        let draws = &mut disks.draws;
        let ahead = disks.devices.submit(now, disk, request, &mut |disk| draws[disk].bits());
        self.issued(cpu, request.task, disk);
        ahead
    }

    /// `id`, which runs on `cpu`, has submitted a request to this disk, or a call over a network, whose numbers follow those
    /// of disks.
    pub fn issued(&mut self, cpu: CpuId, id: TaskId, source: usize) {
        let disks = self.disks.as_mut().expect("the workload uses disks or networks");
        if disks.issuers.len() <= id.index() {
            disks.issuers.resize(id.index() + 1, cpu);
        }
        disks.issuers[id.index()] = cpu;
        let (due, source) = (disks.due(), &mut disks.sources[source]);
        source.requests += 1;
        if self.sinks.wants_details {
            let kind = DetailKind::Device { name: source.name.clone(), requests: source.requests };
            self.tell_own_detail(cpu, TaskId::NONE, kind);
        }
        if let Some(due) = due {
            self.alarms.set(Alarm::Disk, due);
        }
    }

    fn block_on_disk(&mut self, cpu: CpuId, id: TaskId, disk: usize, ahead: u32) {
        self.report_disk_wait(cpu, id, disk, ahead);
        self.block_on_device(cpu, id);
    }

    /// `id`, which is current on `cpu`, sleeps until an interrupt of a device wakes it.
    pub fn block_on_device(&mut self, cpu: CpuId, id: TaskId) {
        self.count_asleep(id, true);
        self.schedule(cpu, Leave::Block(BlockCause::Io));
    }

    /// `id`, which is current on `cpu`, submits a recorded request and continues. Nothing happens if the machine does not
    /// have the device. A RAM disk takes CPU time of the task.
    pub fn submit(&mut self, cpu: CpuId, id: TaskId, submission: &Submission) {
        let Submission { device, write, bytes, service } = *submission;
        let Some(disk) = self.disks.as_ref().and_then(|disks| disks.of_device[device.0 as usize]) else { return };
        self.submit_to(cpu, disk, Request { task: id, write, bytes, place: Place::Random, recorded: service });
    }

    /// Passes a request to a disk; its task, which is current on `cpu`, continues, and may wait for it later. A RAM disk
    /// takes CPU time of the task.
    pub fn submit_to(&mut self, cpu: CpuId, disk: usize, request: Request) {
        let disks = self.disks.as_mut().expect("the workload uses disks");
        if let Some(time) = disks.devices.cpu_time(disk, request.bytes) {
            return self.use_ram_disk(disk, &request, time);
        }
        let ahead = self.pass_to_disk(cpu, disk, request);
        let disks = self.disks.as_mut().expect("as above");
        let own = disks.in_progress.entry((request.task, disk)).or_default();
        *own = InProgress { count: own.count + 1, ahead };
    }

    /// `id`, which is current on `cpu`, waits until at most `most` of its recorded requests to this device are in progress.
    /// Returns false, and does nothing, if the machine does not have the device.
    pub fn await_requests(&mut self, cpu: CpuId, id: TaskId, device: DeviceId, most: u32) -> bool {
        let Some(disk) = self.disks.as_ref().and_then(|disks| disks.of_device[device.0 as usize]) else { return false };
        self.await_own(cpu, id, disk, most);
        true
    }

    /// `id`, which is current on `cpu`, waits until at most `most` of its requests to this disk are in progress.
    pub fn await_own(&mut self, cpu: CpuId, id: TaskId, disk: usize, most: u32) {
        let now = self.clock.now();
        let disks = self.disks.as_mut().expect("the workload uses disks");
        let own = disks.in_progress.get(&(id, disk)).copied().unwrap_or_default();
        if own.count > most {
            disks.awaits.insert(id, Wait { disk, most, since: now });
            self.block_on_disk(cpu, id, disk, own.ahead);
        }
    }

    /// Counts a task of the workload that begins or ends a sleep. A run does not wait for kthreads.
    fn count_asleep(&mut self, id: TaskId, begins: bool) {
        if self.tasks[id].role == Role::Workload {
            self.tasks.count_task(id, |left| if begins { left.asleep += 1 } else { left.asleep -= 1 });
        }
    }

    /// Requests are complete.
    pub fn disks_due(&mut self) {
        let now = self.clock.now();
        let Some(mut disks) = self.disks.take() else { return };
        let mut arrived: Vec<(usize, CpuId)> = Vec::new();
        while let Some((source, task)) = disks.next_completed(now) {
            let entry = &mut disks.sources[source];
            entry.requests -= 1;
            if self.sinks.wants_details {
                let kind = DetailKind::Device { name: entry.name.clone(), requests: entry.requests };
                self.tell_own_detail(BOOT_CPU, TaskId::NONE, kind);
            }
            let issuer = disks.issuers[task.index()];
            let cpu = disks.route(source, issuer, |cpu| !self.cpus[cpu].offline);
            let shares = arrived.contains(&(source, cpu));
            arrived.push((source, cpu));
            let interrupt = Interrupt::Disk { task, disk: source as u32, shares };
            self.disks = Some(disks);
            self.interrupt(cpu, Some(interrupt));
            disks = self.disks.take().expect("nothing else takes the disks");
        }
        if let Some(due) = disks.due() {
            self.alarms.set(Alarm::Disk, due);
        }
        self.disks = Some(disks);
    }

    /// The interrupt of a disk is handled on `cpu`. Its bottom half wakes the task that waits, now or in ksoftirqd.
    pub fn disk_interrupt(&mut self, cpu: CpuId, disk: u32, task: TaskId, shares: bool) {
        let now = self.clock.now();
        let disks = self.disks.as_mut().expect("an interrupt of a disk");
        let [top, bottom] = disks.halves(disk as usize, shares);
        if let Some(thread) = disks.softirqs.defers(now, cpu) {
            disks.softirqs.defer(cpu, Deferred { disk: disk as usize, task, time: bottom });
            let interrupt = self.noise.interrupt(cpu, top.0);
            self.count_interrupt(cpu, disk, interrupt, true);
            let entry = &self.tasks[thread];
            if entry.state() == State::Blocked || entry.blocks {
                let wakeup = self.wakeup(cpu, thread);
                return self.operate(cpu, Operation::Wake(thread, Waker::Interrupt), Charge { interrupt, ..wakeup });
            }
            return self.cpus[cpu].charge(Charge { interrupt, ..Charge::default() });
        }
        let wakes = disks.completes(now, disk as usize, task);
        let interrupt = self.noise.interrupt(cpu, (top + bottom).0);
        self.count_interrupt(cpu, disk, interrupt, false);
        if wakes {
            self.count_asleep(task, false);
            let wakeup = self.wakeup(cpu, task);
            self.operate(cpu, Operation::Wake(task, Waker::Interrupt), Charge { interrupt, ..wakeup });
        } else {
            self.only_interrupt(cpu, interrupt);
        }
        let until = self.cpus[cpu].free_at();
        if let Some(disks) = &mut self.disks {
            disks.softirqs.handled(now, until, cpu);
        }
    }

    fn count_interrupt(&mut self, cpu: CpuId, disk: u32, time: Nanos, deferred: bool) {
        let counts = |disks: &&mut Box<TaskDisks>| !disks.without_interrupts && disks.sources[disk as usize].is_device;
        if let Some(disks) = self.disks.as_mut().filter(counts) {
            disks.count_interrupt(disk as usize, cpu, time, deferred);
        }
    }

    /// Creates ksoftirqd during boot for each CPU that may handle interrupts of a disk or network that the workload uses.
    pub fn create_softirq_threads(&mut self) {
        let Some(disks) = self.disks.as_ref().filter(|disks| !disks.without_interrupts) else { return };
        for cpu in disks.interrupt_cpus().iter() {
            let attributes = TaskAttributes {
                name: format!("ksoftirqd/{cpu}"),
                policy: Policy::Other,
                nice: 0,
                allowed: CpuSet::from_iter([cpu]),
                kernel_thread: true,
                own_cpu: Some(cpu),
                thread: false,
                parent: None,
                identity: Identity::default(),
            };
            let thread = self.boot_thread(cpu, attributes, Role::Softirq);
            if let Some(disks) = &mut self.disks {
                disks.softirqs.add_thread(cpu, thread);
            }
        }
    }

    /// ksoftirqd of `cpu` takes its next step: it works on a bottom half, wakes the task that waits for it, or sleeps.
    pub fn run_softirq_thread(&mut self, cpu: CpuId, id: TaskId) {
        let now = self.clock.now();
        let disks = self.disks.as_mut().expect("the thread serves disks");
        let softirqs = &mut disks.softirqs;
        let entry = &mut self.tasks[id];
        if std::mem::take(&mut entry.took_work) {
            let Deferred { disk, task, .. } = softirqs.take(cpu).expect("the thread works on the first bottom half");
            if !disks.completes(now, disk, task) {
                return;
            }
            self.count_asleep(task, false);
            let wakeup = self.wakeup(cpu, task);
            return self.operate(cpu, Operation::Wake(task, Waker::Task(id)), wakeup);
        }
        match softirqs.first(cpu) {
            Some(Deferred { time, .. }) => {
                entry.took_work = true;
                entry.begin_work(time.max(Nanos(1)));
            }
            None => self.schedule(cpu, Leave::Block(BlockCause::External)),
        }
    }
}
