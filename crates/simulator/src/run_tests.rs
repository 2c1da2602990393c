// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the clock against hand-computed timelines, and against itself without skipping ticks.

use crate::run::Run;
use crate::testing::{Fifo, Story, free_machine};
use crate::{Outcome, SetupError, setup};
use event_log::{Event, EventKind};
use ids::{CpuId, Nanos, Policy, TaskId, Topology};
use machine_model::Machine;
use measures::CpuAccount;
use proptest::prelude::*;
use workload::{Op, Sleep, Start, TaskSpec, Workload};

pub(crate) const MS: u64 = 1_000_000;

pub(crate) fn work(ns: u64) -> Op {
    Op::Work { user: Nanos(ns), system: Nanos(0) }
}

pub(crate) fn sleep(ns: u64) -> Op {
    Op::Sleep(Nanos(ns), Sleep::Timer)
}

pub(crate) fn spec(name: &str, start: Start, script: Vec<Op>) -> TaskSpec {
    TaskSpec {
        name: name.to_owned(),
        command: None,
        start,
        policy: Policy::Other,
        nice: 0,
        cpus: None,
        peak_rss_bytes: 0,
        who: workload::Who::default(),
        window: None,
        memory: None,
        lends: None,
        script,
    }
}

pub(crate) fn workload(tasks: Vec<TaskSpec>) -> Workload {
    Workload {
        name: "test".to_owned(),
        duration: None,
        tasks,
        mutexes: Vec::new(),
        locks: Vec::new(),
        conditions: 0,
        barriers: Vec::new(),
        signals: 0,
        references: 0,
        idle_exit_limit: None,
        groups: Vec::new(),
        is_grouped: false,
        caveats: Vec::new(),
        sources: Vec::new(),
        disks: Vec::new(),
        devices: Vec::new(),
        networks: Vec::new(),
        parts: Vec::new(),
    }
}

pub(crate) struct Played {
    pub outcome: Outcome,
    pub story: Story,
}

impl Played {
    /// `time cpu:task` for each switch, with idle as `-`, without the kernel's worker.
    fn switches(&self) -> String {
        let switch = |event: &&Event| match event.kind {
            EventKind::Switch { prev, .. } => prev != TaskId(0) && event.task != TaskId(0),
            _ => false,
        };
        let text = |event: &Event| format!("{} {}:{}", event.time.0, event.cpu, event.task);
        self.story.0.iter().filter(switch).map(text).collect::<Vec<_>>().join(", ")
    }

    fn account(&self, task: usize) -> [u64; 5] {
        let account = self.outcome.measures.tasks[task].account;
        [account.work, account.run, account.stolen, account.runnable, account.blocked].map(|time| time.0)
    }

    fn cpu(&self, cpu: usize) -> [u64; 4] {
        let CpuAccount { run, idle, scheduler, stolen, .. } = self.outcome.measures.cpus[cpu];
        [run, idle, scheduler, stolen].map(|time| time.0)
    }
}

pub(crate) fn try_play(
    machine: &Machine,
    workload: &Workload,
    skip_ticks: bool,
    disturb_every: Option<Nanos>,
) -> Result<Played, SetupError> {
    let mut story = Story::default();
    let ticks = setup::check_machine(machine)?;
    setup::check_workload(workload, machine, workload.duration)?;
    let mut kernel = Fifo::new(machine.topology.len(), Nanos(10 * MS));
    kernel.disturb_every = disturb_every;
    let mut run = Run::new(kernel, machine, workload, ticks, 0, &mut story);
    run.ticks.set_may_skip(skip_ticks);
    run.kernel.model.tracks_locks = run.locks.is_some();
    run.create_worker();
    run.play(&mut |_| ());
    let (outcome, _) = run.finish()?;
    Ok(Played { outcome, story })
}

pub(crate) fn play(machine: &Machine, workload: &Workload) -> Played {
    try_play(machine, workload, true, None).unwrap()
}

