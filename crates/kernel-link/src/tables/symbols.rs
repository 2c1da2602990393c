// SPDX-License-Identifier: GPL-2.0-only
//! Names of functions, of the kernel and of programs.

use object::{Object, ObjectSymbol, SymbolKind};
use std::collections::BTreeMap;

/// Symbols by address, and the code of a program.
#[derive(Debug, Default)]
pub struct Symbols {
    names: BTreeMap<u64, String>,
    text: Vec<u8>,
}

/// Beginnings of names of functions that implement locks and tracing, not of callers.
const OF_LOCKS: [&str; 31] = [
    "__traceiter_",
    "trace_",
    "__bpf_trace",
    "bpf_",
    "_raw_spin_",
    "_raw_read_",
    "_raw_write_",
    "native_queued_",
    "queued_",
    "__pv_queued",
    "__raw_callee_save",
    "do_raw_",
    "raw_spin_rq_lock",
    "__mutex_lock",
    "mutex_lock",
    "mutex_spin",
    "__ww_mutex",
    "ww_mutex",
    "rwsem_",
    "down_read",
    "down_write",
    "down_killable",
    "__down_",
    "percpu_down",
    "__percpu_down",
    "percpu_rwsem",
    "rt_mutex",
    "rt_spin",
    "__rt_mutex",
    "kvm_",
    "virt_spin",
];

impl Symbols {
    /// Symbols of the running kernel; empty if it hides their addresses.
    pub fn of_kernel() -> Symbols {
        let text = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let symbol = |line: &str| {
            let mut words = line.split_whitespace();
            let (address, _, name) = (words.next()?, words.next()?, words.next()?);
            Some((u64::from_str_radix(address, 16).ok().filter(|address| *address > 0)?, name.to_owned()))
        };
        let names = text.lines().filter_map(symbol).filter(|(_, name)| !name.starts_with("__pfx_")).collect();
        Symbols { names, text: vec![] }
    }

    /// Functions of a program by their distances from the start of its text, as the kernel computes that.
    pub fn of_program(bytes: &[u8]) -> Option<Symbols> {
        let file = object::File::parse(bytes).ok()?;
        let (text, code) = text_of(&file)?;
        let functions = file.symbols().chain(file.dynamic_symbols()).filter(|symbol| symbol.kind() == SymbolKind::Text);
        let named = functions.filter_map(|symbol| {
            let name = symbol.name().ok().filter(|name| !name.is_empty())?;
            Some((symbol.address().checked_sub(text)?, short(&format!("{:#}", rustc_demangle::demangle(name)))))
        });
        Some(Symbols { names: named.collect(), text: code })
    }

    /// Name of the function that contains this address, and the distance from its beginning.
    pub fn find(&self, address: u64) -> Option<(&str, u64)> {
        let (start, name) = self.names.range(..=address).next_back()?;
        Some((name, address - start))
    }

    /// The innermost frame that is not part of a lock or of tracing, as `function+0xdistance`, and its address.
    pub fn caller(&self, frames: &[u64]) -> Option<(String, u64)> {
        let named = frames.iter().filter_map(|&frame| Some((self.find(frame)?, frame)));
        let mut callers = named.filter(|((name, _), _)| !is_of_lock(name));
        callers.next().map(|((name, distance), frame)| (format!("{name}+{distance:#x}"), frame))
    }

    /// The innermost function that does not implement a lock or another wait of a library; else the innermost one.
    /// `frames` are words of a stack that may be return addresses. A word is the one of the next frame if it follows a
    /// call of the function that contains the previous one; where there is none, the next word after an indirect call.
    pub fn user_caller(&self, frames: &[u64]) -> Option<String> {
        let (&first, mut rest) = frames.split_first()?;
        let mut at = first;
        let innermost = self.find(at)?.0;
        loop {
            let (name, distance) = self.find(at)?;
            if !OF_USER_LOCKS.iter().any(|part| name.contains(part)) {
                return Some(name.to_owned());
            }
            let function = at - distance;
            let calls = |frame: &u64| self.target(*frame) == Some(function);
            let next =
                rest.iter().position(calls).or_else(|| rest.iter().position(|&frame| self.target(frame).is_none()));
            let Some(next) = next else { return Some(innermost.to_owned()) };
            (at, rest) = (rest[next], &rest[next + 1..]);
        }
    }

