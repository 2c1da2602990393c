// SPDX-License-Identifier: GPL-2.0-only
//! Launch profile: the settings that a scheduler's user space applies before attach, as data. `weir sim` and `weir
//! run` use the same profile. `docs/reference/launch-profile.md` describes the format.
//!
//! [`Profile::from_toml`] reads a profile, [`Profile::select`] chooses a preset and sets tunables, [`Profile::apply`]
//! writes the values into a linked object for a given machine, and [`Profile::steps`] lists what to do after loading:
//! map elements to write and programs to call; [`Profile::promises`] returns the invariants that each run is checked
//! against. Parsing and arithmetic only: no file access, no environment.

mod apply;
mod calls;
mod elements;
mod encode;
mod formula;
mod near;
mod nearness;
mod parse;
mod planned;
mod promises;
mod source;
mod spec;
mod spread;
mod workload;

pub use apply::FLAGS;
pub use calls::ProgramCall;
pub use elements::MapElement;
pub use encode::type_name;
pub use formula::Formula;
pub use planned::PlannedCall;
pub use source::Source;
pub use spec::SchedulerSpec;
pub use workload::{Cap, Group, Lending, Reservation, Window, WorkloadFacts, WorkloadSource};

use ids::{CpuSet, Nanos};
use invariants::Promises;
use machine_model::Machine;
use promises::SomePromises;
use std::collections::BTreeMap;

/// A value for a variable of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constant {
    /// A number; every C integer fits.
    Integer(i128),
    /// A boolean.
    Bool(bool),
    /// First elements of an array.
    Array(Vec<Constant>),
    /// A string for a char array, followed by a NUL.
    Text(String),
    /// Members of a structure by name; the others keep their values.
    Members(Vec<(String, Constant)>),
    /// A CPU mask; the encoding in bytes and in words is the same (little-endian).
    Mask(CpuSet),
    /// A value of the machine.
    Machine(Source),
    /// A value computed from machine values.
    Formula(Box<Formula>),
    /// A value of the workload ([`Profile::for_workload`]); without a workload, 0 or an empty table.
    Workload(WorkloadSource),
}

impl Constant {
    /// Whether the value depends on the machine or the workload.
    fn is_of_machine(&self) -> bool {
        matches!(self, Constant::Machine(_) | Constant::Formula(_) | Constant::Workload(_))
    }

    /// Replaces names of machine values by the values on `machine`. The error is that of a formula without a result
    /// on this machine.
    fn on(&self, machine: &Machine) -> Result<Constant, String> {
        Ok(match self {
            Constant::Machine(source) => source.of(machine),
            Constant::Formula(formula) => formula.on(machine)?,
            Constant::Workload(source) => source.of(&WorkloadFacts::default()),
            Constant::Array(values) => {
                Constant::Array(values.iter().map(|value| value.on(machine)).collect::<Result<_, _>>()?)
            }
            Constant::Members(members) => {
                let value = |(name, value): &(String, Constant)| Ok((name.clone(), value.on(machine)?));
                Constant::Members(members.iter().map(value).collect::<Result<_, String>>()?)
            }
            other => other.clone(),
        })
    }
}

/// Steps to perform on a loaded object, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Map elements to write.
    pub elements: Vec<MapElement>,
    /// Programs to call before the scheduler is attached.
    pub calls: Vec<ProgramCall>,
    /// Programs to call once the scheduler is attached.
    pub calls_attached: Vec<ProgramCall>,
    /// Programs to call while the scheduler runs, ordered by time.
    pub planned: Vec<PlannedStep>,
}

/// A call at a given time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedStep {
    /// Time since the start of the run.
    pub at: Nanos,
    /// The call as the user wrote it, with its time.
    pub name: String,
    /// The call.
    pub call: ProgramCall,
}

/// A value, and its file and line for errors.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    value: Constant,
    place: String,
}

/// Type of a tunable's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunableKind {
    /// `true` or `false`.
    Bool,
    /// A number within the inclusive range; `None`: the range of the variable's type.
    Integer(Option<(i128, i128)>),
}

/// A variable that `key=value` on the command line may set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunable {
    /// Type of its value.
    pub kind: TunableKind,
    /// Description for users: one sentence with units.
    pub doc: String,
    place: String,
}

/// A named set of values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Preset {
    /// Description for users; empty if missing.
    doc: String,
    promises: SomePromises,
    settings: BTreeMap<String, Setting>,
}

/// A parsed `profile.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    summary: String,
    promises: Promises,
    /// Programs that are not loaded, each with its place in the profile.
    left_out: Vec<(String, String)>,
    /// Names of `SCX_OPS_*` flags without that prefix, each with its place in the profile.
    flags: Vec<(String, String)>,
    /// Watchdog timeout, with its place in the profile.
    timeout_ms: Option<(u32, String)>,
    /// Values from the profile, overridden by those of the chosen preset, overridden by those of the command line.
    variables: BTreeMap<String, Setting>,
    /// Numbers of elements of the arrays that user space resizes, by variable.
    sizes: BTreeMap<String, Setting>,
    /// `max_entries` by map.
    capacities: BTreeMap<String, Setting>,
    /// Number of inner maps to create in an array of maps, by map.
    fills: BTreeMap<String, Setting>,
    /// Map elements, in order.
    elements: Vec<elements::ElementSetting>,
    /// Programs to call, in order.
    calls: Vec<calls::CallSetting>,
    /// Calls that the user requests during the run, ordered by time.
    planned: Vec<PlannedCall>,
    presets: BTreeMap<String, Preset>,
    tunables: BTreeMap<String, Tunable>,
}

