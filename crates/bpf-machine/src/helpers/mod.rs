// SPDX-License-Identifier: GPL-2.0-only
//! Helpers that need no kernel: maps, storage, locks, timers, loops, strings. All others are passed to the host.

mod text;
mod timer;

use crate::engine::Engine;
use crate::errno::{E2BIG, EAGAIN, EINVAL, negative};
use crate::execution::{Execution, MAX_LOOPS, Then};
use crate::{Context, FaultKind, GuestAddr, Host, Maps, Memory};

/// Outcome of a helper call.
pub(crate) enum Outcome {
    /// The helper returned this value.
    Value(u64),
    /// The helper called a callback; the helper's value is known when the callback returns.
    Entered,
    /// The call must wait for another execution, and be repeated.
    Wait,
}

/// Number of `bpf_spin_lock`.
pub(crate) const SPIN_LOCK: u32 = 93;
/// Number of `bpf_spin_unlock`.
pub(crate) const SPIN_UNLOCK: u32 = 94;
/// `BPF_LOCAL_STORAGE_GET_F_CREATE`: create a missing value.
const STORAGE_CREATE: u64 = 1;

/// Flags of ring buffer calls: never or always wake the reader. They have no effect here.
const RING_WAKEUP_FLAGS: u64 = 3;

/// Whether a helper acquires or releases a spin lock.
pub(crate) fn is_of_spin_lock(helper: u32) -> bool {
    matches!(helper, SPIN_LOCK | SPIN_UNLOCK)
}

/// Whether [`call`] implements the helper itself.
pub(crate) fn is_own(helper: u32) -> bool {
    matches!(helper,
        1..=3 | 87..=89 | SPIN_LOCK | SPIN_UNLOCK | 113 | 115 | 130..=134 | 156 | 157 | 164 | 169..=172 | 181 | 182
        | 194 | 195 | 210 | 211)
}

/// Calls a helper with the arguments in r1 to r5.
pub(crate) fn call<H: Host>(
    engine: &mut Engine<'_>,
    x: &mut Execution,
    host: &mut H,
    helper: u32,
) -> Result<Outcome, FaultKind> {
    let args = x.arguments();
    let value = match helper {
        1 | 195 => lookup(engine, x, helper, args)?,
        2 | 3 | 87..=89 => change(engine, x.cpu, helper, args)?,
        SPIN_LOCK => return lock(engine, x, host, args[0]),
        SPIN_UNLOCK => unlock(engine, x, host, args[0])?,
        156 | 210 => storage_get(engine.memory, engine.maps, args)?,
        157 | 211 => storage_delete(engine.memory, engine.maps, args)?,
        164 => return for_each(engine, x, args),
        181 => return begin_loop(engine, x, args),
        194 => exchange_pointer(engine, args[0], args[1])?,
        130..=134 => ring(engine, helper, args)?,
        169 => timer::init(engine, args)?,
        170 => timer::set_callback(engine, args)?,
        171 => timer::start(engine, x.cpu, host, args)?,
        172 => timer::cancel(engine, host, args)?,
        182 => text::strncmp(engine.memory, args)?,
        113 => {
            host.refresh(args[2], args[1] as u32, engine.memory);
            text::probe_read(engine.memory, args)?
        }
        115 => text::probe_read_string(engine.memory, args)?,
        _ => {
            let line = engine.program.line(x);
            let (cpu, executed) = (x.cpu, x.executed);
            let mut cx = Context { memory: engine.memory, maps: engine.maps, cpu, line, executed };
            host.helper(helper, args, &mut cx)?
        }
    };
    Ok(Outcome::Value(value))
}

/// Result of a helper that returns 0 or a negative errno.
fn status(result: Result<(), i32>) -> u64 {
    result.map_or_else(|errno| i64::from(errno) as u64, |()| 0)
}

/// `bpf_map_lookup_elem(map, key)`, `bpf_map_lookup_percpu_elem(map, key, cpu)`.
#[inline]
fn lookup(engine: &mut Engine<'_>, x: &Execution, helper: u32, args: [u64; 5]) -> Result<u64, FaultKind> {
    let map = engine.maps.at(engine.memory, args[0])?;
    let cpu = if helper == 195 { args[2] as u32 } else { x.cpu };
    if cpu >= engine.maps.cpus {
        return Ok(0);
    }
    Ok(engine.maps.lookup_by_program(engine.memory, map, args[1], cpu)?.unwrap_or(0))
}

/// `bpf_map_update_elem(map, key, value, flags)`, `bpf_map_delete_elem(map, key)`, `bpf_map_push_elem(map, value,
/// flags)`, `bpf_map_pop_elem(map, value)`, `bpf_map_peek_elem(map, value)`.
fn change(engine: &mut Engine<'_>, cpu: u32, helper: u32, args: [u64; 5]) -> Result<u64, FaultKind> {
    let (memory, maps) = (&mut *engine.memory, &mut *engine.maps);
    let map = maps.at(memory, args[0])?;
    let result = match helper {
        2 => maps.update_by_program(memory, map, (Some(args[1]), args[2]), args[3], cpu)?,
        3 => maps.delete_by_program(memory, map, args[1])?,
        87 => maps.update_by_program(memory, map, (None, args[1]), args[2], cpu)?,
        88 => maps.take_by_program(memory, map, args[1], true)?,
        _ => maps.take_by_program(memory, map, args[1], false)?,
    };
    Ok(status(result))
}

