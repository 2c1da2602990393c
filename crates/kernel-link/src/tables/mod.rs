// SPDX-License-Identifier: GPL-2.0-only
//! Tables of the running kernel for `weir meter`: states of tasks, waits for locks, wakeups, interrupts.
//!
//! The programs of `tables.bpf.c` add up in the kernel; here the sums are read and named. Several readings of one meter
//! are intervals: each contains what happened since the last one.

mod holds;
mod machine;
mod symbols;
mod wire;

use crate::LinkError;
use crate::complaints;
use crate::kernel;
use crate::probes::Aligned;
pub use holds::LockFunctions;
use host::sys;
use ids::{CpuId, Nanos};
use libbpf_rs::{Iter, Link, MapCore, MapFlags, Object, ObjectBuilder, RingBuffer, RingBufferBuilder};
use machine::Times;
use meters::{Interrupt, Interrupts, Lock, Locks, Microstates, Pair, Reason, State, Task, Trust, Wakeups, World};
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::process::{Child, Command};
use std::rc::Rc;
use std::time::Duration;
use symbols::Symbols;
use wire::{FUTEX, LockKey, Reader, STATES, Told};

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/tables.bpf.o")));

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// Waits for locks, and the states of tasks against which they are checked.
    Locks,
    /// States of tasks, with futex waits by caller.
    Microstates,
    /// Wakeups.
    Wakeups,
    /// Interrupts of all CPUs, whatever the scope.
    Interrupts,
}

/// Tasks that are followed, in each case with all descendants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// The command that [`Tables::spawn`] starts.
    Command,
    /// The threads of a process.
    Process(u32),
    /// All tasks of the machine but those of this process.
    Machine,
}

/// States of `tables.bpf.c` and their names; running time is divided further.
const SLEEPS: [(usize, State); 8] = [
    (1, State::RunQueue),
    (2, State::Futex),
    (3, State::Poll),
    (4, State::Timer),
    (5, State::Disk),
    (6, State::Paging),
    (7, State::Interruptible),
    (8, State::Uninterruptible),
];
const RUN: usize = 0;

/// A meter that is attached.
pub struct Tables {
    // Members are dropped in this order: the programs stop first.
    links: Vec<Link>,
    ring: RingBuffer<'static>,
    object: Object,
    told: Rc<RefCell<Vec<Vec<u8>>>>,
    what: What,
    scope: Scope,
    kernel: Symbols,
    /// Programs of processes that waited in futex; `None` if a process was gone before its program was opened.
    programs: BTreeMap<u32, Option<Rc<Program>>>,
    /// Programs by device and inode.
    files: BTreeMap<(u64, u64), Rc<Program>>,
    /// Notes of living tasks at the last reading, by PID.
    before: BTreeMap<u32, Told>,
    since: Nanos,
    /// When the meter started.
    began: Nanos,
    /// There was no reading yet.
    is_first: bool,
    times: Times,
    lost: u64,
}

/// A program file, opened while one of its processes existed. Its symbols are read when they are needed.
#[derive(Debug)]
struct Program {
    file: File,
    symbols: OnceCell<Symbols>,
}

impl Program {
    fn symbols(&self) -> &Symbols {
        self.symbols.get_or_init(|| {
            let mut bytes = Vec::new();
            let read = (&self.file).read_to_end(&mut bytes);
            read.ok().and_then(|_| Symbols::of_program(&bytes)).unwrap_or_default()
        })
    }
}

/// Key and value of a map.
type Entry = (Vec<u8>, Vec<u8>);

/// Waits or holds by key: number, total, longest, and name of the first task.
type Sums = Vec<(LockKey, u64, u64, u64, String)>;

