// SPDX-License-Identifier: GPL-2.0-only
//! Deadline servers: 50 ms in each second for the fair class (since 6.12) and for ext, on each CPU
//! (`dl_server_*` of kernel/sched/deadline.c; the state machine is that of 7.0).
//!
//! 1. A server that starts waits until its zero-laxity time: its deadline, one second ahead, minus its runtime. The
//!    time that its class or the idle task runs is charged to it meanwhile. When its runtime is used up, a new period
//!    begins. So it never runs while its class gets 50 ms in a second by itself.
//! 2. At zero laxity the class has been starved. The server joins the deadline tasks with a new period, and its class
//!    is picked when the server has the earliest deadline.
//! 3. A server without runtime waits for its next period, and then runs again without another wait for zero laxity,
//!    as long as its class gets nothing else.
//! 4. A server that is picked and finds no task stops; the next task of its class that becomes runnable starts it.
//!
//! While its class or the idle task runs, laxity does not change, so nothing need be done at the zero-laxity time
//! unless a higher class runs then. The timer is therefore armed only at a tick of a higher class, and only if it is
//! due before the next tick; a kernel arms it at each start.

use super::super::task::Class;
use super::{Core, is_past, overflows, revised};
use crate::api::{Effect, TimerKey};
use ids::{CpuId, Nanos};

/// Runtime in each period.
const RUNTIME: u64 = 50_000_000;
/// Period.
const PERIOD: u64 = 1_000_000_000;
/// First kernel with a server for the fair class.
const FAIR_SINCE: (u16, u16) = (6, 12);
/// First kernel with a server for ext.
const EXT_SINCE: (u16, u16) = (7, 0);

/// Class that a server serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Served {
    /// `fair_server`.
    Fair,
    /// `ext_server`.
    Ext,
}

impl Served {
    /// Both servers of a CPU.
    pub const ALL: [Served; 2] = [Served::Fair, Served::Ext];

    /// The class.
    pub fn class(self) -> Class {
        match self {
            Served::Fair => Class::Fair,
            Served::Ext => Class::Ext,
        }
    }
}

/// State of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    /// Not started, or stopped.
    #[default]
    Stopped,
    /// Waits for its zero-laxity time.
    Deferred,
    /// In the queue of the deadline class.
    Queued,
    /// Out of runtime; waits for its next period.
    Throttled,
}

/// A deadline server.
#[derive(Clone, Copy, Debug, Default)]
struct Server {
    state: State,
    /// Runtime that is left, in nanoseconds.
    runtime: i64,
    /// Absolute deadline.
    deadline: u64,
    /// The class was starved, and the server does not wait for zero laxity again (`dl_defer_running`).
    starved: bool,
}

/// The servers of a CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Servers {
    fair: Server,
    ext: Server,
    /// When the timer is armed for.
    timer: Option<Nanos>,
}

impl Servers {
    fn of(&mut self, served: Served) -> &mut Server {
        match served {
            Served::Fair => &mut self.fair,
            Served::Ext => &mut self.ext,
        }
    }

    fn get(&self, served: Served) -> &Server {
        match served {
            Served::Fair => &self.fair,
            Served::Ext => &self.ext,
        }
    }

    /// The earliest deadline of a queued server.
    pub fn earliest(&self) -> Option<u64> {
        self.first().map(|(deadline, _)| deadline)
    }

    /// The queued server with the earliest deadline.
    #[inline]
    fn first(&self) -> Option<(u64, Served)> {
        let queued = |server: &Server| server.state == State::Queued;
        match (queued(&self.fair), queued(&self.ext)) {
            (false, false) => None,
            (true, true) if self.ext.deadline < self.fair.deadline => Some((self.ext.deadline, Served::Ext)),
            (true, _) => Some((self.fair.deadline, Served::Fair)),
            (false, true) => Some((self.ext.deadline, Served::Ext)),
        }
    }

