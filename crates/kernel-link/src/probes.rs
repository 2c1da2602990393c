// SPDX-License-Identifier: GPL-2.0-only
//! Loads and attaches Weir's own BPF programs, and receives their events.

use crate::LinkError;
use crate::complaints;
use crate::cost::ProbeCost;
use crate::kernel;
use crate::own_time::OwnTimes;
use ids::{CpuId, CpuSet};
use libbpf_rs::{Iter, Link, MapCore, MapFlags, Object, ObjectBuilder, RingBuffer, RingBufferBuilder};
use recording::wire::{self, Glance};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// Interval at which the consumer empties the buffer. A parallel build generates about 100 KB of events in this time,
/// and the buffer holds 16 MB; when a quarter is full, the consumer is woken early.
pub(crate) const PERIOD: Duration = Duration::from_millis(100);

/// Compiled programs, aligned as libbpf's ELF reader requires.
#[repr(C, align(8))]
pub(crate) struct Aligned<Bytes: ?Sized>(pub Bytes);

/// A set of programs that follow a tree of tasks.
pub(crate) struct ProbeSet {
    /// The object, with the definitions of `tree.bpf.h`.
    pub object: &'static Aligned<[u8]>,
    /// Tracepoints that its programs are attached to.
    pub tracepoints: &'static [&'static str],
    /// Tracepoints that not every kernel has. Their programs (`?tp_btf/NAME`) are loaded only if the kernel has them.
    pub optional: &'static [&'static str],
    /// Tracepoints (also of those above) with perf events that can replace them. In a kernel that can preempt
    /// tracepoint programs, the events' programs (`?tp/EVENT`) are loaded instead of the tracepoint's
    /// (`?tp_btf/NAME`) if all these events exist, since none of their calls is skipped (5 in `record.bpf.c`).
    pub by_perf: &'static [(&'static str, &'static [&'static str])],
}

impl ProbeSet {
    /// Sections of the optional programs to load on this kernel.
    fn sections(&self) -> Result<BTreeSet<String>, LinkError> {
        let mut tracepoints = kernel::known_tracepoints(self.optional)?;
        tracepoints.extend(self.tracepoints);
        let preempts = kernel::preempts_tracepoints()?;
        let chosen = tracepoints.into_iter().flat_map(|tracepoint| {
            let pair = self.by_perf.iter().find(|(name, _)| *name == tracepoint);
            match pair.filter(|(_, events)| preempts && events.iter().all(|event| kernel::has_event(event))) {
                Some((_, events)) => events.iter().map(|event| format!("tp/{event}")).collect(),
                None => vec![format!("tp_btf/{tracepoint}")],
            }
        });
        Ok(chosen.collect())
    }
}

/// Tasks whose descendants are observed, together with the tasks themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Roots {
    /// The next child of this thread (TID).
    NextChildOf(u32),
    /// Every further child of this thread.
    ChildrenOf(u32),
    /// No roots yet.
    None,
}

/// Loaded programs.
pub(crate) struct Probes {
    object: Object,
    mask_words: u32,
}

impl Probes {
    /// Loads a set for a machine with these CPUs.
    pub fn load(set: &ProbeSet, cpus: &CpuSet, roots: Roots) -> Result<Probes, LinkError> {
        complaints::listen();
        let mut open =
            ObjectBuilder::default().open_memory(&set.object.0).map_err(LinkError::bpf("read Weir's own programs"))?;
        let mask_words = (cpus.words().len() as u32).max(1);
        let preempt_count_from_rq = kernel::preempt_count_from_rq(set.tracepoints)?;
        let sections = set.sections()?;
        for mut program in open.progs_mut() {
            if sections.contains(program.section().to_string_lossy().as_ref()) {
                program.set_autoload(true);
            }
        }
        let siblings = siblings(cpus);
        let mut values =
            vec![(SETTINGS, settings(roots, mask_words)), (OFFSETS, preempt_count_from_rq.to_ne_bytes().to_vec())];
        let most = cpus.iter().last().map_or(0, |cpu| cpu.0);
        for mut by_cpu in open.maps_mut().filter(|map| [THREADS, IDLE_CPUS].iter().any(|name| map.name() == *name)) {
            by_cpu.set_max_entries(most + 1).map_err(LinkError::bpf("set up Weir's own programs"))?;
            if by_cpu.name() == THREADS {
                values.push((SIBLINGS, u32::from(!siblings.is_empty()).to_ne_bytes().to_vec()));
            }
        }
        for (section, value) in values {
            let named = |map: &libbpf_rs::OpenMapMut<'_>| map.name().to_string_lossy().ends_with(section);
            let mut map = open.maps_mut().find(named).expect("the programs have this map");
            map.set_initial_value(&value).map_err(LinkError::bpf("set up Weir's own programs"))?;
        }
        let object = open.load().map_err(|source| LinkError::Load { source, log: complaints::last_words() })?;
        let probes = Probes { object, mask_words };
        probes.tell_siblings(&siblings)?;
        Ok(probes)
    }

