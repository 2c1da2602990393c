// SPDX-License-Identifier: GPL-2.0-only
//! Weir's own programs in the kernel: loading, attaching, and taking what they send.

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

/// The consumer empties the buffer this often. A parallel build makes about 100 KB of recorded events in that time,
/// and the buffer holds 16 MB; a quarter of it wakes the consumer early.
pub(crate) const PERIOD: Duration = Duration::from_millis(100);

/// Compiled programs. libbpf's ELF reader wants them aligned.
#[repr(C, align(8))]
pub(crate) struct Aligned<Bytes: ?Sized>(pub Bytes);

/// A set of programs that follow a tree of tasks.
pub(crate) struct ProbeSet {
    /// The object, with what `tree.bpf.h` defines.
    pub object: &'static Aligned<[u8]>,
    /// The tracepoints that its programs are attached to.
    pub tracepoints: &'static [&'static str],
    /// Tracepoints that not every kernel has. Their programs (`?tp_btf/NAME`) are loaded only where it does.
    pub optional: &'static [&'static str],
    /// Tracepoints, also of those above, and events of perf's. In a kernel in whose tracepoints tasks lose their CPU, the
    /// events' programs (`?tp/EVENT`) are loaded in place of the tracepoint's (`?tp_btf/NAME`), if it shows all of them: no
    /// call of them is skipped (5 in `record.bpf.c`).
    pub by_perf: &'static [(&'static str, &'static [&'static str])],
}

impl ProbeSet {
    /// Sections of programs that are loaded only if they are asked for, as this kernel wants them.
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

/// Which tasks begin the tree that is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Roots {
    /// The next child of this thread (a thread id).
    NextChildOf(u32),
    /// Each child of this thread, from now on.
    ChildrenOf(u32),
    /// None yet.
    Nobody,
}

/// Programs in the kernel.
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
            let mut map = open.maps_mut().find(named).expect("the programs have it");
            map.set_initial_value(&value).map_err(LinkError::bpf("set up Weir's own programs"))?;
        }
        let object = open.load().map_err(|source| LinkError::Load { source, log: complaints::last_words() })?;
        let probes = Probes { object, mask_words };
        probes.tell_siblings(&siblings)?;
        Ok(probes)
    }

    /// Tells the programs which CPUs are threads of one core, if they want to know.
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

    /// Attaches all programs, for as long as the links live.
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
        let link = found.expect("the object has it").attach().map_err(failed())?;
        let mut tasks = Iter::new(&link).map_err(failed())?;
        // The programs write nothing: to read what they have written is to run them.
        std::io::copy(&mut tasks, &mut std::io::sink()).map_err(LinkError::file(program))?;
        Ok(())
    }

    /// Says which processes that are there already are recorded with their descendants: these, or 0 for all, but not that
    /// one.
    pub fn want(&self, processes: &[u32], but: u32) -> Result<(), LinkError> {
        let wanted = self.map("wanted");
        let answers = processes.iter().map(|process| (*process, 1u32)).chain([(but, 0)]);
        for (process, answer) in answers {
            let set = wanted.update(&process.to_ne_bytes(), &answer.to_ne_bytes(), MapFlags::ANY);
            set.map_err(LinkError::bpf("set up Weir's own programs"))?;
        }
        Ok(())
    }

    /// Begins another tree. Numbers of tasks begin at 0 again.
    pub fn follow(&self, roots: Roots) -> Result<(), LinkError> {
        let bytes = settings(roots, self.mask_words);
        let map = self.object.maps().find(|map| map.name().to_string_lossy().ends_with(SETTINGS));
        let map = map.expect("tree.bpf.h has settings");
        map.update(&0u32.to_ne_bytes(), &bytes, MapFlags::ANY).map_err(LinkError::bpf("set up Weir's own programs"))
    }

    /// Events that did not fit the buffer, by CPU.
    pub fn lost_by_cpu(&self) -> Result<Vec<u64>, LinkError> {
        let lost = self.map("lost");
        let counts = lost.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(LinkError::bpf("count losses"))?;
        let count = |bytes: &Vec<u8>| Some(u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?));
        Ok(counts.unwrap_or_default().iter().filter_map(count).collect())
    }

    /// How long those programs have taken that time themselves.
    pub fn own_times(&self) -> Result<OwnTimes, LinkError> {
        let map = self.map("own_times");
        let by_cpu = map.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(LinkError::bpf("read own_times"))?;
        OwnTimes::of_cpus(&by_cpu.unwrap_or_default())
            .ok_or_else(|| LinkError::Malformed("own_times has another size".into()))
    }

    /// What the programs have done so far.
    pub fn cost(&self) -> Result<ProbeCost, LinkError> {
        ProbeCost::of(&self.object)
    }

    /// Opens the buffer. What it holds comes to `inbox` on each [`receive`].
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

