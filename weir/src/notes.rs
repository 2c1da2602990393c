// SPDX-License-Identifier: GPL-2.0-only
//! What a user should know of a scheduler before believing its runs, said once on standard error.

use crate::select::Scheduler;
use bpf_object::{Object, ProgramKind};

/// Programs that a kernel would run at events which the model does not have, so that nothing ever calls them here:
/// name and section of each.
pub fn never_run(object: &Object) -> Vec<(&str, &str)> {
    let loaded = object.programs().filter(|(_, program)| program.autoload);
    let other = loaded.filter_map(|(name, program)| match &program.kind {
        ProgramKind::Other(section) => Some((name, section.as_str())),
        ProgramKind::StructOps { .. } | ProgramKind::Syscall => None,
    });
    other.collect()
}

/// Tells of each scheduler what will not be as in a kernel.
pub fn tell(schedulers: &[Scheduler]) {
    for scheduler in schedulers {
        let programs = scheduler.loadable.iter().flat_map(|loadable| never_run(&loadable.object)).collect::<Vec<_>>();
        if !programs.is_empty() {
            let list: Vec<String> = programs.iter().map(|(name, section)| format!("{name} ({section})")).collect();
            eprintln!("weir: {}: weir does not run these programs of the object: {}", scheduler.name, list.join(", "));
        }
    }
}
