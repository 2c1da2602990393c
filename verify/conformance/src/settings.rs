// SPDX-License-Identifier: GPL-2.0-only
//! What the tracing scheduler shall do, as words in a scenario and as numbers in its read-only data.

use serde::Deserialize;
use std::fmt::Write as _;

/// Where a task is put. The order is that of `enum place` in `trace.bpf.c`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// Nowhere: from `enqueue` that drops the task.
    #[default]
    Nowhere,
    /// The local queue.
    Local,
    /// The global queue.
    Global,
    /// Our own queue, at the end.
    Fifo,
    /// Our own ordered queue, by name.
    Vtime,
    /// The local queue of `target-cpu`.
    LocalOn,
    /// A queue that does not exist.
    Unknown,
    /// Our own queue, two times.
    Twice,
    /// The local queue, by name.
    VtimeLocal,
    /// The global queue, by name.
    VtimeGlobal,
    /// The local queue of a CPU that cannot exist.
    NoCpu,
    /// The FIFO queue, by name.
    BothQueues,
    /// Nowhere; `dispatch` can find it.
    Hold,
    /// Nowhere: `scx_bpf_error`.
    Error,
    /// Nowhere: `scx_bpf_exit`.
    Exit,
}

/// Which CPU `select_cpu` answers. The order is that of `enum choice`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// Where the task was.
    #[default]
    Previous,
    /// What the default search finds.
    Search,
    /// `target-cpu`.
    Target,
    /// One that cannot exist.
    Impossible,
}

/// What `cpu_release` does. The order is that of `enum releasing`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Releasing {
    /// Nothing.
    #[default]
    Nothing,
    /// Has the local queue enqueued again, by the call of 6.12.
    AtOnce,
    /// The same by the call of 6.19.
    Afterwards,
}

/// What `dispatch` does. The order is that of `enum giving`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Giving {
    /// Nothing.
    Nothing,
    /// Takes the first of our queues, FIFO before ordered.
    #[default]
    Queues,
    /// Inserts the task that was held back longest into the local queue.
    Held,
    /// Twice.
    HeldTwice,
    /// Cancels that, inserts it into the FIFO queue and takes it from there.
    Cancelled,
    /// More often than a batch has places.
    TooMany,
    /// Takes from a queue that does not exist.
    Unknown,
    /// Cancels what was not inserted.
    CancelNothing,
    /// Inserts the held task into the local queue of `target-cpu`.
    HeldToTarget,
    /// Inserts the held task into the FIFO queue and takes it from there.
    HeldToFifo,
}

/// What `enqueue` sends to `kick-cpu`. The order is that of `enum kick`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kick {
    /// Nothing.
    #[default]
    None,
    /// No flags.
    Plain,
    /// IDLE.
    Idle,
    /// PREEMPT.
    Preempt,
    /// WAIT.
    Wait,
    /// IDLE and PREEMPT, which is an error.
    IdlePreempt,
    /// PREEMPT and WAIT.
    PreemptWait,
}

/// What happens to the tasks of one role.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Role {
    /// CPU that `select_cpu` answers.
    #[serde(default)]
    pub select: Choice,
    /// Where `select_cpu` puts the task.
    #[serde(default)]
    pub select_put: Place,
    /// `select_cpu` puts it only if the search found an idle CPU.
    #[serde(default)]
    pub only_if_idle: bool,
    /// Where `enqueue` puts it.
    #[serde(default = "default_queue")]
    pub enqueue: Place,
    /// Where `enqueue` puts it when it comes again because it lost the place that it had.
    #[serde(default)]
    pub reenqueue: Place,
    /// Slice in microseconds; 0: what the task has.
    #[serde(default = "default_slice_us")]
    pub slice_us: u64,
    /// With HEAD.
    #[serde(default)]
    pub at_head: bool,
    /// With PREEMPT.
    #[serde(default)]
    pub preempting: bool,
    /// With IMMED.
    #[serde(default)]
    pub immediate: bool,
    /// What `enqueue` sends to `kick-cpu`.
    #[serde(default)]
    pub kick: Kick,
    /// What `init_task` returns, but for threads that come to be before the first mark.
    #[serde(default)]
    pub init_result: i32,
    /// `init_task` sets `disallow`.
    #[serde(default)]
    pub disallow: bool,
}

/// So long that none is over on a slow machine; scenarios about slices say how long.
fn default_slice_us() -> u64 {
    2_000_000
}

/// Our own queue.
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
    /// What foreign tasks need to live: an idle CPU if there is one, else the global queue, which every CPU empties
    /// before it asks `dispatch`.
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

/// What does not depend on the task.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Common {
    /// What `dispatch` does.
    pub dispatch: Giving,
    /// Of [`Place::LocalOn`] and [`Choice::Target`].
    pub target_cpu: u32,
    /// Of [`Role::kick`].
    pub kick_cpu: u32,
    /// What `yield` returns.
    pub yield_answer: bool,
    /// `tick` sets the slice of our tasks to 0.
    pub tick_ends_slice: bool,
    /// What `cpu_release` does.
    pub release: Releasing,
    /// What `init` returns.
    pub init_result: i32,
}

/// All of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings<'a> {
    /// Names of `SCX_OPS_*` flags.
    pub flags: &'a [String],
    /// Watchdog, if not the default.
    pub timeout_ms: Option<u32>,
    /// The log has no marks.
    pub without_marks: bool,
    /// What does not depend on the task.
    pub common: &'a Common,
    /// Foreign tasks, workers, victims, directors.
    pub roles: [&'a Role; 4],
}

impl Settings<'_> {
    /// As a launch profile: both worlds read the same.
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
