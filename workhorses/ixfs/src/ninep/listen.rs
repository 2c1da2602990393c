// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sockets on which the server speaks 9P, and the credentials of the peer.

use super::locks::Locks;
use super::message::{self, HEADER, Message};
use super::session::{Answer, Peer, Session, User};
use crate::server::{Level, Server, lock};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// A socket on which the server listens for 9P clients until this is dropped. Existing connections continue.
pub struct ServedSocket {
    socket: Option<PathBuf>,
    /// Address on which it listens; tells the port if port 0 was requested.
    pub address: Option<SocketAddr>,
}

impl Drop for ServedSocket {
    fn drop(&mut self) {
        if let Some(path) = &self.socket {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A stream of either kind.
trait Stream: Read + Write + Send + Sized + 'static {
    fn copy(&self) -> io::Result<Self>;
    fn hang_up(&self);
}

impl Stream for UnixStream {
    fn copy(&self) -> io::Result<Self> {
        self.try_clone()
    }

    fn hang_up(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Stream for TcpStream {
    fn copy(&self) -> io::Result<Self> {
        self.try_clone()
    }

    fn hang_up(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

/// Listens on a unix socket. Every user may connect; what a client may do is decided by its credentials.
pub fn unix(server: Arc<Server>, path: &Path) -> io::Result<ServedSocket> {
    // Remove a socket that a dead server left behind. Any other kind of file is left alone.
    if std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        if UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there"));
        }
        std::fs::remove_file(path)?;
    }
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o111));
    let listener = UnixListener::bind(path);
    rustix::process::umask(before);
    let listener = listener?;
    let locks = Arc::new(Mutex::default());
    spawn("9p-unix", move || {
        for stream in listener.incoming().flatten() {
            let Ok(peer) = rustix::net::sockopt::socket_peercred(&stream) else { continue };
            let peer = Peer::Known(peer.uid.as_raw(), peer.gid.as_raw());
            connect(&server, &locks, peer, stream);
        }
    })?;
    Ok(ServedSocket { socket: Some(path.to_owned()), address: None })
}

/// Listens on a TCP address. Clients are not authenticated: see the module's threat model.
pub fn tcp(server: Arc<Server>, address: SocketAddr) -> io::Result<ServedSocket> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr().ok();
    let locks = Arc::new(Mutex::default());
    spawn("9p-tcp", move || {
        for stream in listener.incoming().flatten() {
            let _ = stream.set_nodelay(true);
            connect(&server, &locks, Peer::Claimed, stream);
        }
    })?;
    Ok(ServedSocket { socket: None, address })
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}

/// Serves a connection in a thread of its own.
fn connect(server: &Arc<Server>, locks: &Arc<Mutex<Locks>>, peer: Peer, stream: impl Stream) {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let session = Session::new(server.clone(), locks.clone(), peer, number);
    let server = server.clone();
    let _ = spawn("9p", move || {
        let _ = Connection::serve(&server, session, stream);
    });
}

/// A request for durability that was served: its tag, and the level reached.
type Synced = (u16, Result<Level, Errno>);

struct Connection<S> {
    server: Arc<Server>,
    out: Mutex<S>,
    /// Tags of requests that wait for durability.
    waiting: Mutex<BTreeSet<u16>>,
    /// Where requests go that were served; none once the connection has ended.
    synced: Mutex<Option<Sender<Synced>>>,
}

impl<S: Stream> Connection<S> {
    /// Serves the client until it closes the connection or sends something that is not a message.
    fn serve(server: &Arc<Server>, mut session: Session, mut stream: S) -> io::Result<()> {
        let (synced, receiver) = channel();
        let out = Mutex::new(stream.copy()?);
        let connection =
            Connection { server: server.clone(), out, waiting: Mutex::default(), synced: Mutex::new(Some(synced)) };
        std::thread::scope(|scope| {
            let connection = &connection;
            std::thread::Builder::new().name("9p-fsync".to_owned()).spawn_scoped(scope, move || {
                let _ = connection.reply_to_syncs(&receiver);
            })?;
            let result = connection.run(&mut session, &mut stream);
            stream.hang_up();
            // The other thread ends when the last request is served.
            *lock(&connection.synced) = None;
            result
        })
    }

    fn run(&self, session: &mut Session, stream: &mut S) -> io::Result<()> {
        let mut bytes = Vec::new();
        loop {
            let mut size = [0; 4];
            stream.read_exact(&mut size)?;
            let size = u32::from_le_bytes(size);
            if size < HEADER as u32 || size > session.msize() {
                return Err(io::ErrorKind::InvalidData.into());
            }
            bytes.resize(size as usize - 4, 0);
            stream.read_exact(&mut bytes)?;
            let (tag, request) = message::decode(&bytes).map_err(io::Error::other)?;
            match session.handle(tag, request) {
                Answer::Reply(reply) => self.send(reply)?,
                Answer::Sync(tag, _datasync) => self.sync(tag),
                Answer::Flush(old, reply) => {
                    lock(&self.waiting).remove(&old);
                    self.send(reply)?;
                }
            }
        }
    }

    fn send(&self, reply: Message) -> io::Result<()> {
        lock(&self.out).write_all(&reply.finish())
    }

    /// Makes changes durable and replies then; other requests are served meanwhile. `datasync` asks for less than a full
    /// sync: the log has no cheaper form, so both do the same.
    fn sync(&self, tag: u16) {
        lock(&self.waiting).insert(tag);
        let Some(synced) = lock(&self.synced).clone() else { return };
        // The thread that writes the log must not wait for this client, which may have stopped reading.
        let answer = move |result| {
            let _ = synced.send((tag, result));
        };
        self.server.sync_then(false, Box::new(answer));
    }

    /// Replies to requests whose changes are durable, until the connection ends.
    fn reply_to_syncs(&self, synced: &Receiver<Synced>) -> io::Result<()> {
        while let Ok((tag, result)) = synced.recv() {
            let reply = match result {
                Ok(_) => Message::new(51, tag),
                Err(error) => Message::error(tag, error),
            };
            // Done while holding the lock of the tags: a flush that arrives meanwhile must be answered after this
            // reply, or in place of it.
            let mut waiting = lock(&self.waiting);
            if waiting.remove(&tag) {
                self.send(reply)?;
            }
        }
        Ok(())
    }
}

/// A user with the groups that the system's files give.
pub fn user(uid: u32) -> User {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let group = std::fs::read_to_string("/etc/group").unwrap_or_default();
    user_in(uid, &passwd, &group)
}

fn user_in(uid: u32, passwd: &str, group: &str) -> User {
    let line = passwd
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields.get(2).and_then(|field| field.parse().ok()) == Some(uid));
    let name = line.as_ref().map_or("", |fields| fields[0]);
    let gid = line.as_ref().and_then(|fields| fields.get(3)?.parse().ok()).unwrap_or(65_534);
    let groups = group.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let member = !name.is_empty() && fields.get(3)?.split(',').any(|member| member == name);
        if member { fields.get(2)?.parse().ok() } else { None }
    });
    User::new(uid, gid, groups.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_come_from_the_system_files() {
        let passwd = "root:x:0:0::/:/bin/sh\nann:x:1000:100::/:/bin/sh\n";
        let group = "disk:x:6:bob,ann\nusers:x:100:\nbad line\n";
        assert_eq!(user_in(1000, passwd, group), User::new(1000, 100, vec![6]));
        assert_eq!(user_in(77, passwd, group), User::new(77, 65_534, vec![]));
    }
}
