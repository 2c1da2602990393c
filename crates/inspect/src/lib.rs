// SPDX-License-Identifier: GPL-2.0-only
//! Inspects an object without running it: its contents, the kernels that it needs, what Weir does not model for it,
//! and the contents that its launch profile needs.
//!
//! [`Facts::of`] collects the facts, [`Facts::to_text`] and [`Facts::to_json`] print them. [`profile`] creates a
//! skeleton of a launch profile.

mod skeleton;
#[cfg(test)]
mod tests;

pub use skeleton::{profile, wishes};

use bpf_object::btf::{Btf, Member, Type};
use bpf_object::{MapDef, MemberValue, NeedKind, Object, ProgramKind, StructOpsMember, Variable};
use ids::Topology;
use kernel_model::{Config, Kernel, KernelTypes};
use launch_profile::{FLAGS, type_name};
use serde_json::{Value, json};
use std::fmt::Write;

/// Programs attached to events that the model does not have, so that they never run: name and section of each.
pub fn never_run(object: &Object) -> Vec<(&str, &str)> {
    let loaded = object.programs().filter(|(_, program)| program.autoload);
    let other = loaded.filter_map(|(name, program)| match &program.kind {
        ProgramKind::Other(section) => Some((name, section.as_str())),
        ProgramKind::StructOps { .. } | ProgramKind::Syscall => None,
    });
    other.collect()
}

/// The kernel that objects are inspected against: one CPU of the modelled version, with these types if they are given.
fn modelled(types: Option<&KernelTypes>) -> Config {
    Config {
        topology: Topology::flat(1),
        hz: 1000,
        version: MODELLED,
        budget: 0,
        seed: 0,
        newidle_ratio: None,
        autogroup: false,
        types: types.cloned(),
    }
}

/// Members of kernel structs that the object reads and the model does not keep: they exist, and read 0.
pub fn unmodelled(object: &Object, types: Option<&KernelTypes>) -> Vec<String> {
    Kernel::unmodelled(&modelled(types), object)
}

/// Whether the scheduler implements this op.
pub fn implements(object: &Object, op: &str) -> bool {
    let mut members = object.struct_ops().iter().flat_map(|table| &table.members);
    members.any(|member| member.name == op && matches!(member.value, MemberValue::Function(_)))
}

/// Flags and ops that 6.12 does not have, with the first kernel that has them. (docs/reference/contract.md describes
/// 7.2.)
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

/// Kernel version that the model follows.
const MODELLED: (u16, u16) = (7, 2);

/// First kernel version with sched_ext.
const FIRST: (u16, u16) = (6, 12);

/// Facts about an object.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Name under which the object was requested.
    pub name: String,
    /// Whether the object is a user's file, not a policy that ships with Weir.
    pub is_file: bool,
    /// Name of the scheduler in the kernel (`ops.name`); empty if it has none.
    pub scheduler: String,
    /// License.
    pub license: String,
    /// Ops that the scheduler implements.
    pub ops: Vec<String>,
    /// Names of the flags in `ops.flags`.
    pub flags: Vec<&'static str>,
    /// Programs, in the order of the object.
    pub programs: Vec<Program>,
    /// Maps other than data sections.
    pub maps: Vec<MapDef>,
    /// Constants that user space may set.
    pub tunables: Vec<Tunable>,
    /// Features that need a kernel later than 6.12, with its version (major, minor); the latest first.
    pub later: Vec<(String, (u16, u16))>,
    /// Features that the model does not have.
    pub lacks: kernel_model::Lacks,
    /// What every kernel's verifier refuses.
    pub refused: Vec<String>,
    /// Members of kernel structs that it reads and that are not modelled.
    pub unmodelled: Vec<String>,
    /// Contents that the launch profile must or should have, one sentence each.
    pub profile: Vec<String>,
}

/// A program of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Name of its function.
    pub name: String,
    /// Section: `struct_ops`, `struct_ops.s`, `syscall`, `fentry/…`.
    pub section: String,
    /// Whether the program ever runs in the model.
    pub runs: bool,
}

/// A constant of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunable {
    /// Name.
    pub name: String,
    /// Type, in C notation.
    pub kind: String,
    /// Value in the object, as text.
    pub value: String,
}

/// Constants of the object that user space may set. Excluded are those that every loader sets, and those inside
/// functions, whose names contain a dot.
fn tunables(object: &Object) -> Vec<Tunable> {
    let own =
        |name: &str, variable: &Variable| variable.read_only && !name.starts_with("__SCX_") && !name.contains('.');
    let constants = object.variables().iter().filter(|(name, variable)| own(name, variable));
    constants
        .map(|(name, variable)| Tunable {
            name: name.clone(),
            kind: type_name(object.btf(), variable.type_id),
            value: value(object, variable),
        })
        .collect()
}

