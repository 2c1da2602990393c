// SPDX-License-Identifier: GPL-2.0-only

use super::*;
use machine_model::{Disk as Description, Estimate, Order, Routing, Service};
use proptest::prelude::*;

fn flash(servers: u32, depth: u32, ns: u64) -> Description {
    let exactly = Estimate::exactly;
    Description {
        name: "d".to_owned(),
        service: Service::Flash {
            read_ns: exactly(ns),
            write_ns: exactly(2 * ns),
            mb_s: exactly(1_000_000),
            exponential: false,
        },
        servers,
        depth,
        order: Order::Fifo,
        spindles: 1,
        stripe_kb: 1,
        interrupt_cpus: None,
        routing: Routing::One,
        top_ns: exactly(0),
        bottom_ns: exactly(0),
    }
}

fn devices(disk: Description) -> Devices {
    Devices::new(&Disks { disks: vec![disk], ..Disks::default() })
}

fn read(task: u32, byte: u64) -> Request {
    Request { task: TaskId(task), write: false, bytes: 512, place: Place::At(byte), recorded: Nanos::ZERO }
}

/// All completions: time, task, wait, service.
fn drain(devices: &mut Devices) -> Vec<(u64, u32, u64, u64)> {
    let mut all = Vec::new();
    while let Some(now) = devices.due() {
        while let Some(done) = devices.complete(now, &mut |_| 0) {
            all.push((now.0, done.request.task.0, done.wait.0, done.service.0));
        }
    }
    all
}

#[test]
fn servers_work_in_parallel_and_the_rest_waits_in_order() {
    let mut devices = devices(flash(2, 2, 100));
    let ahead: Vec<u32> = (0..5).map(|task| devices.submit(Nanos(10), 0, read(task, 0), &mut |_| 0)).collect();
    assert_eq!(ahead, [0, 1, 2, 3, 4]);
    let expected = [(110, 0, 0, 100), (110, 1, 0, 100), (210, 2, 100, 100), (210, 3, 100, 100), (310, 4, 200, 100)];
    assert_eq!(drain(&mut devices), expected);
    assert_eq!(devices.busy(0, Nanos(310)), Nanos(500));
}

#[test]
fn busy_time_ends_at_the_time_of_the_question() {
    let mut devices = devices(flash(1, 1, 100));
    devices.submit(Nanos(0), 0, read(0, 0), &mut |_| 0);
    assert_eq!((devices.busy(0, Nanos(30)), devices.busy(0, Nanos(100))), (Nanos(30), Nanos(100)));
}

#[test]
fn requests_do_not_wait_without_queues() {
    let disks = Disks { disks: vec![flash(1, 1, 100)], without_queues: true, ..Disks::default() };
    let mut devices = Devices::new(&disks);
    for task in 0..3 {
        devices.submit(Nanos(0), 0, read(task, 0), &mut |_| 0);
    }
    assert_eq!(drain(&mut devices), [(100, 0, 0, 100), (100, 1, 0, 100), (100, 2, 0, 100)]);
}

#[test]
fn elevator_serves_upwards_from_the_head_and_then_from_the_lowest() {
    let mut devices = devices(Description { order: Order::Elevator, ..flash(1, 1, 100) });
    for (task, byte) in [(0, 50_000), (1, 20_000), (2, 90_000), (3, 60_000), (4, 10_000)] {
        devices.submit(Nanos(0), 0, read(task, byte), &mut |_| 0);
    }
    let order: Vec<u32> = drain(&mut devices).into_iter().map(|done| done.1).collect();
    assert_eq!(order, [0, 3, 2, 4, 1]);
}

#[test]
fn device_that_holds_several_requests_serves_them_as_they_came() {
    let mut devices = devices(Description { order: Order::Elevator, ..flash(1, 3, 100) });
    for (task, byte) in [(0, 50_000), (1, 20_000), (2, 90_000), (3, 60_000), (4, 95_000)] {
        devices.submit(Nanos(0), 0, read(task, byte), &mut |_| 0);
    }
    let order: Vec<u32> = drain(&mut devices).into_iter().map(|done| done.1).collect();
    // The device holds the first three; the kernel then continues upwards from the last of them.
    assert_eq!(order, [0, 1, 2, 4, 3]);
}

#[test]
fn striped_request_is_complete_with_its_last_part() {
    let mut devices = devices(Description { spindles: 4, ..flash(1, 1, 100) });
    devices.submit(Nanos(0), 0, read(0, 1024), &mut |_| 0);
    let wide = Request { bytes: 4096, ..read(1, 0) };
    assert_eq!(devices.submit(Nanos(50), 0, wide, &mut |_| 0), 1, "one member is busy");
    assert_eq!(drain(&mut devices), [(100, 0, 0, 100), (201, 1, 0, 151)], "that member begins its part 50 ns later");
}

#[test]
fn recorded_requests_take_their_recorded_time_and_wait_for_the_others() {
    let mut devices = devices(Description { service: Service::Recorded, ..flash(1, 1, 100) });
    for (task, ns) in [(0, 70), (1, 20)] {
        devices.submit(Nanos(0), 0, Request { recorded: Nanos(ns), ..read(task, 0) }, &mut |_| unreachable!());
    }
    assert_eq!(drain(&mut devices), [(70, 0, 0, 70), (90, 1, 70, 20)]);
}

#[test]
fn suspend_postpones_completions() {
    let mut devices = devices(flash(1, 1, 100));
    devices.submit(Nanos(0), 0, read(0, 0), &mut |_| 0);
    devices.postpone(Nanos(1_000));
    assert_eq!(devices.due(), Some(Nanos(1_100)));
}

/// Reference: completion times of a first-come-first-served station, by the recursion of Kiefer and Wolfowitz.
fn naive(servers: usize, arrivals: &[(u64, bool)]) -> Vec<u64> {
    let mut free = vec![0; servers];
    let serve = |&(time, write): &(u64, bool)| {
        let earliest = free.iter_mut().min().expect("a server");
        *earliest = time.max(*earliest) + if write { 200 } else { 100 };
        *earliest
    };
    arrivals.iter().map(serve).collect()
}

proptest! {
    #[test]
    fn matches_naive(servers in 1u32..5, depth in 1u32..9, gaps in prop::collection::vec((0u64..150, any::<bool>()), 1..60)) {
        let mut devices = devices(flash(servers, depth.max(servers), 100));
        let mut now = 0;
        let arrivals: Vec<(u64, bool)> = gaps.into_iter().map(|(gap, write)| { now += gap; (now, write) }).collect();
        let mut ended = vec![0; arrivals.len()];
        let mut take = |devices: &mut Devices, until: u64| {
            while let Some(due) = devices.due().filter(|due| due.0 <= until) {
                while let Some(done) = devices.complete(due, &mut |_| 0) {
                    ended[done.request.task.index()] = due.0;
                }
            }
        };
        for (task, &(time, write)) in (0..).zip(&arrivals) {
            take(&mut devices, time);
            devices.submit(Nanos(time), 0, Request { write, ..read(task, 0) }, &mut |_| 0);
        }
        take(&mut devices, u64::MAX);
        prop_assert_eq!(ended, naive(servers as usize, &arrivals));
    }
}
