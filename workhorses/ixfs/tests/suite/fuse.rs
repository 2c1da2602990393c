// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program, with a real mount. Where FUSE cannot be used, the tests say so and pass.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const IXFS: &str = env!("CARGO_BIN_EXE_ixfs");

fn can_mount() -> bool {
    let can = rustix::process::geteuid().is_root() && File::options().write(true).read(true).open("/dev/fuse").is_ok();
    if !can {
        skip::skip("mounting needs /dev/fuse and user 0");
    }
    can
}

fn ixfs(arguments: &[&str]) -> Output {
    Command::new(IXFS).args(arguments).output().expect("the program runs")
}

/// A store and a directory to mount it at; unmounted when dropped.
struct Fixture {
    directory: tempfile::TempDir,
    server: Option<Child>,
}

impl Fixture {
    fn new(size: &str) -> Fixture {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("mnt")).unwrap();
        let fixture = Fixture { directory, server: None };
        let made = ixfs(&["mkfs", "--size", size, fixture.store().to_str().unwrap()]);
        assert!(made.status.success(), "{made:?}");
        fixture
    }

    fn store(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    fn mnt(&self) -> PathBuf {
        self.directory.path().join("mnt")
    }

    fn mount(&mut self, durability: &str) {
        let server = Command::new(IXFS)
            .args(["mount", "--foreground", "--durability", durability])
            .args([self.store(), self.mnt()])
            .env("IXFS_READY", "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        self.server = Some(server);
        let mut line = [0; 6];
        let output = self.server.as_mut().unwrap().stdout.as_mut().unwrap();
        output.read_exact(&mut line).expect("the server says that it is ready");
        assert_eq!(&line, b"ready\n");
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let id = self.server.as_ref().unwrap().id() as i32;
        rustix::process::kill_process(rustix::process::Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// Ends the server cleanly.
    fn stop(&mut self) {
        self.signal(rustix::process::Signal::TERM);
        let status = self.server.take().unwrap().wait().unwrap();
        assert!(status.success(), "{status:?}");
    }

    /// Kills the server. The dead mount stays, so that programs get errors.
    fn kill(&mut self) {
        self.signal(rustix::process::Signal::KILL);
        self.server.take().unwrap().wait().unwrap();
    }

    /// Takes a dead mount away.
    fn detach(&self) {
        let _ = rustix::mount::unmount(self.mnt(), rustix::mount::UnmountFlags::DETACH);
    }

    fn check(&self, expected: i32) -> String {
        let checked = ixfs(&["check", self.store().to_str().unwrap()]);
        let text = String::from_utf8(checked.stdout).unwrap();
        assert_eq!(checked.status.code(), Some(expected), "{text}");
        text
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
            let _ = rustix::mount::unmount(self.mnt(), rustix::mount::UnmountFlags::DETACH);
        }
    }
}

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

#[test]
fn synced_files_survive_sigkill_under_load() {
    if !can_mount() {
        return;
    }
    let rounds = std::env::var("IXFS_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let mut fixture = Fixture::new("32M");
    let mut synced = 0;
    for round in 0..rounds {
        fixture.mount("always");
        let mnt = fixture.mnt();
        for number in 0..synced {
            let found = fs::read(mnt.join(format!("file{number}")));
            assert_eq!(found.unwrap_or_default(), content(number), "round {round}: file{number} is lost");
        }
        let writer = std::thread::spawn({
            let mnt = mnt.clone();
            move || {
                let mut number = synced;
                while let Ok(mut file) = File::create(mnt.join(format!("file{number}"))) {
                    if file.write_all(&content(number)).is_err() || file.sync_all().is_err() {
                        break;
                    }
                    number += 1;
                }
                number
            }
        });
        std::thread::sleep(Duration::from_millis(30 + 37 * (round * 7 % 5)));
        fixture.kill();
        synced = writer.join().unwrap();
        fixture.detach();
    }
    assert!(synced > 0);
    fixture.check(0);
    println!("{rounds} kills, {synced} files");
}

fn content(number: u64) -> Vec<u8> {
    (0..500 + number % 7 * 1000).map(|at| (at * 31 + number) as u8).collect()
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
    ] {
        let output = ixfs(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{arguments:?}");
    }
    assert!(!Path::new("nowhere").exists());
}
