// SPDX-License-Identifier: GPL-2.0-only
//! Maps each instruction to a line of the scheduler's own source.
//!
//! Most kfuncs are called through header wrappers that the compiler inlines, so the line of the call is one of the
//! header. The *own line* of an instruction is the line of a `.c` file that led to it:
//!
//! 1. its line, if that is in a `.c` file;
//! 2. otherwise the line of the innermost inlined call around it that is in a `.c` file, if the object has that
//!    information;
//! 3. otherwise, in an object without debug information, the last line of a `.c` file on the control flow to it
//!    within its function. Where several paths meet, the line furthest down counts, because code inlined into a line
//!    comes after the code of the lines above;
//! 4. otherwise the own line of the innermost caller that has one: the function is a subprogram of a header.

use crate::op::{Code, Op};
use bpf_object::{Function, LineInfo};
use std::collections::BTreeMap;

/// A line of a source file; the default is no line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct SourceLine {
    /// Index into [`crate::Machine::files`].
    pub file: u16,
    /// Line, from 1; 0 if unknown.
    pub line: u32,
}

impl SourceLine {
    /// Whether the line is known.
    pub fn is_known(self) -> bool {
        self.line > 0
    }
}

/// The source files of an object, each once.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub names: Vec<String>,
    numbers: BTreeMap<String, u16>,
}

impl Files {
    /// Returns the number of a file, adding it if new. Files beyond 65,535 share the number of the last.
    fn number(&mut self, name: &str) -> u16 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        if self.names.len() <= usize::from(u16::MAX) {
            self.names.push(name.to_owned());
        }
        let number = (self.names.len() - 1) as u16;
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// Whether a line is an own line: known, and not in a header.
    fn owns(&self, line: SourceLine) -> bool {
        line.is_known() && !self.names[usize::from(line.file)].ends_with(".h")
    }
}

/// The source line of each op of a function according to the object. `slots` are the ops' instruction slots.
pub(crate) fn stated(lines: &[LineInfo], slots: &[u32], files: &mut Files) -> Vec<SourceLine> {
    let mut lines = lines.iter().peekable();
    let mut line = SourceLine::default();
    let mut of_slot = |slot: u32| {
        while let Some(info) = lines.next_if(|info| info.insn <= slot) {
            line = SourceLine { file: files.number(&info.file), line: info.line };
        }
        line
    };
    slots.iter().map(|&slot| of_slot(slot)).collect()
}

/// Maximum average depth of inlined calls over a function; the rest of a damaged object's calls is ignored.
const NESTED: usize = 256;

/// The own line of each op of a function (rules 1 to 3).
pub(crate) fn own(
    function: &Function,
    ops: &[Op],
    slots: &[u32],
    stated: &[SourceLine],
    files: &mut Files,
) -> Vec<SourceLine> {
    let mut own = vec![SourceLine::default(); ops.len()];
    let mut left = NESTED * ops.len();
    for call in &function.inlined {
        let line = SourceLine { file: files.number(&call.file), line: call.line };
        let range = slots.partition_point(|&slot| slot < call.first)..slots.partition_point(|&slot| slot < call.end);
        if files.owns(line) && range.len() <= left {
            left -= range.len();
            own.get_mut(range).unwrap_or_default().fill(line);
        }
    }
    for (own, &stated) in own.iter_mut().zip(stated) {
        if files.owns(stated) {
            *own = stated;
        }
    }
    carry(&mut own, ops);
    own
}

