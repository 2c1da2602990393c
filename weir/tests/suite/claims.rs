// SPDX-License-Identifier: GPL-2.0-only
//! `weir claims`: verdicts of short claims from end to end, their JSON, and errors of claim files.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Two sides whose difference is known: the same two tasks on one CPU and on two. Effects that would blur it are off.
const CLAIMS: &str = r#"
[[claim]]
id = "two-cpus"
text = "Two CPUs halve the time of two tasks."
seed_text = "half"
source = "A test"
published = "half"
published_ppm = -500000
machine = "desktop-4c"
workload = "./two.json"
options = { without = "frequency" }
a = { scheduler = "fifo", cpus = 1 }
b = { scheduler = "fifo", cpus = 2 }
measure = "makespan_ns"
expect = { sign = -1, low_ppm = -550000, high_ppm = -450000 }
off = { b = { cpus = 1 } }

[[claim]]
id = "by-cpus"
text = "One CPU more makes two tasks faster."
seed_text = "faster"
source = "A test"
machine = "desktop-4c"
workload = "./two.json"
options = { without = "frequency" }
a = { scheduler = "fifo", cpus = 1 }
b = { scheduler = "fifo", cpus = "{}" }
measure = "makespan_ns"
steps = { of = "CPUs", values = [1, 2], signs = [-1, -1] }
draws = 6

[[claim]]
id = "slower"
text = "Two CPUs are slower than one."
seed_text = "slower"
source = "A test"
machine = "desktop-4c"
workload = "./two.json"
a = { scheduler = "fifo", cpus = 1 }
b = { scheduler = "fifo", cpus = 2 }
measure = "makespan_ns"
expect = { sign = 1 }

[[claim]]
id = "lacking"
text = "SMT matters."
seed_text = "SMT"
source = "A test"
machine = "desktop-4c"
workload = "./two.json"
a = "fifo"
b = "bfs"
measure = "makespan_ns"
expect = { sign = -1 }
needs = ["smt"]

[[claim]]
id = "spoken"
text = "It feels better."
seed_text = "better"
source = "A test"
untestable = "a feeling has no measure"
"#;
const TWO: &str = r#"{"tasks": {"a": {"instance": 2, "loop": 1, "run": 200000}}}"#;

fn workspace() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("two.json"), TWO).unwrap();
    fs::write(directory.path().join("c.toml"), CLAIMS).unwrap();
    directory
}

fn weir(directory: &Path, line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).current_dir(directory).args(line.split(' ')).output().unwrap()
}

