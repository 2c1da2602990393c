// SPDX-License-Identifier: GPL-2.0-only
//! The sink that keeps what a timeline is made of.

use crate::queue::{Change, Queue};
use crate::task::{Choice, Cpu, Departure, Dispatched, Kick, Phase, Stand, Stint, Task, What, Why, Words};
use event_log::{CallbackSite, Detail, DetailKind, Event, EventKind, Sink, SwitchReason, TaskInfo};
use ids::{CpuId, CpuSet, DsqId, Nanos, TaskId};
use std::collections::{BTreeMap, VecDeque};

/// So many of a task's last events are kept: enough for two turns of a wakeup, its queues, a stint and its sleep.
pub const LAST: usize = 24;

/// So many numbers that callbacks wrote are kept for each task: more than a task's state has.
const WRITTEN: usize = 64;

/// Something that a task or the scheduler did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Happening {
    /// An event.
    Event(Event),
    /// What the events leave out.
    Detail(Detail),
}

/// All that is known of when and why in a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Timeline {
    /// Tasks by number.
    pub tasks: Vec<Task>,
    /// CPUs by number.
    pub cpus: Vec<Cpu>,
    /// Queues of which the order is known.
    pub queues: BTreeMap<DsqId, Queue>,
    /// The scheduler's source files by number, without their folders.
    pub files: Vec<String>,
    /// The scheduler's callbacks and queues were told of: the run was simulated, and under a scheduler.
    pub sees_queues: bool,
    /// When the run ended.
    pub end: Nanos,
}

impl Timeline {
    /// A task by its number.
    ///
    /// # Panics
    /// If there is none.
    pub fn task(&self, task: TaskId) -> &Task {
        &self.tasks[task.index()]
    }

    /// The file of a site, if it is known.
    pub fn file(&self, site: CallbackSite) -> Option<&str> {
        self.files.get(usize::from(site.file)).filter(|_| site.line > 0).map(String::as_str)
    }
}

/// Keeps a run as it passes: some 60 bytes for each event that matters.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    kept: Timeline,
    /// A CPU that neither runs a task of the run nor idles runs tasks of others.
    sees_others: bool,
}

impl Recorder {
    /// For a machine with so many CPUs, of a run that has not begun.
    pub fn new(cpus: usize) -> Recorder {
        let kept = Timeline { cpus: vec![Cpu::default(); cpus], ..Timeline::default() };
        Recorder { kept, sees_others: false }
    }

    /// The same for a real run: a CPU that neither runs a task of the run nor idles runs tasks of others. In a simulated run
    /// it is on its way from idle to a task.
    pub fn of_real_run(cpus: usize) -> Recorder {
        Recorder { sees_others: true, ..Recorder::new(cpus) }
    }

    /// What was kept of a run that ended at `end`.
    pub fn finish(mut self, end: Nanos) -> Timeline {
        let kept = &mut self.kept;
        kept.end = end;
        for task in &mut kept.tasks {
            let last = task.ended.unwrap_or(end);
            if let Some(phase) = task.phases.last_mut() {
                phase.to = last.max(phase.from);
            }
            if let Some(stand) = task.stands.last_mut().filter(|stand| stand.departure == Departure::Stands) {
                stand.to = last.max(stand.from);
            }
        }
        for cpu in &mut kept.cpus {
            if let Some(stint) = cpu.stints.last_mut().filter(|stint| stint.reason.is_none()) {
                stint.to = end.max(stint.from);
            }
            for open in [cpu.offline.last_mut(), cpu.others.last_mut()].into_iter().flatten() {
                if open.1 == Nanos::MAX {
                    open.1 = end.max(open.0);
                }
            }
        }
        self.kept
    }

    fn cpu(&mut self, cpu: CpuId) -> &mut Cpu {
        let cpus = &mut self.kept.cpus;
        if cpus.len() <= cpu.index() {
            cpus.resize_with(cpu.index() + 1, Cpu::default);
        }
        &mut cpus[cpu.index()]
    }

    fn task_mut(&mut self, task: TaskId) -> Option<&mut Task> {
        task.some().and_then(|task| self.kept.tasks.get_mut(task.index()))
    }

    fn happened(&mut self, task: TaskId, what: impl FnOnce() -> Happening) {
        if let Some(task) = self.task_mut(task) {
            if task.last.len() == LAST {
                task.last.pop_front();
            }
            task.last.push_back(what());
        }
    }

    fn wakeup(&mut self, event: &Event) {
        let EventKind::Wakeup { waker, target, .. } = event.kind else { unreachable!("the caller looked") };
        let why = Why::Woken { waker, on: event.cpu, target };
        if let Some(task) = self.task_mut(event.task)
            && matches!(task.now(), Some(What::Sleeps { .. }))
        {
            task.enter(event.time, What::Waits { why });
        }
    }

