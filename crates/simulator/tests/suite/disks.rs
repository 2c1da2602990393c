// SPDX-License-Identifier: GPL-2.0-only
//! Disks and their interrupts: closed forms, hand-computed timelines, exact accounts.

use crate::common::{Played, Scheduler, free_machine, rt_app};
use fault_plan::FaultPlan;
use ids::{CpuId, Nanos};
use machine_model::{Effect, Machine};
use measures::{DiskMeasures, TaskAccount};

/// A machine on which only disks cost time.
fn machine(cpus: u32, disks: &[&str]) -> Machine {
    let mut machine = free_machine(&format!("core:{cpus} pu:1"));
    disks.iter().for_each(|disk| machine.add_disk(disk).unwrap());
    machine
}

fn play(machine: &Machine, text: &str) -> Played {
    Scheduler::kernel().play(machine, &rt_app(text)).completed()
}

fn disk(played: &Played) -> &DiskMeasures {
    &played.outcome.measures.disks.as_ref().unwrap()[0]
}

/// Requests of the first disk for each second.
fn throughput(played: &Played) -> f64 {
    let disk = disk(played);
    (disk.reads + disk.writes) as f64 * 1e9 / played.outcome.measures.elapsed.0 as f64
}

fn near(found: f64, expected: f64, tolerance: f64) -> bool {
    (found / expected - 1.0).abs() < tolerance
}

/// Flash without transfer time and interrupts.
const FLASH: &str = "nvme,read_ns=1000000,mb_s=100000,top_ns=0,bottom_ns=0";

/// Customers that sleep for Z and then read: a closed network, whose throughput does not depend on the distribution of
/// the sleeps. 20,000 requests give a standard error below 0.7 %.
#[test]
fn disk_with_exponential_service_matches_the_closed_network() {
    for (customers, servers, think_us) in [(1, 1, 2_000), (4, 1, 2_000), (8, 2, 1_000), (6, 4, 1_000)] {
        let machine = machine(2, &[&format!("{FLASH},servers={servers},depth={servers}")]);
        let text = format!(
            r#"{{"global": {{"duration": 20}}, "tasks": {{"t": {{"instance": {customers}, "read": 1, "sleep": {think_us}}}}}}}"#
        );
        let found = throughput(&play(&machine, &text));
        let expected = queueing::closed(customers, servers, f64::from(think_us) / 1e6, 0.001);
        assert!(near(found, expected, 0.02), "{customers} customers, {servers} servers: {found}, exactly {expected}");
    }
}

