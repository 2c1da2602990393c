// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program `ixfs` with a store of its own, mounted or served over 9P.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

pub const IXFS: &str = env!("CARGO_BIN_EXE_ixfs");

/// Whether this process may mount; says that the test is skipped if not.
pub fn can_mount() -> bool {
    let can = rustix::process::geteuid().is_root() && File::options().write(true).read(true).open("/dev/fuse").is_ok();
    if !can {
        skip::skip("mounting needs /dev/fuse and user 0");
    }
    can
}

/// Runs the program to its end.
pub fn ixfs(arguments: &[&str]) -> Output {
    Command::new(IXFS).args(arguments).output().expect("the program runs")
}

/// A store and a directory to mount it at; unmounted when dropped.
pub struct Fixture {
    pub directory: tempfile::TempDir,
    pub server: Option<Child>,
}

impl Fixture {
    pub fn new(size: &str) -> Fixture {
        Fixture::with(&["--size", size])
    }

    /// A store that `mkfs` makes with these options.
    pub fn with(options: &[&str]) -> Fixture {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("mnt")).unwrap();
        let fixture = Fixture { directory, server: None };
        let made = ixfs(&[&["mkfs"], options, &[fixture.store().to_str().unwrap()]].concat());
        assert!(made.status.success(), "{made:?}");
        fixture
    }

    /// The store's path.
    pub fn store(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    /// The directory to mount at.
    pub fn mnt(&self) -> PathBuf {
        self.directory.path().join("mnt")
    }

    /// Mounts the store through FUSE.
    pub fn mount(&mut self, durability: &str) {
        let (store, mnt) = (self.store(), self.mnt());
        let command = ["mount", "--durability", durability].map(OsStr::new);
        self.start(&[&command[..], &[store.as_ref(), mnt.as_ref()]].concat());
    }

    /// The socket of [`serve`](Self::serve).
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// Serves the store over 9P at a unix socket.
    pub fn serve(&mut self) {
        let (store, socket) = (self.store(), self.socket());
        self.start(&["serve".as_ref(), store.as_ref(), "--unix".as_ref(), socket.as_ref()]);
    }

    fn start(&mut self, arguments: &[&OsStr]) {
        let mut command = Command::new(IXFS);
        command.args(arguments).arg("--foreground").env("IXFS_READY", "1").stdout(Stdio::piped());
        self.server = Some(command.spawn().unwrap());
        let mut line = [0; 6];
        let output = self.server.as_mut().unwrap().stdout.as_mut().unwrap();
        output.read_exact(&mut line).expect("the server says that it is ready");
        assert_eq!(&line, b"ready\n");
    }

    /// Sends a signal to the server.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let id = self.server.as_ref().unwrap().id() as i32;
        rustix::process::kill_process(rustix::process::Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// Ends the server cleanly.
    pub fn stop(&mut self) {
        self.signal(rustix::process::Signal::TERM);
        let status = self.server.take().unwrap().wait().unwrap();
        assert!(status.success(), "{status:?}");
    }

    /// Kills the server. The dead mount stays, so that programs get errors.
    pub fn kill(&mut self) {
        self.signal(rustix::process::Signal::KILL);
        self.server.take().unwrap().wait().unwrap();
    }

    /// Takes a dead mount away.
    pub fn detach(&self) {
        let _ = rustix::mount::unmount(self.mnt(), rustix::mount::UnmountFlags::DETACH);
    }

    /// Runs `ixfs check`, which must end with this status, and returns what it prints.
    pub fn check(&self, expected: i32) -> String {
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