    /// Address that the direct call before this return address calls (x86: E8 and a distance); `None` if the call is
    /// indirect, or the code unknown.
    fn target(&self, after: u64) -> Option<u64> {
        let end = usize::try_from(after).ok()?;
        let code = self.text.get(end.checked_sub(5)?..end)?;
        let distance = i32::from_le_bytes(code[1..].try_into().ok()?);
        (code[0] == 0xe8).then(|| after.wrapping_add_signed(i64::from(distance)))
    }
}

/// Parts of names of functions that implement waiting in libraries which programs contain.
const OF_USER_LOCKS: [&str; 14] = [
    "Mutex",
    "RwLock",
    "Condvar",
    "Barrier",
    "Semaphore",
    "Parker",
    "::park",
    "Once",
    "futex",
    "lock_contended",
    "pthread_",
    "__lll_",
    "parking_lot",
    "sem_wait",
];

fn is_of_lock(name: &str) -> bool {
    OF_LOCKS.iter().any(|start| name.starts_with(start))
}

/// Lowest address of an executable segment, which the kernel calls `start_code`, and the code from there on.
fn text_of(file: &object::File<'_>) -> Option<(u64, Vec<u8>)> {
    use object::{ObjectSegment, SegmentFlags, elf::PF_X};
    let is_text = |flags| matches!(flags, SegmentFlags::Elf { p_flags, .. } if p_flags.0 & PF_X.0 != 0);
    let segments = file.segments().filter(|segment| is_text(segment.flags()));
    let first = segments.min_by_key(|segment| segment.address())?;
    Some((first.address(), first.data().ok()?.to_vec()))
}

/// The last two parts of a path such as `core::sync::Mutex::lock`.
fn short(name: &str) -> String {
    let parts: Vec<&str> = name.split("::").collect();
    parts[parts.len().saturating_sub(2)..].join("::")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols(all: &[(u64, &str)]) -> Symbols {
        let names = all.iter().map(|&(address, name)| (address, name.to_owned())).collect();
        Symbols { names, text: vec![0; 0x100] }
    }

    #[test]
    fn kernel_caller_is_the_first_function_outside_of_locks() {
        let kernel = symbols(&[(0x100, "_raw_spin_lock"), (0x200, "futex_wake"), (0x300, "mutex_lock_nested")]);
        assert_eq!(kernel.caller(&[0x110, 0x29c]), Some(("futex_wake+0x9c".to_owned(), 0x29c)));
        assert_eq!(kernel.caller(&[0x110, 0x90]), None);
    }

    /// 0x45 follows a call of 0x10, 0x65 a call of 0x40; 0x80 is an old word on the stack.
    #[test]
    fn user_caller_is_found_by_the_calls_before_the_return_addresses() {
        let mut program =
            symbols(&[(0x10, "Mutex>::lock_contended"), (0x40, "take_the_lock"), (0x60, "main"), (0x70, "Mutex::old")]);
        for (after, target) in [(0x45usize, 0x10i32), (0x65, 0x40), (0x80, 0x60)] {
            program.text[after - 5] = 0xe8;
            program.text[after - 4..after].copy_from_slice(&(target - after as i32).to_le_bytes());
        }
        assert_eq!(program.user_caller(&[0x15, 0x80, 0x45, 0x65]).as_deref(), Some("take_the_lock"));
        assert_eq!(program.user_caller(&[0x15, 0x80]).as_deref(), Some("Mutex>::lock_contended"));
        assert_eq!(program.user_caller(&[0x15, 0x47]).as_deref(), Some("take_the_lock"), "an indirect call");
        assert_eq!(program.user_caller(&[]), None);
    }

    #[test]
    fn functions_of_this_program_are_found() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let own = Symbols::of_program(&bytes).unwrap();
        assert!(own.names.values().any(|name| name == "main"), "{} symbols", own.names.len());
    }

    #[test]
    fn rust_names_are_shortened_to_their_last_parts() {
        assert_eq!(short("std::sync::mutex::Mutex::lock"), "Mutex::lock");
        assert_eq!(short("main"), "main");
    }
}
