// SPDX-License-Identifier: GPL-2.0-only
//! Tests of ticket transfers (`policies/lottery/lend.bpf.h`): tickets a client transfers to the server it waits for.

use crate::world::{MS, World};
use ids::{CpuId, Policy, TaskId};
use kernel_model::{CgroupId, TaskAttributes};
use launch_profile::{Lending, WorkloadFacts};
use machine_model::Machine;

const QUANTUM_MS: u64 = 10;
const SPEC: &str = "lottery,quantum_us=10000";
/// Tickets by nice value: the kernel's weight / 1024 * 100.
const TICKETS: [(i8, f64); 3] = [(0, 100.0), (4, 41.0), (-5, 305.0)];

/// Loads the policy on one CPU with these pairs of client (donor) and server (recipient) names.
fn world(pairs: &[(&str, &str)]) -> World {
    let mut servers: Vec<&str> = pairs.iter().map(|pair| pair.1).collect();
    servers.sort_unstable();
    servers.dedup();
    let number = |name: &str| servers.iter().position(|server| *server == name).map_or(0, |at| at as u32 + 1);
    let mut names: Vec<&str> = pairs.iter().map(|pair| pair.0).chain(servers.iter().copied()).collect();
    names.sort_unstable();
    names.dedup();
    let lending = |task: &&str| Lending {
        task: (*task).to_owned(),
        lends_to: pairs.iter().find(|pair| pair.0 == *task).map_or(0, |pair| number(pair.1)),
        lent_as: number(task),
    };
    let facts = WorkloadFacts { lending: names.iter().map(lending).collect(), ..WorkloadFacts::default() };
    let mut machine = Machine::from_synthetic("node:1 core:1 pu:1").unwrap();
    machine.hz = 100;
    World::with_facts(SPEC, machine, (7, 2), &facts)
}

fn named(world: &World, name: &str, nice: i8) -> TaskAttributes {
    TaskAttributes { name: name.to_owned(), nice, ..world.attributes() }
}

/// Advances the clock until the task runs.
fn wait_for(world: &mut World, task: TaskId) {
    for _ in 0..100_000 {
        if world.running(0) == task {
            return;
        }
        world.run_ms(QUANTUM_MS);
    }
    panic!("{task:?} never runs");
}

/// Advances the clock until the task runs, and blocks it.
fn sleep(world: &mut World, task: TaskId) {
    wait_for(world, task);
    world.block(task);
}

/// Returns the shares of these tasks in the next `quanta`.
fn shares(world: &mut World, tasks: &[TaskId], quanta: usize) -> Vec<f64> {
    let mut won = vec![0; tasks.len()];
    for _ in 0..quanta {
        let running = world.running(0);
        tasks.iter().zip(&mut won).filter(|(task, _)| **task == running).for_each(|(_, won)| *won += 1);
        world.run_ms(QUANTUM_MS);
    }
    won.into_iter().map(|won| f64::from(won) / quanta as f64).collect()
}

/// Asserts that each share is within four standard deviations of its part of the tickets.
fn assert_shares(found: &[f64], tickets: &[f64], quanta: usize) {
    let all: f64 = tickets.iter().sum();
    for (found, tickets) in found.iter().zip(tickets) {
        let p = tickets / all;
        let bound = 4.0 * (p * (1.0 - p) / quanta as f64).sqrt();
        assert!((found - p).abs() <= bound, "{found:.4}, expected {p:.4} +- {bound:.4}");
    }
}

