// SPDX-License-Identifier: GPL-2.0-only
//! `weir inspect`: what an object contains, which kernels it needs, what Weir lacks for it, and what a launch profile
//! has to say. Nothing is run.

mod skeleton;

pub use skeleton::wishes;

use crate::args::{Format, Inspect};
use crate::output::print;
use crate::{notes, select};
use anyhow::{Result, bail};
use bpf_object::{MapDef, MemberValue, NeedKind, Object, ProgramKind, Variable};
use ids::Topology;
use kernel_model::{Config, Kernel};
use launch_profile::{FLAGS, type_name};
use serde_json::{Value, json};
use std::fmt::Write;

/// First kernels with a flag or an op that 6.12 does not have (docs/contract.md follows 7.2).
const LATER: [(&str, (u16, u16)); 10] = [
    ("ENQ_MIGRATION_DISABLED", (6, 14)),
    ("ALLOW_QUEUED_WAKEUP", (6, 15)),
    ("BUILTIN_IDLE_PER_NODE", (6, 15)),
    ("cgroup_set_bandwidth", (6, 17)),
    ("cgroup_set_idle", (6, 19)),
    ("ALWAYS_ENQ_IMMED", (7, 1)),
    ("sub_attach", (7, 1)),
    ("sub_detach", (7, 1)),
    ("select_cid", (7, 2)),
    ("TID_TO_TASK", (7, 2)),
];

/// The first kernel with sched_ext.
const FIRST: (u16, u16) = (6, 12);

/// What there is to tell of an object.
struct Facts {
    name: String,
    /// As the scheduler calls itself in the kernel.
    scheduler: String,
    license: String,
    ops: Vec<String>,
    flags: Vec<&'static str>,
    programs: Vec<(String, String, bool)>,
    maps: Vec<MapDef>,
    tunables: Vec<(String, String, String)>,
    /// What needs a kernel later than the first, and which.
    later: Vec<(String, (u16, u16))>,
    lacks: kernel_model::Lacks,
    /// What a profile must or should say.
    profile: Vec<String>,
}

/// Prints what the object is.
pub fn inspect(args: &Inspect) -> Result<bool> {
    let object = select::object(&args.object)?;
    let config = Config { topology: Topology::flat(1), hz: 1000, version: (7, 2), budget: 0, seed: 0 };
    let facts = gather(&args.object, &object, &config);
    let text = match (args.profile, args.format) {
        (true, _) => skeleton::profile(&facts.name, &object),
        (false, Format::Json) => format!("{:#}\n", to_json(&facts)),
        (false, Format::Text) => to_text(&facts),
        (false, Format::Csv) => bail!("--format csv is for measures; inspect has text and json"),
    };
    print(&text)
}

fn gather(name: &str, object: &Object, config: &Config) -> Facts {
    let members = object.struct_ops().iter().flat_map(|table| &table.members);
    let ops: Vec<String> = members
        .clone()
        .filter(|member| matches!(member.value, MemberValue::Function(_)))
        .map(|member| member.name.clone())
        .collect();
    let number = |name: &str| {
        members.clone().find(|member| member.name == name).map_or(0, |member| match member.value {
            MemberValue::Number(number) => number,
            _ => 0,
        })
    };
    let bits = number("flags");
    let flags: Vec<&str> = FLAGS.iter().filter(|(_, bit)| bits & bit != 0).map(|(name, _)| *name).collect();
    let scheduler = members.clone().find_map(|member| match &member.value {
        MemberValue::Bytes(bytes) if member.name == "name" => {
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
        }
        _ => None,
    });
    let mut later: Vec<(String, (u16, u16))> = Vec::new();
    for (name, version) in LATER {
        if flags.contains(&name) || ops.iter().any(|op| op == name) {
            later.push((name.to_owned(), version));
        }
    }
    for need in object.needs(&*Kernel::target(config)).into_iter().filter(|need| !need.weak) {
        if let (NeedKind::Kfunc(_), Some(since)) = (need.kind, Kernel::kfunc_since(&need.name))
            && since > FIRST
        {
            later.push((need.name, since));
        }
    }
    later.sort_by_key(|(_, version)| std::cmp::Reverse(*version));
    let unrun = notes::never_run(object);
    let programs = object.programs().map(|(name, program)| {
        let kind = match &program.kind {
            ProgramKind::StructOps { sleepable: false } => "struct_ops".to_owned(),
            ProgramKind::StructOps { sleepable: true } => "struct_ops.s".to_owned(),
            ProgramKind::Syscall => "syscall".to_owned(),
            ProgramKind::Other(section) => section.clone(),
        };
        (name.to_owned(), kind, !unrun.iter().any(|(other, _)| *other == name))
    });
    Facts {
        name: name.to_owned(),
        scheduler: scheduler.unwrap_or_default(),
        license: object.license().to_owned(),
        programs: programs.collect(),
        maps: object.maps().iter().filter(|map| map.initial.is_none()).cloned().collect(),
        tunables: tunables(object),
        later,
        lacks: Kernel::lacks(config, object),
        profile: skeleton::wishes(object),
        ops,
        flags,
    }
}

