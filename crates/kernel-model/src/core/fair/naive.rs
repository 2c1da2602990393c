// SPDX-License-Identifier: GPL-2.0-only
//! EEVDF once more, slow and obvious: the rule as it is published, with every sum made anew from all tasks, in 128 bits.
//! The fair class is compared with it.
//!
//! A CPU's tasks compete: who runs, who waits, and who sleeps but has not been let go. `V` is their average virtual
//! runtime, weighted. Divisions round down where the kernel's do, so both must agree to the nanosecond.

use ids::{Nanos, Policy};

/// How far a task is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// It sleeps and competes nowhere.
    Asleep,
    /// It competes on its CPU without running.
    Waits,
    /// It has its CPU.
    Runs,
    /// It sleeps, and competes on its CPU.
    Delayed,
    /// It has ended.
    Gone,
}

/// How a task leaves its CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Leaves {
    /// It does not want to.
    Preempted,
    /// It yields.
    Yields,
    /// It sleeps.
    Sleeps,
    /// It ends.
    Ends,
}

/// What the rule knows of a task. Virtual times are nanoseconds of a task of nice 0.
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
    /// It is protected before this virtual time.
    pub protected: i128,
    /// `V` less `v`, when it stopped competing.
    pub lag: i128,
    /// What was left of its request then, if that goes on.
    left: Option<i128>,
    /// When it began to wait: of equal deadlines the earliest wins.
    arrival: u64,
    /// It has never competed.
    new: bool,
}

/// All CPUs.
#[derive(Debug)]
pub(super) struct Oracle {
    /// The kernel's version.
    version: (u16, u16),
    /// Nanoseconds between ticks.
    tick: i128,
    /// The request of all tasks, in nanoseconds.
    slice: i128,
    pub tasks: Vec<Entity>,
    /// `V` of each CPU when somebody stopped competing there: where it stays if nobody is left.
    last: Vec<i128>,
    /// Up to when each CPU's time has been charged.
    charged: Vec<Nanos>,
    /// The CPU has been asked to reschedule.
    pub resched: Vec<bool>,
    /// It has been asked to when it is interrupted next.
    pub lazy: Vec<bool>,
    /// The CPU that does something, and those that it interrupts.
    pub here: usize,
    interrupted: Vec<usize>,
    /// When the timer fires that ends a turn there.
    pub hrtick: Vec<Option<Nanos>>,
    arrivals: u64,
}

impl Oracle {
    pub fn new(version: (u16, u16), cpus: usize, hz: u32) -> Oracle {
        // sched_base_slice: 0.7 ms, times 1 plus the logarithm of up to 8 CPUs.
        let slice = 700_000 * i128::from(1 + cpus.min(8).ilog2());
        let tick = 1_000_000_000 / i128::from(hz);
        let (last, charged, resched) = (vec![0; cpus], vec![Nanos::ZERO; cpus], vec![false; cpus]);
        let (tasks, hrtick) = (Vec::new(), vec![None; cpus]);
        let (lazy, here, interrupted, arrivals) = (vec![false; cpus], 0, Vec::new(), 0);
        Oracle { version, tick, slice, tasks, last, charged, resched, lazy, here, interrupted, hrtick, arrivals }
    }

    /// A task that is not known yet; it is asleep.
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

    /// How many compete on a CPU.
    pub fn competitors(&self, cpu: usize) -> usize {
        self.competing(cpu).count()
    }

    fn weights(&self, cpu: usize) -> i128 {
        self.competing(cpu).map(|task| self.tasks[task].weight).sum()
    }

    fn weighted(&self, cpu: usize) -> i128 {
        self.competing(cpu).map(|task| self.tasks[task].weight * self.tasks[task].v).sum()
    }

    /// `V`.
    pub fn average(&self, cpu: usize) -> i128 {
        match self.weights(cpu) {
            0 => self.last[cpu],
            weights => self.weighted(cpu).div_euclid(weights),
        }
    }

    /// `V >= v`, without the division.
    pub fn eligible(&self, task: usize) -> bool {
        let Entity { cpu, v, .. } = self.tasks[task];
        self.weighted(cpu) >= v * self.weights(cpu)
    }

    /// `V - v`, within the longest slice and a tick of the task's own time.
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

