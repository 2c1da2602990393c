// SPDX-License-Identifier: GPL-2.0-only
//! Interface that a run requires of a kernel; allows testing the clock with a minimal kernel.

use bpf_object::LinkedObject;
use event_log::Waker;
use ids::{CpuId, CpuSet, Nanos, Policy, TaskId};
use kernel_model::{
    CgroupId, CgroupKnobs, ExitInfo, Kernel, Leave, Operation, Output, Progress, Switch, TaskAttributes, TimerKey, Wait,
};
use launch_profile::{MapElement, ProgramCall, Steps};

/// See the functions of [`Kernel`] with the same names.
pub(crate) trait Model {
    fn set_now(&mut self, now: Nanos);
    fn take_output(&mut self, into: &mut Output);
    fn fork(&mut self, cpu: CpuId, attributes: TaskAttributes) -> Result<TaskId, i32>;
    fn make_cgroup(&mut self, cpu: CpuId, parent: CgroupId, name: &str) -> Result<CgroupId, i32>;
    fn set_cgroup(&mut self, cpu: CpuId, cgroup: CgroupId, knobs: CgroupKnobs);
    fn move_to_cgroup(&mut self, cpu: CpuId, tasks: &[TaskId], to: CgroupId) -> Result<(), i32>;
    fn set_user(&mut self, task: TaskId, uid: u32);
    fn wake_new(&mut self, cpu: CpuId, task: TaskId);
    fn occupy(&mut self, cpu: CpuId);
    fn wake(&mut self, cpu: CpuId, task: TaskId, waker: Waker);
    fn schedule(&mut self, cpu: CpuId, leave: Leave) -> Switch;
    fn tick(&mut self, cpu: CpuId);
    fn timer(&mut self, cpu: CpuId, timer: TimerKey);
    fn watchdog_work(&mut self, cpu: CpuId);
    fn set_affinity(&mut self, cpu: CpuId, task: TaskId, allowed: &CpuSet) -> Result<(), i32>;
    fn set_policy(&mut self, cpu: CpuId, task: TaskId, policy: Policy, nice: i8) -> Result<(), i32>;
    fn tick_is_idle_until(&self, cpu: CpuId, until: Nanos) -> bool;
    fn exit_info(&self) -> Option<&ExitInfo>;
    fn allowed(&self, task: TaskId) -> &CpuSet;
    fn deactivate_cpu(&mut self, cpu: CpuId);
    fn offline_cpu(&mut self, cpu: CpuId);
    fn is_vacant(&self, cpu: CpuId) -> bool;
    fn kill_cpu(&mut self, cpu: CpuId);
    fn start_cpu(&mut self, cpu: CpuId);
    fn activate_cpu(&mut self, cpu: CpuId);
    fn begin_suspend(&mut self, cpu: CpuId);
    fn end_suspend(&mut self, cpu: CpuId);
    fn set_performance(&mut self, cpu: CpuId, performance: u32);
    fn disturb_clock(&mut self, cpu: CpuId, step: i64, drift_ppm: Option<i32>);
    /// Loads an object that was loaded before, performs the steps before attach and begins to attach. False if a step
    /// failed.
    fn begin_attach(&mut self, cpu: CpuId, object: &LinkedObject, steps: &Steps) -> bool;
    /// Calls programs of the attached scheduler. False if one failed.
    fn call_programs(&mut self, object: &LinkedObject, calls: &[ProgramCall]) -> bool;
    /// Calls a program of the running scheduler on `cpu`, and returns its return value.
    fn call_program(&mut self, cpu: CpuId, object: &LinkedObject, call: &ProgramCall) -> i32;
    fn end_attach(&mut self, cpu: CpuId);
    fn detach(&mut self, cpu: CpuId);
    fn begin(&mut self, cpu: CpuId, operation: Operation) -> Progress;
    fn resume(&mut self, cpu: CpuId) -> Progress;
    fn may_resume(&self, cpu: CpuId) -> bool;
    fn waits_for_switch(&self, cpu: CpuId) -> bool;
    fn is_disable_pending(&self) -> bool;
    fn holds_scheduler_lock(&self) -> bool;
    fn finish_operations(&mut self);
    fn is_disabling(&self) -> bool;
    fn end_disable(&mut self, cpu: CpuId);
}