/// Propagates lines along the control flow to ops without one.
fn carry(own: &mut [SourceLine], ops: &[Op]) {
    // The line that arrives at each op. A line from further down counts only if none arrives from above.
    let mut brought = vec![SourceLine::default(); ops.len()];
    loop {
        let mut from_below = false;
        for (index, op) in ops.iter().enumerate() {
            if !own[index].is_known() {
                own[index] = brought[index];
            }
            let next = (!matches!(op.code, Code::Ja | Code::Exit)).then_some(index + 1);
            let target = op.code.may_jump().then(|| (index + 1).wrapping_add_signed(op.at as isize));
            for to in [next, target].into_iter().flatten().filter(|&to| to < ops.len()) {
                if to > index {
                    brought[to] = brought[to].max(own[index]);
                } else if !own[to].is_known() && own[index].is_known() {
                    (brought[to], from_below) = (own[index], true);
                }
            }
        }
        if !from_below {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Reg;
    use bpf_object::InlinedCall;

    const OWN: &str = "my.bpf.c";

    fn op(code: Code, at: i32) -> Op {
        Op { code, dst: Reg::R0, src: Reg::R0, probe: false, at, imm: 0 }
    }

    fn function() -> Function {
        Function {
            name: String::new(),
            insns: Vec::new(),
            symbols: BTreeMap::new(),
            kernel_loads: Vec::new(),
            lines: Vec::new(),
            inlined: Vec::new(),
            global: false,
            arguments: 0,
        }
    }

    fn own_lines(program: &[(Code, i32, i32)]) -> Vec<u32> {
        own_lines_with(program, Vec::new())
    }

    /// Own lines of the ops of a program. Each op is given by its code, jump target and line; a negative line number
    /// stands for a line in a header.
    fn own_lines_with(program: &[(Code, i32, i32)], inlined: Vec<InlinedCall>) -> Vec<u32> {
        let ops: Vec<Op> = program.iter().zip(1..).map(|(&(code, to, _), next)| op(code, to - next)).collect();
        let info = |(insn, &(_, _, line)): (usize, &(Code, i32, i32))| LineInfo {
            insn: insn as u32,
            file: if line < 0 { "scx.bpf.h".to_owned() } else { OWN.to_owned() },
            line: line.unsigned_abs(),
            column: 1,
            text: String::new(),
        };
        let lines: Vec<LineInfo> = program.iter().enumerate().map(info).collect();
        let slots: Vec<u32> = (0..program.len() as u32).collect();
        let mut files = Files::default();
        let stated = stated(&lines, &slots, &mut files);
        let function = Function { inlined, ..function() };
        let own = own(&function, &ops, &slots, &stated, &mut files);
        assert!(own.iter().all(|line| !line.is_known() || files.names[usize::from(line.file)] == OWN));
        own.iter().map(|line| line.line).collect()
    }

    #[test]
    fn inlined_header_code_belongs_to_the_line_before_it() {
        use Code::{Exit, Kfunc, Mov64K};
        assert_eq!(own_lines(&[(Mov64K, 0, 41), (Mov64K, 0, -117), (Kfunc, 0, -117), (Exit, 0, 44)]), [41, 41, 41, 44]);
        // Line 0 means no line.
        assert_eq!(own_lines(&[(Mov64K, 0, 41), (Mov64K, 0, 0), (Exit, 0, 44)]), [41, 41, 44]);
        assert_eq!(own_lines(&[(Mov64K, 0, -117), (Exit, 0, -118)]), [0, 0]);
    }

    #[test]
    fn inlined_calls_in_debug_info_determine_the_programs_own_line() {
        use Code::{Exit, Kfunc, Mov64K};
        let call = |first, end, file: &str, line| InlinedCall { first, end, file: file.to_owned(), line };
        // Op 1 is inlined into line 50, which is inlined into line 60; op 2 is inlined into a header line, and that
        // into line 60.
        let inlined = vec![call(0, 3, OWN, 60), call(1, 2, OWN, 50), call(2, 3, "scx.bpf.h", 9)];
        let program = [(Mov64K, 0, -117), (Kfunc, 0, -117), (Kfunc, 0, -118), (Kfunc, 0, -117), (Exit, 0, 61)];
        assert_eq!(own_lines_with(&program, inlined.clone()), [60, 50, 60, 60, 61]);
        let stated = [(Mov64K, 0, 41), (Kfunc, 0, 42), (Exit, 0, 43)];
        assert_eq!(own_lines_with(&stated, inlined), [41, 42, 43], "the object's own line has precedence");
        // Ranges outside of the code are ignored.
        assert_eq!(own_lines_with(&stated, vec![call(7, u32::MAX, OWN, 1), call(2, 1, OWN, 1)]), [41, 42, 43]);
    }

    #[test]
    fn own_lines_follow_control_flow_not_code_order() {
        use Code::{Exit, Ja, Jeq64K, Kfunc, Mov64K};
        // The call at 4 is reached only by the jump at 0, not from the code above it.
        let program =
            [(Jeq64K, 4, 41), (Mov64K, 0, 43), (Kfunc, 0, -117), (Exit, 0, 44), (Kfunc, 0, -117), (Exit, 0, 60)];
        assert_eq!(own_lines(&program), [41, 43, 43, 44, 41, 60]);
        // Two paths meet: the line furthest down is the nearest one above the call.
        let program = [(Jeq64K, 3, 41), (Mov64K, 0, 45), (Ja, 4, 45), (Mov64K, 0, 43), (Kfunc, 0, -117), (Exit, 0, 50)];
        assert_eq!(own_lines(&program), [41, 45, 45, 43, 45, 50]);
        // Op 1 is reached only by a jump from below.
        let program = [(Ja, 3, 41), (Kfunc, 0, -117), (Exit, 0, 50), (Mov64K, 0, 47), (Ja, 1, 47)];
        assert_eq!(own_lines(&program), [41, 47, 50, 47, 47]);
        // The end of a loop does not determine the line at its start.
        let program = [(Mov64K, 0, 41), (Kfunc, 0, -117), (Mov64K, 0, 47), (Jeq64K, 1, 47), (Exit, 0, 50)];
        assert_eq!(own_lines(&program), [41, 41, 47, 47, 50]);
    }
}
