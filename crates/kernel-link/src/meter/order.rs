// SPDX-License-Identifier: GPL-2.0-only
//! Events in the order of time.
//!
//! The kernel's buffer has them nearly so: each CPU reads the clock before it claims its place, and a wakeup is sent
//! where it ends but dated where it began. So an event is held back until it is [`WINDOW`] old: by the clock, as nothing
//! newer may come for long where all CPUs are busy with tasks outside the tree. One that comes later still is dated
//! forward to the last one that was given out, and counted.

use ids::Nanos;
use recording::event::Event;

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

    /// Gives out what is old enough; all of it if nothing more will come. `now`: on the clock of the events, before the
    /// last of them were taken.
    pub fn release(&mut self, now: Option<Nanos>, mut take: impl FnMut(&Event)) {
        // Stable, and fast on what is nearly sorted: events of one time stay in the order in which they came.
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

    /// The time of the newest event so far.
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
        fn time_never_goes_back_and_nothing_is_lost(
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
    fn what_is_late_by_less_than_the_window_finds_its_place() {
        let mut order = Order::default();
        let mut out = Vec::new();
        for time in [100_000_000, 60_000_000, 140_000_000, 95_000_000] {
            order.push(event(time, 0));
            order.release(Some(Nanos::ZERO), |event| out.push(event.time.0));
        }
        assert_eq!(out, [60_000_000]);
        // Nothing newer comes, but time passes.
        order.release(Some(Nanos(146_000_000)), |event| out.push(event.time.0));
        assert_eq!(out, [60_000_000, 95_000_000]);
        order.release(None, |event| out.push(event.time.0));
        assert_eq!((out, order.late), (vec![60_000_000, 95_000_000, 100_000_000, 140_000_000], 0));
    }
}
