// SPDX-License-Identifier: GPL-2.0-only
//! Names from files in every command and format: no byte of the output controls a terminal, a spreadsheet or a page.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// What terminals, spreadsheets, pages and readers of text would obey, for the inside of strings.
const HOSTILE: &str = "=cmd\u{1b}[2J\r<script>alert(1)<\u{202e}\u{9b}31m\u{200f}x";
/// A page that has this shows that markup of a name is not escaped.
const MARKUP: &str = "<script>alert";

const POLICY: &str = r#"#include <weir/scx.bpf.h>
LICENSE("GPL");
OP2(void, hostile_enqueue, struct task_struct *, p, u64, flags)
{
	bpf_printk("=printk HOSTILE %d", p->pid);
	dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, flags); /* HOSTILE */
	if (p->pid == 102)
		scx_error("=reason HOSTILE %d", p->pid);
}
SCHEDULER(hostile_ops, .enqueue = (void *)hostile_enqueue, .name = "hostile",);
"#;

fn weir(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.current_dir(directory).args(words).output().unwrap()
}

fn is_harmful(c: char) -> bool {
    let changes_direction =
        matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (c.is_control() && c != '\n' && c != '\t') || changes_direction
}

fn assert_harmless(what: &str, bytes: &[u8]) {
    let text = String::from_utf8(bytes.to_vec()).unwrap_or_else(|error| panic!("{what}: {error}"));
    if let Some(at) = text.find(is_harmful) {
        let from = (0..=at.saturating_sub(60)).rev().find(|from| text.is_char_boundary(*from)).unwrap();
        let end = (at + 40..).find(|end| *end >= text.len() || text.is_char_boundary(*end)).unwrap().min(text.len());
        panic!("{what}: {:?}", &text[from..end]);
    }
}

/// Checks both outputs of a command, and with `--format csv` its cells. Returns standard output.
fn harmless(directory: &Path, line: &str) -> String {
    let output = weir(directory, &line.split(' ').collect::<Vec<_>>());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{line}: {:?}: {errors}", output.status.code());
    assert_harmless(line, &output.stdout);
    assert_harmless(line, &output.stderr);
    let text = String::from_utf8(output.stdout).unwrap();
    if line.contains("csv") {
        let cells = text.lines().flat_map(|line| line.split(',')).map(|cell| cell.trim_matches('"'));
        let formulas: Vec<&str> = cells.filter(|cell| cell.starts_with(['=', '@', '+'])).collect();
        assert!(formulas.is_empty(), "{line}: {formulas:?}");
    }
    text
}

/// A workload whose tasks, groups and locks have hostile names, and a machine with one.
fn workspace() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let name = serde_json::to_string(HOSTILE).unwrap();
    let name = name.trim_matches('"');
    let task = |run: u32| {
        format!(
            r#"{{"taskgroup": "/{name}", "loop": -1, "lock": "{name}", "run": {run}, "unlock": "{name}", "sleep": 300}}"#
        )
    };
    let workload = format!(
        r#"{{"global": {{"duration": 1}}, "taskgroups": {{"/{name}": {{"weight": 200}}}},
            "tasks": {{"{name}": {}, "{name}2": {}, "@b": {}}}}}"#,
        task(900),
        task(700),
        task(500)
    );
    fs::write(here.join("w.json"), workload).unwrap();
    let machine = Command::new(env!("CARGO_BIN_EXE_weir")).args(["machine", "laptop-2c4t"]).output().unwrap().stdout;
    fs::write(here.join("m.toml"), machine).unwrap();
    directory
}

#[test]
fn names_of_tasks_groups_and_locks_are_harmless_in_simulated_and_saved_runs() {
    let directory = workspace();
    let here = directory.path();
    let sim = "sim fifo -m ./m.toml -w ./w.json --for 50ms";
    let text = harmless(here, &format!("{sim} --save a.weirrun --report a.html"));
    assert!(text.contains("=cmd"), "the names are there: {text}");
    harmless(here, "sim kernel -m ./m.toml -w ./w.json --for 50ms --save b.weirrun");
    for rest in ["--all", "--format json", "--format csv", "--coverage", "--check --warn"] {
        harmless(here, &format!("{sim} {rest}"));
    }
    harmless(here, "sim fifo kernel -m ./m.toml -w ./w.json --for 50ms --pairs");
    for line in ["compare a.weirrun b.weirrun", "explain a.weirrun", "explain b.weirrun --chain"] {
        harmless(here, line);
        harmless(here, &format!("{line} --format json"));
    }
    harmless(here, "compare a.weirrun b.weirrun --format csv");
    for what in ["locks", "microstates", "wakeups", "interrupts"] {
        for format in ["text", "json", "csv"] {
            harmless(here, &format!("meter {what} b.weirrun --format {format}"));
        }
    }
    harmless(here, "meter locks b.weirrun --format nix");
    harmless(here, "meter locks b.weirrun --format lockmeter");
    harmless(here, "report b.weirrun -o b.html");
    for page in ["a.html", "b.html"] {
        let bytes = fs::read(here.join(page)).unwrap();
        assert_harmless(page, &bytes);
        assert!(!String::from_utf8(bytes).unwrap().contains(MARKUP), "{page} has markup of a name");
    }
}

