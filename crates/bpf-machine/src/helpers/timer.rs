// SPDX-License-Identifier: GPL-2.0-only
//! `bpf_timer_*`. The host decides when a timer fires.

use crate::engine::Engine;
use crate::errno::{EBUSY, EDEADLK, EINVAL, EOPNOTSUPP, negative};
use crate::maps::{Timer, TimerId};
use crate::{FaultKind, GuestAddr, Host};

/// Flags of `bpf_timer_start`: absolute time (1), pinned to this CPU (2).
const START_FLAGS: u64 = 3;

/// Clocks that a timer may use: CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, which are one clock here.
const CLOCKS: [u64; 3] = [0, 1, 7];

/// The timer at `addr`, if it was initialized.
fn find<'a>(engine: &'a mut Engine<'_>, addr: GuestAddr) -> Result<Option<(TimerId, &'a mut Timer)>, FaultKind> {
    let word = engine.memory.load(addr, 8)?;
    Ok(engine.maps.timers.find(addr, word))
}

/// `bpf_timer_init(timer, map, flags)`.
pub(super) fn init(engine: &mut Engine<'_>, args: [u64; 5]) -> Result<u64, FaultKind> {
    let map = engine.maps.at(engine.memory, args[1])?;
    if !CLOCKS.contains(&args[2]) {
        return Ok(negative(EINVAL));
    }
    if find(engine, args[0])?.is_some() {
        return Ok(negative(EBUSY));
    }
    // Rejects a read-only location before anything changes.
    engine.memory.bytes_mut(args[0], 16)?;
    match engine.maps.add_timer(engine.memory, map, args[0]) {
        Some(word) => engine.memory.store(args[0], 8, word).map(|()| 0),
        None => Err(FaultKind::BadArgument(format!("the timer at {:#x} is not in a value of its map", args[0]))),
    }
}

/// `bpf_timer_set_callback(timer, callback)`.
pub(super) fn set_callback(engine: &mut Engine<'_>, args: [u64; 5]) -> Result<u64, FaultKind> {
    let callback = engine.callback(args[1])?;
    Ok(match find(engine, args[0])? {
        Some((_, timer)) => {
            timer.callback = Some(callback);
            0
        }
        None => negative(EINVAL),
    })
}

/// `bpf_timer_start(timer, nsecs, flags)`.
pub(super) fn start<H: Host>(
    engine: &mut Engine<'_>,
    cpu: u32,
    host: &mut H,
    args: [u64; 5],
) -> Result<u64, FaultKind> {
    if args[2] & !START_FLAGS != 0 {
        return Ok(negative(EINVAL));
    }
    Ok(match find(engine, args[0])? {
        Some((id, Timer { callback: Some(_), .. })) => {
            host.timer_start(id, args[1], args[2], cpu);
            0
        }
        _ => negative(EINVAL),
    })
}

/// `bpf_timer_cancel(timer)`: returns 1 if the timer was armed. It drops the callback, as in the kernel; a call from
/// that callback fails.
pub(super) fn cancel<H: Host>(engine: &mut Engine<'_>, host: &mut H, args: [u64; 5]) -> Result<u64, FaultKind> {
    if !host.may_cancel_timers() {
        return Ok(negative(EOPNOTSUPP));
    }
    let running = host.running_timer();
    Ok(match find(engine, args[0])? {
        Some((id, _)) if Some(id) == running => negative(EDEADLK),
        Some((id, timer)) => {
            timer.callback = None;
            u64::from(host.timer_cancel(id))
        }
        None => negative(EINVAL),
    })
}
