// SPDX-License-Identifier: GPL-2.0-only
//! CPU time by category, and migrations by distance, shown as bars of their components.

use maud::{Markup, html};
use report::Cpu;

/// A category of CPU time.
pub struct Owner {
    pub name: &'static str,
    pub meaning: &'static str,
    /// Key of its measure.
    pub key: &'static str,
    pub of_cpu: fn(&Cpu) -> u64,
}

/// All categories, from the bottom of a column up.
pub const OWNERS: [Owner; 5] = [
    Owner { name: "run", meaning: "execution of tasks", key: "cpu_ns.run", of_cpu: |cpu| cpu.run_ns },
    Owner {
        name: "scheduler",
        meaning: "scheduler code and context switches",
        key: "cpu_ns.scheduler",
        of_cpu: |cpu| cpu.scheduler_ns,
    },
    Owner { name: "stolen", meaning: "interrupts", key: "cpu_ns.stolen", of_cpu: |cpu| cpu.stolen_ns },
    Owner { name: "idle", meaning: "idle task", key: "cpu_ns.idle", of_cpu: |cpu| cpu.idle_ns },
    Owner { name: "offline", meaning: "CPU offline", key: "cpu_ns.offline", of_cpu: |cpu| cpu.offline_ns },
];

/// Distances of migrations: name, meaning, key of the measure.
pub const DISTANCES: [(&str, &str, &str); 4] = [
    ("SMT", "to another thread of the same core", "migrations.smt"),
    ("LLC", "to another core that shares the last-level cache", "migrations.llc"),
    ("node", "to another last-level cache of the same node", "migrations.node"),
    ("cross-node", "to another node", "migrations.far"),
];

/// A component of a bar: the index of its style, its value, and its text.
pub type Part = (usize, u64, String);

/// A bar of components, where `whole` is its full width. `class` selects the set of styles.
pub fn bar(class: &str, parts: &[Part], whole: u64) -> Markup {
    let width = |value: u64| format!("width:{:.3}%", value as f64 * 100.0 / whole.max(1) as f64);
    let words: Vec<&str> = parts.iter().map(|(.., text)| text.as_str()).collect();
    html! {
        div.bar role="img" tabindex="0" aria-label=(words.join(", ")) data-tip=(words.join("\n")) {
            @for (index, value, _) in parts {
                @if *value > 0 { i class={ (class) (index) } style=(width(*value)) {} }
            }
        }
    }
}

/// Legend of such bars: the components that occur in one of them.
pub fn legend<'a>(
    class: &str,
    entries: impl Iterator<Item = (&'a str, &'a str)>,
    occurs: impl Fn(usize) -> bool,
) -> Markup {
    html! {
        ul.legend {
            @for (index, (name, meaning)) in entries.enumerate().filter(|(index, _)| occurs(*index)) {
                li { i class={ (class) (index) } {} (name) span.quiet { ": " (meaning) } }
            }
        }
    }
}
