// SPDX-License-Identifier: GPL-2.0-only
//! Objects that ship with Weir, and some that are made to lack something.

use crate::{Facts, Tunable, never_run, profile, wishes};
use bpf_object::Object;
use expect_test::expect;
use launch_profile::Profile;
use std::path::Path;

/// Compiles a source of another crate's tests, with a macro.
fn compiled(source: &str, define: &str) -> Object {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let include = format!("-I{}", here.join("../../policies/include").display());
    let define = format!("-D{define}");
    let object = bpf_clang::object_of(&here.join("../..").join(source), folder.path(), &[&include, &define]);
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
fn an_object_is_told_in_text() {
    expect![[r#"
        ./launched.bpf.o

        scheduler
          launched (GPL), any kernel with sched_ext (6.12 and later)

        ops
          enqueue dispatch tick init exit

        other programs
          arrive (syscall)
          watch (fentry/schedule): not run by weir

        maps
          settings: Array, 2 x 8 bytes by 4

        what a profile has to say
          [[call]] arrive, if its user space calls it

        weir lacks nothing that it cannot do without
          weir sim ./launched.bpf.o
    "#]]
    .assert_eq(&Facts::of("./launched.bpf.o", true, &launched()).to_text());
}

#[test]
fn policies_lack_nothing_and_run_in_every_kernel() {
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

/// Each constant that the profile of a policy may set is one that the object is said to have.
#[test]
fn tunables_are_what_profiles_set() {
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
fn what_an_object_lacks_is_all_said() {
    let facts = Facts::of("./lacking.bpf.o", true, &lacking());
    let needed = facts.lacks.needed.join("\n");
    for word in ["weir does not model arenas", "bpf_rbtree_first", "scx_bpf_dispatch any more"] {
        assert!(needed.contains(word), "{word}: {needed}");
    }
    let text = facts.to_text();
    assert!(text.contains("what keeps it from running in weir") && !text.contains("weir sim ./lacking"), "{text}");
    assert_eq!(facts.to_json()["lacks"]["needed"].as_array().unwrap().len(), facts.lacks.needed.len());
}

#[test]
fn programs_that_nothing_calls_are_named() {
    let object = launched();
    assert_eq!(never_run(&object), [("watch", "fentry/schedule")]);
    let facts = Facts::of("launched", true, &object);
    let runs = |name: &str| facts.programs.iter().find(|program| program.name == name).unwrap().runs;
    assert!(!runs("watch") && runs("arrive") && runs("launched_tick"));
}

#[test]
fn the_skeleton_of_a_profile_is_one() {
    let object = launched();
    assert_eq!(wishes(&object), ["[[call]] arrive, if its user space calls it"]);
    let text = profile("./launched.bpf.o", &object);
    Profile::from_toml("launched.toml", &text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert!(text.contains("# program = \"arrive\""), "{text}");
    for name in ["fifo", "bfs"] {
        Profile::from_toml(name, &profile(name, &policy(name))).unwrap();
    }
}

/// One's own constants are set on the command line; a policy's profile says which of its are.
#[test]
fn a_command_shows_how_to_set_a_constant() {
    let object = policy("bfs");
    let command = |is_file| Facts::of("x", is_file, &object).to_text().contains("weir sim x,");
    assert!(command(true) && !command(false));
}
