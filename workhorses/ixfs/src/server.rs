// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server behind the FUSE and 9P interfaces: the live tree, its store, and the threads that make changes durable.

use crate::group::{Answer, Group, Waiter};
use crate::held::Held;
use crate::status::{Latencies, Status};
use crate::store::{Recovery, Result as StoreResult, Store, StoreError};
use crate::tree::{Caller, Ino, ROOT, Tree};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

/// When changes reach the disk, as Redis has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// `fsync` returns when the change is logged. Changes without `fsync` are logged within five seconds.
    #[default]
    Always,
    /// `fsync` returns at once; all changes are logged every second.
    Everysec,
    /// `fsync` returns at once; changes reach the disk with the next snapshot, at most a minute later.
    Snapshot,
}

impl Durability {
    /// Longest time that a change waits before the server starts to make it durable.
    pub fn interval(self) -> Duration {
        match self {
            Durability::Always => Duration::from_secs(5),
            Durability::Everysec => Duration::from_secs(1),
            Durability::Snapshot => Duration::from_secs(60),
        }
    }
}

/// How durable a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// A crash of the server or the machine loses it.
    InMemory,
    /// In the log: recovery replays it.
    Logged,
    /// In a snapshot: recovery loads it.
    Snapshotted,
}

/// Inode numbers skipped when a store is opened: numbers given out but not logged before a crash are not used again.
const INO_GAP: u64 = 1 << 24;
/// A snapshot begins when the log is this full, in percent.
const LOG_FULL_PERCENT: u64 = 35;
/// An empty batch confirms the last one when no commit has followed it for this long.
const CONFIRM_AFTER: Duration = Duration::from_secs(1);
/// A snapshot begins when the last one is this old and there are changes.
const SNAPSHOT_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Gate {
    /// Version of the tree that is logged.
    logged: u64,
    /// Version of the tree that is in a snapshot.
    snapshotted: u64,
    /// Number of failed attempts so far, and the last one's error.
    failures: u64,
    error: Option<Errno>,
    message: Option<String>,
}

/// A running file server.
pub struct Server {
    tree: RwLock<Tree>,
    store: Store,
    durability: Durability,
    recovery: Recovery,
    /// Counts changes of the tree. A number read under the tree's lock belongs to that tree.
    version: AtomicU64,
    /// Value of [`Tree::churn`] in the tree that is logged.
    churn_logged: AtomicU64,
    /// When the oldest change that is not logged was made, in nanoseconds since 1970; 0: there is none.
    dirty_since: AtomicI64,
    gate: Mutex<Gate>,
    group: Group,
    /// Number of references that FUSE and 9P clients hold to an inode; a removed inode stays while there are any.
    held: Mutex<Held>,
    stopping: AtomicBool,
    wake: Condvar,
    sleeping: Mutex<()>,
    latencies: Mutex<Latencies>,
    started: i64,
    pub(crate) archive: crate::archive::Cache,
}

