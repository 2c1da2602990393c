// SPDX-License-Identifier: GPL-2.0-only
//! The sink that records a timeline.

use crate::queue::{Change, Queue, Takers, takers};
use crate::task::{
    Activity, Choice, Cpu, Departure, Dispatched, Kick, Phase, QueueStay, RunInterval, Task, TaskWait, WaitReason,
};
use event_log::{CallbackSite, Detail, DetailKind, Event, EventKind, Sink, SwitchReason, TaskInfo};
use ids::{CpuId, CpuSet, DsqId, Nanos, TaskId};
use std::collections::{BTreeMap, VecDeque};

/// Number of recent events that are kept for each task: enough for two cycles of wakeup, queues, run interval and
/// sleep.
pub const MAX_LAST_EVENTS: usize = 24;

/// Number of values written by callbacks that are kept for each task: more than the scheduler's state of a task has
/// fields.
const MAX_WRITTEN: usize = 64;

/// An entry in the list of a task's recent events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TaskEvent {
    /// An event.
    Event(Event),
    /// A detail that no event contains.
    Detail(Detail),
}

/// The timeline of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Timeline {
    /// Tasks by number.
    pub tasks: Vec<Task>,
    /// CPUs by number.
    pub cpus: Vec<Cpu>,
    /// Queues with known contents.
    pub queues: BTreeMap<DsqId, Queue>,
    /// The CPUs that took tasks from each queue.
    pub takers: BTreeMap<DsqId, Takers>,
    /// The scheduler's source files by number, without their directories.
    pub files: Vec<String>,
    /// Whether the run showed the scheduler's callbacks and queues: it was simulated, with a loaded scheduler.
    pub sees_queues: bool,
    /// Whether the run showed decisions of the kernel's fair class.
    pub sees_fair: bool,
    /// End of the run.
    pub end: Nanos,
}

impl Timeline {
    /// A task by its number.
    ///
    /// # Panics
    ///
    /// If there is no such task.
    pub fn task(&self, task: TaskId) -> &Task {
        &self.tasks[task.index()]
    }

    /// Source file of a site, if known.
    pub fn file(&self, site: CallbackSite) -> Option<&str> {
        self.files.get(usize::from(site.file)).filter(|_| site.line > 0).map(String::as_str)
    }
}

/// Records a run while it proceeds, with about 60 bytes for each relevant event.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    timeline: Timeline,
    /// Whether a CPU that neither runs a task of the run nor idles is running other tasks.
    sees_others: bool,
}

impl Recorder {
    /// Creates a recorder for a simulated run on a machine with this number of CPUs.
    pub fn new(cpus: usize) -> Recorder {
        let timeline = Timeline { cpus: vec![Cpu::default(); cpus], ..Timeline::default() };
        Recorder { timeline, sees_others: false }
    }

    /// Creates a recorder for a real run, in which a CPU that neither runs a task of the run nor idles is running
    /// other tasks. In a simulated run such a CPU is leaving the idle state.
    pub fn of_real_run(cpus: usize) -> Recorder {
        Recorder { sees_others: true, ..Recorder::new(cpus) }
    }

    /// Returns the timeline of a run that ended at `end`.
    pub fn finish(mut self, end: Nanos) -> Timeline {
        let timeline = &mut self.timeline;
        timeline.end = end;
        for task in &mut timeline.tasks {
            let last = task.ended.unwrap_or(end);
            if let Some(phase) = task.phases.last_mut() {
                phase.to = last.max(phase.from);
            }
            if let Some(stay) = task.queue_stays.last_mut().filter(|stay| stay.departure == Departure::StillQueued) {
                stay.to = last.max(stay.from);
            }
        }
        timeline.takers = takers(&timeline.tasks);
        for cpu in &mut timeline.cpus {
            if let Some(interval) = cpu.run_intervals.last_mut().filter(|interval| interval.reason.is_none()) {
                interval.to = end.max(interval.from);
            }
            for open in [cpu.offline.last_mut(), cpu.others.last_mut()].into_iter().flatten() {
                if open.1 == Nanos::MAX {
                    open.1 = end.max(open.0);
                }
            }
        }
        self.timeline
    }

