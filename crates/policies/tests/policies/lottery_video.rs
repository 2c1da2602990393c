// SPDX-License-Identifier: GPL-2.0-only
//! Figure 8 of the lottery paper on `policies/lottery`: clients decode one film each, and a server that ignores
//! tickets displays the pictures. With tickets of 3 : 2 : 1 the paper measured 1.92 : 1.50 : 1. The times are our
//! choice, since the paper has none: a picture takes as long to display as to decode, and the server has as many
//! tickets as its clients together.

use crate::world::World;
use ids::TaskId;
use kernel_model::CgroupId;
use machine_model::Machine;

const TICKETS: [u32; 3] = [300, 200, 100];
/// Tick period, and unit of all times.
const TICK_MS: u64 = 10;
const DECODE_MS: u64 = 40;
const SHOW_MS: u64 = 40;

/// State of a client.
#[derive(Clone, Copy, PartialEq)]
enum Client {
    /// Remaining decode time in ms.
    Decodes(u64),
    Waits,
}

/// The server displays the pictures round robin: after the last client served, the next one that has a picture.
/// `shows` is the client and the remaining time in ms.
struct Server {
    task: TaskId,
    shows: Option<(usize, u64)>,
    last: usize,
}

/// Returns the number of pictures displayed for each client.
fn pictures(show_ms: u64, seconds: u64) -> [u64; 3] {
    let mut machine = Machine::from_synthetic("node:1 core:1 pu:1").unwrap();
    machine.hz = (1000 / TICK_MS) as u32;
    let mut world = World::on("lottery", machine, (7, 2));
    let tasks = world.start(vec![world.attributes(); 4]);
    for (task, weight) in tasks.iter().zip(TICKETS.iter().chain([&TICKETS.iter().sum()])) {
        let group = world.group(CgroupId::ROOT, &format!("g{task:?}"), *weight);
        world.place(&[*task], group);
    }
    let mut server = Server { task: tasks[3], shows: None, last: 2 };
    while world.running(0) != server.task {
        world.run_ms(TICK_MS);
    }
    world.block(server.task);
    let mut clients = [Client::Decodes(DECODE_MS); 3];
    let mut shown = [0; 3];
    for _ in 0..seconds * 1000 / TICK_MS {
        let running = world.running(0);
        world.run_ms(TICK_MS);
        if let Some(at) = tasks[..3].iter().position(|task| *task == running) {
            let Client::Decodes(left) = clients[at] else { unreachable!("a waiting client sleeps") };
            clients[at] = Client::Decodes(left - TICK_MS);
            if left == TICK_MS && show_ms == 0 {
                shown[at] += 1;
                clients[at] = Client::Decodes(DECODE_MS);
            } else if left == TICK_MS {
                clients[at] = Client::Waits;
                leave(&mut world, running);
            }
        } else if running == server.task {
            let (at, left) = server.shows.expect("a running server has a picture");
            server.shows = Some((at, left - TICK_MS)).filter(|(_, left)| *left > 0);
            if server.shows.is_none() {
                shown[at] += 1;
                clients[at] = Client::Decodes(DECODE_MS);
                world.wake(0, tasks[at], false);
            }
        }
        serve(&mut world, &mut server, &clients, show_ms);
    }
    shown
}

/// Waits until the task runs (it may just have lost the CPU), and blocks it.
fn leave(world: &mut World, task: TaskId) {
    while world.running(0) != task {
        world.run_ms(TICK_MS);
    }
    world.block(task);
}

/// Lets a server without a picture take the next one, or sleep.
fn serve(world: &mut World, server: &mut Server, clients: &[Client; 3], show_ms: u64) {
    if server.shows.is_some() {
        return;
    }
    let was_awake = world.running(0) == server.task;
    let next = (1..=3).map(|step| (server.last + step) % 3).find(|at| clients[*at] == Client::Waits);
    server.shows = next.map(|at| (at, show_ms));
    match next {
        Some(at) => {
            server.last = at;
            if !was_awake {
                world.wake(0, server.task, false);
            }
        }
        None if was_awake => world.block(server.task),
        None => {}
    }
}

/// A published failure: tickets decide which client decodes, not whose picture is displayed. Without the server,
/// pictures follow tickets within four standard deviations of the number of lotteries (a picture takes more than one,
/// which only narrows the limits). Behind the server the first client gets far less than three times, and the second
/// far less than twice, what the third gets.
#[test]
fn pictures_behind_a_round_robin_server_do_not_follow_tickets() {
    const SECONDS: u64 = 2_000;
    let draws = (SECONDS * 10) as f64;
    let parts = |shown: [u64; 3]| shown.map(|pictures| pictures as f64 / shown.iter().sum::<u64>() as f64);
    for (found, tickets) in parts(pictures(0, SECONDS)).into_iter().zip(TICKETS) {
        let p = f64::from(tickets) / 600.0;
        assert!((found - p).abs() <= 4.0 * (p * (1.0 - p) / draws).sqrt(), "{found:.3}, expected {p:.3}");
    }
    let [a, b, c] = parts(pictures(SHOW_MS, SECONDS));
    println!("behind the server {:.2} : {:.2} : 1", a / c, b / c);
    assert!(a > b && b > c && a / c < 2.4 && b / c < 1.8, "{:.2} : {:.2} : 1", a / c, b / c);
}
