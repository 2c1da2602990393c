// SPDX-License-Identifier: GPL-2.0-only
//! Random tasks on one and two CPUs: after every step, the running tasks, preemptions, slice timers, lags, deadlines
//! and protections must equal those of the naive model. The oracle adopts the CPU selection of the fair class.

use super::naive::{Leaves, Oracle, State};
use crate::core::task::load_weight;
use crate::{Config, Effect, Kernel, Leave, Output, TaskAttributes, TimerKey};
use event_log::{BlockCause, EventKind, Waker};
use ids::{CpuId, CpuSet, Nanos, Policy, TaskId, Topology};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

const HZ: u32 = 250;

#[derive(Clone, Debug)]
enum Step {
    Pass { us: u64 },
    Fork { policy: Policy, nice: i8 },
    Wake { which: usize },
    Leave { cpu: usize, how: Leaves },
    Tick { cpu: usize },
    Nice { which: usize, nice: i8 },
    Affinity { which: usize, cpus: u32 },
}

/// The kernel model and the oracle, run in lockstep.
struct Pair {
    kernel: Kernel,
    oracle: Oracle,
    now: Nanos,
    cpus: usize,
    output: Output,
    /// CPUs that the kernel asked to reschedule.
    resched: Vec<bool>,
    /// The kernel executed an operation that the oracle has not finished yet.
    acted: bool,
    /// Expiry of the slice timer of each CPU, as requested by the kernel.
    hrtick: Vec<Option<Nanos>>,
    /// Tasks that the last kernel call migrated, with their new CPUs.
    moved: Vec<(usize, usize)>,
    /// CPUs that active balancing has asked to run their stopper thread.
    stops: Vec<bool>,
}

impl Pair {
    fn new(version: (u16, u16), cpus: usize) -> Pair {
        let topology = Topology::flat(cpus as u32);
        let kernel = Kernel::new(Config {
            topology,
            hz: HZ,
            version,
            budget: 1_000_000,
            seed: 1,
            newidle_ratio: None,
            autogroup: false,
            types: None,
        });
        let oracle = Oracle::new(version, cpus, HZ);
        let (resched, hrtick, moved) = (vec![false; cpus], vec![None; cpus], Vec::new());
        let (now, output, acted, stops) = (Nanos::ZERO, Output::default(), false, vec![false; cpus]);
        Pair { kernel, oracle, now, cpus, output, resched, acted, hrtick, moved, stops }
    }

    /// Collects the output of the last kernel call.
    fn collect(&mut self) {
        self.acted = true;
        self.kernel.take_output(&mut self.output);
        for effect in self.output.effects.drain(..) {
            match effect {
                Effect::Resched { cpu } => self.resched[cpu.index()] = true,
                Effect::ArmTimer { timer: TimerKey::Hrtick(cpu), at, .. } => self.hrtick[cpu.index()] = Some(at),
                Effect::CancelTimer { timer: TimerKey::Hrtick(cpu) } => self.hrtick[cpu.index()] = None,
                _ => {}
            }
        }
        let moves = self.output.events.drain(..).filter_map(|event| match event.kind {
            EventKind::Migrate { to, .. } => Some((event.task.index(), to.index())),
            _ => None,
        });
        self.moved = moves.collect();
    }

    fn step(&mut self, step: &Step) {
        self.oracle.here = 0;
        match *step {
            Step::Pass { us } => self.pass(Nanos::from_us(us)),
            Step::Fork { policy, nice } => self.fork(policy, nice),
            Step::Wake { which } => self.wake(which),
            Step::Leave { cpu, how } => self.leave(cpu % self.cpus, how),
            Step::Tick { cpu } => self.tick(cpu % self.cpus),
            Step::Nice { which, nice } => self.nice(which, nice),
            Step::Affinity { which, cpus } => self.affinity(which, cpus),
        }
        self.return_to_user();
        self.settle();
        self.compare();
    }

    /// Lets time pass; slice timers fire on the way.
    fn pass(&mut self, time: Nanos) {
        let end = self.now + time;
        loop {
            let due = (0..self.cpus).filter_map(|cpu| Some((self.oracle.hrtick[cpu]?, cpu))).min();
            let (at, fires) = due.filter(|&(at, _)| at <= end).map_or((end, None), |(at, cpu)| (at, Some(cpu)));
            self.now = at;
            self.kernel.set_now(at);
            let Some(cpu) = fires else { return };
            self.hrtick[cpu] = None;
            self.kernel.timer(CpuId(cpu as u32), TimerKey::Hrtick(CpuId(cpu as u32)));
            self.collect();
            self.oracle.here = cpu;
            self.oracle.fire(cpu, at);
            self.return_to_user();
            self.settle();
        }
    }

