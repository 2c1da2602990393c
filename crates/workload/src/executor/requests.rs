// SPDX-License-Identifier: GPL-2.0-only
//! Requests in progress.

use super::{Demand, Executor};
use crate::requests::{Arrival, ArrivalStream};
use crate::{Sleep, Source, SourceId, Workload};
use ids::{Nanos, TaskId};

/// A completed request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completed {
    /// Source of the request.
    pub source: SourceId,
    /// Task that served it.
    pub task: TaskId,
    /// Time of its arrival.
    pub arrived: Nanos,
    /// Time from its arrival to its completion.
    pub latency: Nanos,
}

/// Arrivals of all sources, and which task serves which request.
#[derive(Debug)]
pub(super) struct Requests {
    streams: Vec<ArrivalStream>,
    /// Request that each task serves.
    serving: Vec<Option<(SourceId, Arrival)>>,
    completed: Vec<Completed>,
}

impl Requests {
    pub fn new(workload: &Workload, seed: u64) -> Requests {
        let stream = |(number, source): (u32, &Source)| ArrivalStream::new(source, SourceId(number), seed);
        Requests { streams: (0..).zip(&workload.sources).map(stream).collect(), serving: vec![], completed: vec![] }
    }
}

impl Executor<'_> {
    /// Removes and returns the requests completed since the last call.
    pub fn take_completed(&mut self) -> impl Iterator<Item = Completed> + '_ {
        self.requests.completed.drain(..)
    }

    /// The request of `task`, if it serves one, is complete.
    pub(super) fn complete_request(&mut self, task: usize, now: Nanos) {
        if let Some((source, arrival)) = self.requests.serving.get_mut(task).and_then(Option::take) {
            let (task, latency) = (TaskId(task as u32), now.since(arrival.time));
            self.requests.completed.push(Completed { source, task, arrived: arrival.time, latency });
        }
    }

    /// `task` takes the next request; after the last one, it goes to the end of its script.
    pub(super) fn take_request(&mut self, task: usize, source: SourceId, now: Nanos) -> Option<Demand> {
        self.complete_request(task, now);
        let index = source.0 as usize;
        let Some(arrival) = self.requests.streams[index].next(&self.workload.sources[index]) else {
            self.tasks[task].position = self.scripts[self.tasks[task].spec as usize].len() as u32;
            return None;
        };
        if self.requests.serving.len() <= task {
            self.requests.serving.resize(task + 1, None);
        }
        self.requests.serving[task] = Some((source, arrival));
        (arrival.time > now).then(|| Demand::Sleep(arrival.time - now, Sleep::Io))
    }

    /// The work of the request that `task` serves; none if it serves none of this source.
    pub(super) fn serve(&self, task: usize, source: SourceId) -> Option<Demand> {
        let serving = self.requests.serving.get(task).copied().flatten();
        let (_, arrival) = serving.filter(|(own, _)| *own == source)?;
        (arrival.service > Nanos::ZERO).then_some(Demand::Work { work: arrival.service, system: Nanos::ZERO })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::tests::{at_zero, work};
    use crate::{Arrivals, Op};

    const SOURCE: SourceId = SourceId(0);

    fn workload(arrivals: Arrivals, scripts: &[&[Op]]) -> Workload {
        let source = Source {
            name: "s".to_owned(),
            arrivals,
            start: Nanos::ZERO,
            service: Nanos(30),
            exponential: false,
            measured_from: Nanos::ZERO,
        };
        Workload { sources: vec![source], ..at_zero(scripts) }
    }

    fn sleep(time: u64) -> Demand {
        Demand::Sleep(Nanos(time), Sleep::Io)
    }

    fn serve() -> Demand {
        Demand::Work { work: Nanos(30), system: Nanos::ZERO }
    }

    #[test]
    fn idle_workers_get_arrivals_in_order_and_late_ones_do_not_sleep() {
        let script = [Op::TakeRequest(SOURCE), Op::Serve(SOURCE), Op::Repeat { from: 0, times: None }];
        let workload = workload(Arrivals::Times([10, 20, 50].map(Nanos).to_vec()), &[&script, &script]);
        let mut executor = Executor::new(&workload);
        (0..2).for_each(|task| executor.started(TaskId(task), task, Nanos::ZERO));
        let mut next = |task, now| executor.next(TaskId(task), Nanos(now), &mut Vec::new()).demand;
        assert_eq!([next(0, 0), next(1, 0)], [sleep(10), sleep(20)]);
        assert_eq!([next(0, 10), next(1, 20)], [serve(), serve()]);
        // The first to be free takes the third request, which has not arrived.
        assert_eq!([next(0, 40), next(1, 60)], [sleep(10), Demand::Exit], "no fourth request arrives");
        assert_eq!([next(0, 65), next(0, 95)], [serve(), Demand::Exit]);
        let completed: Vec<_> =
            executor.take_completed().map(|done| (done.task.0, done.arrived.0, done.latency.0)).collect();
        assert_eq!(completed, [(0, 10, 30), (1, 20, 40), (0, 50, 45)]);
        assert_eq!(executor.take_completed().count(), 0);
    }

    #[test]
    fn request_that_has_arrived_before_is_taken_without_sleep() {
        let script = [Op::TakeRequest(SOURCE), work(5), Op::TakeRequest(SOURCE), Op::Serve(SOURCE)];
        let workload = workload(Arrivals::Periodic(Nanos(2_000)), &[&script]);
        let mut executor = Executor::new(&workload);
        executor.started(TaskId(0), 0, Nanos::ZERO);
        let mut next = |now| executor.next(TaskId(0), Nanos(now), &mut Vec::new()).demand;
        let some_work = Demand::Work { work: Nanos(5), system: Nanos::ZERO };
        assert_eq!([next(0), next(2_000), next(7_000), next(7_030)], [sleep(2_000), some_work, serve(), Demand::Exit]);
        let latencies: Vec<u64> = executor.take_completed().map(|done| done.latency.0).collect();
        assert_eq!(latencies, [5_000, 3_030], "the exit completes the last request");
    }
}
