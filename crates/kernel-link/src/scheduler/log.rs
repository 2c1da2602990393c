// SPDX-License-Identifier: GPL-2.0-only
//! Reads the kernel log for the exit of a scheduler that keeps no record itself.

use super::KernelExit;
use super::exit::{ACT_RESTART, REASON_HOTPLUG};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

/// Buffer for the longest record (`PRINTK_MESSAGE_MAX` of include/linux/printk.h is 2048, including the header).
const RECORD_MAX: usize = 8192;

/// Texts of `scx_exit_reason()` in kernel/sched/ext.c, 6.12 to 7.3, with their kinds.
const REASONS: [(&str, u64); 7] = [
    ("unregistered from user space", 64),
    ("unregistered from BPF", 65),
    ("unregistered from the main kernel", 66),
    ("disabled by sysrq-S", 67),
    ("runtime error", 1024),
    ("scx_bpf_error", 1025),
    ("runnable task stall", 1026),
];

/// The log from some time on.
#[derive(Debug)]
pub(super) struct KernelLog(File);

impl KernelLog {
    /// The log from now on; `None` if this process may not read it, as in many containers.
    pub fn from_now() -> Option<KernelLog> {
        let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg").ok()?;
        file.seek(SeekFrom::End(0)).ok()?;
        Some(KernelLog(file))
    }

    /// Exit of the scheduler named `name`, if logged. Each record is read only once.
    pub fn exit_of(&self, name: &str) -> Option<KernelExit> {
        exit_of(name, &self.rest())
    }

    fn rest(&self) -> Vec<String> {
        let (mut lines, mut record) = (Vec::new(), [0; RECORD_MAX]);
        loop {
            match (&self.0).read(&mut record) {
                Ok(0) => return lines,
                Ok(length) => lines.extend(message(&record[..length])),
                // EPIPE: the oldest records were overwritten meanwhile; the next read returns the oldest remaining
                // one.
                Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted) => {}
                Err(_) => return lines,
            }
        }
    }
}

/// A record is `PRIORITY,NUMBER,TIME,FLAGS;MESSAGE`, optionally followed by lines with keys
/// (`Documentation/ABI/testing/dev-kmsg`).
fn message(record: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(record);
    let (_, message) = text.split_once(';')?;
    Some(message.lines().next().unwrap_or_default().to_owned())
}

/// The kernel logs `sched_ext: BPF scheduler "NAME" disabled (REASON)`, and after an error `sched_ext: NAME:
/// MESSAGE`.
fn exit_of(name: &str, lines: &[String]) -> Option<KernelExit> {
    let end = format!("BPF scheduler \"{name}\" disabled (");
    let (at, reason) =
        lines.iter().enumerate().find_map(|(at, line)| Some((at, line.split_once(&end)?.1.strip_suffix(')')?)))?;
    // All other texts are errors.
    let kind = REASONS.iter().find(|(known, _)| *known == reason).map_or(1024, |(_, kind)| *kind);
    // The kernel unregisters a scheduler for one reason only: CPU hotplug without a hotplug op.
    let code = if kind == 66 { ACT_RESTART | REASON_HOTPLUG } else { 0 };
    let said = format!("sched_ext: {name}: ");
    let message = lines[at + 1..].iter().find_map(|line| line.strip_prefix(&said)).unwrap_or_default().to_owned();
    Some(KernelExit { kind, code, reason: reason.to_owned(), message, ..KernelExit::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn kernel_log_gives_exit_reason_and_message() {
        let stall = lines(
            "sched_ext: BPF scheduler \"other\" disabled (scx_bpf_error)\nsched_ext: other: not this one\n\
             sched_ext: BPF scheduler \"mine\" disabled (runnable task stall)\nunrelated\n\
             sched_ext: mine: cat[17] failed to run for 2.004s\n   scx_watchdog_workfn+0x155",
        );
        let exit = exit_of("mine", &stall).unwrap();
        assert_eq!((exit.kind, exit.code, &*exit.reason), (1026, 0, "runnable task stall"));
        assert_eq!(exit.message, "cat[17] failed to run for 2.004s");
        assert!(exit.is_ejection());
        assert_eq!(exit_of("min", &stall), None);
    }

    #[test]
    fn hotplug_exit_in_the_log_is_a_restart_and_unknown_reasons_are_errors() {
        let exit = |reason: &str| {
            exit_of("x", &lines(&format!("sched_ext: BPF scheduler \"x\" disabled ({reason})"))).unwrap()
        };
        let hotplug = exit("unregistered from the main kernel");
        assert!(hotplug.wants_restart() && hotplug.by_hotplug() && !hotplug.is_ejection());
        assert!(exit("unregistered from user space").is_unload());
        assert_eq!(exit("something of tomorrow").kind, 1024);
        assert_eq!(exit("disabled by sysrq-S").kind, 67);
    }

    #[test]
    fn kmsg_record_has_a_header_and_keys() {
        let record = b"3,1234,98765432,-;sched_ext: x: y; z\n SUBSYSTEM=none\n";
        assert_eq!(message(record).as_deref(), Some("sched_ext: x: y; z"));
        assert_eq!(message(b"no head"), None);
    }
}
