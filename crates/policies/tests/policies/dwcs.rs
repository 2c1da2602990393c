// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the rules of `policies/dwcs`. Results stated for task sets are our own computations, not tables of the
//! papers.

use crate::world::{MS, World};
use ids::{CpuId, Policy, TaskId};
use kernel_model::TaskAttributes;
use launch_profile::{Window, WorkloadFacts};
use machine_model::Machine;
use std::cmp::Ordering;

/// A stream: period in slots, and a window that tolerates x late requests of y.
type Stream = (u64, u32, u32);

const ORDERS: [&str; 2] = ["dwcs@2000", "dwcs@1999"];

fn name(number: usize) -> String {
    format!("s{number}")
}

/// Loads the policy on CPUs for streams whose periods are given in units of `unit_us`.
fn world(spec: &str, cpus: u32, streams: &[Stream], unit_us: u64) -> World {
    world_at(spec, cpus, streams, unit_us, 0)
}

fn world_at(spec: &str, cpus: u32, streams: &[Stream], unit_us: u64, now_ns: u64) -> World {
    let window = |(number, stream): (usize, &Stream)| Window {
        task: name(number),
        late: stream.1,
        of: stream.2,
        request_us: stream.0 * unit_us,
    };
    let facts = WorkloadFacts { windows: streams.iter().enumerate().map(window).collect(), ..WorkloadFacts::default() };
    let mut machine = Machine::from_synthetic(&format!("node:1 core:{cpus} pu:1")).unwrap();
    machine.hz = 1000;
    World::starting_at(spec, machine, (7, 2), &facts, now_ns)
}

fn named(world: &World, number: usize) -> TaskAttributes {
    TaskAttributes { name: name(number), ..world.attributes() }
}

/// Reference model: the papers' rules for one stream, written literally.
#[derive(Clone, Debug)]
struct Naive {
    period: u64,
    x: u32,
    y: u32,
    now: (u32, u32),
    violated: bool,
    deadline: u64,
    has_request: bool,
    violations: usize,
}

impl Naive {
    fn new(&(period, x, y): &Stream) -> Naive {
        Naive { period, x, y, now: (x, y), violated: false, deadline: period, has_request: true, violations: 0 }
    }

    fn served(&mut self) {
        match self.now {
            (x, y) if y > x => self.now = (x, y - 1),
            (x, y) if x > 0 => self.now = (x - 1, y - 1),
            _ => {}
        }
        if self.now == (0, 0) || self.violated {
            self.now = (self.x, self.y);
            self.violated = false;
        }
        self.has_request = false;
    }

    fn missed(&mut self) {
        let (x, y) = self.now;
        if x > 0 {
            self.now = (x - 1, y - 1);
            if self.now == (0, 0) {
                self.now = (self.x, self.y);
            }
        } else {
            let more = if self.x > 0 { (self.y - self.x).div_ceil(self.x) } else { self.y };
            self.now = (0, (y + more).min(255));
            self.violated = true;
            self.violations += usize::from(self.y > 0);
        }
    }

    /// Advances the stream to `slot`.
    fn comes_to(&mut self, slot: u64) {
        if !self.has_request && self.deadline <= slot {
            self.has_request = true;
            self.deadline += self.period;
        }
        while self.has_request && self.deadline <= slot {
            self.missed();
            self.deadline += self.period;
        }
    }

    fn window(&self, other: &Naive) -> Ordering {
        let ((x, y), (other_x, other_y)) = (self.now, other.now);
        (x * other_y.max(1)).cmp(&(other_x * y.max(1)))
    }

    /// Precedence of two streams; equal means first come, first served.
    fn order(&self, other: &Naive, window_first: bool) -> Ordering {
        let deadline = self.deadline.cmp(&other.deadline);
        let window = self.window(other);
        let both = if window_first { window.then(deadline) } else { deadline.then(window) };
        both.then(match (self.now.0, other.now.0) {
            (0, 0) => other.now.1.cmp(&self.now.1),
            (x, other) => x.cmp(&other),
        })
    }
}

