// SPDX-License-Identifier: GPL-2.0-only
//! Notes on standard error about limits of a simulation that a user should know before trusting its results.

use crate::select::{self, Loadable, Scheduler};
use inspect::{implements, never_run, wishes};
use kernel_model::KernelTypes;
use launch_profile::Profile;
use machine_model::{Effect, Machine};
use std::collections::BTreeSet;
use std::sync::Mutex;
use workload::Workload;

/// The notes given so far, if each is to be given once only.
static GIVEN: Mutex<Option<BTreeSet<String>>> = Mutex::new(None);

/// Gives each note once only from now on: a campaign resolves many command lines.
pub fn give_each_once() {
    GIVEN.lock().expect("no thread panics while holding it").get_or_insert_default();
}

fn give(line: String) {
    let mut given = GIVEN.lock().expect("no thread panics while holding it");
    if given.as_mut().is_none_or(|given| given.insert(line.clone())) {
        say!("{line}");
    }
}

macro_rules! note {
    ($($words:tt)*) => { give(format!($($words)*)) };
}

/// For each scheduler, lists members of kernel structs that it reads and that are not modelled, programs of its object
/// that are not run, and hints that it may need a launch profile. `types` are those of the kernel, if they were given.
pub fn tell(schedulers: &[Scheduler], types: Option<&KernelTypes>) {
    for scheduler in schedulers {
        let Some(Loadable { object, profile, .. }) = &scheduler.loadable else { continue };
        let left_out = |name: &str| profile.left_out().any(|left_out| left_out == name);
        let programs: Vec<_> = never_run(object).into_iter().filter(|(name, _)| !left_out(name)).collect();
        if *profile == Profile::default() {
            hint(&scheduler.name, &wishes(object));
        }
        let unmodelled = inspect::unmodelled(object, types);
        if !unmodelled.is_empty() {
            let list = unmodelled.join(", ");
            note!("weir: {}: not modelled, reads 0: {}", scheduler.name, report::escape(&list));
        }
        if !programs.is_empty() {
            let list: Vec<String> = programs.iter().map(|(name, section)| format!("{name} ({section})")).collect();
            note!("weir: {}: weir does not run these programs of the object: {}", scheduler.name, list.join(", "));
        }
    }
}

/// Reports effects named in `--without` that none of the machines models.
pub fn tell_needless(without: &[Effect], machines: &[Machine]) {
    let needless =
        |effect: &&Effect| machines.iter().all(|machine| machine.effects.modelled().all(|has| has != **effect));
    let words: Vec<&str> = without.iter().filter(needless).map(|effect| effect.name()).collect();
    if words.is_empty() {
        return;
    }
    let names: Vec<&str> = machines.iter().map(|machine| machine.name.as_str()).collect();
    note!(
        "weir: --without {}: ignored, as {} {} no such effect (docs/explanation/machine-model.md)",
        words.join(","),
        names.join(" and "),
        if names.len() == 1 { "has" } else { "have" }
    );
}

/// For each recorded workload, points to the list of its uncertainties, which limit the accuracy of every result.
///
/// # Errors
/// If a workload cannot be read.
pub fn tell_recorded(workloads: &[String]) -> anyhow::Result<()> {
    for workload in workloads {
        if select::is_recorded(workload)? {
            let words = report::escape(workload);
            note!("weir: {words} is a recording; weir workload {words} lists what it leaves uncertain");
        }
    }
    Ok(())
}

/// Names schedulers that do not divide CPU time by the unequal weights of a workload's groups, because they do not
/// implement the op that announces them.
pub fn tell_weights<'a>(schedulers: &[Scheduler], workloads: impl Iterator<Item = &'a Workload>) {
    let unequal = |workload: &Workload| {
        let weights: BTreeSet<u32> = workload.all_groups().iter().map(|group| group.weight).collect();
        weights.len() > 1
    };
    if !workloads.into_iter().any(unequal) {
        return;
    }
    let ignores = |scheduler: &&Scheduler| {
        let loadable = scheduler.loadable.as_ref();
        loadable.is_some_and(|loadable| !implements(&loadable.object, "cgroup_set_weight"))
    };
    for scheduler in schedulers.iter().filter(ignores) {
        let name = report::escape(&scheduler.name);
        note!("weir: {name} does not implement cgroup_set_weight: the weights of the groups have no effect");
    }
}

/// Hints that the scheduler's user space may have to initialize something, if there is no launch profile that says
/// so.
fn hint(name: &str, wished: &[String]) {
    const SHOWN: usize = 3;
    if wished.is_empty() {
        return;
    }
    let more = if wished.len() > SHOWN { ", …" } else { "" };
    let wished = wished.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    note!(
        "weir: {name}: no launch profile found, but it may need one: {wished}{more}; weir inspect --profile drafts one"
    );
}