    fn switch(&mut self, time: Nanos, cpu: CpuId, prev: TaskId, next: TaskId, reason: SwitchReason) {
        if prev == next {
            return;
        }
        self.others(time, cpu, false);
        let stints = &mut self.cpu(cpu).stints;
        if let Some(last) = stints.last_mut().filter(|last| last.reason.is_none()) {
            (last.to, last.reason) = (time, Some(reason));
        }
        if let Some(task) = next.some() {
            stints.push(Stint { task, from: time, to: Nanos::MAX, reason: None });
        }
        if let Some(task) = self.task_mut(prev)
            && matches!(task.now(), Some(What::Runs { .. }))
        {
            task.enter(
                time,
                match reason {
                    SwitchReason::Block | SwitchReason::Exit => What::Sleeps { cause: None },
                    reason => What::Waits { why: Why::Lost { reason, cpu } },
                },
            );
        }
        if let Some(task) = self.task_mut(next) {
            task.enter(time, What::Runs { cpu });
            task.leave_queue(time, Departure::Ran);
        }
    }

    fn hotplug(&mut self, time: Nanos, cpu: CpuId, online: bool) {
        let offline = &mut self.cpu(cpu).offline;
        match offline.last_mut().filter(|last| last.1 == Nanos::MAX) {
            Some(last) if online => last.1 = time,
            None if !online => offline.push((time, Nanos::MAX)),
            _ => {}
        }
    }

    /// The CPU is busy with what is no task of the run from now on, or no longer.
    fn others(&mut self, time: Nanos, cpu: CpuId, busy: bool) {
        let cpu = self.cpu(cpu);
        let runs = cpu.stints.last().is_some_and(|last| last.reason.is_none());
        match cpu.others.last_mut().filter(|last| last.1 == Nanos::MAX) {
            Some(last) if !busy && last.0 == time => drop(cpu.others.pop()),
            Some(last) if !busy => last.1 = time,
            None if busy && !runs => cpu.others.push((time, Nanos::MAX)),
            _ => {}
        }
    }

    fn insert(&mut self, event: &Event) {
        let EventKind::Insert { dsq, key, slice_ns } = event.kind else { unreachable!("the caller looked") };
        self.kept.sees_queues = true;
        self.stand(event.task, (event.time, event.site), Some(dsq), (key, slice_ns));
    }

    /// The task stands in this queue, or in none, from now on.
    fn stand(
        &mut self,
        task: TaskId,
        (time, site): (Nanos, CallbackSite),
        queue: Option<DsqId>,
        (key, slice_ns): (u64, u64),
    ) {
        if let Some(task) = self.task_mut(task) {
            task.leave_queue(time, Departure::Moved);
            let (key_by, slice_by) = (task.writer(key), task.writer(slice_ns));
            let (to, ahead, queued, departure) = (Nanos::MAX, None, 0, Departure::Stands);
            let stand =
                Stand { queue, from: time, to, key, slice_ns, ahead, queued, site, key_by, slice_by, departure };
            task.stands.push(stand);
        }
    }
}

impl Task {
    fn now(&self) -> Option<What> {
        self.phases.last().filter(|_| self.ended.is_none()).map(|phase| phase.what)
    }

    fn enter(&mut self, time: Nanos, what: What) {
        if let Some(phase) = self.phases.last_mut() {
            phase.to = time;
        }
        if let Some(words) = self.words.last_mut().filter(|words| words.to.is_none() && !words.spins)
            && matches!(what, What::Waits { .. })
        {
            words.to = Some(time);
        }
        self.phases.push(Phase { from: time, to: Nanos::MAX, what });
    }

    fn leave_queue(&mut self, time: Nanos, departure: Departure) {
        if let Some(stand) = self.stands.last_mut().filter(|stand| stand.departure == Departure::Stands) {
            (stand.to, stand.departure) = (time, departure);
        }
    }

    /// It was dispatched: from where it stands, or from where it stood a moment ago.
    fn dispatched(&mut self, time: Nanos, to: CpuId, site: CallbackSite) {
        if let Some(stand) = self.stands.last_mut()
            && (stand.departure == Departure::Stands || stand.departure == Departure::Moved && stand.to == time)
        {
            (stand.to, stand.departure) = (time, Departure::Dispatched { to, site });
        }
    }
}

impl Sink for Recorder {
    fn source_file(&mut self, file: u16, name: &str) {
        let files = &mut self.kept.files;
        files.resize(files.len().max(usize::from(file) + 1), String::new());
        name.rsplit('/').next().unwrap_or(name).clone_into(&mut files[usize::from(file)]);
    }

