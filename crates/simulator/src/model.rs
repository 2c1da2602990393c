// SPDX-License-Identifier: GPL-2.0-only
//! Interface that a run requires of a kernel; allows testing the clock with a minimal kernel.

use bpf_object::LinkedObject;
use ids::{CpuId, CpuSet, Nanos, Policy, TaskId};
use kernel_model::{CgroupId, ExitInfo, Kernel, Operation, Output, Progress, Refusal, Switch, TaskAttributes, Wait};
use launch_profile::{MapElement, ProgramCall, Steps};

/// A kernel, which executes a call at the instant that was set last and answers with an [`Output`]. Unless described
/// otherwise, a method does what that of [`Kernel`] with the same name does.
pub(crate) trait Model {
    fn set_now(&mut self, now: Nanos);
    fn take_output(&mut self, into: &mut Output);
    /// Decides about the deadline policy of a task that is about to be created.
    fn admits(&self, attributes: &TaskAttributes) -> Result<(), Refusal>;
    fn fork(&mut self, cpu: CpuId, attributes: TaskAttributes) -> Result<TaskId, i32>;
    /// Executes an operation to completion; returns the result of [`Operation::Schedule`].
    fn execute(&mut self, cpu: CpuId, operation: Operation) -> Option<Switch>;
    fn begin(&mut self, cpu: CpuId, operation: Operation) -> Progress;
    fn resume(&mut self, cpu: CpuId) -> Progress;
    /// Reason why the operation on `cpu` cannot continue now; `None`: it can.
    fn obstacle(&self, cpu: CpuId) -> Option<Obstacle>;
    fn holds_scheduler_lock(&self) -> bool;
    fn finish_operations(&mut self);
    fn watchdog_work(&mut self, cpu: CpuId);
    fn occupy(&mut self, cpu: CpuId);
    /// Changes `task` on `cpu`; an error is the errno with which the kernel refuses.
    fn change(&mut self, cpu: CpuId, task: TaskId, change: Change<'_>) -> Result<(), i32>;
    fn allowed(&self, task: TaskId) -> &CpuSet;
    fn tick_is_idle_until(&self, cpu: CpuId, until: Nanos) -> bool;
    /// `cpu`, or the machine, changes in this way.
    fn change_machine(&mut self, cpu: CpuId, change: MachineChange);
    fn is_vacant(&self, cpu: CpuId) -> bool;
    /// Executes a step of loading or unloading the scheduler on `cpu`. Returns false if it failed.
    fn load(&mut self, cpu: CpuId, step: LoadStep<'_>) -> bool;
    /// Calls a program of the running scheduler on `cpu`, and returns its return value.
    fn call_program(&mut self, cpu: CpuId, object: &LinkedObject, call: &ProgramCall) -> i32;
    fn is_disable_pending(&self) -> bool;
    fn is_disabling(&self) -> bool;
    fn exit_info(&self) -> Option<&ExitInfo>;
}

/// Reason why an operation cannot continue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Obstacle {
    /// Another CPU has not switched yet.
    Switch,
    /// Another CPU holds a lock.
    Lock,
}

/// Change of a task by a system call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'a> {
    /// New affinity mask of the task.
    Affinity(&'a CpuSet),
    /// New scheduling policy and nice value of the task.
    Policy(Policy, i8),
    /// New cgroup of the task.
    Cgroup(CgroupId),
    /// New user of the task; this change is never refused.
    User(u32),
}

/// Change of the machine, or of the CPU that it concerns.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MachineChange {
    /// The CPU accepts no more tasks.
    Deactivate,
    /// The scheduler is notified that the CPU goes offline.
    Offline,
    /// The CPU stops.
    Kill,
    /// The CPU comes online.
    Start,
    /// The CPU accepts tasks, and the scheduler is notified.
    Activate,
    /// The scheduler is bypassed for suspend.
    BeginSuspend,
    /// The bypass for suspend ends.
    EndSuspend,
    /// The CPU's clock jumps by this many nanoseconds.
    StepClock(i64),
    /// The CPU's clock drifts by this many parts per million from now on.
    DriftClock(i32),
    /// The CPU has this performance, from 0 to 1024.
    Performance(u32),
}

/// Step of loading or unloading a scheduler.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LoadStep<'a> {
    /// Loads an object that was loaded before, performs the steps before attach and begins to attach.
    BeginAttach(&'a LinkedObject, &'a Steps),
    /// Completes the attach.
    EndAttach,
    /// Calls programs of the attached scheduler; fails if one does not return 0.
    CallPrograms(&'a LinkedObject, &'a [ProgramCall]),
    /// Detaches the scheduler.
    Detach,
    /// Disables the bypassed scheduler.
    EndDisable,
}

impl Model for Kernel {
    fn set_now(&mut self, now: Nanos) {
        self.set_now(now);
    }

    #[inline(always)]
    fn take_output(&mut self, into: &mut Output) {
        self.take_output(into);
    }

    fn admits(&self, attributes: &TaskAttributes) -> Result<(), Refusal> {
        self.admits(attributes)
    }