/// Ticks of 0.1 ms every 4 ms. They delay work; the CPU clock includes them, but is read only after them.
#[test]
fn tick_delays_work_and_counts_as_cpu_time() {
    let mut machine = free_machine(1);
    machine.costs.tick_ns = 100_000;
    for (op, end, stolen) in [
        (work(10 * MS), 10_200_000, 200_000),
        (Op::CpuTime(Nanos(10 * MS)), 10_000_000, 200_000),
        (Op::CpuTime(Nanos(8 * MS)), 8_000_000, 100_000),
        (Op::CpuTime(Nanos(8 * MS + 50_000)), 8_100_001, 200_000),
        (Op::CpuTime(Nanos(8 * MS + 100_000)), 8_100_000, 200_000),
        (Op::CpuTime(Nanos(8 * MS + 100_001)), 8_100_001, 200_000),
    ] {
        let played = play(&machine, &workload(vec![spec("t", Start::At(Nanos(0)), vec![op.clone()])]));
        assert_eq!(played.switches(), format!("0 0:1, {end} 0:-"), "{op:?}");
        assert_eq!(played.account(1), [end - stolen, end - stolen, stolen, 0, 0], "{op:?}");
    }
}

/// Two tasks of 25 ms on one CPU, HZ 250, slices of 10 ms: a slice ends at the first tick at or after its expiry, as
/// it is checked only there. Each task gets 12 ms twice, then its remaining 1 ms.
#[test]
fn slice_ends_at_the_first_tick_after_its_expiry() {
    let hog = || spec("hog", Start::At(Nanos(0)), vec![work(25 * MS)]);
    let played = play(&free_machine(1), &workload(vec![hog(), hog()]));
    assert_eq!(
        played.switches(),
        "0 0:1, 12000000 0:2, 24000000 0:1, 36000000 0:2, 48000000 0:1, 49000000 0:2, 50000000 0:-"
    );
}

/// One task works, sleeps, works; every operation has a cost.
///
/// | time | event | cost |
/// |---|---|---|
/// | 0 | task starts, CPU 0 leaves idle | 500 |
/// | 500 | wakeup | 200 + 10 |
/// | 710 | switch | 1000 + 10 |
/// | 1 720 | 5 ms of work, including a tick of 100 | |
/// | 5 001 820 | sleep, timer for 6 001 820; switch to idle | 1010 |
/// | 6 001 820 | CPU 0 leaves idle | 500 |
/// | 6 002 320 | interrupt, wakeup | 300 + 210 |
/// | 6 002 830 | switch | 1010 |
/// | 6 003 840 | 1 ms of work | |
/// | 7 003 840 | task ends | |
#[test]
fn every_operation_cost_is_charged() {
    let mut machine = free_machine(1);
    machine.costs.context_switch_ns = 1_000;
    machine.costs.idle_exit_ns = 500;
    machine.costs.interrupt_ns = 300;
    machine.costs.wakeup_ns = 200;
    machine.costs.tick_ns = 100;
    machine.costs.callback_ns = 10;
    let script = vec![work(5 * MS), sleep(MS), work(MS)];
    let played = play(&machine, &workload(vec![spec("one", Start::At(Nanos(0)), script)]));
    assert_eq!(played.switches(), "710 0:1, 5001820 0:-, 6002830 0:1, 7003840 0:-");
    assert_eq!(played.account(1), [6_000_000, 6_000_000, 2_120, 720, 1_000_500]);
    assert_eq!(played.cpu(0), [6_000_000, 999_990, 3_450, 400]);
    assert_eq!(played.outcome.measures.makespan, Some(Nanos(7_003_840)));
    assert_eq!(played.outcome.measures.bpf_instructions, Some(600));
}

/// An interrupt to another CPU takes time, more to another cache, and an idle CPU leaves its idle state first. The
/// parent forks at 0, 1 us and 2 us, since each fork takes 1 us; the children are placed on CPUs 1 (same cache), 2
/// (same node) and 3 (remote node).
#[test]
fn ipi_latency_depends_on_distance_and_idle_exit() {
    let mut machine = free_machine(4);
    machine.topology = Topology::of_groups(&[0, 1, 2, 3], &[0, 0, 1, 2], &[0, 0, 0, 1]);
    machine.costs.fork_ns = 1_000;
    machine.costs.ipi_ns = [10, 20, 30];
    machine.costs.idle_exit_ns = 100;
    let parent = spec("parent", Start::At(Nanos(0)), vec![Op::Fork(1), Op::Fork(1), Op::Fork(1), work(MS)]);
    let child = spec("child", Start::Forked, vec![work(MS)]);
    let played = play(&machine, &workload(vec![parent, child]));
    let expected = "100 0:1, 1210 1:2, 2220 2:3, 3230 3:4, 1001210 1:-, 1002220 2:-, 1003100 0:-, 1003230 3:-";
    assert_eq!(played.switches(), expected);
}