impl Model for Kernel {
    fn set_now(&mut self, now: Nanos) {
        self.set_now(now);
    }
    #[inline(always)]
    fn take_output(&mut self, into: &mut Output) {
        self.take_output(into);
    }
    fn fork(&mut self, cpu: CpuId, attributes: TaskAttributes) -> Result<TaskId, i32> {
        self.fork(cpu, attributes)
    }
    fn make_cgroup(&mut self, cpu: CpuId, parent: CgroupId, name: &str) -> Result<CgroupId, i32> {
        self.make_cgroup(cpu, parent, name)
    }
    fn set_cgroup(&mut self, cpu: CpuId, cgroup: CgroupId, knobs: CgroupKnobs) {
        self.set_cgroup(cpu, cgroup, knobs);
    }
    fn move_to_cgroup(&mut self, cpu: CpuId, tasks: &[TaskId], to: CgroupId) -> Result<(), i32> {
        self.move_to_cgroup(cpu, tasks, to)
    }
    fn set_user(&mut self, task: TaskId, uid: u32) {
        self.set_user(task, uid);
    }
    fn wake_new(&mut self, cpu: CpuId, task: TaskId) {
        self.wake_new(cpu, task);
    }
    fn occupy(&mut self, cpu: CpuId) {
        self.occupy(cpu);
    }
    fn wake(&mut self, cpu: CpuId, task: TaskId, waker: Waker) {
        self.wake(cpu, task, waker, false);
    }
    fn schedule(&mut self, cpu: CpuId, leave: Leave) -> Switch {
        self.schedule(cpu, leave)
    }
    fn tick(&mut self, cpu: CpuId) {
        self.tick(cpu);
    }
    fn timer(&mut self, cpu: CpuId, timer: TimerKey) {
        self.timer(cpu, timer);
    }
    fn watchdog_work(&mut self, cpu: CpuId) {
        self.watchdog_work(cpu);
    }
    fn set_affinity(&mut self, cpu: CpuId, task: TaskId, allowed: &CpuSet) -> Result<(), i32> {
        self.set_affinity(cpu, task, allowed)
    }
    fn set_policy(&mut self, cpu: CpuId, task: TaskId, policy: Policy, nice: i8) -> Result<(), i32> {
        self.set_policy(cpu, task, policy, nice)
    }
    fn tick_is_idle_until(&self, cpu: CpuId, until: Nanos) -> bool {
        self.tick_is_idle_until(cpu, until)
    }
    fn exit_info(&self) -> Option<&ExitInfo> {
        self.exit_info()
    }
    fn allowed(&self, task: TaskId) -> &CpuSet {
        self.allowed(task)
    }
    fn deactivate_cpu(&mut self, cpu: CpuId) {
        self.deactivate_cpu(cpu);
    }
    fn offline_cpu(&mut self, cpu: CpuId) {
        self.offline_cpu(cpu);
    }
    fn is_vacant(&self, cpu: CpuId) -> bool {
        self.is_vacant(cpu)
    }
    fn kill_cpu(&mut self, cpu: CpuId) {
        self.kill_cpu(cpu);
    }
    fn start_cpu(&mut self, cpu: CpuId) {
        self.start_cpu(cpu);
    }
    fn activate_cpu(&mut self, cpu: CpuId) {
        self.activate_cpu(cpu);
    }
    fn begin_suspend(&mut self, cpu: CpuId) {
        self.begin_suspend(cpu);
    }
    fn end_suspend(&mut self, cpu: CpuId) {
        self.end_suspend(cpu);
    }
    fn disturb_clock(&mut self, cpu: CpuId, step: i64, drift_ppm: Option<i32>) {
        self.disturb_clock(cpu, step, drift_ppm);
    }
    fn set_performance(&mut self, cpu: CpuId, performance: u32) {
        self.set_performance(cpu, performance);
    }
    fn begin_attach(&mut self, cpu: CpuId, object: &LinkedObject, steps: &Steps) -> bool {
        self.load(object).expect("what was loaded once can be loaded again");
        let write = |element: &MapElement| self.set_element(&element.map, &element.key, &element.values);
        if steps.elements.iter().try_for_each(write).is_err() || !self.call_programs(object, &steps.calls) {
            return false;
        }
        self.begin_attach(cpu).expect("what was attached once can be attached again");
        true
    }
    fn call_programs(&mut self, object: &LinkedObject, calls: &[ProgramCall]) -> bool {
        calls.iter().all(|call| self.run_program(object, &call.program, &call.context) == Some(0))
    }
    fn call_program(&mut self, cpu: CpuId, object: &LinkedObject, call: &ProgramCall) -> i32 {
        self.run_program_on(cpu, object, &call.program, &call.context).expect("the profile knows the object")
    }
    fn end_attach(&mut self, cpu: CpuId) {
        self.end_attach(cpu);
    }
    fn detach(&mut self, cpu: CpuId) {
        self.detach(cpu);
    }
    fn begin(&mut self, cpu: CpuId, operation: Operation) -> Progress {
        self.begin(cpu, operation)
    }
    fn resume(&mut self, cpu: CpuId) -> Progress {
        self.resume(cpu)
    }
    fn may_resume(&self, cpu: CpuId) -> bool {
        self.may_resume(cpu)
    }
    fn waits_for_switch(&self, cpu: CpuId) -> bool {
        matches!(self.waits_for(cpu), Some(Wait::Switch(..)))
    }
    fn is_disable_pending(&self) -> bool {
        self.is_disable_pending()
    }
    fn holds_scheduler_lock(&self) -> bool {
        self.holds_scheduler_lock()
    }
    fn finish_operations(&mut self) {
        self.finish_operations();
    }
    fn is_disabling(&self) -> bool {
        self.is_disabling()
    }
    fn end_disable(&mut self, cpu: CpuId) {
        self.end_disable(cpu);
    }
}
