// SPDX-License-Identifier: GPL-2.0-only
//! Loads and runs a BPF program made from the input: the first byte selects how the rest is converted to
//! instructions.

use bpf_machine::{
    Context, FaultKind, GuestAddr, Host, Machine, Memory, PausePoints, Resolver, Step, TimerId, asm, iter_num,
};
use bpf_object::{FunctionId, Insn, KfuncRef, LinkedObject, MapId, Symbol};

/// Object that random code can refer to. The code of its functions is replaced.
const WORLD: &str = "
map array Array key 4 value 24 max 3
map percpu PercpuArray key 4 value 8 max 2
map hash Hash key 4 value 40 max 4
map lru LruHash key 8 value 16 max 2
map queue Queue key 0 value 8 max 2
map stack Stack key 0 value 8 max 2
map ring Ringbuf key 0 value 0 max 4096
map tasks TaskStorage key 4 value 16 max 0
map outer ArrayOfMaps key 4 value 4 max 2
inner outer 0 array
data .bss 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
data .rodata read_only 61 62 63 00 01 00 00 00
kfunc add
kfunc iter_num_new
kfunc iter_num_next
kfunc gone absent
func first
  exit
func second
  exit
func third
  exit";

/// Valid opcodes, so that most random programs are accepted.
const CODES: &[u8] = &[
    0x07, 0x0f, 0x17, 0x1f, 0x27, 0x2f, 0x37, 0x3f, 0x47, 0x4f, 0x57, 0x5f, 0x67, 0x6f, 0x77, 0x7f, 0x87, 0x97, 0x9f,
    0xa7, 0xaf, 0xb7, 0xbf, 0xc7, 0xcf, 0xd4, 0xd7, 0xdc, 0x04, 0x0c, 0x14, 0x1c, 0x24, 0x2c, 0x34, 0x3c, 0x44, 0x4c,
    0x54, 0x5c, 0x64, 0x6c, 0x74, 0x7c, 0x84, 0x94, 0x9c, 0xa4, 0xac, 0xb4, 0xbc, 0xc4, 0xcc, 0x05, 0x15, 0x1d, 0x25,
    0x2d, 0x35, 0x3d, 0x45, 0x4d, 0x55, 0x5d, 0x65, 0x6d, 0x75, 0x7d, 0xa5, 0xad, 0xb5, 0xbd, 0xc5, 0xcd, 0xd5, 0xdd,
    0x06, 0x16, 0x1e, 0xa6, 0xae, 0xc6, 0xce, 0xe5, 0x61, 0x69, 0x71, 0x79, 0x81, 0x89, 0x91, 0x62, 0x6a, 0x72, 0x7a,
    0x63, 0x6b, 0x73, 0x7b, 0xc3, 0xdb, 0xcb, 0xd3, 0x18, 0x18, 0x18, 0x18, 0x85, 0x85, 0x85, 0x85, 0x95,
];

/// Helpers that the machine implements, and two that it does not.
const HELPERS: [i32; 32] = [
    1, 2, 3, 87, 88, 89, 93, 94, 156, 157, 164, 181, 194, 195, 130, 131, 132, 133, 134, 169, 170, 171, 172, 182, 4,
    113, 45, 115, 210, 211, 5, 999,
];

/// Maximum number of instructions that a random program may execute.
const BUDGET: u64 = 5000;

/// Host of the machine, which logs its requests.
#[derive(Debug, Default, PartialEq, Eq)]
struct Kernel {
    calls: Vec<(u32, [u64; 5])>,
    armed: Vec<(TimerId, u64, u64, u32)>,
}

impl Resolver for Kernel {
    fn kfunc(&self, kfunc: &KfuncRef) -> Option<u32> {
        ["add", "iter_num_new", "iter_num_next"].iter().position(|name| *name == kfunc.name).map(|at| at as u32)
    }

    fn variable(&self, _: &str) -> Option<GuestAddr> {
        None
    }
}

