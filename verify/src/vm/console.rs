// SPDX-License-Identifier: GPL-2.0-only
//! Finds warnings and failures in a kernel log.

/// Parts of lines that no healthy kernel prints. The ejection of a faulty scheduler prints none of these.
const ALARMS: [&str; 18] = [
    "WARNING: ",
    "BUG: ",
    "kernel BUG at",
    "Oops",
    "Kernel panic",
    "Call Trace:",
    "general protection fault",
    "unable to handle",
    "UBSAN:",
    "KASAN:",
    "KCSAN:",
    "refcount_t:",
    "detected stalls on",
    "self-detected stall",
    "blocked for more than",
    "scheduling while atomic",
    "possible circular locking",
    "double fault",
];

/// Harmless lines that look like alarms: part of the line, and the reason.
const HARMLESS: [(&str, &str); 2] = [
    ("Spectre V2 : WARNING: ", "the kernel complains of mitigations that the emulated CPU lacks"),
    ("RETBleed: WARNING: ", "the same, in 6.16"),
];

/// Returns the first line of `log` that is an alarm.
pub fn alarm(log: &str) -> Option<&str> {
    let harmless = |line: &str| HARMLESS.iter().any(|(part, _)| line.contains(part));
    log.lines().find(|line| ALARMS.iter().any(|part| line.contains(part)) && !harmless(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_the_kernel_on_the_console_are_found() {
        for line in [
            "[    3.141592] WARNING: CPU: 2 PID: 77 at kernel/sched/ext.c:2030 scx_foo+0x12/0x40",
            "[    9.0] WARNING: kernel/sched/ext.c:2030 at scx_foo+0x12/0x40, CPU#2: weir/77",
            "[    9.0] BUG: kernel NULL pointer dereference, address: 0000000000000010",
            "[    9.0] Oops: Oops: 0000 [#1] SMP NOPTI",
            "[    9.0] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
            "[    9.0] INFO: task weir:77 blocked for more than 120 seconds.",
            "[    9.0] watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [weir:77]",
            "[    9.0] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100",
        ] {
            let log = format!("[    0.1] Linux version 7.2.13\n{line}\n[   10.0] reboot: Power down\n");
            assert_eq!(alarm(&log), Some(line));
        }
    }

    #[test]
    fn ejection_message_on_the_console_is_no_kernel_warning() {
        let log = "[    5.1] sched_ext: BPF scheduler \"drops\" enabled\n\
                   [    8.7] sched_ext: BPF scheduler \"drops\" disabled (runnable task stall)\n\
                   [    8.7] sched_ext: drops: victim[205] failed to run for 3.752s\n\
                   [    8.7]    scx_watchdog_workfn+0x153/0x1e0\n\
                   [    0.2] Spectre V2 : WARNING: Unprivileged eBPF is enabled with eIBRS on\n\
                   [    0.2] RETBleed: WARNING: Spectre v2 mitigation leaves CPU vulnerable to RETBleed attacks\n";
        assert_eq!(alarm(log), None);
    }
}
