// SPDX-License-Identifier: GPL-2.0-only
//! Kfuncs and helpers called as a program would: by name, with registers, on a core with tasks.

mod calls;
mod masks;
mod plain;
mod table;

use crate::Config;
use crate::core::task::{Class, Entity, ExtState, Owner, ReenqueueReason, RunState, Task};
use crate::core::{Core, Running};
use crate::guest::{KernelTypes, Objects, TaskView};
use crate::ops::Op;
use bpf_machine::{Access, Context, FaultKind, GuestAddr, Maps, Memory, RegionId, SourceLine};
use ids::{CpuId, CpuSet, Nanos, Policy, TaskId, Topology};

/// A 7.2 core without a BPF machine: two nodes of two cores with two CPUs each, and memory for the program.
struct Bench {
    core: Core,
    memory: Memory,
    maps: Maps,
    own: RegionId,
}

impl Bench {
    fn new(tasks: u32) -> Bench {
        let mut memory = Memory::default();
        let objects = Objects::new(&mut memory, 8, &KernelTypes::of((7, 2)));
        let own = memory.add_region("stack", 512, 2, Access::ReadWrite);
        let halves = [0, 0, 0, 0, 1, 1, 1, 1];
        let topology = Topology::of_groups(&[0, 0, 1, 1, 2, 2, 3, 3], &halves, &halves);
        let config = Config {
            topology,
            hz: 250,
            version: (7, 2),
            budget: 1 << 20,
            seed: 1,
            newidle_ratio: None,
            autogroup: false,
            types: None,
        };
        let mut bench = Bench { core: Core::new(config, objects), memory, maps: Maps::default(), own };
        for task in 0..tasks {
            bench.add_task(TaskId(task));
        }
        bench
    }

    fn add_task(&mut self, task: TaskId) {
        let pid = 100 + task.0 as i32;
        let all = CpuSet::first_n(8);
        let comm = format!("task-{task}");
        let view = TaskView {
            pid,
            comm: &comm,
            flags: 0,
            own_cpu: None,
            static_prio: 120,
            prio: 120,
            rt_priority: 0,
            start_time: 0,
            policy: 7,
            weight: 100,
            allowed: &all,
            parent: TaskId::NONE,
            tgid: pid,
            uid: 0,
            session: 0,
            cgroup: 0,
        };
        self.core.objects.publish(&mut self.memory, task, &view);
        self.core.tasks.add(ext_task(comm, pid, all));
    }

    /// Calls a kfunc of 7.2 as if from inside `op`.
    fn call_in(&mut self, op: Option<Op>, name: &str, args: &[u64]) -> Result<u64, FaultKind> {
        let kfunc = super::find(name, args.len() as u32, (7, 2)).unwrap_or_else(|| panic!("no {name}({})", args.len()));
        self.core.context.running = Running { op, ..Running::NONE };
        let mut registers = [0; 5];
        registers[..args.len()].copy_from_slice(args);
        let mut cx = context(&mut self.memory, &mut self.maps);
        super::call(&mut self.core, kfunc, registers, &mut cx)
    }

    /// Calls a kfunc of 7.2 as if from inside `init`; panics on a fault.
    fn call(&mut self, name: &str, args: &[u64]) -> u64 {
        self.call_in(Some(Op::Init), name, args).unwrap_or_else(|fault| panic!("{name}: {fault}"))
    }

    fn helper(&mut self, number: u32, args: [u64; 5]) -> Result<u64, FaultKind> {
        let mut cx = context(&mut self.memory, &mut self.maps);
        super::helper(&mut self.core, number, args, &mut cx)
    }

    fn task(&self, task: u32) -> GuestAddr {
        self.core.objects.task_addr(&self.memory, TaskId(task), CpuId(0))
    }

    fn task_at(&self, addr: GuestAddr) -> Option<TaskId> {
        self.core.objects.task_at(&self.memory, addr)
    }

    /// Address at an offset in the program's own memory.
    fn own(&self, offset: u64) -> GuestAddr {
        self.memory.addr(self.own, 0) + offset
    }

    /// Stores 64-bit words at an offset in the program's own memory.
    fn put(&mut self, offset: u64, words: &[u64]) -> GuestAddr {
        let start = self.own(offset);
        for (at, word) in (start..).step_by(8).zip(words) {
            self.memory.store(at, 8, *word).expect("own memory");
        }
        start
    }

    fn put_text(&mut self, offset: u64, text: &str) -> GuestAddr {
        let start = self.own(offset);
        let place = self.memory.bytes_mut(start, text.len() as u32 + 1).expect("own memory");
        place[..text.len()].copy_from_slice(text.as_bytes());
        place[text.len()] = 0;
        start
    }

    /// Kind, code and message of the reported error, which is cleared.
    fn error(&mut self) -> Option<(u32, i64, String)> {
        self.core.attached.exit.take().map(|exit| (exit.kind, exit.code, exit.message))
    }
}

fn context<'a>(memory: &'a mut Memory, maps: &'a mut Maps) -> Context<'a> {
    let line = SourceLine { file: 0, line: 7 };
    Context { memory, maps, cpu: 0, line, executed: 0 }
}

fn ext_task(comm: String, pid: i32, allowed: CpuSet) -> Task {
    Task {
        blocks: false,
        comm,
        pid,
        tgid: pid,
        policy: Policy::Ext,
        nice: 0,
        allowed_count: allowed.len() as u32,
        allowed: allowed.into(),
        kernel_thread: false,
        own_cpu: None,
        parent: TaskId::NONE,
        sibling: TaskId::NONE,
        exiting: false,
        uid: 0,
        session: 0,
        cgroup: crate::CgroupId::ROOT,
        cpu: CpuId(0),
        run_state: RunState::Runnable,
        class: Class::Ext,
        sum_exec: Nanos::ZERO,
        class_key: 0,
        dl: crate::core::deadline::Reservation::default(),
        class_seq: 0,
        quantum_left: 0,
        fair: Entity::default(),
        ext_state: ExtState::Enabled,
        queued: true,
        owner: Owner::Bpf(0),
        ops_qseq: 1,
        custody: true,
        immediate: false,
        slept: false,
        reenqueue_reason: ReenqueueReason::None,
        migrate_to: CpuId(0),
        verdict: None,
        selected_cpu: CpuId(0),
        queue: None,
        position: (0, 0),
        queue_seq: 0,
        runnable_at: Nanos::ZERO,
        reset_runnable_at: false,
        runnable_seq: 0,
        history: crate::core::task::History::default(),
    }
}

fn is_bad_argument<T: std::fmt::Debug>(result: Result<T, FaultKind>) -> bool {
    matches!(result, Err(FaultKind::BadArgument(_)))
}