/// The time in nanoseconds since 1970.
pub fn now() -> i64 {
    match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => since.as_nanos() as i64,
        Err(before) => -(before.duration().as_nanos() as i64),
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// A server for a store that was opened.
    ///
    /// # Errors
    /// The store cannot be written: the server must log which inode numbers it is going to use.
    pub fn new(
        (store, mut tree, recovery): (Store, Tree, Recovery),
        durability: Durability,
    ) -> StoreResult<Arc<Server>> {
        tree.next_ino += INO_GAP;
        tree.disk_limit = store.live_limit(false);
        store.make_durable(&tree, now())?;
        let churn = tree.churn;
        Ok(Arc::new(Server {
            tree: RwLock::new(tree),
            store,
            durability,
            recovery,
            version: AtomicU64::new(1),
            churn_logged: AtomicU64::new(churn),
            dirty_since: AtomicI64::new(0),
            gate: Mutex::default(),
            group: Group::default(),
            held: Mutex::default(),
            stopping: AtomicBool::new(false),
            wake: Condvar::new(),
            sleeping: Mutex::default(),
            latencies: Mutex::default(),
            started: now(),
            archive: crate::archive::Cache::default(),
        }))
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Reads the live tree.
    pub fn read<R>(&self, read: impl FnOnce(&Tree) -> R) -> R {
        read(&self.tree.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the live tree. The change is then *in memory*.
    pub fn write<R>(&self, write: impl FnOnce(&mut Tree) -> R) -> R {
        let mut tree = self.tree.write().unwrap_or_else(PoisonError::into_inner);
        let result = write(&mut tree);
        self.version.fetch_add(1, Ordering::Relaxed);
        if self.dirty_since.load(Ordering::Relaxed) == 0 {
            self.dirty_since.store(now(), Ordering::Relaxed);
        }
        result
    }

    /// A copy of the live tree that does not change, and its version.
    fn freeze(&self) -> (Tree, u64) {
        let tree = self.tree.read().unwrap_or_else(PoisonError::into_inner);
        (tree.freeze(), self.version.load(Ordering::Relaxed))
    }

    /// A frozen copy of the live tree.
    pub fn frozen(&self) -> Tree {
        self.freeze().0
    }

    /// What `fsync` and `fdatasync` do: returns when all changes made before the call, to any file and to the
    /// directories on the paths to them, are at the level that the durability promises. Callers that come while the log
    /// is being written share the next write.
    ///
    /// # Errors
    /// The store cannot be written. The changes stay in memory and the next call tries again.
    pub fn sync(self: &Arc<Self>) -> Result<Level, Errno> {
        match self.durability {
            Durability::Always => self.log_now(),
            Durability::Everysec | Durability::Snapshot => Ok(Level::InMemory),
        }
    }

    /// Does what [`sync`](Self::sync) does and passes the result to `answer`. With `lead`, the calling thread may write
    /// the log for itself and for others until no request waits; otherwise it returns soon, and another thread answers.
    pub fn sync_then(self: &Arc<Self>, lead: bool, answer: Answer) {
        if self.durability != Durability::Always {
            return answer(Ok(Level::InMemory));
        }
        if self.join(answer) {
            if lead {
                while !self.lead_once() {}
            } else {
                self.hand_over();
            }
        }
    }

    /// Returns when all changes made before the call are logged, whatever the durability.
    pub fn log_now(self: &Arc<Self>) -> Result<Level, Errno> {
        let (sender, receiver) = channel();
        let leads = self.join(Box::new(move |result| {
            let _ = sender.send(result);
        }));
        if leads && !self.lead_once() {
            self.hand_over();
        }
        receiver.recv().unwrap_or(Err(Errno::IO))
    }

    /// Adds a request for the log; returns whether the caller must lead.
    fn join(&self, answer: Answer) -> bool {
        let wanted = self.version.load(Ordering::Relaxed);
        self.group.join(Waiter { wanted, begin: Instant::now(), answer })
    }

    /// Lets a thread of its own write the log until no request waits.
    fn hand_over(self: &Arc<Self>) {
        let server = self.clone();
        let lead = move || while !server.lead_once() {};
        if std::thread::Builder::new().name("log".to_owned()).spawn(lead).is_err() {
            // Without a further thread this one has to do it.
            while !self.lead_once() {}
        }
    }

    /// Logs the present tree for all requests that wait, and answers them. Returns whether the lead has ended because
    /// none waits any more.
    fn lead_once(&self) -> bool {
        let group = self.group.gather();
        let wanted = group.iter().map(|waiter| waiter.wanted).max().unwrap_or(0);
        // A snapshot may have done it meanwhile.
        let done = lock(&self.gate).logged >= wanted;
        let begin = Instant::now();
        let result = if done { Ok(()) } else { self.log_once() };
        if !done {
            self.group.committed(group.len(), begin.elapsed());
        }
        let now = Instant::now();
        if result.is_ok() {
            let mut latencies = lock(&self.latencies);
            group.iter().for_each(|waiter| latencies.add(now - waiter.begin));
        }
        group.into_iter().for_each(|waiter| (waiter.answer)(result.map(|()| Level::Logged)));
        self.group.retire()
    }

    /// Logs the present tree. Only the thread that leads calls this.
    fn log_once(&self) -> Result<(), Errno> {
        let since = self.dirty_since.swap(0, Ordering::Relaxed);
        let (tree, version) = self.freeze();
        let result = self.store.make_durable(&tree, now());
        let mut gate = lock(&self.gate);
        match result {
            Ok(()) => {
                self.churn_logged.store(tree.churn, Ordering::Relaxed);
                gate.logged = gate.logged.max(version);
                gate.error = None;
                Ok(())
            }
            Err(error) => {
                if since != 0 {
                    self.dirty_since.store(since, Ordering::Relaxed);
                }
                gate.failures += 1;
                gate.error = Some(error.errno());
                gate.message = Some(error.to_string());
                Err(error.errno())
            }
        }
    }

    /// Takes a snapshot of the present tree.
    pub fn snapshot_now(&self) -> StoreResult<Level> {
        self.snapshot(None)
    }

    /// Archives the present tree as an epoch with this name. The epoch's blocks are no longer available to the live tree.
    ///
    /// # Errors
    /// The store has no room for the epoch beside two snapshots of the live tree.
    pub fn archive(&self, name: &str) -> StoreResult<Level> {
        self.snapshot(None)?;
        if self.store.live_limit(true) < self.read(Tree::stored) {
            let what = "the store has no room to keep it beside the live tree; drop older epochs first";
            return Err(StoreError::Epoch { name: name.to_owned(), what });
        }
        let level = self.snapshot(Some(name))?;
        self.write(|tree| tree.disk_limit = self.store.live_limit(false));
        Ok(level)
    }

    /// Takes a snapshot of the present tree; with a name, it is archived.
    fn snapshot(&self, epoch: Option<&str>) -> StoreResult<Level> {
        let (version, since) = (AtomicU64::new(0), AtomicI64::new(0));
        let freeze = || {
            since.store(self.dirty_since.swap(0, Ordering::Relaxed), Ordering::Relaxed);
            let (tree, at) = self.freeze();
            version.store(at, Ordering::Relaxed);
            tree
        };
        let result = self.store.snapshot(&freeze, now(), epoch);
        let (version, since) = (version.load(Ordering::Relaxed), since.load(Ordering::Relaxed));
        let mut gate = lock(&self.gate);
        match result {
            Ok(_) => {
                gate.logged = gate.logged.max(version);
                gate.snapshotted = gate.snapshotted.max(version);
                Ok(Level::Snapshotted)
            }
            Err(error) => {
                if since != 0 {
                    self.dirty_since.store(since, Ordering::Relaxed);
                }
                // A rejected epoch name does not mean that the disk has failed.
                if !matches!(error, StoreError::Epoch { .. }) {
                    gate.message = Some(error.to_string());
                    gate.error = Some(error.errno());
                }
                Err(error)
            }
        }
    }

    /// Drops archived epochs and frees their blocks.
    pub fn drop_epochs(&self, names: &[String]) -> StoreResult<()> {
        // Take the server's own snapshot first, so that the next one, without the epochs, has little to write.
        self.snapshot(None)?;
        self.store.drop_epochs(&|| self.frozen(), now(), names)?;
        self.write(|tree| tree.disk_limit = self.store.live_limit(false));
        Ok(())
    }

    /// Changes the live tree with an operation that needs memory. If there is too little, pages of big files leave
    /// memory, and the operation is tried once more.
    ///
    /// # Errors
    /// Those of the operation; `ENOSPC` if it needs more memory than big files have given up.
    pub fn change<R>(self: &Arc<Self>, mut change: impl FnMut(&mut Tree) -> Result<R, Errno>) -> Result<R, Errno> {
        match self.write(&mut change) {
            Err(Errno::NOSPC) if self.make_room() => self.write(change),
            other => other,
        }
    }

    /// Writes a snapshot and lets pages of big files leave memory until half of the quota is free. Returns whether any
    /// memory was freed.
    pub fn make_room(self: &Arc<Self>) -> bool {
        let (limit, used) = self.read(|tree| (tree.limit, tree.used));
        let big = crate::store::big_file(limit);
        let files: Vec<Ino> = self.read(|tree| {
            let large = |inode: &crate::tree::Inode| inode.attr().size >= big && inode.resident() > 0;
            tree.inodes.range(0).filter(|(_, inode)| large(inode)).map(|(ino, _)| ino).collect()
        });
        if files.is_empty() || self.snapshot(None).is_err() {
            return false;
        }
        let mut wanted = used.saturating_sub(limit / 2).div_ceil(crate::tree::PAGE as u64);
        let mut freed = 0;
        for ino in files {
            let dropped = if wanted == 0 { 0 } else { self.write(|tree| tree.evict(ino, wanted)) };
            freed += dropped;
            wanted -= dropped.min(wanted);
        }
        // The tree that was logged last still holds the pages; logging again releases them.
        let _ = self.log_now();
        freed > 0
    }

    /// Adds references of a client to an inode. An inode without a name stays as long as there are references.
    pub fn hold(&self, ino: Ino, count: u64) {
        lock(&self.held).add(ino, count);
    }

    /// Takes back references.
    pub fn unhold(&self, ino: Ino, count: u64) {
        let last = lock(&self.held).take(ino, count);
        if last && self.read(|tree| tree.inode(ino).is_ok_and(|inode| inode.nlink == 0)) {
            self.let_go(Some(ino));
        }
    }

    /// Removes an inode that lost its last name, unless a client holds a reference to it.
    pub fn let_go(&self, lost: Option<Ino>) {
        let Some(ino) = lost else { return };
        self.write(|tree| {
            if !lock(&self.held).contains(ino) {
                tree.release(ino);
            }
        });
    }

    /// The path of a live inode, for messages.
    pub fn path_of(&self, ino: Ino) -> String {
        self.read(|tree| tree.path_of(ino)).unwrap_or_else(|| format!("inode {ino}"))
    }

    /// Starts the thread that bounds the loss window and takes snapshots. It ends with [`stop`](Self::stop).
    pub fn spawn_flusher(self: &Arc<Server>) -> std::io::Result<std::thread::JoinHandle<()>> {
        let server = self.clone();
        std::thread::Builder::new().name("flusher".to_owned()).spawn(move || server.flush_until_stopped())
    }

    fn flush_until_stopped(self: &Arc<Self>) {
        let mut last_snapshot = Instant::now();
        let churn_limit = self.read(|tree| crate::store::big_file(tree.limit));
        while !self.stopping.load(Ordering::Relaxed) {
            let guard = lock(&self.sleeping);
            let _ = self.wake.wait_timeout(guard, Duration::from_millis(100));
            let since = self.dirty_since.load(Ordering::Relaxed);
            let age = Duration::from_nanos(if since == 0 { 0 } else { (now() - since).max(0) as u64 });
            let (logged, snapshotted) = {
                let gate = lock(&self.gate);
                (gate.logged, gate.snapshotted)
            };
            let behind = since != 0 || logged > snapshotted;
            let due = behind && last_snapshot.elapsed() >= SNAPSHOT_INTERVAL;
            if due || self.store.log_percent() >= LOG_FULL_PERCENT {
                let _ = self.snapshot(None);
                last_snapshot = Instant::now();
            } else if self.read(|tree| tree.used / 4 * 5 > tree.limit) && self.make_room() {
                last_snapshot = Instant::now();
            } else if self.durability != Durability::Snapshot && age >= self.durability.interval()
                || self.read(|tree| tree.churn).wrapping_sub(self.churn_logged.load(Ordering::Relaxed)) > churn_limit
            {
                let _ = self.log_now();
            } else if self.group.is_quiet(CONFIRM_AFTER) {
                let _ = self.store.confirm();
            }
        }
    }

    /// Ends the flusher and takes a last snapshot, so that the next start has no log to replay.
    pub fn stop(&self) -> StoreResult<()> {
        self.stopping.store(true, Ordering::Relaxed);
        self.wake.notify_all();
        let changed = self.dirty_since.load(Ordering::Relaxed) != 0;
        let gate = lock(&self.gate);
        let behind = changed || gate.logged > gate.snapshotted;
        drop(gate);
        if behind || self.recovery.batches > 0 { self.snapshot(None).map(drop) } else { Ok(()) }
    }

    /// What `ixfs status` shows.
    pub fn status(&self) -> Status {
        let (used, limit, inodes) = self.read(|tree| (tree.used, tree.limit, tree.count));
        let since = self.dirty_since.load(Ordering::Relaxed);
        let gate = lock(&self.gate);
        let (error, failures) = (gate.error.and(gate.message.clone()), gate.failures);
        drop(gate);
        let open_orphans = lock(&self.held).len();
        Status {
            durability: self.durability,
            memory_used_bytes: used,
            memory_limit_bytes: limit,
            disk_only_bytes: self.read(|tree| tree.disk - tree.resident),
            inodes,
            held_inodes: open_orphans,
            loss_window_ns: if since == 0 { 0 } else { (now() - since).max(0) },
            loss_window_limit_ns: self.durability.interval().as_nanos() as i64,
            store: self.store.usage(),
            sync_latency_ns: lock(&self.latencies).summary(),
            failures,
            last_error: error,
            uptime_ns: now() - self.started,
            recovery: self.recovery.clone(),
        }
    }

    /// Inode number of the root.
    pub fn root(&self) -> Ino {
        ROOT
    }

    /// A caller with full rights at the present time.
    pub fn superuser(&self) -> Caller {
        Caller::root(now())
    }
}
