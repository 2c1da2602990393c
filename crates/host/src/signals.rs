// SPDX-License-Identifier: GPL-2.0-only
//! Ctrl-C and its like as something to ask for, so that a scheduler is unloaded, CPUs are brought back, and a report is
//! written before the end.

use crate::{HostError, proc};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::cell::Cell;

/// `si_code` of a signal that the kernel sends by itself, such as a terminal's; those that processes send have others.
const SI_KERNEL: i32 = 0x80;

/// A signal that asks this process to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StopRequest {
    /// Its number.
    pub signal: i32,
    /// The terminal sends Ctrl-C to all processes of the group, as [`Signals::interrupt`] does; what another process sends
    /// reaches only this one.
    pub only_here: bool,
}

/// The signals by which somebody, or the end of a terminal, asks for an end.
const STOPS: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// Keeps these signals from ending this process, and hands them out.
#[derive(Debug)]
pub struct Signals {
    set: SigSet,
    fd: SignalFd,
    /// Somebody asked by a key.
    asked: Cell<bool>,
}

impl Signals {
    /// Blocks the signals, in this thread and all that it will start. Those that this process was told to ignore (by
    /// nohup, say) are left alone: a signal that is blocked would come nevertheless.
    ///
    /// # Errors
    /// Says what the kernel answered.
    pub fn block() -> Result<Signals, HostError> {
        let ignored = proc::ignored_signals()?;
        let heard = |signal: &Signal| ignored & (1 << (*signal as u32 - 1)) == 0;
        let set = STOPS.into_iter().filter(heard).collect::<SigSet>();
        let failed = |error: nix::Error| HostError::File { path: "signals".to_owned(), source: error.into() };
        let fd = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).map_err(failed)?;
        set.thread_block().map_err(failed)?;
        Ok(Signals { set, fd, asked: Cell::new(false) })
    }

    /// Calls `start` with the signals as they were, for it to start a process, which inherits that.
    pub fn unblocked<T>(&self, start: impl FnOnce() -> T) -> T {
        // Neither fails with a valid set. A signal between the two calls ends this process, and the kernel cleans up.
        let _ = self.set.thread_unblock();
        let result = start();
        let _ = self.set.thread_block();
        result
    }

    /// A signal that has come since the last call.
    pub fn take(&self) -> Option<StopRequest> {
        let Some(info) = self.fd.read_signal().ok().flatten() else {
            let asked = self.asked.take();
            return asked.then_some(StopRequest { signal: Signal::SIGINT as i32, only_here: false });
        };
        let only_here = info.ssi_code != SI_KERNEL && info.ssi_pid != std::process::id();
        Some(StopRequest { signal: info.ssi_signo as i32, only_here })
    }

    /// Does what Ctrl-C does in a terminal, for who reads its keys: all processes of this one's group get SIGINT. This one
    /// is asked for an end even if it was told to ignore that.
    pub fn interrupt(&self) {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(0), Signal::SIGINT);
        self.asked.set(true);
    }

    /// Sends a child process what only this process got since the last call. True if anybody wants an end.
    pub fn pass_on(&self, child: u32) -> bool {
        let mut stopped = false;
        while let Some(stop) = self.take() {
            stopped = true;
            if stop.only_here {
                send(child, stop.signal);
            }
        }
        stopped
    }
}

/// Sends a signal to a process. One that has ended already is no error.
pub fn send(process: u32, signal: i32) {
    if let (Ok(signal), Ok(process)) = (Signal::try_from(signal), i32::try_from(process)) {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(process), signal);
    }
}