    /// Tells the oracle which CPUs active balancing has asked to run their stopper thread. It accepts that at any time
    /// if a task runs there, another one competes with it, and the CPU that is to get one of them is idle.
    fn note_stoppers(&mut self) {
        for cpu in 0..self.cpus {
            let Some(to) = self.kernel.core.cpus[cpu].fair.push_to else { continue };
            if !std::mem::replace(&mut self.stops[cpu], true) {
                let has_two = self.oracle.running(cpu).is_some() && self.oracle.competitors(cpu) > 1;
                assert!(
                    has_two && self.oracle.running(to.index()).is_none(),
                    "CPU {cpu} pushes to {to} at {}",
                    self.now
                );
                self.oracle.resched[cpu] = true;
            }
        }
    }

    /// Selects one of the tasks in these states.
    fn one(&self, which: usize, states: &[State]) -> Option<usize> {
        let tasks: Vec<usize> =
            (0..self.oracle.tasks.len()).filter(|&task| states.contains(&self.oracle.tasks[task].state)).collect();
        tasks.get(which % tasks.len().max(1)).copied()
    }

    fn fork(&mut self, policy: Policy, nice: i8) {
        let (name, allowed) = ("task".to_owned(), CpuSet::first_n(self.cpus));
        let attributes = TaskAttributes {
            name,
            policy,
            nice,
            allowed,
            kernel_thread: false,
            own_cpu: None,
            thread: false,
            parent: None,
            identity: crate::Identity::default(),
        };
        let task = self.kernel.fork(CpuId(0), attributes).expect("no scheduler can refuse the fork");
        self.oracle.add(policy, u64::from(load_weight(policy, nice)));
        self.kernel.wake_new(CpuId(0), task);
        self.woken(task.index());
    }

    fn wake(&mut self, which: usize) {
        let Some(task) = self.one(which, &[State::Asleep, State::Delayed]) else { return };
        self.kernel.wake(CpuId(0), key(task), Waker::Interrupt, false);
        self.woken(task);
    }

    fn woken(&mut self, task: usize) {
        self.collect();
        let cpu = self.kernel.task_cpu(key(task));
        self.oracle.wake(task, cpu.index(), self.now);
    }

    fn leave(&mut self, cpu: usize, how: Leaves) {
        if self.oracle.running(cpu).is_none() {
            return;
        }
        let leave = match how {
            Leaves::Preempted => Leave::Preempt,
            Leaves::Yields => Leave::Yield,
            Leaves::Sleeps => Leave::Block(BlockCause::Timer),
            Leaves::Ends => Leave::Exit,
        };
        self.schedule(cpu, leave, how);
    }

    fn schedule(&mut self, cpu: usize, leave: Leave, how: Leaves) {
        (self.resched[cpu], self.stops[cpu]) = (false, false);
        self.kernel.schedule(CpuId(cpu as u32), leave);
        self.collect();
        let (pulled, pushed): (Vec<_>, Vec<_>) = self.moved.iter().copied().partition(|&(_, to)| to == cpu);
        self.oracle.here = cpu;
        self.oracle.schedule(cpu, self.now, how, &pulled, pushed.first().copied());
        self.return_to_user();
    }

    /// Finishes the oracle's operation, if one is in progress.
    fn return_to_user(&mut self) {
        if std::mem::take(&mut self.acted) {
            self.oracle.return_to_user();
        }
    }

    fn tick(&mut self, cpu: usize) {
        self.kernel.tick(CpuId(cpu as u32));
        self.collect();
        self.oracle.here = cpu;
        self.oracle.charge(cpu, self.now);
        for (task, to) in self.moved.clone() {
            self.oracle.pull(task, to, self.now);
        }
        for (task, _) in self.moved.clone() {
            self.oracle.preempt(task, self.now, false);
        }
        // The tick may have woken an idle CPU to balance. The oracle accepts that at any time if tasks wait.
        let kicked = (0..self.cpus).find(|&to| self.kernel.core.cpus[to].fair.kicked && !self.oracle.resched[to]);
        if let Some(to) = kicked {
            let waits = (0..self.oracle.tasks.len())
                .any(|task| self.oracle.tasks[task].cpu == cpu && self.oracle.tasks[task].state == State::Waits);
            assert!(waits && self.oracle.running(to).is_none(), "CPU {to} is idle and tasks wait at {}", self.now);
            self.oracle.resched[to] = true;
        }
    }