/// Runs streams that always have a request, with slots of 1 ms on one CPU, and checks that each slot goes to the
/// first request by the rules. Returns the stream served in each slot and the number of violations of each window.
/// The first slot goes to the first stream, because no other has started yet.
fn serve(spec: &str, streams: &[Stream], slots: u64) -> (Vec<usize>, Vec<usize>) {
    let window_first = spec.ends_with("1999");
    let mut world = world(&format!("{spec},turn_us=1000,slot_us=1000"), 1, streams, 1000);
    let attributes = (0..streams.len()).map(|number| named(&world, number)).collect();
    let tasks = world.start(attributes);
    let mut all: Vec<Naive> = streams.iter().map(Naive::new).collect();
    let mut served = Vec::new();
    for slot in 0..slots {
        world.run_until(slot * MS + MS / 2);
        all.iter_mut().for_each(|stream| stream.comes_to(slot));
        let winner = tasks.iter().position(|task| *task == world.running(0)).expect("a task runs");
        if slot > 0 {
            let before = |other: &&Naive| {
                other.has_request
                    && (!all[winner].has_request || other.order(&all[winner], window_first) == Ordering::Less)
            };
            let first = all.iter().find(before);
            assert!(
                first.is_none(),
                "{spec} {streams:?}, slot {slot}: {:?} runs, but {first:?} precedes it",
                all[winner]
            );
        }
        if all[winner].has_request {
            all[winner].served();
        }
        served.push(winner);
    }
    (served, all.iter().map(|stream| stream.violations).collect())
}

/// Pseudorandom number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % end
    }

    /// Returns random streams and the minimum CPU time they need, in millionths of a CPU.
    fn streams(&mut self, most_period: u64) -> (Vec<Stream>, u64) {
        let count = 2 + self.below(4);
        let streams: Vec<Stream> = (0..count)
            .map(|_| {
                let of = 1 + self.below(9) as u32;
                (1 + self.below(most_period), self.below(u64::from(of) + 1) as u32, of)
            })
            .collect();
        let need = |&(period, x, y): &Stream| u64::from(y - x) * 1_000_000 / u64::from(y) / period;
        let needs = streams.iter().map(need).sum();
        (streams, needs)
    }
}

/// Points 1 to 4 of `dwcs.bpf.c`: for random streams, no slot goes to a request while another one precedes it.
#[test]
fn every_slot_goes_to_the_first_request() {
    for order in ORDERS {
        let mut random = Random(7);
        for _ in 0..60 {
            serve(order, &random.streams(4).0, 200);
        }
    }
}

/// The papers' example [recalled]: windows of 1/2, 3/4 and 6/8, whose needs add up to one CPU.
#[test]
fn windows_that_need_exactly_one_cpu_are_not_violated() {
    for order in ORDERS {
        let (served, violations) = serve(order, &[(1, 1, 2), (1, 3, 4), (1, 6, 8)], 8_000);
        assert_eq!(violations, [0, 0, 0], "{order}");
        // The order is 1 2 1 3, or 1 2 3 1 if streams 1 and 3 have equal windows and the earlier arrival goes first.
        let shares = |four: &[usize]| [0, 1, 2].map(|own| four.iter().filter(|stream| **stream == own).count());
        assert!(served.chunks(4).all(|four| shares(four) == [2, 1, 1]), "{order}: {:?}", &served[..16]);
    }
}

/// Equal periods and needs of at most one CPU: no window is violated. The policy does not decide the first slot, so
/// streams with the tightest windows come first.
#[test]
fn equal_periods_within_capacity_violate_no_window() {
    let mut random = Random(3);
    let mut tried = 0;
    while tried < 60 {
        let (mut streams, needs) = random.streams(1);
        streams.sort_by_key(|&(_, x, y)| (x * 1000 / y, if x > 0 { x } else { 255 - y }));
        if needs > 1_000_000 {
            continue;
        }
        tried += 1;
        let (_, violations) = serve("dwcs@2000", &streams, 400);
        assert_eq!(violations.iter().sum::<usize>(), 0, "{streams:?}");
    }
}