    /// Whether this server is in the queue of the deadline class.
    pub fn is_queued(&self, served: Served) -> bool {
        self.get(served).state == State::Queued
    }
}

impl Server {
    /// `dl_server_start`.
    fn start(&mut self, now: u64) {
        let passed = self.deadline < now || self.deadline == 0;
        if passed || overflows(self.runtime, self.deadline, RUNTIME, PERIOD, now) {
            if self.starved && !passed {
                self.runtime = revised(self.deadline, RUNTIME, PERIOD, now);
                self.state = State::Queued;
                return;
            }
            self.defer(now);
        }
        let waits = !self.starved && !is_past(self.due(State::Deferred), now);
        self.state = if waits { State::Deferred } else { State::Queued };
    }

    /// A new period begins, in which the server waits for zero laxity.
    fn defer(&mut self, now: u64) {
        *self = Server { state: State::Deferred, runtime: RUNTIME as i64, deadline: now + PERIOD, starved: false };
    }

    /// When the timer fires in this state.
    fn due(&self, state: State) -> u64 {
        match state {
            State::Deferred => self.deadline.saturating_add_signed(-self.runtime),
            State::Throttled => self.deadline,
            State::Stopped | State::Queued => u64::MAX,
        }
    }

    /// `update_curr_dl_se`: charges a run interval of the class; returns whether the server was queued and has used
    /// up its runtime.
    #[inline]
    fn charge(&mut self, ran: u64, now: u64) -> bool {
        if self.state == State::Stopped {
            self.start(now);
        }
        self.runtime -= ran as i64;
        if self.runtime > 0 {
            return false;
        }
        if self.state != State::Queued {
            self.defer(now);
            return false;
        }
        self.state = State::Throttled;
        if is_past(self.deadline, now) {
            (self.deadline, self.runtime) = (now + PERIOD, RUNTIME as i64);
        }
        true
    }

    /// `dl_server_timer`, when it is due.
    fn fire(&mut self, now: u64) {
        if self.state == State::Deferred {
            // What is left of the runtime fills the time until the deadline, which exceeds the bandwidth: a new period.
            (self.deadline, self.runtime, self.starved) = (now + PERIOD, RUNTIME as i64, true);
        }
        while self.runtime <= 0 {
            self.deadline += PERIOD;
            self.runtime += RUNTIME as i64;
        }
        if self.deadline < now {
            (self.deadline, self.runtime) = (now + PERIOD, RUNTIME as i64);
        }
        self.state = State::Queued;
    }
}

impl Core {
    fn has_server(&self, served: Served) -> bool {
        served == Served::Ext || self.config.version >= FAIR_SINCE
    }

    /// Number of servers on each CPU that count in admission control. Since 7.0 the fair class has none while a
    /// scheduler has all of its tasks, and ext has one while a scheduler is attached.
    pub(super) fn servers_per_cpu(&self, attached: bool, switch_all: bool) -> u64 {
        let has_ext = self.config.version >= EXT_SINCE && attached;
        u64::from(self.config.version >= FAIR_SINCE && !(has_ext && switch_all)) + u64::from(has_ext)
    }

    /// Bandwidth of a server, as admission control counts it.
    pub(super) fn server_bandwidth() -> u64 {
        super::ratio(RUNTIME, PERIOD)
    }

    /// Starts the server of a class that has a runnable task on `cpu`.
    #[inline]
    pub fn server_start(&mut self, cpu: CpuId, served: Served) {
        let now = self.time.now().0;
        if self.has_server(served) {
            let server = self.cpus[cpu.index()].servers.of(served);
            if server.state != State::Stopped {
                return;
            }
            server.start(now);
            // A server that already waited for zero laxity preempts real-time tasks at once (`enqueue_dl_entity`).
            if server.state == State::Queued && self.current_class(cpu) == Class::Rt {
                self.resched(cpu);
            }
        }
    }