impl Host for Kernel {
    fn kfunc(&mut self, kfunc: u32, args: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
        self.calls.push((kfunc, args));
        match kfunc {
            0 => Ok(args[0].wrapping_add(args[1])),
            1 => iter_num::new(cx, args),
            _ => iter_num::next(cx, args),
        }
    }

    fn helper(&mut self, helper: u32, args: [u64; 5], _: &mut Context<'_>) -> Result<u64, FaultKind> {
        self.calls.push((1000 + helper, args));
        if helper == 5 { Ok(self.calls.len() as u64) } else { Err(FaultKind::MissingHelper(helper)) }
    }

    fn timer_start(&mut self, timer: TimerId, nsecs: u64, flags: u64, cpu: u32) {
        self.armed.push((timer, nsecs, flags, cpu));
    }

    fn timer_cancel(&mut self, timer: TimerId) -> bool {
        self.armed.iter().any(|armed| armed.0 == timer)
    }
}

/// Loads and runs the program. It must give the same result if it pauses wherever it can.
pub fn run(bytes: &[u8]) {
    let Some((&flavour, code)) = bytes.split_first() else { return };
    let mut object = asm::assemble("random", WORLD).expect("the object assembles");
    build(&mut object, code, flavour & 1 == 0);
    let straight = execute(&object, PausePoints::default());
    let pausing = execute(&object, PausePoints { kfuncs: true, helpers: true, atomics: true, spin_locks: true });
    // If one run faults because a lock is never released, the pausing one waits forever.
    if pausing.is_some() {
        assert_eq!(straight, pausing, "pausing must not change a result");
    }
}

/// Replaces the code of the object's functions.
fn build(object: &mut LinkedObject, code: &[u8], shaped: bool) {
    let part = (code.len() / 8).div_ceil(3).max(1) * 8;
    for (number, code) in code.chunks(part).take(3).enumerate() {
        let function = &mut object.functions[number];
        function.lines.clear();
        function.insns.clear();
        for raw in code.chunks_exact(8) {
            let insn = Insn {
                code: raw[0],
                dst: raw[1] & 15,
                src: raw[1] >> 4,
                off: i16::from_le_bytes([raw[2], raw[3]]),
                imm: i32::from_le_bytes([raw[4], raw[5], raw[6], raw[7]]),
            };
            if !shaped {
                function.insns.push(insn);
                continue;
            }
            let slot = function.insns.len() as u32;
            let (mut insn, symbol) = shape(insn);
            if matches!(insn.code & 7, 5 | 6) && !matches!(insn.code, 0x85 | 0x95) {
                // A target inside the function.
                let target = insn.off.rem_euclid(code.len() as i16 / 8);
                insn.off = target - slot as i16 - 1;
                if insn.code == 0x06 {
                    (insn.off, insn.imm) = (0, i32::from(insn.off));
                }
            }
            if let Some(symbol) = symbol {
                function.symbols.insert(slot, symbol);
            }
            if raw[7] & 1 == 1 {
                function.kernel_loads.push(slot);
            }
            function.insns.push(insn);
            if insn.code == 0x18 {
                function.insns.push(Insn { imm: i32::from(raw[3]), ..Insn::default() });
            }
        }
        function.insns.push(Insn { code: 0x95, ..Insn::default() });
    }
}

