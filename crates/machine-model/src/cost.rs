// SPDX-License-Identifier: GPL-2.0-only
//! What things cost. Every number of a machine file stands here with its unit; its source stands in the file.

use ids::Locality;

/// What kind of kernel work a kfunc or helper is: the model charges by nature, not by name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Nature {
    /// Reads a field or two (`scx_bpf_task_cpu`, `bpf_get_smp_processor_id`).
    Trivial,
    /// Map or storage lookup.
    Lookup,
    /// Touches a dispatch queue under its lock.
    Queue,
    /// Scans masks of CPUs.
    Scan,
    /// Sends an interrupt to another CPU.
    Interrupt,
    /// Reads a clock.
    Clock,
}

/// What becomes of an idle CPU of a virtual machine. At first its hypervisor, or the guest itself, looks out for work on its
/// behalf; then it gives the CPU away, and whoever has work for it has to wake it up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Halt {
    /// How long it idles before that, in nanoseconds. KVM's default is 200 us (`halt_poll_ns` of x86), as is that of a guest
    /// that polls itself (`guest_halt_poll_ns` of `haltpoll`).
    pub after_ns: u64,
    /// In place of [`Costs::ipi_send_ns`] for an interrupt to such a CPU.
    pub send_ns: u64,
    /// In place of [`Costs::idle_exit_ns`] and of idle states for such a CPU.
    pub exit_ns: u64,
}

/// Costs of a machine. They are charged once per event and do not contain one another.
#[derive(Clone, PartialEq, Debug)]
pub struct Costs {
    /// Switching from one task to another, without the scheduler's own code.
    pub context_switch_ns: u64,
    /// From sending an interprocessor interrupt to its handler's start, by distance: same LLC, same node, far.
    pub ipi_ns: [u64; 3],
    /// CPU time of who sends such an interrupt, beyond that of the wakeup that needs it: in a virtual machine the
    /// hypervisor may have to send it.
    pub ipi_send_ns: u64,
    /// From the wakeup interrupt of an idle CPU to its scheduler's start (idle state exit).
    pub idle_exit_ns: u64,
    /// What is different once a CPU has idled for long. `None`: nothing, as on metal.
    pub halt: Option<Halt>,
    /// A timer or device interrupt: handler and return.
    pub interrupt_ns: u64,
    /// The periodic tick: handler and return.
    pub tick_ns: u64,
    /// One BPF instruction, compiled, in picoseconds.
    pub instruction_ps: u64,
    /// Entering and leaving a callback.
    pub callback_ns: u64,
    /// A kfunc or helper by its [`Nature`], in declaration order, without waiting for locks.
    pub call_ns: [u64; 6],
    /// Core wakeup path without callbacks.
    pub wakeup_ns: u64,
    /// Core fork path: what the scheduler core does for a new task. Copying the address space is the parent's work.
    pub fork_ns: u64,
    /// What a parent outside the workload needs for one child after another, the core's part included, but without the
    /// wakeup and the scheduler's code. 0: all that are due come at once, and nobody makes them.
    pub clone_ns: u64,
    /// How long a scheduler is bypassed, its tasks switched already, when it is attached.
    pub attach_ns: u64,
    /// How long a scheduler is bypassed before it is gone.
    pub disable_ns: u64,
}

impl Costs {
    /// Costs of nothing at all, for tests that want exact times.
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

    /// From sending an interprocessor interrupt to its handler's start on a CPU at this distance, in nanoseconds.
    pub fn ipi(&self, locality: Locality) -> u64 {
        self.ipi_ns[match locality {
            Locality::Same | Locality::Smt | Locality::Llc => 0,
            Locality::Node => 1,
            Locality::Far => 2,
        }]
    }

    /// Cost of one call of this nature, in nanoseconds.
    pub fn call(&self, nature: Nature) -> u64 {
        self.call_ns[nature as usize]
    }
}
