// SPDX-License-Identifier: GPL-2.0-only
//! Events in the order of time.
//!
//! The kernel's buffer has them nearly so: each CPU reads the clock before it claims its place, and a wakeup is sent
//! where it ends but dated where it began. So an event is held back until the newest one is [`WINDOW`] older. One that
//! comes later still is dated forward to the last one that was given out, and counted.

use crate::event::Event;
use ids::Nanos;

/// How long the host of a virtual machine may keep a CPU from the two steps of one event: several of its time slices.
const WINDOW: Nanos = Nanos::from_ms(50);

/// Holds events back for a moment.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// Sorted up to `sorted`.
    held: Vec<Event>,
    newest: Nanos,
    given_out: Nanos,
    /// Events that came too late for their place.
    pub late: u64,
}

impl Order {
    /// Takes an event.
    pub fn push(&mut self, mut event: Event) {
        if event.time < self.given_out {
            event.time = self.given_out;
            self.late += 1;
        }
        self.newest = self.newest.max(event.time);
        self.held.push(event);
    }

    /// Gives out what is old enough; all of it if nothing more will come.
    pub fn release(&mut self, all: bool, mut take: impl FnMut(&Event)) {
        // Stable, and fast on what is nearly sorted: events of one time stay in the order in which they came.
        self.held.sort_by_key(|event| event.time);
        let until = self.newest.since(WINDOW);
        let count = if all { self.held.len() } else { self.held.partition_point(|event| event.time < until) };
        for event in self.held.drain(..count) {
            self.given_out = event.time;
            take(&event);
        }
    }

    /// The time of the newest event so far.
    pub fn newest(&self) -> Nanos {
        self.newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Kind;
    use proptest::prelude::*;

    fn event(time: u64, task: u32) -> Event {
        Event { time: Nanos(time), task, work: Nanos::ZERO, kind: Kind::End }
    }

    proptest! {
        #[test]
        fn time_never_goes_back_and_nothing_is_lost(
            times in prop::collection::vec((0u64..200_000_000, any::<bool>()), 0..60)
        ) {
            let mut order = Order::default();
            let mut out: Vec<(Nanos, u32)> = Vec::new();
            for (index, &(time, pause)) in times.iter().enumerate() {
                order.push(event(time, index as u32));
                if pause {
                    order.release(false, |event| out.push((event.time, event.task)));
                }
            }
            order.release(true, |event| out.push((event.time, event.task)));
            prop_assert!(out.is_sorted_by_key(|&(time, _)| time));
            let dated_forward = out.iter().filter(|&&(time, task)| time.0 != times[task as usize].0).count();
            prop_assert_eq!(dated_forward as u64, order.late);
            let mut tasks: Vec<u32> = out.iter().map(|&(_, task)| task).collect();
            tasks.sort_unstable();
            prop_assert_eq!(tasks, (0..times.len() as u32).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_is_late_by_less_than_the_window_finds_its_place() {
        let mut order = Order::default();
        let mut out = Vec::new();
        for time in [100_000_000, 60_000_000, 140_000_000, 95_000_000] {
            order.push(event(time, 0));
            order.release(false, |event| out.push(event.time.0));
        }
        assert_eq!(out, [60_000_000]);
        order.release(true, |event| out.push(event.time.0));
        assert_eq!((out, order.late), (vec![60_000_000, 95_000_000, 100_000_000, 140_000_000], 0));
    }
}