    fn nice(&mut self, which: usize, nice: i8) {
        let states = [State::Asleep, State::Waits, State::Runs, State::Delayed];
        let Some(task) = self.one(which, &states) else { return };
        let policy = self.oracle.tasks[task].policy;
        let old = self.kernel.core.task(key(task)).nice;
        self.kernel.set_policy(CpuId(0), key(task), policy, nice).expect("the nice value is valid");
        self.collect();
        if nice == old {
            self.acted = false;
            return;
        }
        self.oracle.change(task, u64::from(load_weight(policy, nice)), self.now);
        let cpu = self.oracle.tasks[task].cpu;
        match self.oracle.tasks[task].state {
            State::Runs if nice > old => self.oracle.resched[cpu] |= self.oracle.competitors(cpu) > 1,
            State::Waits => self.oracle.preempt(task, self.now, false),
            _ => {}
        }
    }

    fn affinity(&mut self, which: usize, cpus: u32) {
        let states = [State::Asleep, State::Waits, State::Runs, State::Delayed];
        let Some(task) = self.one(which, &states) else { return };
        let bits = 1 + cpus % ((1 << self.cpus) - 1);
        let allowed: CpuSet = (0..self.cpus as u32).filter(|cpu| bits & 1 << cpu != 0).map(CpuId).collect();
        let (state, at) = (self.oracle.tasks[task].state, self.oracle.tasks[task].cpu);
        let stays = allowed.contains(CpuId(at as u32));
        // A task that runs on a forbidden CPU is moved by the stop class, which the oracle lacks.
        if allowed == *self.kernel.allowed(key(task)) || state == State::Runs && !stays {
            return;
        }
        self.kernel.set_affinity(CpuId(0), key(task), &allowed).expect("the affinity has a CPU");
        self.collect();
        let weight = self.oracle.tasks[task].weight as u64;
        self.oracle.change(task, weight, self.now);
        if !stays && matches!(state, State::Waits | State::Delayed) {
            let to = allowed.first().expect("the affinity has a CPU");
            self.oracle.pull(task, to.index(), self.now);
            if state == State::Waits || self.oracle.running(to.index()).is_none() {
                self.oracle.preempt(task, self.now, false);
            }
        }
    }

    /// Carries out pending reschedules.
    fn settle(&mut self) {
        loop {
            self.note_stoppers();
            assert_eq!(self.resched, self.oracle.resched, "CPUs asked to reschedule at {}", self.now);
            let Some(cpu) = self.resched.iter().position(|&asked| asked) else { return };
            self.schedule(cpu, Leave::Preempt, Leaves::Preempted);
        }
    }

    fn compare(&self) {
        let core = &self.kernel.core;
        assert_eq!(self.hrtick, self.oracle.hrtick, "slice timers at {}", self.now);
        for cpu in 0..self.cpus {
            let runs = core.current(CpuId(cpu as u32)).some().map(|task| task.index());
            assert_eq!(runs, self.oracle.running(cpu), "task running on CPU {cpu} at {}", self.now);
            core.check_fair(CpuId(cpu as u32));
        }
        for (task, expected) in self.oracle.tasks.iter().enumerate() {
            let entry = core.task(key(task));
            let fair = &entry.fair;
            assert_eq!(
                fair.delayed,
                expected.state == State::Delayed,
                "whether task {task} is delayed at {}",
                self.now
            );
            match expected.state {
                State::Gone => {}
                State::Asleep => {
                    assert_eq!(i128::from(fair.lag), expected.lag, "lag of task {task}, asleep, at {}", self.now);
                }
                _ => {
                    assert_eq!(entry.cpu.index(), expected.cpu, "the CPU of task {task} at {}", self.now);
                    let v = i128::from(fair.vruntime);
                    let real = [
                        i128::from(core.fair_average(entry.cpu)) - v,
                        i128::from(fair.deadline) - v,
                        if expected.state == State::Runs { i128::from(fair.protected_until) - v } else { 0 },
                    ];
                    let protected = if expected.state == State::Runs { expected.protected - expected.v } else { 0 };
                    let wanted =
                        [self.oracle.average(expected.cpu) - expected.v, expected.deadline - expected.v, protected];
                    assert_eq!(real, wanted, "lag, request, protection of task {task} at {}", self.now);
                }
            }
        }
    }
}