impl Tables {
    /// Loads and attaches the programs. The holds of a lock table are those of these functions.
    ///
    /// # Errors
    /// If this process is not root, the kernel lacks BTF or a tracepoint, the process does not exist, or a file has no
    /// such function.
    pub fn start(what: What, scope: Scope, holds: &[LockFunctions]) -> Result<Tables, LinkError> {
        kernel::check()?;
        if let Scope::Process(process) = scope
            && !std::path::Path::new(&format!("/proc/{process}")).exists()
        {
            return Err(LinkError::NoProcess { process });
        }
        complaints::listen();
        let needed = tracepoints(what);
        let preempt_count = kernel::preempt_count_from_rq(needed)?.to_ne_bytes();
        let optional = kernel::known_tracepoints(VECTORS)?;
        let open = ObjectBuilder::default().open_memory(&OBJECT.0);
        let mut open = open.map_err(LinkError::bpf("read Weir's own programs"))?;
        for mut program in open.progs_mut() {
            let section = program.section().to_string_lossy().into_owned();
            let name = section.trim_start_matches("tp_btf/");
            let wanted = needed.contains(&name) || (what == What::Interrupts && optional.contains(&name));
            let of_holds = !holds.is_empty() && section.starts_with('u');
            program.set_autoload(wanted || section == "iter/task" || of_holds);
        }
        let settings = settings(what, scope)?;
        for (section, value) in [(".data.settings", &settings[..]), (".rodata.offsets", &preempt_count)] {
            let mut map = open.maps_mut().find(|map| map.name().to_string_lossy().ends_with(section));
            let map = map.as_mut().expect("the programs have this map");
            map.set_initial_value(value).map_err(LinkError::bpf("set up Weir's own programs"))?;
        }
        let object = open.load().map_err(|source| LinkError::Load { source, log: complaints::last_words() })?;
        let told = Rc::<RefCell<Vec<Vec<u8>>>>::default();
        let ring = listen(&object, &told)?;
        let kernel = if what == What::Locks { Symbols::of_kernel() } else { Symbols::default() };
        let (programs, files, before) = Default::default();
        let (times, since, links) = (Times::now()?, sys::now(), Vec::new());
        let (began, is_first, lost) = (since, true, 0);
        let mut tables = Tables {
            links,
            ring,
            object,
            told,
            what,
            scope,
            kernel,
            programs,
            files,
            before,
            since,
            began,
            is_first,
            times,
            lost,
        };
        tables.attach()?;
        for functions in holds {
            tables.links.extend(functions.attach(&tables.object)?);
        }
        if scope != Scope::Command && what != What::Interrupts {
            tables.for_each_task("on_existing")?;
        }
        tables.since = sys::now();
        Ok(tables)
    }

