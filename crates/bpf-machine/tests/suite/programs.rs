// SPDX-License-Identifier: GPL-2.0-only
//! Runs `programs/*.bpf`: a program with its expected results in each text file. Every instruction that the machine
//! accepts has a file that names it in a `covers` line.
//!
//! A file is a program for `bpf_machine::asm`, a line `---`, and steps that share one machine of four CPUs:
//!
//! ```text
//! [FUNCTION:] ARGUMENTS -> R0          FUNCTION is main unless given
//! [FUNCTION:] ARGUMENTS -> fault: ...  the whole message, without the source line
//! fire TIMER -> R0 | nothing           runs a timer's callback
//! cpu N | budget N                     from here on
//! counted N                            instructions that the last step executed
//! probes N                             loads of the last step that gave 0 instead of a fault
//! load -> ...                          instead of all steps: why the object is refused
//! ```
//!
//! Every step runs twice, the second time on another machine that pauses wherever it can: the results must be the same.

use crate::common::TestKernel;
use bpf_machine::{Execution, Machine, Memory, PausePoints, Step, TimerId, asm};
use bpf_object::{Function, FunctionId, Insn, LinkedObject};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const CPUS: u32 = 4;

/// A machine with its kernel and execution.
struct Runner {
    machine: Machine,
    kernel: TestKernel,
    execution: Execution,
    pauses: u64,
}

impl Runner {
    fn new(object: &LinkedObject) -> Result<Runner, String> {
        let kernel = TestKernel::default();
        let mut machine = Machine::load(object, Memory::default(), CPUS, &kernel).map_err(|error| error.to_string())?;
        let execution = machine.execution();
        Ok(Runner { machine, kernel, execution, pauses: 0 })
    }

    fn timer_callback(&mut self, timer: TimerId) -> Option<(FunctionId, [u64; 3])> {
        self.machine.timer_callback(&self.execution, timer)
    }

    fn run(&mut self, function: FunctionId, args: &[u64], cpu: u32) -> String {
        self.machine.begin(&mut self.execution, function, args, cpu);
        loop {
            match self.machine.run(&mut self.execution, &mut self.kernel) {
                Ok(Step::Done(value)) => return number_text(value),
                Ok(Step::Paused) => self.pauses += 1,
                Err(fault) => {
                    assert!(fault.source.is_some(), "a fault without its line: {fault}");
                    return format!("fault: {} in {}+{}", fault.kind, fault.function, fault.insn);
                }
            }
        }
    }
}

fn number_text(value: u64) -> String {
    if value > 9999 { format!("{value:#x}") } else { value.to_string() }
}

fn number(text: &str) -> u64 {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    let value = value.unwrap_or_else(|_| panic!("{text} is not a number"));
    if negative { value.wrapping_neg() } else { value }
}

/// Texts of the test files, by name.
fn files() -> BTreeMap<String, String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let entries = std::fs::read_dir(directory).expect("the directory of programs");
    let read = |path: &Path| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(path));
    let named = entries.map(|entry| read(&entry.expect("an entry").path()));
    named.map(|(name, text)| (name, text.expect("a text file"))).collect()
}

/// A parsed test file: code, offset and immediate of each `covers` line; the program; the steps with their line
/// numbers.
struct Parts {
    covers: Vec<Key>,
    program: String,
    steps: Vec<(usize, String)>,
}

fn parts(text: &str) -> Parts {
    let end = text.lines().position(|line| line == "---").expect("a line ---");
    let mut covers = Vec::new();
    let mut program = String::new();
    for line in text.lines().take(end) {
        if let Some(key) = line.strip_prefix("covers ") {
            let fields: Vec<u64> = key.split_whitespace().map(number).collect();
            covers.push((fields[0] as u8, fields[1] as i16, fields[2] as i32));
        } else {
            program.push_str(line);
        }
        // Keeps the line numbers.
        program.push('\n');
    }
    let steps = text.lines().enumerate().skip(end + 1).map(|(at, line)| (at + 1, line.to_owned()));
    Parts { covers, program, steps: steps.filter(|(_, line)| !line.is_empty()).collect() }
}

/// Runs one file; returns a line for each mismatch.
fn check(name: &str, text: &str) -> Vec<String> {
    let Parts { program, steps, .. } = parts(text);
    let object = match asm::assemble(name, &program) {
        Ok(object) => object,
        Err(error) => return vec![format!("{name}: {error}")],
    };
    let runners = Runner::new(&object).and_then(|straight| Ok((straight, Runner::new(&object)?)));
    let (mut straight, mut pausing) = match runners {
        Ok(runners) => runners,
        Err(error) => {
            let expected = format!("load -> {error}");
            let wrong = steps.iter().filter(|(_, step)| *step != expected);
            return wrong.map(|(line, _)| format!("{name}:{line}: the machine says {expected}")).collect();
        }
    };
    if let Some((line, step)) = steps.iter().find(|(_, step)| step.starts_with("load -> ")) {
        return vec![format!("{name}:{line}: {step}\n    got an object that loads")];
    }
    pausing.execution.pause = PausePoints { kfuncs: true, helpers: true, atomics: true, spin_locks: false };
    let mut wrong = Vec::new();
    let mut cpu = 0;
    assert!(!steps.is_empty(), "{name} has no steps");
    for (line, step) in &steps {
        let problem = match step.split_once(" -> ").or_else(|| step.strip_prefix("-> ").map(|value| ("", value))) {
            Some((input, expected)) => {
                let got = run_both(&object, &mut straight, &mut pausing, input, cpu);
                (got != expected).then_some(got)
            }
            None => setting(step, &mut cpu, &mut straight, &mut pausing),
        };
        if let Some(problem) = problem {
            wrong.push(format!("{name}:{line}: {step}\n    got {problem}"));
        }
    }
    wrong
}

