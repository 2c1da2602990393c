// SPDX-License-Identifier: GPL-2.0-only
//! Requests that a task itself submitted to block devices, and its waits for them.
//!
//! 1. A sleep on a device that ended within [`SOON`] after one of the task's own requests was complete is a wait for
//!    that request. A replay waits as long as the request takes there, whatever else uses the device.
//! 2. Of a wait, the number of requests is kept that were still in progress when it ended: a task that reads ahead waits
//!    for the first request and not for the others.
//! 3. A request is submitted at the CPU time that the task had when the driver got it. The kernel reports the time of the
//!    clock only, so the task is taken to have run without a break since its previous action.
//! 4. Any other sleep on a device keeps its length: the task waited for a request of another task or of a kthread
//!    (pages that another one reads, journals, write-back), or for something that is no request.

use crate::event::Requested;
use crate::life::{Life, Step};
use ids::Nanos;
use std::collections::BTreeMap;
use workload::{DeviceId, Op, Operation, Sleep, Submission};

/// Longest time from the completion of a request to the end of a sleep that it ended: the softirq that wakes the task
/// may be delayed by others.
const SOON: Nanos = Nanos::from_us(100);

/// A request of a task.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct OwnRequest {
    /// Time at which the driver got it, and at which it was complete.
    issued: Nanos,
    completed: Nanos,
    submission: Submission,
    /// The script has its submission.
    is_submitted: bool,
}

impl OwnRequest {
    /// A request that the driver got at this time; `None` if it transfers nothing.
    pub fn of(issued: Nanos, device: u32, requested: &Requested) -> Option<OwnRequest> {
        let &Requested { service, operation, bytes, .. } = requested;
        let write = match operation {
            Operation::Read => false,
            Operation::Write => true,
            Operation::Flush | Operation::Discard | Operation::Other => return None,
        };
        let submission = Submission { device: DeviceId(device), write, bytes, service };
        (bytes > 0).then_some(OwnRequest { issued, completed: issued + service, submission, is_submitted: false })
    }

    /// Time at which the driver got it.
    pub fn issued(&self) -> Nanos {
        self.issued
    }
}

/// Times of the requests to one device, each list in order.
#[derive(Default)]
struct Times {
    issued: Vec<Nanos>,
    completed: Vec<Nanos>,
}

impl Times {
    /// Number of requests in progress at this time.
    fn in_progress(&self, time: Nanos) -> u32 {
        let until = |times: &[Nanos]| times.partition_point(|event| *event <= time);
        (until(&self.issued) - until(&self.completed)) as u32
    }
}

/// Inserts the submissions of a task into its sorted steps, and turns sleeps that its requests ended into waits for
/// them. The steps reach up to `until`, or to the end of the task.
pub(crate) fn link(life: &mut Life, until: Option<Nanos>) {
    if life.requests.is_empty() {
        return;
    }
    let mut devices: BTreeMap<u32, Times> = BTreeMap::new();
    let mut completed: Vec<(Nanos, u32)> = Vec::new();
    for request in &life.requests {
        let device = request.submission.device.0;
        let times = devices.entry(device).or_default();
        times.issued.push(request.issued);
        times.completed.push(request.completed);
        completed.push((request.completed, device));
    }
    devices.values_mut().for_each(|times| {
        times.issued.sort_unstable();
        times.completed.sort_unstable();
    });
    completed.sort_unstable();
    for step in &mut life.steps {
        let Op::Sleep(slept, Sleep::Io) = step.op else { continue };
        let wake = step.time + slept;
        let last = completed[..completed.partition_point(|(time, _)| *time <= wake)].last();
        let by = last.filter(|(time, _)| *time > step.time && wake.since(*time) <= SOON);
        if let Some((_, device)) = by {
            let most = devices[device].in_progress(wake);
            step.op = Op::AwaitRequests { device: DeviceId(*device), most, slept };
        }
    }
    let mut requests = std::mem::take(&mut life.requests);
    requests.sort_by_key(|request| request.issued);
    let mut submissions: Vec<Step> = Vec::new();
    for request in requests.iter_mut().filter(|request| !request.is_submitted) {
        if let Some((time, work)) = place(life, request.issued, until) {
            submissions.push(Step::new(time, work, Op::Submit(Box::new(request.submission))));
            request.is_submitted = true;
        }
    }
    life.steps.append(&mut submissions);
    life.steps.sort_by_key(Step::rank);
    if let Some(until) = until {
        requests.retain(|request| !request.is_submitted || request.completed > until);
        life.requests = requests;
    }
}

/// Time of a submission and CPU time of the task then; `None` if that must be seen later.
fn place(life: &Life, issued: Nanos, until: Option<Nanos>) -> Option<(Nanos, Nanos)> {
    let next = life.steps.partition_point(|step| step.time <= issued);
    let (before, after) = (next.checked_sub(1).map(|index| &life.steps[index]), life.steps.get(next));
    if after.is_none() && until.is_some() {
        return None;
    }
    let (from, work) = match before {
        Some(step) => {
            let slept = match step.op {
                Op::Sleep(slept, _) | Op::AwaitRequests { slept, .. } => slept,
                _ => Nanos::ZERO,
            };
            if slept > Nanos::ZERO && issued < step.time + slept {
                // An I/O scheduler or a kthread passed it on while the task already slept.
                return Some((step.time, step.work));
            }
            (step.time + slept, step.work)
        }
        None if life.has_begun() => return after.map(|step| (step.time, step.work)),
        None => (life.born, life.before),
    };
    let work = work + issued.since(from);
    Some((issued, after.map_or(work, |step| work.min(step.work))))
}