/// Error in a profile: place, problem, and similar names if a name is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct ProfileError {
    /// File and line, or the command-line argument.
    pub place: String,
    /// What was found and what was expected.
    pub problem: String,
}

impl ProfileError {
    fn new(place: &str, problem: impl Into<String>) -> ProfileError {
        ProfileError { place: place.to_owned(), problem: problem.into() }
    }
}

impl Profile {
    /// Description of the scheduler in one line; empty if missing.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// Programs of the object that are not loaded.
    pub fn left_out(&self) -> impl Iterator<Item = &str> {
        self.left_out.iter().map(|(name, _)| name.as_str())
    }

    /// Invariants that the scheduler promises with the chosen preset.
    pub fn promises(&self) -> Promises {
        self.promises
    }

    /// Names of the presets, in alphabetical order.
    pub fn presets(&self) -> impl Iterator<Item = &str> {
        self.presets.keys().map(String::as_str)
    }

    /// Presets in alphabetical order, each with its description, which is empty if missing.
    pub fn described_presets(&self) -> impl Iterator<Item = (&str, &str)> {
        self.presets.iter().map(|(name, preset)| (name.as_str(), preset.doc.as_str()))
    }

    /// Tunables by name, in alphabetical order.
    pub fn tunables(&self) -> impl Iterator<Item = (&str, &Tunable)> {
        self.tunables.iter().map(|(name, tunable)| (name.as_str(), tunable))
    }

    /// Selects `@preset` and sets `key=value` tunables from the command line. The later of two values for one key
    /// applies. If the profile declares no tunables, any variable of the object may be set.
    pub fn select(&mut self, preset: Option<&str>, tunables: &[(String, String)]) -> Result<(), ProfileError> {
        if let Some(preset) = preset {
            let Some(Preset { settings, promises, .. }) = self.presets.get(preset).cloned() else {
                let problem = near::unknown("preset", preset, self.presets());
                return Err(ProfileError::new(&format!("@{preset}"), problem));
            };
            self.variables.extend(settings);
            promises.put_into(&mut self.promises);
        }
        for (key, text) in tunables {
            let place = format!("{key}={text}");
            if self.tunables.is_empty() {
                let value = read_any(text).map_err(|problem| ProfileError::new(&place, problem))?;
                self.variables.insert(key.clone(), Setting { value, place });
                continue;
            }
            let Some(tunable) = self.tunables.get(key) else {
                let problem = near::unknown("tunable", key, self.tunables.keys().map(String::as_str));
                return Err(ProfileError::new(&place, problem));
            };
            let constant = tunable.kind.read(text).map_err(|problem| ProfileError::new(&place, problem))?;
            self.variables.insert(key.clone(), Setting { value: constant, place });
        }
        Ok(())
    }
}

/// Parses a value from the command line for a variable of unknown type.
fn read_any(text: &str) -> Result<Constant, String> {
    match text {
        "true" => Ok(Constant::Bool(true)),
        "false" => Ok(Constant::Bool(false)),
        _ => {
            TunableKind::Integer(None).read(text).map_err(|_| format!("expected a number, true or false, not `{text}`"))
        }
    }
}

impl TunableKind {
    /// Parses a value from the command line: `true`, `false`, a decimal or a `0x` number.
    fn read(&self, text: &str) -> Result<Constant, String> {
        match self {
            TunableKind::Bool => match text {
                "true" => Ok(Constant::Bool(true)),
                "false" => Ok(Constant::Bool(false)),
                _ => Err(format!("expected true or false, not `{text}`")),
            },
            TunableKind::Integer(_) => {
                let number = match text.strip_prefix("0x") {
                    Some(digits) => i128::from_str_radix(digits, 16),
                    None => text.parse(),
                };
                let number = number.map_err(|_| format!("expected a number, not `{text}`"))?;
                self.check(&Constant::Integer(number))?;
                Ok(Constant::Integer(number))
            }
        }
    }

    /// Checks that a value has this type and is in range.
    fn check(&self, constant: &Constant) -> Result<(), String> {
        match (self, constant) {
            (TunableKind::Bool, Constant::Bool(_)) | (TunableKind::Integer(None), Constant::Integer(_)) => Ok(()),
            (TunableKind::Integer(Some((low, high))), Constant::Integer(number)) => {
                if (low..=high).contains(&number) {
                    Ok(())
                } else {
                    Err(format!("{number} is out of range: expected {low} to {high}"))
                }
            }
            (TunableKind::Bool, _) => Err("expected true or false".to_owned()),
            (TunableKind::Integer(_), _) => Err("expected a number".to_owned()),
        }
    }
}

#[cfg(test)]
mod steps_tests;
#[cfg(test)]
mod tests;