/// Value of a variable as text: a number, `true` or `false`, a list, members by name; `?` if it has another type.
fn value(object: &Object, variable: &Variable) -> String {
    let map = &object.maps()[variable.map.0 as usize];
    let (begin, end) = (variable.offset as usize, variable.offset as usize + variable.size as usize);
    let Some(bytes) = map.initial.as_ref().and_then(|bytes| bytes.get(begin..end)) else { return "?".to_owned() };
    constant(object.btf(), variable.type_id, bytes).unwrap_or_else(|| "?".to_owned())
}

/// Elements of an array that are printed one by one; longer arrays of zeros are `[]`, which sets nothing.
const LISTED: usize = 64;

/// Bytes of a type as a value of a launch profile.
fn constant(btf: &Btf, type_id: u32, bytes: &[u8]) -> Option<String> {
    let number = || {
        let word = bytes.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        let unused = 64 - 8 * bytes.len().clamp(1, 8) as u32;
        (word, (word << unused) as i64 >> unused)
    };
    match btf.resolved(type_id) {
        Type::Int { encoding, .. } if encoding.bool => Some((number().0 != 0).to_string()),
        ty @ (Type::Int { .. } | Type::Enum { .. }) if bytes.len() <= 8 => {
            Some(if ty.is_signed() { number().1.to_string() } else { number().0.to_string() })
        }
        Type::Array { element, .. } => {
            let size = usize::try_from(btf.size_of(*element)?).ok().filter(|size| *size > 0)?;
            let text = |ty: &Type| matches!(ty, Type::Int { encoding, name, .. } if encoding.char || name == "char");
            if text(btf.resolved(*element)) {
                let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                return Some(format!("{:?}", String::from_utf8_lossy(&bytes[..end])));
            }
            // Elements that are not listed stay as they are, so trailing zeros need not be listed.
            let used =
                bytes.chunks(size).rposition(|element| element.iter().any(|byte| *byte != 0)).map_or(0, |at| at + 1);
            if used > LISTED {
                return None;
            }
            let values: Option<Vec<String>> =
                bytes.chunks(size).take(used).map(|bytes| constant(btf, *element, bytes)).collect();
            Some(format!("[{}]", values?.join(", ")))
        }
        Type::Struct { members, .. } => {
            let value = |member: &Member| {
                let (start, size) = (member.bit_offset as usize / 8, btf.size_of(member.type_id)? as usize);
                let bytes = bytes.get(start..start + size).filter(|_| member.bit_size == 0)?;
                Some(format!("{} = {}", member.name, constant(btf, member.type_id, bytes)?))
            };
            let values: Option<Vec<String>> = members.iter().map(value).collect();
            Some(format!("{{ {} }}", values?.join(", ")))
        }
        _ => None,
    }
}

fn version((major, minor): (u16, u16)) -> String {
    format!("{major}.{minor}")
}

impl Facts {
    /// Collects the facts about an object that was requested by this name, which is a policy or a file.
    pub fn of(name: &str, is_file: bool, object: &Object) -> Facts {
        let members = object.struct_ops().iter().flat_map(|table| &table.members);
        let is_function = |member: &&StructOpsMember| matches!(member.value, MemberValue::Function(_));
        let ops: Vec<String> = members.clone().filter(is_function).map(|member| member.name.clone()).collect();
        let value = |name: &str| members.clone().find(|member| member.name == name).map(|member| &member.value);
        let bits = if let Some(MemberValue::Number(bits)) = value("flags") { *bits } else { 0 };
        let flags: Vec<&str> = FLAGS.iter().filter(|(_, bit)| bits & bit != 0).map(|(name, _)| *name).collect();
        let scheduler = match value("name") {
            Some(MemberValue::Bytes(bytes)) => {
                let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                String::from_utf8_lossy(&bytes[..end]).into_owned()
            }
            _ => String::new(),
        };
        let config = modelled(None);
        let tables = if is_file { skeleton::tables(object) } else { Vec::new() };
        Facts {
            name: name.to_owned(),
            is_file,
            scheduler,
            license: object.license().to_owned(),
            programs: programs(object),
            maps: object.maps().iter().filter(|map| map.initial.is_none()).cloned().collect(),
            tunables: tunables(object),
            later: later(object, &config, &ops, &flags),
            lacks: Kernel::lacks(&config, object),
            refused: Kernel::refused(&config, object),
            unmodelled: Kernel::unmodelled(&config, object),
            profile: wishes(object).into_iter().chain(tables).collect(),
            ops,
            flags,
        }
    }

    /// First kernel (major, minor) that has everything that the object requires.
    pub fn first_kernel(&self) -> (u16, u16) {
        self.later.iter().map(|(_, version)| *version).max().unwrap_or(FIRST)
    }