    fn attach(&mut self) -> Result<(), LinkError> {
        let is_wanted = |program: &libbpf_rs::ProgramMut<'_>| {
            program.autoload() && program.section().to_string_lossy().starts_with("tp_btf/")
        };
        let attach = |program: libbpf_rs::ProgramMut<'_>| {
            let action = format!("attach {}", program.name().to_string_lossy());
            program.attach_trace().map_err(LinkError::bpf(action))
        };
        self.links = self.object.progs_mut().filter(is_wanted).map(attach).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Runs a program once for each task of the machine.
    fn for_each_task(&self, program: &str) -> Result<(), LinkError> {
        let failed = || LinkError::bpf(format!("run {program}"));
        let found = self.object.progs_mut().find(|found| found.name() == program);
        let link = found.expect("the object has this program").attach().map_err(failed())?;
        let mut tasks = Iter::new(&link).map_err(failed())?;
        // Reading the output runs the program, which writes nothing.
        std::io::copy(&mut tasks, &mut std::io::sink()).map_err(LinkError::file(program))?;
        Ok(())
    }

    /// Starts the command. Must be called by the thread that started the meter, before it has another child.
    ///
    /// # Errors
    /// If the command cannot be started.
    pub fn spawn(&mut self, command: &mut Command) -> Result<Child, LinkError> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|source| LinkError::Spawn { command: name, source })?;
        // The command may exit before it is looked at.
        let program = self.program_of(child.id());
        self.programs.insert(child.id(), program);
        Ok(child)
    }

    /// Waits, receives the notes of tasks that exited, and reads the programs of processes that wait for futexes while
    /// they exist.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn receive(&mut self, time: Duration) -> Result<(), LinkError> {
        crate::probes::receive(&self.ring, time)?;
        if matches!(self.what, What::Locks | What::Microstates) {
            self.learn_programs();
        }
        Ok(())
    }

    fn learn_programs(&mut self) {
        let maps = ["lock_sums", "hold_sums"].map(|name| self.map(name));
        let keys: Vec<LockKey> =
            maps.iter().flat_map(|map| map.keys()).filter_map(|key| LockKey::parse(&key)).collect();
        for key in keys.into_iter().filter(|key| key.flags & FUTEX != 0) {
            if !self.programs.contains_key(&key.task) {
                let program = self.program_of(key.task);
                self.programs.insert(key.task, program);
            }
        }
    }

    fn program_of(&mut self, process: u32) -> Option<Rc<Program>> {
        use std::os::unix::fs::MetadataExt;
        let file = File::open(format!("/proc/{process}/exe")).ok()?;
        let data = file.metadata().ok()?;
        let program = || Rc::new(Program { file, symbols: OnceCell::new() });
        Some(Rc::clone(self.files.entry((data.dev(), data.ino())).or_insert_with(program)))
    }

    fn map(&self, name: &str) -> libbpf_rs::Map<'_> {
        self.object.maps().find(|map| map.name() == name).expect("tables.bpf.c has this map")
    }

    /// What happened since the last reading, or since the start.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read(&mut self) -> Result<Reading, LinkError> {
        // Events of tasks that exit during the reading belong to the next one.
        self.receive(Duration::ZERO)?;
        let states = if self.what == What::Interrupts { vec![] } else { self.states()? };
        let (now, times) = (sys::now(), Times::now()?);
        let passed = times.since(&self.times);
        let run: u64 = states.iter().map(|told| told.times[RUN]).sum();
        let lost = self.lost()?;
        let trust = Trust {
            world: World::Real,
            elapsed: now.since(self.since),
            cpus: host::proc::online()?.len() as u32,
            lost: lost - self.lost,
            steal: Some(passed.steal),
            foreign: (self.scope != Scope::Machine && self.what != What::Interrupts)
                .then(|| passed.busy.since(Nanos(run))),
            unseen: (self.what != What::Interrupts).then(|| states.iter().map(|told| u64::from(told.unseen)).sum()),
        };
        (self.since, self.times, self.lost) = (now, times, lost);
        Ok(match self.what {
            What::Locks => Reading::Locks(self.locks(trust, &states)?),
            What::Microstates => Reading::Microstates(self.microstates(trust, &states)?),
            What::Wakeups => Reading::Wakeups(self.wakeups(trust)?),
            What::Interrupts => Reading::Interrupts(self.interrupts(trust)?),
        })
    }

    /// Notes of tasks that exited, and of living ones, since the last reading.
    fn states(&mut self) -> Result<Vec<Told>, LinkError> {
        self.for_each_task("on_task")?;
        crate::probes::receive(&self.ring, Duration::ZERO)?;
        let raw = std::mem::take(&mut *self.told.borrow_mut());
        let mut parts = Vec::new();
        for bytes in raw {
            let told =
                Told::parse(&bytes).ok_or_else(|| LinkError::Malformed(format!("a note of {} bytes", bytes.len())))?;
            let earlier = self.before.get(&told.pid).filter(|earlier| earlier.born == told.born);
            let part = earlier.map_or_else(|| told.clone(), |earlier| told.since(earlier));
            match told.dead {
                true => _ = self.before.remove(&told.pid),
                false => _ = self.before.insert(told.pid, told),
            }
            parts.push(part);
        }
        Ok(parts)
    }

    /// Number of events that did not fit a map or the buffer, and of calls that the kernel skipped.
    fn lost(&self) -> Result<u64, LinkError> {
        let counts = self.map("lost").lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
        let counts = counts.map_err(LinkError::bpf("count losses"))?.unwrap_or_default();
        let own: u64 = counts.iter().filter_map(|bytes| Reader(bytes).u64()).sum();
        let skipped = crate::cost::ProbeCost::of(&self.object)?.skipped;
        Ok(own + skipped.iter().map(|(_, count)| count).sum::<u64>())
    }

    /// Takes all entries out of a map of sums.
    fn drain(&self, name: &str) -> Result<Vec<Entry>, LinkError> {
        let map = self.map(name);
        let keys: Vec<Vec<u8>> = map.keys().collect();
        let mut entries = Vec::with_capacity(keys.len());
        for key in keys {
            let value = map.lookup_and_delete(&key).map_err(LinkError::bpf(format!("read {name}")))?;
            entries.extend(value.map(|value| (key, value)));
        }
        Ok(entries)
    }

    /// Waits or holds since the last reading: key, number, total, maximum, and name of the first task.
    fn sums(&self, map: &str) -> Result<Sums, LinkError> {
        let entry = |(key, value): Entry| {
            let mut reader = Reader(&value);
            Some((LockKey::parse(&key)?, reader.u64()?, reader.u64()?, reader.u64()?, reader.name()?))
        };
        Ok(self.drain(map)?.into_iter().filter_map(entry).collect())
    }

    fn locks(&mut self, trust: Trust, states: &[Told]) -> Result<Locks, LinkError> {
        self.learn_programs();
        let mut rows: BTreeMap<(String, String, String), Lock> = BTreeMap::new();
        let runqueues = self.runqueue_locks()?;
        let mut names: BTreeMap<(u32, u64), String> = BTreeMap::new();
        let mut of_row = |key: LockKey, name: String, add: &dyn Fn(&mut Lock)| -> Result<(), LinkError> {
            // A lock has the name of the first task that was seen to use it.
            let name = names.entry((key.task, key.lock)).or_insert(name);
            let row = self.row(key, name, &runqueues)?;
            add(rows.entry((row.kind.clone(), row.lock.clone(), row.caller.clone())).or_insert(row));
            Ok(())
        };
        for (key, count, total, max, name) in self.sums("lock_sums")? {
            of_row(key, name, &|row| {
                row.contended += count;
                row.wait_total += Nanos(total);
                row.wait_max = row.wait_max.max(Nanos(max));
            })?;
        }
        for (key, count, total, max, name) in self.sums("hold_sums")? {
            of_row(key, name, &|row| {
                *row.count.get_or_insert_default() += count;
                *row.hold_total.get_or_insert_default() += Nanos(total);
                row.hold_max = row.hold_max.max(Some(Nanos(max)));
            })?;
        }
        // A wait is charged at its end, so one that began before the interval may be longer than the states in it.
        let whole = std::mem::take(&mut self.is_first) && states.iter().all(|told| told.dead);
        let life = |told: &Told| told.times.iter().sum::<u64>();
        let microstates = whole.then(|| Nanos(states.iter().map(life).sum()));
        let followed = sys::now().since(self.began);
        Ok(Locks { trust, rows: rows.into_values().collect(), followed, microstates }.by_place())
    }

    /// An empty row for this key.
    fn row(&self, key: LockKey, name: &str, runqueues: &[u64]) -> Result<Lock, LinkError> {
        if key.flags & FUTEX != 0 {
            return Ok(Lock {
                kind: "futex".to_owned(),
                lock: format!("{name}:{:#x}", key.lock),
                caller: self.user_caller(&key, key.task),
                pc: Some(key.callers[0]).filter(|&pc| pc > 0),
                ..Lock::default()
            });
        }
        let caller = self.kernel.caller(&self.frames(key.stack)?);
        let runqueue = runqueues.iter().position(|&lock| lock == key.lock);
        let symbol = self.kernel.find(key.lock).filter(|(_, distance)| *distance == 0);
        let lock = match (runqueue, symbol) {
            (Some(cpu), _) => format!("CPU {cpu}"),
            (None, Some((name, _))) => name.to_owned(),
            (None, None) => format!("{:#x}", key.lock),
        };
        Ok(Lock {
            kind: if runqueue.is_some() { "runqueue" } else { kind_of(key.flags) }.to_owned(),
            lock,
            pc: caller.as_ref().map(|(_, address)| *address),
            caller: caller.map_or_else(|| "?".to_owned(), |(name, _)| name),
            ..Lock::default()
        })
    }

    /// Address of the lock of each CPU's runqueue; 0 if the CPU was not seen.
    fn runqueue_locks(&self) -> Result<Vec<u64>, LinkError> {
        let values = self.map("spins").lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
        let values = values.map_err(LinkError::bpf("read locks of runqueues"))?.unwrap_or_default();
        Ok(values.iter().map(|bytes| Reader(bytes).u64().unwrap_or(0)).collect())
    }

    /// The innermost function of the program that is not part of a lock's implementation.
    /// A thread that was gone before its program was opened has that of its process.
    fn user_caller(&self, key: &LockKey, process: u32) -> String {
        let callers: Vec<u64> = key.callers.into_iter().take_while(|&caller| caller > 0).collect();
        let Some(&first) = callers.first() else { return "?".to_owned() };
        let known = |task: u32| self.programs.get(&task).and_then(Option::as_ref);
        let program = known(key.task).or_else(|| known(process)).map(|program| program.symbols());
        let found = program.and_then(|program| program.user_caller(&callers));
        found.unwrap_or_else(|| format!("text+{first:#x}"))
    }

    fn frames(&self, stack: i32) -> Result<Vec<u64>, LinkError> {
        let Ok(stack) = u32::try_from(stack) else { return Ok(vec![]) };
        let found = self.map("stacks").lookup(&stack.to_ne_bytes(), MapFlags::ANY);
        let bytes = found.map_err(LinkError::bpf("read a stack"))?.unwrap_or_default();
        let words = bytes.chunks_exact(8).filter_map(|word| Reader(word).u64());
        Ok(words.take_while(|&word| word != 0).collect())
    }

    fn microstates(&mut self, trust: Trust, states: &[Told]) -> Result<Microstates, LinkError> {
        self.learn_programs();
        let mut reasons: BTreeMap<u32, Vec<Reason>> = BTreeMap::new();
        let processes: BTreeMap<u32, u32> = states.iter().map(|told| (told.pid, told.tgid)).collect();
        for (key, count, total, _, _) in self.sums("lock_sums")?.into_iter().filter(|(key, ..)| key.flags & FUTEX != 0)
        {
            let process = processes.get(&key.task).copied().unwrap_or(key.task);
            let what = self.user_caller(&key, process);
            let reason = Reason { state: State::Futex, what, count, time: Nanos(total) };
            let all = reasons.entry(key.task).or_default();
            match all.iter_mut().find(|own| own.what == reason.what) {
                Some(own) => (own.count, own.time) = (own.count + count, own.time + reason.time),
                None => all.push(reason),
            }
        }
        let groups = kernel::groups();
        let tasks = states.iter().map(|told| {
            let mut task = task(told);
            // A cgroup may have been removed since.
            task.cgroup = Some(groups.get(&told.cgroup).cloned().unwrap_or_else(|| format!("cgroup {}", told.cgroup)));
            task.reasons = reasons.remove(&told.pid).unwrap_or_default();
            task.reasons.sort_by_key(|reason| std::cmp::Reverse(reason.time));
            task
        });
        Ok(Microstates { trust, tasks: tasks.collect() })
    }

    fn wakeups(&self, trust: Trust) -> Result<Wakeups, LinkError> {
        let pair = |(key, value): Entry| {
            let (mut key, mut value) = (Reader(&key), Reader(&value));
            let (waker, task) = (key.name()?, key.name()?);
            let (count, measured) = (value.u64()?, value.u64()?);
            Some(Pair { waker, task, count, measured, total: Nanos(value.u64()?), max: Nanos(value.u64()?) })
        };
        let pairs = self.drain("pairs")?.into_iter().filter_map(pair).collect();
        Ok(Wakeups { trust, pairs, idle_while_runnable: None })
    }

    fn interrupts(&self, trust: Trust) -> Result<Interrupts, LinkError> {
        let names = machine::interrupt_names()?;
        let row = |(key, value): Entry| {
            let (mut key, mut value) = (Reader(&key), Reader(&value));
            let (source, number, cpu) = (key.u32()?, key.u32()?, CpuId(key.u32()?));
            let (count, total, max) = (value.u64()?, Some(Nanos(value.u64()?)), Some(Nanos(value.u64()?)));
            Some(Interrupt { source: machine::source_name(source, number, &names), cpu, count, total, max })
        };
        let rows = self.drain("sources")?.into_iter().filter_map(row).collect();
        Ok(Interrupts { trust, rows, stolen: vec![] })
    }
}

