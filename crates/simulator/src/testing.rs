// SPDX-License-Identifier: GPL-2.0-only
//! Minimal kernel for testing the clock: one FIFO, slices checked at ticks, an idle CPU is woken for each wakeup;
//! optionally, a timer that keeps preempting CPUs and waits for them.

use crate::model::{Change, LoadStep, MachineChange, Model, Obstacle};
use bpf_machine::TimerId;
use bpf_object::LinkedObject;
use event_log::{CallbackSite, Event, EventKind, Sink, SwitchReason, TaskInfo, Waker};
use ids::{CpuId, CpuSet, DsqId, Nanos, TaskId, Topology};
use kernel_model::{
    Effect, ExitInfo, Leave, Lock, LockStep, Operation, Output, Progress, Refusal, Switch, TaskAttributes, TimerKey,
};
use launch_profile::ProgramCall;
use machine_model::{Costs, Machine};
use std::collections::VecDeque;

#[derive(Debug)]
struct FakeTask {
    allowed: CpuSet,
    runnable: bool,
    slice: Nanos,
}

#[derive(Debug)]
struct FakeCpu {
    current: TaskId,
    resched: bool,
    exec_start: Nanos,
}

/// A fake kernel for tests of the simulator: one FIFO queue for all CPUs, and a fixed slice.
#[derive(Debug)]
pub(crate) struct Fifo {
    now: Nanos,
    slice: Nanos,
    /// Interval at which a CPU is preempted and waited for.
    pub disturb_every: Option<Nanos>,
    /// Whether its operations report the locks they take.
    pub tracks_locks: bool,
    disturbed: u32,
    queue: VecDeque<TaskId>,
    tasks: Vec<FakeTask>,
    cpus: Vec<FakeCpu>,
    output: Output,
    /// Number of times that the watchdog's worker performed its work.
    pub watchdog_jobs: u32,
}

impl Fifo {
    /// Creates a kernel with this many idle CPUs.
    pub fn new(cpus: usize, slice: Nanos) -> Fifo {
        let cpu = |_| FakeCpu { current: TaskId::NONE, resched: false, exec_start: Nanos::ZERO };
        Fifo {
            now: Nanos::ZERO,
            slice,
            disturb_every: None,
            tracks_locks: false,
            disturbed: 0,
            queue: VecDeque::new(),
            tasks: Vec::new(),
            cpus: (0..cpus).map(cpu).collect(),
            output: Output::default(),
            watchdog_jobs: 0,
        }
    }

    fn event(&mut self, cpu: CpuId, task: TaskId, kind: EventKind) {
        self.output.events.push(Event { time: self.now, cpu, task, kind, site: CallbackSite::default() });
    }

    /// The worker is created before there is a scheduler. 100 instructions, the last 60 of them with the CPU's
    /// runqueue locked, 20 of these also with the queue locked.
    fn use_code(&mut self, cpu: CpuId) {
        if self.tasks.len() < 2 {
            return;
        }
        self.output.usage.callbacks += 1;
        let (runqueue, queue) = (Lock::Runqueue(cpu), Lock::Dsq(DsqId(7)));
        for (instructions, lock, taken) in
            [(40, runqueue, true), (20, queue, true), (20, queue, false), (20, runqueue, false)]
        {
            self.output.usage.instructions += instructions;
            if self.tracks_locks {
                let used = self.output.usage;
                self.output.locks.push(LockStep { lock, taken, caller: "test", used });
            }
        }
    }

    fn resched(&mut self, cpu: CpuId) {
        if !std::mem::replace(&mut self.cpus[cpu.index()].resched, true) {
            self.output.effects.push(Effect::Resched { cpu });
        }
    }

    fn account(&mut self, cpu: CpuId) {
        let entry = &mut self.cpus[cpu.index()];
        let ran = self.now - std::mem::replace(&mut entry.exec_start, self.now);
        if let Some(task) = entry.current.some() {
            let slice = &mut self.tasks[task.index()].slice;
            *slice = Nanos(slice.0.saturating_sub(ran.0));
        }
    }

    fn pick(&mut self, cpu: CpuId) -> Option<TaskId> {
        let place = self.queue.iter().position(|task| self.tasks[task.index()].allowed.contains(cpu))?;
        self.queue.remove(place)
    }

