// SPDX-License-Identifier: GPL-2.0-only
//! Inspection of shipped objects, and of objects that use unsupported features.

use crate::{Facts, Tunable, never_run, profile, wishes};
use bpf_object::Object;
use expect_test::expect;
use launch_profile::Profile;
use std::path::Path;

/// Compiles a source of another crate's tests, with a macro defined.
fn compiled(source: &str, define: &str) -> Object {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = tempfile::tempdir().unwrap();
    let include = format!("-I{}", here.join("../../policies/include").display());
    let define = format!("-D{define}");
    let object = bpf_clang::object_of(&here.join("../..").join(source), directory.path(), &[&include, &define]);
    Object::parse(&object).unwrap()
}

fn launched() -> Object {
    compiled("weir/tests/schedulers/launched.bpf.c", "NONE")
}

fn lacking() -> Object {
    compiled("crates/kernel-model/tests/schedulers/foreign.bpf.c", "LACKING")
}

fn policy(name: &str) -> Object {
    Object::parse(policies::find(name).unwrap().object).unwrap()
}

#[test]
fn facts_as_text_list_ops_programs_maps_and_profile_needs() {
    expect![[r#"
        ./launched.bpf.o

        scheduler
          launched (GPL), any kernel with sched_ext (6.12 and later)

        ops
          enqueue dispatch tick init exit

        flags
          none in the object; those that its user space sets are [ops] flags of a launch profile

        other programs
          arrive (syscall)
          watch (fentry/schedule): not run by weir

        maps
          settings: Array, 2 x 8 bytes by 4

        what a launch profile must contain
          [[call]] arrive, if its user space calls it

        weir models all required features; to run it
          weir sim ./launched.bpf.o
    "#]]
    .assert_eq(&Facts::of("./launched.bpf.o", true, &launched()).to_text());
}

#[test]
fn shipped_policies_need_no_unmodelled_feature_and_no_later_kernel() {
    for name in ["fifo", "bfs"] {
        let object = policy(name);
        let facts = Facts::of(name, false, &object);
        assert_eq!((facts.first_kernel(), facts.license.as_str()), ((6, 12), "GPL"), "{name}");
        assert!(facts.scheduler.starts_with(name), "{}", facts.scheduler);
        assert!(facts.lacks.needed.is_empty() && facts.lacks.reached.is_empty(), "{:?}", facts.lacks);
        assert!(facts.ops.iter().any(|op| op == "enqueue") && facts.profile.is_empty(), "{facts:?}");
        assert!(facts.programs.len() >= facts.ops.len() && facts.programs.iter().all(|program| program.runs));
        assert!(never_run(&object).is_empty());
    }
}

/// Every constant that the profile of a policy may set is listed as a tunable.
#[test]
fn constants_set_by_a_policys_profile_are_listed_as_tunables() {
    let facts = Facts::of("bfs", false, &policy("bfs"));
    let listed = |name: &str| facts.tunables.iter().any(|tunable| tunable.name == name);
    let text = policies::find("bfs").unwrap().profile;
    let set: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("[tunables.")?.strip_suffix(']')).collect();
    assert!(!set.is_empty() && set.iter().all(|name| listed(name)), "{set:?} in {:?}", facts.tunables);
    let launched = Facts::of("launched", true, &launched()).tunables;
    assert!(
        launched.iter().all(|Tunable { name, .. }| !name.starts_with("__SCX_") && !name.contains('.')),
        "{launched:?}"
    );
}

#[test]
fn unmodelled_features_are_all_listed() {
    let facts = Facts::of("./lacking.bpf.o", true, &lacking());
    let needed = facts.lacks.needed.join("\n");
    for word in ["weir does not model arenas", "bpf_rbtree_first", "scx_bpf_dispatch any more"] {
        assert!(needed.contains(word), "{word}: {needed}");
    }
    let text = facts.to_text();
    assert!(
        text.contains("required features that weir does not model") && !text.contains("weir sim ./lacking"),
        "{text}"
    );
    assert_eq!(facts.to_json()["lacks"]["needed"].as_array().unwrap().len(), facts.lacks.needed.len());
}

#[test]
fn programs_that_never_run_are_listed() {
    let object = launched();
    assert_eq!(never_run(&object), [("watch", "fentry/schedule")]);
    let facts = Facts::of("launched", true, &object);
    let runs = |name: &str| facts.programs.iter().find(|program| program.name == name).unwrap().runs;
    assert!(!runs("watch") && runs("arrive") && runs("launched_tick"));
}

#[test]
fn profile_skeleton_is_a_valid_profile() {
    let object = launched();
    assert_eq!(wishes(&object), ["[[call]] arrive, if its user space calls it"]);
    let text = profile("./launched.bpf.o", &object);
    Profile::from_toml("launched.toml", &text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert!(text.contains("# program = \"arrive\""), "{text}");
    for name in ["fifo", "bfs"] {
        Profile::from_toml(name, &profile(name, &policy(name))).unwrap();
    }
}

/// The command shows how to set a constant of a user's object; for a policy, the profile determines which ones can be
/// set.
#[test]
fn command_to_set_a_constant_is_shown_for_files_only() {
    let object = policy("bfs");
    let command = |is_file| Facts::of("x", is_file, &object).to_text().contains("weir sim x,");
    assert!(command(true) && !command(false));
}
