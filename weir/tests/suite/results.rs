// SPDX-License-Identifier: GPL-2.0-only
//! Machine-readable results: JSON follows its schema, files can be compared, and saved runs contain what was printed.

use measures::catalogue::CATALOGUE;
use saved_run::SavedRun;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

/// Tasks that exit and that a scheduler can delay.
const WORKLOAD: &str = r#"{"tasks": {"a": {"instance": 6, "loop": 15, "run": 900, "sleep": 300}}}"#;

fn workspace() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("load.json"), WORKLOAD).unwrap();
    directory
}

fn weir(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).current_dir(directory).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn sim(directory: &Path, args: &[&str]) -> Output {
    let output = weir(directory, &[&["sim", "-m", "laptop-2c4t", "-w", "load.json"], args].concat());
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
    output
}

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schema/run.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Schema violations of a document, with their locations.
fn complaints(document: &Value) -> Vec<String> {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path)).collect()
}

/// Each sample is another machine, both schedulers run on the same samples, and significance tests count samples, not
/// runs.
#[test]
fn comparisons_count_machine_samples_not_runs() {
    let directory = workspace();
    let args = ["fifo", "bfs", "--draws", "6", "--seeds", "2", "--format", "json"];
    let document: Value = serde_json::from_slice(&sim(directory.path(), &args).stdout).unwrap();
    assert_eq!(complaints(&document), Vec::<String>::new());
    let runs = document["runs"].as_array().unwrap();
    let of = |key: &str| runs.iter().map(|run| run[key].as_u64().unwrap()).collect::<Vec<_>>();
    let once: Vec<u64> = (1..=6).flat_map(|draw| [draw; 2]).collect();
    assert_eq!((of("draw"), of("seed")), ([once.clone(), once].concat(), [1, 2].repeat(12)));
    let mut hashes: Vec<&str> = runs.iter().map(|run| run["log_hash"].as_str().unwrap()).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), runs.len(), "every sample must differ");
    let comparisons = document["comparisons"].as_array().unwrap();
    assert!(!comparisons.is_empty() && comparisons.iter().all(|comparison| comparison["pairs"] == 6));
    let certain =
        ["sim", "fifo", "-m", "rx2600", "--without", "locks,caches,numa,bandwidth", "-w", "load.json", "--draws", "3"];
    let refused = weir(directory.path(), &certain);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("rx2600 has no uncertain parameters"));
}

#[test]
fn json_documents_follow_the_schema() {
    let directory = workspace();
    let here = directory.path();
    let mut documents: Vec<Value> = [
        &["fifo", "--format", "json"][..],
        &["fifo", "bfs", "--seeds", "7", "--format", "json"],
        &["fifo", "-w", "hogs", "--for", "20ms", "--format", "json"],
    ]
    .map(|args| serde_json::from_slice(&sim(here, args).stdout).unwrap())
    .to_vec();
    // A real run needs root and a kernel with BTF; without them only the other documents are checked.
    let real = weir(here, &["run", "--format", "json", "--", "sh", "-c", "exit 3"]);
    if real.status.code() == Some(1) {
        documents.push(serde_json::from_slice(&real.stdout).unwrap());
        assert_eq!(documents[3]["runs"][0]["command_status"], 3);
    }
    for document in &documents {
        assert_eq!(complaints(document), [] as [String; 0]);
    }
    assert!(documents[1]["comparisons"].as_array().unwrap().len() > 20);
    // The schema rejects invalid documents.
    let broken = |change: &dyn Fn(&mut Value)| {
        let mut document = documents[1].clone();
        change(&mut document);
        complaints(&document).len()
    };
    assert_eq!(broken(&|_| ()), 0);
    assert!(broken(&|document| document["weir"] = json!(2)) > 0);
    assert!(broken(&|document| document["runs"][0]["wakeups"] = json!("many")) > 0);
    assert!(broken(&|document| document["runs"][0]["world"] = json!("dream")) > 0);
    assert!(broken(&|document| document["comparisons"][0]["verdict"] = json!("great")) > 0);
    assert!(broken(&|document| drop(document["runs"][0].as_object_mut().unwrap().remove("lock_wait_ns"))) > 0);
}

