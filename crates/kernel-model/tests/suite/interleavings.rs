// SPDX-License-Identifier: GPL-2.0-only
//! Random operations of several CPUs that continue in random order: when all have finished, the invariants hold and
//! every waiting task runs.

#[allow(dead_code)]
use crate::bench::kinds::{KINDS, Serves, object};
use crate::bench::{Bench, TICK, flat};
use event_log::{BlockCause, EventKind, Waker};
use ids::{CpuId, CpuSet, Nanos, Policy, TaskId};
use kernel_model::{Effect, Leave, Operation, Output, Stops};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Number of ticks within which every runnable task must run: two seconds.
const MAX_TICKS: u32 = 500;

#[derive(Clone, Debug)]
enum Step {
    /// A CPU without an operation begins one.
    Begin { cpu: u8, action: Action, task: u8 },
    /// Continues one of the operations that can continue.
    Resume { which: u8 },
    /// All operations finish.
    Finish,
    /// All operations finish, and then the affinity of a task changes.
    Affinity { task: u8, mask: u8 },
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Wake,
    Schedule,
    Block,
    Yield,
    Exit,
    Tick,
}

fn step() -> impl Strategy<Value = Step> {
    let action = prop_oneof![
        8 => Just(Action::Wake),
        4 => Just(Action::Schedule),
        6 => Just(Action::Block),
        1 => Just(Action::Yield),
        1 => Just(Action::Exit),
        2 => Just(Action::Tick),
    ];
    prop_oneof![
        4 => (any::<u8>(), action, any::<u8>()).prop_map(|(cpu, action, task)| Step::Begin { cpu, action, task }),
        12 => any::<u8>().prop_map(|which| Step::Resume { which }),
        1 => Just(Step::Finish),
        1 => any::<[u8; 2]>().prop_map(|[task, mask]| Step::Affinity { task, mask }),
    ]
}

/// A bench, and the state of tasks and CPUs as the test expects it.
struct World {
    bench: Bench,
    cpus: u32,
    now: Nanos,
    output: Output,
    tasks: Vec<TaskId>,
    /// CPUs that were asked to reschedule and have not begun to.
    asked: BTreeSet<CpuId>,
    /// Tasks that wait for a CPU.
    ready: BTreeSet<TaskId>,
    /// Tasks that are leaving their CPU to sleep or to exit.
    leaving: BTreeSet<TaskId>,
    /// Tasks that were switched in since the set was cleared.
    ran: BTreeSet<TaskId>,
}

impl World {
    fn new(kind: usize, cpus: u32, masks: &[u8]) -> World {
        let mut bench = Bench::load(flat(cpus), object(kind)).unwrap();
        bench.attach();
        let mut world = World {
            bench,
            cpus,
            now: Nanos::ZERO,
            output: Output::default(),
            tasks: Vec::new(),
            asked: BTreeSet::new(),
            ready: BTreeSet::new(),
            leaving: BTreeSet::new(),
            ran: BTreeSet::new(),
        };
        for (number, &mask) in masks.iter().enumerate() {
            let allowed = CpuSet::from_words(&[u64::from(mask)]).intersection(&CpuSet::first_n(cpus as usize));
            let allowed = if allowed.is_empty() { String::new() } else { allowed.to_string() };
            let policy = if number % 5 == 4 { Policy::Fifo(10) } else { Policy::Other };
            let task = world.bench.fork(&format!("t{number}"), &allowed, policy, 0);
            world.tasks.push(task);
            world.bench.kernel.wake_new(CpuId(0), task);
            world.collect();
        }
        world
    }

    /// Records the output of the last call.
    fn collect(&mut self) {
        self.bench.kernel.take_output(&mut self.output);
        for event in &self.output.events {
            match event.kind {
                EventKind::Wakeup { .. } => drop(self.ready.insert(event.task)),
                EventKind::Block { .. } | EventKind::Exit => drop(self.leaving.insert(event.task)),
                EventKind::Switch { prev, .. } => {
                    if prev != TaskId::NONE && !self.leaving.remove(&prev) {
                        self.ready.insert(prev);
                    }
                    self.ready.remove(&event.task);
                    self.ran.insert(event.task);
                }
                _ => {}
            }
        }
        for effect in &self.output.effects {
            if let Effect::Resched { cpu } = effect {
                self.asked.insert(*cpu);
            }
        }
    }