/// Runs a step on both machines.
fn run_both(object: &LinkedObject, straight: &mut Runner, pausing: &mut Runner, input: &str, cpu: u32) -> String {
    let (function, args) = match input.strip_prefix("fire ") {
        Some(timer) => {
            let timer = TimerId(number(timer) as u32);
            let (first, second) = (straight.timer_callback(timer), pausing.timer_callback(timer));
            assert_eq!(first, second);
            match first {
                Some((function, args)) => (function, args.to_vec()),
                None => return "nothing".to_owned(),
            }
        }
        None => {
            let (function, args) = input.split_once(':').unwrap_or(("main", input));
            let of_name = |candidate: &Function| candidate.name == function;
            let function = object.functions.iter().position(of_name).unwrap_or_else(|| panic!("no {function}"));
            (FunctionId(function as u32), args.split_whitespace().map(number).collect())
        }
    };
    let first = straight.run(function, &args, cpu);
    let second = pausing.run(function, &args, cpu);
    assert_eq!(first, second, "pausing changes the result of {input}");
    assert_eq!(straight.execution.executed, pausing.execution.executed, "pausing changes the count of {input}");
    assert_eq!(straight.kernel, pausing.kernel, "pausing changes the calls of {input}");
    assert_eq!(straight.pauses, 0);
    first
}

/// Executes a step that runs no program.
fn setting(step: &str, cpu: &mut u32, straight: &mut Runner, pausing: &mut Runner) -> Option<String> {
    let (what, value) = step.split_once(' ').unwrap_or_else(|| panic!("cannot read the step {step}"));
    let value = number(value);
    let wrong = |got: u64| (got != value).then(|| got.to_string());
    match what {
        "cpu" => *cpu = value as u32,
        "budget" => (straight.execution.budget, pausing.execution.budget) = (value, value),
        "counted" => return wrong(straight.execution.executed),
        "probes" => return wrong(straight.execution.probe_reads),
        _ => panic!("cannot read the step {step}"),
    }
    None
}

#[test]
fn test_programs_match_their_expected_results() {
    let wrong: Vec<String> = files().iter().flat_map(|(name, text)| check(name, text)).collect();
    assert!(wrong.is_empty(), "{} steps are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Identifies an instruction: code, plus offset and immediate where they select an operation.
type Key = (u8, i16, i32);

fn key(insn: &Insn) -> Key {
    match (insn.code & 7, insn.code >> 4) {
        (4 | 7, 0x3 | 0x9) => (insn.code, insn.off, 0),
        (4 | 7, 0xb) => (insn.code, insn.off, if insn.off == 1 { insn.imm } else { 0 }),
        (4 | 7, 0xd) => (insn.code, 0, insn.imm),
        (3, 0xc | 0xd) => (insn.code, 0, insn.imm),
        (5, 0x8) => (insn.code, i16::from(insn.src), 0),
        _ => (insn.code, 0, 0),
    }
}

/// Every instruction that the machine accepts, found by trying.
fn accepted() -> BTreeSet<Key> {
    let offsets = [0, 1, 8, 16, 32];
    let immediates = (0..0x120).chain([0x1_0000]);
    // Instructions that need a second slot or a symbol.
    let mut keys = BTreeSet::from([(0x18, 0, 0), (0x85, 1, 0), (0x85, 2, 0)]);
    let mut object = asm::assemble("", "func main\n exit").expect("a program");
    for imm in immediates {
        for (code, off, operand) in (0..=255)
            .flat_map(|code| offsets.map(|off| (code, off)))
            .flat_map(|(code, off)| [(0, 0), (0, 1), (1, 0), (1, 1)].map(|operand| (code, off, operand)))
        {
            let insn = Insn { code, dst: operand.0, src: operand.1, off, imm };
            let exit = Insn { code: 0x95, ..Insn::default() };
            object.functions[0].insns = vec![exit; 40];
            object.functions[0].insns[0] = insn;
            if Machine::load(&object, Memory::default(), 1, &TestKernel::default()).is_ok() {
                keys.insert(key(&insn));
            }
        }
    }
    keys
}

#[test]
fn every_accepted_instruction_has_a_test_program() {
    let mut covered: BTreeMap<Key, String> = BTreeMap::new();
    for (name, text) in files() {
        let Parts { covers, program, .. } = parts(&text);
        for wanted in covers {
            let object = asm::assemble(&name, &program).expect("a program");
            let mut insns = object.functions.iter().flat_map(|function| &function.insns);
            assert!(insns.any(|insn| key(insn) == wanted), "{name} covers {wanted:x?} and does not contain it");
            let other = covered.insert(wanted, name.clone());
            assert!(other.is_none(), "{name} covers what {other:?} covers");
        }
    }
    let accepted = accepted();
    let missing: Vec<&Key> = accepted.iter().filter(|key| !covered.contains_key(key)).collect();
    assert!(missing.is_empty(), "no file covers {missing:x?}");
    let refused: Vec<_> = covered.iter().filter(|(key, _)| !accepted.contains(key)).collect();
    assert!(refused.is_empty(), "the machine refuses {refused:x?}");
}
