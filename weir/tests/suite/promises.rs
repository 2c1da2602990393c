// SPDX-License-Identifier: GPL-2.0-only
//! Mutants of policies, each of which breaks one promise: the checker must report that property and no other, and
//! nothing at all for the original policy.
//!
//! `sanity` and `affinity` have no mutants: neither the kernel nor its model lets a scheduler violate them.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One change of one policy.
struct Mutant {
    /// Path of a file below `policies/`, a text in it, and its replacement.
    file: &'static str,
    old: &'static str,
    new: &'static str,
}

/// A simulation, promises in addition to those of the profile, and the property that the mutants break.
struct Trial {
    sim: &'static str,
    workload: &'static str,
    promises: &'static str,
    broken: &'static str,
    mutants: &'static [Mutant],
}

/// A task pinned to CPU 0 beside an unpinned one; a third task occupies CPU 1 now and then.
const BESIDE_A_PINNED_ONE: &str = r#"{"tasks": {
  "free": {"loop": -1, "run": 100000},
  "pinned": {"loop": -1, "cpus": [0], "run": 100000},
  "guest": {"loop": -1, "cpus": [1], "run": 5000, "sleep": 90000}
}}"#;

/// Two periodic tasks that need 95 % of a CPU and tolerate occasional late jobs, and a CPU hog.
const SOUND_AND_FILM: &str = r#"{"tasks": {
  "sound": {"window": [1, 10], "request-us": 10000, "run": 2000, "timer": {"ref": "a", "period": 10000}},
  "film": {"window": [1, 2], "request-us": 40000, "run": 30000, "timer": {"ref": "v", "period": 40000}},
  "hog": {"loop": -1, "run": 1000000}
}}"#;

/// More work than two CPUs can do, at different nice values, with frequent wakeups.
const CROWD: &str = r#"{"tasks": {
  "short": {"instance": 3, "loop": -1, "priority": -5, "run": 700, "sleep": 3000},
  "long": {"instance": 4, "loop": -1, "run": 30000, "sleep": 2000}
}}"#;

const TWO_NICE_VALUES: &str = r#"{"tasks": {
  "a": {"loop": -1, "run": 100000},
  "b": {"loop": -1, "priority": 19, "run": 100000}
}}"#;

/// Two groups of two tasks.
const TWO_JOBS: &str = r#"{"taskgroups": {"/a": {"weight": 300}, "/b": {"weight": 100}}, "tasks": {
  "a": {"instance": 2, "taskgroup": "/a", "loop": -1, "run": 100000},
  "b": {"instance": 2, "taskgroup": "/b", "loop": -1, "run": 100000}
}}"#;

/// The light task gets one quantum in about 8,700.
const ONE_AND_THOUSANDS: &str = r#"{"tasks": {
  "a": {"loop": -1, "priority": -20, "run": 1000000},
  "b": {"loop": -1, "priority": 19, "run": 1000000}
}}"#;

/// A group capped at a third of a CPU, a capped subgroup, and an uncapped task.
const CAPPED: &str = r#"{"taskgroups": {"/a": {"cap_percent": 33, "hard": true}, "/a/x": {"cap_percent": 10, "hard": true}},
  "tasks": {
    "a": {"instance": 2, "taskgroup": "/a", "loop": -1, "run": 100000},
    "x": {"taskgroup": "/a/x", "loop": -1, "run": 100000},
    "guest": {"loop": -1, "run": 3000, "sleep": 500000}
}}"#;

/// 20 and 10 shares.
const TWO_FOR_ONE: &str = r#"{"tasks": {
  "a": {"loop": -1, "run": 100000},
  "b": {"loop": -1, "priority": 10, "run": 100000}
}}"#;

/// All tasks start on CPU 0 and may migrate after 50 ms.
const RELEASED: &str = r#"{"tasks": {
  "hog": {"instance": 3, "loop": 1, "phases": {
    "bound": {"loop": 1, "cpus": [0], "run": 20000}, "free": {"loop": -1, "cpus": [0, 1, 2, 3], "run": 100000}
  }}
}}"#;

