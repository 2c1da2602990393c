// SPDX-License-Identifier: GPL-2.0-only
//! Extension of rt-app: the section `locks`, and the event for critical sections.
//!
//! ```json
//! {"locks": {"q": {"kind": "ticket"}},
//!  "tasks": {"t": {"instance": 4, "critical_sections": {"lock": "q", "hold_ns": 100, "between_ns": 1000, "times": 10000}}}}
//! ```

use super::document::{Fault, Object, near_miss, string, wrong};
use crate::json::Member;
use crate::{CriticalSections, LockId, LockKind, Op, SharedLock};
use ids::Nanos;

/// Maximum number of stripes of a lock, and of cache lines it protects.
const MOST: i64 = 1 << 20;

/// Reads the section `locks`.
pub(super) fn read_locks(locks: &Object<'_>) -> Result<Vec<SharedLock>, Fault> {
    let read = |member: &Member| {
        let mut lock = Object::new(format!("lock {:?}", member.key), member.at, &member.value)?;
        let kind = lock.required("kind")?;
        let word = string("kind", &kind.value)?;
        let known = LockKind::NAMES.iter().find(|(name, _)| *name == word);
        let Some((_, kind)) = known else {
            let names = LockKind::NAMES.map(|(name, _)| name).join(", ");
            return Err(wrong("kind", &kind.value, &format!("one of {names}")));
        };
        let read = SharedLock {
            name: member.key.clone(),
            kind: *kind,
            stripes: lock.integer("stripes", 1..=MOST)?.unwrap_or(1) as u32,
            lines: lock.integer("lines", 0..=MOST)?.unwrap_or(0) as u32,
            beside: lock.boolean("beside")?.is_some_and(|(_, beside)| beside),
        };
        lock.finish()?;
        Ok(read)
    };
    let read: Vec<SharedLock> = locks.members.iter().map(read).collect::<Result<_, _>>()?;
    let twice = |index: usize| read[..index].iter().any(|lock| lock.name == read[index].name);
    match (0..read.len()).find(|&index| twice(index)) {
        Some(index) => {
            Err(Fault { at: locks.members[index].at, problem: format!("duplicate lock {:?}", read[index].name) })
        }
        None => Ok(read),
    }
}

/// Reads the event for critical sections.
pub(super) fn critical_sections(what: &str, member: &Member, locks: &[SharedLock]) -> Result<Op, Fault> {
    let mut object = Object::new(format!("{what}, {:?}", member.key), member.at, &member.value)?;
    let lock = object.required("lock")?;
    let name = string("lock", &lock.value)?;
    let number = locks.iter().position(|lock| lock.name == name).ok_or_else(|| {
        let near = near_miss(name, locks.iter().map(|lock| lock.name.as_str()));
        Fault { at: lock.value.at, problem: format!("no lock is named {name:?} in the section \"locks\"{near}") }
    })?;
    let one_of = |member: Option<&Member>, key: &str, words: [&str; 2]| match member {
        None => Ok(false),
        Some(member) => match string(key, &member.value)? {
            word if word == words[0] => Ok(false),
            word if word == words[1] => Ok(true),
            _ => Err(wrong(key, &member.value, &format!("{:?} or {:?}", words[0], words[1]))),
        },
    };
    let reads = one_of(object.optional("mode")?, "mode", ["write", "read"])?;
    let exponential = one_of(object.optional("draw")?, "draw", ["fixed", "exponential"])?;
    let mut time = |key| object.integer(key, 0..=i64::from(i32::MAX)).map(|ns| Nanos(ns.unwrap_or(0) as u64));
    let (hold, between) = (time("hold_ns")?, time("between_ns")?);
    let times = object.integer("times", 1..=i64::from(i32::MAX))?.unwrap_or(1) as u64;
    object.finish()?;
    let lock = LockId(number as u32);
    Ok(Op::CriticalSections(Box::new(CriticalSections { lock, reads, hold, between, times, exponential })))
}
