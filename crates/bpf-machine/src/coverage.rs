// SPDX-License-Identifier: GPL-2.0-only
//! Line coverage: execution counts of source lines.
//!
//! The count of a line in a function is that of its most executed instruction. An instruction belongs to a line by
//! the object's line information, or because a call in that line was inlined. The counts of functions that share a
//! line are added.

use crate::decode::Program;
use crate::lines::SourceLine;
use std::collections::BTreeMap;

/// Counts of the lines and functions of an object. The counts of several runs can be added.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Coverage {
    /// Counts by file path, as the compiler wrote it.
    pub files: BTreeMap<String, FileCoverage>,
}

/// Counts of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileCoverage {
    /// Lines with code, by line number.
    pub lines: BTreeMap<u32, LineCoverage>,
    /// Functions that begin in the file, by name: the first line with code, and the number of calls. A function that
    /// was inlined everywhere is missing.
    pub functions: BTreeMap<String, (u32, u64)>,
}

/// Counts of a line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LineCoverage {
    /// Number of executions.
    pub count: u64,
    /// Text of the line, if the object has it.
    pub text: String,
}

impl Coverage {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Coverage) {
        for (path, more) in &other.files {
            let file = self.files.entry(path.clone()).or_default();
            for (line, count) in &more.lines {
                let line = file.lines.entry(*line).or_default();
                line.count += count.count;
                line.text.clone_from(&count.text);
            }
            for (name, (line, count)) in &more.functions {
                file.functions.entry(name.clone()).or_insert((*line, 0)).1 += count;
            }
        }
    }

    /// Adds the execution counts of a program's ops.
    pub(crate) fn count(&mut self, program: &Program, counts: &[u64]) {
        let ends = program.functions.iter().skip(1).map(|next| next.entry as usize).chain([program.ops.len()]);
        for (function, end) in program.functions.iter().zip(ends) {
            let entry = function.entry as usize;
            let (counts, stated) = (&counts[entry..end], &program.stated[entry..end]);
            let mut lines: BTreeMap<(&str, u32), u64> = BTreeMap::new();
            let mut see = |file, line, count: u64| {
                let most = lines.entry((file, line)).or_default();
                *most = count.max(*most);
            };
            let known = |line: &&SourceLine| line.is_known();
            let name = |line: &SourceLine| program.files.names[usize::from(line.file)].as_str();
            for (line, &count) in stated.iter().zip(counts).filter(|(line, _)| line.is_known()) {
                see(name(line), line.line, count);
            }
            let slots = &program.slots[entry..end];
            for call in function.inlined.iter().filter(|call| call.line > 0) {
                let first = slots.partition_point(|&slot| slot < call.first);
                let most = counts[first..].iter().zip(&slots[first..]).take_while(|(_, slot)| **slot < call.end);
                if let Some(most) = most.map(|(&count, _)| count).max() {
                    see(&call.file, call.line, most);
                }
            }
            for ((file, line), count) in lines {
                self.file(file).lines.entry(line).or_default().count += count;
            }
            for line in &function.lines {
                if let Some(known) = self.file(&line.file).lines.get_mut(&line.line) {
                    known.text.clone_from(&line.text);
                }
            }
            let own = &program.own[entry..end];
            if let Some(first) = own.iter().find(known).or_else(|| stated.iter().find(known)) {
                let called = self.file(name(first)).functions.entry(function.name.clone());
                called.or_insert((first.line, 0)).1 += counts[0];
            }
        }
    }

    fn file(&mut self, path: &str) -> &mut FileCoverage {
        if !self.files.contains_key(path) {
            self.files.insert(path.to_owned(), FileCoverage::default());
        }
        self.files.get_mut(path).expect("it is there now")
    }
}
