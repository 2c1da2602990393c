// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ixfs mount` and `ixfs serve`.

use super::arguments::{Mount, Running, Serve};
use super::{DAMAGED, make, open};
use anyhow::{Context, bail};
use ixfs::control::{self, Interface};
use ixfs::server::Server;
use ixfs::store::{Recovery, Store};
use ixfs::{fuse, ninep};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Set in the environment of a server in the background: it prints a line when it is ready.
const READY: &str = "IXFS_READY";

/// Runs this command again in the background and returns when it serves.
fn background() -> anyhow::Result<ExitCode> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .arg("--foreground")
        .env(READY, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .context("starting the server in the background")?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut line)?;
    }
    if line.trim() == "ready" {
        return Ok(ExitCode::SUCCESS);
    }
    let status = child.wait()?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(DAMAGED)))
}

/// Reports that the server serves, to the command in the foreground and to systemd. A server in the
/// background then lets go of the terminal or pipe that it was started from; messages go to the log file, if any.
fn ready(running: &Running) -> anyhow::Result<()> {
    if let Some(socket) = std::env::var_os("NOTIFY_SOCKET") {
        let _ = std::os::unix::net::UnixDatagram::unbound()?.send_to(b"READY=1", socket);
    }
    let in_background = std::env::var_os(READY).is_some();
    if in_background {
        println!("ready");
    }
    let log = match &running.log {
        Some(path) => {
            File::options().create(true).append(true).open(path).with_context(|| format!("{}", path.display()))?
        }
        None if in_background => File::options().write(true).open("/dev/null")?,
        None => return Ok(()),
    };
    if in_background {
        rustix::stdio::dup2_stdout(&log)?;
    }
    rustix::stdio::dup2_stderr(&log)?;
    Ok(())
}

fn start(store: &Path, size: Option<u64>, running: &Running) -> anyhow::Result<Arc<Server>> {
    match size {
        _ if store.exists() => {}
        Some(size) => make(store, size, None, 0)?,
        None => bail!("{}: no such store; create it with `ixfs mkfs`, or with --size of this command", store.display()),
    }
    let opened = Store::open(open(store)?).with_context(|| format!("{}", store.display()))?;
    report(store, &opened.2);
    Server::new(opened, running.durability.into()).with_context(|| format!("{}", store.display()))
}

fn report(store: &Path, recovery: &Recovery) {
    let store = store.display();
    if recovery.fallback {
        eprintln!(
            "ixfs: {store}: the newest snapshot is damaged; the one before and its log were used: nothing is lost"
        );
    }
    for path in &recovery.damaged_files {
        eprintln!("ixfs: {store}: {path} is damaged: reading the damaged part gives EIO");
    }
}

/// Ends the server: the last snapshot.
fn finish(server: &Server, store: &Path) -> ExitCode {
    match server.stop() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ixfs: {}: last snapshot: {error}", store.display());
            ExitCode::from(DAMAGED)
        }
    }
}

/// What is wrong where the kernel or the setuid helper refuses to mount.
fn cannot_mount(directory: &Path, error: std::io::Error) -> anyhow::Error {
    use std::io::ErrorKind::{NotFound, PermissionDenied};
    let hint = match error.kind() {
        PermissionDenied | NotFound => "; users other than 0 need /dev/fuse and fusermount3 (package fuse3)",
        _ => "",
    };
    anyhow::anyhow!("mounting at {}: {error}{hint}", directory.display())
}

/// `ixfs mount`.
pub fn mount(options: &Mount) -> anyhow::Result<ExitCode> {
    if !options.directory.is_dir() {
        bail!("{}: not a directory; expected an existing directory to mount at", options.directory.display());
    }
    if !options.running.foreground {
        return background();
    }
    let server = start(&options.store, options.size, &options.running)?;
    let source = options.store.canonicalize().unwrap_or_else(|_| options.store.clone());
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let mut session =
        fuse::mount(server.clone(), &source.to_string_lossy(), &options.directory, options.threads as usize)
            .map_err(|error| cannot_mount(&options.directory, error))?;
    let _control = control::listen(server.clone(), Interface::Fuse).context("control socket")?;
    let flusher = server.spawn_flusher()?;
    let mut unmounter = session.unmount_callable();
    let (directory, saver) = (options.directory.clone(), server.clone());
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        use rustix::mount::{UnmountFlags, unmount};
        let _ = signals.forever().next();
        while let Err(error) = unmount(&directory, UnmountFlags::empty()) {
            if error != rustix::io::Errno::BUSY {
                // Users other than 0 unmount through the setuid helper.
                let _ = unmounter.unmount();
                return;
            }
            // A program still uses the directory: save its data now, and do not wait for the program at the next
            // signal.
            let _ = saver.log_now();
            std::thread::sleep(Duration::from_millis(200));
            if signals.pending().next().is_some() {
                let _ = unmount(&directory, UnmountFlags::DETACH);
                return;
            }
        }
    })?;
    ready(&options.running)?;
    let ended = session.run();
    let code = finish(&server, &options.store);
    let _ = flusher.join();
    match ended {
        // After a lazy unmount the kernel ends the connection with ENODEV, which is no error here, or with ECONNABORTED
        // (2 of 200 times). Whether the last snapshot has all changes is in `code`.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::CONNABORTED.raw_os_error()) => {}
        ended => ended.context("talking to the kernel")?,
    }
    Ok(code)
}

/// `ixfs serve`.
pub fn serve(options: &Serve) -> anyhow::Result<ExitCode> {
    if let Some(address) = options.tcp
        && !address.ip().is_loopback()
        && !options.allow_remote
    {
        bail!(
            "--tcp {address}: other machines can reach it, and 9P over TCP has no authentication; say --allow-remote"
        );
    }
    if !options.running.foreground {
        return background();
    }
    let server = start(&options.store, options.size, &options.running)?;
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let mut sockets = Vec::new();
    if let Some(path) = &options.unix {
        let socket = ninep::listen::unix(server.clone(), path).with_context(|| format!("{}", path.display()))?;
        sockets.push(socket);
    }
    if let Some(address) = options.tcp {
        sockets.push(ninep::listen::tcp(server.clone(), address).with_context(|| format!("{address}"))?);
    }
    let _control = control::listen(server.clone(), Interface::NineP).context("control socket")?;
    let flusher = server.spawn_flusher()?;
    ready(&options.running)?;
    signals.forever().next();
    drop(sockets);
    let code = finish(&server, &options.store);
    let _ = flusher.join();
    Ok(code)
}