    /// Passes the SMT siblings to programs that use them.
    fn tell_siblings(&self, siblings: &[(CpuId, CpuId)]) -> Result<(), LinkError> {
        let Some(threads) = self.object.maps().find(|map| map.name() == THREADS) else { return Ok(()) };
        for (cpu, other) in siblings {
            let mut value = vec![0; threads.value_size() as usize];
            value[8..12].copy_from_slice(&(other.0 + 1).to_ne_bytes());
            let set = threads.update(&cpu.0.to_ne_bytes(), &value, MapFlags::ANY);
            set.map_err(LinkError::bpf("set up Weir's own programs"))?;
        }
        Ok(())
    }

    /// Attaches all programs for the lifetime of the links.
    pub fn attach(&self) -> Result<Vec<Link>, LinkError> {
        let attach = |program: libbpf_rs::ProgramMut<'_>| {
            let action = format!("attach {}", program.name().to_string_lossy());
            program.attach().map_err(LinkError::bpf(action))
        };
        let is_wanted = |program: &libbpf_rs::ProgramMut<'_>| program.autoload() && !is_iterator(program);
        self.object.progs_mut().filter(is_wanted).map(attach).collect()
    }

    /// Runs a program once for each task of the machine.
    pub fn for_each_task(&self, program: &str) -> Result<(), LinkError> {
        let failed = || LinkError::bpf(format!("run {program}"));
        let found = self.object.progs_mut().find(|found| found.name() == program);
        let link = found.expect("the object has this program").attach().map_err(failed())?;
        let mut tasks = Iter::new(&link).map_err(failed())?;
        // Reading the output runs the program, which writes nothing.
        std::io::copy(&mut tasks, &mut std::io::sink()).map_err(LinkError::file(program))?;
        Ok(())
    }

    /// Selects existing processes to be recorded with their descendants: these, or 0 for all, except process `but`.
    pub fn want(&self, processes: &[u32], but: u32) -> Result<(), LinkError> {
        let wanted = self.map("wanted");
        let answers = processes.iter().map(|process| (*process, 1u32)).chain([(but, 0)]);
        for (process, answer) in answers {
            let set = wanted.update(&process.to_ne_bytes(), &answer.to_ne_bytes(), MapFlags::ANY);
            set.map_err(LinkError::bpf("set up Weir's own programs"))?;
        }
        Ok(())
    }

    /// Starts another tree. Task numbers start at 0 again.
    pub fn follow(&self, roots: Roots) -> Result<(), LinkError> {
        let bytes = settings(roots, self.mask_words);
        let map = self.object.maps().find(|map| map.name().to_string_lossy().ends_with(SETTINGS));
        let map = map.expect("tree.bpf.h has settings");
        map.update(&0u32.to_ne_bytes(), &bytes, MapFlags::ANY).map_err(LinkError::bpf("set up Weir's own programs"))
    }

    /// Number of events that did not fit the buffer, by CPU.
    pub fn lost_by_cpu(&self) -> Result<Vec<u64>, LinkError> {
        let lost = self.map("lost");
        let counts = lost.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(LinkError::bpf("count losses"))?;
        let count = |bytes: &Vec<u8>| Some(u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?));
        Ok(counts.unwrap_or_default().iter().filter_map(count).collect())
    }

    /// Run times measured by the programs themselves.
    pub fn own_times(&self) -> Result<OwnTimes, LinkError> {
        let map = self.map("own_times");
        let by_cpu = map.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(LinkError::bpf("read own_times"))?;
        OwnTimes::of_cpus(&by_cpu.unwrap_or_default())
            .ok_or_else(|| LinkError::Malformed("own_times has another size".into()))
    }

    /// Cost of the programs so far.
    pub fn cost(&self) -> Result<ProbeCost, LinkError> {
        ProbeCost::of(&self.object)
    }

    /// Opens the buffer, whose contents go to `inbox` at each [`receive`].
    pub fn listen(&self, inbox: &Rc<RefCell<Inbox>>) -> Result<RingBuffer<'static>, LinkError> {
        let events = self.map("events");
        let inbox = Rc::clone(inbox);
        let mut builder = RingBufferBuilder::new();
        let take = move |raw: &[u8]| {
            inbox.borrow_mut().take(raw);
            0
        };
        builder.add(&events, take).map_err(LinkError::bpf("open the event buffer"))?;
        builder.build().map_err(LinkError::bpf("open the event buffer"))
    }

    fn map(&self, name: &str) -> libbpf_rs::Map<'_> {
        self.object.maps().find(|map| map.name() == name).expect("tree.bpf.h has this map")
    }
}

