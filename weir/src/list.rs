// SPDX-License-Identifier: GPL-2.0-only
//! `weir list`: lists policies, machines, workloads and measures.

use crate::args::{Kind, List};
use crate::output::print;
use crate::select;
use anyhow::Result;
use launch_profile::Profile;
use machine_model::Machine;
use measures::catalogue::{Better, CATALOGUE};
use std::fmt::Write;

/// Prints the selected sections.
pub fn list(args: &List) -> Result<()> {
    let mut sections = Vec::new();
    let wanted = |kind| args.kind.is_none_or(|only| only == kind);
    if wanted(Kind::Policies) {
        sections.push(section("Policies", policies()?));
    }
    if wanted(Kind::Machines) {
        sections.push(section("Machines", machines()?));
    }
    if wanted(Kind::Devices) {
        sections.push(section("Disks and networks", devices()));
    }
    if wanted(Kind::Workloads) {
        sections.push(section("Workloads", select::describe_workloads()?));
    }
    if wanted(Kind::Measures) {
        sections.push(section("Measures", measures()));
    }
    print(&sections.join("\n"))?;
    Ok(())
}

/// Maximum line width.
const COLUMNS: usize = 80;

/// A heading, then one row per entry with name and description; long descriptions continue on indented lines.
fn section(title: &str, rows: Vec<(String, String)>) -> String {
    let width = rows.iter().map(|row| row.0.chars().count()).max().unwrap_or(0);
    let mut text = format!("{title}\n");
    for (name, what) in rows {
        let mut line = format!("  {name:<width$} ");
        for word in what.split_whitespace() {
            if line.chars().count() + 1 + word.chars().count() > COLUMNS {
                let _ = writeln!(text, "{}", line.trim_end());
                line = " ".repeat(width + 3);
            }
            line.push(' ');
            line.push_str(word);
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Policies, each followed by its presets and tunables.
fn policies() -> Result<Vec<(String, String)>> {
    let mut rows = vec![(select::KERNEL.to_owned(), "the default scheduler: no BPF scheduler is loaded".to_owned())];
    for policy in policies::all() {
        rows.push((policy.name.to_owned(), policy.summary.to_owned()));
        let profile = Profile::from_toml(&format!("{}/profile.toml", policy.name), policy.profile)?;
        rows.extend(
            profile.described_presets().map(|(preset, doc)| (format!("{}@{preset}", policy.name), doc.to_owned())),
        );
        let tunable =
            |(name, tunable): (&str, &launch_profile::Tunable)| (format!("  ,{name}=..."), tunable.doc.clone());
        rows.extend(profile.tunables().map(tunable));
    }
    Ok(rows)
}

/// Machines, each with a summary.
fn machines() -> Result<Vec<(String, String)>> {
    // If the host's topology cannot be read, the other machines are listed nevertheless.
    let host = select::machine("host").map_or_else(|error| format!("{error:#}"), |machine| machine.summary());
    let mut rows = vec![("host".to_owned(), "this machine (the default)".to_owned()), (String::new(), host)];
    for (name, _) in machine_model::presets() {
        let machine = Machine::preset(name)?;
        rows.push(((*name).to_owned(), machine.description.clone()));
        rows.push((String::new(), machine.summary()));
    }
    Ok(rows)
}

/// Presets of disks and networks, each with the first sentence on it in its file.
fn devices() -> Vec<(String, String)> {
    let presets = machine_model::disk_presets().iter().map(|preset| ("disk", preset));
    let networks = machine_model::network_presets().iter().map(|preset| ("network", preset));
    let row = |(option, (name, text)): (&str, &(&str, &str))| {
        let comments = text.lines().skip(1).map_while(|line| line.strip_prefix("# "));
        let text = comments.collect::<Vec<_>>().join(" ");
        let end = [". ", ": "].iter().filter_map(|end| text.find(end)).min().unwrap_or(text.len());
        (format!("--{option} {name}"), text[..end].trim_end_matches('.').to_owned())
    };
    presets.chain(networks).map(row).collect()
}

/// Rows with key, column name, meaning, and whether less or more is better; the unit is part of the key.
fn measures() -> Vec<(String, String)> {
    let row = |measure: &measures::catalogue::Measure| {
        let better = match measure.better {
            Better::Less => "; less is better",
            Better::More => "; more is better",
            Better::Neither => "",
        };
        (measure.key.to_owned(), format!("{}: {}{better}", measure.label, measure.meaning))
    };
    CATALOGUE.iter().map(row).collect()
}