/// The published failure (Mok and Wang, 2001; the task set is ours): with deadlines first, a window is violated in
/// each of its periods at 3 % utilization. With windows first, this set is served.
#[test]
fn deadline_first_order_violates_windows_at_3_percent_utilization() {
    let streams = [(1, 99, 100), (100, 0, 1), (100, 0, 1)];
    let (_, violations) = serve("dwcs@2000", &streams, 2_050);
    assert_eq!(violations[0], 0);
    assert_eq!(violations[1] + violations[2], 20, "{violations:?}");
    let (_, violations) = serve("dwcs@1999", &streams, 2_050);
    assert_eq!(violations, [0, 0, 0]);
}

/// With windows first, another set fails, at 98.9 % utilization.
#[test]
fn window_first_order_violates_a_window_at_98_9_percent_utilization() {
    let streams = [(1, 7, 10), (1, 7, 10), (2, 2, 9)];
    let (_, violations) = serve("dwcs@1999", &streams, 600);
    assert_eq!(violations.iter().sum::<usize>(), 1, "{violations:?}");
}

/// Windows of 0/0: deadlines alone decide in both orders. The reference model implies this for equal windows; here it
/// is checked against EDF.
#[test]
fn empty_windows_give_edf_order() {
    for order in ORDERS {
        let mut random = Random(11);
        for _ in 0..20 {
            let streams: Vec<Stream> = (0..4).map(|_| (3 + random.below(5), 0, 0)).collect();
            let (served, _) = serve(order, &streams, 300);
            let mut next: Vec<u64> = streams.iter().map(|stream| stream.0).collect();
            for (slot, winner) in (0..).zip(served) {
                for (deadline, stream) in next.iter_mut().zip(&streams) {
                    while *deadline <= slot {
                        *deadline += stream.0;
                    }
                }
                let asks = |number: usize| next[number] <= slot + streams[number].0;
                let first = (0..4).filter(|number| asks(*number)).map(|number| next[number]).min();
                if slot > 0 {
                    assert!(first.is_none_or(|first| next[winner] == first), "{order} {streams:?} slot {slot}");
                }
                if asks(winner) {
                    next[winner] += streams[winner].0;
                }
            }
        }
    }
}

/// Point 5 of `dwcs.bpf.c`: a stream that wakes preempts a task without a window, and no other.
#[test]
fn woken_stream_preempts_only_tasks_without_a_window() {
    let mut world = world("dwcs", 1, &[(20, 1, 2), (20, 1, 2)], 1000);
    let (first, second, plain) = (named(&world, 0), named(&world, 1), world.attributes());
    let tasks = world.start(vec![first, second, plain]);
    let [first, second, plain] = tasks[..] else { panic!("three tasks") };
    world.block(first);
    world.block(second);
    world.run_until(100 * MS + MS / 4);
    assert_eq!(world.running(0), plain);
    world.wake(0, first, false);
    assert_eq!(world.running(0), first);
    world.wake(0, second, false);
    assert_eq!(world.running(0), first, "the first stream keeps its run of 1 ms");
    world.run_ms(2);
    assert_eq!(world.running(0), second, "equal deadline, and the second stream has waited");
}

/// Point 4 of `dwcs.bpf.c`: a stream that never sleeps gets one slot per period, and otherwise only CPU time that no
/// other task wants.
#[test]
fn request_gets_one_slot_per_period() {
    let mut world = world("dwcs,rest_ms=10000", 1, &[(50, 0, 1)], 1000);
    let (stream, plain) = (named(&world, 0), world.attributes());
    let tasks = world.start(vec![stream, plain]);
    world.run_ms(1_000);
    let before = tasks.iter().map(|task| world.ran_ms(*task)).collect::<Vec<_>>();
    world.run_ms(5_000);
    let ran: Vec<u64> = tasks.iter().zip(before).map(|(task, before)| world.ran_ms(*task) - before).collect();
    assert!(ran[0].abs_diff(1_000) <= 10 && ran[1].abs_diff(4_000) <= 10, "{ran:?}");
}

