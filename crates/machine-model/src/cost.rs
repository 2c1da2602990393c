// SPDX-License-Identifier: GPL-2.0-only
//! Costs of kernel operations. Each number of a machine file is documented here with its unit; its source is given in
//! the file.

use ids::{Locality, Nanos};

/// Type of work done by a kfunc or helper; the model charges by type, not by name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Nature {
    /// Reads a field or two (`scx_bpf_task_cpu`, `bpf_get_smp_processor_id`).
    Trivial,
    /// Looks up a map element or task storage.
    Lookup,
    /// Accesses a dispatch queue under its lock.
    Queue,
    /// Scans CPU masks.
    Scan,
    /// Sends an IPI.
    Interrupt,
    /// Reads a clock.
    Clock,
}

/// Halting of an idle vCPU. The hypervisor or the guest first polls for work on its behalf; then the vCPU is
/// descheduled, and the CPU that sends it an IPI must wake it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Halt {
    /// Idle time before the vCPU is descheduled, in nanoseconds. The default of both KVM (`halt_poll_ns` of x86) and
    /// a polling guest (`guest_halt_poll_ns` of `haltpoll`) is 200 us.
    pub after_ns: u64,
    /// Cost of sending an IPI to such a CPU, in nanoseconds; replaces [`Costs::ipi_send_ns`].
    pub send_ns: u64,
    /// Time until such a CPU runs, in nanoseconds; replaces [`Costs::idle_exit_ns`] and idle states.
    pub exit_ns: u64,
}

/// Costs of a machine. Each is charged once per event, and none includes another.
#[derive(Clone, PartialEq, Debug)]
pub struct Costs {
    /// Context switch, without the scheduler's own code, in nanoseconds.
    pub context_switch_ns: u64,
    /// Latency from sending an IPI to the start of its handler, in nanoseconds, by distance: same LLC, same node,
    /// remote.
    pub ipi_ns: [u64; 3],
    /// CPU time of the sender of an IPI in nanoseconds, in addition to the wakeup that needs it: in a virtual
    /// machine, the hypervisor may have to send the IPI.
    pub ipi_send_ns: u64,
    /// Exit latency from idle: from the IPI to the start of the scheduler, in nanoseconds.
    pub idle_exit_ns: u64,
    /// Changes after a CPU has been idle for long. `None` on bare metal.
    pub halt: Option<Halt>,
    /// Timer or device interrupt: handler and return, in nanoseconds.
    pub interrupt_ns: u64,
    /// Periodic tick: handler and return, in nanoseconds.
    pub tick_ns: u64,
    /// One JIT-compiled BPF instruction, in picoseconds.
    pub instruction_ps: u64,
    /// Entering and leaving a scheduler callback, in nanoseconds.
    pub callback_ns: u64,
    /// A call of a kfunc or helper, by its [`Nature`] in declaration order, in nanoseconds, without waits for locks.
    pub call_ns: [u64; 6],
    /// The core's wakeup path without callbacks, in nanoseconds.
    pub wakeup_ns: u64,
    /// The scheduler core's part of a fork, in nanoseconds. Copying the address space is part of the parent's work.
    pub fork_ns: u64,
    /// Time an external parent needs per child when it creates the workload's tasks, in nanoseconds: includes the
    /// core's part, excludes the wakeup and the scheduler's code. 0: all tasks due appear at once, without a parent.
    pub clone_ns: u64,
    /// Time in bypass mode while a scheduler is attached and its tasks have already been switched to it, in
    /// nanoseconds.
    pub attach_ns: u64,
    /// Time in bypass mode before a scheduler is detached, in nanoseconds.
    pub disable_ns: u64,
}

impl Costs {
    /// Exit latency from idle on a machine without idle states. If `limit` forbids so much, idle CPUs poll, and it is 0.
    pub fn idle_exit_within(&self, limit: Option<Nanos>) -> Nanos {
        let exit = Nanos(self.idle_exit_ns);
        if limit.is_some_and(|limit| limit < exit) { Nanos::ZERO } else { exit }
    }

    /// Zero costs, for tests that need exact times.
    pub const fn zero() -> Costs {
        Costs {
            context_switch_ns: 0,
            ipi_ns: [0; 3],
            ipi_send_ns: 0,
            idle_exit_ns: 0,
            halt: None,
            interrupt_ns: 0,
            tick_ns: 0,
            instruction_ps: 0,
            callback_ns: 0,
            call_ns: [0; 6],
            wakeup_ns: 0,
            fork_ns: 0,
            clone_ns: 0,
            attach_ns: 0,
            disable_ns: 0,
        }
    }

    /// Latency from sending an IPI to the start of its handler on a CPU at this distance, in nanoseconds.
    pub fn ipi(&self, locality: Locality) -> u64 {
        self.ipi_ns[match locality {
            Locality::Same | Locality::Smt | Locality::Llc => 0,
            Locality::Node => 1,
            Locality::Far => 2,
        }]
    }

    /// Cost of one call of this type, in nanoseconds.
    pub fn call(&self, nature: Nature) -> u64 {
        self.call_ns[nature as usize]
    }
}
