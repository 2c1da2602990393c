// SPDX-License-Identifier: GPL-2.0-only
//! The workloads that NIX was measured with (2012): copying a file tree between two in-memory file servers, and
//! building a kernel whose sources are in such a server or on another machine; by `mk`, which follows dependencies,
//! and by `pmk`, which starts all compilers at once.
//!
//! The structure is Plan 9's: a file server is a process, and each 8 KiB of a file is a request that its client waits
//! for. The source is known to have some hundred files. All times are assumptions made before any of this was run;
//! none was taken from NIX's measurements.

use super::{task, uneven};
use crate::{MutexId, MutexSpec, Op, SignalId, Sleep, Start, TaskSpec, Workload};
use ids::Nanos;

/// Number of source files.
const FILES: u32 = 100;
/// Number of libraries built from them; a fifth part of the files is the kernel's own.
const LIBRARIES: u32 = 4;
/// Requests of a compiler: to read its source and headers, and to write its object.
const READS: u32 = 14;
const WRITES: u32 = 2;
/// Mean work of a compiler: Plan 9's compile a file in tens of milliseconds.
const COMPILE: Nanos = Nanos(30_000_000);
/// Work of a shell that reads a recipe and starts its program.
const SHELL: Nanos = Nanos(1_000_000);
/// Work of a script that generates a header before a library can be compiled.
const GENERATE: Nanos = Nanos(20_000_000);
/// Work of archiving a library, and of linking the kernel.
const ARCHIVE: Nanos = Nanos(10_000_000);
const LINK: Nanos = Nanos(100_000_000);
/// Client's part of a request, in the kernel.
const ASK: Nanos = Nanos(3_000);
/// Server's part: it finds the file and copies 8 KiB, one request at a time.
const SERVE: Nanos = Nanos(5_000);
/// Latency of a remote request: network and server.
const REMOTE: Nanos = Nanos(300_000);

/// Number of files copied, with 1 to 6 requests each; capacity of the pipe between reader and writer in requests.
const COPIED: u32 = 400;
const PIPE: usize = 4;

/// Location of the files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Server {
    /// A process on the same machine. Each client has its own server process; all share a file tree with one lock.
    Ramfs,
    /// Another machine.
    Remote,
}

/// A workload under construction.
struct Tree {
    server: Server,
    tasks: Vec<TaskSpec>,
    signals: u32,
    state: u64,
}

fn system(time: Nanos) -> Op {
    Op::Work { user: Nanos::ZERO, system: time }
}

fn user(time: Nanos) -> Op {
    Op::Work { user: time, system: Nanos::ZERO }
}

impl Tree {
    fn new(server: Server) -> Tree {
        Tree { server, tasks: vec![], signals: 0, state: 0 }
    }

    fn signal(&mut self) -> SignalId {
        self.signals += 1;
        SignalId(self.signals - 1)
    }

    /// Adds a request of a client to its server process, under the lock `tree`.
    fn request(&mut self, client: &mut Vec<Op>, serving: &mut Vec<Op>, tree: u32) {
        client.push(system(ASK));
        if self.server == Server::Remote {
            client.push(Op::Sleep(REMOTE, Sleep::Io));
            return;
        }
        let (asked, answered) = (self.signal(), self.signal());
        client.extend([Op::Post(asked), Op::Await(answered)]);
        let tree = MutexId(tree);
        serving.extend([Op::Await(asked), Op::Lock(tree), system(SERVE), Op::Unlock(tree), Op::Post(answered)]);
    }

    /// Adds a forked process with `time` work in total, spread between `requests` requests.
    fn program(&mut self, name: &str, time: Nanos, requests: u32) -> u32 {
        let (mut script, mut serving) = (vec![], vec![]);
        for _ in 0..requests {
            self.request(&mut script, &mut serving, 0);
            script.push(user(Nanos(time.0 / u64::from(requests))));
        }
        if !serving.is_empty() {
            self.tasks.push(task(format!("ramfs-{name}"), serving));
        }
        self.forked(name, script)
    }

    fn forked(&mut self, name: &str, script: Vec<Op>) -> u32 {
        self.tasks.push(TaskSpec { start: Start::Forked, ..task(name.to_owned(), script) });
        self.tasks.len() as u32 - 1
    }

    fn compiler(&mut self, file: u32) -> u32 {
        let time = uneven(&mut self.state, COMPILE);
        self.program(&format!("6c-{file}"), time, READS + WRITES)
    }

    /// Adds a shell that runs one program.
    fn recipe(&mut self, name: &str, program: u32) -> u32 {
        self.forked(&format!("rc-{name}"), vec![user(SHELL), Op::Fork(program), Op::Children(0)])
    }

    fn finish(mut self, maker: &str, script: Vec<Op>) -> Workload {
        self.tasks.push(task(maker.to_owned(), script));
        Workload { tasks: self.tasks, signals: self.signals, mutexes: MutexSpec::unnamed(2), ..Workload::default() }
    }
}