/// The paper's figure 7: clients with 8 : 3 : 1 tickets, each waiting for a server of its own.
#[test]
fn servers_receive_the_shares_of_their_clients() {
    let mut world = world(&[("c1", "s1"), ("c2", "s2"), ("c3", "s3")]);
    let backing = [800, 300, 100];
    let groups: Vec<_> =
        backing.iter().map(|weight| world.group(CgroupId::ROOT, &format!("g{weight}"), *weight)).collect();
    let names = ["c1", "c2", "c3", "s1", "s2", "s3"];
    let tasks = world.start(names.iter().map(|name| named(&world, name, 0)).collect());
    for (client, group) in tasks[..3].iter().zip(&groups) {
        world.place(&[*client], *group);
    }
    let n = 4000;
    // While the clients also run, the three servers share one currency of 100 tickets, a third each.
    let found = shares(&mut world, &tasks, n);
    assert_shares(&found, &[800.0, 300.0, 100.0, 100.0 / 3.0, 100.0 / 3.0, 100.0 / 3.0], n);
    for client in &tasks[..3] {
        sleep(&mut world, *client);
    }
    let found = shares(&mut world, &tasks[3..], n);
    assert_shares(&found, &[800.0, 300.0, 100.0], n);
    // A client that has its answer gets its share back; its server then shares the common currency with the other
    // servers that have received nothing.
    world.wake(0, tasks[0], false);
    let found = shares(&mut world, &[tasks[0], tasks[3], tasks[4], tasks[5]], n);
    assert_shares(&found, &[800.0, 100.0, 300.0, 100.0], n);
}

/// Within a currency tickets add up: all received ones and the recipient's own.
#[test]
fn tickets_of_one_currency_add_up() {
    let mut world = world(&[("a", "server"), ("b", "server")]);
    let [(_, plain), (nice_b, of_b), (nice_a, of_a)] = TICKETS;
    let attributes =
        vec![named(&world, "a", nice_a), named(&world, "b", nice_b), named(&world, "server", 0), world.attributes()];
    let tasks = world.start(attributes);
    let n = 4000;
    sleep(&mut world, tasks[0]);
    let found = shares(&mut world, &tasks[1..], n);
    assert_shares(&found, &[of_b, plain + of_a, plain], n);
    sleep(&mut world, tasks[1]);
    let found = shares(&mut world, &tasks[2..], n);
    assert_shares(&found, &[plain + of_a + of_b, plain], n);
    world.wake(0, tasks[0], false);
    let found = shares(&mut world, &tasks, n);
    assert_shares(&found, &[of_a, 0.0, plain + of_b, plain], n);
}

/// Point 2 of `lend.bpf.h`: a server that waits for another server passes on the tickets it has received.
#[test]
fn transferred_tickets_pass_through_a_waiting_server() {
    let mut world = world(&[("client", "front"), ("front", "back")]);
    let [(_, plain), _, (nice, lent)] = TICKETS;
    let attributes =
        vec![named(&world, "client", nice), named(&world, "front", 0), named(&world, "back", 0), world.attributes()];
    let tasks = world.start(attributes);
    sleep(&mut world, tasks[0]);
    sleep(&mut world, tasks[1]);
    let n = 4000;
    let found = shares(&mut world, &tasks[2..], n);
    assert_shares(&found, &[lent + plain + plain, plain], n);
}

/// Point 4 of `lend.bpf.h`: a queued server takes a new sample when it receives tickets. Otherwise it would wait for
/// its sample with one ticket, a thousand quanta on average.
#[test]
fn transferred_tickets_count_at_once() {
    let mut world = world(&[("client", "server")]);
    let attributes = vec![world.attributes(), named(&world, "client", -20), named(&world, "server", 19)];
    let tasks = world.start(attributes);
    let mut waits: Vec<u64> = Vec::new();
    for _ in 0..20 {
        sleep(&mut world, tasks[1]);
        let before = world.now_ns;
        wait_for(&mut world, tasks[2]);
        waits.push((world.now_ns - before) / MS);
        world.block(tasks[2]);
        world.wake(0, tasks[1], false);
        world.wake(0, tasks[2], false);
    }
    // 8867 tickets against 100: one attempt in 90 waits at all, for one quantum.
    assert!(waits.iter().sum::<u64>() <= 5 * QUANTUM_MS, "{waits:?}");
}

