// SPDX-License-Identifier: GPL-2.0-only
//! A scheduler in the kernel: from libbpf's object to the attached link, and its state afterwards.

use super::log::KernelLog;
use super::prepare::{Prepared, Table};
use super::record::Record;
use super::{KernelExit, OpStatistics, Request, SchedulerError, Statistics, kernel, open};
use crate::cost::Metering;
use crate::{LinkError, complaints};
use bpf_object::MapDef;
use host::proc::read;
use launch_profile::{MapElement, PlannedStep, ProgramCall};
use libbpf_rs::{Link, Map, MapCore, MapFlags, MapHandle, MapMut, MapType, Object, OpenObject, ProgramInput};
use nix::errno::Errno;
use std::cell::OnceCell;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Timeout for enabling and disabling. Both visit every task of the machine, which takes seconds on an emulated
/// machine with ten thousand tasks.
const PATIENCE: Duration = Duration::from_secs(60);

/// An attached scheduler. Dropping this unloads it without waiting.
#[derive(Debug)]
pub struct Attached {
    /// Declared first, so that it is dropped first.
    link: Option<Link>,
    others: Vec<Link>,
    object: Object,
    table: Table,
    record: Option<Record>,
    /// The kernel log from before the attach on, in which the exit is logged.
    log: Option<KernelLog>,
    logged: OnceCell<KernelExit>,
    notes: Vec<String>,
    planned: Vec<PlannedStep>,
    /// `enable_seq` of this scheduler; another number means that another scheduler has been enabled since.
    enable_seq: u64,
    _metering: Option<Metering>,
}

/// Opens, loads and attaches a prepared object.
pub(super) fn attach(request: &Request<'_>, prepared: Prepared) -> Result<Attached, LinkError> {
    let mut object = load(request, &prepared)?;
    let metering = request.measure.then(Metering::start).transpose()?;
    let mut others = Vec::new();
    for program in object.progs_mut().filter(|program| prepared.others.iter().any(|name| program.name() == &**name)) {
        let action = format!("attach program {}", program.name().to_string_lossy());
        others.push(program.attach().map_err(LinkError::bpf(action))?);
    }
    for inner in &prepared.inner_maps {
        fill_slot(&object, inner)?;
    }
    for element in &prepared.steps.elements {
        write(request.name, &object, element)?;
    }
    for call in &prepared.steps.calls {
        run(request.name, &mut object, call)?;
    }
    kernel::check_free(PATIENCE)?;
    let log = KernelLog::from_now();
    let before = kernel::number("enable_seq")?;
    let is_table = |map: &MapMut<'_>| map.name() == &*prepared.table.variable;
    let link = object.maps_mut().find(is_table).expect("it was just loaded").attach_struct_ops();
    let link = link.map_err(|error| refused(request, &prepared.table, &error))?;
    let mut attached = Attached {
        link: Some(link),
        others,
        object,
        table: prepared.table,
        record: prepared.record,
        log,
        logged: OnceCell::new(),
        notes: prepared.notes,
        planned: prepared.steps.planned,
        enable_seq: before,
        _metering: metering,
    };
    let settled = |state: &str| Ok(matches!(state, "enabled" | "disabled"));
    kernel::wait_for("enabled", PATIENCE, settled)?;
    attached.enable_seq = kernel::number("enable_seq")?;
    for call in &prepared.steps.calls_attached {
        run(request.name, &mut attached.object, call)?;
    }
    Ok(attached)
}

/// Creates an inner map and stores it in its slot, as user space does if there are too many to declare.
fn fill_slot(object: &Object, (outer, slot, inner): &(String, u32, MapDef)) -> Result<(), LinkError> {
    let failed = LinkError::bpf(format!("fill slot {slot} of `{outer}`"));
    let options = libbpf_rs::libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as _,
        map_flags: inner.flags,
        ..Default::default()
    };
    let (kind, MapDef { key_size, value_size, max_entries, .. }) = (MapType::from(inner.kind as u32), inner);
    let made = MapHandle::create(kind, None::<&str>, *key_size, *value_size, *max_entries, &options);
    let outer = object.maps().find(|map| map.name() == &**outer).expect("it was just loaded");
    let put =
        |made: MapHandle| outer.update(&slot.to_ne_bytes(), &made.as_fd().as_raw_fd().to_ne_bytes(), MapFlags::ANY);
    made.and_then(put).map_err(failed)
}

