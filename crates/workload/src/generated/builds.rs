// SPDX-License-Identifier: GPL-2.0-only
//! What NIX was measured with (2012): a tree of files copied from one file server in memory to another, and a kernel built
//! whose source is in such a server or on another machine; by `mk`, which knows dependencies, and by `pmk`, which starts all
//! compilers at once.
//!
//! Their shape is that of Plan 9's: a file server is a process, and each 8 KiB of a file are a request that somebody waits for.
//! That there were some hundred source files is known. All times are guesses, made before any of this was run, and nothing in
//! them was taken from what NIX measured.

use super::{task, uneven};
use crate::{MutexId, Op, SignalId, Sleep, Start, TaskSpec, Workload};
use ids::Nanos;

/// Source files.
const FILES: u32 = 100;
/// They make so many libraries, and as many again are the kernel's own.
const LIBRARIES: u32 = 4;
/// A compiler reads its source and headers in so many requests, and writes its object in so many.
const READS: u32 = 14;
const WRITES: u32 = 2;
/// What a compiler works for, on average: Plan 9's compile a file in tens of milliseconds.
const COMPILE: Nanos = Nanos(30_000_000);
/// A shell that reads a recipe and starts its program.
const SHELL: Nanos = Nanos(1_000_000);
/// A script that writes a header before a library can be compiled.
const GENERATE: Nanos = Nanos(20_000_000);
/// To put a library together, and to link the kernel.
const ARCHIVE: Nanos = Nanos(10_000_000);
const LINK: Nanos = Nanos(100_000_000);
/// A client's part of a request, in the kernel.
const ASK: Nanos = Nanos(3_000);
/// The server's: it finds the file, and copies 8 KiB. One at a time.
const SERVE: Nanos = Nanos(5_000);
/// What the network adds, and what another machine takes.
const REMOTE: Nanos = Nanos(300_000);

/// Files that are copied, each of 1 to 6 requests, and how many requests fit into the pipe between reader and writer.
const COPIED: u32 = 400;
const PIPE: usize = 4;

/// Where files are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Server {
    /// In a process of the same machine. Each client has a process that serves it; they have one tree, with one lock.
    Ramfs,
    /// On another machine.
    Remote,
}

/// A workload in the making.
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

    /// One request of a client to the process that serves it in the tree with this lock.
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

    /// A process that is forked: it works for so long in all, between so many requests.
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

    /// A shell that runs one program.
    fn recipe(&mut self, name: &str, program: u32) -> u32 {
        self.forked(&format!("rc-{name}"), vec![user(SHELL), Op::Fork(program), Op::Children(0)])
    }

    fn finish(mut self, maker: &str, script: Vec<Op>) -> Workload {
        self.tasks.push(task(maker.to_owned(), script));
        Workload { tasks: self.tasks, signals: self.signals, mutexes: 2, ..Workload::default() }
    }
}

/// By `mk`, with as many recipes at a time as there are CPUs.
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

/// By `pmk`: all compilers at once, and nothing else.
fn pmk() -> Workload {
    let mut tree = Tree::new(Server::Ramfs);
    let mut script: Vec<Op> = (0..FILES).map(|file| Op::Fork(tree.compiler(file))).collect();
    script.push(Op::Children(0));
    tree.finish("pmk", script)
}

/// A reader of one server, a pipe, and a writer to another.
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
    // Nobody waits for room behind the last ones.
    let left = taken.len().saturating_sub(PIPE);
    reader.extend(taken[left..].iter().map(|took| Op::Await(*took)));
    tree.tasks.extend([task("ramfs-from".to_owned(), from), task("ramfs-to".to_owned(), to)]);
    tree.tasks.push(task("tar-x".to_owned(), writer));
    tree.finish("tar-c", reader)
}

/// The workload of this name, for a machine of so many CPUs.
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

    /// `mk` and `pmk` compile the same files, with the same work, wherever these are.
    #[test]
    fn all_builds_compile_the_same() {
        let builds = ["ramfs-mk", "ramfs-pmk", "remote-mk"].map(|name| generate(name, 4).unwrap());
        let work = builds.each_ref().map(|build| work_of(build, "6c-"));
        assert!((2_500_000_000..3_500_000_000).contains(&work[0]), "{work:?}");
        assert_eq!([work[1], work[2]], [work[0]; 2]);
        for build in &builds {
            assert_eq!(build.tasks.iter().filter(|task| task.name.starts_with("6c-")).count(), 100);
        }
    }

    /// Only `mk` waits: for headers, for slots, for libraries.
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

    /// Nobody serves a client of another machine.
    #[test]
    fn requests_go_to_the_server() {
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
