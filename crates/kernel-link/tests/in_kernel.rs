// SPDX-License-Identifier: GPL-2.0-only
//! Loads schedulers into a kernel with sched_ext, makes them fail, and takes CPUs offline under them. Needs root in
//! such a kernel, for example in a virtual machine; the test binary needs no other file. Elsewhere every test prints
//! why it is skipped and passes.

use kernel_link::LinkError;
use kernel_link::scheduler::{Attached, Host, KernelExit, Request, SchedulerError, load};
use launch_profile::Profile;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

const FAULTY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/faulty.bpf.o"));

const SILENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/silent.bpf.o"));

const VISITOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/visitor.bpf.o"));

/// Serializes the tests: only one scheduler can be loaded.
static TURN: Mutex<()> = Mutex::new(());

/// The machine, if schedulers can be loaded here, and the lock on the tests.
fn here() -> Option<(Host, MutexGuard<'static, ()>)> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    match Host::read() {
        Ok(host) => Some((host, turn)),
        Err(LinkError::Scheduler(error @ (SchedulerError::NoSchedExt { .. } | SchedulerError::NoRights))) => {
            skip::skip(format_args!("{error}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn load_policy(name: &str, host: &Host, measure: bool) -> Attached {
    let policy = policies::find(name).expect("shipped");
    let profile = Profile::from_toml(name, policy.profile).expect("shipped");
    let request = Request { name, object: policy.object, profile: &profile, host, measure };
    load(&request).unwrap_or_else(|error| panic!("{error}"))
}

/// Loads `faulty` with this fault; a task that waits for 2 s is a stall.
fn load_faulty(fault: &str, host: &Host) -> Result<Attached, LinkError> {
    let faults = ["none", "drop all", "drop one", "error", "unknown dsq", "exit", "init", "unverifiable"];
    let number = faults.iter().position(|known| *known == fault).expect("one of them");
    load_tuned(&format!("fault = {number}"), host)
}

fn load_tuned(rodata: &str, host: &Host) -> Result<Attached, LinkError> {
    let text = format!("[ops]\ntimeout_ms = 2000\n[rodata]\n{rodata}\n");
    let profile = Profile::from_toml("faulty.toml", &text).expect("a profile");
    load(&Request { name: "faulty", object: FAULTY, profile: &profile, host, measure: false })
}

fn sched_ext(file: &str) -> String {
    fs::read_to_string(format!("/sys/kernel/sched_ext/{file}")).unwrap_or_default().trim().to_owned()
}

/// Generates load: processes that start, wait for each other through a pipe, and compute.
fn work(processes: usize, for_s: &str) {
    let script =
        format!("end=$(($(date +%s)+{for_s})); while [ $(date +%s) -lt $end ]; do echo a | cat >/dev/null; done");
    let spawn = |_| Command::new("sh").args(["-c", &script]).spawn().expect("a shell");
    let children: Vec<Child> = (0..processes).map(spawn).collect();
    for mut child in children {
        assert!(child.wait().expect("it was started").success());
    }
}

/// Waits, under load, until the kernel has ejected the scheduler, and unloads it.
fn ejection(attached: Attached) -> KernelExit {
    let began = Instant::now();
    let exit = loop {
        if let Some(exit) = attached.exited().unwrap() {
            break exit;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "the scheduler was not ejected");
        thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(attached.detach().unwrap(), exit, "the first exit reason is kept");
    assert_eq!(sched_ext("state"), "disabled");
    exit
}

#[test]
fn every_policy_schedules_tasks_and_is_unloaded() {
    let Some((host, _turn)) = here() else { return };
    for policy in policies::all() {
        let attached = load_policy(policy.name, &host, true);
        assert_eq!((sched_ext("state"), sched_ext("root/ops")), ("enabled".into(), attached.name().into()));
        work(6, "2");
        assert_eq!(attached.exited().unwrap(), None, "{}", policy.name);
        let statistics = attached.statistics().unwrap();
        let enqueue = statistics.ops.iter().find(|op| op.op == "enqueue").expect("every policy has it");
        assert!(enqueue.runs > 10 && enqueue.run_time_ns > 0 && enqueue.instructions > 2, "{enqueue:?}");
        // Event counters exist since 6.15.
        let counted = !sched_ext("root/events").is_empty();
        assert_eq!(!statistics.events.is_empty(), counted, "{:?}", statistics.events);
        eprintln!("{}: {statistics:?}", policy.name);
        let exit = attached.detach().unwrap();
        assert!(exit.is_unload() && !exit.wants_restart(), "{exit:?}");
        assert_eq!((exit.kind, exit.reason.as_str()), (64, "unregistered from user space"));
        assert_eq!(sched_ext("state"), "disabled");
    }
}

#[test]
fn twenty_cycles_of_loading_and_unloading_under_load() {
    let Some((host, _turn)) = here() else { return };
    let busy = thread::spawn(|| work(4, "20"));
    for cycle in 0..20 {
        let attached = load_policy(if cycle % 2 == 0 { "fifo" } else { "bfs" }, &host, false);
        thread::sleep(Duration::from_millis(100));
        let exit = attached.detach().unwrap();
        assert_eq!(exit.kind, 64, "cycle {cycle}: {exit:?}");
    }
    busy.join().unwrap();
}

#[test]
fn ejections_have_kind_code_reason_and_message() {
    let Some((host, _turn)) = here() else { return };
    // Kind, code, reason, part of the message, as in kernel 7.2.
    let cases = [
        ("drop all", 1026, 0, "runnable task stall", "s"),
        ("error", 1025, 0, "scx_bpf_error", "asked to fail, 1 and 2"),
        ("unknown dsq", 1024, 0, "runtime error", "non-existent DSQ 0x3039"),
        ("exit", 65, 1 << 48 | 7, "unregistered from BPF", "restart, please: 7"),
        ("init", 1024, 0, "runtime error", "ops.init() failed (-12)"),
    ];
    for (fault, kind, code, reason, message) in cases {
        let attached = load_faulty(fault, &host).unwrap_or_else(|error| panic!("{fault}: {error}"));
        let exit = ejection(attached);
        eprintln!("{fault}: {} {} / {}; dump of {} bytes", exit.kind, exit.reason, exit.message, exit.dump.len());
        assert_eq!((exit.kind, exit.code, exit.reason.as_str()), (kind, code, reason), "{fault}: {}", exit.message);
        assert!(exit.message.contains(message), "{fault}: {}", exit.message);
        assert_eq!(exit.dump.contains("triggered exit kind"), kind >= 1024, "{fault}: {}", exit.dump);
        assert_eq!(exit.wants_restart(), fault == "exit");
    }
}

/// An object that does not record its exit. It also has a kconfig variable.
#[test]
fn exit_of_an_object_without_record_comes_from_the_kernel_log() {
    let Some((host, _turn)) = here() else { return };
    let load_silent = |text: &str, host: &Host| {
        let profile = Profile::from_toml("silent.toml", text).expect("a profile");
        load(&Request { name: "silent", object: SILENT, profile: &profile, host, measure: false })
            .unwrap_or_else(|error| panic!("{error}"))
    };
    let attached = load_silent("", &host);
    let configured = attached.section(".bss").unwrap();
    let hz = u64::from(host.machine.hz).to_ne_bytes();
    assert!(configured.chunks_exact(8).any(|word| word == hz), "{configured:?}: the unknown switch is not set");
    let exit = attached.detach().unwrap();
    assert_eq!((exit.kind, exit.reason.as_str()), (64, "unregistered from user space"));

    let exit = ejection(load_silent("[ops]\ntimeout_ms = 1000\n[rodata]\ndrop = true\n", &host));
    assert_eq!((exit.kind, exit.reason.as_str()), (1026, "runnable task stall"), "{exit:?}");
    assert!(exit.is_ejection() && exit.message.contains("failed to "), "{exit:?}");

    let last = host.machine.topology.len() - 1;
    if last > 0 {
        let attached = load_silent("", &host);
        set_online(last, false);
        let exit = ejection(attached);
        set_online(last, true);
        assert!(exit.wants_restart() && exit.by_hotplug(), "{exit:?}");
    }
}

#[test]
fn stall_ejection_names_the_starved_task() {
    let Some((host, _turn)) = here() else { return };
    let script = "while :; do sleep 0.01; done";
    let mut victim = Command::new("sh").args(["-c", script]).spawn().expect("a shell");
    let attached = load_tuned(&format!("fault = 2\nvictim = {}", victim.id()), &host).unwrap();
    let exit = ejection(attached);
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert_eq!((exit.kind, exit.reason.as_str()), (1026, "runnable task stall"));
    let expected = format!("[{}] failed to run for 2.", victim.id());
    assert!(exit.message.contains(&expected) || exit.message.contains("failed to run for 3."), "{}", exit.message);
}

#[test]
fn data_sections_are_readable_while_a_scheduler_runs() {
    let Some((host, _turn)) = here() else { return };
    let attached = load_faulty("none", &host).unwrap();
    work(3, "1");
    let bss = attached.section(".bss").unwrap();
    assert!(u64::from_ne_bytes(bss[..8].try_into().unwrap()) > 10, "tasks were queued: {bss:?}");
    let error = attached.section(".data.none").unwrap_err().to_string();
    assert!(
        error.starts_with("the object has no data section `.data.none` (it has ") && error.contains(".data.exit"),
        "{error}"
    );
    assert_eq!(attached.detach().unwrap().kind, 64);
}

#[test]
fn programs_of_an_scx_style_object_are_called_before_attach() {
    let Some((host, _turn)) = here() else { return };
    let text = include_str!("schedulers/visitor.toml");
    let load_with = |text: &str| {
        let profile = Profile::from_toml("visitor.toml", text).expect("a profile");
        load(&Request { name: "visitor", object: VISITOR, profile: &profile, host: &host, measure: true })
    };
    let attached = load_with(text).unwrap();
    work(4, "1");
    assert_eq!(attached.exited().unwrap(), None);
    let variables = attached.section(".bss").unwrap();
    let words: Vec<u64> = variables.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect();
    let cpus = host.machine.topology.len() as u64;
    assert!(words.contains(&cpus) && words.contains(&(100 * cpus)), "each CPU is registered with its weight");
    let statistics = attached.statistics().unwrap();
    assert!(statistics.ops.iter().any(|op| op.op == "dispatch" && op.runs > 10), "{statistics:?}");
    assert_eq!(attached.detach().unwrap().kind, 64);

    // Without the calls of its profile, the scheduler itself reports the missing ones. The dump has the requested
    // length.
    let (constants, _) = text.split_once("[[call]]").unwrap();
    let exit = ejection(load_with(constants).unwrap());
    assert_eq!((exit.kind, exit.reason.as_str()), (1025, "scx_bpf_error"), "{exit:?}");
    assert_eq!(exit.message, format!("0 of {cpus} CPUs are registered"));
    // A failing call is an error of the profile, and nothing is attached.
    let twice = text.replace("{ machine = \"cpus-by-place\" }", "[0, 0]");
    let error = load_with(&twice).unwrap_err().to_string();
    assert_eq!(error, "visitor: visitor.toml:8: program `register_cpu` returned -22; expected 0");
    assert_eq!(sched_ext("state"), "disabled");
}

#[test]
fn verifier_rejection_has_reason_and_log() {
    let Some((host, _turn)) = here() else { return };
    let error = load_faulty("unverifiable", &host).unwrap_err();
    let LinkError::Scheduler(refused @ SchedulerError::Verifier { program, last_line, .. }) = &error else {
        panic!("{error}")
    };
    let log = refused.log().unwrap();
    assert_eq!((program.as_str(), last_line.as_str()), ("faulty_enqueue", "R1 invalid mem access 'scalar'"), "{log}");
    assert!(log.contains("processed "), "the log is complete");
    assert_eq!(sched_ext("state"), "disabled");
}

#[test]
fn loading_fails_while_another_scheduler_is_active() {
    let Some((host, _turn)) = here() else { return };
    let attached = load_policy("fifo", &host, false);
    let error = load_faulty("none", &host).unwrap_err();
    assert_eq!(error.to_string(), "scheduler `fifo` is active: stop the program that loaded it first");
    assert_eq!(attached.detach().unwrap().kind, 64);
}

#[test]
fn sysrq_ejects_the_scheduler() {
    let Some((host, _turn)) = here() else { return };
    let attached = load_policy("fifo", &host, false);
    fs::write("/proc/sysrq-trigger", "S").expect("a kernel with sysrq");
    let exit = ejection(attached);
    assert_eq!((exit.kind, exit.reason.as_str()), (67, "disabled by sysrq-S"));
}

fn set_online(cpu: usize, online: bool) {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    fs::write(&path, if online { "1" } else { "0" }).unwrap_or_else(|error| panic!("{path}: {error}"));
}

#[test]
fn offlining_a_cpu_requests_a_restart() {
    let Some((host, _turn)) = here() else { return };
    let last = host.machine.topology.len() - 1;
    if last == 0 {
        skip::skip("one CPU only");
        return;
    }
    let attached = load_faulty("none", &host).unwrap();
    set_online(last, false);
    let exit = ejection(attached);
    assert_eq!((exit.kind, exit.code), (66, 1 << 48 | 1 << 32), "{exit:?}");
    assert_eq!(exit.message, format!("cpu {last} going offline, exiting scheduler"));
    assert!(exit.wants_restart() && exit.by_hotplug());

    // The tables of `host` are out of date now, which the kernel notices at attach.
    let late = load_faulty("none", &host).unwrap();
    let exit = ejection(late);
    assert!(exit.wants_restart() && exit.kind == 66, "{exit:?}");
    let fresh = load_faulty("none", &Host::read().unwrap()).unwrap();
    assert_eq!(fresh.detach().unwrap().kind, 64);
    set_online(last, true);
}

/// CPU 1 of 4 goes offline: CPU numbers then have a gap, also in the tables of a scheduler loaded meanwhile.
#[test]
fn schedulers_are_loaded_while_a_cpu_in_the_middle_is_offline() {
    let Some((host, _turn)) = here() else { return };
    if host.machine.topology.len() < 3 {
        skip::skip("fewer than three CPUs");
        return;
    }
    let attached = load_policy("fifo", &host, false);
    set_online(1, false);
    let exit = ejection(attached);
    assert!(exit.wants_restart() && exit.by_hotplug(), "{exit:?}");
    let gap = Host::read().unwrap();
    assert_eq!(
        (gap.machine.topology.len(), gap.machine.offline.to_string()),
        (host.machine.topology.len(), "1".into())
    );
    for name in ["fifo", "bfs"] {
        let attached = load_policy(name, &gap, false);
        work(6, "1");
        assert_eq!(attached.exited().unwrap(), None, "{name}");
        assert_eq!(attached.detach().unwrap().kind, 64, "{name}");
    }
    let attached = load_policy("bfs", &gap, false);
    set_online(1, true);
    let exit = ejection(attached);
    assert_eq!(exit.message, "CPU 1 was offline when bfs was loaded");
    assert!(exit.wants_restart(), "{exit:?}");
    assert_eq!(Host::read().unwrap().machine, host.machine);
}

#[test]
fn bfs_stays_loaded_during_hotplug_of_all_but_one_cpu() {
    let Some((host, _turn)) = here() else { return };
    let attached = load_policy("bfs", &host, false);
    let busy = thread::spawn(|| work(6, "6"));
    for _ in 0..3 {
        for online in [false, true] {
            for cpu in 1..host.machine.topology.len() {
                set_online(cpu, online);
                thread::sleep(Duration::from_millis(50));
            }
        }
    }
    busy.join().unwrap();
    assert_eq!(attached.exited().unwrap(), None);
    assert_eq!(attached.detach().unwrap().kind, 64);
}

#[test]
fn bfs_requests_a_restart_when_an_unknown_cpu_comes_online() {
    let Some((host, _turn)) = here() else { return };
    let last = host.machine.topology.len() - 1;
    if last == 0 {
        skip::skip("one CPU only");
        return;
    }
    set_online(last, false);
    let attached = load_policy("bfs", &Host::read().unwrap(), false);
    set_online(last, true);
    let exit = ejection(attached);
    assert!(exit.wants_restart() && exit.by_hotplug() && exit.kind == 65, "{exit:?}");
    assert_eq!(exit.message, format!("CPU {last} was offline when bfs was loaded"));
    assert_eq!(load_policy("bfs", &Host::read().unwrap(), false).detach().unwrap().kind, 64);
}

/// Not a test by itself, but the process that `killing_the_loader_unloads_its_scheduler` kills. Run by hand, it keeps
/// the policy named by `SCHEDULER` loaded.
#[test]
#[ignore = "it waits to be killed"]
fn helper_process_that_loads_a_scheduler_and_waits() {
    let Some((host, _turn)) = here() else { return };
    let name = env::var("SCHEDULER").unwrap_or_else(|_| "bfs".into());
    let _attached = load_policy(&name, &host, false);
    println!("loaded");
    std::io::stdout().flush().unwrap();
    thread::sleep(Duration::from_secs(600));
}

#[test]
fn killing_the_loader_unloads_its_scheduler() {
    let Some((_host, _turn)) = here() else { return };
    let mut loader = Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "helper_process_that_loads_a_scheduler_and_waits", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("this very program");
    let lines = BufReader::new(loader.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("loaded")));
    assert_eq!((sched_ext("state"), sched_ext("root/ops")), ("enabled".into(), "bfs".into()));
    loader.kill().unwrap();
    assert_eq!(loader.wait().unwrap().signal(), Some(9));
    let began = Instant::now();
    while sched_ext("state") != "disabled" {
        assert!(began.elapsed() < Duration::from_secs(20), "still {}", sched_ext("state"));
        thread::sleep(Duration::from_millis(20));
    }
}
