// SPDX-License-Identifier: GPL-2.0-only
//! Groups and users of a workload in a simulated run: what the scheduler is notified of, and what the report
//! contains.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const GROUPS: &str = r#"{
  "taskgroups": {"/a": {"weight": 300}, "/a/x": {"weight": 50, "cap_percent": 50, "hard": true, "uid": 1001},
                 "/b": {"weight": 700}},
  "tasks": {
    "p": {"taskgroup": "/a/x", "loop": 20, "run": 1000, "sleep": 1000},
    "q": {"taskgroup": "/a", "loop": 20, "run": 1000, "sleep": 1000, "fork": "c"},
    "c": {"instance": 0, "loop": 1, "run": 1000},
    "r": {"taskgroup": "/b", "loop": 20, "run": 1000, "sleep": 1000},
    "s": {"loop": 20, "run": 1000, "sleep": 1000}
  }
}"#;

/// Scheduler that prints all cgroup callbacks.
fn listener() -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/kernel-model/tests/schedulers/groups.bpf.c");
    source.canonicalize().unwrap().display().to_string()
}

fn weir(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(args).current_dir(directory).output().unwrap()
}

fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("g.json"), GROUPS).unwrap();
    directory
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn default_scheduler_refuses_a_workload_whose_group_has_a_cap() {
    let directory = directory();
    let output = weir(directory.path(), &["sim", "kernel", "-m", "pu:2", "-w", "./g.json"]);
    assert_eq!(output.status.code(), Some(2));
    let errors = text(&output.stderr);
    assert!(errors.contains("group /a/x has a cap, which the model of the default scheduler does not"), "{errors}");
}

#[test]
fn scheduler_that_ignores_unequal_weights_is_named() {
    let directory = directory();
    let errors =
        |scheduler: &str| text(&weir(directory.path(), &["sim", scheduler, "-m", "pu:2", "-w", "./g.json"]).stderr);
    let fifo = errors("fifo");
    assert!(fifo.contains("weir: fifo does not implement cgroup_set_weight"), "{fifo}");
    assert!(!errors(&listener()).contains("cgroup_set_weight"), "it implements the op");
}

#[test]
fn reservations_above_the_cpus_are_refused_with_task_and_limit() {
    let directory = directory();
    let tasks = r#"{"tasks": {"d": {"instance": 3, "policy": "SCHED_DEADLINE", "dl-runtime": 10000, "dl-period": 16000,
        "loop": 9, "run": 1000, "sleep": 1000}}}"#;
    fs::write(directory.path().join("d.json"), tasks).unwrap();
    let output = |machine: &str| weir(directory.path(), &["sim", "kernel", "-m", machine, "-w", "./d.json"]);
    let refused = output("core:1 pu:1");
    assert_eq!(refused.status.code(), Some(2));
    let errors = text(&refused.stderr);
    assert!(errors.contains("task d-1: SCHED_DEADLINE with 62.5") && errors.contains("EBUSY"), "{errors}");
    assert_eq!(output("core:3 pu:1").status.code(), Some(0));
}

#[test]
fn scheduler_gets_the_cgroup_callbacks_of_a_kernel() {
    let directory = directory();
    let args = ["sim", &listener(), "-m", "pu:2", "--without", "frequency", "-w", "./g.json", "--format", "json"];
    let output = weir(directory.path(), &args);
    let heard = text(&output.stderr);
    assert!(output.status.success(), "{heard}");
    let at = |word: &str| heard.find(word).unwrap_or_else(|| panic!("{word:?} is not in:\n{heard}"));
    // Parents come first; all groups are below one common cgroup.
    let order = [
        "init , weight 100",
        "init weir, weight 100",
        "init a, weight 300",
        "init x, weight 50, quota 50000",
        "init b, weight 700",
        "p of user 0, session 99",
        "p is born in weir, level 1",
        "p may go from weir to x",
        "p goes from weir to x",
        "q goes from weir to a",
        "c is born in a, level 2",
    ];
    assert!(heard.contains("p ends, of user 1001") && heard.contains("c ends, of user 0"), "{heard}");
    let places: Vec<usize> = order.iter().map(|word| at(word)).collect();
    assert!(places.is_sorted(), "{places:?}\n{heard}");
    assert!(!heard.contains("s goes") && !heard.contains("c goes"), "{heard}");

    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let groups = json["runs"][0]["groups"].as_array().unwrap().clone();
    let told: Vec<_> = groups.iter().map(|group| (&group["path"], &group["weight"], &group["cap_percent"])).collect();
    let expected = [("/a", 300, None), ("/a/x", 50, Some(50)), ("/b", 700, None)];
    let expected = expected.map(|(path, weight, cap)| (Value::from(path), Value::from(weight), Value::from(cap)));
    assert_eq!(told, expected.each_ref().map(|(path, weight, cap)| (path, weight, cap)));
    let ran: Vec<u64> = groups.iter().map(|group| group["cpu_ns"].as_u64().unwrap() / 1_000_000).collect();
    // 20 ms for each task, and 1 ms for each task forked by `q`.
    assert_eq!(ran, [60, 20, 20], "the CPU time of a group counts for its ancestors too");
}

#[test]
fn text_report_has_a_group_table_if_there_are_several_groups() {
    let directory = directory();
    let text_of = |workload: &str| text(&weir(directory.path(), &["sim", "fifo", "-m", "pu:2", "-w", workload]).stdout);
    let shown = text_of("./g.json");
    for row in ["group", "/a ", "/a/x ", "/b "] {
        assert!(shown.lines().any(|line| line.starts_with(row)), "{shown}");
    }
    assert!(!text_of("hogs,group=/a,jobs=1").lines().any(|line| line.starts_with("group")));
    assert!(!text_of("latency").lines().any(|line| line.starts_with("group")));
}