    /// The facts as JSON.
    pub fn to_json(&self) -> Value {
        let programs = self.programs.iter();
        let programs = programs.map(|one| json!({"name": one.name, "section": one.section, "runs": one.runs}));
        let maps = self.maps.iter().map(|map| {
            json!({
                "name": map.name, "kind": format!("{:?}", map.kind), "key_bytes": map.key_size,
                "value_bytes": map.value_size, "max_entries": map.max_entries,
            })
        });
        let tunables = self.tunables.iter();
        let tunables = tunables.map(|one| json!({"name": one.name, "type": one.kind, "value": one.value}));
        let later = self.later.iter().map(|(name, since)| json!({"name": name, "since": version(*since)}));
        json!({
            "weir": 1,
            "object": self.name,
            "scheduler": self.scheduler,
            "license": self.license,
            "ops": self.ops,
            "flags": self.flags,
            "programs": programs.collect::<Vec<_>>(),
            "maps": maps.collect::<Vec<_>>(),
            "tunables": tunables.collect::<Vec<_>>(),
            "kernel": {"first": version(self.first_kernel()), "needs": later.collect::<Vec<_>>()},
            "lacks": {
                "needed": self.lacks.needed, "ops": self.lacks.ops, "refused": self.refused,
                "reached": self.lacks.reached, "members": self.unmodelled,
            },
            "profile": self.profile,
        })
    }

    /// The facts as text.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}\n", self.name);
        let mut line = |name: &str, words: &[String]| {
            if !words.is_empty() {
                let _ = writeln!(text, "\n{name}");
                for word in words {
                    let _ = writeln!(text, "  {word}");
                }
            }
        };
        let kernel = match self.later.first() {
            None => "any kernel with sched_ext (6.12 and later)".to_owned(),
            Some((name, since)) => format!("kernel {} or later, for {name}", version(*since)),
        };
        let plain = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        line("scheduler", &[format!("{} ({}), {kernel}", self.scheduler, self.license)]);
        line("ops", &[self.ops.join(" ")]);
        let flags = match &self.flags[..] {
            [] => plain(&["none in the object; those that its user space sets are [ops] flags of a launch profile"]),
            flags => plain(flags),
        };
        line("flags", &flags);
        let other = self.programs.iter().filter(|program| !program.section.starts_with("struct_ops"));
        let other = other.map(|Program { name, section, runs }| {
            format!("{name} ({section}){}", if *runs { "" } else { ": not run by weir" })
        });
        line("other programs", &other.collect::<Vec<_>>());
        let maps = self.maps.iter().map(|map| {
            let MapDef { name, kind, key_size, value_size, max_entries, .. } = map;
            format!("{name}: {kind:?}, {max_entries} x {value_size} bytes by {key_size}")
        });
        line("maps", &maps.collect::<Vec<_>>());
        let tunables = self.tunables.iter().map(|one| format!("{} = {} ({})", one.name, one.value, one.kind));
        line("constants that a profile may set", &tunables.collect::<Vec<_>>());
        line("what a launch profile must contain", &self.profile);
        line("what every kernel refuses", &self.refused);
        line("required features that weir does not model", &self.lacks.needed);
        line("operations that weir does not call; a profile can remove them", &self.lacks.ops);
        line("optional features that weir does not model", &self.lacks.reached);
        line("members of kernel structs that are not modelled and read 0", &self.unmodelled);
        if self.lacks.needed.is_empty() && self.lacks.ops.is_empty() && self.refused.is_empty() {
            let mut commands = vec![format!("weir sim {}", self.name)];
            // For a policy, the profile determines which constants can be set on the command line.
            let mut own = self.tunables.iter().filter(|_| self.is_file);
            let settable = |value: &str| value.bytes().all(|byte| byte.is_ascii_digit());
            let plain = |kind: &str| !kind.contains(['[', ' ']) && kind != "bool";
            if let Some(one) = own.find(|one| plain(&one.kind) && settable(&one.value)) {
                commands.push(format!("weir sim {},{}={}", self.name, one.name, one.value));
            }
            line("weir models all required features; to run it", &commands);
        }
        text
    }
}

fn programs(object: &Object) -> Vec<Program> {
    let unrun = never_run(object);
    let program = |(name, program): (&str, &bpf_object::Program)| Program {
        name: name.to_owned(),
        section: match &program.kind {
            ProgramKind::StructOps { sleepable: false } => "struct_ops".to_owned(),
            ProgramKind::StructOps { sleepable: true } => "struct_ops.s".to_owned(),
            ProgramKind::Syscall => "syscall".to_owned(),
            ProgramKind::Other(section) => section.clone(),
        },
        runs: !unrun.iter().any(|(other, _)| *other == name),
    };
    object.programs().map(program).collect()
}

/// Features of the object that need a kernel later than the first one with sched_ext.
fn later(object: &Object, config: &Config, ops: &[String], flags: &[&str]) -> Vec<(String, (u16, u16))> {
    let named = LATER.iter().filter(|(name, _)| flags.contains(name) || ops.iter().any(|op| op == name));
    let mut later: Vec<(String, (u16, u16))> = named.map(|&(name, version)| (name.to_owned(), version)).collect();
    for need in object.needs(&*Kernel::target(config)).into_iter().filter(|need| !need.weak) {
        if let (NeedKind::Kfunc(_), Some(since)) = (need.kind, Kernel::kfunc_since(&need.name))
            && since > FIRST
        {
            later.push((need.name, since));
        }
    }
    later.sort_by_key(|(_, version)| std::cmp::Reverse(*version));
    later
}