/// A task that leaves the scheduler while asleep withdraws its tickets.
#[test]
fn task_that_left_the_scheduler_transfers_no_tickets() {
    let mut world = world(&[("client", "server")]);
    let attributes = vec![named(&world, "client", -5), named(&world, "server", 0), world.attributes()];
    let tasks = world.start(attributes);
    sleep(&mut world, tasks[0]);
    world.kernel.set_policy(CpuId(0), tasks[0], Policy::Fifo(1), 0).unwrap();
    world.settle();
    let n = 4000;
    let found = shares(&mut world, &tasks[1..], n);
    assert_shares(&found, &[1.0, 1.0], n);
}

/// There are 63 accounts: servers beyond them receive nothing.
#[test]
fn servers_beyond_the_table_receive_no_tickets() {
    let names: Vec<(String, String)> = (0..70).map(|n| (format!("c{n:02}"), format!("s{n:02}"))).collect();
    let pairs: Vec<(&str, &str)> = names.iter().map(|(client, server)| (client.as_str(), server.as_str())).collect();
    let mut world = world(&pairs);
    let [(_, plain), _, (nice, lent)] = TICKETS;
    let clients = ["c62", "c63"].map(|name| named(&world, name, nice));
    let servers = ["s62", "s63"].map(|name| named(&world, name, 0));
    let tasks = world.start(clients.into_iter().chain(servers).collect());
    sleep(&mut world, tasks[0]);
    sleep(&mut world, tasks[1]);
    let n = 4000;
    let found = shares(&mut world, &tasks[2..], n);
    assert_shares(&found, &[plain + lent, plain], n);
}

/// Point 3 of `lend.bpf.h`: in its client's currency a server has the received tickets, and none of its own.
#[test]
fn own_tickets_do_not_count_in_the_donors_currency() {
    let mut world = world(&[("client", "server")]);
    let attributes = vec![named(&world, "client", 19), named(&world, "mate", 19), named(&world, "server", -20)];
    let tasks = world.start(attributes);
    let group = world.group(CgroupId::ROOT, "g", 100);
    world.place(&tasks[..2], group);
    sleep(&mut world, tasks[0]);
    let n = 4000;
    let found = shares(&mut world, &tasks[1..], n);
    assert_shares(&found, &[1.0, 1.0], n);
}

/// Point 4 of `lend.bpf.h`: withdrawing tickets takes effect at once, too.
#[test]
fn withdrawn_tickets_are_gone_at_once() {
    let mut world = world(&[("client", "server")]);
    let attributes = vec![named(&world, "client", -20), named(&world, "server", 19), world.attributes()];
    let tasks = world.start(attributes);
    let group = world.group(CgroupId::ROOT, "g", 100);
    world.place(&tasks[..1], group);
    let mut had = 0;
    for _ in 0..100 {
        wait_for(&mut world, tasks[2]);
        wait_for(&mut world, tasks[0]);
        world.block(tasks[0]);
        if world.running(0) == tasks[2] {
            world.wake(0, tasks[0], false);
            world.run_ms(QUANTUM_MS);
            had += usize::from(world.running(0) == tasks[1]);
        } else {
            world.wake(0, tasks[0], false);
        }
    }
    // The server has one of the root's 101 tickets, and the root wins every other lottery.
    assert!(had <= 3, "{had}");
}

/// Point 1 of `lend.bpf.h`: donors and recipients are matched by the 15 bytes of a name that a kernel keeps, not by a
/// prefix.
#[test]
fn donors_are_matched_by_their_full_name() {
    let mut world = world(&[("a-long-client-1", "a-long-server-1")]);
    let names = ["a-long-server-1", "a-long-client-1", "a-long-client-2", "hog"];
    let attributes = names.iter().map(|name| named(&world, name, 0)).collect();
    let tasks = world.start(attributes);
    sleep(&mut world, tasks[1]);
    sleep(&mut world, tasks[2]);
    let found = shares(&mut world, &[tasks[0], tasks[3]], 2_000);
    assert_shares(&found, &[200.0, 100.0], 2_000);
}
