// SPDX-License-Identifier: GPL-2.0-only
//! Random operations on random machines with schedulers of several kinds: after every step the invariants hold,
//! callbacks are paired, and at the end every waiting task runs.

#[allow(dead_code)]
use crate::bench::kinds::{KINDS, Serves, object};
use crate::bench::{Bench, TICK};
use event_log::{BlockCause, Waker};
use ids::{CpuId, CpuSet, Nanos, Policy, TaskId, Topology};
use kernel_model::{CgroupId, CgroupKnobs, Leave, TaskAttributes};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A machine with `threads` CPUs per core, `llc` per last-level cache and `node` per node.
fn machine(cpus: u32, threads: u32, llc: u32, node: u32) -> Topology {
    let groups = |size: u32| (0..cpus).map(|cpu| cpu / size).collect::<Vec<u32>>();
    let nodes = (cpus - 1) / node + 1;
    let row = |from: u32| (0..nodes).map(|to| 10 + 10 * from.abs_diff(to)).collect();
    let distances = (0..nodes).map(row).collect();
    Topology::of_groups(&groups(threads), &groups(llc), &groups(node)).with_distances(distances)
}

#[derive(Clone, Debug)]
enum Step {
    Fork {
        mask: u8,
        policy: u8,
    },
    Wake {
        task: u8,
        cpu: u8,
        sync: bool,
    },
    WakeTwo {
        tasks: [u8; 2],
    },
    Block {
        cpu: u8,
    },
    Exit {
        cpu: u8,
    },
    Yield {
        cpu: u8,
    },
    Schedule {
        cpu: u8,
    },
    Ticks {
        ms: u8,
    },
    Affinity {
        task: u8,
        mask: u8,
    },
    Change {
        task: u8,
        policy: u8,
        nice: i8,
    },
    Hotplug {
        cpu: u8,
    },
    /// Takes the first step of going offline, and wakes a task before the other steps.
    Leaving {
        cpu: u8,
        task: u8,
    },
    Suspend {
        on: bool,
    },
    /// Changes the weight of a cgroup and moves a task to it; the first steps create the cgroups.
    Group {
        task: u8,
        group: u8,
        weight: u32,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (any::<u8>(), 0u8..8).prop_map(|(mask, policy)| Step::Fork { mask, policy }),
        6 => (any::<u8>(), any::<u8>(), any::<bool>()).prop_map(|(task, cpu, sync)| Step::Wake { task, cpu, sync }),
        2 => any::<[u8; 2]>().prop_map(|tasks| Step::WakeTwo { tasks }),
        4 => any::<u8>().prop_map(|cpu| Step::Block { cpu }),
        1 => any::<u8>().prop_map(|cpu| Step::Exit { cpu }),
        1 => any::<u8>().prop_map(|cpu| Step::Yield { cpu }),
        1 => any::<u8>().prop_map(|cpu| Step::Schedule { cpu }),
        4 => (1u8..30).prop_map(|ms| Step::Ticks { ms }),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(task, mask)| Step::Affinity { task, mask }),
        2 => (any::<u8>(), 0u8..8, -20i8..20).prop_map(|(task, policy, nice)| Step::Change { task, policy, nice }),
        3 => any::<u8>().prop_map(|cpu| Step::Hotplug { cpu }),
        1 => any::<[u8; 2]>().prop_map(|[cpu, task]| Step::Leaving { cpu, task }),
        1 => any::<bool>().prop_map(|on| Step::Suspend { on }),
        2 => (any::<[u8; 2]>(), 1u32..10_001).prop_map(|([task, group], weight)| Step::Group { task, group, weight }),
    ]
}

fn policy(number: u8) -> Policy {
    match number {
        0 => Policy::Fifo(10),
        1 => Policy::RoundRobin(5),
        2 => Policy::Batch,
        3 => Policy::Idle,
        4 => Policy::Ext,
        _ => Policy::Other,
    }
}