    fn task(&mut self, time: Nanos, info: &TaskInfo) {
        self.kept.tasks.push(Task {
            info: info.clone(),
            born: time,
            ended: None,
            allowed: vec![(time, info.allowed.clone())],
            phases: vec![Phase { from: time, to: Nanos::MAX, what: What::Sleeps { cause: None } }],
            stands: Vec::new(),
            written: VecDeque::new(),
            choices: Vec::new(),
            words: Vec::new(),
            last: VecDeque::new(),
        });
    }

    fn affinity(&mut self, time: Nanos, task: TaskId, allowed: &CpuSet) {
        if let Some(task) = self.task_mut(task) {
            task.allowed.push((time, allowed.clone()));
        }
    }

    fn event(&mut self, event: &Event) {
        let Event { time, cpu, task, site, .. } = *event;
        match event.kind {
            EventKind::Wakeup { .. } => self.wakeup(event),
            EventKind::Switch { prev, reason } => {
                self.happened(prev, || Happening::Event(*event));
                self.switch(time, cpu, prev, task, reason);
            }
            EventKind::Block { cause } => {
                if let Some(task) = self.task_mut(task)
                    && matches!(task.now(), Some(What::Runs { .. }))
                {
                    task.enter(time, What::Sleeps { cause: Some(cause) });
                }
            }
            EventKind::Exit => {
                if let Some(task) = self.task_mut(task).filter(|task| task.ended.is_none()) {
                    task.phases.last_mut().expect("a task has a phase from its birth on").to = time;
                    task.leave_queue(time, Departure::Moved);
                    task.ended = Some(time);
                }
            }
            EventKind::Insert { .. } => self.insert(event),
            EventKind::Dispatch { to, .. } => {
                if let Some(task) = self.task_mut(task) {
                    task.dispatched(time, to, site);
                }
            }
            EventKind::Kick { target, flags } => self.cpu(target).kicks.push(Kick { time, by: cpu, flags, site }),
            EventKind::LockWait { lock, waited } => self.cpu(cpu).lock_waits.push((time, lock, waited)),
            EventKind::Hotplug { online } => {
                self.others(time, cpu, false);
                self.hotplug(time, cpu, online);
            }
            EventKind::Idle { entered } => self.others(time, cpu, !entered && self.sees_others),
            EventKind::SelectCpu { chosen, .. } => {
                if let Some(task) = self.task_mut(task) {
                    task.choices.push(Choice { time, cpu: chosen, site });
                }
            }
            _ => {}
        }
        self.happened(task, || Happening::Event(*event));
    }

    fn wants_details(&self) -> bool {
        true
    }

    fn detail(&mut self, detail: &Detail) {
        let Detail { time, cpu, task, site, .. } = *detail;
        match &detail.kind {
            DetailKind::Placed { dsq, ahead, queued } => {
                self.kept.queues.entry(*dsq).or_default().changes.push((time, Change::Came(task, *ahead)));
                if let Some(stand) = self.task_mut(task).and_then(|task| task.stands.last_mut()) {
                    (stand.ahead, stand.queued) = (Some(*ahead), *queued);
                }
                return;
            }
            DetailKind::Left { dsq } => {
                self.kept.queues.entry(*dsq).or_default().changes.push((time, Change::Left(task)));
                if let Some(task) = self.task_mut(task) {
                    task.leave_queue(time, Departure::Moved);
                }
                return;
            }
            DetailKind::Dispatched { found, kept } => {
                self.cpu(cpu).dispatches.push(Dispatched { time, found: *found, kept: *kept });
                return;
            }
            DetailKind::Wrote { value } => {
                if let Some(task) = self.task_mut(task) {
                    if task.written.len() == WRITTEN {
                        task.written.pop_front();
                    }
                    task.written.push_back((*value, site));
                }
                return;
            }
            DetailKind::Chose => {
                if let Some(choice) = self.task_mut(task).and_then(|task| task.choices.last_mut()) {
                    choice.site = site;
                }
                return;
            }
            DetailKind::Kept => {
                self.kept.sees_queues = true;
                self.stand(task, (time, site), None, (0, 0));
            }
            DetailKind::Waits { what, lock, spins } => {
                let words = Words { from: time, to: None, what: what.clone(), lock: *lock, spins: *spins };
                if let Some(task) = self.task_mut(task) {
                    task.words.push(words);
                }
            }
            DetailKind::Passed => {
                let words = self.task_mut(task).and_then(|task| task.words.last_mut());
                if let Some(words) = words.filter(|words| words.to.is_none() && words.spins) {
                    words.to = Some(time);
                }
                return;
            }
        }
        self.happened(task, || Happening::Detail(detail.clone()));
    }
}
