// SPDX-License-Identifier: GPL-2.0-only
//! Termination signals as values to poll, so that the scheduler can be unloaded, CPUs restored and the report written
//! before the exit.

use crate::{HostError, proc};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::cell::Cell;

/// `si_code` of a signal sent by the kernel, such as Ctrl-C in a terminal; signals sent by processes have other
/// codes.
const SI_KERNEL: i32 = 0x80;

/// A signal that requests this process to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StopRequest {
    /// Signal number.
    pub signal: i32,
    /// The signal was sent to this process only. A terminal sends Ctrl-C to the whole process group, as
    /// [`Signals::interrupt`] does.
    pub only_here: bool,
}

/// Signals that request termination.
const STOPS: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// Blocks these signals and makes them available for polling.
#[derive(Debug)]
pub struct Signals {
    set: SigSet,
    fd: SignalFd,
    /// A key requested the end.
    asked: Cell<bool>,
}

impl Signals {
    /// Blocks the signals in this thread and all threads that it will start. Signals that this process ignores (for
    /// example by nohup) are left alone, since a blocked signal would be queued although ignored.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn block() -> Result<Signals, HostError> {
        let ignored = proc::ignored_signals()?;
        let heard = |signal: &Signal| ignored & (1 << (*signal as u32 - 1)) == 0;
        let set = STOPS.into_iter().filter(heard).collect::<SigSet>();
        let failed = |error: nix::Error| HostError::File { path: "signals".to_owned(), source: error.into() };
        let fd = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).map_err(failed)?;
        set.thread_block().map_err(failed)?;
        Ok(Signals { set, fd, asked: Cell::new(false) })
    }

    /// Calls `start` with the original signal mask, so that a process it starts inherits that.
    pub fn unblocked<T>(&self, start: impl FnOnce() -> T) -> T {
        // Neither call fails with a valid set. A signal between the two calls ends this process, and the kernel
        // cleans up.
        let _ = self.set.thread_unblock();
        let result = start();
        let _ = self.set.thread_block();
        result
    }

    /// A signal that has arrived since the last call.
    pub fn take(&self) -> Option<StopRequest> {
        let Some(info) = self.fd.read_signal().ok().flatten() else {
            let asked = self.asked.take();
            return asked.then_some(StopRequest { signal: Signal::SIGINT as i32, only_here: false });
        };
        let only_here = info.ssi_code != SI_KERNEL && info.ssi_pid != std::process::id();
        Some(StopRequest { signal: info.ssi_signo as i32, only_here })
    }

    /// Has the effect of Ctrl-C in a terminal, for code that reads keys itself: all processes of this process group
    /// get SIGINT. This process gets the request even if it ignores SIGINT.
    pub fn interrupt(&self) {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(0), Signal::SIGINT);
        self.asked.set(true);
    }

    /// Forwards to a child the signals that only this process got since the last call. Returns true if termination
    /// was requested.
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

/// Restores the original signal mask, so that signals have their usual effect again.
impl Drop for Signals {
    fn drop(&mut self) {
        let _ = self.set.thread_unblock();
    }
}

/// Sends a signal to a process. A process that has exited is not an error.
pub fn send(process: u32, signal: i32) {
    if let (Ok(signal), Ok(process)) = (Signal::try_from(signal), i32::try_from(process)) {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(process), signal);
    }
}