    fn make_runnable(&mut self, cpu: CpuId, task: TaskId, waker: Waker) {
        self.use_code(cpu);
        self.tasks[task.index()].runnable = true;
        self.queue.push_back(task);
        let allowed = &self.tasks[task.index()].allowed;
        let idle = allowed.iter().find(|cpu| {
            let entry = &self.cpus[cpu.index()];
            entry.current == TaskId::NONE && !entry.resched
        });
        let target = idle.unwrap_or(cpu);
        self.event(cpu, task, EventKind::Wakeup { waker, sync: false, target });
        if let Some(idle) = idle {
            self.resched(idle);
        }
    }

    fn schedule(&mut self, cpu: CpuId, leave: Leave) -> Switch {
        self.use_code(cpu);
        self.account(cpu);
        let entry = &mut self.cpus[cpu.index()];
        entry.resched = false;
        let prev = entry.current;
        let reason = match leave {
            Leave::Block(cause) => {
                self.tasks[prev.index()].runnable = false;
                self.event(cpu, prev, EventKind::Block { cause });
                SwitchReason::Block
            }
            Leave::Exit => {
                self.tasks[prev.index()].runnable = false;
                self.event(cpu, prev, EventKind::Exit);
                SwitchReason::Exit
            }
            Leave::Yield => {
                self.tasks[prev.index()].slice = Nanos::ZERO;
                SwitchReason::Yield
            }
            Leave::Preempt if prev == TaskId::NONE => SwitchReason::Idle,
            Leave::Preempt => SwitchReason::SliceEnd,
        };
        let prev_stays = prev != TaskId::NONE && self.tasks[prev.index()].runnable;
        let may_stay = prev_stays && self.tasks[prev.index()].allowed.contains(cpu);
        if may_stay && self.tasks[prev.index()].slice > Nanos::ZERO {
            return Switch { prev, next: prev, reason };
        }
        let next = match self.pick(cpu) {
            Some(next) => next,
            None if may_stay => prev,
            None => TaskId::NONE,
        };
        if next != TaskId::NONE {
            self.tasks[next.index()].slice = self.slice;
        }
        if next != prev {
            if prev_stays {
                self.queue.push_back(prev);
            }
            self.cpus[cpu.index()].current = next;
            self.event(cpu, next, EventKind::Switch { prev, reason });
        }
        Switch { prev, next, reason }
    }

    fn tick(&mut self, cpu: CpuId) {
        self.account(cpu);
        let current = self.cpus[cpu.index()].current;
        self.event(cpu, current, EventKind::Tick);
        if current != TaskId::NONE && self.tasks[current.index()].slice == Nanos::ZERO {
            self.resched(cpu);
        }
    }

    fn timer(&mut self, cpu: CpuId, timer: TimerKey) {
        self.use_code(cpu);
        self.disturbed += 1;
        let target = CpuId(self.disturbed * 7 % self.cpus.len() as u32);
        if let Some(task) = self.cpus[target.index()].current.some() {
            self.account(target);
            self.tasks[task.index()].slice = Nanos::ZERO;
        }
        self.resched(target);
        if target != cpu {
            self.resched(cpu);
            self.output.effects.push(Effect::AwaitSwitch { cpu, targets: [target].into_iter().collect() });
        }
        let at = self.now + self.disturb_every.expect("armed");
        self.output.effects.push(Effect::ArmTimer { timer, cpu: target, at });
    }
}

impl Model for Fifo {
    fn set_now(&mut self, now: Nanos) {
        assert!(now >= self.now, "time does not go back");
        self.now = now;
    }

    fn take_output(&mut self, into: &mut Output) {
        *into = std::mem::take(&mut self.output);
    }

    fn admits(&self, _: &TaskAttributes) -> Result<(), Refusal> {
        Ok(())
    }

    fn fork(&mut self, cpu: CpuId, attributes: TaskAttributes) -> Result<TaskId, i32> {
        let child = TaskId(self.tasks.len() as u32);
        if child.0 == 0
            && let Some(period) = self.disturb_every
        {
            let timer = TimerKey::Bpf(TimerId(3));
            self.output.effects.push(Effect::ArmTimer { timer, cpu: CpuId(0), at: self.now + period });
        }
        self.tasks.push(FakeTask { allowed: attributes.allowed, runnable: false, slice: Nanos::ZERO });
        if let Some(parent) = attributes.parent {
            self.event(cpu, parent, EventKind::Fork { child });
        }
        if attributes.name == "refused" { Err(-12) } else { Ok(child) }
    }