/// The sender is charged for an interrupt after it is sent: the parent's second fork is delayed by 500 ns for the
/// first one, and its own work, which ends at 1 ms, by that of three interrupts.
#[test]
fn ipi_cost_is_charged_to_the_sender() {
    let mut machine = free_machine(4);
    machine.costs.ipi_ns = [10; 3];
    machine.costs.ipi_send_ns = 500;
    let parent = spec("parent", Start::At(Nanos(0)), vec![Op::Fork(1), Op::Fork(1), Op::Fork(1), work(MS)]);
    let child = spec("child", Start::Forked, vec![work(MS)]);
    let played = play(&machine, &workload(vec![parent, child]));
    let expected = "0 0:1, 10 1:2, 510 2:3, 1010 3:4, 1000010 1:-, 1000510 2:-, 1001010 3:-, 1001500 0:-";
    assert_eq!(played.switches(), expected);
    assert_eq!(played.cpu(0)[2], 1_500);
}

/// CPU 1 has just become idle when the first child starts, has been idle for 0.4 ms at the second, and for 0.6 ms at
/// the third. To a CPU that has been idle for 0.5 ms an interrupt costs its sender 500 ns instead of 40, and the CPU
/// 700 ns instead of 60.
#[test]
fn ipi_to_a_descheduled_vcpu_costs_more() {
    let mut machine = free_machine(2);
    machine.costs.ipi_send_ns = 40;
    machine.costs.idle_exit_ns = 60;
    let mut switches = |halt| {
        machine.costs.halt = halt;
        let parent = vec![Op::Fork(1), work(MS / 2), Op::Fork(1), work(7 * MS / 10), Op::Fork(1), work(MS)];
        let child = spec("child", Start::Forked, vec![work(MS / 10)]);
        play(&machine, &workload(vec![spec("parent", Start::At(Nanos(0)), parent), child])).switches()
    };
    let halt = |after_ns| Some(machine_model::Halt { after_ns, send_ns: 500, exit_ns: 700 });
    let never = "60 0:1, 120 1:2, 100120 1:-, 500160 1:3, 600160 1:-, 1200200 1:4, 1300200 1:-, 2200180 0:-";
    assert_eq!(switches(None), never);
    assert_eq!(switches(halt(10 * MS)), never);
    let third = "60 0:1, 120 1:2, 100120 1:-, 500160 1:3, 600160 1:-, 1200840 1:4, 1300840 1:-, 2200640 0:-";
    assert_eq!(switches(halt(MS / 2)), third);
}

/// The external parent creates tasks one after another, and occupies CPU 0 until it has created the last one. The
/// first one starts at its time, as does a single one at 9 ms. The task for 8.0015 ms is due while the parent creates
/// that for 8 ms.
#[test]
fn external_parent_creates_tasks_one_after_another() {
    let mut machine = free_machine(3);
    machine.costs.clone_ns = 2_000;
    let starts = [0, 0, 0, 8_000_000, 8_001_500, 9_000_000];
    let tasks = starts.map(|start| spec("task", Start::At(Nanos(start)), vec![work(MS / 10)]));
    let played = play(&machine, &workload(tasks.into()));
    let runs = played.switches();
    let (first, later) = runs.split_at(runs.find("8000000").expect("the fourth"));
    assert_eq!(first, "0 1:1, 2000 2:2, 4000 0:3, 100000 1:-, 102000 2:-, 104000 0:-, ");
    assert_eq!(later, "8000000 1:4, 8002000 0:5, 8100000 1:-, 8102000 0:-, 9000000 0:6, 9100000 0:-");
    assert_eq!(played.cpu(0)[3], 3 * 2_000, "time of the external parent");
}

/// Work that ends exactly at a tick ends before it, so a slice equal to the work causes no switch.
#[test]
fn work_ending_with_its_slice_is_not_preempted() {
    let task = || spec("task", Start::At(Nanos(0)), vec![work(12 * MS), sleep(100 * MS)]);
    let played = play(&free_machine(1), &workload(vec![task(), task()]));
    assert_eq!(
        played.switches(),
        "0 0:1, 12000000 0:2, 24000000 0:-, 112000000 0:1, 112000000 0:-, 124000000 0:2, 124000000 0:-"
    );
}

