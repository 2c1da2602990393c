// SPDX-License-Identifier: GPL-2.0-only
//! Page cache in a run: cached requests of tasks, write-back by kthreads, and `fsync`.
//!
//! 1. A cached read waits for one request that covers its missing pages, and then copies: CPU time of the task. Without
//!    missing pages it only copies.
//! 2. A cached write copies, and makes pages dirty. It waits while more pages than the limit are dirty.
//! 3. Each disk has a kthread for write-back. It runs when more pages than the background share are dirty, until that is
//!    no longer so, and in an interval for pages that have been dirty for long.
//! 4. `fsync` writes the pages that the task made dirty, and waits for them.
//!
//! An operation that consists of several steps leaves them here; the task takes them before it asks its script.

use crate::alarms::Alarm;
use crate::cpu::Charge;
use crate::model::Model;
use crate::run::{BOOT_CPU, Run};
use crate::tasks::Role;
use devices::{Extent, PAGE, PageCache, Place, Request, Which};
use event_log::{BlockCause, Waker};
use ids::{CpuId, Nanos, Policy, TaskId};
use kernel_model::{Identity, Leave, Operation, TaskAttributes};
use machine_model::Machine;
use measures::PageCacheMeasures;
use std::collections::{BTreeMap, VecDeque};
use workload::{DiskId, Io, IoPlace, Workload};

/// Longest request of write-back, in bytes: the kernel's default limit for a block request is 1280 KiB, and file systems
/// write 1 MiB at a time.
const LONGEST: u64 = 1 << 20;

/// Pages that a kthread writes back before it looks again: 4 MiB, the kernel's smallest chunk of write-back
/// (`MIN_WRITEBACK_PAGES`).
const BATCH: usize = 1024;

/// A step of an operation.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Step {
    /// Read missing pages, and wait.
    Read(Extent),
    /// They are in memory now.
    Insert(Extent),
    /// CPU time.
    Copy(Nanos),
    /// Pages are dirty now.
    Dirty(Extent),
    /// Wake the kthread of this disk if there is something to write back.
    Nudge(usize),
    /// Wait until fewer pages are dirty.
    Throttle,
    /// Submit a write, and continue.
    Submit(Extent),
    /// Wait for all own writes to this disk.
    Await(usize),
    /// They are written.
    Written(Extent),
}

/// The kthread that writes back pages of a disk.
#[derive(Clone, Copy, Debug)]
struct Flusher {
    task: TaskId,
    /// It sleeps until it is woken, or until its interval ends.
    idles: bool,
}

/// Page cache of the machine, and what tasks did with it.
#[derive(Debug)]
pub(crate) struct TaskCache {
    cache: PageCache,
    description: machine_model::PageCache,
    steps: BTreeMap<TaskId, VecDeque<Step>>,
    /// End of the last cached request of each task to each disk.
    ends: BTreeMap<(TaskId, usize), u64>,
    /// By disk; `None` for disks that no cached request uses.
    flushers: Vec<Option<Flusher>>,
    /// Writers that wait, and since when.
    throttled: VecDeque<(TaskId, Nanos)>,
    measures: PageCacheMeasures,
}

impl TaskCache {
    /// Creates an empty cache; `None` if the machine has none, or the workload does not use it.
    pub fn new(machine: &Machine, workload: &Workload) -> Option<Box<TaskCache>> {
        let description = machine.effects.page_cache.clone().filter(|_| workload.uses_page_cache())?;
        Some(Box::new(TaskCache {
            cache: PageCache::new(&description),
            description,
            steps: BTreeMap::new(),
            ends: BTreeMap::new(),
            flushers: vec![None; machine.effects.disks.disks.len()],
            throttled: VecDeque::new(),
            measures: PageCacheMeasures::default(),
        }))
    }

    fn copy(&self, bytes: u64) -> Nanos {
        let machine_model::PageCache { overhead_ns, mb_s, .. } = &self.description;
        let copy = u128::from(bytes) * 1_000 / u128::from(mb_s.typical.max(1));
        Nanos((overhead_ns.typical + copy as u64).max(1))
    }

    fn plan(&mut self, task: TaskId, steps: impl IntoIterator<Item = Step>) {
        self.steps.entry(task).or_default().extend(steps);
    }

