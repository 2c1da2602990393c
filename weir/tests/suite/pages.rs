// SPDX-License-Identifier: GPL-2.0-only
//! HTML reports written by the program.

use std::path::Path;
use std::process::{Command, Output};

const LOAD: &str = r#"{ "tasks": { "even": { "instance": 3, "loop": 20, "run": 1000, "sleep": 1000 } },
    "global": { "duration": -1 } }"#;

fn workspace() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("load.json"), LOAD).unwrap();
    directory
}

fn weir(directory: &Path, line: &str) -> Output {
    let words = line.split_whitespace();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.current_dir(directory).env("BPF_CFLAGS", "-DDIRECT").args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn all_commands_write_the_same_html_report() {
    let directory = workspace();
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    let line = "sim fifo bfs -m laptop-2c4t -w load.json --seeds 6 --report a.html --save a.weirrun";
    let made = weir(directory.path(), line);
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    assert!(text(&made.stderr).contains("weir: the report is a.html"), "{}", text(&made.stderr));
    assert!(text(&made.stdout).contains("wakeup mean"), "the report is still printed");
    let again = weir(directory.path(), "report a.weirrun -o b.html");
    assert_eq!((again.status.code(), text(&again.stdout)), (Some(0), String::new()));
    assert_eq!(read("a.html"), read("b.html"), "--report equals --save followed by weir report");
    // Without `--output` the page is written next to the file.
    std::fs::remove_file(directory.path().join("a.html")).unwrap();
    assert_eq!(weir(directory.path(), "report a.weirrun").status.code(), Some(0));
    assert_eq!(read("a.html"), read("b.html"));
    // JSON does not contain the command line.
    std::fs::write(directory.path().join("c.json"), weir(directory.path(), &format!("{line} --format json")).stdout)
        .unwrap();
    assert_eq!(weir(directory.path(), "report c.json").status.code(), Some(0));
    assert!(
        !read("c.html").contains("id=\"command\"") && read("c.html").contains("There is no timeline: runs as JSON")
    );
    assert!(
        read("a.html").contains("weir sim fifo bfs --machine laptop-2c4t")
            && read("a.html").contains("timeline-data-1")
    );
    let compared = weir(directory.path(), "compare a.weirrun c.json --report d.html");
    assert_eq!(compared.status.code(), Some(0), "{}", text(&compared.stderr));
    assert!(read("d.html").contains("fifo (a.weirrun)"), "schedulers are labelled with their file");
}

#[test]
fn ejected_run_has_an_html_report_and_exit_status_1() {
    let directory = workspace();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schedulers/mistaken.bpf.c");
    let line = format!("sim {} -m laptop-2c4t -w load.json --report a.html --save a.weirrun", source.display());
    let made = weir(directory.path(), &line);
    assert_eq!(made.status.code(), Some(1), "{}", text(&made.stderr));
    let page = std::fs::read_to_string(directory.path().join("a.html")).unwrap();
    assert!(page.contains("was ejected after") && page.contains("Why the scheduler was ejected"));
    assert!(page.contains("mistaken.bpf.c:"), "it names the line");
    assert_eq!(weir(directory.path(), "report a.weirrun").status.code(), Some(1));
}

#[test]
fn invalid_html_report_requests_are_rejected() {
    let directory = workspace();
    let sim = "sim fifo -m laptop-2c4t -w load.json";
    for (line, words) in [
        (format!("{sim} --report -"), "--report -: expected a file name"),
        (format!("{sim} --report x --save x"), "--save and --report are the same file, x"),
        (format!("{sim} --report none/x.html"), "cannot write none/x.html"),
        ("report none.weirrun".to_owned(), "cannot read none.weirrun"),
        ("report load.json".to_owned(), "load.json: weir: no such key; expected the JSON of weir sim or weir run"),
        (
            "report load.json -o load.json".to_owned(),
            "load.json: an input of this command; expected another output file",
        ),
        (
            "compare load.json --report load.json".to_owned(),
            "load.json: an input of this command; expected another output file",
        ),
        ("run --monitor 1 --report x".to_owned(), "--report"),
    ] {
        let refused = weir(directory.path(), &line);
        assert_eq!(refused.status.code(), Some(2), "{line}");
        assert!(text(&refused.stderr).contains(words), "{line}: {}", text(&refused.stderr));
        assert!(!directory.path().join("x").exists(), "{line}");
    }
}