/// The tasks start 700 ns apart, which is the cost of a wakeup. At 2400 `a` wakes `c` and will block then; waking
/// takes until 3100, and at 2600 `b` wakes `a`. So `a` does not block at all, and `b` does not call the kernel: 1 ns
/// later its CPU runs `c`.
#[test]
fn wakeup_before_the_sleep_is_not_lost() {
    let mut machine = free_machine(3);
    machine.costs.wakeup_ns = 700;
    let at_once = Start::At(Nanos(0));
    let c = spec("c", at_once, vec![Op::Suspend]);
    let a = spec("a", at_once, vec![work(1_000), Op::Resume([0].into()), Op::Suspend, work(5)]);
    let b = spec("b", at_once, vec![work(500), Op::Resume([1].into()), work(1)]);
    let played = play(&machine, &workload(vec![c, a, b]));
    let expected = "1400 1:1, 1400 1:2, 2100 0:3, 2601 0:1, 2601 0:-, 3105 1:-";
    assert_eq!(played.switches(), expected);
    assert_eq!(played.account(2), [1_005, 1_005, 700, 700, 0]);
}

#[test]
fn run_ends_at_its_duration() {
    let mut endless = workload(vec![spec("endless", Start::At(Nanos(5)), vec![work(1_000_000_000_000_000)])]);
    endless.duration = Some(Nanos(1_000_000_007));
    let played = play(&free_machine(2), &endless);
    assert_eq!(played.outcome.measures.elapsed, Nanos(1_000_000_007));
    assert_eq!(played.outcome.measures.makespan, None);
    assert_eq!(played.account(1), [1_000_000_002, 1_000_000_002, 0, 0, 0]);
    let ended = workload(vec![spec("ended", Start::At(Nanos(5)), vec![work(20)])]);
    assert_eq!(play(&free_machine(1), &ended).outcome.measures.elapsed, Nanos(25));
}

#[test]
fn task_that_acts_endlessly_without_consuming_time_is_an_error() {
    let script = |other| vec![Op::Resume([other].into()), Op::Suspend, Op::Repeat { from: 0, times: None }];
    let (ping, pong) = (spec("ping", Start::At(Nanos(5)), script(1)), spec("pong", Start::At(Nanos(5)), script(0)));
    let idle = Workload { duration: Some(Nanos(9)), ..workload(vec![ping, pong]) };
    let Err(SetupError::Workload(problem)) = try_play(&free_machine(1), &idle, true, None) else {
        panic!("the run must fail");
    };
    let expected = "task 1 (ping) acts endlessly at 5 ns without consuming time; add work or a sleep to its script";
    assert_eq!(problem, expected);
}

#[test]
fn refused_fork_is_counted() {
    let parent = spec("parent", Start::At(Nanos(0)), vec![Op::Fork(1), work(10)]);
    let played = play(&free_machine(1), &workload(vec![parent, spec("refused", Start::Forked, vec![work(5)])]));
    assert_eq!(played.outcome.failed_forks, 1);
    assert_eq!(played.outcome.measures.makespan, Some(Nanos(10)));
}

#[test]
fn machine_whose_ticks_take_all_time_is_refused() {
    let mut machine = free_machine(1);
    machine.costs.tick_ns = 4_000_000;
    let problem = "free: a tick of 4000000 ns, 250 times per second, leaves no time for work";
    assert_eq!(setup::check_machine(&machine).unwrap_err(), SetupError::Machine(problem.to_owned()));
    machine.topology.places.clear();
    let problem = "free: it has 0 CPUs, expected 1 to 4096";
    assert_eq!(setup::check_machine(&machine).unwrap_err(), SetupError::Machine(problem.to_owned()));
}

fn op(cpus: u32) -> impl Strategy<Value = Op> {
    // Odd times, and whole milliseconds, which coincide with ticks and each other.
    let nanos = |max: u64| prop_oneof![1..max, (1..max.div_ceil(MS) + 1).prop_map(|ms| ms * MS)].prop_map(Nanos);
    let change = prop::collection::btree_set(0..cpus, 1..=cpus as usize)
        .prop_map(|cpus| Op::Change { cpus: Some(Box::new(cpus.into_iter().map(CpuId).collect())), policy: None });
    let others = (1u32..4, prop::option::of(prop::sample::select(vec![(Policy::Other, 7), (Policy::Batch, -7)])));
    let others = (others, prop::option::of(0..cpus)).prop_map(|((spec, policy), cpu)| {
        let cpus = cpu.map(|cpu| Box::new(std::iter::once(CpuId(cpu)).collect()));
        Op::ChangeOf { spec, cpus, policy: policy.map(Box::new) }
    });
    prop_oneof![
        4 => nanos(30 * MS).prop_map(|user| Op::Work { user, system: Nanos(0) }),
        2 => nanos(20_000).prop_map(|user| Op::Work { user, system: Nanos(0) }),
        1 => nanos(5 * MS).prop_map(Op::CpuTime),
        3 => (nanos(10 * MS), prop_oneof![Just(Sleep::Timer), Just(Sleep::Io), Just(Sleep::External)])
            .prop_map(|(time, why)| Op::Sleep(time, why)),
        1 => Just(Op::Yield),
        1 => Just(Op::Fork(0)),
        1 => change,
        1 => others,
        1 => Just(Op::Suspend),
        2 => prop::collection::vec(1u32..4, 1..3).prop_map(|specs| Op::Resume(specs.into())),
    ]
}

