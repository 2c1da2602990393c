// SPDX-License-Identifier: GPL-2.0-only
//! A naive EEVDF: the published rule, implemented slowly and obviously, with every sum recomputed from all tasks in
//! 128 bits. The fair class is compared with it.
//!
//! The tasks that compete on a CPU are the running one, the waiting ones, and the sleeping ones that are still on the
//! queue (delayed). `V` is their average virtual runtime, weighted. Divisions round down where the kernel's do, so
//! both must agree to the nanosecond.

use ids::{Nanos, Policy};

/// State of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Asleep, on no queue.
    Asleep,
    /// On the queue of its CPU, not running.
    Waits,
    /// Running.
    Runs,
    /// Asleep, still on the queue of its CPU (delayed dequeue).
    Delayed,
    /// Exited.
    Gone,
}

/// Why a task leaves its CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Leaves {
    /// Involuntarily.
    Preempted,
    /// The task yields.
    Yields,
    /// The task sleeps.
    Sleeps,
    /// The task exits.
    Ends,
}

/// State of a task. Virtual times are in nanoseconds of a nice-0 task.
#[derive(Clone, Debug)]
pub(super) struct Entity {
    pub policy: Policy,
    pub weight: i128,
    pub state: State,
    pub cpu: usize,
    /// Virtual runtime.
    pub v: i128,
    /// Virtual deadline of its request.
    pub deadline: i128,
    /// Protected from preemption until this virtual time.
    pub protected: i128,
    /// `V - v` when it stopped competing.
    pub lag: i128,
    /// Rest of its request when it stopped competing, if the request continues.
    left: Option<i128>,
    /// Arrival number: of equal deadlines the earliest arrival wins.
    arrival: u64,
    /// Whether it has never competed.
    new: bool,
}

/// The naive model of all CPUs.
#[derive(Debug)]
pub(super) struct Oracle {
    /// Kernel version.
    version: (u16, u16),
    /// Tick period in nanoseconds.
    tick: i128,
    /// Slice of every task, in nanoseconds.
    slice: i128,
    pub tasks: Vec<Entity>,
    /// `V` of each CPU when a task last stopped competing there: it keeps this value while the CPU has no tasks.
    last: Vec<i128>,
    /// Time up to which each CPU has been charged.
    charged: Vec<Nanos>,
    /// CPUs asked to reschedule.
    pub resched: Vec<bool>,
    /// CPUs asked to reschedule at their next interrupt.
    pub lazy: Vec<bool>,
    /// The CPU that executes the operation, and the CPUs that it interrupts.
    pub here: usize,
    interrupted: Vec<usize>,
    /// Expiry of the slice timer of each CPU.
    pub hrtick: Vec<Option<Nanos>>,
    arrivals: u64,
}

impl Oracle {
    pub fn new(version: (u16, u16), cpus: usize, hz: u32) -> Oracle {
        // sched_base_slice: 0.7 ms * (1 + log2(CPUs)), with at most 8 CPUs.
        let slice = 700_000 * i128::from(1 + cpus.min(8).ilog2());
        let tick = 1_000_000_000 / i128::from(hz);
        let (last, charged, resched) = (vec![0; cpus], vec![Nanos::ZERO; cpus], vec![false; cpus]);
        let (tasks, hrtick) = (Vec::new(), vec![None; cpus]);
        let (lazy, here, interrupted, arrivals) = (vec![false; cpus], 0, Vec::new(), 0);
        Oracle { version, tick, slice, tasks, last, charged, resched, lazy, here, interrupted, hrtick, arrivals }
    }

    /// Adds a new task, asleep.
    pub fn add(&mut self, policy: Policy, weight: u64) {
        let (state, weight) = (State::Asleep, i128::from(weight));
        let (v, deadline, protected, lag, left) = (0, 0, 0, 0, None);
        let (cpu, arrival, new) = (0, 0, true);
        self.tasks.push(Entity { policy, weight, state, cpu, v, deadline, protected, lag, left, arrival, new });
    }

    fn competing(&self, cpu: usize) -> impl Iterator<Item = usize> {
        let competes = move |task: &usize| {
            let Entity { state, cpu: at, .. } = self.tasks[*task];
            at == cpu && !matches!(state, State::Asleep | State::Gone)
        };
        (0..self.tasks.len()).filter(competes)
    }

