// SPDX-License-Identifier: GPL-2.0-only
//! Puts the thread that controls a run above the scheduler that it tests.

use crate::sys;
use ids::Policy;
use rustix::mm::{MlockAllFlags, mlockall};
use std::io;

/// The calling thread gets the lowest real-time priority, and what it uses of memory stays there: a scheduler that starves
/// its tasks cannot delay Ctrl-C then, nor the threads that would write or read pages. Threads and processes that it starts
/// have the policy of everybody.
///
/// # Errors
/// What the kernel answered; the thread goes on as before.
pub fn raise() -> io::Result<()> {
    sys::set_own_policy_alone(Policy::Fifo(1))?;
    // Pages are locked when they are used: the stacks of a thousand threads would not fit otherwise.
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
    fn only_the_thread_itself_is_above_others() {
        let controller = || match sys::set_own_policy_alone(Policy::Fifo(1)) {
            Ok(()) => Some((policy(), std::thread::spawn(policy).join().unwrap())),
            Err(_) => None,
        };
        match std::thread::spawn(controller).join().unwrap() {
            Some(both) => assert_eq!(both, ("1".to_owned(), "0".to_owned())),
            None => eprintln!("skipped: this process may not set real-time priorities"),
        }
    }
}
