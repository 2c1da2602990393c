// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program, with a real mount. Where FUSE cannot be used, the tests say so and pass.

use crate::common::Random;
use crate::common::program::{Fixture, IXFS, can_mount, ixfs};
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn status(place: &Path) -> serde_json::Value {
    let output = ixfs(&["status", "--format", "json", place.to_str().unwrap()]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn files_survive_a_clean_unmount() {
    if !can_mount() {
        return;
    }
    let mut fixture = Fixture::new("16M");
    fixture.mount("always");
    let mnt = fixture.mnt();
    fs::create_dir(mnt.join("dir")).unwrap();
    fs::write(mnt.join("dir/file"), vec![5; 300_000]).unwrap();
    fs::hard_link(mnt.join("dir/file"), mnt.join("link")).unwrap();
    std::os::unix::fs::symlink("dir/file", mnt.join("symlink")).unwrap();
    fs::set_permissions(mnt.join("link"), fs::Permissions::from_mode(0o640)).unwrap();
    let mut sparse = File::create(mnt.join("sparse")).unwrap();
    sparse.seek(SeekFrom::Start(1 << 20)).unwrap();
    sparse.write_all(b"end").unwrap();
    drop(sparse);
    assert!(status(&mnt)["memory_used_bytes"].as_u64().unwrap() > 300_000);
    fixture.stop();
    fixture.check(0);
    fixture.mount("always");
    assert_eq!(fs::read(mnt.join("symlink")).unwrap(), vec![5; 300_000]);
    let found = fs::metadata(mnt.join("dir/file")).unwrap();
    assert_eq!((found.nlink(), found.mode() & 0o777), (2, 0o640));
    let sparse = fs::metadata(mnt.join("sparse")).unwrap();
    assert_eq!((sparse.len(), sparse.blocks()), ((1 << 20) + 3, 8));
    fixture.stop();
}

#[test]
fn removed_open_file_can_be_used_until_it_is_closed() {
    if !can_mount() {
        return;
    }
    let mut fixture = Fixture::new("16M");
    fixture.mount("always");
    let path = fixture.mnt().join("file");
    let file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
    file.write_all_at(&[7; 100_000], 0).unwrap();
    fs::remove_file(&path).unwrap();
    file.write_all_at(b"more", 100_000).unwrap();
    let mut out = [0; 4];
    file.read_exact_at(&mut out, 100_000).unwrap();
    assert_eq!(&out, b"more");
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    drop(file);
    let begin = Instant::now();
    // The kernel releases the inode in the background.
    while status(&fixture.mnt())["memory_used_bytes"].as_u64().unwrap() > 10_000 {
        assert!(begin.elapsed() < Duration::from_secs(10), "the memory of a removed file is not freed");
    }
    fixture.stop();
}

/// Names that the load below replaces in turn.
const SLOTS: u64 = 64;

/// Replaces files one after the other as programs do that must not lose the old content before they have the new one:
/// write a new file, `fsync` it, rename it, `fsync` the directory. Ends when the server has been killed; returns the
/// number of the first file whose replacement was not acknowledged.
fn replace_files(mnt: &Path, mut number: u64) -> u64 {
    let replace = |number: u64| -> std::io::Result<()> {
        let mut file = File::create(mnt.join("new"))?;
        file.write_all(&content(number))?;
        file.sync_all()?;
        fs::rename(mnt.join("new"), mnt.join(format!("file{}", number % SLOTS)))?;
        File::open(mnt)?.sync_all()
    };
    loop {
        if let Err(error) = replace(number) {
            let killed = [libc::ENOTCONN, libc::ECONNABORTED].map(Some).contains(&error.raw_os_error());
            assert!(killed, "file {number}: {error}");
            return number;
        }
        number += 1;
    }
}

#[test]
fn replaced_files_survive_sigkill_under_load() {
    if !can_mount() {
        return;
    }
    let rounds = std::env::var("IXFS_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let mut fixture = Fixture::new("4M");
    // The first file that may be lost: those before it were acknowledged.
    let mut next = 0;
    let mut random = Random(23);
    for round in 0..rounds {
        fixture.mount("always");
        let mnt = fixture.mnt();
        for slot in 0..SLOTS.min(next) {
            let newest = next - 1 - (next - 1 - slot) % SLOTS;
            let found = fs::read(mnt.join(format!("file{slot}"))).unwrap_or_default();
            // The replacement that was in progress may have been made durable before it was acknowledged.
            let whole = found == content(newest) || next % SLOTS == slot && found == content(next);
            assert!(whole, "round {round}: file {newest} is lost, {} bytes are found instead", found.len());
        }
        // A file that was renamed without an acknowledgement is not acknowledged by its survival: it is written again.
        let writer = std::thread::spawn({
            let mnt = mnt.clone();
            move || replace_files(&mnt, next)
        });
        std::thread::sleep(Duration::from_micros(1000 + random.below(200_000)));
        fixture.kill();
        next = writer.join().unwrap();
        fixture.detach();
    }
    assert!(next > 0);
    fixture.check(0);
    println!("{rounds} kills, {next} files replaced");
}

fn content(number: u64) -> Vec<u8> {
    (0..500 + number % 7 * 1000).map(|at| (at * 31 + number * 7) as u8).collect()
}

#[test]
fn changes_without_fsync_are_logged_within_the_loss_window() {
    if !can_mount() {
        return;
    }
    let mut fixture = Fixture::new("16M");
    fixture.mount("everysec");
    fs::write(fixture.mnt().join("file"), b"content").unwrap();
    let begin = Instant::now();
    while status(&fixture.mnt())["loss_window_ns"] != 0 {
        assert!(begin.elapsed() < Duration::from_secs(20), "the server never logs by itself");
        std::thread::sleep(Duration::from_millis(50));
    }
    fixture.kill();
    fixture.detach();
    fixture.mount("everysec");
    assert_eq!(fs::read(fixture.mnt().join("file")).unwrap(), b"content");
    fixture.stop();
}

#[test]
fn archived_epoch_is_a_read_only_directory_and_streams_incrementally() {
    if !can_mount() {
        return;
    }
    let mut fixture = Fixture::new("16M");
    fixture.mount("always");
    let (mnt, store) = (fixture.mnt(), fixture.store());
    let path = |text: &str| fixture.directory.path().join(text).to_str().unwrap().to_owned();
    fs::write(mnt.join("file"), vec![1; 1 << 20]).unwrap();
    let archive = |name: &str| {
        let done = ixfs(&["archive", "--name", name, mnt.to_str().unwrap()]);
        assert!(done.status.success(), "{done:?}");
    };
    archive("2026/1128");
    fs::write(mnt.join("file"), b"changed").unwrap();
    fs::write(mnt.join("new"), b"new").unwrap();
    archive("2026/1129");
    fs::write(mnt.join("file"), b"later").unwrap();
    assert_eq!(fs::read(mnt.join("archive/2026/1128/file")).unwrap(), vec![1; 1 << 20]);
    assert_eq!(fs::read(mnt.join("archive/2026/1129/file")).unwrap(), b"changed");
    let days: Vec<_> =
        fs::read_dir(mnt.join("archive/2026")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(days, ["1128", "1129"]);
    let refused = fs::write(mnt.join("archive/2026/1128/file"), b"x").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EROFS));
    let listed = fs::read_dir(&mnt).unwrap().any(|entry| entry.unwrap().file_name() == "archive");
    assert!(!listed);

    let export = |arguments: &[&str], to: &str| {
        let output = Command::new(IXFS).args(["archive", "--export"]).args(arguments).arg(&mnt).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        fs::write(to, &output.stdout).unwrap();
        output.stdout.len()
    };
    let (full, delta, copy) = (path("full"), path("delta"), path("copy"));
    assert!(export(&["2026/1128"], &full) > 1 << 20);
    assert!(export(&["2026/1129", "--since", "2026/1128"], &delta) < 10_000);
    assert!(ixfs(&["mkfs", "--size", "16M", &copy]).status.success());
    assert_eq!(ixfs(&["archive", "--import", &delta, &copy]).status.code(), Some(2), "its base is missing");
    for stream in [&full, &delta] {
        let done = ixfs(&["archive", "--import", stream, &copy]);
        assert!(done.status.success(), "{done:?}");
    }
    fixture.stop();
    let dump = |arguments: &[&str]| String::from_utf8(ixfs(arguments).stdout).unwrap();
    let original = dump(&["dump", "--format", "json", "--epoch", "2026/1129", store.to_str().unwrap()]);
    assert_eq!(dump(&["dump", "--format", "json", &copy]), original);
    assert!(original.contains("\"/new\""));
    let mut damaged = fs::read(&full).unwrap();
    damaged[500_000] ^= 1;
    fs::write(&full, damaged).unwrap();
    assert_eq!(ixfs(&["archive", "--import", &full, &copy]).status.code(), Some(2));
    fixture.check(0);
}

#[test]
fn sigterm_waits_for_programs_and_a_second_one_does_not() {
    if !can_mount() {
        return;
    }
    let mut fixture = Fixture::new("1M");
    fixture.mount("always");
    let file = File::create(fixture.mnt().join("file")).unwrap();
    fixture.signal(rustix::process::Signal::TERM);
    std::thread::sleep(Duration::from_millis(400));
    assert!(fixture.server.as_mut().unwrap().try_wait().unwrap().is_none(), "the file is open");
    fixture.signal(rustix::process::Signal::TERM);
    std::thread::sleep(Duration::from_millis(400));
    assert!(fs::read_dir(fixture.mnt()).unwrap().next().is_none(), "the directory is detached");
    file.write_all_at(b"last", 0).unwrap();
    drop(file);
    let status = fixture.server.take().unwrap().wait().unwrap();
    assert!(status.success(), "{status:?}");
    fixture.check(0);
    let dump = String::from_utf8(ixfs(&["dump", fixture.store().to_str().unwrap()]).stdout).unwrap();
    assert!(dump.contains(" 4 /file"), "{dump}");
}

#[test]
fn background_server_closes_the_standard_streams_of_its_starter() {
    if !can_mount() {
        return;
    }
    let fixture = Fixture::new("1M");
    let log = fixture.directory.path().join("log");
    // `output` returns when both pipes are closed.
    let mounted =
        Command::new(IXFS).args(["mount", "--log"]).args([&log, &fixture.store(), &fixture.mnt()]).output().unwrap();
    assert!(mounted.status.success(), "{mounted:?}");
    fs::write(fixture.mnt().join("file"), b"x").unwrap();
    rustix::mount::unmount(fixture.mnt(), rustix::mount::UnmountFlags::empty()).unwrap();
    let begin = Instant::now();
    while ixfs(&["check", fixture.store().to_str().unwrap()]).status.code() != Some(0) {
        assert!(begin.elapsed() < Duration::from_secs(20), "the server does not end after umount");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(log.exists());
}

#[test]
fn wrong_usage_gives_one_error_and_status_2() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, vec![0; 20_000]).unwrap();
    let file = file.to_str().unwrap();
    for arguments in [
        &["check", file][..],
        &["check", "nowhere"],
        &["status", file],
        &["mount", file, "nowhere"],
        &["mkfs", "--size", "1", "nowhere"],
        &["mkfs", "--size", "1Q", "nowhere"],
        &["mkfs", file],
        &["serve", file, "--tcp", "192.0.2.1:564"],
        &["serve", file],
        &["dump", file],
        &["archive", "--list", file],
        &["bench", "--only", "nothing", "."],
    ] {
        let output = ixfs(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{arguments:?}");
    }
    assert!(!Path::new("nowhere").exists());
}

#[test]
fn check_waits_for_the_last_snapshot_after_umount_and_refuses_a_mounted_store() {
    if !can_mount() {
        return;
    }
    let mut fixture = Fixture::new("64M");
    fixture.mount("always");
    // Enough bytes that the snapshot at the end takes longer than the start of `ixfs check`.
    fs::write(fixture.mnt().join("file"), vec![3; 48 << 20]).unwrap();
    let refused = ixfs(&["check", fixture.store().to_str().unwrap()]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("mounted at {}", fixture.mnt().display())), "{said}");
    rustix::mount::unmount(fixture.mnt(), rustix::mount::UnmountFlags::empty()).unwrap();
    assert!(fixture.check(0).contains("sound: 2 inodes, 12288 pages"));
    let mode = fs::metadata(fixture.store()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "the store has the files of all users");
    assert!(fixture.server.take().unwrap().wait().unwrap().success());
}

#[test]
fn reader_that_has_enough_is_no_error() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    assert!(ixfs(&["mkfs", "--size", "1M", store.to_str().unwrap()]).status.success());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    for command in ["dump", "status", "check"] {
        let mut started = Command::new(IXFS);
        started.arg(command).arg(&store).stdout(writer.try_clone().unwrap());
        let output = started.stderr(std::process::Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{command}: {output:?}");
    }
}

#[test]
fn bench_measures_a_command_and_unmounts_when_it_is_interrupted() {
    if !can_mount() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("source"), vec![1; 10_000]).unwrap();
    let bench = |command: &str| {
        let mut bench = Command::new(IXFS);
        bench.args(["bench", "--only", "none", "--size", "16M", "--slow-rounds", "2", "--format", "json"]);
        bench.args(["--tree", tree.to_str().unwrap(), "--command", command]).arg(directory.path());
        bench
    };
    let done = bench("cat source source > product").output().unwrap();
    let row: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
    assert_eq!((&row["rounds"], row["ratio"]["floor"].is_null()), (&2.into(), true), "{row}");
    assert!(row["ratio"]["tmpfs"]["median"].as_f64().unwrap() > 0.0, "{row}");

    let started = directory.path().join("started");
    let mut running = bench(&format!("touch {}; sleep 0.3", started.display()))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while !started.exists() {
        assert!(running.try_wait().unwrap().is_none(), "bench ends before its command starts");
        std::thread::sleep(Duration::from_millis(10));
    }
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(running.id() as i32).unwrap(),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(2));
    let left: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "only the tree and the file of the command are left: {left:?}");
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(directory.path().to_str().unwrap()), "{mounts}");
}
