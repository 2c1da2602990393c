// SPDX-License-Identifier: GPL-2.0-only
//! Requests to disks, in files of the directories that are named.

use super::*;

#[test]
fn requests_to_disks_are_executed_in_the_named_directory() {
    let directory = std::env::temp_dir().join(format!("weir-disks-{}", std::process::id()));
    fs::create_dir(&directory).unwrap();
    let disk = |name: &str, bytes| DiskDirectory { name: name.to_owned(), directory: directory.clone(), bytes };
    let text = r#"{"tasks": {"t": {"instance": 2, "loop": 10, "run": 5, "read": 8192,
        "write": {"disk": "sdb", "bytes": 100, "at": "sequential"}}}}"#;
    let disks = vec![disk("sdb", 16_384), disk("sda", 1 << 20)];
    let result = real(&rt_app(text), &Options { disks, ..options() });
    assert_eq!(result.end, End::Finished);
    let [sda, sdb] = &result.disks[..] else { panic!("two disks") };
    let counts = |disk: &measures::DiskMeasures| {
        (disk.name.clone(), [disk.reads, disk.writes, disk.read_bytes, disk.written_bytes], disk.latencies.count())
    };
    assert_eq!(counts(sda), ("sda".to_owned(), [20, 0, 20 * 8_192, 0], 20));
    assert_eq!(counts(sdb), ("sdb".to_owned(), [0, 20, 0, 20 * 4_096], 20), "lengths are rounded up to blocks");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "nothing is left behind");
    assert_eq!(sda.utilization_ppm(result.elapsed), None, "only latencies are known");
    fs::remove_dir(&directory).unwrap();
}

#[test]
fn unusable_directories_of_disks_are_errors_before_any_task_starts() {
    let workload = rt_app(r#"{"tasks": {"t": {"loop": 1, "read": {"disk": "sda", "bytes": 8192}}}}"#);
    let temporary = std::env::temp_dir();
    let error = |disks: &[(&str, &str, u64)]| {
        let disk = |&(name, directory, bytes): &(&str, &str, u64)| DiskDirectory {
            name: name.to_owned(),
            directory: directory.into(),
            bytes,
        };
        let options = Options { disks: disks.iter().map(disk).collect(), ..options() };
        execute(&workload, &options).unwrap_err().to_string()
    };
    let temporary = temporary.to_str().unwrap();
    assert_eq!(error(&[]), "w: uses disk sda; say in which directory its requests are executed: --disk sda=DIRECTORY");
    let twice = [("sda", temporary, 8_192), ("sda", temporary, 8_192)];
    assert_eq!(error(&twice), "disk sda has two directories; expected one");
    let unused = [("sda", temporary, 8_192), ("sdb", temporary, 8_192)];
    assert_eq!(error(&unused), "w: does not use disk sdb, for which a directory is given");
    let problems = [
        ("/nowhere", 8_192, "disk sda: cannot use the directory /nowhere: No such file or directory (os error 2)"),
        ("/proc/version", 8_192, "disk sda: cannot use the directory /proc/version: Not a directory (os error 20)"),
        (temporary, 4_096, "disk sda: a request has 8192 bytes, but the file has 4096; add ,size=BYTES to its --disk"),
    ];
    for (directory, bytes, expected) in problems {
        assert_eq!(error(&[("sda", directory, bytes)]), expected);
    }
    let full = error(&[("sda", temporary, 1 << 44)]);
    assert!(
        full.starts_with(&format!("disk sda: cannot make a file in {temporary}: No space left on device")),
        "{full}"
    );
    assert!(full.ends_with("; its file has 17592186044416 bytes, and ,size= asks for another length"), "{full}");
}

#[test]
fn wait_for_recorded_requests_sleeps_only_as_long_as_in_the_recording() {
    let sleeps = |slept| {
        let mut workload = rt_app(r#"{"tasks": {"t": {"loop": 1, "run": 10}}}"#);
        workload.devices.push("vda".to_owned());
        workload.tasks[0].script.push(workload::Op::AwaitRequests { device: workload::DeviceId(0), most: 0, slept });
        let result = real(&workload, &options());
        assert_eq!(result.end, End::Finished);
        result.tasks[0].sleeps
    };
    assert_eq!([sleeps(Nanos::ZERO), sleeps(Nanos::from_us(100))], [0, 1]);
}