/// Constants of the object that user space may set: name, type, value. Not those that every loader fills in, nor those
/// that stand inside of functions, which have a dot in their names.
fn tunables(object: &Object) -> Vec<(String, String, String)> {
    let own =
        |name: &str, variable: &Variable| variable.read_only && !name.starts_with("__SCX_") && !name.contains('.');
    let constants = object.variables().iter().filter(|(name, variable)| own(name, variable));
    constants
        .map(|(name, variable)| {
            let type_name = type_name(object.btf(), variable.type_id);
            (name.clone(), type_name, value(object, variable))
        })
        .collect()
}

/// A number up to 8 bytes, or how many bytes there are and whether all are 0.
fn value(object: &Object, variable: &Variable) -> String {
    let map = &object.maps()[variable.map.0 as usize];
    let (begin, end) = (variable.offset as usize, variable.offset as usize + variable.size as usize);
    let Some(bytes) = map.initial.as_ref().and_then(|bytes| bytes.get(begin..end)) else { return "?".to_owned() };
    match bytes.len() {
        1 | 2 | 4 | 8 => bytes.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte)).to_string(),
        _ if bytes.iter().all(|byte| *byte == 0) => "0".to_owned(),
        length => format!("{length} bytes"),
    }
}

fn version((major, minor): (u16, u16)) -> String {
    format!("{major}.{minor}")
}

/// The first kernel that has everything that the object cannot do without.
fn needed(facts: &Facts) -> (u16, u16) {
    facts.later.iter().map(|(_, version)| *version).max().unwrap_or(FIRST)
}

fn to_json(facts: &Facts) -> Value {
    let programs = facts.programs.iter().map(|(name, kind, runs)| json!({"name": name, "section": kind, "runs": runs}));
    let maps = facts.maps.iter().map(|map| {
        json!({
            "name": map.name, "kind": format!("{:?}", map.kind), "key_bytes": map.key_size,
            "value_bytes": map.value_size, "max_entries": map.max_entries,
        })
    });
    let tunables = facts.tunables.iter().map(|(name, kind, value)| json!({"name": name, "type": kind, "value": value}));
    let later = facts.later.iter().map(|(name, since)| json!({"name": name, "since": version(*since)}));
    json!({
        "weir": 1,
        "object": facts.name,
        "scheduler": facts.scheduler,
        "license": facts.license,
        "ops": facts.ops,
        "flags": facts.flags,
        "programs": programs.collect::<Vec<_>>(),
        "maps": maps.collect::<Vec<_>>(),
        "tunables": tunables.collect::<Vec<_>>(),
        "kernel": {"first": version(needed(facts)), "needs": later.collect::<Vec<_>>()},
        "lacks": {"needed": facts.lacks.needed, "reached": facts.lacks.reached},
        "profile": facts.profile,
    })
}

fn to_text(facts: &Facts) -> String {
    let mut text = format!("{}\n", facts.name);
    let mut line = |name: &str, words: &[String]| {
        if !words.is_empty() {
            let _ = writeln!(text, "\n{name}");
            for word in words {
                let _ = writeln!(text, "  {word}");
            }
        }
    };
    let kernel = match facts.later.first() {
        None => "any kernel with sched_ext (6.12 and later)".to_owned(),
        Some((name, since)) => format!("kernel {} or later, for {name}", version(*since)),
    };
    let plain = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    line("scheduler", &[format!("{} ({}), {kernel}", facts.scheduler, facts.license)]);
    line("ops", &[facts.ops.join(" ")]);
    line("flags", &plain(&facts.flags));
    let other = facts.programs.iter().filter(|(_, kind, _)| !kind.starts_with("struct_ops"));
    let other =
        other.map(|(name, kind, runs)| format!("{name} ({kind}){}", if *runs { "" } else { ": not run by weir" }));
    line("other programs", &other.collect::<Vec<_>>());
    let maps = facts.maps.iter().map(|map| {
        let MapDef { name, kind, key_size, value_size, max_entries, .. } = map;
        format!("{name}: {kind:?}, {max_entries} x {value_size} bytes by {key_size}")
    });
    line("maps", &maps.collect::<Vec<_>>());
    let tunables = facts.tunables.iter().map(|(name, kind, value)| format!("{name} = {value} ({kind})"));
    line("constants that a profile may set", &tunables.collect::<Vec<_>>());
    line("what a profile has to say", &facts.profile);
    line("what keeps it from running in weir", &facts.lacks.needed);
    line("what it lacks where it comes to it", &facts.lacks.reached);
    if facts.lacks.needed.is_empty() {
        let mut commands = vec![format!("weir sim {}", facts.name)];
        // A policy's profile says which of its constants may be set so.
        let mut own = facts.tunables.iter().filter(|_| select::path_of(&facts.name).is_some());
        let settable = |value: &str| value.bytes().all(|byte| byte.is_ascii_digit());
        let plain = |kind: &str| !kind.contains(['[', ' ']) && kind != "bool";
        if let Some((name, _, value)) = own.find(|(_, kind, value)| plain(kind) && settable(value)) {
            commands.push(format!("weir sim {},{name}={value}", facts.name));
        }
        line("weir lacks nothing that it cannot do without", &commands);
    }
    text
}
