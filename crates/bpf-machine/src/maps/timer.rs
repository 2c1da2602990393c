// SPDX-License-Identifier: GPL-2.0-only
//! `struct bpf_timer`: 16 opaque bytes in a map value. The first word holds the timer's number plus one.

use super::MapHandle;
use crate::GuestAddr;
use bpf_object::FunctionId;

/// A timer of the object (`struct bpf_timer`), dense from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TimerId(pub u32);

#[derive(Debug)]
pub(crate) struct Timer {
    /// Where its struct is.
    pub addr: GuestAddr,
    /// Map in whose value it is.
    pub map: MapHandle,
    /// Set, and not dropped by a cancel.
    pub callback: Option<FunctionId>,
    /// False once its value was deleted or overwritten.
    live: bool,
}

/// All timers that were ever initialised, by number.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    list: Vec<Timer>,
}

impl Timers {
    /// A new timer; the word to store in its struct.
    pub fn add(&mut self, addr: GuestAddr, map: MapHandle) -> u64 {
        self.list.push(Timer { addr, map, callback: None, live: true });
        self.list.len() as u64
    }

    /// The timer whose struct at `addr` holds `word`.
    pub fn find(&mut self, addr: GuestAddr, word: u64) -> Option<(TimerId, &mut Timer)> {
        let number = u32::try_from(word.checked_sub(1)?).ok()?;
        let timer = self.list.get_mut(number as usize)?;
        (timer.live && timer.addr == addr).then_some((TimerId(number), timer))
    }

    /// A timer that is still there.
    pub fn get(&self, timer: TimerId) -> Option<&Timer> {
        self.list.get(timer.0 as usize).filter(|timer| timer.live)
    }

    /// Ends the timers in `size` bytes at `addr`, because the value there goes away.
    pub fn end_in(&mut self, addr: GuestAddr, size: u32) {
        for timer in &mut self.list {
            if timer.addr.wrapping_sub(addr) < u64::from(size) {
                timer.live = false;
            }
        }
    }
}