    pub fn running(&self, cpu: usize) -> Option<usize> {
        self.competing(cpu).find(|&task| self.tasks[task].state == State::Runs)
    }

    /// Number of tasks that compete on a CPU.
    pub fn competitors(&self, cpu: usize) -> usize {
        self.competing(cpu).count()
    }

    fn weights(&self, cpu: usize) -> i128 {
        self.competing(cpu).map(|task| self.tasks[task].weight).sum()
    }

    fn weighted(&self, cpu: usize) -> i128 {
        self.competing(cpu).map(|task| self.tasks[task].weight * self.tasks[task].v).sum()
    }

    /// `V` of a CPU.
    pub fn average(&self, cpu: usize) -> i128 {
        match self.weights(cpu) {
            0 => self.last[cpu],
            weights => self.weighted(cpu).div_euclid(weights),
        }
    }

    /// `V >= v`, without a division.
    pub fn eligible(&self, task: usize) -> bool {
        let Entity { cpu, v, .. } = self.tasks[task];
        self.weighted(cpu) >= v * self.weights(cpu)
    }

    /// `V - v`, clamped to a slice plus a tick in the task's virtual time.
    fn lag(&mut self, task: usize) -> i128 {
        let Entity { cpu, v, weight, .. } = self.tasks[task];
        let most = (self.slice + self.tick) * 1024 / weight;
        self.last[cpu] = self.average(cpu);
        (self.last[cpu] - v).clamp(-most, most)
    }

    fn request(&self, task: usize) -> i128 {
        self.slice * 1024 / self.tasks[task].weight
    }

    fn arrives(&mut self, task: usize) {
        self.arrivals += 1;
        self.tasks[task].arrival = self.arrivals;
    }

    /// Charges the running task for the time since the last charge. At the end of its request it starts another one.
    /// The end of its request or protection asks for a reschedule if other tasks compete.
    pub fn charge(&mut self, cpu: usize, now: Nanos) {
        let ran = now.since(std::mem::replace(&mut self.charged[cpu], now));
        let Some(task) = self.running(cpu) else { return };
        if ran == Nanos::ZERO {
            return;
        }
        let (request, others) = (self.request(task), self.competitors(cpu) > 1);
        let entity = &mut self.tasks[task];
        entity.v += i128::from(ran.0) * 1024 / entity.weight;
        let served = entity.v >= entity.deadline;
        if served {
            entity.deadline = entity.v + request;
        }
        if others && (served || entity.v >= entity.protected) {
            self.ask(cpu);
        }
    }

    /// Asks a CPU to reschedule. Since 7.0 another busy CPU does so at its next interrupt.
    fn ask(&mut self, cpu: usize) {
        if self.version >= (7, 0) && cpu != self.here && self.running(cpu).is_some() {
            self.lazy[cpu] = true;
        } else {
            self.resched[cpu] = true;
        }
    }

    /// Ends the operation: its CPU and the interrupted ones return to user mode.
    pub fn return_to_user(&mut self) {
        for cpu in self.interrupted.drain(..).chain([self.here]) {
            self.resched[cpu] |= std::mem::take(&mut self.lazy[cpu]);
        }
    }

    /// HRTICK, since 7.1: a timer for the deadline of a task that has competitors. It is armed for at least 10 us,
    /// and is not moved by 5 us or less.
    fn start_hrtick(&mut self, task: usize, now: Nanos) {
        let Entity { cpu, v, deadline, weight, .. } = self.tasks[task];
        if self.version < (7, 1) || self.competitors(cpu) < 2 {
            return;
        }
        let left = ((deadline - v) * weight + 1023).div_euclid(1024).max(10_000);
        let wanted = i128::from(now.0) + left;
        let near = |due: Nanos| (i128::from(due.0) - wanted).abs() <= 5_000;
        if !self.hrtick[cpu].is_some_and(near) {
            self.hrtick[cpu] = Some(Nanos(wanted as u64));
            self.interrupted.push(cpu);
        }
    }

    /// Handles a task that joined a CPU: the running task has a competitor now.
    fn joined(&mut self, cpu: usize, now: Nanos) {
        if let (None, Some(running)) = (self.hrtick[cpu], self.running(cpu)) {
            self.start_hrtick(running, now);
        }
    }