/// Point 3 of `dwcs.bpf.c`: a late request continues, and completing it counts as no service: the next request gets
/// what is left of the period.
#[test]
fn late_request_shortens_the_next_one() {
    // Slots practically never end here.
    let mut world = world("dwcs,slot_us=1000000", 1, &[(10, 0, 1), (16, 0, 1)], 1000);
    let (first, second) = (named(&world, 0), named(&world, 1));
    let tasks = world.start(vec![first, second]);
    let [first, second] = tasks[..] else { panic!("two tasks") };
    // Late at 10 ms: its deadline is then 20 ms, the other stream's 16 ms.
    world.run_until(11 * MS + MS / 2);
    assert_eq!(world.running(0), second);
    world.block(second);
    assert_eq!(world.running(0), first);
    world.block(first);
    // At 12 ms its request has a deadline of 20 ms, and the other stream's a deadline of 12 + 4 + 16 = 32 ms.
    world.run_until(12 * MS);
    world.wake(0, second, false);
    world.wake(0, first, false);
    world.run_ms(2);
    assert_eq!(world.running(0), first, "20 ms is before 32 ms");
    // With a new period the deadline would be 12 + 10 = 22 ms.
    let key = world.last_queued(first).key >> 25;
    assert_eq!(key, (20 * MS) >> 17);
}

/// Point 1 of `dwcs.bpf.c`: the deadline of a stream that wakes often is at most two periods ahead.
#[test]
fn deadline_is_at_most_two_periods_ahead() {
    let mut world = world("dwcs", 1, &[(100, 0, 1), (1000, 0, 1)], 1000);
    let (often, other) = (named(&world, 0), named(&world, 1));
    let tasks = world.start(vec![other, often]);
    let often = tasks[1];
    for turn in 1..=50 {
        while world.running(0) != often {
            world.run_ms(1);
        }
        world.block(often);
        world.run_until(turn * 20 * MS);
        world.wake(0, often, false);
        let deadline = world.last_queued(often).key >> 25 << 17;
        assert!(deadline <= world.now_ns + 200 * MS, "{deadline} at {}", world.now_ns);
    }
}

/// Point 6 of `dwcs.bpf.c`: streams that demand all CPU time leave one slice per 100 ms to tasks without a window,
/// and a request that always has the lowest precedence still runs.
#[test]
fn lowest_precedence_request_and_plain_task_still_run() {
    let spec = "dwcs@1999,turn_us=1000,slot_us=1000";
    let mut world = world(spec, 1, &[(1, 0, 1), (1, 0, 1), (1, 255, 255)], 1000);
    let streams = (0..3).map(|number| named(&world, number));
    let attributes = streams.chain([world.attributes()]).collect();
    let tasks = world.start(attributes);
    world.run_ms(20_000);
    let ran: Vec<u64> = tasks.iter().map(|task| world.ran_ms(*task)).collect();
    assert!((190..=201).contains(&ran[3]), "{ran:?}");
    assert!((1..10).contains(&ran[2]), "{ran:?}");
}

/// Each CPU takes the first request that may run there.
#[test]
fn each_cpu_takes_the_first_allowed_request() {
    let streams = [(10, 0, 1), (20, 0, 1), (30, 0, 1)];
    let mut world = world("dwcs,turn_us=1000,slot_us=5000", 2, &streams, 1000);
    let bound = |world: &World, number, cpu| TaskAttributes { name: name(number), ..world.pinned(cpu, 0) };
    let attributes = vec![bound(&world, 0, 1), bound(&world, 1, 1), bound(&world, 2, 0)];
    let tasks: Vec<TaskId> = world.start(attributes);
    world.run_ms(600);
    let ran: Vec<u64> = tasks.iter().map(|task| world.ran_ms(*task)).collect();
    // Two streams share a CPU: they need a half and a quarter of it, and served streams share the rest.
    assert_eq!((ran[2], ran[0] + ran[1]), (600, 600));
    assert!(ran[0] >= 300 && ran[1] >= 150, "{ran:?}");
}