    /// Steps that write these extents and wait for them.
    fn plan_writes(&mut self, task: TaskId, disk: usize, extents: &[Extent]) {
        let submits = extents.iter().map(|extent| Step::Submit(*extent));
        let written = extents.iter().map(|extent| Step::Written(*extent));
        self.plan(task, submits.chain([Step::Await(disk)]).chain(written));
    }

    fn next(&mut self, task: TaskId) -> Option<Step> {
        let steps = self.steps.get_mut(&task)?;
        let step = steps.pop_front();
        if steps.is_empty() {
            self.steps.remove(&task);
        }
        step
    }

    /// What tasks did with the cache.
    pub fn finish(self) -> PageCacheMeasures {
        PageCacheMeasures { dirty_bytes: self.cache.dirty_pages() * PAGE, ..self.measures }
    }
}

impl<M: Model> Run<'_, M> {
    /// Creates the kthreads for write-back during boot, for each disk with cached requests.
    pub fn create_flushers(&mut self) {
        if self.cache.is_none() {
            return;
        }
        let workload = self.demands.workload();
        let scripts = workload.tasks.iter().flat_map(|task| &task.script);
        let cached = scripts.filter_map(|op| match op {
            workload::Op::Io(io) if io.cached => Some(io.disk),
            _ => None,
        });
        let disks = self.disks.as_ref().expect("the workload uses disks");
        let used: std::collections::BTreeSet<usize> = cached.map(|disk| disks.disk(disk)).collect();
        for disk in used {
            let attributes = TaskAttributes {
                name: format!("kworker/u:flush-{}", self.machine.effects.disks.disks[disk].name),
                policy: Policy::Other,
                nice: 0,
                allowed: self.machine.all_cpus(),
                kernel_thread: true,
                own_cpu: None,
                thread: false,
                parent: None,
                identity: Identity::default(),
            };
            let task = self.boot_thread(BOOT_CPU, attributes, Role::Flusher(disk as u32));
            let cache = self.cache.as_mut().expect("as above");
            cache.flushers[disk] = Some(Flusher { task, idles: true });
            self.alarms.set(Alarm::Sleep(task), Nanos::from_ms(cache.description.flush_ms));
        }
    }

    /// `id`, which is current, reads or writes through the page cache: plans the steps.
    pub fn begin_cached(&mut self, id: TaskId, disk: usize, io: &Io) {
        let capacity = self.machine.effects.disks.disks[disk].capacity();
        let disks = self.disks.as_mut().expect("the workload uses disks");
        let cache = self.cache.as_mut().expect("as the caller checked");
        let start = match io.place {
            IoPlace::At(byte) => byte,
            IoPlace::Sequential => match cache.ends.get(&(id, disk)) {
                Some(end) => *end,
                None => disks.random_place(disk, io, capacity),
            },
            IoPlace::Random => disks.random_place(disk, io, capacity),
        };
        let start = start % capacity;
        cache.ends.insert((id, disk), start + io.bytes);
        let extent = Extent::of(disk, start, io.bytes);
        let copy = Step::Copy(cache.copy(io.bytes));
        if io.write {
            cache.measures.written_bytes += extent.bytes;
            return cache.plan(id, [copy, Step::Dirty(extent), Step::Nudge(disk), Step::Throttle]);
        }
        match cache.cache.missing(extent) {
            Some(missing) => {
                cache.measures.miss_bytes += missing.bytes;
                cache.measures.hit_bytes += extent.bytes - missing.bytes;
                cache.plan(id, [Step::Read(missing), Step::Insert(missing), copy]);
            }
            None => {
                cache.measures.hit_bytes += extent.bytes;
                cache.plan(id, [copy]);
            }
        }
    }

    /// `id`, which is current, waits until its dirty pages of a disk are written. Nothing happens without a page cache.
    pub fn begin_fsync(&mut self, id: TaskId, disk: DiskId) {
        let (Some(cache), Some(disks)) = (&mut self.cache, &self.disks) else { return };
        let disk = disks.disk(disk);
        let extents = cache.cache.take(disk, Which::Of(id), usize::MAX, LONGEST);
        cache.measures.synced_bytes += extents.iter().map(|extent| extent.bytes).sum::<u64>();
        if !extents.is_empty() {
            cache.plan_writes(id, disk, &extents);
        }
    }

    /// Executes the next step of `id`, which is current on `cpu`. Returns whether there was one.
    pub fn take_cache_step(&mut self, cpu: CpuId, id: TaskId) -> bool {
        let now = self.clock.now();
        let Some(cache) = &mut self.cache else { return false };
        let Some(step) = cache.next(id) else { return false };
        match step {
            Step::Read(extent) => self.request_pages(cpu, id, extent, false),
            Step::Submit(extent) => self.request_pages(cpu, id, extent, true),
            Step::Insert(extent) => cache.cache.insert(extent),
            Step::Written(extent) => cache.cache.written(extent),
            Step::Dirty(extent) => cache.cache.write(now, id, extent),
            Step::Copy(time) => self.begin_kernel_work(id, time),
            Step::Nudge(disk) => {
                let is_needed = cache.cache.writes_back();
                let flusher = cache.flushers[disk].as_mut().filter(|flusher| is_needed && flusher.idles);
                if let Some(flusher) = flusher {
                    flusher.idles = false;
                    let task = flusher.task;
                    self.alarms.cancel(Alarm::Sleep(task));
                    self.wake(cpu, id, task);
                }
            }
            Step::Throttle => {
                if cache.cache.throttles() {
                    cache.throttled.push_back((id, now));
                    self.report_throttle(cpu, id);
                    self.block_on_device(cpu, id);
                }
            }
            Step::Await(disk) => self.await_own(cpu, id, disk, 0),
        }
        true
    }

    /// Reads missing pages and waits, or writes pages and continues.
    fn request_pages(&mut self, cpu: CpuId, id: TaskId, extent: Extent, write: bool) {
        let Extent { disk, start, bytes } = extent;
        let place = Place::At(start);
        let request = Request { task: id, write, bytes, place, recorded: Nanos::ZERO };
        match write {
            true => self.submit_to(cpu, disk, request),
            false => self.request_and_wait(cpu, disk, request),
        }
    }

    /// The kthread for write-back of a disk takes its next step.
    pub fn run_flusher(&mut self, cpu: CpuId, id: TaskId, disk: usize) {
        if self.take_cache_step(cpu, id) {
            return;
        }
        let now = self.clock.now();
        let cache = self.cache.as_mut().expect("the thread serves the page cache");
        if !cache.cache.throttles()
            && let Some((writer, since)) = cache.throttled.pop_front()
        {
            cache.measures.throttled += now - since;
            self.tasks.count_task(writer, |left| left.asleep -= 1);
            let wakeup = self.wakeup(cpu, writer);
            return self.operate(cpu, Operation::Wake(writer, Waker::Task(id)), wakeup);
        }
        let which = match cache.cache.writes_back() {
            true => Which::Any,
            false => {
                let expire = Nanos::from_ms(cache.description.expire_ms);
                if now < expire { Which::Of(TaskId::NONE) } else { Which::Until(now - expire) }
            }
        };
        let extents = cache.cache.take(disk, which, BATCH, LONGEST);
        if !extents.is_empty() {
            cache.measures.flushed_bytes += extents.iter().map(|extent| extent.bytes).sum::<u64>();
            let overhead = Nanos(cache.description.overhead_ns.typical.max(1) * extents.len() as u64);
            cache.plan(id, [Step::Copy(overhead)]);
            return cache.plan_writes(id, disk, &extents);
        }
        let interval = Nanos::from_ms(cache.description.flush_ms);
        if let Some(flusher) = &mut cache.flushers[disk] {
            flusher.idles = true;
        }
        let task = &mut self.tasks[id];
        (task.slept_on, task.slept_for) = (cpu, BlockCause::Timer);
        self.alarms.set(Alarm::Sleep(id), now + interval);
        self.schedule(cpu, Leave::Block(BlockCause::Timer));
    }

    /// The interval of a kthread for write-back ends. Returns false if it was woken before.
    pub fn flusher_interval_ends(&mut self, id: TaskId) -> bool {
        let mut flushers = self.cache.iter_mut().flat_map(|cache| cache.flushers.iter_mut().flatten());
        let own = flushers.find(|flusher| flusher.task == id);
        own.is_some_and(|flusher| std::mem::take(&mut flusher.idles))
    }

    /// An interrupt without a wakeup.
    pub fn only_interrupt(&mut self, cpu: CpuId, interrupt: Nanos) {
        self.cpus[cpu].charge(Charge { interrupt, ..Charge::default() });
    }
}
