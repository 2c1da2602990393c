// SPDX-License-Identifier: GPL-2.0-only
//! Memory of a task, which it really accesses while it works.
//!
//! A part of the work is visits of the lines of a working set in random order, and reads of a stream, instead of rounds
//! of the loop. Both count as the time that they take undisturbed, with the set warm and the memory otherwise unused. So
//! work takes longer only if caches have lost lines, or if others use the memory.

use super::{Calibration, ExecuteError};
use host::hardware::memory::{Chase, LINE, Reader};
use host::sys;
use ids::Nanos;
use workload::{MemoryUse, Quantity};

/// Share of the work that visits take, as a divisor: a quarter.
const SHARE: u64 = 4;
/// Number of passes from which the time of a warm visit is taken.
const WARM_PASSES: u32 = 8;
/// Number of passes from which the time of an undisturbed read is taken; each takes some 10 ms.
const STREAM_PASSES: u32 = 4;

/// Memory that a task accesses.
#[derive(Debug, Default)]
pub struct TaskMemory {
    working_set: Option<WorkingSet>,
    stream: Option<Stream>,
}

/// A working set and the time of a warm visit.
#[derive(Debug)]
struct WorkingSet {
    chase: Chase,
    dirty_percent: u32,
    /// Time of a pass over all lines while they are warm.
    pass: Nanos,
}

/// A buffer to read and the rate.
#[derive(Debug)]
struct Stream {
    reader: Reader,
    /// Bytes that a microsecond of work reads, which is the rate in MB/s.
    rate: u64,
    /// Undisturbed time of a pass over the buffer.
    pass: Nanos,
    /// Bytes, times 1,000, that are owed because they are no whole line.
    owed: u64,
}

impl TaskMemory {
    /// Allocates the memory, on the node of the calling thread, and measures its undisturbed times. Regions are not shared.
    /// Must not be called by two threads at the same time, which would disturb each other.
    ///
    /// # Errors
    /// If the task streams faster than its CPU can read.
    pub fn of(memory: Option<&MemoryUse>, task: &str) -> Result<TaskMemory, ExecuteError> {
        let Some(memory) = memory else { return Ok(TaskMemory::default()) };
        let typical = |quantity| memory.limits(quantity).typical;
        let set = (typical(Quantity::Footprint) >= LINE as u64)
            .then(|| WorkingSet::new(typical(Quantity::Footprint) as usize, typical(Quantity::Dirty) as u32));
        let rate = typical(Quantity::Stream);
        let stream = (rate > 0).then(|| Stream::new(rate));
        let possible = stream.as_ref().map_or(u64::MAX, Stream::fastest);
        if rate > possible {
            return Err(ExecuteError::Stream { task: task.to_owned(), rate, possible });
        }
        Ok(TaskMemory { working_set: set, stream })
    }

    /// Accesses memory as a part of this much work, and returns the rest of the work in rounds of the loop.
    pub fn access(&mut self, rounds: u64, calibration: &Calibration) -> u64 {
        let work = calibration.work_of(rounds);
        let read = self.stream.as_mut().map_or(Nanos::ZERO, |stream| stream.read(work));
        let rest = rounds.saturating_sub(calibration.rounds_of(read));
        match &mut self.working_set {
            Some(set) => {
                set.visit(Nanos(calibration.work_of(rest).0 / SHARE));
                rest - rest / SHARE
            }
            None => rest,
        }
    }
}

/// Shortest time of some passes.
fn fastest(passes: u32, mut pass: impl FnMut()) -> Nanos {
    let time = |_| {
        let begin = sys::now();
        pass();
        sys::now().since(begin)
    };
    (0..passes).map(time).min().expect("there are passes").max(Nanos(1))
}

impl WorkingSet {
    fn new(bytes: usize, dirty_percent: u32) -> WorkingSet {
        let mut chase = Chase::new(bytes);
        let pass = fastest(WARM_PASSES, || chase.visit(chase.len(), dirty_percent));
        WorkingSet { chase, dirty_percent, pass }
    }

    /// Visits as many lines as take this long while they are warm.
    fn visit(&mut self, time: Nanos) {
        let lines = u128::from(time.0) * self.chase.len() as u128 / u128::from(self.pass.0);
        self.chase.visit(lines as usize, self.dirty_percent);
    }
}

impl Stream {
    fn new(rate: u64) -> Stream {
        let mut reader = Reader::new();
        let pass = fastest(STREAM_PASSES, || reader.read(reader.len()));
        Stream { reader, rate, pass, owed: 0 }
    }

    /// Highest rate in MB/s.
    fn fastest(&self) -> u64 {
        (self.reader.len() * LINE) as u64 * 1_000 / self.pass.0
    }

    /// Reads what this much work reads, and returns the undisturbed time of that.
    fn read(&mut self, work: Nanos) -> Nanos {
        self.owed += self.rate * work.0;
        let lines = self.owed / (1_000 * LINE as u64);
        self.owed %= 1_000 * LINE as u64;
        self.reader.read(lines as usize);
        Nanos((u128::from(lines) * u128::from(self.pass.0) / self.reader.len() as u128) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round is a nanosecond.
    const CALIBRATION: Calibration =
        Calibration { rounds: 1_000, fastest: Nanos(1_000), median: Nanos(1_000), tries: 1 };

    fn memory(keys: &[(&str, &str)]) -> Result<TaskMemory, ExecuteError> {
        let mut memory = MemoryUse::default();
        keys.iter().for_each(|(key, value)| memory.set(key, value).unwrap());
        TaskMemory::of(Some(&memory), "t")
    }

    #[test]
    fn visits_are_a_quarter_of_the_work() {
        assert_eq!(memory(&[]).unwrap().access(4_000, &CALIBRATION), 4_000);
        let mut memory = memory(&[("footprint", "64K")]).unwrap();
        let set = memory.working_set.as_mut().unwrap();
        assert_eq!(set.chase.len(), 1_024);
        // Of 4 us, 1 us is 100 visits of 10 ns.
        set.pass = Nanos(10_240);
        assert_eq!(memory.access(4_000, &CALIBRATION), 3_000);
    }

    #[test]
    fn a_stream_takes_its_undisturbed_time_from_the_work_and_owes_no_bytes() {
        let mut memory = memory(&[("stream", "100MB/s")]).unwrap();
        let stream = memory.stream.as_mut().unwrap();
        // A line takes 10 ns. 100 bytes in each of 10 us are 15 lines and 40 bytes.
        stream.pass = Nanos(10 * stream.reader.len() as u64);
        let rests: Vec<u64> = (0..10).map(|_| memory.access(1_000, &CALIBRATION)).collect();
        assert_eq!(rests.iter().sum::<u64>(), 10_000 - 150, "{rests:?}");
        assert_eq!(memory.stream.unwrap().owed, 40_000);
    }

    #[test]
    fn a_stream_faster_than_the_cpu_reads_is_an_error() {
        let error = memory(&[("stream", "1000GB/s")]).unwrap_err();
        assert!(error.to_string().contains("task \"t\" streams 1000000 MB/s, but its CPU reads at most"), "{error}");
    }
}