fn random_workload(cpus: u32) -> impl Strategy<Value = Workload> {
    let script = prop::collection::vec(op(cpus), 1..8).prop_map(|mut script| {
        script.push(work(1));
        script.push(Op::Repeat { from: 0, times: Some(4) });
        script
    });
    let start = prop_oneof![0..20 * MS, (0u64..20).prop_map(|ms| ms * MS)].prop_map(|time| Start::At(Nanos(time)));
    prop::collection::vec((start, script), 3..7).prop_map(|tasks| {
        let mut specs = vec![spec("child", Start::Forked, vec![work(3 * MS), sleep(MS), work(100)])];
        specs.extend(tasks.into_iter().map(|(start, script)| spec("task", start, script)));
        Workload { duration: Some(Nanos(300 * MS)), ..workload(specs) }
    })
}

fn random_machine() -> impl Strategy<Value = Machine> {
    let interrupt = (0..1_000u64, prop_oneof![Just(0), 0..20_000u64]);
    let times = (0..9_000u64, interrupt, 0..200_000u64, 0..2_000u64, 0..40_000u64);
    let costs = (0..3_000u64, [0..900u64, 0..900u64, 0..900u64], times);
    let halt = prop::option::of((0..2 * MS, 0..30_000u64, 0..60_000u64));
    let costs = (costs, halt, prop::bool::weighted(0.3));
    (1u32..5, any::<bool>(), prop::sample::select(vec![100u32, 250, 300, 1000]), costs).prop_map(
        |(cpus, no_hz_idle, hz, (costs, halt, free))| {
            let (context_switch_ns, ipi_ns, times) = costs;
            let (idle_exit_ns, (interrupt_ns, ipi_send_ns), tick_ns, wakeup_ns, clone_ns) = times;
            let mut machine = Machine { hz, no_hz_idle, ..free_machine(cpus) };
            if free {
                return machine;
            }
            let rest = machine.costs.clone();
            machine.costs = machine_model::Costs {
                context_switch_ns,
                ipi_ns,
                ipi_send_ns,
                idle_exit_ns,
                halt: halt.map(|(after_ns, send_ns, exit_ns)| machine_model::Halt { after_ns, send_ns, exit_ns }),
                interrupt_ns,
                tick_ns,
                wakeup_ns,
                callback_ns: 13,
                instruction_ps: 700,
                fork_ns: 5_000,
                clone_ns,
                attach_ns: 0,
                disable_ns: 0,
                ..rest
            };
            machine
        },
    )
}

/// A machine, a workload, and the interval at which a CPU is disturbed.
pub(crate) type Scenario = (Machine, Workload, Option<Nanos>);

pub(crate) fn scenario() -> impl Strategy<Value = Scenario> {
    random_machine().prop_flat_map(|machine| {
        let workload = random_workload(machine.topology.len() as u32);
        let disturb = prop::option::of((300_000..9 * MS).prop_map(Nanos));
        (Just(machine), workload, disturb)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Ticks without effect are skipped, and nothing but the ticks themselves differs. Accounts that do not add up
    /// panic in both runs.
    #[test]
    fn skipping_ticks_does_not_change_results((machine, workload, disturb) in scenario()) {
        let skipping = try_play(&machine, &workload, true, disturb).unwrap();
        let playing = try_play(&machine, &workload, false, disturb).unwrap();
        let told = |played: &Played| {
            played.story.0.iter().filter(|event| event.kind != EventKind::Tick).copied().collect::<Vec<_>>()
        };
        prop_assert_eq!(told(&skipping), told(&playing));
        prop_assert!(skipping.story.0.len() <= playing.story.0.len());
        prop_assert_eq!(skipping.outcome.measures, playing.outcome.measures);
    }

    #[test]
    fn repeated_run_is_identical((machine, workload, disturb) in scenario()) {
        let (once, again) = (try_play(&machine, &workload, true, disturb), try_play(&machine, &workload, true, disturb));
        prop_assert_eq!(once.unwrap().outcome, again.unwrap().outcome);
    }
}