/// A bench, and the state of tasks as the test expects it.
struct World {
    bench: Bench,
    cpus: u32,
    online: CpuSet,
    /// Affinity and policy of each task; `None` once it has exited.
    tasks: Vec<Option<(CpuSet, Policy)>>,
    /// The root and the created cgroups.
    groups: Vec<CgroupId>,
    life: BTreeMap<String, Life>,
}

/// State of a task according to the callbacks.
#[derive(Default)]
struct Life {
    runnable: bool,
    running: bool,
    enqueued: bool,
    /// Whether all of its allowed CPUs were online when it was last enqueued.
    reachable: bool,
}

impl World {
    fn new(kind: usize, topology: Topology) -> World {
        let cpus = topology.len() as u32;
        let mut bench = Bench::load(topology, object(kind)).unwrap();
        bench.attach();
        let online = CpuSet::first_n(cpus as usize);
        World { bench, cpus, online, tasks: Vec::new(), groups: vec![CgroupId::ROOT], life: BTreeMap::new() }
    }

    fn mask(&self, bits: u8) -> CpuSet {
        let all = CpuSet::first_n(self.cpus as usize);
        let mask = CpuSet::from_words(&[u64::from(bits)]).intersection(&all);
        if mask.is_empty() { all } else { mask }
    }

    /// One of the online CPUs.
    fn cpu(&self, number: u8) -> CpuId {
        self.online.iter().nth(usize::from(number) % self.online.len()).expect("some CPU is online")
    }

    /// Numbers of the online CPUs.
    fn online(&self) -> Vec<u32> {
        self.online.iter().map(|cpu| cpu.0).collect()
    }

    /// Takes steps 2 and 3 of going offline.
    fn take_offline(&mut self, cpu: CpuId) {
        self.bench.kernel.offline_cpu(cpu);
        self.bench.kernel.check();
        self.bench.settle();
        self.bench.kernel.check();
        self.bench.kernel.kill_cpu(cpu);
        self.online.remove(cpu);
    }

    /// Whether the CPU can go offline: it is online, and not the last.
    fn can_go_offline(&self, cpu: CpuId) -> bool {
        self.online.contains(cpu) && self.online.len() > 1
    }

    fn alive(&self, number: u8) -> Option<TaskId> {
        let task = usize::from(number) % self.tasks.len().max(1);
        self.tasks.get(task).is_some_and(Option::is_some).then_some(TaskId(task as u32))
    }

    fn wake(&mut self, cpu: CpuId, task: Option<TaskId>, sync: bool) {
        if let Some(task) = task {
            self.bench.kernel.wake(cpu, task, Waker::Interrupt, sync);
        }
    }