    /// Charges a run interval of the class to its server; returns whether the CPU should pick again.
    #[inline]
    pub fn server_charge(&mut self, cpu: CpuId, served: Served, ran: Nanos) -> bool {
        let now = self.time.now().0;
        self.has_server(served) && self.cpus[cpu.index()].servers.of(served).charge(ran.0, now)
    }

    /// `dl_server_update_idle`: idle time counts as time that the classes could have had.
    #[inline]
    pub fn server_charge_idle(&mut self, cpu: CpuId, ran: Nanos) {
        let now = self.time.now().0;
        for served in Served::ALL {
            let server = self.cpus[cpu.index()].servers.of(served);
            if matches!(server.state, State::Deferred | State::Throttled) {
                server.charge(ran.0, now);
            }
        }
    }

    /// Whether tasks of the class wait on `cpu` while a higher class runs.
    fn server_is_wanted(&self, cpu: CpuId, served: Served) -> bool {
        match served {
            Served::Ext => self.cpus[cpu.index()].ext_tasks > 0,
            Served::Fair => self.cpus[cpu.index()].higher.last().is_some_and(|key| key.0 == Class::Fair),
        }
    }

    /// The server whose class is to be picked on `cpu` now, if it comes before all deadline tasks.
    #[inline]
    pub fn server_first(&mut self, cpu: CpuId) -> Option<Served> {
        for served in Served::ALL {
            self.server_check(cpu, served);
        }
        let rq = &self.cpus[cpu.index()];
        let (deadline, served) = rq.servers.first()?;
        let first = rq.higher.first().filter(|key| key.0 == Class::Deadline);
        first.is_none_or(|key| deadline <= key.1).then_some(served)
    }

    /// Queues a server that is due; returns whether it was.
    #[inline]
    fn server_check(&mut self, cpu: CpuId, served: Served) -> bool {
        let now = self.time.now().0;
        let server = self.cpus[cpu.index()].servers.get(served);
        let due = now >= server.due(server.state) && self.has_server(served) && self.server_is_wanted(cpu, served);
        if due {
            self.cpus[cpu.index()].servers.of(served).fire(now);
        }
        due
    }

    /// `dl_server_stop`: the server was picked and found no task.
    pub fn server_stop(&mut self, cpu: CpuId, served: Served) {
        self.cpus[cpu.index()].servers.of(served).state = State::Stopped;
    }

    /// At a tick of a task of `class`: queues the servers of lower classes that are due, and arms the timer for those
    /// that are due before the next tick. Returns whether the CPU should pick again.
    pub fn servers_tick(&mut self, cpu: CpuId, class: Class) -> bool {
        let (now, tick) = (self.time.now(), 1_000_000_000 / u64::from(self.config.hz));
        let mut queued = false;
        for served in Served::ALL.into_iter().filter(|served| class < served.class()) {
            queued |= self.server_check(cpu, served);
            let servers = &self.cpus[cpu.index()].servers;
            let due = servers.get(served).due(servers.get(served).state);
            if due <= now.0 + tick && self.has_server(served) && self.server_is_wanted(cpu, served) {
                self.server_arm(cpu, Nanos(due));
            }
        }
        queued
    }

    fn server_arm(&mut self, cpu: CpuId, at: Nanos) {
        let servers = &mut self.cpus[cpu.index()].servers;
        if servers.timer.is_none_or(|armed| at < armed) {
            servers.timer = Some(at);
            let timer = TimerKey::Server(cpu);
            self.armed.insert(timer);
            self.output.effects.push(Effect::ArmTimer { timer, cpu, at });
        }
    }

    /// The timer of `cpu` has fired. Returns whether the CPU should pick again.
    pub fn servers_fired(&mut self, cpu: CpuId) -> bool {
        self.cpus[cpu.index()].servers.timer = None;
        let class = self.current_class(cpu);
        self.servers_tick(cpu, class)
    }
}
