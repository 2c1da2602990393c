// SPDX-License-Identifier: GPL-2.0-only
//! Operations that depend on time.

use super::{Demand, Executor, Period};
use crate::{Reference, Start};
use ids::{Nanos, TaskId};

/// CPU time between checks of a task that works until an event.
pub(super) const PIECE: Nanos = Nanos::from_ms(1);

impl Executor<'_> {
    /// A timer reference of a task, and its initial value if it is unset.
    pub(super) fn reference(&mut self, task: usize, reference: Reference) -> (&mut Option<Nanos>, Nanos) {
        let state = &mut self.tasks[task];
        let begin = match self.workload.tasks[state.spec as usize].start {
            Start::At(time) => time,
            Start::Forked => self.workload.part_of(state.spec).map_or(Nanos::ZERO, |part| part.start),
        };
        let cell = match reference.private() {
            None => &mut self.references[reference.0 as usize],
            Some(number) => {
                if state.references.len() <= number as usize {
                    state.references.resize(number as usize + 1, None);
                }
                &mut state.references[number as usize]
            }
        };
        (cell, begin)
    }

    pub(super) fn timer(
        &mut self,
        task: usize,
        reference: Reference,
        period: Nanos,
        absolute: bool,
        now: Nanos,
    ) -> Option<Demand> {
        let (cell, begin) = self.reference(task, reference);
        let released = cell.unwrap_or(begin);
        let due = released + period;
        *cell = Some(if due > now || absolute { due } else { now });
        self.end_period(task, period, now.since(released));
        (due > now).then(|| Demand::Sleep(due - now, crate::Sleep::Timer))
    }

    pub(super) fn interval(&mut self, task: usize, reference: Reference, period: Nanos, now: Nanos) -> Option<Demand> {
        let (cell, begin) = self.reference(task, reference);
        let last = cell.unwrap_or(begin);
        let passed = now.since(last).0.checked_div(period.0).unwrap_or(0);
        if passed > 0 || period == Nanos::ZERO {
            *cell = Some(last + Nanos(passed * period.0));
            self.end_period(task, period, now.since(last));
            return None;
        }
        let due = last + period;
        *cell = Some(due);
        self.end_period(task, period, now.since(last));
        Some(Demand::Sleep(due - now, crate::Sleep::Timer))
    }

    /// Next piece of a task that works until this time after the reference.
    pub(super) fn work_until(&mut self, task: usize, reference: Reference, after: Nanos, now: Nanos) -> Option<Demand> {
        let (cell, begin) = self.reference(task, reference);
        let end = cell.unwrap_or(begin) + after;
        self.work_on(task, end.since(now))
    }

    /// A period of length 0 is ignored: it would always be missed.
    fn end_period(&mut self, task: usize, length: Nanos, response: Nanos) {
        if length > Nanos::ZERO {
            self.periods.push(Period { task: TaskId(task as u32), length, response });
        }
    }

    /// Next piece of a task that works until an event, `left` from now; the operation is repeated afterwards.
    pub(super) fn work_on(&mut self, task: usize, left: Nanos) -> Option<Demand> {
        (left > Nanos::ZERO).then(|| {
            self.tasks[task].position -= 1;
            Demand::CpuTime(left.min(PIECE))
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::executor::tests::{at_zero, work};
    use crate::{Demand, Executor, Op, Reference, SignalId, Sleep, Workload};
    use ids::{Nanos, TaskId};

    const OWN: Reference = Reference(Reference::PRIVATE);

    /// Demands of task 0 when asked at these times.
    fn asked(workload: &Workload, times: &[u64]) -> Vec<Demand> {
        let mut executor = Executor::new(workload);
        executor.started(TaskId(0), 0, Nanos::ZERO);
        times.iter().map(|&now| executor.next(TaskId(0), Nanos(now), &mut Vec::new()).demand).collect()
    }

    fn sleep(time: u64) -> Demand {
        Demand::Sleep(Nanos(time), Sleep::Timer)
    }

    fn some_work() -> Demand {
        Demand::Work { work: Nanos(1), system: Nanos::ZERO }
    }

    #[test]
    fn period_ends_when_its_released_work_is_done() {
        let timer = |absolute| Op::Timer { reference: OWN, period: Nanos(100), absolute };
        for (absolute, times, expected) in [
            (true, &[0, 30, 100, 340][..], &[30, 240, 140][..]),
            // A relative timer restarts when it is late.
            (false, &[0, 30, 100, 340], &[30, 240, 0]),
        ] {
            let workload = at_zero(&[&[work(1), timer(absolute), work(1), timer(absolute), timer(absolute), work(1)]]);
            let mut executor = Executor::new(&workload);
            executor.started(TaskId(0), 0, Nanos::ZERO);
            for &now in times {
                executor.next(TaskId(0), Nanos(now), &mut Vec::new());
            }
            let periods: Vec<_> = executor.take_periods().collect();
            assert!(periods.iter().all(|period| (period.task, period.length) == (TaskId(0), Nanos(100))));
            assert_eq!(periods.iter().map(|period| period.response.0).collect::<Vec<_>>(), expected, "{absolute}");
            assert_eq!(executor.take_periods().count(), 0);
        }
        let tick = Op::Interval { reference: OWN, period: Nanos(100) };
        let workload = at_zero(&[&[Op::Anchor(OWN), work(1), tick.clone(), work(1), tick]]);
        let mut executor = Executor::new(&workload);
        executor.started(TaskId(0), 0, Nanos::ZERO);
        for now in [0, 250, 280] {
            executor.next(TaskId(0), Nanos(now), &mut Vec::new());
        }
        assert_eq!(executor.take_periods().map(|period| period.response.0).collect::<Vec<_>>(), [250, 80]);
    }

    #[test]
    fn anchor_starts_a_timer_at_the_current_time() {
        let timer = Op::Timer { reference: OWN, period: Nanos(100), absolute: true };
        let workload = at_zero(&[&[work(1), Op::Anchor(OWN), timer.clone(), work(1), timer]]);
        // Asked first at 0, the task works until 30; the timer counts from then on, whatever the overrun.
        assert_eq!(asked(&workload, &[0, 30, 130, 210]), [some_work(), sleep(100), some_work(), sleep(20)]);
        assert_eq!(asked(&workload, &[0, 30, 130, 310]), [some_work(), sleep(100), some_work(), Demand::Exit]);
    }

    #[test]
    fn missed_interval_expiries_count_as_one() {
        let tick = Op::Interval { reference: OWN, period: Nanos(100) };
        let workload = at_zero(&[&[Op::Anchor(OWN), tick.clone(), work(1), tick.clone(), tick]]);
        // At 350 three expiries have passed, the last at 300: the next wait ends at 400.
        assert_eq!(asked(&workload, &[0, 100, 350]), [sleep(100), some_work(), sleep(50)]);
        assert_eq!(asked(&workload, &[0, 100, 150]), [sleep(100), some_work(), sleep(50)]);
    }

    #[test]
    fn work_until_a_time_uses_the_remaining_time() {
        let until = Op::WorkUntil { reference: OWN, after: Nanos::from_ms(2) };
        let workload = at_zero(&[&[Op::Anchor(OWN), until, work(1)]]);
        let (piece, rest) = (Demand::CpuTime(Nanos::from_ms(1)), Demand::CpuTime(Nanos(400_000)));
        let times = [0, 1_600_000, 2_000_000];
        assert_eq!(asked(&workload, &times), [piece.clone(), rest, some_work()]);
        assert_eq!(asked(&workload, &[0, 2_500_000]), [piece, some_work()]);
    }

    #[test]
    fn work_until_a_post_ends_at_the_first_check_after_it() {
        let workload = at_zero(&[&[Op::WorkUntilPosted(SignalId(0)), work(1)], &[work(1), Op::Post(SignalId(0))]]);
        let mut executor = Executor::new(&workload);
        (0..2).for_each(|task| executor.started(TaskId(task), task, Nanos::ZERO));
        let mut woken = Vec::new();
        let mut next = |task| executor.next(TaskId(task), Nanos::ZERO, &mut woken).demand;
        let piece = Demand::CpuTime(Nanos::from_ms(1));
        assert_eq!([next(0), next(0), next(1), next(0)], [piece.clone(), piece.clone(), some_work(), piece]);
        assert_eq!([next(1), next(0)], [Demand::Exit, some_work()]);
        assert_eq!(woken, [], "the task does not sleep");
    }

    #[test]
    fn recorded_timeout_of_a_wait_does_not_change_the_execution() {
        let workload = at_zero(&[&[Op::Timeout(Nanos(5)), work(1)]]);
        assert_eq!(asked(&workload, &[0]), [some_work()]);
    }
}