const TRIALS: &[Trial] = &[
    Trial {
        sim: "fifo -m core:2_pu:1 --for 1s",
        workload: BESIDE_A_PINNED_ONE,
        promises: "",
        broken: "work-conserving",
        mutants: &[
            Mutant { file: "fifo/fifo.bpf.c", old: "if (cpu >= 0) {", new: "if (false) {" },
            Mutant {
                file: "fifo/fifo.bpf.c",
                old: "dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, SCX_SLICE_DFL, enq_flags | SCX_ENQ_IMMED);",
                new: "dsq_insert(p, SHARED_DSQ, SCX_SLICE_DFL, 0);",
            },
        ],
    },
    Trial {
        sim: "fifo -m core:2_pu:1 --for 1s",
        workload: BESIDE_A_PINNED_ONE,
        promises: "work-conserving = false\nstint-ticks = false",
        broken: "lost-wakeup",
        mutants: &[
            Mutant { file: "fifo/fifo.bpf.c", old: "dsq_insert(p, SHARED_DSQ, SCX_SLICE_DFL, enq_flags);", new: ";" },
            Mutant {
                file: "fifo/fifo.bpf.c",
                old: "dsq_insert(p, SHARED_DSQ, SCX_SLICE_DFL, enq_flags);",
                new: "if (p->nr_cpus_allowed > 1)\n\t\treturn;\n\tdsq_insert(p, SHARED_DSQ, SCX_SLICE_DFL, enq_flags);",
            },
        ],
    },
    Trial {
        sim: "fifo -m core:2_pu:1 --for 1s",
        workload: CROWD,
        promises: "",
        broken: "stint-ticks",
        mutants: &[
            Mutant {
                file: "fifo/fifo.bpf.c",
                old: "dsq_insert(p, SHARED_DSQ, SCX_SLICE_DFL, enq_flags);",
                new: "dsq_insert(p, SHARED_DSQ, SCX_SLICE_INF, enq_flags);",
            },
            Mutant {
                file: "fifo/fifo.bpf.c",
                old: "\tdsq_move_to_local_as(SHARED_DSQ, SCX_ENQ_IMMED);",
                new: "\tif (prev && (prev->scx.flags & SCX_TASK_QUEUED))\n\t\ttask_set_slice(prev, SCX_SLICE_DFL);\n\
                      \telse\n\t\tdsq_move_to_local(SHARED_DSQ);",
            },
        ],
    },
    Trial {
        sim: "bfs -m core:1_pu:1 --for 5s",
        workload: TWO_NICE_VALUES,
        promises: "",
        broken: "starvation-ms",
        mutants: &[
            Mutant {
                file: "include/weir/deadline.bpf.h",
                old: "return level < NICE_LEVELS ? ratios[level] : ratios[20];",
                new: "return level < NICE_LEVELS - 1 ? ratios[level] : 500000;",
            },
            Mutant {
                file: "include/weir/deadline.bpf.h",
                old: "\tt->deadline = now + t->ratio * deadline_unit_ns;",
                new: "\tif (!t->deadline)\n\t\tt->deadline = now + t->ratio * deadline_unit_ns;",
            },
        ],
    },
    Trial {
        sim: "stride -m core:1_pu:1 --for 25s",
        workload: ONE_AND_THOUSANDS,
        promises: "",
        broken: "starvation-ms",
        mutants: &[
            Mutant {
                file: "include/weir/overdue.bpf.h",
                old: "#define OVERDUE_AFTER_NS (10 * 1000000000ULL)",
                new: "#define OVERDUE_AFTER_NS (20 * 1000000000ULL)",
            },
            Mutant { file: "stride/stride.bpf.c", old: "\tif (take_overdue(cpu))\n\t\treturn;\n", new: "" },
        ],
    },
    Trial {
        sim: "cfs -m core:1_pu:1 --for 2s",
        workload: TWO_NICE_VALUES,
        promises: "",
        broken: "weighted-share-percent",
        mutants: &[
            Mutant {
                file: "cfs/weight.bpf.h",
                old: "return level < NICE_LEVELS ? weights[level] : NICE_0_WEIGHT;",
                new: "return NICE_0_WEIGHT;",
            },
            Mutant {
                file: "cfs/weight.bpf.h",
                old: "return ns * NICE_0_WEIGHT / (weight ? weight : 1);",
                new: "return ns + weight;",
            },
        ],
    },
    Trial {
        sim: "entitlement -m core:2_pu:1 --for 20s",
        workload: CAPPED,
        promises: "",
        broken: "caps",
        mutants: &[
            // These mutants treat hard caps as soft, do not count the usage of subgroups, and let usage decay too
            // fast.
            Mutant {
                file: "entitlement/caps.bpf.h",
                old: "return READ_ONCE(above_hard) & job_at(job)->path;",
                new: "return false;",
            },
            Mutant {
                file: "entitlement/caps.bpf.h",
                old: "\t\tjob = job_at(job)->parent;",
                new: "\t\tjob = ROOT_JOB;",
            },
            Mutant {
                file: "entitlement/caps.bpf.h",
                old: "part(c->usage, left)",
                new: "part(c->usage, left - (left >> 9))",
            },
        ],
    },
    Trial {
        sim: "entitlement -m core:1_pu:1 --for 20s",
        workload: TWO_FOR_ONE,
        // These two tasks settle earlier than the profile's settling time for the worst case.
        promises: "weighted-share-settles-ms = 5100",
        broken: "weighted-share-percent",
        mutants: &[
            Mutant {
                file: "entitlement/entitlement.bpf.c",
                old: "return nice < 0 ? 20 + nice * nice : 20 - nice;",
                new: "return nice < 0 ? 20 - nice : 20;",
            },
            Mutant {
                file: "entitlement/entitlement.bpf.c",
                old: "log_of(usage) - t->log_shares;",
                new: "log_of(usage) - t->log_shares / 2;",
            },
        ],
    },
    Trial {
        sim: "cfs -m core:4_pu:1 --for 12s",
        workload: RELEASED,
        promises: "",
        broken: "work-conserving",
        mutants: &[
            Mutant {
                file: "cfs/balance.bpf.h",
                old: "RODATA bool balances_load = true;",
                new: "RODATA bool balances_load = false;",
            },
            Mutant {
                file: "cfs/balance.bpf.h",
                old: "VERIFIED_ONCE u32 balance_domain(s32 cpu, u32 level, u32 state, u64 now)\n{",
                new: "VERIFIED_ONCE u32 balance_domain(s32 cpu, u32 level, u32 state, u64 now)\n{\n\tif (cpu)\n\t\treturn 0;",
            },
        ],
    },
    Trial {
        sim: "bfs -m core:2_pu:1 --for 1s",
        workload: CROWD,
        promises: "key-order = true",
        broken: "key-order",
        mutants: &[
            Mutant {
                file: "include/weir/pick.bpf.h",
                old: "\tu32 taken = false;\n\n\tfor_each_queued(p, dsq_id) {\n\t\tif (!may_take(p, cpu))",
                new: "\tu32 taken = false, seen = scx_bpf_dsq_nr_queued(dsq_id);\n\n\tfor_each_queued(p, dsq_id) {\n\
                      \t\tif (!may_take(p, cpu) || --seen)",
            },
            Mutant {
                file: "include/weir/pick.bpf.h",
                old: "return PICK_BIASED ? take_best(dsq_id, cpu, limit) : take_first(dsq_id, cpu, limit);",
                new: "struct task_struct *p;\n\tu32 skip = scx_bpf_dsq_nr_queued(dsq_id) > 1;\n\n\
                      \tfor_each_queued(p, dsq_id) {\n\t\tif (!skip--)\n\t\t\treturn dsq_move(&p_it, p, SCX_DSQ_LOCAL);\n\
                      \t}\n\treturn false;",
            },
        ],
    },
    Trial {
        sim: "bfs -m core:2_pu:1 --for 1s",
        workload: CROWD,
        promises: "preemption-us = 100",
        broken: "preemption-us",
        mutants: &[
            Mutant { file: "bfs/bfs.bpf.c", old: "\t\tpreempt_latest(p, t);", new: "\t\t;" },
            Mutant { file: "bfs/bfs.bpf.c", old: "if (victim >= 0)", new: "if (victim > 0)" },
        ],
    },
    Trial {
        sim: "gang -m core:2_pu:1 --for 4s",
        workload: TWO_JOBS,
        promises: "",
        broken: "gang-corun-percent",
        mutants: &[
            Mutant {
                file: "gang/gang.bpf.c",
                old: "for_range(cpu, 0, nr_cpus) {",
                new: "for_range(cpu, 1, nr_cpus) {",
            },
            Mutant {
                file: "gang/gang.bpf.c",
                old: "u32 column = place_of[cpu & MAX_CPU_MASK], active = READ_ONCE(active_row);",
                new: "u32 column = place_of[cpu & MAX_CPU_MASK], active = (READ_ONCE(active_row) + cpu) % (nr_rows + 1);",
            },
        ],
    },
    Trial {
        sim: "dwcs -m pu:1 --for 4s",
        workload: SOUND_AND_FILM,
        promises: "",
        broken: "windows",
        mutants: &[
            Mutant {
                file: "dwcs/dwcs.bpf.c",
                old: "dsq_insert_by_key(p, REQUESTS, slice_of(t), key_of(t), enq_flags);",
                new: "dsq_insert(p, REST, turn_ns(), enq_flags);",
            },
            Mutant {
                file: "dwcs/dwcs.bpf.c",
                old: "now > READ_ONCE(rest_at) + rest_ms * 1000000ULL",
                new: "now > READ_ONCE(rest_at)",
            },
        ],
    },
];