/// Writes a map element; for per-CPU maps the same value for all CPUs, or one for each.
fn write(name: &str, object: &Object, element: &MapElement) -> Result<(), LinkError> {
    let map = object.maps().find(|map| map.name() == &*element.map).expect("it was just loaded");
    let written = match map.map_type() {
        MapType::PercpuArray | MapType::PercpuHash | MapType::LruPercpuHash => {
            let cpus = libbpf_rs::num_possible_cpus().map_err(LinkError::bpf("count the CPUs"))?;
            let value = |cpu: usize| element.values.get(cpu).unwrap_or(&element.values[0]).clone();
            map.update_percpu(&element.key, &(0..cpus).map(value).collect::<Vec<_>>(), MapFlags::ANY)
        }
        _ => map.update(&element.key, &element.values[0], MapFlags::ANY),
    };
    written.map_err(|_| {
        let errno = Errno::last_raw();
        SchedulerError::Profile { name: name.to_owned(), source: element.failed(errno) }.into()
    })
}

/// Calls a program of the object, as user space does before attach (contract L3).
fn run(name: &str, object: &mut Object, call: &ProgramCall) -> Result<(), LinkError> {
    match returned(object, call)? {
        0 => Ok(()),
        returned => {
            let source = call.failed(returned.into());
            Err(SchedulerError::Profile { name: name.to_owned(), source }.into())
        }
    }
}

/// Return value of the program.
fn returned(object: &mut Object, call: &ProgramCall) -> Result<i32, LinkError> {
    let program = object.progs_mut().find(|program| program.name() == &*call.program).expect("it was just loaded");
    let mut context = call.context.clone();
    let context_in = (!context.is_empty()).then_some(&mut context[..]);
    let input = ProgramInput { context_in, ..ProgramInput::default() };
    let output = program.test_run(input).map_err(LinkError::bpf(format!("call program {}", call.program)))?;
    Ok(output.return_value as i32)
}

/// Loads the object, including verification.
fn load(request: &Request<'_>, prepared: &Prepared) -> Result<Object, LinkError> {
    let config = open::config(request.name, &prepared.config)?;
    complaints::listen();
    let failed = |_| load_error(request.name, &complaints::take());
    // libbpf's ELF reader needs aligned bytes, which an allocation is.
    let bytes = request.object.to_vec();
    let mut open = open::open(&bytes, &prepared.table.name, config.as_deref()).map_err(failed)?;
    fill(request.name, &mut open, prepared)?;
    Ok(open.load().map_err(failed)?)
}

/// Overwrites libbpf's data with the prepared bytes.
pub(super) fn fill(name: &str, open: &mut OpenObject, prepared: &Prepared) -> Result<(), LinkError> {
    let unsuitable = |problem: String| SchedulerError::Unsuitable { name: name.to_owned(), problem };
    for mut program in open.progs_mut() {
        if prepared.left_out.iter().any(|left_out| program.name() == &**left_out) {
            program.set_autoload(false);
        }
    }
    for mut map in open.maps_mut() {
        let map_name = map.name().to_string_lossy().into_owned();
        if map.map_type() == MapType::StructOps {
            if map_name == prepared.table.variable {
                let values = map.initial_value_mut().unwrap_or_default();
                for (offset, bytes) in &prepared.table.patches {
                    let place = values.get_mut(*offset..offset + bytes.len());
                    place
                        .ok_or_else(|| unsuitable(format!("`{map_name}` ends before byte {offset}")))?
                        .copy_from_slice(bytes);
                }
            }
            continue;
        }
        if let Some((_, entries)) = prepared.capacities.iter().find(|(name, _)| *name == map_name) {
            map.set_max_entries(*entries).map_err(LinkError::bpf(format!("set the capacity of `{map_name}`")))?;
        }
        let Some((section, bytes)) = prepared.sections.iter().find(|(section, _)| is_section(&map_name, section))
        else {
            continue;
        };
        if let Some((_, size)) = prepared.resized.iter().find(|(resized, _)| resized == section) {
            map.set_value_size(*size).map_err(LinkError::bpf(format!("resize `{section}`")))?;
        }
        map.set_initial_value(bytes).map_err(LinkError::bpf(format!("fill `{section}`")))?;
    }
    Ok(())
}

