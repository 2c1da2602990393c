// SPDX-License-Identifier: GPL-2.0-only
//! A directory stands in for `/sys`: its files keep what is written to them.

use super::*;
use std::fs;
use std::time::SystemTime;
use tempfile::TempDir;

/// Four CPUs: CPU 0 has no `online` file, CPU 3 is offline.
pub(super) fn machine() -> TempDir {
    let root = TempDir::new().unwrap();
    let write = |name: &str, text: &str| {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("devices/system/cpu/online", "0-2\n");
    write("devices/system/cpu/present", "0-3\n");
    for (cpu, online) in [(1, "1\n"), (2, "1\n"), (3, "0\n")] {
        write(&format!("devices/system/cpu/cpu{cpu}/online"), online);
    }
    write("power/state", "freeze mem disk\n");
    write("power/wakeup_count", "17\n");
    write("class/rtc/rtc0/wakealarm", "\n");
    root
}

pub(super) fn plan(line: &str) -> FaultPlan {
    line.parse().unwrap()
}

pub(super) fn online(root: &TempDir) -> String {
    let state = |cpu: u32| fs::read_to_string(root.path().join(format!("devices/system/cpu/cpu{cpu}/online"))).unwrap();
    (1..4).map(|cpu| state(cpu).trim().to_owned()).collect()
}

/// Waits until CPUs 1 to 3 have this state.
fn wait_for(root: &TempDir, expected: &str) {
    let began = Instant::now();
    while online(root) != expected {
        assert!(began.elapsed() < Duration::from_secs(20), "{}, not {expected}", online(root));
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn cpus_are_hotplugged_on_time_and_restored_at_the_end() {
    let root = machine();
    let plan = plan("cpu1:offline@20ms,cpu2:offline@20ms,cpu3:online@40ms,cpu1:online@60ms,cpu1:offline@1h");
    let faults = Faults::prepare_in(root.path(), &plan).unwrap();
    let began = SystemTime::now();
    faults.begin();
    wait_for(&root, "101");
    for (cpu, due_ms) in [(2, 20), (3, 40), (1, 60)] {
        let path = root.path().join(format!("devices/system/cpu/cpu{cpu}/online"));
        let written = fs::metadata(path).unwrap().modified().unwrap().duration_since(began).unwrap();
        // File systems use the time of the last tick, which may be 10 ms ago.
        assert!(written >= Duration::from_millis(due_ms - 10), "CPU {cpu} after {written:?}");
    }
    let Carried { done, failed, back } = faults.end().unwrap();
    assert_eq!((back.to_string(), failed.is_none(), online(&root)), ("2-3".into(), true, "110".into()));
    let due: Vec<(String, bool)> = done.iter().map(|one| (one.fault.to_string(), one.began >= one.fault.at)).collect();
    let expected = ["cpu1:offline@20ms", "cpu2:offline@20ms", "cpu3:online@40ms", "cpu1:online@60ms"];
    assert_eq!(due, expected.map(|fault| (fault.to_owned(), true)), "the last fault was not due");
}

#[test]
fn dropping_faults_restores_cpus() {
    let root = machine();
    let faults = Faults::prepare_in(root.path(), &plan("cpu1-2:offline@0s,cpu1:online@1h")).unwrap();
    faults.begin();
    wait_for(&root, "000");
    drop(faults);
    assert_eq!(online(&root), "110");
}

#[test]
fn faults_do_nothing_before_begin() {
    let root = machine();
    let faults = Faults::prepare_in(root.path(), &plan("cpu1:offline@0s")).unwrap();
    thread::sleep(Duration::from_millis(30));
    assert_eq!(online(&root), "110");
    let Carried { done, failed, back } = faults.end().unwrap();
    assert!(done.is_empty() && back.is_empty() && failed.is_none());
}

#[test]
fn failed_fault_is_reported_and_cpus_are_restored() {
    let root = machine();
    let faults = Faults::prepare_in(root.path(), &plan("cpu1:offline@0s,cpu2:offline@20ms")).unwrap();
    // As if the kernel refused: the file is replaced by a directory.
    let path = root.path().join("devices/system/cpu/cpu2/online");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    faults.begin();
    while !faults.worker.as_ref().expect("the thread was started").is_finished() {
        thread::sleep(Duration::from_millis(1));
    }
    fs::remove_dir(&path).unwrap();
    fs::write(&path, "1").unwrap();
    let Carried { done, failed, back } = faults.end().unwrap();
    assert_eq!(done.len(), 1);
    let failed = failed.expect("CPU 2 could not go offline").to_string();
    assert!(failed.starts_with("cpu2:offline@20ms: ") && failed.contains("cpu2/online: "), "{failed}");
    assert_eq!((back.to_string(), online(&root)), ("1".into(), "110".into()));
}

#[test]
fn suspend_sets_the_wake_alarm_first() {
    let root = machine();
    let sysfs = Sysfs::new(root.path());
    sysfs.suspend(Nanos::from_secs(3)).unwrap();
    let read = |name: &str| fs::read_to_string(root.path().join(name)).unwrap();
    assert_eq!(
        [read("class/rtc/rtc0/wakealarm"), read("power/wakeup_count"), read("power/state")],
        ["+3", "17", "mem"]
    );
}

#[test]
fn unsupported_faults_are_rejected_by_prepare() {
    let check = |line: &str, change: &dyn Fn(&Path)| {
        let root = machine();
        change(root.path());
        let error = Faults::prepare_in(root.path(), &plan(line)).expect_err(line).to_string();
        error.replace(&*root.path().to_string_lossy(), "/sys")
    };
    let nothing: &dyn Fn(&Path) = &|_| ();
    let gone = |name: &'static str| move |root: &Path| fs::remove_file(root.join(name)).unwrap();
    let only = |root: &Path| fs::write(root.join("devices/system/cpu/online"), "2\n").unwrap();
    let disk = |root: &Path| fs::write(root.join("power/state"), "disk\n").unwrap();
    type Case<'a> = (&'a str, &'a dyn Fn(&Path), &'a str);
    let cases: [Case<'_>; 8] = [
        ("cpu4:offline@1s", nothing, "cpu4:offline@1s: this machine has CPUs 0-3 and no CPU 4"),
        ("cpu3:offline@1s", nothing, "cpu3:offline@1s: CPU 3 of this machine is already offline at the start"),
        (
            "cpu1:offline@1s",
            &gone("devices/system/cpu/cpu1/online"),
            "cpu1:offline@1s: CPU 1 has no /sys/devices/system/cpu/cpu1/online: this kernel cannot take it \
             away, or was built without CONFIG_HOTPLUG_CPU",
        ),
        ("cpu2:offline@1s", &only, "cpu2:offline@1s: CPU 2 is the only CPU that is still online"),
        (
            "suspend@1s+2s",
            &disk,
            "suspend@1s+2s: this machine cannot sleep: /sys/power/state offers `disk`, not mem or \
             freeze",
        ),
        (
            "suspend@1s+2s",
            &gone("power/state"),
            "suspend@1s+2s: this machine cannot sleep: /sys/power/state offers nothing, not mem or \
             freeze",
        ),
        (
            "suspend@1s+2s",
            &gone("class/rtc/rtc0/wakealarm"),
            "suspend@1s+2s: nothing would wake this machine: /sys/class/rtc/rtc0/wakealarm: \
             No such file or directory (os error 2)",
        ),
        (
            "suspend@1s+500ms",
            nothing,
            "suspend@1s+500ms: a real machine is woken by its real-time clock: expected a length in \
             whole seconds",
        ),
    ];
    for (line, change, expected) in cases {
        assert_eq!(check(line, change), expected);
    }
}