    fn leave(&mut self, cpu: CpuId, leave: Leave) {
        let current = self.bench.kernel.current(cpu);
        if current != TaskId::NONE {
            if leave == Leave::Exit {
                self.tasks[current.index()] = None;
            }
            self.bench.kernel.schedule(cpu, leave);
        }
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Fork { mask, policy: number } if self.tasks.len() < 20 => {
                let (allowed, policy) = (self.mask(mask), policy(number));
                let attributes = TaskAttributes {
                    name: format!("t{}", self.tasks.len()),
                    policy,
                    nice: 0,
                    allowed: allowed.clone(),
                    kernel_thread: false,
                    own_cpu: None,
                    thread: false,
                    parent: None,
                    identity: kernel_model::Identity::default(),
                };
                let on = self.cpu(0);
                let task = self.bench.kernel.fork(on, attributes).unwrap();
                self.tasks.push(Some((allowed, policy)));
                self.bench.kernel.check();
                self.bench.kernel.wake_new(on, task);
            }
            Step::Fork { .. } => {}
            Step::Wake { task, cpu, sync } => self.wake(self.cpu(cpu), self.alive(task), sync),
            Step::WakeTwo { tasks } => {
                self.wake(self.cpu(0), self.alive(tasks[0]), false);
                self.bench.kernel.check();
                self.wake(self.cpu(0), self.alive(tasks[1]), false);
            }
            Step::Block { cpu } => self.leave(self.cpu(cpu), Leave::Block(BlockCause::Timer)),
            Step::Exit { cpu } => self.leave(self.cpu(cpu), Leave::Exit),
            Step::Yield { cpu } => self.leave(self.cpu(cpu), Leave::Yield),
            Step::Schedule { cpu } => drop(self.bench.kernel.schedule(self.cpu(cpu), Leave::Preempt)),
            Step::Ticks { ms } => {
                let cpus = self.online();
                self.bench.run(&cpus, Nanos::from_ms(ms.into()));
            }
            Step::Affinity { task, mask } => {
                if let Some(task) = self.alive(task) {
                    let allowed = self.mask(mask);
                    let known = *self.bench.kernel.allowed(task) == allowed;
                    let expected = if known || allowed.intersects(&self.online) { Ok(()) } else { Err(-22) };
                    let on = self.cpu(0);
                    assert_eq!(self.bench.kernel.set_affinity(on, task, &allowed), expected);
                    if expected.is_ok() {
                        self.tasks[task.index()].as_mut().unwrap().0 = allowed;
                    }
                }
            }
            Step::Change { task, policy: number, nice } => {
                if let Some(task) = self.alive(task) {
                    let policy = policy(number);
                    let on = self.cpu(0);
                    self.bench.kernel.set_policy(on, task, policy, nice).unwrap();
                    self.tasks[task.index()].as_mut().unwrap().1 = policy;
                }
            }
            Step::Hotplug { cpu } => self.hotplug(CpuId(u32::from(cpu) % self.cpus)),
            Step::Leaving { cpu, task } => self.leaving(self.cpu(cpu), task),
            Step::Suspend { on: true } => self.bench.kernel.begin_suspend(self.cpu(0)),
            Step::Suspend { on: false } => self.bench.kernel.end_suspend(self.cpu(0)),
            Step::Group { task, group, weight } => self.group(self.alive(task), group, weight),
        }
        self.bench.kernel.check();
        self.bench.settle();
        self.bench.kernel.check();
    }

    fn group(&mut self, task: Option<TaskId>, group: u8, weight: u32) {
        let (on, group) = (self.cpu(0), usize::from(group));
        if self.groups.len() < 5 {
            let parent = self.groups[group % self.groups.len()];
            self.groups.push(self.bench.kernel.make_cgroup(on, parent, "g").expect("the scheduler accepts it"));
        }
        let group = self.groups[group % self.groups.len()];
        if group != CgroupId::ROOT {
            self.bench.kernel.set_cgroup(on, group, CgroupKnobs { weight, ..CgroupKnobs::default() });
        }
        if let Some(task) = task {
            self.bench.kernel.move_to_cgroup(on, &[task], group).expect("the scheduler accepts it");
        }
    }

    fn hotplug(&mut self, cpu: CpuId) {
        if self.can_go_offline(cpu) {
            self.bench.kernel.deactivate_cpu(cpu);
            self.bench.kernel.check();
            self.bench.settle();
            self.take_offline(cpu);
        } else if !self.online.contains(cpu) {
            self.bench.kernel.start_cpu(cpu);
            self.bench.kernel.activate_cpu(cpu);
            self.online.insert(cpu);
        }
    }

    /// Wakes a task while a CPU is going offline.
    fn leaving(&mut self, cpu: CpuId, task: u8) {
        if !self.can_go_offline(cpu) {
            return;
        }
        self.bench.kernel.deactivate_cpu(cpu);
        self.bench.settle();
        assert!(self.bench.kernel.current(cpu) == TaskId::NONE, "no task is left on the CPU");
        self.wake(self.cpu(task), self.alive(task), false);
        self.bench.settle();
        self.bench.kernel.check();
        self.take_offline(cpu);
    }

    /// Checks what the kernel model cannot: that tasks run where they may, and the order of callbacks.
    fn check_state(&mut self) {
        for cpu in (0..self.cpus).map(CpuId) {
            let current = self.bench.kernel.current(cpu);
            if let Some(task) = current.some() {
                let (allowed, _) = self.tasks[task.index()].as_mut().expect("an exited task runs");
                let everywhere = self.bench.kernel.allowed(task).len() == self.cpus as usize;
                if *allowed != *self.bench.kernel.allowed(task) && everywhere {
                    // The CPUs of its affinity went offline.
                    *allowed = CpuSet::first_n(self.cpus as usize);
                }
                assert!(allowed.contains(cpu), "task {task} runs on CPU {cpu}, which is not allowed");
                assert!(self.online.contains(cpu), "task {task} runs on CPU {cpu}, which is offline");
                assert!(!self.bench.kernel.idle_cpus().contains(cpu), "CPU {cpu} is busy but marked idle");
            }
        }
        for entry in self.bench.log() {
            let mut parts = entry.split(':');
            let (op, task) = (parts.next().unwrap(), parts.nth(1).unwrap().split('(').next().unwrap());
            // During the step that takes a CPU offline or online, it already counts as offline or online.
            let allowed = task.parse().ok().map(|number| self.bench.kernel.allowed(TaskId(number)));
            let reachable = allowed.is_some_and(|allowed| allowed.is_subset(&self.online));
            let life = self.life.entry(task.to_owned()).or_default();
            match op {
                "runnable" => {
                    assert!(!std::mem::replace(&mut life.runnable, true), "{entry}: the task was runnable already")
                }
                "quiescent" => {
                    assert!(std::mem::replace(&mut life.runnable, false), "{entry}: the task was not runnable");
                    assert!(!life.running, "{entry}: the task is running");
                }
                "running" => {
                    assert!(life.runnable, "{entry}: the task is not runnable");
                    assert!(!std::mem::replace(&mut life.running, true), "{entry}: the task was running already");
                }
                "stopping" => assert!(std::mem::replace(&mut life.running, false), "{entry}: the task was not running"),
                "enqueue" => {
                    assert!(life.runnable && !life.running, "{entry}: the task is not waiting");
                    (life.enqueued, life.reachable) = (true, reachable);
                }
                "dequeue" => {
                    assert!(std::mem::replace(&mut life.enqueued, false), "{entry}: the task was not in custody")
                }
                "exit_task" => assert!(!life.runnable && !life.running, "{entry}: the task is still runnable"),
                _ => {}
            }
        }
    }

    /// Checks that every runnable ext task runs within two seconds while higher classes sleep. If the scheduler runs
    /// only reachable tasks, an unreachable task may wait as long as all of its CPUs are busy.
    fn check_waiting_tasks_run(&mut self, serves: Serves) {
        self.bench.kernel.end_suspend(self.cpu(0));
        self.bench.settle();
        self.check_state();
        let cpus = self.online();
        let mut waiting: Vec<(TaskId, bool)> = Vec::new();
        for (number, task) in self.tasks.iter().enumerate() {
            let life = self.life.get(&number.to_string()).filter(|life| life.runnable && !life.running);
            if let (Some(_), Some(life)) = (task, life) {
                let served = serves == Serves::EveryTask || life.reachable;
                waiting.push((TaskId(number as u32), served));
            }
        }
        for _ in 0..500 {
            for cpu in self.online.clone().iter() {
                while let Some(task) = self.bench.kernel.current(cpu).some() {
                    let Some((_, Policy::Fifo(_) | Policy::RoundRobin(_))) = self.tasks[task.index()] else { break };
                    self.leave(cpu, Leave::Block(BlockCause::Timer));
                    self.bench.settle();
                }
            }
            // A task may run and stop between two checks, so the log is searched too.
            let log = self.bench.log();
            let kernel = &self.bench.kernel;
            waiting.retain(|&(task, served)| {
                let ran = format!(":{task}");
                let may_come = self.online.intersection(kernel.allowed(task));
                !log.iter().any(|entry| entry.starts_with("running") && entry.ends_with(&ran))
                    && kernel.current(kernel.task_cpu(task)) != task
                    && (served || may_come.iter().any(|cpu| kernel.current(cpu) == TaskId::NONE))
            });
            if waiting.is_empty() {
                return;
            }
            self.bench.run(&cpus, TICK);
        }
        panic!("{waiting:?} never ran");
    }
}