    /// Fires the slice timer of a CPU.
    pub fn fire(&mut self, cpu: usize, now: Nanos) {
        self.hrtick[cpu] = None;
        self.charge(cpu, now);
        self.resched[cpu] = true;
    }

    /// Places a task on a CPU with its saved lag. The task pulls `V` towards itself, so it is placed farther away to
    /// keep its lag.
    fn place(&mut self, task: usize, cpu: usize) {
        let (weights, average, request) = (self.weights(cpu), self.average(cpu), self.request(task));
        let entity = &mut self.tasks[task];
        let lag = if weights == 0 { 0 } else { entity.lag * (weights + entity.weight) / weights };
        entity.v = average - lag;
        let first = std::mem::replace(&mut entity.new, false);
        let left = entity.left.take().unwrap_or(if first { request / 2 } else { request });
        (entity.deadline, entity.cpu) = (entity.v + left, cpu);
    }

    /// Takes a task out of the competition, to be placed again at once with other attributes or on another CPU.
    fn take(&mut self, task: usize) {
        let lag = self.lag(task);
        let newer = self.version >= (7, 0);
        let entity = &mut self.tasks[task];
        entity.lag = if newer && entity.state == State::Delayed { lag.max(entity.lag).min(0) } else { lag };
        entity.left = Some(entity.deadline - entity.v);
    }

    /// Dequeues a delayed task, with a lag of at most 0.
    fn let_go(&mut self, task: usize) {
        let lag = self.lag(task);
        let newer = self.version >= (7, 0);
        let entity = &mut self.tasks[task];
        entity.lag = if newer { lag.max(entity.lag) } else { lag }.min(0);
        entity.state = State::Asleep;
    }

    /// Picks the eligible task with the earliest deadline; an eligible and protected current task comes first.
    /// Delayed tasks that win are dequeued.
    fn pick(&mut self, cpu: usize, current: Option<usize>) -> Option<usize> {
        loop {
            let best = self.best(cpu, current)?;
            if self.tasks[best].state != State::Delayed {
                return Some(best);
            }
            self.let_go(best);
        }
    }

    fn best(&self, cpu: usize, current: Option<usize>) -> Option<usize> {
        let eligible = |&task: &usize| self.eligible(task);
        let current = current.filter(|&task| self.competing(cpu).any(|other| other == task)).filter(eligible);
        if let Some(task) = current
            && self.tasks[task].v < self.tasks[task].protected
        {
            return current;
        }
        let deadline = |task: usize| self.tasks[task].deadline;
        let others = self.competing(cpu).filter(|&task| Some(task) != current).filter(eligible);
        let other = others.min_by_key(|&task| (deadline(task), self.tasks[task].arrival));
        match (other, current) {
            (Some(other), Some(current)) if deadline(current) < deadline(other) => Some(current),
            (other, current) => other.or(current),
        }
    }

    /// Wakes a task on a CPU.
    pub fn wake(&mut self, task: usize, cpu: usize, now: Nanos) {
        let (new, delayed) = (self.tasks[task].new, self.tasks[task].state == State::Delayed);
        if delayed {
            // Waking a delayed task does not charge the running one first.
            self.requeue(task);
        } else {
            self.charge(cpu, now);
            self.place(task, cpu);
            self.arrives(task);
        }
        self.tasks[task].state = State::Waits;
        if !delayed {
            self.joined(cpu, now);
        }
        self.preempt(task, now, new);
    }

    /// Wakes a delayed task. It is placed again if its lag has changed: if it would be positive, and since 7.0 also
    /// if it is further behind than when it went to sleep.
    fn requeue(&mut self, task: usize) {
        let (before, v, cpu) = (self.tasks[task].lag, self.tasks[task].v, self.tasks[task].cpu);
        let average = self.average(cpu);
        let now = self.lag(task);
        let lag = if self.version >= (7, 0) { now.max(before).min(0) } else { now.min(0) };
        let moved = if self.version >= (7, 0) { average - lag != v } else { now > 0 };
        self.tasks[task].lag = lag;
        if moved {
            self.tasks[task].state = State::Asleep;
            self.place(task, cpu);
            self.arrives(task);
        }
    }