/// Whether the program is an iterator over tasks.
fn is_iterator(program: &libbpf_rs::ProgramMut<'_>) -> bool {
    program.section().to_string_lossy().starts_with("iter/")
}

/// Waits for `period` or until the buffer is a quarter full, and receives its contents.
pub(crate) fn receive(ring: &RingBuffer<'_>, period: Duration) -> Result<(), LinkError> {
    // If the first call times out, only the second one receives what is there.
    match ring.poll(period) {
        Err(error) if error.kind() == libbpf_rs::ErrorKind::Interrupted => {}
        other => other.map_err(LinkError::bpf("wait for events"))?,
    }
    ring.consume().map_err(LinkError::bpf("receive events"))
}

/// CPUs with an SMT sibling, and that sibling.
fn siblings(cpus: &CpuSet) -> Vec<(CpuId, CpuId)> {
    cpus.iter().filter_map(|cpu| Some((cpu, host::proc::sibling(cpu)?))).collect()
}

/// Map of `siblings.bpf.h`.
const THREADS: &str = "threads_of_cores";
const SIBLINGS: &str = ".rodata.siblings";

/// Map of `idle.bpf.h`.
const IDLE_CPUS: &str = "idle_cpus";

/// Data section of `tree.bpf.h`. libbpf prefixes the names of data sections with the object's name, truncated.
const SETTINGS: &str = ".data.settings";
const OFFSETS: &str = ".rodata.offsets";

/// `struct settings` of `tree.bpf.h`.
fn settings(roots: Roots, mask_words: u32) -> Vec<u8> {
    let (thread, all_children) = match roots {
        Roots::NextChildOf(thread) => (thread, 0u32),
        Roots::ChildrenOf(thread) => (thread, 1),
        Roots::None => (0, 0),
    };
    let mut bytes = thread.to_ne_bytes().to_vec();
    bytes.extend(mask_words.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(all_children.to_ne_bytes());
    bytes
}

/// Raw events with their lengths, in chunks that are never moved.
#[derive(Debug, Default)]
pub(crate) struct Chunks(Vec<Vec<u8>>);

/// Size of a chunk in bytes.
const CHUNK: usize = 1 << 20;

impl Chunks {
    fn take(&mut self, raw: &[u8]) {
        let length = (raw.len() as u32).to_ne_bytes();
        let needed = length.len() + raw.len();
        if self.0.last().is_none_or(|chunk| chunk.capacity() - chunk.len() < needed) {
            self.0.push(Vec::with_capacity(CHUNK.max(needed)));
        }
        let chunk = self.0.last_mut().expect("there is a current chunk");
        chunk.extend_from_slice(&length);
        chunk.extend_from_slice(raw);
    }

    /// Size of all events in bytes.
    pub fn bytes(&self) -> usize {
        self.0.len() * CHUNK
    }

    /// Calls a function with each event.
    pub fn each(&self, mut each: impl FnMut(&[u8]) -> Result<(), LinkError>) -> Result<(), LinkError> {
        self.0.iter().try_for_each(|chunk| events_of(chunk, &mut each))
    }
}

/// Received events. Receiving does as little work as possible, since it runs beside the observed tasks.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Events that were not drained yet.
    pub chunks: Chunks,
    /// Total number of events received.
    pub events: u64,
    /// Number of births, and of ends sent by the recorder's programs.
    pub births: u64,
    pub ends: u64,
    /// Number of block-device requests, most of which are from other tasks.
    requests: u64,
}

impl Inbox {
    fn take(&mut self, raw: &[u8]) {
        self.chunks.take(wire::used(raw));
        self.events += 1;
        match wire::glance(raw) {
            Glance::Birth => self.births += 1,
            Glance::End => self.ends += 1,
            Glance::Request => self.requests += 1,
            Glance::Sleep | Glance::Pass | Glance::Other => {}
        }
    }

    /// Number of events caused by tasks of the tree.
    pub fn of_tree(&self) -> u64 {
        self.events - self.requests
    }

    /// Passes on the received events and frees them.
    pub fn drain(&mut self, each: impl FnMut(&[u8]) -> Result<(), LinkError>) -> Result<(), LinkError> {
        std::mem::take(&mut self.chunks).each(each)
    }
}

fn events_of(mut chunk: &[u8], each: &mut impl FnMut(&[u8]) -> Result<(), LinkError>) -> Result<(), LinkError> {
    while let Some((length, rest)) = chunk.split_first_chunk() {
        let (event, rest) = rest.split_at(u32::from_ne_bytes(*length) as usize);
        each(event)?;
        chunk = rest;
    }
    Ok(())
}