fn run_steps(kind: usize, topology: Topology, steps: &[Step]) {
    let mut world = World::new(kind, topology);
    for step in steps {
        world.apply(step);
        assert_eq!(world.bench.kernel.exit_info(), None, "after {step:?}");
        world.check_state();
    }
    if KINDS[kind].1 != Serves::NotAllTasks {
        world.check_waiting_tasks_run(KINDS[kind].1);
    }
    let on = world.cpu(0);
    world.bench.kernel.detach(on);
    world.bench.kernel.check();
    world.bench.settle();
    world.bench.kernel.check();
    assert_eq!(world.bench.exit().kind, 64);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn random_operations_keep_invariants_and_lose_no_task(
        kind in 0..KINDS.len(),
        cpus in 1u32..=8,
        (threads, llc, node) in prop_oneof![Just((1, 8, 8)), Just((2, 4, 8)), Just((2, 4, 4)), Just((1, 2, 4))],
        steps in prop::collection::vec(step(), 1..80),
    ) {
        run_steps(kind, machine(cpus, threads, llc, node), &steps);
    }
}

/// Why one kind does not run tasks that were sent to an offline CPU: two tasks of CPU 1 keep its local queue filled.
/// The task that waited for CPU 0, now offline, is sent there again and waits in the global queue until they sleep.
#[test]
fn task_sent_to_an_offline_cpu_starves_behind_a_busy_local_queue() {
    let kind = KINDS.iter().position(|(_, serves)| *serves == Serves::ReachableTasks).unwrap();
    let mut world = World::new(kind, machine(2, 1, 8, 8));
    for mask in [0b10, 0b10, 0b01, 0b01] {
        world.apply(&Step::Fork { mask, policy: 5 });
    }
    world.apply(&Step::Hotplug { cpu: 0 });
    world.bench.log();
    let (cpu, ran) = (CpuId(1), |log: Vec<String>| log.contains(&"running:1:3".to_owned()));
    world.bench.run(&[cpu.0], Nanos::from_ms(500));
    assert!(!ran(world.bench.log()));
    for _ in 0..3 {
        world.leave(cpu, Leave::Block(BlockCause::Timer));
        world.bench.settle();
    }
    assert!(ran(world.bench.log()));
}

/// A CPU that comes online consumes the global queue before it idles; no later event would make it look there.
#[test]
fn cpu_coming_online_consumes_the_global_queue() {
    let kind = KINDS.iter().position(|(_, serves)| *serves == Serves::ReachableTasks).unwrap();
    let mut world = World::new(kind, machine(2, 1, 8, 8));
    let (online, offline) = (CpuId(0), CpuId(1));
    world.apply(&Step::Hotplug { cpu: 1 });
    for mask in [0b01, 0b01, 0b10] {
        world.apply(&Step::Fork { mask, policy: 5 });
    }
    // The third task is sent to offline CPU 1, and waits in the global queue behind the first two.
    world.bench.run(&[online.0], Nanos::from_ms(500));
    assert_eq!(world.bench.kernel.current(offline), TaskId::NONE);
    world.apply(&Step::Hotplug { cpu: 1 });
    assert_eq!(world.bench.kernel.current(offline), TaskId(2));
}
