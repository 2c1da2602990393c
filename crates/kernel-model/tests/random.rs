// SPDX-License-Identifier: GPL-2.0-only
//! Random operations on random machines, with schedulers of several kinds: after every step all that must always hold
//! does, callbacks come in pairs, and nobody is lost.

#[allow(dead_code)]
mod bench;

use bench::kinds::{KINDS, Serves, object};
use bench::{Bench, TICK};
use event_log::{BlockCause, Waker};
use ids::{CpuId, CpuSet, Nanos, Policy, TaskId, Topology};
use kernel_model::{CgroupId, CgroupKnobs, Leave, TaskAttributes};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// CPUs in cores of `threads`, caches of `llc` and nodes of `node` CPUs.
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
    /// The first step of going offline only, and something between it and the others.
    Leaving {
        cpu: u8,
        task: u8,
    },
    Suspend {
        on: bool,
    },
    /// A task goes to a cgroup that is given a weight; the first ones are made.
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

/// A bench, and what the test knows of its tasks.
struct World {
    bench: Bench,
    cpus: u32,
    online: CpuSet,
    /// Allowed CPUs and policy; `None`: gone.
    tasks: Vec<Option<(CpuSet, Policy)>>,
    /// The root, and those that were made.
    groups: Vec<CgroupId>,
    life: BTreeMap<String, Life>,
}

/// What the callbacks said last about a task.
#[derive(Default)]
struct Life {
    runnable: bool,
    running: bool,
    enqueued: bool,
    /// When it was enqueued last, all CPUs that it may use were online.
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

    /// An online CPU.
    fn cpu(&self, number: u8) -> CpuId {
        self.online.iter().nth(usize::from(number) % self.online.len()).expect("some CPU is online")
    }

    /// Their numbers.
    fn online(&self) -> Vec<u32> {
        self.online.iter().map(|cpu| cpu.0).collect()
    }

    /// Steps 2 and 3 of going offline.
    fn go(&mut self, cpu: CpuId) {
        self.bench.kernel.offline_cpu(cpu);
        self.bench.kernel.check();
        self.bench.settle();
        self.bench.kernel.check();
        self.bench.kernel.kill_cpu(cpu);
        self.online.remove(cpu);
    }

    /// Whether the CPU may go: it is there, and is not the last.
    fn may_go(&self, cpu: CpuId) -> bool {
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

    fn play(&mut self, step: &Step) {
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
            self.groups.push(self.bench.kernel.make_cgroup(on, parent, "g").expect("nobody refuses"));
        }
        let group = self.groups[group % self.groups.len()];
        if group != CgroupId::ROOT {
            self.bench.kernel.set_cgroup(on, group, CgroupKnobs { weight, ..CgroupKnobs::default() });
        }
        if let Some(task) = task {
            self.bench.kernel.move_to_cgroup(on, &[task], group).expect("nobody refuses");
        }
    }

    fn hotplug(&mut self, cpu: CpuId) {
        if self.may_go(cpu) {
            self.bench.kernel.deactivate_cpu(cpu);
            self.bench.kernel.check();
            self.bench.settle();
            self.go(cpu);
        } else if !self.online.contains(cpu) {
            self.bench.kernel.start_cpu(cpu);
            self.bench.kernel.activate_cpu(cpu);
            self.online.insert(cpu);
        }
    }

    /// Somebody runs, wakes and sleeps while a CPU is about to go.
    fn leaving(&mut self, cpu: CpuId, task: u8) {
        if !self.may_go(cpu) {
            return;
        }
        self.bench.kernel.deactivate_cpu(cpu);
        self.bench.settle();
        assert!(self.bench.kernel.current(cpu) == TaskId::NONE, "nobody stays");
        self.wake(self.cpu(task), self.alive(task), false);
        self.bench.settle();
        self.bench.kernel.check();
        self.go(cpu);
    }

