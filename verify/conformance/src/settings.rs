// SPDX-License-Identifier: GPL-2.0-only
//! Settings of the tracing scheduler, as words in a scenario and as numbers in its read-only data.

use serde::Deserialize;
use std::fmt::Write as _;

/// Queue into which a task is inserted, in the order of `enum place` in `trace.bpf.c`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// No queue: `enqueue` drops the task.
    #[default]
    Nowhere,
    /// Local queue.
    Local,
    /// Global queue.
    Global,
    /// The scheduler's FIFO queue, at the end.
    Fifo,
    /// The scheduler's vtime queue, ordered by task name.
    Vtime,
    /// Local queue of `target-cpu`.
    LocalOn,
    /// A queue that does not exist.
    Unknown,
    /// The scheduler's FIFO queue, with two inserts (an error).
    Twice,
    /// Local queue with a vtime insert.
    VtimeLocal,
    /// Global queue with a vtime insert.
    VtimeGlobal,
    /// Local queue of an impossible CPU.
    NoCpu,
    /// The scheduler's FIFO queue with a vtime insert.
    BothQueues,
    /// No queue: the task is held until `dispatch` inserts it.
    Hold,
    /// No queue: `enqueue` calls `scx_bpf_error`.
    Error,
    /// No queue: `enqueue` calls `scx_bpf_exit`.
    Exit,
}

/// CPU that `select_cpu` returns, in the order of `enum choice`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// The task's previous CPU.
    #[default]
    Previous,
    /// Result of the default idle search.
    Search,
    /// `target-cpu`.
    Target,
    /// An impossible CPU.
    Impossible,
}

/// Action of `cpu_release`, in the order of `enum releasing`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Releasing {
    /// The callback does nothing.
    #[default]
    Nothing,
    /// Re-enqueues the local queue with the kfunc of 6.12.
    AtOnce,
    /// Re-enqueues the local queue with the kfunc of 6.19.
    Afterwards,
}

/// Action of `dispatch`, in the order of `enum giving`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Giving {
    /// The callback does nothing.
    Nothing,
    /// Moves the first task of the scheduler's queues, FIFO before vtime.
    #[default]
    Queues,
    /// Inserts the task held longest into the local queue.
    Held,
    /// Inserts the task held longest into the local queue twice.
    HeldTwice,
    /// Cancels the insert, inserts the task into the FIFO queue and moves it from there.
    Cancelled,
    /// Inserts more often than a batch has slots.
    TooMany,
    /// Moves from a queue that does not exist.
    Unknown,
    /// Cancels without an insert.
    CancelNothing,
    /// Inserts the held task into the local queue of `target-cpu`.
    HeldToTarget,
    /// Inserts the held task into the FIFO queue and moves it from there.
    HeldToFifo,
}

/// Kick that `enqueue` sends to `kick-cpu`, in the order of `enum kick`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kick {
    /// No kick.
    #[default]
    None,
    /// A kick without flags.
    Plain,
    /// A kick with `SCX_KICK_IDLE`.
    Idle,
    /// A kick with `SCX_KICK_PREEMPT`.
    Preempt,
    /// A kick with `SCX_KICK_WAIT`.
    Wait,
    /// A kick with both `SCX_KICK_IDLE` and `SCX_KICK_PREEMPT`, which is an error.
    IdlePreempt,
    /// A kick with both `SCX_KICK_PREEMPT` and `SCX_KICK_WAIT`.
    PreemptWait,
}

/// Settings for the tasks of one role.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Role {
    /// CPU that `select_cpu` returns.
    #[serde(default)]
    pub select: Choice,
    /// Queue into which `select_cpu` inserts the task.
    #[serde(default)]
    pub select_put: Place,
    /// `select_cpu` inserts only if the search found an idle CPU.
    #[serde(default)]
    pub only_if_idle: bool,
    /// Queue into which `enqueue` inserts it.
    #[serde(default = "default_queue")]
    pub enqueue: Place,
    /// Queue into which `enqueue` inserts it at a re-enqueue.
    #[serde(default)]
    pub reenqueue: Place,
    /// Slice in microseconds; 0 keeps the task's slice.
    #[serde(default = "default_slice_us")]
    pub slice_us: u64,
    /// Insert with SCX_ENQ_HEAD.
    #[serde(default)]
    pub at_head: bool,
    /// Insert with SCX_ENQ_PREEMPT.
    #[serde(default)]
    pub preempting: bool,
    /// Insert with SCX_ENQ_IMMED.
    #[serde(default)]
    pub immediate: bool,
    /// Kick that `enqueue` sends to `kick-cpu`.
    #[serde(default)]
    pub kick: Kick,
    /// Return value of `init_task`, except for threads created before the first mark.
    #[serde(default)]
    pub init_result: i32,
    /// `init_task` sets `disallow`.
    #[serde(default)]
    pub disallow: bool,
}

