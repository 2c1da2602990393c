// SPDX-License-Identifier: GPL-2.0-only
//! Networks and the servers behind them: closed forms, hand-computed times, exact accounts.

use crate::common::{Played, Scheduler, free_machine, rt_app};
use fault_plan::FaultPlan;
use ids::{CpuId, Nanos};
use machine_model::{Effect, Machine};
use measures::NetworkMeasures;

/// A machine on which only the network costs time.
fn machine(cpus: u32, network: &str) -> Machine {
    let mut machine = free_machine(&format!("core:{cpus} pu:1"));
    machine.add_network(network).unwrap();
    machine
}

fn play(machine: &Machine, text: &str) -> Played {
    Scheduler::kernel().play(machine, &rt_app(text)).completed()
}

fn network(played: &Played) -> &NetworkMeasures {
    &played.outcome.measures.networks.as_ref().unwrap()[0]
}

/// A network that takes no time by itself.
const FREE: &str = "1gbe,latency_ns=0,mbit_s=1000000,top_ns=0,bottom_ns=0";

/// Clients that sleep for Z and then call a server with exponential service times: a closed network. 20,000 calls give a
/// standard error below 0.7 %.
#[test]
fn server_behind_a_network_matches_the_closed_network() {
    for (clients, servers, think_us) in [(1, 1, 2_000), (4, 1, 2_000), (8, 2, 1_000), (6, 4, 1_000)] {
        let machine = machine(2, &format!("{FREE},server_ns=1000000,draw=exponential,servers={servers}"));
        let text = format!(
            r#"{{"global": {{"duration": 20}}, "tasks": {{"t": {{"instance": {clients}, "call": 1, "sleep": {think_us}}}}}}}"#
        );
        let played = play(&machine, &text);
        let found = network(&played).calls as f64 * 1e9 / played.outcome.measures.elapsed.0 as f64;
        let expected = queueing::closed(clients, servers, f64::from(think_us) / 1e6, 0.001);
        let error = (found / expected - 1.0).abs();
        assert!(error < 0.02, "{clients} clients, {servers} servers: {found}, exactly {expected}");
    }
}

/// 1000 bytes take 8 us at 1000 Mbit/s, 4000 take 32; each direction has a latency of 5 us, and the server needs 100.
#[test]
fn call_blocks_its_task_for_link_latency_and_server() {
    let machine = machine(1, "1gbe,latency_ns=5000,mbit_s=1000,server_ns=100000,top_ns=0,bottom_ns=0");
    let text = r#"{"tasks": {"t": {"loop": 10, "call": {"bytes": 1000, "reply": 4000}, "run": 7}}}"#;
    let played = play(&machine, text);
    let measures = &played.outcome.measures;
    let task = &measures.tasks[measures.tasks.iter().position(|task| !task.kernel_thread).unwrap()];
    assert_eq!((task.account.blocked, task.network), (Nanos::from_us(1_500), Some(Nanos::from_us(1_500))));
    let (network, elapsed) = (network(&played), measures.elapsed);
    assert_eq!((network.calls, network.sent_bytes, network.received_bytes), (10, 10_000, 40_000));
    let share = |us: u64| us * 1_000_000 / (elapsed.0 / 1_000);
    assert_eq!(network.utilization_ppm(elapsed), [share(80), share(320), share(1_000)]);
    assert_eq!((measures.disks.is_none(), measures.disk_wait()), (true, None), "it uses no disk");
}

#[test]
fn throughput_of_long_answers_is_that_of_the_link() {
    let machine = machine(2, "1gbe,latency_ns=0,mbit_s=1000,top_ns=0,bottom_ns=0");
    let text = r#"{"global": {"duration": 1}, "tasks": {"t": {"instance": 8, "call": {"bytes": 1, "reply": 125000}}}}"#;
    let played = play(&machine, text);
    let calls = network(&played).calls;
    assert!((998..=1_000).contains(&calls), "{calls} answers of 1 ms");
    let mut without = machine.clone();
    without.effects.switch_off(Effect::Network);
    let calls = network(&play(&without, text)).calls;
    assert!((7_984..=8_000).contains(&calls), "{calls}: answers do not wait for each other");
}

#[test]
fn answers_interrupt_the_cpu_of_the_network() {
    let network = "1gbe,latency_ns=1000,server_ns=10000,top_ns=400,bottom_ns=600,interrupt_cpus=0";
    let text = r#"{"tasks": {"spin": {"loop": 1, "run": 50000, "cpus": [0]},
        "call": {"loop": 100, "call": 100, "run": 3, "cpus": [1]}}}"#;
    let machine = machine(2, network);
    let played = play(&machine, text);
    let measures = &played.outcome.measures;
    let [row] = &measures.interrupts.as_ref().unwrap()[..] else { panic!("one CPU handles interrupts") };
    assert_eq!(
        (row.source.as_str(), row.cpu, row.count, row.total),
        ("network:eth0", CpuId(0), 100, Nanos::from_us(100))
    );
    let spin = measures.tasks.iter().find(|task| task.name.starts_with("spin")).unwrap();
    assert_eq!(spin.account.stolen, Nanos::from_us(100));
    let mut without = machine.clone();
    without.effects.switch_off(Effect::Interrupts);
    assert!(play(&without, text).outcome.measures.interrupts.unwrap().is_empty());
}

#[test]
fn loopback_takes_cpu_time_of_the_task() {
    let machine = machine(1, "lo=loopback,overhead_ns=10000,mb_s=1000");
    let text = r#"{"tasks": {"t": {"loop": 5, "call": {"network": "lo", "bytes": 1000, "reply": 9000}, "run": 1}}}"#;
    let played = play(&machine, text);
    let task = played.outcome.measures.tasks.iter().find(|task| !task.kernel_thread).unwrap();
    assert_eq!((task.account.blocked, task.account.run.0 / 1_000), (Nanos::ZERO, 5 * (20 + 1)));
    assert_eq!(network(&played).calls, 5);
}

#[test]
fn missing_network_is_an_error_that_says_how_to_add_one() {
    let machine = machine(1, "lo=loopback");
    let workload = rt_app(r#"{"tasks": {"t": {"loop": 1, "call": {"network": "eth0", "bytes": 1}}}}"#);
    let error = Scheduler::kernel().refused(&machine, &workload, &FaultPlan::default()).to_string();
    assert!(error.contains("uses network eth0, but") && error.contains("has the networks lo"), "{error}");
    assert!(error.contains("--network eth0=1gbe"), "{error}");
}