/// Copies the policies to a directory laid out like the repository.
fn tree(to: &Path) {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            if from.is_dir() {
                copy(&from, &to);
            } else {
                fs::copy(&from, &to).unwrap();
            }
        }
    }
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../policies"), &to.join("policies"));
}

/// Compiles the policy, mutated if `mutant` is given, and writes its profile with additional promises next to it.
fn object(tree: &Path, policy: &str, mutant: Option<&Mutant>, promises: &str) -> PathBuf {
    let changed = mutant.map(|mutant| {
        let path = tree.join("policies").join(mutant.file);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches(mutant.old).count(), 1, "{}: {}", mutant.file, mutant.old);
        fs::write(&path, text.replace(mutant.old, mutant.new)).unwrap();
        (path, text)
    });
    let object = tree.join(format!("{policy}.bpf.o"));
    let source = tree.join(format!("policies/{policy}/{policy}.bpf.c"));
    bpf_clang::compile_in(tree, &source, &object, &["-Wno-error"]).unwrap_or_else(|error| panic!("{error}"));
    if let Some((path, text)) = changed {
        fs::write(path, text).unwrap();
    }
    let profile = fs::read_to_string(tree.join(format!("policies/{policy}/profile.toml"))).unwrap();
    // Additional promises replace those of the profile.
    let said: Vec<&str> = promises.lines().filter_map(|line| line.split(' ').next()).collect();
    let kept: Vec<&str> = profile.lines().filter(|line| !said.iter().any(|word| line.starts_with(word))).collect();
    let profile = kept.join("\n").replacen("[promises]", &format!("[promises]\n{promises}"), 1);
    fs::write(tree.join(format!("{policy}.toml")), profile).unwrap();
    object
}