/// Long enough not to end on a slow machine; scenarios about slices set their own.
fn default_slice_us() -> u64 {
    2_000_000
}

/// The scheduler's FIFO queue.
fn default_queue() -> Place {
    Place::Fifo
}

impl Default for Role {
    fn default() -> Role {
        Role {
            select: Choice::Previous,
            select_put: Place::Nowhere,
            only_if_idle: false,
            enqueue: Place::Fifo,
            reenqueue: Place::Nowhere,
            slice_us: default_slice_us(),
            at_head: false,
            preempting: false,
            immediate: false,
            kick: Kick::None,
            init_result: 0,
            disallow: false,
        }
    }
}

impl Role {
    /// Settings for foreign tasks: an idle CPU if there is one, else the global queue, which every CPU serves before
    /// it calls `dispatch`.
    pub fn foreign() -> Role {
        Role {
            select: Choice::Search,
            select_put: Place::Local,
            only_if_idle: true,
            enqueue: Place::Global,
            slice_us: 20_000,
            ..Role::default()
        }
    }
}

/// Settings that do not depend on the task.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Common {
    /// Action of `dispatch`.
    pub dispatch: Giving,
    /// CPU of [`Place::LocalOn`] and [`Choice::Target`].
    pub target_cpu: u32,
    /// Target of [`Role::kick`].
    pub kick_cpu: u32,
    /// Return value of `yield`.
    pub yield_answer: bool,
    /// `tick` sets the slice of the scenario's tasks to 0.
    pub tick_ends_slice: bool,
    /// Action of `cpu_release`.
    pub release: Releasing,
    /// Return value of `init`.
    pub init_result: i32,
}

/// All settings.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings<'a> {
    /// Names of `SCX_OPS_*` flags.
    pub flags: &'a [String],
    /// Watchdog timeout, if not the default.
    pub timeout_ms: Option<u32>,
    /// The log contains no marks.
    pub without_marks: bool,
    /// Settings that do not depend on the task.
    pub common: &'a Common,
    /// Roles: foreign tasks, workers, victims, directors.
    pub roles: [&'a Role; 4],
}

impl Settings<'_> {
    /// Returns the settings as a launch profile, which kernel and model both read.
    pub fn profile(&self) -> String {
        let mut text = String::from("[ops]\n");
        let mut line = |name: &str, value: &dyn std::fmt::Debug| {
            writeln!(text, "{name} = {value:?}").expect("a string takes all");
        };
        line("flags", &self.flags);
        if let Some(timeout_ms) = self.timeout_ms {
            line("timeout_ms", &timeout_ms);
        }
        let of_roles = |value: fn(&Role) -> i64| self.roles.map(value);
        let truths = |value: fn(&Role) -> bool| self.roles.map(value);
        let mut text = text + "\n[rodata]\n";
        let mut line = |name: &str, value: &dyn std::fmt::Debug| {
            writeln!(text, "{name} = {value:?}").expect("a string takes all");
        };
        line("select_choice", &of_roles(|role| role.select as i64));
        line("select_place", &of_roles(|role| role.select_put as i64));
        line("select_only_if_idle", &truths(|role| role.only_if_idle));
        line("enqueue_place", &of_roles(|role| role.enqueue as i64));
        line("reenqueue_place", &of_roles(|role| role.reenqueue as i64));
        line("slice_ns", &of_roles(|role| role.slice_us as i64 * 1_000));
        line("at_head", &truths(|role| role.at_head));
        line("preempting", &truths(|role| role.preempting));
        line("immediate", &truths(|role| role.immediate));
        line("enqueue_kick", &of_roles(|role| role.kick as i64));
        line("init_task_result", &of_roles(|role| role.init_result.into()));
        line("init_task_disallows", &truths(|role| role.disallow));
        line("dispatch_giving", &(self.common.dispatch as i64));
        line("target_cpu", &self.common.target_cpu);
        line("kick_cpu", &self.common.kick_cpu);
        line("yield_answer", &self.common.yield_answer);
        line("tick_ends_slice", &self.common.tick_ends_slice);
        line("release_does", &(self.common.release as i64));
        line("init_result", &self.common.init_result);
        line("without_marks", &self.without_marks);
        text
    }
}