    fn begin(&mut self, cpu: CpuId, action: Action, task: u8) {
        if self.bench.kernel.is_waiting(cpu) {
            return;
        }
        let current = self.bench.kernel.current(cpu);
        let task = self.tasks[usize::from(task) % self.tasks.len()];
        let operation = match action {
            _ if self.asked.contains(&cpu) => Operation::Schedule(Leave::Preempt),
            Action::Wake => Operation::Wake(task, Waker::Interrupt),
            Action::Tick => Operation::Tick,
            Action::Block if current != TaskId::NONE => Operation::Schedule(Leave::Block(BlockCause::Task)),
            Action::Yield if current != TaskId::NONE => Operation::Schedule(Leave::Yield),
            Action::Exit if current != TaskId::NONE => Operation::Schedule(Leave::Exit),
            _ => Operation::Schedule(Leave::Preempt),
        };
        if let Operation::Schedule(_) = operation {
            self.asked.remove(&cpu);
        }
        self.bench.kernel.begin(cpu, operation);
        self.collect();
    }

    fn resume(&mut self, which: u8) -> bool {
        let kernel = &self.bench.kernel;
        let ready: Vec<CpuId> = kernel.waiting_cpus().filter(|&cpu| kernel.may_resume(cpu)).collect();
        assert!(!ready.is_empty() || kernel.waiting_cpus().next().is_none(), "no operation can continue");
        let Some(&cpu) = ready.get(usize::from(which) % ready.len().max(1)) else { return false };
        self.bench.kernel.resume(cpu);
        self.collect();
        true
    }

    /// Finishes all operations, resuming the first that can continue each time.
    fn finish(&mut self) {
        while self.resume(0) {}
        self.bench.kernel.check();
    }

    fn apply(&mut self, step: &Step) {
        self.now += Nanos(100);
        self.bench.kernel.set_now(self.now);
        match *step {
            Step::Begin { cpu, action, task } => self.begin(CpuId(u32::from(cpu) % self.cpus), action, task),
            Step::Resume { which } => drop(self.resume(which)),
            Step::Finish => self.finish(),
            Step::Affinity { task, mask } => {
                self.finish();
                let task = self.tasks[usize::from(task) % self.tasks.len()];
                let allowed = CpuSet::from_words(&[u64::from(mask)]);
                let possible = allowed.intersects(&CpuSet::first_n(self.cpus as usize));
                assert_eq!(self.bench.kernel.set_affinity(CpuId(0), task, &allowed).is_ok(), possible);
                self.collect();
            }
        }
    }

    /// Checks that no task runs on two CPUs, and that a task on a disallowed CPU is about to leave it.
    fn check_state(&self) {
        let mut running = BTreeSet::new();
        for cpu in (0..self.cpus).map(CpuId) {
            if let Some(task) = self.bench.kernel.current(cpu).some() {
                assert!(running.insert(task), "task {task} runs twice");
                let allowed = self.bench.kernel.allowed(task).contains(cpu);
                let leaving = self.asked.contains(&cpu) || self.bench.kernel.is_waiting(cpu);
                assert!(allowed || leaving, "task {task} may not run on CPU {cpu}");
            }
        }
    }

    /// Checks that every waiting task is switched in, while reschedules are carried out, ticks occur, and real-time
    /// tasks sleep.
    fn check_waiting_tasks_run(&mut self) {
        let mut waiting = self.ready.clone();
        for _ in 0..MAX_TICKS {
            for cpu in (0..self.cpus).map(CpuId) {
                let current = self.bench.kernel.current(cpu);
                let first = current != TaskId::NONE && current.index() % 5 == 4;
                if first || self.asked.remove(&cpu) {
                    let leave = if first { Leave::Block(BlockCause::Timer) } else { Leave::Preempt };
                    self.bench.kernel.schedule(cpu, leave);
                } else {
                    self.bench.kernel.tick(cpu);
                }
                self.collect();
                self.bench.kernel.check();
            }
            waiting.retain(|task| !self.ran.contains(task));
            if waiting.is_empty() {
                return;
            }
            self.now += TICK;
            self.bench.kernel.set_now(self.now);
        }
        panic!("{waiting:?} never ran");
    }
}

fn run_steps(kind: usize, cpus: u32, masks: &[u8], stops: Stops, steps: &[Step]) {
    let mut world = World::new(kind, cpus, masks);
    world.bench.kernel.stop_at(stops);
    for step in steps {
        world.apply(step);
        world.check_state();
        if world.bench.kernel.exit_info().is_some() {
            break;
        }
    }
    world.finish();
    world.ran.clear();
    // Between two kfunc calls a scheduler may lose track of tasks by its own fault.
    if KINDS[kind].1 != Serves::NotAllTasks && !stops.calls {
        assert_eq!(world.bench.kernel.exit_info(), None);
        world.check_waiting_tasks_run();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn random_interleavings_keep_invariants_and_lose_no_task(
        kind in 0..KINDS.len(),
        cpus in 2u32..=4,
        masks in prop::collection::vec(any::<u8>(), 2..8),
        (calls, atomics) in any::<(bool, bool)>(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        run_steps(kind, cpus, &masks, Stops { calls, atomics }, &steps);
    }
}
