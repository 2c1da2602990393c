// SPDX-License-Identifier: GPL-2.0-only
//! Properties of the machine for random programs and values.

#[path = "../../../../fuzz/src/machine.rs"]
mod random;

use crate::common::TestKernel;
use bpf_machine::{Machine, Memory, Step, asm};
use bpf_object::{FunctionId, Insn};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Expected result of an operation, computed in wider integers.
fn oracle(operation: &str, a: u64, b: u64, bits: u32) -> u64 {
    let mask = if bits == 64 { u64::MAX } else { u64::from(u32::MAX) };
    let (a, b) = (i128::from(a & mask), i128::from(b & mask));
    let signed = |value: i128| if value >> (bits - 1) & 1 == 1 { value - (1 << bits) } else { value };
    let count = b % i128::from(bits);
    let result = match operation {
        "+=" => a + b,
        "-=" => a - b,
        // The product of two 64-bit numbers may exceed 127 bits; the low halves agree.
        "*=" => (a as u128).wrapping_mul(b as u128) as i128,
        "/=" => {
            if b == 0 {
                0
            } else {
                a / b
            }
        }
        "%=" => {
            if b == 0 {
                a
            } else {
                a % b
            }
        }
        "s/=" => {
            if b == 0 {
                0
            } else {
                signed(a) / signed(b)
            }
        }
        "s%=" => {
            if b == 0 {
                a
            } else {
                signed(a) % signed(b)
            }
        }
        "|=" => a | b,
        "&=" => a & b,
        "^=" => a ^ b,
        "<<=" => (0..count).fold(a, |value, _| (value * 2) & i128::from(mask)),
        ">>=" => a >> count,
        "s>>=" => signed(a) >> count,
        "=" => b,
        _ => panic!("{operation}"),
    };
    result as u64 & mask
}

/// Whether a jump is taken.
fn taken(comparison: &str, a: u64, b: u64, bits: u32) -> bool {
    let mask = if bits == 64 { u64::MAX } else { u64::from(u32::MAX) };
    let (a, b) = (i128::from(a & mask), i128::from(b & mask));
    let signed = |value: i128| if value >> (bits - 1) & 1 == 1 { value - (1 << bits) } else { value };
    match comparison {
        "==" => a == b,
        "!=" => a != b,
        ">" => a > b,
        ">=" => a >= b,
        "<" => a < b,
        "<=" => a <= b,
        "&" => a & b != 0,
        "s>" => signed(a) > signed(b),
        "s>=" => signed(a) >= signed(b),
        "s<" => signed(a) < signed(b),
        "s<=" => signed(a) <= signed(b),
        _ => panic!("{comparison}"),
    }
}

fn run(program: &str, args: &[u64]) -> u64 {
    let object = asm::assemble("property", program).expect("a program");
    let mut kernel = TestKernel::default();
    let mut machine = Machine::load(&object, Memory::default(), 1, &kernel).expect("a machine");
    let mut execution = machine.execution();
    machine.begin(&mut execution, FunctionId(0), args, 0);
    match machine.run(&mut execution, &mut kernel) {
        Ok(Step::Done(value)) => value,
        other => panic!("{other:?}"),
    }
}

/// Random numbers, with edge cases more often.
fn value() -> impl Strategy<Value = u64> {
    let special = prop::sample::select(vec![0, 1, 2, 63, 64, 1 << 31, (1 << 31) - 1, u64::MAX, 1 << 63, (1 << 63) - 1]);
    let sign_extended = any::<i32>().prop_map(|value| i64::from(value) as u64);
    prop_oneof![any::<u64>(), sign_extended, special.clone(), special.prop_map(|value| value | 0xffff_ffff_0000_0000)]
}

const OPERATIONS: [&str; 14] =
    ["+=", "-=", "*=", "/=", "%=", "s/=", "s%=", "|=", "&=", "^=", "<<=", ">>=", "s>>=", "="];