/// The most similar instruction that is likely to be accepted and to have an effect.
fn shape(mut insn: Insn) -> (Insn, Option<Symbol>) {
    insn.code = CODES[usize::from(insn.code) % CODES.len()];
    (insn.dst, insn.src) = (insn.dst % 11, insn.src % 11);
    let pick = insn.imm.unsigned_abs();
    match insn.code & 7 {
        0 => {
            (insn.off, insn.dst) = (0, insn.dst % 10);
            let symbol = match pick % 6 {
                0 => None,
                1 => Some(Symbol::MapValue { map: MapId(9), offset: pick >> 8 & 31 }),
                2 => Some(Symbol::Function(FunctionId(pick >> 8 & 1))),
                3 => Some(Symbol::MapValue { map: MapId(10), offset: 0 }),
                _ => Some(Symbol::Map(MapId((pick >> 8) % 9))),
            };
            insn.src = 0;
            (insn, symbol)
        }
        1 => (Insn { imm: 0, dst: insn.dst % 10, off: insn.off % 64, ..insn }, None),
        2 => (Insn { src: 0, off: insn.off % 64, ..insn }, None),
        3 if matches!(insn.code, 0xcb | 0xd3) => {
            (Insn { imm: 0x100 | ((pick & 1) as i32 * 0x10), dst: insn.dst % 10, off: insn.off % 64, ..insn }, None)
        }
        3 if insn.code >= 0xc0 => {
            let kinds = [0, 1, 0x40, 0x41, 0x50, 0x51, 0xa0, 0xa1, 0xe1, 0xf1, 0x100, 0x110];
            let imm = kinds[pick as usize % kinds.len()];
            (Insn { imm, src: insn.src % 10, off: insn.off % 64, ..insn }, None)
        }
        3 => (Insn { imm: 0, off: insn.off % 64, ..insn }, None),
        5 | 6 => jump(insn, pick),
        _ => alu(insn, pick),
    }
}

fn jump(insn: Insn, pick: u32) -> (Insn, Option<Symbol>) {
    let bare = Insn { dst: 0, src: 0, off: 0, imm: 0, ..insn };
    match insn.code {
        0x95 => (bare, None),
        0x05 | 0x06 | 0xe5 => (Insn { off: insn.off, ..bare }, None),
        0x85 => match pick % 8 {
            0 => (Insn { src: 2, ..bare }, Some(Symbol::Kfunc((pick >> 8) % 4))),
            1 => (Insn { src: 1, ..bare }, Some(Symbol::Function(FunctionId((pick >> 8) % 3)))),
            _ => (Insn { imm: HELPERS[(pick >> 8) as usize % HELPERS.len()], ..bare }, None),
        },
        code if code & 8 != 0 => (Insn { imm: 0, ..insn }, None),
        _ => (Insn { src: 0, imm: insn.imm % 16, ..insn }, None),
    }
}

fn alu(insn: Insn, pick: u32) -> (Insn, Option<Symbol>) {
    let insn = Insn { dst: insn.dst % 10, off: 0, ..insn };
    match insn.code >> 4 {
        0xd => (Insn { src: 0, imm: [16, 32, 64][pick as usize % 3], ..insn }, None),
        0x8 => (Insn { src: 0, imm: 0, ..insn }, None),
        0x3 | 0x9 if insn.code & 8 != 0 => (Insn { off: (pick & 1) as i16, imm: 0, ..insn }, None),
        _ if insn.code & 8 != 0 => (Insn { imm: 0, ..insn }, None),
        _ => (Insn { src: 0, imm: if pick & 1 == 1 { insn.imm } else { insn.imm % 64 }, ..insn }, None),
    }
}

/// Result of running every function once: results, instruction counts, and the host's log.
type Outcome = (Vec<(String, u64, u64)>, Kernel);

fn execute(object: &LinkedObject, pause: PausePoints) -> Option<Outcome> {
    let mut kernel = Kernel::default();
    let mut machine = Machine::load(object, Memory::default(), 2, &kernel).ok()?;
    let mut execution = machine.execution();
    (execution.pause, execution.budget) = (pause, BUDGET);
    let mut results = Vec::new();
    for function in 0..3 {
        let block = machine.argument_block(&execution, &[1, 2, 3]);
        machine.begin(&mut execution, FunctionId(function), &[block, 7, 0, u64::MAX], 1);
        let mut waits = 0;
        let result = loop {
            match machine.run(&mut execution, &mut kernel) {
                Ok(Step::Done(value)) => break value.to_string(),
                // The program waits for a lock that is never released.
                Ok(Step::Paused) if waits > BUDGET => return None,
                Ok(Step::Paused) => waits += 1,
                Err(fault) => break fault.to_string(),
            }
        };
        results.push((result, execution.executed, execution.probe_reads));
    }
    for timer in 0..kernel.armed.len() {
        let timer = kernel.armed[timer].0;
        let _: Option<_> = machine.timer_callback(&execution, timer);
    }
    Some((results, kernel))
}