/// Point 1 of `dwcs.bpf.c`: the next deadline is one period after the last one, or after the wakeup if that is later,
/// but at most two periods ahead.
#[test]
fn next_deadline_is_one_period_later() {
    let mut world = world("dwcs", 1, &[(100, 0, 1), (1000, 0, 1)], 1000);
    let attributes = vec![named(&world, 1), named(&world, 0)];
    let stream = world.start(attributes)[1];
    let deadline = |world: &World| world.last_queued(stream).key >> 25;
    assert_eq!(deadline(&world), (100 * MS) >> 17);
    for (wakeup, expected) in [(20, 200), (40, 240), (600, 700), (650, 800)] {
        while world.running(0) != stream {
            world.run_ms(1);
        }
        world.block(stream);
        world.run_until(wakeup * MS);
        world.wake(0, stream, false);
        assert_eq!(deadline(&world), (expected * MS) >> 17, "woken at {wakeup} ms");
    }
}

/// A window counts requests, however long the task sleeps in between: 1/3 becomes 1/2, 1/1, and 1/3 again.
#[test]
fn windows_are_kept_across_sleep() {
    let mut world = world("dwcs", 1, &[(100, 1, 3), (1000, 0, 1)], 1000);
    let attributes = vec![named(&world, 1), named(&world, 0)];
    let stream = world.start(attributes)[1];
    let mut windows = vec![];
    for turn in 1..=7 {
        windows.push(world.last_queued(stream).key >> 8 & 0x1ffff);
        while world.running(0) != stream {
            world.run_ms(1);
        }
        world.block(stream);
        world.run_until(turn * 200 * MS);
        world.wake(0, stream, false);
    }
    assert!(windows[0] < windows[1] && windows[1] < windows[2], "{windows:?}");
    assert_eq!(windows[3..6], windows[..3]);
    assert_eq!(windows[6], windows[0]);
}

/// Point 1 of `dwcs.bpf.c`: a request starts when its task wakes, not when the task is requeued for another reason.
#[test]
fn nice_change_starts_no_new_request() {
    let mut world = world("dwcs", 1, &[(100, 0, 1), (50, 0, 1)], 1000);
    let attributes = vec![named(&world, 1), named(&world, 0)];
    let stream = world.start(attributes)[1];
    world.run_ms(3);
    let before = world.last_queued(stream);
    world.inserted.clear();
    world.kernel.set_policy(CpuId(0), stream, Policy::Other, 5).unwrap();
    world.settle();
    assert_eq!(world.last_queued(stream).key, before.key);
}

/// Point 5 of `dwcs.bpf.c`: of two CPUs the one without a stream is preempted.
#[test]
fn stream_is_not_preempted_by_a_stream() {
    for plain in [0, 1] {
        let mut world = world("dwcs", 2, &[(20, 1, 2), (20, 1, 2)], 1000);
        let bound = TaskAttributes { name: name(0), ..world.pinned(1 - plain, 0) };
        let attributes = vec![bound, world.pinned(plain, 0), named(&world, 1)];
        let tasks = world.start(attributes);
        assert_eq!(
            tasks.iter().map(|task| world.cpu_of(*task)).collect::<Vec<_>>(),
            [Some(1 - plain), None, Some(plain)]
        );
    }
}

/// The table has room for 1024 names.
#[test]
fn table_holds_1024_streams() {
    let mut world = world("dwcs", 1, &[(100, 0, 1); 1024], 1000);
    let attributes = vec![world.attributes(), named(&world, 1023)];
    let last = world.start(attributes)[1];
    assert_eq!(world.last_queued(last).key >> 25, (100 * MS) >> 17);
}

/// A task name has at most the 15 bytes a kernel keeps.
#[test]
fn streams_are_found_by_15_byte_names() {
    let window = Window { task: "fifteen-bytes-s".to_owned(), late: 0, of: 1, request_us: 100_000 };
    let facts = WorkloadFacts { windows: vec![window], ..WorkloadFacts::default() };
    let mut world = World::with_facts("dwcs", Machine::from_synthetic("node:1 core:1 pu:1").unwrap(), (7, 2), &facts);
    let named = TaskAttributes { name: "fifteen-bytes-s".to_owned(), ..world.attributes() };
    let stream = world.start(vec![world.attributes(), named])[1];
    assert_eq!(world.last_queued(stream).key >> 25, (100 * MS) >> 17);
}