/// Tables of one reading.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Reading {
    Locks(Locks),
    Microstates(Microstates),
    Wakeups(Wakeups),
    Interrupts(Interrupts),
}

/// Tracepoints that a table needs.
fn tracepoints(what: What) -> &'static [&'static str] {
    const TASKS: &[&str] = &["sched_switch", "sched_waking", "sched_wakeup_new"];
    const LOCKS: &[&str] = &["sched_switch", "sched_waking", "sched_wakeup_new", "contention_begin", "contention_end"];
    const INTERRUPTS: &[&str] = &["irq_handler_entry", "irq_handler_exit", "softirq_entry", "softirq_exit"];
    match what {
        What::Locks => LOCKS,
        What::Microstates | What::Wakeups => TASKS,
        What::Interrupts => INTERRUPTS,
    }
}

/// Interrupt vectors of x86, which other architectures do not have.
const VECTORS: &[&str] = &[
    "local_timer_entry",
    "local_timer_exit",
    "reschedule_entry",
    "reschedule_exit",
    "call_function_entry",
    "call_function_exit",
    "call_function_single_entry",
    "call_function_single_exit",
];

/// `struct settings` of `tables.bpf.c`.
fn settings(what: What, scope: Scope) -> Result<Vec<u8>, LinkError> {
    let (thread, process, everything) = match scope {
        Scope::Command => (host::proc::thread_id()?, 0, 0u32),
        Scope::Process(process) => (0, process, 0),
        Scope::Machine => (0, 0, 1),
    };
    let locks = matches!(what, What::Locks | What::Microstates);
    let flags = [u32::from(locks), u32::from(what == What::Microstates), u32::from(what == What::Wakeups)];
    let words = [thread, process, everything, std::process::id()];
    Ok(words.into_iter().chain(flags).flat_map(u32::to_ne_bytes).collect())
}