    /// Whoever runs is charged for the time since the last charge. At the end of its request it asks anew; that and the
    /// end of its protection ask for a reschedule, if anybody else competes.
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

    /// A CPU is asked to reschedule. From 7.0 on another one does so when it is interrupted next, if somebody runs there.
    fn ask(&mut self, cpu: usize) {
        if self.version >= (7, 0) && cpu != self.here && self.running(cpu).is_some() {
            self.lazy[cpu] = true;
        } else {
            self.resched[cpu] = true;
        }
    }

    /// The CPU that did something goes on, as do those that it interrupted.
    pub fn go_on(&mut self) {
        for cpu in self.interrupted.drain(..).chain([self.here]) {
            self.resched[cpu] |= std::mem::take(&mut self.lazy[cpu]);
        }
    }

    /// HRTICK, from 7.1 on: a timer for the deadline of a task, if it has competitors. It is for 10 us at least, and is not
    /// moved by 5 us or less.
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

    /// Somebody joined a CPU: whoever runs there has a competitor.
    fn joined(&mut self, cpu: usize, now: Nanos) {
        if let (None, Some(running)) = (self.hrtick[cpu], self.running(cpu)) {
            self.start_hrtick(running, now);
        }
    }

    /// The timer of a CPU fires.
    pub fn fire(&mut self, cpu: usize, now: Nanos) {
        self.hrtick[cpu] = None;
        self.charge(cpu, now);
        self.resched[cpu] = true;
    }

    /// A task joins the competition of a CPU, with the lag that it left another or the same one with. As it pulls `V`
    /// towards itself, it is put so far away that the lag is what it was.
    fn place(&mut self, task: usize, cpu: usize) {
        let (weights, average, request) = (self.weights(cpu), self.average(cpu), self.request(task));
        let entity = &mut self.tasks[task];
        let lag = if weights == 0 { 0 } else { entity.lag * (weights + entity.weight) / weights };
        entity.v = average - lag;
        let first = std::mem::replace(&mut entity.new, false);
        let left = entity.left.take().unwrap_or(if first { request / 2 } else { request });
        (entity.deadline, entity.cpu) = (entity.v + left, cpu);
    }

    /// A task stops competing, to come back at once as another or elsewhere.
    fn take(&mut self, task: usize) {
        let lag = self.lag(task);
        let newer = self.version >= (7, 0);
        let entity = &mut self.tasks[task];
        entity.lag = if newer && entity.state == State::Delayed { lag.max(entity.lag).min(0) } else { lag };
        entity.left = Some(entity.deadline - entity.v);
    }

    /// A sleeper is let go, and is owed nothing.
    fn let_go(&mut self, task: usize) {
        let lag = self.lag(task);
        let newer = self.version >= (7, 0);
        let entity = &mut self.tasks[task];
        entity.lag = if newer { lag.max(entity.lag) } else { lag }.min(0);
        entity.state = State::Asleep;
    }

    /// The eligible one with the earliest deadline, but whoever has the CPU and is protected first. Sleepers that win
    /// are let go.
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

    /// A task is woken on a CPU.
    pub fn wake(&mut self, task: usize, cpu: usize, now: Nanos) {
        let (new, delayed) = (self.tasks[task].new, self.tasks[task].state == State::Delayed);
        if delayed {
            // The time of whoever runs has not been charged here.
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

    /// A sleeper that still competes is woken. It is put anew if its lag is not as it was left: if it is owed something,
    /// and from 7.0 on also if it is behind where it was when it fell asleep.
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

    /// A task that waits is compared with whoever runs.
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

    /// The CPU looks for its next task. `pulled` are those whom it takes from another CPU if it has nobody.
    pub fn schedule(&mut self, cpu: usize, now: Nanos, leaves: Leaves, pulled: &[usize]) {
        self.charge(cpu, now);
        let prev = self.running(cpu);
        if let Some(task) = prev {
            self.leave(task, leaves);
        }
        let mut next = self.pick(cpu, prev);
        if next.is_none() {
            pulled.iter().for_each(|&task| self.pull(task, cpu, now));
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

    /// A task that waits goes to another CPU.
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

    /// The nice value or the affinity of a task changes, wherever it is. True if it must be compared with whoever runs.
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