const COMPARISONS: [&str; 11] = ["==", "!=", ">", ">=", "<", "<=", "&", "s>", "s>=", "s<", "s<="];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn arithmetic_matches_128_bit_oracle(
        a in value(),
        b in value(),
        operation in prop::sample::select(&OPERATIONS[..]),
    ) {
        let k = b as i32;
        for (bits, r) in [(64, 'r'), (32, 'w')] {
            let by_register = format!("func main\n r0 = r1\n {r}0 {operation} {r}2\n exit");
            prop_assert_eq!(run(&by_register, &[a, b]), oracle(operation, a, b, bits), "{} {:#x} {:#x}", operation, a, b);
            let by_number = format!("func main\n r0 = r1\n {r}0 {operation} {k}\n exit");
            let b = i64::from(k) as u64;
            prop_assert_eq!(run(&by_number, &[a]), oracle(operation, a, b, bits), "{} {:#x} {:#x}", operation, a, b);
        }
    }

    #[test]
    fn conditional_jumps_match_128_bit_oracle(
        a in value(),
        b in value(),
        comparison in prop::sample::select(&COMPARISONS[..]),
    ) {
        let k = b as i32;
        for (bits, r) in [(64, 'r'), (32, 'w')] {
            for b in [b, a] {
                let code = format!("func main\n r0 = 1\n if {r}1 {comparison} {r}2 goto out\n r0 = 0\nout:\n exit");
                prop_assert_eq!(run(&code, &[a, b]) == 1, taken(comparison, a, b, bits));
            }
            let code = format!("func main\n r0 = 1\n if {r}1 {comparison} {k} goto out\n r0 = 0\nout:\n exit");
            prop_assert_eq!(run(&code, &[a]) == 1, taken(comparison, a, i64::from(k) as u64, bits));
        }
    }

    #[test]
    fn random_instructions_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        random::run(&bytes);
    }

    #[test]
    fn random_single_instructions_never_panic(code: u8, dst: u8, src: u8, off: i16, imm: i32) {
        let mut object = asm::assemble("one", "func main\n r0 = 0\n r0 = 0\n exit").expect("a program");
        object.functions[0].insns[1] = Insn { code, dst, src, off, imm };
        let mut kernel = TestKernel::default();
        if let Ok(mut machine) = Machine::load(&object, Memory::default(), 1, &kernel) {
            let mut execution = machine.execution();
            execution.budget = 100;
            machine.begin(&mut execution, FunctionId(0), &[], 0);
            let _: Result<Step, _> = machine.run(&mut execution, &mut kernel);
        }
    }

    /// Hash maps compared with an ordered map, and an LRU map with a list in order of use.
    #[test]
    fn hash_maps_match_an_ordered_map(
        kind in prop::sample::select(&["Hash", "LruHash"][..]),
        steps in prop::collection::vec((0_u8..4, 0_u64..9, any::<u64>(), 0_u64..3), 1..120),
    ) {
        const MAX: usize = 5;
        let program = format!("map m {kind} key 8 value 8 max {MAX}\nfunc main\n exit");
        let object = asm::assemble("map", &program).expect("a program");
        let mut machine = Machine::load(&object, Memory::default(), 1, &TestKernel::default()).expect("a machine");
        let map = machine.maps.find("m").expect("the map");
        let mut values: BTreeMap<u64, u64> = BTreeMap::new();
        let mut order: Vec<u64> = Vec::new();
        for (step, key, value, flags) in steps {
            let name = key.to_le_bytes();
            let known = values.contains_key(&key);
            match step {
                0 => {
                    let deleted = machine.maps.delete(&machine.memory, map, &name);
                    prop_assert_eq!(deleted, values.remove(&key).map(drop).ok_or(-2));
                    order.retain(|other| *other != key);
                }
                1 => {
                    let addr = machine.maps.lookup(&machine.memory, map, &name, 0);
                    let found = addr.map(|addr| machine.memory.load(addr, 8).expect("a value"));
                    prop_assert_eq!(found, values.get(&key).copied());
                }
                _ => {
                    let result = machine.maps.update(&mut machine.memory, map, &name, &value.to_le_bytes(), flags, 0);
                    let expected = match flags {
                        1 if known => Err(-17),
                        2 if !known => Err(-2),
                        _ if !known && values.len() == MAX && kind == "Hash" => Err(-7),
                        _ => Ok(()),
                    };
                    prop_assert_eq!(result, expected);
                    if expected.is_ok() {
                        if !known && values.len() == MAX {
                            values.remove(&order.remove(0));
                        }
                        order.retain(|other| *other != key);
                        order.push(key);
                        values.insert(key, value);
                    }
                }
            }
        }
    }
}