fn listen(object: &Object, told: &Rc<RefCell<Vec<Vec<u8>>>>) -> Result<RingBuffer<'static>, LinkError> {
    let events = object.maps().find(|map| map.name() == "events").expect("tables.bpf.c has this map");
    let told = Rc::clone(told);
    let mut builder = RingBufferBuilder::new();
    let take = move |raw: &[u8]| {
        told.borrow_mut().push(raw.to_vec());
        0
    };
    builder.add(&events, take).map_err(LinkError::bpf("open the event buffer"))?;
    builder.build().map_err(LinkError::bpf("open the event buffer"))
}

/// Kind of a kernel lock by the flags of include/trace/events/lock.h.
fn kind_of(flags: u32) -> &'static str {
    const SPIN: u32 = 1 << 0;
    const READ: u32 = 1 << 1;
    const WRITE: u32 = 1 << 2;
    const RT: u32 = 1 << 3;
    const PERCPU: u32 = 1 << 4;
    const MUTEX: u32 = 1 << 5;
    match flags {
        _ if flags & MUTEX != 0 => "mutex",
        _ if flags & PERCPU != 0 => "percpu-rwsem",
        _ if flags & RT != 0 => "rt-mutex",
        _ if flags & SPIN != 0 && flags & READ != 0 => "rw-read",
        _ if flags & SPIN != 0 && flags & WRITE != 0 => "rw-write",
        _ if flags & SPIN != 0 => "spin",
        _ if flags & READ != 0 => "rwsem-read",
        _ if flags & WRITE != 0 => "rwsem-write",
        _ => "other",
    }
}