/// Build by `mk`, with one recipe per CPU at a time.
fn mk(server: Server, cpus: u32) -> Workload {
    let mut tree = Tree::new(server);
    let mut script = vec![];
    let in_each = FILES / (LIBRARIES + 1);
    for library in 0..=LIBRARIES {
        let generate = tree.program(&format!("gen-{library}"), GENERATE, WRITES);
        script.extend([Op::Fork(generate), Op::Children(0)]);
        for file in library * in_each..(library + 1) * in_each {
            let compiler = tree.compiler(file);
            let recipe = tree.recipe(&file.to_string(), compiler);
            script.extend([Op::Children(cpus.max(1) - 1), Op::Fork(recipe)]);
        }
        script.push(Op::Children(0));
        if library < LIBRARIES {
            let archive = tree.program(&format!("ar-{library}"), ARCHIVE, in_each);
            script.extend([Op::Fork(archive), Op::Children(0)]);
        }
    }
    let link = tree.program("6l", LINK, FILES);
    script.extend([Op::Fork(link), Op::Children(0)]);
    tree.finish("mk", script)
}

/// Build by `pmk`: all compilers at once, without libraries and linking.
fn pmk() -> Workload {
    let mut tree = Tree::new(Server::Ramfs);
    let mut script: Vec<Op> = (0..FILES).map(|file| Op::Fork(tree.compiler(file))).collect();
    script.push(Op::Children(0));
    tree.finish("pmk", script)
}

/// A reader of one server, a pipe, and a writer to another server.
fn copy() -> Workload {
    let mut tree = Tree::new(Server::Ramfs);
    let [mut reader, mut writer, mut from, mut to] = [const { Vec::new() }; 4];
    let mut taken = vec![];
    for _ in 0..COPIED {
        let requests = uneven(&mut tree.state, Nanos(2)).0.min(6);
        for _ in 0..requests {
            tree.request(&mut reader, &mut from, 0);
            if let Some(room) = taken.len().checked_sub(PIPE) {
                reader.push(Op::Await(taken[room]));
            }
            let (put, took) = (tree.signal(), tree.signal());
            reader.push(Op::Post(put));
            writer.extend([Op::Await(put), Op::Post(took)]);
            taken.push(took);
            tree.request(&mut writer, &mut to, 1);
        }
    }
    // The reader has not waited for the last requests in the pipe.
    let left = taken.len().saturating_sub(PIPE);
    reader.extend(taken[left..].iter().map(|took| Op::Await(*took)));
    tree.tasks.extend([task("ramfs-from".to_owned(), from), task("ramfs-to".to_owned(), to)]);
    tree.tasks.push(task("tar-x".to_owned(), writer));
    tree.finish("tar-c", reader)
}

/// Generates the workload of this name for a machine with `cpus` CPUs.
pub(super) fn generate(name: &str, cpus: u32) -> Option<Workload> {
    match name {
        "ramfs-copy" => Some(copy()),
        "ramfs-mk" => Some(mk(Server::Ramfs, cpus)),
        "ramfs-pmk" => Some(pmk()),
        "remote-mk" => Some(mk(Server::Remote, cpus)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work_of(workload: &Workload, prefix: &str) -> u64 {
        let tasks = workload.tasks.iter().filter(|task| task.name.starts_with(prefix));
        let work = |op: &Op| if let Op::Work { user, .. } = op { user.0 } else { 0 };
        tasks.flat_map(|task| &task.script).map(work).sum()
    }

    /// `mk` and `pmk` compile the same files with the same work, wherever the files are.
    #[test]
    fn all_builds_have_the_same_compile_work() {
        let builds = ["ramfs-mk", "ramfs-pmk", "remote-mk"].map(|name| generate(name, 4).unwrap());
        let work = builds.each_ref().map(|build| work_of(build, "6c-"));
        assert!((2_500_000_000..3_500_000_000).contains(&work[0]), "{work:?}");
        assert_eq!([work[1], work[2]], [work[0]; 2]);
        for build in &builds {
            assert_eq!(build.tasks.iter().filter(|task| task.name.starts_with("6c-")).count(), 100);
        }
    }

    /// Only `mk` waits for headers, slots and libraries.
    #[test]
    fn mk_has_dependencies_and_pmk_has_none() {
        let waits = |name: &str, cpus| {
            let workload = generate(name, cpus).unwrap();
            let maker = workload.tasks.last().unwrap();
            maker.script.iter().filter(|op| matches!(op, Op::Children(_))).count()
        };
        assert_eq!((waits("ramfs-pmk", 4), waits("ramfs-mk", 4)), (1, 100 + 5 + 5 + 4 + 1));
        let slots = |cpus| {
            let workload = generate("ramfs-mk", cpus).unwrap();
            workload
                .tasks
                .last()
                .unwrap()
                .script
                .iter()
                .map(|op| if let Op::Children(most) = op { *most } else { 0 })
                .max()
        };
        assert_eq!([1, 4, 32].map(slots), [Some(0), Some(3), Some(31)]);
    }

    /// Remote requests have no server process.
    #[test]
    fn requests_use_the_local_server_or_the_network() {
        let of = |name: &str, wanted: fn(&Op) -> bool| {
            let workload = generate(name, 4).unwrap();
            workload.tasks.iter().flat_map(|task| &task.script).filter(|op| wanted(op)).count()
        };
        let sleeps: fn(&Op) -> bool = |op| matches!(op, Op::Sleep(..));
        let locks: fn(&Op) -> bool = |op| matches!(op, Op::Lock(_));
        let requests = 100 * 16 + 5 * 2 + 4 * 20 + 100;
        assert_eq!((of("ramfs-mk", locks), of("ramfs-mk", sleeps)), (requests, 0));
        assert_eq!((of("remote-mk", locks), of("remote-mk", sleeps)), (0, requests));
        let copied = of("ramfs-copy", locks);
        assert!(copied % 2 == 0 && (400 * 2..400 * 12).contains(&copied), "{copied}");
    }
}
