// SPDX-License-Identifier: GPL-2.0-only
//! The launch profile: what a scheduler's user space would set before attach, as data. `weir sim` and `weir run` use
//! the same one. The format is described in `docs/launch-profile.md`.
//!
//! [`Profile::from_toml`] reads it, [`Profile::select`] chooses a preset and sets tunables, [`Profile::apply`] puts the
//! values into a linked object for a certain machine, and [`Profile::steps`] says what to do with it once it is loaded:
//! which elements of maps to write and which programs to call; [`Profile::promises`] what each run is held to. Parsing and
//! arithmetic only: no files, no environment.

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
mod spread;
mod workload;

pub use apply::FLAGS;
pub use calls::ProgramCall;
pub use elements::MapElement;
pub use encode::type_name;
pub use formula::Formula;
pub use planned::PlannedCall;
pub use source::Source;
pub use workload::{Cap, Group, Lending, Reservation, Told, Window, WorkloadSource};

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
    /// A truth value.
    Bool(bool),
    /// Elements of an array, from its beginning.
    Array(Vec<Constant>),
    /// Characters of an array, followed by a NUL.
    Text(String),
    /// Members of a structure by name; the others stay as they are.
    Members(Vec<(String, Constant)>),
    /// CPUs as bits, in bytes or words alike.
    Mask(CpuSet),
    /// What the machine gives.
    Machine(Source),
    /// What is computed from that.
    Formula(Box<Formula>),
    /// What the workload tells ([`Profile::for_workload`]); without one, nothing.
    Workload(WorkloadSource),
}

impl Constant {
    /// Known only where the machine is, or the workload.
    fn is_of_machine(&self) -> bool {
        matches!(self, Constant::Machine(_) | Constant::Formula(_) | Constant::Workload(_))
    }

    /// With the values of `machine` in place of their names. The error is of a formula that has no result there.
    fn on(&self, machine: &Machine) -> Result<Constant, String> {
        Ok(match self {
            Constant::Machine(source) => source.of(machine),
            Constant::Formula(formula) => formula.on(machine)?,
            Constant::Workload(source) => source.of(&Told::default()),
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

/// What is to be done with a loaded object, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Elements to write.
    pub elements: Vec<MapElement>,
    /// Programs to call before the scheduler is attached.
    pub calls: Vec<ProgramCall>,
    /// Programs to call once it is.
    pub calls_attached: Vec<ProgramCall>,
    /// Programs to call while it runs, by time.
    pub planned: Vec<PlannedStep>,
}

/// A call at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedStep {
    /// When, from the beginning of the run on.
    pub at: Nanos,
    /// As it was asked for, with its time.
    pub name: String,
    /// The call.
    pub call: ProgramCall,
}

/// A value and the place where it was given, for errors.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    value: Constant,
    place: String,
}

/// What kind of value a tunable takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunableKind {
    /// `true` or `false`.
    Bool,
    /// A number, both ends included; all that the variable can hold if `None`.
    Integer(Option<(i128, i128)>),
}

/// A variable that `key=value` on the command line may set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunable {
    /// What it takes.
    pub kind: TunableKind,
    /// What it means, for people: one sentence with units.
    pub doc: String,
    place: String,
}

/// A set of values that is chosen by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Preset {
    /// What it is, for people; empty if nobody says.
    doc: String,
    promises: SomePromises,
    settings: BTreeMap<String, Setting>,
}

/// A parsed `profile.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    summary: String,
    promises: Promises,
    /// Programs that are not loaded, and where they were given.
    left_out: Vec<(String, String)>,
    /// Names of `SCX_OPS_*` flags without that prefix, and where they were given.
    flags: Vec<(String, String)>,
    /// Watchdog timeout and where it was given.
    timeout_ms: Option<(u32, String)>,
    /// The profile's own values, then the chosen preset's, then those of the command line: the later replaces the
    /// earlier.
    variables: BTreeMap<String, Setting>,
    /// Numbers of elements for arrays that user space resizes, by variable.
    sizes: BTreeMap<String, Setting>,
    /// `max_entries` by map.
    capacities: BTreeMap<String, Setting>,
    /// How many inner maps an array of maps gets, by map.
    fills: BTreeMap<String, Setting>,
    /// Elements of maps, in order.
    elements: Vec<elements::ElementSetting>,
    /// Programs that are called, in order.
    calls: Vec<calls::CallSetting>,
    /// Those that the user wants while it runs, by time.
    planned: Vec<PlannedCall>,
    presets: BTreeMap<String, Preset>,
    tunables: BTreeMap<String, Tunable>,
}

/// Why a profile was refused: file, line, what, near misses.
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
    /// One line for people; empty if the profile has none.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// Programs of the object that are not loaded.
    pub fn left_out(&self) -> impl Iterator<Item = &str> {
        self.left_out.iter().map(|(name, _)| name.as_str())
    }

    /// What the scheduler promises, with the chosen preset.
    pub fn promises(&self) -> Promises {
        self.promises
    }

    /// Names of the presets, in alphabetical order.
    pub fn presets(&self) -> impl Iterator<Item = &str> {
        self.presets.keys().map(String::as_str)
    }

    /// The presets in alphabetical order, each with what it is; that is empty where the profile does not say.
    pub fn described_presets(&self) -> impl Iterator<Item = (&str, &str)> {
        self.presets.iter().map(|(name, preset)| (name.as_str(), preset.doc.as_str()))
    }

    /// The tunables by name, in alphabetical order.
    pub fn tunables(&self) -> impl Iterator<Item = (&str, &Tunable)> {
        self.tunables.iter().map(|(name, tunable)| (name.as_str(), tunable))
    }

    /// Selects `@preset` and sets `key=value` tunables from the command line. Of two values for one key the later
    /// counts. A profile that has no tunables leaves it to the object: any variable may be set then.
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

/// A value from the command line for a variable of whatever type.
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
    /// Reads a value from the command line: `true`, `false`, a decimal or a `0x` number.
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

    /// Whether a value is of this kind and in range.
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
