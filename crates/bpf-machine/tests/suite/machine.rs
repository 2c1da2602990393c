// SPDX-License-Identifier: GPL-2.0-only
//! Use of a machine by a host, beyond running a program to completion.

use crate::common::TestKernel;
use bpf_machine::{Access, CodeSite, FaultKind, Machine, Memory, Next, PausePoints, SourceLine, Step, TimerId, asm};
use bpf_object::FunctionId;

fn machine(program: &str) -> Machine {
    let object = asm::assemble("test.bpf.c", program).expect("a program");
    Machine::load(&object, Memory::default(), 2, &TestKernel::default()).expect("a machine")
}

const HELPERS: PausePoints = PausePoints { kfuncs: false, helpers: true, atomics: false, spin_locks: false };

#[test]
fn fault_message_names_function_file_line_and_text() {
    let mut machine = machine("func main\n  r0 = 0\n  call sub\n  exit\nfunc sub\n  r1 = *(u64 *)(r0 + 8)\n  exit");
    let mut execution = machine.execution();
    machine.begin(&mut execution, FunctionId(0), &[], 0);
    let fault = machine.run(&mut execution, &mut TestKernel::default()).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "NULL pointer load of 8 bytes (address 0x8) in sub+0 (test.bpf.c:6: r1 = *(u64 *)(r0 + 8))"
    );
}

#[test]
fn execution_pauses_before_a_call_while_others_run() {
    let mut machine =
        machine("func main\n  r6 = r1\n  call helper 8\n  *(u64 *)(r10 - 8) = r6\n  r0 = *(u64 *)(r10 - 8)\n  exit");
    let mut kernel = TestKernel::default();
    let (mut first, mut second) = (machine.execution(), machine.execution());
    (first.pause, second.pause) = (HELPERS, HELPERS);
    machine.begin(&mut first, FunctionId(0), &[11], 0);
    machine.begin(&mut second, FunctionId(0), &[22], 1);
    assert_eq!(machine.run(&mut first, &mut kernel), Ok(Step::Paused));
    assert_eq!(
        machine.site(&first),
        CodeSite { function: FunctionId(0), insn: 1, line: SourceLine { file: 0, line: 3 } }
    );
    assert_eq!(machine.run(&mut second, &mut kernel), Ok(Step::Paused));
    assert_eq!(kernel.calls, [], "the pause is before the call");
    assert_eq!(machine.run(&mut second, &mut kernel), Ok(Step::Done(22)));
    assert_eq!(machine.run(&mut first, &mut kernel), Ok(Step::Done(11)));
    assert_eq!((first.executed, second.executed), (5, 5));
}

const LOCKED: &str = "
data .bss 00 00 00 00 00 00 00 00
func main
  r1 = value .bss
  call helper 93
  call helper 8
  r1 = value .bss
  call helper 94
  r0 = 5
  exit";

#[test]
fn execution_waits_for_a_held_spin_lock() {
    let mut machine = machine(LOCKED);
    let mut kernel = TestKernel::default();
    let (mut holder, mut waiter) = (machine.execution(), machine.execution());
    (holder.pause, waiter.pause) = (HELPERS, HELPERS);
    machine.begin(&mut holder, FunctionId(0), &[], 0);
    machine.begin(&mut waiter, FunctionId(0), &[], 1);
    // Pauses before the lock, and then, holding it, before the next call.
    assert_eq!(machine.run(&mut holder, &mut kernel), Ok(Step::Paused));
    assert_eq!(machine.run(&mut holder, &mut kernel), Ok(Step::Paused));
    for _ in 0..3 {
        assert_eq!(machine.run(&mut waiter, &mut kernel), Ok(Step::Paused));
        assert_eq!((machine.site(&waiter).insn, waiter.executed), (2, 1));
    }
    while machine.run(&mut holder, &mut kernel) == Ok(Step::Paused) {}
    let mut pauses = 0;
    while machine.run(&mut waiter, &mut kernel) == Ok(Step::Paused) {
        pauses += 1;
    }
    assert_eq!((pauses, waiter.executed, holder.executed), (2, 7, 7));
}