/// A task of the table. Time on the CPU that the scheduler does not charge to the task is stolen. Where the kernel
/// counts user and system time at ticks, the rest is divided in their proportion.
fn task(told: &Told) -> Task {
    let on_cpu = told.times[RUN];
    let stolen = told.counted.saturating_sub(told.ran).min(on_cpu);
    let run = on_cpu - stolen;
    let mut states: BTreeMap<State, Nanos> = BTreeMap::from([(State::Stolen, Nanos(stolen))]);
    let mut counts = BTreeMap::new();
    let ticks = u128::from(told.utime) + u128::from(told.stime);
    match ticks {
        0 => _ = states.insert(State::User, Nanos(run)),
        _ => {
            let user = (u128::from(run) * u128::from(told.utime) / ticks) as u64;
            states.extend([(State::User, Nanos(user)), (State::System, Nanos(run - user))]);
        }
    }
    debug_assert_eq!(SLEEPS.len() + 1, STATES);
    for (at, state) in SLEEPS {
        states.insert(state, Nanos(told.times[at]));
        counts.insert(state, u64::from(told.counts[at]));
    }
    let (life, reasons) = (told.now.since(told.born), vec![]);
    Task { pid: told.pid, process: told.tgid, name: told.name.clone(), cgroup: None, life, states, counts, reasons }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_a_task_add_up_whatever_the_scheduler_counted() {
        for (ran, utime, stime) in [(90, 0, 0), (90, 4, 12), (250, 1, 0), (0, 7, 7)] {
            let times = [100, 20, 5, 1, 2, 3, 4, 6, 9];
            let told =
                Told { now: Nanos(250), born: Nanos(100), times, ran, counted: 100, utime, stime, ..Told::default() };
            let task = task(&told);
            assert_eq!((task.sum(), task.life), (Nanos(150), Nanos(150)), "{ran} {utime} {stime}");
        }
    }

    #[test]
    fn kinds_of_locks_follow_the_flags_of_the_tracepoint() {
        let kinds = [0b1, 0b11, 0b101, 0b10, 0b100, 0b100000, 0b100001, 0b10010, 0b1000].map(kind_of);
        let expected =
            ["spin", "rw-read", "rw-write", "rwsem-read", "rwsem-write", "mutex", "mutex", "percpu-rwsem", "rt-mutex"];
        assert_eq!(kinds, expected);
    }
}