/// Every measure of the catalogue is in the schema with its meaning, and every run has it.
#[test]
fn schema_contains_every_measure_of_the_catalogue() {
    let schema = schema();
    let run = &schema["$defs"]["run"]["properties"];
    let directory = workspace();
    let document: Value = serde_json::from_slice(&sim(directory.path(), &["bfs", "--format", "json"]).stdout).unwrap();
    for measure in &CATALOGUE {
        let mut parts = measure.key.split('.');
        let first = parts.next().unwrap();
        let described = parts.clone().fold(&run[first], |value, part| &value["properties"][part]);
        assert_eq!(described["description"], measure.meaning, "{}", measure.key);
        let value = measure.key.split('.').try_fold(&document["runs"][0], |value, part| value.get(part));
        assert!(value.is_some(), "{}", measure.key);
    }
    let listed = schema["$defs"]["comparison"]["properties"]["measure"]["enum"].as_array().unwrap();
    assert!(listed.iter().eq(CATALOGUE.iter().map(|measure| measure.key)));
}

#[test]
fn saved_run_contains_the_json_report_and_the_inputs() {
    let directory = workspace();
    let here = directory.path();
    let printed = sim(here, &["bfs", "--seeds", "3", "--format", "json", "--save", "a.weirrun"]).stdout;
    let saved = SavedRun::from_bytes(&std::fs::read(here.join("a.weirrun")).unwrap()).unwrap();
    assert_eq!(saved.part("runs.json").unwrap().unwrap(), printed);
    let setup: Value = serde_json::from_slice(&saved.part("setup.json").unwrap().unwrap()).unwrap();
    let command = "weir sim bfs --machine laptop-2c4t --workload load.json --seeds 3 --kernel 7.2";
    assert_eq!(setup["command_line"], command);
    assert_eq!(saved.part("object/0").unwrap().unwrap(), policies::find("bfs").unwrap().object);
    assert_eq!(setup["files"], json!([{ "path": "load.json", "file": "file/0" }]));
    assert_eq!(saved.part("file/0").unwrap().unwrap(), WORKLOAD.as_bytes());
    // The contents of the file reproduce the same runs.
    std::fs::write(here.join("load.json"), saved.part("file/0").unwrap().unwrap()).unwrap();
    let words: Vec<&str> = command.split(' ').skip(1).chain(["--format", "json"]).collect();
    assert_eq!(weir(here, &words).stdout, printed);
}

#[test]
fn saved_runs_and_json_are_compared() {
    let directory = workspace();
    let here = directory.path();
    sim(here, &["fifo", "--seeds", "8", "--save", "a.weirrun"]);
    std::fs::write(here.join("b.json"), sim(here, &["bfs", "--seeds", "8", "--format", "json"]).stdout).unwrap();
    let both = weir(here, &["compare", "a.weirrun", "b.json", "--format", "json"]);
    assert_eq!(both.status.code(), Some(0), "{}", text(&both.stderr));
    let both: Value = serde_json::from_slice(&both.stdout).unwrap();
    assert_eq!(complaints(&both), [] as [String; 0]);
    // The result equals that of running them together.
    let together: Value =
        serde_json::from_slice(&sim(here, &["fifo", "bfs", "--seeds", "8", "--format", "json"]).stdout).unwrap();
    let plain = |document: &Value| {
        let mut all = document["comparisons"].as_array().unwrap().clone();
        for one in &mut all {
            for side in ["a", "b"] {
                one[side].as_object_mut().unwrap().remove("file");
            }
        }
        all
    };
    assert_eq!(plain(&both), plain(&together));
    let hash = |side: &str| &together["comparisons"][0][side]["object_hash"];
    assert_eq!(hash("a"), &together["runs"][0]["object_hash"]);
    assert!(hash("b").is_string() && hash("a") != hash("b"));
    let table = text(&weir(here, &["compare", "a.weirrun", "b.json"]).stdout);
    assert!(table.contains("seeds 1-8") && table.contains("makespan"), "{table}");
    for line in table.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let csv = text(&weir(here, &["compare", "a.weirrun", "b.json", "--format", "csv"]).stdout);
    assert_eq!(csv.lines().count(), 1 + 16);
}