/// Whether it is run for each task there is, and not when something happens.
fn is_iterator(program: &libbpf_rs::ProgramMut<'_>) -> bool {
    program.section().to_string_lossy().starts_with("iter/")
}

/// Sleeps for the period or until the buffer is a quarter full, and takes what is in it.
pub(crate) fn receive(ring: &RingBuffer<'_>, period: Duration) -> Result<(), LinkError> {
    // Only the second call takes what is there after the first one slept to its end.
    match ring.poll(period) {
        Err(error) if error.kind() == libbpf_rs::ErrorKind::Interrupted => {}
        other => other.map_err(LinkError::bpf("wait for events"))?,
    }
    ring.consume().map_err(LinkError::bpf("receive events"))
}

/// CPUs whose core has another thread, and that.
fn siblings(cpus: &CpuSet) -> Vec<(CpuId, CpuId)> {
    cpus.iter().filter_map(|cpu| Some((cpu, host::proc::sibling(cpu)?))).collect()
}

/// Of `siblings.bpf.h`.
const THREADS: &str = "threads_of_cores";
const SIBLINGS: &str = ".rodata.siblings";

/// Of `idle.bpf.h`.
const IDLE_CPUS: &str = "idle_cpus";

/// Sections of `tree.bpf.h`. libbpf puts the object's name before that of a section of data, as far as there is room.
const SETTINGS: &str = ".data.settings";
const OFFSETS: &str = ".rodata.offsets";

/// `struct settings` of `tree.bpf.h`.
fn settings(roots: Roots, mask_words: u32) -> Vec<u8> {
    let (thread, all_children) = match roots {
        Roots::NextChildOf(thread) => (thread, 0u32),
        Roots::ChildrenOf(thread) => (thread, 1),
        Roots::Nobody => (0, 0),
    };
    let mut bytes = thread.to_ne_bytes().to_vec();
    bytes.extend(mask_words.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(all_children.to_ne_bytes());
    bytes
}

/// Raw events as they came, each after its length, in pieces: what came is never moved.
#[derive(Debug, Default)]
pub(crate) struct Pieces(Vec<Vec<u8>>);

/// Bytes of a piece.
const PIECE: usize = 1 << 20;

impl Pieces {
    fn take(&mut self, raw: &[u8]) {
        let length = (raw.len() as u32).to_ne_bytes();
        let needed = length.len() + raw.len();
        if self.0.last().is_none_or(|piece| piece.capacity() - piece.len() < needed) {
            self.0.push(Vec::with_capacity(PIECE.max(needed)));
        }
        let piece = self.0.last_mut().expect("there is one");
        piece.extend_from_slice(&length);
        piece.extend_from_slice(raw);
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        self.0.len() * PIECE
    }

    /// Hands out all events.
    pub fn each(&self, mut each: impl FnMut(&[u8]) -> Result<(), LinkError>) -> Result<(), LinkError> {
        self.0.iter().try_for_each(|piece| events_of(piece, &mut each))
    }
}

/// What has come. Taking it is as little work as possible: it is done beside what is observed.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// What was not taken out.
    pub pieces: Pieces,
    /// How many events came in all.
    pub events: u64,
    /// Births among them, and ends that the recorder's programs send.
    pub births: u64,
    pub ends: u64,
    /// Requests of block devices, of which most are others'.
    requests: u64,
}

impl Inbox {
    fn take(&mut self, raw: &[u8]) {
        self.pieces.take(wire::used(raw));
        self.events += 1;
        match wire::glance(raw) {
            Glance::Birth => self.births += 1,
            Glance::End => self.ends += 1,
            Glance::Request => self.requests += 1,
            Glance::Sleep | Glance::Pass | Glance::Other => {}
        }
    }

    /// How many events the tasks of the tree have made.
    pub fn of_tree(&self) -> u64 {
        self.events - self.requests
    }

    /// Hands out what has come and forgets it.
    pub fn drain(&mut self, each: impl FnMut(&[u8]) -> Result<(), LinkError>) -> Result<(), LinkError> {
        std::mem::take(&mut self.pieces).each(each)
    }
}

fn events_of(mut piece: &[u8], each: &mut impl FnMut(&[u8]) -> Result<(), LinkError>) -> Result<(), LinkError> {
    while let Some((length, rest)) = piece.split_first_chunk() {
        let (event, rest) = rest.split_at(u32::from_ne_bytes(*length) as usize);
        each(event)?;
        piece = rest;
    }
    Ok(())
}
