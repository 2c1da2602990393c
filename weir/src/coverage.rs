// SPDX-License-Identifier: GPL-2.0-only
//! Line coverage of policies: the source annotated with execution counts, or an lcov tracefile.

use kernel_model::{Coverage, FileCoverage};
use std::fmt::Write;

/// Maximum size of a source in bytes; larger files are not read.
const LARGEST: u64 = 16 << 20;

/// Shown instead of the count for a line that never ran.
const NEVER: &str = "#####";

/// Annotated listing: every line of the policy's own files, and a summary line for each header.
pub fn to_text(coverage: &Coverage) -> String {
    let (headers, own): (Vec<_>, Vec<_>) = coverage.files.iter().partition(|(path, _)| path.ends_with(".h"));
    let mut text = String::new();
    for (path, file) in own {
        let _ = writeln!(text, "\n{}", summary(path, file));
        for (name, (line, calls)) in &file.functions {
            let calls = if *calls == 0 { "never called".to_owned() } else { report::counted(*calls, "call") };
            let _ = writeln!(text, "  {name} (line {line}): {calls}");
        }
        text.push('\n');
        match source(path, file) {
            Some(source) => annotate(&mut text, file, source.lines().zip(1..)),
            None => {
                text.push_str(
                    "The source is missing or has changed since it was compiled; lines recorded in the object:\n\n",
                );
                annotate(&mut text, file, file.lines.iter().map(|(number, line)| (line.text.as_str(), *number)));
            }
        }
    }
    if !headers.is_empty() {
        text.push('\n');
    }
    for (path, file) in headers {
        let _ = writeln!(text, "{}", summary(path, file));
    }
    text
}

fn ran(file: &FileCoverage) -> usize {
    file.lines.values().filter(|line| line.count > 0).count()
}

fn summary(path: &str, file: &FileCoverage) -> String {
    format!("coverage of {}: {} of {} lines ran", report::escape(path), ran(file), file.lines.len())
}

/// Source text, if the file still exists and contains the lines that were compiled.
fn source(path: &str, file: &FileCoverage) -> Option<String> {
    let metadata = std::fs::metadata(path).ok().filter(|data| data.is_file() && data.len() <= LARGEST)?;
    let bytes = std::fs::read(path).ok().filter(|bytes| bytes.len() as u64 <= metadata.len())?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let same = |(number, line): (&u32, &kernel_model::LineCoverage)| {
        let here = lines.get((*number as usize).wrapping_sub(1));
        here.is_some_and(|here| line.text.is_empty() || here.trim() == line.text.trim())
    };
    file.lines.iter().all(same).then_some(text)
}

fn annotate<'a>(text: &mut String, file: &FileCoverage, lines: impl Iterator<Item = (&'a str, u32)>) {
    for (line, number) in lines {
        let count = file.lines.get(&number).map(|line| line.count);
        let count = match count {
            None => String::new(),
            Some(0) => NEVER.to_owned(),
            Some(count) => report::count(count),
        };
        // Tabs are kept: sources are indented with them, and they cannot harm a terminal.
        let line: Vec<_> = line.split('\t').map(report::escape).collect();
        let _ = writeln!(text, "{}", format!("{count:>13} {number:>5}  {}", line.join("\t")).trim_end());
    }
}

/// Coverage as an lcov tracefile (`man geninfo`, "Tracefile format").
pub fn to_lcov(coverage: &Coverage) -> String {
    let mut text = String::new();
    for (path, file) in &coverage.files {
        let _ = writeln!(text, "TN:\nSF:{path}");
        for (name, (line, _)) in &file.functions {
            let _ = writeln!(text, "FN:{line},{name}");
        }
        for (name, (_, calls)) in &file.functions {
            let _ = writeln!(text, "FNDA:{calls},{name}");
        }
        let called = file.functions.values().filter(|(_, calls)| *calls > 0).count();
        let _ = writeln!(text, "FNF:{}\nFNH:{called}", file.functions.len());
        for (number, line) in &file.lines {
            let _ = writeln!(text, "DA:{number},{}", line.count);
        }
        let _ = writeln!(text, "LF:{}\nLH:{}\nend_of_record", file.lines.len(), ran(file));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel_model::LineCoverage;

    fn example(path: &str) -> Coverage {
        let line = |count, text: &str| LineCoverage { count, text: text.to_owned() };
        let lines = [(2, line(1500, "\tran();")), (4, line(0, "\tnever();"))].into();
        let file = FileCoverage { lines, functions: [("f".to_owned(), (2, 3)), ("g".to_owned(), (4, 0))].into() };
        Coverage { files: [(path.to_owned(), file)].into() }
    }

    #[test]
    fn coverage_is_written_as_an_lcov_tracefile() {
        let expected = "TN:\nSF:a.c\nFN:2,f\nFN:4,g\nFNDA:3,f\nFNDA:0,g\nFNF:2\nFNH:1\nDA:2,1500\nDA:4,0\nLF:2\nLH:1\n\
                        end_of_record\n";
        assert_eq!(to_lcov(&example("a.c")), expected);
        let mut twice = example("a.c");
        twice.add(&example("a.c"));
        assert!(to_lcov(&twice).contains("\nFNDA:6,f\n") && to_lcov(&twice).contains("\nDA:2,3000\nDA:4,0\n"));
    }

    #[test]
    fn source_is_annotated_with_counts_unless_it_has_changed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.c");
        std::fs::write(&path, "int f()\n\tran();\n\n\tnever();\n").unwrap();
        let text = to_text(&example(path.to_str().unwrap()));
        for line in ["1  int f()", "1,500     2  \tran();", "#####     4  \tnever();", "  g (line 4): never called"] {
            assert!(text.lines().any(|found| found.ends_with(line)), "{line}: {text}");
        }
        std::fs::write(&path, "int f()\n\tother();\n\n\tnever();\n").unwrap();
        let text = to_text(&example(path.to_str().unwrap()));
        assert!(text.contains("has changed since it was compiled") && !text.contains("other"), "{text}");
        assert!(text.contains("#####     4  \tnever();"), "{text}");
    }
}