    /// Compares a waiting task with the running one, and preempts that one if it loses.
    pub fn preempt(&mut self, task: usize, now: Nanos, new: bool) {
        let cpu = self.tasks[task].cpu;
        let Some(running) = self.running(cpu) else {
            self.resched[cpu] = true;
            return;
        };
        self.charge(cpu, now);
        if self.resched[cpu] {
            return;
        }
        let policies = (self.tasks[running].policy, self.tasks[task].policy);
        let preempts = match policies {
            (Policy::Idle, other) if other != Policy::Idle => {
                let entity = &mut self.tasks[running];
                entity.protected = entity.protected.min(entity.v);
                true
            }
            (_, Policy::Idle | Policy::Batch) => false,
            _ if new && self.version >= (7, 0) => false,
            _ => self.pick(cpu, Some(running)) == Some(task),
        };
        if preempts {
            self.ask(cpu);
        }
    }

    /// Reschedules a CPU. `pulled` are the tasks that it takes from another CPU if it has none, and `pushed` is the task
    /// that its stopper thread moves before that: the running one or another. Each comes with its new CPU.
    pub fn schedule(
        &mut self,
        cpu: usize,
        now: Nanos,
        leaves: Leaves,
        pulled: &[(usize, usize)],
        pushed: Option<(usize, usize)>,
    ) {
        self.charge(cpu, now);
        let mut prev = self.running(cpu);
        if let Some(task) = prev {
            self.leave(task, leaves);
        }
        if let Some((task, to)) = pushed {
            if self.tasks[task].state == State::Runs {
                (self.tasks[task].state, prev) = (State::Waits, None);
            }
            self.pull(task, to, now);
            self.preempt(task, now, false);
        }
        let mut next = self.pick(cpu, prev);
        if next.is_none() {
            pulled.iter().for_each(|&(task, _)| self.pull(task, cpu, now));
            next = self.pick(cpu, None);
        }
        (self.resched[cpu], self.lazy[cpu]) = (false, false);
        if next == prev {
            return;
        }
        if let Some(task) = prev.filter(|&task| matches!(self.tasks[task].state, State::Runs | State::Delayed)) {
            self.arrives(task);
            if self.tasks[task].state == State::Runs {
                self.tasks[task].state = State::Waits;
            }
        }
        if let Some(task) = next {
            let entity = &mut self.tasks[task];
            (entity.state, entity.protected) = (State::Runs, entity.deadline);
            self.start_hrtick(task, now);
        } else {
            self.hrtick[cpu] = None;
        }
    }

    fn leave(&mut self, task: usize, leaves: Leaves) {
        let (cpu, lag, eligible, request) =
            (self.tasks[task].cpu, self.lag(task), self.eligible(task), self.request(task));
        let others = self.competitors(cpu) > 1;
        let entity = &mut self.tasks[task];
        match leaves {
            Leaves::Preempted => {}
            Leaves::Yields if others && eligible => {
                entity.v = entity.deadline;
                entity.deadline += request;
            }
            Leaves::Yields => {}
            Leaves::Sleeps => {
                entity.lag = lag;
                entity.state = if eligible { State::Asleep } else { State::Delayed };
            }
            Leaves::Ends => entity.state = State::Gone,
        }
    }

    /// Moves a waiting task to another CPU.
    pub fn pull(&mut self, task: usize, to: usize, now: Nanos) {
        self.charge(self.tasks[task].cpu, now);
        self.take(task);
        let state = std::mem::replace(&mut self.tasks[task].state, State::Asleep);
        self.charge(to, now);
        self.place(task, to);
        self.arrives(task);
        self.tasks[task].state = state;
        self.joined(to, now);
    }

    /// Changes the weight of a task in any state; also used for an affinity change, with the same weight.
    pub fn change(&mut self, task: usize, weight: u64, now: Nanos) {
        let (state, cpu) = (self.tasks[task].state, self.tasks[task].cpu);
        let competes = !matches!(state, State::Asleep | State::Gone);
        if competes {
            self.charge(cpu, now);
            self.take(task);
            self.tasks[task].state = State::Asleep;
        }
        let entity = &mut self.tasks[task];
        let old = std::mem::replace(&mut entity.weight, i128::from(weight));
        entity.lag = entity.lag * old / entity.weight;
        entity.left = entity.left.map(|left| left * old / entity.weight);
        if competes {
            self.place(task, cpu);
            self.arrives(task);
            self.tasks[task].state = state;
            self.joined(cpu, now);
        }
    }
}