#[test]
fn spin_lock_helpers_can_be_the_only_pause_points() {
    let mut machine = machine(LOCKED);
    let mut kernel = TestKernel::default();
    let mut execution = machine.execution();
    execution.pause.spin_locks = true;
    machine.begin(&mut execution, FunctionId(0), &[], 0);
    let mut before = Vec::new();
    while machine.run(&mut execution, &mut kernel) == Ok(Step::Paused) {
        let Next::Helper(helper, args) = machine.next(&execution) else { panic!("{:?}", machine.next(&execution)) };
        before.push((helper, machine.memory.load(args[0], 4)));
    }
    assert_eq!(before, [(93, Ok(0)), (94, Ok(1))], "no pause at the helper between them");
}

#[test]
fn execution_can_pause_after_a_kfunc() {
    let mut machine = machine("kfunc add\nfunc main\n  call kfunc add\n  r0 += 1\n  exit");
    let mut kernel = TestKernel::default();
    let mut execution = machine.execution();
    execution.pause.kfuncs = true;
    machine.begin(&mut execution, FunctionId(0), &[], 0);
    assert_eq!(machine.run(&mut execution, &mut kernel), Ok(Step::Paused));
    assert!(matches!(machine.next(&execution), Next::Kfunc(..)));
    execution.pause_behind = true;
    assert_eq!(machine.run(&mut execution, &mut kernel), Ok(Step::Paused));
    assert_eq!(machine.next(&execution), Next::Other, "the kfunc has returned");
    assert!(matches!(machine.run(&mut execution, &mut kernel), Ok(Step::Done(_))), "the execution pauses only once");
}

#[test]
fn spin_lock_of_a_suspended_holder_is_a_fault_without_pauses() {
    let mut machine = machine(LOCKED);
    let mut kernel = TestKernel::default();
    let (mut holder, mut other) = (machine.execution(), machine.execution());
    holder.pause = HELPERS;
    machine.begin(&mut holder, FunctionId(0), &[], 0);
    machine.begin(&mut other, FunctionId(0), &[], 1);
    for _ in 0..2 {
        assert_eq!(machine.run(&mut holder, &mut kernel), Ok(Step::Paused));
    }
    let fault = machine.run(&mut other, &mut kernel).unwrap_err();
    assert!(fault.to_string().contains("is held and never released"), "{fault}");
}

#[test]
fn program_reads_argument_block_and_host_objects() {
    let program =
        "func main\n  r2 = *(u64 *)(r1 + 8)\n  r1 = *(u64 *)(r1 + 0)\n  r0 = *(u32 *)(r1 + 4)\n  r0 += r2\n  exit";
    let object = asm::assemble("test", program).expect("a program");
    let mut memory = Memory::default();
    let tasks = memory.add_region("task", 64, 10, Access::ReadWrite);
    let mut machine = Machine::load(&object, memory, 1, &TestKernel::default()).expect("a machine");
    machine.memory.set_u32(tasks, 7, 4, 4000);
    let mut execution = machine.execution();
    let block = machine.argument_block(&execution, &[machine.memory.addr(tasks, 7), 2]);
    machine.begin(&mut execution, FunctionId(0), &[block], 0);
    assert_eq!(machine.run(&mut execution, &mut TestKernel::default()), Ok(Step::Done(4002)));
}

#[test]
fn forget_owner_deletes_task_and_cgroup_storage() {
    let mut machine = machine(
        "map a TaskStorage key 4 value 8 max 0\nmap b Hash key 8 value 8 max 3\nmap c CgroupStorage key 4 value 8 max 0\nfunc main\n  exit",
    );
    let [a, b, c] = ["a", "b", "c"].map(|name| machine.maps.find(name).expect("a map"));
    let owner = 0x5000_u64;
    for map in [a, b, c] {
        let key = owner.to_le_bytes();
        machine.maps.update(&mut machine.memory, map, &key, &[1; 8], 0, 0).expect("room");
        machine.maps.update(&mut machine.memory, map, &[9; 8], &[1; 8], 0, 0).expect("room");
    }
    machine.maps.forget_owner(&mut machine.memory, owner).expect("no fault");
    let found = |map, key: &[u8]| machine.maps.lookup(&machine.memory, map, key, 0).is_some();
    assert_eq!([a, b, c].map(|map| found(map, &owner.to_le_bytes())), [false, true, false]);
    assert_eq!([a, b, c].map(|map| found(map, &[9; 8])), [true; 3]);
    assert_eq!(machine.maps.find("d"), None);
}