    fn fork(&mut self, cpu: CpuId, attributes: TaskAttributes) -> Result<TaskId, i32> {
        self.fork(cpu, attributes)
    }

    #[inline(always)]
    fn execute(&mut self, cpu: CpuId, operation: Operation) -> Option<Switch> {
        match operation {
            Operation::Wake(task, waker) => self.wake(cpu, task, waker, false),
            Operation::WakeNew(task) => self.wake_new(cpu, task),
            Operation::Schedule(leave) => return Some(self.schedule(cpu, leave)),
            Operation::Tick => self.tick(cpu),
            Operation::Timer(timer) => self.timer(cpu, timer),
        }
        None
    }

    fn begin(&mut self, cpu: CpuId, operation: Operation) -> Progress {
        self.begin(cpu, operation)
    }

    fn resume(&mut self, cpu: CpuId) -> Progress {
        self.resume(cpu)
    }

    fn obstacle(&self, cpu: CpuId) -> Option<Obstacle> {
        match self.waits_for(cpu) {
            _ if self.may_resume(cpu) => None,
            Some(Wait::Switch(..)) => Some(Obstacle::Switch),
            _ => Some(Obstacle::Lock),
        }
    }

    fn holds_scheduler_lock(&self) -> bool {
        self.holds_scheduler_lock()
    }

    fn finish_operations(&mut self) {
        self.finish_operations();
    }

    fn watchdog_work(&mut self, cpu: CpuId) {
        self.watchdog_work(cpu);
    }

    fn occupy(&mut self, cpu: CpuId) {
        self.occupy(cpu);
    }

    fn change(&mut self, cpu: CpuId, task: TaskId, change: Change<'_>) -> Result<(), i32> {
        match change {
            Change::Affinity(allowed) => self.set_affinity(cpu, task, allowed),
            Change::Policy(policy, nice) => self.set_policy(cpu, task, policy, nice),
            Change::Cgroup(cgroup) => self.move_to_cgroup(cpu, &[task], cgroup),
            Change::User(uid) => {
                self.set_user(task, uid);
                Ok(())
            }
        }
    }

    fn allowed(&self, task: TaskId) -> &CpuSet {
        self.allowed(task)
    }

    fn tick_is_idle_until(&self, cpu: CpuId, until: Nanos) -> bool {
        self.tick_is_idle_until(cpu, until)
    }

    fn change_machine(&mut self, cpu: CpuId, change: MachineChange) {
        match change {
            MachineChange::Deactivate => self.deactivate_cpu(cpu),
            MachineChange::Offline => self.offline_cpu(cpu),
            MachineChange::Kill => self.kill_cpu(cpu),
            MachineChange::Start => self.start_cpu(cpu),
            MachineChange::Activate => self.activate_cpu(cpu),
            MachineChange::BeginSuspend => self.begin_suspend(cpu),
            MachineChange::EndSuspend => self.end_suspend(cpu),
            MachineChange::StepClock(step) => self.disturb_clock(cpu, step, None),
            MachineChange::DriftClock(ppm) => self.disturb_clock(cpu, 0, Some(ppm)),
            MachineChange::Performance(performance) => self.set_performance(cpu, performance),
        }
    }

    fn is_vacant(&self, cpu: CpuId) -> bool {
        self.is_vacant(cpu)
    }

    fn load(&mut self, cpu: CpuId, step: LoadStep<'_>) -> bool {
        match step {
            LoadStep::BeginAttach(object, steps) => return begin_attach(self, cpu, object, steps),
            LoadStep::CallPrograms(object, calls) => return call_programs(self, object, calls),
            LoadStep::EndAttach => self.end_attach(cpu),
            LoadStep::Detach => self.detach(cpu),
            LoadStep::EndDisable => self.end_disable(cpu),
        }
        true
    }

    fn call_program(&mut self, cpu: CpuId, object: &LinkedObject, call: &ProgramCall) -> i32 {
        self.run_program_on(cpu, object, &call.program, &call.context).expect("the profile knows the object")
    }

    fn is_disable_pending(&self) -> bool {
        self.is_disable_pending()
    }

    fn is_disabling(&self) -> bool {
        self.is_disabling()
    }

    fn exit_info(&self) -> Option<&ExitInfo> {
        self.exit_info()
    }
}

/// See [`LoadStep::BeginAttach`].
fn begin_attach(kernel: &mut Kernel, cpu: CpuId, object: &LinkedObject, steps: &Steps) -> bool {
    kernel.load(object).expect("the object was loaded before");
    let write = |element: &MapElement| kernel.set_element(&element.map, &element.key, &element.values);
    if steps.elements.iter().try_for_each(write).is_err() || !call_programs(kernel, object, &steps.calls) {
        return false;
    }
    kernel.begin_attach(cpu).expect("the scheduler was attached before");
    true
}

/// See [`LoadStep::CallPrograms`].
fn call_programs(kernel: &mut Kernel, object: &LinkedObject, calls: &[ProgramCall]) -> bool {
    calls.iter().all(|call| kernel.run_program(object, &call.program, &call.context) == Some(0))
}