    fn cpu(&mut self, cpu: CpuId) -> &mut Cpu {
        let cpus = &mut self.timeline.cpus;
        if cpus.len() <= cpu.index() {
            cpus.resize_with(cpu.index() + 1, Cpu::default);
        }
        &mut cpus[cpu.index()]
    }

    fn task_mut(&mut self, task: TaskId) -> Option<&mut Task> {
        task.some().and_then(|task| self.timeline.tasks.get_mut(task.index()))
    }

    fn note_event(&mut self, task: TaskId, event: impl FnOnce() -> TaskEvent) {
        if let Some(task) = self.task_mut(task) {
            if task.last.len() == MAX_LAST_EVENTS {
                task.last.pop_front();
            }
            task.last.push_back(event());
        }
    }

    fn wakeup(&mut self, event: &Event) {
        let EventKind::Wakeup { waker, target, .. } = event.kind else { unreachable!("the caller looked") };
        let reason = WaitReason::Woken { waker, on: event.cpu, target };
        if let Some(task) = self.task_mut(event.task)
            && matches!(task.now(), Some(Activity::Sleeps { .. }))
        {
            task.enter(event.time, Activity::Waits { reason });
        }
    }

    fn switch(&mut self, time: Nanos, cpu: CpuId, prev: TaskId, next: TaskId, reason: SwitchReason) {
        if prev == next {
            return;
        }
        self.others(time, cpu, false);
        let run_intervals = &mut self.cpu(cpu).run_intervals;
        if let Some(last) = run_intervals.last_mut().filter(|last| last.reason.is_none()) {
            (last.to, last.reason) = (time, Some(reason));
        }
        if let Some(task) = next.some() {
            run_intervals.push(RunInterval { task, from: time, to: Nanos::MAX, reason: None });
        }
        if let Some(task) = self.task_mut(prev)
            && matches!(task.now(), Some(Activity::Runs { .. }))
        {
            task.enter(
                time,
                match reason {
                    SwitchReason::Block | SwitchReason::Exit => Activity::Sleeps { cause: None },
                    reason => Activity::Waits { reason: WaitReason::Lost { reason, cpu } },
                },
            );
        }
        if let Some(task) = self.task_mut(next) {
            task.enter(time, Activity::Runs { cpu });
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

    /// Notes that the CPU begins or stops to run tasks outside the run.
    fn others(&mut self, time: Nanos, cpu: CpuId, busy: bool) {
        let cpu = self.cpu(cpu);
        let runs = cpu.run_intervals.last().is_some_and(|last| last.reason.is_none());
        match cpu.others.last_mut().filter(|last| last.1 == Nanos::MAX) {
            Some(last) if !busy && last.0 == time => drop(cpu.others.pop()),
            Some(last) if !busy => last.1 = time,
            None if busy && !runs => cpu.others.push((time, Nanos::MAX)),
            _ => {}
        }
    }

    fn insert(&mut self, event: &Event) {
        let EventKind::Insert { dsq, key, slice_ns } = event.kind else { unreachable!("the caller looked") };
        self.timeline.sees_queues = true;
        self.stay(event.task, (event.time, event.site), Some(dsq), (key, slice_ns));
    }

    /// Notes that the task is in this queue, or in none, from now on.
    fn stay(
        &mut self,
        task: TaskId,
        (time, site): (Nanos, CallbackSite),
        queue: Option<DsqId>,
        (key, slice_ns): (u64, u64),
    ) {
        if let Some(task) = self.task_mut(task) {
            task.leave_queue(time, Departure::Moved);
            let (key_by, slice_by) = (task.writer(key), task.writer(slice_ns));
            let (to, ahead, queued, departure) = (Nanos::MAX, None, 0, Departure::StillQueued);
            let stay =
                QueueStay { queue, from: time, to, key, slice_ns, ahead, queued, site, key_by, slice_by, departure };
            task.queue_stays.push(stay);
        }
    }
}

impl Task {
    fn now(&self) -> Option<Activity> {
        self.phases.last().filter(|_| self.ended.is_none()).map(|phase| phase.activity)
    }

    fn enter(&mut self, time: Nanos, activity: Activity) {
        if let Some(phase) = self.phases.last_mut() {
            phase.to = time;
        }
        if let Some(wait) = self.task_waits.last_mut().filter(|wait| wait.to.is_none() && !wait.spins)
            && matches!(activity, Activity::Waits { .. })
        {
            wait.to = Some(time);
        }
        self.phases.push(Phase { from: time, to: Nanos::MAX, activity });
    }

    fn leave_queue(&mut self, time: Nanos, departure: Departure) {
        if let Some(stay) = self.queue_stays.last_mut().filter(|stay| stay.departure == Departure::StillQueued) {
            (stay.to, stay.departure) = (time, departure);
        }
    }

    /// Notes that the task was dispatched from its queue, or from the queue that it left at the same time.
    fn dispatched(&mut self, time: Nanos, to: CpuId, site: CallbackSite) {
        if let Some(stay) = self.queue_stays.last_mut()
            && (stay.departure == Departure::StillQueued || stay.departure == Departure::Moved && stay.to == time)
        {
            (stay.to, stay.departure) = (time, Departure::Dispatched { to, site });
        }
    }
}

impl Sink for Recorder {
    fn source_file(&mut self, file: u16, name: &str) {
        let files = &mut self.timeline.files;
        files.resize(files.len().max(usize::from(file) + 1), String::new());
        name.rsplit('/').next().unwrap_or(name).clone_into(&mut files[usize::from(file)]);
    }

    fn task(&mut self, time: Nanos, info: &TaskInfo) {
        self.timeline.tasks.push(Task {
            info: info.clone(),
            created: time,
            ended: None,
            allowed: vec![(time, info.allowed.clone())],
            phases: vec![Phase { from: time, to: Nanos::MAX, activity: Activity::Sleeps { cause: None } }],
            queue_stays: Vec::new(),
            written: VecDeque::new(),
            choices: Vec::new(),
            task_waits: Vec::new(),
            fair: Vec::new(),
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
                self.note_event(prev, || TaskEvent::Event(*event));
                self.switch(time, cpu, prev, task, reason);
            }
            EventKind::Block { cause } => {
                if let Some(task) = self.task_mut(task)
                    && matches!(task.now(), Some(Activity::Runs { .. }))
                {
                    task.enter(time, Activity::Sleeps { cause: Some(cause) });
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
        self.note_event(task, || TaskEvent::Event(*event));
    }

    fn wants_details(&self) -> bool {
        true
    }

    fn detail(&mut self, detail: &Detail) {
        let Detail { time, cpu, task, site, .. } = *detail;
        match &detail.kind {
            DetailKind::Placed { dsq, ahead, queued } => {
                self.timeline.queues.entry(*dsq).or_default().push(time, Change::Entered(task, *ahead));
                if let Some(stay) = self.task_mut(task).and_then(|task| task.queue_stays.last_mut()) {
                    (stay.ahead, stay.queued) = (Some(*ahead), *queued);
                }
                return;
            }
            DetailKind::Left { dsq } => {
                self.timeline.queues.entry(*dsq).or_default().push(time, Change::Left(task));
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
                    if task.written.len() == MAX_WRITTEN {
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
                self.timeline.sees_queues = true;
                self.stay(task, (time, site), None, (0, 0));
            }
            DetailKind::Fair(decision) => {
                self.timeline.sees_fair = true;
                if let Some(task) = self.task_mut(task) {
                    task.fair.push((time, *decision));
                }
                return;
            }
            DetailKind::NewidleSkipped { ratio } => {
                self.cpu(cpu).skipped_searches.push((time, *ratio));
                return;
            }
            DetailKind::Waits { what, holder, lock, spins } => {
                let (object, holder) = (what.clone(), *holder);
                let wait = TaskWait { from: time, to: None, object, holder, lock: *lock, spins: *spins };
                if let Some(task) = self.task_mut(task) {
                    task.task_waits.push(wait);
                }
            }
            DetailKind::Device { .. } => return,
            DetailKind::Reloads { .. } => {}
            DetailKind::Passed => {
                let wait = self.task_mut(task).and_then(|task| task.task_waits.last_mut());
                if let Some(wait) = wait.filter(|wait| wait.to.is_none() && wait.spins) {
                    wait.to = Some(time);
                }
                return;
            }
        }
        self.note_event(task, || TaskEvent::Detail(detail.clone()));
    }
}