#[test]
fn ring_buffer_is_drained_in_reservation_order() {
    let program = "
map ring Ringbuf key 0 value 0 max 4096
func reserve
  r1 = map ring
  r2 = 16
  r3 = 0
  call helper 131
  exit
func submit
  *(u64 *)(r1 + 0) = r2
  r2 = 0
  call helper 132
  r0 = 0
  exit
func discard
  r2 = 0
  call helper 133
  r0 = 0
  exit";
    let mut machine = machine(program);
    let mut kernel = TestKernel::default();
    let mut execution = machine.execution();
    let mut call = |machine: &mut Machine, function, args: &[u64]| {
        machine.begin(&mut execution, FunctionId(function), args, 0);
        match machine.run(&mut execution, &mut kernel) {
            Ok(Step::Done(value)) => value,
            other => panic!("{other:?}"),
        }
    };
    let ring = machine.maps.find("ring").expect("the map");
    // Many more records than fit at once: positions wrap, records do not.
    for round in 0..1000 {
        let [first, second, third] = [0; 3].map(|_| call(&mut machine, 0, &[]));
        call(&mut machine, 1, &[third, round + 3]);
        let drain = |machine: &mut Machine| {
            let mut seen = Vec::new();
            machine.maps.drain(&machine.memory, ring, |record| {
                assert_eq!(record.len(), 16);
                seen.push(u64::from_le_bytes(record[..8].try_into().expect("8 bytes")));
            });
            seen
        };
        assert_eq!(drain(&mut machine), [], "the first record is not finished");
        call(&mut machine, 1, &[first, round + 1]);
        assert_eq!(drain(&mut machine), [round + 1]);
        call(&mut machine, 2, &[second]);
        assert_eq!(drain(&mut machine), [round + 3]);
    }
}

#[test]
fn missing_timer_has_no_callback() {
    let mut machine = machine("func main\n  exit");
    let execution = machine.execution();
    assert_eq!(machine.timer_callback(&execution, TimerId(0)), None);
}

#[test]
#[should_panic(expected = "not in flight")]
fn running_an_execution_without_begin_panics() {
    let mut machine = machine("func main\n  exit");
    let mut execution = machine.execution();
    let _: Result<Step, _> = machine.run(&mut execution, &mut TestKernel::default());
}

#[test]
fn assembler_errors_name_line_and_problem() {
    let cases = [
        ("func main\n  r1 = r99x", "line 2: r99x is not a number: r1 = r99x"),
        ("r0 = 1", "line 1: an instruction outside of a function"),
        ("func main\n  goto nowhere", "line 2: there is no label nowhere"),
        ("func main\n  call sub", "line 2: there is no function sub"),
        ("func main\nfunc main\n  exit", "line 2: function main is declared twice"),
        ("map m Tree key 4 value 4 max 4", "line 1: Tree is not a kind of map"),
        ("func main\n  r1 = map m", "line 2: there is no map m"),
        ("func main\n  if r1 = 3 goto out", "line 2: = is not a comparison: if r1 = 3 goto out"),
        ("func main\n  r1 = 0x123456789", "line 2: 4886718345 has more than 32 bits: r1 = 0x123456789"),
    ];
    for (program, expected) in cases {
        let error = asm::assemble("", program).expect_err(program).to_string();
        assert!(error.starts_with(expected), "{error}\nexpected {expected}");
    }
}

/// A loop of 3 instructions in a program of 6, followed by a helper call: for every budget, execution ends at the
/// same instruction as when instructions are counted one by one.
#[test]
fn budget_fault_is_at_the_exact_instruction() {
    let program = "func main\n  r0 = 0\nagain:\n  r0 += 1\n  r1 = r0\n  if r1 < 20 goto again\n  call helper 8\n  exit";
    let run = |budget: u64, lines: bool| {
        let mut machine = machine(program);
        if lines {
            machine.count_lines();
        }
        let mut execution = machine.execution();
        execution.budget = budget;
        machine.begin(&mut execution, FunctionId(0), &[], 0);
        let result = machine.run(&mut execution, &mut TestKernel::default());
        (result.map_err(|fault| (fault.kind, fault.insn)), execution.executed)
    };
    for budget in 0..63 {
        let (result, executed) = run(budget, false);
        let stands_before = if budget == 0 { 0 } else { 1 + (budget - 1) % 3 };
        let insn = if budget > 60 { budget - 57 } else { stands_before };
        assert_eq!(result, Err((FaultKind::Budget(budget), insn as u32)), "budget {budget}");
        assert_eq!(executed, budget);
        assert_eq!(run(budget, true), (result, executed), "with line counts");
    }
    assert_eq!(run(63, false), (Ok(Step::Done(0)), 63));
}
