// SPDX-License-Identifier: GPL-2.0-only
//! `bpf_cpumask_*` compared with sets of numbers.

use super::{Bench, is_bad_argument};
use crate::ops::Op;
use bpf_machine::{Access, GuestAddr};
use proptest::prelude::*;
use std::collections::BTreeSet;

const CPUS: u32 = 8;

/// An operation of a program on a few masks. Numbers select masks and CPUs; some CPUs do not exist.
#[derive(Clone, Debug)]
enum Step {
    Set(usize, u32),
    Clear(usize, u32),
    TestAndSet(usize, u32),
    TestAndClear(usize, u32),
    SetAll(usize),
    Empty(usize),
    Copy(usize, usize),
    And(usize, usize, usize),
    Or(usize, usize, usize),
    Xor(usize, usize, usize),
    Populate(usize, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let (mask, cpu) = (|| 0usize..3, || 0u32..12);
    prop_oneof![
        (mask(), cpu()).prop_map(|(m, c)| Step::Set(m, c)),
        (mask(), cpu()).prop_map(|(m, c)| Step::Clear(m, c)),
        (mask(), cpu()).prop_map(|(m, c)| Step::TestAndSet(m, c)),
        (mask(), cpu()).prop_map(|(m, c)| Step::TestAndClear(m, c)),
        mask().prop_map(Step::SetAll),
        mask().prop_map(Step::Empty),
        (mask(), mask()).prop_map(|(d, s)| Step::Copy(d, s)),
        (mask(), mask(), mask()).prop_map(|(d, a, b)| Step::And(d, a, b)),
        (mask(), mask(), mask()).prop_map(|(d, a, b)| Step::Or(d, a, b)),
        (mask(), mask(), mask()).prop_map(|(d, a, b)| Step::Xor(d, a, b)),
        (mask(), any::<u64>()).prop_map(|(m, bits)| Step::Populate(m, bits)),
    ]
}

/// The masks as sets of CPU numbers.
type Sets = [BTreeSet<u32>; 3];

/// Applies a step to masks and sets; returns the result of the kfunc and the expected one.
fn apply(bench: &mut Bench, masks: [GuestAddr; 3], sets: &mut Sets, step: &Step) -> (u64, bool) {
    let valid = |cpu: u32| cpu < CPUS;
    match *step {
        Step::Set(m, cpu) => {
            valid(cpu).then(|| sets[m].insert(cpu));
            (bench.call("bpf_cpumask_set_cpu", &[cpu.into(), masks[m]]), false)
        }
        Step::Clear(m, cpu) => {
            sets[m].remove(&cpu);
            (bench.call("bpf_cpumask_clear_cpu", &[cpu.into(), masks[m]]), false)
        }
        Step::TestAndSet(m, cpu) => {
            let old = valid(cpu) && !sets[m].insert(cpu);
            (bench.call("bpf_cpumask_test_and_set_cpu", &[cpu.into(), masks[m]]), old)
        }
        Step::TestAndClear(m, cpu) => {
            let old = sets[m].remove(&cpu);
            (bench.call("bpf_cpumask_test_and_clear_cpu", &[cpu.into(), masks[m]]), old)
        }
        Step::SetAll(m) => {
            sets[m] = (0..CPUS).collect();
            (bench.call("bpf_cpumask_setall", &[masks[m]]), false)
        }
        Step::Empty(m) => {
            sets[m].clear();
            (bench.call("bpf_cpumask_clear", &[masks[m]]), false)
        }
        Step::Copy(d, s) => {
            sets[d] = sets[s].clone();
            (bench.call("bpf_cpumask_copy", &[masks[d], masks[s]]), false)
        }
        Step::And(d, a, b) => {
            sets[d] = &sets[a] & &sets[b];
            (bench.call("bpf_cpumask_and", &[masks[d], masks[a], masks[b]]), !sets[d].is_empty())
        }
        Step::Or(d, a, b) => {
            sets[d] = &sets[a] | &sets[b];
            (bench.call("bpf_cpumask_or", &[masks[d], masks[a], masks[b]]), false)
        }
        Step::Xor(d, a, b) => {
            sets[d] = &sets[a] ^ &sets[b];
            (bench.call("bpf_cpumask_xor", &[masks[d], masks[a], masks[b]]), false)
        }
        Step::Populate(m, bits) => {
            sets[m] = (0..CPUS).filter(|cpu| bits >> cpu & 1 == 1).collect();
            let source = bench.put(0, &[bits]);
            (bench.call("bpf_cpumask_populate", &[masks[m], source, 8]), false)
        }
    }
}

fn check_questions(bench: &mut Bench, masks: [GuestAddr; 3], sets: &Sets) -> Result<(), TestCaseError> {
    let number = |cpu: Option<u32>| u64::from(cpu.unwrap_or(CPUS));
    for (addr, set) in masks.into_iter().zip(sets) {
        let mut ask = |question: &str| bench.call(&format!("bpf_cpumask_{question}"), &[addr]);
        prop_assert_eq!(ask("weight"), set.len() as u64);
        prop_assert_eq!(ask("empty"), u64::from(set.is_empty()));
        prop_assert_eq!(ask("full"), u64::from(set.len() == CPUS as usize));
        prop_assert_eq!(ask("first"), number(set.first().copied()));
        prop_assert_eq!(ask("first_zero"), number((0..CPUS).find(|cpu| !set.contains(cpu))));
        let any = ask("any_distribute") as u32;
        let fits = if set.is_empty() { any == CPUS } else { set.contains(&any) };
        prop_assert!(fits, "{any} of {set:?}");
        for cpu in 0..12 {
            prop_assert_eq!(bench.call("bpf_cpumask_test_cpu", &[cpu, addr]), u64::from(set.contains(&(cpu as u32))));
        }
    }
    for (a, left) in masks.into_iter().zip(sets) {
        for (b, right) in masks.into_iter().zip(sets) {
            let mut ask = |question: &str| bench.call(&format!("bpf_cpumask_{question}"), &[a, b]);
            prop_assert_eq!(ask("equal"), u64::from(left == right));
            prop_assert_eq!(ask("subset"), u64::from(left.is_subset(right)));
            prop_assert_eq!(ask("intersects"), u64::from(!left.is_disjoint(right)));
            prop_assert_eq!(ask("first_and"), number(left.intersection(right).next().copied()));
            let any = ask("any_and_distribute") as u32;
            let in_both = left.contains(&any) && right.contains(&any);
            let fits = if left.is_disjoint(right) { any == CPUS } else { in_both };
            prop_assert!(fits, "{any} of {left:?} and {right:?}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn cpumask_kfuncs_match_sets_of_numbers(steps in prop::collection::vec(step(), 1..40)) {
        let mut bench = Bench::new(0);
        let masks = [(); 3].map(|()| bench.call("bpf_cpumask_create", &[]));
        let mut sets = Sets::default();
        for step in &steps {
            let (result, expected) = apply(&mut bench, masks, &mut sets, step);
            prop_assert_eq!(result, u64::from(expected), "{:?}", step);
        }
        check_questions(&mut bench, masks, &sets)?;
    }
}

#[test]
fn any_distribute_returns_each_cpu_in_turn() {
    let mut bench = Bench::new(0);
    let mask = bench.call("bpf_cpumask_create", &[]);
    for cpu in [1, 4, 6] {
        bench.call("bpf_cpumask_set_cpu", &[cpu, mask]);
    }
    let chosen: BTreeSet<u64> = (0..3).map(|_| bench.call("bpf_cpumask_any_distribute", &[mask])).collect();
    assert_eq!(chosen, [1, 4, 6].into());
}

#[test]
fn cpumask_of_the_kernel_or_a_task_cannot_be_changed() {
    let mut bench = Bench::new(1);
    let online = bench.call("scx_bpf_get_online_cpumask", &[]);
    let of_task = bench.memory.addr(bench.core.objects.tasks, 0) + 8;
    for wrong in [online, of_task, 0] {
        assert!(is_bad_argument(bench.call_in(Some(Op::Init), "bpf_cpumask_set_cpu", &[0, wrong])), "{wrong:#x}");
        assert!(is_bad_argument(bench.call_in(Some(Op::Init), "bpf_cpumask_clear", &[wrong])), "{wrong:#x}");
    }
    let mask = bench.call("bpf_cpumask_create", &[]);
    assert_eq!(bench.call("bpf_cpumask_acquire", &[mask]), mask);
    bench.call("bpf_cpumask_release", &[mask]);
    bench.call("bpf_cpumask_release", &[mask]);
    assert!(is_bad_argument(bench.call_in(Some(Op::Init), "bpf_cpumask_release", &[mask])));
}

#[test]
fn populate_from_a_short_bitmap_returns_eacces() {
    let mut bench = Bench::new(0);
    let mask = bench.call("bpf_cpumask_create", &[]);
    let source = bench.put(0, &[0xff]);
    assert_eq!(bench.call("bpf_cpumask_populate", &[mask, source, 4]) as u32 as i32, -13);
}

/// The verifier accepts plain memory as a mask; lavd keeps masks in an array of its own.
#[test]
fn cpumask_in_program_memory_can_be_changed() {
    let mut bench = Bench::new(0);
    let region = bench.memory.add_region("map", 4096, 1, Access::ReadWrite);
    let (mask, other) = (bench.memory.addr(region, 0), bench.memory.addr(region, 0) + 1032);
    bench.call("bpf_cpumask_set_cpu", &[3, mask]);
    bench.call("bpf_cpumask_set_cpu", &[5, mask]);
    bench.call("bpf_cpumask_clear_cpu", &[3, mask]);
    bench.call("bpf_cpumask_copy", &[other, mask]);
    assert_eq!(bench.memory.load(other, 8), Ok(1 << 5));
    assert_eq!(bench.call("bpf_cpumask_first", &[other]), 5);
    // Memory that was not allocated as a mask cannot be released, and a mask must lie within the region.
    assert!(is_bad_argument(bench.call_in(None, "bpf_cpumask_release", &[mask])));
    let end = bench.memory.addr(region, 0) + 4096 - 512;
    assert!(is_bad_argument(bench.call_in(None, "bpf_cpumask_set_cpu", &[3, end])));
}