/// libbpf names the maps of `.rodata`, `.data` and `.bss` after object and section, all others after the section
/// only.
fn is_section(map: &str, section: &str) -> bool {
    map == section || map.ends_with(section) && matches!(section, ".rodata" | ".data" | ".bss")
}

/// Converts libbpf's log to an error: a verifier error if the verifier rejected the object.
fn load_error(name: &str, log: &str) -> SchedulerError {
    let (name, log) = (name.to_owned(), log.to_owned());
    match verifier_verdict(&log) {
        Some((program, last_line)) => SchedulerError::Verifier { name, program, last_line, log },
        None => SchedulerError::Load { name, reason: most_telling(&log), log },
    }
}

/// The rejected program and the reason, which is the verifier's last line before its statistics.
pub(super) fn verifier_verdict(log: &str) -> Option<(String, String)> {
    let (before, rest) = log.split_once("-- BEGIN PROG LOAD LOG --")?;
    let program = before.rsplit_once("prog '")?.1.split('\'').next()?.to_owned();
    let said = rest.split("-- END PROG LOAD LOG --").next()?;
    // 7.3 repeats the reason with a long explanation.
    let said = said.split("\nVerification failed: ").next()?;
    let statistics = ["processed ", "verification time ", "stack depth "];
    let reason = said.lines().rfind(|line| !line.is_empty() && !statistics.iter().any(|words| line.starts_with(words)));
    Some((program, reason.unwrap_or("no reason given").trim().to_owned()))
}

/// libbpf logs the cause before its consequences: the first line is the most informative.
pub(super) fn most_telling(log: &str) -> String {
    let first = log.lines().map(|line| line.trim_start_matches("libbpf: ").trim()).find(|line| !line.is_empty());
    let first = first.unwrap_or("no reason given by libbpf");
    // Some parameters are internal to the kernel and must not be in its BTF; Debian's 7.1.13 has them for some
    // functions.
    let why = ": the BTF of this kernel has other parameters for the function; try another build of the kernel";
    let config = ": it needs the kernel configuration; expected /proc/config.gz, /boot/config-RELEASE or \
                  /usr/lib/modules/RELEASE/config";
    match first {
        "failed to open system Kconfig" => format!("{first}{config}"),
        _ if first.contains("] incompatible with vmlinux") => format!("{first}{why}"),
        _ => first.to_owned(),
    }
}

/// Explains the kernel's rejection of the struct_ops table (contract 1.3, step 1).
fn refused(request: &Request<'_>, table: &Table, error: &libbpf_rs::Error) -> LinkError {
    let errno = errno(error);
    let reason = match errno {
        Some(7) => "E2BIG: timeout_ms must not exceed 30000, dispatch_max_batch not 2^31 - 1".to_owned(),
        Some(16) => "EBUSY: another scheduler is active or being loaded: stop that first".to_owned(),
        Some(22) => format!(
            "EINVAL: an empty or invalid name (`{}`), flags unknown to this kernel (flags are {:#x}), \
             or an isolated CPU (boot parameter isolcpus)",
            table.name, table.flags
        ),
        Some(number) => format!("{} when attaching the struct_ops table", Errno::from_raw(number)),
        None => error.to_string(),
    };
    SchedulerError::Attach { name: request.name.to_owned(), errno: errno.unwrap_or(0), reason }.into()
}

/// The error number inside libbpf's error, if there is one.
pub(super) fn errno(error: &libbpf_rs::Error) -> Option<i32> {
    // libbpf-rs does not expose the cause, but prints it like the standard library.
    let text = format!("{error:#}");
    text.rsplit_once("(os error ")?.1.split(')').next()?.parse().ok()
}

impl Attached {
    /// Name of the scheduler (`sched_ext_ops.name`).
    pub fn name(&self) -> &str {
        &self.table.name
    }

    /// Features that were left out because this kernel does not have them, one sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Planned calls of the launch profile, by time.
    pub fn planned(&self) -> &[PlannedStep] {
        &self.planned
    }

    /// Makes a planned call. Returns the program's return value.
    ///
    /// # Errors
    /// If the kernel rejects the call.
    pub fn call(&mut self, number: usize) -> Result<i32, LinkError> {
        returned(&mut self.object, &self.planned[number].call)
    }