/// Point 2 of `dwcs.bpf.c`: a run lasts 1 ms, or the rest of a slot. Point 4: a served request gets a new slot in its
/// next period.
#[test]
fn slice_of_a_stream_is_1_ms_or_the_rest_of_its_slot() {
    let mut world = world("dwcs,slot_us=600", 1, &[(10, 0, 1), (1000, 0, 1)], 1000);
    let attributes = vec![world.attributes(), named(&world, 0), world.attributes()];
    let tasks = world.start(attributes);
    assert_eq!(world.last_queued(tasks[1]).slice_ns, 600_000);
    assert_eq!(world.last_queued(tasks[2]).slice_ns, MS);
    // The stream never sleeps: each of its requests runs for one tick, of which 600 us count.
    world.run_ms(2_000);
    let before = world.ran_ms(tasks[1]);
    world.run_ms(1_000);
    assert_eq!(world.ran_ms(tasks[1]) - before, 100);
    assert_eq!(world.last_queued(tasks[1]).slice_ns, MS, "the served stream gets a run of spare CPU time");
}

/// Point 5 of `dwcs.bpf.c`: a woken task without a window does not preempt another one.
#[test]
fn task_without_a_window_does_not_preempt() {
    let mut world = world("dwcs", 1, &[(20, 1, 2)], 1000);
    let attributes = vec![world.attributes(); 2];
    let tasks = world.start(attributes);
    let [first, second] = tasks[..] else { panic!("two tasks") };
    while world.running(0) != second {
        world.run_ms(1);
    }
    world.block(second);
    world.run_until(world.now_ns + MS / 4);
    world.rescheduled.clear();
    world.wake(0, second, false);
    assert_eq!((world.running(0), world.rescheduled.len()), (first, 0));
}

/// Point 5 of `dwcs.bpf.c`: two streams that wake at the same instant preempt one task each.
#[test]
fn simultaneous_streams_preempt_one_task_each() {
    let mut world = world("dwcs", 2, &[(20, 1, 2), (20, 1, 2)], 1000);
    let bound = [0, 1].map(|cpu| world.pinned(cpu, 0));
    let attributes = vec![named(&world, 0), named(&world, 1), bound[0].clone(), bound[1].clone()];
    let tasks = world.start(attributes);
    world.block(tasks[0]);
    world.block(tasks[1]);
    world.run_until(200 * MS + MS / 4);
    assert_eq!([world.running(0), world.running(1)], [tasks[2], tasks[3]]);
    world.wake_without_settling(0, tasks[0]);
    world.wake_without_settling(0, tasks[1]);
    world.settle();
    let mut running = [world.running(0), world.running(1)];
    running.sort_unstable();
    assert_eq!(running, [tasks[0], tasks[1]]);
}

/// Point 4 of `dwcs.bpf.c`: a served stream runs at once when no other task is runnable.
#[test]
fn served_stream_uses_spare_cpu_time() {
    let mut world = world("dwcs", 1, &[(100, 0, 1)], 1000);
    let (stream, plain) = (named(&world, 0), world.attributes());
    let tasks = world.start(vec![stream, plain]);
    world.run_ms(1_050);
    while world.running(0) != tasks[1] {
        world.run_ms(1);
    }
    world.block(tasks[1]);
    assert_eq!(world.running(0), tasks[0]);
}

/// Deadlines count from the load of the scheduler, so its decisions do not depend on the time of loading.
#[test]
fn decisions_do_not_depend_on_the_load_time() {
    let mut served = vec![];
    for began in [0, 3_600_000 * MS] {
        let streams = [(1, 99, 100), (3, 0, 1), (4, 1, 2), (5, 2, 3)];
        let mut world = world_at("dwcs,slot_us=1000", 1, &streams, 1000, began);
        let attributes = (0..4).map(|number| named(&world, number)).collect();
        let tasks = world.start(attributes);
        let slots = (0..500).map(|_| {
            let running = world.running(0);
            world.run_ms(1);
            tasks.iter().position(|task| *task == running)
        });
        served.push(slots.collect::<Vec<_>>());
    }
    assert_eq!(served[0], served[1]);
}