/// `bpf_spin_lock(lock)`. The verifier allows one such lock at a time.
fn lock<H: Host>(
    engine: &mut Engine<'_>,
    x: &mut Execution,
    host: &mut H,
    addr: GuestAddr,
) -> Result<Outcome, FaultKind> {
    if x.lock != 0 {
        let problem = format!("acquires the spin lock at {addr:#x} while it holds the one at {:#x}", x.lock);
        return Err(FaultKind::BadArgument(problem));
    }
    if engine.memory.load(addr, 4)? != 0 {
        // The lock holder is suspended: only the code that pauses executions can resume it.
        if x.pause.helpers || x.pause.spin_locks {
            return Ok(Outcome::Wait);
        }
        return Err(FaultKind::BadArgument(format!("the spin lock at {addr:#x} is held and never released")));
    }
    engine.memory.store(addr, 4, 1)?;
    x.lock = addr;
    host.spin_lock(addr, true, x.executed);
    Ok(Outcome::Value(0))
}

/// `bpf_spin_unlock(lock)`.
fn unlock<H: Host>(
    engine: &mut Engine<'_>,
    x: &mut Execution,
    host: &mut H,
    addr: GuestAddr,
) -> Result<u64, FaultKind> {
    if x.lock == 0 || x.lock != addr {
        return Err(FaultKind::BadArgument(format!("releases the spin lock at {addr:#x} without holding it")));
    }
    engine.memory.store(addr, 4, 0)?;
    x.lock = 0;
    host.spin_lock(addr, false, x.executed);
    Ok(0)
}

/// `bpf_task_storage_get(map, task, value, flags)`, and the same for cgroups.
#[inline]
pub(crate) fn storage_get(memory: &mut Memory, maps: &mut Maps, args: [u64; 5]) -> Result<u64, FaultKind> {
    let map = maps.at(memory, args[0])?;
    let (owner, initial, flags) = (args[1], args[2], args[3]);
    if owner == 0 || flags & !STORAGE_CREATE != 0 {
        return Ok(0);
    }
    let create = (flags == STORAGE_CREATE).then_some((initial != 0).then_some(initial));
    Ok(maps.storage(memory, map, owner, create)?.unwrap_or(0))
}

/// `bpf_task_storage_delete(map, task)`, and the same for cgroups.
fn storage_delete(memory: &Memory, maps: &mut Maps, args: [u64; 5]) -> Result<u64, FaultKind> {
    let map = maps.at(memory, args[0])?;
    if args[1] == 0 {
        return Ok(negative(EINVAL));
    }
    Ok(status(maps.delete(memory, map, &args[1].to_le_bytes())))
}

/// `bpf_for_each_map_elem(map, callback, context, flags)`.
fn for_each(engine: &mut Engine<'_>, x: &mut Execution, args: [u64; 5]) -> Result<Outcome, FaultKind> {
    let map = engine.maps.at(engine.memory, args[0])?;
    let callback = engine.callback(args[1])?;
    if args[3] != 0 {
        return Ok(Outcome::Value(negative(EINVAL)));
    }
    let entered = engine.begin_for_each(x, map, callback, args[2])?;
    Ok(entered.map_or(Outcome::Value(0), |()| Outcome::Entered))
}

/// `bpf_loop(rounds, callback, context, flags)`.
fn begin_loop(engine: &mut Engine<'_>, x: &mut Execution, args: [u64; 5]) -> Result<Outcome, FaultKind> {
    // The iteration count is a u32 in the kernel.
    let (rounds, context) = (u64::from(args[0] as u32), args[2]);
    let callback = engine.callback(args[1])?;
    if args[3] != 0 {
        return Ok(Outcome::Value(negative(EINVAL)));
    }
    if rounds > u64::from(MAX_LOOPS) {
        return Ok(Outcome::Value(negative(E2BIG)));
    }
    if rounds == 0 {
        return Ok(Outcome::Value(0));
    }
    engine.push(x, callback, Then::Loop { round: 0, rounds, context })?;
    (x.regs[1], x.regs[2]) = (0, context);
    Ok(Outcome::Entered)
}

/// `bpf_kptr_xchg(place, pointer)`.
fn exchange_pointer(engine: &mut Engine<'_>, place: GuestAddr, pointer: u64) -> Result<u64, FaultKind> {
    let old = engine.memory.load(place, 8)?;
    engine.memory.store(place, 8, pointer)?;
    Ok(old)
}

/// `bpf_ringbuf_output(map, data, size, flags)`, `…_reserve(map, size, flags)`, `…_submit(record, flags)`,
/// `…_discard(record, flags)`, `…_query(map, what)`.
fn ring(engine: &mut Engine<'_>, helper: u32, args: [u64; 5]) -> Result<u64, FaultKind> {
    let (memory, maps) = (&mut *engine.memory, &mut *engine.maps);
    if matches!(helper, 132 | 133) {
        maps.ring_commit(memory, args[0], helper == 133)?;
        return Ok(0);
    }
    let map = maps.at(memory, args[0])?;
    match helper {
        131 if args[2] != 0 => Ok(0),
        131 => Ok(maps.ring_reserve(memory, map, args[1])?.unwrap_or(0)),
        134 => maps.ring_query(map, args[1]),
        _ => {
            if args[3] & !RING_WAKEUP_FLAGS != 0 {
                return Ok(negative(EINVAL));
            }
            let len = args[2] as u32;
            memory.bytes(args[1], len)?;
            let Some(record) = maps.ring_reserve(memory, map, args[2])? else { return Ok(negative(EAGAIN)) };
            text::copy(memory, args[1], record, len)?;
            maps.ring_commit(memory, record, false)?;
            Ok(0)
        }
    }
}
