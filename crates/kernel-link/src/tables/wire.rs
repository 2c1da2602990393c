// SPDX-License-Identifier: GPL-2.0-only
//! Layouts of `tables.bpf.c`.

use ids::Nanos;

/// Number of states of a task.
pub const STATES: usize = 9;
/// Number of callers of a futex.
pub const CALLERS: usize = 8;
/// Flag of a row that is a futex.
pub const FUTEX: u32 = 1 << 30;

/// States of a task from its birth, or the start of the meter, to now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    pub now: Nanos,
    pub born: Nanos,
    pub times: [u64; STATES],
    pub counts: [u32; STATES],
    pub dead: bool,
    /// CPU time by the scheduler, and time on the CPU, both until it last left its CPU.
    pub ran: u64,
    pub counted: u64,
    pub utime: u64,
    pub stime: u64,
    pub pid: u32,
    pub tgid: u32,
    pub unseen: u32,
    /// ID of the cgroup.
    pub cgroup: u64,
    pub name: String,
}

/// Key of a lock wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockKey {
    pub lock: u64,
    /// Return addresses in the program, the innermost first; 0 if there are fewer.
    pub callers: [u64; CALLERS],
    pub stack: i32,
    pub flags: u32,
    pub task: u32,
}

/// Words of a value, in native byte order.
pub struct Reader<'a>(pub &'a [u8]);

impl Reader<'_> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_ne_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_ne_bytes)
    }

    pub fn name(&mut self) -> Option<String> {
        let bytes: [u8; 16] = self.bytes()?;
        let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }
}

impl Told {
    /// Parses `struct told`.
    pub fn parse(raw: &[u8]) -> Option<Told> {
        let mut reader = Reader(raw);
        let mut told = Told { now: Nanos(reader.u64()?), born: Nanos(reader.u64()?), ..Told::default() };
        for time in &mut told.times {
            *time = reader.u64()?;
        }
        for count in &mut told.counts {
            *count = reader.u32()?;
        }
        told.dead = reader.u32()? != 0;
        (told.ran, told.counted, told.utime, told.stime) = (reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?);
        (told.pid, told.tgid, told.unseen) = (reader.u32()?, reader.u32()?, reader.u32()?);
        reader.u32()?;
        told.cgroup = reader.u64()?;
        told.name = reader.name()?;
        Some(told)
    }

    /// What happened since an earlier one of the same task.
    pub fn since(&self, earlier: &Told) -> Told {
        let mut part = self.clone();
        part.born = earlier.now;
        for (time, before) in part.times.iter_mut().zip(earlier.times) {
            *time = time.saturating_sub(before);
        }
        for (count, before) in part.counts.iter_mut().zip(earlier.counts) {
            *count = count.saturating_sub(before);
        }
        part.ran = part.ran.saturating_sub(earlier.ran);
        part.counted = part.counted.saturating_sub(earlier.counted);
        part.utime = part.utime.saturating_sub(earlier.utime);
        part.stime = part.stime.saturating_sub(earlier.stime);
        part.unseen = part.unseen.saturating_sub(earlier.unseen);
        part
    }
}

impl LockKey {
    /// Parses `struct lock_key`.
    pub fn parse(raw: &[u8]) -> Option<LockKey> {
        let mut reader = Reader(raw);
        let lock = reader.u64()?;
        let mut callers = [0; CALLERS];
        for caller in &mut callers {
            *caller = reader.u64()?;
        }
        let (stack, flags, task) = (reader.u32()? as i32, reader.u32()?, reader.u32()?);
        Some(LockKey { lock, callers, stack, flags, task })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_of_a_task_is_the_difference_of_two_notes() {
        let mut then = Told { now: Nanos(100), born: Nanos(40), pid: 7, ..Told::default() };
        (then.times[0], then.times[2], then.counts[2], then.ran, then.counted) = (50, 10, 3, 40, 50);
        let mut now = then.clone();
        (now.now, now.times[0], now.times[2], now.counts[2]) = (Nanos(200), 70, 90, 10);
        let part = now.since(&then);
        assert_eq!((part.born, part.times[0], part.times[2], part.counts[2]), (Nanos(100), 20, 80, 7));
        assert_eq!(part.times.iter().sum::<u64>(), part.now.since(part.born).0);
    }

    #[test]
    fn short_values_are_not_parsed() {
        assert_eq!(Told::parse(&[0; 100]), None);
        assert!(Told::parse(&[0; 16 + 72 + 36 + 4 + 32 + 16 + 8 + 16]).is_some());
        assert_eq!(LockKey::parse(&[0; 83]), None);
    }
}
