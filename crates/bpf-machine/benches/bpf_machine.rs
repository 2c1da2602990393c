// SPDX-License-Identifier: GPL-2.0-only
//! Execution speed of the machine: `cargo bench -p bpf-machine [WORD]`. Each line is the best of several rounds,
//! because other work on the host can only slow a round down.

use bpf_machine::{Context, FaultKind, GuestAddr, Host, Machine, Memory, Resolver, Step, TimerId, asm};
use bpf_object::{FunctionId, KfuncRef};
use std::hint::black_box;
use std::time::Instant;

/// Number of rounds of each measurement.
const ROUNDS: u32 = 7;

/// Name, program, and number of executions in a round.
const PROGRAMS: [(&str, &str, u32); 7] = [
    ("arithmetic and jumps", ARITHMETIC, 1),
    ("loads and stores on the stack", STACK, 1),
    ("loads and stores in a map value", VALUE, 1),
    ("calls of functions", CALLS, 1),
    ("calls of a kfunc", KFUNC, 1),
    ("array map lookups", LOOKUP, 1),
    ("begin and a program of 10 instructions", SHORT, 1_000_000),
];

const ARITHMETIC: &str = "
func main
  r1 = 10000000
  r2 = 1
again:
  r3 = r1
  r3 ^= r2
  r2 += r3
  w3 <<= 3
  r2 -= r3
  r4 = r2
  r4 >>= 7
  r2 |= r4
  r1 += -1
  if r1 != 0 goto again
  r0 = r2
  exit";

const STACK: &str = "
func main
  r1 = 10000000
again:
  *(u64 *)(r10 - 8) = r1
  r2 = *(u64 *)(r10 - 8)
  *(u32 *)(r10 - 16) = r2
  r3 = *(u32 *)(r10 - 16)
  r1 += -1
  if r1 != 0 goto again
  r0 = r3
  exit";

const VALUE: &str = "
data .bss 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
func main
  r1 = 10000000
  r4 = value .bss
again:
  *(u64 *)(r4 + 8) = r1
  r2 = *(u64 *)(r4 + 8)
  *(u32 *)(r4 + 0) = r2
  r3 = *(u32 *)(r4 + 0)
  r1 += -1
  if r1 != 0 goto again
  r0 = r3
  exit";

const CALLS: &str = "
func main
  r6 = 5000000
again:
  call sub
  r6 += -1
  if r6 != 0 goto again
  exit
func sub
  r0 = r6
  exit";

const KFUNC: &str = "
kfunc k
func main
  r6 = 5000000
again:
  call kfunc k
  r6 += -1
  if r6 != 0 goto again
  exit";

const LOOKUP: &str = "
map counts Array key 4 value 8 max 64
func main
  r6 = 5000000
  *(u32 *)(r10 - 4) = 7
again:
  r1 = map counts
  r2 = r10
  r2 += -4
  call helper 1
  r6 += -1
  if r6 != 0 goto again
  exit";

const SHORT: &str = "
func main
  r6 = *(u64 *)(r1 + 0)
  r7 = *(u64 *)(r1 + 8)
  *(u64 *)(r10 - 8) = r6
  r6 += r7
  r8 = r6
  r8 &= 255
  if r8 == 300 goto out
  r6 += 1
out:
  r0 = r6
  exit";

struct Nothing;

impl Resolver for Nothing {
    fn kfunc(&self, _: &KfuncRef) -> Option<u32> {
        Some(0)
    }

    fn variable(&self, _: &str) -> Option<GuestAddr> {
        None
    }
}

impl Host for Nothing {
    fn kfunc(&mut self, _: u32, args: [u64; 5], _: &mut Context<'_>) -> Result<u64, FaultKind> {
        Ok(args[0])
    }

    fn helper(&mut self, helper: u32, _: [u64; 5], _: &mut Context<'_>) -> Result<u64, FaultKind> {
        Err(FaultKind::MissingHelper(helper))
    }

    fn timer_start(&mut self, _: TimerId, _: u64, _: u64, _: u32) {}

    fn timer_cancel(&mut self, _: TimerId) -> bool {
        false
    }
}

fn main() {
    // Cargo passes `--bench`; a word selects the lines that contain it.
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_default();
    println!("{:40} {:>12} {:>12}", "", "M insn/s", "ns per begin");
    for (name, program, begins) in PROGRAMS.into_iter().filter(|(name, ..)| name.contains(&only)) {
        let object = asm::assemble(name, program).expect("a program");
        let mut machine = Machine::load(&object, Memory::default(), 4, &Nothing).expect("a machine");
        let mut execution = machine.execution();
        execution.budget = u64::MAX;
        let block = machine.argument_block(&execution, &[1, 2, 3]);
        let (mut best, mut executed) = (f64::INFINITY, 0);
        for _ in 0..ROUNDS {
            let start = Instant::now();
            executed = 0;
            for _ in 0..begins {
                machine.begin(&mut execution, FunctionId(0), black_box(&[block]), 0);
                let step = machine.run(&mut execution, &mut Nothing).expect("no fault");
                assert!(matches!(black_box(step), Step::Done(_)));
                executed += execution.executed;
            }
            best = best.min(start.elapsed().as_secs_f64());
        }
        let rate = executed as f64 / best / 1e6;
        if begins > 1 {
            println!("{name:40} {rate:12.0} {:12.1}", best * 1e9 / f64::from(begins));
        } else {
            println!("{name:40} {rate:12.0}");
        }
    }
}
