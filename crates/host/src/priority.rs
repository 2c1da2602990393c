// SPDX-License-Identifier: GPL-2.0-only
//! Raises the thread that controls a run above the scheduler under test.

use crate::sys;
use ids::Policy;
use rustix::mm::{MlockAllFlags, mlockall};
use std::io;

/// Gives the calling thread the lowest real-time priority and locks the memory it uses, so that a scheduler that
/// starves its tasks cannot delay Ctrl-C, nor the kthreads needed to swap pages. Threads and processes that it starts
/// get the default policy.
///
/// # Errors
/// The kernel's error; the thread continues unchanged.
pub fn raise() -> io::Result<()> {
    sys::set_own_policy_alone(Policy::Fifo(1))?;
    // Pages are locked on first use, since the stacks of a thousand threads would not fit otherwise.
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field 41 of `/proc/thread-self/stat` (proc(5)): the policy, 1 for FIFO.
    fn policy() -> String {
        let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        text.rsplit_once(')').unwrap().1.split_whitespace().nth(38).unwrap().to_owned()
    }

    #[test]
    fn real_time_priority_is_not_inherited() {
        let controller = || match sys::set_own_policy_alone(Policy::Fifo(1)) {
            Ok(()) => Some((policy(), std::thread::spawn(policy).join().unwrap())),
            Err(_) => None,
        };
        match std::thread::spawn(controller).join().unwrap() {
            Some(both) => assert_eq!(both, ("1".to_owned(), "0".to_owned())),
            None => skip::skip("this process may not set real-time priorities"),
        }
    }
}