fn key(task: usize) -> TaskId {
    TaskId(task as u32)
}

fn step() -> impl Strategy<Value = Step> {
    let which = || 0..16usize;
    // Round times that coincide with slices and ticks, and random ones.
    let us = prop_oneof![Just(0), Just(100), Just(350), Just(700), Just(1400), Just(4000), 1..5000u64];
    let policy = prop_oneof![8 => Just(Policy::Other), 1 => Just(Policy::Batch), 1 => Just(Policy::Idle)];
    let nice = || prop_oneof![3 => Just(0i8), 1 => -20..=19i8];
    let how = prop_oneof![
        1 => Just(Leaves::Preempted),
        2 => Just(Leaves::Yields),
        12 => Just(Leaves::Sleeps),
        1 => Just(Leaves::Ends),
    ];
    prop_oneof![
        30 => us.prop_map(|us| Step::Pass { us }),
        4 => (policy, nice()).prop_map(|(policy, nice)| Step::Fork { policy, nice }),
        20 => which().prop_map(|which| Step::Wake { which }),
        15 => (0..2usize, how).prop_map(|(cpu, how)| Step::Leave { cpu, how }),
        15 => (0..2usize).prop_map(|cpu| Step::Tick { cpu }),
        4 => (which(), nice()).prop_map(|(which, nice)| Step::Nice { which, nice }),
        3 => (which(), any::<u32>()).prop_map(|(which, cpus)| Step::Affinity { which, cpus }),
    ]
}

fn sequence() -> impl Strategy<Value = ((u16, u16), usize, Vec<Step>)> {
    let version = prop_oneof![Just((7, 2)), Just((6, 18))];
    (version, 1..=2usize, prop::collection::vec(step(), 1..150))
}

fn matches(version: (u16, u16), cpus: usize, steps: &[Step]) {
    let mut pair = Pair::new(version, cpus);
    for step in steps {
        pair.step(step);
    }
}

fn run(mut runner: TestRunner) {
    let test = |(version, cpus, steps): (_, _, Vec<Step>)| {
        matches(version, cpus, &steps);
        Ok(())
    };
    runner.run(&sequence(), test).unwrap_or_else(|error| panic!("{error}"));
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Found by random steps: task 1 runs on CPU 0, where task 0 is pinned and waits, and CPU 1 is idle.
#[test]
fn naive_model_follows_a_push_of_the_running_task() {
    let fork = || Step::Fork { policy: Policy::Other, nice: 0 };
    let pass = |us| Step::Pass { us };
    let (on_first, tick) = (|how| Step::Leave { cpu: 0, how }, || Step::Tick { cpu: 0 });
    let mut steps = vec![fork(), pass(5_050), on_first(Leaves::Sleeps), Step::Affinity { which: 0, cpus: 0 }];
    steps.extend([fork(), pass(1_215), Step::Wake { which: 0 }, on_first(Leaves::Yields)]);
    steps.extend([4_000, 1_750, 3_985, 0].into_iter().flat_map(|us| [tick(), pass(us)]));
    let mut pair = Pair::new((7, 2), 2);
    let mut pushed_by = None;
    for (at, step) in steps.iter().enumerate() {
        let before = pair.oracle.tasks.get(1).map(|task| (task.state, task.cpu));
        pair.step(step);
        if before == Some((State::Runs, 0)) && pair.oracle.tasks[1].cpu == 1 {
            pushed_by = Some(at);
        }
    }
    assert_eq!(pushed_by, Some(steps.len() - 2), "the last tick of CPU 0: {:?}", pair.oracle.tasks);
}

#[test]
fn eevdf_matches_naive_model() {
    run(TestRunner::new_with_rng(cases(2000), proptest::test_runner::TestRng::deterministic_rng(Default::default())));
}

#[test]
fn eevdf_matches_naive_model_with_random_seeds() {
    run(TestRunner::new(cases(500)));
}

/// Runs for longer; `PROPTEST_CASES` sets the number of cases.
#[test]
#[ignore = "slow"]
fn eevdf_matches_naive_model_in_long_runs() {
    run(TestRunner::new(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }));
}
