// SPDX-License-Identifier: GPL-2.0-only
//! A small kernel for tests: a few kfuncs and helpers, and timers that the test fires.

use bpf_machine::iter_num::{self, IterNum};
use bpf_machine::{Context, FaultKind, GuestAddr, Host, Resolver, TimerId};
use bpf_object::KfuncRef;

/// Names of the kfuncs; the index is the number.
const KFUNCS: [&str; 4] = ["add", "iter_num_new", "iter_num_next", "iter_num_destroy"];

/// Address of the kernel variable `kernel`, which is unmapped.
pub const VARIABLE: GuestAddr = 0xffff_1234_0000_0010;

/// The host of all tests. It records calls, so that two runs can be compared.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TestKernel {
    pub calls: Vec<(u32, [u64; 5])>,
    pub armed: Vec<(TimerId, u64, u64, u32)>,
}

impl Resolver for TestKernel {
    fn kfunc(&self, kfunc: &KfuncRef) -> Option<u32> {
        KFUNCS.iter().position(|name| *name == kfunc.name).map(|at| at as u32)
    }

    fn iterator(&self, kfunc: &KfuncRef) -> Option<IterNum> {
        match kfunc.name.as_str() {
            "iter_num_new" => Some(IterNum::New),
            "iter_num_next" => Some(IterNum::Next),
            "iter_num_destroy" => Some(IterNum::Destroy),
            _ => None,
        }
    }

    fn variable(&self, name: &str) -> Option<GuestAddr> {
        (name == "kernel").then_some(VARIABLE)
    }
}

impl Host for TestKernel {
    fn kfunc(&mut self, kfunc: u32, args: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
        match kfunc {
            0 => self.calls.push((kfunc, args)),
            _ => self.counts(kfunc),
        }
        match kfunc {
            0 => Ok(args[0].wrapping_add(args[1])),
            1 => iter_num::new(cx, args),
            2 => iter_num::next(cx, args),
            _ => iter_num::destroy(cx, args),
        }
    }

    fn counts(&mut self, kfunc: u32) {
        self.calls.push((kfunc, [0; 5]));
    }

    fn helper(&mut self, helper: u32, args: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
        self.calls.push((1000 + helper, args));
        match helper {
            5 => Ok(self.calls.len() as u64 * 1000),
            8 => Ok(u64::from(cx.cpu)),
            _ => Err(FaultKind::MissingHelper(helper)),
        }
    }

    fn timer_start(&mut self, timer: TimerId, nsecs: u64, flags: u64, cpu: u32) {
        self.armed.push((timer, nsecs, flags, cpu));
    }

    fn timer_cancel(&mut self, timer: TimerId) -> bool {
        let before = self.armed.len();
        self.armed.retain(|armed| armed.0 != timer);
        self.armed.len() < before
    }
}