fn text(directory: &Path, line: &str) -> String {
    let output = weir(directory, line);
    assert_eq!(output.status.code(), Some(0), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn error(directory: &Path, line: &str) -> String {
    let output = weir(directory, line);
    assert_eq!(output.status.code(), Some(2), "{line}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn claims_are_judged_and_their_json_has_the_agreed_keys() {
    let directory = workspace();
    let document: Value =
        serde_json::from_str(&text(directory.path(), "claims --file c.toml --all --format json --commit abc")).unwrap();
    let claims = document["claims"].as_array().unwrap();
    let verdicts: Vec<_> = claims.iter().map(|claim| claim["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["holds", "depends", "refuted", "untestable", "untestable"]);
    let keys =
        ["id", "seed_text", "published", "verdict", "depends_on", "effect_ppm", "interval_ppm", "runs", "command"];
    for claim in claims {
        assert!(keys.iter().all(|key| claim.get(key).is_some()), "{claim:#}");
    }
    let effect = claims[0]["effect_ppm"].as_i64().unwrap();
    assert!((-510_000..-490_000).contains(&effect), "{effect}");
    assert_eq!((&claims[0]["samples"], &claims[0]["agreeing"]), (&Value::from(12), &Value::from(12)));
    assert_eq!(claims[0]["off"]["verdict"], "refuted", "without the second CPU there is no difference");
    assert_eq!(claims[1]["depends_on"], "CPUs: as claimed at 2; not at 1");
    assert_eq!(claims[3]["reason"], "the machine does not model smt, which carries the claim");
    assert_eq!((&claims[4]["runs"], &claims[4]["effect_ppm"]), (&Value::from(0), &Value::Null));
    assert_eq!((&document["commit"], &document["placebos"]["hold"]), (&Value::from("abc"), &Value::from(0)));
}

#[test]
fn commands_of_a_claim_run_both_sides() {
    let directory = workspace();
    let one = text(directory.path(), "claims --file c.toml two-cpus");
    assert!(one.contains("two-cpus: holds\n"), "{one}");
    let lines: Vec<&str> = one.lines().filter_map(|line| line.trim().strip_prefix("weir ")).collect();
    assert_eq!(lines.len(), 2, "a line for each side: {one}");
    let medians: Vec<f64> = lines
        .iter()
        .map(|line| {
            let runs: Value = serde_json::from_str(&text(directory.path(), &format!("{line} --format json"))).unwrap();
            let mut all: Vec<f64> =
                runs["runs"].as_array().unwrap().iter().map(|run| run["makespan_ns"].as_f64().unwrap()).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        })
        .collect();
    assert!((0.49..0.51).contains(&(medians[1] / medians[0])), "{medians:?}");
}

#[test]
fn page_of_claims_is_written_beside_its_target_and_names_the_commit() {
    let directory = workspace();
    text(directory.path(), "claims --file c.toml --all --page page.md --commit abc");
    let page = fs::read_to_string(directory.path().join("page.md")).unwrap();
    assert!(page.contains("commit `abc`") && page.contains("5 claims: 1 holds"), "{page}");
    let pictures = page.split("<summary>In pictures</summary>").nth(1).expect("the page has pictures");
    assert!(pictures.contains("`two-cpus`\n\n```\npublished     ████████████│"), "{page}");
    assert!(pictures.contains("\nat 2          ") && !pictures.contains("`slower`"), "{page}");
    let refused = error(directory.path(), "claims --file c.toml --all --page c.toml");
    assert!(refused.contains("c.toml: an input of this command"), "{refused}");
}

#[test]
fn bad_claim_gives_one_error_with_its_line() {
    let directory = workspace();
    let cases = [
        (
            "measure = \"makespan_ns\"",
            "measure = \"makespan\"",
            "c.toml:2: claim \"two-cpus\": measure \"makespan\": expected",
        ),
        (
            "machine = \"desktop-4c\"",
            "machine = \"desktop-5c\"",
            "c.toml:2: claim \"two-cpus\": desktop-5c: no such machine preset",
        ),
        (
            "scheduler = \"fifo\", cpus = 1",
            "scheduler = \"fif\", cpus = 1",
            "c.toml:2: claim \"two-cpus\": no policy \"fif\"",
        ),
        ("cpus = 2", "cpus = 9", "c.toml:2: claim \"two-cpus\": --cpus 9"),
        ("\"./two.json\"", "\"sanity\"", "c.toml:2: claim \"two-cpus\": sanity: expected one workload"),
        ("[[claim]]", "[[clam]]", "c.toml:2: unknown field `clam`"),
    ];
    for (from, to, expected) in cases {
        fs::write(directory.path().join("c.toml"), CLAIMS.replacen(from, to, 1)).unwrap();
        let error = error(directory.path(), "claims --file c.toml --all");
        let errors: Vec<&str> = error.lines().filter(|line| line.starts_with("weir: error: ")).collect();
        assert!(errors.len() == 1 && errors[0].contains(expected), "{from}: {error}");
    }
}

#[test]
fn shipped_claims_name_existing_schedulers_machines_workloads_and_measures() {
    // In an empty directory: an installed program has no source tree.
    let empty = tempfile::tempdir().unwrap();
    let checked = text(empty.path(), "claims --all --check");
    let count: u32 = checked.split(' ').next().unwrap().parse().unwrap();
    assert!(count >= 40 && checked.contains("every name is known"), "{checked}");
}

#[test]
fn unknown_claim_is_refused_with_the_nearest_name() {
    let error = error(Path::new("."), "claims bfs-0.360-half-lod");
    assert!(error.contains("no claim \"bfs-0.360-half-lod\", did you mean bfs-0.360-half-load?"), "{error}");
    let list = text(Path::new("."), "claims");
    assert!(list.contains("bfs-0.360-half-load\n") && list.contains("weir claims ID judges one"), "{list}");
}

/// A share has no sign: it lies within the limits, or outside of them. Two tasks on two CPUs leave none idle.
#[test]
fn share_outside_of_its_limits_refutes_a_claim() {
    let directory = workspace();
    let claim = |id: &str, low: i64, high: i64| {
        format!(
            "[[claim]]\nid = \"{id}\"\ntext = \"A share.\"\nseed_text = \"share\"\nsource = \"A test\"\n\
             machine = \"core:2 pu:1\"\nworkload = \"./two.json\"\na = \"fifo\"\nmeasure = \"cpu_ns.idle\"\n\
             over = \"cpu_ns.run\"\nexpect = {{ sign = 0, low_ppm = {low}, high_ppm = {high} }}\n"
        )
    };
    let file = claim("little-idle", -1_000_000, -900_000) + &claim("much-idle", -500_000, 0);
    fs::write(directory.path().join("c.toml"), file).unwrap();
    let all = text(directory.path(), "claims --file c.toml --all");
    let verdict = |id: &str| all.lines().find_map(|line| line.strip_prefix(id)).unwrap().trim().to_owned();
    assert_eq!([verdict("little-idle"), verdict("much-idle")], ["holds", "does not hold"], "{all}");
    assert!(all.contains("12 of 12 samples within the claimed range"), "{all}");
}

/// Walking 4 KiB pair by pair cannot be as fast as skipping bytes, whatever the machine and however busy it is.
#[test]
fn searches_are_timed_on_this_machine() {
    let directory = workspace();
    let file = "[[claim]]\nid = \"chunks\"\ntext = \"Chunks are slow.\"\nseed_text = \"horribly\"\nsource = \"A bug\"\n\
                bitmap = \"trandfactor=28,mib=2\"\na = \"#2\"\nb = \"#6\"\nmeasure = \"elapsed_ns\"\n\
                expect = { sign = 1 }\n";
    fs::write(directory.path().join("s.toml"), file).unwrap();
    let document: Value =
        serde_json::from_str(&text(directory.path(), "claims --file s.toml --all --format json")).unwrap();
    let claim = &document["claims"][0];
    assert_eq!((&claim["verdict"], &claim["runs"]), (&Value::from("holds"), &Value::from(36)), "{claim:#}");
    assert_eq!(claim["similar"], serde_json::json!(["bitfit bench"]));
    let cases = [
        ("#6", "#7", "search \"#7\": expected #1, #2, #3, #4, #5, #6, 2009 or #5 without prefetch"),
        ("factor=28", "factor=some", "bitmap \"trandfactor=some,mib=2\": expected trandfactor=N"),
        ("\"elapsed_ns\"", "\"makespan_ns\"", "measure \"makespan_ns\": expected elapsed_ns"),
    ];
    for (from, to, expected) in cases {
        fs::write(directory.path().join("w.toml"), file.replacen(from, to, 1)).unwrap();
        let error = error(directory.path(), "claims --file w.toml --all");
        assert!(error.contains("w.toml:1: claim \"chunks\"") && error.contains(expected), "{error}");
    }
}

#[test]
fn machine_of_a_side_may_have_changed_keys() {
    let directory = workspace();
    let file = "[[claim]]\nid = \"slow-tick\"\ntext = \"A longer tick costs time.\"\nseed_text = \"tick\"\n\
                source = \"A test\"\nworkload = \"./two.json\"\na = { scheduler = \"fifo\", machine = \"desktop-4c\" }\n\
                b = { scheduler = \"fifo\", machine = \"desktop-4c,costs.tick_ns={}\" }\nmeasure = \"makespan_ns\"\n\
                steps = { of = \"tick in ns\", values = [100000, 200000], signs = [1, 1] }\n";
    fs::write(directory.path().join("m.toml"), file).unwrap();
    let one = text(directory.path(), "claims --file m.toml slow-tick");
    assert!(one.contains("slow-tick: holds\n"), "{one}");
    fs::write(directory.path().join("m.toml"), file.replace("tick_ns", "tock_ns")).unwrap();
    let refused = error(directory.path(), "claims --file m.toml slow-tick");
    assert!(refused.contains("desktop-4c,costs.tock_ns=100000: [costs] has an unknown key tock_ns"), "{refused}");
}