#[test]
fn random_reads_of_a_spindle_take_seek_turn_and_transfer() {
    let machine = machine(1, &["hdd-7200,top_ns=0,bottom_ns=0"]);
    let played = play(&machine, r#"{"tasks": {"t": {"loop": 4000, "read": 11000}}}"#);
    let mean = disk(&played).services.summary().mean.0 as f64;
    // Overhead, average seek, half a turn, 11 KB at 110 MB/s. Standard error of the mean: 0.06 ms.
    let expected = 100_000.0 + 8_500_000.0 + 60e9 / 7200.0 / 2.0 + 100_000.0;
    assert!(near(mean, expected, 0.015), "{mean}, exactly {expected}");
    assert_eq!(disk(&played).utilization_ppm(played.outcome.measures.elapsed), Some(1_000_000), "it never idles");
}

#[test]
fn sequential_reads_of_a_spindle_need_only_the_transfer() {
    let machine = machine(1, &["hdd-7200,top_ns=0,bottom_ns=0"]);
    let text = r#"{"tasks": {"t": {"loop": 1000, "read": {"bytes": 1100000, "at": "sequential"}}}}"#;
    let played = play(&machine, text);
    let services = disk(&played).services.summary();
    assert_eq!(services.p50.0 / 1_000_000, 10, "10 ms for 1.1 MB at 110 MB/s");
    assert!(services.mean.0 < 10_050_000 && services.max.0 > 10_000_000, "only the first one seeks");
}

#[test]
fn striped_spindles_multiply_the_throughput_of_random_reads() {
    let with = |spindles: u32| {
        let machine = machine(2, &[&format!("hdd-7200,order=fifo,top_ns=0,bottom_ns=0,spindles={spindles}")]);
        let text = r#"{"global": {"duration": 60}, "tasks": {"t": {"instance": 64, "read": 4096}}}"#;
        throughput(&play(&machine, text))
    };
    let (one, eight) = (with(1), with(8));
    // Balanced network of m stations and n customers, between exponential and constant service: at least n / (n + m - 1)
    // of all stations work.
    let ratio = eight / one;
    assert!((8.0 * 64.0 / 71.0 - 0.2..8.0).contains(&ratio), "{one} and {eight} reads per second");
}

#[test]
fn elevator_serves_more_requests_than_arrival_order() {
    let with = |order: &str| {
        let machine = machine(2, &[&format!("hdd-7200,order={order},top_ns=0,bottom_ns=0")]);
        let text = r#"{"global": {"duration": 60}, "tasks": {"t": {"instance": 32, "read": 4096}}}"#;
        throughput(&play(&machine, text))
    };
    assert!(with("elevator") > 1.3 * with("fifo"), "{} and {}", with("elevator"), with("fifo"));
}

#[test]
fn ram_disk_takes_cpu_time_and_no_interrupts() {
    let machine = machine(1, &["ram,overhead_ns=200,mb_s=1000"]);
    let played = play(&machine, r#"{"tasks": {"t": {"loop": 10, "read": 4096, "write": 1000}}}"#);
    let measures = &played.outcome.measures;
    assert_eq!(measures.makespan, Some(Nanos(10 * (200 + 4096 + 200 + 1000))));
    assert_eq!(measures.tasks.iter().map(|task| task.account.work.0).sum::<u64>(), 54_960);
    assert_eq!(measures.interrupts.as_deref(), Some(&[][..]));
    assert_eq!(measures.disk_wait(), Some(Nanos::ZERO));
    assert_eq!((disk(&played).reads, disk(&played).writes, disk(&played).read_bytes), (10, 10, 40_960));
}

const SPINNER: &str = r#"{"global": {"duration": 2}, "tasks": {
    "spinner": {"cpus": [0], "run": 100000},
    "reader": {"cpus": [1], "read": 4096}}}"#;

/// The interrupts of a reader on CPU 1 take time of the task on CPU 0, and of no other.
#[test]
fn spinner_loses_exactly_the_time_of_the_interrupts_on_its_cpu() {
    let disk = "nvme,interrupts=one,interrupt_cpus=0,top_ns=1000,bottom_ns=1500";
    let played = play(&machine(2, &[disk]), SPINNER);
    let measures = &played.outcome.measures;
    let [interrupts] = &measures.interrupts.as_ref().unwrap()[..] else { panic!("one source on one CPU") };
    assert_eq!((interrupts.source.as_str(), interrupts.cpu, interrupts.max), ("disk:sda", CpuId(0), Nanos(2_500)));
    assert_eq!(interrupts.total, Nanos(interrupts.count * 2_500));
    assert!(interrupts.count > 15_000, "{}", interrupts.count);
    assert!(interrupts.total.0 - measures.cpus[0].stolen.0 < 2_500, "the last one may be cut off by the end");
    assert_eq!(measures.cpus[1].stolen, Nanos::ZERO);
    let spinner = measures.tasks.iter().find(|task| task.name == "spinner").unwrap();
    assert_eq!(spinner.account.stolen, measures.cpus[0].stolen);
    assert_eq!(spinner.account.run + spinner.account.stolen, measures.elapsed);
}