#[test]
fn compare_rejects_files_without_runs() {
    let directory = workspace();
    let here = directory.path();
    let write = |name: &str, bytes: &[u8]| std::fs::write(here.join(name), bytes).unwrap();
    write("cut.weirrun", b"WEIRRUN\n\x01\0\0\0\x04runs");
    write("other.weirrun", &SavedRun::new().to_bytes());
    write("not.json", b"{\"weir\": 1, ");
    write("stats.json", b"{\"weir\": 1, \"scheduler\": \"bfs\"}");
    for (name, expected) in [
        ("cut.weirrun", "cut.weirrun: byte 12: the file ends within the header of a part"),
        ("other.weirrun", "other.weirrun: a saved run without runs"),
        ("not.json", "not.json: line 1, column 12: not JSON"),
        ("stats.json", "stats.json: runs: expected a list of runs"),
        ("missing.json", "cannot read missing.json"),
        ("/dev/zero", "cannot read /dev/zero: it is"),
    ] {
        let output = weir(here, &["compare", name]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {error}");
        assert!(error.contains(expected) && error.lines().count() == 1, "{name}: {error}");
    }
}

/// Hash of a single run.
fn hash(directory: &Path, args: &[&str]) -> String {
    let output = sim(directory, &[args, &["--format", "json"]].concat());
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    document["runs"][0]["log_hash"].as_str().unwrap().to_owned()
}

#[test]
fn noise_sources_are_switched_off_by_name() {
    let directory = workspace();
    let here = directory.path();
    let all = "starts,work,disturbances,ticks,order,threads,wakeups,kernel,steal";
    let nominal = hash(here, &["fifo"]);
    assert_eq!(hash(here, &["fifo", "--seed", "3", "--noise-off", all]), nominal);
    let noisy = hash(here, &["fifo", "--seed", "3"]);
    let less = hash(here, &["fifo", "--seed", "3", "--noise-off", "threads,order"]);
    assert!(noisy != nominal && less != nominal && less != noisy);
    let wrong = weir(here, &["sim", "fifo", "--noise-off", "thread"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("unknown noise source \"thread\"; expected one of starts, work"));
}

/// Many tasks that contend for the single queue of a machine with many CPUs.
const CROWD: &str = r#"{"tasks": {"t": {"instance": 128, "loop": -1, "run": 5, "sleep": 5}}}"#;

/// `+waiting` is part of the kernel name: titles, JSON and saved runs contain it. It works with several seeds,
/// comparisons, faults and `--without`, but not without locks.
#[test]
fn waiting_kernel_interleaves_operations_at_locks() {
    let directory = workspace();
    let here = directory.path();
    std::fs::write(here.join("crowd.json"), CROWD).unwrap();
    let machine = ["-m", "nix-32", "-w", "./crowd.json", "--for", "5ms"];
    let sim = |args: &[&str]| weir(here, &[&["sim"], args, &machine].concat());
    let run = |args: &[&str]| {
        let output = sim(&[args, &["--format", "json"]].concat());
        let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
        assert_eq!(complaints(&document), Vec::<String>::new());
        document["runs"][0].clone()
    };
    let instant = run(&["bfs", "--save", "instant.weirrun"]);
    let waiting = run(&["bfs", "--save", "waiting.weirrun", "--kernel", "7.2+waiting"]);
    assert_eq!((&instant["form"], &instant["kernel"]), (&"instant".into(), &"7.2".into()));
    assert_eq!((&waiting["form"], &waiting["kernel"]), (&"waiting".into(), &"7.2+waiting".into()));
    assert_ne!(instant["log_hash"], waiting["log_hash"]);
    assert_eq!(instant["doubtful"].as_array().unwrap().len(), 2, "the queue's lock limits throughput");
    assert_eq!(waiting["doubtful"], serde_json::json!([]));
    let p50 = |run: &Value| run["wakeup_latency_ns"]["p50"].as_u64().unwrap();
    assert!(p50(&waiting) > p50(&instant), "{} and {}", p50(&waiting), p50(&instant));

    let title = text(&sim(&["bfs", "--kernel", "7.2+waiting"]).stdout);
    assert!(title.contains("seed 0, kernel 7.2+waiting"), "{title}");
    assert!(text(&sim(&["bfs"]).stdout).contains("--kernel 7.2+waiting includes it"));
    let compared = text(&weir(here, &["compare", "instant.weirrun", "waiting.weirrun"]).stdout);
    assert!(compared.contains("7.2+waiting"), "{compared}");
    let several = sim(&["fifo", "bfs", "--kernel", "7.2+ticket+waiting", "--seeds", "2"]);
    assert!(text(&several.stdout).contains("kernel 7.2+ticket+waiting"));
    let faulty = run(&["bfs", "--kernel", "7.2+waiting", "--faults", "cpu3:offline@1ms", "--without", "smt"]);
    assert_eq!(faulty["outcome"], "completed");
    let refused = sim(&["bfs", "--kernel", "7.2+waiting", "--without", "locks"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("its locks cost nothing"), "{}", text(&refused.stderr));
}

/// `--without` an effect that no machine has gives a note.
#[test]
fn leaving_out_an_unmodelled_effect_gives_a_note() {
    let directory = workspace();
    let here = directory.path();
    let told = |args: &[&str]| {
        let output = weir(here, &[&["sim", "fifo", "-w", "load.json", "--without", "smt,locks"], args].concat());
        assert_eq!(output.status.code(), Some(0));
        text(&output.stderr).lines().filter(|line| line.contains("ignored")).map(str::to_owned).collect()
    };
    let synthetic: Vec<String> = told(&["-m", "core:2 pu:1"]);
    assert_eq!(synthetic.len(), 1);
    assert!(synthetic[0].starts_with("weir: --without smt: ignored, as core:2 pu:1 has no such effect"));
    let nix: Vec<String> = told(&["-m", "nix-32", "-m", "desktop-4c"]);
    assert!(nix[0].starts_with("weir: --without smt: ignored, as nix-32 and desktop-4c have no such effect"));
    assert_eq!(told(&["-m", "laptop-2c4t", "-m", "core:2 pu:2"]), Vec::<String>::new());
}

/// The machine in a saved run, including `host`, reproduces the run without the effects that were left out.
#[test]
fn saved_machine_reproduces_the_run() {
    let directory = workspace();
    let here = directory.path();
    for (machine, left_out) in [("host", &[][..]), ("laptop-2c4t", &["--without", "smt"])] {
        let hash = |machine: &str, more: &[&str]| {
            let args = ["sim", "bfs", "-m", machine, "-w", "load.json", "--seed", "3", "--format", "json"];
            let output = weir(here, &[&args[..], more].concat());
            let document: Value = serde_json::from_slice(&output.stdout).unwrap();
            document["runs"][0]["log_hash"].as_str().unwrap().to_owned()
        };
        let first = hash(machine, &[left_out, &["--save", "m.weirrun"]].concat());
        let saved = SavedRun::from_bytes(&std::fs::read(here.join("m.weirrun")).unwrap()).unwrap();
        let setup: Value = serde_json::from_slice(&saved.part("setup.json").unwrap().unwrap()).unwrap();
        assert_eq!(setup["machines"][0], json!({ "name": machine, "machine": "machine/0" }));
        std::fs::write(here.join("m.toml"), saved.part("machine/0").unwrap().unwrap()).unwrap();
        assert_eq!(hash("./m.toml", &[]), first, "{machine}");
    }
}
