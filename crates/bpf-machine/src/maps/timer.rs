// SPDX-License-Identifier: GPL-2.0-only
//! `struct bpf_timer`: 16 opaque bytes in a map value. The first word is the timer's number plus one.

use super::MapHandle;
use crate::GuestAddr;
use bpf_object::FunctionId;

/// Number of a timer (`struct bpf_timer`), dense from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TimerId(pub u32);

#[derive(Debug)]
pub(crate) struct Timer {
    /// Address of its struct.
    pub addr: GuestAddr,
    /// Map with the value that contains it.
    pub map: MapHandle,
    /// Callback, if set and not dropped by a cancel.
    pub callback: Option<FunctionId>,
    /// False once its map value was deleted or overwritten.
    live: bool,
}

/// All timers ever initialized, by number.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    list: Vec<Timer>,
}

impl Timers {
    /// Adds a timer; returns the word to store in its struct.
    pub fn add(&mut self, addr: GuestAddr, map: MapHandle) -> u64 {
        self.list.push(Timer { addr, map, callback: None, live: true });
        self.list.len() as u64
    }

    /// The timer whose struct at `addr` has this first word.
    pub fn find(&mut self, addr: GuestAddr, word: u64) -> Option<(TimerId, &mut Timer)> {
        let number = u32::try_from(word.checked_sub(1)?).ok()?;
        let timer = self.list.get_mut(number as usize)?;
        (timer.live && timer.addr == addr).then_some((TimerId(number), timer))
    }

    /// A timer whose map value still exists.
    pub fn get(&self, timer: TimerId) -> Option<&Timer> {
        self.list.get(timer.0 as usize).filter(|timer| timer.live)
    }

    /// Ends the timers in the `size` bytes at `addr`, whose map value is deleted or overwritten.
    pub fn end_in(&mut self, addr: GuestAddr, size: u32) {
        for timer in &mut self.list {
            if timer.addr.wrapping_sub(addr) < u64::from(size) {
                timer.live = false;
            }
        }
    }
}