fn broken(tree: &Path, sim: &str, object: &Path, looked_for: &str) -> BTreeSet<String> {
    let words: Vec<String> = sim.split(' ').skip(1).map(|word| word.replace('_', " ")).collect();
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["sim", &object.to_string_lossy(), "--check", "--format", "json", "-w", "./workload.json"])
        .args(words)
        .current_dir(tree)
        .output()
        .unwrap();
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let run = &document["runs"][0];
    assert_eq!(run["exit"]["kind"], 0, "{}", run["exit"]);
    let violations = run["violations"].as_array().expect("each run is checked");
    let not_seen = run["not_seen"].as_array().expect("each run is checked").iter();
    let unseen = not_seen.filter(|property| **property == looked_for);
    let unseen = unseen.map(|property| format!("{} is not seen", property.as_str().unwrap()));
    let names = violations.iter().map(|violation| violation["property"].as_str().unwrap().to_owned());
    names.chain(unseen).collect()
}

#[test]
fn policy_mutants_violate_exactly_the_promise_they_break() {
    let folder = tempfile::tempdir().unwrap();
    tree(folder.path());
    for Trial { sim, workload, promises, broken: expected, mutants } in TRIALS {
        fs::write(folder.path().join("workload.json"), workload).unwrap();
        let policy = sim.split(' ').next().unwrap();
        let found = |mutant| {
            let object = object(folder.path(), policy, mutant, promises);
            broken(folder.path(), sim, &object, expected)
        };
        assert_eq!(found(None), BTreeSet::new(), "{sim}: without a mutant");
        assert!(mutants.len() >= 2);
        for mutant in *mutants {
            let expected = BTreeSet::from([(*expected).to_owned()]);
            assert_eq!(found(Some(mutant)), expected, "{sim}: {} => {}", mutant.old, mutant.new);
        }
    }
}