/// Share of each task in total CPU time under the default scheduler, in units of 0.1 %.
fn shares(machine: &str, workload: &str) -> Vec<(String, u64)> {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("g.json"), workload).unwrap();
    let args = ["sim", "kernel", "-m", machine, "-w", "./g.json", "--for", "4s", "--format", "json"];
    let output = weir(directory.path(), &args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let tasks = json["runs"][0]["tasks"].as_array().unwrap();
    let ran = tasks.iter().map(|task| (task["name"].as_str().unwrap().to_owned(), task["cpu_ns"].as_u64().unwrap()));
    let ran: Vec<_> = ran.filter(|(name, _)| name.starts_with("t-")).collect();
    let all: u64 = ran.iter().map(|(_, ns)| ns).sum();
    ran.into_iter().map(|(name, ns)| (name, ns * 1000 / all)).collect()
}

/// Group weights divide a CPU regardless of the number and nice values of the tasks in the groups; weights within a
/// group divide the group's share.
#[test]
fn default_scheduler_divides_a_cpu_by_group_weights() {
    let hog = |name: &str, group: &str| format!(r#""t-{name}": {{"loop": -1, "run": 1000, "taskgroup": "{group}"}}"#);
    let file = |groups: &str, tasks: &[String]| {
        format!(r#"{{"taskgroups": {{{groups}}}, "tasks": {{{}}}}}"#, tasks.join(", "))
    };
    let flat =
        file(r#""/a": {"weight": 100}, "/b": {"weight": 300}"#, &[hog("a", "/a"), hog("b", "/b"), hog("c", "/b")]);
    let nested = file(
        r#""/a": {"weight": 100}, "/a/x": {"weight": 100}, "/a/y": {"weight": 400}, "/b": {"weight": 300}"#,
        &[hog("x", "/a/x"), hog("y", "/a/y"), hog("a", "/a"), hog("b", "/b")],
    );
    let many = (0..20).map(|number| hog(&format!("a{number}"), "/a"));
    let many = file(r#""/a": {"weight": 100}, "/b": {"weight": 1}"#, &many.chain([hog("b", "/b")]).collect::<Vec<_>>());
    let near = |workload: &str, expected: &[(&str, u64)]| {
        let all = shares("pu:1", workload);
        for (name, share) in expected {
            let found =
                all.iter().find(|(task, _)| task == name).unwrap_or_else(|| panic!("{name} is not in {all:?}")).1;
            assert!(found.abs_diff(*share) <= 5, "{name}: expected {share}: {all:?}");
        }
    };
    near(&flat, &[("t-a", 250), ("t-b", 375), ("t-c", 375)]);
    // In /a compete groups of weight 100 and 400, and a task of weight 1024, which equals a group of weight 100.
    near(&nested, &[("t-x", 41), ("t-y", 166), ("t-a", 41), ("t-b", 750)]);
    near(&many, &[("t-a0", 49), ("t-a19", 49), ("t-b", 9)]);
}

/// On two CPUs a group's weight is split in proportion to its tasks' load on each CPU.
#[test]
fn default_scheduler_splits_a_group_weight_over_its_cpus() {
    let workload = r#"{"taskgroups": {"/a": {"weight": 100}, "/b": {"weight": 100}}, "tasks": {
        "t-a": {"loop": -1, "run": 1000, "taskgroup": "/a", "cpus": [0]},
        "t-b": {"loop": -1, "run": 1000, "taskgroup": "/b", "cpus": [0]},
        "t-c": {"loop": -1, "run": 1000, "taskgroup": "/b", "cpus": [1]}}}"#;
    // On CPU 0 `a` has weight 1024 and `b` half of that: two thirds and one third.
    let shares = shares("core:2 pu:1", workload);
    for (task, expected) in shares.iter().zip([333, 166, 500]) {
        assert!(task.1.abs_diff(expected) <= 5, "{shares:?}");
    }
}

#[test]
fn launch_profile_passes_group_data_to_the_scheduler() {
    let directory = directory();
    let source = "#include <weir/scx.bpf.h>\nLICENSE(\"GPL\");\nRODATA u32 groups, weights[8], caps[8], uids[8];\n\
        SLEEPABLE_OP0(s32, told_init)\n{\n\tbpf_printk(\"%d groups, %d %d\", groups, weights[1], caps[1]);\n\
        \tbpf_printk(\"%d %u\", uids[1], uids[2]);\n\treturn 0;\n}\n\
        SCHEDULER(told_ops, .init = (void *)told_init, .name = \"told\");\n";
    let profile = "summary = \"t\"\n[rodata]\ngroups = { workload = \"groups\" }\n\
        weights = { workload = \"group-weights\" }\ncaps = { workload = \"group-caps\" }\n\
        uids = { workload = \"group-uids\" }\n";
    fs::write(directory.path().join("groups.bpf.c"), source).unwrap();
    fs::write(directory.path().join("groups.toml"), profile).unwrap();
    let heard =
        |workload: &str| text(&weir(directory.path(), &["sim", "./groups.bpf.c", "-m", "pu:2", "-w", workload]).stderr);
    let told = heard("./g.json");
    assert!(told.contains("3 groups, 50 50") && told.contains("1001 4294967295"), "{told}");
    assert!(heard("latency").contains("0 groups, 0 0"));
}
