// SPDX-License-Identifier: GPL-2.0-only
//! The core as the host of the BPF machine: it executes kfuncs, helpers and timers.

use super as kfuncs;
use crate::api::{Effect, TimerKey};
use crate::core::{Call, Callee, Core};
use crate::ops::Op;
use bpf_machine::{Context, FaultKind, GuestAddr, Host, Memory, TimerId};
use ids::{CpuId, Nanos};

/// BPF_F_TIMER_ABS.
const TIMER_ABSOLUTE: u64 = 1;

impl Host for Core {
    #[inline]
    fn kfunc(&mut self, kfunc: u32, args: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
        self.counts(kfunc);
        self.context.locks.in_flight = cx.executed;
        self.context.running.call = Some(Call { callee: Callee::Kfunc(kfunc), line: cx.line });
        let result = kfuncs::call(self, kfunc, args, cx)?;
        self.context.running.call = None;
        Ok(result)
    }

    fn refresh(&mut self, addr: GuestAddr, len: u32, memory: &mut Memory) {
        self.refresh_members(memory, addr, len);
    }

    #[inline(always)]
    fn plain(&mut self, plain: u32, kfunc: u32, args: [u64; 2], memory: &Memory) -> Option<u64> {
        let value = kfuncs::plain::answer(self, plain, args, memory)?;
        self.counts(kfunc);
        Some(value)
    }

    #[inline]
    fn counts(&mut self, kfunc: u32) {
        self.output.usage.calls[kfuncs::nature(kfunc)] += 1;
    }

    #[inline]
    fn helper(&mut self, helper: u32, args: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
        self.output.usage.calls[kfuncs::helper_nature(helper)] += 1;
        self.context.running.call = Some(Call { callee: Callee::Helper(helper), line: cx.line });
        let result = kfuncs::helper(self, helper, args, cx)?;
        self.context.running.call = None;
        Ok(result)
    }

    fn spin_lock(&mut self, addr: u64, taken: bool, executed: u64) {
        self.context.locks.in_flight = executed;
        self.bpf_lock(addr, taken);
    }

    fn timer_start(&mut self, timer: TimerId, nsecs: u64, flags: u64, cpu: u32) {
        let absolute = nsecs.saturating_sub(self.time.uptime().0);
        let at = if flags & TIMER_ABSOLUTE != 0 { absolute } else { self.time.now().0.saturating_add(nsecs) };
        let (timer, at) = (TimerKey::Bpf(timer), Nanos(at).max(self.time.now()));
        self.armed.insert(timer);
        self.output.effects.push(Effect::ArmTimer { timer, cpu: CpuId(cpu), at });
    }

    /// `defer_timer_wq_op`: not while interrupts are off (kernel/bpf/helpers.c of 7.2).
    fn may_cancel_timers(&self) -> bool {
        !self.context.running.op.is_some_and(Op::runs_without_interrupts)
    }

    fn running_timer(&self) -> Option<TimerId> {
        self.context.running.timer
    }

    fn timer_cancel(&mut self, timer: TimerId) -> bool {
        let timer = TimerKey::Bpf(timer);
        let was_armed = self.armed.remove(&timer);
        if was_armed {
            self.output.effects.push(Effect::CancelTimer { timer });
        }
        was_armed
    }
}