    fn execute(&mut self, cpu: CpuId, operation: Operation) -> Option<Switch> {
        match operation {
            Operation::Wake(task, _) if self.tasks[task.index()].runnable => {}
            Operation::Wake(task, waker) => self.make_runnable(cpu, task, waker),
            Operation::WakeNew(task) => self.make_runnable(cpu, task, Waker::External),
            Operation::Schedule(leave) => return Some(self.schedule(cpu, leave)),
            Operation::Tick => self.tick(cpu),
            Operation::Timer(timer) => self.timer(cpu, timer),
        }
        None
    }

    fn begin(&mut self, _: CpuId, _: Operation) -> Progress {
        unreachable!("operations do not wait here")
    }

    fn resume(&mut self, _: CpuId) -> Progress {
        unreachable!("operations do not wait here")
    }

    fn obstacle(&self, _: CpuId) -> Option<Obstacle> {
        None
    }

    fn holds_scheduler_lock(&self) -> bool {
        false
    }

    fn finish_operations(&mut self) {}

    fn watchdog_work(&mut self, _cpu: CpuId) {
        self.watchdog_jobs += 1;
    }

    fn occupy(&mut self, cpu: CpuId) {
        if self.cpus[cpu.index()].current == TaskId::NONE {
            self.resched(cpu);
        }
    }

    fn change(&mut self, cpu: CpuId, task: TaskId, change: Change<'_>) -> Result<(), i32> {
        match change {
            Change::Affinity(allowed) => {
                self.tasks[task.index()].allowed = allowed.clone();
                self.event(cpu, task, EventKind::Affinity);
                if !allowed.contains(cpu) {
                    self.resched(cpu);
                    // In a real kernel the stopper would run here.
                    let target = allowed.first().expect("not empty");
                    self.resched(target);
                }
            }
            Change::Policy(_, nice) => self.event(cpu, task, EventKind::Priority { nice }),
            Change::Cgroup(_) | Change::User(_) => {}
        }
        Ok(())
    }

    fn allowed(&self, task: TaskId) -> &CpuSet {
        &self.tasks[task.index()].allowed
    }

    fn tick_is_idle_until(&self, cpu: CpuId, until: Nanos) -> bool {
        let entry = &self.cpus[cpu.index()];
        let Some(task) = entry.current.some() else { return true };
        until.0.saturating_sub(1).saturating_sub(entry.exec_start.0) < self.tasks[task.index()].slice.0
    }

    /// Only the speed of CPUs changes, which has no effect here.
    fn change_machine(&mut self, _: CpuId, change: MachineChange) {
        assert!(matches!(change, MachineChange::Performance(_)), "no faults here");
    }

    fn is_vacant(&self, _: CpuId) -> bool {
        unreachable!("no hotplug here");
    }

    fn load(&mut self, _: CpuId, _: LoadStep<'_>) -> bool {
        unreachable!("no scheduler is loaded here");
    }

    fn call_program(&mut self, _: CpuId, _: &LinkedObject, _: &ProgramCall) -> i32 {
        unreachable!("no scheduler is loaded here");
    }

    fn is_disable_pending(&self) -> bool {
        false
    }

    fn is_disabling(&self) -> bool {
        false
    }

    fn exit_info(&self) -> Option<&ExitInfo> {
        None
    }
}

/// A machine of one node and one cache whose operations cost nothing.
pub(crate) fn free_machine(cpus: u32) -> Machine {
    Machine {
        name: "free".to_owned(),
        description: String::new(),
        topology: Topology::flat(cpus),
        offline: CpuSet::new(),
        absent: CpuSet::new(),
        hz: 250,
        no_hz_idle: true,
        newidle_ratio: None,
        autogroup: false,
        private_kb: 0,
        llc_kb: 0,
        caveats: Vec::new(),
        costs: Costs::zero(),
        noise: Default::default(),
        effects: Default::default(),
    }
}

/// Collects all events.
#[derive(Default, PartialEq, Debug)]
pub(crate) struct Story(pub Vec<Event>);

impl Sink for Story {
    fn task(&mut self, _time: Nanos, _info: &TaskInfo) {}
    fn affinity(&mut self, _time: Nanos, _task: TaskId, _allowed: &CpuSet) {}
    fn event(&mut self, event: &Event) {
        self.0.push(*event);
    }
}