#[test]
fn routing_moves_the_interrupts_and_nothing_else() {
    let count = |options: &str| -> Vec<u64> {
        let disk = format!("nvme,draw=constant,top_ns=1000,bottom_ns=0,{options}");
        let played = play(&machine(4, &[&disk]), SPINNER);
        let rows = played.outcome.measures.interrupts.clone().unwrap();
        let of = |cpu| rows.iter().find(|row| row.cpu == CpuId(cpu)).map_or(0, |row| row.count);
        (0..4).map(of).collect()
    };
    let one = count("interrupts=one");
    assert!(one[0] > 10_000 && one[1..] == [0; 3], "{one:?}");
    let issuer = count("interrupts=issuer");
    assert!(issuer[1] > 10_000 && issuer[0] + issuer[2] + issuer[3] == 0, "{issuer:?}");
    let turns = count("interrupts=round-robin,interrupt_cpus=2-3");
    assert!(turns[..2] == [0, 0] && turns[2].abs_diff(turns[3]) <= 1, "{turns:?}");
    let elsewhere = count("interrupts=issuer,interrupt_cpus=3");
    assert!(elsewhere[3] > 10_000 && elsewhere[..3] == [0; 3], "{elsewhere:?}");
}

/// Requests that are complete at the same instant share one top half.
#[test]
fn simultaneous_completions_share_a_top_half() {
    let disk = "nvme,draw=constant,read_ns=1000000,mb_s=100000,interrupts=one,top_ns=1000,bottom_ns=10";
    let played = play(&machine(1, &[disk]), r#"{"tasks": {"t": {"instance": 3, "loop": 1, "read": 1}}}"#);
    let interrupts = played.outcome.measures.interrupts.clone().unwrap();
    assert_eq!((interrupts[0].count, interrupts[0].total), (3, Nanos(1_000 + 3 * 10)));
}

#[test]
fn waits_are_divided_into_queue_and_service_and_belong_to_the_task() {
    let disk = "nvme,draw=constant,read_ns=1000000,mb_s=100000,servers=1,depth=1,top_ns=0,bottom_ns=0";
    let played = play(&machine(2, &[disk]), r#"{"tasks": {"t": {"instance": 3, "loop": 1, "read": 1}}}"#);
    let measures = &played.outcome.measures;
    let (waits, services) = (disk_waits(&played), self::disk(&played).services.summary());
    assert_eq!((waits, services.mean, services.max), (Nanos(3_000_000), Nanos(1_000_000), Nanos(1_000_000)));
    let mut times: Vec<u64> = measures.tasks.iter().filter_map(|task| task.disk).map(|time| time.0).collect();
    times.sort_unstable();
    assert_eq!(times[times.len() - 3..], [1_000_000, 2_000_000, 3_000_000]);
    for task in measures.tasks.iter().filter(|task| task.name.starts_with("t-")) {
        assert_eq!(task.account.blocked, task.disk.unwrap(), "it waited for nothing else");
    }
    assert_eq!(measures.disk_wait(), Some(Nanos(6_000_000)));
}

/// Sum of the times for which requests waited for others.
fn disk_waits(played: &Played) -> Nanos {
    let waits = disk(played).waits.summary();
    Nanos(waits.mean.0 * waits.count)
}

#[test]
fn effects_of_disks_can_be_left_out() {
    let disk = "nvme,draw=constant,read_ns=1000000,mb_s=100000,servers=1,depth=1,interrupts=one";
    let text = r#"{"tasks": {"t": {"instance": 3, "loop": 1, "read": 1}}}"#;
    let mut machine = machine(2, &[disk]);
    machine.effects.switch_off(Effect::Disks);
    let played = play(&machine, text);
    assert_eq!(disk_waits(&played), Nanos::ZERO, "requests do not wait for others");
    machine.effects.switch_off(Effect::Interrupts);
    let played = play(&machine, text);
    let measures = &played.outcome.measures;
    assert_eq!((measures.makespan, measures.cpu.stolen), (Some(Nanos(1_000_000)), Nanos::ZERO));
    assert_eq!(measures.interrupts.as_deref(), Some(&[][..]));
}

#[test]
fn requests_of_the_same_seed_are_the_same_and_others_differ() {
    let machine = machine(2, &["nvme"]);
    let workload = rt_app(r#"{"tasks": {"t": {"instance": 4, "loop": 50, "read": 4096, "run": 10}}}"#);
    let play = |seed| Scheduler::kernel().play_with(&machine, &workload, seed).outcome;
    assert_eq!(play(3), play(3));
    assert_ne!(play(3).measures.makespan, play(4).measures.makespan);
}

#[test]
fn interrupts_of_an_offline_cpu_go_to_another_one() {
    let machine = machine(2, &["nvme,interrupts=one,interrupt_cpus=1,top_ns=1000,bottom_ns=0"]);
    let workload = rt_app(r#"{"tasks": {"t": {"loop": 1000, "read": 4096}}}"#);
    let faults: FaultPlan = "cpu1:offline@20ms".parse().unwrap();
    let played = Scheduler::kernel().play_faults(&machine, &workload, 0, &faults).completed();
    let interrupts = played.outcome.measures.interrupts.clone().unwrap();
    assert_eq!(interrupts.iter().map(|row| row.cpu).collect::<Vec<_>>(), [CpuId(0), CpuId(1)]);
    assert_eq!(interrupts.iter().map(|row| row.count).sum::<u64>(), 1000);
}

#[test]
fn unknown_disk_is_refused_with_what_to_do() {
    let workload = rt_app(r#"{"tasks": {"t": {"loop": 1, "read": {"disk": "sdb", "bytes": 1}}}}"#);
    let problem =
        |disks: &[&str]| Scheduler::kernel().refused(&machine(1, disks), &workload, &FaultPlan::default()).to_string();
    let none = problem(&[]);
    assert!(none.contains("uses disk sdb, but ") && none.contains("has no disk; add one with --disk sdb="), "{none}");
    assert!(problem(&["sda=nvme"]).contains("has the disks sda;"), "{}", problem(&["sda=nvme"]));
}

/// Interrupts that alone would occupy CPU 0: ksoftirqd competes with the spinner as an equal, instead of starving it.
#[test]
fn ksoftirqd_shares_an_overloaded_cpu_with_its_tasks() {
    let text = r#"{"global": {"duration": 1}, "tasks": {
        "spinner": {"cpus": [0], "run": 100000},
        "reader": {"instance": 64, "cpus": [1, 2, 3, 4, 5, 6, 7], "read": 512, "run": 1}}}"#;
    let disk = "nvme,read_ns=1000,mb_s=100000,servers=64,interrupts=one,top_ns=500,bottom_ns=5000";
    let played = play(&machine(8, &[disk]), text);
    let measures = &played.outcome.measures;
    let interrupts = &measures.interrupts.as_ref().unwrap()[0];
    assert!(interrupts.deferred > interrupts.count / 2, "{interrupts:?}");
    let account = |name: &str| measures.tasks.iter().find(|task| task.name == name).unwrap().account;
    let (spinner, thread) = (account("spinner"), account("ksoftirqd/0"));
    // The scheduler divides the time in which they are current; interrupts take their part of it from both.
    let current = |account: TaskAccount| (account.run + account.stolen).0 as f64;
    assert!(spinner.run > Nanos::from_ms(400), "{spinner:?}");
    assert!(near(current(spinner), current(thread), 0.02), "{spinner:?} and {thread:?}");
    let thread = thread.run.0 as f64;
    assert!(near(thread, interrupts.deferred as f64 * 5_000.0, 0.01), "{thread}, {interrupts:?}");
}

/// A task that submits recorded reads of these microseconds and waits until at most `most` are in progress, once.
fn recorded(tasks: &[(&[u64], u32)]) -> workload::Workload {
    use workload::{DeviceId, Op, Submission};
    let mut workload =
        rt_app(&format!(r#"{{"tasks": {{"t": {{"instance": {}, "loop": 1, "run": 1}}}}}}"#, tasks.len()));
    workload.devices = vec!["vda".to_owned()];
    for (task, (services, most)) in workload.tasks.iter_mut().zip(tasks) {
        let work = Op::Work { user: Nanos::from_us(5), system: Nanos::ZERO };
        task.script = vec![work.clone()];
        for &us in *services {
            let service = Nanos::from_us(us);
            let request = Submission { device: DeviceId(0), write: false, bytes: 4_096, service };
            task.script.push(Op::Submit(Box::new(request)));
        }
        task.script.push(Op::AwaitRequests { device: DeviceId(0), most: *most, slept: Nanos::from_us(777) });
        task.script.push(work);
    }
    workload
}

fn blocked_us(played: &Played) -> Vec<u64> {
    let tasks = played.outcome.measures.tasks.iter().filter(|task| !task.kernel_thread);
    tasks.map(|task| task.account.blocked.0 / 1_000).collect()
}

#[test]
fn recorded_wait_keeps_its_length_on_a_machine_without_the_device() {
    let workload = recorded(&[(&[50], 0)]);
    let played = Scheduler::kernel().play(&machine(1, &["other=nvme"]), &workload).completed();
    assert_eq!((blocked_us(&played), played.outcome.measures.disks.is_none()), (vec![777], true));
    let mut sleeps = workload.clone();
    sleeps.tasks[0].script[1] = workload::Op::Yield;
    sleeps.tasks[0].script[2] = workload::Op::Sleep(Nanos::from_us(777), workload::Sleep::Io);
    sleeps.tasks[0].script.remove(1);
    let same = Scheduler::kernel().play(&machine(1, &[]), &sleeps).completed();
    assert_eq!(played.outcome.log_hash, same.outcome.log_hash);
}

#[test]
fn recorded_wait_lasts_as_long_as_its_own_queue() {
    let vda = "vda=recorded,top_ns=0,bottom_ns=0";
    let alone = Scheduler::kernel().play(&machine(2, &[vda]), &recorded(&[(&[50], 0)])).completed();
    assert_eq!((blocked_us(&alone), disk(&alone).reads), (vec![50], 1));
    let both = recorded(&[(&[50], 0), (&[50], 0)]);
    let two = Scheduler::kernel().play(&machine(2, &[vda]), &both).completed();
    let mut waits = blocked_us(&two);
    waits.sort_unstable();
    assert_eq!(waits, [50, 100], "the second waits for the first");
    let servers = format!("{vda},servers=2");
    let parallel = Scheduler::kernel().play(&machine(2, &[&servers]), &both).completed();
    assert_eq!(blocked_us(&parallel), [50, 50]);
}

#[test]
fn task_does_not_wait_for_the_requests_that_it_reads_ahead() {
    let vda = "vda=recorded,servers=2,top_ns=0,bottom_ns=0";
    for (most, expected) in [(0, 200), (1, 50), (2, 0)] {
        let workload = recorded(&[(&[50, 200], most)]);
        let played = Scheduler::kernel().play(&machine(1, &[vda]), &workload).completed();
        assert_eq!(blocked_us(&played), [expected], "at most {most} in progress");
        let waited = played.outcome.measures.disk_wait().unwrap();
        assert_eq!(waited.0 / 1_000, expected, "blocked time is the disk's");
    }
    let ram = Scheduler::kernel().play(&machine(1, &["vda=ram"]), &recorded(&[(&[50, 200], 0)])).completed();
    assert_eq!(blocked_us(&ram), [0], "a RAM disk takes CPU time");
}

#[test]
fn recorded_disk_is_refused_for_requests_without_a_recorded_time() {
    let machine = machine(1, &["sda=recorded"]);
    let reads = rt_app(r#"{"tasks": {"t": {"loop": 1, "read": 4096}}}"#);
    let error = Scheduler::kernel().refused(&machine, &reads, &FaultPlan::default()).to_string();
    assert!(error.contains("its first disk of") && error.contains("is of kind recorded"), "{error}");
}
