// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control socket of a running server: `ixfs status` and `ixfs archive` talk to it. One line in, one line of JSON
//! out.
//!
//! The socket lies in the user's runtime directory under the store's identity and belongs to the server's user alone.

use crate::server::{Server, now};
use crate::store::epochs;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How clients reach a running server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Interface {
    /// It is mounted through FUSE.
    #[serde(rename = "fuse")]
    Fuse,
    /// It listens for 9P clients.
    #[serde(rename = "9p")]
    NineP,
}

/// Longest request, in bytes.
const MAX_REQUEST: u64 = 256;

/// Where the server of the store with this identity listens.
pub fn socket_path(id: &[u8; 16]) -> PathBuf {
    let directory = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(directory) => PathBuf::from(directory),
        None if rustix::process::geteuid().is_root() => PathBuf::from("/run"),
        None => std::env::temp_dir(),
    };
    let name: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    directory.join(format!("ixfs-{name}.sock"))
}

/// Serves control requests until the process ends. The socket file is removed when the guard is dropped.
pub fn listen(server: Arc<Server>, interface: Interface) -> io::Result<Guard> {
    let path = socket_path(&server.store().id());
    // The store is locked, so a socket that exists belongs to a server that died.
    let _ = std::fs::remove_file(&path);
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(&path);
    rustix::process::umask(before);
    let listener = listener?;
    std::thread::Builder::new().name("control".to_owned()).spawn(move || {
        for stream in listener.incoming().flatten() {
            let server = server.clone();
            let _ = std::thread::Builder::new()
                .name("control".to_owned())
                .spawn(move || answer(&server, interface, stream));
        }
    })?;
    Ok(Guard(path))
}

/// Removes the socket file.
pub struct Guard(PathBuf);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn answer(server: &Arc<Server>, interface: Interface, mut stream: UnixStream) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    let mut line = String::new();
    let read = stream.try_clone().and_then(|half| BufReader::new(half.take(MAX_REQUEST)).read_line(&mut line));
    if read.is_ok() {
        let mut reply = respond(server, line.trim());
        if line.trim() == "status" {
            reply["interface"] = json!(interface);
        }
        let _ = writeln!(stream, "{reply}");
    }
}

/// Executes a request.
pub fn respond(server: &Arc<Server>, request: &str) -> Value {
    let (verb, argument) = request.split_once(' ').unwrap_or((request, ""));
    let done = |result: crate::store::Result<crate::server::Level>| match result {
        Ok(level) => json!({ "level": level }),
        Err(error) => json!({ "error": error.to_string() }),
    };
    match verb {
        "status" => serde_json::to_value(server.status()).unwrap_or_else(|error| json!({ "error": error.to_string() })),
        "sync" => match server.log_now() {
            Ok(level) => json!({ "level": level }),
            Err(error) => json!({ "error": error.to_string() }),
        },
        "snapshot" => done(server.snapshot_now()),
        "archive" => {
            let known = server.store().epochs();
            let name = if argument.is_empty() { epochs::name_for(now(), &known) } else { argument.to_owned() };
            match server.archive(&name) {
                Ok(level) => json!({ "level": level, "epoch": name }),
                Err(error) => json!({ "error": error.to_string() }),
            }
        }
        "epochs" => {
            let list: Vec<Value> = server
                .store()
                .epochs()
                .into_iter()
                .map(|epoch| json!({ "name": epoch.name, "time_ns": epoch.time, "generation": epoch.generation }))
                .collect();
            json!({ "epochs": list })
        }
        "drop" => match server.drop_epochs(&[argument.to_owned()]) {
            Ok(()) => json!({ "dropped": argument }),
            Err(error) => json!({ "error": error.to_string() }),
        },
        _ => {
            json!({ "error": format!("unknown request {verb:?}: expected status, sync, snapshot, archive, epochs or drop") })
        }
    }
}

/// Sends a request to the server of a store; `None` if there is no server.
pub fn ask(id: &[u8; 16], request: &str) -> io::Result<Option<Value>> {
    let mut stream = match UnixStream::connect(socket_path(id)) {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    writeln!(stream, "{request}")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    serde_json::from_str(&text).map(Some).map_err(io::Error::other)
}