    /// What the bench cannot know: who may run where, and in which order callbacks come.
    fn judge(&mut self) {
        for cpu in (0..self.cpus).map(CpuId) {
            let current = self.bench.kernel.current(cpu);
            if let Some(task) = current.some() {
                let (allowed, _) = self.tasks[task.index()].as_mut().expect("the dead do not run");
                let everywhere = self.bench.kernel.allowed(task).len() == self.cpus as usize;
                if *allowed != *self.bench.kernel.allowed(task) && everywhere {
                    // The CPUs that it was bound to went.
                    *allowed = CpuSet::first_n(self.cpus as usize);
                }
                assert!(allowed.contains(cpu), "task {task} runs on CPU {cpu}, which is forbidden");
                assert!(self.online.contains(cpu), "task {task} runs on CPU {cpu}, which is offline");
                assert!(!self.bench.kernel.idle_cpus().contains(cpu), "CPU {cpu} is busy");
            }
        }
        for entry in self.bench.log() {
            let mut parts = entry.split(':');
            let (op, task) = (parts.next().unwrap(), parts.nth(1).unwrap().split('(').next().unwrap());
            // A CPU that goes is offline for whoever is enqueued in that step, one that comes is online.
            let allowed = task.parse().ok().map(|number| self.bench.kernel.allowed(TaskId(number)));
            let reachable = allowed.is_some_and(|allowed| allowed.is_subset(&self.online));
            let life = self.life.entry(task.to_owned()).or_default();
            match op {
                "runnable" => assert!(!std::mem::replace(&mut life.runnable, true), "{entry}: it was runnable"),
                "quiescent" => {
                    assert!(std::mem::replace(&mut life.runnable, false), "{entry}: it was not runnable");
                    assert!(!life.running, "{entry}: it runs");
                }
                "running" => {
                    assert!(life.runnable, "{entry}: it is not runnable");
                    assert!(!std::mem::replace(&mut life.running, true), "{entry}: it was running");
                }
                "stopping" => assert!(std::mem::replace(&mut life.running, false), "{entry}: it was not running"),
                "enqueue" => {
                    assert!(life.runnable && !life.running, "{entry}: it is not waiting");
                    (life.enqueued, life.reachable) = (true, reachable);
                }
                "dequeue" => assert!(std::mem::replace(&mut life.enqueued, false), "{entry}: it was not in custody"),
                "exit_task" => assert!(!life.runnable && !life.running, "{entry}: it is not gone"),
                _ => {}
            }
        }
    }

    /// Higher classes sleep; then every ext task that is runnable runs within two seconds, or waits for ever while all
    /// its CPUs are busy where the scheduler serves only those it can reach.
    fn nobody_is_lost(&mut self, serves: Serves) {
        self.bench.kernel.end_suspend(self.cpu(0));
        self.bench.settle();
        self.judge();
        let cpus = self.online();
        let mut waiting: Vec<(TaskId, bool)> = Vec::new();
        for (number, task) in self.tasks.iter().enumerate() {
            let life = self.life.get(&number.to_string()).filter(|life| life.runnable && !life.running);
            if let (Some(_), Some(life)) = (task, life) {
                let served = serves == Serves::Everybody || life.reachable;
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
            // A task may come and go between two looks: the log tells too.
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

fn play(kind: usize, topology: Topology, steps: &[Step]) {
    let mut world = World::new(kind, topology);
    for step in steps {
        world.play(step);
        assert_eq!(world.bench.kernel.exit_info(), None, "after {step:?}");
        world.judge();
    }
    if KINDS[kind].1 != Serves::Some {
        world.nobody_is_lost(KINDS[kind].1);
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
    fn whatever_happens_every_task_is_in_one_place(
        kind in 0..KINDS.len(),
        cpus in 1u32..=8,
        (threads, llc, node) in prop_oneof![Just((1, 8, 8)), Just((2, 4, 8)), Just((2, 4, 4)), Just((1, 2, 4))],
        steps in prop::collection::vec(step(), 1..80),
    ) {
        play(kind, machine(cpus, threads, llc, node), &steps);
    }
}

/// Why one kind does not serve who may use a CPU that is offline: two tasks of CPU 1 keep its own queue filled, and the
/// one that waited for CPU 0, which is offline now, and is sent there again, waits in the global queue until they sleep.
#[test]
fn whom_a_scheduler_sends_to_an_offline_cpu_waits_behind_the_local_queue() {
    let kind = KINDS.iter().position(|(_, serves)| *serves == Serves::WhoIsReachable).unwrap();
    let mut world = World::new(kind, machine(2, 1, 8, 8));
    for mask in [0b10, 0b10, 0b01, 0b01] {
        world.play(&Step::Fork { mask, policy: 5 });
    }
    world.play(&Step::Hotplug { cpu: 0 });
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

/// A CPU that comes online looks into the global queue before it idles: nobody would tell it later that a task is there.
#[test]
fn a_cpu_that_comes_takes_whom_the_global_queue_holds() {
    let kind = KINDS.iter().position(|(_, serves)| *serves == Serves::WhoIsReachable).unwrap();
    let mut world = World::new(kind, machine(2, 1, 8, 8));
    let (stays, comes) = (CpuId(0), CpuId(1));
    world.play(&Step::Hotplug { cpu: 1 });
    for mask in [0b01, 0b01, 0b10] {
        world.play(&Step::Fork { mask, policy: 5 });
    }
    // The third is sent to CPU 1, which is offline, and waits in the global queue behind the first two.
    world.bench.run(&[stays.0], Nanos::from_ms(500));
    assert_eq!(world.bench.kernel.current(comes), TaskId::NONE);
    world.play(&Step::Hotplug { cpu: 1 });
    assert_eq!(world.bench.kernel.current(comes), TaskId(2));
}
