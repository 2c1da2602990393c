// SPDX-License-Identifier: GPL-2.0-only
//! Sorts events by time.
//!
//! The kernel's buffer is nearly sorted: each CPU reads the clock before it reserves space, and a wakeup event is
//! sent at its end but dated at its start. So an event is held back until its time is [`WINDOW`] ago, because no
//! newer event may arrive for a long time if all CPUs run tasks outside the tree. An event that arrives even later is
//! dated forward to the last one released, and counted.

use ids::Nanos;
use recording::event::Event;

/// Maximum time for which a host may deschedule a virtual CPU between the two steps of an event: several of its time
/// slices.
const WINDOW: Nanos = Nanos::from_ms(50);

/// Holds events back for sorting.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// Events, sorted up to `sorted`.
    held: Vec<Event>,
    newest: Nanos,
    given_out: Nanos,
    /// Number of events that arrived too late to be sorted in.
    pub late: u64,
}

impl Order {
    /// Adds an event.
    pub fn push(&mut self, mut event: Event) {
        if event.time < self.given_out {
            event.time = self.given_out;
            self.late += 1;
        }
        self.newest = self.newest.max(event.time);
        self.held.push(event);
    }

    /// Releases events that are old enough, or all of them at the end. `now` is a time of the events' clock before
    /// the last events were received.
    pub fn release(&mut self, now: Option<Nanos>, mut take: impl FnMut(&Event)) {
        // Stable, and fast on nearly sorted input: events of the same time stay in the order of arrival.
        self.held.sort_by_key(|event| event.time);
        let count = match now {
            Some(now) => {
                let until = self.newest.max(now).since(WINDOW);
                self.held.partition_point(|event| event.time < until)
            }
            None => self.held.len(),
        };
        for event in self.held.drain(..count) {
            self.given_out = event.time;
            take(&event);
        }
    }

    /// Time of the newest event so far.
    pub fn newest(&self) -> Nanos {
        self.newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use recording::event::{Kind, Scheduled};

    fn event(time: u64, task: u32) -> Event {
        Event { time: Nanos(time), task, work: Nanos::ZERO, kind: Kind::End(Scheduled::default()) }
    }

    proptest! {
        #[test]
        fn released_events_are_ordered_and_complete(
            times in prop::collection::vec((0u64..200_000_000, any::<bool>()), 0..60)
        ) {
            let mut order = Order::default();
            let mut out: Vec<(Nanos, u32)> = Vec::new();
            for (index, &(time, pause)) in times.iter().enumerate() {
                order.push(event(time, index as u32));
                if pause {
                    order.release(Some(Nanos::ZERO), |event| out.push((event.time, event.task)));
                }
            }
            order.release(None, |event| out.push((event.time, event.task)));
            prop_assert!(out.is_sorted_by_key(|&(time, _)| time));
            let dated_forward = out.iter().filter(|&&(time, task)| time.0 != times[task as usize].0).count();
            prop_assert_eq!(dated_forward as u64, order.late);
            let mut tasks: Vec<u32> = out.iter().map(|&(_, task)| task).collect();
            tasks.sort_unstable();
            prop_assert_eq!(tasks, (0..times.len() as u32).collect::<Vec<_>>());
        }
    }

    #[test]
    fn event_late_by_less_than_the_window_is_sorted_in() {
        let mut order = Order::default();
        let mut out = Vec::new();
        for time in [100_000_000, 60_000_000, 140_000_000, 95_000_000] {
            order.push(event(time, 0));
            order.release(Some(Nanos::ZERO), |event| out.push(event.time.0));
        }
        assert_eq!(out, [60_000_000]);
        // No newer event arrives, but time passes.
        order.release(Some(Nanos(146_000_000)), |event| out.push(event.time.0));
        assert_eq!(out, [60_000_000, 95_000_000]);
        order.release(None, |event| out.push(event.time.0));
        assert_eq!((out, order.late), (vec![60_000_000, 95_000_000, 100_000_000, 140_000_000], 0));
    }
}