    /// The exit, if the kernel has ejected the scheduler. Does not block: `None` while the ejection is in progress.
    ///
    /// # Errors
    /// If the object's exit record, or the state of sched_ext, cannot be read.
    pub fn exited(&self) -> Result<Option<KernelExit>, LinkError> {
        if let Some(exit) = self.recorded()? {
            return Ok(Some(exit));
        }
        if !self.has_ended(&kernel::state()?)? {
            return Ok(None);
        }
        // The record may have been written after it was read above.
        Ok(Some(self.end()?))
    }

    /// The exit of a scheduler that has ended: from its own record, else from the kernel log.
    fn end(&self) -> Result<KernelExit, LinkError> {
        let recorded = self.recorded()?;
        Ok(recorded.unwrap_or_else(|| {
            let logged = || self.log.as_ref().and_then(|log| log.exit_of(self.name())).unwrap_or_else(unrecorded);
            self.logged.get_or_init(logged).clone()
        }))
    }

    /// Whether this scheduler has ended, given the state of sched_ext.
    fn has_ended(&self, state: &str) -> Result<bool, LinkError> {
        Ok(state == "disabled" || kernel::number("enable_seq")? != self.enable_seq)
    }

    fn recorded(&self) -> Result<Option<KernelExit>, LinkError> {
        match &self.record {
            Some(record) => record.read(|section| self.section(section)),
            None => Ok(None),
        }
    }

    /// Statistics so far.
    ///
    /// # Errors
    /// The file that could not be read.
    pub fn statistics(&self) -> Result<Statistics, LinkError> {
        let mut ops = Vec::new();
        for (op, name) in &self.table.ops {
            let program = self.object.progs().find(|program| program.name() == &**name);
            let Some(program) = program else { continue };
            // The kernel's `bpf_prog_show_fdinfo()`: one `name:` and value per line.
            let text = read(&format!("/proc/self/fdinfo/{}", program.as_fd().as_raw_fd()))?;
            let count = |wanted: &str| {
                let found = text.lines().find_map(|line| line.strip_prefix(wanted)?.strip_prefix(':'));
                found.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
            };
            ops.push(OpStatistics {
                op: op.clone(),
                program: name.clone(),
                runs: count("run_cnt"),
                run_time_ns: count("run_time_ns"),
                skipped: count("recursion_misses"),
                instructions: program.insn_cnt() as u64,
                verified_instructions: count("verified_insns"),
            });
        }
        let (nr_rejected, enable_seq) = (kernel::number("nr_rejected")?, kernel::number("enable_seq")?);
        Ok(Statistics { events: kernel::events(), nr_rejected, enable_seq, ops })
    }

    /// Current contents of a data section: `.bss`, `.data`, `.data.NAME`, `.rodata`.
    ///
    /// # Errors
    /// If the object has no such section.
    pub fn section(&self, name: &str) -> Result<Vec<u8>, LinkError> {
        let is_data = |map: &Map<'_>| map.map_type() == MapType::Array && map.name().to_string_lossy().contains('.');
        let wanted = |map: &Map<'_>| is_section(&map.name().to_string_lossy(), name);
        let Some(map) = self.object.maps().find(|map| is_data(map) && wanted(map)) else {
            let known: Vec<_> =
                self.object.maps().filter(is_data).map(|map| map.name().to_string_lossy().into_owned()).collect();
            return Err(SchedulerError::NoSection { section: name.to_owned(), known: known.join(", ") }.into());
        };
        let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        Ok(value.map_err(LinkError::bpf(format!("read section `{name}`")))?.unwrap_or_default())
    }

    /// Unloads it and waits until all tasks are back under the default scheduler. If the scheduler was ejected
    /// before, its exit is that ejection.
    ///
    /// # Errors
    /// If unloading takes longer than a minute, or the object's record cannot be read.
    pub fn detach(mut self) -> Result<KernelExit, LinkError> {
        self.unload()
    }

    /// As [`Attached::detach`], but keeps the object, so that its sections can be read.
    ///
    /// # Errors
    /// As [`Attached::detach`].
    pub fn unload(&mut self) -> Result<KernelExit, LinkError> {
        drop(self.link.take());
        self.others.clear();
        kernel::wait_for("disabled", PATIENCE, |state| self.has_ended(state))?;
        self.end()
    }
}

/// Exit of a scheduler that keeps no record.
fn unrecorded() -> KernelExit {
    KernelExit {
        message:
            "unknown: the object keeps no exit record, and the kernel log cannot be read or does not contain the exit"
                .to_owned(),
        ..KernelExit::default()
    }
}