#[test]
fn names_of_workloads_and_machines_are_harmless() {
    let directory = workspace();
    let here = directory.path();
    harmless(here, "workload ./w.json");
    harmless(here, "workload ./w.json --format json");
    harmless(here, "machine ./m.toml");
    // A name of a file is a name of a workload or a machine, too.
    let odd = "o\u{1b}[2J\u{202e}d";
    fs::copy(here.join("w.json"), here.join(format!("{odd}.json"))).unwrap();
    fs::copy(here.join("m.toml"), here.join(format!("{odd}.toml"))).unwrap();
    let (machine, workload) = (format!("./{odd}.toml"), format!("./{odd}.json"));
    for format in ["text", "json", "csv"] {
        let words = ["sim", "fifo", "-m", &machine, "-w", &workload, "--for", "20ms", "--format", format];
        let output = weir(here, &words);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert_harmless(format, &output.stdout);
        assert_harmless(format, &output.stderr);
    }
    for words in [["machine", &machine], ["workload", &workload], ["inspect", &machine], ["explain", &workload]] {
        let output = weir(here, &words);
        assert_harmless(words[0], &output.stdout);
        assert_harmless(words[0], &output.stderr);
    }
}

#[test]
fn load_curves_are_harmless() {
    let directory = workspace();
    let here = directory.path();
    let odd = "=o\u{1b}[2J\u{202e}d.toml";
    fs::copy(here.join("m.toml"), here.join(odd)).unwrap();
    for format in ["text", "json", "csv"] {
        let words = ["load", "fifo", "-m", odd, "--rates", "100,200", "--requests", "20", "--format", format];
        let output = weir(here, &[&words[..], &["--report", "l.html"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert_harmless(format, &output.stdout);
        assert_harmless(format, &output.stderr);
        assert!(format != "csv" || !String::from_utf8_lossy(&output.stdout).contains(",=o"), "a formula");
        assert_harmless("l.html", &fs::read(here.join("l.html")).unwrap());
    }
}

#[test]
fn throughput_tables_are_harmless() {
    let directory = workspace();
    let name = "=o\u{1b}[2Jd.csv";
    let table = "n,throughput\n1,64.9\n18,995.9\n36,1652.4\n72,1853.2\n108,1828.9\n144,1775.0\n216,1702.2\n";
    fs::write(directory.path().join(name), table).unwrap();
    for format in ["text", "json", "csv"] {
        let output = weir(directory.path(), &["scale", name, "--format", format, "--report", "s.html"]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert_harmless(format, &output.stdout);
        assert_harmless(format, &output.stderr);
        assert!(format != "csv" || !String::from_utf8_lossy(&output.stdout).contains(",=o"), "a formula");
        assert_harmless("s.html", &fs::read(directory.path().join("s.html")).unwrap());
    }
    let broken = "n,throughput\n1,\u{1b}[2J\n";
    fs::write(directory.path().join("b.csv"), broken).unwrap();
    let output = weir(directory.path(), &["scale", "b.csv"]);
    assert_eq!(output.status.code(), Some(2));
    assert_harmless("the error", &output.stderr);
}

/// The policy prints, fails with a reason, and has a source line that a page and an explanation quote.
#[test]
fn printed_text_reasons_and_source_lines_are_harmless() {
    if bpf_clang::find().is_err() {
        return skip::skip("no clang for BPF");
    }
    let directory = workspace();
    let here = directory.path();
    // Formats with control characters are refused by the kernel (`bpf_bprintf_prepare`); comments are not.
    let in_string = "<script>alert(1)</script>";
    let in_comment = "\u{1b}[2J<script>alert(1)</script>\u{202e}";
    let source = POLICY.replace("/* HOSTILE", &format!("/* {in_comment}")).replace("HOSTILE", in_string);
    fs::write(here.join("h.bpf.c"), source).unwrap();
    let sim = "sim ./h.bpf.c -m ./m.toml -w ./w.json --for 50ms --cpus 1";
    let text = harmless(here, &format!("{sim} --save h.weirrun --report h.html"));
    assert!(text.contains("=reason"), "the scheduler gave its reason: {text}");
    for rest in ["--format json", "--format csv", "--coverage", "--all"] {
        harmless(here, &format!("{sim} {rest}"));
    }
    for line in ["explain h.weirrun", "explain h.weirrun --ejection", "explain h.weirrun --ejection --format json"] {
        harmless(here, line);
    }
    harmless(here, "check ./h.bpf.c --seeds 1 --jobs 1");
    harmless(here, "check ./h.bpf.c --seeds 1 --jobs 1 --format junit");
    harmless(here, "inspect ./h.bpf.c");
    harmless(here, "inspect ./h.bpf.c --format json");
    let page = fs::read(here.join("h.html")).unwrap();
    assert_harmless("h.html", &page);
    assert!(!String::from_utf8(page).unwrap().contains(MARKUP), "the page has markup of the source");
}
