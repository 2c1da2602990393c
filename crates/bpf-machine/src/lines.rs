// SPDX-License-Identifier: GPL-2.0-only
//! Which line of the policy's own source an instruction belongs to.
//!
//! Most kfuncs are called through wrappers that a header defines and the compiler inlines, so that the line of the call
//! is one of the header. The *own line* of an instruction is the line of a `.c` file that led there:
//!
//! 1. its line, if that is one of a `.c` file;
//! 2. else the line of the innermost inlined call around it that stands in a `.c` file, where the object tells;
//! 3. else, in an object without the compiler's debug information, the last line of a `.c` file on the way to it within
//!    its function: along the code, and where several ways meet, the line that stands furthest down, since code that was
//!    inlined into a line comes after those above it;
//! 4. else that of the innermost caller that has one: the function is a subprogram of a header.

use crate::op::{Code, Op};
use bpf_object::{Function, LineInfo};
use std::collections::BTreeMap;

/// A line of a source file; the default is none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct SourceLine {
    /// Index into [`crate::Machine::files`].
    pub file: u16,
    /// Line, from 1; 0 if unknown.
    pub line: u32,
}

impl SourceLine {
    /// Whether it is known.
    pub fn is_known(self) -> bool {
        self.line > 0
    }
}

/// The files of an object, each once.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub names: Vec<String>,
    numbers: BTreeMap<String, u16>,
}

impl Files {
    /// The number of a file. Files beyond 65,535 share the number of the last.
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

    /// Headers lend their lines to whoever includes them; all other files own theirs.
    fn owns(&self, line: SourceLine) -> bool {
        line.is_known() && !self.names[usize::from(line.file)].ends_with(".h")
    }
}

/// The line of each op of a function, as the object has it. `slots` are the ops' instruction slots.
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

/// How deep calls may be inlined into each other, on average over a function, before the rest is left out: an object
/// that claims more is damaged.
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

/// Gives ops without a line that of the ops which lead there.
fn carry(own: &mut [SourceLine], ops: &[Op]) {
    // What the ways to each op bring; those from below count only where none from above brings anything.
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

    /// Own lines of ops, given as code, target, and the line: negative ones are a header's.
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
    fn what_was_inlined_belongs_to_the_line_before_it() {
        use Code::{Exit, Kfunc, Mov64K};
        assert_eq!(own_lines(&[(Mov64K, 0, 41), (Mov64K, 0, -117), (Kfunc, 0, -117), (Exit, 0, 44)]), [41, 41, 41, 44]);
        // Line 0 says that there is none.
        assert_eq!(own_lines(&[(Mov64K, 0, 41), (Mov64K, 0, 0), (Exit, 0, 44)]), [41, 41, 44]);
        assert_eq!(own_lines(&[(Mov64K, 0, -117), (Exit, 0, -118)]), [0, 0]);
    }

    #[test]
    fn an_object_that_tells_where_calls_were_inlined_is_believed() {
        use Code::{Exit, Kfunc, Mov64K};
        let call = |first, end, file: &str, line| InlinedCall { first, end, file: file.to_owned(), line };
        // Op 1 is inlined into line 50, which is inlined into line 60; op 2 into a header's, and that into line 60.
        let inlined = vec![call(0, 3, OWN, 60), call(1, 2, OWN, 50), call(2, 3, "scx.bpf.h", 9)];
        let program = [(Mov64K, 0, -117), (Kfunc, 0, -117), (Kfunc, 0, -118), (Kfunc, 0, -117), (Exit, 0, 61)];
        assert_eq!(own_lines_with(&program, inlined.clone()), [60, 50, 60, 60, 61]);
        let stated = [(Mov64K, 0, 41), (Kfunc, 0, 42), (Exit, 0, 43)];
        assert_eq!(own_lines_with(&stated, inlined), [41, 42, 43], "the line itself comes first");
        // What no code has is harmless.
        assert_eq!(own_lines_with(&stated, vec![call(7, u32::MAX, OWN, 1), call(2, 1, OWN, 1)]), [41, 42, 43]);
    }

    #[test]
    fn it_follows_the_flow_and_not_the_order_of_the_code() {
        use Code::{Exit, Ja, Jeq64K, Kfunc, Mov64K};
        // if (41) 43: inlined; else 50: jumps back to nothing. The call at 4 is reached from the jump at 0 alone.
        let program =
            [(Jeq64K, 4, 41), (Mov64K, 0, 43), (Kfunc, 0, -117), (Exit, 0, 44), (Kfunc, 0, -117), (Exit, 0, 60)];
        assert_eq!(own_lines(&program), [41, 43, 43, 44, 41, 60]);
        // Two ways meet: the line furthest down is the nearest above the call.
        let program = [(Jeq64K, 3, 41), (Mov64K, 0, 45), (Ja, 4, 45), (Mov64K, 0, 43), (Kfunc, 0, -117), (Exit, 0, 50)];
        assert_eq!(own_lines(&program), [41, 45, 45, 43, 45, 50]);
        // Only a jump from below leads to 1.
        let program = [(Ja, 3, 41), (Kfunc, 0, -117), (Exit, 0, 50), (Mov64K, 0, 47), (Ja, 1, 47)];
        assert_eq!(own_lines(&program), [41, 47, 50, 47, 47]);
        // The end of a loop does not say what came before its beginning.
        let program = [(Mov64K, 0, 41), (Kfunc, 0, -117), (Mov64K, 0, 47), (Jeq64K, 1, 47), (Exit, 0, 50)];
        assert_eq!(own_lines(&program), [41, 41, 47, 47, 50]);
    }
}
