// SPDX-License-Identifier: GPL-2.0-only
//! What a user should know of a scheduler or a machine before believing its runs, said once on standard error.

use crate::select::{self, Loadable, Scheduler};
use inspect::{never_run, wishes};
use launch_profile::Profile;
use machine_model::{Effect, Machine};

/// Tells of each scheduler what will not be as in a kernel.
pub fn tell(schedulers: &[Scheduler]) {
    for scheduler in schedulers {
        let Some(Loadable { object, profile, .. }) = &scheduler.loadable else { continue };
        let left_out = |name: &str| profile.left_out().any(|left_out| left_out == name);
        let programs: Vec<_> = never_run(object).into_iter().filter(|(name, _)| !left_out(name)).collect();
        if *profile == Profile::default() {
            hint(&scheduler.name, &wishes(object));
        }
        if !programs.is_empty() {
            let list: Vec<String> = programs.iter().map(|(name, section)| format!("{name} ({section})")).collect();
            eprintln!("weir: {}: weir does not run these programs of the object: {}", scheduler.name, list.join(", "));
        }
    }
}

/// Tells of effects that are to be left out and that none of the machines has.
pub fn tell_needless(without: &[Effect], machines: &[Machine]) {
    let needless =
        |effect: &&Effect| machines.iter().all(|machine| machine.effects.modelled().all(|has| has != **effect));
    let words: Vec<&str> = without.iter().filter(needless).map(|effect| effect.name()).collect();
    if words.is_empty() {
        return;
    }
    let names: Vec<&str> = machines.iter().map(|machine| machine.name.as_str()).collect();
    eprintln!(
        "weir: --without {}: nothing to leave out, as {} {} no such table; only what a machine's file describes is modelled \
         (docs/explanation/machine-model.md)",
        words.join(","),
        names.join(" and "),
        if names.len() == 1 { "has" } else { "have" }
    );
}

/// Says where it stands what recordings leave open. An answer is not better than that.
///
/// # Errors
/// If a workload cannot be read.
pub fn tell_recorded(workloads: &[String]) -> anyhow::Result<()> {
    for workload in workloads {
        if select::is_recorded(workload)? {
            let words = report::escape(workload);
            eprintln!("weir: {words} is recorded; what that cannot tell: weir workload {words}");
        }
    }
    Ok(())
}

/// Says that user space may have to do something, where nobody said what.
fn hint(name: &str, wished: &[String]) {
    const SHOWN: usize = 3;
    if wished.is_empty() {
        return;
    }
    let more = if wished.len() > SHOWN { ", …" } else { "" };
    let wished = wished.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    eprintln!("weir: {name}: it has no launch profile, and may need one: {wished}{more}; weir inspect begins one");
}
