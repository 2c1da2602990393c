// SPDX-License-Identifier: GPL-2.0-only
//! One source and its two functions take the same steps, with and without suspensions.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use two_forms::two_forms;

#[derive(Default)]
struct Worker {
    steps: Vec<&'static str>,
}

impl Worker {
    fn stop(&mut self) {}

    async fn stop_waiting(&mut self) {
        let mut stopped = false;
        poll_fn(|_| if std::mem::replace(&mut stopped, true) { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

#[two_forms]
impl Worker {
    const FIRST: &'static str = "first";

    /// Takes three steps; the last one is the result of `last`.
    pub async fn work(&mut self, last: impl AsyncFnOnce(&mut Worker) -> u32) -> u32 {
        self.note(Worker::FIRST);
        for _ in 0..2 {
            if self.steps.len() < 3 { self.inner("inner").await } else { self.note("never") }
        }
        last(self).await + 1
    }

    async fn inner(&mut self, what: &'static str) {
        self.stop().await;
        self.note(what);
    }

    fn note(&mut self, what: &'static str) {
        self.steps.push(what);
    }
}

const STEPS: [&str; 4] = ["first", "inner", "inner", "last"];

#[test]
fn plain_function_runs_to_completion() {
    let mut worker = Worker::default();
    let result = worker.work(|worker| {
        worker.inner("last");
        41
    });
    assert_eq!((result, &worker.steps[..]), (42, &STEPS[..]));
}

#[test]
fn coroutine_takes_the_same_steps_and_suspends_at_each_stop() {
    let mut worker = Worker::default();
    let stops = {
        let mut work = pin!(worker.work_waiting(async |worker: &mut Worker| {
            worker.inner_waiting("last").await;
            41
        }));
        let mut stops = 0;
        loop {
            match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(result) => break assert_eq!(result, 42),
                Poll::Pending => stops += 1,
            }
        }
        stops
    };
    assert_eq!((stops, &worker.steps[..]), (3, &STEPS[..]));
}
